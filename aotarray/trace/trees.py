"""Nested arguments and results: tuples, lists, dicts, NamedTuples, dataclasses and None, as flat leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..types import ArrayType
from .size_value import SizeValue

#: type -> (kind, flatten to children and static key, rebuild); kind is how a built module returns it
_REGISTERED: dict[
    type, tuple[Callable[[Any], tuple[Sequence[Any], Any]], Callable[[Any, Sequence[Any]], Any]]
] = {}


def register_tree(
    kind: type,
    flatten: Callable[[Any], tuple[Sequence[Any], Any]],
    rebuild: Callable[[Any, Sequence[Any]], Any],
) -> None:
    """Teach compiled functions a container type.

    `flatten(value)` gives (children, static key); `rebuild(key, children)` makes the value again.
    """
    _REGISTERED[kind] = (flatten, rebuild)


@dataclasses.dataclass(frozen=True)
class Structure:
    """The shape of a nested value: what kind of container, with which children; leaves in order."""

    kind: str  # "leaf", "none", "tuple", "list", "dict", "object"
    children: tuple[Structure, ...] = ()
    key: Any = None

    def rebuild(self, leaves: Any) -> Any:
        """The nested value with leaves taken from an iterator."""
        if self.kind == "leaf":
            return next(leaves)
        if self.kind == "none":
            return None
        children = [c.rebuild(leaves) for c in self.children]
        if self.kind == "tuple":
            return tuple(children)
        if self.kind == "list":
            return children
        if self.kind == "dict":
            return dict(zip(self.key, children, strict=True))
        kind, static = self.key
        return _make(kind, static, children)

    def tree(self, counter: Any) -> tuple[Any, ...]:
        """As the plain tuples of `aotarray.program.Tree`; objects become dicts or tuples."""
        if self.kind == "leaf":
            return ("leaf", next(counter))
        if self.kind == "none":
            return ("none",)
        children = tuple(c.tree(counter) for c in self.children)
        if self.kind in ("tuple", "list"):
            return (self.kind, children)
        if self.kind == "dict":
            return ("dict", self.key, children)
        kind, _ = self.key
        if dataclasses.is_dataclass(kind):
            return ("dict", tuple(f.name for f in dataclasses.fields(kind)), children)
        return ("tuple", children)

    def count(self) -> int:
        return 1 if self.kind == "leaf" else sum(c.count() for c in self.children)


def leaf_names(structure: Structure, root: str) -> list[str]:
    """What the user would write for each leaf of a value called `root`: `carry[0]['x']`."""
    if structure.kind == "leaf":
        return [root]
    if structure.kind == "dict":
        parts = [f"[{k!r}]" for k in structure.key]
    elif structure.kind == "object":
        kind = structure.key[0]
        fields = [f.name for f in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
        fields = fields or list(getattr(kind, "_fields", map(str, range(len(structure.children)))))
        parts = [f".{name}" for name in fields]
    else:
        parts = [f"[{k}]" for k in range(len(structure.children))]
    pairs = zip(parts, structure.children, strict=True)
    return [name for part, child in pairs for name in leaf_names(child, root + part)]


_PLAIN_LEAVES = frozenset((np.ndarray, float, int, complex, bool))

LEAF = Structure("leaf")
NONE = Structure("none")


def flatten(value: Any, leaves: list[Any]) -> Structure:
    """Append the leaves of `value` and return its structure."""
    kind = type(value)
    if value is None:
        return NONE
    if kind is tuple:
        return Structure("tuple", tuple(flatten(v, leaves) for v in value))
    if kind is list:
        return Structure("list", tuple(flatten(v, leaves) for v in value))
    if kind is dict:
        return Structure("dict", tuple(flatten(v, leaves) for v in value.values()), _keys(value))
    if kind in _REGISTERED:
        children, key = _REGISTERED[kind][0](value)
        return Structure("object", tuple(flatten(v, leaves) for v in children), (kind, key))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return Structure("object", tuple(flatten(v, leaves) for v in value), (kind, None))
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, ArrayType)):
        fields = dataclasses.fields(value)
        return Structure(
            "object", tuple(flatten(getattr(value, f.name), leaves) for f in fields), (kind, None)
        )
    leaves.append(value)
    return LEAF


def form(value: Any, leaves: list[Any]) -> Any:
    """Append the leaves of `value` as `flatten` does, and return a key of its structure, in less time."""
    kind = type(value)
    if kind in _PLAIN_LEAVES:
        leaves.append(value)
        return 0
    if kind is tuple or kind is list:
        return kind, *[form(v, leaves) for v in value]
    if kind is dict:
        return kind, *value, *[form(v, leaves) for v in value.values()]
    structure = flatten(value, leaves)
    return 0 if structure is LEAF else structure


def _keys(value: dict[Any, Any]) -> tuple[Any, ...]:
    """A dict's keys; hashing has fixed those that are sizes, so they are ints."""
    return tuple(int(k) if isinstance(k, SizeValue) else k for k in value)


def is_tree(value: Any) -> bool:
    """True for the containers that `flatten` takes apart."""
    kind = type(value)
    if (
        kind in (tuple, list, dict)
        or kind in _REGISTERED
        or (isinstance(value, tuple) and hasattr(value, "_fields"))
    ):
        return True
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _make(kind: type, static: Any, children: Sequence[Any]) -> Any:
    if kind in _REGISTERED:
        return _REGISTERED[kind][1](static, children)
    if hasattr(kind, "_fields"):
        return kind(*children)
    made: Any = object.__new__(kind)
    for field, child in zip(dataclasses.fields(kind), children, strict=True):
        object.__setattr__(made, field.name, child)
    return made
