"""Traces a whole function: arguments of given types in, a graph and the structure of its result out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import sizes
from ..errors import ConcretizationError, TraceError, UnsupportedError
from ..graph import Graph, SourceLine
from ..sizes import Dim
from ..types import ArrayType, is_supported
from . import functions as _functions  # fills the tables of rules
from . import promote
from .bodies import refuse_leaks
from .context import Decision, Trace, active, here, running
from .finding import drop_measured_inside
from .masked import Masked
from .size_value import SizeValue
from .standins import plain_function, standing_in
from .tracer import Storage, Tracer
from .trees import Structure, flatten

_WEAK = (bool, int, float, complex)
_NAMES = ("n", "m", "k", "l", "p", "q", "r", "s")


@dataclass(frozen=True)
class Traced:
    """A traced function: its graph, how its results nest, and what of sizes it took for granted."""

    graph: Graph
    result: Structure
    decisions: tuple[Decision, ...] = ()


def trace_function(
    function: Callable[..., Any], name: str, types: Sequence[ArrayType], names: Sequence[str],
    rebuild: Callable[[Sequence[Any]], tuple[tuple[Any, ...], dict[str, Any]]],
    hints: Mapping[str, int] | None, inout: frozenset[int] = frozenset(),
) -> Traced:  # fmt: skip
    """Call `function` once with tracers of `types`; `rebuild` nests the leaves as its arguments.

    `hints` are the values of the named sizes in the call that asked for the trace, or None ahead of time.
    `inout` are the leaves that the function may write into.
    """
    trace = Trace(name, hints)
    trace.graph.hints = dict(hints or {})
    trace.graph.inout = inout
    leaves = []
    for k, (kind, label) in enumerate(zip(types, names, strict=True)):
        node = trace.graph.input(kind, label)
        leaves.append(
            Tracer(
                trace,
                Storage(
                    node, "" if kind.weak or k in inout else label, inout=k in inout, scalar=kind.weak
                ),
            )
        )
    args, kwargs = rebuild(leaves)
    given: list[Any] = []
    flatten((args, kwargs), given)
    with running(trace), standing_in(function), np.errstate(all="ignore"):
        try:
            result = function(*args, **kwargs)
        except ValueError as error:
            if isinstance(
                error.__cause__, ConcretizationError
            ):  # NumPy puts its own words for a failed conversion
                raise error.__cause__ from None
            raise
        found: list[Any] = []
        structure = flatten(result, found)
        trace.graph.outputs = [_output(trace, value, function) for value in found]
        _refuse_replaced(trace, given, (args, kwargs), leaves, function)
        _note_written(trace.graph, found, leaves)
        refuse_leaks(trace, trace.graph.results)
        drop_measured_inside(trace.graph)
    return Traced(trace.graph, structure, tuple(trace.decisions))


def _note_written(graph: Graph, found: Sequence[Any], leaves: Sequence[Tracer]) -> None:
    """Say which outputs are inout arguments themselves, and add the values of those that are not returned."""
    for k in sorted(graph.inout):
        storage, node = leaves[k]._storage, leaves[k].node
        returned = [
            position
            for position, value in enumerate(found)
            if type(value) is Tracer and value._storage is storage and not value._lenses
        ]
        graph.written.update(dict.fromkeys(returned, k))
        if not returned and node is not graph.inputs[k]:
            graph.written[len(graph.outputs)] = k
            graph.outputs.append(node)
            graph.hidden += 1


def _refuse_replaced(
    trace: Trace,
    before: Sequence[Any],
    arguments: Any,
    leaves: Sequence[Tracer],
    function: Callable[..., Any],
) -> None:
    """TraceError when an inout container holds another array than it was given."""
    after: list[Any] = []
    flatten(arguments, after)
    for k in sorted(trace.graph.inout):
        place = next(p for p, value in enumerate(before) if value is leaves[k])
        if place >= len(after) or after[place] is not leaves[k]:
            name = trace.graph.input_names[k]
            raise TraceError(
                f"{_origin(function)}: {trace.graph.name}() puts another array in the place of {name}, an inout "
                f"argument: the caller's container is not changed. Write into the array instead: {name}[...] = value"
            )


def is_tracing() -> bool:
    """True in a thread that is tracing: compiled functions called there become part of the trace."""
    return active() is not None


def write_results(result: Any, out: Any) -> Any:
    """What a compiled function called while tracing does with `out=`."""
    if out is None:
        return result
    results: list[Any] = []
    outs: list[Any] = []
    flatten(result, results)
    flatten(out, outs)
    if len(results) != len(outs):
        raise ValueError(f"{here()}: out= has {len(outs)} arrays for {len(results)} results")
    for value, array in zip(results, outs, strict=True):
        array[...] = value
    return out


def _output(trace: Trace, value: Any, function: Callable[..., Any]) -> Any:
    if isinstance(value, (Tracer, Masked, SizeValue, bool, int, float, complex, np.generic, np.ndarray)):
        return promote.node_of(trace, value)
    if inspect.iscoroutine(value):
        value.close()
    raise TraceError(
        f"{_origin(function)}: {trace.graph.name}() returns a value of type {type(value).__name__}; return "
        f"arrays, numbers, "
        f"and tuples, lists, dicts, NamedTuples or dataclasses of them"
    )


def _origin(function: Callable[..., Any]) -> SourceLine:
    """Where a function is defined."""
    code = getattr(plain_function(function), "__code__", None)
    return here() if code is None else SourceLine(code.co_filename, code.co_firstlineno, code.co_name)


def leaf_value(value: Any, name: str) -> Any:
    """An actual argument as what programs take: an array, a NumPy scalar or a Python number."""
    kind = type(value)
    if kind is np.ndarray:
        return value
    if kind in _WEAK:
        if kind is int and not -(2**63) <= value < 2**63:
            raise OverflowError(
                f"{here()}: argument {name!r} is a Python int beyond 64 bits ({value}); pass it as a float "
                f"or np.uint64, "
                f"or name it in static_argnames"
            )
        return value
    if isinstance(value, (np.ma.MaskedArray, np.matrix)):
        way = "its .data and .mask" if isinstance(value, np.ma.MaskedArray) else "np.asarray(it)"
        raise UnsupportedError(
            f"{here()}: argument {name!r} is a {kind.__name__}, which cannot be compiled; pass {way}"
        )
    if isinstance(value, (np.ndarray, np.generic)):
        return value
    if hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__"):
        return np.asarray(value)
    raise TypeError(
        f"{here()}: argument {name!r} is of type {kind.__name__}, which cannot be traced; pass an array or "
        f"a number, "
        f"or name it in static_argnames"
    )


def leaf_type(value: Any, name: str, namer: SizeNamer) -> ArrayType:
    """The type of an actual argument, with its sizes named."""
    value = leaf_value(value, name)
    if type(value) in _WEAK:
        return ArrayType(np.asarray(value).dtype if type(value) is not int else np.dtype(np.int64), (), True)
    if not is_supported(value.dtype):
        raise UnsupportedError(
            f"{here()}: argument {name!r} has dtype {value.dtype}, which cannot be compiled; convert it to "
            f"bool, an "
            f"integer, float16/32/64 or complex64/128"
        )
    if not value.dtype.isnative:
        raise UnsupportedError(
            f"{here()}: argument {name!r} is byte-swapped ({value.dtype.str}); convert it with "
            f"{name}.astype({name}.dtype.newbyteorder('='))"
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


__all__ = [
    "SizeNamer",
    "Traced",
    "_functions",
    "is_tracing",
    "leaf_type",
    "leaf_value",
    "trace_function",
    "write_results",
]
