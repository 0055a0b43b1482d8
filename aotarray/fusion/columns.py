"""Column nests: the innermost axis is kept; blocks of columns, rows streamed, accumulators in scratch."""

from __future__ import annotations

from .. import sizes
from ..graph import Node
from ..loops import For, Kernel, Let
from ..sizes import Dim
from . import scalar
from .access import Index, operand_uses
from .group_lowering import GroupLowering
from .nest import Storage

#: a float sum adds this many rows before joining them by compensated addition
ROW_RUN = 256
#: at most and at least so many columns are done together: their accumulators stay in the first-level cache
COLUMN_BLOCK, NARROW_BLOCK = 2048, 256


class ColumnLowering(GroupLowering):
    """Several columns at once: accumulators are small arrays, and rows pass by them."""

    #: columns done together
    block: Dim = COLUMN_BLOCK

    def lower(self) -> list[Kernel]:
        nest, group = self.nest, self.group
        level = self.levels()
        *lead, vector = group.outer
        width = group.domain[vector]
        # a quarter of the columns, within bounds, so that a few threads have work
        self.block = sizes.minimum(sizes.maximum(sizes.floordiv(width + 3, 4), NARROW_BLOCK), COLUMN_BLOCK)
        blocks = sizes.floordiv(width + (self.block - 1), self.block)
        self._open_block(blocks)
        for number in range(1, max(level.values()) + 1):
            folds = [f for f in self.folds if level[f.number] == number]
            stores = [r for r in group.roots if r.op.kind != "reduce" and level.get(r.number) == number]
            self._keep_column_values(folds, stores)
            self._column_loop(folds, stores)
        self._store_results()
        nest.close()
        count = sizes.product(group.domain[a] for a in lead) * blocks
        passes = max(level.values())
        summary = f"{self._over('columns of', group.reduced)} in blocks of {NARROW_BLOCK} to {COLUMN_BLOCK}, "
        summary += f"{passes} pass{'es' if passes > 1 else ''}"
        return [nest.finish(count, sizes.product(group.domain), summary=summary)]

    def _store_results(self) -> None:
        """Write what is stored once for each column."""
        results = [r for r in self.group.roots if self.is_result(r)]
        if results:
            self.nest.open(For(self.variables[self.group.outer[-1]], "first", "last"))
            for root in results:
                self.store_root(root, self.group.outer)
            self.nest.close()

    def _open_block(self, blocks: Dim, chunks: Dim = 1) -> None:
        """The parallel loop over blocks of columns, chunks of rows, and the axes that lead; defines their variables."""
        nest, group = self.nest, self.group
        *lead, vector = group.outer
        rest = nest.fresh("item")
        scope = nest.open(For(rest, "begin", "end"))
        count, width = nest.parameter("blocks", blocks), nest.parameter("width", self.block)
        nest.emit(Let("first", f"({rest} % {count})*{width}"))
        nest.emit(Let("last", f"min(first + {width}, {nest.size(group.domain[vector])})"))
        scope.variables.add("first")
        if chunks != 1:
            rest = self._quotient(rest, count)
            count = nest.parameter("chunks", chunks)
            nest.emit(Let("chunk", f"{rest} % {count}"))
            scope.variables.add("chunk")
        if lead:
            flat = self._quotient(rest, count, self.variables[lead[0]] if len(lead) == 1 else "")
            scope.variables.add(flat)
            if len(lead) > 1:
                names = [self.variables[a] for a in lead]
                self._decode(flat, names, [self._bound(a) for a in lead], scope.variables)

    def _quotient(self, text: str, count: str, name: str = "") -> str:
        name = name or self.nest.fresh("rest")
        self.nest.emit(Let(name, f"{text} // {count}"))
        return name

    def _keep_column_values(self, folds: list[Node], stores: list[Node]) -> None:
        """Values of a column that the next pass over its rows needs, computed once instead of in every row."""
        nest, vector = self.nest, self.group.outer[-1]
        starts = [(f.operands[0], self.operand_at(f)) for f in folds]
        starts += [(r, self.at(r, range(len(self.group.domain)))) for r in stores]
        inner = {self.variables[a] for a in self.group.reduced}
        chosen: list[tuple[Node, Index]] = []
        seen: set[tuple[int, Index]] = set()
        while starts:
            node, index = starts.pop()
            if (node.number, index) in seen:
                continue
            seen.add((node.number, index))
            names = {n for i in index for n in sizes.names(i)}
            loaded = (node.number, index) in nest.kept or (
                node.number in self.storage and node.number not in nest.inline_root
            )
            of_column = self.variables[vector] in names and not names & inner
            if node.op.kind == "elementwise" and of_column and not loaded and node.op.cost > 1:
                chosen.append((node, index))
                continue
            if not loaded and node.op.kind in ("elementwise", "view"):
                starts += operand_uses(node, index)
        if not chosen:
            return
        slot = (self.index[vector] - sizes.name("first"),)
        nest.open(For(self.variables[vector], "first", "last"))
        places = []
        for node, index in reversed(chosen):
            place = nest.scratch("column", node.type.code, COLUMN_BLOCK)
            nest.store(place, slot, nest.value(node, index))
            places.append(((node.number, index), (place, slot)))
        nest.close()
        nest.kept.update(places)

    def _column_loop(self, folds: list[Node], stores: list[Node]) -> None:
        """One pass over the rows, all columns of the block at once."""
        nest, group = self.nest, self.group
        vector = group.outer[-1]
        name = self.variables[vector]
        slot = (self.index[vector] - sizes.name("first"),)
        sums = [f for f in folds if self._is_float_sum(f)]
        acc = {f.number: self._columns(f, f"{f.op.name}s") for f in folds}
        lost = {f.number: self._columns(f, "losts") for f in sums}
        part = dict(acc) | {f.number: self._columns(f, "runs") for f in sums}
        self._start_columns(folds, acc, lost, name, slot)
        opened = 0
        for axis in group.reduced[:-1]:
            nest.open(For(self.variables[axis], "0", nest.size(group.domain[axis])))
            opened += 1
        inner = group.reduced[-1]
        start_text, stop_text = "0", nest.size(group.domain[inner])
        if sums:
            block, end = nest.fresh("block"), nest.fresh("stop")
            nest.open(For(block, "0", stop_text, step=str(ROW_RUN)))
            opened += 1
            nest.emit(Let(end, f"min({block} + {ROW_RUN}, {stop_text})"))
            nest.open(For(name, "first", "last"))
            for f in sums:
                zero = tuple(self._zero_text(f, "-0.0") for _ in range(2 if f.dtype.kind == "c" else 1))
                nest.store(part[f.number], slot, self._wide(zero))
            nest.close()
            start_text, stop_text = block, end
        nest.open(For(self.variables[inner], start_text, stop_text))
        nest.open(For(name, "first", "last"))
        for f in folds:
            held = nest.load(part[f.number], slot, nest.scopes[-1])
            names = held if isinstance(held, tuple) else (held,)
            value = nest.value(f.operands[0], self.operand_at(f))
            parts = value if isinstance(value, tuple) else (value,)
            nest.store(
                part[f.number], slot, self._wide(scalar.fold(f.op.name, f.type.code, names, parts, True))
            )
        for root in stores:
            self.store_root(root, range(len(group.domain)))
        nest.close(2)
        if sums:
            nest.open(For(name, "first", "last"))
            for f in sums:
                part_names = self._names(nest.load(part[f.number], slot, nest.scopes[-1]))
                self._add_compensated(f, acc[f.number], lost[f.number], part_names, slot)
            nest.close()
        nest.close(opened)
        self._settle_columns(folds, acc, lost, name, slot)

    def _start_columns(
        self, folds: list[Node], acc: dict[int, Storage], lost: dict[int, Storage], name: str, slot: Index
    ) -> None:
        """Accumulators at the values folds start from."""
        if not folds:
            return
        nest = self.nest
        nest.open(For(name, "first", "last"))
        for f in folds:
            start = scalar.fold_start(f.op.name, f.type.code)
            nest.store(acc[f.number], slot, self._wide(start))
            if f.number in lost:
                nest.store(lost[f.number], slot, self._wide(tuple(self._zero_text(f) for _ in start)))
        nest.close()

    def _add_compensated(
        self, fold: Node, acc: Storage, lost: Storage, part: tuple[str, ...], slot: Index
    ) -> None:
        """`acc + lost` += `part`, for one column."""
        nest = self.nest
        a, c = (self._names(nest.load(x, slot, nest.scopes[-1])) for x in (acc, lost))
        a2, c2 = tuple(nest.fresh("acc") for _ in a), tuple(nest.fresh("rest") for _ in a)
        for new, old in zip((*a2, *c2), (*a, *c), strict=True):
            nest.emit(Let(new, old))
        self.two_sum(fold, a2, c2, part)
        nest.store(acc, slot, self._wide(a2))
        nest.store(lost, slot, self._wide(c2))

    def _settle_columns(
        self, folds: list[Node], acc: dict[int, Storage], lost: dict[int, Storage], name: str, slot: Index
    ) -> None:
        nest = self.nest
        sums = [f for f in folds if f.number in lost]
        if sums:
            nest.open(For(name, "first", "last"))
            for f in sums:
                a, c = (self._names(nest.load(x[f.number], slot, nest.scopes[-1])) for x in (acc, lost))
                nest.store(acc[f.number], slot, self.settle(f, a, c))
            nest.close()
        for f in folds:
            nest.kept[(f.number, self.at(f, self.group.outer))] = (acc[f.number], slot)

    def _columns(self, fold: Node, stem: str) -> Storage:
        code = "f32" if fold.type.code == "f16" else fold.type.code
        return self.nest.scratch(stem, code, COLUMN_BLOCK)
