"""Rebuilding a graph node by node, which also merges equal nodes and drops dead ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..graph import Graph, Node

#: given the new graph, an old node and its new operands, the new node
Rule = Callable[[Graph, Node, tuple[Node, ...]], Node]


def same(graph: Graph, node: Node, operands: tuple[Node, ...]) -> Node:
    """The node again, on new operands."""
    return graph.apply(node.op.name, operands, node.where, node.type, **node.params)


def rebuild(graph: Graph, rule: Rule, inside: bool = True) -> Graph:
    """A new graph in which every live node is what `rule` makes of it, and in graphs `inside` it; inputs stay."""
    new = graph.emptied()
    new.checks = list(graph.checks)
    made: dict[int, Node] = {}
    for node, name in zip(graph.inputs, graph.input_names, strict=True):
        made[node.number] = new.input(node.type, name)
    for node in graph.nodes():
        if node.number not in made:
            operands = tuple(made[o.number] for o in node.operands)
            made[node.number] = rule(new, _rebuilt_inside(node, rule) if inside else node, operands)
    new.outputs = [made[o.number] for o in graph.outputs]
    new.effects = [made[e.number] for e in graph.effects]
    return new


def _rebuilt_inside(node: Node, rule: Rule) -> Node:
    """A loop or a choice with its graphs rebuilt."""
    if node.op.kind != "control":
        return node
    params = {}
    for name, value in node.params.items():
        if isinstance(value, Graph):
            value = rebuild(value, rule)
        elif name == "branches":
            value = tuple(rebuild(g, rule) for g in value)
        params[name] = value
    return replace(node, params=params)
