"""Loops that every element walks on its own, so that the whole loop is one kernel with the steps innermost.

    for k in range(1, n): y[..., k] = x[..., k] + a * y[..., k - 1]

No element of `y[..., k]` reads what another element makes. What such a loop carries is a *state*, a value of each
element, or a *track*, an array that steps write at positions along some axes: it lies in memory, and is changed
in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from .. import sizes
from ..graph import Graph, Node, axis_name
from ..sizes import Dim
from .access import Index, loop_index, operand_uses, squeezed

#: what the body of such a loop may consist of, and how many of them
_KINDS = frozenset({"leaf", "elementwise", "view", "gather", "concat", "update", "put"})
_LARGEST = 400


@dataclass(frozen=True)
class Write:
    """`array[index] = value`: for each axis an index in the axes of the value, or the node that says where."""

    index: tuple[Dim | Node, ...]
    value: Node


@dataclass(frozen=True)
class ElementLoop:
    """How a loop falls apart into elements of `domain`; carried values by number."""

    domain: tuple[Dim, ...]
    states: tuple[int, ...]
    tracks: dict[int, tuple[Write, ...]]


def writes(node: Node, base: Node) -> tuple[Write, ...] | None:
    """The writes, in order, that make `node` of `base`; None when it is made in another way."""
    if node is base:
        return ()
    if node.op.kind not in ("put", "update") or _is_whole(node):
        return None
    earlier = writes(node.operands[0], base)
    if earlier is None:
        return None
    value = node.operands[1]
    if node.op.kind == "put":
        where = dict(zip(node.params["axes"], node.operands[2:], strict=True))
        rest = iter(range(len(value.shape)))
        index = tuple(
            where[a] if a in where else sizes.name(axis_name(next(rest))) for a in range(len(node.shape))
        )
        return (*earlier, Write(index, value))
    region = tuple(
        start if axis is None else start + step * sizes.name(axis_name(axis))
        for start, step, _, axis in node.params["region"]
    )
    view = _view_below(value)
    if view is not None and view.operands[0] is node.operands[0] and view.params["map"] == region:
        inside = writes(value, view)
        assert inside is not None
        return (*earlier, *(Write(_composed(region, w.index), w.value) for w in inside))
    return (*earlier, Write(region, value))


def _is_whole(node: Node) -> bool:
    """An update that leaves nothing of its base."""
    if node.op.kind == "put":
        return False
    extents = zip(node.params["region"], node.shape, strict=True)
    return all(
        d == 1 or (start == 0 and step == 1 and length == d) for (start, step, length, _), d in extents
    )


def _view_below(node: Node) -> Node | None:
    """The view that puts and updates start from."""
    if node.op.kind not in ("put", "update"):
        return None
    while node.op.kind in ("put", "update"):
        node = node.operands[0]
    return node if node.op.kind == "view" else None


def _composed(region: tuple[Dim, ...], index: tuple[Dim | Node, ...]) -> tuple[Dim | Node, ...]:
    """The index of the base for an index of a view of it."""
    found: list[Dim | Node] = []
    for dim in region:
        placed = [index[a] for a in range(len(index)) if axis_name(a) in sizes.names(dim)]
        if placed and isinstance(placed[0], Node):
            (position,) = placed
            whole = any(dim == sizes.name(axis_name(a)) for a in range(len(index)))
            if not whole:
                return ()  # a position counted from elsewhere
            found.append(position)
        else:
            values = {axis_name(a): i for a, i in enumerate(index) if not isinstance(i, Node)}
            found.append(sizes.substitute(dim, values))
    return tuple(found)


@lru_cache(maxsize=256)
def element_loop(node: Node) -> ElementLoop | None:
    """How a loop falls apart into elements, or None where it does not."""
    if node.op.name != "loop":
        return None
    body: Graph = node.params["body"]
    nodes = body.nodes()
    if len(nodes) > _LARGEST or any(n.op.kind not in _KINDS for n in nodes):
        return None
    count = node.params["carried"]
    states: list[int] = []
    tracks: dict[int, tuple[Write, ...]] = {}
    for k, out in enumerate(body.outputs[:count]):
        found = writes(out, body.inputs[1 + k])
        if found and all(w.index for w in found):
            tracks[k] = found
        elif found is None:
            states.append(k)
        else:
            return None
    values = [body.outputs[k] for k in states]
    values += [w.value for found in tracks.values() for w in found]
    values += body.outputs[count:]
    shapes = {tuple(d for d in v.shape if d != 1) for v in values}
    if len(shapes) != 1:
        return None
    loop = ElementLoop(shapes.pop(), tuple(states), tracks)
    positions = [i for found in tracks.values() for w in found for i in w.index if isinstance(i, Node)]
    return loop if _is_separate(body, loop, values, positions) else None


def _is_separate(body: Graph, loop: ElementLoop, values: list[Node], positions: list[Node]) -> bool:
    """True when each element reads of what is carried only what is its own."""
    lanes = {str(loop_index(a)) for a in range(len(loop.domain))}
    owned: dict[int, list[Dim | None]] = {}  # of tracks: the index along axes that say whose element it is
    for k, found in loop.tracks.items():
        for write in found:
            own = _own_axes(write, lanes)
            if own is None or owned.setdefault(body.inputs[1 + k].number, own) != own:
                return False
    for k in loop.states:
        owned[body.inputs[1 + k].number] = list(squeezed(body.inputs[1 + k].shape))
    starts: list[tuple[Node, Index]] = [(v, squeezed(v.shape)) for v in values]
    starts += [(p, ()) for p in positions]
    return all(
        mine is None or mine == read
        for number, index in reads(starts, frozenset(owned))
        for mine, read in zip(owned[number], index, strict=True)
    )


def _own_axes(write: Write, lanes: set[str]) -> list[Dim | None] | None:
    """For each axis of a track its index, in the loop variables, where that is an element's own; None elsewhere."""
    here = {axis_name(a): i for a, i in enumerate(squeezed(write.value.shape))}
    own: list[Dim | None] = []
    seen: set[str] = set()
    for position in write.index:
        dim = 0 if isinstance(position, Node) else sizes.substitute(position, here)
        used = sizes.names(dim) & lanes
        if len(used) > 1 or used & seen:
            return None
        seen |= used
        own.append(dim if used else None)
    return own if seen == lanes else None


def reads(starts: Sequence[tuple[Node, Index]], inputs: frozenset[int]) -> list[tuple[int, Index]]:
    """Where the given nodes, by number, are read when each start is computed at its index."""
    found: list[tuple[int, Index]] = []
    seen: set[tuple[int, Index]] = set()
    stack = list(starts)
    while stack:
        node, index = stack.pop()
        if (node.number, index) in seen:
            continue
        seen.add((node.number, index))
        if node.number in inputs:
            found.append((node.number, index))
        else:
            stack += operand_uses(node, index)
    return found


def stored_operands(node: Node) -> list[Node]:
    """The operands of a loop or choice that must lie in memory."""
    loop = element_loop(node)
    if loop is None:
        return list(node.operands)
    count = node.params["carried"]
    return [o for k, o in enumerate(node.operands[2:]) if k >= count or k in loop.tracks]


def tracks_of(body: Graph, first: int, count: int) -> dict[int, tuple[Write, ...]]:
    """What a loop carries and its steps change at some positions only; `first` is the first carried input."""
    found = {k: writes(body.outputs[k], body.inputs[first + k]) for k in range(count)}
    return {k: ws for k, ws in found.items() if ws and all(_is_part(w, body.outputs[k].shape) for w in ws)}


def _is_part(write: Write, shape: tuple[Dim, ...]) -> bool:
    """True for a write that leaves out at least one axis of the array."""
    fixed = (isinstance(i, Node) or not any(n.startswith("%") for n in sizes.names(i)) for i in write.index)
    return any(f and d != 1 for f, d in zip(fixed, shape, strict=False))
