"""Reductions, running sums, differences: NumPy's dtypes, shapes and values over dtypes, axes and keywords."""

import subprocess
import sys

import numpy as np
import pytest
from agreement import check

import aotarray
from aotarray.interpret import interpret
from aotarray.passes import simplify

RNG = np.random.default_rng(5)
REAL = RNG.standard_normal((4, 5))
ARRAYS = {
    "float64": REAL,
    "float32": REAL.astype("f4"),
    "float16": REAL.astype("f2"),
    "complex128": REAL + 1j * RNG.standard_normal((4, 5)),
    "int64": RNG.integers(-9, 9, (4, 5)),
    "int8": RNG.integers(-9, 9, (4, 5)).astype("i1"),
    "uint16": RNG.integers(0, 9, (4, 5)).astype("u2"),
    "bool": REAL > 0,
}
AXES = [None, 0, -1, (0, 1), ()]
MASK = np.array([True, False, True, True, False])
NAN = np.where(np.abs(REAL) < 0.3, np.nan, REAL)


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("dtype", ARRAYS)
@pytest.mark.parametrize(
    "name", ["sum", "prod", "mean", "var", "std", "any", "all", "count_nonzero", "max", "min", "ptp"]
)
def test_reductions_equal_numpy(name, dtype, axis):
    x = ARRAYS[dtype]
    if (x.dtype.kind == "c" and name in ("max", "min", "ptp")) or (dtype == "bool" and name == "ptp"):
        return
    function = getattr(np, name)
    for keepdims in (False, True):
        check(lambda x, k=keepdims: function(x, axis=axis, keepdims=k), [x], scale=4)
    for layout in (x.T, x[::-1, ::-1], x[:1], x[:, 1:2]):
        check(lambda x: function(x, axis=axis), [layout], scale=4)


KEYWORDS = [
    lambda x: np.sum(x, dtype=np.float32),
    lambda x: np.sum(x, initial=3, where=MASK),
    lambda x: x.prod(axis=0, initial=2),
    lambda x: np.mean(x, where=x > 0, axis=0),
    lambda x: np.mean(x, dtype=np.float32),
    lambda x: np.var(x, where=x > 0),
    lambda x: np.var(x, ddof=1, axis=1, keepdims=True),
    lambda x: x.std(0, ddof=0.5),
    lambda x: np.std(x, axis=0, mean=np.mean(x, axis=0, keepdims=True)),
    lambda x: np.average(x, axis=1, weights=[1, 2, 3, 4, 5]),
    lambda x: np.average(x, weights=np.abs(x)),
    lambda x: np.average(x, returned=True, axis=0),
    lambda x: np.any(x, axis=0, where=MASK),
    lambda x: np.add.reduce(x, axis=1),
    lambda x: np.cumsum(x),
    lambda x: x.cumsum(axis=1),
    lambda x: x.cumprod(0),
    lambda x: np.cumsum(x, dtype=np.float64),
    lambda x: np.diff(x),
    lambda x: np.diff(x, n=2, axis=0),
    lambda x: np.diff(x, prepend=0, append=1),
    lambda x: np.diff(x, n=9),
    lambda x: (np.trace(x, 1), x.trace(-1, dtype=np.float32)),
]
RAISING = [
    (lambda x, w: np.average(x, 1, w), [1.0, -1.0, 2.0, -2.0], "Weights sum to zero"),
    (lambda x, w: np.average(x * 1j, weights=x * w - x * w), [1.0, 2.0, 3.0, 4.0], "Weights sum to zero"),
    (lambda x, w: np.nanargmax(x + w, 0), [1.0, np.nan, 3.0, 4.0], "All-NaN slice encountered"),
    (lambda x, w: np.nanargmin(x * w), [np.nan] * 4, "All-NaN slice encountered"),
]
SUBTRACTING = [
    lambda x: np.gradient(x),
    lambda x: np.gradient(x, 2.0, axis=1, edge_order=2),
    lambda x: np.gradient(x, 2, np.array([0, 1, 3, 4, 7.0]), edge_order=2),
    lambda x: np.gradient(x, [0, 1, 3, 4, 7.0], axis=1),
    lambda x: np.gradient(x, [0, 1, 2, 3, 4], axis=-1, edge_order=2),
    lambda x: np.trapezoid(x),
    lambda x: np.trapezoid(x, dx=2, axis=0),
    lambda x: np.trapezoid(x, [1, 3, 4, 9]  , axis=0),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ARRAYS)
@pytest.mark.parametrize("number", range(len(KEYWORDS)))
def test_keywords(number, dtype):
    check(KEYWORDS[number], [ARRAYS[dtype]], scale=4, compiled=dtype == "float64" and number % 2 == 0)


@pytest.mark.parametrize("dtype", [d for d in ARRAYS if d != "bool"])
@pytest.mark.parametrize("number", range(len(SUBTRACTING)))
def test_differences(number, dtype):
    check(SUBTRACTING[number], [ARRAYS[dtype]], scale=4, compiled=dtype == "float32")


@pytest.mark.parametrize("dtype", [d for d in ARRAYS if d != "complex128"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1], ids=str)
def test_positions_of_extremes(axis, dtype):
    x = ARRAYS[dtype]
    check(lambda x: (x.argmax(axis=axis), np.argmin(x, axis=axis, keepdims=True)), [x], compiled=axis == 0)


@pytest.mark.parametrize("axis", [None, 0, 1], ids=str)
@pytest.mark.parametrize(
    "x", [NAN, NAN.astype("f4"), ARRAYS["int64"], np.full((2, 3), np.nan)], ids=["f8", "f4", "i8", "nan"]
)
def test_reductions_that_pass_over_nan(x, axis):
    check(
        lambda x: (
            np.nansum(x, axis), np.nanprod(x, axis), np.nanmax(x, axis), np.nanmin(x, axis),
            np.nanmean(x, axis), np.nanvar(x, axis), np.nanstd(x, axis, ddof=1),
            np.nanmean(x, axis, keepdims=True),
        ),
        [x], scale=4, compiled=axis == 1,
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (1,), (1, 1), ()])
def test_empty_and_small_arrays(shape):
    x = np.ones(shape) * 2.5
    check(
        lambda x: (x.sum(), x.prod(), np.any(x), np.all(x), np.mean(x), np.var(x), np.count_nonzero(x)), [x]
    )
    check(lambda x: (np.cumsum(x), x.sum(0) if x.ndim else x, np.max(x, initial=1.0)), [x])


@pytest.mark.parametrize("function", [np.max, np.min, np.argmax, np.ptp])
def test_empty_arrays_have_no_extreme(function):
    with pytest.raises(ValueError, match=r"zero-size|empty sequence"):
        aotarray.jit(lambda x: function(x))(np.empty(0))


def test_an_axis_out_of_range():
    with pytest.raises(np.exceptions.AxisError):
        aotarray.lower(lambda x: x.sum(axis=2), np.ones((2, 2)))
    with pytest.raises(ValueError, match="duplicate"):
        aotarray.lower(lambda x: x.sum(axis=(0, 0)), np.ones((2, 2)))


def test_out_of_a_reduction():
    def f(x):
        total = np.zeros(x.shape[1])
        np.sum(x, axis=0, out=total)
        return total

    check(f, [REAL], compiled=True)


@pytest.mark.parametrize(("function", "w", "message"), RAISING)
def test_what_raises_for_some_values_raises_as_numpy(function, w, message):
    x, w = np.arange(12.0).reshape(3, 4), np.array(w)
    compiled = aotarray.jit(function)
    graph = simplify(aotarray.lower(function, x, w).traced.graph)
    with pytest.raises((ValueError, ZeroDivisionError), match=message) as expected:
        function(x, w)
    for call in (compiled, lambda *arguments: interpret(graph, arguments)):
        with pytest.raises(type(expected.value), match=message):
            call(x, w)
    good = np.arange(4.0) + 1
    if function is not RAISING[1][0]:
        np.testing.assert_allclose(compiled(x, good), function(x, good), rtol=1e-14)


def test_a_built_module_raises_as_numpy(tmp_path):
    def mean(x, w):
        return np.average(x, weights=w), np.nanargmax(x)

    aotarray.build(mean, "f64[n], f64[n]", name="guarded_module", out=tmp_path)
    program = (
        "import sys; sys.path.insert(0, '.')\n"
        "import numpy as np, guarded_module as m; x = np.array([1.0, 3.0]); print(m.mean(x, x))\n"
        "for a, b in ((x, x - 2), (x * np.nan, x)):\n"
        "    try: m.mean(a, b)\n"
        "    except (ZeroDivisionError, ValueError) as e: print(type(e).__name__, e)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "2.5" in done.stdout
    assert "ZeroDivisionError Weights sum to zero, can't be normalized" in done.stdout
    assert "ValueError All-NaN slice encountered" in done.stdout


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex128"])
def test_short_rows_have_the_same_bits_whichever_call_came_first(dtype):
    """Rows of up to 16 elements are folded in order, by their size alone."""

    def fold(x):
        return x.sum(axis=1), x.prod(axis=1), (x * x).mean(axis=1), x.real.max(axis=1) - x.sum(axis=1)

    rng = np.random.default_rng(4)
    general = aotarray.jit(fold)
    general(np.ones((2, 25), dtype))
    for m in (2, 3, 4, 7, 8, 9, 16, 17, 18, 24):
        x = rng.standard_normal((40, m)).astype(dtype)
        first = aotarray.jit(fold)(x)
        for one, other in zip(first, general(x), strict=True):
            np.testing.assert_array_equal(one, other)
        if m <= 16 and dtype == "float64":
            np.testing.assert_array_equal(first[0], np.add.accumulate(x, axis=1)[:, -1])


def test_short_rows_of_several_axes():
    def fold(x):
        return (x * 2).sum(axis=(1, 2)), x.sum(axis=2)

    rng = np.random.default_rng(5)
    general = aotarray.jit(fold)
    general(np.ones((2, 5, 6)))
    for shape in ((7, 2, 3), (7, 3, 5), (7, 4, 4), (7, 4, 5), (7, 0, 3), (7, 3, 0), (0, 2, 2)):
        x = rng.standard_normal(shape)
        for one, other, expected in zip(aotarray.jit(fold)(x), general(x), fold(x), strict=True):
            np.testing.assert_array_equal(one, other)
            np.testing.assert_allclose(one, expected, rtol=1e-13, atol=1e-13)
