"""Errors of scalar functions against mpmath, on few points; tools/vecmath_accuracy.py measures many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from aotarray import vecmath
from aotarray.ops.names import KNOWN_POWERS
from aotarray.vecmath.arrays import array_function
from aotarray.vecmath.primitives import NUMPY

mp = mpmath.mp
#: the true function of multi-precision numbers, and arguments to try: (low, high) of each
CASES: dict[str, tuple[Callable[..., Any], list[tuple[float, float]]]] = {
    "exp": (mp.exp, [(-80, 80)]),
    "exp2": (lambda x: mp.mpf(2) ** x, [(-120, 120)]),
    "expm1": (mp.expm1, [(-3, 3)]),
    "log": (mp.log, [(0, 4)]),
    "log2": (lambda x: mp.log(x, 2), [(0, 4)]),
    "log10": (mp.log10, [(0, 4)]),
    "log1p": (mp.log1p, [(-1, 3)]),
    "sin": (mp.sin, [(-1e5, 1e5)]),
    "cos": (mp.cos, [(-1e5, 1e5)]),
    "tan": (mp.tan, [(-1e5, 1e5)]),
    "arcsin": (mp.asin, [(-1, 1)]),
    "arccos": (mp.acos, [(-1, 1)]),
    "arctan": (mp.atan, [(-4, 4)]),
    "arctan2": (mp.atan2, [(-2, 2), (-2, 2)]),
    "sinh": (mp.sinh, [(-3, 3)]),
    "cosh": (mp.cosh, [(-3, 3)]),
    "tanh": (mp.tanh, [(-3, 3)]),
    "arcsinh": (mp.asinh, [(-3, 3)]),
    "arccosh": (mp.acosh, [(1, 4)]),
    "arctanh": (mp.atanh, [(-1, 1)]),
    "power": (mp.power, [(0, 9), (-30, 30)]),
    "cbrt": (lambda x: mp.sign(x) * mp.cbrt(abs(x)), [(-9, 9)]),
    "hypot": (mp.hypot, [(-3, 3), (-3, 3)]),
    "erf": (mp.erf, [(-4, 4)]),
    "erfc": (mp.erfc, [(-2, 9)]),
    "erfcx": (lambda x: mp.exp(x * x) * mp.erfc(x), [(-5, 40)]),
    "ndtr": (mp.ncdf, [(-12, 9)]),
    "log_ndtr": (lambda x: mp.log(mp.ncdf(x)), [(-40, 4)]),
    "gammaln": (mp.loggamma, [(0, 60)]),
    "gamma": (mp.gamma, [(-9, 30)]),
    "digamma": (mp.digamma, [(0, 20)]),
    "logaddexp": (lambda x, y: mp.log(mp.exp(x) + mp.exp(y)), [(1, 9), (1, 9)]),
    "logaddexp2": (lambda x, y: mp.log(mp.mpf(2) ** x + mp.mpf(2) ** y, 2), [(1, 9), (1, 9)]),
}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_error_is_under_four_units(name: str, dtype: str) -> None:
    exact, ranges = CASES[name]
    rng = np.random.default_rng(23)
    arguments = [rng.uniform(low, high, 400).astype(NUMPY[dtype]) for low, high in ranges]
    found = array_function(name, dtype)(*arguments)
    with mpmath.workprec(200):
        true = [exact(*(mp.mpf(float(x)) for x in xs)) for xs in zip(*arguments, strict=True)]
        unit = [float(np.spacing(NUMPY[dtype](abs(float(t))))) for t in true]
        error = [float(abs(mp.mpf(float(f)) - t) / u) for f, t, u in zip(found, true, unit, strict=True)]
    assert max(error) < 3.5


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_neighbours_of_multiples_of_half_pi(name: str, dtype: str) -> None:
    multiples = [k * np.pi / 2 for k in (*range(1, 120), *range(7000, 7100), 10**6, 10**9, 10**12)]
    arguments = np.array(multiples).astype(NUMPY[dtype])
    found = array_function(name, dtype)(arguments)
    with mpmath.workprec(300):
        true = [getattr(mp, name)(mp.mpf(float(x))) for x in arguments]
        unit = [float(np.spacing(NUMPY[dtype](abs(float(t))))) for t in true]
        error = [float(abs(mp.mpf(float(f)) - t) / u) for f, t, u in zip(found, true, unit, strict=True)]
    assert max(error) < 2


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize(
    "x", [1e22, 6381956970095103.0 * 2.0**797, 1.7976931348623157e308, 2.0**30 + 1, 2.0**1000]
)
def test_huge_arguments_are_reduced_exactly(name: str, x: float) -> None:
    found = vecmath.python_function(name)(np.float64(x))
    compiled = array_function(name, "f64")(np.full(9, x))
    with mpmath.workprec(1400):
        true = getattr(mp, name)(mp.mpf(x))
        error = abs(mp.mpf(float(found)) - true) / float(np.spacing(abs(float(true))))
    assert error < 2
    assert np.all(compiled == found)


def test_every_elementary_function_is_measured() -> None:
    exact = (
        "sqrt fabs floor ceil trunc rint copysign absolute square reciprocal isnan isinf isfinite signbit "
        "deg2rad radians rad2deg degrees maximum minimum fmax fmin sign heaviside nextafter spacing fmod "
        "remainder floor_divide double_to_half float_to_half to_i8 to_i16 to_i32 to_i64 to_u8 to_u16 to_u32 "
        "to_u64"
    )
    floats = {name for name, f in vecmath.FUNCTIONS.items() if {"f32", "f64"} & set(f.dtypes)}
    real = {name for name in floats if not name.startswith("complex_")}  # those: tests/test_complex.py
    assert real - set(exact.split()) == set(CASES) | set(KNOWN_POWERS.values())


EDGES = [0.0, 5e-324, 1e-320, 2.0**-1022, 2.0**-149, 2.0**-126, 1e-38, 1.0, 2.0, 3.5, 1e38, 3.4028234663852886e38,
         1.7976931348623157e308, np.inf, np.nan]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("exponent", sorted(KNOWN_POWERS))
def test_known_exponents(exponent: float, dtype: str) -> None:
    kind = NUMPY[dtype]
    word = np.uint64 if dtype == "f64" else np.uint32
    rng = np.random.default_rng(29)
    info = np.finfo(kind)
    with np.errstate(all="ignore"):
        limits = np.array([info.max, info.tiny, info.smallest_subnormal]).astype(np.longdouble)
        turns = (limits ** np.longdouble(1 / exponent)).astype(kind)  # where results overflow or lose bits
        turns = np.concatenate([turns, [kind(2.0**k) for k in (-600, -360, -60, -36, 36, 60, 360, 600)]])
        near = turns.astype(kind)[:, None] * (1 + info.eps * np.arange(-20, 21)).astype(kind)
        anywhere = rng.integers(0, np.iinfo(word).max, 500, dtype=word).view(kind)
        x = np.concatenate([anywhere, rng.uniform(-3, 9, 200), near.ravel(), EDGES, -np.array(EDGES)]).astype(kind)
        found = array_function(KNOWN_POWERS[exponent], dtype)(x)
        expected = np.power(x, np.full_like(x, exponent))  # an array: no other ufunc instead
    python = vecmath.python_function(KNOWN_POWERS[exponent])
    for value, got, numpys in zip(x, found, expected, strict=True):
        same = python(value)
        assert same == got or (np.isnan(same) and np.isnan(got))
        if np.isfinite(got) and np.isfinite(numpys) and value != 0:
            with mpmath.workprec(200):
                true = mp.power(mp.mpf(float(value)), mp.mpf(exponent))
                unit = float(np.spacing(min(kind(abs(numpys)), np.nextafter(info.max, kind(0)))))
                assert abs(mp.mpf(float(got)) - true) / unit < 2, value
        elif np.isnan(numpys):
            assert np.isnan(got), value
        else:
            assert got == numpys and np.signbit(got) == np.signbit(numpys), value
