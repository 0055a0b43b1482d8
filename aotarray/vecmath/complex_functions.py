"""Complex elementary functions by parts: `complex_<name>_real(re, im)` and `complex_<name>_imag(re, im)`.

exp, log, sqrt, sign, the sines and their relatives are composed of real functions, in vectors; both parts of one
value share what they have in common once they are inlined. The others call C's complex functions, which NumPy
calls too: one call for both parts. Special values are those of C's Annex G as the GNU C library and NumPy
(numpy/_core/src/umath/funcs.inc.src) have them. exp2 and expm1 are NumPy's formulas, with their loss: of im * ln2
rounded once, and where the two terms of expm1's real part cancel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aotarray.vecmath import coefficients as c
from aotarray.vecmath.exponential import clamp, cosh, exp, expm1, format_of, reduce_exp, sinh
from aotarray.vecmath.inverse_trigonometric import arctan2
from aotarray.vecmath.logarithm import BIAS, MANTISSA, ONE, SHIFT, TWO_SHIFT, log1p_core
from aotarray.vecmath.power import hypot
from aotarray.vecmath.primitives import (
    Scalar,
    bits,
    constant,
    convert,
    copysign,
    dtype_of,
    fabs,
    fma,
    from_bits,
    multiply_pair,
    polynomial,
    select,
    sqrt,
)
from aotarray.vecmath.registry import define, define_imported
from aotarray.vecmath.trace import LLVM, Value
from aotarray.vecmath.trigonometric import cos, sin

INFINITY = float("inf")
NAN = float("nan")
LN2, LOG2E, LOG10E = 0.6931471805599453, 1.4426950408889634, 0.4342944819032518


def _finite(x: Scalar) -> Scalar:
    return fabs(x) < INFINITY


# -- exponentials -----------------------------------------------------------------------------------
def exp_times(x: Scalar, factor: Scalar, halves: int = 0) -> Scalar:
    """exp(x) * factor / 2**halves for |factor| <= 1, which may be in range where exp(x) is not."""
    wide = dtype_of(x) == "f64"
    f = format_of(x)
    top, large, extra = (1480.0, 1400.0, 100) if wide else (195.0, 150.0, 40)
    bounded = clamp(x, f.bottom, top)
    _, r, low_bits = reduce_exp(bounded, 2 * f.bias - halves)
    over = bounded > large
    low_bits = select(over, low_bits - extra, low_bits)  # so that both halves have exponents in range
    half = low_bits >> 1
    first, second = from_bits(half << f.shift), from_bits((low_bits - half) << f.shift)
    value = fma(r * r, polynomial(r, c.EXP_F64 if wide else c.EXP_F32), r) + 1.0
    product = (factor * first) * (value * second)
    return select(over, product * 2.0**extra, product)


@define("complex_exp_real", "f32", "f64")
def exp_real(re: Scalar, im: Scalar) -> Scalar:
    value = exp_times(re, cos(im))
    ends = select(re > 0.0, constant(INFINITY, re), constant(0.0, re))
    return select((fabs(re) == INFINITY) & (_finite(im) == (re != re)), ends, value)


@define("complex_exp_imag", "f32", "f64")
def exp_imag(re: Scalar, im: Scalar) -> Scalar:
    value = select(im == 0.0, im, exp_times(re, sin(im)))
    return select((re == -INFINITY) & (_finite(im) == (re != re)), copysign(constant(0.0, re), im), value)


define("complex_exp2_real", "f32", "f64")(lambda re, im: exp_real(re * LN2, im * LN2))
define("complex_exp2_imag", "f32", "f64")(lambda re, im: exp_imag(re * LN2, im * LN2))


@define("complex_expm1_real", "f32", "f64")
def expm1_real(re: Scalar, im: Scalar) -> Scalar:
    half = sin(im * 0.5)
    return expm1(re) * cos(im) - 2.0 * half * half


@define("complex_expm1_imag", "f32", "f64")
def expm1_imag(re: Scalar, im: Scalar) -> Scalar:
    return exp(re) * sin(im)


def add_exact(a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    """Sum and its rounding error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


# -- logarithms -------------------------------------------------------------------------------------
SIX_TENTHS = 0x3FE3333333333333


def log_magnitude(x: Scalar, y: Scalar, x_low: Scalar = None) -> Scalar:
    """log |x + x_low + iy| in float64: log1p of the squares' exact sum less 1, after scaling by 2**-k.

    The larger part is brought into [0.6, 1.2), so k is 0 wherever the magnitude is near 1.
    """
    t = "f64"
    a, b = fabs(x), fabs(y)
    swapped = b > a
    big, small = select(swapped, b, a), select(swapped, a, b)
    over, under = big > 2.0**1000, big < 2.0**-900
    one = constant(1.0, x)
    scale = select(over, constant(2.0**-64, x), select(under, constant(2.0**128, x), one))
    moved = select(over, constant(64.0, x), select(under, constant(-128.0, x), constant(0.0, x)))
    word = bits(big * scale) + (ONE[t] - SIX_TENTHS)
    m = from_bits((word & MANTISSA[t]) + SIX_TENTHS)
    exponent = word >> SHIFT[t]
    k = from_bits(exponent | TWO_SHIFT[t]) - (2.0 ** SHIFT[t] + BIAS[t]) + moved
    down = from_bits((2 * BIAS[t] - exponent) << SHIFT[t])
    n = small * scale * down
    s, s_low = multiply_pair(m, m)
    q, q_low = multiply_pair(n, n)
    if x_low is not None:
        missing = select(x < 0.0, -x_low, x_low) * scale * down
        q_low = q_low + 2.0 * select(swapped, n, m) * missing
    less, lost = add_exact(s, constant(-1.0, s))
    u, low = add_exact(less, q)
    tail, rest = add_exact(s_low + lost, q_low)
    low, error = add_exact(low, tail)
    u, low = add_exact(u, low)
    result = 0.5 * log1p_core(u, low + (error + rest), k + k)
    result = select(big == 0.0, constant(-INFINITY, x), result)
    result = select((a == INFINITY) | (b == INFINITY), constant(INFINITY, x), result)
    unordered = ((a != a) | (b != b)) & (a != INFINITY) & (b != INFINITY)
    return select(unordered, constant(NAN, x), result)


def log_scaled(re: Scalar, im: Scalar) -> Scalar:
    if dtype_of(re) == "f64":
        return log_magnitude(re, im)
    return convert(log_magnitude(convert(re, "f64"), convert(im, "f64")), "f32")


def log_angle(re: Scalar, im: Scalar) -> Scalar:
    return arctan2(im, re)


define("complex_log_real", "f32", "f64")(lambda re, im: log_scaled(re, im))
define("complex_log_imag", "f32", "f64")(lambda re, im: log_angle(re, im))
define("complex_log2_real", "f32", "f64")(lambda re, im: log_scaled(re, im) * LOG2E)
define("complex_log2_imag", "f32", "f64")(lambda re, im: log_angle(re, im) * LOG2E)
define("complex_log10_real", "f32", "f64")(lambda re, im: log_scaled(re, im) * LOG10E)
define("complex_log10_imag", "f32", "f64")(lambda re, im: log_angle(re, im) * LOG10E)
define("complex_log1p_imag", "f32", "f64")(lambda re, im: log_angle(re + 1.0, im))


@define("complex_log1p_real", "f32", "f64")
def log1p_real(re: Scalar, im: Scalar) -> Scalar:
    """NumPy rounds 1 + re and loses what is near 0; here its rounding error is put back."""
    x, y = convert(re, "f64"), convert(im, "f64")
    total, low = add_exact(x, constant(1.0, x))
    found = log_magnitude(total, y, select(fabs(x) < 2.0**60, low, 0.0))
    found = found if dtype_of(re) == "f64" else convert(found, "f32")
    return select(hypot(re + 1.0, im) == INFINITY, constant(INFINITY, re), found)


# -- square root and sign ---------------------------------------------------------------------------
def _sqrt_parts(re: Scalar, im: Scalar) -> tuple[Scalar, Scalar]:
    """sqrt((|z| + |re|) / 2), and |im| over twice that: the parts of the root, or the other way round."""
    wide = dtype_of(re) == "f64"
    a, b = fabs(re), fabs(im)
    big = select(a > b, a, b)
    top, bottom, step = (2.0**1020, 2.0**-900, 54) if wide else (2.0**124, 2.0**-80, 24)
    over, under = big > top, big < bottom
    one = constant(1.0, re)
    scale = select(over, constant(0.0625, re), select(under, constant(2.0 ** (2 * step), re), one))
    back = select(over, constant(4.0, re), select(under, constant(2.0**-step, re), one))
    a, b = a * scale, b * scale
    first = sqrt(0.5 * (hypot(a, b) + a))
    second = select(first == 0.0, b, b / (first + first))
    return first * back, second * back


@define("complex_sqrt_real", "f32", "f64")
def sqrt_real(re: Scalar, im: Scalar) -> Scalar:
    first, second = _sqrt_parts(re, im)
    value = select(re < 0.0, second, first)
    return select(fabs(im) == INFINITY, constant(INFINITY, re), value)


@define("complex_sqrt_imag", "f32", "f64")
def sqrt_imag(re: Scalar, im: Scalar) -> Scalar:
    first, second = _sqrt_parts(re, im)
    value = copysign(select(re < 0.0, first, second), im)
    return select(fabs(im) == INFINITY, im, value)


@define("complex_sign_real", "f32", "f64")
def sign_real(re: Scalar, im: Scalar) -> Scalar:
    return _sign(re, hypot(re, im), re, im, copysign(constant(1.0, re), re), constant(0.0, re))


@define("complex_sign_imag", "f32", "f64")
def sign_imag(re: Scalar, im: Scalar) -> Scalar:
    return _sign(im, hypot(re, im), re, im, constant(0.0, re), copysign(constant(1.0, re), im))


def _sign(part: Scalar, size: Scalar, re: Scalar, im: Scalar, wide: Scalar, high: Scalar) -> Scalar:
    """A part of z / |z|: `wide` where re is infinite, `high` where only im is, or the size overflows."""
    value = select(size == 0.0, constant(0.0, part), part / size)
    value = select(size == INFINITY, high, value)
    infinite = select(fabs(im) == INFINITY, constant(NAN, part), wide)
    return select(fabs(re) == INFINITY, infinite, value)


# -- sines ------------------------------------------------------------------------------------------
def _sinh_times(x: Scalar, factor: Scalar) -> Scalar:
    far = fabs(x) > 40.0
    large = exp_times(fabs(x), copysign(fabs(factor), x), 1)
    large = select(factor < 0.0, -large, large)
    near = sinh(select(far, constant(0.0, x), x)) * factor
    return select(far, large, near)


def _cosh_times(x: Scalar, factor: Scalar) -> Scalar:
    far = fabs(x) > 40.0
    near = cosh(select(far, constant(0.0, x), x)) * factor
    return select(far, exp_times(fabs(x), factor, 1), near)


@define("complex_sinh_real", "f32", "f64")
def sinh_real(re: Scalar, im: Scalar) -> Scalar:
    value = _sinh_times(re, cos(im))
    value = select((fabs(re) == INFINITY) & (_finite(im) == (re != re)), fabs(re), value)
    return select(re == 0.0, select(cos(im) < 0.0, -re, re), value)


@define("complex_sinh_imag", "f32", "f64")
def sinh_imag(re: Scalar, im: Scalar) -> Scalar:
    return select(im == 0.0, im, _cosh_times(re, sin(im)))


@define("complex_cosh_real", "f32", "f64")
def cosh_real(re: Scalar, im: Scalar) -> Scalar:
    value = _cosh_times(re, cos(im))
    return select((fabs(re) == INFINITY) & (_finite(im) == (re != re)), fabs(re), value)


@define("complex_cosh_imag", "f32", "f64")
def cosh_imag(re: Scalar, im: Scalar) -> Scalar:
    value = _sinh_times(re, sin(im))
    value = select((re == 0.0) & (_finite(im) == (re != re)), constant(0.0, re), value)
    zero = select(re != re, im, im * copysign(constant(1.0, re), re))
    return select(im == 0.0, zero, value)


define("complex_sin_real", "f32", "f64")(lambda re, im: sinh_imag(im, re))
define("complex_sin_imag", "f32", "f64")(lambda re, im: sinh_real(im, re))
define("complex_cos_real", "f32", "f64")(lambda re, im: cosh_real(im, re))
define("complex_cos_imag", "f32", "f64")(lambda re, im: cosh_imag(-im, re))


# -- from C -----------------------------------------------------------------------------------------
#: NumPy's name -> C's, as the launcher's `aot_c_<name>_c128` has it
IMPORTED = {
    "tan": "tan", "tanh": "tanh", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh",
    "arccosh": "acosh", "arctanh": "atanh", "power": "pow",
}  # fmt: skip
COMPLEX: dict[str, Any] = {"f32": np.complex64, "f64": np.complex128}


def _imported(name: str, part: int, operands: tuple[Scalar, ...]) -> Scalar:
    """One part of a C function's result: two calls of equal operands become one."""
    model = operands[0]
    if not isinstance(model, Value):
        kind = COMPLEX[dtype_of(model)]
        pairs = zip(operands[::2], operands[1::2], strict=True)
        value = getattr(np, name)(*(kind(complex(float(re), float(im))) for re, im in pairs))
        return value.imag if part else value.real
    return model.builder.call_part(f"aot_complex_{IMPORTED[name]}_{model.dtype}", part, *operands)


def _import(name: str) -> None:
    def both(part: int) -> Any:
        if name == "power":
            return lambda re, im, y_re, y_im: _imported(name, part, (re, im, y_re, y_im))
        return lambda re, im: _imported(name, part, (re, im))

    for part, word in enumerate(("real", "imag")):
        define_imported(f"complex_{name}_{word}", "f32", "f64")(both(part))


for _name in IMPORTED:
    _import(_name)


def pair_definition(name: str) -> tuple[str, tuple[str, str]]:
    """The text of `aot_complex_<fn>_<dtype>`, which gives both parts, and the C function it declares.

    It has no effects that a caller sees, so LLVM merges the calls of the two parts; it stays a call, or its
    memory would keep them apart.
    """
    function, _, dtype = name.removeprefix("aot_complex_").rpartition("_")
    kind = LLVM[dtype]
    callee = f"aot_c_{function}_{'c128' if dtype == 'f64' else 'c64'}"
    count = 4 if function == "pow" else 2
    listed = ", ".join(f"{kind} %a{i}" for i in range(count))
    text = f"""define internal {{ {kind}, {kind} }} @{name}({listed}) noinline nounwind willreturn memory(none) {{
  %out = alloca [2 x {kind}]
  call void @{callee}({listed}, ptr %out)
  %re = load {kind}, ptr %out
  %at = getelementptr {kind}, ptr %out, i64 1
  %im = load {kind}, ptr %at
  %r0 = insertvalue {{ {kind}, {kind} }} poison, {kind} %re, 0
  %r1 = insertvalue {{ {kind}, {kind} }} %r0, {kind} %im, 1
  ret {{ {kind}, {kind} }} %r1
}}"""
    types = ", ".join([kind] * count)
    return text, (callee, f"declare void @{callee}({types}, ptr) nounwind willreturn memory(argmem: write)")
