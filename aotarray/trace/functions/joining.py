"""Arrays joined and taken apart: concatenate, the stack family, split, tile, repeat, roll."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import sizes
from ...errors import UnsupportedError
from ...graph import Node
from ...sizes import Dim
from .. import promote
from ..context import Trace, here
from ..finding import measured_size
from ..library import call
from ..size_value import as_dim, wrap
from ..tracer import Tracer
from .elementwise import cast_to, deliver, op
from .reductions import normalise_axes
from .registry import array, as_tracer, implements, trace_of
from .shaping import atleast_1d, atleast_2d, atleast_3d, expand_dims, ravel, reshape, window


@implements("concatenate", "concat")
def concatenate(
    arrays: Any, axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    trace = trace_of(arrays, out)
    parts = [array(a, arrays, out) for a in arrays]
    if axis is None:
        parts, axis = [ravel(p) for p in parts], 0
    nodes = [p.node for p in parts]
    result = np.dtype(dtype) if dtype is not None else np.result_type(*(n.dtype for n in nodes))
    joined = join(trace, [promote.cast(trace, n, result) for n in nodes], axis)
    return deliver(trace, Tracer.of(trace, joined), out)


def join(trace: Trace, nodes: Sequence[Node], axis: int) -> Node:
    """Nodes of one dtype joined along an axis; the other sizes must agree."""
    rank = len(nodes[0].shape)
    if rank == 0:
        raise ValueError(f"{here()}: zero-dimensional arrays cannot be concatenated")
    if any(len(n.shape) != rank for n in nodes):
        raise ValueError(
            f"{here()}: all the input array dimensions except for the concatenation axis must match exactly"
        )
    (axis,) = normalise_axes(rank, axis)
    for other in nodes[1:]:
        for a in range(rank):
            if a != axis:
                trace.same(nodes[0].shape[a], other.shape[a], "concatenate: sizes other than along the axis")
    return nodes[0] if len(nodes) == 1 else trace.graph.apply("concat", nodes, here(), axis=axis)


@implements("stack")
def stack(
    arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    return concatenate([expand_dims(array(a, arrays, out), axis) for a in arrays], axis, out, dtype=dtype)


def stack_sequence(trace: Trace, values: Sequence[Any]) -> Node:
    """A list of traced scalars or arrays as one array, as `np.array(list)` would make it."""
    parts = [as_tracer(trace, v) for v in values]
    joined: Tracer = stack(parts)
    return joined.node


@implements("vstack")
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    return concatenate([atleast_2d(array(a, tup)) for a in tup], 0, dtype=dtype)


@implements("hstack")
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    parts = [atleast_1d(array(a, tup)) for a in tup]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype=dtype)


@implements("dstack")
def dstack(tup: Any) -> Any:
    return concatenate([atleast_3d(array(a, tup)) for a in tup], 2)


@implements("column_stack")
def column_stack(tup: Any) -> Any:
    parts = [array(a, tup) for a in tup]
    return concatenate([p if p.ndim >= 2 else atleast_2d(p).T for p in parts], 1)


@implements("block")
def block(arrays: Any) -> Any:
    def depth(part: Any) -> int:
        return 1 + max(map(depth, part)) if isinstance(part, list) else 0

    def rank(part: Any) -> int:
        return max(map(rank, part)) if isinstance(part, list) else array(part, arrays).ndim

    levels = depth(arrays)
    dims = max(rank(arrays), levels)

    def build(part: Any, level: int) -> Any:
        if isinstance(part, list):
            return concatenate([build(p, level + 1) for p in part], level - levels)
        x = array(part, arrays)
        return x[(None,) * (dims - x.ndim)] if x.ndim < dims else x

    return build(arrays, 0)


@implements("append")
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    x, more = array(arr, values), array(values, arr)
    return concatenate([ravel(x), ravel(more)], 0) if axis is None else concatenate([x, more], axis)


# -- apart ----------------------------------------------------------------------------------------
def _split_axis(x: Any, sections: Any, axis: int, exact: bool) -> list[Any]:
    (along,) = normalise_axes(x.ndim, axis)
    extent = x.node.shape[along]
    count = as_dim(sections)
    if count is None:
        bounds = [None, *sections, None]
        return [x[(slice(None),) * along + (slice(a, b),)] for a, b in itertools.pairwise(bounds)]
    pieces = x._trace.fix(count, "the number of sections of a split")
    if pieces <= 0:
        raise ValueError(f"{here()}: number sections must be larger than 0.")
    if exact:
        x._trace.same(sizes.mod(extent, pieces), 0, "array split does not result in an equal division")
    each, extra = sizes.floordiv(extent, pieces), 0 if exact else sizes.mod(extent, pieces)
    starts = [k * each + sizes.minimum(k, extra) for k in range(pieces + 1)]
    return [window(x, along, a, b - a) for a, b in itertools.pairwise(starts)]


@implements("split")
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    return _split_axis(array(ary), indices_or_sections, axis, exact=True)


@implements("array_split")
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    return _split_axis(array(ary), indices_or_sections, axis, exact=False)


def _split_along(name: str, least: int, axis: int) -> None:
    def rule(ary: Any, indices_or_sections: Any) -> list[Any]:
        x = array(ary)
        if x.ndim < least:
            raise ValueError(f"{here()}: {name} only works on arrays of {least} or more dimensions")
        return _split_axis(x, indices_or_sections, 0 if x.ndim == 1 else axis, exact=True)

    implements(name)(rule)


_split_along("hsplit", 1, 1)
_split_along("vsplit", 2, 0)
_split_along("dsplit", 3, 2)
if hasattr(np, "unstack"):

    @implements("unstack")
    def unstack(x: Any, /, *, axis: int = 0) -> Any:
        return tuple(moved for moved in _axis_first(array(x), axis))


def _axis_first(x: Any, axis: int) -> Any:
    (along,) = normalise_axes(x.ndim, axis)
    return x.transpose(along, *(k for k in range(x.ndim) if k != along))


# -- repeated and rolled --------------------------------------------------------------------------
@implements("repeat", method="repeat")
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    x = array(a, repeats)
    if axis is None:
        x, axis = ravel(x), 0
    (along,) = normalise_axes(x.ndim, axis)
    times = as_dim(repeats)
    counts = None if times is not None else promote.known_array(repeats)
    if counts is not None and counts.size == 1:
        times = int(counts.reshape(())[()])
    if times is not None:
        if isinstance(times, int) and times < 0:
            raise ValueError(f"{here()}: repeats may not contain negative values.")
        return _spread(x, along, 1, times)
    if counts is None:
        return _repeat_each(x, array(repeats, x), along)
    extent = x._trace.fix(x.node.shape[along], "np.repeat by an array")
    index = np.repeat(np.arange(extent), counts)
    return x[(slice(None),) * along + (index,)]


def _repeat_each(x: Any, counts: Any, axis: int) -> Any:
    """Each element along an axis as often as an array of counts says."""
    if counts.dtype.kind not in "iub" or counts.dtype == np.uint64:
        raise TypeError(
            f"{here()}: Cannot cast array data from {counts.dtype!r} to dtype('int64') according to the rule 'safe'"
        )
    if counts.ndim > 1:
        raise ValueError(f"{here()}: object too deep for desired array")
    given: Dim
    trace, extent = x._trace, x.node.shape[axis]
    number = cast_to(counts, np.int64)
    given = counts.node.shape[0] if counts.ndim else 1
    if given != 1 and trace.hint(given) == 1 and trace.hint(extent) != 1:
        given = trace.fix(given, "np.repeat")
    if given != 1:
        trace.same(given, extent, "operands could not be broadcast together")
        total = number.sum()
    else:
        total = op("multiply", number.sum(), wrap(extent, trace))
    length = measured_size(trace, op("maximum", total, 0).node)
    shape = list(x.node.shape)
    shape[axis] = length
    return call(trace, "repeat", [x, number], {"axis": axis}, results=[(x.dtype, tuple(shape))])[0]


def _spread(x: Any, axis: int, before: Dim, after: Dim) -> Any:
    """An axis of n elements as one of `before * n * after`: the whole repeated, each element repeated."""
    shape = x.node.shape
    wide = (*shape[:axis], before, shape[axis], after, *shape[axis + 1 :])
    spread = x[(slice(None),) * axis + (None, slice(None), None)]
    node = promote.broadcast_node(x._trace, spread.node, wide)
    total = before * shape[axis] * after
    return reshape(
        Tracer.of(x._trace, node), tuple(wrap(d, x._trace) for d in (*shape[:axis], total, *shape[axis + 1 :]))
    )


@implements("tile")
def tile(A: Any, reps: Any) -> Any:
    x = array(A, reps)
    single = as_dim(reps)
    counts = [single] if single is not None else [as_dim(r) for r in reps]
    if any(c is None for c in counts):
        raise UnsupportedError(f"{here()}: np.tile takes integers and sizes as reps")
    counts = [1] * (x.ndim - len(counts)) + counts
    if len(counts) > x.ndim:
        x = x[(None,) * (len(counts) - x.ndim)]
    wide: list[Dim] = []
    for count, extent in zip(counts, x.node.shape, strict=True):
        wide += [count or 0, extent]
    if all(c == 1 for c in counts):
        return x.copy()
    spread = x[tuple(k for _ in counts for k in (None, slice(None)))]
    node = promote.broadcast_node(x._trace, spread.node, tuple(wide))
    final = [(c or 0) * d for c, d in zip(counts, x.node.shape, strict=True)]
    return reshape(Tracer.of(x._trace, node), tuple(wrap(d, x._trace) for d in final))


@implements("roll")
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    x = array(a, shift).copy()
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape) if x.ndim else x
    if isinstance(shift, Tracer):
        raise UnsupportedError(
            f"{here()}: np.roll by a traced value is not supported; index with (np.arange(n) - shift) % n"
        )
    shifts = shift if isinstance(shift, (tuple, list, np.ndarray)) else (shift,)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    pairs = np.broadcast(np.arange(len(shifts)), np.arange(len(axes)))
    for s, k in pairs:
        (along,) = normalise_axes(x.ndim, axes[k])
        x = _roll_axis(x, as_dim(shifts[s]) or 0, along)
    return x


def _roll_axis(x: Any, shift: Dim, axis: int) -> Any:
    extent = x.node.shape[axis]
    if extent in (0, 1) or shift == 0:
        return x
    moved = sizes.mod(shift, extent)
    return concatenate([window(x, axis, extent - moved, moved), window(x, axis, 0, extent - moved)], axis)
