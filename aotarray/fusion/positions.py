"""What is known of integer scalars: as sizes, and, for the counter of a loop, between which."""

from __future__ import annotations

from dataclasses import dataclass

from .. import sizes
from ..graph import Node, literal_value
from ..sizes import Dim


def affine(node: Node, counter: Node | None = None, name: str = "") -> Dim | None:
    """An int64 scalar as a size in which `name` is the counter, or None."""
    if node is counter:
        return sizes.name(name)
    if node.shape or node.dtype.kind not in "iu":
        return None
    op = node.op.name
    if op == "literal":
        return int(literal_value(node))
    if op == "size":
        dim: Dim = node.params["value"]
        return dim
    same_width = op == "cast" and node.operands[0].dtype.kind == "i"
    if not (same_width or op in ("add", "subtract", "multiply", "negative")) or node.dtype.itemsize != 8:
        return None
    parts = [affine(o, counter, name) for o in node.operands]
    a, b = parts[0], parts[-1]
    if a is None or b is None or (op == "multiply" and not (isinstance(a, int) or isinstance(b, int))):
        return None
    return {"add": a + b, "subtract": a - b, "multiply": a * b, "negative": -a}.get(op, a)


@dataclass(frozen=True)
class Steps:
    """The values of a counter, `low` to `high` where there are any; None where that is not known."""

    name: str
    low: Dim | None
    high: Dim | None

    @staticmethod
    def between(name: str, lower: Node, upper: Node) -> Steps:
        low, end = affine(lower), affine(upper)
        if low is None or end is None:
            return Steps(name, None, None)
        return Steps(name, low, _end(low, end) - 1)

    def within(self, dim: Dim, extent: Dim) -> bool:
        """True when an index that may depend on the counter is within bounds in every step."""
        ends = self.ends(dim)
        return (
            ends is not None and sizes.never_negative(ends[0]) and sizes.never_negative(extent - 1 - ends[1])
        )

    def ends(self, dim: Dim) -> tuple[Dim, Dim] | None:
        """The least and the largest value that `dim` takes."""
        factor = sizes.linear_coefficient(dim, self.name)
        if not isinstance(factor, int) or self.low is None or self.high is None:
            return None
        first, last = (sizes.substitute(dim, {self.name: end}) for end in (self.low, self.high))
        return (first, last) if factor >= 0 else (last, first)


def _end(low: Dim, end: Dim) -> Dim:
    """The upper bound without a clamp that matters only where there are no steps: of `max(n - 1, 0)`, `n - 1`."""
    if isinstance(end, int) or len(end.terms) != 1:
        return end
    ((atoms, factor),) = end.terms
    if factor == 1 and len(atoms) == 1 and isinstance(atoms[0], sizes.Call) and atoms[0].name == "max":
        for kept, other in (atoms[0].args, atoms[0].args[::-1]):
            if sizes.never_negative(low - other):
                return kept
    return end
