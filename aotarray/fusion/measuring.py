"""What follows from each measured size: the checks that it decides, and the buffers whose shapes it completes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..graph import Graph, subgraphs
from ..program import Buffer, Check, Instruction, KernelCall, Measure, SizeOp


def measured_names(graph: Graph) -> set[str]:
    """The sizes that are measured in a graph, and in those inside it."""
    found = {n.params["name"] for n in graph.nodes() if n.op.kind == "measure"}
    return found.union(*(measured_names(g) for n in graph.nodes() for g in subgraphs(n)))


@dataclass
class Settling:
    """A finished program but for what its `Measure` instructions settle.

    Scopes are the graphs around a buffer, a check, or the measure at an instruction, outermost first: a buffer or
    check belongs to the last measure that it depends on, of each size the one in the innermost graph.
    """

    instructions: list[Instruction]
    slots: Sequence[SizeOp]
    buffers: Sequence[Buffer]
    checks: Sequence[tuple[Check, tuple[int, ...]]]
    buffer_scopes: Sequence[tuple[int, ...]]
    measure_scopes: dict[int, tuple[int, ...]]

    def settle(self) -> tuple[list[Instruction], list[Check]]:
        """The instructions, and the checks that no measured size decides."""
        depends = self._depends()
        buffers: dict[int, list[int]] = {at: [] for at in self.measure_scopes}
        for number, buffer in enumerate(self.buffers):
            needed = frozenset().union(*(depends[d] for d in buffer.dims))
            root = buffer
            while root.kind == "alias":
                root = self.buffers[root.index]
                needed |= frozenset().union(*(depends[d] for d in root.dims))
            if needed:
                buffers[self._last(needed, self.buffer_scopes[number])].append(number)
        early, late = self._divided(depends)
        made = list(self.instructions)
        for at in self.measure_scopes:
            measure = made[at]
            assert isinstance(measure, Measure)
            calls = [i for i in made if isinstance(i, KernelCall) and i.scratch >= 0]
            scratch = sorted({c.scratch for c in calls if measure.slot in depends[c.scratch]})
            made[at] = replace(
                measure, checks=tuple(late[at]), buffers=tuple(buffers[at]), scratch=tuple(scratch)
            )
        return made, early

    def _depends(self) -> list[frozenset[int]]:
        """The measured slots that each slot depends on."""
        found: list[frozenset[int]] = []
        for number, op in enumerate(self.slots):
            if op.op == "measured":
                found.append(frozenset([number]))
            else:
                found.append(frozenset() if op.op in ("dim", "const") else found[op.a] | found[op.b])
        return found

    def _slot(self, at: int) -> int:
        measure = self.instructions[at]
        assert isinstance(measure, Measure)
        return measure.slot

    def _last(self, needed: frozenset[int], scope: tuple[int, ...]) -> int:
        """The last measure of any of these slots that runs before what is in `scope` can be used."""
        innermost: dict[int, int] = {}
        for at, own in sorted(self.measure_scopes.items(), key=lambda item: len(item[1])):
            if self._slot(at) in needed and own == scope[: len(own)]:
                innermost[self._slot(at)] = at
        return max(innermost.values())

    def _divided(self, depends: Sequence[frozenset[int]]) -> tuple[list[Check], dict[int, list[Check]]]:
        """The checks at the start, and those of each measure."""
        early: list[Check] = []
        late: dict[int, list[Check]] = {at: [] for at in self.measure_scopes}
        for check, scope in self.checks:
            needed = depends[check.a] | depends[check.b]
            if needed:
                late[self._last(needed, scope)].append(check)
            else:
                early.append(check)
        return early, late
