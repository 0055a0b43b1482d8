"""The places that a loop carries, and how messages name them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...errors import TraceError
from ...graph import Node, SourceLine
from .. import bodies, control, promote
from ..context import Trace
from ..control import kind_of
from ..tracer import Storage
from ..trees import Structure, leaf_names
from .jumps import RESULT
from .values import Seen, same, shown, zeros


@dataclass(eq=False)
class Slot:
    """A variable, array or container that the loop carries."""

    name: str
    structure: Structure
    leaves: list[Any]
    #: what each leaf is before the loop; None for what is no array or number, and stays
    nodes: list[Node | None]
    #: where it lies: the number of a variable, an array, or a container
    place: int | Storage | Any
    #: what it is before the loop does not reach into a step
    hidden: bool = False
    #: it may have no value before the loop
    late: bool = False
    outputs: list[Node | None] = field(default_factory=list)

    @property
    def carried(self) -> list[int]:
        return [k for k, n in enumerate(self.nodes) if n is not None]


def adapt(trace: Trace, where: SourceLine, slot: Slot, seen: Seen, restarts: Callable[[], bool]) -> bool:
    """Make what a step leaves have the types of what is carried; True when what is carried changed instead.

    `restarts()` says whether what the slot is before the loop never counts.
    """
    changed = False
    slot.outputs = list(seen.nodes)
    for k, label in enumerate(leaf_names(slot.structure, slot.name)):
        node, out = slot.nodes[k], seen.nodes[k]
        if node is None or out is None:
            if node is None and same(slot.leaves[k], seen.leaves[k]):
                slot.outputs[k] = None
                continue
            raise TraceError(
                f"{where}: {spoken(label)} is {shown(slot.leaves[k])} before a step of the loop and "
                f"{shown(seen.leaves[k])} after it; a loop that values steer carries arrays and numbers"
            )
        if _equal(node, out):
            continue
        rank, new = "bifc".index(kind_of(node)), "bifc".index(kind_of(out))
        if restarts():
            slot.nodes[k] = zeros(trace, out)
            changed = True
        elif node.type.weak and rank <= new:
            slot.nodes[k] = _promoted(trace, node, out)
            changed = True
        elif out.type.weak and not node.shape and new <= rank:
            made = promote.cast(trace, out, node.dtype)
            slot.outputs[k] = promote.weakened(trace, made) if node.type.weak else made
        elif node.dtype != out.dtype or not control.fits(trace, node.shape, out.shape):
            way = f"convert it with astype(np.{node.dtype})" if node.shape == out.shape else "keep its shape"
            raise TraceError(
                f"{where}: {spoken(label)} is {node.type} before a step of the loop and {out.type} after it; what a "
                f"loop carries keeps its type: {way}, or give it its final type before the loop"
            )
        else:
            slot.outputs[k] = bodies.seen_as(trace, out, node.shape)
    return changed


def _equal(a: Node, b: Node) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.type.weak == b.type.weak


def _promoted(trace: Trace, node: Node, out: Node) -> Node:
    """A Python number that the loop starts from, in the type that a step gives."""
    found = promote.cast(trace, node, out.dtype)
    if out.shape:
        return promote.broadcast_node(trace, found, out.shape)
    return promote.weakened(trace, found) if out.type.weak else found


def spoken(name: str) -> str:
    """What a message calls a variable, a result, or an array."""
    return "the result" if name.startswith(RESULT) else name if name == "an array" else f"variable {name!r}"


def nested(seen: Seen) -> str:
    """How a value nests, for a message."""
    structure = seen.structure
    if structure is None:
        return "nothing"
    if structure.kind == "leaf":
        return shown(seen.leaves[0])
    return "None" if structure.kind == "none" else f"a {structure.kind} of {len(structure.children)}"
