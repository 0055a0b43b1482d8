"""Linked modules stand alone and appear whole; failures say what to install or what the compiler said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from aotarray.aot import linking
from aotarray.aot.elf import read_dynamic
from aotarray.aot.linking import find_compiler, link, python_include
from aotarray.compile.cache import Cache
from aotarray.errors import LinkError

KERNEL = """
declare double @sin(double)
define hidden double @kernel(double %x) {
  %a = call double @sin(double %x)
  %b = frem double %a, 0.75
  ret double %b
}
"""
MODULE = """
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <pthread.h>
#include "factor.h"
double kernel(double);
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void begin(void) {}
int absent(void);
int unused(void) { return absent(); }
static PyObject *call(PyObject *self, PyObject *x) {
    pthread_once(&once, begin);
    return PyFloat_FromDouble(FACTOR * kernel(PyFloat_AsDouble(x)));
}
static PyMethodDef methods[] = {{"call", call, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, NAME, NULL, 0, methods, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit_linked(void) { return PyModule_Create(&module); }
"""
DEFINES = {"NAME": '"linked"', "AOTARRAY_MODULE": ""}


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Path, Path]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(KERNEL)
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic", codemodel="small")
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "kernel.o").write_bytes(machine.emit_object(module))
    (folder / "module.c").write_text(MODULE)
    (folder / "factor.h").write_text("#define FACTOR 2.0\n")
    return folder / "kernel.o", folder / "module.c"


def build(parts: tuple[Path, Path], output: Path, cache: Cache | None = None) -> None:
    obj, source = parts
    # `unused` calls a function that exists nowhere: linking needs its section collected.
    link([obj], output, sources=[source], include=[python_include()], defines=DEFINES, cache=cache)


def call(path: Path) -> str:
    code = f"import sys; sys.path.insert(0, {str(path.parent)!r}); import linked; print(linked.call(0.5))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_a_module_runs_and_needs_the_c_library_alone(parts: tuple[Path, Path], tmp_path: Path) -> None:
    output = tmp_path / "new" / "folder" / "linked.abi3.so"
    build(parts, output)
    assert float(call(output)) == pytest.approx(2 * 0.479425538604203)
    dynamic = read_dynamic(output)
    assert set(dynamic.needed) <= {"libc.so.6", "libm.so.6", "libpthread.so.0"}
    assert dynamic.exported == ("PyInit_linked",)
    assert dynamic.unresolved == ("PyFloat_AsDouble", "PyFloat_FromDouble", "PyModule_Create2")
    assert [path.name for path in output.parent.iterdir()] == ["linked.abi3.so"]


def test_the_same_input_gives_the_same_bytes(parts: tuple[Path, Path], tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    outputs = [tmp_path / name / "linked.abi3.so" for name in ("a", "b", "c", "d")]
    for output, kept in zip(outputs, (None, None, cache, cache), strict=True):
        build(parts, output, kept)
    assert len({output.read_bytes() for output in outputs}) == 1
    assert cache.info().count == 1


def test_a_changed_header_misses_the_cache(parts: tuple[Path, Path], tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    output = tmp_path / "linked.abi3.so"
    build(parts, output, cache)
    (parts[1].parent / "factor.h").write_text("#define FACTOR 4.0\n")
    build(parts, output, cache)
    assert float(call(output)) == pytest.approx(4 * 0.479425538604203)
    assert cache.info().count == 2


def test_programs(tmp_path: Path) -> None:
    source = tmp_path / "main.c"
    source.write_text('#include <stdio.h>\nint main(void) { puts(TEXT); return 0; }\n')
    link([], tmp_path / "main", sources=[source], defines={"TEXT": '"a b"'}, shared=False)
    assert subprocess.run([tmp_path / "main"], capture_output=True, check=True).stdout == b"a b\n"


def test_a_compiler_error_is_shown_and_leaves_nothing(tmp_path: Path) -> None:
    source, output = tmp_path / "bad.c", tmp_path / "out" / "bad.so"
    source.write_text("int f(void) { return missing; }\n")
    with pytest.raises(LinkError, match=r"(?s)compiling bad\.c failed.*bad\.c.*missing"):
        link([], output, sources=[source])
    assert list(output.parent.iterdir()) == []


def test_a_failed_link_keeps_the_old_output(tmp_path: Path) -> None:
    damaged, output = tmp_path / "damaged.o", tmp_path / "old.so"
    damaged.write_bytes(b"\x7fELF nothing")
    output.write_text("old")
    with pytest.raises(LinkError, match=r"(?s)linking old\.so failed.*damaged\.o"):
        link([damaged], output)
    assert output.read_text() == "old"
    with pytest.raises(LinkError, match=r"gone\.o is to be linked into old\.so but does not exist"):
        link([tmp_path / "gone.o"], output)


def test_functions_that_nothing_defines_are_named(tmp_path: Path) -> None:
    source = tmp_path / "open.c"
    source.write_text(
        "#define API __attribute__((visibility(\"default\")))\n"
        "int absent(void);\n"
        "API int f(void) { return absent(); }\n"
    )
    with pytest.raises(LinkError, match=r"linking open\.so failed: nothing defines absent"):
        link([], tmp_path / "open.so", sources=[source], exports=["f"])
    assert not (tmp_path / "open.so").exists()


def test_outputs_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LinkError, match=r"file/x\.so cannot be written: (Not a directory|File exists)"):
        link([], tmp_path / "file" / "x.so")
    (tmp_path / "folder.so").mkdir()
    with pytest.raises(LinkError, match=r"folder\.so cannot be written: Is a directory"):
        link([], tmp_path / "folder.so")
    if os.geteuid():
        (tmp_path / "closed").mkdir(mode=0o500)
        with pytest.raises(LinkError, match=r"closed/x\.so cannot be written: Permission denied"):
            link([], tmp_path / "closed" / "x.so")


def test_missing_headers_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linking.sysconfig, "get_path", lambda _: str(tmp_path))
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    with pytest.raises(LinkError, match=rf"Python\.h is missing.*(?s:.*)apt install python{version}-dev"):
        python_include()
    source = tmp_path / "module.c"
    source.write_text("#include <Python.h>\n")
    with pytest.raises(LinkError, match=r"Python's headers are missing.*(?s:.*)python3-dev"):
        link([], tmp_path / "x.so", sources=[source])


def test_compilers_are_found_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(name: str, says: str) -> Path:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\necho '{says}'\n")
        path.chmod(0o755)
        return path

    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    clang = program("clang", "clang version 22.1")
    assert find_compiler() == linking.Compiler((str(clang),), "clang", "clang version 22.1")
    gcc = program("gcc", "gcc 12.2 Free Software Foundation")
    assert find_compiler().command == (str(gcc),)
    assert find_compiler().kind == "gcc"
    cc = program("cc", "tcc 0.9")
    assert find_compiler() == linking.Compiler((str(cc),), "cc", "tcc 0.9")
    monkeypatch.setenv("CC", "clang -m64 '-DA=b c'")
    assert find_compiler().command == (str(clang), "-m64", "-DA=b c")
    monkeypatch.setenv("CC", "absent -O3")
    with pytest.raises(LinkError, match="CC='absent -O3' is not a program"):
        find_compiler()
    monkeypatch.setenv("CC", "cc 'x")
    with pytest.raises(LinkError, match="cannot be read: No closing quotation"):
        find_compiler()


def test_no_compiler_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(linking.importlib.util, "find_spec", lambda _: None)
    advice = r"(?s)no C compiler.*apt install gcc python3-dev.*pip install ziglang"
    with pytest.raises(LinkError, match=advice):
        link([], tmp_path / "x.so")


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.write_text('#!/bin/sh\n[ "$1" = --version ] && exit 0\ntouch "$TMPDIR/started"\nsleep 60\n')
    slow.chmod(0o755)
    output = str(tmp_path / "out" / "x.so")
    code = f"from aotarray.aot.linking import link, Path; link([], Path({output!r}))"
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=dict(os.environ, CC=str(slow)), stderr=subprocess.PIPE,
        start_new_session=True, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    _wait(lambda: bool(list((tmp_path).glob("out/*/started"))))
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert b"KeyboardInterrupt" in said
    assert list((tmp_path / "out").iterdir()) == []


def test_zig_links_where_there_is_no_compiler(
    parts: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ziglang")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    assert find_compiler().kind == "zig"
    outputs = [tmp_path / name / "linked.abi3.so" for name in ("a", "b")]
    for output in outputs:
        build(parts, output, Cache(tmp_path / "cache"))
    assert float(call(outputs[0])) == pytest.approx(2 * 0.479425538604203)
    assert set(read_dynamic(outputs[0]).needed) <= {"libc.so.6", "libm.so.6", "libpthread.so.0"}
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
