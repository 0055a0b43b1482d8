"""Complex parts, rounding, tests and comparisons, interpolation-free numeric functions; dtype questions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import UnsupportedError
from .. import promote, views
from ..context import here
from ..tracer import Tracer, known_value
from .elementwise import cast_to, deliver, op, where
from .reductions import all_rule
from .registry import METHODS, array, implements, lift, trace_of


# -- complex parts ----------------------------------------------------------------------------------
def _part(name: str, x: Any) -> Any:
    """A view; the imaginary parts of real values are zeros that cannot be written into."""
    shape = x.node.shape
    if x.dtype.kind == "c":
        part = x.view_through(views.Part(name, shape))
    elif name == "real":
        return x[...]
    else:
        zero = promote.broadcast_node(x._trace, x._trace.graph.literal(0, x.dtype, here()), shape)
        part = Tracer.of(x._trace, zero).view_through(views.ReadOnly(shape, "the imaginary part of real values"))
    return part if shape else Tracer.of(x._trace, part.node)


def _set_part(name: str) -> Any:
    def write(self: Any, value: Any) -> None:
        if self.dtype.kind != "c" and name == "imag":
            raise TypeError(f"{here()}: array does not have imaginary part to set")
        target = self.view_through(views.Part(name, self.node.shape)) if self.dtype.kind == "c" else self
        target.write(value)

    return write


def _complex(real: Any, imag: Any) -> Any:
    return Tracer.of(real._trace, real._trace.graph.apply("complex", (real.node, imag.node), here()))


implements("real")(lambda val: _part("real", array(val)))
implements("imag")(lambda val: _part("imag", array(val)))
METHODS["real"] = property(lambda self: _part("real", self), _set_part("real"))  # type: ignore[assignment]
METHODS["imag"] = property(lambda self: _part("imag", self), _set_part("imag"))  # type: ignore[assignment]


def _conjugate(self: Any) -> Any:
    """The method gives real arrays back as they are; the function has a loop for them."""
    return op("conjugate", self) if self.dtype.kind == "c" else self


METHODS["conj"] = METHODS["conjugate"] = _conjugate


@implements("angle")
def angle(z: Any, deg: bool = False) -> Any:
    x = array(z)
    found = op("arctan2", _part("imag", x), _part("real", x)) if x.dtype.kind == "c" else op("arctan2", 0, x)
    return op("multiply", found, 180 / np.pi) if deg else found


@implements("iscomplex")
def iscomplex(x: Any) -> Any:
    return op("not_equal", _part("imag", array(x)), 0)


@implements("isreal")
def isreal(x: Any) -> Any:
    return op("equal", _part("imag", array(x)), 0)


implements("iscomplexobj")(lambda x: array(x).dtype.kind == "c")
implements("isrealobj")(lambda x: array(x).dtype.kind != "c")


# -- rounding ---------------------------------------------------------------------------------------
@implements("round", "around", method="round")
def round_to(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """NumPy's algorithm: scale by a power of ten, round to even, scale back."""
    x = array(a, out)
    if x.dtype.kind == "c":
        return deliver(x._trace, _complex(*(round_to(_part(p, x), decimals) for p in ("real", "imag"))), out)
    if x.dtype.kind in "iu" and decimals >= 0:
        return deliver(x._trace, x.copy(), out)
    if decimals == 0:
        return deliver(x._trace, op("rint", x), out)
    if x.dtype == bool:
        raise TypeError(f"{here()}: rounding bool to decimals is not defined; use astype(np.float64)")
    scale = 10.0 ** abs(decimals)
    there, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    found = op(back, op("rint", op(there, x, scale)), scale)
    return deliver(x._trace, cast_to(found, x.dtype), out)


def _rounded(self: Tracer, ndigits: int | None = None) -> Any:
    """`round(x)` of a NumPy scalar is an int, as Python has it: `range(round(n / 2))`."""
    if ndigits is not None:
        return round_to(self, ndigits)
    if self.ndim:
        raise TypeError(f"{here()}: round() takes numbers; use np.round for arrays")
    known = known_value(self._trace, self.node, "round()")
    if known is not None:
        return round(known.item())
    if self.dtype.kind == "f":
        self = _int_sized(self)
    return METHODS["astype"](round_to(self, 0), np.int64)


def _int_sized(x: Tracer) -> Tracer:
    """`x`, which the program refuses where Python makes no int of it."""
    trace, node = x._trace, x.node
    for name, exception, message in (
        ("isnan", "ValueError", "cannot convert float NaN to integer"),
        ("isinf", "OverflowError", "cannot convert float infinity to integer"),
    ):
        node = promote.guard(trace, node, trace.graph.apply(name, (x.node,), here()), exception, message)
    return Tracer.of(trace, node)


METHODS["__round__"] = _rounded


@implements("fix")
def fix(x: Any, out: Any = None) -> Any:
    found = op("trunc", array(x, out))
    return deliver(found._trace, found, out)


@implements("sinc")
def sinc(x: Any) -> Any:
    scaled = op("multiply", np.pi, array(x))
    tiny = np.finfo(scaled.dtype).eps if scaled.dtype.kind == "f" else 1e-20
    y = where(scaled, scaled, scaled.dtype.type(tiny))
    return op("divide", op("sin", y), y)


@implements("nan_to_num")
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    values = array(x)
    if values.dtype.kind not in "fc":
        found = values.copy()
    elif values.dtype.kind == "c":
        parts = [_finite(_part(p, values), nan, posinf, neginf) for p in ("real", "imag")]
        found = _complex(*parts)
    else:
        found = _finite(values, nan, posinf, neginf)
    if not copy:
        values.write(found)
        return values
    return found


def _finite(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    limits = np.finfo(x.dtype)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    high, low, nan = (cast_to(array(v, x), x.dtype) for v in (high, low, nan))
    found = where(op("equal", x, np.inf), high, where(op("equal", x, -np.inf), low, x))
    return where(op("isnan", x), nan, found)


@implements("isposinf")
def isposinf(x: Any, out: Any = None) -> Any:
    return _infinite(array(x, out), np.inf, out)


@implements("isneginf")
def isneginf(x: Any, out: Any = None) -> Any:
    return _infinite(array(x, out), -np.inf, out)


def _infinite(x: Any, which: float, out: Any) -> Any:
    if x.dtype.kind == "c":
        raise TypeError(
            f"{here()}: this operation is not supported for {x.dtype} values because it would be ambiguous."
        )
    found = op("equal", cast_to(x, np.result_type(x.dtype, np.float16)), which)
    return deliver(x._trace, found, out)


# -- closeness --------------------------------------------------------------------------------------
@implements("isclose")
def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    trace_of(a, b, rtol, atol)
    x, y = lift(a, b, rtol, atol), lift(b, a, rtol, atol)
    if y.node.type.weak:
        y = op("multiply", y, 1.0) if y.dtype.kind in "iu" else y
    else:
        y = cast_to(y, np.result_type(y.dtype, 1.0))
    difference = op("absolute", x - y)
    bound = lift(atol, x) + lift(rtol, x) * abs(y)
    near = op("logical_and", op("less_equal", difference, bound), op("isfinite", y))
    found = op("logical_or", near, op("equal", x, y))
    if equal_nan:
        found = op("logical_or", found, op("logical_and", op("isnan", x), op("isnan", y)))
    return found


@implements("allclose")
def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    return all_rule(isclose(a, b, rtol, atol, equal_nan))


@implements("array_equal")
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    a, b = array(a1, a2), array(a2, a1)
    if a.ndim != b.ndim or any(
        _differ(a._trace, m, n) for m, n in zip(a.node.shape, b.node.shape, strict=True)
    ):
        return False
    same = op("equal", a, b)
    if equal_nan and a.dtype.kind in "fc" and b.dtype.kind in "fc":
        same = op("logical_or", same, op("logical_and", op("isnan", a), op("isnan", b)))
    return all_rule(same)


def _differ(trace: Any, m: Any, n: Any) -> bool:
    """Whether two sizes differ, which is fixed in the program when it cannot be proven."""
    if m == n:
        return False
    return bool(trace.fix(m, "np.array_equal") != trace.fix(n, "np.array_equal"))


@implements("array_equiv")
def array_equiv(a1: Any, a2: Any) -> Any:
    return all_rule(op("equal", array(a1, a2), array(a2, a1)))


# -- dtypes -----------------------------------------------------------------------------------------
def _dtype_or_value(value: Any) -> Any:
    if not isinstance(value, Tracer):
        return value
    weak = promote.dtype_or_weak(value.node)
    return weak(0) if isinstance(weak, type) else weak


implements("result_type")(lambda *arrays: np.result_type(*map(_dtype_or_value, arrays)))
implements("can_cast")(lambda from_, to, casting="safe": np.can_cast(from_.dtype, to, casting))
implements("common_type")(
    lambda *arrays: np.common_type(*(np.empty(0, array(a, *arrays).dtype) for a in arrays))
)


@implements("min_scalar_type")
def min_scalar_type(a: Any) -> np.dtype:
    x = array(a)
    dtype: np.dtype = x.dtype
    if x.ndim:
        return dtype
    known = known_value(x._trace, x.node, "np.min_scalar_type")
    if known is None:
        raise UnsupportedError(f"{here()}: np.min_scalar_type of a number depends on its value; use x.dtype")
    return np.min_scalar_type(known)


@implements("polyval")
def polyval(p: Any, x: Any) -> Any:
    """Horner's rule, as NumPy has it; the number of coefficients is fixed."""
    points = array(x, p)
    coefficients = p if isinstance(p, Tracer) else np.asarray(p)
    if coefficients.ndim != 1:
        raise UnsupportedError(f"{here()}: np.polyval takes coefficients with one axis in compiled functions")
    zero = points._trace.graph.literal(0, points.dtype, here())
    value = Tracer.of(points._trace, promote.broadcast_node(points._trace, zero, points.node.shape))
    for coefficient in coefficients:
        value = op("add", op("multiply", value, points), coefficient)
    return value


@implements("unwrap")
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * np.pi) -> Any:
    """NumPy's algorithm for a period that is a number."""
    from .joining import concatenate
    from .reductions import normalise_axes
    from .running import cumsum, diff
    from .shaping import window

    x = array(p)
    (along,) = normalise_axes(x.ndim, axis)
    step = diff(x, axis=along)
    limit = period / 2 if discont is None else discont
    dtype = np.result_type(step.dtype, period)
    exact = np.issubdtype(dtype, np.integer)
    high, odd = divmod(period, 2) if exact else (period / 2, 1)
    low = -high
    wrapped = op("add", op("remainder", op("subtract", step, low), period), low)
    if not exact or odd == 0:
        tie = op("logical_and", op("equal", wrapped, low), op("greater", step, 0))
        wrapped = where(tie, high, wrapped)
    correction = where(
        op("less", op("absolute", step), limit), wrapped.dtype.type(0), op("subtract", wrapped, step)
    )
    first = cast_to(window(x, along, 0, 1), dtype)
    rest = op("add", window(x, along, 1, x.node.shape[along] - 1), cumsum(correction, along))
    return concatenate([first, cast_to(rest, dtype)], along)
