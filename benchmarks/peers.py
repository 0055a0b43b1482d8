"""The libraries that the same work is timed with. Each is optional; one that is absent says why.

A peer prepares a call without arguments whose result NumPy can read. What a peer needs to own its inputs
(device arrays, tensors) is made outside the timing; its outputs are allocated inside, as it does for users.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.metadata
import inspect
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from workloads import Workload, load_file

Call = Callable[[], Any]


class NotWritten(Exception):
    """This peer has no version of this workload."""


class Peer:
    """One library. Making one imports it and sets its thread count; ImportError: it is not installed."""

    name: str
    package: str

    def __init__(self, threads: int) -> None:
        self.version = importlib.metadata.version(self.package)

    def prepare(self, workload: Workload, args: tuple[Any, ...]) -> Call:
        """A call that does the work once and waits for it. Raises NotWritten, or what the library raises."""
        raise NotImplementedError


class NumPy(Peer):
    name = package = "numpy"

    def prepare(self, workload: Workload, args: tuple[Any, ...]) -> Call:
        return functools.partial(workload.function, *args)


class AotArray(Peer):
    name = package = "aotarray"

    def __init__(self, threads: int) -> None:
        import aotarray

        aotarray.set_num_threads(threads)
        self.jit = aotarray.jit
        self.version = aotarray.__version__

    def prepare(self, workload: Workload, args: tuple[Any, ...]) -> Call:
        return functools.partial(self.jit(workload.function), *args)


class NumExpr(Peer):
    name = package = "numexpr"

    def __init__(self, threads: int) -> None:
        import numexpr

        super().__init__(threads)
        numexpr.set_num_threads(threads)
        self.evaluate = numexpr.evaluate

    def prepare(self, workload: Workload, args: tuple[Any, ...]) -> Call:
        if workload.numexpr is None:
            raise NotWritten("no numexpr expression")
        names = inspect.signature(workload.function).parameters
        local = dict(zip(names, args, strict=True))
        return functools.partial(self.evaluate, workload.numexpr, local_dict=local, global_dict={})


class Numba(Peer):
    name = package = "numba"

    def __init__(self, threads: int) -> None:
        import numba
        import numba_loops

        super().__init__(threads)
        numba.set_num_threads(threads)
        self.loops = numba_loops.LOOPS

    def prepare(self, workload: Workload, args: tuple[Any, ...]) -> Call:
        if workload.name not in self.loops:
            raise NotWritten("no hand-written loop")
        return functools.partial(self.loops[workload.name], *args)


class Jax(Peer):
    """`jax.jit` of the very function, with `np` standing for `jax.numpy` and 64-bit types allowed."""

    name = package = "jax"

    def __init__(self, threads: int) -> None:
        import jax

        super().__init__(threads)
        jax.config.update("jax_enable_x64", True)
        self.jax = jax

    def prepare(self, workload: Workload, args: tuple[Any, ...]) -> Call:
        import jax.numpy as jnp

        function = self.jax.jit(rebind(workload.function, np, jnp))
        own = [self.jax.device_put(a) if isinstance(a, np.ndarray) else a for a in args]
        wait = self.jax.block_until_ready
        return lambda: wait(function(*own))


class Torch(Peer):
    """`torch.compile` of the very function through its NumPy support, on tensors."""

    name = package = "torch"

    def __init__(self, threads: int) -> None:
        import torch

        super().__init__(threads)
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.torch = torch

    def prepare(self, workload: Workload, args: tuple[Any, ...]) -> Call:
        torch = self.torch
        torch._dynamo.reset()
        function = torch.compile(torch.compiler.wrap_numpy(workload.function), fullgraph=True, dynamic=False)
        own = [torch.from_numpy(_ascending(a)) if isinstance(a, np.ndarray) else a for a in args]
        return functools.partial(function, *own)


class Pythran(Peer):
    """The very source, compiled by Pythran with OpenMP; modules are kept between runs."""

    name = package = "pythran"

    def __init__(self, threads: int) -> None:
        import pythran

        super().__init__(threads)
        self.compile = pythran.compile_pythrancode
        self.folder = Path(tempfile.gettempdir()) / f"pythran-benchmarks-{os.getuid()}"
        self.folder.mkdir(mode=0o700, exist_ok=True)

    def prepare(self, workload: Workload, args: tuple[Any, ...]) -> Call:
        kinds = ", ".join(_pythran_type(a) for a in args)
        entry = workload.function.__name__
        source = f"#pythran export {entry}({kinds})\nimport numpy as np\n{source_of(workload.function)}"
        module = f"pythran_{hashlib.sha256((source + self.version).encode()).hexdigest()[:16]}"
        path = self.folder / f"{module}.so"
        if not path.exists():
            flags = ["-O3", "-march=native", "-fopenmp", "-w"]
            options = {"extra_compile_args": flags, "extra_link_args": flags}
            self.compile(module, source, output_file=str(path), **options)
        return functools.partial(getattr(load_file(module, path), entry), *args)


PEERS: tuple[type[Peer], ...] = (NumPy, AotArray, NumExpr, Numba, Jax, Torch, Pythran)


def load(names: list[str], threads: int) -> tuple[list[Peer], dict[str, str]]:
    """The peers that are installed, NumPy and aotarray first, and the reasons of those that are not."""
    wanted = {"numpy", "aotarray", *names}
    known = [p.name for p in PEERS]
    if wanted - set(known):
        raise SystemExit(f"unknown peer {', '.join(sorted(wanted - set(known)))}; peers: {', '.join(known)}")
    found: list[Peer] = []
    absent: dict[str, str] = {}
    for kind in PEERS:
        if kind.name not in wanted:
            continue
        try:
            found.append(kind(threads))
        except ImportError as error:
            absent[kind.name] = f"not installed ({error})"
    if "numpy" in absent or "aotarray" in absent:
        raise SystemExit(f"NumPy and aotarray are needed: {absent}")
    return found, absent


def to_numpy(result: Any) -> list[np.ndarray]:
    """A result as a list of NumPy arrays."""
    if isinstance(result, tuple | list):
        return [np.asarray(part) for part in result]
    return [np.asarray(result)]


def rebind(function: Callable[..., Any], old: ModuleType, new: ModuleType) -> Callable[..., Any]:
    """`function` and the functions of its module that it calls, with the global module `old` replaced."""
    replaced: dict[str, Any] = dict(function.__globals__)
    for name, value in function.__globals__.items():
        if value is old:
            replaced[name] = new
        elif isinstance(value, FunctionType) and value.__globals__ is function.__globals__:
            replaced[name] = _with_globals(value, replaced)
    return _with_globals(function, replaced)


def _with_globals(function: Any, names: dict[str, Any]) -> Callable[..., Any]:
    code, defaults, closure = function.__code__, function.__defaults__, function.__closure__
    return FunctionType(code, names, function.__name__, defaults, closure)


def source_of(function: Any, done: set[str] | None = None) -> str:
    """The source of `function` with the functions and numbers of its module that it needs before it."""
    done = set() if done is None else done
    text = ""
    for name in sorted(_global_names(function.__code__)):
        value = function.__globals__.get(name)
        if name in done or value is None:
            continue
        done.add(name)
        if isinstance(value, FunctionType):
            text += source_of(value, done)
        elif isinstance(value, int | float):
            text += f"{name} = {float(value)!r}\n"
    return text + inspect.getsource(function) + "\n\n"


def _global_names(code: CodeType) -> set[str]:
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return set(code.co_names).union(*(_global_names(c) for c in inner))


def _pythran_type(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return type(value).__name__
    if not value.flags.c_contiguous:
        raise NotWritten("no Pythran version for arrays that are not contiguous")
    return f"{value.dtype.name}[{', '.join(':' * value.ndim)}]"


def _ascending(array: np.ndarray) -> np.ndarray:
    """Tensors cannot have negative strides: such an array is copied, outside the timing."""
    return array.copy() if any(s < 0 for s in array.strides) else array


def describe() -> dict[str, str]:
    """Versions of Python and of everything here that is installed."""
    import aotarray

    versions = {"python": ".".join(map(str, sys.version_info[:3])), "aotarray": aotarray.__version__}
    for package in ("llvmlite", *(kind.package for kind in PEERS if kind is not AotArray)):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
