"""Reductions: sum, prod, max, min, any, all, mean, var, std, and running sums; NumPy's dtypes and order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import sizes
from ...graph import Node
from ...sizes import Dim
from .. import promote, views
from ..context import Trace, here
from ..tracer import Tracer
from .elementwise import apply_op, deliver
from .registry import UFUNC_METHODS, as_tracer, implements, trace_of
from .. import ufuncs

_NOT_GIVEN = np._NoValue  # type: ignore[attr-defined]


def normalise_axes(rank: int, axis: Any) -> tuple[int, ...]:
    """Sorted, non-negative, distinct axes; None means all."""
    if axis is None:
        return tuple(range(rank))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    found = []
    for a in given:
        a = int(a)
        if not -rank <= a < rank:
            raise np.exceptions.AxisError(a, rank)
        found.append(a % rank)
    if len(set(found)) != len(found):
        raise ValueError(f"{here()}: duplicate value in 'axis'")
    return tuple(sorted(found))


def fold(trace: Trace, op: str, x: Node, axes: Sequence[int], keepdims: bool = False) -> Node:
    """Fold axes of a node whose dtype is the accumulator's."""
    axes = tuple(axes)
    real = tuple(a for a in axes if x.shape[a] != 1)
    if real:
        node = trace.graph.apply(op, (x,), here(), axes=axes)
    else:
        node = views.drop_axes(x.shape, axes).read(trace.graph, x) if axes else x
    return keep(trace, node, axes) if keepdims else node


def keep(trace: Trace, node: Node, axes: Sequence[int]) -> Node:
    """Put folded axes back with size 1."""
    return views.insert_axes(node.shape, tuple(axes)).read(trace.graph, node) if axes else node


def _masked(trace: Trace, x: Node, where: Any, neutral: Any) -> Node:
    if where is True or where is _NOT_GIVEN:
        return x
    mask = promote.node_of(trace, where)
    return ufuncs.select(trace, mask, x, trace.graph.literal(neutral, x.dtype, here()))


def _sum_dtype(x: Node, dtype: Any) -> np.dtype:
    if dtype is not None:
        return np.dtype(dtype)
    if x.dtype.kind in "bi":
        return np.dtype(np.int64)
    if x.dtype.kind == "u":
        return np.dtype(np.uint64)
    return x.dtype


def _additive(op: str, ufunc: str, neutral: int) -> Any:
    def rule(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = _NOT_GIVEN, where: Any = True) -> Any:
        trace = trace_of(a, where)
        x = promote.node_of(trace, a)
        x = promote.cast(trace, x, _sum_dtype(x, dtype))
        x = _masked(trace, x, where, neutral)
        node = fold(trace, op, x, normalise_axes(len(x.shape), axis), keepdims is True)
        if initial is not _NOT_GIVEN and initial is not None:
            node = apply_op(trace, ufunc, initial if not hasattr(initial, "dtype") else initial, Tracer.of(trace, node))
            node = promote.cast(trace, node, x.dtype)
        return deliver(trace, Tracer.of(trace, node), out)

    return rule


sum_rule = implements("sum", method="sum")(_additive("sum", "add", 0))
prod_rule = implements("prod", method="prod")(_additive("prod", "multiply", 1))


def _extreme(op: str, ufunc: str) -> Any:
    def rule(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = _NOT_GIVEN, where: Any = True) -> Any:
        trace = trace_of(a, where)
        x = promote.node_of(trace, a)
        axes = normalise_axes(len(x.shape), axis)
        has_initial = initial is not _NOT_GIVEN and initial is not None
        if where is not True and where is not _NOT_GIVEN:
            if not has_initial:
                raise ValueError(f"{here()}: reduction operation {ufunc!r} does not have an identity, so to use a where mask one has to specify 'initial'")
            mask = promote.node_of(trace, where)
            fill = promote.cast(trace, promote.node_of(trace, initial), x.dtype)
            x = ufuncs.select(trace, mask, x, fill)
        if not has_initial:
            require_elements(trace, x, axes, f"zero-size array to reduction operation {ufunc} which has no identity")
        node = fold(trace, op, x, axes, keepdims is True)
        if has_initial:
            node = promote.cast(trace, apply_op(trace, ufunc, Tracer.of(trace, node), initial), x.dtype)
        return deliver(trace, Tracer.of(trace, node), out)

    return rule


max_rule = implements("max", "amax", method="max")(_extreme("max", "maximum"))
min_rule = implements("min", "amin", method="min")(_extreme("min", "minimum"))


def require_elements(trace: Trace, x: Node, axes: Sequence[int], message: str) -> None:
    """Have the program check that the folded axes are not empty (unless the result is)."""
    for a in axes:
        extent = x.shape[a]
        if isinstance(extent, int):
            if extent == 0 and not any(d == 0 for k, d in enumerate(x.shape) if k not in axes):
                raise ValueError(f"{here()}: {message}")
        elif trace.hint(extent) == 0:
            raise ValueError(f"{here()}: {message}")
        else:
            trace.graph.require("ge", extent, 1, message)


def _logical(op: str) -> Any:
    def rule(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
        trace = trace_of(a, where)
        x = promote.cast(trace, promote.node_of(trace, a), np.dtype(bool))
        x = _masked(trace, x, where, op == "all")
        node = fold(trace, op, x, normalise_axes(len(x.shape), axis), keepdims is True)
        return deliver(trace, Tracer.of(trace, node), out)

    return rule


any_rule = implements("any", method="any")(_logical("any"))
all_rule = implements("all", method="all")(_logical("all"))


def count(trace: Trace, x: Node, axes: Sequence[int]) -> Dim:
    """The number of elements folded into one."""
    return sizes.product(x.shape[a] for a in axes)


def _count_value(trace: Trace, total: Dim) -> Any:
    return total if isinstance(total, int) else Tracer.of(trace, trace.graph.apply("size", where=here(), value=total))


@implements("mean", method="mean")
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    trace = trace_of(a, where)
    x = promote.node_of(trace, a)
    axes = normalise_axes(len(x.shape), axis)
    result = np.dtype(dtype) if dtype is not None else (np.dtype(np.float64) if x.dtype.kind in "biu" else x.dtype)
    wide = np.dtype(np.float32) if result == np.float16 else result
    total = fold(trace, "sum", _masked(trace, promote.cast(trace, x, wide), where, 0), axes, keepdims is True)
    number: Any = _count_value(trace, count(trace, x, axes)) if where is True else _where_count(trace, x, where, axes, keepdims)
    node = apply_op(trace, "divide", Tracer.of(trace, total), number)
    return deliver(trace, Tracer.of(trace, promote.cast(trace, node, result)), out)


def _where_count(trace: Trace, x: Node, where: Any, axes: Sequence[int], keepdims: Any) -> Tracer:
    mask = promote.broadcast_node(trace, promote.cast(trace, promote.node_of(trace, where), np.dtype(bool)), x.shape)
    return Tracer.of(trace, fold(trace, "sum", promote.cast(trace, mask, np.dtype(np.int64)), axes, keepdims is True))


@implements("var", method="var")
def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = True, mean: Any = _NOT_GIVEN, correction: Any = _NOT_GIVEN,
) -> Any:  # fmt: skip
    trace = trace_of(a, where)
    node = _variance(trace, a, axis, dtype, ddof if correction is _NOT_GIVEN else correction, keepdims, where, mean)
    return deliver(trace, Tracer.of(trace, node), out)


@implements("std", method="std")
def std(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = True, mean: Any = _NOT_GIVEN, correction: Any = _NOT_GIVEN,
) -> Any:  # fmt: skip
    trace = trace_of(a, where)
    node = _variance(trace, a, axis, dtype, ddof if correction is _NOT_GIVEN else correction, keepdims, where, mean)
    return deliver(trace, Tracer.of(trace, apply_op(trace, "sqrt", Tracer.of(trace, node))), out)


def _variance(trace: Trace, a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: Any, where: Any, mean_given: Any) -> Node:
    x = promote.node_of(trace, a)
    axes = normalise_axes(len(x.shape), axis)
    result = np.dtype(dtype) if dtype is not None else (np.dtype(np.float64) if x.dtype.kind in "biu" else x.dtype)
    wide = np.dtype(np.float32) if result == np.float16 else result
    x = promote.cast(trace, x, wide)
    number: Any = _count_value(trace, count(trace, x, axes)) if where is True else _where_count(trace, x, where, axes, True)
    if mean_given is _NOT_GIVEN:
        total = fold(trace, "sum", _masked(trace, x, where, 0), axes, keepdims=True)
        centre: Any = Tracer.of(trace, apply_op(trace, "divide", Tracer.of(trace, total), number))
    else:
        centre = mean_given
    deviation = apply_op(trace, "subtract", Tracer.of(trace, x), centre)
    if x.dtype.kind == "c":
        parts = [trace.graph.apply(p, (deviation,), here()) for p in ("real", "imag")]
        squares = [apply_op(trace, "multiply", Tracer.of(trace, p), Tracer.of(trace, p)) for p in parts]
        square = apply_op(trace, "add", *(Tracer.of(trace, s) for s in squares))
    else:
        square = apply_op(trace, "multiply", Tracer.of(trace, deviation), Tracer.of(trace, deviation))
    total = fold(trace, "sum", _masked(trace, square, where, 0), axes, keepdims is True)
    if where is not True and keepdims is not True:
        number = _where_count(trace, x, where, axes, False)
    divisor: Any = number
    if not (isinstance(ddof, int) and ddof == 0):
        divisor = Tracer.of(trace, apply_op(trace, "maximum", apply_op_value(trace, number, ddof), 0))
    node = apply_op(trace, "divide", Tracer.of(trace, total), divisor)
    return promote.cast(trace, node, np.zeros((), result).real.dtype)


def apply_op_value(trace: Trace, number: Any, ddof: Any) -> Any:
    """`number - ddof` as an operand."""
    if isinstance(number, int) and isinstance(ddof, int):
        return number - ddof
    return Tracer.of(trace, promote.elementwise(trace, promote.OPS["subtract"], [promote.node_of(trace, v) for v in (number, ddof)], operator=True))


def _reduce_method(trace: Trace, ufunc: Any, a: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = _NOT_GIVEN, where: Any = True) -> Any:
    rules = {np.add: sum_rule, np.multiply: prod_rule, np.maximum: max_rule, np.minimum: min_rule, np.logical_and: all_rule, np.logical_or: any_rule}
    from ...errors import UnsupportedError

    rule = rules.get(ufunc)
    if rule is None:
        raise UnsupportedError(f"{here()}: numpy.{ufunc.__name__}.reduce is not supported in compiled functions")
    if isinstance(out, tuple):
        (out,) = out
    kwargs: dict[str, Any] = {"axis": axis, "out": out, "keepdims": keepdims, "where": where}
    if ufunc in (np.add, np.multiply):
        kwargs |= {"dtype": dtype, "initial": initial}
    elif ufunc in (np.maximum, np.minimum):
        kwargs |= {"initial": initial}
    return rule(a, **kwargs)


UFUNC_METHODS[(None, "reduce")] = _reduce_method


def _argument(op: str) -> Any:
    def rule(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        trace = trace_of(a)
        x = promote.node_of(trace, a)
        rank = len(x.shape)
        if axis is None:
            flat = views.Reshape((x.type.size,)).read(trace.graph, x) if rank != 1 else x
            require_elements(trace, flat, (0,), f"attempt to get {op} of an empty sequence")
            node = trace.graph.apply(op, (flat,), here(), axis=0)
            axes: tuple[int, ...] = tuple(range(rank))
        else:
            axes = normalise_axes(rank, axis)
            require_elements(trace, x, axes, f"attempt to get {op} of an empty sequence")
            node = trace.graph.apply(op, (x,), here(), axis=axes[0])
        node = keep(trace, node, axes) if keepdims is True else node
        return deliver(trace, Tracer.of(trace, node), out)

    return rule


argmax = implements("argmax", method="argmax")(_argument("argmax"))
argmin = implements("argmin", method="argmin")(_argument("argmin"))


def _running(op: str) -> Any:
    def rule(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        trace = trace_of(a)
        x = promote.node_of(trace, a)
        x = promote.cast(trace, x, _sum_dtype(x, dtype))
        if axis is None:
            x = views.Reshape((x.type.size,)).read(trace.graph, x) if len(x.shape) != 1 else x
            axis = 0
        (along,) = normalise_axes(len(x.shape), axis)
        return deliver(trace, Tracer.of(trace, trace.graph.apply(op, (x,), here(), axis=along)), out)

    return rule


cumsum = implements("cumsum", method="cumsum")(_running("cumsum"))
cumprod = implements("cumprod", method="cumprod")(_running("cumprod"))


@implements("count_nonzero")
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tracer:
    trace = trace_of(a)
    x = promote.cast(trace, promote.node_of(trace, a), np.dtype(bool))
    return Tracer.of(trace, fold(trace, "sum", promote.cast(trace, x, np.dtype(np.int64)), normalise_axes(len(x.shape), axis), keepdims))


@implements("ptp")
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    trace = trace_of(a)
    high, low = max_rule(a, axis, keepdims=keepdims), min_rule(a, axis, keepdims=keepdims)
    return deliver(trace, Tracer.of(trace, apply_op(trace, "subtract", high, low)), out)


__all__ = ["as_tracer", "fold", "keep", "normalise_axes"]
