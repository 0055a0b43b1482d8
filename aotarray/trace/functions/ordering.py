"""Sorting, order statistics, searching and counting in bins, as calls of NumPy's routines."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import sizes
from ...errors import UnsupportedError
from ...sizes import Dim
from .. import promote
from ..context import here
from ..finding import measured_size
from ..library import OUT, call, change, probe
from ..size_value import as_dim, wrap
from ..tracer import Tracer
from .elementwise import cast_to, deliver, op
from .reductions import NOT_GIVEN, max_rule, normalise_axes
from .registry import METHODS, array, implements, trace_of
from .shaping import ravel

POSITION = np.dtype(np.intp)


def _along(a: Any, axis: Any) -> tuple[Any, int]:
    """The array and the axis to sort along; all elements in one row for axis=None."""
    x = array(a)
    if axis is None:
        return ravel(x), -1
    normalise_axes(x.ndim, axis)
    return x, int(axis)


def _no_fields(order: Any) -> None:
    if order is not None:
        raise ValueError(f"{here()}: Cannot specify order when the array has no fields.")


@implements("sort")
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    _no_fields(order)
    x, along = _along(a, axis)
    return change(x, "ndarray.sort", [OUT], {"axis": along, "kind": kind, "stable": stable})


def _sort_method(
    self: Tracer, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> None:
    self.write(sort(self, axis, kind, order, stable=stable))


METHODS["sort"] = _sort_method


@implements("argsort", method="argsort")
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    _no_fields(order)
    x, along = _along(a, axis)
    keywords = {"axis": along, "kind": kind, "stable": stable}
    return call(x._trace, "argsort", [x], keywords, results=[(POSITION, x.node.shape)])[0]


@implements("sort_complex")
def sort_complex(a: Any) -> Any:
    x = array(a)
    return cast_to(sort(x), probe(np.sort_complex, x).dtype)


@implements("lexsort")
def lexsort(keys: Any, axis: int = -1) -> Any:
    trace = trace_of(keys)
    if isinstance(keys, (tuple, list)):
        rows = [array(k, keys) for k in keys]
        shape = rows[0].node.shape
        for row in rows[1:]:
            if row.ndim != len(shape):
                raise ValueError(f"{here()}: all keys need to be the same shape")
            for d, e in zip(shape, row.node.shape, strict=True):
                trace.same(d, e, "all keys need to be the same shape")
        given: Any = tuple(rows)
    else:
        given = array(keys)
        if given.ndim == 0:
            raise TypeError(f"{here()}: need sequence of keys with len > 0 in lexsort")
        shape = given.node.shape[1:]
    if shape:
        normalise_axes(len(shape), axis)
    return call(trace, "lexsort", [given], {"axis": axis}, results=[(POSITION, shape)])[0]


@implements("partition")
def partition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Any:
    _no_fields(order)
    x, along = _along(a, axis)
    return change(x, "ndarray.partition", [OUT, kth], {"axis": along, "kind": kind})


def _partition_method(
    self: Tracer, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None
) -> None:
    self.write(partition(self, kth, axis, kind, order))


METHODS["partition"] = _partition_method


@implements("argpartition", method="argpartition")
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Any:
    _no_fields(order)
    x, along = _along(a, axis)
    keywords = {"axis": along, "kind": kind}
    return call(x._trace, "argpartition", [x, kth], keywords, results=[(POSITION, x.node.shape)])[0]


# -- order statistics -------------------------------------------------------------------------------
def _reduced(x: Any, axis: Any, keepdims: Any) -> tuple[Any, bool, tuple[Dim, ...]]:
    """(axis as an argument, keepdims, shape of the result)."""
    axes = normalise_axes(x.ndim, axis)
    kept = keepdims is not NOT_GIVEN and bool(keepdims)
    shape = tuple(1 if a in axes else d for a, d in enumerate(x.node.shape) if kept or a not in axes)
    return (None if axis is None else axes if len(axes) != 1 else axes[0]), kept, shape


def _median(name: str) -> None:
    @implements(name)
    def rule(
        a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False
    ) -> Any:
        x = array(a, out)
        along, kept, shape = _reduced(x, axis, keepdims)
        dtype = np.asarray(probe(getattr(np, name), x)).dtype
        keywords = {"axis": along, "keepdims": kept}
        (found,) = call(x._trace, name, [x], keywords, results=[(dtype, shape)])
        return deliver(x._trace, found, out)


def _quantile(name: str) -> None:
    @implements(name)
    def rule(
        a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
        method: str = "linear", keepdims: Any = False, *, weights: Any = None, interpolation: Any = None,
    ) -> Any:  # fmt: skip
        x = array(a, q, out)
        at = q if type(q) in (int, float) else array(q, x)
        along, kept, shape = _reduced(x, axis, keepdims)
        keywords: dict[str, Any] = {"axis": along, "keepdims": kept, "method": interpolation or method}
        if weights is not None:
            keywords["weights"] = array(weights, x)
        same = {**keywords, "axis": tuple(range(x.ndim)) if along is None and weights is not None else along}
        dtype = np.asarray(
            probe(getattr(np, name), x, at, **{k: v for k, v in same.items() if v is not None})
        ).dtype
        lead = at.node.shape if type(at) is Tracer else ()
        (found,) = call(x._trace, name, [x, at], keywords, results=[(dtype, (*lead, *shape))])
        return deliver(x._trace, found, out)


for _name in ("median", "nanmedian"):
    _median(_name)
for _name in ("percentile", "nanpercentile", "quantile", "nanquantile"):
    _quantile(_name)


# -- searching --------------------------------------------------------------------------------------
@implements("searchsorted", method="searchsorted")
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    x, values = array(a, v), array(v, a)
    order = None if sorter is None else array(sorter, a)
    probe(np.searchsorted, x, values, side)
    keywords = {"side": side, "sorter": order}
    return call(x._trace, "searchsorted", [x, values], keywords, results=[(POSITION, values.node.shape)])[0]


@implements("digitize")
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    values, edges = array(x, bins), array(bins, x)
    probe(np.digitize, values, edges)
    return call(
        values._trace,
        "digitize",
        [values, edges],
        {"right": bool(right)},
        results=[(POSITION, values.node.shape)],
    )[0]


@implements("isin")
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> Any:
    x, tests = array(element, test_elements), array(test_elements, element)
    keywords = {"assume_unique": bool(assume_unique), "invert": bool(invert), "kind": kind}
    return call(x._trace, "isin", [x, tests], keywords, results=[(bool, x.node.shape)])[0]


@implements("interp")
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    values, points, heights = (array(v, x, xp, fp) for v in (x, xp, fp))
    probe(np.interp, values, points, heights)
    dtype = np.complex128 if heights.dtype.kind == "c" else np.float64
    points._trace.same(points.node.shape[0], heights.node.shape[0], "fp and xp are not of the same length.")
    keywords = {"left": left, "right": right, "period": period}
    return call(
        values._trace, "interp", [values, points, heights], keywords, results=[(dtype, values.node.shape)]
    )[0]


@implements("unravel_index")
def unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    x = array(indices, shape)
    dims = (shape,) if as_dim(shape) is not None else tuple(shape)
    results = [(POSITION, x.node.shape)] * len(dims)
    return tuple(call(x._trace, "unravel_index", [x, dims], {"order": order}, results=results, several=True))


@implements("ravel_multi_index")
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    trace = trace_of(multi_index, dims)
    given = [array(k, multi_index) for k in multi_index]
    shape = promote.broadcast_shapes(trace, [g.node.shape for g in given], "ravel_multi_index")
    keywords = {"mode": mode, "order": order}
    size = (dims,) if as_dim(dims) is not None else tuple(dims)
    return call(trace, "ravel_multi_index", [tuple(given), size], keywords, results=[(POSITION, shape)])[0]


# -- counting in bins -------------------------------------------------------------------------------
def _edges(bins: Any, x: Any) -> tuple[Any, Dim]:
    """(the argument, the number of bins)."""
    if isinstance(bins, str):
        raise UnsupportedError(
            f"{here()}: bins={bins!r}: the number of bins depends on values; give it, or the edges"
        )
    number = as_dim(bins) if type(bins) is not Tracer else None
    if number is not None:
        return bins, number
    edges = array(bins, x)
    if edges.ndim != 1:
        raise ValueError(f"{here()}: `bins` must be 1d, when an array")
    return edges, edges.node.shape[0] - 1


@implements("histogram")
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    x = array(a, bins, weights)
    edges, number = _edges(bins, x)
    keywords = {"range": range, "density": density, "weights": None if weights is None else array(weights, x)}
    counts, limits = probe(np.histogram, ravel(x), edges if type(edges) is Tracer else 2, **{
        k: v if k != "weights" or v is None else ravel(v) for k, v in keywords.items()
    })  # fmt: skip
    results = [(counts.dtype, (number,)), (limits.dtype, (number + 1,))]
    return tuple(call(x._trace, "histogram", [x, edges], keywords, results=results, several=True))


@implements("histogram_bin_edges")
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    x = array(a, bins)
    edges, number = _edges(bins, x)
    found = probe(np.histogram_bin_edges, ravel(x), edges if type(edges) is Tracer else 2, range)
    results = [(found.dtype, (number + 1,))]
    return call(x._trace, "histogram_bin_edges", [x, edges], {"range": range}, results=results)[0]


@implements("histogram2d")
def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    first, second = array(x, y), array(y, x)
    pair = bins if isinstance(bins, (tuple, list)) and len(bins) == 2 else (bins, bins)
    (one, n), (two, m) = (_edges(b, first) for b in pair)
    keywords = {
        "range": range,
        "density": density,
        "weights": None if weights is None else array(weights, first),
    }
    small = [e if type(e) is Tracer else 2 for e in (one, two)]
    found = probe(np.histogram2d, first, second, small, **keywords)
    shapes: list[tuple[Dim, ...]] = [(n, m), (n + 1,), (m + 1,)]
    results = [(f.dtype, shape) for f, shape in zip(found, shapes, strict=True)]
    args = [first, second, (one, two)]
    return tuple(call(first._trace, "histogram2d", args, keywords, results=results, several=True))


@implements("bincount")
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    values = array(x, weights)
    least = as_dim(minlength)
    if least is None or (isinstance(least, int) and least < 0):
        raise ValueError(f"{here()}: 'minlength' must not be negative, and a size or an int")
    given = None if weights is None else array(weights, values)
    found = probe(np.bincount, values, weights=given)
    trace = values._trace
    largest = max_rule(cast_to(values, np.int64), initial=-1)
    length = measured_size(trace, op("maximum", op("add", largest, 1), wrap(least, trace)).node)
    keywords = {"weights": given, "minlength": wrap(length, trace)}
    return call(trace, "bincount", [values], keywords, results=[(found.dtype, (length,))])[0]


# -- sums of products along an axis, and what is made of them --------------------------------------------
def _filter(name: str, default: str) -> None:
    @implements(name)
    def rule(a: Any, v: Any, mode: str = default) -> Any:
        x, y = (ravel(array(w, a, v)) if array(w, a, v).ndim == 0 else array(w, a, v) for w in (a, v))
        found = probe(getattr(np, name), x, y, mode)
        n, m = x.node.shape[0], y.node.shape[0]
        larger, smaller = sizes.maximum(n, m), sizes.minimum(n, m)
        length = {"f": n + m - 1, "s": larger, "v": larger - smaller + 1}[str(mode)[0].lower()]
        return call(x._trace, name, [x, y, mode], results=[(found.dtype, (length,))])[0]


_filter("convolve", "full")
_filter("correlate", "valid")


def _variables(m: Any, y: Any, rowvar: bool) -> Dim:
    def rows(x: Any) -> Dim:
        first: Dim = x.node.shape[0] if rowvar else x.node.shape[-1]
        return first if x.ndim == 2 else 1

    return rows(m) if y is None else rows(m) + rows(y)


def _covariance(name: str) -> None:
    @implements(name)
    def rule(m: Any, y: Any = None, rowvar: bool = True, *args: Any, **kwargs: Any) -> Any:
        names = ("bias", "ddof", "fweights", "aweights")
        keywords = {**dict(zip(names, args, strict=False)), **kwargs, "y": y, "rowvar": bool(rowvar)}
        dtype = keywords.get("dtype")
        keywords = {
            k: v for k, v in keywords.items() if v is not None and v is not NOT_GIVEN and k != "dtype"
        }
        x = array(m, y)
        for k in ("y", "fweights", "aweights"):
            if k in keywords:
                keywords[k] = array(keywords[k], x)
        found = np.asarray(probe(getattr(np, name), x, **keywords)).dtype
        n = _variables(x, keywords.get("y"), bool(rowvar))
        if x._trace.hint(n) == 1:  # NumPy drops the axes of one variable
            n = x._trace.fix(n, f"the number of variables of np.{name}")
        (result,) = call(x._trace, name, [x], keywords, results=[(found, () if n == 1 else (n, n))])
        return result if dtype is None else cast_to(result, dtype)


for _name in ("cov", "corrcoef"):
    _covariance(_name)


@implements("polyfit")
def polyfit(
    x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    if full or cov or type(deg) is not int:
        raise UnsupportedError(
            f"{here()}: numpy.polyfit with full=, cov= or a list of degrees is not supported"
        )
    values, heights = array(x, y), array(y, x)
    keywords = {"rcond": rcond, "w": None if w is None else array(w, values)}
    dtype = probe(np.polyfit, values, heights, 1, **keywords).dtype
    shape = (deg + 1, *heights.node.shape[1:])
    return call(values._trace, "polyfit", [values, heights, deg], keywords, results=[(dtype, shape)])[0]


@implements("vander")
def vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    values = array(x, N)
    found = probe(np.vander, values)
    n = values.node.shape[0]
    keywords = {"N": N, "increasing": bool(increasing)}
    width = n if N is None else as_dim(N)
    if width is None:
        raise TypeError(f"{here()}: the number of columns of np.vander is an int")
    return call(values._trace, "vander", [values], keywords, results=[(found.dtype, (n, width))])[0]


@implements("i0")
def i0(x: Any) -> Any:
    values = array(x)
    return call(values._trace, "i0", [values], results=[(probe(np.i0, values).dtype, values.node.shape)])[0]
