"""Element-wise functions that are not one op: where, clip, casts, complex parts, two-result ufuncs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ...graph import Node
from ...ops import OPS
from ...types import is_supported
from .. import promote
from ..context import Trace, here
from ..tracer import Tracer
from ..ufuncs import select
from .registry import METHODS, UFUNCS, as_tracer, implements, trace_of


def apply_op(trace: Trace, name: str, *operands: Any, dtype: Any = None) -> Node:
    """An op on any operands, with NumPy's promotion."""
    return promote.elementwise(trace, OPS[name], [promote.node_of(trace, o) for o in operands], dtype)


@implements("where")
def where(condition: Any, x: Any = None, y: Any = None) -> Tracer:
    trace = trace_of(condition, x, y)
    if x is None or y is None:
        raise UnsupportedError(f"{here()}: np.where(mask) gives arrays whose size depends on values; use np.where(mask, a, b)")
    test, a, b = (promote.node_of(trace, v) for v in (condition, x, y))
    zero = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}
    dtype = np.result_type(*(zero[n.dtype.kind] if n.type.weak else n.dtype for n in (a, b)))
    return Tracer.of(trace, select(trace, test, promote.cast(trace, a, dtype), promote.cast(trace, b, dtype)))


def astype(self: Tracer, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True) -> Tracer:
    target = np.dtype(dtype)
    if not np.can_cast(self.dtype, target, casting):  # type: ignore[arg-type]
        raise TypeError(f"{here()}: cannot cast from {self.dtype} to {target} according to the rule {casting!r}")
    if not is_supported(target):
        raise UnsupportedError(f"{here()}: dtype {target} cannot be compiled")
    return Tracer.of(self.trace, promote.cast(self.trace, self.node, target))


METHODS["astype"] = astype


@implements("clip", method="clip")
def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None, **kwargs: Any) -> Any:
    trace = trace_of(a, a_min, a_max, min, max)
    low, high = (a_min if a_min is not None else min), (a_max if a_max is not None else max)
    result = promote.node_of(trace, a)
    if low is not None:
        result = apply_op(trace, "maximum", Tracer.of(trace, result), low)
    if high is not None:
        result = apply_op(trace, "minimum", Tracer.of(trace, result), high)
    return deliver(trace, Tracer.of(trace, result), out)


def deliver(trace: Trace, result: Tracer, out: Any) -> Tracer:
    """The result, or `out` overwritten with it."""
    if out is None:
        return result
    as_tracer(trace, out).write(result)
    found: Tracer = out
    return found


def _divmod(trace: Trace, inputs: tuple[Any, ...], dtype: Any) -> tuple[Tracer, Tracer]:
    return tuple(Tracer.of(trace, apply_op(trace, n, *inputs, dtype=dtype)) for n in ("floor_divide", "remainder"))  # type: ignore[return-value]


UFUNCS[np.divmod] = _divmod
Tracer.__divmod__ = lambda self, other: _divmod(self.trace, (self, other), None)  # type: ignore[attr-defined]
Tracer.__rdivmod__ = lambda self, other: _divmod(self.trace, (other, self), None)  # type: ignore[attr-defined]


def copy(self: Tracer, order: str = "C") -> Tracer:
    return Tracer.of(self.trace, self.node)


METHODS["copy"] = copy


@implements("copy")
def copy_function(a: Any, order: str = "K", subok: bool = False) -> Tracer:
    trace = trace_of(a)
    return Tracer.of(trace, promote.node_of(trace, a))
