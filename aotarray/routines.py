"""Calls of NumPy routines: which one, with which arguments, and what becomes of its results.

Arguments are trees of tagged tuples, in which equal means identical (`True` is not 1, and -0.0 is not 0.0):

    ("operand", k)  an operand of the node      ("result", k)  the array of a result, to be written into
    ("size", size)  a size, as an int           ("none",)      None
    ("bool", b)     ("int", i)     ("str", s)   ("float", s)   a float by its hexadecimal text
    ("all",)        slice(None)                 ("tuple", items)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

#: a tagged tuple, as above
Value = tuple[Any, ...]


class Routine(NamedTuple):
    """One call of the NumPy callable `name` ("linalg.solve", "ndarray.sort", "add.at").

    Before it is made, result 0 becomes a copy of operand `base`, unless that is -1. `returns` says what the
    callable's own result is: the one result, a tuple of several, or nothing where it wrote into a result.
    """

    name: str
    args: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...] = ()
    base: int = -1
    returns: Literal["nothing", "one", "several"] = "one"

    def values(self) -> Iterator[Value]:
        """All arguments, and what is inside tuples."""
        stack = [*self.args, *(value for _, value in self.keywords)]
        while stack:
            value = stack.pop()
            yield value
            if value[0] == "tuple":
                stack.extend(value[1])

    def with_sizes(self, number: Callable[[Any], Any]) -> Routine:
        """The same with each size replaced by what `number` says."""
        args = tuple(_with_sizes(value, number) for value in self.args)
        return self._replace(
            args=args, keywords=tuple((name, _with_sizes(value, number)) for name, value in self.keywords)
        )

    def call(
        self, operands: Sequence[Any], results: Sequence[Any], size: Callable[[Any], int]
    ) -> tuple[Any, ...]:
        """What the callable gives for these arrays, as a tuple of results."""
        args = [_built(value, operands, results, size) for value in self.args]
        keywords = {name: _built(value, operands, results, size) for name, value in self.keywords}
        found = callable_of(self.name)(*args, **keywords)
        return (found,) if self.returns == "one" else tuple(found) if self.returns == "several" else ()

    def __str__(self) -> str:
        """As a call, with `%0` for operands and `out0` for results; a changed copy is written as such."""
        shown = [_text(value) for value in self.args] + [
            f"{name}={_text(value)}" for name, value in self.keywords
        ]
        text = f"{self.name}({', '.join(shown)})"
        return text if self.base < 0 else text.replace("out0", f"copy(%{self.base})", 1)


def value_of(given: Any) -> Value:
    """A plain Python value as an argument; tuples that start with a tag are arguments already."""
    if given is None:
        return ("none",)
    if isinstance(given, (bool, np.bool_)):
        return ("bool", bool(given))
    if isinstance(given, (int, np.integer)):
        return ("int", int(given))
    if isinstance(given, (float, np.floating)):
        return ("float", float(given).hex())
    if isinstance(given, str):
        return ("str", given)
    if isinstance(given, tuple) and given and given[0] in _TAGS:
        return given
    if isinstance(given, (tuple, list)):
        return ("tuple", tuple(value_of(item) for item in given))
    raise TypeError(f"{given!r} is no argument of a routine")


_TAGS = ("operand", "result", "size", "none", "bool", "int", "str", "float", "all", "tuple")


def callable_of(name: str) -> Any:
    """NumPy's callable of a dotted name."""
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _with_sizes(value: Value, number: Callable[[Any], Any]) -> Value:
    if value[0] == "size":
        return ("size", number(value[1]))
    return ("tuple", tuple(_with_sizes(v, number) for v in value[1])) if value[0] == "tuple" else value


def _built(value: Value, operands: Sequence[Any], results: Sequence[Any], size: Callable[[Any], int]) -> Any:
    match value:
        case ("operand", k):
            return operands[k]
        case ("result", k):
            return results[k]
        case ("size", dim):
            return size(dim)
        case ("none",):
            return None
        case ("all",):
            return slice(None)
        case ("float", text):
            return float.fromhex(text)
        case ("tuple", items):
            return tuple(_built(item, operands, results, size) for item in items)
    return value[1]


def _text(value: Value) -> str:
    match value:
        case ("operand", k):
            return f"%{k}"
        case ("result", k):
            return f"out{k}"
        case ("none",):
            return "None"
        case ("all",):
            return ":"
        case ("float", text):
            return repr(float.fromhex(text))
        case ("tuple", items):
            return "(" + ", ".join(map(_text, items)) + ("," if len(items) == 1 else "") + ")"
        case ("str", text):
            return repr(text)
    return str(value[1])
