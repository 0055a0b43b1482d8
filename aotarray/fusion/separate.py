"""Memory of its own for what is given out and for what loops carry, and what a step makes of it.

A step writes what it carries into new memory, which then changes places with the old. Two kinds of values are
written over the old ones instead: those of which only parts are made (`tracks_of`), and those that a nest makes of
the old value element by element, once all else that reads the old value is done.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import lru_cache

from ..graph import Graph, Node, subgraphs
from ..passes.rewrite import rebuild, same
from .arguments import ArgumentWrite
from .elements import Write, changed_in_place, element_loop, tracks_of
from .partition import Partition, is_buffer, overwrite, partition


@dataclass(frozen=True)
class Step:
    """What a loop does in a step: a `body` whose outputs are new values of `whole`, rows of stacks, and `parts`.

    `whole` are the carried values that are not changed in `tracks`; of these `in_place` overwrite the old value.
    """

    body: Graph
    plan: Partition
    whole: tuple[int, ...]
    in_place: frozenset[int]
    tracks: dict[int, tuple[Write, ...]]
    parts: tuple[Node, ...]


@lru_cache(maxsize=256)
def step_of(node: Node) -> Step:
    """The step of a loop, whose body has separate outputs."""
    body: Graph = node.params["body"]
    first, count = (1 if node.op.name == "loop" else 0), node.params["carried"]
    tracks = tracks_of(node)
    whole = tuple(k for k in range(count) if k not in tracks)
    writes = [write for found in tracks.values() for write in found]
    parts = [n for w in writes for n in (w.value, *w.index) if isinstance(n, Node)]
    if tracks:
        outputs = [body.outputs[k] for k in whole] + body.outputs[count:] + parts
        body = rebuild(replace(body, outputs=outputs), same)
        separate_outputs(body)
    values = [ArgumentWrite(o, body.inputs[first + k]) for k, o in zip(whole, body.outputs, strict=False)]
    plan = partition(body)
    done = overwrite(plan, body.nodes(), values)
    in_place = frozenset(k for k, write in zip(whole, values, strict=True) if write.node.number in done)
    return Step(body, plan, whole, in_place, tracks, tuple(parts))


def kept_in_place(node: Node) -> set[int]:
    """The carried values of a loop, whose body has separate outputs, that lie where they started."""
    loop = element_loop(node)
    return changed_in_place(node) | (set(step_of(node).in_place) if loop is None else set())


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
    return element_loop(node.operands[0]) is None and node.params["index"] not in kept_in_place(node.operands[0])


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
