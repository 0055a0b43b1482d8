"""Loops that every element walks on its own (`elements.py`) as one kernel.

Elements side by side in memory are walked in blocks, a step at a time, so that a step runs on vectors; their states
wait in scratch memory. Others are walked one by one, with states in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import sizes
from ..graph import Node, axis_name, topological
from ..loops import Break, For, If, Kernel, Let
from ..sizes import Dim
from . import scalar
from .access import Index
from .elements import Write, places, reads
from .group_lowering import GroupLowering
from .joined import Joined, JoinedLoop
from .nest import Nest, Scope, Storage, Value
from .partition import Group

#: what an element carries: the names of each part, by the number of the carried value and the index in it
States = dict[tuple[int, Index], tuple[str, ...]]

#: elements of a block
BLOCK = 128
#: what a loop is taken to step through where that is known at run time only
TYPICAL_STEPS = 16384
#: how much longer an operation takes where each waits for the one before, and runs on one element
LATENCY = 8


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
        if axis == write.bounded:
            at_axis = nest.size(index[-1])
            tests.append(f"{at_axis} >= 0 and {at_axis} < {nest.size(shape[axis])}")
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


class ElementLowering(GroupLowering):
    """The kernel of loops over the same elements, one after another."""

    def __init__(self, joined: Joined, nest: Nest) -> None:
        domain = joined.loops[0].loop.domain
        super().__init__(joined.graph, Group("element", domain), nest, joined.storage, set())
        self.joined, self.domain = joined, domain
        self.all = range(len(domain))

    def lower(self) -> list[Kernel]:
        nest = self.nest
        nest.pure = False
        if self._in_blocks():
            self._blocks()
        else:
            self._open_items(self.all)
            nest.scopes[-1].guard = not self.domain  # a loop may read what the one before made
            for loop in self.joined.loops:
                self._walk(loop)
            nest.close()
            nest.cost *= LATENCY
        steps: Dim = 0
        for loop in self.joined.loops:
            low, high = loop.steps.low, loop.steps.high
            known = low is not None and high is not None
            steps = steps + (sizes.maximum(high + 1 - low, 1) if known else TYPICAL_STEPS)  # type: ignore[operator]
        count = sizes.product(self.domain)
        work = sizes.floordiv(count * steps, len(self.joined.loops))
        return [nest.finish(count, work, summary=self._over("all steps for each of", self.all))]

    def _in_blocks(self) -> bool:
        """True when the elements of a row lie side by side wherever they are read and written."""
        if not self.domain:
            return False
        last = f"@{len(self.domain) - 1}"
        found: list[Index] = []
        for loop in self.joined.loops:
            found += [index for _, index in reads(loop.values(), frozenset(self.storage))]
            written = [w for k in loop.writes for w in (*loop.writes[k], *loop.before.get(k, ()))]
            found += [place for write in written for place in self._places(write)]
        return all(last not in sizes.names(i) for index in found for i in index[:-1])

    def _places(self, write: Write) -> list[Index]:
        """Where a write goes, in loop variables; 0 for what is known at run time only."""
        found = []
        for at in places(write.value, len(self.domain)):
            here = {axis_name(a): i for a, i in enumerate(at)}
            found.append(tuple(0 if isinstance(i, Node) else sizes.substitute(i, here) for i in write.index))
        return found

    # -- what both ways share -----------------------------------------------------------------------
    def _elements(self, node: Node) -> list[Index]:
        """The indices of a value that an element of the loop computes."""
        here = {f"@{a}": name for a, name in enumerate(self.index)}
        return [tuple(sizes.substitute(i, here) for i in at) for at in places(node, len(self.domain))]

    def _begin(self, loop: JoinedLoop) -> States:
        """The states of an element before the first step; what is written before the loop is."""
        nest = self.nest
        for k, found in loop.before.items():
            for write in found:
                for at in self._elements(write.value):
                    target = target_of(nest, write, at, loop.carried[k].shape)
                    self._store(loop.places[k], target, nest.value(write.value, at), write.value)
        return {
            (k, at): self._names(nest.value(loop.starts[k], at))
            for k in loop.loop.states
            for at in self._elements(loop.starts[k])
        }

    def _open_steps(self, loop: JoinedLoop) -> None:
        """The loop over steps."""
        nest, step = self.nest, loop.steps.name
        low, end = (self._names(nest.value(b, ()))[0] for b in (loop.lower, loop.upper))
        steps = For(step, low, end)
        if loop.node.params["reverse"]:
            steps = For(step, f"{end} - 1", f"{low} - 1", step="-1")
        scope = nest.open(steps)
        scope.memo[loop.counter.number, ()] = f"int64({step})"
        changing = {loop.counter.number, *(loop.carried[k].number for k in loop.writes)}
        self._pin(scope, loop, changing, [n for n in self._nodes(loop) if loop.moves(n)])

    def _know_states(self, loop: JoinedLoop, states: States) -> None:
        """In the scope that is open, what is carried has these names."""
        scope = self.nest.scopes[-1]
        self._pin(scope, loop, {loop.carried[k].number for k, _ in states})
        for (k, at), names in states.items():
            scope.memo[loop.carried[k].number, at] = self._wide(names)

    def _pin(self, scope: Scope, loop: JoinedLoop, changing: set[int], moving: Sequence[Node] = ()) -> None:
        """Have what depends on these nodes, or has the counter as an index, computed in the scope."""
        changing |= {n.number for n in moving}
        for node in self._nodes(loop):
            if node.number in changing or any(o.number in changing for o in node.operands):
                changing.add(node.number)
                self.nest.pinned[node.number] = scope

    def _nodes(self, loop: JoinedLoop) -> list[Node]:
        return topological([*loop.outputs, *loop.positions()])

    def _step(self, loop: JoinedLoop) -> States:
        """One step: all values first, then what it writes; the new states."""
        nest = self.nest
        new = {
            (k, at): self._names(nest.value(loop.outputs[k], at))
            for k in loop.loop.states
            for at in self._elements(loop.outputs[k])
        }
        planned = []
        for k, found in loop.writes.items():
            for write in found:
                for at in self._elements(write.value):
                    value = nest.value(write.value, at)
                    target = target_of(nest, write, at, loop.carried[k].shape)
                    planned.append((loop.places[k], target, value, write.value))
        for out, place in loop.stacks:
            for at in self._elements(out):
                planned.append((place, ((sizes.name(loop.steps.name), *at), []), nest.value(out, at), out))
        for place, target, value, node in planned:
            self._store(place, target, value, node)
        return new

    def _store(
        self, place: Storage | None, target: tuple[Index, list[str]], value: Value, node: Node
    ) -> None:
        if place is not None:
            store_at(self.nest, place, target, value, str(node.where))

    def _finish(self, loop: JoinedLoop, k: int, at: Index, value: Value) -> None:
        """Write a state after the last step."""
        self._store(loop.places[k], (at, []), value, loop.outputs[k])

    # -- one by one ---------------------------------------------------------------------------------
    def _walk(self, loop: JoinedLoop) -> None:
        nest = self.nest
        states: States = {}
        for key, parts in self._begin(loop).items():
            states[key] = tuple(nest.fresh(f"state{key[0]}") for _ in parts)
            for name, part in zip(states[key], parts, strict=True):
                nest.emit(Let(name, part))
        self._open_steps(loop)
        self._know_states(loop, states)
        new = self._step(loop)
        taken = {name for names in states.values() for name in names}
        new = {key: tuple(self._copied(p) if p in taken else p for p in parts) for key, parts in new.items()}
        for key, names in states.items():
            for name, part in zip(names, new[key], strict=True):
                nest.emit(Let(name, part))
        nest.close()
        for (k, at), names in states.items():
            self._finish(loop, k, at, self._wide(names))

    def _copied(self, text: str) -> str:
        name = self.nest.temporary()
        self.nest.emit(Let(name, text))
        return name

    # -- in blocks ----------------------------------------------------------------------------------
    def _blocks(self) -> None:
        nest = self.nest
        low, high = "begin", "end"
        if len(self.domain) > 1:
            nest.extents = [self.extent(a) for a in self.all]
            low, high = self.open_segment_rows(low, high)
        block, stop = nest.fresh("block"), nest.fresh("stop")
        nest.open(For(block, low, high, step=str(BLOCK)))
        nest.emit(Let(stop, f"min({block} + {BLOCK}, {high})"))
        for loop in self.joined.loops:
            self._walk_block(loop, block, stop)
        nest.close(1 if len(self.domain) == 1 else 2)

    def _walk_block(self, loop: JoinedLoop, block: str, stop: str) -> None:
        nest, element = self.nest, self.variables[-1]
        own = (sizes.name(element) - sizes.name(block),)
        waiting: dict[tuple[int, Index], tuple[Storage, ...]] = {}
        if loop.before or loop.loop.states:
            nest.open(For(element, block, stop))
            for key, parts in self._begin(loop).items():
                code = loop.starts[key[0]].type.code
                code = scalar.PART.get(code, code)
                waiting[key] = tuple(nest.scratch(f"state{key[0]}", code, BLOCK) for _ in parts)
                for place, part in zip(waiting[key], parts, strict=True):
                    nest.store(place, own, part)
            nest.close()
        self._open_steps(loop)
        moved = nest.fresh("moved") if self._may_settle(loop) else ""
        if moved:
            nest.emit(Let(moved, "False"))
        nest.open(For(element, block, stop))
        states = {key: self._load(scratch, own) for key, scratch in waiting.items()}
        self._know_states(loop, states)
        new = self._step(loop)
        for key, scratch in waiting.items():
            for place, old, part in zip(scratch, states[key], new[key], strict=True):
                nest.store(place, own, part)
                if moved:
                    nest.emit(Let(moved, f"{moved} | {self._differs(old, part, place.code)}"))
        nest.close()
        if moved:
            nest.emit(If(f"not {moved}", [Break()]))
        nest.close()
        if any(loop.places[k] is not None for k, _ in waiting):
            nest.open(For(element, block, stop))
            for (k, at), scratch in waiting.items():
                if loop.places[k] is not None:
                    self._finish(loop, k, at, self._wide(self._load(scratch, own)))
            nest.close()

    def _load(self, scratch: tuple[Storage, ...], own: Index) -> tuple[str, ...]:
        return tuple(self._names(self.nest.load(p, own, self.nest.scopes[-1]))[0] for p in scratch)

    def _may_settle(self, loop: JoinedLoop) -> bool:
        """True when a step that changes nothing is the last that could: each does the same with the states."""
        nodes = topological(loop.outputs)
        counted = any(n is loop.counter or loop.moves(n) for n in nodes)
        return not loop.writes and not loop.stacks and not counted

    def _differs(self, old: str, new: str, code: str) -> str:
        if code[0] != "f":
            return f"({old} != {new})"
        return f"({old} != {new}) | (signbit({old}) != signbit({new}))"
