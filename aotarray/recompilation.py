"""Notices a function that is compiled again and again, and says what in its arguments differs each time."""

from __future__ import annotations

import collections
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import RecompileWarning
from .signature import Bound
from .trace.context import here
from .trace.entry import Traced
from .trace.trees import Structure, leaf_names
from .types import ArrayType

#: so many programs of one function are no reason to worry; a warning comes then, and whenever they have doubled
MANY = 8
#: how many of the last programs a warning compares
COMPARED = 8
#: values shown of one thing that differs
_SHOWN = 4

#: what may differ, and what to do about it
_ADVICE = {
    "instance": "each instance of a class has programs of its own; keep one, or make the class a dataclass of arrays",
    "static": "a static value is part of the program; leave it out of static_argnames where no Python value is needed",
    "nesting": "each nesting has a program of its own; pass an array in place of a list whose length changes",
    "type": "each dtype has a program of its own; convert before the call, with np.asarray(v, dtype) or float(v)",
    "rank": "each number of axes has a program of its own; give the arrays the same with reshape",
    "size": "a size needed as a Python int is part of the program; use aotarray.fori_loop, scan or array operations",
    "condition": "each outcome of a condition on sizes has a program of its own; use np.where or aotarray.cond",
    "pattern": "sizes that are 1, or equal, have programs of their own; nothing is to be done where few patterns occur",
}

_TITLES = {"rank": "number of axes of ", "nesting": "nesting of ", "type": "type of "}

#: (what it is, of what) -> its value as text
Facts = dict[tuple[str, str], str]


class History:
    """What the last programs of a function, and of its methods' instances, were compiled for."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self._last: collections.deque[Facts] = collections.deque(maxlen=COMPARED)
        self._next = MANY

    def add(self, bound: Bound, types: Sequence[ArrayType], traced: Traced, instance: str) -> None:
        """Note one more program. RecompileWarning when there are many."""
        self._last.append(_facts(bound, types, traced, instance))
        self.count += 1
        if self.count < self._next:
            return
        self._next *= 2
        where = here()
        lines = [
            f"{where}: {self.name}() has been compiled {self.count} times; the last {len(self._last)} differ in",
            *(_differences(self._last) or ["relations of sizes"]),
        ]
        message = "\n  ".join(lines)
        warnings.warn_explicit(message, RecompileWarning, where.file, where.line)


def _facts(bound: Bound, types: Sequence[ArrayType], traced: Traced, instance: str) -> Facts:
    facts: Facts = {}
    if instance:
        facts["instance", "self"] = instance
    for name, value in bound.statics:
        facts["static", f"static argument {name!r}"] = _short(repr(value))
    labels = [label for name, structure in bound.parameters for label in leaf_names(structure, name)]
    for name, structure in bound.parameters:
        facts["nesting", f"argument {name!r}"] = _nesting(structure)
    for label, kind in zip(labels, types, strict=True):
        python = {"b": "bool", "i": "int", "f": "float", "c": "complex"}
        facts["type", f"argument {label!r}"] = (
            f"a Python {python[kind.dtype.kind]}" if kind.weak else kind.dtype.name
        )
        facts["rank", f"argument {label!r}"] = str(len(kind.shape))
    shapes = (
        f"{label}[{', '.join(map(str, kind.shape))}]"
        for label, kind in zip(labels, types, strict=True)
        if kind.shape
    )
    facts["pattern", "sizes"] = " ".join(shapes)
    for fact in traced.decisions:
        subject = f"{_with_origins(fact.what, labels, types)} ({fact.where})"
        facts[fact.kind, subject] = str(fact.value)
    return facts


def _with_origins(text: str, labels: Sequence[str], types: Sequence[ArrayType]) -> str:
    """A text about sizes, which says where the names in it are from."""
    found: dict[str, str] = {}
    for label, kind in zip(labels, types, strict=True):
        for axis, dim in enumerate(kind.shape):
            found.setdefault(str(dim), f"{label}.shape[{axis}]")
    return " ".join(found.get(word, word) for word in text.split(" "))


def _nesting(structure: Structure) -> str:
    """How a value nests, in short: `a list of 3 items`."""
    if structure.kind in ("leaf", "none"):
        return "None" if structure.kind == "none" else "one value"
    if structure.kind == "dict":
        return _short("a dict with keys " + ", ".join(map(repr, structure.key)))
    if structure.kind == "object":
        return f"{structure.key[0].__name__} of {structure.count()} values"
    items = f"{len(structure.children)} item{'s' if len(structure.children) != 1 else ''}"
    inner = f" with {structure.count()} values" if structure.count() != len(structure.children) else ""
    return f"a {structure.kind} of {items}{inner}"


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def _differences(last: Sequence[Mapping[tuple[str, str], str]]) -> list[str]:
    """A line for each thing that differs, and after each kind of thing what to do about it."""
    subjects = list(dict.fromkeys(key for facts in last for key in facts))
    lines: list[str] = []
    explained: set[str] = set()
    for aspect, advice in _ADVICE.items():
        if aspect == "pattern" and explained & {"nesting", "rank"}:
            continue
        found = []
        for key in subjects:
            values = list(dict.fromkeys(facts[key] for facts in last if key in facts))
            if key[0] == aspect and len(values) > 1:
                more = "; ..." if len(values) > _SHOWN else ""
                found.append(f"{_TITLES.get(aspect, '')}{key[1]}: {'; '.join(values[:_SHOWN])}{more}")
        if found:
            explained.add(aspect)
            lines += [*found, f"  {advice}"]
    return lines


def describe_instance(instance: Any) -> str:
    """An instance for messages, told apart from others."""
    return f"{type(instance).__name__} at {id(instance):#x}"


__all__ = ["COMPARED", "MANY", "History", "describe_instance"]
