"""One small program for each kind of fault that random programs have found; each equals NumPy to the bit."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from plain_program import run_plain
from tolerance import difference

import aotarray
from aotarray.interpret import interpret
from aotarray.passes import simplify
from aotarray.verify import verify

NAN, INF = np.nan, np.inf
rng = np.random.default_rng(7)


def check(function, *arguments):
    """The function interpreted, as plain Python and through jit."""
    with np.errstate(all="ignore"):
        expected = function(*arguments)
    expected = expected if isinstance(expected, tuple) else (expected,)
    lowered = aotarray.lower(function, *arguments)
    graph = verify(simplify(lowered.traced.graph), simplified=True)
    ways = {
        "interpreted": interpret(graph, arguments),
        "plain": run_plain(lowered.plan, arguments),
        "jit": aotarray.jit(function)(*arguments),
    }
    for way, found in ways.items():
        found = found if isinstance(found, (tuple, list)) else (found,)
        for k, (want, got) in enumerate(zip(expected, found, strict=True)):
            want, got = np.asarray(want), np.asarray(got)
            wrong = difference(want, got, np.zeros(want.shape))
            assert not wrong, f"{way}, result {k}: {wrong}"


def test_signed_integers_wrap():
    x = np.array([-2, 2, -(2**62) * 2, 2**63 - 1, 5] * 5)
    check(lambda x: np.isnan(np.arccos((x - np.int64(-(2**63))).astype(np.float64))), x)
    check(lambda x: (x + x > x, x * x < 0, -x < 0, abs(x) < 0), x)


def test_pieces_of_a_concatenation_have_extents_of_their_own():
    x, y = rng.normal(size=(5, 3, 2, 4)), rng.normal(size=(5, 3, 7, 4))
    check(lambda x, y: np.concatenate([x + 1, y, x], axis=2).copy() * 2, x, y)
    check(
        lambda x, y: (lambda a, b: np.concatenate([a, b, a], 2) + 1)(np.cumsum(x, 1), np.cumsum(y, 1)), x, y
    )


def test_a_size_that_happens_to_be_one_is_repeated():
    x = np.arange(15, dtype=np.int32).reshape(3, 5)
    check(lambda x: np.broadcast_to(x[1:-1, -1], (3, 5)) + x, x)
    check(lambda x: x[1:-1] * x, x)


def test_results_of_a_whole_fold_read_through_gathers():
    x = np.arange(10, dtype=np.int32).reshape(2, 5)

    def program(x):
        total = x.sum(axis=(0, 1), keepdims=True)[0]
        flags = np.isfinite(total) >= 1
        picked = flags[total % 1]
        return np.where(picked[0], np.log10(total + 1.0), 0.0), picked

    check(lambda x: program(x)[1], x)


def test_a_fold_of_the_row_read_at_a_computed_index():
    x = rng.normal(size=(6, 5))
    check(lambda x, i: x.max(axis=1, keepdims=True)[:, i % 1] + x, x, np.arange(5))
    check(lambda x, i: x - x.min(axis=0, keepdims=True)[i % 1], x, np.arange(6))


def test_the_sign_of_zero_in_sums():
    zeros = -np.zeros((3, 600))
    check(lambda x: (x.sum(), x.sum(0), x.sum(1), x.mean(0), x[:1].sum(0), x[0, 0].sum()), zeros)
    check(lambda x: (x[:, :2].sum(1), x[:2, :2].sum((0, 1)), np.cumsum(x, 0), np.cumsum(x, 1)), zeros)
    check(lambda x: 1 / x.mean(), np.array([False] * 7))
    check(lambda x: (x.sum(1), x.sum(1, keepdims=True)), -np.zeros((1, 1), np.float32))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_comparison_with_python_integers_of_any_size(dtype):
    limits = np.iinfo(dtype)
    x = np.array([0, 1, 100, limits.max, limits.min], dtype)
    for value in (-1, 300, 2**63 - 1, -(2**63)):
        check(lambda x, v=value: (x < v, v <= x, x == v, v != x), x)
        check(lambda x, v: (x < v, v <= x, x == v, v != x), x, value)
    check(lambda x: (x < 2**63, x == 2**64 - 1), x)
    check(lambda x: np.where(x > 1, x, -1), x)


def test_integer_forms_of_float_functions():
    for dtype in ("bool", "int8", "uint16", "int32", "uint64"):
        x = np.array([1, 2, 3, 1, 100]).astype(dtype)
        check(lambda x: (np.isnan(x), np.isinf(x), np.isfinite(x)), x)
        if dtype != "bool":
            check(lambda x: (np.reciprocal(x), np.bitwise_count(x)), x)
    check(np.reciprocal, np.array([-1, 1, -2, 2, 127, -128], np.int8))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_division(dtype):
    parts = np.array([0.0, -0.0, 1.0, -2.5, 3e30, 1e-30, INF, -INF, NAN])
    x = (parts[:, None] + 1j * parts).astype(dtype).ravel()
    y = x.copy()
    y.real, y.imag = x.imag[::-1], x.real[::-1]
    check(lambda x, y: (x / y, y / x, np.reciprocal(x), x / (2 - 1j)), x, y)
    z = (rng.normal(size=(50, 2)) + 1j * rng.normal(size=(50, 2))).astype(dtype)
    check(lambda z: z[0] / z[1:], z)


def test_conversions_from_floats_to_integers():
    x = np.array([0.0, -0.5, 1.99, -1.99, 100.7, -100.7])
    for target in ("int8", "int16", "int32", "int64"):
        for source in ("float16", "float32", "float64"):
            check(lambda x, t=target: x.astype(t), x.astype(source))
    for target in ("uint8", "uint16", "uint32", "uint64"):
        check(lambda x, t=target: x.astype(t), abs(x).astype(np.float32))


def test_writing_through_slices_that_add_or_drop_axes():
    x, v = rng.normal(size=(3, 4, 5)), rng.normal(size=(1, 3, 1))

    def program(x, v):
        y = x.copy()
        y[:, 2, None, 1:4] = v.transpose(1, 0, 2)
        y[::-2, :1, -1] += 1
        y[1, ...] = y[0]
        return y

    check(program, x, v)


def test_an_op_that_does_nothing_between_views_goes():
    def program(x):
        return np.positive(x.T)[::-1].T[1:] + 0

    check(program, np.arange(12).reshape(3, 4))


def test_division_by_a_literal_zero():
    check(lambda x: (x / 0.0, x[:0].mean(), 0.0 / x), np.array([0.0, 1.0, -1.0]))
    check(lambda x: x.mean(), np.zeros((0, 3)))


EMPTY = [(0,), (0, 3), (3, 0), (2, 0, 3), (0, 0), (1, 0)]


@pytest.mark.parametrize("shape", EMPTY)
def test_empty_axes_everywhere(shape):
    x = np.zeros(shape)
    check(lambda x: (x + 1, x.sum(), x.sum(0), x.sum(-1), x.prod(-1), x.T, x.reshape(-1), np.cumsum(x, 0)), x)
    check(lambda x: (np.concatenate([x, x]), (x > 0).any(0), (x > 0).all(-1), x.mean(0), x.var(-1)), x)


def test_a_fold_of_nothing_beside_an_axis_of_unknown_size():
    check(
        lambda x: (x[:, -1:-1:-1, 1:-1:-1].sum(axis=(1, 2)), x[:, 2:2].prod(axis=(1, 2))), np.ones((2, 3, 4))
    )


def test_extremes_of_nothing_raise_numpys_error():
    for method in ("max", "min", "argmax", "argmin"):
        for arguments in ((np.zeros(0),), (np.zeros((0, 3)), 0), (np.zeros((3, 0)), 1)):
            with pytest.raises(ValueError, match=r"empty sequence|zero-size array") as expected:
                getattr(arguments[0], method)(*arguments[1:])
            with pytest.raises(ValueError, match=r"empty sequence|zero-size array") as found:
                aotarray.jit(lambda x, m=method, a=arguments[1:]: getattr(x, m)(*a))(arguments[0])
            assert str(expected.value) in str(found.value)


def test_positions_of_extremes_with_nan_and_ties():
    x = np.array([[1.0, NAN, 3.0], [3.0, 3.0, -INF], [NAN, NAN, 0.0], [-0.0, 0.0, -1.0]])
    for dtype in (np.float64, np.float32, np.float16):
        y = x.astype(dtype)
        check(lambda x: (x.argmax(0), x.argmax(1), x.argmin(0), x.argmin(1), x.argmax(), x.argmin()), y)
    flags = np.array([[True, False], [False, False], [True, True]])
    check(lambda x: (x.argmax(0), x.argmin(1), x.argmax(), x.argmin()), flags)


def test_reductions_over_every_subset_of_axes():
    x = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5) % 7
    for axes in (
        (0,),
        (1,),
        (3,),
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 2),
        (1, 3),
        (2, 3),
        (0, 1, 2),
        (0, 1, 3),
        (0, 2, 3),
        (1, 2, 3),
    ):
        check(
            lambda x, a=axes: (x.sum(a), x.max(a), (x > 5).any(a), (x - x.min(a, keepdims=True)).prod(a)), x
        )


def test_several_passes_over_columns():
    x = rng.integers(-8, 8, (64, 9)).astype(np.float64)
    check(lambda x: (x - x.mean(0)) * 2 + x.max(0) - x.min(0), x)
    check(lambda x: x.sum(0, keepdims=True).max() - x, x)


def test_a_group_of_many_arrays():
    arrays = [rng.normal(size=20) for _ in range(40)]

    def program(*arrays):
        total = arrays[0]
        for a in arrays[1:]:
            total = total * 0.5 + a
        return total

    check(program, *arrays)


def test_scalars_only():
    check(lambda a, b: a * 2 + b, 3, 0.5)
    check(lambda a: np.array([1.0, 2.0, 3.0]) * a, 2.0)
    check(lambda: np.arange(5) * 2)


def test_outputs_that_are_arguments_constants_and_views():
    x = np.arange(6.0)
    check(lambda x: (x, x, x[::-1], x.reshape(2, 3), x.reshape(2, 3).T, np.array([1, 2]), 5), x)
    result = aotarray.jit(lambda x: x)(x)
    result[0] = 9
    assert x[0] == 0


def test_deep_graphs_are_linear():
    def program(x):
        for k in range(2000):
            x = x + k if k % 2 else x * 1.0001
        return x

    plan = aotarray.lower(program, "f64[n]").plan
    assert len(plan.kernels) == 1
    x = np.ones(3)
    assert np.array_equal(run_plain(plan, [x])[0], program(x))


def test_chains_of_writes_stay_short():
    """Each reads what it changes: the code doubles with every one unless the old value is computed once."""

    def in_place(x):
        y = x.copy()
        for k in range(12):
            y[k:] *= 2
        for k in range(8):
            y[:, k] = y[:, k + 1] + 1
        return y

    def one_by_one(x):
        y = np.zeros((10, 10))
        for k in range(100):
            y[k // 10, k % 10] = x[k]
        return y

    def rotated(x):
        for k in range(1, 9):
            x = np.concatenate([x[k:] * 2, x[:k]])
        return x

    assert len(aotarray.lower(in_place, "f64[n, m]").source) < 12_000
    assert len(aotarray.lower(rotated, "f64[n]").source) < 40_000
    check(in_place, np.ones((14, 9)))
    check(one_by_one, np.arange(100.0))
    check(rotated, np.arange(11.0))
    check(lambda x: np.concatenate([x[k : k + 1] * k for k in range(40)]), np.arange(40.0))


def test_small_folds_of_small_folds_stay_short():
    assert len(aotarray.lower(lambda x: x.sum(3).sum(2).sum(1), "f64[n, 8, 8, 8]").source) < 12_000


def test_names_of_scalar_functions_as_arguments():
    check(
        lambda sin, exp, where, begin: np.where(where, np.sqrt(abs(sin)) + exp, begin),
        *[np.array([1.0, 0.0])] * 4,
    )


def test_index_errors_name_axis_and_size():
    x = np.arange(12.0).reshape(3, 4)
    function = aotarray.jit(lambda x, i, j: x[i, j])
    assert function(x, np.array([-3, 2]), np.array([-4, 3])).tolist() == [0.0, 11.0]
    for i, j in (([0, 3], [0, 0]), ([0, 0], [0, -5]), ([-4, 0], [0, 9])):
        with pytest.raises(IndexError) as expected:
            x[np.array(i), np.array(j)]
        with pytest.raises(IndexError) as found:
            function(x, np.array(i), np.array(j))
        assert str(found.value) == str(expected.value)


LITERALS = [
    np.int8(-128), np.uint8(255), np.int16(-32768), np.uint16(65535), np.int32(-(2**31)), np.uint32(2**32 - 1),
    np.int64(-(2**63)), np.int64(2**63 - 1), np.uint64(2**64 - 1), np.uint64(2**63), np.float16(6e-8), np.float16(NAN),
    np.float32(1e-45), np.float32(0.1), np.float32(-INF), np.float64(5e-324), np.float64(-0.0), np.float64(1e308),
    np.bool_(True), np.complex64(1 - 2j), np.complex128(complex(-0.0, NAN)),
]  # fmt: skip


@pytest.mark.parametrize("literal", LITERALS, ids=repr)
def test_literals_of_every_dtype(literal):
    x = np.zeros(3, literal.dtype)
    check(lambda x: np.where(x == 0, literal, x), x)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("exponent", [2, 1, -1, 0.5, 2.0, np.float64(0.5)])
def test_known_exponents_are_the_ufuncs_that_numpy_calls(dtype, exponent):
    x = np.array([-0.0, -np.inf, np.inf, 0.0, np.nan, -1.5, 2.0, 3.7, 0.1]).astype(dtype)
    for function in (lambda x: x**exponent, lambda x: np.power(x, exponent)):
        with np.errstate(all="ignore"):
            expected = function(x)
        found = aotarray.jit(function)(x)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
        there = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found)[there], np.signbit(expected)[there])


def test_negative_integer_powers_raise():
    message = "Integers to negative integer powers are not allowed"
    x = np.array([2, 3, -4])
    with pytest.raises(ValueError, match=message):
        aotarray.jit(lambda x: x**-1)(x)
    power = aotarray.jit(lambda x, y: x**y)
    with pytest.raises(ValueError, match=message):
        power(x, np.array([1, -2, 0]))
    np.testing.assert_array_equal(power(x, np.array([1, 2, 0])), [2, 9, 1])


# -- Python numbers known only at run time ---------------------------------------------------------
@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u4", "u8", "i8"])
@pytest.mark.parametrize("value", [3, 127, 128, 255, 256, -1, -129, 2**40, -(2**63), 2**63 - 1])
def test_python_ints_as_arguments_must_fit_as_in_numpy(dtype, value):
    x = np.arange(5).astype(dtype)
    for function in (
        lambda x, v: x + v,
        lambda x, v: np.clip(x, 0, v),
        lambda x, v: x.clip(v),
        lambda x, v: np.full_like(x, v),
        lambda x, v: (x < v, v == x),
    ):
        try:
            function(x, value)
        except OverflowError:
            with pytest.raises(OverflowError, match=f"out of bounds for {x.dtype}"):
                aotarray.jit(function)(x, value)
        else:
            check(function, x, value)


@pytest.mark.parametrize(
    ("function", "value", "error"),
    [
        (lambda x, v: x / (1 / v), 0, ZeroDivisionError),
        (lambda x, v: x + 2.5 // v, 0.0, ZeroDivisionError),
        (lambda x, v: x + 7 % v, 0, ZeroDivisionError),
        (lambda x, v: x + (1 << v), -1, ValueError),
        (lambda x, v: np.arange(3) ** v, -1, ValueError),
        (lambda x, v: np.arange(3) ** -1, 0, ValueError),
        (lambda x, v: np.arange(3) ** (np.arange(3) - v), 1, ValueError),
    ],
)
def test_python_numbers_raise_as_in_numpy(function, value, error):
    x = np.ones(3)
    with pytest.raises(error):
        function(x, value)
    with pytest.raises(error):
        aotarray.jit(function)(x, value)


@pytest.mark.parametrize(
    "function", [lambda x, v: x * 2**v, lambda x, v: x + (3 << v), lambda x, v: x * (v * 2**60)]
)
def test_python_ints_beyond_64_bits_raise(function):
    compiled, x = aotarray.jit(function), np.ones(3)
    check(function, x, 3)
    with pytest.raises(OverflowError, match="beyond 64 bits"):
        compiled(x, 70)


def test_a_python_int_to_a_negative_power_raises():
    with pytest.raises(ValueError, match="make its base a float"):
        aotarray.jit(lambda x, v: x * 2**v)(np.ones(3), -1)


def test_divisions_of_sizes_stay_outside_of_loops():
    """A division that may have a zero divisor cannot leave a branch: the launcher works it out."""

    def torus(x):
        return x + np.roll(x, 1, axis=1) + np.roll(x, -2, axis=0)

    source = str(aotarray.jit(torus).lower("f64[n, m]").source)
    assert not [line for line in source.splitlines() if "%" in line]
    for shape in ((0, 3), (1, 1), (2, 5), (7, 4)):
        x = np.arange(float(np.prod(shape))).reshape(shape)
        assert np.array_equal(aotarray.jit(torus)(x), torus(x))


def test_sizes_in_caches_outlive_their_call():
    """A function with a cache by arguments, such as scipy.fft.next_fast_len, is used by other calls too."""
    cached = functools.lru_cache(lambda n: int(n) + 1)
    function = aotarray.jit(lambda x: x + cached(x.shape[0]))
    for n in (3, 4, 3):
        np.testing.assert_array_equal(function(np.zeros(n)), np.full(n, n + 1.0))
        assert cached(n) == n + 1


def test_a_pass_that_settles_sizes_keeps_effects_and_written_arguments(capsys):
    def invert(a, b):
        aotarray.debug.print("{x}", x=a[0, 0])
        aotarray.check(a[0, 1] < 5, "large: {x}", x=a[0, 1])
        b[...] = np.linalg.inv(a)

    compiled = aotarray.jit(invert, inout=("b",))
    a, b = np.array([[2.0, 1.0], [1.0, 3.0]]), np.zeros((2, 2))
    compiled(a, b)
    np.testing.assert_allclose(b, np.linalg.inv(a))
    assert capsys.readouterr().out == "2.0\n"
    a[0, 1] = 7
    with pytest.raises(ValueError, match=r"large: 7\.0"):
        compiled(a, b)
