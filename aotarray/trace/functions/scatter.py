"""Writing at positions that are values: put, put_along_axis, place, putmask, fill_diagonal and ufunc.at."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ..context import Trace, here
from ..control import fori_loop
from ..indexing import Target, change_at, fitted_to, is_mask, target_of
from ..library import OUT, change, probe
from ..size_value import wrap
from ..tracer import Tracer
from .creation import is_traced
from .registry import METHODS, UFUNC_METHODS, array, implements

#: ufuncs whose `at` is a loop that fuses, for dtypes that they keep
_STEPWISE = frozenset({np.add, np.subtract, np.multiply, np.maximum, np.minimum})


def _writable(a: Any, name: str) -> Tracer:
    if type(a) is not Tracer:
        raise UnsupportedError(
            f"{here()}: numpy.{name} into an array from outside the compiled function; write into a copy of it"
        )
    return a


def _operand(value: Any, x: Tracer) -> Any:
    """Plain numbers and lists of them become what `x` holds, as in NumPy; arrays keep their dtype."""
    if type(value) in (bool, int, float):
        return value
    if isinstance(value, (list, tuple)) and not is_traced(value):
        return np.asarray(value, x.dtype)
    return array(value, x)


@implements("put_along_axis")
def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    x = _writable(arr, "put_along_axis")
    index = array(indices, x)
    if index.dtype.kind not in "iu":
        raise IndexError(f"{here()}: `indices` must be an integer array")
    x.write(change(x, "put_along_axis", [OUT, index, _operand(values, x), axis]))


@implements("put")
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    x = _writable(a, "put")
    x.write(change(x, "put", [OUT, array(ind, x), _operand(v, x)], {"mode": mode}))


def _put_method(self: Tracer, indices: Any, values: Any, mode: str = "raise") -> None:
    put(self, indices, values, mode)


METHODS["put"] = _put_method


@implements("putmask")
def putmask(a: Any, mask: Any, values: Any) -> None:
    x = _writable(a, "putmask")
    x.write(change(x, "putmask", [OUT, array(mask, x), _operand(values, x)]))


@implements("place")
def place(arr: Any, mask: Any, vals: Any) -> None:
    x = _writable(arr, "place")
    x.write(change(x, "place", [OUT, array(mask, x), _operand(vals, x)]))


@implements("fill_diagonal")
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    x = _writable(a, "fill_diagonal")
    if x.ndim < 2:
        raise ValueError(f"{here()}: array must be at least 2-d")
    x.write(change(x, "fill_diagonal", [OUT, _operand(val, x)], {"wrap": bool(wrap)}))


def _at(trace: Trace, ufunc: Any, a: Any, indices: Any, *operands: Any) -> None:
    x = _writable(a, f"{ufunc.__name__}.at")
    if len(operands) != ufunc.nin - 1:
        raise ValueError(
            f"{here()}: numpy.{ufunc.__name__}.at takes {ufunc.nin - 1} operands beside the array"
        )
    values = [array(v, x) for v in operands]
    probe(lambda *small: ufunc.at(np.ones(2, x.dtype), [0], *(np.ravel(v)[-1:] for v in small)), *values)
    if is_mask(indices, x):
        x.write(change(x, f"{ufunc.__name__}.at", [OUT, indices, *values]))
        return
    place = target_of(x, indices)
    if place.advanced and _in_steps(place, ufunc, values):
        _step_by_step(place, ufunc, *values)
    elif place.advanced:
        change_at(place, f"{ufunc.__name__}.at", *values)
    else:
        place.view.write(ufunc(place.view, *values).astype(x.dtype))


def _in_steps(place: Target, ufunc: Any, values: list[Tracer]) -> bool:
    """True where a loop over index arrays of one axis, for leading axes of the array, does what NumPy does."""
    view, indices = place.view, list(place.advanced.values())
    return (
        ufunc in _STEPWISE
        and view.dtype.kind in "iufc"
        and ufunc.resolve_dtypes((view.dtype, values[0].dtype, None))[-1] == view.dtype
        and sorted(place.advanced) == list(range(len(indices)))
        and all(n.dtype.kind == "i" and len(n.shape) == 1 and n.shape == indices[0].shape for n in indices)
    )


def _step_by_step(place: Target, ufunc: Any, value: Tracer) -> None:
    """`view[i, ...] = ufunc(view[i, ...], value)` for the positions i one by one: a loop, which becomes a kernel."""
    view, trace = place.view, place.view._trace
    indices = [Tracer.of(trace, place.advanced[a]) for a in sorted(place.advanced)]
    fitted = Tracer.of(trace, fitted_to(place, value.node))
    several = fitted.ndim == 1 + view.ndim - len(indices) and fitted.node.shape[0] != 1
    if not several and fitted.ndim > view.ndim - len(indices):
        fitted = fitted[0]

    def step(i: Any, array: Any) -> Any:
        at = tuple(index[i] for index in indices)
        array[at] = ufunc(array[at], fitted[i] if several else fitted)
        return array

    view.write(fori_loop(0, wrap(indices[0].node.shape[0], trace), step, Tracer.of(trace, view.node)))


UFUNC_METHODS[(None, "at")] = _at
