"""Sizes that checks say are equal, spelled alike: small constants, and names for `max(n - 1, 0)` and others."""

from __future__ import annotations

from collections.abc import Callable
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
    if not found or not graph.hints:
        return graph
    new = graph.emptied()
    for relation, a, b, message, exception in graph.checks:
        new.require(relation, sizes.substitute(a, found), sizes.substitute(b, found), message, exception)
    return _respelled(new, graph, lambda dim: sizes.substitute(dim, found))


def merge_sizes(graph: Graph) -> Graph:
    """Where a check says that a name is the size of a part, the name stands for it: one size has one spelling.

    before   check n == max(m - 1, 0);  %1 = view(%0, (i) -> (i + 1)) : f64[max(m - 1, 0)]
    after    check n == max(m - 1, 0);  %1 = view(%0, (i) -> (i + 1)) : f64[n]
    """
    found: dict[sizes.Atom, Dim] = {}
    for relation, a, b, *_ in graph.checks:
        for name, part in ((a, b), (b, a)):
            if relation != "eq" or not _is_name(name) or isinstance(part, int) or len(part.terms) != 1:
                continue
            ((atoms, factor),) = part.terms
            known = not (sizes.names(name) | sizes.names(part)) & graph.measured.keys()
            if known and factor == 1 and len(atoms) == 1 and isinstance(atoms[0], sizes.Call):
                found.setdefault(atoms[0], name)
    if not found:
        return graph
    new = graph.emptied()
    for check in graph.checks:
        new.require(*check)
    return _respelled(new, graph, lambda dim: sizes.exchange(dim, found))


def _is_name(size: Dim) -> bool:
    return isinstance(size, Size) and any(size == sizes.name(n) for n in sizes.names(size))


def _respelled(new: Graph, graph: Graph, spell: Callable[[Dim], Dim]) -> Graph:
    """Fill `new` with the nodes of the graph, their sizes spelled otherwise."""
    made: dict[int, Node] = {}
    for node, name in zip(graph.inputs, graph.input_names, strict=True):
        made[node.number] = new.input(_type(node.type, spell), name)
    for node in graph.nodes():
        if node.number in made:
            continue
        params = {key: _in_other_words(value, spell) for key, value in node.params.items()}
        if node.op.name == "size" and isinstance(params["value"], int):
            made[node.number] = new.literal(params["value"], np.dtype(np.int64), node.where, node.type.weak)
            continue
        operands = [made[o.number] for o in node.operands]
        made[node.number] = new.apply(node.op.name, operands, node.where, _type(node.type, spell), **params)
    new.outputs = [made[o.number] for o in graph.outputs]
    new.effects = [made[e.number] for e in graph.effects]
    return new


def _type(kind: ArrayType, spell: Callable[[Dim], Dim]) -> ArrayType:
    return ArrayType(kind.dtype, tuple(spell(d) for d in kind.shape), kind.weak)


def _in_other_words(value: Any, spell: Callable[[Dim], Dim]) -> Any:
    """A parameter of a node."""
    if isinstance(value, Size):
        return spell(value)
    if isinstance(value, Routine):
        return value.with_sizes(spell)
    if isinstance(value, tuple):
        return tuple(_in_other_words(item, spell) for item in value)
    if isinstance(value, Graph):
        new = value.emptied()
        for relation, a, b, message, exception in value.checks:
            new.require(relation, spell(a), spell(b), message, exception)
        return _respelled(new, value, spell)
    return value
