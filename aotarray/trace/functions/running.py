"""Along an axis: running sums and products, differences, gradients, the trapezoidal rule."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import sizes
from ...errors import UnsupportedError
from .. import promote, views
from ..context import here
from ..tracer import Tracer
from .elementwise import cast_to, deliver, op, where
from .joining import concatenate
from .reductions import NOT_GIVEN, normalise_axes, reduced_axes, sum_dtype, sum_rule
from .registry import array, implements, trace_of
from .shaping import window


def _running(name: str) -> Any:
    def rule(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        trace = trace_of(a, out)
        x = array(a, out).node
        if dtype is None and isinstance(out, Tracer):
            dtype = out.dtype
        x = promote.cast(trace, x, sum_dtype(x, dtype))
        if axis is None or not x.shape:
            reduced_axes(len(x.shape), axis)
            x = views.Reshape((x.type.size,)).read(trace.graph, x) if len(x.shape) != 1 else x
            axis = 0
        (along,) = normalise_axes(len(x.shape), axis)
        return deliver(trace, Tracer.of(trace, trace.graph.apply(name, (x,), here(), axis=along)), out)

    return rule


cumsum = implements("cumsum", method="cumsum")(_running("cumsum"))
cumprod = implements("cumprod", method="cumprod")(_running("cumprod"))


def _running_without_nan(rule: Any, neutral: int) -> Any:
    def nan_rule(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        x = array(a, out)
        if x.dtype.kind in "fc":
            x = where(op("isnan", x), x.dtype.type(neutral), x)
        return rule(x, axis, dtype, out)

    return nan_rule


implements("nancumsum")(_running_without_nan(cumsum, 0))
implements("nancumprod")(_running_without_nan(cumprod, 1))


def _cumulative(rule: Any, neutral: int) -> Any:
    def cumulative(
        x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
    ) -> Any:
        values = array(x, out)
        if axis is None and values.ndim > 1:
            raise ValueError(f"{here()}: for arrays which have more than one dimension axis= is required")
        along = 0 if axis is None else normalise_axes(values.ndim, axis)[0]
        found = rule(values, along, dtype)
        if include_initial:
            edge = np.full([1] * found.ndim, neutral, found.dtype)
            shape = [1 if k == along else d for k, d in enumerate(found.node.shape)]
            first = Tracer.of(
                found._trace, promote.broadcast_node(found._trace, array(edge, found).node, tuple(shape))
            )
            found = concatenate([first, found], along)
        return deliver(found._trace, found, out)

    return cumulative


if hasattr(np, "cumulative_sum"):
    implements("cumulative_sum")(_cumulative(cumsum, 0))
    implements("cumulative_prod")(_cumulative(cumprod, 1))


@implements("diff")
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = NOT_GIVEN, append: Any = NOT_GIVEN) -> Any:
    if n < 0:
        raise ValueError(f"{here()}: order must be non-negative but got {n}")
    x = array(a, *(v for v in (prepend, append) if v is not NOT_GIVEN))
    if n == 0:
        return a
    if x.ndim == 0:
        raise ValueError(f"{here()}: diff requires input that is at least one dimensional")
    (along,) = normalise_axes(x.ndim, axis)
    parts = [
        _edge(v, x, along) if k != 1 else x for k, v in enumerate((prepend, a, append)) if v is not NOT_GIVEN
    ]
    x = concatenate(parts, along) if len(parts) > 1 else x
    name = "not_equal" if x.dtype == bool else "subtract"
    for _ in range(n):
        length = sizes.maximum(x.node.shape[along] - 1, 0)
        x = op(name, window(x, along, 1, length), window(x, along, 0, length))
    return x


def _edge(value: Any, x: Any, axis: int) -> Any:
    """A number put before or after, repeated along the other axes; arrays as they are."""
    edge = array(value, x)
    if edge.ndim:
        return edge
    shape = tuple(1 if k == axis else d for k, d in enumerate(x.node.shape))
    return Tracer.of(x._trace, promote.broadcast_node(x._trace, edge.node, shape))


def _spacing(distances: Any, f: Any, axes: tuple[int, ...]) -> list[Any]:
    """For each axis a number, or the distances between neighbours."""
    if not distances:
        return [1.0] * len(axes)
    if len(distances) == 1 and np.ndim(distances[0]) == 0:
        return list(distances) * len(axes)
    if len(distances) != len(axes):
        raise TypeError(f"{here()}: invalid number of arguments")
    found: list[Any] = []
    for given, axis in zip(distances, axes, strict=True):
        if np.ndim(given) == 0:
            found.append(given)
            continue
        positions = array(given, f)
        if positions.ndim != 1:
            raise ValueError(f"{here()}: distances must be either scalars or 1d")
        f._trace.same(
            positions.node.shape[0],
            f.node.shape[axis],
            "when 1d, distances must match the dimension's length",
        )
        if positions.dtype.kind in "iu":
            positions = cast_to(positions, np.float64)
        between = diff(positions)
        if type(given) is np.ndarray:
            constant = np.diff(given.astype(positions.dtype))
            between = constant[0] if constant.size and (constant == constant[0]).all() else between
        found.append(between)
    return found


@implements("gradient")
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Second-order differences inside, first- or second-order ones at the ends, in NumPy's order of steps."""
    x = array(f, *varargs)
    given = axis if isinstance(axis, (tuple, list)) or axis is None else (axis,)
    axes = tuple(range(x.ndim)) if given is None else tuple(normalise_axes(x.ndim, k)[0] for k in given)
    if edge_order not in (1, 2):
        raise ValueError(f"{here()}: 'edge_order' greater than 2 not supported")
    spacing = _spacing(varargs, x, axes)
    if x.dtype.kind in "iu":
        x = cast_to(x, np.float64)
    dtype = x.dtype if x.dtype.kind in "fc" else np.dtype(np.float64)
    for k in axes:
        _at_least(x, k, edge_order + 1)
    found = [_gradient_along(x, k, h, edge_order, dtype) for k, h in zip(axes, spacing, strict=True)]
    return found[0] if len(found) == 1 else tuple(found)


def _at_least(x: Any, axis: int, least: int) -> None:
    message = (
        "Shape of array too small to calculate a numerical gradient, "
        "at least (edge_order + 1) elements are required."
    )
    extent = x.node.shape[axis]
    known = x._trace.hint(extent)
    if known is not None and known < least:
        raise ValueError(f"{here()}: {message}")
    x._trace.graph.require("ge", extent, least, message)


def _gradient_along(f: Any, axis: int, h: Any, edge_order: int, dtype: np.dtype) -> Any:
    extent = f.node.shape[axis]
    inner = extent - 2

    def at(position: Any) -> Any:
        return window(f, axis, position, 1)

    below, middle, above = (window(f, axis, k, inner) for k in range(3))
    spread = (slice(None), *(None,) * (f.ndim - 1 - axis))
    if np.ndim(h) == 0:
        centre = (above - below) / (2.0 * h)
        first_step, last_step, steps = h, h, (h, h, h, h)
    else:
        h1, h2 = window(h, 0, 0, inner), window(h, 0, 1, inner)
        a = (-h2 / (h1 * (h1 + h2)))[spread]
        b = ((h2 - h1) / (h1 * h2))[spread]
        c = (h1 / (h2 * (h1 + h2)))[spread]
        centre = a * below + b * middle + c * above
        first_step, last_step = h[0], window(h, 0, extent - 2, 1)[spread]
        steps = (
            h[0],
            h[1] if edge_order == 2 else h[0],
            window(h, 0, extent - 3, 1)[spread] if edge_order == 2 else h,
            last_step,
        )
    if edge_order == 1:
        first = (at(1) - at(0)) / first_step
        last = (at(extent - 1) - at(extent - 2)) / last_step
    else:
        uniform = np.ndim(h) == 0
        a, b, c = _first_weights(*steps[:2], uniform)
        first = a * at(0) + b * at(1) + c * at(2)
        a, b, c = _last_weights(*steps[2:], uniform)
        last = a * at(extent - 3) + b * at(extent - 2) + c * at(extent - 1)
    return concatenate([cast_to(part, dtype) for part in (first, centre, last)], axis)


def _first_weights(h1: Any, h2: Any, uniform: bool) -> tuple[Any, Any, Any]:
    if uniform:
        return -1.5 / h1, 2.0 / h1, -0.5 / h1
    return -(2.0 * h1 + h2) / (h1 * (h1 + h2)), (h1 + h2) / (h1 * h2), -h1 / (h2 * (h1 + h2))


def _last_weights(h1: Any, h2: Any, uniform: bool) -> tuple[Any, Any, Any]:
    if uniform:
        return 0.5 / h1, -2.0 / h1, 1.5 / h1
    return h2 / (h1 * (h1 + h2)), -(h2 + h1) / (h1 * h2), (2.0 * h2 + h1) / (h2 * (h1 + h2))


@implements("trapezoid")
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    values = array(y, x, dx)
    (along,) = normalise_axes(values.ndim, axis)
    length = sizes.maximum(values.node.shape[along] - 1, 0)
    if x is None:
        step: Any = dx
    else:
        positions = array(x, y)
        if positions.ndim == 1:
            step = diff(positions)[(slice(None), *(None,) * (values.ndim - 1 - along))]
        else:
            step = diff(positions, axis=along)
    pairs = op("add", window(values, along, 1, length), window(values, along, 0, length))
    return sum_rule(op("divide", op("multiply", step, pairs), 2.0), along)


@implements("ediff1d")
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    if to_end is not None or to_begin is not None:
        raise UnsupportedError(
            f"{here()}: np.ediff1d with to_begin= or to_end= is not supported; "
            f"use np.diff with prepend= and append="
        )
    return diff(array(ary).reshape(-1))
