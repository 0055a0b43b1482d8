"""mean, var, std, average, and the reductions that pass over NaN, in NumPy's order of operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ...graph import Node
from ...sizes import Dim
from .. import promote
from ..context import Trace, here
from ..tracer import Tracer
from .elementwise import apply_op, cast_to, deliver, guard, op
from .elementwise import where as select
from .reductions import (
    NOT_GIVEN,
    all_rule,
    argmax,
    argmin,
    count,
    fold,
    is_masked,
    masked,
    max_rule,
    min_rule,
    normalise_axes,
    prod_rule,
    reduced_axes,
    sum_rule,
)  # fmt: skip
from .registry import array, implements, trace_of


def _count_value(trace: Trace, total: Dim) -> Any:
    return (
        total
        if isinstance(total, int)
        else Tracer.of(trace, trace.graph.apply("size", where=here(), value=total))
    )


def _number(trace: Trace, x: Node, axes: Sequence[int], keepdims: bool, where: Any) -> Any:
    """How many elements make one result: an int, a size, or counted by the mask."""
    if not is_masked(where):
        return _count_value(trace, count(x, axes))
    mask = promote.cast(trace, promote.node_of(trace, where), np.dtype(bool))
    mask = promote.cast(trace, promote.broadcast_node(trace, mask, x.shape), np.dtype(np.int64))
    return Tracer.of(trace, fold(trace, "sum", mask, axes, keepdims))


def _dtypes(x: Node, dtype: Any) -> tuple[np.dtype, np.dtype]:
    """(of the result, of the sum)."""
    if dtype is not None:
        result = np.dtype(dtype)
    else:
        result = np.dtype(np.float64) if x.dtype.kind in "biu" else x.dtype
    return result, np.dtype(np.float32) if result == np.float16 else result


@implements("mean", method="mean")
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Any:
    trace = trace_of(a, where, out)
    x = array(a, where, out).node
    if is_masked(where):
        x = promote.broadcast_node(
            trace, x, promote.broadcast_shapes(trace, [x.shape, array(where, a).node.shape], "mean")
        )
    axes = reduced_axes(len(x.shape), axis)
    kept = keepdims is not NOT_GIVEN and bool(keepdims)
    result, wide = _dtypes(x, dtype)
    total = fold(trace, "sum", masked(trace, promote.cast(trace, x, wide), where, 0), axes, kept)
    node = apply_op(trace, "divide", Tracer.of(trace, total), _number(trace, x, axes, kept, where))
    return deliver(trace, Tracer.of(trace, promote.cast(trace, node, result)), out)


@implements("var", method="var")
def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = True, mean: Any = NOT_GIVEN, correction: Any = NOT_GIVEN,
) -> Any:  # fmt: skip
    trace = trace_of(a, where, out)
    divisor = ddof if correction is NOT_GIVEN else correction
    return deliver(trace, _variance(trace, a, axis, dtype, divisor, keepdims, where, mean), out)


@implements("std", method="std")
def std(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = True, mean: Any = NOT_GIVEN, correction: Any = NOT_GIVEN,
) -> Any:  # fmt: skip
    trace = trace_of(a, where, out)
    divisor = ddof if correction is NOT_GIVEN else correction
    return deliver(trace, op("sqrt", _variance(trace, a, axis, dtype, divisor, keepdims, where, mean)), out)


def _variance(
    trace: Trace, a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: Any, where: Any, mean_given: Any
) -> Any:
    x = array(a, where).node
    if is_masked(where):
        x = promote.broadcast_node(
            trace, x, promote.broadcast_shapes(trace, [x.shape, array(where, a).node.shape], "var")
        )
    axes = reduced_axes(len(x.shape), axis)
    kept = keepdims is not NOT_GIVEN and bool(keepdims)
    result, wide = _dtypes(x, dtype)
    number = _number(trace, x, axes, True, where)
    if mean_given is NOT_GIVEN:
        total = fold(trace, "sum", masked(trace, promote.cast(trace, x, wide), where, 0), axes, keepdims=True)
        centre: Any = Tracer.of(trace, apply_op(trace, "divide", Tracer.of(trace, total), number))
    else:
        centre = mean_given
    value = Tracer.of(trace, promote.cast(trace, x, wide) if x.dtype == np.float16 else x)
    square = _squared_magnitude(op("subtract", value, centre))
    total = fold(trace, "sum", masked(trace, cast_to(square, _real(wide)).node, where, 0), axes, kept)
    if is_masked(where) and not kept:
        number = _number(trace, x, axes, False, where)
    if not (type(ddof) is int and ddof == 0):
        number = _degrees_of_freedom(trace, number, ddof)
    node = apply_op(trace, "divide", Tracer.of(trace, total), number)
    return cast_to(Tracer.of(trace, node), _real(result))


def _real(dtype: np.dtype) -> np.dtype:
    return np.zeros((), dtype).real.dtype


def _squared_magnitude(x: Any) -> Any:
    if x.dtype.kind != "c":
        return op("multiply", x, x)
    real, imag = (Tracer.of(x._trace, x._trace.graph.apply(p, (x.node,), here())) for p in ("real", "imag"))
    return op("add", op("multiply", real, real), op("multiply", imag, imag))


def _degrees_of_freedom(trace: Trace, number: Any, ddof: Any) -> Any:
    """`max(number - ddof, 0)`, weak as a Python number where it does not depend on a mask."""
    if type(number) is int and type(ddof) in (int, float):
        return max(number - ddof, 0)
    operands = [promote.node_of(trace, v) for v in (number, ddof)]
    rest = promote.elementwise(trace, promote.OPS["subtract"], operands, operator=True)
    zero = trace.graph.literal(0, rest.dtype, here(), weak=rest.type.weak)
    return Tracer.of(trace, promote.elementwise(trace, promote.OPS["maximum"], [rest, zero], operator=True))


@implements("average")
def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False
) -> Any:
    x = array(a, weights)
    trace = x._trace
    kept = keepdims is not NOT_GIVEN and bool(keepdims)
    if weights is None:
        found = mean(x, axis, keepdims=kept)
        number = _count_value(trace, count(x.node, normalise_axes(x.ndim, axis)))
        scale = cast_to(array(number, x), found.dtype)
    else:
        w = _weights(x, array(weights, a), axis)
        kinds = (x.dtype, w.dtype, np.dtype(np.float64)) if x.dtype.kind in "biu" else (x.dtype, w.dtype)
        dtype = np.result_type(*kinds)
        scale = sum_rule(w, axis, dtype, keepdims=kept)
        message = "Weights sum to zero, can't be normalized"
        scale = guard(scale, op("equal", scale, 0), "ZeroDivisionError", message)
        product = Tracer.of(trace, apply_op(trace, "multiply", x, w, dtype=dtype))
        found = op("divide", sum_rule(product, axis, keepdims=kept), scale)
    if not returned:
        return found
    return found, Tracer.of(trace, promote.broadcast_node(trace, scale.node, found.node.shape))


def _weights(x: Any, w: Any, axis: Any) -> Any:
    """Weights in the shape of `x`, or one for each element along the averaged axes."""
    if (w.ndim == x.ndim and axis is None) or w.node.shape == x.node.shape:
        return w
    if axis is None:
        raise TypeError(f"{here()}: Axis must be specified when shapes of a and weights differ.")
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [int(k) % x.ndim for k in given]
    if w.ndim != len(axes):
        raise ValueError(
            f"{here()}: Shape of weights must be consistent with shape of a along specified axis."
        )
    for k, extent in zip(axes, w.node.shape, strict=True):
        x._trace.same(
            x.node.shape[k],
            extent,
            "Shape of weights must be consistent with shape of a along specified axis",
        )
    order = sorted(range(len(axes)), key=lambda k: axes[k])
    key = tuple(slice(None) if k in axes else None for k in range(x.ndim))
    return w.transpose(*order)[key] if len(axes) > 1 else w[key]


# -- reductions that pass over NaN ----------------------------------------------------------------
def _without_nan(a: Any, neutral: Any) -> tuple[Any, Any]:
    """(`a` with `neutral` for NaN, where NaN was or None for exact dtypes)."""
    x = array(a)
    if x.dtype.kind not in "fc":
        return x, None
    nan = op("isnan", x)
    return select(nan, x.dtype.type(neutral), x), nan


def _refuse_where(where: Any, name: str) -> None:
    if is_masked(where):
        raise UnsupportedError(
            f"{here()}: numpy.{name} with where= is not supported; combine it with ~np.isnan(x) yourself"
        )


@implements("nansum")
def nansum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
    initial: Any = NOT_GIVEN, where: Any = True,
) -> Any:  # fmt: skip
    return sum_rule(_without_nan(a, 0)[0], axis, dtype, out, _flag(keepdims), initial, where)


@implements("nanprod")
def nanprod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
    initial: Any = NOT_GIVEN, where: Any = True,
) -> Any:  # fmt: skip
    return prod_rule(_without_nan(a, 1)[0], axis, dtype, out, _flag(keepdims), initial, where)


def _flag(keepdims: Any) -> bool:
    return keepdims is not NOT_GIVEN and bool(keepdims)


def _nan_extreme(name: str, rule: Any, neutral: float) -> Any:
    def nan_rule(
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: Any = False,
        initial: Any = NOT_GIVEN,
        where: Any = True,
    ) -> Any:
        _refuse_where(where, name)
        x, nan = _without_nan(a, neutral)
        found = rule(x, axis, None, _flag(keepdims), initial)
        if nan is not None and initial is NOT_GIVEN:
            found = select(all_rule(nan, axis, None, _flag(keepdims)), found.dtype.type(np.nan), found)
        return deliver(found._trace, found, out)

    return nan_rule


nanmax = implements("nanmax")(_nan_extreme("nanmax", max_rule, -np.inf))
nanmin = implements("nanmin")(_nan_extreme("nanmin", min_rule, np.inf))


def _nan_argument(name: str, rule: Any, neutral: float) -> Any:
    def nan_rule(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        x, nan = _without_nan(a, neutral)
        found = rule(x, axis, keepdims=_flag(keepdims))
        if nan is not None:
            nothing = all_rule(nan, axis, keepdims=_flag(keepdims))
            found = guard(found, nothing, "ValueError", "All-NaN slice encountered")
        return deliver(found._trace, found, out)

    return nan_rule


nanargmax = implements("nanargmax")(_nan_argument("nanargmax", argmax, -np.inf))
nanargmin = implements("nanargmin")(_nan_argument("nanargmin", argmin, np.inf))


@implements("nanmean")
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Any:
    _refuse_where(where, "nanmean")
    x, nan = _without_nan(a, 0)
    if nan is None:
        return mean(x, axis, dtype, out, _flag(keepdims))
    return mean(x, axis, dtype, out, _flag(keepdims), where=op("logical_not", nan))


@implements("nanvar")
def nanvar(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = True, mean: Any = NOT_GIVEN, correction: Any = NOT_GIVEN,
) -> Any:  # fmt: skip
    _refuse_where(where, "nanvar")
    x, nan = _without_nan(a, 0)
    given: Any = True if nan is None else op("logical_not", nan)
    divisor = ddof if correction is NOT_GIVEN else correction
    found = _variance(x._trace, x, axis, dtype, divisor, keepdims, given, mean)
    if nan is not None and not (type(divisor) is int and divisor == 0):
        number = _number(x._trace, x.node, reduced_axes(x.ndim, axis), _flag(keepdims), given)
        found = select(op("less_equal", number, divisor), found.dtype.type(np.nan), found)
    return deliver(x._trace, found, out)


@implements("nanstd")
def nanstd(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = True, mean: Any = NOT_GIVEN, correction: Any = NOT_GIVEN,
) -> Any:  # fmt: skip
    divisor = ddof if correction is NOT_GIVEN else correction
    found = nanvar(a, axis, dtype, None, divisor, keepdims, where=where, mean=mean)
    return deliver(found._trace, op("sqrt", found), out)
