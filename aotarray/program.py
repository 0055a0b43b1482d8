"""A program: what one traced function becomes, and exactly what the launcher runs.

Sizes are numbered *slots*: 64-bit integers computed at entry, in order; those that follow from a measured one,
when that is known. Buffers are arrays the
program touches. Instructions run in order. Everything here is plain data: it encodes to words that
the C launcher reads (`aotarray.runtime.encode`), the same for `jit` and for built modules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

from .routines import Routine as Routine
from .types import DTYPES as DTYPES


@dataclass(frozen=True, slots=True)
class Arg:
    """One array or scalar argument (a leaf of the argument tree).

    `weak` is "" for an array of `dtype` and `rank`, or the Python type a weak scalar must have:
    "bool", "int", "float" or "complex" (dtype then b1, i64, f64 or c128, rank 0). An `inout` array is
    written into: it must be writable, and share no memory with another argument or with itself.
    """

    name: str
    dtype: str
    rank: int
    weak: str = ""
    inout: bool = False


@dataclass(frozen=True, slots=True)
class SizeOp:
    """How one slot is computed.

    op "dim": size of argument `a` along axis `b`;  "const": the value `a`;
    "add" "sub" "mul" "floordiv" "mod" "min" "max": of the earlier slots `a` and `b`
    (floordiv and mod round towards minus infinity; by zero gives 0);  "measured": by an instruction `Measure`.
    """

    op: str
    a: int
    b: int = 0


@dataclass(frozen=True, slots=True)
class Check:
    """A relation of two slots that must hold before anything runs, or, in a `Measure`, before what follows it.

    `jit` treats a failed check as "this program does not fit" and looks for, or traces, another one.
    A built module raises ValueError with `message`, in which `{a}` and `{b}` stand for the two values. What fails
    in a `Measure` raises `exception` everywhere.
    """

    relation: Literal["eq", "ne", "ge"]
    a: int
    b: int
    message: str
    exception: str = "ValueError"


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array the program touches; `dims` are slots.

    kind "arg":   argument number `index`, with the strides the caller gave (rows of the program's
                  arguments that say `dense` are copied to C order first when they are not in it, and
                  copied back after the run when they are inout)
         "out":   output number `index`: the caller's `out=` with its strides, or allocated in C order, or in
                  Fortran order when the arguments' buffers with the numbers `like` all are
         "temp":  C-ordered working memory, filled with zero bytes first when `zero`
         "const": C-ordered constant at byte `index` of the constants blob
         "alias": the memory of buffer `index` (dense) seen with these dims
    """

    kind: Literal["arg", "out", "temp", "const", "alias"]
    dtype: str
    dims: tuple[int, ...]
    index: int = 0
    dense: bool = False
    zero: bool = False
    like: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Size:
    """A kernel's integer parameter: the value of a slot."""

    slot: int


@dataclass(frozen=True, slots=True)
class Stride:
    """A kernel's integer parameter: the stride of a buffer along an axis, in elements."""

    buffer: int
    axis: int


@dataclass(frozen=True, slots=True)
class Collapse:
    """Permission to merge neighbouring loops of an element-wise kernel at run time.

    `sizes` are the positions in `ints` of the loops' extents, outermost first. `operands` holds, for
    each array the kernel touches, the positions in `ints` of its strides for each loop (-1: does not
    move along that loop). Neighbouring loops d, d+1 merge when for every operand
    stride[d] == stride[d+1] * size[d+1]; merged extents move to the inner loop and the outer becomes 1.
    The kernel's range counts elements of the whole nest and is the same before and after.
    `reorder` says that the loops may also change places: every array of their rank is among the operands.
    """

    sizes: tuple[int, ...]
    operands: tuple[tuple[int, ...], ...]
    reorder: bool = False


@dataclass(frozen=True, slots=True)
class KernelCall:
    """Run kernel number `kernel` over [0, count) of its parallel loop.

    `pointers` are buffer numbers, `ints` the integer parameters, in the kernel's order. `count` is a
    slot. `work` is a slot with the number of element evaluations in the whole call and `cost` their
    price in nanoseconds per 1024: the launcher decides from them how many threads pay off. Chunks are
    multiples of `grain` items. `scratch` is a slot with the bytes of scratch memory that each thread
    needs (64-byte aligned), or -1.
    """

    kernel: int
    pointers: tuple[int, ...]
    ints: tuple[Union[Size, Stride], ...]
    count: int
    work: int
    cost: int
    grain: int = 1
    scratch: int = -1
    collapse: Collapse | None = None


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """Call a NumPy routine on buffers, with the launcher's arrays over their memory.

    `operands` and `results` are buffer numbers (-1: a result that nobody needs); sizes in the routine's
    arguments are slots. What the routine returns is copied into the results, and must have their dtypes
    and shapes. What it raises, the program raises.
    """

    routine: Routine
    operands: tuple[int, ...]
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RaiseIf:
    """Raise `exception` (one of those that `runtime/encode.py` lists) with `message` when i64 buffer `buffer` (one
    to three elements) is not zero at index 0. `{value}` and `{size}` in the message stand for those at 1 and 2."""

    buffer: int
    exception: str
    message: str


@dataclass(frozen=True, slots=True)
class Effect:
    """A check or a print: `text.format(*values)` is raised as the built-in `exception`, or printed where that is "".

    Nothing happens where the b1 scalar in buffer `condition` is true (-1: there is none). A value is a buffer and
    whether it is a Python number; other buffers of rank 0 are NumPy scalars.
    """

    condition: int
    exception: str
    text: str
    values: tuple[tuple[int, bool], ...]


@dataclass(frozen=True, slots=True)
class Measure:
    """Give `slot` the value of the last element of the i64 `buffer`, and the slots that follow from it theirs.

    Then look at `checks`, and make memory for `buffers`, whose dims were not known before: temporaries, aliases,
    outputs (or the caller's `out=`, which is looked at now). `scratch` are slots with the bytes of scratch memory
    that kernels need from here on. What an earlier run of the instruction made is used again or given back. A slot
    of -1 leaves all sizes as they are.
    """

    slot: int
    buffer: int
    checks: tuple[Check, ...] = ()
    buffers: tuple[int, ...] = ()
    scratch: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Jump:
    """Go on with instruction number `target`; the number after the last one ends the program."""

    target: int


@dataclass(frozen=True, slots=True)
class JumpUnless:
    """Go on with instruction `target` when the b1 scalar in `buffer` is false."""

    buffer: int
    target: int


@dataclass(frozen=True, slots=True)
class JumpTable:
    """Go on with the instruction that the i64 scalar in `buffer` chooses, the first or last when it is out of range."""

    buffer: int
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Swap:
    """Exchange the memory of two temporaries of one dtype and shape."""

    a: int
    b: int


@dataclass(frozen=True, slots=True)
class Point:
    """Let the alias `buffer` show the memory of the C-ordered `source`: from its start, or from the row along its
    first axis that the i64 scalar in buffer `counter` says."""

    buffer: int
    source: int
    counter: int = -1


@dataclass(frozen=True, slots=True)
class LoopBegin:
    """Set the i64 scalar in `counter` to that in `lower`, or, when `reverse`, to the last before `upper`; go on with
    instruction `end` when there is nothing between `lower` and `upper`."""

    counter: int
    lower: int
    upper: int
    reverse: bool
    end: int


@dataclass(frozen=True, slots=True)
class LoopNext:
    """Step the counter, and go on with instruction `body` unless it has passed the last number."""

    counter: int
    lower: int
    upper: int
    reverse: bool
    body: int


Instruction = Union[
    KernelCall, LibraryCall, RaiseIf, Effect, Measure, Jump, JumpUnless, JumpTable, Swap, Point, LoopBegin, LoopNext
]

#: A tree of arguments or results: ("leaf", i), ("none",), ("tuple", children), ("list", children),
#: ("dict", keys, children). NamedTuples and dataclasses are rebuilt by Python callers, not by C.
Tree = tuple  # type: ignore[type-arg]


@dataclass(frozen=True, slots=True)
class Program:
    """A whole function for one signature.

    `kernels` are the symbol names of the compiled kernels, `outputs` the buffers of what is returned: for an
    inout argument that is returned, the argument's own, which stands for the caller's array.
    """

    name: str
    args: tuple[Arg, ...]
    slots: tuple[SizeOp, ...]
    checks: tuple[Check, ...]
    buffers: tuple[Buffer, ...]
    instructions: tuple[Instruction, ...]
    outputs: tuple[int, ...]
    kernels: tuple[str, ...]
    constants: bytes = b""
