"""What a variable may hold where values steer: nothing yet, perhaps something, or a tree of traced values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import TraceError, UnassignedError
from ...graph import Node
from ...types import is_supported
from .. import effects, promote
from ..context import Trace, here
from ..size_value import SizeValue
from ..tracer import Storage, Tracer
from ..trees import Structure, flatten
from .jumps import RESULT

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class Unset:
    """A variable without a value."""

    __slots__ = ("name", "why")

    def __init__(self, name: str, why: str = "") -> None:
        self.name, self.why = name, why

    def error(self) -> UnassignedError:
        why = f": {self.why}" if self.why else ""
        return UnassignedError(
            f"{here()}: cannot access local variable {self.name!r} where it is not associated with a value{why}"
        )

    def __getattr__(self, name: str) -> Any:
        raise self.error()


@dataclass(eq=False)
class Maybe:
    """A value that a variable has where `flag`, a traced bool, holds."""

    name: str
    value: Any
    flag: Any
    why: str

    def read(self) -> Any:
        """The value; the program raises where the variable has none."""
        if self.name == RESULT:
            return self.value
        message = (
            f"cannot access local variable {self.name!r} where it is not associated with a value ({self.why})"
        )
        effects.check(self.flag, message, exception=UnboundLocalError)
        return self.value


@dataclass(eq=False)
class Seen:
    """What a variable, array or container holds at one point: how it nests, its leaves and their nodes."""

    structure: Structure | None
    leaves: list[Any] = field(default_factory=list)
    nodes: list[Node | None] = field(default_factory=list)
    #: where it has a value: a Python bool, or a traced one
    flag: Any = True
    why: str = ""

    @classmethod
    def of(cls, trace: Trace, value: Any) -> Seen:
        if type(value) is Unset:
            return cls(None, flag=False, why=value.why)
        flag, why = True, ""
        if type(value) is Maybe:
            flag, why, value = value.flag, value.why, value.value
        leaves: list[Any] = []
        structure = flatten(value, leaves)
        return cls(structure, leaves, [node_or_none(trace, v) for v in leaves], flag, why)


def node_or_none(trace: Trace, value: Any) -> Node | None:
    """The node of a number, an array or a size; None for anything else, and for an array that nobody knows."""
    if type(value) is Tracer:
        try:
            return value.node
        except TraceError:
            return None
    if type(value) in (bool, int, float, complex) or type(value) is SizeValue:
        return promote.node_of(trace, value)
    if isinstance(value, (np.generic, np.ndarray)) and is_supported(value.dtype):
        return promote.node_of(trace, value)
    return None


def same(a: Any, b: Any) -> bool:
    """True where two values are surely one."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) is Tracer:
        if a._storage.scalar:
            return b._storage.scalar and a.node is b.node
        return a._storage is b._storage and a._lenses == b._lenses
    if type(a) is SizeValue:
        return bool(a.dim == b.dim)
    if type(a) in _PLAIN:
        return bool(repr(a) == repr(b))
    if isinstance(a, np.generic):
        return bool(a.dtype == b.dtype and a.tobytes() == b.tobytes())
    if type(a) in (tuple, list) and len(a) == len(b):
        return type(a) is tuple and all(map(same, a, b))
    if type(a) is Maybe:
        return same(a.value, b.value) and same(a.flag, b.flag)
    return type(a) is Unset


def fresh(trace: Trace, node: Node, like: Any) -> Tracer:
    """A new traced value: an array without axes stays one, a scalar a scalar."""
    scalar = not node.shape and not is_array(like)
    return Tracer(trace, Storage(node, scalar=scalar))


def is_array(value: Any) -> bool:
    """True for what can be written into."""
    return (type(value) is Tracer and not value._storage.scalar) or type(value) is np.ndarray


def zeros(trace: Trace, like: Node) -> Node:
    """Zeros of the type of a node."""
    node = trace.graph.literal(0, like.dtype, here(), weak=like.type.weak)
    return promote.broadcast_node(trace, node, like.shape)


def storages(values: Sequence[Any]) -> Iterator[Storage]:
    """The arrays behind values."""
    for value in values:
        if is_array(value) and type(value) is Tracer:
            yield value._storage


def shown(value: Any) -> str:
    """A value in an error message."""
    if type(value) is Tracer:
        return str(value._storage.node.type if value._lenses else value.node.type)
    return (
        "None" if value is None else f"a {type(value).__name__}" if type(value) not in _PLAIN else repr(value)
    )
