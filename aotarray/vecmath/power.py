"""power, cbrt and hypot.

power: log2(x) to about 2**-66 as a sum of two floats, times y as such a sum, and exp2 of that (Muller,
Elementary Functions, 3rd ed., section 11.4 on x**y). In float64 special values and results that are not normal
are a rare call. float32 goes through float64, where none of that is needed: a float32 log of enough bits takes
as many operations in pairs of floats. Known exponents (`KNOWN_POWERS`) have functions of their own: a square
root, products and a division.
cbrt: a polynomial near x**(-1/3), one step of higher order, one of Newton's with an exact residual; no
division.
"""

from __future__ import annotations

from aotarray.ops.names import KNOWN_POWERS
from aotarray.vecmath import coefficients as c
from aotarray.vecmath.exponential import F64, clamp, reduce_exp, scale_twice
from aotarray.vecmath.logarithm import (
    MANTISSA,
    ONE,
    SHIFT,
    TINY,
    TWO_SHIFT,
    normalise,
    split_exponent,
)
from aotarray.vecmath.primitives import (
    Scalar,
    add_fast,
    bits,
    constant,
    convert,
    copysign,
    dtype_of,
    exact_fma,
    fabs,
    floor,
    fma,
    from_bits,
    multiply_pair,
    polynomial,
    rint,
    select,
    sqrt,
)
from aotarray.vecmath.registry import define, rare

INFINITY = float("inf")
NAN = float("nan")
#: 2/ln2 and 2/3/ln2, each as a sum
TWO_LN2 = (2.8853900817779268, 4.0710547481862066e-17)
TWO_THIRDS_LN2 = (0.9617966939259756, 5.0577616648125907e-17)
LOG2_TAIL = tuple(1.4426950408889634 * term for term in c.LOG_TAIL_F64)


def log2_pair(f: Scalar, k: Scalar) -> tuple[Scalar, Scalar]:
    """log2((1 + f) 2**k) as a sum of two floats in float64, the second not rounded into the first."""
    g = f + 2.0
    g_low = f - (g - 2.0)
    inverse = 1.0 / g
    s = f * inverse
    s_low = (exact_fma(-s, g, f) - s * g_low) * inverse
    z, z_low = multiply_pair(s, s)
    z_low = fma(2.0 * s, s_low, z_low)
    # log2(m) = s (2/ln2 + z (2/3/ln2 + z R(z)/ln2))
    q, q_low = add_fast(constant(TWO_THIRDS_LN2[0], f), z * polynomial(z, LOG2_TAIL))
    t, t_low = multiply_pair(z, q)
    t_low = fma(z, q_low + TWO_THIRDS_LN2[1], fma(z_low, q, t_low))
    v, v_low = add_fast(constant(TWO_LN2[0], f), t)
    u, u_low = multiply_pair(s, v)
    u_low = fma(s, v_low + (t_low + TWO_LN2[1]), fma(s_low, v, u_low))
    high, low = add_fast(k, u)
    return high, low + u_low


def special_power(x: Scalar, y: Scalar, magnitude: Scalar) -> Scalar:
    """x**y from |x|**y, with the sign of odd integer powers and C's special values."""
    whole = rint(y) == y
    half = 0.5 * y
    odd = whole & (rint(half) != half)
    negative = x < 0.0
    signed = select(odd, copysign(magnitude, x), magnitude)
    wrong = negative & (x > -INFINITY) & (whole == (y != y))
    result = select(wrong, constant(NAN, x), signed)
    result = select(x != x, x, result)
    return select((y == 0.0) | (x == 1.0), constant(1.0, x), result)


def edge_log(a: Scalar, log: Scalar) -> Scalar:
    """The logarithm of |x| at 0 and infinity."""
    log = select(a == 0.0, constant(-INFINITY, a), log)
    return select(a < INFINITY, log, a)


def exponent_of(p: Scalar, p_low: Scalar) -> tuple[Scalar, Scalar]:
    """2**(p + p_low) as a number near 1 and bits that end in an integer and twice the bias."""
    magic = F64.magic + 2 * F64.bias
    shifted = p + magic
    r = (p - (shifted - magic)) + p_low
    return fma(r, polynomial(r, c.EXP2_F64), 1.0), bits(shifted)


def out_of_range(x: Scalar, p: Scalar, y: Scalar) -> Scalar:
    """Whether x is neither 0 nor a normal number, 2**p is not one, or y is so large that products overflow."""
    a = fabs(x)
    tiny, infinite = (bits(constant(value, a)) for value in (TINY["f64"], INFINITY))
    usual = (bits(a) - tiny < infinite - tiny) | (a == 0.0)
    return (usual & (fabs(p) < 1020.0) & (fabs(y) < 2.0**500)) == (a == -1.0)


def power_anywhere(x: Scalar, y: Scalar) -> Scalar:
    """x**y in float64, whatever they are."""
    a = fabs(x)
    high, low = log2_pair(*normalise(a))
    exponent = clamp(y, -(2.0**80), 2.0**80)
    high = edge_log(a, high)
    p = exponent * high
    p_low = fma(exponent, low, exact_fma(exponent, high, -p))
    p_low = select(fabs(p) < 1100.0, p_low, 0.0)
    e, low_bits = exponent_of(clamp(p, -1080.0, 1030.0), p_low)
    return special_power(x, y, scale_twice(e, low_bits))


@rare(out_of_range, "f64")
def power_long(x: Scalar, p: Scalar, y: Scalar) -> Scalar:
    return power_anywhere(x, y)


@define("power", "f64")
def power(x: Scalar, y: Scalar) -> Scalar:
    a = fabs(x)
    f, biased, _ = split_exponent(a)
    high, low = log2_pair(f, biased - (2.0**52 + 1023))
    p = y * high
    p_low = fma(y, low, exact_fma(y, high, -p))
    zero = a == 0.0
    p = select(zero, y * 0.0, p)
    e, low_bits = exponent_of(p, p_low)
    magnitude = from_bits(bits(e) + ((low_bits - 2 * F64.bias) << F64.shift))
    at_zero = select(y > 0.0, constant(0.0, x), constant(INFINITY, x))
    magnitude = select(zero & (y != 0.0), at_zero, magnitude)
    whole = rint(y) == y
    half = 0.5 * y
    signed = copysign(magnitude, x)
    result = select(whole, select(rint(half) == half, magnitude, signed), select(x < 0.0, NAN, magnitude))
    return select(out_of_range(x, p, y), power_long(x, p, y), result)


@define("power", "f32")
def power_f32(x: Scalar, y: Scalar) -> Scalar:
    a = convert(fabs(x), "f64")
    f, biased, _ = split_exponent(a)
    k = biased - (2.0**52 + 1023)
    high = fma(k, 0.6931471805599453, f * polynomial(f, c.LOG_SHORT_F64))
    exponent = clamp(convert(y, "f64"), -(2.0**80), 2.0**80)
    p = clamp(exponent * edge_log(a, high), -700.0, 700.0)
    _, r, low_bits = reduce_exp(p, F64.bias)
    e = fma(r * r, polynomial(r, c.EXP_SHORT_F64), r) + 1.0
    return special_power(x, y, convert(e * from_bits(low_bits << 52), "f32"))


def is_far(x: Scalar, result: Scalar, y: Scalar) -> Scalar:
    """Whether |x|**y or a step on the way to it may not be a normal number; not for 0."""
    limit = 2.0**900 if dtype_of(x) == "f64" else 2.0**90
    return ((result > 1.0 / limit) & (result < limit)) == (x == 0.0)


@rare(is_far, "f64")
def power_far(x: Scalar, result: Scalar, y: Scalar) -> Scalar:
    return power_anywhere(x, y)


@rare(is_far, "f32")
def power_far_f32(x: Scalar, result: Scalar, y: Scalar) -> Scalar:
    return power_f32(x, y)


def by_products(a: Scalar, twice: int) -> Scalar:
    """a**(twice/2) for a > 0 by products and a square root, in a sum of two floats, which is rounded at the end."""
    square, low = multiply_pair(a, a)
    if twice == 4:
        return square
    if twice == 6:
        cube, cube_low = multiply_pair(square, a)
        return cube + fma(low, a, cube_low)
    if twice == 8:
        fourth, fourth_low = multiply_pair(square, square)
        return fourth + fma(2.0 * square, low, fourth_low)
    root = sqrt(a)
    if twice == 1:
        return root
    residual = exact_fma(-root, root, a)  # sqrt(a) is root + residual / (2 root)
    if twice == 3:
        product, product_low = multiply_pair(a, root)
        return product + fma(0.5 * root, residual, product_low)
    product, product_low = multiply_pair(square, root)
    return product + fma(root, fma(0.5 * a, residual, low), product_low)


def define_power(name: str, twice: int) -> None:
    """Define x**(twice/2): at most one more rounding than the correct one; what is far from 1 is a rare call."""

    def body(x: Scalar) -> Scalar:
        a = fabs(x)
        magnitude = by_products(a, abs(twice))
        magnitude = 1.0 / magnitude if twice < 0 else magnitude
        result = magnitude
        if twice % 2:
            result = select((x < 0.0) & (a < INFINITY), constant(NAN, x), magnitude)
        elif twice % 4:
            result = copysign(magnitude, x)
        if twice == -1:
            return result
        y = constant(0.5 * twice, x)
        far = power_far if dtype_of(x) == "f64" else power_far_f32
        return select(is_far(x, magnitude, y), far(x, magnitude, y), result)

    define(name, "f32", "f64")(body)


for _exponent, _name in KNOWN_POWERS.items():
    define_power(_name, int(2 * _exponent))


CBRT_SUBNORMAL = {"f64": 54, "f32": 24}  # multiples of 3


@define("cbrt", "f32", "f64")
def cbrt(x: Scalar) -> Scalar:
    t = dtype_of(x)
    wide = t == "f64"
    a = fabs(x)
    small = a < TINY[t]
    word = bits(select(small, a * 2.0 ** CBRT_SUBNORMAL[t], a))
    m = from_bits((word & MANTISSA[t]) | ONE[t])
    # The exponent's bias is brought to a multiple of 3, then divided: 3 third + rest.
    offset, bias_third = (0.0, 341) if wide else (2.0, 43)
    exponent = from_bits((word >> SHIFT[t]) | TWO_SHIFT[t]) - (2.0 ** SHIFT[t] - offset)
    third = floor(fma(exponent, 1.0 / 3.0, 0.1))
    rest = fma(third, -3.0, exponent)
    one, two = rest == 1.0, rest == 2.0
    n = m * select(two, constant(4.0, x), select(one, constant(2.0, x), constant(1.0, x)))
    factor = select(one, constant(0.7937005259840998, x), constant(1.0, x))
    factor = select(two, constant(0.6299605249474366, x), factor)
    r = polynomial(m, c.CBRT_F64 if wide else c.CBRT_F32) * factor
    h = fma(-n * r, r * r, 1.0)
    r = fma(r * h, fma(h, 2.0 / 9.0, 1.0 / 3.0), r)
    y = n * r * r
    square = y * y
    residual = fma(-exact_fma(y, y, -square), y, exact_fma(-square, y, n))
    y = fma(residual, r * r * (1.0 / 3.0), y)
    bias = 1023 if wide else 127
    scale = from_bits((bits(third + 2.0 ** SHIFT[t]) + (bias - bias_third)) << SHIFT[t])
    scale = scale * select(small, constant(2.0 ** (-CBRT_SUBNORMAL[t] // 3), x), constant(1.0, x))
    result = copysign(y * scale, x)
    return select((a > 0.0) & (a < INFINITY), result, x)


@define("hypot", "f32", "f64")
def hypot(x: Scalar, y: Scalar) -> Scalar:
    a, b = fabs(x), fabs(y)
    big, small = select(a > b, a, b), select(a > b, b, a)
    top, bottom, step = (
        (2.0**510, 2.0**-450, 2.0**550) if dtype_of(x) == "f64" else (2.0**62, 2.0**-40, 2.0**75)
    )
    over, under = big > top, big < bottom
    one = constant(1.0, x)
    scale = select(over, constant(1.0 / step, x), select(under, constant(step, x), one))
    back = select(over, constant(step, x), select(under, constant(1.0 / step, x), one))
    big, small = big * scale, small * scale
    result = sqrt(fma(big, big, small * small)) * back
    return select((a == INFINITY) | (b == INFINITY), constant(INFINITY, x), result)
