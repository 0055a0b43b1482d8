"""Ufuncs that are not one op: two results, mixed dtypes, complex forms, products; methods of ufuncs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from .. import promote
from ..context import Trace, here
from ..tracer import Tracer
from ..ufuncs import call_ufunc
from .elementwise import apply_op, cast_to, deliver, op, where
from .registry import METHODS, UFUNC_METHODS, UFUNCS, array
from .running import cumprod, cumsum

Operands = tuple[Any, ...]


def _operands(trace: Trace, ufunc: Any, inputs: Operands, dtype: Any) -> list[Any]:
    """The operands in the dtypes of the ufunc's loop, each of its own shape."""
    nodes = [promote.node_of(trace, v) for v in inputs]
    loop = promote.resolve(ufunc, nodes, dtype)
    return [Tracer.of(trace, promote.cast(trace, n, d)) for n, d in zip(nodes, loop, strict=True)]


def _divmod(trace: Trace, inputs: Operands, dtype: Any) -> tuple[Any, Any]:
    quotient, rest = (apply_op(trace, n, *inputs, dtype=dtype) for n in ("floor_divide", "remainder"))
    return Tracer.of(trace, quotient), Tracer.of(trace, rest)


def _modf(trace: Trace, inputs: Operands, dtype: Any) -> tuple[Any, Any]:
    (x,) = _operands(trace, np.modf, inputs, dtype)
    whole = op("trunc", x)
    fraction = where(op("isinf", x), x.dtype.type(0), op("subtract", x, whole))
    return op("copysign", fraction, x), whole


def _frexp(trace: Trace, inputs: Operands, dtype: Any) -> tuple[Any, Any]:
    """Mantissa in [0.5, 1) and exponent, by exact multiplications with powers of two."""
    (x,) = _operands(trace, np.frexp, inputs, dtype)
    kind = x.dtype
    value = cast_to(x, np.float32) if kind == np.float16 else x
    scalar = value.dtype.type
    exponent: Any = cast_to(array(0, x), np.int32)
    top = 9 if scalar is np.float64 else 6
    usual = op("logical_and", op("isfinite", value), op("not_equal", value, 0))
    value = where(usual, value, scalar(0.5))
    for power in [2**k for k in range(top, -1, -1)]:
        large = op("greater_equal", op("absolute", value), scalar(2.0**power))
        value = where(large, op("multiply", value, scalar(2.0**-power)), value)
        exponent = op("add", exponent, where(large, np.int32(power), np.int32(0)))
    for power in [2**k for k in (top, *range(top, -1, -1))]:
        small = op("less", op("absolute", value), scalar(2.0 ** (1 - power)))
        value = where(small, op("multiply", value, scalar(2.0**power)), value)
        exponent = op("subtract", exponent, where(small, np.int32(power), np.int32(0)))
    value = op("multiply", value, scalar(0.5))
    exponent = op("add", exponent, np.int32(1))
    mantissa = where(usual, cast_to(value, kind), x)
    return mantissa, where(usual, exponent, np.int32(0))


def _ldexp(trace: Trace, inputs: Operands, dtype: Any) -> Any:
    """`x * 2**n`, rounded once: three exact steps, of which the last may round (as in musl's scalbn)."""
    x, n = _operands(trace, np.ldexp, inputs, dtype)
    kind = x.dtype
    value = cast_to(x, np.float32) if kind == np.float16 else x
    scalar = value.dtype.type
    limit, digits = (1023, 53) if scalar is np.float64 else (127, 24)
    down = limit - 1 - digits
    rest = cast_to(n, np.int64) if n.dtype != np.int64 else n
    rest = op("minimum", op("maximum", rest, np.int64(-8 * limit)), np.int64(8 * limit))
    for _ in range(2):
        over, under = op("greater", rest, np.int64(limit)), op("less", rest, np.int64(1 - limit))
        factor = where(over, scalar(2.0**limit), where(under, scalar(2.0**-down), scalar(1)))
        value = op("multiply", value, factor)
        rest = op("subtract", rest, where(over, np.int64(limit), where(under, np.int64(-down), np.int64(0))))
    rest = op("minimum", op("maximum", rest, np.int64(1 - limit)), np.int64(limit))
    return cast_to(op("multiply", value, _power_of_two(rest, scalar, limit)), kind)


def _power_of_two(n: Any, scalar: Any, limit: int) -> Any:
    """`2**n`, exactly, from the binary digits of n; NumPy's own exp2 is not exact at integers."""
    size, negative = op("absolute", n), op("less", n, np.int64(0))
    factor: Any = scalar(1)
    for power in [2**k for k in range(limit.bit_length())]:
        step = where(negative, scalar(2.0**-power), scalar(2.0**power))
        has = op("not_equal", op("bitwise_and", size, np.int64(power)), np.int64(0))
        factor = op("multiply", factor, where(has, step, scalar(1)))
    return factor


def _float_power(trace: Trace, inputs: Operands, dtype: Any) -> Any:
    return op("power", *_operands(trace, np.float_power, inputs, dtype))


def _alias(name: str) -> Callable[..., Any]:
    """A ufunc that NumPy has under two names."""

    def rule(trace: Trace, inputs: Operands, dtype: Any) -> Any:
        return Tracer.of(trace, apply_op(trace, name, *inputs, dtype=dtype))

    return rule


def _half_neighbour(name: str) -> Callable[..., Any]:
    def rule(trace: Trace, inputs: Operands, dtype: Any) -> Any:
        node = apply_op(trace, name, *inputs, dtype=dtype)
        if node.dtype == np.float16:
            raise UnsupportedError(
                f"{here()}: numpy.{name} of float16 is not supported; use astype(np.float32)"
            )
        return Tracer.of(trace, node)

    return rule


def _complex_by_parts(name: str) -> Callable[..., Any]:
    """A ufunc that NumPy applies to both parts of a complex number."""

    def rule(trace: Trace, inputs: Operands, dtype: Any) -> Any:
        (x,) = _operands(trace, getattr(np, name), inputs, dtype)
        if x.dtype.kind != "c":
            return op(name, x)
        parts = [Tracer.of(trace, trace.graph.apply(p, (x.node,), here())) for p in ("real", "imag")]
        return Tracer.of(trace, trace.graph.apply("complex", [op(name, p).node for p in parts], here()))

    return rule


def _complex_extreme(name: str) -> Callable[..., Any]:
    """The larger or smaller complex number, by real part, then imaginary part; NaN as NumPy treats it."""
    compare, skips_nan = ("greater_equal" if "max" in name else "less_equal"), name.startswith("f")

    def rule(trace: Trace, inputs: Operands, dtype: Any) -> Any:
        a, b = _operands(trace, getattr(np, name), inputs, dtype)
        if a.dtype.kind != "c":
            return Tracer.of(trace, apply_op(trace, name, *inputs, dtype=dtype))
        first = op("logical_or", op(compare, a, b), op("isnan", b if skips_nan else a))
        return where(first, a, b)

    return rule


def _matrix_product(name: str) -> Callable[..., Any]:
    def rule(trace: Trace, inputs: Operands, dtype: Any) -> Any:
        from . import products

        a, b = _operands(trace, getattr(np, name), inputs, dtype)
        return getattr(products, name)(a, b)

    return rule


UFUNCS.update({
    np.divmod: _divmod, np.modf: _modf, np.frexp: _frexp, np.ldexp: _ldexp, np.float_power: _float_power,
    np.nextafter: _half_neighbour("nextafter"), np.spacing: _half_neighbour("spacing"),
    np.rint: _complex_by_parts("rint"),
})  # fmt: skip
UFUNCS.update({getattr(np, n): _complex_extreme(n) for n in ("maximum", "minimum", "fmax", "fmin")})
#: generalised ufuncs; NumPy gained most of them in 2.0 to 2.2
PRODUCTS = [n for n in ("matmul", "vecdot", "matvec", "vecmat") if hasattr(np, n)]
UFUNCS.update({getattr(np, n): _matrix_product(n) for n in PRODUCTS})
METHODS["__divmod__"] = lambda self, other: _divmod(self._trace, (self, other), None)
METHODS["__rdivmod__"] = lambda self, other: _divmod(self._trace, (other, self), None)
METHODS["__matmul__"] = lambda self, other: call_ufunc(self._trace, np.matmul, "__call__", (self, other), {})
METHODS["__rmatmul__"] = lambda self, other: call_ufunc(self._trace, np.matmul, "__call__", (other, self), {})
METHODS["__imatmul__"] = lambda self, other: np.matmul(self, other, out=self)


# -- methods ------------------------------------------------------------------------------------
def _accumulate(trace: Trace, ufunc: Any, a: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
    if ufunc in (np.add, np.multiply):
        rule = cumsum if ufunc is np.add else cumprod
        x = array(a)
        return deliver(trace, rule(x, axis, dtype if dtype is not None else _accumulator(ufunc, x)), out)
    raise UnsupportedError(
        f"{here()}: numpy.{ufunc.__name__}.accumulate is not supported; "
        f"np.add.accumulate and np.multiply.accumulate are"
    )


def _accumulator(ufunc: Any, x: Any) -> Any:
    zero: Any = np.zeros(1, x.dtype)
    return ufunc.accumulate(zero).dtype


def _outer(trace: Trace, ufunc: Any, a: Any, b: Any, **kwargs: Any) -> Any:
    x, y = array(a, b), array(b, a)
    spread = x[(..., *(None,) * y.ndim)]
    return call_ufunc(trace, ufunc, "__call__", (spread, y), kwargs)


def _reduceat(trace: Trace, ufunc: Any, *args: Any, **kwargs: Any) -> Any:
    raise UnsupportedError(
        f"{here()}: numpy.{ufunc.__name__}.reduceat is not supported; "
        f"reshape into equal parts and reduce an axis"
    )


UFUNC_METHODS[(None, "accumulate")] = _accumulate
UFUNC_METHODS[(None, "outer")] = _outer
UFUNC_METHODS[(None, "reduceat")] = _reduceat
