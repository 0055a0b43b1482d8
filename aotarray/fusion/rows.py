"""Row nests: the innermost axis is folded; one row at a time, several passes, dear values kept in scratch."""

from __future__ import annotations

from .. import sizes
from ..graph import Node
from ..loops import For, If, Kernel, Let
from .access import INLINE_REDUCTION, Index, domain_of, operand_uses
from .group_lowering import RUN, GroupLowering
from .nest import Scope, Storage

#: values at least this dear are kept in the row's scratch instead of being computed in every pass
KEEP_PRICE = 12
#: folds whose accumulators would hide a Python function that source uses
_BUILTINS = frozenset({"max", "min", "any", "all"})


class RowLowering(GroupLowering):
    """One row at a time: a loop for each level of dependent folds."""

    def lower(self) -> list[Kernel]:
        nest, group = self.nest, self.group
        level = self.levels()
        narrow = self._narrow()
        if narrow:
            choice = If("")
            nest.emit(choice)
            nest.scopes.append(Scope(choice.then, guard=True))
            spent = nest.spent()
            self._lower_narrow(narrow)
            nest.forget(spent)
            nest.scopes.pop()
            choice.test = " and ".join(f"{nest.size(sizes.name(n))} == {v}" for n, v in narrow.items())
            choice.test += "".join(f" and {n} == {v}" for n, v in sorted(nest.assumed_strides.items()))
            nest.assumed = {}
            nest.scopes.append(Scope(choice.orelse, guard=True))
        kept = self._kept(level)
        self._open_outer(group.outer)
        keep_places: dict[int, Storage] = {}
        for number in range(1, max(level.values()) + 1):
            folds = [f for f in self.folds if level[f.number] == number]
            stores = [r for r in group.roots if r.op.kind != "reduce" and level.get(r.number) == number]
            if self._may_be_short():
                self._by_length(folds)
            else:
                self._row_loop(folds, stores, kept.get(number, []), keep_places)
        for root in group.roots:
            if self.is_result(root):
                self.store_root(root, group.outer)
        nest.close(2 if narrow else 1)
        rows = sizes.product(group.outer_shape)
        passes = max(level.values())
        summary = (
            f"{self._over('rows of', group.reduced)}, {passes} pass{'es' if passes > 1 else ''} over each"
        )
        kept_ops = sorted({n.op.name for nodes in kept.values() for n in nodes})
        summary += f", keeping {', '.join(kept_ops)} in cache" if kept_ops else ""
        return [nest.finish(rows, sizes.product(group.domain), summary=summary)]

    def _narrow(self) -> dict[str, int]:
        """Sizes of a short row in the call that asked for the program, when rows may be written out.

        The kernel then has a branch for exactly these sizes, in which a row is a few values, and another
        for all sizes.
        """
        hints = self.graph.hints
        total = self._reduced_extent()
        names = sizes.names(total)
        if not names or not names <= hints.keys() or any(hints[n] < 2 for n in names):
            return {}
        if sizes.evaluate(total, hints) > INLINE_REDUCTION or not self._is_plain():
            return {}
        return {n: hints[n] for n in sorted(names)}

    def _is_plain(self) -> bool:
        """True where a row is folded in one pass, and nothing of it is stored."""
        stored = [r for r in self.group.roots if r.op.kind != "reduce" and not self.is_outer(r)]
        return not stored and max(self.levels().values()) == 1

    def _may_be_short(self) -> bool:
        """True where rows may have so few elements that float sums add them in order.

        That is for the size of a row alone to decide, not for the call that asked for the program.
        """
        ordered = any(f.op.name in ("sum", "prod") and f.dtype.kind in "fc" for f in self.folds)
        return ordered and not isinstance(self._reduced_extent(), int) and self._is_plain()

    def _by_length(self, folds: list[Node]) -> None:
        """One pass over the row: in order where it is short, in the general way else."""
        nest, outer = self.nest, self.group.outer
        choice = If(f"{nest.size(self._reduced_extent())} <= {INLINE_REDUCTION}")
        nest.emit(choice)
        found: dict[int, tuple[str, ...]] = {}
        for statements, is_short in ((choice.then, True), (choice.orelse, False)):
            spent = nest.spent()
            nest.scopes.append(Scope(statements, guard=True))
            if is_short:
                self._short_loop(folds)
            else:
                self._row_loop(folds, [], [], {})
            for f in folds:
                parts = self._names(nest.scopes[-1].memo[(f.number, self.at(f, outer))])
                names = found.setdefault(f.number, tuple(nest.fresh("folded") for _ in parts))
                for name, part in zip(names, parts, strict=True):
                    nest.emit(Let(name, part))
            nest.scopes.pop()
            if is_short:
                nest.forget(spent)
        for f in folds:
            nest.scopes[-1].memo[(f.number, self.at(f, outer))] = self._wide(found[f.number])

    def _short_loop(self, folds: list[Node]) -> None:
        """Fold the row in order."""
        nest, group = self.nest, self.group
        acc = {f.number: self._accumulators(f) for f in folds}
        for axis in group.reduced:
            nest.open(For(self.variables[axis], "0", nest.size(group.domain[axis])))
        for f in folds:
            nest.fold(f, acc[f.number], nest.value(f.operands[0], self.operand_at(f)), exact_order=True)
        nest.close(len(group.reduced))
        for f in folds:
            nest.scopes[-1].memo[(f.number, self.at(f, group.outer))] = self._value(acc[f.number], f)

    def _accumulators(self, fold: Node) -> tuple[str, ...]:
        return self._start(fold, f"{fold.op.name}_" if fold.op.name in _BUILTINS else fold.op.name)

    def _lower_narrow(self, narrow: dict[str, int]) -> None:
        """Every row on its own, its folds written out: loops over the axes that are kept."""
        nest, group = self.nest, self.group
        nest.assumed = dict(narrow)
        names = [self.variables[a] for a in group.outer]
        if len(names) == 1:
            nest.open(For(names[0], "begin", "end"))
        else:
            self.open_segments("begin", "end", names, [self._bound(a) for a in group.outer])
        for root in group.roots:
            if self.is_result(root):
                self.store_root(root, group.outer)
        nest.close(1 if len(names) == 1 else 2)

    def _row_loop(
        self, folds: list[Node], stores: list[Node], keep: list[Node], places: dict[int, Storage]
    ) -> None:
        """One pass over the row: fold, store, and keep what later passes need."""
        nest, group = self.nest, self.group
        last = group.reduced[-1]
        acc = {f.number: self._accumulators(f) for f in folds}
        sums = [f for f in folds if self._is_float_sum(f)]
        length = group.domain[last]
        short = isinstance(length, int) and length <= RUN and len(group.reduced) == 1
        run = bool(sums) and not short
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
            value = (
                self.settle(f, acc[f.number], lost[f.number])
                if f.number in lost
                else self._value(acc[f.number], f)
            )
            nest.scopes[-1].memo[(f.number, self.at(f, group.outer))] = value

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
                    again = first.get(node.number, number) < number and node.number not in chosen
                    if again and price >= KEEP_PRICE and (best is None or node.number > best[0]):
                        best = (node.number, first[node.number])
                    first.setdefault(node.number, number)
            if best is None:
                break
            chosen[best[0]] = best[1]
        found: dict[int, list[Node]] = {}
        for number in sorted(chosen):
            found.setdefault(chosen[number], []).append(nodes[number])
        return found

    def _row_values(
        self, level: dict[int, int], number: int, chosen: dict[int, int]
    ) -> list[tuple[Node, int]]:
        """Nodes evaluated at the row's own index in loop `number`, with the price of each."""
        starts: list[tuple[Node, Index]] = []
        for root in self.group.roots:
            if level.get(root.number) == number:
                starts.append(
                    (root.operands[0], self.operand_at(root))
                    if root.op.kind == "reduce"
                    else (root, self._full_index(root))
                )
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
