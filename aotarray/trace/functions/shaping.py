"""Views and rearrangements: transposes, reshapes, broadcasts, joins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import sizes
from ...errors import UnsupportedError
from ...graph import Node
from ...sizes import Dim
from .. import promote, views
from ..context import Trace, here
from ..size_value import as_dim
from ..tracer import Tracer
from .reductions import normalise_axes
from .registry import METHODS, as_tracer, implements, trace_of


def dims_of(shape: Any) -> tuple[Dim, ...]:
    """A shape argument (an int, a size, or a sequence of them) as dims."""
    single = as_dim(shape)
    if single is not None:
        return (single,)
    found = []
    for item in shape:
        dim = as_dim(item)
        if dim is None:
            raise TypeError(f"{here()}: a shape must be made of integers and sizes, not {type(item).__name__}")
        found.append(dim)
    return tuple(found)


@implements("transpose", "permute_dims")
def transpose(a: Any, axes: Any = None) -> Tracer:
    x = as_tracer(trace_of(a), a)
    order = tuple(reversed(range(x.ndim))) if axes is None else tuple(int(k) % x.ndim for k in axes)
    if sorted(order) != list(range(x.ndim)):
        raise ValueError(f"{here()}: axes don't match array")
    return x.view_through(views.transpose(x.node.shape, order))


def _transpose_method(self: Tracer, *axes: Any) -> Tracer:
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
        return transpose(self, axes[0])
    return transpose(self, axes or None)


METHODS["transpose"] = _transpose_method
METHODS["T"] = property(lambda self: transpose(self))  # type: ignore[assignment]
METHODS["mT"] = property(lambda self: swapaxes(self, -1, -2))  # type: ignore[assignment]


@implements("swapaxes", method="swapaxes")
def swapaxes(a: Any, axis1: int, axis2: int) -> Tracer:
    x = as_tracer(trace_of(a), a)
    (first,), (second,) = normalise_axes(x.ndim, axis1), normalise_axes(x.ndim, axis2)
    order = list(range(x.ndim))
    order[first], order[second] = order[second], order[first]
    return transpose(x, order)


@implements("reshape")
def reshape(a: Any, /, shape: Any = None, order: str = "C", *, copy: bool | None = None) -> Tracer:
    if order not in ("C", "A", "K"):
        raise UnsupportedError(f"{here()}: reshape with order={order!r} is not supported; transpose first")
    x = as_tracer(trace_of(a), a)
    old = x.node.shape
    target = list(dims_of(shape))
    unknown = [k for k, d in enumerate(target) if d == -1]
    total = sizes.product(old)
    if len(unknown) > 1:
        raise ValueError(f"{here()}: can only specify one unknown dimension")
    if unknown:
        known = sizes.product(d for d in target if d != -1)
        target[unknown[0]] = sizes.floordiv(total, known)
        if isinstance(known, int) and known == 0:
            raise ValueError(f"{here()}: cannot reshape array of size {total} into shape {tuple(dims_of(shape))}")
    x.trace.same(sizes.product(target), total, f"cannot reshape array of shape {_shown(old)} into shape {_shown(tuple(target))}")
    if tuple(target) == old:
        return x.view_through(views.transpose(old, range(len(old))))
    squeezed_old = [d for d in old if d != 1]
    if squeezed_old == [d for d in target if d != 1]:
        return x.view_through(views.drop_axes(old, [k for k, d in enumerate(old) if d == 1])).view_through(
            views.insert_axes(tuple(squeezed_old), [k for k, d in enumerate(target) if d == 1])
        )
    return x.view_through(views.Reshape(tuple(target)))


def _shown(shape: tuple[Dim, ...]) -> str:
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def _reshape_method(self: Tracer, *shape: Any, order: str = "C", copy: bool | None = None) -> Tracer:
    return reshape(self, shape[0] if len(shape) == 1 else shape, order)


METHODS["reshape"] = _reshape_method


@implements("ravel", method="ravel")
def ravel(a: Any, order: str = "C") -> Tracer:
    return reshape(a, -1, order)


METHODS["flatten"] = lambda self, order="C": Tracer.of(self.trace, reshape(self, -1, order).node)


@implements("squeeze", method="squeeze")
def squeeze(a: Any, axis: Any = None) -> Tracer:
    x = as_tracer(trace_of(a), a)
    shape = x.node.shape
    if axis is None:
        axes = tuple(k for k, d in enumerate(shape) if d == 1)
        for d in shape:
            if not isinstance(d, int):
                x.trace.graph.require("ne", d, 1, f"squeeze: size {d} must not be 1")
    else:
        axes = normalise_axes(x.ndim, axis)
        for k in axes:
            if shape[k] != 1:
                raise ValueError(f"{here()}: cannot select an axis to squeeze out which has size not equal to one")
    return x.view_through(views.drop_axes(shape, axes))


@implements("expand_dims")
def expand_dims(a: Any, axis: Any) -> Tracer:
    x = as_tracer(trace_of(a), a)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    return x.view_through(views.insert_axes(x.node.shape, normalise_axes(x.ndim + count, axis)))


@implements("broadcast_to")
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Tracer:
    x = as_tracer(trace_of(array, shape), array)
    target = dims_of(shape)
    promote.broadcast_shapes(x.trace, [x.node.shape, target], "broadcast_to")
    return x.view_through(views.broadcast(x.node.shape, target))


@implements("concatenate", "concat")
def concatenate(arrays: Any, axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    trace = trace_of(arrays, out)
    parts = [as_tracer(trace, a) for a in arrays]
    if axis is None:
        parts, axis = [ravel(p) for p in parts], 0
    nodes = [p.node for p in parts]
    result = np.dtype(dtype) if dtype is not None else np.result_type(*(n.dtype for n in nodes))
    joined = join(trace, [promote.cast(trace, n, result) for n in nodes], axis)
    if out is not None:
        out.write(Tracer.of(trace, joined))
        return out
    return Tracer.of(trace, joined)


def join(trace: Trace, nodes: Sequence[Node], axis: int) -> Node:
    """Nodes of one dtype joined along an axis; the other sizes must agree."""
    rank = len(nodes[0].shape)
    if rank == 0:
        raise ValueError(f"{here()}: zero-dimensional arrays cannot be concatenated")
    if any(len(n.shape) != rank for n in nodes):
        raise ValueError(f"{here()}: all the input array dimensions except for the concatenation axis must match exactly")
    (axis,) = normalise_axes(rank, axis)
    for other in nodes[1:]:
        for a in range(rank):
            if a != axis:
                trace.same(nodes[0].shape[a], other.shape[a], "concatenate: sizes other than along the axis")
    return nodes[0] if len(nodes) == 1 else trace.graph.apply("concat", nodes, here(), axis=axis)


@implements("stack")
def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    trace = trace_of(arrays, out)
    return concatenate([expand_dims(as_tracer(trace, a), axis) for a in arrays], axis, out, dtype=dtype)


def stack_sequence(trace: Trace, values: Sequence[Any]) -> Node:
    """A list of traced scalars or arrays as one array, as `np.array(list)` would make it."""
    parts = [as_tracer(trace, stack_sequence(trace, v) if False else v) for v in values]
    joined: Tracer = stack(parts)
    return joined.node
