"""Deterministic text of graphs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from . import sizes
from .graph import Graph, Node, axis_name, literal_value
from .sizes import Dim

_LETTERS = "ijklmnpq"


def show_graph(graph: Graph) -> str:
    """The graph, one node a line: `%3 = add(%1, %2) : f64[n]    # demo.py:6`."""
    return "\n".join(_lines(graph, graph.name)) + "\n"


def _lines(graph: Graph, title: str, indent: str = "") -> Iterator[str]:
    nodes = graph.nodes()
    number = {node.number: f"%{k}" for k, node in enumerate(nodes)}
    for node, name in zip(graph.inputs, graph.input_names, strict=True):
        number[node.number] = name
    arguments = ", ".join(
        f"{n}: {'inout ' if k in graph.inout else ''}{i.type}"
        for k, (n, i) in enumerate(zip(graph.input_names, graph.inputs, strict=True))
    )
    yield f"{indent}{title}({arguments})"
    for node in nodes:
        if node.op.name == "input":
            continue
        text = f"{indent}  {number[node.number]} = {_call(node, number)}"
        text += f" : {node.type}" if node.op.kind not in ("control", "effect") else ""
        yield f"{text:<72}  # {node.where}" if node.where.line else text
        for name, inner in _inside(node):
            yield from _lines(inner, name, f"{indent}    ")
    for relation, a, b, *_ in graph.checks:
        yield f"{indent}  require {a} {_RELATIONS[relation]} {b}"
    for k, argument in sorted(graph.written.items()):
        yield f"{indent}  {graph.input_names[argument]}[...] = {number[graph.outputs[k].number]}"
    returned = [
        graph.input_names[graph.written[k]] if k in graph.written else number[o.number]
        for k, o in enumerate(graph.returned)
    ]
    yield f"{indent}  return " + ", ".join(returned)


def _inside(node: Node) -> list[tuple[str, Graph]]:
    """The graphs of a loop or a choice, by what they are for."""
    if node.op.name == "branch":
        return [(f"branch {k}", g) for k, g in enumerate(node.params["branches"])]
    return [(name, g) for name, g in sorted(node.params.items()) if isinstance(g, Graph)]


_RELATIONS = {"eq": "==", "ne": "!=", "ge": ">="}


def _call(node: Node, number: Mapping[int, str]) -> str:
    operands = [number[o.number] for o in node.operands]
    if node.op.name == "literal":
        return repr(literal_value(node).item())
    if node.op.name == "view":
        return f"view({operands[0]}, {show_map(node.params['map'], len(node.shape))})"
    if node.op.name == "call":
        routine = node.params["routine"]
        part = f"[{node.params['result']}]" if routine.returns == "several" else ""
        return re.sub(r"%(\d+)", lambda found: operands[int(found[1])], str(routine)) + part
    if node.op.kind == "effect":
        return f"{node.op.name}({', '.join([*operands, repr(node.params['text'])])})"
    inner = {"branches", "body", "cond"} if node.op.kind == "control" else set()
    params = [f"{k}={_param(v)}" for k, v in sorted(node.params.items()) if k not in inner]
    return f"{node.op.name}({', '.join(operands + params)})"


def _param(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_param, value)) + ("," if len(value) == 1 else "") + ")"
    return str(value)


def show_map(index: tuple[Dim, ...], rank: int) -> str:
    """A view's index map with letters for axes: `(i, j) -> (j, i + 1)`."""
    letters = {axis_name(a): sizes.name(_LETTERS[a] if a < len(_LETTERS) else f"i{a}") for a in range(rank)}
    inner = ", ".join(str(letters[axis_name(a)]) for a in range(rank))
    outer = ", ".join(str(sizes.substitute(d, letters)) for d in index)
    return f"({inner}) -> ({outer})"
