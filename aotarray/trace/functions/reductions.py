"""Reductions: sum, prod, max, min, any, all, argmax, argmin, count_nonzero, ptp; NumPy's dtypes, checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import sizes
from ...errors import UnsupportedError
from ...graph import Node
from ...sizes import Dim
from .. import promote, ufuncs, views
from ..context import Trace, here
from ..tracer import Tracer
from .elementwise import apply_op, cast_to, deliver, op
from .registry import UFUNC_METHODS, array, implements, trace_of

NOT_GIVEN: Any = np._NoValue


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


def reduced_axes(rank: int, axis: Any) -> tuple[int, ...]:
    """The axes of a reduction; like NumPy's, it takes axis 0 and -1 of a 0-d array."""
    return () if rank == 0 and axis in (0, -1) else normalise_axes(rank, axis)


def fold(trace: Trace, name: str, x: Node, axes: Sequence[int], keepdims: bool = False) -> Node:
    """Fold axes of a node whose dtype is the accumulator's."""
    axes = tuple(axes)
    real = tuple(a for a in axes if x.shape[a] != 1)
    if real:
        node = trace.graph.apply(name, (x,), here(), axes=axes)
    else:
        node = views.drop_axes(x.shape, axes).read(trace.graph, x) if axes else x
        if name == "sum" and node.dtype.kind in "fc":  # NumPy adds to 0.0, which turns -0.0 into 0.0
            zero = promote.broadcast_node(trace, trace.graph.literal(0, node.dtype, here()), node.shape)
            node = trace.graph.apply("add", (node, zero), here())
    return keep(trace, node, axes) if keepdims else node


def keep(trace: Trace, node: Node, axes: Sequence[int]) -> Node:
    """Put folded axes back with size 1."""
    return views.insert_axes(node.shape, tuple(axes)).read(trace.graph, node) if axes else node


def is_masked(where: Any) -> bool:
    """True when a reduction's `where=` leaves elements out."""
    return where is not True and where is not NOT_GIVEN


def masked(trace: Trace, x: Node, where: Any, neutral: Any) -> Node:
    """`x` with `neutral` where it does not count; `x` and the mask broadcast together."""
    if not is_masked(where):
        return x
    mask = promote.node_of(trace, where)
    found: Node = ufuncs.select(trace, mask, x, trace.graph.literal(neutral, x.dtype, here()))
    return found


def sum_dtype(x: Node, dtype: Any) -> Any:
    """The dtype in which sums and products of `x` accumulate."""
    if dtype is not None:
        return np.dtype(dtype)
    if x.dtype.kind in "bi":
        return np.dtype(np.int64)
    if x.dtype.kind == "u":
        return np.dtype(np.uint64)
    return x.dtype


def _has_initial(initial: Any) -> bool:
    return initial is not NOT_GIVEN and initial is not None


def _additive(name: str, ufunc: str, neutral: int) -> Any:
    def rule(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
        initial: Any = NOT_GIVEN, where: Any = True,
    ) -> Any:  # fmt: skip
        trace = trace_of(a, where, out)
        x: Node = array(a, where, out).node
        if dtype is None and isinstance(out, Tracer):
            dtype = out.dtype
        x = promote.cast(trace, x, sum_dtype(x, dtype))
        x = masked(trace, x, where, neutral)
        node = fold(trace, name, x, reduced_axes(len(x.shape), axis), bool(keepdims))
        if _has_initial(initial):
            node = promote.cast(trace, apply_op(trace, ufunc, initial, Tracer.of(trace, node)), x.dtype)
        return deliver(trace, Tracer.of(trace, node), out)

    return rule


sum_rule = implements("sum", method="sum")(_additive("sum", "add", 0))
prod_rule = implements("prod", method="prod")(_additive("prod", "multiply", 1))


def _extreme(name: str, ufunc: str) -> Any:
    def rule(
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: Any = False,
        initial: Any = NOT_GIVEN,
        where: Any = True,
    ) -> Any:
        trace = trace_of(a, where, initial, out)
        x: Node = array(a, where, out).node
        if x.dtype.kind == "c":
            raise UnsupportedError(
                f"{here()}: numpy.{name} of complex values is not supported; take it of abs(x) or x.real"
            )
        if is_masked(where):
            if not _has_initial(initial):
                raise ValueError(
                    f"{here()}: reduction operation {ufunc!r} does not have an identity, "
                    f"so to use a where mask "
                    f"one has to specify 'initial'"
                )
            fill = promote.cast(trace, promote.node_of(trace, initial), x.dtype)
            x = ufuncs.select(trace, promote.node_of(trace, where), x, fill)
        axes = reduced_axes(len(x.shape), axis)
        if not _has_initial(initial):
            message = f"zero-size array to reduction operation {ufunc} which has no identity"
            require_elements(trace, x, axes, message)
        node = fold(trace, name, x, axes, bool(keepdims))
        if _has_initial(initial):
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


def _logical(name: str) -> Any:
    def rule(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
        trace = trace_of(a, where, out)
        x = cast_to(array(a, where, out), bool).node
        x = masked(trace, x, where, name == "all")
        node = fold(trace, name, x, reduced_axes(len(x.shape), axis), bool(keepdims))
        return deliver(trace, Tracer.of(trace, node), out)

    return rule


any_rule = implements("any", method="any")(_logical("any"))
all_rule = implements("all", method="all")(_logical("all"))


def count(x: Node, axes: Sequence[int]) -> Dim:
    """The number of elements folded into one."""
    return sizes.product(x.shape[a] for a in axes)


def _parity(a: Any, axis: Any = 0, out: Any = None, keepdims: Any = False, where: Any = True) -> Any:
    """`np.logical_xor.reduce`: whether an odd number of elements is true."""
    ones = sum_rule(cast_to(array(a, where), bool), axis, np.int64, keepdims=keepdims, where=where)
    return deliver(ones._trace, cast_to(op("bitwise_and", ones, 1), bool), out)


_METHOD_RULES: dict[Any, Any] = {
    np.add: sum_rule, np.multiply: prod_rule, np.maximum: max_rule, np.minimum: min_rule,
    np.logical_and: all_rule, np.logical_or: any_rule, np.logical_xor: _parity,
}  # fmt: skip


def _reduce_method(
    trace: Trace, ufunc: Any, a: Any, axis: Any = 0, dtype: Any = None, out: Any = None,
    keepdims: Any = False,    initial: Any = NOT_GIVEN, where: Any = True,
) -> Any:  # fmt: skip
    rule = _METHOD_RULES.get(ufunc)
    if rule is None or (ufunc not in (np.add, np.multiply) and dtype is not None):
        names = ", ".join(u.__name__ for u in _METHOD_RULES)
        raise UnsupportedError(
            f"{here()}: numpy.{ufunc.__name__}.reduce{' with dtype=' if rule else ''} is not supported; "
            f"those of {names} are"
        )
    kwargs: dict[str, Any] = {"axis": axis, "out": out, "keepdims": keepdims, "where": where}
    if ufunc in (np.add, np.multiply):
        kwargs |= {"dtype": dtype, "initial": initial}
    elif ufunc in (np.maximum, np.minimum):
        kwargs |= {"initial": initial}
    elif _has_initial(initial):
        raise UnsupportedError(f"{here()}: numpy.{ufunc.__name__}.reduce with initial= is not supported")
    return rule(a, **kwargs)


UFUNC_METHODS[(None, "reduce")] = _reduce_method


def _argument(name: str) -> Any:
    def rule(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        trace = trace_of(a, out)
        x = array(a, out).node
        if x.dtype.kind == "c":
            raise UnsupportedError(
                f"{here()}: numpy.{name} of complex values is not supported; take it of abs(x) or x.real"
            )
        message = f"attempt to get {name} of an empty sequence"
        axes = reduced_axes(len(x.shape), axis)
        if axis is None or not x.shape:
            flat = views.Reshape((x.type.size,)).read(trace.graph, x) if len(x.shape) != 1 else x
            require_elements(trace, flat, (0,), message)
            node = trace.graph.apply(name, (flat,), here(), axis=0)
        else:
            require_elements(trace, x, axes, message)
            node = trace.graph.apply(name, (x,), here(), axis=axes[0])
        node = keep(trace, node, axes) if keepdims is not NOT_GIVEN and keepdims else node
        return deliver(trace, Tracer.of(trace, node), out)

    return rule


argmax = implements("argmax", method="argmax")(_argument("argmax"))
argmin = implements("argmin", method="argmin")(_argument("argmin"))


@implements("count_nonzero")
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return sum_rule(cast_to(array(a), bool), axis, np.int64, keepdims=keepdims)


@implements("ptp")
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    high, low = max_rule(a, axis, keepdims=keepdims), min_rule(a, axis, keepdims=keepdims)
    return deliver(high._trace, op("subtract", high, low), out)
