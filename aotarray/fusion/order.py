"""In which order the axes of results lie in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..program import Buffer, Instruction, KernelCall, LibraryCall


def follow_order(buffers: list[Buffer], instructions: Sequence[Instruction]) -> None:
    """Let results of element-wise kernels follow the order of the arguments they are made of, as NumPy's do."""
    like: dict[int, tuple[int, ...]] = {}
    for ins in instructions:
        if isinstance(ins, LibraryCall):
            like.update(dict.fromkeys((*ins.operands, *ins.results), ()))
        if not isinstance(ins, KernelCall):
            continue
        ordered = ins.collapse is not None and ins.collapse.reorder
        for number in ins.pointers:
            buffer = buffers[number]
            given = tuple(k for k in ins.pointers if buffers[k].kind == "arg" and buffers[k].dims == buffer.dims)
            fine = buffer.kind == "out" and ordered and number not in like and not any(buffers[k].dense for k in given)
            like[number] = given if fine else ()
    for number, followed in like.items():
        if followed and not buffers[number].dense:
            buffers[number] = replace(buffers[number], like=followed)
