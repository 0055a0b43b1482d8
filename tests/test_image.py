"""The mini linker: what LLVM emits for kernels runs at any address; anything else is refused by name."""

from __future__ import annotations

import ctypes
import ctypes.util
import mmap
import platform
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import pytest

from aotarray.errors import CompileError
from aotarray.runtime.image import Image, image_from_object

X86, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="runs x86-64 code")

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()


def object_of(ir: str, triple: str = X86, codemodel: str = "small", cpu: str = "") -> bytes:
    module = llvm.parse_assembly(ir)
    module.triple = triple
    target = llvm.Target.from_triple(triple)
    machine = target.create_target_machine(cpu=cpu, opt=3, reloc="pic", codemodel=codemodel)
    return bytes(machine.emit_object(module))


class Loaded:
    """An image mapped read-write-execute, imports filled from this process's C library and libm."""

    def __init__(self, image: Image) -> None:
        self.image = image
        access = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        self.memory = mmap.mmap(-1, max(len(image.code), 1), prot=access)
        self.memory.write(image.code)
        libraries = [ctypes.CDLL(ctypes.util.find_library("m")), ctypes.CDLL(None)]
        for offset, name in image.imports:
            assert offset >= image.got_offset
            assert offset % 8 == 0
            found = next(getattr(lib, name) for lib in libraries if hasattr(lib, name))
            struct.pack_into("<Q", self.memory, offset, ctypes.cast(found, ctypes.c_void_p).value)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))

    def function(self, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
        return ctypes.CFUNCTYPE(result, *arguments)(self.base + self.image.symbols[name])


def doubles(values: range) -> str:
    return ", ".join(f"double {value}.5" for value in values)


KERNELS = f"""
@big = private unnamed_addr constant [5000 x double] [{doubles(range(5000))}]
@public = constant [4 x i32] [i32 10, i32 20, i32 30, i32 40]
@text = private unnamed_addr constant [5 x i8] c"abcd\\00"
declare double @sin(double)
declare i64 @strlen(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @srand(i32)
define internal double @inner(double %x) noinline {{
  %y = call double @sin(double %x)
  %z = fadd double %y, 0.125
  ret double %z
}}
define double @calls(double %x) {{
  %a = call double @inner(double %x)
  %b = frem double %a, 0.75
  ret double %b
}}
define double @tail(double %x) {{
  %a = tail call double @calls(double %x)
  ret double %a
}}
define double @table(i64 %i) {{
  %p = getelementptr [5000 x double], ptr @big, i64 0, i64 %i
  %v = load double, ptr %p
  ret double %v
}}
define i32 @global(i64 %i) {{
  %p = getelementptr [4 x i32], ptr @public, i64 0, i64 %i
  %v = load i32, ptr %p
  ret i32 %v
}}
define i64 @length() {{
  %n = call i64 @strlen(ptr @text)
  ret i64 %n
}}
define i64 @address() {{
  %n = ptrtoint ptr @strlen to i64
  ret i64 %n
}}
define void @vector(ptr %p) {{
  %v = load <4 x double>, ptr %p, align 8
  %w = fadd <4 x double> %v, <double 1.0, double 2.0, double 3.0, double 4.0>
  store <4 x double> %w, ptr %p, align 8
  ret void
}}
define void @copy(ptr %a, ptr %b, i64 %n) {{
  call void @llvm.memcpy.p0.p0.i64(ptr %a, ptr %b, i64 %n, i1 false)
  ret void
}}
define i32 @switch(i32 %x, ptr %p) {{
  switch i32 %x, label %d [i32 0, label %a
    i32 1, label %b
    i32 2, label %c
    i32 3, label %e
    i32 4, label %f]
a:
  call void @srand(i32 1)
  ret i32 10
b:
  store i32 5, ptr %p
  ret i32 77
c:
  call void @srand(i32 2)
  ret i32 -5
e:
  store i32 6, ptr %p
  ret i32 123
f:
  call void @srand(i32 3)
  ret i32 99
d:
  ret i32 0
}}
"""


@pytest.fixture(scope="module", params=["small", "default"])
def kernels(request: pytest.FixtureRequest) -> Loaded:
    return Loaded(image_from_object(object_of(KERNELS, codemodel=request.param, cpu="x86-64-v2")))


@on_x86
def test_calls_between_functions_and_to_the_c_library(kernels: Loaded) -> None:
    import math

    for name in ("calls", "tail"):
        function = kernels.function(name, ctypes.c_double, ctypes.c_double)
        for x in (0.0, 0.5, 2.0, -1.0):
            assert function(x) == math.fmod(math.sin(x) + 0.125, 0.75)
    assert kernels.function("length", ctypes.c_int64)() == 4
    strlen = ctypes.cast(ctypes.CDLL(None).strlen, ctypes.c_void_p).value
    assert kernels.function("address", ctypes.c_int64)() == strlen


@on_x86
def test_constants(kernels: Loaded) -> None:
    table = kernels.function("table", ctypes.c_double, ctypes.c_int64)
    assert [table(i) for i in (0, 1, 2500, 4999)] == [0.5, 1.5, 2500.5, 4999.5]
    public = kernels.function("global", ctypes.c_int32, ctypes.c_int64)
    assert [public(i) for i in range(4)] == [10, 20, 30, 40]
    values = (ctypes.c_double * 4)(1, 1, 1, 1)
    kernels.function("vector", None, ctypes.c_void_p)(values)
    assert list(values) == [2, 3, 4, 5]


@on_x86
def test_copy_and_jump_table(kernels: Loaded) -> None:
    source, target = ctypes.create_string_buffer(b"x" * 999), ctypes.create_string_buffer(1000)
    copy = kernels.function("copy", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    copy(target, source, 1000)
    assert target.raw == source.raw
    switch = kernels.function("switch", ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)
    cell = ctypes.c_int32()
    assert [switch(i, ctypes.byref(cell)) for i in range(6)] == [10, 77, -5, 123, 99, 0]
    assert cell.value == 6


@on_x86
@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_wide_constants_are_aligned(cpu: str) -> None:
    ones = ", ".join(f"float {i}.25" for i in range(16))
    image = image_from_object(object_of(
        f"""define void @add(ptr %p) {{
          %v = load <16 x float>, ptr %p, align 4
          %w = fadd <16 x float> %v, <{ones}>
          store <16 x float> %w, ptr %p, align 4
          ret void
        }}""", cpu=cpu))
    flags = Path("/proc/cpuinfo").read_text()
    if (cpu[-1] == "4" and "avx512vl" not in flags) or (cpu[-1] == "3" and "avx2" not in flags):
        pytest.skip(f"this processor does not run {cpu} code")
    values = (ctypes.c_float * 16)()
    loaded = Loaded(image)
    loaded.function("add", None, ctypes.c_void_p)(values)
    assert list(values) == [i + 0.25 for i in range(16)]


@on_x86
def test_calls_through_the_got_of_functions_in_the_object() -> None:
    """`nonlazybind` makes LLVM call through a slot; for a function in the image, no slot is needed."""
    loaded = Loaded(image_from_object(object_of("""
        define i32 @one() noinline nonlazybind { ret i32 1 }
        define i32 @call() { %a = call i32 @one()
                             %b = add i32 %a, 1
                             ret i32 %b }
        define i32 @jump() { %a = tail call i32 @one()
                             ret i32 %a }
        """)))
    assert loaded.image.imports == ()
    assert loaded.image.got_offset == len(loaded.image.code)
    assert loaded.function("call", ctypes.c_int32)() == 2
    assert loaded.function("jump", ctypes.c_int32)() == 1


@on_x86
def test_table_of_imported_functions() -> None:
    loaded = Loaded(image_from_object(object_of("""
        @table = internal unnamed_addr constant [2 x ptr] [ptr @sin, ptr @cos]
        declare double @sin(double)
        declare double @cos(double)
        define double @pick(i64 %i, double %x) {
          %p = getelementptr [2 x ptr], ptr @table, i64 0, i64 %i
          %f = load ptr, ptr %p
          %v = call double %f(double %x)
          ret double %v
        }""")))
    pick = loaded.function("pick", ctypes.c_double, ctypes.c_int64, ctypes.c_double)
    assert (pick(0, 0.0), pick(1, 0.0)) == (0.0, 1.0)


def test_one_slot_a_symbol_and_only_functions_are_listed() -> None:
    image = image_from_object(object_of(KERNELS))
    names = [name for _, name in image.imports]
    assert names == sorted(set(names))
    assert {"fmod", "memcpy", "sin", "strlen"} <= set(names)
    assert [offset for offset, _ in image.imports] == [image.got_offset + 8 * i for i in range(len(names))]
    assert image.got_offset % 4096 == 0
    functions = {"calls", "tail", "table", "global", "length", "address", "vector", "copy", "switch"}
    assert set(image.symbols) == functions
    assert image == image_from_object(object_of(KERNELS))


def _decode_adrp(word: int, place: int) -> int:
    pages = (word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3
    return ((place >> 12) + (pages - (1 << 21 if pages >> 20 else 0))) << 12


def test_aarch64_relocations() -> None:
    """No aarch64 machine here: the patched instructions are decoded again."""
    image = image_from_object(object_of("""
        @public = constant [4 x i32] [i32 10, i32 20, i32 30, i32 40]
        declare i64 @strlen(ptr)
        define ptr @slot() { ret ptr @strlen }
        define ptr @relaxed() { ret ptr @public }
        define i64 @call(ptr %p) { %a = call i64 @strlen(ptr %p)
                                   %b = add i64 %a, 1
                                   ret i64 %b }
        """, ARM))
    code = image.code
    ((slot, name),) = image.imports
    assert (name, slot) == ("strlen", image.got_offset)
    assert image.got_offset % 65536 == 0

    def words(at: int) -> tuple[int, ...]:
        return struct.unpack_from("<III", code, at)

    at = image.symbols["slot"]
    adrp, ldr, _ = words(at)
    assert _decode_adrp(adrp, at) + ((ldr >> 10 & 0xFFF) << 3) == slot
    assert ldr >> 22 == 0x3E5
    at = image.symbols["relaxed"]
    adrp, add, _ = words(at)
    assert add >> 22 == 0x244
    public = _decode_adrp(adrp, at) + (add >> 10 & 0xFFF)
    assert struct.unpack_from("<4i", code, public) == (10, 20, 30, 40)
    at = image.symbols["call"]
    while struct.unpack_from("<I", code, at)[0] >> 26 != 0x25:
        at += 4
    stub = at + 4 * (struct.unpack_from("<I", code, at)[0] & 0x3FFFFFF)
    adrp, ldr, branch = words(stub)
    assert _decode_adrp(adrp, stub) + ((ldr >> 10 & 0xFFF) << 3) == slot
    assert branch == 0xD61F0220


def test_aarch64_kernels_link() -> None:
    assert "switch" in image_from_object(object_of(KERNELS, ARM)).symbols


@pytest.mark.parametrize(
    ("ir", "message"),
    [
        ("@s = global i32 7\ndefine ptr @f() { ret ptr @s }", r"section \.data is writable"),
        ("@s = global i32 0\ndefine ptr @f() { ret ptr @s }", r"section \.bss is writable"),
        ("@s = internal global i32 0\ndefine void @f() { store volatile i32 1, ptr @s ret void }", r"\.bss"),
        ("@s = common global i32 0\ndefine ptr @f() { ret ptr @s }", r"'s' is common|section \.bss"),
        ("@s = thread_local global i32 1\ndefine ptr @f() { ret ptr @s }", "thread-local"),
        (
            "@t = constant [1 x ptr] [ptr @f]\ndefine ptr @f() { ret ptr @t }",
            r"R_X86_64_64 at 0x0 in section \.data\.rel\.ro against 'f': an absolute address",
        ),
        (
            "@e = external dso_local global i32\ndefine ptr @f() { ret ptr @e }",
            r"R_X86_64_PC32 at 0x3 in section \.text against 'e': the instruction needs the symbol to be",
        ),
    ],
)
def test_refusals_name_the_section_or_relocation(ir: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        image_from_object(object_of(ir))


def test_unknown_relocations_are_named() -> None:
    obj = object_of("declare i64 @strlen(ptr)\ndefine ptr @f() { ret ptr @strlen }")
    damaged = obj.replace(struct.pack("<I", 42), struct.pack("<I", 10))
    with pytest.raises(CompileError, match=r"relocation type 10 in section \.text is not supported"):
        image_from_object(damaged)


@pytest.mark.parametrize("blob", [b"", b"\x7fELF", bytes(200), b"\x7fELF\x02\x01\x01" + bytes(200)])
def test_not_an_object(blob: bytes) -> None:
    with pytest.raises(CompileError, match="the object file"):
        image_from_object(blob)


def test_other_machines_are_refused() -> None:
    with pytest.raises(CompileError, match="machine 243"):
        image_from_object(object_of("define void @f() { ret void }", "riscv64-unknown-linux-gnu"))


@pytest.mark.parametrize("triple", [X86, ARM])
def test_truncated_objects_are_refused(triple: str) -> None:
    obj = object_of(KERNELS.replace("5000", "20").replace(doubles(range(5000)), doubles(range(20))), triple)
    for size in range(len(obj)):
        with pytest.raises(CompileError):
            image_from_object(obj[:size])


@pytest.mark.parametrize("triple", [X86, ARM])
def test_damaged_objects_never_crash_the_linker(triple: str) -> None:
    obj = object_of(KERNELS.replace("5000", "20").replace(doubles(range(5000)), doubles(range(20))), triple)
    rng = random.Random(1)
    refused = 0
    for _ in range(4000):
        damaged = bytearray(obj)
        for _ in range(rng.choice([1, 1, 1, 4])):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        try:
            image_from_object(bytes(damaged))
        except CompileError:
            refused += 1
    assert refused > 400
