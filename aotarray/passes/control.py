"""Loops and choices without what nobody reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..graph import Graph, Node, subgraphs, topological
from .rewrite import rebuild, same


def drop_results(graph: Graph) -> Graph:
    """Loops and choices do not compute results that are not read, also inside of one another.

    before   %2 = loop(%0, %1, ..., carried=2);  %3 = result(%2, index=1)     (the first is not needed for the second)
    after    %2 = loop(%0, %1, ..., carried=1);  %3 = result(%2, index=0)
    """
    live: dict[int, set[int]] = {node.number: set() for node in graph.effects}
    for node in graph.nodes():
        if node.op.kind == "result":
            live.setdefault(node.operands[0].number, set()).add(node.params["index"])
    kept: dict[int, list[int]] = {}

    def rule(new: Graph, node: Node, operands: tuple[Node, ...]) -> Node:
        if node.op.kind == "control":
            needed = _Needed(node, live[node.number])
            kept[node.number] = needed.results
            return needed.apply(new, operands)
        if node.op.kind == "result":
            index = kept[node.operands[0].number].index(node.params["index"])
            return new.apply("result", operands, node.where, node.type, index=index)
        return same(new, node, operands)

    return rebuild(graph, rule, inside=False)


@dataclass
class _Needed:
    """What of a loop or choice its live results need."""

    node: Node
    live: set[int]

    def __post_init__(self) -> None:
        node = self.node
        self.graphs = subgraphs(node)
        self.carried: int = node.params.get("carried", 0)
        #: operands that are no inputs of the graphs, and inputs that are no operands
        self.head = {"while": 0, "loop": 2, "branch": 1}[node.op.name]
        self.lead = 1 if node.op.name == "loop" else 0
        self.results = sorted(self.live)
        while True:
            reached = {k for g in self.graphs for k in _inputs([*g.effects, *g.checked, *self.outputs(g)])}
            also = {k for k in range(self.carried) if k + self.lead in reached and k not in self.results}
            if not also:
                break
            self.results = sorted({*self.results, *also})
        first = self.lead + self.carried
        state = [self.lead + k for k in self.results if k < self.carried]
        rest = [k for k in range(first, len(self.graphs[0].inputs)) if k in reached]
        self.inputs = [*range(self.lead), *state, *rest]
        self.sliced = sum(k < first + node.params.get("sliced", 0) for k in rest)

    def outputs(self, graph: Graph) -> list[Node]:
        """The outputs of one of the graphs that are needed: of a condition, all."""
        if graph is self.node.params.get("cond"):
            return list(graph.outputs)
        return [graph.outputs[k] for k in self.results]

    def apply(self, new: Graph, operands: tuple[Node, ...]) -> Node:
        """The loop or choice again, with that alone."""
        node = self.node
        made = iter([drop_results(_part(g, self.inputs, self.outputs(g))) for g in self.graphs])
        params: dict[str, Any] = dict(node.params)
        if node.op.name == "branch":
            params["branches"] = tuple(made)
        else:
            params.update((name, next(made)) for name in ("cond", "body") if name in params)
            params["carried"] = sum(k < self.carried for k in self.results)
        if node.op.name == "loop":
            params["sliced"] = self.sliced
        taken = [operands[k - self.lead + self.head] for k in self.inputs if k >= self.lead]
        return new.apply(node.op.name, [*operands[: self.head], *taken], node.where, node.type, **params)


def _inputs(outputs: Sequence[Node]) -> set[int]:
    """The inputs of a graph that outputs of it depend on."""
    return {n.params["index"] for n in topological(outputs) if n.op.name == "input"}


def _part(graph: Graph, inputs: Sequence[int], outputs: Sequence[Node]) -> Graph:
    """The graph with some of its inputs and outputs alone."""
    new = Graph(graph.name, checks=list(graph.checks), hints=graph.hints)
    made = {graph.inputs[k].number: new.input(graph.inputs[k].type, graph.input_names[k]) for k in inputs}
    for node in topological([*graph.effects, *graph.checked, *outputs]):
        if node.number not in made:
            operands = [made[o.number] for o in node.operands]
            made[node.number] = new.apply(node.op.name, operands, node.where, node.type, **node.params)
    new.outputs = [made[o.number] for o in outputs]
    new.effects = [made[e.number] for e in graph.effects]
    return new
