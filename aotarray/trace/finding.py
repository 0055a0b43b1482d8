"""Where masks are true, and how many elements they have: arrays whose sizes depend on values.

Such a size is a name like any other. A node `measure` gives it its value as the program runs: first count, then
make room for the result, then fill it.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import sizes
from ..graph import Graph, Node, topological
from ..sizes import Dim
from .context import Trace, here


def measured_size(trace: Trace, value: Node) -> Dim:
    """The size whose value is an int64 scalar, or the last element of a `count`; it must not be negative."""
    graph = trace.graph
    for name, node in graph.measured.items():
        if node.operands[0] is value:
            return sizes.name(name)
    taken = {n for node in graph.inputs for d in node.shape for n in sizes.names(d)} | graph.measured.keys()
    k = len(graph.measured)
    while f"found{k}" in taken:
        k += 1
    graph.apply("measure", (value,), here(), name=f"found{k}")
    return sizes.name(f"found{k}")


def find_true(trace: Trace, mask: Node) -> tuple[Node, ...]:
    """The index along each axis of the true elements of a bool array, in C order."""
    counts = trace.graph.apply("count", (mask,), here())
    length = measured_size(trace, counts)
    return tuple(
        trace.graph.apply("positions", (mask, counts), here(), axis=axis, length=length)
        for axis in range(len(mask.shape))
    )


def chosen(trace: Trace, x: Node, found: Sequence[Node]) -> Node:
    """The elements of `x` at positions, found in a mask of its leading axes."""
    rank = len(found)
    shape = (*found[0].shape, *x.shape[rank:])
    return trace.graph.apply(
        "gather", (x, *found), here(), axes=tuple(range(rank)), position=0, shape=shape, trusted=True
    )


def are_inside(x: Node, indices: dict[int, Node]) -> bool:
    """True for index arrays that are positions in a mask as large as the axes of `x` that they index."""
    return all(
        i.op.name == "positions" and i.operands[0].shape[i.params["axis"]] == x.shape[axis]
        for axis, i in indices.items()
    )


def drop_measured_inside(graph: Graph) -> None:
    """Forget the sizes that bodies of loops measure: their graphs know these."""
    for name, node in list(graph.measured.items()):
        if any(n.op.name == "parameter" for n in topological([node])):
            del graph.measured[name]
