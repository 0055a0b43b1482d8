"""What a `for` goes along: ranges to traced ends, rows of traced arrays, and `zip`, `enumerate`, `reversed` of them."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ... import sizes
from ...errors import TraceError
from ...graph import Node
from .. import promote
from ..context import Trace, here
from ..size_value import SizeValue, as_dim, wrap
from ..tracer import Tracer
from .values import node_or_none


@dataclass(frozen=True)
class Range:
    """`range(start, stop, step)` with a bound that is traced or a size."""

    start: Any
    stop: Any
    step: int

    def __iter__(self) -> Iterator[int]:
        return iter(range(int(self.start), int(self.stop), self.step))


@dataclass(frozen=True)
class Zip:
    """`zip(*parts)`."""

    parts: tuple[Any, ...]

    def __iter__(self) -> Iterator[Any]:
        return iter(builtins.zip(*self.parts, strict=False))


@dataclass(frozen=True)
class Enumerate:
    """`enumerate(part, start)`."""

    part: Any
    start: Any = 0

    def __iter__(self) -> Iterator[Any]:
        return iter(builtins.enumerate(self.part, self.start))


@dataclass(frozen=True)
class Reversed:
    """`reversed(part)`."""

    part: Any

    def __iter__(self) -> Iterator[Any]:
        return iter(reversed(list(self.part)))


def make_range(*bounds: Any) -> Any:
    """What `range` gives in the head of a `for`."""
    if not any(promote.is_traced(b) for b in bounds):
        return range(*bounds)
    if not 1 <= len(bounds) <= 3:
        return range(*bounds)
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1) if len(bounds) == 2 else bounds
    for bound in (start, stop):
        node = node_or_none(bound._trace, bound) if promote.is_traced(bound) else None
        if node is not None and (node.shape or node.dtype.kind not in "iu"):
            raise TypeError(f"{here()}: range() goes to integers, not to a value of type {node.type}")
    return Range(start, stop, int(step))


#: by NumPy's and Python's own functions: what stands in for them in the head of a `for`
ALONG: dict[Any, Callable[..., Any]] = {
    builtins.range: make_range,
    builtins.zip: lambda *parts, strict=False: Zip(parts),
    builtins.enumerate: Enumerate,
    builtins.reversed: Reversed,
}


def length(trace: Trace, over: Any) -> Any:
    """How many items there are: an int, a size, or a traced int; None where only Python can tell."""
    if type(over) is Tracer:
        if not over.ndim:
            raise TypeError(f"{here()}: iteration over a 0-d array")
        return wrap(over.node.shape[0], trace)
    if type(over) is Range:
        span = over.stop - over.start if over.step > 0 else over.start - over.stop
        size = abs(over.step)
        if size != 1:
            span = (span + (size - 1)) // size
        dim = None if getattr(span, "_is_tracer", False) else as_dim(span)
        return span if dim is None else wrap(sizes.maximum(dim, 0), trace)
    if type(over) is Zip:
        return _shortest(trace, [length(trace, p) for p in over.parts])
    if type(over) in (Enumerate, Reversed):
        return length(trace, over.part)
    try:
        return len(over)
    except TypeError:
        return None


def _shortest(trace: Trace, counts: list[Any]) -> Any:
    if any(c is None for c in counts) or not counts:
        return None
    least = counts[0]
    for count in counts[1:]:
        a, b = as_dim(least) if not _traced(least) else None, as_dim(count) if not _traced(count) else None
        if a is not None and b is not None:
            least = wrap(sizes.minimum(a, b), trace)
        else:
            nodes = [promote.cast(trace, promote.node_of(trace, c), promote.INT64) for c in (least, count)]
            least = Tracer.of(trace, trace.graph.apply("minimum", nodes, here()))
    return least


def _traced(value: Any) -> bool:
    return bool(getattr(value, "_is_tracer", False))


def is_open(over: Any) -> bool:
    """True where a traced value or a size decides how many items there are, or what they are."""
    if type(over) in (Tracer, Range):
        return True
    if type(over) is Zip:
        return any(is_open(p) for p in over.parts)
    return type(over) in (Enumerate, Reversed) and is_open(over.part)


def item(trace: Trace, over: Any, k: Any, count: Any) -> Any:
    """Item `k`, a traced int, of `count`."""
    if type(over) is Range:
        return (
            over.start + k * over.step
            if over.step != 1
            else k + over.start
            if not _is_zero(over.start)
            else k
        )
    if type(over) is range:
        return k * over.step + over.start if over.step != 1 or over.start else k
    if type(over) is Zip:
        return tuple(item(trace, p, k, count) for p in over.parts)
    if type(over) is Enumerate:
        return (k if _is_zero(over.start) else k + over.start), item(trace, over.part, k, count)
    if type(over) is Reversed:
        return item(trace, over.part, count - 1 - k, count)
    if type(over) is Tracer:
        return over[k]
    found = looked_up(trace, over, k)
    if found is None:
        raise TraceError(
            f"{here()}: a loop that values steer goes along a {type(over).__name__}, whose items are Python values; go "
            f"along an array or a range"
        )
    return found


def _is_zero(value: Any) -> bool:
    return type(value) is int and value == 0


def looked_up(trace: Trace, sequence: Any, k: Tracer) -> Tracer | None:
    """`sequence[k]` of a list or tuple of numbers or arrays of one type, else None."""
    import numpy as np

    if isinstance(sequence, np.ndarray):
        return Tracer.of(trace, promote.node_of(trace, sequence))[k]  # type: ignore[no-any-return]
    if type(sequence) not in (list, tuple) or not sequence:
        return None
    nodes: list[Node | None] = [node_or_none(trace, v) for v in sequence]
    if any(n is None for n in nodes) or len({(n.type) for n in nodes if n is not None}) > 1:
        return None
    table = Tracer.of(trace, promote.node_of(trace, [Tracer.of(trace, n) for n in nodes if n is not None]))
    found: Tracer = table[k]
    first = nodes[0]
    assert first is not None
    return (
        Tracer.of(trace, promote.weakened(trace, found.node)) if first.type.weak and not found.ndim else found
    )


__all__ = ["ALONG", "SizeValue", "is_open", "item", "length", "looked_up"]
