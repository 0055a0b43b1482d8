"""Traces a whole function: arguments of given types in, a graph and the structure of its result out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import sizes
from ..errors import TraceError, UnsupportedError
from ..graph import Graph
from ..sizes import Dim
from ..types import ArrayType, is_supported
from . import functions as _functions  # fills the tables of rules
from . import promote
from .context import Trace, here, running
from .size_value import SizeValue
from .standins import standing_in
from .tracer import Storage, Tracer
from .trees import Structure, flatten

_WEAK = {bool: "b", int: "i", float: "f", complex: "c"}
_NAMES = ("n", "m", "k", "l", "p", "q", "r", "s")


@dataclass(frozen=True)
class Traced:
    """A traced function: its graph and how its results nest."""

    graph: Graph
    result: Structure


def trace_function(
    function: Callable[..., Any], name: str, types: Sequence[ArrayType], names: Sequence[str],
    rebuild: Callable[[Sequence[Any]], tuple[tuple[Any, ...], dict[str, Any]]], hints: Mapping[str, int] | None,
) -> Traced:  # fmt: skip
    """Call `function` once with tracers of `types`; `rebuild` nests the leaves as its arguments.

    `hints` are the values of the named sizes in the call that asked for the trace, or None ahead of time.
    """
    trace = Trace(name, hints)
    leaves = []
    for kind, label in zip(types, names, strict=True):
        node = trace.graph.input(kind, label)
        leaves.append(Tracer(trace, Storage(node, "" if kind.weak else label)))
    args, kwargs = rebuild(leaves)
    with running(trace), standing_in(function), np.errstate(all="ignore"):
        result = function(*args, **kwargs)
        found: list[Any] = []
        structure = flatten(result, found)
        trace.graph.outputs = [_output(trace, value) for value in found]
    return Traced(trace.graph, structure)


def _output(trace: Trace, value: Any) -> Any:
    if isinstance(value, (Tracer, SizeValue, bool, int, float, complex, np.generic, np.ndarray)):
        return promote.node_of(trace, value)
    raise TraceError(f"{here()}: {trace.graph.name} returns a {type(value).__name__}; return arrays, numbers, and tuples, lists or dicts of them")


def leaf_type(value: Any, name: str, namer: SizeNamer) -> ArrayType:
    """The type of an actual argument, with its sizes named."""
    weak = _WEAK.get(type(value))
    if weak is not None:
        return ArrayType(np.asarray(value).dtype if weak != "i" else np.dtype(np.int64), (), True)
    if not isinstance(value, (np.ndarray, np.generic)):
        if hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__"):
            value = np.asarray(value)
        else:
            raise TypeError(
                f"argument {name!r} is a {type(value).__name__}, which cannot be traced: pass an array or a number, "
                f"or name it in static_argnames"
            )
    if not is_supported(value.dtype):
        raise UnsupportedError(
            f"argument {name!r} has dtype {value.dtype}, which cannot be compiled; convert it to bool, an integer, "
            f"float16/32/64 or complex64/128"
        )
    if not value.dtype.isnative:
        raise UnsupportedError(
            f"argument {name!r} is byte-swapped ({value.dtype.str}); convert it with x.astype(x.dtype.newbyteorder('='))"
        )
    return ArrayType(value.dtype, tuple(namer.size(extent) for extent in value.shape))


class SizeNamer:
    """Names sizes of actual arguments: 1 stays 1, equal sizes get one name."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}

    def size(self, extent: int) -> Dim:
        if extent == 1:
            return 1
        if extent not in self.names:
            k = len(self.names)
            self.names[extent] = _NAMES[k] if k < len(_NAMES) else f"n{k}"
        return sizes.name(self.names[extent])

    @property
    def hints(self) -> dict[str, int]:
        return {name: extent for extent, name in self.names.items()}


__all__ = ["SizeNamer", "Traced", "leaf_type", "trace_function", "_functions"]
