"""An extension module from machine code: the module itself, its stub, its source and its manifest."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aotarray.aot.linking import link, python_include
from aotarray.aot.module_data import Function, Variant, module_data
from aotarray.compile.cache import Cache
from aotarray.errors import LinkError

_RUNTIME = Path(__file__).resolve().parent.parent / "runtime"
_SUFFIX = ".abi3.so" if sys.platform != "win32" else ".pyd"


@dataclass(frozen=True)
class BuildResult:
    """What `build` wrote: the module's path, and all files with it first."""

    path: Path
    files: tuple[Path, ...]


def write_extension(
    name: str, folder: Path, functions: Sequence[Function], variants: Sequence[Variant],
    objects: Sequence[bytes], sidecars: Mapping[str, str], cache: Cache,
) -> BuildResult:  # fmt: skip
    """Link `objects` (kernels of all variants) into `<folder>/<name>.abi3.so` and write `sidecars` beside it.

    Sidecars are file names and texts. Nothing half-written stays when anything fails.
    """
    make_folder(folder)
    path = folder / f"{name}{_SUFFIX}"
    with tempfile.TemporaryDirectory(prefix="aotarray-") as work_name:
        work = Path(work_name)
        data = work / f"{name}.c"
        data.write_text(module_data(name, functions, variants, module_doc(functions)))
        files = []
        for number, code in enumerate(objects):
            files.append(work / f"kernels{number}.o")
            files[-1].write_bytes(code)
        include = [python_include(), _RUNTIME]
        link(
            files, path, sources=[_RUNTIME / "launcher.c", data], include=include,
            defines={"AOTARRAY_MODULE": ""}, exports=(f"PyInit_{name}",), cache=cache,
        )  # fmt: skip
    written = [path]
    for file, text in sidecars.items():
        written.append(folder / file)
        write_text(written[-1], text)
    return BuildResult(path, tuple(written))


def make_folder(folder: Path) -> None:
    """Make a folder that files can be written into; LinkError where that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        if folder.exists() and not folder.is_dir():
            reason = "is a file, not a folder"
        else:
            reason = f"cannot be written into: {error.strerror}"
        raise LinkError(f"{folder} {reason}; choose another folder with --out") from error


def module_doc(functions: Sequence[Function]) -> str:
    """A built module's docstring: the signatures of its functions."""
    lines = [f"    {f.name}{version.spec}" for f in functions for version in f.overloads]
    return "\n".join(["Functions compiled ahead of time by aotarray.", "", *lines])


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


_ANNOTATION = {
    "b1": "np.bool_", "i8": "np.int8", "i16": "np.int16", "i32": "np.int32", "i64": "np.int64", "u8": "np.uint8",
    "u16": "np.uint16", "u32": "np.uint32", "u64": "np.uint64", "f16": "np.float16", "f32": "np.float32",
    "f64": "np.float64", "c64": "np.complex64", "c128": "np.complex128",
}  # fmt: skip


def stub(functions: Sequence[Function]) -> str:
    """The module's type stub: one overload for each version."""
    lines = [
        "from typing import Any, overload",
        "",
        "import numpy as np",
        "from numpy.typing import NDArray",
        "",
    ]
    for function in functions:
        several = len(function.overloads) > 1
        for version in function.overloads:
            if several:
                lines.append("@overload")
            parameters = [
                f"{p}: {_annotation(t, [(a.dtype, a.weak) for a in version.program.args])}"
                for p, t in zip(function.parameters, version.parameters, strict=True)
            ]
            outputs = [(version.program.buffers[o].dtype, "") for o in version.program.outputs]
            result = _annotation(version.result, outputs)
            lines.append(
                f"def {function.name}({', '.join([*parameters, '*', 'out: Any = ...'])}) -> {result}:"
            )
            lines += [f'    """{version.spec}"""', "    ..."]
    lines += ["", "__signatures__: tuple[str, ...]", "__variant__: str", ""]
    lines += ["def get_num_threads() -> int: ...", "def set_num_threads(n: int, /) -> None: ..."]
    lines += ["def trim_memory() -> int: ..."]
    return "\n".join(lines) + "\n"


def _annotation(tree: tuple[object, ...], leaves: Sequence[tuple[str, str]]) -> str:
    kind = tree[0]
    if kind == "leaf":
        dtype, weak = leaves[tree[1]]  # type: ignore[call-overload]
        return weak or f"NDArray[{_ANNOTATION[dtype]}]"
    if kind == "none":
        return "None"
    children = [_annotation(c, leaves) for c in tree[-1]]  # type: ignore[attr-defined]
    if kind == "tuple":
        return f"tuple[{', '.join(children) or '()'}]"
    if kind == "list":
        return f"list[{' | '.join(sorted(set(children))) or 'Any'}]"
    return f"dict[str, {' | '.join(sorted(set(children))) or 'Any'}]"


def manifest(
    name: str, functions: Sequence[Function], variants: Sequence[Variant], versions: Mapping[str, str]
) -> str:
    """What the module holds and what made it, as JSON."""
    content = {
        "module": name,
        "functions": {f.name: [v.spec for v in f.overloads] for f in functions},
        "target": "cpu",
        "variants": [v.name for v in variants],
        "versions": dict(versions),
    }
    return json.dumps(content, indent=2, sort_keys=True) + "\n"
