"""Small sizes that a program was made for, as constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import sizes
from ..graph import Graph, Node
from ..routines import Routine
from ..sizes import Dim, Size
from ..types import ArrayType

#: larger sizes are left as they are: nothing is written out for each of so many elements
LARGEST = 4


def settle_sizes(graph: Graph) -> Graph:
    """Where a check says that a name is a small number, the number stands for it: loops over it can be written out.

    before   f(%0 : f64[n, m]);  check m == 3;  %1 = view(%0, (i, j) -> (j, i)) : f64[m, n]
    after    f(%0 : f64[n, 3]);  %1 = view(%0, (i, j) -> (j, i)) : f64[3, n]

    Only in graphs that a call asked for: elsewhere the failed check is an error, with its own words.
    """
    found: dict[str, Dim] = {}
    for relation, a, b, *_ in graph.checks:
        if relation == "eq" and isinstance(a, Size) and isinstance(b, int) and b <= LARGEST:
            names = sizes.names(a) - graph.measured.keys()
            if len(names) == 1 and a == sizes.name(*names):
                found[next(iter(names))] = b
    return _settled(graph, found) if found and graph.hints else graph


def _settled(graph: Graph, values: Mapping[str, Dim]) -> Graph:
    """The graph with values in place of names."""
    new = graph.emptied()
    for relation, a, b, message, exception in graph.checks:
        new.require(relation, sizes.substitute(a, values), sizes.substitute(b, values), message, exception)
    made: dict[int, Node] = {}
    for node, name in zip(graph.inputs, graph.input_names, strict=True):
        made[node.number] = new.input(_type(node.type, values), name)
    for node in graph.nodes():
        if node.number in made:
            continue
        params = {key: _substituted(value, values) for key, value in node.params.items()}
        if node.op.name == "size" and isinstance(params["value"], int):
            made[node.number] = new.literal(params["value"], np.dtype(np.int64), node.where, node.type.weak)
            continue
        operands = [made[o.number] for o in node.operands]
        made[node.number] = new.apply(node.op.name, operands, node.where, _type(node.type, values), **params)
    new.outputs = [made[o.number] for o in graph.outputs]
    new.effects = [made[e.number] for e in graph.effects]
    return new


def _type(kind: ArrayType, values: Mapping[str, Dim]) -> ArrayType:
    return ArrayType(kind.dtype, tuple(sizes.substitute(d, values) for d in kind.shape), kind.weak)


def _substituted(value: Any, values: Mapping[str, Dim]) -> Any:
    """A parameter of a node."""
    if isinstance(value, Size):
        return sizes.substitute(value, values)
    if isinstance(value, Routine):
        return value.with_sizes(lambda dim: sizes.substitute(dim, values))
    if isinstance(value, tuple):
        return tuple(_substituted(item, values) for item in value)
    if isinstance(value, Graph):
        return _settled(value, values)
    return value
