"""Arguments that are written into: which nodes are stored in the caller's memory, and when that may be overwritten.

The last value of an inout argument is stored once all that reads the argument has been computed, by a copy at
the end of the graph (an `ArgumentWrite`). The copy joins the nest that computes the value, and so costs nothing, where
no element is read after it is overwritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..graph import Graph, Node
from .access import Index, accesses, identity


@dataclass(frozen=True)
class ArgumentWrite:
    """`node`, a copy of a stored value, is stored in the memory of `argument`, an input."""

    node: Node
    argument: Node

    @property
    def place(self) -> Index:
        """Where the argument is written when the node is computed at its own index."""
        return identity(self.node)


def separate_arguments(graph: Graph) -> list[ArgumentWrite]:
    """Replace outputs that are values of inout arguments by copies that are stored there, at the end of the outputs.

    before   %1 = add(A, 1);  return %1                      written: 0 in A
    after    %1 = add(A, 1);  %2 = cast(%1, copy=A);         outputs: %2
    """
    values = {argument: graph.outputs[k] for k, argument in sorted(graph.written.items())}
    graph.outputs = [o for k, o in enumerate(graph.outputs) if k not in graph.written]
    writes = []
    for argument, value in sorted(values.items()):
        place = graph.inputs[argument]
        if value is place:
            continue
        if value.op.name in (
            "input",
            "constant",
        ):  # another argument's memory may change before this is stored
            value = _copy(graph, value, f"value:{argument}")
        writes.append(ArgumentWrite(_copy(graph, value, f"written:{argument}"), place))
        graph.outputs.append(writes[-1].node)
    return writes


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
