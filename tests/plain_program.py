"""Runs a lowered plan as plain Python: the launcher's part in a few lines, the generated source by `exec`."""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aotarray.compiler import source_of
from aotarray.fusion.schedule import Plan
from aotarray.program import (
    Buffer,
    Check,
    Effect,
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
from aotarray.types import DTYPE_OF_CODE

#: how kernels see a dtype in memory
MEMORY = {"b1": "u1", "f16": "u2", "c64": "f4", "c128": "f8"}


class Pointer:
    """Flat memory from an array's first element on; indices may be negative, as strides may."""

    def __init__(self, flat: np.ndarray, origin: int) -> None:
        self.flat, self.origin = flat, origin

    def __getitem__(self, index: Any) -> Any:
        return self.flat[self.place(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.flat[self.place(index)] = value

    def place(self, index: Any) -> int:
        place = self.origin + int(index)
        assert 0 <= place < len(self.flat), "out of bounds"
        return place


def pointer_to(array: np.ndarray, code: str) -> Pointer:
    """The memory of an array of any layout."""
    memory = np.dtype(MEMORY.get(code, array.dtype.str))
    parts = array.itemsize // memory.itemsize
    if array.size == 0:
        return Pointer(np.empty(0, memory), 0)
    reach = sum(abs(s) * (d - 1) for s, d in zip(array.strides, array.shape, strict=True)) // array.itemsize
    back = (
        sum(-s * (d - 1) for s, d in zip(array.strides, array.shape, strict=True) if s < 0) // array.itemsize
    )
    corner = array[
        (
            ...,
            *(
                slice(d - 1, d) if s < 0 else slice(0, 1)
                for s, d in zip(array.strides, array.shape, strict=True)
            ),
        )
    ]
    flat = np.lib.stride_tricks.as_strided(
        corner, (reach + 1,), (array.itemsize,), writeable=array.flags.writeable
    )
    return Pointer(flat.view(memory), back * parts)


def run_plain(
    plan: Plan, arguments: Sequence[Any], cut: Callable[[int, int], list[int]] | None = None
) -> list[np.ndarray]:
    """The outputs of a plan. `cut(count, grain)` may split a kernel's range, as threads do."""
    scope: dict[str, Any] = {}
    exec(compile(source_of(plan), "<plain>", "exec"), scope)
    state = _State(plan.program, arguments)
    with np.errstate(all="ignore"):
        at = 0
        while at < len(plan.program.instructions):
            instruction = plan.program.instructions[at]
            at += 1
            if isinstance(instruction, KernelCall):
                _call(plan, instruction, scope, state, cut)
            elif isinstance(instruction, LibraryCall):
                _library(instruction, state)
            elif isinstance(instruction, RaiseIf):
                status = state.arrays[instruction.buffer]
                if status[0]:
                    kind = getattr(builtins, instruction.exception)
                    raise kind(instruction.message.replace("{value}", str(status[1])))
            elif isinstance(instruction, Effect):
                _effect(instruction, state)
            elif isinstance(instruction, Measure):
                state.measure(instruction)
            else:
                at = _control(instruction, state.arrays, at)
    for array, buffer in zip(state.arrays, plan.program.buffers, strict=True):
        if buffer.kind == "arg" and plan.program.args[buffer.index].inout:
            state.given[buffer.index][...] = array
    return [state.arrays[b] for b in plan.program.outputs]


def _effect(effect: Effect, state: _State) -> None:
    if effect.condition >= 0 and state.arrays[effect.condition]:
        return
    arrays = [(state.arrays[b], weak) for b, weak in effect.values]
    text = effect.text.format(*(a.item() if weak else a[()] for a, weak in arrays))
    if effect.exception:
        raise getattr(builtins, effect.exception)(text)
    print(text)


def _library(call: LibraryCall, state: _State) -> None:
    operands = [state.arrays[b] for b in call.operands]
    results = [state.arrays[b] if b >= 0 else None for b in call.results]
    if call.routine.base >= 0:
        results[0][...] = operands[call.routine.base]
    found = call.routine.call(operands, results, lambda slot: state.slots[slot])
    for target, value in zip(results, found, strict=False):
        if target is not None:
            assert (target.dtype, target.shape) == (np.asarray(value).dtype, np.shape(value))
            target[...] = value


def _call(plan: Plan, call: KernelCall, scope: dict[str, Any], state: _State, cut: Any) -> None:
    kernel = plan.kernels[call.kernel]
    ints = [state.slots[i.slot] if isinstance(i, Size) else state.stride(i.buffer, i.axis) for i in call.ints]
    offsets = iter(ints[len(kernel.integers) :])
    scratch = np.zeros(0 if call.scratch < 0 else state.slots[call.scratch], np.uint8)
    scratch[:] = 0xAB  # nobody promises zeros
    buffers = iter(call.pointers)
    pointers: list[Pointer] = []
    for pointer in kernel.pointers:
        if pointer.role == "scratch":
            memory = DTYPE_OF_CODE[pointer.code]
            start = next(offsets)
            pointers.append(Pointer(scratch[start : start + (len(scratch) - start) // 8 * 8].view(memory), 0))
        else:
            buffer = next(buffers)
            pointers.append(pointer_to(state.arrays[buffer], plan.program.buffers[buffer].dtype))
    count = state.slots[call.count]
    edges = [0, *(cut(count, call.grain) if cut else []), count]
    for begin, end in itertools.pairwise(edges):
        if begin < end:
            scope[kernel.name](*pointers, *ints[: len(kernel.integers)], begin, end)


def _control(instruction: Any, arrays: list[np.ndarray], following: int) -> int:
    """The number of the next instruction."""
    if isinstance(instruction, Jump):
        return instruction.target
    if isinstance(instruction, JumpUnless):
        return following if arrays[instruction.buffer] else instruction.target
    if isinstance(instruction, JumpTable):
        return instruction.targets[int(np.clip(arrays[instruction.buffer], 0, len(instruction.targets) - 1))]
    if isinstance(instruction, Swap):
        a, b = instruction.a, instruction.b
        arrays[a], arrays[b] = arrays[b], arrays[a]
    elif isinstance(instruction, Point):
        source = arrays[instruction.source]
        if instruction.counter >= 0:
            row = int(arrays[instruction.counter])
            source = source[row : row + 1]
        arrays[instruction.buffer] = source.reshape(arrays[instruction.buffer].shape)
    elif isinstance(instruction, (LoopBegin, LoopNext)):
        lower, upper = int(arrays[instruction.lower]), int(arrays[instruction.upper])
        counter = arrays[instruction.counter]
        if isinstance(instruction, LoopBegin):
            counter[...] = upper - 1 if instruction.reverse else lower
        else:
            counter += -1 if instruction.reverse else 1
        if isinstance(instruction, LoopBegin):
            return following if lower < upper else instruction.end
        return instruction.body if lower <= counter < upper else following
    return following


class _State:
    """Sizes and arrays of one call."""

    def __init__(self, program: Program, arguments: Sequence[Any]) -> None:
        self.given = [
            np.asarray(a).astype(DTYPE_OF_CODE[p.dtype], copy=False)
            for a, p in zip(arguments, program.args, strict=True)
        ]
        self.program = program
        self.slots: list[int] = []
        for op in program.slots:
            self.slots.append(self.size(op.op, op.a, op.b))
        self.check(program.checks)
        self.constants = program.constants
        self.arrays: list[Any] = []
        late = {b for i in program.instructions if isinstance(i, Measure) for b in i.buffers}
        for number, buffer in enumerate(program.buffers):
            self.arrays.append(None if number in late else self.array(buffer))

    def check(self, checks: Sequence[Check]) -> None:
        for check in checks:
            a, b = self.slots[check.a], self.slots[check.b]
            if not {"eq": a == b, "ne": a != b, "ge": a >= b}[check.relation]:
                raise getattr(builtins, check.exception)(check.message.format(a=a, b=b))

    def measure(self, ins: Measure) -> None:
        if ins.slot >= 0:
            self.slots[ins.slot] = int(np.ravel(self.arrays[ins.buffer])[-1])
        for number, op in enumerate(self.program.slots):
            if number > ins.slot >= 0 and op.op != "measured":
                self.slots[number] = self.size(op.op, op.a, op.b)
        self.check(ins.checks)
        for number in ins.buffers:
            self.arrays[number] = self.array(self.program.buffers[number])

    def size(self, op: str, a: int, b: int) -> int:
        if op == "dim":
            return self.given[a].shape[b]
        if op in ("const", "measured"):
            return a
        x, y = self.slots[a], self.slots[b]
        if op in ("floordiv", "mod"):
            return 0 if y == 0 else x // y if op == "floordiv" else x % y
        return {"add": x + y, "sub": x - y, "mul": x * y, "min": min(x, y), "max": max(x, y)}[op]

    def array(self, buffer: Buffer) -> np.ndarray:
        shape = tuple(self.slots[d] for d in buffer.dims)
        dtype = DTYPE_OF_CODE[buffer.dtype]
        if buffer.kind == "arg":
            given = self.given[buffer.index]
            return np.ascontiguousarray(given).reshape(given.shape) if buffer.dense else given
        if buffer.kind == "const":
            count = int(np.prod(shape))
            return np.frombuffer(self.constants, dtype, count, buffer.index).reshape(shape)
        if buffer.kind == "alias":
            whole = self.arrays[buffer.index]
            return whole.reshape(shape) if whole.size == np.prod(shape) else np.empty(shape, dtype)  # a row
        if buffer.zero:
            return np.zeros(shape, dtype)
        return np.full(shape, 1, dtype)

    def stride(self, buffer: int, axis: int) -> int:
        array = self.arrays[buffer]
        return array.strides[axis] // array.itemsize
