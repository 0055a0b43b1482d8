"""A wheel around one built module, the same to the byte for the same module."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import struct
import tempfile
import zipfile
from pathlib import Path

from aotarray.errors import LinkError

#: The earliest time a zip file can hold.
_EPOCH = (1980, 1, 1, 0, 0, 0)
_VERSION = re.compile(
    r"(\d+!)?\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9]+(\.[a-z0-9]+)*)?"
)
_MACHINES = {62: "x86_64", 183: "aarch64"}


def write_wheel(module: Path, name: str, version: str, folder: Path) -> Path:
    """Write a wheel of the extension `module` (`NAME.abi3.so`) into `folder` and return its path.

    `name` and `version` are the distribution's (PEP 508, PEP 440). A stub `NAME.pyi` beside the module
    goes in as the stub package `NAME-stubs`, where PEP 561 has type checkers look for the types of a
    module that is no package. The wheel is for this machine's Linux: `auditwheel` widens its tag.

    Raises `ValueError` for a bad name, version or module, `LinkError` when the wheel cannot be written.
    """
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", name):
        raise ValueError(f"{name!r} is not the name of a distribution (letters, digits, '-', '_', '.')")
    if not _VERSION.fullmatch(version):
        raise ValueError(f"{version!r} is not a version in PEP 440's normal form, like 1.2 or 1.2rc1")
    stem = module.name.removesuffix(".abi3.so")
    if stem == module.name or not stem.isidentifier():
        raise ValueError(f"{module.name!r} is not a built module (NAME.abi3.so)")
    try:
        code = module.read_bytes()
        stub = module.with_name(f"{stem}.pyi")
        files = {module.name: code}
        if stub.is_file():
            files[f"{stem}-stubs/__init__.pyi"] = stub.read_bytes()
        tag = f"cp311-abi3-linux_{_machine(code, module)}"
        # The binary distribution format's spelling of names: runs of -_. become one underscore.
        escaped = f"{re.sub(r'[-_.]+', '_', name).lower()}-{version}"
        files |= _dist_info(f"{escaped}.dist-info", name, version, tag, files)
        folder.mkdir(parents=True, exist_ok=True)
        wheel = folder / f"{escaped}-{tag}.whl"
        with tempfile.TemporaryDirectory(prefix=".aotarray-wheel-", dir=folder) as beside:
            archive = Path(beside, wheel.name)
            _write_zip(archive, files)
            os.replace(archive, wheel)
    except OSError as error:
        raise LinkError(f"no wheel of {module}: {error.strerror or error} ({error.filename})") from error
    return wheel


def _machine(code: bytes, module: Path) -> str:
    if code[:6] != b"\x7fELF\x02\x01" or len(code) < 20:
        raise ValueError(f"{module} is not a 64-bit little-endian ELF file")
    (number,) = struct.unpack_from("<H", code, 18)
    if number not in _MACHINES:
        raise ValueError(f"{module} is for machine {number}, which has no wheel tag here")
    return _MACHINES[number]


def _dist_info(folder: str, name: str, version: str, tag: str, files: dict[str, bytes]) -> dict[str, bytes]:
    metadata = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        "Summary: NumPy functions compiled ahead of time by aotarray\n"
        "Requires-Python: >=3.11\nRequires-Dist: numpy>=2\n"
    )
    wheel = f"Wheel-Version: 1.0\nGenerator: aotarray\nRoot-Is-Purelib: false\nTag: {tag}\n"
    info = {f"{folder}/METADATA": metadata.encode(), f"{folder}/WHEEL": wheel.encode()}
    rows = [f"{path},sha256={_digest(data)},{len(data)}" for path, data in (files | info).items()]
    info[f"{folder}/RECORD"] = "\n".join([*rows, f"{folder}/RECORD,,", ""]).encode()
    return info


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _write_zip(path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = 3
            entry.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
