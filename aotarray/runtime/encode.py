"""Programs as 64-bit words: the form that `launcher.c` reads, for `jit` and inside built modules.

A header of fixed length comes first, then tables of fixed-size rows, then lists of varying length that
rows point into by word number, then the texts as NUL-ended UTF-8. `launcher.c` declares each row as a
struct of `int64_t` under the same name; the two are changed together, with `MAGIC`. What a table may
refer to is checked here, once, so that the launcher need not check it on each call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from aotarray.program import (
    DTYPES,
    Arg,
    Buffer,
    Check,
    Collapse,
    KernelCall,
    LibraryCall,
    Program,
    RaiseIf,
    Size,
    SizeOp,
)

MAGIC = 0x1_544F41  # "AOT", format 1
HEADER = 21  # words in `Header`
ITEMSIZE = dict(zip(DTYPES, (1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 8, 16)))

_WEAK = ("", "bool", "int", "float", "complex")
_SIZE_OPS = ("dim", "const", "add", "sub", "mul", "floordiv", "mod", "min", "max")
_RELATIONS = ("eq", "ne", "ge")
_KINDS = ("arg", "out", "temp", "const", "alias")
_EXCEPTIONS = ("IndexError", "ValueError")
_KERNEL, _LIBRARY, _RAISE = range(3)
_INSTRUCTION = 14  # words in `Instruction`


def encode(program: Program) -> bytes:
    """The words of `program`, as little-endian bytes. Raises ValueError for a program that refers to what it lacks."""
    return b"".join(word.to_bytes(8, "little", signed=True) for word in encode_words(program))


def encode_words(program: Program) -> list[int]:
    """The words of `program`. Raises ValueError as `encode` does."""
    _verify(program)
    return _Writer(program).words()


class _Writer:
    """Collects tables, lists and texts, then lays them out one after another."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.pool: list[int] = []
        self.text = bytearray()
        self.texts: dict[str, int] = {}
        self.dense = _dense_buffers(program)
        self.strides_at: list[int] = []
        self.values = len(program.slots)
        for buffer in program.buffers:
            self.strides_at.append(self.values)
            self.values += len(buffer.dims)

    def words(self) -> list[int]:
        p = self.program
        tables = [
            _flat(self.arg(i, arg) for i, arg in enumerate(p.args)),
            _flat((_SIZE_OPS.index(op.op), op.a, op.b) for op in p.slots),
            _flat((_RELATIONS.index(c.relation), c.a, c.b, self.string(c.message)) for c in p.checks),
            _flat(self.buffer(i, buffer) for i, buffer in enumerate(p.buffers)),
            _flat(self.instruction(ins) for ins in p.instructions),
            list(p.outputs),
        ]
        name = self.string(p.name)
        starts, at = [], HEADER + len(self.pool)
        for table in tables:
            starts.append(at)
            at += len(table)
        text = bytes(self.text) + bytes(-len(self.text) % 8)
        total = at + len(text) // 8
        calls = [i for i in p.instructions if isinstance(i, KernelCall)]
        header = [
            MAGIC, total, name, at,
            len(p.args), starts[0], len(p.slots), starts[1], len(p.checks), starts[2],
            len(p.buffers), starts[3], len(p.instructions), starts[4], len(p.outputs), starts[5],
            len(p.kernels), len(p.constants), self.values,
            max((len(c.pointers) for c in calls), default=0), max((len(c.ints) for c in calls), default=0),
        ]  # fmt: skip
        strings = [int.from_bytes(text[i : i + 8], "little", signed=True) for i in range(0, len(text), 8)]
        return header + self.pool + _flat(tables) + strings

    def string(self, text: str) -> int:
        """Byte number of `text` in the texts."""
        if text not in self.texts:
            self.texts[text] = len(self.text)
            self.text += text.encode() + b"\0"
        return self.texts[text]

    def list(self, items: Iterable[int]) -> int:
        """Word number of a list of `items`."""
        at = HEADER + len(self.pool)
        self.pool += items
        return at

    def arg(self, number: int, arg: Arg) -> tuple[int, ...]:
        dense = any(b.kind == "arg" and b.index == number and self.dense[i] for i, b in enumerate(self.program.buffers))
        return self.string(arg.name), DTYPES.index(arg.dtype), arg.rank, _WEAK.index(arg.weak), int(dense)

    def buffer(self, number: int, buffer: Buffer) -> tuple[int, ...]:
        index = _root(self.program, number) if buffer.kind == "alias" else buffer.index
        return (
            _KINDS.index(buffer.kind), DTYPES.index(buffer.dtype), len(buffer.dims), self.list(buffer.dims),
            index, int(self.dense[number]), int(buffer.zero), self.strides_at[number],
        )  # fmt: skip

    def instruction(self, ins: KernelCall | LibraryCall | RaiseIf) -> list[int]:
        if isinstance(ins, KernelCall):
            # slots and strides lie in one row of values, so that an integer parameter is one number
            ints = [i.slot if isinstance(i, Size) else self.strides_at[i.buffer] + i.axis for i in ins.ints]
            row = [
                _KERNEL, ins.kernel, len(ins.pointers), self.list(ins.pointers), len(ints), self.list(ints),
                ins.count, ins.work, ins.cost, ins.grain, ins.scratch, *self.collapse(ins.collapse),
            ]  # fmt: skip
        elif isinstance(ins, LibraryCall):
            row = [_LIBRARY, self.string(ins.name), len(ins.operands), self.list(ins.operands), ins.result]
        else:
            row = [_RAISE, ins.buffer, _EXCEPTIONS.index(ins.exception), self.string(ins.message)]
        return row + [0] * (_INSTRUCTION - len(row))

    def collapse(self, collapse: Collapse | None) -> tuple[int, int, int]:
        if collapse is None or len(collapse.sizes) < 2:
            return 0, 0, 0
        return len(collapse.sizes), len(collapse.operands), self.list([*collapse.sizes, *_flat(collapse.operands)])


def _flat(rows: Iterable[Iterable[int]]) -> list[int]:
    return [word for row in rows for word in row]


def _root(program: Program, number: int) -> int:
    """The buffer whose memory an alias shows."""
    while program.buffers[number].kind == "alias":
        number = program.buffers[number].index
    return number


def _dense_buffers(program: Program) -> list[bool]:
    """Which buffers must lie in C order: those that say so, and those that an alias shows."""
    dense = [b.dense for b in program.buffers]
    for number, buffer in enumerate(program.buffers):
        if buffer.kind == "alias":
            dense[_root(program, number)] = True
    return dense


def _verify(program: Program) -> None:
    """Raise ValueError unless everything that `program` refers to exists."""
    p = program

    def need(fine: bool, what: str) -> None:
        if not fine:
            raise ValueError(f"program {p.name!r}: {what}")

    def inside(numbers: Iterable[int], table: Sequence[object], what: str) -> None:
        for number in numbers:
            need(0 <= number < len(table), f"{what} {number} of {len(table)}")

    for arg in p.args:
        need(not arg.weak or arg.rank == 0, f"weak argument {arg.name!r} has rank {arg.rank}")
    for number, op in enumerate(p.slots):
        if op.op == "dim":
            inside([op.a], p.args, "slot of argument")
            need(0 <= op.b < p.args[op.a].rank, f"slot of axis {op.b} of argument {p.args[op.a].name!r}")
        elif op.op != "const":
            inside((op.a, op.b), p.slots[:number], f"slot {number} computed from slot")
    for check in p.checks:
        inside((check.a, check.b), p.slots, "check of slot")
    for number, buffer in enumerate(p.buffers):
        _verify_buffer(p, number, buffer, need, inside)
    need(len([b for b in p.buffers if b.kind == "out"]) == len(p.outputs), "an output buffer is not an output")
    inside(p.outputs, p.buffers, "output buffer")
    for number, output in enumerate(p.outputs):
        need(p.buffers[output].kind == "out" and p.buffers[output].index == number, f"output {number} is no output buffer")
    for ins in p.instructions:
        if isinstance(ins, KernelCall):
            _verify_kernel(p, ins, need, inside)
        elif isinstance(ins, LibraryCall):
            inside((*ins.operands, ins.result), p.buffers, "library call of buffer")
        else:
            inside([ins.buffer], p.buffers, "raise-if of buffer")
            need(p.buffers[ins.buffer].dtype == "i64", "raise-if needs an i64 buffer")


def _verify_buffer(p: Program, number: int, buffer: Buffer, need, inside) -> None:  # type: ignore[no-untyped-def]
    inside(buffer.dims, p.slots, f"buffer {number} has size slot")
    if buffer.kind == "arg":
        inside([buffer.index], p.args, f"buffer {number} of argument")
        arg = p.args[buffer.index]
        need((arg.dtype, arg.rank) == (buffer.dtype, len(buffer.dims)), f"buffer {number} differs from argument {arg.name!r}")
    elif buffer.kind == "alias":
        inside([buffer.index], p.buffers[:number], f"buffer {number} is an alias of buffer")
    elif buffer.kind == "const":
        sizes = [p.slots[d] for d in buffer.dims]
        need(all(s.op == "const" for s in sizes), f"constant buffer {number} has a size that varies")
        end = buffer.index + prod(s.a for s in sizes) * ITEMSIZE[buffer.dtype]
        need(0 <= buffer.index <= end <= len(p.constants), f"constant buffer {number} ends at byte {end} of {len(p.constants)}")


def _verify_kernel(p: Program, call: KernelCall, need, inside) -> None:  # type: ignore[no-untyped-def]
    inside([call.kernel], p.kernels, "call of kernel")
    inside(call.pointers, p.buffers, "pointer to buffer")
    inside((call.count, call.work), p.slots, "kernel call with slot")
    need(call.grain >= 1, f"grain {call.grain}")
    need(call.scratch == -1 or 0 <= call.scratch < len(p.slots), f"scratch in slot {call.scratch}")
    for i in call.ints:
        if isinstance(i, Size):
            inside([i.slot], p.slots, "integer of slot")
        else:
            inside([i.buffer], p.buffers, "stride of buffer")
            need(0 <= i.axis < len(p.buffers[i.buffer].dims), f"stride of axis {i.axis} of buffer {i.buffer}")
    if call.collapse is not None:
        owner: dict[int, tuple[str, int]] = {}
        rows = [("size", call.collapse.sizes), *(("stride", row) for row in call.collapse.operands)]
        for what, row in rows:
            need(len(row) == len(call.collapse.sizes), "collapse has an operand with another number of loops")
            for loop, position in enumerate(row):
                if position != -1 or what == "size":
                    inside([position], call.ints, "collapse of integer")
                    need(owner.setdefault(position, (what, loop)) == (what, loop), f"integer {position} serves two loops")
