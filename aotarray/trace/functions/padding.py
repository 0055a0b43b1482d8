"""np.pad: the middle stays as it is; only the borders are computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import sizes
from ...errors import UnsupportedError
from ...sizes import Dim
from .. import promote, views
from ..context import here
from ..size_value import as_dim
from ..tracer import Tracer
from .elementwise import op, where
from .joining import concatenate
from .registry import array, implements
from .shaping import window

Pairs = list[tuple[Any, Any]]


def _pairs(given: Any, rank: int, what: str) -> Pairs:
    """(before, after) for each axis, from any of NumPy's forms."""
    if isinstance(given, dict):
        found: Pairs = [(0, 0)] * rank
        for axis, value in given.items():
            found[axis] = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
        return found
    if not isinstance(given, (tuple, list, np.ndarray)) or (
        isinstance(given, np.ndarray) and given.ndim == 0
    ):
        return [(given, given)] * rank
    rows = list(given)
    if all(not isinstance(r, (tuple, list, np.ndarray)) for r in rows):
        if len(rows) == 1:
            return [(rows[0], rows[0])] * rank
        if len(rows) == 2:
            return [(rows[0], rows[1])] * rank
        raise ValueError(
            f"{here()}: {what} of {len(rows)} numbers does not fit {rank} axes; give (before, after) for each"
        )
    pairs: Pairs = [(r[0], r[-1]) if isinstance(r, (tuple, list, np.ndarray)) else (r, r) for r in rows]
    if len(pairs) == 1:
        return pairs * rank
    if len(pairs) != rank:
        raise ValueError(f"{here()}: {what} has {len(pairs)} entries for {rank} axes")
    return pairs


def _width(value: Any) -> Dim:
    dim = as_dim(value)
    if dim is None:
        raise TypeError(f"{here()}: `pad_width` must be of integral type.")
    if isinstance(dim, int) and dim < 0:
        raise ValueError(f"{here()}: index can't contain negative values")
    return dim


#: (distance from the array's start, size) -> position in the array, for each periodic mode
Fold = Callable[[Any, Any], Any]


def _reflect(k: Any, n: Any) -> Any:
    period = op("maximum", op("multiply", op("subtract", n, 1), 2), 1)
    k = op("remainder", k, period)
    return where(op("less", k, n), k, op("subtract", period, k))


def _symmetric(k: Any, n: Any) -> Any:
    period = op("multiply", n, 2)
    k = op("remainder", k, period)
    return where(op("less", k, n), k, op("subtract", op("subtract", period, 1), k))


def _wrap(k: Any, n: Any) -> Any:
    return op("remainder", k, n)


_FOLDS: dict[str, Fold] = {"reflect": _reflect, "symmetric": _symmetric, "wrap": _wrap}
_MODES = ("constant", "edge", *_FOLDS)


@implements("pad")
def pad(array_: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    x = array(array_)
    if mode not in (*_MODES, "empty"):
        shown = getattr(mode, "__name__", mode)
        raise UnsupportedError(
            f"{here()}: np.pad with mode {shown!r} is not supported; the modes {', '.join(_MODES)} are"
        )
    values = _pairs(kwargs.pop("constant_values", 0), x.ndim, "constant_values")
    if kwargs.pop("reflect_type", "even") != "even":
        raise UnsupportedError(
            f"{here()}: np.pad with reflect_type='odd' is not supported; concatenate 2*edge - x[...] yourself"
        )
    if kwargs:
        raise ValueError(f"{here()}: unsupported keyword arguments for mode {mode!r}: {set(kwargs)}")
    widths = _pairs(pad_width, x.ndim, "pad_width")
    x = x.copy()
    for axis, ((before, after), edges) in enumerate(zip(widths, values, strict=True)):
        x = _pad_axis(x, axis, (_width(before), _width(after)), mode, edges)
    return x


def _pad_axis(x: Any, axis: int, widths: tuple[Dim, Dim], mode: str, values: tuple[Any, Any]) -> Any:
    if widths == (0, 0):
        return x
    extent = x.node.shape[axis]
    if mode not in ("constant", "empty"):
        message = f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'"
        if x._trace.hint(extent) == 0:
            raise ValueError(f"{here()}: {message}")
        x._trace.graph.require("ge", extent, 1, message)
    if mode == "edge":
        return _clamped(x, axis, widths)
    parts = []
    for side, (width, value) in enumerate(zip(widths, values, strict=True)):
        if side == 1:
            parts.append(x)
        if width != 0:
            parts.append(_border(x, axis, width, side == 1, mode, value))
    return concatenate(parts, axis)


def _clamped(x: Any, axis: int, widths: tuple[Dim, Dim]) -> Tracer:
    """The padded array as one view: beyond the ends it reads the ends."""
    shape = x.node.shape
    index = views.axes(len(shape))
    index[axis] = sizes.minimum(sizes.maximum(index[axis] - widths[0], 0), shape[axis] - 1)
    target = tuple(d + sum(widths) if k == axis else d for k, d in enumerate(shape))
    return Tracer.of(x._trace, views.Affine(tuple(index), target).read(x._trace.graph, x.node))


def _border(x: Any, axis: int, width: Dim, after: bool, mode: str, value: Any) -> Any:
    trace, extent = x._trace, x.node.shape[axis]
    shape = tuple(width if k == axis else d for k, d in enumerate(x.node.shape))
    if mode in ("constant", "empty"):
        node = promote.cast(trace, array(value, x).node, x.dtype)
        return Tracer.of(trace, promote.broadcast_node(trace, node, shape))
    if width == 1:
        inner = sizes.minimum(extent - 1, 1)
        start = {"reflect": extent - 1 - inner if after else inner, "symmetric": extent - 1 if after else 0,
                 "wrap": 0 if after else extent - 1}[mode]  # fmt: skip
        return window(x, axis, start, 1)
    if isinstance(extent, int) and isinstance(width, int):
        count = np.arange(width) + (extent if after else -width)
        return _take(x, axis, _known_positions(mode, count, extent))
    n = Tracer.of(trace, trace.graph.apply("size", where=here(), value=extent))
    first = extent if after else -width
    position = Tracer.of(trace, trace.graph.apply("iota", where=here(), length=width))
    offset = (
        first
        if isinstance(first, int)
        else Tracer.of(trace, trace.graph.apply("size", where=here(), value=first))
    )
    return _take(x, axis, _FOLDS[mode](op("add", position, offset), n))


def _known_positions(mode: str, k: Any, n: int) -> Any:
    if mode == "wrap":
        return k % n
    period = max(2 * (n - 1), 1) if mode == "reflect" else 2 * n
    k = k % period
    return np.where(k < n, k, period - k - (mode == "symmetric"))


def _take(x: Any, axis: int, index: Any) -> Any:
    return x[(slice(None),) * axis + (index,)]
