"""The driver: `jit`, `lower`, `build`. Each is a straight line through the layers."""

from __future__ import annotations

import functools
import inspect
import pickle
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import compiler
from .aot.linking import find_compiler
from .building import build, export, exports, is_module_name
from .compile.cache import Cache
from .graph import Graph
from .recompilation import History, describe_instance
from .runtime import _launcher
from .runtime.arrays import Array
from .runtime.devices import checked, default_device, device_put, devices
from .signature import Bound, Signature, function_name, refuse_unwritable
from .trace.entry import SizeNamer, Traced, is_tracing, leaf_type, leaf_value, trace_function, write_results
from .trace.flow.source import with_control_flow
from .trace.trees import flatten, is_tree

get_num_threads = _launcher.get_num_threads
host_level = compiler.host_level
set_num_threads = _launcher.set_num_threads
trim_memory = _launcher.trim_memory
#: no call may use more
MOST_THREADS = 1024


@dataclass
class Stats:
    """What a compiled function has done so far."""

    #: how often the Python function ran with tracers
    traces: int = 0
    #: programs made, whether compiled here or found in the disk cache
    compilations: int = 0
    #: those of them that the disk cache had
    cache_hits: int = 0


@dataclass(frozen=True)
class Entry:
    """One compiled program of a function and how its result nests."""

    program: _launcher.Program
    traced: Traced


class JitFunction(_launcher.Dispatcher):
    """A function compiled for the types it is called with; made by `jit`."""

    def __init__(
        self,
        function: Callable[..., Any],
        static: Sequence[str] = (),
        inout: Sequence[str] = (),
        threads: int = 0,
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._threads = threads  # at most so many, if not 0
        self._signature = Signature.of(function, static, inout)
        self._entries: dict[Any, list[Entry]] = {}
        self._forms: dict[Any, list[Entry]] = {}  # the same lists, by a key that is quicker to make
        self._lock = threading.RLock()
        self._stats = Stats()
        if self._signature.is_simple:
            self._set_parameters(self._signature.names)
        self._methods: dict[int, JitFunction] = {}
        self._history = History(self._signature.name)
        self._instance = ""  # of the class whose method it is

    def __repr__(self) -> str:
        return f"<aotarray.jit {self._signature.name}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A compiled method. Containers of arrays are arguments; any other instance is static, by identity."""
        if instance is None:
            return self
        if is_tree(instance) or set(self._signature.names[:1]) & set(self._signature.static):
            return functools.partial(self, instance)
        with self._lock:
            found = self._methods.get(id(instance))
            if found is None:
                found = self._methods[id(instance)] = self._method_of(instance)
        return found

    def _method_of(self, instance: Any) -> JitFunction:
        """This function with `instance` as its first argument; it does not keep the instance alive."""
        function, methods, key = self._function, self._methods, id(instance)
        try:
            reference = weakref.ref(instance, lambda _: methods.pop(key, None))
        except TypeError:
            raise TypeError(
                f"{self._signature.name}(): a compiled method needs instances with weak references, which "
                f"{type(instance).__name__} lacks; add '__weakref__' to its __slots__"
            ) from None

        @functools.wraps(function)
        def method(*args: Any, **kwargs: Any) -> Any:
            return function(reference(), *args, **kwargs)

        signature = inspect.signature(function)
        method.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
        made = JitFunction(method, self._signature.static, self._signature.inout, self._threads)
        made._stats = self._stats
        made._history, made._instance = self._history, describe_instance(instance)
        return made

    def __reduce__(self) -> str:
        """Compiled functions are pickled by name, as functions are."""
        found: Any = sys.modules.get(self._function.__module__)
        name: str = getattr(self._function, "__qualname__", "<callable>")
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not self:
            raise pickle.PicklingError(
                f"{self!r} cannot be pickled: it is not {self._function.__module__}.{name}. Compile it under the name "
                f"of its function (@aotarray.jit), or pickle the function and compile it where it is loaded"
            )
        return name

    def __copy__(self) -> JitFunction:
        return self

    def __deepcopy__(self, memo: Any) -> JitFunction:
        return self

    def stats(self) -> Stats:
        """How often this function was traced and compiled, and how often the disk cache had it."""
        return self._stats

    def lower(self, *args: Any, **kwargs: Any) -> compiler.Lowered:
        """The function lowered for a spec string or example arguments, without running it."""
        return lower(self, *args, **kwargs)

    def _slow(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls that the launcher's fast path does not know: new types, keywords, nested arguments."""
        out = None
        if "out" in kwargs and "out" not in self._signature.names:
            kwargs = dict(kwargs)
            out = kwargs.pop("out")
        if is_tracing():
            return write_results(self._function(*args, **kwargs), out)
        leaves: list[Any] = []
        form = self._signature.form(args, kwargs, leaves)
        try:
            known = self._forms.get(form, ())
        except TypeError:  # a static argument without a hash: bind says so
            form, known = None, ()
        given = tuple(leaves)
        entry = next((e for e in known if e.program.matches(given)), None)
        if entry is None:
            bound = self._signature.bind(args, kwargs)
            refuse_unwritable(bound)
            bound.leaves[:] = [leaf_value(v, n) for v, n in zip(bound.leaves, bound.names, strict=True)]
            entry = self._find(bound)
            given = tuple(bound.leaves)
            if form is not None and bound.key in self._entries:
                self._forms[form] = self._entries[bound.key]
        results = entry.program.run(given, _outs(out, entry))
        return entry.traced.result.rebuild(iter(results))

    def _find(self, bound: Bound) -> Entry:
        leaves = tuple(bound.leaves)
        with self._lock:
            for entry in self._entries.get(bound.key, ()):
                if entry.program.matches(leaves):
                    return entry
            entry = self._compile(bound)
            if not entry.program.matches(
                leaves
            ):  # NumPy would refuse these sizes: running raises and says why
                return entry
            self._entries.setdefault(bound.key, []).append(entry)
            if bound.is_plain:
                kind = {"leaf": "single", "tuple": "tuple", "none": "none"}.get(entry.traced.result.kind)
                if kind and all(c.kind == "leaf" for c in entry.traced.result.children):
                    self._add_entry(entry.program, kind)  # type: ignore[arg-type]
            types = [n.type for n in entry.traced.graph.inputs]
            self._history.add(bound, types, entry.traced, self._instance)
            return entry

    def _compile(self, bound: Bound) -> Entry:
        namer = SizeNamer()
        types = [leaf_type(v, n, namer) for v, n in zip(bound.leaves, bound.names, strict=True)]
        traced = trace_function(
            self._function, self._signature.name, types, bound.names, bound.rebuild, namer.hints, bound.inout
        )
        self._stats.traces += 1
        compiled = compiler.compile_graph(traced.graph)
        self._stats.cache_hits += compiled.from_cache
        self._stats.compilations += 1
        return Entry(compiled.load(Array, self._threads), traced)


def _outs(out: Any, entry: Entry) -> tuple[Any, ...] | None:
    if out is None:
        return None
    if isinstance(out, np.ndarray):
        return (out,)
    leaves: list[Any] = []
    flatten(out, leaves)
    return tuple(leaves)


def jit(
    function: Callable[..., Any] | None = None, *, static_argnames: str | Iterable[str] = (),
    inout: str | Iterable[str] = (), device: Any = None, threads: int | None = None,
    control_flow: str | None = None,
) -> Any:  # fmt: skip
    """Compile `function`, written with plain NumPy, for the types it is called with.

    The first call with new dtypes, ranks or static values traces and compiles it; a new size does not.
    Arguments are arrays, numbers, and tuples, lists, dicts, NamedTuples or dataclasses of them.
    `device` is one of `devices()`. `static_argnames` are parameters whose values are part of the program:
    they must be hashable. `inout` are parameters, arrays or containers of arrays, that the function writes into:
    the caller's arrays then have the new contents. They must be writable and share no memory with other arguments.
    Arrays from outside the function, and the attributes of a method's instance, are copied into the program at
    the first call. `threads` is the largest number of threads that a call may use, if that is less than
    `get_num_threads()`; what runs in NumPy itself keeps to NumPy's own.
    Results are ndarrays; `out=` takes an array, or a tuple of arrays, to write into.
    `control_flow="python"` compiles the `for`, `while` and `if` of the function's source, and of the functions that it
    calls, where traced values steer them: docs/control_flow.md.

    >>> import numpy as np
    >>> compute = jit(lambda x: np.sin(x) + np.cos(x))
    >>> compute(np.zeros(3))
    Array([1., 1., 1.])

    Raises TraceError (and its kinds) for what cannot be compiled, naming the line.
    """
    if device is not None:
        checked(device)
    if function is None:
        return functools.partial(
            jit, static_argnames=static_argnames, inout=inout, device=device, threads=threads,
            control_flow=control_flow,
        )  # fmt: skip
    if not callable(function):
        raise TypeError(f"jit takes a function, not a value of type {type(function).__name__}")
    static = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    written = (inout,) if isinstance(inout, str) else tuple(inout)
    if control_flow is not None:
        function = getattr(function, "_function", function)
    traced = with_control_flow(function, control_flow)
    return JitFunction(traced, static, written, 0 if threads is None else _checked_threads(threads))


def _checked_threads(threads: Any) -> int:
    if not isinstance(threads, (int, np.integer)) or isinstance(threads, bool):
        raise TypeError(f"threads must be a number of threads or None, not a value of type {type(threads).__name__}")
    if not 1 <= threads <= MOST_THREADS:
        raise ValueError(f"threads must be between 1 and {MOST_THREADS}, or None, not {threads}")
    return int(threads)


def lower(function: Callable[..., Any], *args: Any, **kwargs: Any) -> compiler.Lowered:
    """`function` lowered for a spec (`"f64[n, m], f64[m]"`) or for example arguments.

    The result has `.graph`, `.fused`, `.source`, `.llvm_ir`, `.asm` as text and `.compile()`.
    """
    return compiler.Lowered(_traced(function, args, kwargs))


def trace(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Graph:
    """The graph of `function` for a spec or for example arguments, before any simplification."""
    return _traced(function, args, kwargs).graph


def _traced(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Traced:
    signature = Signature.of(function)
    if isinstance(function, JitFunction):
        signature, function = function._signature, function._function
    if len(args) == 1 and isinstance(args[0], str) and not kwargs:
        bound, types = signature.bind_spec(args[0])
        return trace_function(
            function, bound.function_name, types, bound.names, bound.rebuild, None, bound.inout
        )
    bound = signature.bind(args, kwargs)
    refuse_unwritable(bound)
    namer = SizeNamer()
    types = [leaf_type(v, n, namer) for v, n in zip(bound.leaves, bound.names, strict=True)]
    return trace_function(
        function, bound.function_name, types, bound.names, bound.rebuild, namer.hints, bound.inout
    )


def cache() -> Cache:
    """The disk cache of compiled programs."""
    return compiler.cache()


__all__ = [
    "Array", "build", "cache", "default_device", "device_put", "devices", "export", "exports", "find_compiler",
    "function_name", "get_num_threads", "host_level", "is_module_name", "jit", "lower", "set_num_threads",
    "trace", "trim_memory",
]  # fmt: skip
