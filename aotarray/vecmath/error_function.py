"""erf and erfc.

erf: below 0.92 a polynomial in x*x; above, 1 - exp(p(x)) with p near log(erfc(x)), whose error matters only
as far as erfc does. Both are evaluated: to choose coefficients by the range takes as long.
erfc: exp(-x*x) times a polynomial in (x - k) / (x + k), after M. Shepherd and J. Laframboise, "Chebyshev
approximation of (1 + 2x) exp(x*x) erfc x", Math. Comp. 36, 1981; the square's rounding error goes into exp.
"""

from __future__ import annotations

from collections.abc import Sequence

from aotarray.vecmath import coefficients as c
from aotarray.vecmath.exponential import expm1_parts, format_of, reduce_exp, scale_twice
from aotarray.vecmath.primitives import (
    Scalar,
    constant,
    copysign,
    dtype_of,
    estrin,
    exact_fma,
    fabs,
    fma,
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


@define("erfc", "f32", "f64")
def erfc(x: Scalar) -> Scalar:
    f = format_of(x)
    wide = dtype_of(x) == "f64"
    k, top = (4.0, 28.0) if wide else (2.0, 10.2)
    a = fabs(x)
    a = select(a > top, top, a)
    square = a * a
    inner, outer = (c.ERF_F64, c.ERFC_F64) if wide else (c.ERF_F32, c.ERFC_F32)
    near = a < 0.5
    p = polynomial(select(near, square, (a - k) / (a + k)), blend(near, inner, outer, x))
    small = 1.0 - copysign(fma(a, p, a), x)
    lost = exact_fma(a, a, -square)
    _, r, low_bits = reduce_exp(-square, 2 * f.bias)
    r = r - lost
    q = fma(r * r, polynomial(r, c.EXP_F64 if wide else c.EXP_F32), r)
    upper = scale_twice(fma(p, q, p) / fma(2.0, a, 1.0), low_bits)
    return select(near, small, select(x < 0.0, 2.0 - upper, upper))
