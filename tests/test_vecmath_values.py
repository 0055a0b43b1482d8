"""Values of scalar functions, compiled, against NumPy: special values of all, every bit of the exact ones."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from aotarray import vecmath
from aotarray.vecmath.arrays import array_function
from aotarray.vecmath.primitives import NUMPY
from aotarray.vecmath.registry import FLOATS, INTEGERS

APPROXIMATE = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "arcsin",
    "arccos",
    "arctan",
    "arctan2",
    "sinh",
    "cosh",
    "tanh",
    "arcsinh",
    "arccosh",
    "arctanh",
    "power",
    "cbrt",
    "hypot",
    "logaddexp",
    "logaddexp2",
]
RENAMED = {"bit_count": "bitwise_count"}
SPECIAL = [0.0, 1.0, 0.5, 0.75, 2.0, 3.0, 10.0, 30.0, 100.0, 1e-10, 1e-300, 5e-324, 2.0**-149, 2.0**-126,
1e38, 1e39,
           1e300, 1.7976931348623157e308, 3.4028234663852886e38, np.inf, np.nan, 709.0, 745.0, 88.0, 104.0,
           1e6, 1e10, 1e22, 2.0**52, 2.0**53, 2.0**63, 2.0**31, 2.0**24 - 1]  # fmt: skip


def numpy_function(name: str) -> Any:
    return getattr(np, RENAMED.get(name, name), None)


def floats(dtype: str) -> Any:
    values = np.array([s * v for v in SPECIAL for s in (1, -1)])
    return np.unique(values.astype(NUMPY[dtype]).view(f"u{np.dtype(NUMPY[dtype]).itemsize}")).view(
        NUMPY[dtype]
    )


def integers(dtype: str) -> Any:
    info = np.iinfo(NUMPY[dtype])
    values = {
        info.min,
        info.min + 1,
        info.max,
        info.max - 1,
        -100,
        -8,
        -3,
        -2,
        -1,
        0,
        1,
        2,
        3,
        5,
        7,
        8,
        31,
        32,
        63,
        64,
        100,
    }
    return np.array(sorted(v for v in values if info.min <= v <= info.max), dtype=NUMPY[dtype])


def grid(values: Any, arity: int) -> list[Any]:
    points = list(itertools.product(values, repeat=arity))
    return [np.array([p[i] for p in points], dtype=values.dtype) for i in range(arity)]


def cases(kinds: tuple[str, ...], approximate: bool) -> list[tuple[str, str]]:
    return [
        (name, dtype)
        for name, function in sorted(vecmath.FUNCTIONS.items())
        for dtype in function.dtypes
        if dtype in kinds
        and numpy_function(name)
        and (dtype in FLOATS and name in APPROXIMATE) == approximate
    ]


def same_bits(found: Any, expected: Any) -> Any:
    both_nan = (found != found) & (expected != expected)
    if found.dtype.kind == "f":
        unsigned = f"u{found.dtype.itemsize}"
        return both_nan | (found.view(unsigned) == expected.view(unsigned))
    return found == expected


def units(found: Any, expected: Any) -> Any:
    """Distance in units in the last place, infinite where one is special and the other is not the same."""
    ok = np.isfinite(found) & np.isfinite(expected)
    gap = np.abs(found.astype(np.longdouble) - expected.astype(np.longdouble)) / np.spacing(np.abs(expected))
    return np.where(same_bits(found, expected), 0.0, np.where(ok, gap, np.inf))


@pytest.mark.parametrize(("name", "dtype"), cases(FLOATS, approximate=True))
@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v2"])
def test_special_values_are_numpys(name: str, dtype: str, cpu: str) -> None:
    arguments = grid(floats(dtype), vecmath.FUNCTIONS[name].arity)
    with np.errstate(all="ignore"):
        wide = [a.astype(np.longdouble) for a in arguments]
        expected = numpy_function(name)(*wide).astype(NUMPY[dtype])
        numpys = numpy_function(name)(*arguments)
        found = array_function(name, dtype, cpu)(*arguments)
        gap = units(found, expected)
        if name.startswith("logaddexp"):  # it cancels near 0, as NumPy's does: judged by the larger argument
            gap = gap * np.spacing(np.abs(expected)) / np.spacing(np.abs(np.maximum(*arguments)) + 0.5)
        off = np.flatnonzero((gap > 4) & (units(found, numpys) > 0))
    shown = [([a[i].item() for a in arguments], found[i], expected[i]) for i in off[:5]]
    assert not off.size, f"{off.size} values: {shown}"
    zero = (found == 0) & (numpys == 0)
    assert not np.any(zero & (np.signbit(found) != np.signbit(numpys)))


@pytest.mark.parametrize(("name", "dtype"), cases(FLOATS, approximate=False))
@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v2"])
def test_exact_functions_of_floats_are_numpys_to_the_bit(name: str, dtype: str, cpu: str) -> None:
    rng = np.random.default_rng(3)
    arity = vecmath.FUNCTIONS[name].arity
    arguments = grid(floats(dtype), arity)
    unsigned = np.uint64 if dtype == "f64" else np.uint32
    for count in (2000, 4000):
        anywhere = rng.integers(0, np.iinfo(unsigned).max, (arity, count), dtype=unsigned).view(NUMPY[dtype])
        near = (rng.standard_normal((arity, count)) * 30).astype(NUMPY[dtype])
        arguments = [np.concatenate([a, b, c]) for a, b, c in zip(arguments, anywhere, near, strict=True)]
    with np.errstate(all="ignore"):
        expected = numpy_function(name)(*arguments)
    found = array_function(name, dtype, cpu)(*arguments)
    off = np.flatnonzero(~same_bits(found, expected))
    shown = [([a[i].item() for a in arguments], found[i], expected[i]) for i in off[:5]]
    assert not off.size, f"{off.size} values: {shown}"


@pytest.mark.parametrize(("name", "dtype"), cases((*INTEGERS, "b1"), approximate=False))
def test_integer_functions_are_numpys(name: str, dtype: str) -> None:
    values = np.array([False, True]) if dtype == "b1" else integers(dtype)
    arguments = grid(values, vecmath.FUNCTIONS[name].arity)
    if name == "power":
        arguments = [a[arguments[1] >= 0] for a in arguments]
    with np.errstate(all="ignore"):
        expected = numpy_function(name)(*arguments)
    found = array_function(name, dtype)(*arguments)
    assert found.dtype == expected.dtype
    off = np.flatnonzero(found != expected)
    shown = [([a[i].item() for a in arguments], found[i], expected[i]) for i in off[:5]]
    assert not off.size, f"{off.size} values: {shown}"


def test_float16_conversions_are_numpys() -> None:
    halves = np.arange(65536, dtype=np.uint16)
    widened = array_function("half_to_float", "u16")(halves)
    assert np.array_equal(widened.view(np.uint32), halves.view(np.float16).astype(np.float32).view(np.uint32))
    rng = np.random.default_rng(5)
    with np.errstate(all="ignore"):
        for name, dtype, word in (("float_to_half", "f32", np.uint32), ("double_to_half", "f64", np.uint64)):
            anywhere = rng.integers(0, np.iinfo(word).max, 100_000, dtype=word).view(NUMPY[dtype])
            exact = widened.astype(NUMPY[dtype])
            ties = ((exact[1:31743] + exact[:31742]) / 2).astype(NUMPY[dtype])
            around = np.concatenate(
                [ties, np.nextafter(ties, NUMPY[dtype](0)), np.nextafter(ties, NUMPY[dtype](9e9))]
            )
            values = np.concatenate([anywhere, exact, around, -around, floats(dtype)])
            found = array_function(name, dtype)(values)
            assert np.array_equal(found, values.astype(np.float16).view(np.uint16))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("to", ["i8", "i16", "i32", "i64", "u8", "u16"])
def test_float_to_integer_is_numpys(dtype: str, to: str) -> None:
    values = np.concatenate([floats(dtype), np.linspace(-300, 300, 999).astype(NUMPY[dtype])])
    with np.errstate(all="ignore"):
        expected = values.astype(NUMPY[to])
    assert np.array_equal(array_function(f"to_{to}", dtype)(values), expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("to", ["u32", "u64"])
def test_float_to_wide_unsigned_in_range(dtype: str, to: str) -> None:
    top = 2.0**32 if to == "u32" else 2.0**64
    values = floats(dtype)
    values = np.concatenate(
        [values[(values > -1) & (values < top)], np.linspace(0, 0.99 * top, 99).astype(NUMPY[dtype])]
    )
    assert np.array_equal(array_function(f"to_{to}", dtype)(values), values.astype(NUMPY[to]))
