"""erf, erfc, erfcx and the normal distribution's ndtr and log_ndtr.

erf: below 0.92 a polynomial in x*x; above, 1 - exp(p(x)) with p near log(erfc(x)), whose error matters only
as far as erfc does. Both are evaluated: to choose coefficients by the range takes as long.
erfc: exp(-x*x) times a polynomial in (x - k) / (x + k), after M. Shepherd and J. Laframboise, "Chebyshev
approximation of (1 + 2x) exp(x*x) erfc x", Math. Comp. 36, 1981; the square's rounding error goes into exp.
Without the exponential that is erfcx, beyond the polynomial by its asymptotic series (DLMF 7.12.1).
"""

from __future__ import annotations

from collections.abc import Sequence

from aotarray.vecmath import coefficients as c
from aotarray.vecmath.exponential import expm1_parts, format_of, reduce_exp, scale_twice
from aotarray.vecmath.logarithm import log, log1p_core
from aotarray.vecmath.primitives import (
    Scalar,
    constant,
    copysign,
    dtype_of,
    estrin,
    exact_fma,
    fabs,
    fma,
    horner,
    polynomial,
    select,
)
from aotarray.vecmath.registry import define


def blend(condition: Scalar, yes: Sequence[float], no: Sequence[float], like: Scalar) -> list[Scalar]:
    """Coefficients of one polynomial or of a longer one."""
    padded = (*yes, *(0.0,) * (len(no) - len(yes)))
    return [select(condition, constant(y, like), n) for y, n in zip(padded, no, strict=True)]


@define("erf", "f32", "f64")
def erf(x: Scalar) -> Scalar:
    wide = dtype_of(x) == "f64"
    inner, outer, top = (c.ERF_F64, c.LOG_ERFC_F64, 6.0) if wide else (c.ERF_F32, c.LOG_ERFC_F32, 4.0)
    a = fabs(x)
    a = select(a > top, top, a)
    near = estrin(a * a, inner)
    r, t, s = expm1_parts(estrin(a, outer))
    far = -2.0 * fma(s, t, fma(s, r, s - 0.5))
    return copysign(select(a < 0.92, fma(a, near, a), far), x)


#: sqrt(1/2), each as a sum
SQRT_HALF = {
    "f64": (0.7071067811865476, -4.833646656726457e-17),
    "f32": (0.7071067690849304, 1.2101617152815436e-08),
}
#: sqrt(pi) x erfcx(x) in 1 / x**2, as far as the polynomial does not go
FAR = (1.0, -0.5, 0.75, -1.875, 6.5625, -29.53125, 162.421875, -1055.7421875)
INVERSE_SQRT_PI = 0.5641895835477563


def limit_of(x: Scalar) -> float:
    """Beyond it, erfc is 0, and the polynomial ends."""
    return 28.0 if dtype_of(x) == "f64" else 10.2


def erf_or_scaled(near: Scalar, a: Scalar, square: Scalar) -> Scalar:
    """erf(a) / a - 1 where `near`, with a under 0.9; else exp(a*a) erfc(a) (2 a + 1), up to the limit."""
    wide = dtype_of(a) == "f64"
    k = 4.0 if wide else 2.0
    inner, outer = (c.ERF_F64, c.ERFC_F64) if wide else (c.ERF_F32, c.ERFC_F32)
    return polynomial(select(near, square, (a - k) / (a + k)), blend(near, inner, outer, a))


def exp_parts(y: Scalar, low: Scalar) -> tuple[Scalar, Scalar]:
    """q and bits: exp(y + low) is (1 + q) `scale_twice`d by the bits."""
    f = format_of(y)
    _, r, low_bits = reduce_exp(y, 2 * f.bias)
    r = r + low
    return fma(r * r, polynomial(r, c.EXP_F64 if dtype_of(y) == "f64" else c.EXP_F32), r), low_bits


@define("erfc", "f32", "f64")
def erfc(x: Scalar) -> Scalar:
    top = limit_of(x)
    a = fabs(x)
    a = select(a > top, top, a)
    square = a * a
    near = a < 0.5
    p = erf_or_scaled(near, a, square)
    small = 1.0 - copysign(fma(a, p, a), x)
    q, low_bits = exp_parts(-square, -exact_fma(a, a, -square))
    upper = scale_twice(fma(p, q, p) / fma(2.0, a, 1.0), low_bits)
    return select(near, small, select(x < 0.0, 2.0 - upper, upper))


@define("erfcx", "f32", "f64")
def erfcx(x: Scalar) -> Scalar:
    """exp(x*x) erfc(x)."""
    top = limit_of(x)
    size = fabs(x)
    a = select(size > top, top, size)
    square = a * a
    near = a < 0.5
    p = erf_or_scaled(near, a, square)
    inverse = 1.0 / select(size > top, size, top)
    far = INVERSE_SQRT_PI * inverse * horner(inverse * inverse, FAR if dtype_of(x) == "f64" else FAR[:5])
    upper = select(size > top, far, p / fma(2.0, a, 1.0))
    q, low_bits = exp_parts(square, exact_fma(a, a, -square))
    grown = scale_twice(q + 1.0, low_bits)
    small = grown * (1.0 - copysign(fma(a, p, a), x))
    return select(near, small, select(x < 0.0, 2.0 * grown - upper, upper))


@define("ndtr", "f32", "f64")
def ndtr(x: Scalar) -> Scalar:
    """The normal distribution's cumulative function, erfc(-x / sqrt(2)) / 2."""
    top = limit_of(x) * 1.41
    size = fabs(x)
    size = select(size > top, top, size)
    root, root_low = SQRT_HALF[dtype_of(x)]
    a = size * root
    lost = fma(size, root_low, exact_fma(size, root, -a))
    near = a < 0.65
    p = erf_or_scaled(near, a, a * a)
    small = 0.5 + copysign(0.5 * fma(a, p, a), x)
    half = 0.5 * size
    y = half * size
    q, low_bits = exp_parts(-y, -exact_fma(half, size, -y))
    tail = p / fma(2.0, a, 1.0)
    tail = fma(lost, fma(2.0 * a, tail, -2.0 * INVERSE_SQRT_PI), tail)  # erfcx' = 2 a erfcx - 2 / sqrt(pi)
    upper = 0.5 * scale_twice(fma(tail, q, tail), low_bits)
    return select(near, small, select(x < 0.0, upper, 1.0 - upper))


@define("log_ndtr", "f32", "f64")
def log_ndtr(x: Scalar) -> Scalar:
    """log(ndtr(x)): in the lower tail from erfcx, above 0 from 1 - ndtr(-x)."""
    tail = ndtr(-fabs(x))
    low = x < -0.7
    square = select(low, 0.5 * x * x, constant(0.0, x))
    lower = log(select(low, 0.5 * erfcx(-x * SQRT_HALF[dtype_of(x)][0]), tail)) - square
    upper = select(tail < 1e-20, -tail, log1p_core(-tail))
    return select(x != x, x, select(x < 0.0, lower, upper))
