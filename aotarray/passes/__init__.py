"""Graph to graph: each pass is a function with one picture, and the pipeline is a tuple one can read aloud."""

from __future__ import annotations

from ..graph import Graph
from .control import drop_results
from .rewrite import rebuild
from .settle import merge_sizes, settle_sizes
from .simplify import drop_writes, fold_views, simplify_algebra

PASSES = (settle_sizes, merge_sizes, drop_results, drop_writes, simplify_algebra, fold_views)


def simplify(graph: Graph) -> Graph:
    """All passes in order; the result computes the same bits."""
    for step in PASSES:
        graph = step(graph)
    return graph


__all__ = ["PASSES", "rebuild", "simplify"]
