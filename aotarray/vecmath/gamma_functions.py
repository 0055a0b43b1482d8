"""gammaln, gamma and digamma.

Up to 8, recurrence leads into [1, 3), where a polynomial is centred on 2; for gammaln it has the factors of the
zeros 1 and 2, for digamma that of its own (Abramowitz and Stegun, section 6.1 and 6.3). From 8 on Stirling's
series; gamma takes its logarithm from `power`, as a sum of two floats. Below 0 the reflection formulas are a rare
call: near the functions' zeros there the error is small only next to the terms that cancel. float32 goes through
float64.
"""

from __future__ import annotations

from aotarray.vecmath import coefficients as c
from aotarray.vecmath.exponential import F64, clamp, scale_twice
from aotarray.vecmath.logarithm import log, split_exponent
from aotarray.vecmath.power import edge_log, exponent_of, log2_pair
from aotarray.vecmath.primitives import (
    Scalar,
    add_fast,
    constant,
    convert,
    copysign,
    exact_fma,
    fabs,
    fma,
    horner,
    polynomial,
    rint,
    select,
)
from aotarray.vecmath.registry import define, rare

INFINITY = float("inf")
NAN = float("nan")
PI, PI_LOW = 3.141592653589793, 1.2246467991473532e-16
HALF_LOG_TWO_PI_E = 0.4189385332046727  # log(2 pi) / 2 - 1/2
ROOT_TWO_PI_OVER_E = 1.520346901066281  # sqrt(2 pi / e)
LOG2E = (1.4426950408889634, 2.0355273740931033e-17)
#: the zero of digamma, less 2, as a sum
DIGAMMA_ZERO = (-0.5383678550316376, -1.5522348162858677e-17)
#: an argument from which Stirling's series is used, and the one from which recurrence is
FAR, RANGE = 8.0, 3.0
TINY = 1e-20  # gamma(x) is 1/x up to here


def step_down(x: Scalar) -> tuple[Scalar, Scalar]:
    """y below 3 and product with gamma(x) = gamma(y) product, for x < 8."""
    product = constant(1.0, x)
    for _ in range(5):
        below = x - 1.0
        high = x >= RANGE
        product = select(high, product * below, product)
        x = select(high, below, x)
    return x, product


def sin_pi(x: Scalar) -> Scalar:
    """The size of sin(pi x); 0 at integers."""
    fraction = fabs(x - rint(x))
    y = fraction * PI
    z = y * y
    lost = fma(fraction, PI_LOW, exact_fma(fraction, PI, -y))
    return y + fma(y * z, polynomial(z, c.SIN_WIDE_F64), lost * (1.0 - 0.5 * z))


def short_log(a: Scalar) -> Scalar:
    """log of a float64 that a float32 was, not negative, to as many digits as float32 needs."""
    f, biased, _ = split_exponent(a)
    found = fma(biased - (2.0**52 + 1023), 0.6931471805599453, f * polynomial(f, c.LOG_SHORT_F64))
    return edge_log(a, found)


# -- gammaln ---------------------------------------------------------------------------------------
def log_gamma(x: Scalar, wide: bool) -> Scalar:
    """log(gamma(x)) for x >= 0, in float64."""
    logarithm, series = (log, c.LOG_GAMMA_F64) if wide else (short_log, c.LOG_GAMMA_SHORT)
    stirling = c.STIRLING_F64 if wide else c.STIRLING_F64[:3]
    y, product = step_down(x)
    small, far = x < 1.0, x >= FAR
    logs = logarithm(select(small | far, x, product))
    t = select(small, x - 1.0, y - 2.0)
    zeros = t * select(small, x, y - 1.0)
    near = fma(zeros, polynomial(t, series), select(small, -logs, logs))
    inverse = 1.0 / select(far, x, FAR)
    rest = fma(inverse, horner(inverse * inverse, stirling), HALF_LOG_TWO_PI_E)
    return select(far, fma(x - 0.5, logs - 1.0, rest), near)


def reflected_log_gamma(x: Scalar, wide: bool) -> Scalar:
    """log(abs(gamma(x))) for x < 0: log(pi / abs(x sin(pi x))) - log(gamma(-x))."""
    a = fabs(x)
    positive = log_gamma(a, wide)
    found = select(a < TINY, positive, (log if wide else short_log)(PI / (a * sin_pi(a))) - positive)
    return select(rint(a) == a, constant(INFINITY, x), found)


def negative(x: Scalar) -> Scalar:
    return x < 0.0


@rare(negative, "f64")
def gammaln_negative(x: Scalar) -> Scalar:
    return reflected_log_gamma(x, True)


@rare(negative, "f32")
def gammaln_negative_short(x: Scalar) -> Scalar:
    return convert(reflected_log_gamma(convert(x, "f64"), False), "f32")


def choose(x: Scalar, below: Scalar, found: Scalar) -> Scalar:
    """What was found; below 0 what the rare call gave, and NaN for NaN."""
    return select(negative(x), below, select(x != x, x, found))


@define("gammaln", "f64")
def gammaln(x: Scalar) -> Scalar:
    """The logarithm of the size of gamma; scipy's -inf at -inf."""
    found = choose(x, gammaln_negative(x), log_gamma(x, True))
    return select(x == -INFINITY, x, found)


@define("gammaln", "f32")
def gammaln_f32(x: Scalar) -> Scalar:
    found = choose(x, gammaln_negative_short(x), convert(log_gamma(convert(x, "f64"), False), "f32"))
    return select(x == -INFINITY, x, found)


# -- gamma -----------------------------------------------------------------------------------------
def gamma_far(x: Scalar) -> tuple[Scalar, Scalar]:
    """gamma(x) for x >= 8, as a number and bits to `scale_twice` it by: (x/e)**(x - 1/2) sqrt(2 pi/e) (1 + ...)."""
    x = clamp(x, FAR, 190.0)
    f, biased, _ = split_exponent(x)
    high, low = log2_pair(f, biased - (2.0**52 + 1023))
    high, lost = add_fast(high, -constant(LOG2E[0], x))
    low = low + (lost - LOG2E[1])
    half = x - 0.5
    p = half * high
    e, low_bits = exponent_of(p, fma(half, low, exact_fma(half, high, -p)))
    inverse = 1.0 / x
    e = e * ROOT_TWO_PI_OVER_E
    return fma(e, inverse * polynomial(inverse, c.STIRLING_FACTOR_F64), e), low_bits


def gamma_near(x: Scalar, wide: bool) -> tuple[Scalar, Scalar]:
    """gamma(x) for 0 < x < 8, as a quotient."""
    y, product = step_down(x)
    one, two = y < 1.0, y < 2.0
    t = select(one, y, select(two, y - 1.0, y - 2.0))
    value = fma(t, polynomial(t, c.GAMMA_F64 if wide else c.GAMMA_SHORT), 1.0)
    return value * product, select(one, y * (y + 1.0), select(two, y, constant(1.0, x)))


def reflected_gamma(x: Scalar, wide: bool) -> Scalar:
    """gamma(x) for x < 0: pi / (abs(x) sin(pi abs(x)) gamma(-x)), negative where floor(x) is odd."""
    a = fabs(x)
    sine = sin_pi(a)
    value, low_bits = gamma_far(a)
    far = scale_twice(PI / (a * sine * value), 4 * F64.bias - low_bits)
    # The quotient's divisor, a (a + 1) or a, has the factor a too.
    top, _ = gamma_near(select(a < FAR, a, FAR), wide)
    one = constant(1.0, x)
    near = PI * select(a < 1.0, a + 1.0, one) / (select(a < 2.0, one, a) * sine * top)
    found = select(a < FAR, near, far)
    found = select(a < TINY, 1.0 / a, found)
    below = rint(x) - select(rint(x) > x, constant(1.0, x), constant(0.0, x))
    odd = rint(0.5 * below) * 2.0 != below
    found = select(odd, -found, found)
    return select(rint(x) == x, constant(NAN, x), found)


@rare(negative, "f64")
def gamma_negative(x: Scalar) -> Scalar:
    return reflected_gamma(x, True)


@rare(negative, "f32")
def gamma_negative_short(x: Scalar) -> Scalar:
    return convert(reflected_gamma(convert(x, "f64"), False), "f32")


def gamma_positive(x: Scalar, wide: bool) -> Scalar:
    far, low_bits = gamma_far(x)
    top, bottom = gamma_near(x, wide)
    found = select(x < FAR, top / bottom, scale_twice(far, low_bits))
    return select(x == INFINITY, x, found)


@define("gamma", "f64")
def gamma(x: Scalar) -> Scalar:
    found = choose(x, gamma_negative(x), gamma_positive(x, True))
    return select(x == 0.0, copysign(constant(INFINITY, x), x), found)


@define("gamma", "f32")
def gamma_f32(x: Scalar) -> Scalar:
    found = choose(x, gamma_negative_short(x), convert(gamma_positive(convert(x, "f64"), False), "f32"))
    return select(x == 0.0, copysign(constant(INFINITY, x), x), found)


# -- digamma ---------------------------------------------------------------------------------------
def digamma_positive(x: Scalar, wide: bool) -> Scalar:
    """digamma(x) for x > 0, in float64."""
    logarithm, series = (log, c.DIGAMMA_F64) if wide else (short_log, c.DIGAMMA_SHORT)
    rest = c.DIGAMMA_FAR_F64 if wide else c.DIGAMMA_FAR_F64[:3]
    y, top, bottom = x, constant(0.0, x), constant(1.0, x)  # top / bottom is the sum of 1 / (x - k)
    for _ in range(5):
        below = y - 1.0
        high = y >= RANGE
        top, bottom = select(high, fma(top, below, bottom), top), select(high, bottom * below, bottom)
        y = select(high, below, y)
    small = x < 1.0
    top, bottom = select(small, constant(-1.0, x), top), select(small, x, bottom)
    t = select(small, x - 1.0, y - 2.0)
    near = fma((t - DIGAMMA_ZERO[0]) - DIGAMMA_ZERO[1], polynomial(t, series), top / bottom)
    a = select(x < FAR, FAR, x)
    inverse = 1.0 / a
    tail = inverse * fma(inverse, horner(inverse * inverse, rest), 0.5)
    return select(x < FAR, near, logarithm(a) - tail)


def reflected_digamma(x: Scalar, wide: bool) -> Scalar:
    """digamma(x) for x < 0: digamma(-x) - 1/x - pi cot(pi x)."""
    a = fabs(x)
    fraction = a - rint(a)
    cotangent = copysign(sin_pi(0.5 - fabs(fraction)) / sin_pi(fraction), fraction)
    found = fma(PI, cotangent, digamma_positive(a, wide) + 1.0 / a)
    return select(rint(a) == a, constant(NAN, x), found)


@rare(negative, "f64")
def digamma_negative(x: Scalar) -> Scalar:
    return reflected_digamma(x, True)


@rare(negative, "f32")
def digamma_negative_short(x: Scalar) -> Scalar:
    return convert(reflected_digamma(convert(x, "f64"), False), "f32")


@define("digamma", "f64")
def digamma(x: Scalar) -> Scalar:
    found = choose(x, digamma_negative(x), digamma_positive(x, True))
    return select(x == 0.0, copysign(constant(INFINITY, x), -x), found)


@define("digamma", "f32")
def digamma_f32(x: Scalar) -> Scalar:
    found = choose(x, digamma_negative_short(x), convert(digamma_positive(convert(x, "f64"), False), "f32"))
    return select(x == 0.0, copysign(constant(INFINITY, x), -x), found)
