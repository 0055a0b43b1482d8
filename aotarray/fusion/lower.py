"""Groups to loop nests: which loops, in which order, with which accumulators.

Four shapes of nest cover all fused groups:

    map      every element of the domain on its own; the parallel range counts elements
    rows     the innermost axis is folded: one row at a time, several loops over the row, the row kept in cache
    columns  the innermost axis is kept: blocks of columns, rows streamed, accumulators in a small array
    blocks   everything is folded: fixed blocks, one partial result each, then a second nest that folds them

Float sums add runs of `RUN` elements in vector order and join the runs by compensated addition, so they are
at least as accurate as pairwise summation, and the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import sizes
from ..errors import UnsupportedError
from ..graph import Graph, Node
from ..loops import For, Kernel, Let
from ..sizes import Dim
from . import scalar
from .access import Index, domain_of, operand_uses
from .nest import Nest, Storage, Value
from .partition import Group

RUN = 512
ROW_RUN = 256
COLUMN_BLOCK = 2048
REDUCTION_BLOCK = 8192
#: values at least this dear are kept in the row's scratch instead of being computed in every loop
KEEP_PRICE = 12

#: makes a temporary array of the program: (name, dtype code, shape)
NewTemporary = Callable[[str, str, tuple[Dim, ...]], Storage]

_LETTERS = ("i", "j", "k", "l", "p", "q", "r", "s")


class GroupLowering:
    """Lowers one group; `storage` says where stored nodes live."""

    def __init__(self, graph: Graph, group: Group, nest: Nest, storage: dict[int, Storage], roots: set[int]) -> None:
        self.graph, self.group, self.nest, self.storage, self.roots = graph, group, nest, storage, roots
        self.variables = [nest.fresh(_LETTERS[a] if a < len(_LETTERS) else f"i{a}") for a in range(len(group.domain))]
        self.index = tuple(sizes.name(v) for v in self.variables)
        self.folds = [r for r in group.roots if r.op.kind == "reduce"]
        nest.inline_root = {r.number for r in group.roots if r.op.name not in ("input", "constant")}

    # -- indices ------------------------------------------------------------------------------
    def at(self, node: Node, axes: Sequence[int]) -> Index:
        """The index of a root whose axes other than size 1 are the domain axes `axes`."""
        remaining = list(axes)
        return tuple(0 if d == 1 else self.index[remaining.pop(0)] for d in node.shape)

    def operand_at(self, fold: Node) -> Index:
        operand = fold.operands[0]
        remaining = list(range(len(self.group.domain)))
        return tuple(0 if d == 1 else self.index[remaining.pop(0)] for d in operand.shape)

    def is_outer(self, node: Node) -> bool:
        return node.op.kind != "reduce" and bool(self.group.reduced) and domain_of(node)[0] != self.group.domain

    def is_result(self, node: Node) -> bool:
        """True for what is stored once for each outer index: folds that others read, and what follows them."""
        return node.number in self.storage if node.op.kind == "reduce" else self.is_outer(node)

    def store_root(self, node: Node, axes: Sequence[int]) -> None:
        """Write a map root at the current indices."""
        index = self.at(node, axes)
        line = str(node.where) if node.where.line else ""
        self.nest.store(self.storage[node.number], index, self.nest.value(node, index), line)

    def _over(self, what: str, axes: Sequence[int]) -> str:
        """"rows of m in [n, m]", for summaries."""
        domain = f"[{', '.join(map(str, self.group.domain))}]"
        if len(axes) == len(self.group.domain):
            return f"{what} {domain}"
        return f"{what} {' x '.join(str(self.group.domain[a]) for a in axes) or 'one'} in {domain}"

    # -- map ------------------------------------------------------------------------------------
    def lower_map(self) -> list[Kernel]:
        nest, domain = self.nest, self.group.domain
        axes = range(len(domain))
        if len(domain) <= 1:
            variable = self.variables[0] if domain else nest.fresh("i")
            nest.open(For(variable, "begin", "end"))
            for root in self.group.roots:
                self.store_root(root, axes)
            nest.close()
            total = domain[0] if domain else 1
            return [nest.finish(total, total, grain=64, summary=self._over("every element of", axes))]
        nest.loops = list(self.variables)
        nest.extents = [nest.loop_extent(d, v) for d, v in zip(domain, self.variables, strict=True)]
        self.open_segments("begin", "end")
        for root in self.group.roots:
            self.store_root(root, axes)
        nest.close(2)
        total = sizes.product(domain)
        return [nest.finish(total, total, grain=64, summary=self._over("every element of", axes))]

    def open_segments(self, begin: str, end: str) -> None:
        """Loops over elements [begin, end) of the whole domain, row by row: two loops at the top."""
        nest, names = self.nest, self.variables
        inner = nest.extents[-1]
        outer = names[0] if len(names) == 2 else nest.fresh("row")
        row = For(outer, f"{begin} // {inner}", f"({end} - 1) // {inner} + 1")
        scope = nest.open(row)
        if len(names) > 2:
            self._decode(outer, names[:-1], nest.extents[:-1], scope.variables)
        low, high = nest.fresh("low"), nest.fresh("high")
        nest.emit(Let(low, f"max({begin} - {outer}*{inner}, 0)"))
        nest.emit(Let(high, f"min({end} - {outer}*{inner}, {inner})"))
        nest.open(For(names[-1], low, high))

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

    def _bound(self, axis: int) -> str:
        text = self.nest.size(self.group.domain[axis])
        return text if text.isalnum() else f"({text})"

    # -- levels ---------------------------------------------------------------------------------
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

    # -- folds ------------------------------------------------------------------------------------
    def _is_float_sum(self, fold: Node) -> bool:
        return fold.op.name == "sum" and fold.dtype.kind in "fc"

    def _start(self, fold: Node, stem: str, extent: str) -> tuple[str, ...]:
        """Declare accumulators with the value the fold starts from."""
        texts = scalar.fold_start(fold.op.name, fold.type.code, extent)
        names = tuple(self.nest.fresh(stem) for _ in texts)
        for name, text in zip(names, texts, strict=True):
            self.nest.emit(Let(name, text))
        return names

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

    # -- rows -----------------------------------------------------------------------------------
    def lower_rows(self) -> list[Kernel]:
        nest, group = self.nest, self.group
        level = self.levels()
        kept = self._kept(level)
        self._open_outer(group.outer)
        keep_places: dict[int, Storage] = {}
        for number in range(1, max(level.values()) + 1):
            folds = [f for f in self.folds if level[f.number] == number]
            stores = [r for r in group.roots if r.op.kind != "reduce" and level.get(r.number) == number]
            self._row_loop(folds, stores, kept.get(number, []), keep_places)
        for root in group.roots:
            if self.is_result(root):
                self.store_root(root, group.outer)
        nest.close()
        rows = sizes.product(group.outer_shape)
        passes = max(level.values())
        summary = f"{self._over('rows of', group.reduced)}, {passes} pass{'es' if passes > 1 else ''} over each"
        kept_ops = sorted({n.op.name for nodes in kept.values() for n in nodes})
        summary += f", keeping {', '.join(kept_ops)} in cache" if kept_ops else ""
        return [nest.finish(rows, sizes.product(group.domain), summary=summary)]

    def _row_loop(
        self, folds: list[Node], stores: list[Node], keep: list[Node], places: dict[int, Storage]
    ) -> None:
        """One pass over the row: fold, store, and keep what later passes need."""
        nest, group = self.nest, self.group
        extent = self._reduced_extent()
        extent_text = nest.size(extent)
        last = group.reduced[-1]
        acc = {f.number: self._start(f, f.op.name if f.op.name not in ("max", "min", "any", "all") else f"{f.op.name}_", extent_text) for f in folds}
        sums = [f for f in folds if self._is_float_sum(f)]
        run = bool(sums) and not (isinstance(group.domain[last], int) and group.domain[last] <= RUN and len(group.reduced) == 1)
        lost = {f.number: self._zeros(f, "lost") for f in sums} if run else {}
        opened = 0
        for axis in group.reduced[:-1]:
            nest.open(For(self.variables[axis], "0", nest.size(group.domain[axis])))
            opened += 1
        start, stop = "0", nest.size(group.domain[last])
        part = dict(acc)
        if run:
            block = nest.fresh("block")
            nest.open(For(block, "0", stop, step=str(RUN)))
            opened += 1
            part.update({f.number: self._zeros(f, "run", "-0.0") for f in sums})
            end = nest.fresh("stop")
            nest.emit(Let(end, f"min({block} + {RUN}, {stop})"))
            start, stop = block, end
        nest.open(For(self.variables[last], start, stop))
        self._inner_work(folds, stores, keep, part, places)
        nest.close()
        if run:
            for f in sums:
                self.two_sum(f, acc[f.number], lost[f.number], part[f.number])
        nest.close(opened)
        for f in folds:
            value = self.settle(f, acc[f.number], lost[f.number]) if f.number in lost else self._value(acc[f.number], f)
            nest.scopes[-1].memo[(f.number, self.at(f, group.outer))] = value

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

    def _zeros(self, fold: Node, stem: str, zero: str = "0.0") -> tuple[str, ...]:
        code = scalar.PART.get(fold.type.code, fold.type.code)
        text = zero if code == "f64" else f"float32({zero})"
        names = tuple(self.nest.fresh(stem) for _ in range(2 if fold.dtype.kind == "c" else 1))
        for name in names:
            self.nest.emit(Let(name, text))
        return names

    def _kept(self, level: dict[int, int]) -> dict[int, list[Node]]:
        """Values of the row that more than one loop needs and that are dear: by the loop that makes them."""
        chosen: dict[int, int] = {}
        nodes: dict[int, Node] = {}
        while True:
            best: tuple[int, int] | None = None
            first: dict[int, int] = {}
            for number in range(1, max(level.values(), default=0) + 1):
                for node, price in self._row_values(level, number, chosen):
                    nodes[node.number] = node
                    if node.number in first and first[node.number] < number and price >= KEEP_PRICE:
                        if node.number not in chosen and (best is None or node.number > best[0]):
                            best = (node.number, first[node.number])
                    first.setdefault(node.number, number)
            if best is None:
                break
            chosen[best[0]] = best[1]
        found: dict[int, list[Node]] = {}
        for number in sorted(chosen):
            found.setdefault(chosen[number], []).append(nodes[number])
        return found

    def _row_values(self, level: dict[int, int], number: int, chosen: dict[int, int]) -> list[tuple[Node, int]]:
        """Nodes evaluated at the row's own index in loop `number`, with the price of each."""
        starts: list[tuple[Node, Index]] = []
        for root in self.group.roots:
            if level.get(root.number) == number:
                starts.append((root.operands[0], self.operand_at(root)) if root.op.kind == "reduce" else (root, self._full_index(root)))
        price: dict[tuple[int, Index], int] = {}
        order: list[tuple[Node, Index]] = []
        stack = [(n, i, False) for n, i in starts]
        while stack:
            node, index, done = stack.pop()
            key = (node.number, index)
            stop = self._stops(node, number, chosen)
            uses = [] if stop else operand_uses(node, index)
            if done:
                own = 1 if stop else 0 if node.op.kind in ("view", "leaf") else node.op.cost
                price[key] = own + sum(price.get((u.number, i), 0) for u, i in uses)
                order.append((node, index))
            elif key not in price:
                price[key] = 0
                stack.append((node, index, True))
                stack.extend((u, i, False) for u, i in uses)
        row = set(self.group.reduced)
        return [
            (n, price[(n.number, i)]) for n, i in order
            if domain_of(n)[0] == self.group.domain and n.op.kind == "elementwise" and i == self._full_index(n) and row
        ]  # fmt: skip

    def _stops(self, node: Node, number: int, chosen: dict[int, int]) -> bool:
        if node.number in chosen and chosen[node.number] < number:
            return True
        if node.op.kind == "reduce" and node.number in {f.number for f in self.folds}:
            return True
        return node.number in self.storage and node.number not in self.nest.inline_root

    # -- columns --------------------------------------------------------------------------------
    def lower_columns(self) -> list[Kernel]:
        nest, group = self.nest, self.group
        level = self.levels()
        *lead, vector = group.outer
        width = group.domain[vector]
        blocks = sizes.floordiv(width + (COLUMN_BLOCK - 1), COLUMN_BLOCK)
        item = nest.fresh("item")
        scope = nest.open(For(item, "begin", "end"))
        nest.emit(Let("first", f"({item} % {self._paren(nest.size(blocks))})*{COLUMN_BLOCK}"))
        nest.emit(Let("last", f"min(first + {COLUMN_BLOCK}, {nest.size(width)})"))
        scope.variables.add("first")
        if lead:
            flat = self.variables[lead[0]] if len(lead) == 1 else nest.fresh("rest")
            nest.emit(Let(flat, f"{item} // {self._paren(nest.size(blocks))}"))
            scope.variables.add(flat)
            if len(lead) > 1:
                self._decode(flat, [self.variables[a] for a in lead], [self._bound(a) for a in lead], scope.variables)
        for number in range(1, max(level.values()) + 1):
            folds = [f for f in self.folds if level[f.number] == number]
            stores = [r for r in group.roots if r.op.kind != "reduce" and level.get(r.number) == number]
            self._keep_column_values(folds, stores)
            self._column_loop(folds, stores)
        results = [r for r in group.roots if self.is_result(r)]
        if results:
            nest.open(For(self.variables[vector], "first", "last"))
            for root in results:
                self.store_root(root, group.outer)
            nest.close()
        nest.close()
        count = sizes.product(group.domain[a] for a in lead) * blocks
        passes = max(level.values())
        summary = f"{self._over('columns of', group.reduced)} in blocks of {COLUMN_BLOCK}, {passes} pass{'es' if passes > 1 else ''}"
        return [nest.finish(count, sizes.product(group.domain), summary=summary)]

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
            loaded = (node.number, index) in nest.kept or (node.number in self.storage and node.number not in nest.inline_root)
            if node.op.kind == "elementwise" and self.variables[vector] in names and not names & inner and not loaded:
                if node.op.cost > 1:
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

    def _paren(self, text: str) -> str:
        return text if text.isalnum() else f"({text})"

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
        extent = nest.size(self._reduced_extent())
        if folds:
            nest.open(For(name, "first", "last"))
        for f in folds:
            start = scalar.fold_start(f.op.name, f.type.code, extent)
            nest.store(acc[f.number], slot, self._wide(start))
            if f.number in lost:
                nest.store(lost[f.number], slot, self._wide(tuple(self._zero_text(f) for _ in start)))
        if folds:
            nest.close()
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
            nest.store(part[f.number], slot, self._wide(scalar.fold(f.op.name, f.type.code, names, parts, True)))
        for root in stores:
            self.store_root(root, range(len(group.domain)))
        nest.close(2)
        if sums:
            nest.open(For(name, "first", "last"))
            for f in sums:
                a, c, p = (self._names(nest.load(x[f.number], slot, nest.scopes[-1])) for x in (acc, lost, part))
                a2, c2 = tuple(nest.fresh("acc") for _ in a), tuple(nest.fresh("rest") for _ in a)
                for new, old in zip((*a2, *c2), (*a, *c), strict=True):
                    nest.emit(Let(new, old))
                self.two_sum(f, a2, c2, p)
                nest.store(acc[f.number], slot, self._wide(a2))
                nest.store(lost[f.number], slot, self._wide(c2))
            nest.close()
        nest.close(opened)
        self._settle_columns(folds, acc, lost, name, slot)

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

    def _zero_text(self, fold: Node, zero: str = "0.0") -> str:
        code = scalar.PART.get(fold.type.code, fold.type.code)
        return zero if code == "f64" else f"float32({zero})"

    def _wide(self, parts: Sequence[str]) -> Value:
        return (parts[0], parts[1]) if len(parts) == 2 else parts[0]

    def _names(self, value: Value) -> tuple[str, ...]:
        return value if isinstance(value, tuple) else (value,)

    # -- blocks -----------------------------------------------------------------------------------
    def lower_blocks(self, new_temporary: NewTemporary, second: Nest) -> list[Kernel]:
        """Fold everything: partial results of fixed blocks, then one pass over the partial results."""
        nest, group = self.nest, self.group
        total = sizes.product(group.domain)
        blocks = sizes.floordiv(total + (REDUCTION_BLOCK - 1), REDUCTION_BLOCK)
        partials = {f.number: new_temporary(f"{f.op.name}_partial", self._wide_code(f), (blocks,)) for f in self.folds}
        block = nest.fresh("block")
        nest.loops = list(self.variables)
        nest.extents = [nest.loop_extent(d, v) for d, v in zip(group.domain, self.variables, strict=True)]
        nest.open(For(block, "begin", "end"))
        extent = " * ".join(nest.extents)
        nest.emit(Let("first", f"{block}*{REDUCTION_BLOCK}"))
        nest.emit(Let("last", f"min(first + {REDUCTION_BLOCK}, {extent})"))
        sums = [f for f in self.folds if self._is_float_sum(f)]
        acc = {f.number: self._start(f, "acc", "1") for f in self.folds}
        lost = {f.number: self._zeros(f, "lost") for f in sums}
        depth = len(nest.scopes)
        if len(group.domain) > 1:
            self.open_segments("first", "last")
            inner = nest.scopes[-2].statements.pop()
            assert isinstance(inner, For)
            nest.close()
            start, stop = inner.start, inner.stop
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
        return [first, self._join_partials(second, partials, blocks, total)]

    def settle_wide(self, fold: Node, acc: tuple[str, ...], lost: tuple[str, ...] | None) -> Value:
        """A block's result in the accumulator's own dtype (float16 sums stay float32)."""
        if lost is None:
            return self._wide(acc)
        return self._wide(self._names(self.settle(fold, acc, lost, rounded=False)))

    def _wide_code(self, fold: Node) -> str:
        return "f32" if fold.type.code == "f16" else fold.type.code

    def _join_partials(self, nest: Nest, partials: dict[int, Storage], blocks: Dim, total: Dim) -> Kernel:
        self.nest = nest
        nest.inline_root = {r.number for r in self.group.roots if r.op.name not in ("input", "constant")}
        # What reads the results must not move out of the loop that makes them.
        nest.open(For(nest.fresh("once"), "begin", "end")).guard = True
        count, extent = nest.size(blocks), nest.size(total)
        acc = {f.number: self._start(f, "acc", extent) for f in self.folds}
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
            value = self.settle(f, acc[f.number], lost[f.number]) if f.number in lost else self._value(acc[f.number], f)
            nest.scopes[-1].memo[(f.number, self.at(f, ()))] = value
        for root in self.group.roots:
            if self.is_result(root):
                self.store_root(root, ())
        nest.close()
        return nest.finish(1, blocks, summary="the blocks' results, joined")

    # -- sequential folds ---------------------------------------------------------------------------
    def lower_scan(self) -> list[Kernel]:
        """A running fold along one axis, in order, as NumPy does; the other axes are the parallel range."""
        (root,) = self.group.roots
        nest = self.nest
        axis = self._domain_axis(root, root.params["axis"])
        outer = [a for a in range(len(self.group.domain)) if a != axis]
        self._open_items(outer)
        name = "prod" if root.op.name == "cumprod" else "sum"
        code = root.type.code
        start = scalar.fold_start(name, code, "1")
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
        nest.store(self.storage[root.number], self.at(root, range(len(self.group.domain))), self._wide(acc), str(root.where))
        nest.close(2 if axis is not None else 1)
        count = sizes.product(self.group.domain[a] for a in outer)
        summary = self._over("running along", [] if axis is None else [axis])
        return [nest.finish(count, sizes.product(self.group.domain), summary=summary)]

    def _domain_axis(self, root: Node, axis: int) -> int | None:
        shape = root.operands[0].shape
        if shape[axis] == 1:
            return None
        return sum(1 for a in range(axis) if shape[a] != 1)

    def _open_items(self, axes: Sequence[int]) -> None:
        """The parallel loop over the given axes; a single item when there are none."""
        if axes:
            self._open_outer(axes)
        else:
            self.nest.open(For(self.nest.fresh("once"), "begin", "end"))

    def _find_extreme(self, root: Node, index: list[Dim], position: str, extent: str, best: str, where: str) -> None:
        """Two passes that both run on vectors: the extreme, then the first place that holds it."""
        nest, operand, axis = self.nest, root.operands[0], root.params["axis"]
        fold, code = ("max" if root.op.name == "argmax" else "min"), operand.type.code
        nest.emit(Let(best, scalar.fold_start(fold, code, extent)[0]))
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

    def lower_argreduce(self) -> list[Kernel]:
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
            raise UnsupportedError(f"{root.where}: {root.op.name} of complex values is not supported; take it of abs()")
        best, where = nest.fresh("best"), nest.fresh("best_at")
        extent = nest.size(operand.shape[root.params["axis"]])
        if axis is None:
            nest.emit(Let(where, "int64(0)"))
        else:
            self._find_extreme(root, index, position, extent, best, where)
        nest.store(self.storage[root.number], self.at(root, outer), where, str(root.where))
        nest.close()
        return [nest.finish(sizes.product(self.group.domain), sizes.product(full), summary=self._over("for each of", outer))]
