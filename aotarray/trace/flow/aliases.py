"""Which arrays a name may be where values steer: writing into one must not silently miss another.

A choice or a loop gives a name an array of its own. Where Python would have let two names share one, both are
tied: after a write into one of them, reading the other is an error (`Storage.maybe`, `Storage.lost`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import TraceError
from ...graph import Node, SourceLine
from ..context import Trace
from ..tracer import SHARED, Storage, Tracer, lose_others
from .values import is_array

Key = tuple[int, int]


def storage_of(value: Any) -> Storage | None:
    """The array that can be written into behind a value."""
    return value._storage if type(value) is Tracer and is_array(value) else None


@dataclass(eq=False)
class Made:
    """A new array, what it is on each path, and what else it may be."""

    storage: Storage
    paths: Sequence[Storage | None]
    others: Sequence[Storage] = ()


def tie(arrays: Sequence[Made], own: Sequence[int]) -> None:
    """Tie new arrays to those that they may be: not those made in the bodies `own`, and to one another."""
    for made in arrays:
        known = [s for s in (*made.paths, *made.others) if s is not None and s.body not in own and not s.lost]
        apart: list[Storage] = []
        for other in arrays:
            if other is not made:
                shared = any(_same(a, b) for a, b in zip(made.paths, other.paths, strict=True))
                (known if shared else apart).append(other.storage)
        made.storage.apart = tuple(apart)
        made.storage.maybe = tuple((s, s.version) for s in known)


@dataclass(eq=False)
class Carried:
    """An array that a variable is before a loop, at the start of a step, and at its end."""

    name: str
    entry: Storage | None
    inner: Storage | None
    left: Storage | None
    hidden: bool


class Aliases:
    """The arrays of the variables of one loop."""

    def __init__(self, trace: Trace, where: SourceLine) -> None:
        self.trace, self.where = trace, where
        self.inner: dict[Key, Storage] = {}
        self.lost: list[Storage] = []

    def begin(self) -> dict[int, Node]:
        """A step begins: what its writes make unknown is not to be read in it. What these are, by identity."""
        self.inner = {}
        for storage in self.lost:
            self.lose(storage)
        return {id(s): s.node for s in self.lost}

    def lose(self, storage: Storage) -> None:
        self.trace.note_write(storage)
        storage.lost = f"{SHARED} (a step of the loop in line {self.where.line} writes)"
        storage.version += 1
        lose_others(self.trace, storage)

    def settle(self, carried: Mapping[Key, Carried], number: int, written: Sequence[Storage]) -> bool:
        """True when arrays were found that a step may not read. TraceError where names share what is written."""
        own = {id(c.inner): c for c in carried.values() if c.inner is not None}
        changed = {id(s) for s in written}
        known = {id(s) for s in self.lost}
        for one in carried.values():
            for storage in (None if one.hidden else one.entry, one.left):
                if storage is not None and id(storage) in changed:
                    raise self._shared(one.name, "another name")
            if one.inner is None or not one.inner.version:
                continue
            for other in carried.values():
                shared = _same(other.entry, one.entry) or _same(other.left, one.left)
                if shared and other is not one and not other.hidden:
                    raise self._shared(one.name, repr(other.name))
            for storage in self._may_be(one, own, number):
                self._require_own(one.name, storage)
                if id(storage) not in known:
                    known.add(id(storage))
                    self.lost.append(storage)
                    changed.add(-1)
        return -1 in changed

    def sources(self, one: Carried, carried: Mapping[Key, Carried], number: int) -> list[Storage]:
        """What a variable may be after the loop."""
        own = {id(c.inner): c for c in carried.values() if c.inner is not None}
        return self._may_be(one, own, number)

    def _may_be(self, one: Carried, own: Mapping[int, Carried], number: int) -> list[Storage]:
        """The arrays from outside that a variable is in some step."""
        found: list[Storage] = []
        seen: set[int] = set()
        while id(one) not in seen:
            seen.add(id(one))
            found += [one.entry] if one.entry is not None else []
            left = one.left
            if left is None:
                break
            if id(left) in own:
                one = own[id(left)]
            elif left.body != number:
                found.append(left)
        return found

    def _shared(self, name: str, other: str) -> TraceError:
        return TraceError(
            f"{self.where}: a step of the loop writes into {name!r}, which shares its memory with {other} in some "
            f"steps only; give each its own with .copy()"
        )

    def _require_own(self, name: str, storage: Storage) -> None:
        label = storage.argument or ("an inout argument" if storage.inout else "")
        if label:
            raise TraceError(
                f"{self.where}: a step of the loop writes into {name!r}, which is {label} in some steps only; start "
                f"from a copy ({name} = {name}.copy()), or keep to one array: {name}[...] = value"
            )


def _same(a: Storage | None, b: Storage | None) -> bool:
    return a is not None and a is b
