"""Map nests: every element of the domain on its own; the parallel range counts elements."""

from __future__ import annotations

import itertools
import math
from functools import cached_property

from .. import sizes
from ..graph import Node
from ..loops import For, Kernel, Let
from ..sizes import Dim
from .group_lowering import GroupLowering
from .interior import Interior, has_edges
from .nest import Scope
from .tails import find_mixed, tail_of


class MapLowering(GroupLowering):
    """Nothing is folded."""

    def lower(self) -> list[Kernel]:
        nest, domain = self.nest, self.group.domain
        axes = range(len(domain))
        if self.tail:
            return self._written_out()
        if len(domain) <= 1:
            variable = self.variables[0] if domain else nest.fresh("i")
            self.inner_loop(variable, "begin", "end", axes)
            total = domain[0] if domain else 1
            return [nest.finish(total, total, grain=64, summary=self._over("every element of", axes))]
        nest.loops = list(self.variables)
        nest.extents = [nest.loop_extent(d, v) for d, v in zip(domain, self.variables, strict=True)]
        low, high = self.open_segment_rows("begin", "end")
        self.inner_loop(self.variables[-1], low, high, axes)
        nest.close()
        total = sizes.product(domain)
        return [nest.finish(total, total, grain=64, summary=self._over("every element of", axes))]

    @cached_property
    def tail(self) -> tuple[int, ...]:
        """The last axes that are written out instead of looped over."""
        mixed = find_mixed(self.graph.nodes())
        return tail_of(self.group.domain) if any(r.number in mixed for r in self.group.members) else ()

    def _written_out(self) -> list[Kernel]:
        """A loop over the axes before the tail; for each element of the tail a statement of its own."""
        nest, domain = self.nest, self.group.domain
        axes, lead = range(len(domain)), len(domain) - len(self.tail)
        nest.pure = False
        names, index = self.variables[:lead], self.index[:lead]
        if lead > 1:
            extents = [nest.loop_extent(d, v) for d, v in zip(domain, names, strict=False)]
            self.open_segments("begin", "end", names, extents)
        else:
            nest.open(For(names[0] if names else nest.fresh("once"), "begin", "end"))
        for position in itertools.product(*map(range, self.tail)):
            self.index = (*index, *position)
            self.compute(axes)
        total = sizes.product(domain[:lead])
        nest.computed = {n: -(-count // math.prod(self.tail)) for n, count in nest.computed.items()}
        nest.close(len(nest.scopes) - 1)
        summary = f"{self._over('every element of', axes)}, {' x '.join(map(str, self.tail))} of them at a time"
        return [nest.finish(total, total, grain=64, summary=summary)]

    def inner_loop(self, variable: str, low: str, high: str, axes: range) -> None:
        """The loop over [low, high); its interior on its own where elements at the edges differ."""
        nest = self.nest
        inner = self._interior_loop(variable, low, high, axes) if self.group.domain else None
        if inner is None:
            nest.open(For(variable, low, high))
            self.compute(axes)
            nest.close()
            return
        spent = nest.spent()
        edge, start, stop = nest.fresh("edge"), nest.fresh("edge_low"), nest.fresh("edge_high")
        nest.open(For(edge, "0", "2"))
        nest.emit(Let(start, f"where({edge} == 0, {low}, {inner.stop})"))
        nest.emit(Let(stop, f"where({edge} == 0, {inner.start}, {high})"))
        nest.open(For(variable, start, stop))
        self.compute(axes)
        nest.close(2)
        nest.emit(inner)
        nest.forget(spent)

    def _interior_loop(self, variable: str, low: str, high: str, axes: range) -> For | None:
        """The loop for elements that lie at no edge, with its bounds worked out; None where there are no edges."""
        nest = self.nest
        if not has_edges(self._computed()):
            return None
        known = frozenset(n for node in self.graph.nodes() for d in node.shape for n in sizes.names(d))
        interior = Interior(self.variables, known, self.graph.hints)
        loop = For(variable, "", "")
        spent = nest.spent()
        nest.scopes.append(Scope(loop.body, {variable}, guard=True))
        nest.interior = interior
        self.compute(axes)
        nest.interior = None
        nest.scopes.pop()
        found = interior.range_of(variable)
        if not interior.conditions or found is None:
            nest.forget(spent)
            return None
        lows, highs, others = found
        loop.start, loop.stop = nest.fresh("inner_low"), nest.fresh("inner_high")
        nest.emit(Let(loop.start, f"min({self._extreme('max', low, lows)}, {high})"))
        stop = self._extreme("min", high, [bound + 1 for bound in highs])
        if others:
            tests = " & ".join(f"({nest.size(other)} >= 0)" for other in others)
            stop = f"where({tests}, {stop}, {loop.start})"
        nest.emit(Let(loop.stop, f"max({stop}, {loop.start})"))
        return loop

    def _extreme(self, name: str, text: str, bounds: list[Dim]) -> str:
        for bound in bounds:
            text = f"{name}({text}, {self.nest.size(bound)})"
        return text

    def _computed(self) -> list[Node]:
        """The nodes that the nest computes rather than loads."""
        found: dict[int, Node] = {}
        stack = list(self.group.members)
        while stack:
            node = stack.pop()
            loaded = node.number in self.storage and node.number not in self.nest.inline_root
            if node.number not in found and not loaded:
                found[node.number] = node
                stack += node.operands
        return list(found.values())

    def compute(self, axes: range) -> None:
        """Roots are stored; values once meant to be are computed before what reads them, outside its branches."""
        for node in self.group.members:
            if node in self.group.roots:
                self.store_root(node, axes)
            else:
                self.nest.value(node, self.at(node, axes))
