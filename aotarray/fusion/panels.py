"""Panel nests: columns folded by chunks of rows side by side, then a nest that joins the chunks."""

from __future__ import annotations

from .. import sizes
from ..graph import Graph
from ..loops import For, Kernel, Let
from . import scalar
from .access import Index
from .blocks import NewTemporary
from .columns import COLUMN_BLOCK, ColumnLowering
from .nest import Nest, Storage
from .partition import Group

#: rows of one panel; a float sum adds them in order, and joins panels by compensated addition
PANEL_ROWS = 256


class PanelLowering(ColumnLowering):
    """One axis is folded once: panels of rows by columns, as many as there are, run in parallel."""

    def __init__(
        self, graph: Graph, group: Group, nest: Nest, storage: dict[int, Storage], roots: set[int],
        new_temporary: NewTemporary, second: Nest,
    ) -> None:  # fmt: skip
        super().__init__(graph, group, nest, storage, roots)
        self.second = second
        (axis,) = group.reduced
        self.chunks = sizes.floordiv(group.domain[axis] + (PANEL_ROWS - 1), PANEL_ROWS)
        self.blocks = sizes.floordiv(group.domain[group.outer[-1]] + (COLUMN_BLOCK - 1), COLUMN_BLOCK)
        shape = (self.chunks, *group.outer_shape)
        self.partials = {
            f.number: new_temporary(f"{f.op.name}_partial", "f32" if f.type.code == "f16" else f.type.code, shape)
            for f in self.folds
        }

    def lower(self) -> list[Kernel]:
        nest, group = self.nest, self.group
        (axis,) = group.reduced
        vector = self.variables[group.outer[-1]]
        self._open_block(self.blocks, self.chunks)
        place = self._partial_index()
        nest.open(For(vector, "first", "last"))
        for f in self.folds:
            nest.store(self.partials[f.number], place, self._wide(scalar.fold_start(f.op.name, f.type.code)))
        nest.close()
        top, bottom = nest.fresh("top"), nest.fresh("bottom")
        nest.emit(Let(top, f"{'chunk' if self.chunks != 1 else 0}*{PANEL_ROWS}"))
        nest.emit(Let(bottom, f"min({top} + {PANEL_ROWS}, {nest.size(group.domain[axis])})"))
        nest.open(For(self.variables[axis], top, bottom))
        nest.open(For(vector, "first", "last"))
        for f in self.folds:
            held = self._names(nest.load(self.partials[f.number], place, nest.scopes[-1]))
            parts = self._names(nest.value(f.operands[0], self.operand_at(f)))
            nest.store(
                self.partials[f.number], place, self._wide(scalar.fold(f.op.name, f.type.code, held, parts, True))
            )
        nest.close(3)
        lead = sizes.product(group.outer_shape[:-1])
        summary = f"{self._over('columns of', group.reduced)} in panels of {PANEL_ROWS} x {COLUMN_BLOCK}"
        first = nest.finish(lead * self.chunks * self.blocks, sizes.product(group.domain), summary=summary)
        return [first, self._join()]

    def _partial_index(self) -> Index:
        chunk = sizes.name("chunk") if self.chunks != 1 else 0
        return (chunk, *(self.index[a] for a in self.group.outer))

    def _join(self) -> Kernel:
        """Fold the panels' results, and compute what follows from them."""
        nest = self.nest = self.second
        nest.inline_root = {r.number for r in self.group.roots}
        group = self.group
        name = self.variables[group.outer[-1]]
        self._open_block(self.blocks)
        slot = (self.index[group.outer[-1]] - sizes.name("first"),)
        acc = {f.number: self._columns(f, f"{f.op.name}s") for f in self.folds}
        lost = {f.number: self._columns(f, "losts") for f in self.folds if self._is_float_sum(f)}
        self._start_columns(self.folds, acc, lost, name, slot)
        scope = nest.open(For("chunk", "0", nest.size(self.chunks)))
        scope.variables.add("chunk")
        nest.open(For(name, "first", "last"))
        for f in self.folds:
            part = self._names(nest.load(self.partials[f.number], self._partial_index(), nest.scopes[-1]))
            if f.number in lost:
                self._add_compensated(f, acc[f.number], lost[f.number], part, slot)
            else:
                held = self._names(nest.load(acc[f.number], slot, nest.scopes[-1]))
                nest.store(acc[f.number], slot, self._wide(scalar.fold(f.op.name, f.type.code, held, part, True)))
        nest.close(2)
        self._settle_columns(self.folds, acc, lost, name, slot)
        self._store_results()
        nest.close()
        lead = sizes.product(group.outer_shape[:-1])
        work = self.chunks * sizes.product(group.outer_shape)
        return nest.finish(lead * self.blocks, work, summary="the panels' results, joined")
