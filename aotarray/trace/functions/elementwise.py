"""Element-wise selection and conversion: where, clip, casts, copies, and writing into `out=`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ...graph import Node, literal_value
from ...ops import OPS
from ...types import is_supported
from .. import promote
from ..array_api import check_device
from ..context import Trace, here
from ..tracer import Storage, Tracer
from ..ufuncs import select
from .registry import METHODS, array, as_tracer, implements, lift, trace_of


def apply_op(trace: Trace, name: str, *operands: Any, dtype: Any = None) -> Node:
    """An op on any operands, with NumPy's promotion."""
    return promote.elementwise(trace, OPS[name], [promote.node_of(trace, o) for o in operands], dtype)


def op(name: str, *operands: Any) -> Any:
    """An op on any operands, as the ufunc of its name would be called; a tracer."""
    trace = trace_of(*operands)
    return Tracer.of(trace, apply_op(trace, name, *operands))


def guard(x: Any, wrong: Any, exception: str, message: str) -> Any:
    """`x`; the program raises where `wrong`, a bool array of its shape, holds."""
    return Tracer.of(x._trace, promote.guard(x._trace, x.node, wrong.node, exception, message))


def cast_to(x: Any, dtype: Any) -> Any:
    """`x.astype(dtype)`."""
    return Tracer.of(x._trace, promote.cast(x._trace, x.node, np.dtype(dtype)))


def common_dtype(trace: Trace, *values: Any) -> np.dtype:
    """`np.result_type` of operands, of which Python scalars are weak."""
    zero = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}
    nodes = [promote.node_of(trace, v) for v in values]
    return np.result_type(*(zero[n.dtype.kind] if n.type.weak else n.dtype for n in nodes))


@implements("where")
def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    trace = trace_of(condition, x, y)
    if x is None and y is None:
        from .finding import nonzero

        return nonzero(condition)
    if x is None or y is None:
        raise ValueError(f"{here()}: either both or neither of x and y should be given")
    test, a, b = (promote.node_of(trace, v) for v in (condition, x, y))
    dtype = common_dtype(trace, x, y)
    # np.where makes an array of a Python number first, and converts that.
    a, b = (promote.cast(trace, x, dtype, wraps=True) for x in (a, b))
    return Tracer.of(trace, select(trace, test, a, b))


def astype(
    self: Tracer, dtype: Any, order: str = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True
) -> Tracer:
    target = np.dtype(dtype)
    if not np.can_cast(self.dtype, target, casting):
        raise TypeError(
            f"{here()}: cannot cast from {self.dtype} to {target} according to the rule {casting!r}"
        )
    if not is_supported(target):
        raise UnsupportedError(f"{here()}: dtype {target} cannot be compiled")
    if not copy and target == self.dtype and not self.node.type.weak:
        return self
    node = promote.cast(self._trace, self.node, target)
    return self.with_memory(node, node if order == "K" else None)


METHODS["astype"] = astype


def astype_function(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tracer:
    check_device(device)
    return astype(array(x), dtype, copy=copy)


if hasattr(np, "astype"):
    implements("astype")(astype_function)


@implements("clip", method="clip")
def clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None
) -> Any:
    """NumPy's order of comparisons: a NaN anywhere gives NaN, and a value equal to a limit stays as it is."""
    low, high = (a_min if a_min is not None else min), (a_max if a_max is not None else max)
    trace = trace_of(a, low, high, out)
    x = array(a, low, high)
    low, high = _in_range(trace, x, low, "maximum"), _in_range(trace, x, high, "minimum")
    if low is None or high is None:
        one = low if high is None else high
        result = x if one is None else (np.maximum if high is None else np.minimum)(x, one)
        return deliver(trace, result, out, wider=True)
    dtype = common_dtype(trace, x, low, high)
    x, low, high = (
        Tracer.of(trace, promote.cast(trace, promote.node_of(trace, v), dtype)) for v in (x, low, high)
    )
    return deliver(trace, _limit(_limit(x, low, "less"), high, "greater"), out, wider=True)


def _in_range(trace: Trace, x: Any, bound: Any, name: str) -> Any:
    """A Python int beyond the dtype's range bounds nothing; on the other side of it, it is out of bounds."""
    node = None if bound is None else promote.node_of(trace, bound)
    if node is None or not node.type.weak or node.dtype.kind not in "iu" or x.dtype.kind not in "iu":
        return bound
    limits = np.iinfo(x.dtype)
    limit = int(limits.min if name == "maximum" else limits.max)
    if node.op.name == "literal":
        value = int(literal_value(node))
        return max(value, limit) if name == "maximum" else min(value, limit)
    if x.dtype == np.int64 or limit >= 2**63:
        return bound
    nearest = trace.graph.apply(name, (node, trace.graph.literal(limit, node.dtype, here())), here())
    return Tracer.of(trace, promote.weakened(trace, nearest))


def _limit(x: Any, bound: Any, beyond: str) -> Any:
    if x.dtype.kind not in "fc" or bound.ndim > 0:
        return (np.maximum if beyond == "less" else np.minimum)(x, bound)
    outside = op(beyond, x, bound)
    if bound.node.op.name != "literal":
        outside = op("logical_or", outside, op("isnan", bound))
    return where(outside, bound, x)


def deliver(trace: Trace, result: Tracer, out: Any, wider: bool = False) -> Any:
    """The result, or `out` overwritten with it; a ufunc's `out` may have more axes, and larger ones."""
    if isinstance(out, tuple):
        (out,) = out
    if out is None:
        return result
    if not isinstance(out, Tracer):
        raise UnsupportedError(f"{here()}: out= must be an array made inside the compiled function")
    if out.node.shape != result.node.shape and not wider:
        if out.ndim != result.ndim:
            raise ValueError(f"{here()}: output array does not match result in the number of dimensions")
        for a, b in zip(out.node.shape, result.node.shape, strict=True):
            trace.same(a, b, "shape of out=")
    if not np.can_cast(result.dtype, out.dtype, "same_kind"):
        raise TypeError(f"{here()}: cannot cast a result of {result.dtype} into out= of {out.dtype}")
    as_tracer(trace, out).write(result)
    return out


def copy(self: Tracer, order: str = "C") -> Tracer:
    return self.with_memory(self.node)


METHODS["copy"] = METHODS["__copy__"] = copy
METHODS["__deepcopy__"] = lambda self, memo: copy(self)


@implements("copy")
def copy_function(a: Any, order: str = "K", subok: bool = False) -> Tracer:
    x = array(a)
    return Tracer(x._trace, Storage(x.node, like=x.node if order == "K" else None))


@implements("copyto")
def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    trace = trace_of(dst, src, where)
    source = lift(src, dst)
    weak = source.node.type.weak
    if not isinstance(dst, Tracer):
        raise UnsupportedError(
            f"{here()}: np.copyto into an array from outside the compiled function; return the array"
        )
    if not weak and not np.can_cast(source.dtype, dst.dtype, casting):
        raise TypeError(
            f"{here()}: cannot cast from {source.dtype} to {dst.dtype} according to the rule {casting!r}"
        )
    if where is True:
        dst.write(source)
        return
    value = promote.cast(trace, source.node, dst.dtype)
    dst.write(Tracer.of(trace, select(trace, promote.node_of(trace, where), value, dst.node)))


def fill(self: Tracer, value: Any) -> None:
    self.write(value)


METHODS["fill"] = fill
