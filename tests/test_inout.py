"""Arguments that are written into: the caller's arrays, results and errors, compared with NumPy on the same code."""

import dataclasses
import threading
from typing import NamedTuple

import numpy as np
import pytest
from agreement import assert_same, leaves
from plain_program import run_plain

import aotarray
from aotarray.errors import SpecError, TraceError, UnsupportedError
from aotarray.fusion.schedule import schedule
from aotarray.interpret import interpret
from aotarray.passes import simplify
from aotarray.trace.trees import flatten

RNG = np.random.default_rng(3)


def copied(value):
    """The same containers, with copies of the arrays of the same layout."""
    if isinstance(value, np.ndarray):
        whole = value if value.base is None else value.base
        if not isinstance(whole, np.ndarray):
            return value.copy(order="K")
        at = (value.__array_interface__["data"][0] - whole.__array_interface__["data"][0]) // value.itemsize
        flat = np.array(np.lib.stride_tricks.as_strided(whole, (whole.size,), (whole.itemsize,)))
        return np.lib.stride_tricks.as_strided(flat[at:], value.shape, value.strides)
    if isinstance(value, dict):
        return {k: copied(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)(copied(v) for v in value)
    if isinstance(value, tuple):
        return type(value)(*(copied(v) for v in value))
    if dataclasses.is_dataclass(value):
        return dataclasses.replace(value, **{f.name: copied(getattr(value, f.name)) for f in dataclasses.fields(value)})
    return value


def flat(value):
    found = []
    flatten(value, found)
    return found


def whole_memory(array):
    """What an array lies in, to see that nothing else there was changed."""
    base = array.base if isinstance(array.base, np.ndarray) else array
    return base


def compare(found, expected, arguments, reference, exact, scale=1.0):
    assert (found is None) == (expected is None)
    pairs = [] if found is None else zip(leaves(found), leaves(expected), strict=True)
    for one, other in pairs:
        assert_same(one, other, exact, scale)
    for one, other in zip(flat(arguments), flat(reference), strict=True):
        assert_same(one, other, exact, scale)


def check(function, arguments, inout, exact=True, scale=1.0):
    """`jit`, the interpreter and the generated source as plain Python leave what NumPy leaves."""
    reference = copied(tuple(arguments))
    with np.errstate(all="ignore"):
        expected = function(*reference)
    compiled = aotarray.jit(function, inout=inout)
    for _ in range(2):  # traced, then by the launcher alone
        given = copied(tuple(arguments))
        found = compiled(*given)
        compare(found, expected, given, reference, exact, scale)
        if isinstance(expected, np.ndarray):
            for k, value in enumerate(reference):
                if expected is value:
                    assert found is given[k]
    lowered = compiled.lower(*copied(tuple(arguments)))
    for run in (
        lambda values: interpret(simplify(lowered.traced.graph), values),
        lambda values: run_plain(lowered.plan, values),
        lambda values: run_plain(lowered.plan, values, lambda count, grain: [count // 2]),
    ):
        given = copied(tuple(arguments))
        results = run(flat(given))
        compare(tuple(results) or None, tuple(flat(expected)) or None, given, reference, exact, scale)
    return lowered


# -- kernels in the form of PolyBench -----------------------------------------------------------------


def jacobi_1d(steps, A, B):
    for _ in range(1, steps):
        B[1:-1] = 0.33333 * (A[:-2] + A[1:-1] + A[2:])
        A[1:-1] = 0.33333 * (B[:-2] + B[1:-1] + B[2:])


def jacobi_2d(steps, A, B):
    for _ in range(1, steps):
        B[1:-1, 1:-1] = 0.2 * (A[1:-1, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:] + A[2:, 1:-1] + A[:-2, 1:-1])
        A[1:-1, 1:-1] = 0.2 * (B[1:-1, 1:-1] + B[1:-1, :-2] + B[1:-1, 2:] + B[2:, 1:-1] + B[:-2, 1:-1])


def heat_step(new, old):
    new[1:-1, 1:-1, 1:-1] = (
        0.125 * (old[2:, 1:-1, 1:-1] - 2.0 * old[1:-1, 1:-1, 1:-1] + old[:-2, 1:-1, 1:-1])
        + 0.125 * (old[1:-1, 2:, 1:-1] - 2.0 * old[1:-1, 1:-1, 1:-1] + old[1:-1, :-2, 1:-1])
        + 0.125 * (old[1:-1, 1:-1, 2:] - 2.0 * old[1:-1, 1:-1, 1:-1] + old[1:-1, 1:-1, :-2])
        + old[1:-1, 1:-1, 1:-1]
    )


def heat_3d(steps, A, B):
    for _ in range(1, steps):
        heat_step(B, A)
        heat_step(A, B)


def fdtd_2d(steps, ex, ey, hz, fict):
    for t in range(steps):
        ey[0, :] = fict[t]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


def gemm(alpha, beta, C, A, B):
    C[:] = alpha * A @ B + beta * C


def mvt(x1, x2, y1, y2, A):
    x1 += A @ y1
    x2 += y2 @ A


def atax_like(A, x, y):
    y[:] = (A @ x) @ A
    return y


def softmax_rows(A):
    A -= A.max(axis=1, keepdims=True)
    np.exp(A, out=A)
    A /= A.sum(axis=1, keepdims=True)


def grid(*shape):
    return RNG.standard_normal(shape)


KERNELS = {
    "jacobi_1d": (jacobi_1d, (4, grid(30), grid(30)), ("A", "B"), True),
    "jacobi_2d": (jacobi_2d, (4, grid(9, 12), grid(9, 12)), ("A", "B"), True),
    "heat_3d": (heat_3d, (3, grid(6, 7, 8), grid(6, 7, 8)), ("A", "B"), True),
    "fdtd_2d": (fdtd_2d, (3, grid(9, 11), grid(9, 11), grid(9, 11), grid(3)), ("ex", "ey", "hz"), True),
    "gemm": (gemm, (1.5, 1.2, grid(6, 8), grid(6, 7), grid(7, 8)), "C", False),
    "mvt": (mvt, (grid(9), grid(9), grid(9), grid(9), grid(9, 9)), ("x1", "x2"), False),
    "atax": (atax_like, (grid(5, 7), grid(7), grid(7)), "y", False),
    "softmax": (softmax_rows, (grid(5, 40),), "A", False),
}


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_kernels(name):
    function, arguments, inout, exact = KERNELS[name]
    if isinstance(arguments[0], int):
        steps, *rest = arguments

        def bound(*arrays):
            return function(steps, *arrays)

        names = function.__code__.co_varnames[1 : function.__code__.co_argcount]
        bound = eval(f"lambda {', '.join(names)}: bound({', '.join(names)})", {"bound": bound})
        check(bound, rest, inout, exact)
    else:
        check(function, arguments, inout, exact, scale=10.0)


def test_a_time_loop_as_a_loop():
    def steps(n, A, B):
        def step(_, state):
            a, b = state
            b = b.copy()
            b[1:-1] = 0.5 * (a[:-2] + a[2:])
            return b, a

        A[...], B[...] = aotarray.fori_loop(0, n, step, (A, B))

    for n in (0, 1, 4, 7):
        A, B = grid(40), grid(40)
        a, b = A.copy(), B.copy()
        for _ in range(n):
            c = b.copy()
            c[1:-1] = 0.5 * (a[:-2] + a[2:])
            a, b = c, a
        given = A.copy(), B.copy()
        assert aotarray.jit(steps, inout=("A", "B"))(n, *given) is None
        np.testing.assert_array_equal(given[0], a)
        np.testing.assert_array_equal(given[1], b)


# -- what may be read when ---------------------------------------------------------------------------------


def swap(a, b):
    t = a.copy()
    a[:] = b
    b[:] = t


def reads_after(a, b):
    b[:] = a * 2
    a += 1
    b += a


def reversed_in_place(a, b):
    a[:] = a[::-1]
    b[...] = a


def shifted(a, b):
    a[1:] = a[:-1]
    b[:-1] = b[1:]


def old_and_new(a, b):
    old = a.copy()
    a[:] = b + old[::-1]
    return old, a - old, old.sum()


def one_value_for_both(a, b):
    v = a + b
    a[:] = v
    b[:] = v
    return v


def returns_itself(a, b):
    a += b
    return a


def returns_unchanged(a, b):
    return a


def returns_twice(a, b):
    b *= 3
    return a, b, a, b.copy(), a[1:]


def crossed(a, b):
    a[:] = a + b[::-1]
    b[:] = b + a[::-1]


def crossed_at_once(a, b):
    x, y = a + b[::-1], b + a[::-1]
    a[:] = x
    b[:] = y


def crossed_without_order(a, b):
    a[:], b[:] = a + b, a - b


def masked(a, b):
    a[a < 0] = 0
    b[b > a] *= 2


def gathered(a, b):
    a[np.array([0, 2, 1])] = b[:3]
    np.add.at(b, np.array([1, 1]), a[:2])


def sorted_in_place(a, b):
    a.sort()
    b[:] = np.cumsum(a)


def filled(a, b):
    a.fill(7)
    b[:] = 0


def from_a_choice(a, b):
    a[:] = aotarray.cond(a.sum() > 0, lambda: b[::-1] * 2, lambda: a - 1)
    b[...] = aotarray.cond(b[0] > 0, lambda: a + b, lambda: b)


def by_parts(a, b):
    for k in range(3):
        a[k] = b[k + 1] + a[k + 2]
        b[k] = a[k] * 2
    a[0] = a[-1]


def views(a, b):
    v = a[1:-1]
    w = v[::2]
    w += b[: w.shape[0]]
    v[0] = 5
    b[::-1][:2] = w[:2]


def unused(a, b):
    return b.sum()


def constant(a, b):
    a[:] = np.arange(7.0)
    b[:] = a[::-1]


VALUES = [
    swap, reads_after, reversed_in_place, shifted, old_and_new, one_value_for_both, returns_itself, returns_unchanged,
    returns_twice, crossed, crossed_at_once, crossed_without_order, masked, gathered, sorted_in_place, filled,
    from_a_choice, by_parts, views, unused, constant,
]  # fmt: skip


@pytest.mark.parametrize("function", VALUES, ids=lambda f: f.__name__)
def test_values(function):
    check(function, (grid(7), grid(7)), ("a", "b"), exact=False)


def normalised_rows(a):
    a /= a.sum(axis=1, keepdims=True)


def standardised_columns(a):
    a -= a.mean(axis=0)
    a /= a.std(axis=0)


def part_of_itself(a):
    a[1:-1] += 1


def part_of_another(a, b):
    a[1:-1, ::2] = b[2:, ::2] - b[:-2, ::2]


def doubled_and_summed(a):
    a *= 2
    return a.sum()


def borders(a):
    a[0], a[-1] = a[1], a[-2]
    a[:, 0] = 0
    a[:, -1] = a[:, -2]


def mean_of_what_was(a):
    total = a.sum(axis=1)
    a *= 2
    return a / total[:, None], total


IN_PLACE = [
    (normalised_rows, 0), (standardised_columns, 0), (part_of_itself, 0), (part_of_another, 0), (doubled_and_summed, 1),
    (borders, 1), (mean_of_what_was, 2),
]  # fmt: skip


@pytest.mark.parametrize(("function", "rank"), IN_PLACE, ids=lambda x: getattr(x, "__name__", ""))
def test_in_place(function, rank):
    """No working memory of the argument's own size; parts and passes over rows and columns write where they read."""
    count = function.__code__.co_argcount
    lowered = check(function, [grid(9, 11) for _ in range(count)], "a", exact=False)
    temporaries = [b for b in lowered.plan.program.buffers if b.kind == "temp"]
    assert max((len(b.dims) for b in temporaries), default=0) <= rank


def test_in_place_in_one_nest():
    def scaled(a, b):
        a *= 2
        b += a

    lowered = aotarray.lower(scaled, "a: inout f64[n], b: inout f64[n]")
    assert len(lowered.plan.kernels) == 1
    assert not [b for b in lowered.plan.program.buffers if b.kind == "temp"]
    assert lowered.graph.startswith("scaled(a: inout f64[n], b: inout f64[n])")
    assert "a[...] = %" in lowered.graph
    assert "scaled(a: inout f64[n], b: inout f64[n]) -> None" in lowered.source


# -- layouts and dtypes -------------------------------------------------------------------------------------

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


def layouts(dtype):
    """Arrays of one shape in all kinds of memory, views of larger arrays among them."""
    values = (RNG.standard_normal((12, 14)) * 5).astype(dtype)
    return {
        "C": values[:4, :5].copy(),
        "Fortran": np.asfortranarray(values[:4, :5]),
        "rows": values[2:6, 3:8],
        "every second": values[1:9:2, 2:12:2],
        "backwards": values[5:1:-1, 9:4:-1],
        "transposed": values[:5, :4].T,
        "wide": np.moveaxis(values[:8, :5].reshape(4, 2, 5), 1, 0)[1],
    }


def changed(a, b):
    a[1:, ::2] = b[:-1, ::2]
    b[...] = a[::-1] + b
    return a


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts(dtype):
    found = layouts(dtype)
    for name in found if dtype == "f8" else ("Fortran", "backwards"):
        check(changed, (found[name], found["C"].copy()), ("a", "b"))
        check(changed, (found["every second"], found[name]), ("a", "b"))


@pytest.mark.parametrize("name", sorted(layouts("f8")))
def test_nothing_else_is_changed(name):
    def fill(a):
        a[...] = 77.0

    array = layouts("f8")[name]
    whole = whole_memory(array)
    before = whole.copy()
    aotarray.jit(fill, inout="a")(array)
    assert (array == 77.0).all()
    assert (whole != before).sum() == array.size


def test_misaligned_arrays():
    memory = np.zeros(8 * 6 + 1, np.uint8)
    array = memory[1:].view("f8")
    array[:] = np.arange(6.0)

    def f(a):
        a[1:] = a[:-1] * 2
        return a

    assert aotarray.jit(f, inout="a")(array) is array
    np.testing.assert_array_equal(array, [0, 0, 2, 4, 6, 8])


def test_a_reshape_may_be_a_copy_in_numpy():
    def flat_sum(a):
        a += 1
        return a.reshape(-1).sum()

    for array in layouts("f8").values():
        check(flat_sum, (array,), "a", exact=False)

    def write_flat(a):
        a.reshape(-1)[:] = 0

    with pytest.raises(TraceError, match="whether they share memory depends on the layout"):
        aotarray.jit(write_flat, inout="a")(np.zeros((3, 4)))


@pytest.mark.parametrize("shape", [(), (0,), (1,), (0, 3), (1, 1), (3, 0, 2), (1, 4, 1)])
def test_shapes(shape):
    def f(a, b):
        a += 1
        b[...] = a * 2
        a[...] = a - b
        return b

    check(f, (grid(*shape), grid(*shape)), ("a", "b"))


def test_many_axes():
    def f(a):
        a += np.swapaxes(a, 0, 7)

    check(f, (grid(2, 1, 3, 1, 2, 1, 2, 2),), "a")


def test_large_arrays_and_threads():
    def f(a, b):
        a[1:] = np.sin(a[:-1]) + b[1:]
        b *= 2

    a, b = grid(300_000), grid(300_000)
    compiled = aotarray.jit(f, inout=("a", "b"))
    expected = a.copy(), b.copy()
    f(*expected)
    arrays = [(a.copy(), b.copy()) for _ in range(4)]
    threads = [threading.Thread(target=compiled, args=pair) for pair in arrays]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for pair in arrays:
        for one, other in zip(pair, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-14, atol=1e-15)


# -- containers -----------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Fields:
    u: object
    v: object
    dt: float = 0.5


class Pair(NamedTuple):
    first: object
    second: object


def test_containers():
    def step(state, source):
        state["u"] += source
        state["parts"][0][1:] = state["u"][:-1]
        return state["parts"]

    check(step, ({"u": grid(5), "parts": (grid(5), grid(3))}, grid(5)), "state")

    def named(pair, k):
        pair.first[:] = pair.second * k
        return pair

    check(named, (Pair(grid(4), grid(4)), 2.0), "pair")

    def lists(arrays):
        for a in arrays:
            a[::-1] += 1

    check(lists, ([grid(3), grid(4), grid(3)],), "arrays")

    def several(*arrays, **named):
        for a in arrays:
            a += 1
        named["x"][:] = 0

    compiled = aotarray.jit(several, inout=("arrays", "x"))
    a, b, x = np.zeros(2), np.ones(3), np.ones(2)
    compiled(a, b, x=x)
    assert a.tolist() == [1, 1] and b.tolist() == [2, 2, 2] and x.tolist() == [0, 0]


def test_dataclasses_with_numbers_are_refused():
    def step(fields):
        fields.u += fields.dt * fields.v

    with pytest.raises(TypeError, match=r"argument 'fields\.dt' is inout: it must be a numpy\.ndarray, not float"):
        aotarray.jit(step, inout="fields")(Fields(grid(3), grid(3)))


def test_an_array_put_in_place_of_another_is_refused():
    def step(state):
        state["u"] = state["u"] + 1

    with pytest.raises(TraceError, match=r"another array in the place of state\['u'\].*state\['u'\]\[\.\.\.\] = value"):
        aotarray.jit(step, inout="state")({"u": np.zeros(3)})


def test_methods():
    class Model:
        def __init__(self):
            self.rate = 3.0

        @aotarray.jit(inout="y")
        def run(self, y):
            y *= self.rate

    y = np.ones(3)
    model = Model()
    model.run(y)
    assert y.tolist() == [3, 3, 3]


def test_keywords_and_out():
    def f(a, b):
        a += b
        return a, a * 2

    compiled = aotarray.jit(f, inout="a")
    for _ in range(2):
        a, out, twice = np.ones(3), np.zeros(3), np.zeros(3)
        assert compiled(b=2.0, a=a)[0] is a
        found = compiled(a=a, b=2.0, out=(out, twice))
        assert found[0] is out and found[1] is twice
        assert a.tolist() == out.tolist() == [5, 5, 5] and twice.tolist() == [10, 10, 10]


def test_inside_another_trace():
    inner = aotarray.jit(lambda a, s: a.__iadd__(s), inout="a")

    def outer(x, y):
        z = x.copy()
        inner(z, 2.0)
        inner(y[1:], z[1:])
        return z

    check(outer, (grid(4), grid(4)), "y")
    with pytest.raises(TraceError, match=r"writing into argument 'y'.*inout"):
        aotarray.jit(outer)(grid(4), grid(4))


# -- errors ---------------------------------------------------------------------------------------------------


def add(a, b):
    a += b


WRONG = {
    "list": ([1.0, 2.0], TypeError, r"argument 'a\[0\]' is inout: it must be a numpy\.ndarray, not float"),
    "number": (1.0, TypeError, "argument 'a' is inout: it must be a numpy.ndarray, not float"),
    "scalar": (np.float64(1), TypeError, "argument 'a' is inout: it must be a numpy.ndarray, not float64"),
    "read-only": (np.broadcast_to(1.0, (3,)), ValueError, "argument 'a' is inout, but the array is read-only"),
    "byte-swapped": (np.zeros(3, ">f8"), UnsupportedError, "argument 'a' is byte-swapped"),
    "object": (np.array([None, 1]), UnsupportedError, "argument 'a' has dtype object"),
    "repeated": (
        np.lib.stride_tricks.as_strided(np.zeros(1), (3,), (0,)), ValueError,
        "argument 'a' is inout, but elements of the array share memory",
    ),
    "windows": (
        np.lib.stride_tricks.as_strided(np.zeros(8), (3, 3), (8, 8)), ValueError,
        "argument 'a' is inout, but elements of the array share memory",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(WRONG))
@pytest.mark.parametrize("warm", [False, True])
def test_wrong_arguments(case, warm):
    value, error, message = WRONG[case]
    compiled = aotarray.jit(add, inout="a")
    if warm:
        for like in (np.zeros(3), np.zeros((3, 3)), np.zeros(())):
            compiled(like, 1.0)
    with pytest.raises(error, match=message):
        compiled(value, 1.0)


def test_shared_memory():
    compiled = aotarray.jit(add, inout="a")
    memory = np.arange(10.0)
    for a, b, how in (
        (memory, memory, "are one array"), (memory, memory[:], "share memory"),
        (memory[:5], memory[4:9], "share memory"), (memory[::2], memory[4:9], "share memory"),
        (memory[::-1], memory, "share memory"),
    ):  # fmt: skip
        before = memory.copy()
        with pytest.raises(ValueError, match=f"arguments 'a' and 'b' {how}, and 'a' is inout: pass a copy"):
            compiled(a, b)
        np.testing.assert_array_equal(memory, before)
    check(add, (memory[::2].copy(), memory[1::2].copy()), "a")
    compiled(memory[::2], memory[1::2])  # beside one another, but apart
    np.testing.assert_array_equal(memory, [1, 1, 5, 3, 9, 5, 13, 7, 17, 9])
    table = np.arange(12.0).reshape(3, 4)
    compiled(table[:, 0], table[:, 3])
    np.testing.assert_array_equal(table[:, 0], [3, 11, 19])
    compiled(memory[:0], memory[:0])  # no elements


def test_two_inout_arguments_that_share_memory():
    compiled = aotarray.jit(swap, inout=("a", "b"))
    x = np.arange(6.0)
    with pytest.raises(ValueError, match="arguments 'a' and 'b' share memory"):
        compiled(x[:4], x[2:])
    compiled(x[:3], x[3:])
    assert x.tolist() == [3, 4, 5, 0, 1, 2]


def test_names():
    with pytest.raises(ValueError, match="inout: add has no parameter 'c'"):
        aotarray.jit(add, inout=("a", "c"))
    with pytest.raises(ValueError, match="parameter 'a' cannot be static and inout"):
        aotarray.jit(add, inout="a", static_argnames="a")
    hint = r"test_inout.py:\d+: writing into argument 'a'.*inout=\('a',\).*'a: inout f64\[n\]'"
    with pytest.raises(TraceError, match=hint):
        aotarray.jit(add)(np.zeros(3), 1.0)
    x = {"u": np.zeros(3)}
    with pytest.raises(TraceError, match=r"writing into argument \"s\['u'\]\".*inout=\('s',\)"):
        aotarray.jit(lambda s: add(s["u"], 1))(x)
    with pytest.raises(SpecError, match="only arrays can be inout"):
        aotarray.lower(add, "a: inout (f64[n], float), f64[n]")


def test_arguments_stay_as_they_are_when_the_call_fails():
    def f(a, k):
        b = a[k]
        a += 1
        return b

    compiled = aotarray.jit(f, inout="a")
    a = np.zeros(3)
    compiled(a, np.int64(1))
    assert a.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="out"):
        compiled(a, np.int64(1), out=np.zeros(5))
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(a, np.int64(3))
    assert a.tolist() == [1, 1, 1]

    def g(a, k):
        a[...] = a[k] + 1

    def h(a, k):
        a *= 2
        aotarray.check(a[0] > 5, "too small")

    for function, k, error in ((g, np.array([0, 5, 1]), IndexError), (h, 0, ValueError)):
        with pytest.raises(error):
            aotarray.jit(function, inout="a")(a, k)
        assert a.tolist() == [1, 1, 1]


# -- built modules ----------------------------------------------------------------------------------------------


def test_built_module(built):
    def jacobi(A, B):
        B[1:-1] = 0.5 * (A[:-2] + A[2:])
        A[1:-1] = 0.5 * (B[:-2] + B[2:])

    def shift(a, s):
        a[:] = a[::-1] + s
        return a, a.sum()

    def advance(state, dt):
        state["u"] += dt * state["v"]
        return state

    module, folder = built(
        [
            (jacobi, ["A: inout f64[n], B: inout f64[n]", "A: inout f32[n], B: inout f32[n]"]),
            (aotarray.jit(shift, inout="a"), ["f64[n], float"]),
            (advance, ['state: inout {"u": f64[n], "v": f64[n]}, dt: float']),
        ],
        "filled",
    )
    for dtype in ("f8", "f4"):
        A, B = grid(20).astype(dtype), grid(20).astype(dtype)
        a, b = A.copy(), B.copy()
        jacobi(a, b)
        assert module.jacobi(A, B) is None
        np.testing.assert_array_equal(A, a)
        np.testing.assert_array_equal(B, b)
    memory = np.arange(12.0)
    x = memory[::-3]
    found, total = module.shift(x, 1.0)
    assert found is x and total == x.sum()
    assert memory.tolist() == [0, 1, 12, 3, 4, 9, 6, 7, 6, 9, 10, 3]
    state = {"u": np.ones(3), "v": np.ones(3)}
    found = module.advance(state, 0.5)
    assert found["u"] is state["u"] and state["u"].tolist() == [1.5, 1.5, 1.5]
    assert module.__signatures__[0] == "jacobi(A: inout f64[n], B: inout f64[n])"
    assert 'inout {"u": f64[n], "v": f64[n]}' in module.__signatures__[-1]
    stub = (folder / "filled.pyi").read_text()
    assert '"""(A: inout f64[n], B: inout f64[n])"""' in stub
    assert "def jacobi(A: NDArray[np.float64], B: NDArray[np.float64], *, out: Any = ...) -> None:" in stub
    for bad, error, message in (
        ((A[:3].astype("i8"), B), TypeError, r"it takes: \(A: inout f64\[n\], B: inout f64\[n\]\)"),
        (([1.0, 2.0], B), TypeError, "list"),
        ((np.broadcast_to(np.float64(1), (5,)), np.ones(5)), ValueError, "argument 'A' is inout, but .* read-only"),
        ((memory, memory), ValueError, "arguments 'A' and 'B' are one array"),
        ((memory[1:], memory[:-1]), ValueError, "arguments 'A' and 'B' share memory"),
        ((np.zeros(3, ">f8"), np.zeros(3)), TypeError, "big-endian"),
    ):
        with pytest.raises(error, match=message):
            module.jacobi(*bad)
    with pytest.raises(TypeError, match="takes"):
        module.shift(1.0, 1.0)


@pytest.fixture
def built(tmp_path):
    """Builds and imports a module."""
    import importlib.util

    def make(functions, name):
        result = aotarray.build(functions, name=name, out=tmp_path, cpu="native")
        spec = importlib.util.spec_from_file_location(name, result.path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module, tmp_path

    return make


# -- random programs ----------------------------------------------------------------------------------------------


def random_function(rng):
    """Statements that write into three arrays of one shape through random views, as source text."""
    names = ("a", "b", "c")
    slices = (
        ("1:", ":-1"), ("1:-1", "2:", ":-2"), (":", "::-1"), ("::2",), ("1::2",), (":2", "-2:"), ("0", "-1", "2"),
    )  # fmt: skip
    lines = []
    for _ in range(rng.integers(1, 7)):
        group = [slices[rng.integers(len(slices))] for _ in range(2)]

        def view(group=group):
            first, second = (part[rng.integers(len(part))] for part in group)
            return f"{names[rng.integers(3)]}[{first}, {second}]"

        kind = rng.integers(5)
        if kind == 0:
            lines.append(f"t = {names[rng.integers(3)]}{('', '.copy()', '[::-1]')[rng.integers(3)]}")
            lines.append(f"{names[rng.integers(3)]}[...] = t + {names[rng.integers(3)]}")
        elif kind == 1:
            lines.append(f"{view()} {('+=', '-=', '*=')[rng.integers(3)]} {view()}")
        elif kind == 2:
            lines.append(f"{view()} = {view()} - 2 * {view()}")
        elif kind == 3:
            lines.append(f"{names[rng.integers(3)]} -= {names[rng.integers(3)]}.sum(axis=0)")
        else:
            lines.append(f"{view()} = {rng.integers(9)}")
    returned = (None, "a", "a, b", "a[1:] + c[:-1]", "c.copy(), b.sum()", "t")[rng.integers(6)]
    text = "def f(a, b, c):\n    t = a[0]\n" + "".join(f"    {line}\n" for line in lines) + f"    return {returned}\n"
    scope = {"np": np}
    exec(text, scope)
    return scope["f"], text


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed):
    rng = np.random.default_rng(seed)
    for _ in range(6):
        function, text = random_function(rng)
        arrays = tuple(rng.integers(-4, 5, (6, 6)) for _ in range(3))
        declared = ("a", "b", "c")
        views = rng.integers(3)
        if views == 1:
            arrays = tuple(np.asfortranarray(x) for x in arrays)
        elif views == 2:
            arrays = tuple(np.repeat(np.repeat(x, 2, 0), 2, 1)[::-2, ::2] for x in arrays)
        try:
            check(function, arrays, declared)
        except BaseException:
            print(text)
            raise


def test_schedules_are_verified():
    graph = aotarray.trace(add, "inout f64[n], f64[n]")
    plan = schedule(simplify(graph))
    assert [a.inout for a in plan.program.args] == [True, False]
    assert plan.program.outputs == ()
