"""np.linalg norms, in NumPy's formulas; those that need singular values raise."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..context import here
from .elementwise import cast_to, op
from .linear_algebra import singular_values
from .numeric import _part
from .reductions import max_rule, min_rule, normalise_axes, sum_rule
from .registry import array, implements
from .shaping import expand_dims


def _squares(x: Any) -> Any:
    if x.dtype.kind == "c":
        real, imag = _part("real", x), _part("imag", x)
        return op("add", op("multiply", real, real), op("multiply", imag, imag))
    return op("multiply", x, x)


def _vector(x: Any, order: Any, axis: Any, keepdims: bool) -> Any:
    if order is None or order == 2:
        return op("sqrt", sum_rule(_squares(x), axis, keepdims=keepdims))
    if order == np.inf:
        return max_rule(op("absolute", x), axis, keepdims=keepdims, initial=0)
    if order == -np.inf:
        return min_rule(op("absolute", x), axis, keepdims=keepdims)
    if order == 0:
        nonzero = cast_to(op("not_equal", x, 0), np.zeros((), x.dtype).real.dtype)
        return sum_rule(nonzero, axis, keepdims=keepdims)
    if order == 1:
        return sum_rule(op("absolute", x), axis, keepdims=keepdims)
    if isinstance(order, str):
        raise ValueError(f"{here()}: Invalid norm order {order!r} for vectors")
    total = sum_rule(op("power", op("absolute", x), order), axis, keepdims=keepdims)
    return op("power", total, 1 / order)


def _matrix(x: Any, order: Any, axes: tuple[int, int], keepdims: bool) -> Any:
    row, column = axes
    if order in (None, "fro", "f"):
        return op("sqrt", sum_rule(_squares(x), axes, keepdims=keepdims))
    if order in (2, -2, "nuc"):
        singular = singular_values(x, axes)
        if order == -2:
            found = min_rule(singular, -1)
        else:
            found = sum_rule(singular, -1) if order == "nuc" else max_rule(singular, -1, initial=0)
        return expand_dims(found, axes) if keepdims else found
    if order not in (1, -1, np.inf, -np.inf):
        raise ValueError(f"{here()}: Invalid norm order for matrices.")
    summed, other = (row, column) if abs(order) == 1 else (column, row)
    totals = sum_rule(op("absolute", x), summed, keepdims=True)
    found = (
        max_rule(totals, other, keepdims=True, initial=0)
        if order > 0
        else min_rule(totals, other, keepdims=True)
    )
    key = tuple(slice(None) if k not in axes or keepdims else 0 for k in range(x.ndim))
    return found[key]


@implements("linalg.norm")
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    values = array(x)
    if values.dtype.kind not in "fc":
        values = cast_to(values, np.float64)
    if axis is None:
        if ord is None:
            return op("sqrt", sum_rule(_squares(values), None, keepdims=keepdims))
        if values.ndim not in (1, 2):
            raise ValueError(f"{here()}: Improper number of dimensions to norm.")
        axis = tuple(range(values.ndim))
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(normalise_axes(values.ndim, k)[0] for k in axes)
    if len(axes) == 1:
        return _vector(values, ord, axes[0], keepdims)
    if len(axes) != 2:
        raise ValueError(f"{here()}: Improper number of dimensions to norm.")
    if axes[0] == axes[1]:
        raise ValueError(f"{here()}: Duplicate axes given.")
    return _matrix(values, ord, axes, keepdims)


if hasattr(np.linalg, "vector_norm"):

    @implements("linalg.vector_norm")
    def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
        values = array(x)
        if values.dtype.kind not in "fc":
            values = cast_to(values, np.float64)
        return _vector(values, ord, axis, keepdims)

    @implements("linalg.matrix_norm")
    def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
        values = array(x)
        return norm(values, ord, (values.ndim - 2, values.ndim - 1), keepdims)
