"""Nests over the true elements of a mask: counted block by block, then found again from where each block's begin.

Both look at the same fixed blocks, so the outcome is the same for any number of threads.
"""

from __future__ import annotations

from .. import sizes
from ..graph import Node
from ..loops import For, Kernel, Let
from ..ops import COUNT_BLOCK
from ..sizes import Dim
from .group_lowering import LETTERS, GroupLowering
from .nest import Nest


class _Blocks(GroupLowering):
    """Loops over the elements of a mask in blocks."""

    def open_block(self) -> tuple[str, str, str]:
        """The parallel loop: the number of the block, and its first element and the one after its last."""
        nest = self.nest
        block, first, last = (nest.fresh(stem) for stem in ("block", "first", "last"))
        nest.open(For(block, "begin", "end"))
        total = " * ".join(nest.extents) or "1"
        nest.emit(Let(first, f"{block}*{COUNT_BLOCK}"))
        nest.emit(Let(last, f"min({first} + {COUNT_BLOCK}, {total})"))
        return block, first, last

    def open_elements(self, variables: list[str], first: str, last: str) -> None:
        """The loops over a block's elements."""
        if len(variables) > 1:
            first, last = self.open_segment_rows(first, last, variables, self.nest.extents)
        if variables:
            self.nest.open(For(variables[-1], first, last))

    def mask_index(self, mask: Node, variables: list[str]) -> tuple[Dim, ...]:
        moving = iter(variables)
        return tuple(0 if d == 1 else sizes.name(next(moving)) for d in mask.shape)


def blocks_of(mask: Node) -> Dim:
    """How many blocks a mask has."""
    return sizes.floordiv(mask.type.size + (COUNT_BLOCK - 1), COUNT_BLOCK)


class CountLowering(_Blocks):
    """How many elements are true before each block: a count for each, then a nest that adds them up."""

    def __init__(self, *common: object, second: Nest) -> None:
        super().__init__(*common)  # type: ignore[arg-type]
        self.second = second

    def lower(self) -> list[Kernel]:
        (root,) = self.group.roots
        (mask,) = root.operands
        nest, place, total, blocks = self.nest, self.storage[root.number], mask.type.size, blocks_of(mask)
        nest.loops = list(self.variables)
        nest.extents = [
            nest.loop_extent(d, v) for d, v in zip(self.group.domain, self.variables, strict=True)
        ]
        block, first, last = self.open_block()
        depth = len(nest.scopes)
        count = nest.fresh("count")
        nest.emit(Let(count, "int64(0)"))
        self.open_elements(self.variables, first, last)
        test = nest.value(mask, self.mask_index(mask, self.variables))
        nest.emit(Let(count, f"{count} + int64({test})"))
        nest.close(len(nest.scopes) - depth)
        pure = nest.pure
        nest.store(place, (sizes.name(block) + 1,), count)
        nest.pure = pure  # loops may merge: what is stored belongs to none of them
        nest.close()
        summary = (
            f"{self._over('the true elements of', range(len(self.group.domain)))} in blocks of {COUNT_BLOCK}"
        )
        return [nest.finish(blocks, total, summary=summary), self._add_up(root, blocks)]

    def _add_up(self, root: Node, blocks: Dim) -> Kernel:
        nest, place = self.second, self.storage[root.number]
        nest.open(For(nest.fresh("once"), "begin", "end")).guard = True
        end = nest.size(blocks)
        total, block = nest.fresh("total"), nest.fresh("block")
        nest.emit(Let(total, "int64(0)"))
        nest.store(place, (0,), total)
        nest.open(For(block, "0", end))
        at = (sizes.name(block) + 1,)
        nest.emit(Let(total, f"{total} + {nest.load(place, at, nest.scopes[-1])}"))
        nest.store(place, at, total)
        nest.close(2)
        return nest.finish(1, blocks, summary="the blocks' counts, added up")


class FilterLowering(_Blocks):
    """The positions of true elements, block by block, and what is computed for each of these."""

    def lower(self) -> list[Kernel]:
        found = [m for m in self.group.members if m.op.kind == "positions"]
        mask, counts = found[0].operands
        nest, (position,) = self.nest, self.variables
        domain = [d for d in mask.shape if d != 1]
        variables = [nest.fresh(LETTERS[a] if a < len(LETTERS) else f"i{a}") for a in range(len(domain))]
        nest.extents = [nest.parameter(f"n_{v}", d) for d, v in zip(domain, variables, strict=True)]
        index = self.mask_index(mask, variables)
        axes = sorted({p.params["axis"] for p in found if index[p.params["axis"]] != 0})
        kept = {a: nest.scratch("found", "i64", COUNT_BLOCK) for a in axes}
        block, first, last = self.open_block()
        scope, depth = nest.scopes[-1], len(nest.scopes)
        count, start = nest.fresh("count"), nest.fresh("start")
        nest.emit(Let(count, "int64(0)"))
        scope.variables.update((count, start))
        self.open_elements(variables, first, last)
        test = nest.value(mask, index)
        for axis, place in kept.items():  # written for each element, and counted where it is true
            nest.store(place, (sizes.name(count),), str(index[axis]))
        nest.emit(Let(count, f"{count} + int64({test})"))
        nest.close(len(nest.scopes) - depth)
        nest.emit(Let(start, str(nest.load(self.storage[counts.number], (sizes.name(block),), scope))))
        nest.open(For(position, start, f"{start} + {count}"))
        for p in found:
            axis = p.params["axis"]
            if axis in kept:
                nest.kept[(p.number, self.index)] = (kept[axis], (self.index[0] - sizes.name(start),))
            else:
                nest.scopes[-1].memo[(p.number, self.index)] = "int64(0)"
        for node in self.group.members:
            if node in self.group.roots:
                self.store_root(node, (0,))
            elif node not in found:
                nest.value(node, self.at(node, (0,)))
        nest.close(2)
        nest.pure = False
        summary = f"the {self.group.domain[0]} true elements of [{', '.join(map(str, domain))}]"
        return [nest.finish(blocks_of(mask), mask.type.size, summary=summary)]
