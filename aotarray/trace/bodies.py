"""Bodies of loops and choices: traced into the graph of the whole function, then taken out as graphs of their own.

A body belongs to what depends on its parameters. What does not is computed once, outside, and handed in; only
what is as cheap to compute as to load, and what may raise, stays inside. Of a choice all that its functions
made stays inside, since one of them alone runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import sizes
from ..errors import LeakError
from ..graph import Graph, Node, SourceLine, axis_name, has_effects, size_names, subgraphs, topological
from ..sizes import Dim
from ..types import ArrayType
from . import promote
from .context import Trace, here
from .tracer import Tracer
from .trees import Structure, flatten
from .views import Affine, axes

#: what does not change and costs at most this many additions is computed in each step
CHEAP = 3
#: the type of what has no value of its own
NOTHING = ArrayType(np.dtype(bool), ())


@dataclass
class Body:
    """A function traced with parameters: these, the values it returns and how they nest."""

    number: int
    where: SourceLine
    parameters: list[Node]
    outputs: list[Node]
    structure: Structure
    #: what the body does, in order
    effects: list[Node]
    #: by the number of a parameter: the node outside that it always stands for
    same: dict[int, Node] = field(default_factory=dict)


def run(trace: Trace, types: Sequence[ArrayType], function: Callable[[Sequence[Tracer]], Any]) -> Body:
    """Call `function` with parameters of the given types."""
    where = here()
    with trace.body() as number:
        nodes = [
            trace.graph.apply("parameter", (), where, kind, body=number, index=k)
            for k, kind in enumerate(types)
        ]
        leaves: list[Any] = []
        structure = flatten(function([Tracer.of(trace, n) for n in nodes]), leaves)
        outputs = [promote.node_of(trace, v) for v in leaves]
        effects = trace.effects[-1]
    return Body(number, where, nodes, outputs, structure, effects)


def measures_inside(trace: Trace, body: Body, shape: tuple[Dim, ...]) -> bool:
    """True for a shape with a size that a body measures anew whenever it runs."""
    names = size_names(shape) & trace.graph.measured.keys()
    below = topological([trace.graph.measured[n] for n in sorted(names)])
    return any(n.op.name == "parameter" and n.params["body"] == body.number for n in below)


def seen_as(trace: Trace, node: Node, shape: tuple[Dim, ...]) -> Node:
    """The node with sizes spelled as in `shape`, which they are equal to."""
    return Affine(tuple(axes(len(shape))), shape).read(trace.graph, node)


def refuse_leaks(trace: Trace, outputs: Sequence[Node], own: frozenset[int] = frozenset()) -> None:
    """LeakError where values of a body that is over are used."""
    for node in topological(outputs):
        if node.op.name == "parameter" and node.params["body"] not in (*own, *trace.bodies):
            raise LeakError(
                f"{here()}: a value of the body of a loop or choice ({node.where}) is used outside of it; let the body "
                f"return it"
            )


def extract(trace: Trace, found: Sequence[Body], start: int | None = None) -> tuple[list[Graph], list[Node]]:
    """The graph of each body, and the nodes outside that all of them get after their own parameters.

    `start` is the number of the first node that a choice made.
    """
    plans = [_Plan(trace, body, start) for body in found]
    outside = {n.number: n for plan in plans for n in plan.outside}
    captured = [outside[number] for number in sorted(outside)]
    return [plan.graph(captured) for plan in plans], captured


class _Plan:
    """Which nodes a body computes, and which it is given."""

    def __init__(self, trace: Trace, body: Body, start: int | None) -> None:
        self.trace, self.body = trace, body
        results = [*body.effects, *body.outputs]
        self.checks = trace.checks.get(body.number, [])
        names = size_names(tuple((a, b) for _, a, b, *_ in self.checks)) & trace.graph.measured.keys()
        measures = [trace.graph.measured[n] for n in sorted(names)]
        refuse_leaks(trace, results, frozenset([body.number]))
        order = topological([*results, *measures])
        own = {p.number for p in body.parameters}
        effects = {e.number for e in body.effects}
        first = trace.graph.made if start is None else start
        begun = min(own, default=0) if start is None else start
        #: what is read as an array: it would be made in each step
        whole = {o.number for n in order if n.op.kind not in ("elementwise", "view", "reduce") for o in n.operands}
        inside: dict[int, bool] = {}
        depends: dict[int, bool] = {}
        price: dict[int, int] = {}
        raises: dict[int, bool] = {}
        for node in order:
            k = node.number
            depends[k] = k in own or any(depends[o.number] for o in node.measures + node.operands)
            price[k] = _price(node) + sum(price[o.number] for o in node.operands)
            raises[k] = k >= begun and (_raises(node) or any(raises[o.number] for o in node.operands))
            if node.op.kind == "result":
                inside[k] = inside[node.operands[0].number]
            elif node.op.name in ("input", "constant", "parameter"):
                inside[k] = k in own and k not in body.same
            else:
                shown = (_repeats(node) or _shows_most(trace, node)) and k not in whole
                stays = node.op.kind == "leaf" or k >= first or raises[k] or shown
                inside[k] = stays or depends[k] or price[k] <= CHEAP or k in effects
        needed = {o.number for o in results} | {m.number for m in measures if inside[m.number]}
        for node in reversed(order):
            if node.number in needed and inside[node.number]:
                needed.update(o.number for o in node.operands)
                needed.update(m.number for m in node.measures if inside[m.number])
        used = [n for n in order if n.number in needed]
        self.nodes = [n for n in used if inside[n.number] and n.number not in own]
        self.outside = [
            body.same.get(n.number, n) for n in used if not inside[n.number]
        ]

    def graph(self, captured: Sequence[Node]) -> Graph:
        """The body as a graph: its parameters and what it captures in, its outputs out."""
        whole, body = self.trace.graph, self.body
        graph = Graph(whole.name, hints=whole.hints)
        made: dict[int, Node] = {}
        for k, node in enumerate(p for p in body.parameters if p.number not in body.same):
            made[node.number] = graph.input(node.type, f"p{k}")
        for k, node in enumerate(captured):
            made[node.number] = graph.input(node.type, f"c{k}")
        for parameter, node in body.same.items():
            if node.number in made:
                made[parameter] = made[node.number]
        for node in self.nodes:
            operands = [made[o.number] for o in node.operands]
            made[node.number] = graph.apply(node.op.name, operands, node.where, node.type, **node.params)
        graph.outputs = [made[o.number] for o in body.outputs]
        graph.effects = [made[e.number] for e in body.effects]
        graph.checks = list(self.checks)
        return graph


def record(trace: Trace, op: str, operands: Sequence[Node], where: SourceLine, **params: Any) -> Node:
    """The node of a loop or a choice, after all that happened before it."""
    node = trace.graph.apply(op, operands, where, NOTHING, **params)
    if has_effects(node):
        trace.effects[-1].append(node)
    return node


def _price(node: Node) -> int:
    """What computing one element again costs, in additions."""
    if node.op.kind in ("leaf", "view", "result"):
        return 0
    return node.op.cost if node.op.kind == "elementwise" else CHEAP + 1


def _repeats(node: Node) -> bool:
    """True for a view that shows elements more than once: the smaller array is handed in."""
    if node.op.kind != "view":
        return False
    used = {n for i in node.params["map"] for n in sizes.names(i)}
    return any(d != 1 and axis_name(a) not in used for a, d in enumerate(node.shape))


def _shows_most(trace: Trace, node: Node) -> bool:
    """True for a view of at least half of an array, such as `a[1:-1]`: the array is handed in, and not copied."""
    if node.op.kind != "view":
        return False
    (operand,) = node.operands
    moving = all(d == 1 or sizes.names(i) for i, d in zip(node.params["map"], operand.shape, strict=True))
    shown, whole = (trace.hint(sizes.product(n.shape)) for n in (node, operand))
    return moving and (shown is None or whole is None or 2 * shown >= whole)


def _raises(node: Node) -> bool:
    """True for what raises for some values, or may hold such."""
    if node.op.kind == "control":
        return any(_raises(n) for g in subgraphs(node) for n in g.nodes())
    checked = node.op.kind in ("gather", "put") and "trusted" not in node.params
    return checked or node.op.name == "guard"
