"""Memory of its own for what is given out and for what loops carry."""

from __future__ import annotations

import itertools

from ..graph import Graph, Node, subgraphs
from ..passes.rewrite import rebuild, same
from .elements import changed_in_place, element_loop, tracks_of
from .partition import is_buffer


def separate_outputs(graph: Graph) -> None:
    """Give each output an array of its own, also inside loops: arguments, constants, views and repeats are copied."""
    for node in graph.nodes():
        for inner in subgraphs(node):
            separate_outputs(inner)
    seen: set[int] = set()
    for k, node in enumerate(graph.outputs):
        if is_buffer(node) or node.number in seen or node.op.kind == "reshape" or _is_carried(node):
            node = graph.apply("cast", (node,), node.where, dtype=node.dtype.name, copy=k)
            graph.outputs[k] = node
        seen.add(node.number)


def _is_carried(node: Node) -> bool:
    """A result that lies where a loop's steps read and write it by turns; others can lie where they are wanted."""
    if node.op.kind != "result" or node.params["index"] >= node.operands[0].params.get("carried", 0):
        return False
    return element_loop(node.operands[0]) is None and node.params["index"] not in tracks_of(node.operands[0])


def separate_carried(graph: Graph) -> Graph:
    """Give each value that a loop carries memory of its own, to start from and to write the steps into.

    before   %2 = while(%0, carried=1)
    after    %1 = cast(%0, copy=carry:0);  %2 = while(%1, carried=1)
    """
    numbers = itertools.count()

    def rule(new: Graph, node: Node, operands: tuple[Node, ...]) -> Node:
        if node.op.name in ("while", "loop"):
            first = 2 if node.op.name == "loop" else 0
            started = list(operands)
            loop = element_loop(node)
            for k in range(first, first + node.params["carried"]):
                if loop is not None and k - first not in changed_in_place(node):
                    continue  # each element starts from its own
                tag = f"carry:{next(numbers)}"
                started[k] = new.apply(
                    "cast", (operands[k],), node.where, dtype=node.operands[k].dtype.name, copy=tag
                )
            operands = tuple(started)
        return same(new, node, operands)

    return rebuild(graph, rule)
