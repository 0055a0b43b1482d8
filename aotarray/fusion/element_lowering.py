"""A loop that every element walks on its own (`elements.py`) as one kernel.

The body joins the graph around it: the counter becomes a loop variable, so that what is read and written at
`k - 1` is an index like any other. Elements side by side in memory are walked in blocks, a step at a time, so that
a step runs on vectors; their states wait in scratch memory. Others are walked one by one, with states in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .. import sizes
from ..graph import Graph, Node, axis_name, literal_value, topological
from ..loops import Break, For, If, Kernel, Let
from ..sizes import Dim
from . import scalar
from .access import Index, squeezed
from .elements import ElementLoop, Write, reads, writes
from .group_lowering import GroupLowering
from .nest import Nest, Scope, Storage, Value
from .partition import Group

#: elements of a block
BLOCK = 128
#: what a loop is taken to step through where that is known at run time only
TYPICAL_STEPS = 16384
#: how much longer an operation takes where each waits for the one before, and runs on one element
LATENCY = 8


class Joined:
    """The body of a loop, and what it starts from, in one graph; `storage` has what lies in memory."""

    def __init__(
        self, node: Node, loop: ElementLoop, outer: dict[int, Storage], places: Sequence[Storage], step: str
    ):
        self.node, self.loop, self.step = node, loop, step
        body: Graph = node.params["body"]
        self.graph = Graph(body.name, hints=body.hints)
        self.storage: dict[int, Storage] = {}
        self._outer: dict[int, Node] = {}
        count, sliced = node.params["carried"], node.params["sliced"]
        lower, upper, *rest = [self._from_outside(o, outer) for o in node.operands]
        self.lower, self.upper = lower, upper
        self.starts = rest[:count]
        self.counter = self.graph.input(body.inputs[0].type, "counter")
        self.low, self.high = self.affine(lower), self._last(self.affine(lower), self.affine(upper))
        self.carried = [
            self.graph.input(n.type, f"carried{k}") for k, n in enumerate(body.inputs[1 : 1 + count])
        ]
        for k in loop.tracks:
            self.storage[self.carried[k].number] = places[k]
        made: dict[int, Node] = {body.inputs[0].number: self.counter}
        given = [
            *self.carried,
            *(self._row(x) for x in rest[count : count + sliced]),
            *rest[count + sliced :],
        ]
        made.update((n.number, new) for n, new in zip(body.inputs[1:], given, strict=True))
        for inner in body.nodes():
            if inner.number not in made:
                made[inner.number] = self._joined(inner, [made[o.number] for o in inner.operands])
        self.outputs = [made[o.number] for o in body.outputs]
        self.writes = {k: writes(self.outputs[k], self.carried[k]) or () for k in loop.tracks}

    def moves(self, node: Node) -> bool:
        """True for a view or an update whose place depends on the step."""
        dims = node.params["map"] if node.op.kind == "view" else ()
        if node.op.kind == "update":
            dims = [start for start, *_ in node.params["region"]]
        return any(self.step in sizes.names(d) for d in dims)

    def positions(self) -> list[Node]:
        """The positions of writes that are values."""
        return [i for found in self.writes.values() for w in found for i in w.index if isinstance(i, Node)]

    def _from_outside(self, node: Node, outer: dict[int, Storage]) -> Node:
        """A node of the graph around the loop: as memory, or with what it is computed of."""
        order, seen, stack = [], set(), [node]
        while stack:
            found = stack.pop()
            if found.number not in seen and found.number not in self._outer:
                seen.add(found.number)
                order.append(found)
                if found.number not in outer:
                    stack += found.operands
        for found in sorted(order, key=lambda n: n.number):
            if found.number in outer:
                made = self.graph.input(found.type, f"given{found.number}")
                self.storage[made.number] = outer[found.number]
            else:
                operands = [self._outer[o.number] for o in found.operands]
                made = self.graph.apply(found.op.name, operands, found.where, found.type, **found.params)
            self._outer[found.number] = made
        return self._outer[node.number]

    def _row(self, x: Node) -> Node:
        """What a `scan` shows of an array in a step."""
        shape = x.shape[1:]
        row = (sizes.name(self.step), *(sizes.name(axis_name(a)) for a in range(len(shape))))
        return self.graph.apply("view", (x,), x.where, map=row, shape=shape)

    def _joined(self, node: Node, operands: list[Node]) -> Node:
        """A node of the body: reading and writing at the counter become views and updates."""
        apply, shape = self.graph.apply, operands[0].shape if operands else ()
        if node.op.kind == "gather" and not operands[1].shape:
            places = self._places(node.params["axes"], operands[1:], shape)
            if places is not None:
                rest = iter(range(len(node.shape)))
                index = tuple(
                    places[a] if a in places else sizes.name(axis_name(next(rest))) for a in range(len(shape))
                )
                return apply("view", (operands[0],), node.where, map=index, shape=node.shape)
        if node.op.kind == "put":
            places = self._places(node.params["axes"], operands[2:], shape)
            if places is not None:
                rest = iter(range(len(shape)))
                region = tuple(
                    (places[a], 1, 1, None) if a in places else (0, 1, shape[a], next(rest))
                    for a in range(len(shape))
                )
                return apply("update", operands[:2], node.where, region=region)
        return apply(node.op.name, operands, node.where, node.type, **node.params)

    def _places(
        self, axes: Sequence[int], positions: Sequence[Node], shape: tuple[Dim, ...]
    ) -> dict[int, Dim] | None:
        """Positions along axes as sizes, where all are known to be within bounds."""
        found: dict[int, Dim] = {}
        for axis, position in zip(axes, positions, strict=True):
            dim = self.affine(position)
            if dim is None or not self._within(dim, shape[axis]):
                return None
            found[axis] = dim
        return found

    def affine(self, node: Node) -> Dim | None:
        """The size that an integer scalar is, in the names of sizes and the counter."""
        name = node.op.name
        if node is getattr(self, "counter", None):
            return sizes.name(self.step)
        if node.shape or node.dtype.kind not in "iu":
            return None
        if name == "literal":
            return int(literal_value(node))
        if name == "size":
            dim: Dim = node.params["value"]
            return dim
        if name in ("add", "subtract", "multiply", "negative") or (
            name == "cast" and node.operands[0].dtype.kind == "i"
        ):
            parts = [self.affine(o) for o in node.operands]
            if any(p is None for p in parts) or node.dtype.itemsize != 8:
                return None
            a, b = parts[0], parts[-1]
            assert a is not None and b is not None
            if name == "multiply" and not (isinstance(a, int) or isinstance(b, int)):
                return None
            return {"add": a + b, "subtract": a - b, "multiply": a * b, "negative": -a}.get(name, a)
        return None

    def _last(self, low: Dim | None, end: Dim | None) -> Dim | None:
        """The last value of the counter, if there is one."""
        if low is None or end is None:
            return None
        if not isinstance(end, int) and len(end.terms) == 1 and isinstance(end.terms[0][0][0], sizes.Call):
            call = end.terms[0][0][0]
            if (
                end.terms == (((call,), 1),) and call.name == "max"
            ):  # max(n - 1, 0) is n - 1 once there is a step from 0
                for kept, other in (call.args, call.args[::-1]):
                    if sizes.never_negative(low - other):
                        return kept - 1
        return end - 1

    def _within(self, dim: Dim, extent: Dim) -> bool:
        factor = sizes.linear_coefficient(dim, self.step)
        if not isinstance(factor, int) or self.low is None or self.high is None:
            return False
        ends = [sizes.substitute(dim, {self.step: end}) for end in (self.low, self.high)]
        least, most = ends if factor >= 0 else ends[::-1]
        return sizes.never_negative(least) and sizes.never_negative(extent - 1 - most)


def target_of(nest: Nest, write: Write, at: Index, shape: tuple[Dim, ...]) -> tuple[Index, list[str]]:
    """Where a write of the value at `at` goes in an array of `shape`, and tests that it may."""
    here = {axis_name(a): i for a, i in enumerate(at)}
    index: list[Dim] = []
    tests = []
    for axis, place in enumerate(write.index):
        if isinstance(place, Node):
            name = nest.position(place, axis, shape[axis])
            tests.append(f"{name} >= 0")
            index.append(sizes.name(name))
        else:
            index.append(sizes.substitute(place, here))
    return tuple(index), tests


def store_at(nest: Nest, place: Storage, target: tuple[Index, list[str]], value: Value, line: str) -> None:
    """The write, in the current scope."""
    index, tests = target
    if tests:
        choice = If(" and ".join(tests))
        nest.emit(choice)
        nest.scopes.append(Scope(choice.then, guard=True))
    nest.store(place, index, value, line)
    if tests:
        nest.close()


class WriteLowering(GroupLowering):
    """A kernel that writes a stored value into an array in place."""

    def __init__(self, write: Write, place: Storage, nest: Nest, storage: dict[int, Storage]) -> None:
        domain = tuple(d for d in write.value.shape if d != 1)
        super().__init__(nest.graph, Group("write", domain), nest, storage, set())
        self.write, self.place = write, place

    def lower(self) -> list[Kernel]:
        nest, domain, axes = self.nest, self.group.domain, range(len(self.group.domain))
        nest.pure = False
        if len(domain) > 1:
            nest.extents = [self.extent(a) for a in axes]
            self.open_segments("begin", "end")
        else:
            self._open_items(axes)
        at = self.at(self.write.value, axes)
        target = target_of(nest, self.write, at, self.place.shape)
        line = str(self.write.value.where)
        store_at(nest, self.place, target, nest.value(self.write.value, at), line)
        nest.close(2 if len(domain) > 1 else 1)
        total = sizes.product(domain)
        return [nest.finish(total, total, grain=64, summary=self._over("writing", axes))]


@dataclass
class _State:
    """A carried value of each element: its names, or where they wait."""

    number: int
    names: tuple[str, ...] = ()
    scratch: tuple[Storage, ...] = ()


class ElementLowering(GroupLowering):
    """The kernel of one such loop; `places` has where its results lie."""

    def __init__(self, joined: Joined, nest: Nest, places: Sequence[Storage]) -> None:
        super().__init__(joined.graph, Group("element", joined.loop.domain), nest, joined.storage, set())
        self.joined, self.places, self.loop = joined, places, joined.loop
        self.states = [_State(k) for k in self.loop.states]
        count = joined.node.params["carried"]
        self.stacks = list(zip(joined.outputs[count:], places[count:], strict=True))
        self.all = range(len(self.loop.domain))

    def lower(self) -> list[Kernel]:
        nest, domain = self.nest, self.loop.domain
        nest.pure = False
        if self._in_blocks():
            self._blocks()
        else:
            self._one_by_one()
            nest.cost *= LATENCY
        joined = self.joined
        steps: Dim = TYPICAL_STEPS
        if joined.low is not None and joined.high is not None:
            steps = sizes.maximum(joined.high + 1 - joined.low, 1)
        count = sizes.product(domain)
        return [nest.finish(count, count * steps, summary=self._over("all steps for each of", self.all))]

    # -- which way ----------------------------------------------------------------------------------
    def _in_blocks(self) -> bool:
        """True when the elements of a row lie side by side wherever they are read and written."""
        if not self.loop.domain:
            return False
        last = f"@{len(self.loop.domain) - 1}"
        joined = self.joined
        starts = [(joined.outputs[k], squeezed(joined.outputs[k].shape)) for k in self.loop.states]
        starts += [(w.value, squeezed(w.value.shape)) for found in joined.writes.values() for w in found]
        starts += [(value, squeezed(value.shape)) for value, _ in self.stacks]
        found = [index for _, index in reads(starts, frozenset(joined.storage))]
        found += [self._index(w, self._symbols(w.value)) for ws in joined.writes.values() for w in ws]
        return all(not any(last in sizes.names(i) for i in index[:-1]) for index in found)

    def _symbols(self, value: Node) -> Index:
        return squeezed(value.shape)

    def _index(self, write: Write, at: Index) -> Index:
        """Where a write goes; 0 for what is known at run time only."""
        here = {axis_name(a): i for a, i in enumerate(at)}
        return tuple(0 if isinstance(i, Node) else sizes.substitute(i, here) for i in write.index)

    # -- one by one ---------------------------------------------------------------------------------
    def _one_by_one(self) -> None:
        nest, joined = self.nest, self.joined
        self._open_items(self.all)
        for state in self.states:
            start = joined.starts[state.number]
            value = nest.value(start, self.at(start, self.all))
            state.names = tuple(nest.fresh(f"state{state.number}") for _ in self._names(value))
            for name, part in zip(state.names, self._names(value), strict=True):
                nest.emit(Let(name, part))
        scope = self._open_steps()
        self._pin(scope, {joined.carried[k].number for k in self.loop.states})
        for state in self.states:
            node = joined.carried[state.number]
            scope.memo[node.number, self.at(node, self.all)] = self._wide(state.names)
        new = self._step()
        taken = {name for state in self.states for name in state.names}
        for k, parts in new.items():
            new[k] = tuple(self._copied(p) if p in taken else p for p in parts)
        for state in self.states:
            for name, part in zip(state.names, new[state.number], strict=True):
                nest.emit(Let(name, part))
        nest.close()
        for state in self.states:
            node = joined.carried[state.number]
            nest.store(
                self.places[state.number], self.at(node, self.all), self._wide(state.names), str(node.where)
            )
        nest.close()

    def _copied(self, text: str) -> str:
        name = self.nest.temporary()
        self.nest.emit(Let(name, text))
        return name

    def _open_steps(self) -> Scope:
        """The loop over steps."""
        nest, joined, step = self.nest, self.joined, self.joined.step
        low, end = (self._names(nest.value(b, ()))[0] for b in (joined.lower, joined.upper))
        loop = For(step, low, end)
        if joined.node.params["reverse"]:
            loop = For(step, f"{end} - 1", f"{low} - 1", step="-1")
        scope = nest.open(loop)
        scope.memo[joined.counter.number, ()] = f"int64({step})"
        self._pin(scope, {joined.counter.number, *(joined.carried[k].number for k in joined.writes)})
        return scope

    def _pin(self, scope: Scope, changing: set[int]) -> None:
        """Have what depends on these nodes, or on the counter as an index, computed in the scope."""
        roots = [*self.joined.outputs, *self.joined.positions()]
        for node in topological(roots):
            depends = any(o.number in changing for o in node.operands)
            if node.number in changing or depends or self.joined.moves(node):
                changing.add(node.number)
                self.nest.pinned[node.number] = scope

    def _step(self) -> dict[int, tuple[str, ...]]:
        """One step: all values first, then what it writes; the new states."""
        nest, joined = self.nest, self.joined
        new = {}
        for k in self.loop.states:
            out = joined.outputs[k]
            new[k] = self._names(nest.value(out, self.at(out, self.all)))
        planned = []
        for k, found in joined.writes.items():
            for write in found:
                at = self.at(write.value, self.all)
                value = nest.value(write.value, at)
                planned.append(
                    (k, target_of(nest, write, at, joined.carried[k].shape), value, str(write.value.where))
                )
        rows = [(place, out, nest.value(out, self.at(out, self.all))) for out, place in self.stacks]
        for k, target, value, line in planned:
            store_at(nest, self.places[k], target, value, line)
        for place, out, value in rows:
            index = (sizes.name(joined.step), *self.at(out, self.all))
            nest.store(place, index, value, str(out.where))
        return new

    # -- in blocks ----------------------------------------------------------------------------------
    def _blocks(self) -> None:
        nest, joined, domain = self.nest, self.joined, self.loop.domain
        low, high = "begin", "end"
        if len(domain) > 1:
            nest.extents = [self.extent(a) for a in self.all]
            low, high = self.open_segment_rows(low, high)
        block, stop, element = nest.fresh("block"), nest.fresh("stop"), self.variables[-1]
        nest.open(For(block, low, high, step=str(BLOCK)))
        nest.emit(Let(stop, f"min({block} + {BLOCK}, {high})"))
        own = (sizes.name(element) - sizes.name(block),)
        nest.open(For(element, block, stop))
        for state in self.states:
            start = joined.starts[state.number]
            value = self._names(nest.value(start, self.at(start, self.all)))
            code = scalar.PART.get(start.type.code, start.type.code)
            state.scratch = tuple(nest.scratch(f"state{state.number}", code, BLOCK) for _ in value)
            for place, part in zip(state.scratch, value, strict=True):
                nest.store(place, own, part)
        nest.close()
        self._open_steps()
        moved = nest.fresh("moved") if self._may_settle() else ""
        if moved:
            nest.emit(Let(moved, "False"))
        scope = nest.open(For(element, block, stop))
        self._pin(scope, {joined.carried[k].number for k in self.loop.states})
        for state in self.states:
            node = joined.carried[state.number]
            state.names = tuple(self._names(nest.load(p, own, scope))[0] for p in state.scratch)
            scope.memo[node.number, self.at(node, self.all)] = self._wide(state.names)
        new = self._step()
        for state in self.states:
            for place, old, part in zip(state.scratch, state.names, new[state.number], strict=True):
                nest.store(place, own, part)
                if moved:
                    nest.emit(Let(moved, f"{moved} | {self._differs(old, part, place.code)}"))
        nest.close()
        if moved:
            nest.emit(If(f"not {moved}", [Break()]))
        nest.close()
        scope = nest.open(For(element, block, stop))
        for state in self.states:
            node = joined.carried[state.number]
            final = self._wide([self._names(nest.load(p, own, scope))[0] for p in state.scratch])
            nest.store(self.places[state.number], self.at(node, self.all), final, str(node.where))
        nest.close(2 if len(domain) == 1 else 3)

    def _may_settle(self) -> bool:
        """True when a step that changes nothing is the last that could: each does the same with the states."""
        nodes = topological(self.joined.outputs)
        counted = any(n is self.joined.counter or self.joined.moves(n) for n in nodes)
        return not self.loop.tracks and not self.stacks and not counted

    def _differs(self, old: str, new: str, code: str) -> str:
        if code[0] != "f":
            return f"({old} != {new})"
        return f"({old} != {new}) | (signbit({old}) != signbit({new}))"


__all__ = ["ElementLowering", "Joined", "Value"]
