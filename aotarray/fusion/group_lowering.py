"""What every shape of loop nest shares: indices, parallel loops, levels of dependent folds, accumulators."""

from __future__ import annotations

from collections.abc import Sequence

from .. import sizes
from ..graph import Graph, Node
from ..loops import For, Kernel, Let
from ..sizes import Dim
from . import scalar
from .access import Index, domain_of
from .nest import Nest, Storage, Value
from .partition import Group

#: a float sum adds this many elements in vector order before joining them by compensated addition
RUN = 512

LETTERS = ("i", "j", "k", "l", "p", "q", "r", "s")


class GroupLowering:
    """Lowers one group to kernels; a subclass for each shape of nest. `storage` says where stored nodes live."""

    def __init__(
        self, graph: Graph, group: Group, nest: Nest, storage: dict[int, Storage], roots: set[int]
    ) -> None:
        self.graph, self.group, self.nest, self.storage, self.roots = graph, group, nest, storage, roots
        self.variables = [
            nest.fresh(LETTERS[a] if a < len(LETTERS) else f"i{a}") for a in range(len(group.domain))
        ]
        self.index: Index = tuple(sizes.name(v) for v in self.variables)
        self.folds = [r for r in group.roots if r.op.kind == "reduce"]
        nest.inline_root = {r.number for r in group.roots if r.op.name not in ("input", "constant")}

    def at(self, node: Node, axes: Sequence[int]) -> Index:
        """The index of a root whose axes other than size 1 are the domain axes `axes`."""
        remaining = list(axes)
        return tuple(0 if d == 1 else self.index[remaining.pop(0)] for d in node.shape)

    def operand_at(self, fold: Node) -> Index:
        operand = fold.operands[0]
        remaining = list(range(len(self.group.domain)))
        return tuple(0 if d == 1 else self.index[remaining.pop(0)] for d in operand.shape)

    def is_outer(self, node: Node) -> bool:
        return (
            node.op.kind != "reduce" and bool(self.group.reduced) and domain_of(node)[0] != self.group.domain
        )

    def is_result(self, node: Node) -> bool:
        """True for what is stored once for each outer index: folds that others read, and what follows them."""
        return node.number in self.storage if node.op.kind == "reduce" else self.is_outer(node)

    def store_root(self, node: Node, axes: Sequence[int]) -> None:
        """Write a map root at the current indices."""
        index = self.at(node, axes)
        line = str(node.where) if node.where.line else ""
        self.nest.store(self.storage[node.number], index, self.nest.value(node, index), line)

    def _over(self, what: str, axes: Sequence[int]) -> str:
        """ "rows of m in [n, m]", for summaries."""
        domain = f"[{', '.join(map(str, self.group.domain))}]"
        if len(axes) == len(self.group.domain):
            return f"{what} {domain}"
        return f"{what} {' x '.join(str(self.group.domain[a]) for a in axes) or 'one'} in {domain}"

    def open_segments(
        self, begin: str, end: str, names: Sequence[str] = (), extents: Sequence[str] = ()
    ) -> None:
        """Loops over elements [begin, end) of the domain (or of the given loops), row by row: two loops at the top."""
        low, high = self.open_segment_rows(begin, end, names, extents)
        self.nest.open(For((names or self.variables)[-1], low, high))

    def open_segment_rows(
        self, begin: str, end: str, names: Sequence[str] = (), extents: Sequence[str] = ()
    ) -> tuple[str, str]:
        """The outer of those loops; gives the bounds of the inner one."""
        nest = self.nest
        names, extents = names or self.variables, extents or nest.extents
        inner = extents[-1]
        outer = names[0] if len(names) == 2 else nest.fresh("row")
        row = For(outer, f"{begin} // {inner}", f"({end} - 1) // {inner} + 1")
        scope = nest.open(row)
        if len(names) > 2:
            self._decode(outer, names[:-1], extents[:-1], scope.variables)
        low, high = nest.fresh("low"), nest.fresh("high")
        nest.emit(Let(low, f"max({begin} - {outer}*{inner}, 0)"))
        nest.emit(Let(high, f"min({end} - {outer}*{inner}, {inner})"))
        return low, high

    def _decode(self, flat: str, names: Sequence[str], extents: Sequence[str], variables: set[str]) -> None:
        """Split a flat counter into one index for each axis."""
        rest = flat
        for k in range(len(names) - 1, 0, -1):
            self.nest.emit(Let(names[k], f"{rest} % {extents[k]}"))
            if k > 1:
                following = self.nest.fresh("rest")
                self.nest.emit(Let(following, f"{rest} // {extents[k]}"))
                rest = following
            else:
                self.nest.emit(Let(names[0], f"{rest} // {extents[1]}"))
        variables.update(names)

    def _open_outer(self, axes: Sequence[int]) -> None:
        """The parallel loop over the flattened axes; defines their variables."""
        nest = self.nest
        names = [self.variables[a] for a in axes]
        flat = names[0] if len(names) == 1 else nest.fresh("item")
        scope = nest.open(For(flat, "begin", "end"))
        if len(names) > 1:
            self._decode(flat, names, [self._bound(a) for a in axes], scope.variables)

    def _open_items(self, axes: Sequence[int]) -> None:
        """The parallel loop over the given axes; a single item when there are none."""
        if axes:
            self._open_outer(axes)
        else:
            self.nest.open(For(self.nest.fresh("once"), "begin", "end"))

    def extent(self, axis: int) -> str:
        """The extent of a loop, as a parameter where it is no constant or name."""
        return self.nest.parameter(f"n_{self.variables[axis]}", self.group.domain[axis])

    def _bound(self, axis: int) -> str:
        text = self.nest.size(self.group.domain[axis])
        return text if text.isalnum() else f"({text})"

    def levels(self) -> dict[int, int]:
        """The loop in which each fold, and each root stored in the row, is computed (1 is the first)."""
        level: dict[int, int] = {}
        for root in self.group.roots:
            if not self.is_outer(root):
                level[root.number] = 1 + max((level[f.number] for f in self._folds_below(root)), default=0)
        return level

    def _folds_below(self, root: Node) -> list[Node]:
        """Folds of this group that `root` reads, through anything that is computed in place."""
        found, seen, stack = [], {root.number}, list(root.operands)
        mine = {f.number for f in self.folds}
        while stack:
            node = stack.pop()
            if node.number in seen:
                continue
            seen.add(node.number)
            if node.number in mine:
                found.append(node)
            elif not (node.number in self.storage and node.number not in self.nest.inline_root):
                stack.extend(node.operands)
        return found

    def _is_float_sum(self, fold: Node) -> bool:
        return fold.op.name == "sum" and fold.dtype.kind in "fc"

    def _start(self, fold: Node, stem: str) -> tuple[str, ...]:
        """Declare accumulators with the value the fold starts from."""
        texts = scalar.fold_start(fold.op.name, fold.type.code)
        names = tuple(self.nest.fresh(stem) for _ in texts)
        for name, text in zip(names, texts, strict=True):
            self.nest.emit(Let(name, text))
        return names

    def _zeros(self, fold: Node, stem: str, zero: str = "0.0") -> tuple[str, ...]:
        code = scalar.PART.get(fold.type.code, fold.type.code)
        text = zero if code == "f64" else f"float32({zero})"
        names = tuple(self.nest.fresh(stem) for _ in range(2 if fold.dtype.kind == "c" else 1))
        for name in names:
            self.nest.emit(Let(name, text))
        return names

    def _zero_text(self, fold: Node, zero: str = "0.0") -> str:
        code = scalar.PART.get(fold.type.code, fold.type.code)
        return zero if code == "f64" else f"float32({zero})"

    def _reduced_extent(self) -> Dim:
        return sizes.product(self.group.domain[a] for a in self.group.reduced)

    def two_sum(self, fold: Node, acc: tuple[str, ...], lost: tuple[str, ...], part: tuple[str, ...]) -> None:
        """`acc + lost` += `part` without rounding error (Knuth's two-sum; `lost` collects what is rounded off)."""
        for a, c, p in zip(acc, lost, part, strict=True):
            total, shadow = self.nest.fresh("total"), self.nest.fresh("shadow")
            self.nest.emit(Let(total, f"{a} + {p}"))
            self.nest.emit(Let(shadow, f"{total} - {a}"))
            self.nest.emit(Let(c, f"{c} + (({a} - ({total} - {shadow})) + ({p} - {shadow}))"))
            self.nest.emit(Let(a, total))

    def settle(self, fold: Node, acc: tuple[str, ...], lost: tuple[str, ...], rounded: bool = True) -> Value:
        """The compensated sum; where the sum is infinite or NaN, or nothing was lost, just the sum."""
        names = []
        for a, c in zip(acc, lost, strict=True):
            name = self.nest.fresh("sum")
            self.nest.emit(Let(name, f"where(({c} != 0) & ({c} == {c}), {a} + {c}, {a})"))
            names.append(name)
        return self._value(names, fold) if rounded else self._wide(names)

    def _value(self, names: Sequence[str], fold: Node) -> Value:
        if fold.dtype.kind == "c":
            return names[0], names[1]
        if fold.type.code == "f16":
            rounded = self.nest.fresh("rounded")
            self.nest.emit(Let(rounded, f"half_to_float(float_to_half({names[0]}))"))
            return rounded
        return names[0]

    def _wide(self, parts: Sequence[str]) -> Value:
        return (parts[0], parts[1]) if len(parts) == 2 else parts[0]

    def _names(self, value: Value) -> tuple[str, ...]:
        return value if isinstance(value, tuple) else (value,)

    def _inner_work(
        self, folds: list[Node], stores: list[Node], keep: list[Node], part: dict[int, tuple[str, ...]],
        places: dict[int, Storage],
    ) -> None:  # fmt: skip
        nest, group = self.nest, self.group
        for node in keep:
            index = self._full_index(node)
            value = nest.value(node, index)
            if node.number in self.storage:
                continue
            place = nest.scratch("kept", node.type.code, self._reduced_extent())
            places[node.number] = place
            nest.store(place, (self._row_position(),), value)
        for f in folds:
            nest.fold(f, part[f.number], nest.value(f.operands[0], self.operand_at(f)))
        for root in stores:
            self.store_root(root, range(len(group.domain)))
        self._reload(keep, places)

    def _reload(self, keep: list[Node], places: dict[int, Storage]) -> None:
        """From here on, kept values are read back instead of computed."""
        for node in keep:
            index = self._full_index(node)
            place = places.get(node.number)
            self.nest.kept[(node.number, index)] = (
                (self.storage[node.number], index) if place is None else (place, (self._row_position(),))
            )

    def _full_index(self, node: Node) -> Index:
        return self.at(node, range(len(self.group.domain)))

    def _row_position(self) -> Dim:
        """The position in the row of folded axes, flattened."""
        position: Dim = 0
        for axis in self.group.reduced:
            position = position * self.group.domain[axis] + self.index[axis]
        return position

    def lower(self) -> list[Kernel]:
        """The kernels of the group."""
        raise NotImplementedError
