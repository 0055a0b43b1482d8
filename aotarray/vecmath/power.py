"""power, cbrt and hypot.

power: log(x) to about 2**-66 as a sum of two floats, times y as such a sum, and exp of that (Muller,
Elementary Functions, 3rd ed., section 11.4 on x**y). float32 goes through float64, where none of that is
needed: a float32 log of enough bits takes as many operations in pairs of floats.
cbrt: a polynomial near x**(-1/3), one step of higher order, one of Newton's with an exact residual; no
division.
"""

from __future__ import annotations

from aotarray.vecmath import coefficients as c
from aotarray.vecmath.exponential import F64, clamp, reduce_exp, scale_twice
from aotarray.vecmath.logarithm import (
    LN2_HIGH,
    LN2_LOW,
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
from aotarray.vecmath.registry import define

INFINITY = float("inf")
NAN = float("nan")
TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)


def log_pair(x: Scalar) -> tuple[Scalar, Scalar]:
    """log(x) as a sum of two floats, for finite x > 0 in float64."""
    f, k = normalise(x)
    g = f + 2.0
    g_low = f - (g - 2.0)
    inverse = 1.0 / g
    s = f * inverse
    s_low = (exact_fma(-s, g, f) - s * g_low) * inverse
    z, z_low = multiply_pair(s, s)
    z_low = fma(2.0 * s, s_low, z_low)
    # log(m) = 2 s + s z (2/3 + z R(z))
    w = z * polynomial(z, c.LOG_TAIL_F64)
    q, q_low = add_fast(constant(TWO_THIRDS[0], x), w)
    q_low = q_low + TWO_THIRDS[1]
    t, t_low = multiply_pair(z, q)
    t_low = t_low + fma(z, q_low, z_low * q)
    u, u_low = multiply_pair(s, t)
    u_low = u_low + fma(s, t_low, s_low * t)
    high, low = add_fast(2.0 * s, u)
    low = low + (u_low + 2.0 * s_low)
    total, rest = add_fast(k * LN2_HIGH["f64"], high)
    rest = rest + fma(k, LN2_LOW["f64"], low)
    return add_fast(total, rest)


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


@define("power", "f64")
def power(x: Scalar, y: Scalar) -> Scalar:
    a = fabs(x)
    high, low = log_pair(a)
    exponent = clamp(y, -(2.0**80), 2.0**80)
    high = edge_log(a, high)
    p = exponent * high
    p_low = fma(exponent, low, exact_fma(exponent, high, -p))
    p_low = select(fabs(p) < 1000.0, p_low, 0.0)
    p = clamp(p, F64.bottom, F64.top)
    _, r, low_bits = reduce_exp(p, 2 * F64.bias)
    r = r + p_low
    e = fma(r * r, polynomial(r, c.EXP_F64), r) + 1.0
    return special_power(x, y, scale_twice(e, low_bits))


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
