"""Results whose sizes depend on values: true elements, distinct values, what is made of them, in every way to run."""

import gc
import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
from agreement import assert_same, check, leaves, numpy_result
from plain_program import run_plain

import aotarray
from aotarray.errors import ConcretizationError, TraceError
from aotarray.interpret import interpret
from aotarray.passes import simplify
from aotarray.verify import verify

RNG = np.random.default_rng(5)
DTYPES = ["?", "i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]


def values(shape, dtype="f8"):
    """Small whole numbers, about a third of them zero."""
    return (RNG.integers(-3, 4, shape) * (RNG.random(shape) < 0.7)).astype(dtype)


def everywhere(function, *arguments, exact=True):
    """NumPy, the interpreter, the source as plain Python and machine code agree."""
    expected = leaves(numpy_result(function, arguments))
    lowered = aotarray.lower(function, *arguments)
    verify(lowered.traced.graph)
    graph = verify(simplify(lowered.traced.graph), simplified=True)
    every = [interpret(graph, arguments), run_plain(lowered.plan, arguments, lambda n, grain: [n // 2])]
    compiled = aotarray.jit(function)
    every.append(leaves(compiled(*arguments)))
    for found in every:
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other, exact)
    return compiled


ONE_ARRAY = {
    "mask": lambda x: x[x > 0],
    "computed": lambda x: np.abs(x)[x * x > 1] + 1,
    "nonzero": lambda x: np.nonzero(x),
    "method": lambda x: x.nonzero(),
    "where": lambda x: np.where(x != 1),
    "flatnonzero": lambda x: np.flatnonzero(x),
    "argwhere": lambda x: np.argwhere(x),
    "extract": lambda x: np.extract(x > 0, x),
    "count": lambda x: (len(x[x > 0]), x[x > 0].size, x[x > 0].shape[0] * 2 + 1),
    "twice": lambda x: x[x > 0][1:][::-1],
    "mask of a mask": lambda x: x[x > 0][x[x > 0] > 1],
    "indices": lambda x: x[np.nonzero(x)],
    "unique": lambda x: np.unique(x),
    "unique of a mask": lambda x: np.unique(x[x > 0]),
    "all of unique": lambda x: np.unique(x, return_index=True, return_inverse=True, return_counts=True),
    "sorted": lambda x: np.sort(x[x != 0]),
    "running": lambda x: np.cumsum(x[x > 0], dtype=x.dtype),
    "joined": lambda x: np.concatenate([x[x > 0], x.ravel(), x[x < 1]]),
    "summed": lambda x: (x[x > 0].sum(), np.sum(x[x > 0][::2]), x[x > 1].any(), np.count_nonzero(x[x > 0])),
    "padded": lambda x: np.zeros(len(x[x > 0]), x.dtype) + x[x > 0],
    "spread": lambda x: x[x > 0][:, None] - x[x != 1],
    "two sizes": lambda x: (x[x > 0], x[x > 1] * x.dtype.type(2), np.unique(x)),
    "reshaped": lambda x: x[x > 0].reshape(-1, 1).T,
}


@pytest.mark.parametrize("dtype", ["f8", "i4"])
@pytest.mark.parametrize("name", sorted(ONE_ARRAY))
def test_of_one_array(name, dtype):
    for shape in ((7,), (3, 5), (2, 3, 4)):
        everywhere(ONE_ARRAY[name], values(shape, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype):
    x = values((4, 6), dtype)
    check(lambda x: (x[x == 0], np.nonzero(x), np.argwhere(x)), [x], exact=True, compiled=True)
    check(lambda x: np.unique(x, return_counts=True), [x], exact=True, compiled=True)


@pytest.mark.parametrize(
    "mask",
    [np.zeros(5000, bool), np.ones(5000, bool), np.arange(5000) % 3 == 0, np.arange(5000) == 4999, np.zeros(0, bool)],
    ids=["none", "all", "third", "last", "empty"],
)
def test_masks_given(mask):
    x = np.arange(len(mask), dtype=float)
    rows = np.arange(3.0 * len(mask)).reshape(len(mask), 3)
    everywhere(lambda x, m: (x[m], x[~m], m.nonzero()[0]), x, mask)
    everywhere(lambda x, m: (x[m], x[m].sum(axis=1), x[m, 1], x.T[:, m]), rows, mask)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 5), (5, 1), (1, 1), (40, 70), (3, 1, 2049), (0,)])
def test_shapes(shape):
    x = values(shape)
    everywhere(lambda x: (x[x > 0], np.nonzero(x), np.argwhere(x < 1), np.unique(x)), x)


def test_layouts():
    x = values((90, 60))
    for view in (x.T, x[::2, ::-3], np.asfortranarray(x), np.broadcast_to(x[0], (50, 60))):
        everywhere(lambda x: (x[x > 0], np.nonzero(x > 1), x[x[:, 0] > 0], np.unique(x)), view)


def test_masks_beside_other_indices():
    x = values((6, 5, 4))
    everywhere(
        lambda x, i: (x[x[:, 0, 0] > 0], x[:, x[0, :, 0] > 0], x[..., x[0, 0] > -5, None], x[x[:, :, 0] > 0]),
        x, np.array([1, 0]),
    )  # fmt: skip
    everywhere(lambda x: (x[x[:, 0, 0] > 0, 1], x[1, :, x[0, 0] > 0], x[x[:, :, 0] > 0, 1:]), x)


def test_one_mask_is_counted_once():
    def function(x, y):
        m = x > 0
        return x[m] + y[m], np.sqrt(x[m]), len(y[m]), np.nonzero(m)[0]

    everywhere(function, values(5000), values(5000))
    graph = aotarray.trace(function, "f64[n], f64[n]")
    assert [n.op.name for n in graph.nodes()].count("count") == 1
    source = aotarray.lower(function, "f64[n], f64[n]").source
    assert source.count("def ") == 4, source  # count, add up, fill all of the results; and the length


def test_functions_beside_masks():
    counts = np.array([2, 0, 1, 3, 0])
    everywhere(lambda x, c: (np.repeat(x, c), np.repeat(x, c.sum()), x.repeat(c[:1] * 0 + 2)), values(5), counts)
    everywhere(lambda x, c: np.repeat(x, c, axis=1), values((2, 5)), counts)
    everywhere(lambda c, w: (np.bincount(c), np.bincount(c, w), np.bincount(c, minlength=9)), counts, values(5))
    everywhere(lambda c: np.bincount(c[c > 7]), counts)
    everywhere(lambda x: (np.compress([True, False, True], x), np.compress(x[0] > 0, x, axis=1)), values((4, 6)))
    for x in (np.array([0, 0, 1.0, 0, 2, 0]), np.zeros(3), np.ones(3), np.zeros(0)):
        everywhere(lambda x: (np.trim_zeros(x), np.trim_zeros(x, "f"), np.trim_zeros(x, "b")), x)
    x = values((4, 5))
    everywhere(lambda x: (np.delete(x, 1), np.delete(x, -1, 0), np.delete(x, [0, 2, 2], 1)), x)
    everywhere(lambda x, i: (np.delete(x, slice(1, 3), 0), np.delete(x, i, 1), np.delete(x, i > 0, 0)), x, counts[:4])


def test_sets():
    a, b = values(40).round(), values(30) + 1
    for one, other in ((a, b), (a[:0], b), (a, b[:0]), (a.astype("i8"), b.astype("i4"))):
        everywhere(
            lambda a, b: (np.union1d(a, b), np.intersect1d(a, b), np.setdiff1d(a, b), np.setxor1d(a, b)), one, other
        )
        everywhere(lambda a, b: np.intersect1d(a, b, return_indices=True), one, other)
    everywhere(
        lambda a, b: (np.setdiff1d(a, b, True), np.setxor1d(a, b, True), np.intersect1d(a, b, True)),
        np.array([5, 1, 4.0]), np.array([4, 2.0]),
    )  # fmt: skip


def test_unique_of_nan_and_zeros():
    x = np.array([np.nan, 1.0, np.nan, -np.inf, 1.0, np.inf, np.nan])
    everywhere(lambda x: (np.unique(x), np.unique(x, return_counts=True, return_inverse=True)), x)
    everywhere(lambda x: (np.unique(x, equal_nan=False), np.unique_counts(x), np.unique_inverse(x)), x)
    everywhere(lambda x: np.unique_all(x), values((3, 4)))
    z = np.array([1 + 2j, np.nan * 1j, 1 + 2j, complex(np.nan, 0), 0])
    assert_same(aotarray.jit(np.unique)(z), np.unique(z))


def test_chains_through_other_functions():
    x, w = RNG.normal(size=(300, 4)), RNG.normal(size=(4, 3))
    check(lambda x, w: x[x[:, 0] > 0] @ w, [x, w], compiled=True)
    check(lambda x, w: np.linalg.norm(x[x[:, 0] > 0], axis=1).mean(), [x, w], compiled=True)
    check(lambda x, w: np.histogram(x[x > 0], bins=5, range=(0, 2)), [x, w], compiled=True)
    check(lambda x, w: (np.median(x[x > 0]), x[x > 0].max(), np.argmax(x[x > 0])), [x, w], compiled=True)
    check(lambda x, w: np.linalg.svd(x[x[:, 0] > 1])[1], [x, w], compiled=True)
    check(lambda x, w: x[x[:, 0] > 0].sum(axis=0) / len(x[x[:, 0] > 0]), [x, w], compiled=True)
    check(lambda x, w: np.exp(x[x[:, 1] > 0] - x[x[:, 1] > 0].max(axis=1, keepdims=True)), [x, w], compiled=True)


def test_a_found_array_is_an_array_of_its_own():
    def changed(x):
        v = x[x > 0]
        w = v
        v += 1
        w[0] = -5.0
        y = x.copy()
        y[y > 0] = v
        u = x[x > 0]
        u.sort()
        return v, w, y, u, w.copy() * 2

    everywhere(changed, np.array([3.0, -1, 2, 0.5, -4]))

    def written(x, v):
        y = x.copy()
        y[y > 0] *= 2
        y[y < 0] = np.sqrt(-y[y < 0])
        y[x > 1] = x[x > 1][::-1]
        return y, isinstance(x[x > 0], np.ndarray), x[x > 0].ndim, x[x > 0].dtype == np.float64

    everywhere(written, values(30), 1.0)


def test_new_sizes_need_no_compilation():
    f = aotarray.jit(lambda x: (np.unique(x[x > 0]), x[x > 0].mean(), np.nonzero(x)[0]))
    for n in (5, 100, 5000, 1, 6000):
        x = values(n) if n > 1 else np.array([2.0])
        for one, other in zip(f(x), (np.unique(x[x > 0]), x[x > 0].mean(), np.nonzero(x)[0]), strict=True):
            np.testing.assert_allclose(one, other)
    assert f.stats().compilations == 1


def test_what_does_not_fit_is_numpys_error():
    x = np.array([1.0, 2, 3, -1])
    add = aotarray.jit(lambda x, a, b: x[x > a] + x[x > b])
    assert add(x, 0.0, 0.5).tolist() == [2, 4, 6]
    with pytest.raises(ValueError, match="could not be broadcast together"):
        add(x, 0.0, 1.0)
    assert add.stats().compilations == 1
    first = aotarray.jit(lambda x, a: x[x > a][1])
    assert first(x, 0.0) == 2
    with pytest.raises(IndexError, match="index 1 is out of bounds for axis 0 with size 1"):
        first(x, 2.0)
    with pytest.raises(ValueError, match="zero-size array to reduction operation maximum"):
        aotarray.jit(lambda x: x[x > 9].max())(x)
    with pytest.raises(ValueError, match="negative"):
        aotarray.jit(lambda x: np.repeat(x, x.astype(int)))(x)
    with pytest.raises(ValueError, match="negative"):
        aotarray.jit(lambda x: np.bincount(x.astype(int)))(x)
    with pytest.raises(IndexError, match="boolean index did not match"):
        aotarray.jit(lambda x: x[x > 0][x > 1])(x)


def test_out():
    f = aotarray.jit(lambda x: (x[x > 0], x * 2, x[x > 1] * 3))
    x = np.array([1.0, 2, 3, -1])
    outs = (np.zeros(3), np.zeros(4), np.zeros(4)[::2])
    found = f(x, out=outs)
    assert all(a is b for a, b in zip(found, outs, strict=True))
    for one, other in zip(outs, ([1, 2, 3], [2, 4, 6, -2], [6, 9]), strict=True):
        assert one.tolist() == other
    with pytest.raises(ValueError, match=r"out\[0\] is float64\[2\]; the result is float64 of shape \(3,\)"):
        f(x, out=(np.zeros(2), np.zeros(4), np.zeros(2)))
    with pytest.raises(TypeError, match=r"out\[2\] is float32"):
        f(x, out=(np.zeros(3), np.zeros(4), np.zeros(2, "f4")))
    shared = np.arange(1.0, 6.0)
    assert aotarray.jit(lambda x: x[x > 2] - x[0])(shared, out=shared[:3]).tolist() == [2, 3, 4]
    same = np.zeros(3)
    f(x, out=(same, np.zeros(4), same[1:]))
    assert same.tolist()[1:] == [6, 9]


def test_in_loops():
    def walk(x, steps):
        def step(i, state):
            total, x = state
            v = x[x > i * 0.1]
            return total + np.sort(v)[::2].sum() + len(np.unique(v)), x

        return aotarray.fori_loop(0, steps, step, (0.0, x))[0]

    x = values(500) + 0.05
    found = aotarray.jit(walk)(x, 30)
    total = 0.0
    for i in range(30):
        v = x[x > i * 0.1]
        total += np.sort(v)[::2].sum() + len(np.unique(v))
    np.testing.assert_allclose(found, total)
    np.testing.assert_allclose(interpret(simplify(aotarray.lower(walk, x, 30).traced.graph), [x, 30])[0], total)

    def scaled(x, n):
        v = x[x > 0]
        return aotarray.fori_loop(0, n, lambda i, v: v * 0.5 + i, v)

    expected = x[x > 0]
    for i in range(7):
        expected = expected * 0.5 + i
    np.testing.assert_allclose(aotarray.jit(scaled)(x, 7), expected)

    @aotarray.jit
    def chosen(x, t):
        v = x[x > 0]
        return aotarray.cond(t > 0, lambda: v * 2, lambda: v + x[x > t][0])

    np.testing.assert_allclose(chosen(x, 1.0), x[x > 0] * 2)
    np.testing.assert_allclose(chosen(x, -1.0), x[x > 0] + x[x > -1][0])
    counted = aotarray.jit(lambda x: aotarray.scan(lambda c, r: (c + len(r[r > 0]), r[r > 0].max()), 0, x))
    total, best = counted(x.reshape(50, 10))
    assert total == (x > 0).sum() and best.tolist() == x.reshape(50, 10).max(axis=1).tolist()


def test_no_loop_carries_what_it_measures():
    with pytest.raises(TraceError, match=r"f64\[n\] before a step and f64\[found\d\] after it"):
        aotarray.lower(lambda x: aotarray.fori_loop(0, 3, lambda i, x: x[x > i], x), "f64[n]")
    with pytest.raises(TraceError, match="depends on values"):
        aotarray.lower(lambda x: aotarray.map(lambda r: r[r > 0], x), "f64[n, m]")
    with pytest.raises(TraceError, match="return"):
        aotarray.lower(lambda x: aotarray.cond(x[0] > 0, lambda: x[x > 0], lambda: x[x > 1]), "f64[n]")
    with pytest.raises(ConcretizationError, match="found0"):
        aotarray.lower(lambda x: np.zeros(range(len(x[x > 0]))[-1]), "f64[n]")


def test_sizes_in_conditions():
    f = aotarray.jit(lambda x: np.where(len(x[x > 0]) > 2, x, -x))
    for x in (np.array([1.0, 2, 3]), np.array([1.0, 2, -3])):
        assert_same(f(x), np.where(len(x[x > 0]) > 2, x, -x))
    g = aotarray.jit(lambda x: aotarray.cond(len(x[x > 0]) == 0, lambda: 0.0, lambda: x[x > 0].max()))
    assert g(np.array([-1.0])) == 0 and g(np.array([-1.0, 4.0])) == 4


def test_threads_give_the_same():
    x = RNG.normal(size=300_000)
    f = aotarray.jit(lambda x: (x[x > 0] * 2, np.nonzero(x > 1)[0], x[x > 0].sum()))
    before = aotarray.get_num_threads()
    try:
        aotarray.set_num_threads(1)
        alone = f(x)
        aotarray.set_num_threads(4)
        for one, other in zip(f(x), alone, strict=True):
            assert_same(one, other, exact=True)
        assert_same(alone[0], x[x > 0] * 2, exact=True)
    finally:
        aotarray.set_num_threads(before)


def test_nothing_leaks():
    resource = pytest.importorskip("resource")
    x = RNG.normal(size=200_000)
    add = aotarray.jit(lambda x, t: np.sort(x[x > 0]) + x[x > t])
    wrong = 0
    for k in itertools.count():
        if k == 40:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if k == 400:
            break
        try:
            add(x[: 1000 * (k % 190 + 1)], 0.0 if k % 2 else 1.0)
        except ValueError:
            wrong += 1
    gc.collect()
    assert wrong == 200
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000  # kilobytes; a leak makes 300,000


def test_built_modules(tmp_path):
    def tidy(x, limit):
        v = x[x > limit]
        return {"values": np.unique(v), "where": np.nonzero(x > limit)[0], "rest": x[x <= limit] + v}

    result = aotarray.build(tidy, "f64[n], float", name="run_time_sizes", out=tmp_path, cpu="native")
    assert "NDArray[np.float64]" in (tmp_path / "run_time_sizes.pyi").read_text()
    script = """
import numpy as np, run_time_sizes, sys
x = np.array([3.0, 1, 3, -2, 0, -1])
found = run_time_sizes.tidy(x, 0.5)
assert {k: v.tolist() for k, v in found.items()} == {"values": [1, 3], "where": [0, 1, 2], "rest": [1, 1, 2]}
try:
    run_time_sizes.tidy(x, 2.0)
except ValueError as error:
    print(error)
assert not {"aotarray", "numba"} & set(sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "could not be broadcast together" in done.stdout
    assert result.path.exists()


def test_ahead_of_time_names_are_free():
    lowered = aotarray.lower(lambda x, found1: (x[x > 0], found1[found1 > 0]), "f64[found0], f64[found0]")
    assert "f64[found1]" in lowered.graph or "f64[found2]" in lowered.graph
    x = values(9)
    for one, other in zip(lowered.compile()(x, x), (x[x > 0], x[x > 0]), strict=True):
        assert_same(one, other, exact=True)
    assert "measure found" in lowered.fused


def test_plain_python_flow():
    @aotarray.jit(control_flow="python")
    def trimmed(x, limit):
        v = x[x > 0]
        if limit > 1:
            v = v * 2
        total = 0.0
        for i in range(len(v)):
            total += v[i]
        if len(x[x > limit]) > 0:
            total += x[x > limit].max()
        return v, total

    for limit in (0.0, 2.0, 9.0):
        x = np.array([1.0, -2, 3, 2.5])
        for one, other in zip(trimmed(x, limit), trimmed.__wrapped__(x, limit), strict=True):
            assert_same(one, other)


def test_masks_without_axes():
    """`x[x > 0]` of a number: one element or none; of an array, all of it or nothing."""

    def number(x, y):
        s = x.sum()
        return s[s > 0], y[s > 0], y[None][(s > 0)[None]]

    compiled = aotarray.jit(number)
    y = np.arange(6.0).reshape(2, 3)
    for x in (np.ones(3), -np.ones(3)):
        for found, expected in zip(compiled(x, y), number(x, y), strict=True):
            assert found.shape == expected.shape
            np.testing.assert_array_equal(found, expected)
