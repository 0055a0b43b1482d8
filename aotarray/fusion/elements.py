"""Loops that every element walks on its own, so that the whole loop is one kernel with the steps innermost.

    for k in range(1, n): y[..., k] = x[..., k] + a * y[..., k - 1]

No element of `y[..., k]` reads what another element makes. What such a loop carries is a *state*, a value of each
element, or a *track*, an array that steps write at positions along some axes: it lies in memory, and is changed
in place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from .. import sizes
from ..graph import Graph, Node, axis_name
from ..sizes import Dim
from .access import Index, inlines_reduction, loop_index, operand_uses
from .positions import Steps, affine

#: what the body of such a loop may consist of, and how many of them
_KINDS = frozenset({"leaf", "elementwise", "view", "gather", "concat", "update", "put", "reduce"})
_LARGEST = 400
#: values that the body computes for an element, and at most so many of one array
_LARGEST_STEP, _LARGEST_TAIL = 400, 16
#: at most so many writes before a loop complete what its steps write
_FEW = 8

#: for each axis of an array the index at which an element of a loop finds what is its own, None where all is
Owned = tuple["Dim | None", ...]


@dataclass(frozen=True)
class Write:
    """`array[index] = value`: for each axis an index in the axes of the value, or the node that says where.

    `bounded` is the axis along which the index may lie outside of the array, where nothing is written then.
    """

    index: tuple[Dim | Node, ...]
    value: Node
    bounded: int = -1


@dataclass(frozen=True)
class Missing:
    """The positions along an axis that no step writes, nor a write before the loop."""

    axis: int
    positions: tuple[Dim, ...]


@dataclass(frozen=True)
class ElementLoop:
    """How a loop falls apart into elements of `domain`; carried values by number.

    Arrays may have last axes of a few elements beside those of the domain: an element of the loop has all of these.
    """

    domain: tuple[Dim, ...]
    states: tuple[int, ...]
    tracks: dict[int, tuple[Write, ...]]
    #: tracks of which the steps make all before it is read, but for a few positions along an axis
    fresh: dict[int, Missing] = field(default_factory=dict)


def writes(node: Node, base: Node, parts: bool = True) -> tuple[Write, ...] | None:
    """The writes, in order, that make `node` of `base`; None when it is made in another way.

    Where only `parts` count, an array that is written as a whole is made in another way.
    """
    if node is base:
        return ()
    if node.op.kind not in ("put", "update") or (parts and _is_whole(node)):
        return None
    earlier = writes(node.operands[0], base, parts)
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
        inside = writes(value, view, parts)
        if inside is None:
            return None
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
    loose = [
        n for n in nodes if n.op.kind not in _KINDS or (n.op.kind == "reduce" and not inlines_reduction(n))
    ]
    if loose or body.checks or len(nodes) > _LARGEST:
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
    positions = [i for found in tracks.values() for w in found for i in w.index if isinstance(i, Node)]
    for domain in _domains(values):
        loop = ElementLoop(domain, tuple(states), tracks)
        starts: list[tuple[Node, Index]] = [(v, at) for v in values for at in places(v, len(domain))]
        starts += [(p, ()) for p in positions]
        if _is_separate(body, loop, starts):
            missing = {k: _missing(node, k, found, starts) for k, found in tracks.items()}
            return replace(loop, fresh={k: m for k, m in missing.items() if m is not None})
    return None


def _domains(values: Sequence[Node]) -> Iterator[tuple[Dim, ...]]:
    """What the elements of a loop may be: those of all values, or with a few elements of each value beside."""
    shapes = {tuple(d for d in v.shape if d != 1) for v in values}
    common: tuple[Dim, ...] = min(shapes, key=len)
    if len(shapes) == 1 and not _is_few(common):
        yield common
    while common and (isinstance(common[-1], int) or any(s[: len(common)] != common for s in shapes)):
        common = common[:-1]
    few = all(_is_few(s[len(common) :]) for s in shapes)
    if few and sum(len(places(v, len(common))) for v in values) <= _LARGEST_STEP:
        yield common


def _is_few(shape: tuple[Dim, ...]) -> bool:
    return math.prod(d if isinstance(d, int) else 2 * _LARGEST_TAIL for d in shape) <= _LARGEST_TAIL


def places(node: Node, rank: int) -> list[Index]:
    """The indices of a value that an element computes: loop variables, and all positions in axes of a few."""
    lead: list[tuple[Dim, ...]] = []
    axis = 0
    for extent in node.shape:
        if extent == 1:
            lead.append((0,))
        elif axis < rank:
            lead.append((loop_index(axis),))
            axis += 1
        else:
            assert isinstance(extent, int)
            lead.append(tuple(range(extent)))
    return list(itertools.product(*lead))


def _is_separate(body: Graph, loop: ElementLoop, starts: list[tuple[Node, Index]]) -> bool:
    """True when each element reads of what is carried only what is its own."""
    owned: dict[int, Owned] = {}
    for k, found in loop.tracks.items():
        for write in found:
            own = own_axes(write, len(loop.domain))
            if own is None or owned.setdefault(body.inputs[1 + k].number, own) != own:
                return False
    for k in loop.states:
        owned[body.inputs[1 + k].number] = own_part(body.inputs[1 + k].shape, len(loop.domain))
    states = frozenset(body.inputs[1 + k].number for k in loop.states)
    return reads_own(starts, owned) and all(
        own is not None or all("r" in n for n in sizes.names(place))  # of a sum that is written out
        for number, index in reads(starts, states)
        for own, place in zip(owned[number], index, strict=True)
    )


def own_part(shape: tuple[Dim, ...], rank: int) -> Owned:
    """Where an element finds what is its own in a value of the loop: None along axes of which it has all."""
    found: list[Dim | None] = []
    axis = 0
    for extent in shape:
        if extent == 1:
            found.append(0)
        else:
            found.append(loop_index(axis) if axis < rank else None)
            axis += 1
    return tuple(found)


def reads_own(starts: list[tuple[Node, Index]], owned: dict[int, Owned]) -> bool:
    """True when the nodes in `owned`, by number, are read only at what is there said to be an element's own."""
    return all(
        mine is None or mine == read
        for number, index in reads(starts, frozenset(owned))
        for mine, read in zip(owned[number], index, strict=True)
    )


def own_axes(write: Write, rank: int) -> Owned | None:
    """For each axis of a track its index, in the loop variables, where that is an element's own; None elsewhere."""
    lanes = {str(loop_index(a)) for a in range(rank)}
    here = {axis_name(a): i or 0 for a, i in enumerate(own_part(write.value.shape, rank))}
    own: list[Dim | None] = []
    seen: set[str] = set()
    for position in write.index:
        dim = 0 if isinstance(position, Node) else sizes.substitute(position, here)
        used = sizes.names(dim) & lanes
        if len(used) > 1 or used & seen:
            return None
        seen |= used
        own.append(dim if used else None)
    return tuple(own) if seen == lanes else None


def _missing(
    node: Node, k: int, found: tuple[Write, ...], starts: list[tuple[Node, Index]]
) -> Missing | None:
    """What the steps of a loop leave of a track, which they write in order along an axis; None where that is much.

    In `y = np.empty(n); y[0] = a; for i in range(1, n): y[i] = f(y[i - 1])` nothing. None too where a step may read
    what is not written yet.
    """
    body: Graph = node.params["body"]
    counter, track = body.inputs[0], body.inputs[1 + k]
    steps = Steps.between("#", *node.operands[:2])
    first, earlier = start_writes(node.operands[2 + k])
    axis = _step_axis(found[0], track.shape)
    if len(found) > 1 or axis is None or first is None:
        return None
    at = found[0].index[axis]
    written = affine(at, counter, steps.name) if isinstance(at, Node) else at
    before = [_position_along(w, axis, track.shape) for w in earlier]
    if written is None or not steps.within(written, track.shape[axis]) or None in before:
        return None
    least, most = steps.ends(written) or (-1, -1)
    rest = track.shape[axis] - 1 - most
    if not (isinstance(least, int) and isinstance(rest, int) and least + rest <= _FEW):
        return None
    ends = [*range(least), *(track.shape[axis] - 1 - j for j in range(rest))]
    factor = sizes.linear_coefficient(written, steps.name)
    if factor not in (1, -1):
        return None
    forward = (factor == 1) != node.params["reverse"]
    places = _gathered(body, steps)
    for _, index in reads(starts, frozenset([track.number])):
        place = (
            sizes.substitute(index[axis], places)
            if sizes.names(index[axis]) <= places.keys()
            else index[axis]
        )
        behind = written - place if forward else place - written
        earlier_step = isinstance(behind, int) and behind > 0 and steps.within(place, track.shape[axis])
        if not earlier_step and place not in (*before, *ends):
            return None
    return Missing(axis, tuple(p for p in ends if p not in before))


def _gathered(body: Graph, steps: Steps) -> dict[str, Dim]:
    """By the names that `operand_uses` gives to positions of gathers, those that are known."""
    found: dict[str, Dim] = {}
    for node in body.nodes():
        if node.op.kind == "gather":
            for axis, operand in zip(node.params["axes"], node.operands[1:], strict=True):
                place = affine(operand, body.inputs[0], steps.name)
                if place is not None and steps.within(place, node.operands[0].shape[axis]):
                    found[f"?{node.number}.{axis}"] = place
    return found


def start_writes(node: Node) -> tuple[Node | None, tuple[Write, ...]]:
    """What an array starts from, and the writes that then make it; None where they cannot be told."""
    base = node
    while base.op.kind in ("put", "update") and not _is_whole(base):
        base = base.operands[0]
    found = writes(node, base)
    fine = found is not None and all(w.index for w in found)
    return (base, found) if fine and found is not None else (None, ())


def _step_axis(write: Write, shape: tuple[Dim, ...]) -> int | None:
    """The axis along which a write moves from step to step, where it takes all of every other one."""
    found = [a for a in range(len(shape)) if not _takes_all(write, a, shape)]
    return found[0] if len(found) == 1 else None


def _takes_all(write: Write, axis: int, shape: tuple[Dim, ...]) -> bool:
    index, extents = write.index[axis], write.value.shape
    return any(index == sizes.name(axis_name(a)) and d == shape[axis] for a, d in enumerate(extents))


def _position_along(write: Write, axis: int, shape: tuple[Dim, ...]) -> Dim | None:
    """Where a write that takes all of every other axis goes along this one."""
    index = write.index[axis]
    if (
        _step_axis(write, shape) != axis
        or isinstance(index, Node)
        or any("%" in n for n in sizes.names(index))
    ):
        return None
    return index


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
    copied = changed_in_place(node)
    return [o for k, o in enumerate(node.operands[2:]) if k >= count or k in copied]


def tracks_of(node: Node) -> dict[int, tuple[Write, ...]]:
    """What a loop carries and its steps change at some positions only."""
    first = 1 if node.op.name == "loop" else 0
    body: Graph = node.params["body"]
    found = {k: writes(body.outputs[k], body.inputs[first + k]) for k in range(node.params["carried"])}
    return {k: ws for k, ws in found.items() if ws and all(_is_part(w, body.outputs[k].shape) for w in ws)}


def changed_in_place(node: Node) -> set[int]:
    """The carried values of a loop that lie where they started, and are copied there first."""
    loop = element_loop(node)
    return set(tracks_of(node)) if loop is None else loop.tracks.keys() - loop.fresh


def _is_part(write: Write, shape: tuple[Dim, ...]) -> bool:
    """True for a write that leaves out at least one axis of the array."""
    fixed = (isinstance(i, Node) or not any(n.startswith("%") for n in sizes.names(i)) for i in write.index)
    return any(f and d != 1 for f, d in zip(fixed, shape, strict=False))
