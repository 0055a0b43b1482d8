"""A graph to a loaded program, through simplification, fusion, source, machine code and the cache."""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import __version__
from .compile.cache import Cache
from .emit.cpu import emit_module
from .fusion.report import show_plan
from .fusion.schedule import Plan, schedule
from .graph import Graph
from .passes import simplify
from .runtime import _launcher
from .runtime.encode import encode
from .runtime.image import Image, image_from_object
from .show import show_graph
from .trace.entry import Traced


@dataclass
class Compiled:
    """Machine code for this machine, ready to load."""

    words: bytes
    constants: bytes
    image: Image
    offsets: list[int]
    from_cache: bool

    def load(self, result_type: type, threads: int = 0) -> _launcher.Program:
        """Map the code and make the program callable, on at most so many threads if not 0."""
        code = self.image.code or bytes(1)  # a program of library calls alone has no kernels
        image = _launcher.Image(code, self.image.imports, self.image.got_offset)
        return _launcher.Program(self.words, self.constants, image, self.offsets, result_type, threads)


class Lowered:
    """One traced function at every stage, each as printable text."""

    def __init__(self, traced: Traced) -> None:
        self.traced = traced

    @functools.cached_property
    def plan(self) -> Plan:
        return schedule(simplify(self.traced.graph))

    @property
    def graph(self) -> str:
        """The simplified graph."""
        return show_graph(simplify(self.traced.graph))

    @property
    def fused(self) -> str:
        """The loop nests: what each reads, writes and computes."""
        return show_plan(self.plan)

    @functools.cached_property
    def source(self) -> str:
        """The generated Python source."""
        return source_of(self.plan)

    @property
    def llvm_ir(self) -> str:
        """The optimised LLVM IR for this machine."""
        from .compile import native

        return str(native.optimised(native.kernels_ir(self.plan.kernels), host_level()))

    @property
    def asm(self) -> str:
        """The machine code for this machine, as text."""
        from .compile import native

        return native.assembly(native.kernels_ir(self.plan.kernels), host_level())

    def __repr__(self) -> str:
        return f"<{signature_of(self.plan)}: .graph .fused .source .llvm_ir .asm .compile()>"

    def compile(self) -> CompiledFunction:
        """A callable for arguments of exactly these types (flat, in order)."""
        return CompiledFunction(self)


class CompiledFunction:
    """The machine code of a `Lowered`, called with its arguments flat and in order."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self._program = compile_plan(lowered.plan).load(np.ndarray)

    def __call__(self, *leaves: Any) -> Any:
        return self.lowered.traced.result.rebuild(iter(self._program.run(leaves)))

    @property
    def llvm_ir(self) -> str:
        """The optimised LLVM IR."""
        return self.lowered.llvm_ir

    @property
    def asm(self) -> str:
        """The machine code as text."""
        return self.lowered.asm


def signature_of(plan: Plan) -> str:
    """The types of a plan's arguments and results: `f(x: f64[n]) -> f64[n]`."""
    inputs = ", ".join(
        f"{n}: {'inout ' if k in plan.graph.inout else ''}{i.type}"
        for k, (n, i) in enumerate(zip(plan.graph.input_names, plan.graph.inputs, strict=True))
    )
    outputs = ", ".join(map(str, plan.results))
    return f"{plan.graph.name}({inputs}) -> {outputs or None}"


def source_of(plan: Plan) -> str:
    """The generated source of a plan, with its signature on top."""
    return emit_module(signature_of(plan), plan.kernels)


@functools.cache
def cache() -> Cache:
    """The disk cache of this process."""
    return Cache()


@functools.cache
def host_level() -> str:
    """The instruction-set level of this machine, or the lower one that AOTARRAY_CPU asks for."""
    return _launcher.cpu_level()


def plan_of(graph: Graph) -> Plan:
    """A traced graph, simplified, fused and lowered."""
    return schedule(simplify(graph))


def compile_graph(graph: Graph) -> Compiled:
    """Machine code for a traced graph, from the cache where it is there."""
    return compile_plan(plan_of(graph))


def compile_plan(plan: Plan) -> Compiled:
    """Machine code for a lowered plan, from the cache where it is there."""
    words = encode(plan.program)
    level = host_level()
    key = Cache.key(source_of(plan), words, plan.program.constants, level, *_versions())
    kept = cache().get(key)
    found = _unpack(kept) if kept is not None else None
    if found is not None:
        image, offsets = found
        return Compiled(words, plan.program.constants, image, offsets, True)
    from .compile import native

    code = native.object_code(native.kernels_ir(plan.kernels), level)
    image = image_from_object(code)
    offsets = [image.symbols[k] for k in plan.program.kernels]
    cache().put(key, _pack(image, offsets))
    return Compiled(words, plan.program.constants, image, offsets, False)


@functools.cache
def _versions() -> tuple[str, ...]:
    return (__version__, _installed("numba"), _installed("llvmlite"), np.__version__, _code_digest())


def _installed(package: str) -> str:
    """The version of an installed package, without importing it, or what parses metadata where a name will do."""
    spec = importlib.machinery.PathFinder.find_spec(package)
    if spec is not None and spec.origin is not None:
        found = list(Path(spec.origin).parent.parent.glob(f"{package}-*.dist-info"))
        if len(found) == 1:
            return found[0].stem.removeprefix(f"{package}-")
    from importlib.metadata import version

    return version(package)


def _code_digest() -> str:
    """A digest of the sources that turn loop nests into machine code, so that a change of them is a new key."""
    digest = hashlib.sha256()
    for layer in ("compile", "vecmath"):
        for path in sorted((Path(__file__).parent / layer).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def kernel_objects(plan: Plan, levels: Sequence[str]) -> list[bytes]:
    """One object for each instruction-set level, its kernels named `<kernel>_<level>`; from the cache where it can."""
    source = source_of(plan)
    texts: list[str] | None = None
    found = []
    for level in levels:
        key = Cache.key("object", source, level, *_versions())
        code = cache().get(key, "object")
        if code is None:
            from .compile import native

            texts = texts or native.kernels_ir(plan.kernels)
            code = native.object_code(texts, level, f"_{level}")
            cache().put(key, code, "object")
        found.append(code)
    return found


def versions() -> dict[str, str]:
    """What made the code, by name."""
    return dict(zip(("aotarray", "numba", "llvmlite", "numpy"), _versions(), strict=False))


def _pack(image: Image, offsets: list[int]) -> bytes:
    head = json.dumps([image.imports, image.got_offset, offsets]).encode()
    return len(head).to_bytes(8, "little") + head + image.code


def _unpack(kept: bytes) -> tuple[Image, list[int]] | None:
    size = int.from_bytes(kept[:8], "little")
    imports, got_offset, offsets = json.loads(kept[8 : 8 + size])
    return Image(kept[8 + size :], tuple((o, n) for o, n in imports), got_offset, {}), offsets
