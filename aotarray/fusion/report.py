"""A lowered plan as text: what each loop nest reads, writes, computes and recomputes, in bytes an element."""

from __future__ import annotations

from .. import sizes
from ..loops import Kernel
from ..ops import OPS
from ..program import (
    Buffer,
    Effect,
    Jump,
    JumpTable,
    JumpUnless,
    KernelCall,
    LibraryCall,
    LoopBegin,
    LoopNext,
    Measure,
    RaiseIf,
)
from ..sizes import Dim
from ..types import DTYPE_OF_CODE
from .schedule import Plan


def show_plan(plan: Plan) -> str:
    """The instructions of a plan in order, and the memory that they need beside arguments and results."""
    count = len(plan.kernels)
    lines = [f"{plan.graph.name}: {count} loop nest{'s' if count != 1 else ''}", ""]
    for number, instruction in enumerate(plan.program.instructions):
        if isinstance(instruction, KernelCall):
            lines += _kernel(plan, plan.kernels[instruction.kernel])
        elif isinstance(instruction, LibraryCall):
            lines += [
                instruction.routine.name,
                f"  a NumPy call on buffers {', '.join(map(str, instruction.operands))}",
                "",
            ]
        elif isinstance(instruction, RaiseIf):
            lines += [f"raise {instruction.exception} where a kernel asks for it: {instruction.message}", ""]
        elif isinstance(instruction, Effect):
            what = f"raise {instruction.exception} unless" if instruction.exception else "print"
            lines += [f"{what}: {instruction.text}", ""]
        elif isinstance(instruction, Measure):
            made = ", ".join(_array(plan, plan.program.buffers[b]) for b in instruction.buffers)
            size = f"measure {_names(plan).get(instruction.slot)}, and make {made or 'nothing'}"
            lines += [size if instruction.slot >= 0 else "check sizes", ""]
        elif isinstance(instruction, LoopBegin):
            lines += ["for each number from lower to upper", ""]
        elif isinstance(instruction, LoopNext):
            lines += ["next number", ""]
        elif isinstance(instruction, JumpUnless):
            lines += ["leave the loop unless it goes on", ""]
        elif isinstance(instruction, JumpTable):
            lines += [f"choose one of {len(instruction.targets)}", ""]
        elif isinstance(instruction, Jump):
            lines += ["again" if instruction.target <= number else "end of the choice", ""]
    temporaries = [b for b in plan.program.buffers if b.kind == "temp"]
    if temporaries:
        lines.append("temporaries: " + ", ".join(_array(plan, b) for b in temporaries))
    return "\n".join(lines).rstrip() + "\n"


def _kernel(plan: Plan, kernel: Kernel) -> list[str]:
    names = {p.buffer: p.name for p in kernel.pointers}
    arrays = [(p, plan.program.buffers[p.buffer]) for p in kernel.pointers if p.role != "scratch"]
    reads = [f"{names[p.buffer]} {_array(plan, b)}" for p, b in arrays if p.role == "in"]
    writes = [f"{names[p.buffer]} {_array(plan, b)}" for p, b in arrays if p.role == "out"]
    lines = [kernel.name, f"  over        {kernel.summary}"]
    lines.append(f"  reads       {', '.join(reads) or 'nothing'}")
    lines.append(f"  writes      {', '.join(writes)}")
    lines.append(f"  moves       {_traffic(plan, kernel, [b for _, b in arrays])}")
    computed = ", ".join(
        f"{n} {name}"
        for name, n in sorted(kernel.ops.items(), key=lambda item: (-OPS[item[0]].cost, item[0]))
    )
    lines.append(f"  computes    {computed or 'nothing'}")
    others = {n for k in plan.kernels if k is not kernel for n in k.computed}
    here = {n for n, times in kernel.computed.items() if times > 1}
    again = [n for n in plan.graph.nodes() if n.number in here | (kernel.computed.keys() & others)]
    lines.append(f"  recomputes  {', '.join(sorted({n.op.name for n in again})) or 'nothing'}")
    return [*lines, ""]


def _array(plan: Plan, buffer: Buffer) -> str:
    return f"{buffer.dtype}[{', '.join(str(d) for d in _shape(plan, buffer))}]"


def _shape(plan: Plan, buffer: Buffer) -> list[Dim]:
    names = _names(plan)
    return [names[d] for d in buffer.dims]


def _names(plan: Plan) -> dict[int, Dim]:
    """The size in each slot."""
    return {slot: dim for dim, slot in plan.sizes.items()}


def _traffic(plan: Plan, kernel: Kernel, buffers: list[Buffer]) -> str:
    """Bytes an element of the nest, from arrays as large as it; smaller arrays are read again from cache."""
    full, smaller = 0, 0
    work = _typical(kernel.work)
    for buffer in buffers:
        if _typical(sizes.product(_shape(plan, buffer))) >= 0.9 * work:
            full += DTYPE_OF_CODE[buffer.dtype].itemsize
        else:
            smaller += 1
    text = f"{full} bytes an element"
    return text + (f", and {smaller} smaller array{'s' if smaller > 1 else ''}" if smaller else "")


def _typical(size: Dim) -> int:
    """A size with a thousand for every name: enough to tell an array of the nest's order from a smaller one."""
    return sizes.evaluate(size, dict.fromkeys(sizes.names(size), 1000))
