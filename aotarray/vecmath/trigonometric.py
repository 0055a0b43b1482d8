"""sin, cos and tan.

Reduction: up to a bound, a multiple of pi (pi/2 for tan) is taken off in three parts whose products the fused
multiply-add keeps exact (Muller, Elementary Functions, 3rd ed., section 11.2). Above it, a rare call
multiplies x by the bits of 2/pi that matter (M. Payne and R. Hanek, 1983). sin and cos take off multiples of
pi, so that one polynomial does for both; it is longer than one over a quarter of that, but two of those take
more time.
"""

from __future__ import annotations

from aotarray.vecmath import coefficients as c
from aotarray.vecmath.payne_hanek import reduce_large
from aotarray.vecmath.primitives import (
    Scalar,
    add_fast,
    bits,
    convert,
    dtype_of,
    exact_fma,
    fabs,
    fma,
    from_bits,
    multiply_pair,
    polynomial,
    select,
)
from aotarray.vecmath.registry import define, rare

TWO_OVER_PI = 0.6366197723675814
HALF_PI = {
    "f64": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
    "f32": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
}
ONE_OVER_PI = 0.3183098861837907
PI = {
    "f64": (3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33),
    "f32": (3.1415927410125732, -8.742277657347586e-08, -3.4302490200117637e-15),
}
MAGIC = {"f64": 1.5 * 2.0**52, "f32": 1.5 * 2.0**23}
SIGN_SHIFT = {"f64": 62, "f32": 30}
SIGN = {"f64": 1 << 63, "f32": 1 << 31}
LIMIT = {"f64": 2.0**30, "f32": 10000.0}

Reduced = tuple[Scalar, Scalar, Scalar]


def reduce_small(x: Scalar) -> Reduced:
    """r, its rounding error and bits that end in n; right where |x| is under the limit."""
    t = dtype_of(x)
    high, middle, low = HALF_PI[t]
    shifted = fma(x, TWO_OVER_PI, MAGIC[t])
    n = shifted - MAGIC[t]
    first = exact_fma(n, -high, x)
    part, part_low = multiply_pair(n, middle)
    r = first - part
    error = ((first - r) - part) - part_low
    return r, fma(n, -low, error), bits(shifted)


def sin_pair(r: Scalar, error: Scalar) -> tuple[Scalar, Scalar]:
    """sin(r + error) for |r| <= pi/4, as a sum."""
    z = r * r
    return r, fma(z * r, polynomial(z, c.SIN_F64 if dtype_of(r) == "f64" else c.SIN_F32), error)


def cos_pair(r: Scalar, error: Scalar) -> tuple[Scalar, Scalar]:
    """cos(r + error) for |r| <= pi/4, as a sum."""
    z = r * r
    half = 0.5 * z
    high = 1.0 - half
    lost = (1.0 - high) - half
    p = polynomial(z, c.COS_F64 if dtype_of(r) == "f64" else c.COS_F32)
    return high, fma(z * z, p, fma(-r, error, lost))


def finish_sin(reduced: Reduced, quadrant: int) -> Scalar:
    """sin(r + error + (n + quadrant) pi/2)."""
    r, error, n = reduced
    t = dtype_of(r)
    if quadrant:
        n = n + quadrant
    odd = (n & 1) != 0
    (sine, sine_low), (cosine, cosine_low) = sin_pair(r, error), cos_pair(r, error)
    value = select(odd, cosine, sine) + select(odd, cosine_low, sine_low)
    return from_bits(bits(value) ^ ((n << SIGN_SHIFT[t]) & SIGN[t]))


def finish_tan(reduced: Reduced) -> Scalar:
    """The quotient of the two sums, its rounding error put back."""
    r, error, n = reduced
    (sine, sine_low), (cosine, cosine_low) = sin_pair(r, error), cos_pair(r, error)
    odd = (n & 1) != 0
    top, top_low = add_fast(select(odd, -cosine, sine), select(odd, -cosine_low, sine_low))
    bottom, bottom_low = add_fast(select(odd, sine, cosine), select(odd, sine_low, cosine_low))
    inverse = 1.0 / bottom
    quotient = top * inverse
    rest = exact_fma(-quotient, bottom, top) + fma(-quotient, bottom_low, top_low)
    return fma(rest, inverse, quotient)


def over(x: Scalar) -> Scalar:
    """Whether the reduction needs the long way."""
    return fabs(x) > LIMIT[dtype_of(x)]


@rare(over, "f64")
def sin_large(x: Scalar) -> Scalar:
    return finish_sin(reduce_large(x), 0)


@rare(over, "f64")
def cos_large(x: Scalar) -> Scalar:
    return finish_sin(reduce_large(x), 1)


@rare(over, "f64")
def tan_large(x: Scalar) -> Scalar:
    return finish_tan(reduce_large(x))


@rare(over, "f32")
def sin_wide(x: Scalar) -> Scalar:
    return convert(finish_sin(reduce_large(convert(x, "f64")), 0), "f32")


@rare(over, "f32")
def cos_wide(x: Scalar) -> Scalar:
    return convert(finish_sin(reduce_large(convert(x, "f64")), 1), "f32")


@rare(over, "f32")
def tan_wide(x: Scalar) -> Scalar:
    return convert(finish_tan(reduce_large(convert(x, "f64"))), "f32")


def sin_near(x: Scalar, n: Scalar, low_bits: Scalar) -> Scalar:
    """sin(x - n pi), negated where the lowest of the bits is set; |x| is under the limit.

    Two of the three subtractions are exact, or cancel so far that their rounding does not matter.
    """
    t = dtype_of(x)
    high, middle, low = PI[t]
    y = exact_fma(n, -low, exact_fma(n, -middle, exact_fma(n, -high, x)))
    z = y * y
    value = fma(y * z, polynomial(z, c.SIN_WIDE_F64 if t == "f64" else c.SIN_WIDE_F32), y)
    return from_bits(bits(value) ^ (low_bits << (SIGN_SHIFT[t] + 1)))


@define("sin", "f32", "f64")
def sin(x: Scalar) -> Scalar:
    t = dtype_of(x)
    large = sin_large(x) if t == "f64" else sin_wide(x)
    shifted = fma(x, ONE_OVER_PI, MAGIC[t])
    near = sin_near(x, shifted - MAGIC[t], bits(shifted))
    return select(over(x), large, select(x == 0.0, x, near))


@define("cos", "f32", "f64")
def cos(x: Scalar) -> Scalar:
    t = dtype_of(x)
    large = cos_large(x) if t == "f64" else cos_wide(x)
    # cos(x) = (-1)**m sin(x - (m - 1/2) pi)
    shifted = fma(x, ONE_OVER_PI, 0.5) + MAGIC[t]
    near = sin_near(x, (shifted - MAGIC[t]) - 0.5, bits(shifted))
    return select(over(x), large, near)


@define("tan", "f32", "f64")
def tan(x: Scalar) -> Scalar:
    large = tan_large(x) if dtype_of(x) == "f64" else tan_wide(x)
    near = select(x == 0.0, x, finish_tan(reduce_small(x)))
    return select(over(x), large, near)
