"""exp, exp2, expm1, sinh, cosh and tanh.

Method: Cody and Waite's reduction x = n ln2 + r, a polynomial in r, and the factor 2**n put together from its
bits (Muller, Elementary Functions, 3rd ed., chapters 5 and 11). The magic-number addition rounds x/ln2 and
leaves n in the low bits of the sum, which no instruction set lacks. The factor is applied in two halves
where it may leave the normal range, so overflow and gradual underflow come from the multiplications
themselves.
"""

from __future__ import annotations

from typing import NamedTuple

from aotarray.vecmath import coefficients as c
from aotarray.vecmath.primitives import (
    Scalar,
    bits,
    copysign,
    dtype_of,
    fabs,
    fma,
    from_bits,
    minimum,
    polynomial,
    select,
)
from aotarray.vecmath.registry import define


class Format(NamedTuple):
    """What the exponentials need to know of a float format."""

    shift: int  # bits of the stored mantissa
    bias: int
    magic: float  # 1.5 * 2**shift: adding it rounds to an integer
    ln2_high: float  # short enough that n * ln2_high is exact
    ln2_low: float
    top: float  # exp overflows from here
    bottom: float  # exp is 0 below


F64 = Format(52, 1023, 1.5 * 2.0**52, 0.6931471805601177, -1.7239444525614835e-13, 710.0, -746.0)
F32 = Format(23, 127, 1.5 * 2.0**23, 0.693145751953125, 1.4286067653302227e-06, 89.0, -104.5)
LOG2E = 1.4426950408889634


def format_of(x: Scalar) -> Format:
    return F64 if dtype_of(x) == "f64" else F32


def clamp(x: Scalar, low: float, high: float) -> Scalar:
    """x between two constants; NaN stays NaN."""
    x = select(x > high, high, x)
    return select(x < low, low, x)


def reduce_exp(x: Scalar, offset: int) -> tuple[Scalar, Scalar, Scalar]:
    """n, r and low bits that hold n + offset, where x = n ln2 + r."""
    f = format_of(x)
    shifted = fma(x, LOG2E, f.magic + offset)
    n = shifted - (f.magic + offset)
    r = fma(n, -f.ln2_low, fma(n, -f.ln2_high, x))
    return n, r, bits(shifted)


def scale_twice(p: Scalar, low_bits: Scalar) -> Scalar:
    """p * 2**n, where the low bits hold n + 2 bias."""
    shift = format_of(p).shift
    half = low_bits >> 1
    first, second = from_bits(half << shift), from_bits((low_bits - half) << shift)
    return p * first * second


@define("exp", "f32", "f64")
def exp(x: Scalar) -> Scalar:
    f = format_of(x)
    x = clamp(x, f.bottom, f.top)
    _, r, low_bits = reduce_exp(x, 2 * f.bias)
    q = polynomial(r, c.EXP_F64 if f is F64 else c.EXP_F32)
    return scale_twice(fma(r * r, q, r) + 1.0, low_bits)


@define("exp2", "f32", "f64")
def exp2(x: Scalar) -> Scalar:
    f = format_of(x)
    x = clamp(x, -f.bias - f.shift - 2.0, f.bias + 2.0)
    magic = f.magic + 2 * f.bias
    shifted = x + magic
    r = x - (shifted - magic)
    p = polynomial(r, c.EXP2_F64 if f is F64 else c.EXP2_F32)
    return scale_twice(fma(r, p, 1.0), bits(shifted))


def reduce_exp_pair(x: Scalar, offset: int) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """As `reduce_exp`, with the rounding error of r after it."""
    f = format_of(x)
    shifted = fma(x, LOG2E, f.magic + offset)
    n = shifted - (f.magic + offset)
    exact = fma(n, -f.ln2_high, x)
    r = fma(n, -f.ln2_low, exact)
    return n, r, fma(n, -f.ln2_low, exact - r), bits(shifted)


def expm1_parts(x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """r, t and s with exp(x) - 1 = 2 (s (r + t) + (s - 1/2)); x is within the range of exp, and over -80."""
    f = format_of(x)
    _, r, lost, low_bits = reduce_exp_pair(x, f.bias - 1)
    s = from_bits(low_bits << f.shift)
    q = polynomial(r, c.EXP_F64 if f is F64 else c.EXP_F32)
    return r, fma(r * r, q, lost), s


@define("expm1", "f32", "f64")
def expm1(x: Scalar) -> Scalar:
    r, t, s = expm1_parts(clamp(x, -50.0, format_of(x).top))
    result = 2.0 * fma(s, t, fma(s, r, s - 0.5))
    return select(fabs(x) < 1e-20, x, result)


@define("tanh", "f32", "f64")
def tanh(x: Scalar) -> Scalar:
    limit = 20.0 if format_of(x) is F64 else 10.0
    a = minimum(fabs(x), limit)
    r, t, s = expm1_parts(a + a)
    half = fma(s, t, fma(s, r, s - 0.5))
    return copysign(half / (half + 1.0), x)


def sinh_cosh_parts(x: Scalar) -> tuple[Scalar, Scalar, Scalar, Scalar, Scalar]:
    """d, s, e, r, o with sinh|x| = 2 (d (1 + e) + s (r + o)) and cosh|x| = 2 (s (1 + e) + d (r + o))."""
    f = format_of(x)
    a = minimum(fabs(x), 710.6 if f is F64 else 89.5)
    n, r, lost, low_bits = reduce_exp_pair(a, f.bias - 2)
    up = from_bits(low_bits << f.shift)
    down = from_bits((2 * (f.bias - 2) - low_bits) << f.shift)
    down = select(n < f.shift + 10.0, down, 0.0)
    z = r * r
    o = fma(r * z, polynomial(z, c.SINH_F64 if f is F64 else c.SINH_F32), lost)
    e = z * polynomial(z, c.COSH_F64 if f is F64 else c.COSH_F32)
    return up - down, up + down, e, r, o


@define("sinh", "f32", "f64")
def sinh(x: Scalar) -> Scalar:
    d, s, e, r, o = sinh_cosh_parts(x)
    high = fma(s, r, d)
    lost = fma(s, r, d - high)
    result = copysign((high + (fma(d, e, s * o) + lost)) * 2.0, x)
    return select(fabs(x) < 1e-20, x, result)


@define("cosh", "f32", "f64")
def cosh(x: Scalar) -> Scalar:
    d, s, e, r, o = sinh_cosh_parts(x)
    high = fma(d, r, s)
    lost = fma(d, r, s - high)
    return (high + (fma(s, e, d * o) + lost)) * 2.0
