"""Arguments that are written into: which nodes are stored in the caller's memory, and when that may be overwritten.

The last value of an inout argument is stored once all that reads the argument has been computed, by copies at
the end of the graph (`ArgumentWrite`), one for each part that is new. A copy joins the nest that computes the
part, and so costs nothing, where no element is read after it is overwritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Union

from .. import sizes
from ..graph import Graph, Node, axis_name
from ..sizes import Dim
from .access import Index, accesses, identity, mapped

#: a value that is made by at most so many updates of the argument is written by parts
MOST_PARTS = 8

#: a region as the op `update` has it: (start, step, length, axis of the value) for each axis
Region = tuple[tuple[Dim, Dim, Dim, Union[int, None]], ...]


@dataclass(frozen=True)
class ArgumentWrite:
    """`node`, a copy of a stored value, is stored in `argument`, an input: whole, or in a `region` of it."""

    node: Node
    argument: Node
    region: Region | None = None

    @property
    def map(self) -> Index:
        """The index in the argument of the node's element at (%0, %1, ...)."""
        if self.region is None:
            return tuple(sizes.name(axis_name(a)) for a in range(len(self.node.shape)))
        return tuple(
            start if axis is None else start + step * sizes.name(axis_name(axis))
            for start, step, _, axis in self.region
        )

    @property
    def place(self) -> Index:
        """Where the argument is written when the node is computed at its own index."""
        return mapped(self.map, self.argument.shape, identity(self.node))


def separate_arguments(graph: Graph) -> list[ArgumentWrite]:
    """Replace outputs that are values of inout arguments by copies that are stored there, at the end of the outputs.

    before   %1 = update(A, %0, region=...)           outputs: %1, written in A
    after    %2 = cast(%0, copy=written:0:0)          outputs: %2, written in a region of A
    """
    values = {argument: graph.outputs[k] for k, argument in sorted(graph.written.items())}
    graph.outputs = [o for k, o in enumerate(graph.outputs) if k not in graph.written]
    writes = []
    for argument, value in sorted(values.items()):
        place = graph.inputs[argument]
        for k, (part, region) in enumerate(_parts(value, place)):
            if part.op.name in ("input", "constant"):  # another argument may change before this is stored
                part = _copy(graph, part, f"value:{argument}:{k}")
            writes.append(ArgumentWrite(_copy(graph, part, f"written:{argument}:{k}"), place, region))
            graph.outputs.append(writes[-1].node)
    return writes


def _parts(value: Node, place: Node) -> list[tuple[Node, Region | None]]:
    """What to write into `place`, in order, so that it holds `value`."""
    parts: list[tuple[Node, Region | None]] = []
    rest = value
    while rest is not place:
        if rest.op.name != "update" or len(parts) == MOST_PARTS:
            return [(value, None)]
        if rest.params["region"] not in [region for _, region in parts]:
            parts.append((rest.operands[1], rest.params["region"]))
        rest = rest.operands[0]
    return parts[::-1]


def _copy(graph: Graph, node: Node, tag: str) -> Node:
    return graph.apply("cast", (node,), node.where, dtype=node.dtype.name, copy=tag)


def memory_of(argument: Node, nodes: Iterable[Node]) -> set[int]:
    """The numbers of the nodes that lie in an argument's memory: the argument, and what shows it in another shape."""
    found = {argument.number}
    for node in nodes:
        if node.op.kind == "reshape" and node.operands[0].number in found:
            found.add(node.number)
    return found


def may_share(write: ArgumentWrite, roots: Sequence[Node], stored: set[int], memory: set[int]) -> bool:
    """True when `roots` read the argument only at the place that the write overwrites in the same step."""
    return all(
        access.node is write.argument and access.index == write.place
        for root in roots
        for access in accesses(root, stored)
        if access.node.number in memory
    )
