"""Last axes of a few elements, which a nest writes out instead of looping over them.

So what is made for all elements of a small vector or matrix is computed once, and which piece of a stack an element
comes from is known when the kernel is written.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ..graph import Node
from ..sizes import Dim
from .access import Index, domain_of, identity

#: axes of at most so many elements are written out
LARGEST_AXIS = 4
#: and in all at most so many elements
LARGEST_TAIL = 16


def tail_of(domain: Sequence[Dim]) -> tuple[int, ...]:
    """The extents of the last axes that may be written out."""
    found: list[int] = []
    total = 1
    for extent in reversed(domain):
        if not isinstance(extent, int) or not 1 < extent <= LARGEST_AXIS or total * extent > LARGEST_TAIL:
            break
        total *= extent
        found.insert(0, extent)
    return tuple(found)


def find_mixed(nodes: Sequence[Node]) -> set[int]:
    """The nodes whose elements along a tail read several elements of another array, or are pieces of a stack.

    Loops over such an axis would not be merged with others anyway.
    """
    found: set[int] = set()
    for node in nodes:
        if node.op.kind == "concat":
            mixed = bool(tail_of(node.shape[node.params["axis"] :]))
        elif node.op.kind == "reduce":
            mixed = all(_is_small(node.operands[0].shape[a]) for a in node.params["axes"])
        elif node.op.kind == "view":
            pairs = zip(node.params["map"], node.operands[0].shape, strict=True)
            mixed = any(isinstance(i, int) and i > 0 and _is_small(extent) for i, extent in pairs)
        else:
            mixed = False
        if mixed or (node.op.kind in ("elementwise", "view") and any(o.number in found for o in node.operands)):
            found.add(node.number)
    return found


def _is_small(extent: Dim) -> bool:
    return isinstance(extent, int) and extent <= LARGEST_AXIS


def places(node: Node, mixed: set[int]) -> list[Index]:
    """The indices at which a root is computed in one step of its nest."""
    index = identity(node)
    tail = tail_of(domain_of(node)[0]) if node.number in mixed and node.op.kind != "reduce" else ()
    if not tail:
        return [index]
    axes = [a for a, d in enumerate(node.shape) if d != 1][-len(tail) :]
    found = []
    for position in itertools.product(*map(range, tail)):
        at = list(index)
        for axis, k in zip(axes, position, strict=True):
            at[axis] = k
        found.append(tuple(at))
    return found


def few_elements(node: Node) -> int:
    """How many elements a node has along its axes of a few."""
    total = 1
    for extent in node.shape:
        total *= extent if isinstance(extent, int) and extent <= LARGEST_AXIS else 1
    return max(total, 1)
