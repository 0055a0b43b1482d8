"""A scalar function as a compiled loop over arrays, for tests and measurements."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from aotarray.vecmath.ir import definitions, signature, symbol, without_fma
from aotarray.vecmath.primitives import NUMPY
from aotarray.vecmath.rare_calls import inline_rare_calls
from aotarray.vecmath.trace import LLVM

TRIPLE = "x86_64-unknown-linux-gnu"
Array = Any


def loop(name: str, dtype: str) -> str:
    """The IR of `void loop(result, arguments..., n)` over contiguous arrays, function not yet inlined."""
    function = symbol(name, dtype)
    result, arguments = signature(function)
    stored = "i8" if result == "b1" else LLVM[result]
    pointers = "".join(f", ptr noalias readonly %p{i}" for i in range(len(arguments)))
    lines = [
        f"define void @loop(ptr noalias %out{pointers}, i64 %n) {{",
        "entry:",
        "  %some = icmp sgt i64 %n, 0",
        "  br i1 %some, label %body, label %exit",
        "body:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %body ]",
    ]
    listed = []
    for i, argument in enumerate(arguments):
        kind = "i8" if argument == "b1" else LLVM[argument]
        lines.append(f"  %at{i} = getelementptr inbounds {kind}, ptr %p{i}, i64 %i")
        lines.append(f"  %x{i} = load {kind}, ptr %at{i}")
        if argument == "b1":
            lines.append(f"  %t{i} = trunc i8 %x{i} to i1")
        listed.append(f"{LLVM[argument]} %{'t' if argument == 'b1' else 'x'}{i}")
    lines.append(f"  %r = call {LLVM[result]} @{function}({', '.join(listed)})")
    if result == "b1":
        lines.append("  %w = zext i1 %r to i8")
    lines += [
        f"  %to = getelementptr inbounds {stored}, ptr %out, i64 %i",
        f"  store {stored} %{'w' if result == 'b1' else 'r'}, ptr %to",
        "  %next = add nuw nsw i64 %i, 1",
        "  %more = icmp slt i64 %next, %n",
        "  br i1 %more, label %body, label %exit",
        "exit:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n" + definitions([function])


def optimise(ir: str, cpu: str, vectorise: bool = True) -> tuple[Any, Any]:
    """The optimised module and its target machine: inline, vectorise, inline the rare calls' vector forms."""
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple(TRIPLE)
    features = "-prefer-256-bit" if cpu == "x86-64-v4" else ""
    machine = target.create_target_machine(cpu=cpu, features=features, opt=3, reloc="pic", codemodel="small")
    module = binding.parse_assembly(ir if cpu != "x86-64-v2" else without_fma(ir))
    module.triple = TRIPLE
    module.data_layout = str(machine.target_data)
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = vectorise
    options.slp_vectorization = False
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    inline_rare_calls(module, builder)
    return module, machine


@cache
def _native(name: str, dtype: str, cpu: str, vectorise: bool) -> tuple[Any, int]:
    from llvmlite import binding

    module, machine = optimise(loop(name, dtype), cpu, vectorise)
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine, engine.get_function_address("loop")


def array_function(
    name: str, dtype: str, cpu: str = "x86-64-v3", vectorise: bool = True
) -> Callable[..., Array]:
    """`name` over contiguous arrays of `dtype`, compiled for an x86-64 level this machine must have."""
    engine, address = _native(name, dtype, cpu, vectorise)
    result, arguments = signature(symbol(name, dtype))
    pointer = ctypes.c_void_p
    call = ctypes.CFUNCTYPE(None, pointer, *[pointer] * len(arguments), ctypes.c_int64)(address)

    def apply(*operands: Array, out: Array = None) -> Array:
        arrays = [np.ascontiguousarray(x, dtype=NUMPY[dtype]) for x in operands]
        found = np.empty(arrays[0].shape, dtype=NUMPY[result]) if out is None else out
        call(found.ctypes.data, *[x.ctypes.data for x in arrays], found.size)
        return found

    apply.engine = engine  # type: ignore[attr-defined]  # keeps the code mapped
    return apply
