"""Views of traced arrays: how a view reads its base, and how writing through it changes the base.

A view is a `Lens`. A traced array is a storage and a chain of lenses; reading applies them to the storage's
current node, writing goes back through them, so that NumPy's view semantics hold without any memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .. import sizes
from ..errors import UnsupportedError
from ..graph import Graph, Node, axis_name, topological
from ..sizes import Dim
from .context import Trace, here


class Lens(Protocol):
    """One step from an array to a view of it."""

    @property
    def shape(self) -> tuple[Dim, ...]: ...

    def read(self, graph: Graph, base: Node) -> Node: ...

    def write(self, graph: Graph, base: Node, value: Node) -> Node: ...


@dataclass(frozen=True)
class Affine:
    """A view whose element (i, j, ...) is an element of the base at affine indices."""

    index: tuple[Dim, ...]
    shape: tuple[Dim, ...]

    def read(self, graph: Graph, base: Node) -> Node:
        return graph.apply("view", (base,), here(), map=self.index, shape=self.shape)

    def write(self, graph: Graph, base: Node, value: Node) -> Node:
        region = []
        used: set[int] = set()
        for dim in self.index:
            start, step, axis = self._single_axis(dim)
            if axis is not None and axis in used:
                raise UnsupportedError(
                    f"{here()}: writing through a diagonal is not supported; use np.fill_diagonal, or np.where with "
                    f"np.eye"
                )
            used |= {axis} if axis is not None else set()
            length: Dim = 1 if axis is None else self.shape[axis]
            region.append((start, step, length, axis))
        for axis, extent in enumerate(self.shape):
            if axis not in used and extent != 1:
                raise UnsupportedError(
                    f"{here()}: writing into a broadcast view is not supported; write into a copy"
                )
        return graph.apply("update", (base, value), here(), region=tuple(region))

    def _single_axis(self, dim: Dim) -> tuple[Dim, Dim, int | None]:
        axes = [a for a in range(len(self.shape)) if axis_name(a) in sizes.names(dim)]
        if not axes:
            return dim, 1, None
        (axis,) = axes
        step = sizes.linear_coefficient(dim, axis_name(axis))
        assert step is not None
        start = sizes.substitute(dim, {axis_name(axis): 0})
        if not isinstance(step, int):
            raise UnsupportedError(
                f"{here()}: writing through a slice whose step is a traced size is not supported"
            )
        return start, step, axis


@dataclass(frozen=True)
class Reshape:
    """The same elements in C order under another shape."""

    shape: tuple[Dim, ...]

    def read(self, graph: Graph, base: Node) -> Node:
        return graph.apply("reshape", (base,), here(), shape=self.shape)

    def write(self, graph: Graph, base: Node, value: Node) -> Node:
        return graph.apply("reshape", (value,), here(), shape=base.shape)


@dataclass(frozen=True)
class Part:
    """The real or the imaginary parts of a complex array."""

    name: str
    shape: tuple[Dim, ...]

    def read(self, graph: Graph, base: Node) -> Node:
        return graph.apply(self.name, (base,), here())

    def write(self, graph: Graph, base: Node, value: Node) -> Node:
        other = graph.apply("imag" if self.name == "real" else "real", (base,), here())
        return graph.apply("complex", (value, other) if self.name == "real" else (other, value), here())


@dataclass(frozen=True)
class ReadOnly:
    """The array as it is; writing raises, as in NumPy."""

    shape: tuple[Dim, ...]
    what: str

    def read(self, graph: Graph, base: Node) -> Node:
        return base

    def write(self, graph: Graph, base: Node, value: Node) -> Node:
        raise ValueError(f"{here()}: assignment destination is read-only: {self.what}; write into a copy")


@dataclass(frozen=True)
class Row:
    """The elements of an array of shape `whole` at int64 scalars along some axes: `((axis, position), ...)`."""

    at: tuple[tuple[int, Node], ...]
    whole: tuple[Dim, ...]

    @property
    def shape(self) -> tuple[Dim, ...]:
        axes = [a for a, _ in self.at]
        return tuple(d for a, d in enumerate(self.whole) if a not in axes)

    def read(self, graph: Graph, base: Node) -> Node:
        axes, positions = zip(*self.at, strict=True)
        return graph.apply("gather", (base, *positions), here(), axes=axes, position=0, shape=self.shape)

    def write(self, graph: Graph, base: Node, value: Node) -> Node:
        axes, positions = zip(*self.at, strict=True)
        return graph.apply("put", (base, value, *positions), here(), axes=axes)


def keep_order(shape: Sequence[Dim], lenses: Sequence[Lens]) -> bool:
    """True when a C-ordered array, seen through `lenses`, surely has its elements one after another."""
    for lens in lenses:
        if isinstance(lens, Row) or (isinstance(lens, Affine) and not _is_block(shape, lens)):
            return False
        shape = lens.shape
    return True


#: ops whose results NumPy lays out as their operands, or as the first of them
_LIKE_OPERANDS = ("elementwise", "view", "reshape", "reduce", "argreduce", "scan", "concat", "update", "put", "gather")


def follows_c_order(node: Node) -> bool:
    """False where NumPy gives an array with the value of `node` another order of axes in memory, as `x.T + 1` has.

    Arguments count as C-ordered.
    """
    follows: dict[int, bool] = {}
    for one in topological((node,)):
        deep = [follows[o.number] for o in one.operands if len(o.shape) > 1]
        if one.op.kind in ("update", "put", "gather"):
            deep = deep[:1]
        kept = one.op.kind != "view" or _keeps_axes(one.params["map"], len(one.shape))
        if one.op.kind == "gather":
            kept = one.params["axes"] == tuple(range(len(one.params["axes"])))
        follows[one.number] = kept and (all(deep) or one.op.kind not in _LIKE_OPERANDS)
    return len(node.shape) < 2 or follows[node.number]


def _keeps_axes(index: Sequence[Dim], rank: int) -> bool:
    """Whether a view's axes come in the order that they have in what is viewed."""
    used = [a for dim in index for a in range(rank) if axis_name(a) in sizes.names(dim)]
    return used == sorted(set(used))


def _is_block(shape: Sequence[Dim], lens: Affine) -> bool:
    """One element of some leading axes, a range of the next, and all of the others, in order."""
    used = -1
    for dim, extent in zip(lens.index, shape, strict=True):
        along = [a for a in range(len(lens.shape)) if axis_name(a) in sizes.names(dim)]
        if not along:
            if extent != 1 and used >= 0:
                return False
            continue
        axis = along[0]
        offset = dim - sizes.name(axis_name(axis))
        if axis <= used or axis_name(axis) in sizes.names(offset):
            return False
        if (offset, lens.shape[axis]) != (0, extent) and used >= 0:
            return False
        used = axis
    return all(
        d == 1 or any(axis_name(a) in sizes.names(i) for i in lens.index) for a, d in enumerate(lens.shape)
    )


def axes(count: int) -> list[Dim]:
    """Index variables of the output axes."""
    return [sizes.name(axis_name(a)) for a in range(count)]


def transpose(shape: Sequence[Dim], order: Sequence[int]) -> Affine:
    """Output axis k is base axis order[k]."""
    index: list[Dim] = [0] * len(shape)
    for k, a in enumerate(order):
        index[a] = sizes.name(axis_name(k))
    return Affine(tuple(index), tuple(shape[a] for a in order))


def broadcast(shape: Sequence[Dim], target: Sequence[Dim]) -> Affine:
    """Right-aligned; axes of size 1 are repeated."""
    lead = len(target) - len(shape)
    index = tuple(
        0 if d == 1 and target[lead + a] != 1 else sizes.name(axis_name(lead + a))
        for a, d in enumerate(shape)
    )
    index = tuple(0 if d == 1 else i for d, i in zip(shape, index, strict=True))
    return Affine(index, tuple(target))


def insert_axes(shape: Sequence[Dim], positions: Sequence[int]) -> Affine:
    """New axes of size 1 at these positions of the result."""
    rank = len(shape) + len(positions)
    kept = [a for a in range(rank) if a not in positions]
    target: list[Dim] = [1] * rank
    for a, d in zip(kept, shape, strict=True):
        target[a] = d
    return Affine(tuple(sizes.name(axis_name(a)) for a in kept), tuple(target))


def drop_axes(shape: Sequence[Dim], positions: Sequence[int]) -> Affine:
    """Without these axes, each of size 1."""
    kept = [a for a in range(len(shape)) if a not in positions]
    index: list[Dim] = [0] * len(shape)
    for k, a in enumerate(kept):
        index[a] = sizes.name(axis_name(k))
    return Affine(tuple(index), tuple(shape[a] for a in kept))


def diagonal(shape: Sequence[Dim], offset: int, first: int, second: int) -> Affine:
    """The diagonal of two axes, which becomes the last axis."""
    n, m = shape[first], shape[second]
    length = sizes.maximum(sizes.minimum(n, m - offset) if offset >= 0 else sizes.minimum(n + offset, m), 0)
    rest = [a for a in range(len(shape)) if a not in (first, second)]
    index: list[Dim] = [0] * len(shape)
    for k, a in enumerate(rest):
        index[a] = sizes.name(axis_name(k))
    along = sizes.name(axis_name(len(rest)))
    index[first] = along + max(-offset, 0)
    index[second] = along + max(offset, 0)
    return Affine(tuple(index), (*(shape[a] for a in rest), length))


def slice_axis(extent: Dim, start: Dim | None, stop: Dim | None, step: int) -> tuple[Dim, Dim]:
    """(offset of the first element, number of elements) of `[start:stop:step]` on an axis.

    Only ints count from the end when negative: `from_start` has made all other bounds positions from the
    start, except those that come to the same either way.
    """
    if step > 0:
        first = _clamped_offset(start, extent, 0)
        span = _span(first, start, stop, extent)
        return first, span if step == 1 else sizes.floordiv(span + (step - 1), step)
    last: Dim = extent - 1
    first = last if start is None else _clamp(_absolute(start, extent), -1, last)
    bound: Dim = -1 if stop is None else _clamp(_absolute(stop, extent), -1, last)
    span = sizes.maximum(first - bound, 0)
    return first, span if step == -1 else sizes.floordiv(span + (-step - 1), -step)


def from_start(trace: Trace, position: Dim, extent: Dim, what: str, clamped: bool = False) -> Dim:
    """A position that may be negative, and then counts from the end, as one from the start.

    Where the sign of a traced size is not known it becomes a check when the program starts. `clamped`
    positions (of slices with a positive step) need none for `extent - 1` and `extent - 2`: while these are
    negative, both readings come to 0.
    """
    if isinstance(position, int) or sizes.never_negative(position):
        return position
    if sizes.never_negative(-position - 1):
        return position + extent
    if clamped and extent - position in (1, 2):
        return position
    known = trace.hint(position)
    if known is not None and known < 0:
        trace.graph.require("ge", -1 - position, 0, f"this program was made for a negative {what} {position}")
        return position + extent
    trace.graph.require(
        "ge", position, 0, f"{what} {position} is negative ({{a}}): it would count from the end"
    )
    return position


def _absolute(position: Dim, extent: Dim) -> Dim:
    """A position counted from the end, as one from the start."""
    return position + extent if isinstance(position, int) and position < 0 else position


def _clamp(position: Dim, low: Dim, high: Dim) -> Dim:
    return sizes.maximum(sizes.minimum(position, high), low)


def _clamped_offset(start: Dim | None, extent: Dim, default: int) -> Dim:
    """The first index. Beyond the end it may stay as it is: such a slice is empty."""
    if start is None:
        return default
    return sizes.maximum(_absolute(start, extent), 0)


def _span(first: Dim, start: Dim | None, stop: Dim | None, extent: Dim) -> Dim:
    if stop is None:
        from_end = isinstance(start, int) and start < 0
        return sizes.minimum(-start, extent) if from_end else sizes.maximum(extent - first, 0)  # type: ignore[operator]
    end = _absolute(stop, extent)
    if isinstance(stop, int) and stop < 0:
        if isinstance(start, int) and start < 0:
            return 0 if stop <= start else sizes.minimum(sizes.maximum(end, 0), stop - start)
        return sizes.maximum(end - first, 0)
    return sizes.maximum(sizes.minimum(end, extent) - first, 0)
