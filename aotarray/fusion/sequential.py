"""Nests in which one axis is walked in order: running folds and positions of extremes."""

from __future__ import annotations

from .. import sizes
from ..errors import UnsupportedError
from ..graph import Node
from ..loops import For, Kernel, Let
from ..sizes import Dim
from . import scalar
from .group_lowering import GroupLowering


class _AlongAxis(GroupLowering):
    """The axis that is walked is `root.params["axis"]`; the others are the parallel range."""

    def _domain_axis(self, root: Node, axis: int) -> int | None:
        shape = root.operands[0].shape
        if shape[axis] == 1:
            return None
        return sum(1 for a in range(axis) if shape[a] != 1)


class ScanLowering(_AlongAxis):
    """A running fold, in order, as NumPy does it."""

    def lower(self) -> list[Kernel]:
        """A running fold along one axis, in order, as NumPy does; the other axes are the parallel range."""
        (root,) = self.group.roots
        nest = self.nest
        axis = self._domain_axis(root, root.params["axis"])
        outer = [a for a in range(len(self.group.domain)) if a != axis]
        self._open_items(outer)
        name = "prod" if root.op.name == "cumprod" else "sum"
        code = root.type.code
        start = scalar.scan_start(name, code)
        acc = tuple(nest.fresh("acc") for _ in start)
        for a, text in zip(acc, start, strict=True):
            nest.emit(Let(a, text))
        if axis is not None:
            nest.open(For(self.variables[axis], "0", nest.size(self.group.domain[axis])))
        value = self._names(nest.value(root.operands[0], self.at(root, range(len(self.group.domain)))))
        updated = scalar.fold(name, code, acc, value, True)
        if code == "f16":
            updated = (f"half_to_float(float_to_half({updated[0]}))",)
        fresh = [nest.temporary() for _ in updated]
        for new, text in zip(fresh, updated, strict=True):
            nest.emit(Let(new, text))
        for a, new in zip(acc, fresh, strict=True):
            nest.emit(Let(a, new))
        nest.store(
            self.storage[root.number],
            self.at(root, range(len(self.group.domain))),
            self._wide(acc),
            str(root.where),
        )
        nest.close(2 if axis is not None else 1)
        count = sizes.product(self.group.domain[a] for a in outer)
        summary = self._over("running along", [] if axis is None else [axis])
        return [nest.finish(count, sizes.product(self.group.domain), summary=summary)]


class ExtremeLowering(_AlongAxis):
    """The position of the first extreme."""

    def _find_extreme(
        self, root: Node, index: list[Dim], position: str, extent: str, best: str, where: str
    ) -> None:
        """Two passes that both run on vectors: the extreme, then the first place that holds it."""
        nest, operand, axis = self.nest, root.operands[0], root.params["axis"]
        fold, code = ("max" if root.op.name == "argmax" else "min"), operand.type.code
        nest.emit(Let(best, scalar.fold_start(fold, code)[0]))
        index[axis] = sizes.name(position)
        nest.open(For(position, "0", extent))
        value = self._names(nest.value(operand, tuple(index)))[0]
        nest.emit(Let(best, scalar.fold(fold, code, (best,), (value,), False)[0]))
        nest.close()
        again = nest.fresh("at")
        nest.emit(Let(where, f"int64({extent})"))
        index[axis] = sizes.name(again)
        nest.open(For(again, "0", extent))
        value = self._names(nest.value(operand, tuple(index)))[0]
        match = f"{value} == {best}"
        if code[0] == "f":
            match = f"({match}) | (({value} != {value}) & ({best} != {best}))"
        nest.emit(Let(where, f"min({where}, where({match}, {again}, {extent}))"))
        nest.close()

    def lower(self) -> list[Kernel]:
        """The position of the first extreme along one axis; a NaN counts as the extreme, as in NumPy."""
        (root,) = self.group.roots
        nest, operand = self.nest, root.operands[0]
        outer = list(range(len(self.group.domain)))
        full = [d for d in operand.shape if d != 1]
        axis = self._domain_axis(root, root.params["axis"])
        position = nest.fresh("position")
        self._open_items(outer)
        index = list(self.at(root, outer))
        index.insert(root.params["axis"], 0)
        if operand.dtype.kind == "c":
            raise UnsupportedError(
                f"{root.where}: {root.op.name} of complex values is not supported; take it of abs()"
            )
        best, where = nest.fresh("best"), nest.fresh("best_at")
        extent = nest.size(operand.shape[root.params["axis"]])
        if axis is None:
            nest.emit(Let(where, "int64(0)"))
        else:
            self._find_extreme(root, index, position, extent, best, where)
        nest.store(self.storage[root.number], self.at(root, outer), where, str(root.where))
        nest.close()
        return [
            nest.finish(
                sizes.product(self.group.domain),
                sizes.product(full),
                summary=self._over("for each of", outer),
            )
        ]
