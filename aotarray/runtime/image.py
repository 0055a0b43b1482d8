"""A small static linker: one relocatable ELF object becomes an image that runs at any page-aligned address.

    offset 0      .text*, then one stub per imported function that is called directly
                  .rodata*
    got_offset    one 8-byte slot per imported symbol, then .data.rel.ro*      (page-aligned)

Whoever maps the image copies it, writes the address of each import into its slots, then makes the part
before `got_offset` read-execute and the rest read-only. Formats: the System V ABI's "Object Files" chapter
with the x86-64 psABI and "ELF for the Arm 64-bit Architecture" (IHI 0056).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from aotarray.errors import CompileError


@dataclass(frozen=True, slots=True)
class Image:
    """Position-independent machine code with its data.

    `imports` holds (offset of an 8-byte word, name of the C symbol whose address it must hold), all of
    them at or after `got_offset`; `symbols` the offset of every global function.
    """

    code: bytes
    imports: tuple[tuple[int, str], ...]
    got_offset: int
    symbols: dict[str, int]


_SHT_PROGBITS, _SHT_SYMTAB, _SHT_RELA, _SHT_REL = 1, 2, 4, 9
_SHF_WRITE, _SHF_ALLOC, _SHF_EXECINSTR, _SHF_TLS, _SHF_COMPRESSED = 0x1, 0x2, 0x4, 0x400, 0x800
_SHN_UNDEF, _SHN_LORESERVE, _SHN_COMMON = 0, 0xFF00, 0xFFF2
_STB_LOCAL = 0
_STT_FUNC, _STT_TLS, _STT_IFUNC = 2, 6, 10
_EM_X86_64, _EM_AARCH64 = 62, 183
#: The largest page of each machine's kernels, so that `got_offset` starts a page everywhere.
_PAGE = {_EM_X86_64: 4096, _EM_AARCH64: 65536}
#: Displacements have 32 bits; a kernel with its constants stays far below.
_MAX_IMAGE = 1 << 30

# What a relocation asks for. CALL may go through a stub, GOT goes through a slot (or is relaxed to the
# symbol itself), ABS is a whole address; all others need the symbol to be inside the image.
_X86 = {
    1: ("R_X86_64_64", "abs"),
    2: ("R_X86_64_PC32", "near"),
    4: ("R_X86_64_PLT32", "call"),
    9: ("R_X86_64_GOTPCREL", "got"),
    24: ("R_X86_64_PC64", "near"),
    41: ("R_X86_64_GOTPCRELX", "got"),
    42: ("R_X86_64_REX_GOTPCRELX", "got"),
}
_ARM = {
    257: ("R_AARCH64_ABS64", "abs"),
    260: ("R_AARCH64_PREL64", "near"),
    261: ("R_AARCH64_PREL32", "near"),
    273: ("R_AARCH64_LD_PREL_LO19", "near"),
    274: ("R_AARCH64_ADR_PREL_LO21", "near"),
    275: ("R_AARCH64_ADR_PREL_PG_HI21", "near"),
    277: ("R_AARCH64_ADD_ABS_LO12_NC", "near"),
    278: ("R_AARCH64_LDST8_ABS_LO12_NC", "near"),
    279: ("R_AARCH64_TSTBR14", "near"),
    280: ("R_AARCH64_CONDBR19", "near"),
    282: ("R_AARCH64_JUMP26", "call"),
    283: ("R_AARCH64_CALL26", "call"),
    284: ("R_AARCH64_LDST16_ABS_LO12_NC", "near"),
    285: ("R_AARCH64_LDST32_ABS_LO12_NC", "near"),
    286: ("R_AARCH64_LDST64_ABS_LO12_NC", "near"),
    299: ("R_AARCH64_LDST128_ABS_LO12_NC", "near"),
    311: ("R_AARCH64_ADR_GOT_PAGE", "got"),
    312: ("R_AARCH64_LD64_GOT_LO12_NC", "got"),
}
_KINDS = {_EM_X86_64: _X86, _EM_AARCH64: _ARM}
#: log2 of the access size of each LO12 relocation, by which its immediate is scaled.
_ARM_LO12 = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}
#: (bits, position) of the word-scaled branch and load immediates.
_ARM_BRANCH = {273: (19, 5), 279: (14, 5), 280: (19, 5), 282: (26, 0), 283: (26, 0)}


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    binding: int
    type: int
    section: int
    value: int


@dataclass(frozen=True, slots=True)
class _Relocation:
    section: int
    offset: int
    type: int
    name: str
    kind: str
    symbol: _Symbol
    addend: int


@dataclass(frozen=True, slots=True)
class _Object:
    data: bytes
    machine: int
    sections: list[_Section]
    symbols: list[_Symbol]
    relocations: list[_Relocation]


def image_from_object(obj: bytes) -> Image:
    """Lay out and relocate one ELF64 little-endian relocatable object for x86-64 or aarch64.

    Raises `CompileError`, naming the section, symbol or relocation, when the object is damaged, has state
    (`.data`, `.bss`, thread-local storage) or needs something that this linker does not do.
    """
    parsed = _parse(obj)
    layout = _Layout(parsed)
    patch = _patch_x86 if parsed.machine == _EM_X86_64 else _patch_aarch64
    for relocation in parsed.relocations:
        if relocation.kind == "abs":
            layout.import_word(relocation)
        else:
            patch(layout, relocation)
    return layout.image()


# ---- reading -------------------------------------------------------------------------------------------


def _parse(obj: bytes) -> _Object:
    if len(obj) < 64 or obj[:7] != b"\x7fELF\x02\x01\x01":
        raise CompileError("the object file is not a 64-bit little-endian ELF file")
    kind, machine = struct.unpack_from("<HH", obj, 16)
    if kind != 1 or machine not in _KINDS:
        raise CompileError(
            f"the object file has ELF type {kind} for machine {machine}, "
            "not a relocatable one for x86-64 or aarch64"
        )
    sections = _sections(obj)
    symbols = _symbols(obj, sections)
    return _Object(obj, machine, sections, symbols, _relocations(obj, machine, sections, symbols))


def _slice(obj: bytes, offset: int, size: int, what: str) -> bytes:
    if offset + size > len(obj):
        raise CompileError(f"the object file is damaged: {what} ends past the end of the file")
    return obj[offset : offset + size]


def _string(table: bytes, offset: int) -> str:
    end = table.find(b"\0", offset)
    if offset >= len(table) or end < 0:
        raise CompileError("the object file is damaged: a name lies outside its string table")
    try:
        return table[offset:end].decode("utf-8")
    except UnicodeDecodeError:
        damaged = f"the object file is damaged: the name {table[offset:end]!r} is not text"
        raise CompileError(damaged) from None


def _sections(obj: bytes) -> list[_Section]:
    (start,) = struct.unpack_from("<Q", obj, 40)
    entry, count, names = struct.unpack_from("<HHH", obj, 58)
    if entry != 64 or names >= count:
        raise CompileError("the object file is damaged: its section header table makes no sense")
    rows = list(struct.iter_unpack("<IIQQQQIIQQ", _slice(obj, start, 64 * count, "the section header table")))
    table = _slice(obj, rows[names][4], rows[names][5], "the table of section names")
    return [
        _Section(_string(table, name) if kind else "", kind, flags, offset, size, link, info, max(align, 1))
        for name, kind, flags, _, offset, size, link, info, align, _ in rows
    ]


def _symbols(obj: bytes, sections: list[_Section]) -> list[_Symbol]:
    tables = [section for section in sections if section.type == _SHT_SYMTAB]
    if len(tables) != 1:
        raise CompileError(f"the object file has {len(tables)} symbol tables instead of one")
    table = tables[0]
    if table.size % 24 or table.link >= len(sections):
        raise CompileError("the object file is damaged: its symbol table makes no sense")
    strings = sections[table.link]
    names = _slice(obj, strings.offset, strings.size, f"section {strings.name}")
    symbols = []
    for name, info, _, section, value, _ in struct.iter_unpack(
        "<IBBHQQ", _slice(obj, table.offset, table.size, f"section {table.name}")
    ):
        symbol = _Symbol(_string(names, name) if name else "", info >> 4, info & 15, section, value)
        if section == _SHN_COMMON or symbol.type in (_STT_TLS, _STT_IFUNC):
            raise CompileError(f"symbol {symbol.name!r} is common, thread-local or indirect, not plain code")
        if section < _SHN_LORESERVE:
            if section >= len(sections):
                raise CompileError(f"the object file is damaged: symbol {symbol.name!r} has no section")
            if section != _SHN_UNDEF and value > sections[section].size:
                raise CompileError(f"the object file is damaged: symbol {symbol.name!r} leaves its section")
        symbols.append(symbol)
    return symbols


def _relocations(
    obj: bytes, machine: int, sections: list[_Section], symbols: list[_Symbol]
) -> list[_Relocation]:
    kinds = _KINDS[machine]
    result = []
    for table in sections:
        if table.type not in (_SHT_RELA, _SHT_REL):
            continue
        if table.info >= len(sections):
            raise CompileError(f"the object file is damaged: {table.name} relocates no section")
        target = sections[table.info]
        if not _kept(target):
            continue
        if table.type == _SHT_REL or table.size % 24:
            raise CompileError(f"section {table.name} does not hold relocations with addends")
        for offset, info, addend in struct.iter_unpack(
            "<QQq", _slice(obj, table.offset, table.size, f"section {table.name}")
        ):
            number, index = info & 0xFFFFFFFF, info >> 32
            if number == 0:
                continue
            if number not in kinds:
                raise CompileError(f"relocation type {number} in section {target.name} is not supported")
            name, kind = kinds[number]
            if index >= len(symbols):
                raise CompileError(f"the object file is damaged: {name} in {target.name} names no symbol")
            width = 8 if kind == "abs" or number in (24, 260) else 4
            if offset + width > target.size:
                raise CompileError(f"the object file is damaged: {name} lies outside section {target.name}")
            result.append(_Relocation(table.info, offset, number, name, kind, symbols[index], addend))
    return result


def _kept(section: _Section) -> bool:
    """Whether a section goes into the image. Unwind tables do not: kernels raise nothing."""
    if not section.flags & _SHF_ALLOC or not section.size:
        return False
    if section.name.startswith((".eh_frame", ".note", ".gcc_except_table")):
        return False
    if section.flags & _SHF_WRITE and not section.name.startswith(".data.rel.ro"):
        raise CompileError(f"section {section.name} is writable: kernels hold no state")
    if section.type != _SHT_PROGBITS or section.flags & (_SHF_TLS | _SHF_COMPRESSED):
        what = f"section {section.name} (type {section.type}, flags {section.flags:#x})"
        raise CompileError(f"{what} is not supported")
    return True


# ---- layout --------------------------------------------------------------------------------------------


class _Layout:
    """Where everything lies in the image, and the bytes of the image."""

    def __init__(self, obj: _Object) -> None:
        self.obj = obj
        self.code = bytearray()
        self.places: dict[int, int] = {}
        self.imports: list[tuple[int, str]] = []
        self.slots: dict[str, int] = {}
        self.stubs: dict[str, int] = {}
        kept = [(i, s) for i, s in enumerate(obj.sections) if _kept(s)]
        outside = [r for r in obj.relocations if r.symbol.section == _SHN_UNDEF]
        for r in outside:
            if not r.symbol.name or r.kind == "near":
                raise self.fail(r, "the instruction needs the symbol to be in the object")
        called = sorted({r.symbol.name for r in outside if r.kind == "call"})
        imported = sorted({r.symbol.name for r in outside if r.kind in ("call", "got")})

        self._place([(i, s) for i, s in kept if s.flags & _SHF_EXECINSTR])
        stub_size = 8 if obj.machine == _EM_X86_64 else 16
        self._align(16)
        for name in called:
            self.stubs[name] = len(self.code)
            self.code += bytes(stub_size)
        self._place([(i, s) for i, s in kept if not s.flags & (_SHF_EXECINSTR | _SHF_WRITE)])
        self._align(_PAGE[obj.machine])
        self.got_offset = len(self.code)
        for name in imported:
            self.slots[name] = len(self.code)
            self.imports.append((len(self.code), name))
            self.code += bytes(8)
        self._place([(i, s) for i, s in kept if s.flags & _SHF_WRITE])
        self._write_stubs()

    def _align(self, align: int) -> None:
        self.code += bytes(-len(self.code) % align)

    def _place(self, sections: list[tuple[int, _Section]]) -> None:
        for index, section in sections:
            if section.align & (section.align - 1) or section.align > 4096:
                raise CompileError(f"section {section.name} wants an alignment of {section.align} bytes")
            self._align(section.align)
            self.places[index] = len(self.code)
            self.code += _slice(self.obj.data, section.offset, section.size, f"section {section.name}")
            if len(self.code) > _MAX_IMAGE:
                raise CompileError("the machine code with its constants exceeds 1 GiB")

    def _write_stubs(self) -> None:
        for name, stub in self.stubs.items():
            slot = self.slots[name]
            if self.obj.machine == _EM_X86_64:  # jmp *slot(%rip); int3; int3
                struct.pack_into("<BBiBB", self.code, stub, 0xFF, 0x25, slot - (stub + 6), 0xCC, 0xCC)
            else:  # adrp x16, slot; ldr x17, [x16, #:lo12:slot]; br x17; nop
                page = _adrp(0x90000010, (slot >> 12) - (stub >> 12))
                low = 0xF9400211 | (slot & 0xFFF) >> 3 << 10
                struct.pack_into("<IIII", self.code, stub, page, low, 0xD61F0220, 0xD503201F)

    def fail(self, r: _Relocation, why: str) -> CompileError:
        where = f"{r.name} at {r.offset:#x} in section {self.obj.sections[r.section].name}"
        return CompileError(f"{where} against {r.symbol.name!r}: {why}")

    def place(self, r: _Relocation) -> int:
        """Where in the image the relocation applies."""
        return self.places[r.section] + r.offset

    def address(self, r: _Relocation) -> int:
        """Where in the image the symbol lies: for an imported function, its stub."""
        symbol = r.symbol
        if symbol.section == _SHN_UNDEF:
            return self.stubs[symbol.name]
        if symbol.section not in self.places:
            raise self.fail(r, "the symbol is absolute or in a section that is not loaded")
        return self.places[symbol.section] + symbol.value

    def import_word(self, r: _Relocation) -> None:
        """A word of `.data.rel.ro` that holds an imported symbol's address is a slot of its own."""
        place = self.place(r)
        if r.symbol.section != _SHN_UNDEF:
            raise self.fail(r, "an absolute address inside the image is not known before it is loaded")
        if place < self.got_offset or r.addend or place % 8:
            raise self.fail(r, "the address of an imported symbol must lie aligned in .data.rel.ro")
        self.imports.append((place, r.symbol.name))

    def image(self) -> Image:
        symbols: dict[str, int] = {}
        for symbol in self.obj.symbols:
            if symbol.type == _STT_FUNC and symbol.binding != _STB_LOCAL and symbol.section in self.places:
                if symbol.name in symbols:
                    raise CompileError(f"the object file defines {symbol.name!r} twice")
                symbols[symbol.name] = self.places[symbol.section] + symbol.value
        return Image(bytes(self.code), tuple(self.imports), self.got_offset, symbols)


# ---- relocating ----------------------------------------------------------------------------------------


def _patch_x86(layout: _Layout, r: _Relocation) -> None:
    place, code = layout.place(r), layout.code
    if r.kind != "got":
        target = layout.address(r)
    elif r.symbol.section == _SHN_UNDEF:
        target = layout.slots[r.symbol.name]
    else:
        target = layout.address(r)
        opcode = bytes(code[place - 2 : place]) if r.offset >= 2 and r.addend == -4 else b""
        if opcode[:1] == b"\x8b" and opcode[1] & 0xC7 == 0x05:  # mov slot(%rip), %r -> lea symbol(%rip), %r
            code[place - 2] = 0x8D
        elif opcode == b"\xff\x15":  # call *slot(%rip) -> addr32 call symbol
            code[place - 2 : place] = b"\x67\xe8"
        elif opcode == b"\xff\x25":  # jmp *slot(%rip) -> jmp symbol; nop
            struct.pack_into("<BiB", code, place - 2, 0xE9, target - (place + 3), 0x90)
            return
        else:
            raise layout.fail(r, "the instruction reads an address that is not known before loading")
    value = target + r.addend - place
    width = 8 if r.type == 24 else 4
    try:
        code[place : place + width] = value.to_bytes(width, "little", signed=True)
    except OverflowError:
        raise layout.fail(r, "the distance does not fit") from None


def _adrp(instruction: int, pages: int) -> int:
    """`adrp`/`adr` with its 21-bit immediate: the low two bits at 29, the others at 5."""
    return instruction & ~0x60FFFFE0 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5


def _patch_aarch64(layout: _Layout, r: _Relocation) -> None:
    place, code = layout.place(r), layout.code
    in_slot = r.kind == "got" and r.symbol.section == _SHN_UNDEF
    if r.kind == "got" and r.addend:
        raise layout.fail(r, "the slot of a symbol plus an offset is not supported")
    target = (layout.slots[r.symbol.name] if in_slot else layout.address(r)) + r.addend
    distance = target - place
    if r.type in (260, 261):
        width = 8 if r.type == 260 else 4
        try:
            code[place : place + width] = distance.to_bytes(width, "little", signed=True)
        except OverflowError:
            raise layout.fail(r, "the distance does not fit") from None
        return
    (instruction,) = struct.unpack_from("<I", code, place)
    if r.type in (274, 275, 311):
        steps = distance if r.type == 274 else (target >> 12) - (place >> 12)
        if not -(1 << 20) <= steps < 1 << 20:
            raise layout.fail(r, "the distance does not fit")
        instruction = _adrp(instruction, steps)
    elif r.type == 312 and not in_slot:  # ldr xd, [xn, :got_lo12:s] -> add xd, xn, :lo12:s
        instruction = 0x91000000 | instruction & 0x3FF | (target & 0xFFF) << 10
    elif r.type in _ARM_LO12 or r.type == 312:
        scale = 3 if r.type == 312 else _ARM_LO12[r.type]
        if target & ((1 << scale) - 1):
            raise layout.fail(r, "the symbol is not aligned for the access")
        instruction = instruction & ~(0xFFF << 10) | (target & 0xFFF) >> scale << 10
    else:
        bits, position = _ARM_BRANCH[r.type]
        if distance & 3 or not -(1 << bits + 1) <= distance < 1 << bits + 1:
            raise layout.fail(r, "the distance does not fit")
        mask = (1 << bits) - 1
        instruction = instruction & ~(mask << position) | (distance >> 2 & mask) << position
    struct.pack_into("<I", code, place, instruction)
