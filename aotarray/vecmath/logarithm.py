"""log, log2, log10, log1p, the inverse hyperbolics made from it, logaddexp and logaddexp2.

Method: x = 2**k m with m in [sqrt(1/2), sqrt(2)), f = m - 1, s = f / (2 + f), and
log(1 + f) = f - f*f/2 + s (f*f/2 + R(s*s)) with R minimax (P. T. P. Tang, ACM TOMS 16(4), 1990; K. C. Ng's
form). The exponent becomes a float by putting its bits under those of 2**52, which no instruction set lacks.
"""

from __future__ import annotations

from aotarray.vecmath import coefficients as c
from aotarray.vecmath.exponential import exp, exp2
from aotarray.vecmath.primitives import (
    Scalar,
    add_fast,
    bits,
    constant,
    copysign,
    dtype_of,
    exact_fma,
    fabs,
    fma,
    from_bits,
    maximum,
    minimum,
    polynomial,
    select,
    sqrt,
)
from aotarray.vecmath.registry import define

INFINITY = float("inf")
NAN = float("nan")
ONE = {"f64": 0x3FF0000000000000, "f32": 0x3F800000}
SQRT_HALF = {"f64": 0x3FE6A09E667F3BCD, "f32": 0x3F3504F3}
MANTISSA = {"f64": 0x000FFFFFFFFFFFFF, "f32": 0x007FFFFF}
TWO_SHIFT = {"f64": 0x4330000000000000, "f32": 0x4B000000}
SHIFT = {"f64": 52, "f32": 23}
BIAS = {"f64": 1023, "f32": 127}
TINY = {"f64": 2.0**-1022, "f32": 2.0**-126}
LN2_HIGH = {"f64": 0.6931471805601177, "f32": 0.693145751953125}  # 41 and 15 bits: k * high is exact
LN2_LOW = {"f64": -1.7239444525614835e-13, "f32": 1.428606765330187e-06}


def split_exponent(x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """m - 1 with m in [sqrt(1/2), sqrt(2)), the float 2**shift + k + bias, and its bits, for a normal x."""
    t = dtype_of(x)
    u = bits(x) + (ONE[t] - SQRT_HALF[t])
    m = from_bits((u & MANTISSA[t]) + SQRT_HALF[t])
    exponent = u >> SHIFT[t]
    return m - 1.0, from_bits(exponent | TWO_SHIFT[t]), exponent


def log_parts(f: Scalar) -> Scalar:
    """log(1 + f) - f for f in [sqrt(1/2) - 1, sqrt(2) - 1]."""
    if dtype_of(f) == "f32":  # a longer polynomial takes less time than the division
        return f * f * polynomial(f, c.LOG_F32)
    half_square = 0.5 * f * f
    s = f / (f + 2.0)
    z = s * s
    return fma(s, half_square + z * polynomial(z, c.LOG_F64), -half_square)


def normalise(x: Scalar) -> tuple[Scalar, Scalar]:
    """m - 1 and k as a float, with x = 2**k m; x may be subnormal."""
    t = dtype_of(x)
    small = x < TINY[t]
    extra = SHIFT[t] + 2
    f, biased, _ = split_exponent(select(small, x * 2.0**extra, x))
    offset = 2.0 ** SHIFT[t] + BIAS[t]
    return f, biased - select(small, constant(offset + extra, x), constant(offset, x))


def special_log(x: Scalar, result: Scalar, pole: float = 0.0) -> Scalar:
    """The logarithm's values at its pole, below it (NaN), at infinity and NaN."""
    result = select(x < INFINITY, result, x)
    return select(x > pole, result, select(x == pole, constant(-INFINITY, x), constant(NAN, x)))


@define("log", "f32", "f64")
def log(x: Scalar) -> Scalar:
    t = dtype_of(x)
    f, k = normalise(x)
    result = fma(k, LN2_HIGH[t], f + fma(k, LN2_LOW[t], log_parts(f)))
    return special_log(x, result)


def scaled_log(x: Scalar, high: float, low: float, unit_high: float, unit_low: float) -> Scalar:
    """log(x) * (high + low), where log(2) times that is unit_high + unit_low."""
    f, k = normalise(x)
    tail = log_parts(f)
    p = f * high
    error = exact_fma(f, high, -p)
    rest = fma(tail, high, fma(f, low, error))
    if unit_low:
        rest = fma(k, unit_low, rest)
    big = k * unit_high
    total = big + p
    return special_log(x, total + (((big - total) + p) + rest))


@define("log2", "f64")
def log2(x: Scalar) -> Scalar:
    return scaled_log(x, 1.4426950408889634, 2.0355273740931033e-17, 1.0, 0.0)


@define("log2", "f32")
def log2_f32(x: Scalar) -> Scalar:
    return scaled_log(x, 1.4426950216293335, 1.925963033500011e-08, 1.0, 0.0)


@define("log10", "f64")
def log10(x: Scalar) -> Scalar:
    return scaled_log(
        x, 0.4342944819032518, 1.098319650216765e-17, 0.3010299956640665, -8.532344317057107e-14
    )


@define("log10", "f32")
def log10_f32(x: Scalar) -> Scalar:
    return scaled_log(x, 0.4342944920063019, -1.0103049952192578e-08, 0.301025390625, 4.605039066518657e-06)


def log1p_core(x: Scalar, low: Scalar = None, doublings: Scalar = None) -> Scalar:
    """log1p(x + low) + doublings * ln2, for -1 < x < inf; 1 + x's rounding error is put back, scaled."""
    t = dtype_of(x)
    u = x + 1.0
    b = u - x
    lost = (x - (u - b)) + (1.0 - b)
    if low is not None:
        lost = lost + low
    m1, biased, exponent = split_exponent(u)
    lost = lost * from_bits((2 * BIAS[t] - exponent) << SHIFT[t])
    lost = select(x < 2.0**60, lost, 0.0)
    f = m1 + lost
    lost = (m1 - f) + lost
    k = biased - (2.0 ** SHIFT[t] + BIAS[t])
    if doublings is not None:
        k = k + doublings
    total, rest = add_fast(k * LN2_HIGH[t], f)
    return total + (rest + (lost + fma(k, LN2_LOW[t], log_parts(f))))


@define("log1p", "f32", "f64")
def log1p(x: Scalar) -> Scalar:
    return special_log(x, select(fabs(x) < 1e-20, x, log1p_core(x)), -1.0)


@define("arctanh", "f32", "f64")
def arctanh(x: Scalar) -> Scalar:
    a = fabs(x)
    divisor, divisor_low = add_fast(constant(1.0, x), -a)
    inverse = 1.0 / divisor
    quotient = (a + a) * inverse
    low = (exact_fma(-quotient, divisor, a + a) - quotient * divisor_low) * inverse
    result = 0.5 * special_log(-a, log1p_core(quotient, low), -1.0)
    result = select(a == 1.0, constant(INFINITY, x), select(a < 1e-18, a, result))
    return copysign(result, x)


@define("arcsinh", "f32", "f64")
def arcsinh(x: Scalar) -> Scalar:
    a = fabs(x)
    big = a > 2.0**55
    bounded = minimum(a, 2.0**55)
    square = bounded * bounded
    t = bounded + square / (sqrt(square + 1.0) + 1.0)
    t = select(big, a, t)
    result = log1p_core(t, None, select(big, constant(1.0, x), constant(0.0, x)))
    result = select(a < INFINITY, result, a)
    return copysign(select(a < 1e-10, a, result), x)


@define("arccosh", "f32", "f64")
def arccosh(x: Scalar) -> Scalar:
    big = x > 2.0**55
    t = minimum(x, 2.0**55) - 1.0
    t = t + sqrt(fma(t, t, t + t))
    t = select(big, x, t)
    result = log1p_core(t, None, select(big, constant(1.0, x), constant(0.0, x)))
    result = select(x < INFINITY, result, x)
    return select(x < 1.0, constant(NAN, x), result)


def add_exponentials(a: Scalar, b: Scalar, gap: Scalar, doubled: float, scale: float) -> Scalar:
    high, low = maximum(a, b), minimum(a, b)
    result = high + scale * log1p_core(gap)
    result = select(a == b, a + doubled, result)
    result = select(low == -INFINITY, high + 0.0, result)
    result = select(high == INFINITY, high, result)
    return select(a != a, a, select(b != b, b, result))


@define("logaddexp", "f32", "f64")
def logaddexp(a: Scalar, b: Scalar) -> Scalar:
    return add_exponentials(a, b, exp(-fabs(a - b)), 0.6931471805599453, 1.0)


@define("logaddexp2", "f32", "f64")
def logaddexp2(a: Scalar, b: Scalar) -> Scalar:
    return add_exponentials(a, b, exp2(-fabs(a - b)), 1.0, 1.4426950408889634)
