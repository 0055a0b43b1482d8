"""Loops outside of any trace: plain Python with the meaning that compiled ones have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import TraceError
from .context import here
from .trees import Structure, flatten, leaf_names


class _Carry:
    """What a loop carries: arrays of its own, whose types may not change."""

    def __init__(self, what: str, init: Any) -> None:
        self.what = what
        self.leaves: list[Any] = []
        self.structure = flatten(init, self.leaves)
        self.leaves = [_owned(v) for v in self.leaves]

    def value(self) -> Any:
        return self.structure.rebuild(iter(self.leaves))

    def step(self, value: Any) -> None:
        """Take what a body returned."""
        new: list[Any] = []
        if flatten(value, new) != self.structure:
            raise TraceError(f"{here()}: {self.what}: the body must return the carry nested as it came")
        for name, old, item in zip(leaf_names(self.structure, "carry"), self.leaves, new, strict=True):
            if isinstance(old, (bool, int, float, complex)) or isinstance(item, (bool, int, float, complex)):
                continue
            before, after = np.asarray(old), np.asarray(item)
            if (before.dtype, before.shape) != (after.dtype, after.shape):
                raise TraceError(
                    f"{here()}: {self.what}: {name} is {before.dtype} of shape {before.shape} before a step and "
                    f"{after.dtype} of shape {after.shape} after it; what a loop carries keeps its type"
                )
        self.leaves = self._apart(new)

    def _apart(self, new: list[Any]) -> list[Any]:
        """Each array with memory of its own: what was carried may stay, once; anything else may be seen elsewhere."""
        mine = {id(v) for v in self.leaves if isinstance(v, np.ndarray)}
        found = []
        for value in new:
            found.append(value if id(value) in mine else _owned(value))
            mine.discard(id(value))
        return found


def _owned(value: Any) -> Any:
    """An array's copy; anything else as it is."""
    return value.copy() if isinstance(value, np.ndarray) else value


def choose(function: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    """`function(*operands)`, which neither changes the operands nor returns memory that they or others have."""
    return _copied(function(*_copied(operands)))


def _copied(value: Any) -> Any:
    leaves: list[Any] = []
    return flatten(value, leaves).rebuild(iter([_owned(v) for v in leaves]))


def while_loop(cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], init: Any) -> Any:
    carry = _Carry("while_loop", init)
    while cond_fn(carry.value()):
        carry.step(body_fn(carry.value()))
    return carry.value()


def fori_loop(lower: Any, upper: Any, body_fn: Callable[[Any, Any], Any], init: Any) -> Any:
    carry = _Carry("fori_loop", init)
    for i in range(int(lower), int(upper)):
        carry.step(body_fn(i, carry.value()))
    return carry.value()


def scan(f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, length: Any, reverse: bool) -> tuple[Any, Any]:
    carry = _Carry("scan", init)
    leaves: list[Any] = []
    rows = flatten(xs, leaves)
    arrays = [np.asarray(v) for v in leaves]
    lengths = [a.shape[0] if a.ndim else -1 for a in arrays] + ([] if length is None else [int(length)])
    if not lengths or -1 in lengths or len(set(lengths)) > 1:
        raise ValueError(f"{here()}: scan goes along first axes of one length, or takes a length; not {lengths}")
    if lengths[0] == 0:
        return carry.value(), _nothing(f, carry, rows, arrays)
    found: list[list[Any]] = []
    structure = rows
    for i in reversed(range(lengths[0])) if reverse else range(lengths[0]):
        state, y = f(carry.value(), rows.rebuild(iter([_row(a, i) for a in arrays])))
        found.append([])
        structure = flatten(y, found[-1])
        found[-1] = [_owned(v) for v in found[-1]]
        carry.step(state)
    if reverse:
        found.reverse()
    return carry.value(), structure.rebuild(iter([np.stack(column) for column in zip(*found, strict=True)]))


def _row(array: np.ndarray, i: int) -> Any:
    """A row that may be written into without changing the array."""
    return array[i].copy() if array.ndim > 1 else array[i]


def _nothing(f: Callable[..., Any], carry: _Carry, rows: Structure, arrays: list[np.ndarray]) -> Any:
    """What no step stacks: empty arrays of the types that a step would give."""
    from ..interpret import interpret
    from .control import scan as traced_scan
    from .entry import SizeNamer, leaf_type, trace_function

    namer = SizeNamer()
    values = [*carry.leaves, *arrays]
    types = [leaf_type(v, "", namer) for v in values]

    def whole(state: Any, xs: Any) -> Any:
        return traced_scan(f, state, xs, None if arrays else 0)[1]

    def rebuild(leaves: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = iter(leaves)
        return (carry.structure.rebuild(given), rows.rebuild(given)), {}

    traced = trace_function(whole, "scan", types, [f"a{k}" for k in range(len(values))], rebuild, namer.hints)
    return traced.result.rebuild(iter(interpret(traced.graph, values)))
