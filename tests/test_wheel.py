"""A wheel of a built module installs with pip, checks against its RECORD, and is reproducible."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from aotarray.aot.linking import link, python_include
from aotarray.aot.wheel import write_wheel
from aotarray.errors import LinkError

SOURCE = """
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "fast", "built", 0, NULL, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit_fast(void) { return PyModule_Create(&module); }
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    (folder / "fast.c").write_text(SOURCE)
    module = folder / "fast.abi3.so"
    link([], module, sources=[folder / "fast.c"], include=[python_include()])
    (folder / "fast.pyi").write_text("def compute(x: float) -> float: ...\n")
    return module


def test_pip_installs_it_into_a_fresh_environment(built: Path, tmp_path: Path) -> None:
    wheel = write_wheel(built, "My.Fast-Code", "1.2rc1", tmp_path / "dist")
    assert wheel.name == f"my_fast_code-1.2rc1-cp311-abi3-linux_{os.uname().machine}.whl"
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "-q", "--no-deps", "--no-index", str(wheel)], check=True)
    code = (
        "import fast, importlib.metadata as m; d = m.distribution('my-fast-code');"
        "print(fast.__doc__, d.version, d.requires, sorted(map(str, d.files))[:2])"
    )
    said = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "built 1.2rc1 ['numpy>=2'] ['fast-stubs/__init__.pyi', 'fast.abi3.so']\n"


def test_the_same_module_gives_the_same_wheel(built: Path, tmp_path: Path) -> None:
    first = write_wheel(built, "fast", "1", tmp_path / "a").read_bytes()
    os.utime(built, (time.time() - 1e6,) * 2)
    assert write_wheel(built, "fast", "1", tmp_path / "b").read_bytes() == first
    assert len(list((tmp_path / "b").iterdir())) == 1


def test_the_record_names_every_file(built: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(write_wheel(built, "fast", "1", tmp_path)) as archive:
        names = archive.namelist()
        record = archive.read("fast-1.dist-info/RECORD").decode().splitlines()
        assert archive.read("fast.abi3.so") == built.read_bytes()
        assert archive.getinfo("fast.abi3.so").external_attr >> 16 & 0o777 == 0o755
    assert [row.split(",")[0] for row in record] == names


@pytest.mark.parametrize(
    ("name", "version", "message"),
    [("a b", "1", "'a b' is not the name"), ("../a", "1", "is not the name"), ("a", "1-x/..", "PEP 440")],
)
def test_bad_names_and_versions(built: Path, tmp_path: Path, name: str, version: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        write_wheel(built, name, version, tmp_path)


def test_what_is_no_module(built: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'fast\.pyi' is not a built module"):
        write_wheel(built.with_name("fast.pyi"), "fast", "1", tmp_path)
    (tmp_path / "text.abi3.so").write_text("text")
    with pytest.raises(ValueError, match="not a 64-bit little-endian ELF"):
        write_wheel(tmp_path / "text.abi3.so", "fast", "1", tmp_path)
    with pytest.raises(LinkError, match=r"gone\.abi3\.so: No such file"):
        write_wheel(tmp_path / "gone.abi3.so", "fast", "1", tmp_path)
    with pytest.raises(LinkError, match=r"text\.abi3\.so.*\)|File exists"):
        write_wheel(built, "fast", "1", tmp_path / "text.abi3.so")
