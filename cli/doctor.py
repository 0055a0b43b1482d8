"""`aotarray doctor`: what works on this machine, and what to install for the rest."""

from __future__ import annotations

import ctypes
import os
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

import click

import aotarray

from .options import debug_option, size_text


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `problem` says what to do when the thing is needed and missing."""

    topic: str
    text: str
    problem: str = ""


@click.command()
@debug_option
@click.pass_context
def doctor(ctx: click.Context) -> None:
    """Say what works on this machine and what to install.

    Looks at Python's packages, the linker, the processor, threads, the cache and the GPU. The exit code is 1
    when something is missing that `aotarray build` needs.
    """
    problems = []
    for finding in findings():
        click.echo(f"{finding.topic:<10} {finding.text}")
        if finding.problem:
            problems.append(finding.problem)
            indented = finding.problem.replace("\n", f"\n{'':<14}")
            click.echo(f"{'':<10} -> {indented}")
    click.echo()
    if problems:
        click.echo("Not ready: see the arrows above.")
        ctx.exit(1)
    click.echo("Ready: jit and build for the CPU work here.")


def findings() -> Iterator[Finding]:
    """Everything the doctor looks at, in order."""
    yield Finding("aotarray", f"{aotarray.__version__}, Python {platform.python_version()}")
    for name in ("numpy", "numba", "llvmlite"):
        yield _package(name)
    yield _linker()
    yield _processor()
    yield _threads()
    yield _cache()
    yield Finding("GPU", gpu())
    yield from _extras()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _package(name: str) -> Finding:
    version = _version(name)
    if version is None:
        return Finding(name, "missing", f"pip install {name}")
    return Finding(name, version)


def _linker() -> Finding:
    from aotarray import api

    try:
        compiler = api.find_compiler()
    except aotarray.AotarrayError as error:
        return Finding("linker", "missing: jit works, build does not", str(error))
    version = compiler.version.partition("\n")[0]
    return Finding("linker", f"{' '.join(compiler.command)} ({version})")


# Instruction sets of the levels: x86-64 psABI, section 3.1.1; names as in /proc/cpuinfo.
_LEVELS = (
    ("v2", "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3"),
    ("v3", "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"),
    ("v4", "avx512f avx512bw avx512cd avx512dq avx512vl"),
)


def cpu_level(flags: set[str]) -> str:
    """The highest x86-64 level whose instructions are all among `flags`."""
    level = "v1"
    for name, needed in _LEVELS:
        if not flags.issuperset(needed.split()):
            break
        level = name
    return level


def _processor() -> Finding:
    machine = platform.machine()
    if machine not in ("x86_64", "AMD64"):
        return Finding("CPU", machine, "machine code is made for x86-64 so far")
    try:
        with open("/proc/cpuinfo") as file:
            text = file.read()
    except OSError:
        return Finding("CPU", f"{machine}, level unknown")
    model = re.search(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)
    found = re.search(r"^flags\s*:\s*(.*)$", text, re.MULTILINE)
    level = cpu_level(set(found[1].split()) if found else set())
    problem = "built modules need an x86-64-v2 processor (2009 or later)" if level == "v1" else ""
    text = f"x86-64-{level}, {model[1] if model else machine}"
    asked = os.environ.get("AOTARRAY_CPU")
    if asked:
        from aotarray import api

        try:
            text += f"; AOTARRAY_CPU asks for x86-64-{api.host_level()}"
        except ValueError as error:
            problem = f"{error}: correct or unset it"
    return Finding("CPU", text, problem)


def _threads() -> Finding:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Finding(
        "threads",
        f"{aotarray.get_num_threads()} of {usable} usable processors (AOTARRAY_NUM_THREADS changes it)",
    )


def _cache() -> Finding:
    from aotarray import api

    try:
        info = api.cache().info()
    except aotarray.AotarrayError as error:
        return Finding("cache", "unusable", str(error))
    if info.folder is None:
        return Finding("cache", f"off: {info.reason}")
    return Finding("cache", f"{info.folder}: {info.count} entries, {size_text(info.bytes)}")


def gpu() -> str:
    """What the NVIDIA driver says, asked through libcuda itself: no CUDA package is needed."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver (libcuda.so.1) found"
    status = cuda.cuInit(0)
    if status != 0:
        return f"the NVIDIA driver is installed but cuInit fails with error {status}"
    count, version = ctypes.c_int(), ctypes.c_int()
    cuda.cuDeviceGetCount(ctypes.byref(count))
    cuda.cuDriverGetVersion(ctypes.byref(version))
    names = []
    for index in range(count.value):
        device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
        if cuda.cuDeviceGet(ctypes.byref(device), index) == 0:
            cuda.cuDeviceGetName(name, len(name), device)
            names.append(name.value.decode())
    shown = ", ".join(names) or "no device"
    return f"{shown}; driver for CUDA {version.value // 1000}.{version.value % 1000 // 10}"


def _extras() -> Iterator[Finding]:
    """Which optional packages are there, from this package's own metadata."""
    wanted: dict[str, list[str]] = {}
    for requirement in metadata.requires("aotarray") or []:
        match = re.match(r"([A-Za-z0-9._-]+).*extra == [\"']([^\"']+)[\"']", requirement)
        if match:
            wanted.setdefault(match[2], []).append(match[1])
    for extra, names in wanted.items():
        missing = [name for name in names if _version(name) is None]
        text = "installed" if not missing else f'not installed: pip install "aotarray[{extra}]"'
        yield Finding(f"[{extra}]", text)
