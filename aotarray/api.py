"""The driver: `jit`, `lower`, `build`. Each is a straight line through the layers."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import compiler
from .arrays import CPU, Array, CpuDevice
from .graph import Graph
from .runtime import _launcher
from .signature import Bound, Signature
from .trace.entry import SizeNamer, Traced, leaf_type, trace_function

get_num_threads = _launcher.get_num_threads
set_num_threads = _launcher.set_num_threads


@dataclass
class Stats:
    """What a compiled function has done so far."""

    traces: int = 0
    compilations: int = 0
    cache_hits: int = 0


@dataclass(frozen=True)
class Entry:
    """One compiled program of a function and how its result nests."""

    program: _launcher.Program
    traced: Traced


class JitFunction(_launcher.Dispatcher):
    """A function compiled for the types it is called with; made by `jit`."""

    def __init__(self, function: Callable[..., Any], static: Sequence[str] = ()) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._signature = Signature.of(function, static)
        self._entries: dict[Any, list[Entry]] = {}
        self._lock = threading.RLock()
        self._stats = Stats()

    def __repr__(self) -> str:
        return f"<aotarray.jit {self._signature.name}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def stats(self) -> Stats:
        """How often this function was traced and compiled, and how often the disk cache had it."""
        return self._stats

    def lower(self, *args: Any, **kwargs: Any) -> compiler.Lowered:
        """The function lowered for a spec string or example arguments, without running it."""
        return lower(self._function, *args, **kwargs)

    def _slow(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls that the launcher's fast path does not know: new types, keywords, nested arguments."""
        kwargs = dict(kwargs)
        out = kwargs.pop("out", None) if "out" not in self._signature.names else None
        bound = self._signature.bind(args, kwargs)
        entry = self._find(bound)
        results = entry.program.run(tuple(bound.leaves), _outs(out, entry))
        return entry.traced.result.rebuild(iter(results))

    def _find(self, bound: Bound) -> Entry:
        leaves = tuple(bound.leaves)
        with self._lock:
            for entry in self._entries.get(bound.key, ()):
                if entry.program.matches(leaves):
                    return entry
            entry = self._compile(bound)
            self._entries.setdefault(bound.key, []).append(entry)
            if bound.is_plain:
                kind = {"leaf": "single", "tuple": "tuple"}.get(entry.traced.result.kind)
                if kind and (kind == "single" or all(c.kind == "leaf" for c in entry.traced.result.children)):
                    self._add_entry(entry.program, kind)  # type: ignore[arg-type]
            return entry

    def _compile(self, bound: Bound) -> Entry:
        namer = SizeNamer()
        types = [leaf_type(v, n, namer) for v, n in zip(bound.leaves, bound.names, strict=True)]
        traced = trace_function(self._function, self._signature.name, types, bound.names, bound.rebuild, namer.hints)
        self._stats.traces += 1
        compiled = compiler.compile_graph(traced.graph)
        self._stats.cache_hits += compiled.from_cache
        self._stats.compilations += not compiled.from_cache
        return Entry(compiled.load(Array), traced)


def _outs(out: Any, entry: Entry) -> tuple[Any, ...] | None:
    if out is None:
        return None
    if isinstance(out, np.ndarray):
        return (out,)
    leaves: list[Any] = []
    from .trace.trees import flatten

    flatten(out, leaves)
    return tuple(leaves)


def jit(function: Callable[..., Any] | None = None, *, static_argnames: str | Iterable[str] = ()) -> Any:
    """Compile `function`, written with plain NumPy, for the types it is called with.

    The first call with new dtypes, ranks or static values traces and compiles it; a new size does not.
    Arguments are arrays, numbers, and tuples, lists, dicts, NamedTuples or dataclasses of them.
    `static_argnames` are parameters whose values are part of the program (they must be hashable).
    Results are ndarrays; `out=` takes an array, or a tuple of arrays, to write into.

    >>> import numpy as np
    >>> compute = jit(lambda x: np.sin(x) + np.cos(x))
    >>> compute(np.zeros(3))
    Array([1., 1., 1.])

    Raises TraceError (and its kinds) for what cannot be compiled, naming the line.
    """
    if function is None:
        return functools.partial(jit, static_argnames=static_argnames)
    static = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    return JitFunction(function, static)


def lower(function: Callable[..., Any], *args: Any, **kwargs: Any) -> compiler.Lowered:
    """`function` lowered for a spec (`"f64[n, m], f64[m]"`) or for example arguments.

    The result has `.graph`, `.fused`, `.source`, `.llvm_ir`, `.asm` as text and `.compile()`.
    """
    return compiler.Lowered(_traced(function, args, kwargs))


def trace(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Graph:
    """The graph of `function` for a spec or for example arguments, before any simplification."""
    return _traced(function, args, kwargs).graph


def _traced(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Traced:
    function = getattr(function, "_function", function)
    if len(args) == 1 and isinstance(args[0], str) and not kwargs:
        bound, types = Signature.of(function).bind_spec(args[0])
        return trace_function(function, bound.function_name, types, bound.names, bound.rebuild, None)
    bound = Signature.of(function).bind(args, kwargs)
    namer = SizeNamer()
    types = [leaf_type(v, n, namer) for v, n in zip(bound.leaves, bound.names, strict=True)]
    return trace_function(function, bound.function_name, types, bound.names, bound.rebuild, namer.hints)


def devices(kind: str = "") -> list[CpuDevice]:
    """The devices of this machine: all, or those of a kind ("cpu", "gpu", "tpu")."""
    return [CPU] if kind in ("", "cpu") else []


__all__ = ["Array", "devices", "inspect", "jit", "lower", "trace"]
