"""Loops and choices as instructions, with the kernels of what they do between them.

What a loop carries lies in two buffers: a step reads the one and writes the other, then they change places; or in
one, where a step may write over what it reads (`separate.py`). A `scan` shows each step one row of what it goes along,
and of what it stacks: nothing is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..graph import Graph, Node
from ..program import Instruction, Jump, JumpTable, JumpUnless, LoopBegin, LoopNext, Point, Swap
from ..types import ArrayType
from .elements import changed_in_place, element_loop
from .nest import Storage
from .separate import kept_in_place, step_of

if TYPE_CHECKING:
    from .schedule import Scheduler


class ControlLowering:
    """One loop or choice of a graph that `scheduler` builds the program of."""

    def __init__(self, scheduler: Scheduler, node: Node) -> None:
        self.scheduler, self.node = scheduler, node
        nodes = [n for n in scheduler.graph.nodes() if n.op.kind == "result" and n.operands[0] is node]
        self.read = {n.params["index"]: n for n in nodes}

    def reserve(self) -> dict[int, Storage]:
        """Where values that steps change in place start: where they are wanted, if they are outputs."""
        if self.node.op.name == "branch":
            return {}
        first = 2 if self.node.op.name == "loop" else 0
        found = {}
        parts = changed_in_place(self.node)
        for k in sorted(kept_in_place(self.node) & self.read.keys()):
            place = self.scheduler.output_place(self.read[k], dense=k not in parts)
            if place is not None:
                found[self.node.operands[first + k].number] = place
        return found

    def allocate(self) -> None:
        """Say where results lie: in what a loop carries, in stacks, or in what all branches write."""
        node, storage = self.node, self.scheduler.storage
        places: list[Storage | None] = []
        if node.op.name == "branch":
            for k, out in enumerate(node.params["branches"][0].outputs):
                places.append(self._result(k, "chosen", out.type))
        else:
            first = 2 if node.op.name == "loop" else 0
            count: int = node.params["carried"]
            loop = element_loop(node)
            for k, operand in enumerate(node.operands[first : first + count]):
                if loop is not None and k in loop.fresh:
                    places.append(self._result(k, "made", operand.type))
                elif loop is not None and k in loop.states:
                    places.append(self._result(k, "state", operand.type) if k in self.read else None)
                else:
                    places.append(storage[operand.number])
        if node.op.name == "loop":
            for k, row in enumerate(node.params["body"].outputs[count:], start=count):
                kind = ArrayType(row.dtype, (node.params["length"], *row.shape))
                places.append(self._result(k, "stack", kind))
        self.scheduler.places[node.number] = places
        for index, result in self.read.items():
            place = places[index]
            assert place is not None
            storage[result.number] = place

    def lower(self) -> None:
        """Add the instructions of what is no loop of elements."""
        places = [p for p in self.scheduler.places[self.node.number] if p is not None]
        operands = [self.scheduler.storage[o.number] for o in self.node.operands]
        {"while": self._while, "loop": self._loop, "branch": self._branch}[self.node.op.name](
            operands, places
        )

    def _result(self, index: int, stem: str, kind: ArrayType) -> Storage:
        """Where a result lies that no step reads: where it is wanted, if it is an output."""
        stacked = self.node.op.name == "loop" and index >= self.node.params["carried"]
        place = self.scheduler.output_place(self.read[index], stacked) if index in self.read else None
        return place or self.scheduler.new_temporary(stem, kind.code, kind.shape)

    def new(self, stem: str, like: Node) -> Storage:
        return self.scheduler.new_temporary(stem, like.type.code, like.shape)

    # -- instructions ---------------------------------------------------------------------------
    def _here(self) -> int:
        return len(self.scheduler.instructions)

    def add(self, instruction: Instruction) -> int:
        self.scheduler.instructions.append(instruction)
        return self._here() - 1

    def _while(self, operands: Sequence[Storage], places: Sequence[Storage]) -> None:
        """
        head: condition; JumpUnless end; body; swaps; Jump head; end:
        """
        cond = self.node.params["cond"]
        step = _Step(self)
        test = self.new("goes_on", cond.outputs[0])
        head = self._here()
        self.scheduler.inside(cond, operands, [test])
        leave = self.add(Jump(0))
        step.run(operands, places, [])
        self.add(Jump(head))
        self.scheduler.instructions[leave] = JumpUnless(test.buffer, self._here())

    def _loop(self, operands: Sequence[Storage], places: Sequence[Storage]) -> None:
        """
        LoopBegin end; head: rows; body; swaps; LoopNext head; end:
        """
        params = self.node.params
        count, sliced, reverse = params["carried"], params["sliced"], params["reverse"]
        (lower, upper), rest = operands[:2], operands[2:]
        state, arrays, others = rest[:count], rest[count : count + sliced], rest[count + sliced :]
        counter = self.scheduler.new_temporary("step", "i64", ())
        step = _Step(self)
        rows = [self.scheduler.new_alias(a, f"{a.name}_row", a.shape[1:]) for a in arrays]
        made = [self.scheduler.new_alias(p, f"{p.name}_row", p.shape[1:]) for p in places[count:]]
        begin = self.add(Jump(0))
        head = self._here()
        for row, whole in zip([*rows, *made], [*arrays, *places[count:]], strict=True):
            self.add(Point(row.buffer, whole.buffer, counter.buffer))
        step.run([counter, *state, *rows, *others], state, made)
        self.add(LoopNext(counter.buffer, lower.buffer, upper.buffer, reverse, head))
        self.scheduler.instructions[begin] = LoopBegin(
            counter.buffer, lower.buffer, upper.buffer, reverse, self._here()
        )

    def _branch(self, operands: Sequence[Storage], places: Sequence[Storage]) -> None:
        """
        JumpTable; first: branch; Jump end; second: branch; Jump end; ...; end:
        """
        branches: tuple[Graph, ...] = self.node.params["branches"]
        index, *others = operands
        table = self.add(Jump(0))
        starts, ends = [], []
        for branch in branches:
            starts.append(self._here())
            self.scheduler.inside(branch, others, places)
            ends.append(self.add(Jump(0)))
        for end in ends:
            self.scheduler.instructions[end] = Jump(self._here())
        self.scheduler.instructions[table] = JumpTable(index.buffer, tuple(starts))


class _Step:
    """What a loop does in a step: the body; then what was made in new memory changes places with what it replaces.

    Where the body only writes parts of an array, these alone are made, and then written in place.
    """

    def __init__(self, control: ControlLowering) -> None:
        self.control, self.step = control, step_of(control.node)
        self.following = {
            k: control.new("next", self.step.body.outputs[position])
            for position, k in enumerate(self.step.whole)
            if k not in self.step.in_place
        }
        self.parts = [control.new("part", part) for part in self.step.parts]

    def run(self, inputs: Sequence[Storage], places: Sequence[Storage], made: Sequence[Storage]) -> None:
        """Add the instructions of a step."""
        control, scheduler = self.control, self.control.scheduler
        values = [self.following.get(k, places[k]) for k in self.step.whole]
        scheduler.inside(self.step.body, inputs, [*values, *made, *self.parts], self.step.plan)
        for k, following in self.following.items():
            control.add(Swap(places[k].buffer, following.buffer))
        parts = iter(self.parts)
        for k, found in self.step.tracks.items():
            for write in found:
                stored = {
                    node.number: next(parts) for node in (write.value, *write.index) if isinstance(node, Node)
                }
                scheduler.lower_write(write, places[k], stored)
