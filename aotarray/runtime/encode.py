"""Programs as 64-bit words: the form that `launcher.c` reads, for `jit` and inside built modules.

A header of fixed length comes first, then tables of fixed-size rows, then lists of varying length that
rows point into by word number, then the texts as NUL-ended UTF-8. `launcher.c` declares each row as a
struct of `int64_t` under the same name; the two are changed together, with `MAGIC`. What a table may
refer to is checked here, once, so that the launcher need not check it on each call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from struct import pack, unpack
from typing import Any

from aotarray.program import (
    DTYPES,
    Arg,
    Buffer,
    Check,
    Collapse,
    Effect,
    Instruction,
    Jump,
    JumpTable,
    JumpUnless,
    KernelCall,
    LibraryCall,
    LoopBegin,
    LoopNext,
    Measure,
    Point,
    Program,
    RaiseIf,
    Size,
    Swap,
)

MAGIC = 0x3_544F41  # "AOT", format 3
HEADER = 22  # words in `Header`
ITEMSIZE = dict(zip(DTYPES, (1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 8, 16), strict=True))

_WEAK = ("", "bool", "int", "float", "complex")
_SIZE_OPS = ("dim", "const", "add", "sub", "mul", "floordiv", "mod", "min", "max", "measured")
_RELATIONS = ("eq", "ne", "ge")
_KINDS = ("arg", "out", "temp", "const", "alias")
_EXCEPTIONS = ("IndexError", "ValueError", "ZeroDivisionError", "OverflowError", "LinAlgError")
_RETURNS = ("nothing", "one", "several")
_VALUES = ("operand", "result", "size", "none", "bool", "int", "str", "float", "all", "tuple")
_KERNEL, _LIBRARY, _RAISE, _EFFECT, _MEASURE, _JUMP, _UNLESS, _TABLE, _SWAP, _POINT, _BEGIN, _NEXT = range(12)
_INSTRUCTION = 14  # words in `Instruction`


def encode(program: Program) -> bytes:
    """The words of `program`, as little-endian bytes.

    Raises ValueError for a program that refers to what it lacks.
    """
    return b"".join(word.to_bytes(8, "little", signed=True) for word in encode_words(program))


def encode_words(program: Program) -> list[int]:
    """The words of `program`. Raises ValueError as `encode` does."""
    _Verifier(program).verify()
    return _Writer(program).words()


class _Writer:
    """Collects tables, lists and texts, then lays them out one after another."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.pool: list[int] = []
        self.text = bytearray()
        self.texts: dict[str, int] = {}
        self.dense = _dense_buffers(program)
        self.late = _late_buffers(program)
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
            _flat(self.check(c) for c in p.checks),
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
            len(self.late),
        ]  # fmt: skip
        strings = [int.from_bytes(text[i : i + 8], "little", signed=True) for i in range(0, len(text), 8)]
        return header + self.pool + _flat(tables) + strings

    def string(self, text: str) -> int:
        """Byte number of `text` in the texts."""
        if text not in self.texts:
            self.texts[text] = len(self.text)
            self.text += text.encode() + b"\0"
        return self.texts[text]

    def listed(self, items: Iterable[int]) -> int:
        """Word number of a list of `items`."""
        at = HEADER + len(self.pool)
        self.pool += items
        return at

    def arg(self, number: int, arg: Arg) -> tuple[int, ...]:
        buffers = zip(self.program.buffers, self.dense, strict=True)
        dense = any(b.kind == "arg" and b.index == number and dense for b, dense in buffers)
        weak = _WEAK.index(arg.weak)
        return self.string(arg.name), DTYPES.index(arg.dtype), arg.rank, weak, int(dense), int(arg.inout)

    def check(self, check: Check) -> tuple[int, ...]:
        exception = _EXCEPTIONS.index(check.exception)
        return _RELATIONS.index(check.relation), check.a, check.b, self.string(check.message), exception

    def buffer(self, number: int, buffer: Buffer) -> tuple[int, ...]:
        index = _root(self.program, number) if buffer.kind == "alias" else buffer.index
        return (
            _KINDS.index(buffer.kind), DTYPES.index(buffer.dtype), len(buffer.dims), self.listed(buffer.dims),
            index, int(self.dense[number]), int(buffer.zero), self.strides_at[number],
            len(buffer.like), self.listed(buffer.like), self.late.get(number, -1),
        )  # fmt: skip

    def instruction(self, ins: Instruction) -> list[int]:
        if isinstance(ins, KernelCall):
            # slots and strides lie in one row of values, so that an integer parameter is one number
            ints = [i.slot if isinstance(i, Size) else self.strides_at[i.buffer] + i.axis for i in ins.ints]
            row = [
                _KERNEL, ins.kernel, len(ins.pointers), self.listed(ins.pointers),
                len(ints), self.listed(ints), ins.count, ins.work, ins.cost, ins.grain, ins.scratch,
                *self.collapse(ins.collapse),
            ]  # fmt: skip
        elif isinstance(ins, LibraryCall):
            row = [_LIBRARY, *self.library(ins)]
        elif isinstance(ins, RaiseIf):
            row = [_RAISE, ins.buffer, _EXCEPTIONS.index(ins.exception), self.string(ins.message)]
        elif isinstance(ins, Effect):
            values = self.listed(_flat((buffer, int(weak)) for buffer, weak in ins.values))
            exception = self.string(ins.exception) if ins.exception else -1
            row = [_EFFECT, ins.condition, exception, self.string(ins.text), len(ins.values), values]
        elif isinstance(ins, Measure):
            row = [_MEASURE, *self.measure(ins)]
        else:
            row = self.control(ins)
        return row + [0] * (_INSTRUCTION - len(row))

    def measure(self, ins: Measure) -> list[int]:
        makes_results = any(self.program.buffers[b].kind == "out" for b in ins.buffers)
        return [
            ins.slot, ins.buffer, len(ins.checks), self.listed(_flat(map(self.check, ins.checks))),
            len(ins.buffers), self.listed(ins.buffers), len(ins.scratch), self.listed(ins.scratch), int(makes_results),
        ]  # fmt: skip

    def control(self, ins: Jump | JumpUnless | JumpTable | Swap | Point | LoopBegin | LoopNext) -> list[int]:
        if isinstance(ins, Jump):
            return [_JUMP, ins.target]
        if isinstance(ins, JumpUnless):
            return [_UNLESS, ins.buffer, ins.target]
        if isinstance(ins, JumpTable):
            return [_TABLE, ins.buffer, len(ins.targets), self.listed(ins.targets)]
        if isinstance(ins, Swap):
            return [_SWAP, ins.a, ins.b]
        if isinstance(ins, Point):
            return [_POINT, ins.buffer, ins.source, ins.counter]
        if isinstance(ins, LoopBegin):
            return [_BEGIN, ins.counter, ins.lower, ins.upper, int(ins.reverse), ins.end]
        return [_NEXT, ins.counter, ins.lower, ins.upper, int(ins.reverse), ins.body]

    def library(self, call: LibraryCall) -> list[int]:
        routine = call.routine
        base = -1 if routine.base < 0 else call.operands[routine.base]
        keywords = _flat((self.string(name), *self.value(value, call)) for name, value in routine.keywords)
        return [
            self.string(routine.name), base, _RETURNS.index(routine.returns),
            len(call.results), self.listed(call.results),
            len(routine.args), self.listed(_flat(self.value(value, call) for value in routine.args)),
            len(routine.keywords), self.listed(keywords),
        ]  # fmt: skip

    def value(self, value: tuple[Any, ...], call: LibraryCall) -> list[int]:
        """A tag and what follows it; buffers in place of operands and results."""
        tag = value[0]
        words = [_VALUES.index(tag)]
        if tag == "tuple":
            return [*words, len(value[1]), *_flat(self.value(item, call) for item in value[1])]
        if tag in ("operand", "result"):
            return [*words, (call.operands if tag == "operand" else call.results)[value[1]]]
        if tag == "str":
            return [*words, self.string(value[1])]
        if tag == "float":
            return [*words, *unpack("<q", pack("<d", float.fromhex(value[1])))]
        return words if tag in ("none", "all") else [*words, int(value[1])]

    def collapse(self, collapse: Collapse | None) -> tuple[int, int, int]:
        if collapse is None or len(collapse.sizes) < 2:
            return 0, 0, 0
        positions = self.listed([int(collapse.reorder), *collapse.sizes, *_flat(collapse.operands)])
        return len(collapse.sizes), len(collapse.operands), positions


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


def _late_buffers(program: Program) -> dict[int, int]:
    """The buffers whose memory a `Measure` makes, numbered."""
    late = {b for ins in program.instructions if isinstance(ins, Measure) for b in ins.buffers}
    return {number: k for k, number in enumerate(sorted(late))}


def _measured_slots(program: Program) -> list[bool]:
    """Which slots depend on a measured size."""
    found: list[bool] = []
    for op in program.slots:
        plain = op.op in ("dim", "const", "measured")
        found.append(op.op == "measured" if plain else found[op.a] or found[op.b])
    return found


class _Verifier:
    """Raises ValueError unless everything that a program refers to exists."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.late = _late_buffers(program)

    def need(self, fine: bool, what: str) -> None:
        if not fine:
            raise ValueError(f"program {self.program.name!r}: {what}")

    def inside(self, numbers: Iterable[int], table: Sequence[object], what: str) -> None:
        for number in numbers:
            self.need(0 <= number < len(table), f"{what} {number} of {len(table)}")

    def verify(self) -> None:
        p = self.program
        for arg in p.args:
            self.need(not arg.weak or arg.rank == 0, f"weak argument {arg.name!r} has rank {arg.rank}")
            self.need(not (arg.weak and arg.inout), f"weak argument {arg.name!r} is inout")
        for number, op in enumerate(p.slots):
            if op.op == "dim":
                self.inside([op.a], p.args, "slot of argument")
                self.need(0 <= op.b < p.args[op.a].rank, f"slot {number} is of no axis of its argument")
            elif op.op not in ("const", "measured"):
                self.inside((op.a, op.b), p.slots[:number], f"slot {number} computed from slot")
        for check in p.checks:
            self.inside((check.a, check.b), p.slots, "check of slot")
        measured = _measured_slots(p)
        early = not any(measured[check.a] or measured[check.b] for check in p.checks)
        self.need(early, "a check at the start is of a measured size")
        for number, buffer in enumerate(p.buffers):
            self.buffer(number, buffer)
            known = number in self.late or not any(measured[d] for d in buffer.dims)
            self.need(known, f"buffer {number} has a measured size, but no measure makes it")
        self.outputs()
        for ins in p.instructions:
            if isinstance(ins, KernelCall):
                self.kernel(ins)
            elif isinstance(ins, LibraryCall):
                self.library(ins)
            elif isinstance(ins, RaiseIf):
                self.inside([ins.buffer], p.buffers, "raise-if of buffer")
                self.need(p.buffers[ins.buffer].dtype == "i64", "raise-if needs an i64 buffer")
            elif isinstance(ins, Effect):
                if ins.condition != -1:
                    self.scalar(ins.condition, "b1")
                self.inside((buffer for buffer, _ in ins.values), p.buffers, "effect of buffer")
                python = (p.buffers[buffer].dims for buffer, weak in ins.values if weak)
                self.need(not any(python), "a Python number has axes")
            elif isinstance(ins, Measure):
                self.measure(ins)
            else:
                self.control(ins)

    def control(self, ins: Jump | JumpUnless | JumpTable | Swap | Point | LoopBegin | LoopNext) -> None:
        """Jumps lead to instructions or to the end; scalars, swapped buffers and rows are of the right kind."""
        if isinstance(ins, Jump):
            self.target(ins.target)
        elif isinstance(ins, JumpUnless):
            self.scalar(ins.buffer, "b1")
            self.target(ins.target)
        elif isinstance(ins, JumpTable):
            self.scalar(ins.buffer, "i64")
            self.need(len(ins.targets) > 0, "a jump table has no targets")
            for target in ins.targets:
                self.target(target)
        elif isinstance(ins, Swap):
            self.swap(ins)
        elif isinstance(ins, Point):
            self.point(ins)
        else:
            for buffer in (ins.counter, ins.lower, ins.upper):
                self.scalar(buffer, "i64")
            self.need(self.program.buffers[ins.counter].kind == "temp", "a counter is not a temporary")
            self.target(ins.end if isinstance(ins, LoopBegin) else ins.body)

    def measure(self, ins: Measure) -> None:
        p = self.program
        slots = (*ins.scratch, *(s for c in ins.checks for s in (c.a, c.b)))
        self.inside(slots, p.slots, "measure with slot")
        self.inside(ins.buffers, p.buffers, "measure makes buffer")
        kinds = {p.buffers[b].kind for b in ins.buffers}
        self.need(kinds <= {"out", "temp", "alias"}, f"a measure makes {', '.join(sorted(kinds))}")
        if ins.slot == -1:
            return
        self.inside([ins.slot], p.slots, "measure of slot")
        self.inside([ins.buffer], p.buffers, "measure of buffer")
        self.need(p.slots[ins.slot].op == "measured", f"slot {ins.slot} is not measured")
        source = p.buffers[ins.buffer]
        self.need(source.dtype == "i64" and len(source.dims) <= 1, "a measure needs i64 values in a row")
        self.need(not source.dims or source.kind == "temp", "a measure needs a scalar, or a temporary")

    def target(self, target: int) -> None:
        count = len(self.program.instructions)
        self.need(0 <= target <= count, f"jump to instruction {target} of {count}")

    def scalar(self, number: int, dtype: str) -> None:
        self.inside([number], self.program.buffers, "control by buffer")
        buffer = self.program.buffers[number]
        self.need(buffer.dtype == dtype and not buffer.dims, f"control needs a scalar {dtype} buffer")

    def swap(self, ins: Swap) -> None:
        self.inside((ins.a, ins.b), self.program.buffers, "swap of buffer")
        a, b = self.program.buffers[ins.a], self.program.buffers[ins.b]
        same = (a.kind, a.dtype, a.dims, a.zero) == (b.kind, b.dtype, b.dims, b.zero)
        self.need(same and a.kind == "temp", f"buffers {ins.a} and {ins.b} cannot be swapped")

    def point(self, ins: Point) -> None:
        buffers = self.program.buffers
        self.inside((ins.buffer, ins.source), buffers, "point of buffer")
        alias, source = buffers[ins.buffer], buffers[ins.source]
        self.need(
            alias.kind == "alias" and alias.dtype == source.dtype, f"buffer {ins.buffer} cannot be pointed"
        )
        self.need(
            _root(self.program, ins.buffer) == _root(self.program, ins.source),
            f"buffer {ins.buffer} is an alias of another buffer than {ins.source}",
        )
        if ins.counter != -1:
            self.scalar(ins.counter, "i64")
            self.need(
                alias.dims == source.dims[1:] and len(source.dims) > 0, f"buffer {ins.buffer} is no row"
            )

    def buffer(self, number: int, buffer: Buffer) -> None:
        p = self.program
        self.inside(buffer.dims, p.slots, f"buffer {number} has size slot")
        if buffer.kind == "arg":
            self.inside([buffer.index], p.args, f"buffer {number} of argument")
            arg = p.args[buffer.index]
            same = (arg.dtype, arg.rank) == (buffer.dtype, len(buffer.dims))
            self.need(same, f"buffer {number} differs from argument {arg.name!r}")
        elif buffer.kind == "out":
            self.inside(buffer.like, p.buffers, f"buffer {number} has the order of buffer")
            for like in buffer.like:
                ordered = p.buffers[like].kind == "arg" and p.buffers[like].dims == buffer.dims
                self.need(ordered, f"buffer {number} cannot have the order of buffer {like}")
        elif buffer.kind == "alias":
            self.inside([buffer.index], p.buffers[:number], f"buffer {number} is an alias of buffer")
        elif buffer.kind == "const":
            sizes = [p.slots[d] for d in buffer.dims]
            self.need(all(s.op == "const" for s in sizes), f"constant buffer {number} has a size that varies")
            end = buffer.index + prod(s.a for s in sizes) * ITEMSIZE[buffer.dtype]
            within = 0 <= buffer.index <= end <= len(p.constants)
            self.need(within, f"constant buffer {number} ends at byte {end} of {len(p.constants)}")

    def outputs(self) -> None:
        p = self.program
        made = sum(b.kind == "out" for b in p.buffers)
        self.inside(p.outputs, p.buffers, "output buffer")
        given = sum(p.buffers[output].kind == "arg" for output in p.outputs)
        self.need(
            made == len(p.outputs) - given, f"{made} output buffers for {len(p.outputs) - given} outputs"
        )
        for number, output in enumerate(p.outputs):
            buffer = p.buffers[output]
            if buffer.kind == "arg":
                self.need(p.args[buffer.index].inout, f"output {number} is an argument that is not inout")
                continue
            fine = buffer.kind == "out" and buffer.index == number
            self.need(fine, f"output {number} is not the buffer that says so")

    def kernel(self, call: KernelCall) -> None:
        p = self.program
        self.inside([call.kernel], p.kernels, "call of kernel")
        self.inside(call.pointers, p.buffers, "pointer to buffer")
        self.inside((call.count, call.work), p.slots, "kernel call with slot")
        self.need(call.grain >= 1, f"grain {call.grain}")
        self.need(call.scratch == -1 or 0 <= call.scratch < len(p.slots), f"scratch in slot {call.scratch}")
        for i in call.ints:
            if isinstance(i, Size):
                self.inside([i.slot], p.slots, "integer of slot")
            else:
                self.inside([i.buffer], p.buffers, "stride of buffer")
                rank = len(p.buffers[i.buffer].dims)
                self.need(0 <= i.axis < rank, f"stride of axis {i.axis} of buffer {i.buffer}, of rank {rank}")
        if call.collapse is not None:
            self.collapse(call.collapse, call.ints)

    def library(self, call: LibraryCall) -> None:
        p, routine = self.program, call.routine
        self.inside(
            (*call.operands, *(r for r in call.results if r != -1)), p.buffers, "library call of buffer"
        )
        self.need(
            -1 <= routine.base < len(call.operands), f"{routine.name} of a copy of operand {routine.base}"
        )
        self.need(all(a not in call.operands for a in call.results), f"{routine.name} writes into an operand")
        written = [0] if routine.base >= 0 else []
        for value in routine.values():
            self.need(value[0] in _VALUES, f"{routine.name} of {value}")
            if value[0] == "operand":
                self.inside([value[1]], call.operands, f"{routine.name} of operand")
            elif value[0] == "size":
                self.inside([value[1]], p.slots, f"{routine.name} of slot")
            elif value[0] == "result":
                written.append(value[1])
        self.inside(written, call.results, f"{routine.name} writes result")
        self.need(
            all(call.results[k] != -1 for k in written), f"{routine.name} writes a result that is not there"
        )
        self.need(routine.returns != "one" or len(call.results) == 1, f"{routine.name} gives one result")

    def collapse(self, collapse: Collapse, ints: Sequence[object]) -> None:
        """Merging loops changes their integers, so an integer may serve one loop only."""
        loops = len(collapse.sizes)
        owner: dict[int, tuple[str, int]] = {}
        for what, row in [("size", collapse.sizes), *(("stride", row) for row in collapse.operands)]:
            self.need(len(row) == loops, f"collapse of {loops} loops has an operand with {len(row)}")
            for loop, position in enumerate(row):
                if what == "size" or position != -1:
                    self.inside([position], ints, "collapse of integer")
                    unique = owner.setdefault(position, (what, loop)) == (what, loop)
                    self.need(unique, f"integer {position} serves two loops that may merge")
