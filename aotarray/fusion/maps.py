"""Map nests: every element of the domain on its own; the parallel range counts elements."""

from __future__ import annotations

from .. import sizes
from ..loops import For, Kernel
from .group_lowering import GroupLowering


class MapLowering(GroupLowering):
    """Nothing is folded."""

    def lower(self) -> list[Kernel]:
        nest, domain = self.nest, self.group.domain
        axes = range(len(domain))
        if len(domain) <= 1:
            variable = self.variables[0] if domain else nest.fresh("i")
            nest.open(For(variable, "begin", "end"))
            self.compute(axes)
            nest.close()
            total = domain[0] if domain else 1
            return [nest.finish(total, total, grain=64, summary=self._over("every element of", axes))]
        nest.loops = list(self.variables)
        nest.extents = [nest.loop_extent(d, v) for d, v in zip(domain, self.variables, strict=True)]
        self.open_segments("begin", "end")
        self.compute(axes)
        nest.close(2)
        total = sizes.product(domain)
        return [nest.finish(total, total, grain=64, summary=self._over("every element of", axes))]

    def compute(self, axes: range) -> None:
        """Roots are stored; values once meant to be are computed before what reads them, outside its branches."""
        for node in self.group.members:
            if node in self.group.roots:
                self.store_root(node, axes)
            else:
                self.nest.value(node, self.at(node, axes))
