"""Passes that keep every bit: chains of views become one, and ops that do nothing go."""

from __future__ import annotations

from .. import sizes
from ..graph import Graph, Node, axis_name
from .rewrite import rebuild, same


def fold_views(graph: Graph) -> Graph:
    """Compose chains of views into one index map; a view that changes nothing goes.

    before   %1 = view(%0, (i, j) -> (j, i));  %2 = view(%1, (i, j) -> (i + 1, j))
    after    %2 = view(%0, (i, j) -> (j, i + 1))
    """

    def rule(new: Graph, node: Node, operands: tuple[Node, ...]) -> Node:
        if node.op.name == "reshape" and operands[0].op.name == "reshape":
            operands = operands[0].operands
        if node.op.name == "reshape" and operands[0].shape == node.shape:
            return operands[0]
        if node.op.name != "view":
            return same(new, node, operands)
        (operand,) = operands
        index = node.params["map"]
        while operand.op.name == "view":
            values = {axis_name(a): d for a, d in enumerate(index)}
            index = tuple(sizes.substitute(d, values) for d in operand.params["map"])
            (operand,) = operand.operands
        plain = tuple(0 if d == 1 else sizes.name(axis_name(a)) for a, d in enumerate(operand.shape))
        squeezed = tuple(0 if d == 1 else i for i, d in zip(index, operand.shape, strict=True))
        if operand.shape == node.shape and squeezed == plain:
            return operand
        return new.apply("view", (operand,), node.where, node.type, map=index, shape=node.shape)

    return rebuild(graph, rule)


def drop_writes(graph: Graph) -> Graph:
    """Drop writes that leave nothing of an array, or that write what is there.

    before   %2 = update(%0, %1, all of %0);  %4 = put(%3, v, k);  %5 = put(%4, gather(%4, k), k)
    after    %1;  %4 = put(%3, v, k)
    """

    def rule(new: Graph, node: Node, operands: tuple[Node, ...]) -> Node:
        if node.op.name == "update" and operands[1].shape == node.shape:
            region = enumerate(zip(node.params["region"], node.shape, strict=True))
            if all(entry == (0, 1, d, a) for a, (entry, d) in region):
                return operands[1]
        if node.op.name == "put":
            base, value, *positions = operands
            before = base.op.name == "put" and base.operands[2:] == tuple(positions)
            again = value.op.name == "gather" and value.operands == (base, *positions)
            if before and again and node.params["axes"] == base.params["axes"] == value.params["axes"]:
                return base
        return same(new, node, operands)

    return rebuild(graph, rule)


def simplify_algebra(graph: Graph) -> Graph:
    """Drop ops that change no bit: casts to the same dtype, positive, signs that cancel or are dropped.

    before   %1 = cast(%0, dtype=float64) : f64;  %2 = absolute(negative(%1))
    after    %2 = absolute(%0)
    """

    def rule(new: Graph, node: Node, operands: tuple[Node, ...]) -> Node:
        name = node.op.name
        if name == "cast" and operands[0].dtype == node.dtype and "copy" not in node.params:
            return operands[0]
        if name == "positive" or (name == "conjugate" and node.dtype.kind != "c"):
            return operands[0]
        if name in ("absolute", "fabs") and operands[0].op.name == "negative" and node.dtype.kind == "f":
            return new.apply(name, operands[0].operands, node.where)
        if name == "negative" and operands[0].op.name == "negative" and node.dtype.kind in "fc":
            return operands[0].operands[0]
        return same(new, node, operands)

    return rebuild(graph, rule)
