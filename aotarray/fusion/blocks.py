"""Block nests: everything is folded; fixed blocks with a partial result each, then a nest that joins them."""

from __future__ import annotations

from collections.abc import Callable

from .. import sizes
from ..graph import Graph, Node
from ..loops import For, Kernel, Let
from ..sizes import Dim
from .group_lowering import RUN, GroupLowering
from .nest import Nest, Storage, Value
from .partition import Group

#: elements in one block: fixed, so that results do not depend on the number of threads
REDUCTION_BLOCK = 8192
#: makes a temporary array of the program: (name, dtype code, shape)
NewTemporary = Callable[[str, str, tuple[Dim, ...]], Storage]


class BlockLowering(GroupLowering):
    """`new_temporary` makes the array of partial results, `second` is the nest that joins them."""

    def __init__(
        self, graph: Graph, group: Group, nest: Nest, storage: dict[int, Storage], roots: set[int],
        new_temporary: NewTemporary, second: Nest,
    ) -> None:  # fmt: skip
        super().__init__(graph, group, nest, storage, roots)
        self.new_temporary = new_temporary
        self.second = second

    def lower(self) -> list[Kernel]:
        """Fold everything: partial results of fixed blocks, then one pass over the partial results."""
        nest, group = self.nest, self.group
        total = sizes.product(group.domain)
        blocks = sizes.floordiv(total + (REDUCTION_BLOCK - 1), REDUCTION_BLOCK)
        partials = {
            f.number: self.new_temporary(f"{f.op.name}_partial", self._wide_code(f), (blocks,))
            for f in self.folds
        }
        block = nest.fresh("block")
        nest.loops = list(self.variables)
        nest.extents = [nest.loop_extent(d, v) for d, v in zip(group.domain, self.variables, strict=True)]
        nest.open(For(block, "begin", "end"))
        extent = " * ".join(nest.extents)
        nest.emit(Let("first", f"{block}*{REDUCTION_BLOCK}"))
        nest.emit(Let("last", f"min(first + {REDUCTION_BLOCK}, {extent})"))
        sums = [f for f in self.folds if self._is_float_sum(f)]
        acc = {f.number: self._start(f, "acc") for f in self.folds}
        lost = {f.number: self._zeros(f, "lost") for f in sums}
        depth = len(nest.scopes)
        if len(group.domain) > 1:
            start, stop = self.open_segment_rows("first", "last")
        else:
            start, stop = "first", "last"
        part = dict(acc)
        if sums:
            run, end = nest.fresh("run_start"), nest.fresh("run_stop")
            nest.open(For(run, start, stop, step=str(RUN)))
            part.update({f.number: self._zeros(f, "run", "-0.0") for f in sums})
            nest.emit(Let(end, f"min({run} + {RUN}, {stop})"))
            start, stop = run, end
        nest.open(For(self.variables[-1], start, stop))
        stores = [r for r in group.roots if r.op.kind != "reduce" and not self.is_outer(r)]
        self._inner_work(self.folds, stores, [], part, {})
        nest.close()
        for f in sums:
            self.two_sum(f, acc[f.number], lost[f.number], part[f.number])
        nest.close(len(nest.scopes) - depth)
        for f in self.folds:
            value: Value = self.settle_wide(f, acc[f.number], lost.get(f.number))
            nest.store(partials[f.number], (sizes.name(block),), value)
        nest.close()
        summary = f"{self._over('all of', group.reduced)} in blocks of {REDUCTION_BLOCK}"
        first = nest.finish(blocks, total, summary=summary)
        return [first, self._join_partials(self.second, partials, blocks)]

    def settle_wide(self, fold: Node, acc: tuple[str, ...], lost: tuple[str, ...] | None) -> Value:
        """A block's result in the accumulator's own dtype (float16 sums stay float32)."""
        if lost is None:
            return self._wide(acc)
        return self._wide(self._names(self.settle(fold, acc, lost, rounded=False)))

    def _wide_code(self, fold: Node) -> str:
        return "f32" if fold.type.code == "f16" else fold.type.code

    def _join_partials(self, nest: Nest, partials: dict[int, Storage], blocks: Dim) -> Kernel:
        self.nest = nest
        nest.inline_root = {r.number for r in self.group.roots if r.op.name not in ("input", "constant")}
        # What reads the results must not move out of the loop that makes them.
        nest.open(For(nest.fresh("once"), "begin", "end")).guard = True
        count = nest.size(blocks)
        acc = {f.number: self._start(f, "acc") for f in self.folds}
        sums = [f for f in self.folds if self._is_float_sum(f)]
        lost = {f.number: self._zeros(f, "lost") for f in sums}
        block = nest.fresh("block")
        nest.open(For(block, "0", count))
        for f in self.folds:
            names = self._names(nest.load(partials[f.number], (sizes.name(block),), nest.scopes[-1]))
            if f.number in lost:
                self.two_sum(f, acc[f.number], lost[f.number], names)
            else:
                nest.fold(f, acc[f.number], self._wide(names), exact_order=True)
        nest.close()
        for f in self.folds:
            value = (
                self.settle(f, acc[f.number], lost[f.number])
                if f.number in lost
                else self._value(acc[f.number], f)
            )
            nest.scopes[-1].memo[(f.number, self.at(f, ()))] = value
        for root in self.group.roots:
            if self.is_result(root):
                self.store_root(root, ())
        nest.close()
        return nest.finish(1, blocks, summary="the blocks' results, joined")
