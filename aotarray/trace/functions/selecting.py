"""Elements by position or condition: take, choose, select, piecewise, triangles and diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import UnsupportedError
from .. import promote
from ..context import here
from ..size_value import as_dim
from ..tracer import Tracer
from .elementwise import cast_to, common_dtype, deliver, op, where
from .reductions import normalise_axes, sum_rule
from .registry import array, implements, trace_of
from .shaping import diagonal, ravel


def _size_operand(x: Any, axis: int) -> Any:
    extent = x.node.shape[axis]
    return (
        extent
        if isinstance(extent, int)
        else Tracer.of(x._trace, x._trace.graph.apply("size", where=here(), value=extent))
    )


def positions(x: Any, axis: int) -> Any:
    """0, 1, ... along an axis, shaped to broadcast against `x`."""
    trace = x._trace
    along: Any = Tracer.of(trace, trace.graph.apply("iota", where=here(), length=x.node.shape[axis]))
    return along[(slice(None), *(None,) * (x.ndim - 1 - axis))]


def _in_range(index: Any, n: Any, mode: str) -> Any:
    """Indices made valid as `mode` says; "raise" leaves them to the bounds check of the gather."""
    if mode == "raise":
        return index
    index = cast_to(index, np.int64)
    if mode == "wrap":
        return op("remainder", index, n)
    if mode == "clip":
        return op("maximum", op("minimum", index, op("subtract", n, 1)), 0)
    raise ValueError(f"{here()}: clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")


@implements("take", method="take")
def take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
    x = array(a, indices, out)
    if axis is None:
        x, axis = ravel(x), 0
    (along,) = normalise_axes(x.ndim, axis)
    lead = (slice(None),) * along
    if as_dim(indices) is not None and mode == "raise" and not isinstance(indices, Tracer):
        return deliver(x._trace, x[(*lead, indices)].copy(), out)
    index = array(indices, x)
    if index.dtype.kind not in "iub":
        raise TypeError(f"{here()}: cannot cast indices of np.take from {index.dtype} to int64")
    index = cast_to(index, np.int64)
    return deliver(x._trace, x[(*lead, _in_range(index, _size_operand(x, along), mode))], out)


@implements("take_along_axis")
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    x, index = array(arr, indices), array(indices, arr)
    if axis is None:
        x, axis = ravel(x), 0
    if x.ndim != index.ndim:
        raise ValueError(f"{here()}: `indices` and `arr` must have the same number of dimensions")
    if index.dtype.kind not in "iu":
        raise IndexError(f"{here()}: `indices` must be an integer array")
    (along,) = normalise_axes(x.ndim, axis)
    return x[tuple(index if k == along else positions(x, k) for k in range(x.ndim))]


@implements("choose", method="choose")
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    if mode == "raise":
        raise UnsupportedError(
            f"{here()}: np.choose with mode='raise' is not supported; "
            f"give mode='clip' or 'wrap', or use np.select"
        )
    trace = trace_of(a, choices, out)
    options = [array(c, a, choices) for c in choices]
    dtype = np.result_type(*(o.dtype for o in options))
    index = _in_range(array(a, choices), len(options), mode)
    found = cast_to(options[-1], dtype)
    for k in range(len(options) - 2, -1, -1):
        found = where(op("equal", index, k), cast_to(options[k], dtype), found)
    if len(options) == 1:
        found = where(op("equal", index, 0), found, found)
    return deliver(trace, found, out)


@implements("select")
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    if len(condlist) != len(choicelist):
        raise ValueError(f"{here()}: list of cases must be same length as list of conditions")
    if len(condlist) == 0:
        raise ValueError(f"{here()}: select with an empty condition list is not possible")
    trace = trace_of(condlist, choicelist, default)
    dtype = common_dtype(trace, *choicelist, default)
    found = cast_to(_lift(trace, default), dtype)
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        test = array(condition, condlist, choicelist)
        if test.dtype != bool:
            raise TypeError(f"{here()}: invalid entry in condlist: should be boolean ndarray")
        found = where(test, cast_to(_lift(trace, choice), dtype), found)
    return found


def _lift(trace: Any, value: Any) -> Any:
    return Tracer.of(trace, promote.node_of(trace, value))


@implements("piecewise")
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """Each function is evaluated everywhere and the results selected; the last condition that holds wins."""
    values = array(x)
    conditions = list(condlist) if isinstance(condlist, (list, tuple)) else [condlist]
    functions = list(funclist)
    if len(functions) == len(conditions) + 1:
        otherwise = functions.pop()
    elif len(functions) == len(conditions):
        otherwise = 0
    else:
        raise ValueError(
            f"{here()}: with {len(conditions)} condition(s), as many functions or one more are expected"
        )

    def evaluate(function: Any) -> Any:
        found = function(values, *args, **kw) if callable(function) else function
        return cast_to(array(found, values), values.dtype)

    shape = values.node.shape
    result = Tracer.of(values._trace, promote.broadcast_node(values._trace, evaluate(otherwise).node, shape))
    for condition, function in zip(conditions, functions, strict=True):
        result = where(condition, evaluate(function), result)
    return result


# -- triangles and diagonals ----------------------------------------------------------------------
def _triangle(m: Any, k: int, lower: bool) -> Any:
    x = array(m)
    if x.ndim < 2:
        x = (
            Tracer.of(x._trace, promote.broadcast_node(x._trace, x.node, (x.node.shape[0],) * 2))
            if x.ndim
            else _too_flat()
        )
    limit = op("add", positions(x, x.ndim - 2), k)
    column = positions(x, x.ndim - 1)
    kept = op("less_equal", column, limit) if lower else op("greater_equal", column, limit)
    return where(kept, x, x.dtype.type(0))


def _too_flat() -> Any:
    raise ValueError(f"{here()}: the triangle of a 0-d array is not defined")


@implements("tril")
def tril(m: Any, k: int = 0) -> Any:
    return _triangle(m, k, lower=True)


@implements("triu")
def triu(m: Any, k: int = 0) -> Any:
    return _triangle(m, k, lower=False)


@implements("diag")
def diag(v: Any, k: int = 0) -> Any:
    x = array(v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ValueError(f"{here()}: Input must be 1- or 2-d.")
    n = x.node.shape[0] + abs(k)
    trace = x._trace
    along = Tracer.of(trace, trace.graph.apply("iota", where=here(), length=n))
    row, column = along[:, None], along[None, :]
    place = row if k >= 0 else column  # the element's position in v
    last = op("maximum", op("subtract", _size_operand(x, 0), 1), 0)
    if x.node.shape[0] == 0:
        return Tracer.of(
            trace, promote.broadcast_node(trace, trace.graph.literal(0, x.dtype, here()), (n, n))
        )
    taken = x[op("minimum", place, last)]
    return where(op("equal", op("add", row, k), column), taken, x.dtype.type(0))


@implements("diagflat")
def diagflat(v: Any, k: int = 0) -> Any:
    return diag(ravel(array(v)), k)


@implements("trace", method="trace")
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    return sum_rule(diagonal(a, offset, axis1, axis2), -1, dtype, out)


@implements("linalg.trace")
def linalg_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return trace(x, offset, -2, -1, dtype)
