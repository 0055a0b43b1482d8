"""Exact functions of floats: rounding, signs, neighbours, NaN and infinity, fmod and floor division."""

from __future__ import annotations

import numpy as np

from aotarray.vecmath import primitives as p
from aotarray.vecmath.primitives import (
    Scalar,
    bits,
    constant,
    copysign,
    dtype_of,
    exact_fma,
    fabs,
    from_bits,
    select,
)
from aotarray.vecmath.registry import define, rare

INFINITY = float("inf")
NAN = float("nan")
SIGN = {"f64": 1 << 63, "f32": 1 << 31}

define("sqrt", "f32", "f64")(lambda x: p.sqrt(x))
define("fabs", "f32", "f64")(lambda x: p.fabs(x))
define("floor", "f32", "f64")(lambda x: p.floor(x))
define("ceil", "f32", "f64")(lambda x: p.ceil(x))
define("trunc", "f32", "f64")(lambda x: p.trunc(x))
define("rint", "f32", "f64")(lambda x: p.rint(x))
define("copysign", "f32", "f64")(lambda x, sign: p.copysign(x, sign))
define("absolute", "f32", "f64")(lambda x: p.fabs(x))
define("square", "f32", "f64")(lambda x: x * x)
define("reciprocal", "f32", "f64")(lambda x: 1.0 / x)
define("isnan", "f32", "f64", result="bool")(lambda x: x != x)
define("isinf", "f32", "f64", result="bool")(lambda x: fabs(x) == INFINITY)
define("isfinite", "f32", "f64", result="bool")(lambda x: fabs(x) < INFINITY)
define("signbit", "f32", "f64", result="bool")(lambda x: (bits(x) & SIGN[dtype_of(x)]) != 0)


# NumPy computes the factor in the operand's own format: float32(180) / float32(pi).
DEGREES = {"f64": 57.29577951308232, "f32": 57.295776}
define("deg2rad", "f32", "f64")(lambda x: x * 0.017453292519943295)
define("radians", "f32", "f64")(lambda x: x * 0.017453292519943295)
define("rad2deg", "f32", "f64")(lambda x: x * DEGREES[dtype_of(x)])
define("degrees", "f32", "f64")(lambda x: x * DEGREES[dtype_of(x)])


@define("maximum", "f32", "f64")
def maximum(a: Scalar, b: Scalar) -> Scalar:
    """NumPy on x86-64: the second of two equal zeros, NaN if either is."""
    return select((a > b) | (a != a), a, b)


@define("minimum", "f32", "f64")
def minimum(a: Scalar, b: Scalar) -> Scalar:
    return select((a < b) | (a != a), a, b)


@define("fmax", "f32", "f64")
def fmax(a: Scalar, b: Scalar) -> Scalar:
    return select((a > b) | (b != b), a, b)


@define("fmin", "f32", "f64")
def fmin(a: Scalar, b: Scalar) -> Scalar:
    return select((a < b) | (b != b), a, b)


@define("sign", "f32", "f64")
def sign(x: Scalar) -> Scalar:
    one = constant(1.0, x)
    return select(x > 0.0, one, select(x < 0.0, -one, select(x == 0.0, constant(0.0, x), x)))


@define("heaviside", "f32", "f64")
def heaviside(x: Scalar, at_zero: Scalar) -> Scalar:
    known = select(x < 0.0, constant(0.0, x), constant(1.0, x))
    return select(x != x, x, select(x == 0.0, at_zero, known))


@define("nextafter", "f32", "f64")
def nextafter(x: Scalar, y: Scalar) -> Scalar:
    word = bits(x)
    away = (y > x) == (x > 0.0)
    moved = from_bits(select(away, word + 1, word - 1))
    smallest = copysign(from_bits(word * 0 + 1), y)
    moved = select(x == 0.0, smallest, moved)
    result = select(x == y, y, moved)
    return select((x != x) | (y != y), x + y, result)


@define("spacing", "f32", "f64")
def spacing(x: Scalar) -> Scalar:
    a = fabs(x)
    step = from_bits(bits(a) + 1) - a
    signed = select(x == 0.0, step, copysign(step, x))
    return select(a < INFINITY, signed, x - x)


# fmod. Where |a/b| < 2**52 the truncated quotient is right or one too large, and the remainder by it is a
# float, which one fused multiply-add gives exactly. The rest, and the special values, are a rare call of C's
# fmod.
def _far(a: Scalar, b: Scalar) -> Scalar:
    top, bottom, ratio = (
        (2.0**990, 2.0**-960, 2.0**52) if dtype_of(a) == "f64" else (2.0**126, 2.0**-100, 2.0**23)
    )
    a, b = fabs(a), fabs(b)
    return ((a < top) & (b < top) & (b > bottom) & (a / b < ratio)) == (a != a)


@rare(_far, "f64")
def fmod_long(a: Scalar, b: Scalar) -> Scalar:
    return p.instruction("frem", np.fmod, a, b)


@rare(_far, "f32")
def fmod_long_f32(a: Scalar, b: Scalar) -> Scalar:
    return p.instruction("frem", np.fmod, a, b)


@define("fmod", "f32", "f64")
def fmod(a: Scalar, b: Scalar) -> Scalar:
    x, y = fabs(a), fabs(b)
    r = exact_fma(-p.trunc(x / y), y, x)
    r = copysign(select(r < 0.0, r + y, r), a)
    long = fmod_long(a, b) if dtype_of(a) == "f64" else fmod_long_f32(a, b)
    return select(_far(a, b), long, r)


# NumPy's npy_divmod (numpy/_core/src/npymath): Python's rule, from C's fmod.
def _python_mod(a: Scalar, b: Scalar, mod: Scalar) -> tuple[Scalar, Scalar]:
    """Whether the remainder takes the divisor's sign, and the remainder."""
    wrong = (mod != 0.0) & ((b < 0.0) != (mod < 0.0))
    return wrong, select(mod == 0.0, copysign(mod, b), select(wrong, mod + b, mod))


@define("remainder", "f32", "f64")
def remainder(a: Scalar, b: Scalar) -> Scalar:
    mod = fmod(a, b)
    return select(b == 0.0, mod, _python_mod(a, b, mod)[1])


@define("floor_divide", "f32", "f64")
def floor_divide(a: Scalar, b: Scalar) -> Scalar:
    mod = fmod(a, b)
    wrong, _ = _python_mod(a, b, mod)
    div = (a - mod) / b
    div = select(wrong, div - 1.0, div)
    low = p.floor(div)
    rounded = select(div - low > 0.5, low + 1.0, low)
    ratio = a / b
    rounded = select(div == 0.0, copysign(constant(0.0, a), ratio), rounded)
    return select(b == 0.0, ratio, rounded)
