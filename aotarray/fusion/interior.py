"""Where a nest is away from its edges: reads through clamps, joins and updates whose outcome is known there.

Padding, rolling, joining and writing slices ask for each element which piece it belongs to. Most elements
belong to one. While the body for these is built, `Interior` resolves each question with the usual answer and
collects what must hold for it; the nest then runs that body on the range where all of it holds, and the
general body on the few elements before and after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .. import sizes
from ..graph import Node
from ..sizes import Dim
from .access import Index

#: what a size is taken to be where nothing is known of it
TYPICAL_SIZE = 1000


class Interior:
    """Conditions `dim >= 0`, on loop variables and sizes, under which no access is at an edge."""

    def __init__(self, variables: Sequence[str], known: frozenset[str], hints: Mapping[str, int]) -> None:
        self.variables = frozenset(variables)
        self.known = known | self.variables
        self.hints = hints
        self.conditions: list[Dim] = []

    def require(self, *dims: Dim) -> bool:
        """Rely on each being >= 0; False when that depends on more than loop variables and sizes."""
        if not all(sizes.names(dim) <= self.known for dim in dims):
            return False
        for dim in dims:
            if dim not in self.conditions and (sizes.names(dim) & self.variables or not sizes.never_negative(dim)):
                self.conditions.append(dim)
        return True

    def guess(self, size: Dim) -> int:
        """A likely value of a size."""
        return sizes.evaluate(size, {n: self.hints.get(n, TYPICAL_SIZE) for n in sizes.names(size)})

    def resolve(self, index: Index) -> Index:
        """An index without clamps of loop variables: `max(i - 1, 0)` is `i - 1` where `i - 1 >= 0`."""
        return tuple(self._resolve(dim) for dim in index)

    def _resolve(self, dim: Dim) -> Dim:
        if isinstance(dim, int) or not self._moves(dim):
            return dim
        total: Dim = 0
        for monomial, coefficient in dim.terms:
            term: Dim = coefficient
            for atom in monomial:
                term = term * (sizes.name(atom) if isinstance(atom, str) else self._atom(atom))
            total = total + term
        return total

    def _atom(self, call: sizes.Call) -> Dim:
        a, b = call.args
        if call.name in ("min", "max") and self._moves(a) != self._moves(b):
            kept, bound = (a, b) if self._moves(a) else (b, a)
            kept = self._resolve(kept)
            if self.require(kept - bound if call.name == "max" else bound - kept):
                return kept
        return sizes.Size((((call,), 1),))

    def _moves(self, dim: Dim) -> bool:
        return bool(sizes.names(dim) & self.variables)

    def piece(self, node: Node, position: Dim) -> int | None:
        """The piece of a concatenation that most elements come from; relies on `position` lying in it.

        None when that cannot be known before the loop runs.
        """
        axis = node.params["axis"]
        lengths = [o.shape[axis] for o in node.operands]
        chosen = max(range(len(lengths)), key=lambda k: self.guess(lengths[k]))
        start: Dim = 0
        for length in lengths[:chosen]:
            start = start + length
        found = self.require(position - start, start + lengths[chosen] - 1 - position)
        return chosen if found else None

    def inside(self, node: Node, conditions: Sequence[tuple[str, Dim, Dim]]) -> bool:
        """True when most elements of an update lie in its region; relies on it then."""
        if any(kind not in ("ge", "lt") for kind, _, _ in conditions):
            return False
        share = 1.0
        for (_, _, length, axis), extent in zip(node.params["region"], node.shape, strict=True):
            if axis is not None:
                share *= self.guess(length) / max(self.guess(extent), 1)
        return share >= 0.5 and self.require(*(a - b if kind == "ge" else b - 1 - a for kind, a, b in conditions))

    def range_of(self, variable: str) -> tuple[list[Dim], list[Dim], list[Dim]] | None:
        """The conditions as (least values, greatest values) of `variable`, and those on other variables.

        None when one of them is not linear in it with a constant factor.
        """
        lows: list[Dim] = []
        highs: list[Dim] = []
        others: list[Dim] = []
        for condition in self.conditions:
            factor = sizes.linear_coefficient(condition, variable)
            if not isinstance(factor, int):
                return None
            rest = condition - factor * sizes.name(variable)
            if factor == 0:
                others.append(condition)
            elif factor > 0:
                lows.append(-sizes.floordiv(rest, factor))
            else:
                highs.append(sizes.floordiv(rest, -factor))
        return lows, highs, others


def has_edges(nodes: Sequence[Node]) -> bool:
    """True when some of these ask where an element lies."""
    return any(n.op.kind in ("concat", "update") or (n.op.kind == "view" and _clamps(n)) for n in nodes)


def _clamps(node: Node) -> bool:
    return any("min(" in str(d) or "max(" in str(d) for d in node.params["map"])
