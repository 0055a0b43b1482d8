"""What a linked ELF file asks of the system: the libraries it names and the symbols it leaves open."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

_SHT_DYNAMIC, _SHT_DYNSYM, _SHT_VERSYM = 6, 11, 0x6FFFFFFF
_DT_NEEDED = 1
_STB_WEAK = 2


@dataclass(frozen=True, slots=True)
class Dynamic:
    """`needed` libraries; `unresolved` strong symbols that no named library was seen to define; `exported`
    symbols. With a C library that has no symbol versions (musl) its functions count as unresolved too."""

    needed: tuple[str, ...]
    unresolved: tuple[str, ...]
    exported: tuple[str, ...]


def read_dynamic(path: Path) -> Dynamic:
    """Read a 64-bit little-endian shared library that our linker just wrote."""
    blob = path.read_bytes()
    (start,) = struct.unpack_from("<Q", blob, 40)
    size, count = struct.unpack_from("<HH", blob, 58)
    # name, type, flags, address, offset, size, link
    rows = [struct.unpack_from("<IIQQQQI", blob, start + i * size) for i in range(count)]
    contents = {row[1]: blob[row[4] : row[4] + row[5]] for row in rows}
    strings = {row[1]: rows[row[6]][4] for row in rows if row[1] in (_SHT_DYNAMIC, _SHT_DYNSYM)}

    def text(table: int, offset: int) -> str:
        begin = strings[table] + offset
        return blob[begin : blob.index(b"\0", begin)].decode()

    needed = tuple(
        text(_SHT_DYNAMIC, value)
        for tag, value in struct.iter_unpack("<qQ", contents.get(_SHT_DYNAMIC, b""))
        if tag == _DT_NEEDED
    )
    symbols = list(struct.iter_unpack("<IBBHQQ", contents.get(_SHT_DYNSYM, b"")))[1:]
    versions = [index & 0x7FFF for (index,) in struct.iter_unpack("<H", contents.get(_SHT_VERSYM, b""))][1:]
    unresolved, exported = [], []
    for number, (name, info, _, section, _, _) in enumerate(symbols):
        if section:
            exported.append(text(_SHT_DYNSYM, name))
        # The linker notes a version for each symbol that it found in the C library.
        elif info >> 4 != _STB_WEAK and (not versions or versions[number] < 2):
            unresolved.append(text(_SHT_DYNSYM, name))
    return Dynamic(needed, tuple(sorted(unresolved)), tuple(sorted(exported)))
