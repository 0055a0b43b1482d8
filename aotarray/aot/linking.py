"""Linking kernels and the launcher into a shared library: which compiler, which flags, and clear failures."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from aotarray.aot.elf import read_dynamic
from aotarray.compile.cache import Cache
from aotarray.errors import LinkError

_COMPILE = (
    "-O2", "-fPIC", "-std=c11", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections"
)  # fmt: skip
_LINK = (
    "-s", "-static-libgcc", "-Wl,--gc-sections", "-Wl,--as-needed", "-Wl,--build-id=none",
    "-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack",
)  # fmt: skip
#: The oldest glibc that zig links for: manylinux2014's.
_GLIBC = "2.17"
_INSTALL = """\
  Debian, Ubuntu:   apt install gcc python3-dev
  Fedora:           dnf install gcc python3-devel
  macOS:            xcode-select --install
  without a system package:   pip install ziglang"""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler that also links: the command's words, whose it is, and what it says of its version."""

    command: tuple[str, ...]
    kind: Literal["gcc", "clang", "zig", "cc"]
    version: str


def find_compiler() -> Compiler:
    """CC of the environment, else cc, gcc or clang on PATH, else the `ziglang` package.

    Raises `LinkError` saying what to install when there is none, or when CC does not run.
    """
    chosen = os.environ.get("CC", "").strip()
    if chosen:
        try:
            words = shlex.split(chosen)
        except ValueError as error:
            raise LinkError(f"the environment's CC={chosen!r} cannot be read: {error}") from None
        program = shutil.which(words[0]) if words else None
        if program is None:
            raise LinkError(f"the environment's CC={chosen!r} is not a program; unset or correct it")
        return _identify((program, *words[1:]))
    for name in ("cc", "gcc", "clang"):
        program = shutil.which(name)
        if program is not None:
            return _identify((program,))
    if importlib.util.find_spec("ziglang") is not None:
        return _identify((sys.executable, "-m", "ziglang", "cc"))
    raise LinkError(f"no C compiler to link with (CC, cc, gcc, clang, ziglang); install one:\n{_INSTALL}")


@functools.cache
def _identify(command: tuple[str, ...]) -> Compiler:
    result = _run((*command, "--version"), "asking for the compiler's version")
    version = result.stdout.decode(errors="replace").strip()
    kind: Literal["gcc", "clang", "zig", "cc"] = "cc"
    if "ziglang" in command or Path(command[0]).name == "zig":
        kind = "zig"
    elif "clang" in version:
        kind = "clang"
    elif "Free Software Foundation" in version:
        kind = "gcc"
    return Compiler(command, kind, version)


def python_include() -> Path:
    """The folder of Python.h of the running Python. Raises `LinkError` naming the package that has it."""
    folder = Path(sysconfig.get_path("include"))
    if not (folder / "Python.h").is_file():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise LinkError(
            f"{folder / 'Python.h'} is missing, but modules need it; install the headers for {version}:\n"
            f"  Debian, Ubuntu:   apt install python{version}-dev\n"
            f"  Fedora:           dnf install python3-devel\n"
            f"  macOS:            Python from python.org, Homebrew or uv has them"
        )
    return folder


def link(
    objects: Sequence[Path],
    output: Path,
    *,
    sources: Sequence[Path] = (),
    include: Sequence[Path] = (),
    defines: Mapping[str, str] | None = None,
    shared: bool = True,
    exports: Sequence[str] = ("PyInit_*",),
    cache: Cache | None = None,
) -> None:
    """Compile C `sources` and link them with `objects` into the shared library (or program) `output`.

    `defines` are macros; an empty value defines the bare name. Only symbols that match the patterns
    `exports` are visible from outside, and they must have default visibility. The result needs the C
    library alone, is the same to the byte for the same input and compiler, and appears whole or not at
    all. With `cache`, compiled sources are kept there (kind "object"). Folders of `output` are made.

    Raises `LinkError` with the command and the compiler's last words.
    """
    compiler = find_compiler()
    for path in (*objects, *sources):
        if not path.is_file():
            raise LinkError(f"{path} is to be linked into {output.name} but does not exist")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        # A folder beside the output: whatever a killed compiler leaves there goes, and the final rename
        # stays within one file system.
        with tempfile.TemporaryDirectory(prefix=".aotarray-link-", dir=output.parent) as name:
            folder = Path(name)
            compiled = []
            for number, source in enumerate(sources):
                compiled.append(folder / f"source{number}.o")
                _compile(compiler, source, compiled[-1], include, defines or {}, cache)
            product = folder / "product"
            command = [*compiler.command, *_target(compiler), *_LINK, "-o", str(product)]
            if shared:
                script = folder / "exports.map"
                visible = f"global: {'; '.join(exports)}; " if exports else ""
                script.write_text(f"{{ {visible}local: *; }};\n")
                command += ["-shared", f"-Wl,--version-script={script}"]
            command += [*map(os.path.abspath, (*compiled, *objects)), "-lm", "-lpthread"]
            _run(command, f"linking {output.name}", folder)
            if shared:
                _refuse_unresolved(product, output.name)
            os.replace(product, output)
    except OSError as error:
        why = f"{error.strerror or error} ({error.filename})"
        raise LinkError(f"{output} cannot be written: {why}") from error


def _compile(
    compiler: Compiler,
    source: Path,
    output: Path,
    include: Sequence[Path],
    defines: Mapping[str, str],
    cache: Cache | None,
) -> None:
    """Compile one source, or take the object from the cache: keyed, as ccache does, on what the
    preprocessor makes of the source, so that every header counts."""
    what = f"compiling {source.name}"
    flags = [*_target(compiler), *_COMPILE, f"-ffile-prefix-map={source.parent.absolute()}=."]
    macros = [f"-D{name}={value}" if value else f"-D{name}" for name, value in sorted(defines.items())]
    inputs = [*macros, *(f"-I{folder.absolute()}" for folder in include), str(source.absolute())]
    key = ""
    if cache is not None and cache.folder is not None:
        text = _run([*compiler.command, *flags, "-E", "-P", *inputs], what, output.parent).stdout
        # Both pull in files that the preprocessed text does not show.
        if b"incbin" not in text and b"embed" not in text:
            context = (*compiler.command, compiler.version, platform.machine(), *_target(compiler), *_COMPILE)
            key = Cache.key(*context, text)
            kept = cache.get(key, "object")
            if kept is not None:
                output.write_bytes(kept)
                return
    _run([*compiler.command, *flags, "-c", *inputs, "-o", str(output)], what, output.parent)
    if cache is not None and key:
        cache.put(key, output.read_bytes(), "object")


def _refuse_unresolved(library: Path, name: str) -> None:
    """A shared library may leave symbols open; anything but Python's would only fail when it is loaded."""
    dynamic = read_dynamic(library)
    absent = [symbol for symbol in dynamic.unresolved if not symbol.startswith(("Py", "_Py"))]
    if absent and platform.libc_ver()[0] == "glibc":
        raise LinkError(f"linking {name} failed: nothing defines {', '.join(absent)}")


def _target(compiler: Compiler) -> tuple[str, ...]:
    """zig compiles for this machine's processor and C library unless told otherwise; a module must run on
    every machine of its kind."""
    if compiler.kind != "zig":
        return ()
    libc = f"gnu.{_GLIBC}" if platform.libc_ver()[0] == "glibc" else "musl"
    return ("-target", f"{platform.machine()}-linux-{libc}", "-fno-sanitize=undefined")


def _run(
    command: Sequence[str], what: str, folder: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    environment = dict(os.environ, LC_ALL="C")
    if folder is not None:
        environment["TMPDIR"] = str(folder)
    try:
        result = subprocess.run(command, capture_output=True, env=environment, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise LinkError(f"{what} failed: {command[0]} does not run ({error.strerror})") from error
    if result.returncode:
        said = (result.stderr or result.stdout).decode(errors="replace").strip().splitlines()[-20:]
        raise LinkError(
            f"{what} failed (exit status {result.returncode})\n"
            f"{shlex.join(command)}\n" + "\n".join(f"  {line}" for line in said) + _hint("\n".join(said))
        )
    return result


def _hint(said: str) -> str:
    if "Python.h" in said:
        return f"\nPython's headers are missing; install a compiler and headers:\n{_INSTALL}"
    if ".h: No such file" in said or "file not found" in said or "cannot find crt" in said:
        return f"\nThe C library's headers may be missing; install a complete compiler:\n{_INSTALL}"
    return ""
