"""Loops and choices as their documentation says them, in plain Python: arrays that they carry are their own.

`note` of generated programs sees all branches of a choice: each runs, and the chosen one's result counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def own(value: Any) -> Any:
    """A tree with arrays of its own."""
    if isinstance(value, (tuple, list)):
        return type(value)(own(v) for v in value)
    if isinstance(value, dict):
        return {k: own(v) for k, v in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value


def kept(before: Any, after: Any) -> Any:
    """What a step returns, as arrays of its own of the types that they had."""
    if isinstance(before, (tuple, list)):
        return type(before)(kept(b, a) for b, a in zip(before, after, strict=True))
    if (np.asarray(before).dtype, np.shape(before)) != (np.asarray(after).dtype, np.shape(after)):
        raise TypeError("loops and choices keep types")
    return own(after)


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: Any) -> Any:
    return switch(int(bool(pred)), [false_fn, true_fn], *operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    results = [own(f(*own(operands))) for f in branches]
    for other in results[1:]:
        kept(results[0], other)
    return results[min(max(int(index), 0), len(branches) - 1)]


def while_loop(cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], init: Any) -> Any:
    carry = own(init)
    while cond_fn(carry):
        carry = kept(carry, body_fn(carry))
    return carry


def fori_loop(lower: Any, upper: Any, body_fn: Callable[[Any, Any], Any], init: Any) -> Any:
    carry = own(init)
    for i in range(int(lower), int(upper)):
        carry = kept(carry, body_fn(i, carry))
    return carry


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, length: Any = None, reverse: bool = False
) -> Any:
    carry, count = own(init), len(xs)
    rows = [None] * count
    for i in reversed(range(count)) if reverse else range(count):
        new, y = f(carry, own(xs[i]))
        rows[i] = own(y)
        carry = kept(carry, new)
    if not rows:
        raise ValueError("no step")
    if isinstance(rows[0], tuple):
        return carry, tuple(np.stack(column) for column in zip(*rows, strict=True))
    return carry, np.stack(rows)
