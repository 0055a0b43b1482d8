"""Views: transposes, reshapes, broadcasts, axes put in and taken out, flips, diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import sizes
from ...errors import UnsupportedError
from ...graph import axis_name
from ...sizes import Dim
from .. import promote, views
from ..context import here
from ..size_value import as_dim, wrap
from ..tracer import Storage, Tracer
from .reductions import normalise_axes
from .registry import METHODS, array, implements, trace_of
from .registry import array as _array


def dims_of(shape: Any) -> tuple[Dim, ...]:
    """A shape argument (an int, a size, or a sequence of them) as dims."""
    single = as_dim(shape)
    if single is not None:
        return (single,)
    found = []
    for item in shape:
        dim = as_dim(item)
        if dim is None:
            raise TypeError(
                f"{here()}: a shape must be made of integers and sizes, not {type(item).__name__}"
            )
        found.append(dim)
    return tuple(found)


@implements("transpose", "permute_dims")
def transpose(a: Any, axes: Any = None) -> Any:
    x = array(a)
    order = tuple(reversed(range(x.ndim))) if axes is None else tuple(int(k) % x.ndim for k in axes)
    if sorted(order) != list(range(x.ndim)):
        raise ValueError(f"{here()}: axes don't match array")
    return x.view_through(views.transpose(x.node.shape, order))


def _transpose_method(self: Tracer, *axes: Any) -> Any:
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
        return transpose(self, axes[0])
    return transpose(self, axes or None)


METHODS["transpose"] = _transpose_method


@implements("swapaxes", method="swapaxes")
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    x = array(a)
    (first,), (second,) = normalise_axes(x.ndim, axis1), normalise_axes(x.ndim, axis2)
    order = list(range(x.ndim))
    order[first], order[second] = order[second], order[first]
    return transpose(x, order)


METHODS["T"] = property(lambda self: transpose(self))  # type: ignore[assignment]


@implements("reshape")
def reshape(a: Any, /, shape: Any = None, order: str = "C", *, copy: bool | None = None) -> Any:
    x = array(a)
    if order != "C" and x.ndim > 1:
        raise UnsupportedError(
            f"{here()}: reshape with order={order!r} is not supported: it depends on how the array lies in memory; "
            f"transpose first, with order='C'"
        )
    if copy:
        x = Tracer(x._trace, Storage(x.node))
    old = x.node.shape
    target = list(dims_of(shape))
    unknown = [k for k, d in enumerate(target) if d == -1]
    total = sizes.product(old)
    if len(unknown) > 1:
        raise ValueError(f"{here()}: can only specify one unknown dimension")
    if unknown:
        known = sizes.product(d for d in target if d != -1)
        target[unknown[0]] = sizes.floordiv(total, known)
        if isinstance(known, int) and known == 0:
            raise ValueError(
                f"{here()}: cannot reshape array of size {total} into shape {tuple(dims_of(shape))}"
            )
    x._trace.same(
        sizes.product(target),
        total,
        f"cannot reshape array of shape {_shown(old)} into shape {_shown(tuple(target))}",
    )
    if tuple(target) == old:
        return x.view_through(views.transpose(old, range(len(old))))
    squeezed_old = [d for d in old if d != 1]
    if squeezed_old == [d for d in target if d != 1]:
        return x.view_through(views.drop_axes(old, [k for k, d in enumerate(old) if d == 1])).view_through(
            views.insert_axes(tuple(squeezed_old), [k for k, d in enumerate(target) if d == 1])
        )
    return x.view_through(views.Reshape(tuple(target)))


def _shown(shape: tuple[Dim, ...]) -> str:
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def _reshape_method(self: Tracer, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
    return reshape(self, shape[0] if len(shape) == 1 else shape, order, copy=copy)


METHODS["reshape"] = _reshape_method


@implements("ravel", method="ravel")
def ravel(a: Any, order: str = "C") -> Any:
    """A view where the elements lie one after another, else a copy: also of one axis with a step."""
    x = array(a)
    flat = reshape(x, -1, order)
    return flat if x.in_order() else x.perhaps_copied(flat.node)


METHODS["flatten"] = lambda self, order="C": Tracer.of(self._trace, reshape(self, -1, order).node)


@implements("squeeze", method="squeeze")
def squeeze(a: Any, axis: Any = None) -> Any:
    x = array(a)
    shape = x.node.shape
    if axis is None:
        axes = tuple(k for k, d in enumerate(shape) if d == 1 or _is_one(x, d))
    else:
        axes = normalise_axes(x.ndim, axis)
        for k in axes:
            message = "cannot select an axis to squeeze out which has size not equal to one"
            if isinstance(shape[k], int) and shape[k] != 1:
                raise ValueError(f"{here()}: {message}")
            x._trace.same(shape[k], 1, message)
    return x.view_through(views.drop_axes(shape, axes))


def _is_one(x: Any, size: Dim) -> bool:
    """Whether a derived size is 1, which becomes part of the program."""
    if x._trace.hint(size) == 1:
        x._trace.fix(size, "np.squeeze")
        return True
    x._trace.graph.require("ne", size, 1, f"squeeze: size {size} must not be 1")
    return False


@implements("expand_dims")
def expand_dims(a: Any, axis: Any) -> Any:
    x = array(a)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    return x.view_through(views.insert_axes(x.node.shape, normalise_axes(x.ndim + count, axis)))


@implements("broadcast_shapes")
def broadcast_shapes(*args: Any) -> tuple[Any, ...]:
    trace = trace_of(*args)
    shape = promote.broadcast_shapes(trace, [dims_of(a) for a in args], "broadcast_shapes")
    return tuple(wrap(d, trace) for d in shape)


@implements("broadcast_to")
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    x = _array(array, shape)
    target = dims_of(shape)
    promote.broadcast_shapes(x._trace, [x.node.shape, target], "broadcast_to")
    wide = x.view_through(promote.broadcast_lens(x._trace, x.node.shape, target))
    return wide.view_through(views.ReadOnly(wide.node.shape, "what np.broadcast_to gives"))


@implements("broadcast_arrays")
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    trace = trace_of(*args)
    parts = [array(a, *args) for a in args]
    shape = promote.broadcast_shapes(trace, [p.node.shape for p in parts], "broadcast_arrays")
    return tuple(p.view_through(promote.broadcast_lens(trace, p.node.shape, shape)) for p in parts)


@implements("moveaxis")
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    x = array(a)
    sources, targets = (_axis_list(x.ndim, axes) for axes in (source, destination))
    if len(sources) != len(targets):
        raise ValueError(
            f"{here()}: `source` and `destination` arguments must have the same number of elements"
        )
    order = [k for k in range(x.ndim) if k not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return transpose(x, order)


def _axis_list(rank: int, axes: Any) -> list[int]:
    given = axes if isinstance(axes, (tuple, list, range)) else (axes,)
    normalise_axes(rank, tuple(given))
    return [int(k) % rank for k in given]


@implements("rollaxis")
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    x = array(a)
    (axis,) = normalise_axes(x.ndim, axis)
    if not -x.ndim <= start <= x.ndim:
        raise np.exceptions.AxisError(start, x.ndim + 1)
    start = start + x.ndim if start < 0 else start
    return moveaxis(x, axis, start - 1 if axis < start else start)


@implements("matrix_transpose", "linalg.matrix_transpose")
def matrix_transpose(x: Any, /) -> Any:
    return swapaxes(x, -1, -2)


METHODS["mT"] = property(matrix_transpose)  # type: ignore[assignment]


def window(a: Any, axis: int, start: Dim, length: Dim, step: int = 1) -> Any:
    """A view of `length` elements along an axis, from `start`, none of them out of bounds."""
    shape = a.node.shape
    index = [sizes.name(axis_name(k)) for k in range(len(shape))]
    moved: list[Dim] = list(index)
    moved[axis] = start + step * index[axis]
    target = list(shape)
    target[axis] = length
    return a.view_through(views.Affine(tuple(moved), tuple(target)))


@implements("flip")
def flip(m: Any, axis: Any = None) -> Any:
    x = array(m)
    for k in normalise_axes(x.ndim, axis):
        x = window(x, k, x.node.shape[k] - 1, x.node.shape[k], -1)
    return x


@implements("fliplr")
def fliplr(m: Any) -> Any:
    x = array(m)
    if x.ndim < 2:
        raise ValueError(f"{here()}: Input must be >= 2-d.")
    return flip(x, 1)


@implements("flipud")
def flipud(m: Any) -> Any:
    x = array(m)
    if x.ndim < 1:
        raise ValueError(f"{here()}: Input must be >= 1-d.")
    return flip(x, 0)


@implements("rot90")
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    x = array(m)
    first, second = _axis_list(x.ndim, axes)
    turns = k % 4
    if turns == 0:
        return x[...]
    if turns == 2:
        return flip(x, (first, second))
    if turns == 1:
        return swapaxes(flip(x, second), first, second)
    return flip(swapaxes(x, first, second), second)


def _at_least(rank: int, place: Any) -> Any:
    def rule(*arys: Any) -> Any:
        found = [place(array(a, *arys)) for a in arys]
        return found[0] if len(found) == 1 else tuple(found)

    implements(f"atleast_{rank}d")(rule)
    return rule


atleast_1d = _at_least(1, lambda x: x if x.ndim else x[None])
atleast_2d = _at_least(2, lambda x: x if x.ndim >= 2 else x[None, :] if x.ndim else x[None, None])
atleast_3d = _at_least(
    3,
    lambda x: (
        x
        if x.ndim >= 3
        else x[:, :, None]
        if x.ndim == 2
        else x[None, :, None]
        if x.ndim
        else x[None, None, None]
    ),
)


@implements("diagonal", method="diagonal")
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    x = array(a)
    if x.ndim < 2:
        raise ValueError(f"{here()}: diag requires an array of at least two dimensions")
    found = diagonal_view(x, int(offset), *_axis_list(x.ndim, (axis1, axis2)))
    return found.view_through(views.ReadOnly(found.node.shape, "what np.diagonal gives"))


def diagonal_view(x: Any, offset: int, first: int, second: int) -> Any:
    """The diagonal of two axes, which becomes the last axis."""
    return x.view_through(views.diagonal(x.node.shape, offset, first, second))


@implements("linalg.diagonal")
def linalg_diagonal(x: Any, /, *, offset: int = 0) -> Any:
    return diagonal(x, offset, -2, -1)


@implements("shape")
def shape_of(a: Any) -> Any:
    return array(a).shape


@implements("ndim")
def ndim(a: Any) -> int:
    found: int = array(a).ndim
    return found


@implements("size")
def size(a: Any, axis: Any = None) -> Any:
    x = array(a)
    extents = [x.node.shape[k] for k in normalise_axes(x.ndim, axis)]
    return wrap(sizes.product(extents), x._trace)
