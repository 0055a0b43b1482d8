"""Calls of NumPy routines on whole arrays, recorded as `call` nodes: what the rules in `functions/` use."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..graph import Node
from ..routines import Routine, Value, value_of
from ..sizes import Dim, Size
from ..types import ArrayType
from . import promote
from .context import Trace, here
from .size_value import SizeValue, as_dim
from .tracer import Tracer

#: in arguments: the array of result 0, which the routine writes into
OUT: Any = object()

#: (dtype, shape) of one result
Result = tuple[Any, tuple[Dim, ...]]


def call(
    trace: Trace,
    name: str,
    args: Sequence[Any],
    keywords: Mapping[str, Any] | None = None,
    *,
    results: Sequence[Result],
    base: Tracer | None = None,
    several: bool = False,
) -> list[Tracer]:
    """The results of NumPy's `name(*args, **keywords)`: traced arrays, sizes and plain values are arguments.

    With `base`, result 0 is a copy of it that the routine changes in place (`OUT` among the arguments).
    Keywords that are None are left out.
    """
    operands: list[Node] = []

    def operand(value: Any) -> int:
        node = promote.node_of(trace, value)
        node = promote.cast(trace, node, node.dtype) if node.type.weak else node
        if node not in operands:
            operands.append(node)
        return operands.index(node)

    def argument(value: Any) -> Value:
        if value is OUT:
            return ("result", 0)
        if type(value) in (Tracer, np.ndarray, complex):
            return ("operand", operand(value))
        if type(value) is SizeValue:
            return ("size", as_dim(value))
        if type(value) is Size:
            return ("size", value)
        if type(value) is slice:
            return ("all",)
        if type(value) in (list, tuple):
            return ("tuple", tuple(map(argument, value)))
        if isinstance(value, np.generic) and value.dtype.kind not in "biu":
            return ("operand", operand(value))
        return value_of(value)

    at = -1 if base is None else operand(base)
    given = tuple(map(argument, args))
    named = tuple((k, argument(v)) for k, v in sorted((keywords or {}).items()) if v is not None)
    routine = Routine(
        name, given, named, at, "nothing" if base is not None else "several" if several else "one"
    )
    return [
        Tracer.of(
            trace,
            trace.graph.apply(
                "call", operands, here(), ArrayType(np.dtype(dtype), tuple(shape)), routine=routine, result=k
            ),
        )
        for k, (dtype, shape) in enumerate(results)
    ]


def change(base: Tracer, name: str, args: Sequence[Any], keywords: Mapping[str, Any] | None = None) -> Tracer:
    """A copy of `base` that NumPy's `name` has changed in place; it is `OUT` among the arguments."""
    node = base.node
    return call(base._trace, name, args, keywords, results=[(node.dtype, node.shape)], base=base)[0]


def example(value: Any) -> Any:
    """A small array with the dtype and rank of a traced one; anything else as it is."""
    if type(value) is Tracer:
        return np.broadcast_to(np.eye(2, dtype=value.dtype), (2,) * value.ndim).copy() if value.ndim > 1 else (
            np.arange(2)[(slice(None),) if value.ndim else 1].astype(value.dtype)
        )  # fmt: skip
    if type(value) is SizeValue:
        return 2
    return type(value)(map(example, value)) if type(value) in (list, tuple) else value


def probe(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """What NumPy gives for small arrays like the arguments: for its dtypes, and for its errors."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*map(example, args), **{k: example(v) for k, v in keywords.items()})
    except (TypeError, ValueError, IndexError) as error:
        if type(error) in (TypeError, ValueError, np.linalg.LinAlgError):
            raise type(error)(f"{here()}: {error}") from None
        raise


__all__ = ["OUT", "call", "change", "example", "probe"]
