"""What depends on values in its size: elements that are true, distinct values, sets, elements left out."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import sizes
from ...errors import UnsupportedError
from ...graph import Node, axis_name
from .. import promote
from ..context import here
from ..finding import chosen, find_true
from ..size_value import as_dim, wrap
from ..tracer import Tracer
from ..views import Affine
from .elementwise import cast_to, deliver, op
from .joining import concatenate, stack
from .ordering import argsort, isin, sort
from .reductions import normalise_axes
from .registry import METHODS, array, implements
from .selecting import positions, take
from .shaping import flip, ravel, reshape


def _mask(x: Any) -> Node:
    """Where an array is not zero."""
    node: Node = cast_to(x, bool).node
    return node


# -- true elements ----------------------------------------------------------------------------------
@implements("nonzero", method="nonzero")
def nonzero(a: Any) -> tuple[Any, ...]:
    x = array(a)
    if x.ndim == 0:
        raise ValueError(
            f"{here()}: Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead."
        )
    return tuple(Tracer.of(x._trace, node) for node in find_true(x._trace, _mask(x)))


@implements("flatnonzero")
def flatnonzero(a: Any) -> Any:
    return nonzero(ravel(array(a)))[0]


@implements("argwhere")
def argwhere(a: Any) -> Any:
    x = array(a)
    if x.ndim == 0:
        raise UnsupportedError(
            f"{here()}: np.argwhere of an array without axes is not supported; use np.atleast_1d"
        )
    return stack(nonzero(x), 1)


@implements("compress")
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    test, x = array(condition, a), array(a, condition)
    if test.ndim != 1:
        raise ValueError(f"{here()}: condition must be a 1-d array")
    return deliver(x._trace, take(x, nonzero(test)[0], axis), out)


METHODS["compress"] = lambda self, condition, axis=None, out=None: compress(condition, self, axis, out)


@implements("extract")
def extract(condition: Any, arr: Any) -> Any:
    test, x = array(condition, arr), array(arr, condition)
    return take(ravel(x), flatnonzero(test))


@implements("trim_zeros")
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    x = array(filt)
    if x.ndim != 1:
        raise UnsupportedError(
            f"{here()}: np.trim_zeros of an array of {x.ndim} axes is not supported; trim each axis"
        )
    at = positions(x, 0)
    places = nonzero(x)[0]
    trace = x._trace
    first = _extreme(trace, "min", places) if "f" in trim.lower() else 0
    last = _extreme(trace, "max", places) if "b" in trim.lower() else x.shape[0]
    kept = op("logical_and", op("greater_equal", at, first), op("less_equal", at, last))
    some = op("greater", places.shape[0], 0)
    return x[op("logical_and", kept, some)]


def _extreme(trace: Any, name: str, places: Any) -> Any:
    return Tracer.of(trace, trace.graph.apply(name, (places.node,), here(), axes=(0,)))


# -- distinct values ----------------------------------------------------------------------------------
def _at(x: Any, mask: Any) -> Any:
    """`x[mask]`, found."""
    return Tracer.of(x._trace, chosen(x._trace, x.node, find_true(x._trace, mask.node)))


def _before(x: Any) -> Any:
    """For each element of a vector the one before it; the first for itself."""
    at = sizes.maximum(sizes.name(axis_name(0)) - 1, 0)
    return x.view_through(Affine((at,), x.node.shape))


def _is_new(ordered: Any, equal_nan: bool) -> Any:
    """Where sorted values differ from the one before."""
    before = _before(ordered)
    new = op("not_equal", before, ordered)
    if equal_nan and ordered.dtype.kind in "fc":  # all NaNs are at the end
        new = op("logical_and", new, op("logical_not", op("isnan", before)))
    return op("logical_or", new, op("equal", positions(ordered, 0), 0))


def _unique(ar: Any, index: bool, inverse: bool, counts: bool, equal_nan: bool) -> list[Any]:
    x = array(ar)
    flat = ravel(x)
    order = argsort(flat, kind="stable") if index or inverse else None
    ordered = sort(flat) if order is None else flat[order]
    new = _is_new(ordered, equal_nan)
    found = [_at(ordered, new)]
    if index:
        found.append(_at(order, new))
    if inverse:
        number = op("subtract", new.cumsum(), 1)
        place = Tracer.of(x._trace, number.node)
        place[order] = number
        found.append(reshape(place, x.shape))
    if counts:
        starts = nonzero(new)[0]
        ends = concatenate([starts, array(wrap(flat.node.shape[0], x._trace), x)[None]])
        found.append(op("subtract", ends[1:], ends[:-1]))
    return found


@implements("unique")
def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: Any = None,
    *, equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    if axis is not None and normalise_axes(array(ar).ndim, axis) and array(ar).ndim != 1:
        raise UnsupportedError(
            f"{here()}: numpy.unique along an axis is not supported in compiled functions; call it outside, or make "
            f"one number of each row"
        )
    found = _unique(ar, return_index, return_inverse, return_counts, equal_nan)
    return found[0] if len(found) == 1 else tuple(found)


@implements("unique_values")
def unique_values(x: Any) -> Any:
    return _unique(x, False, False, False, False)[0]


def _named(name: str, index: bool, inverse: bool, counts: bool) -> None:
    """The functions of the array API standard, whose results are NamedTuples."""
    result = type(getattr(np, name)(np.zeros(1)))

    @implements(name)
    def rule(x: Any) -> Any:
        return result(*_unique(x, index, inverse, counts, False))


_named("unique_all", True, True, True)
_named("unique_counts", False, False, True)
_named("unique_inverse", False, True, False)


# -- sets -----------------------------------------------------------------------------------------------
def _both(ar1: Any, ar2: Any) -> tuple[Any, Any]:
    return ravel(array(ar1, ar2)), ravel(array(ar2, ar1))


@implements("union1d")
def union1d(ar1: Any, ar2: Any) -> Any:
    return unique(concatenate(_both(ar1, ar2)))


@implements("intersect1d")
def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    a, b = _both(ar1, ar2)
    first, second = None, None
    if not assume_unique:
        (a, *first), (b, *second) = (_unique(x, return_indices, False, False, True) for x in (a, b))
    both = concatenate([a, b])
    order = argsort(both, kind="stable") if return_indices else None
    ordered = sort(both) if order is None else both[order]
    twice = op("equal", ordered[1:], ordered[:-1])
    common = _at(ordered[:-1], twice)
    if order is None:
        return common
    left, right = _at(order[:-1], twice), op("subtract", _at(order[1:], twice), a.shape[0])
    if first and second:
        left, right = first[0][left], second[0][right]
    return common, left, right


@implements("setxor1d")
def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    a, b = _both(ar1, ar2)
    ordered = sort(concatenate([a, b] if assume_unique else [unique(a), unique(b)]))
    new = _is_new(ordered, False)
    last = flip(_is_new(flip(ordered), False))
    return _at(ordered, op("logical_and", new, last))


@implements("setdiff1d")
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    a, b = _both(ar1, ar2)
    a, b = (a, b) if assume_unique else (unique(a), unique(b))
    return _at(a, isin(a, b, assume_unique=True, invert=True))


# -- elements left out --------------------------------------------------------------------------------------
@implements("delete")
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    x = array(arr, obj)
    if axis is None:
        x, axis = ravel(x), 0
    (along,) = normalise_axes(x.ndim, axis)
    extent = x.node.shape[along]
    at = as_dim(obj)
    lead = (slice(None),) * along
    if at is not None:
        x[(*lead, obj)]  # looks at the position
        position = at + extent if isinstance(at, int) and at < 0 else at
        after = wrap(position + 1, x._trace)
        return concatenate(
            [x[(*lead, slice(0, wrap(position, x._trace)))], x[(*lead, slice(after, None))]], along
        )
    if isinstance(obj, slice):
        index = Tracer.of(x._trace, x._trace.graph.apply("iota", where=here(), length=extent))[obj]
    else:
        index = array(np.asarray(obj, np.intp) if isinstance(obj, (list, tuple)) and not len(obj) else obj, x)
    if index.dtype == bool:
        return x[(*lead, op("logical_not", index))]
    trace = x._trace
    kept = Tracer.of(
        trace, promote.broadcast_node(trace, trace.graph.literal(True, np.dtype(bool)), (extent,))
    )
    kept[ravel(index)] = False
    return x[(*lead, kept)]
