"""Kernels to one object file for one instruction set: Numba's IR, an entry with the kernel ABI, our optimisation."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

from ..errors import CompileError
from ..loops import Kernel
from ..vecmath import definitions, inline_rare_calls, without_fma
from .numba_ir import kernel_ir

#: instruction-set levels of x86-64, least first, with the CPU name LLVM knows
LEVELS = ("v2", "v3", "v4")

#: LLVM halves the vectors of x86-64-v4 unless told that the full width is wanted
_ATTRIBUTES = {"v4": '"prefer-vector-width"="512" "min-legal-vector-width"="512"'}
_SCALAR_SYMBOL = re.compile(r'^declare .*?@"?(aot_\w+)"?\(', re.MULTILINE)


def cpu_name(level: str) -> str:
    """LLVM's name of a level ("v3" -> "x86-64-v3"), or "generic" elsewhere."""
    return f"x86-64-{level}" if level in LEVELS else "generic"


@functools.cache
def _target() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple())


@functools.cache
def target_machine(level: str) -> Any:
    """LLVM's code generator for a level, position-independent."""
    return _target().create_target_machine(cpu=cpu_name(level), opt=3, reloc="pic", codemodel="small")


def kernels_ir(kernels: Sequence[Kernel]) -> list[str]:
    """IR text of each kernel with its entry function, the same for every level."""
    return [_with_entry(kernel, *kernel_ir(kernel)) for kernel in kernels]


def optimised(texts: Sequence[str], level: str, suffix: str = "") -> Any:
    """One optimised LLVM module of all kernels for `level`; entries are named `<kernel><suffix>`."""
    import llvmlite.binding as llvm

    symbols = sorted({s for text in texts for s in _SCALAR_SYMBOL.findall(text)})
    library = definitions(symbols)
    if level in ("v1", "v2"):
        library = without_fma(library)
    machine = target_machine(level)
    try:
        module = llvm.parse_assembly(_assembled(texts, library, suffix, _ATTRIBUTES.get(level, "")))
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"LLVM refused the generated code: {error}") from error
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    options.slp_vectorization = True
    options.loop_unrolling = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    inline_rare_calls(module, builder)
    return module


def object_code(texts: Sequence[str], level: str, suffix: str = "") -> bytes:
    """One relocatable object of all kernels for `level`."""
    code: bytes = target_machine(level).emit_object(optimised(texts, level, suffix))
    return code


def assembly(texts: Sequence[str], level: str) -> str:
    """The machine code as text."""
    text: str = target_machine(level).emit_assembly(optimised(texts, level))
    return text


_METADATA = re.compile(r"!(\d+)\b")
_DEFINED = re.compile(r'^(?:define|declare) .*?@"?([\w.$]+)"?\(', re.MULTILINE)


def _assembled(texts: Sequence[str], library: str, suffix: str, attributes: str) -> str:
    """One module's text: kernels, then the scalar functions, each declaration once and none of what is defined."""
    import llvmlite.binding as llvm

    lines: list[str] = [f'target triple = "{llvm.get_process_triple()}"']
    declared: set[str] = set()
    defined = {
        m
        for text in (*texts, library)
        for m in re.findall(r'^define .*?@"?([\w.$]+)"?\(', text, re.MULTILINE)
    }
    for number, text in enumerate((*texts, library), 1):
        text = _METADATA.sub(rf"!{number}000\1", text)
        for line in text.splitlines():
            if line.startswith(("target ", "; ModuleID", "source_filename")):
                continue
            if line.startswith("declare "):
                found = _DEFINED.match(line)
                if found is None or found.group(1) in defined or found.group(1) in declared:
                    continue
                declared.add(found.group(1))
            elif line.startswith("@"):
                name = line.split(" = ")[0]
                if name in declared:
                    continue
                declared.add(name)
            lines.append(line)
    joined = "\n".join(lines)
    return joined.replace("_AOTARRAY_SUFFIX", suffix).replace("_AOTARRAY_ATTRIBUTES", attributes)


def _with_entry(kernel: Kernel, text: str, mangled: str) -> str:
    """Rename Numba's function, mark pointers as not aliasing, drop its globals, and add the ABI entry."""
    body = f"{kernel.name}_body"
    text = text.replace(f'@"{mangled}"', f"@{body}")
    text = re.sub(r"^@.*NumbaEnv.*$\n", "", text, flags=re.MULTILINE)
    header = re.search(rf"^define i32 @{body}\((.*)\)$", text, re.MULTILINE)
    if header is None:
        raise CompileError(f"Numba's code for {kernel.name} has an unexpected form")
    arguments = re.sub(r'(\w+\*) (%"arg\.)', r"\1 noalias \2", header.group(1))
    text = text.replace(header.group(0), f"define internal i32 @{body}({arguments}) alwaysinline")
    return text + _entry(kernel, body)


def _entry(kernel: Kernel, body: str) -> str:
    """The function with the kernel ABI: unpack, and take the fast path when all strides are as usual."""
    lines = [
        f"define void @{kernel.name}_AOTARRAY_SUFFIX(ptr %pointers, ptr %ints, ptr %scratch, i64 %begin, i64 %end) "
        "nounwind _AOTARRAY_ATTRIBUTES {"
    ]
    lines.append("  %result = alloca ptr")
    call: list[str] = []
    arrays = [p for p in kernel.pointers if p.role != "scratch"]
    for k in range(len(arrays)):
        lines += [f"  %pp{k} = getelementptr ptr, ptr %pointers, i64 {k}", f"  %p{k} = load ptr, ptr %pp{k}"]
    count = len(kernel.integers)
    scratches = [p for p in kernel.pointers if p.role == "scratch"]
    for k in range(count + len(scratches)):
        lines += [f"  %ip{k} = getelementptr i64, ptr %ints, i64 {k}", f"  %i{k} = load i64, ptr %ip{k}"]
    for k in range(len(scratches)):
        lines.append(f"  %s{k} = getelementptr i8, ptr %scratch, i64 %i{count + k}")
    position = {"array": 0, "scratch": 0}
    for pointer in kernel.pointers:
        if pointer.role == "scratch":
            call.append(f"ptr %s{position['scratch']}")
            position["scratch"] += 1
        else:
            call.append(f"ptr %p{position['array']}")
            position["array"] += 1
    usual = {k: i.usual for k, i in enumerate(kernel.integers) if i.usual}
    rest = ["i64 %begin", "i64 %end"]
    general = [*call, *(f"i64 %i{k}" for k in range(count)), *rest]
    invoke = f"call i32 @{body}(ptr %result, ptr null, "
    if usual:
        for n, (k, value) in enumerate(usual.items()):
            lines.append(f"  %u{n} = icmp eq i64 %i{k}, {value}")
            lines.append(f"  %all{n} = " + (f"and i1 %all{n - 1}, %u{n}" if n else "and i1 true, %u0"))
        lines.append(f"  br i1 %all{len(usual) - 1}, label %usual, label %general")
        lines.append("usual:")
        special = [*call, *(f"i64 {usual.get(k, f'%i{k}')}" for k in range(count)), *rest]
        lines.append(f"  %r0 = {invoke}{', '.join(special)})")
        lines.append("  ret void")
        lines.append("general:")
    lines.append(f"  %r1 = {invoke}{', '.join(general)})")
    lines += ["  ret void", "}"]
    return "\n".join(lines) + "\n"


__all__ = ["LEVELS", "assembly", "cpu_name", "kernels_ir", "object_code", "optimised", "target_machine"]
