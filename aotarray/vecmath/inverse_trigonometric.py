"""arcsin, arccos, arctan and arctan2: one minimax polynomial each, in the square of a reduced argument.

arctan2 takes the arctangent of the smaller over the larger coordinate, in [0, 1], and adds what the octant
asks; arcsin over 1/2 goes through sqrt((1 - x) / 2) (Muller, Elementary Functions, 3rd ed., section 11.4).
"""

from __future__ import annotations

from aotarray.vecmath import coefficients as c
from aotarray.vecmath.primitives import (
    Scalar,
    bits,
    constant,
    copysign,
    dtype_of,
    estrin,
    exact_fma,
    fabs,
    fma,
    polynomial,
    select,
    sqrt,
)
from aotarray.vecmath.registry import define

SIGN = {"f64": 1 << 63, "f32": 1 << 31}
HALF_PI = {
    "f64": (1.5707963267948966, 6.123233995736766e-17),
    "f32": (1.5707963705062866, -4.371138828673793e-08),
}


def arctan_unit(q: Scalar) -> Scalar:
    """arctan(q) - q for 0 <= q <= 1."""
    z = q * q
    return q * z * estrin(z, c.ATAN_F64 if dtype_of(q) == "f64" else c.ATAN_F32)


@define("arctan", "f32", "f64")
def arctan(x: Scalar) -> Scalar:
    high, low = HALF_PI[dtype_of(x)]
    a = fabs(x)
    inverted = a > 1.0
    q = select(inverted, 1.0 / a, a)
    tail = arctan_unit(q)
    result = select(inverted, high - (q + (tail - low)), q + tail)
    return copysign(result, x)


@define("arctan2", "f32", "f64")
def arctan2(y: Scalar, x: Scalar) -> Scalar:
    t = dtype_of(x)
    high, low = HALF_PI[t]
    ay, ax = fabs(y), fabs(x)
    steep = ay > ax
    small, large = select(steep, ax, ay), select(steep, ay, ax)
    diagonal = select(large == 0.0, constant(0.0, x), constant(1.0, x))
    q = select(small == large, diagonal, small / large)
    tail = arctan_unit(q)
    # The angle is m pi/2 + q + tail, with q's sign turned where it is counted back from an axis.
    left = (bits(x) & SIGN[t]) != 0
    zero = constant(0.0, x)
    turns = select(steep, constant(1.0, x), select(left, constant(2.0, x), zero))
    back = left != steep
    q, tail = select(back, -q, q), select(back, -tail, tail)
    result = fma(turns, high, q + fma(turns, low, tail))
    return copysign(result, y)


def arcsin_parts(x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Whether |x| > 1/2, and s, t with arcsin(s) = s + t, of |x| or of sqrt((1 - |x|) / 2)."""
    a = fabs(x)
    big = a > 0.5
    z = select(big, 0.5 - 0.5 * a, a * a)
    root = sqrt(z)
    # The square root's rounding error, by one step of Newton's method.
    lost = exact_fma(-root, root, z) * (0.5 / root)
    s = select(big, root, a)
    t = s * z * polynomial(z, c.ASIN_F64 if dtype_of(x) == "f64" else c.ASIN_F32)
    return big, s, select(big, t + lost, t)


@define("arcsin", "f32", "f64")
def arcsin(x: Scalar) -> Scalar:
    high, low = HALF_PI[dtype_of(x)]
    big, s, t = arcsin_parts(x)
    inverted = (high - 2.0 * s) - (2.0 * t - low)
    result = select(big, inverted, s + t)
    return copysign(select(fabs(x) == 1.0, constant(high, x), result), x)


@define("arccos", "f32", "f64")
def arccos(x: Scalar) -> Scalar:
    high, low = HALF_PI[dtype_of(x)]
    big, s, t = arcsin_parts(x)
    negative = x < 0.0
    small = high - (copysign(s, x) - (low - copysign(t, x)))
    from_top = 2.0 * (s + t)
    from_bottom = 2.0 * (high - (s - (low - t)))
    large = select(negative, from_bottom, from_top)
    large = select(x == 1.0, constant(0.0, x), select(x == -1.0, constant(2.0 * high, x), large))
    return select(big, large, small)
