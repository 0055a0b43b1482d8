"""Loops of elements joined with what they start from, in one graph.

The counter becomes a loop variable: reading and writing at it become views and updates like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .. import sizes
from ..graph import Graph, Node, axis_name
from ..sizes import Dim
from .access import Index
from .elements import (
    ElementLoop,
    Missing,
    Owned,
    Write,
    own_axes,
    own_part,
    places,
    reads,
    start_writes,
    writes,
)
from .nest import Storage
from .positions import Steps, affine


@dataclass
class JoinedLoop:
    """One loop in the joined graph."""

    node: Node
    loop: ElementLoop
    places: list[Storage | None]
    steps: Steps
    lower: Node
    upper: Node
    counter: Node
    #: what each carried value starts from, and stands for in a step
    starts: list[Node]
    carried: list[Node]
    outputs: list[Node] = field(default_factory=list)
    writes: dict[int, tuple[Write, ...]] = field(default_factory=dict)
    #: of fresh tracks: the writes before the loop
    before: dict[int, tuple[Write, ...]] = field(default_factory=dict)

    @property
    def stacks(self) -> list[tuple[Node, Storage | None]]:
        count = len(self.carried)
        return list(zip(self.outputs[count:], self.places[count:], strict=True))

    def moves(self, node: Node) -> bool:
        """True for a view or an update whose place depends on the step."""
        dims = node.params["map"] if node.op.kind == "view" else ()
        if node.op.kind == "update":
            dims = [start for start, *_ in node.params["region"]]
        return any(self.steps.name in sizes.names(d) for d in dims)

    def positions(self) -> list[Node]:
        """The positions of writes that are values."""
        return [i for found in self.writes.values() for w in found for i in w.index if isinstance(i, Node)]

    def values(self) -> list[tuple[Node, Index]]:
        """All that the loop computes for an element, and at which index."""
        before = [w.value for found in self.before.values() for w in found]
        stepped = [self.outputs[k] for k in self.loop.states] + self.outputs[len(self.carried) :]
        stepped += [w.value for found in self.writes.values() for w in found]
        starts = [self.starts[k] for k in self.loop.states]
        scalars = [self.lower, self.upper, *self.positions()]
        rank = len(self.loop.domain)
        found = [(v, at) for v in (*before, *starts, *stepped) for at in places(v, rank)]
        return found + [(v, ()) for v in scalars]

    def owned(self) -> dict[int, Owned]:
        """By the buffer of each result: where an element finds what is its own."""
        found: dict[int, Owned] = {}
        rank = len(self.loop.domain)
        for k, place in enumerate(self.places):
            if place is None:
                continue
            if k in self.writes:
                found[place.buffer] = own_axes(self.writes[k][0], rank) or ()
            elif k in self.loop.states:
                found[place.buffer] = own_part(place.shape, rank)
            else:
                found[place.buffer] = (None, *own_part(place.shape[1:], rank))
        return found


class Joined:
    """Loops in one graph; `storage` has those of its inputs that lie in memory."""

    def __init__(self, like: Graph, outer: Mapping[int, Storage]) -> None:
        self.graph = Graph(like.name, hints=like.hints)
        self.storage: dict[int, Storage] = {}
        self.loops: list[JoinedLoop] = []
        self.outer = outer
        self._made: dict[int, Node] = {}

    def add(self, node: Node, loop: ElementLoop, places: Sequence[Storage | None], step: str) -> JoinedLoop:
        """Join one more loop, with its results at `places`."""
        body: Graph = node.params["body"]
        count, sliced = node.params["carried"], node.params["sliced"]
        lower, upper, *rest = [self._from_outside(o) for o in node.operands]
        counter = self.graph.input(body.inputs[0].type, "counter")
        carried = [self.graph.input(n.type, f"carried{k}") for k, n in enumerate(body.inputs[1 : 1 + count])]
        joined = JoinedLoop(
            node,
            loop,
            list(places),
            Steps.between(step, lower, upper),
            lower,
            upper,
            counter,
            rest[:count],
            carried,
        )
        for k in loop.tracks:
            place = places[k]
            assert place is not None
            self.storage[carried[k].number] = place
        made: dict[int, Node] = {body.inputs[0].number: counter}
        given = [
            *carried,
            *(self._row(x, step) for x in rest[count : count + sliced]),
            *rest[count + sliced :],
        ]
        made.update((n.number, new) for n, new in zip(body.inputs[1:], given, strict=True))
        for inner in body.nodes():
            if inner.number not in made:
                made[inner.number] = self._joined(joined, inner, [made[o.number] for o in inner.operands])
        joined.outputs = [made[o.number] for o in body.outputs]
        joined.writes = {k: writes(joined.outputs[k], carried[k], parts=False) or () for k in loop.tracks}
        joined.before = {
            k: self._before(joined.starts[k], missing) for k, missing in sorted(loop.fresh.items())
        }
        self.loops.append(joined)
        return joined

    def _before(self, start: Node, missing: Missing) -> tuple[Write, ...]:
        """The writes that make of a new array all of `start` that the steps of a loop do not make."""
        base, found = start_writes(start)
        assert base is not None
        axes = [a for a in range(len(start.shape)) if a != missing.axis]
        filled = []
        for position in missing.positions:
            index: list[Dim] = [0] * len(start.shape)
            index[missing.axis] = position
            for k, axis in enumerate(axes):
                index[axis] = sizes.name(axis_name(k))
            settled = tuple(0 if d == 1 else i for i, d in zip(index, start.shape, strict=True))
            shape = tuple(start.shape[a] for a in axes)
            value = self.graph.apply("view", (base,), start.where, map=settled, shape=shape)
            filled.append(Write(tuple(index), value, missing.axis))
        return (*filled, *found)

    def reads_own(self, joined: JoinedLoop, owned: Mapping[int, Owned]) -> bool:
        """True when the loop reads of the buffers in `owned` only what is each element's own."""
        inputs = {n: owned[p.buffer] for n, p in self.storage.items() if p.buffer in owned}
        mine = {n.number for n in joined.carried}
        return all(
            own is None or own == read
            for number, index in reads(joined.values(), frozenset(inputs.keys() - mine))
            for own, read in zip(inputs[number], index, strict=True)
        )

    def _from_outside(self, node: Node) -> Node:
        """A node of the graph around the loops: as memory, or with what it is computed of."""
        order, seen, stack = [], set(), [node]
        while stack:
            found = stack.pop()
            if found.number not in seen and found.number not in self._made:
                seen.add(found.number)
                order.append(found)
                if not self._lies_in_memory(found):
                    stack += found.operands
        for found in sorted(order, key=lambda n: n.number):
            if self._lies_in_memory(found):
                made = self.graph.input(found.type, f"given{found.number}")
                self.storage[made.number] = self.outer[found.number]
            else:
                operands = [self._made[o.number] for o in found.operands]
                made = self.graph.apply(found.op.name, operands, found.where, found.type, **found.params)
            self._made[found.number] = made
        return self._made[node.number]

    def _lies_in_memory(self, node: Node) -> bool:
        """True for what is stored; numbers and sizes are known better than that."""
        return node.number in self.outer and node.op.name not in ("literal", "size")

    def _row(self, x: Node, step: str) -> Node:
        """What a `scan` shows of an array in a step."""
        shape = x.shape[1:]
        row = (sizes.name(step), *(sizes.name(axis_name(a)) for a in range(len(shape))))
        return self.graph.apply("view", (x,), x.where, map=row, shape=shape)

    def _joined(self, joined: JoinedLoop, node: Node, operands: list[Node]) -> Node:
        """A node of the body: reading and writing at the counter become views and updates."""
        apply, shape = self.graph.apply, operands[0].shape if operands else ()
        if node.op.kind == "gather" and not operands[1].shape:
            places = self._places(joined, node.params["axes"], operands[1:], shape)
            if places is not None:
                rest = iter(range(len(node.shape)))
                index = tuple(
                    places[a] if a in places else sizes.name(axis_name(next(rest))) for a in range(len(shape))
                )
                return apply("view", (operands[0],), node.where, map=index, shape=node.shape)
        if node.op.kind == "put":
            places = self._places(joined, node.params["axes"], operands[2:], shape)
            if places is not None:
                rest = iter(range(len(shape)))
                region = tuple(
                    (places[a], 1, 1, None) if a in places else (0, 1, shape[a], next(rest))
                    for a in range(len(shape))
                )
                return apply("update", operands[:2], node.where, region=region)
        return apply(node.op.name, operands, node.where, node.type, **node.params)

    def _places(
        self, joined: JoinedLoop, axes: Sequence[int], positions: Sequence[Node], shape: tuple[Dim, ...]
    ) -> dict[int, Dim] | None:
        """Positions along axes as sizes, where all are known to be within bounds."""
        found: dict[int, Dim] = {}
        for axis, position in zip(axes, positions, strict=True):
            dim = affine(position, joined.counter, joined.steps.name)
            if dim is None or not joined.steps.within(dim, shape[axis]):
                return None
            found[axis] = dim
        return found
