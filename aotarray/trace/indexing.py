"""Indexing of traced arrays: basic indexing gives views, integer arrays gathers; slices can be assigned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import sizes
from ..errors import UnsupportedError
from ..graph import Node, axis_name
from ..sizes import Dim
from . import promote, views
from .context import Trace, here
from .finding import are_inside, find_true
from .library import OUT, change
from .size_value import SizeValue, as_dim
from .tracer import Tracer


def get_item(x: Tracer, key: Any) -> Any:
    """`x[key]`."""
    if type(key) is Tracer and not key.ndim and key.dtype == np.bool_ and promote.known_array(key) is None:
        return get_item(x[None], key[None])
    if (
        is_mask(key, x)
        and key.ndim == x.ndim
        and type(key) is not np.ndarray
        and promote.known_array(key) is None
    ):
        from .masked import Masked, mask_node

        mask = mask_node(x._trace, key, x)
        return Masked(Tracer.of(x._trace, x.node), mask, find_true(x._trace, mask))
    basic, advanced = _split(x, key)
    if not _is_whole(basic, x):
        view = x.view_through(_basic_lens(x._trace, x.node.shape, basic))
    elif advanced:
        view = x
    else:
        view = x.view_through(views.transpose(x.node.shape, range(x.ndim)))
    if not advanced:
        # With integers alone NumPy gives a scalar: a copy, unlike a view without axes (`x[..., 0]`).
        scalar = not view.ndim and all(k is not Ellipsis for k in (key if isinstance(key, tuple) else (key,)))
        return Tracer.of(x._trace, view.node) if scalar else view
    if _is_row(x, key, advanced):
        return view.view_through(views.Row(tuple(sorted(advanced.items())), view.node.shape))
    return Tracer.of(x._trace, gather(x._trace, view.node, advanced, _position(advanced, key)))


def _is_row(x: Tracer, key: Any, advanced: dict[int, Node]) -> bool:
    """True where traced integers alone index some axes of an array: a view, as with integers that are known."""
    items = key if isinstance(key, tuple) else (key,)
    scalars = [k for k in items if type(k) is Tracer and k._storage.scalar]
    return len(advanced) < x.ndim and len(scalars) == len(advanced) and not x._storage.scalar


def set_item(x: Tracer, key: Any, value: Any) -> None:
    """`x[key] = value`."""
    if is_mask(key, x):
        from .masked import mask_node

        _write_masked(x, mask_node(x._trace, key, x), value)
        return
    place = target_of(x, key)
    if not place.advanced:
        place.view.write(value)
        return
    if not any(index.shape for index in place.advanced.values()):
        if not _is_that_row(place, value):
            _write_at(place.view, place.advanced, value)
        return
    node = promote.cast(x._trace, promote.node_of(x._trace, value), x.dtype)
    change_at(place, "ndarray.__setitem__", Tracer.of(x._trace, node))


def _is_that_row(place: Target, value: Any) -> bool:
    """True where `value` is the view that is written, changed in place: what `x[i] += 1` does last."""
    if type(value) is not Tracer or value._storage is not place.view._storage or not value._lenses:
        return False
    *lenses, row = value._lenses
    if tuple(lenses) != place.view._lenses or not isinstance(row, views.Row):
        return False
    at = dict(row.at)
    return at.keys() == place.advanced.keys() and all(
        node is at[a] or (node.op.name == at[a].op.name == "cast" and node.operands == at[a].operands)
        for a, node in place.advanced.items()
    )


@dataclass
class Target:
    """What a key selects for writing: a view, and the integer arrays that index some of its axes.

    `position` is where their common shape stands in `x[key]`.
    """

    view: Tracer
    advanced: dict[int, Node]
    position: int = 0


def target_of(x: Tracer, key: Any) -> Target:
    """The elements of `x` that `key` selects."""
    basic, advanced = _split(x, key, writing=True)
    view = x if _is_whole(basic, x) else x.view_through(_basic_lens(x._trace, x.node.shape, basic))
    return Target(view, advanced, _position(advanced, key) if advanced else 0)


def change_at(place: Target, name: str, *values: Tracer) -> None:
    """Have NumPy's `name(array, index, *values)` change the array at integer arrays: in order, one by one."""
    trace, view = place.view._trace, place.view
    index = tuple(
        Tracer.of(trace, place.advanced[a]) if a in place.advanced else slice(None)
        for a in range(max(place.advanced) + 1)
    )
    fitted = [Tracer.of(trace, fitted_to(place, v.node)) for v in values]
    view.write(change(view, name, [OUT, index, *fitted]))


def fitted_to(place: Target, value: Node) -> Node:
    """A value for an indexed assignment, with its axes where NumPy puts those of the index on the view alone."""
    trace, shape = place.view._trace, place.view.node.shape
    axes = sorted(place.advanced)
    natural = axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0
    if any(
        place.advanced[a].dtype == np.bool_ for a in axes
    ):  # only NumPy knows how many elements these select
        if natural != place.position and value.shape:
            raise UnsupportedError(
                f"{here()}: an array written at a mask beside an integer that a slice keeps apart"
            )
        return value
    inner = promote.broadcast_shapes(trace, [place.advanced[a].shape for a in axes], "index arrays")
    rest = [d for a, d in enumerate(shape) if a not in axes]
    target = (*rest[: place.position], *inner, *rest[place.position :])
    value = promote.fit_rank(trace, value, len(target))
    wide = promote.broadcast_shapes(trace, [target, value.shape], "assignment")
    grown = [w for d, w in zip(target, wide, strict=False) if d == 1 and w != 1]
    for size in grown:
        if trace.hint(size) == 1:
            trace.same(size, 1, "assignment")
    if len(wide) != len(target) or any(trace.hint(w) != 1 for w in grown):
        raise ValueError(
            f"{here()}: shape mismatch: the value could not be broadcast to the indexing result "
            f"({', '.join(map(str, target))})"
        )
    if natural == place.position or not value.shape:
        return value
    value = promote.broadcast_node(trace, value, target)
    order = [a for a in range(len(target)) if not place.position <= a < place.position + len(inner)]
    order[natural:natural] = range(place.position, place.position + len(inner))
    return views.transpose(value.shape, order).read(trace.graph, value)


def _write_at(x: Tracer, indices: dict[int, Node], value: Any) -> None:
    """`x[..., i, ...] = value` with traced integers `i`."""
    trace, graph, shape = x._trace, x._trace.graph, x.node.shape
    rest = tuple(d for a, d in enumerate(shape) if a not in indices)
    node = promote.cast(trace, promote.node_of(trace, value), x.dtype)
    node = promote.fit_rank(trace, node, len(rest))
    promote.broadcast_shapes(trace, [rest, node.shape], "assignment")
    node = promote.broadcast_node(trace, node, rest)
    axes = tuple(sorted(indices))
    x.write(Tracer.of(trace, graph.apply("put", (x.node, node, *(indices[a] for a in axes)), here(), axes=axes)))


def is_mask(key: Any, x: Tracer) -> bool:
    """True for a bool array of the leading axes; one without axes holds for all of `x`, or for nothing of it."""
    dtype = getattr(key, "dtype", None)
    return dtype == np.bool_ and 0 <= getattr(key, "ndim", -1) <= x.ndim


def _write_masked(x: Tracer, mask: Node, value: Any) -> None:
    from .masked import Masked
    from .ufuncs import select

    if type(value) is Masked and value.mask is mask and value._array is None:
        node = promote.cast(x._trace, value.value.node, x.dtype)
        x.write(Tracer.of(x._trace, select(x._trace, mask, node, x.node)))
        return
    node = promote.node_of(x._trace, value)
    rest = x.ndim - len(mask.shape)
    node = promote.fit_rank(x._trace, node, rest)
    if len(node.shape) > rest:
        values = Tracer.of(x._trace, promote.cast(x._trace, node, x.dtype))
        x.write(change(x, "ndarray.__setitem__", [OUT, Tracer.of(x._trace, mask), values]))
        return
    trailing = tuple(range(len(mask.shape), x.ndim))  # a mask of the leading axes holds for whole rows
    wide = views.insert_axes(mask.shape, trailing).read(x._trace.graph, mask) if rest else mask
    x.write(Tracer.of(x._trace, select(x._trace, wide, promote.cast(x._trace, node, x.dtype), x.node)))


def _split(x: Tracer, key: Any, writing: bool = False) -> tuple[list[Any], dict[int, Node]]:
    """The key as basic indices for every axis, and the integer arrays by axis of the basic result.

    For `writing`, masks of one axis may be among these: no size depends on what they hold.
    """
    items = _without_masks(x, list(key) if isinstance(key, tuple) else [key], writing)
    consumed = sum(1 for k in items if k is not None and k is not Ellipsis)
    if sum(1 for k in items if k is Ellipsis) > 1:
        raise IndexError(f"{here()}: an index can only have a single ellipsis ('...')")
    if consumed > x.ndim:
        raise IndexError(
            f"{here()}: too many indices for array: array is {x.ndim}-dimensional, but {consumed} were "
            f"indexed"
        )
    fill = [slice(None)] * (x.ndim - consumed)
    if Ellipsis in [k if k is Ellipsis else None for k in items]:
        at = next(n for n, k in enumerate(items) if k is Ellipsis)
        items[at : at + 1] = fill
    else:
        items += fill
    basic: list[Any] = []
    advanced: dict[int, Node] = {}
    axis = 0
    for item in items:
        if item is None or isinstance(item, slice):
            basic.append(item)
            axis += 1
        elif (
            as_dim(item) is not None and not getattr(item, "_is_tracer", False) and np.ndim(_plain(item)) == 0
        ):
            basic.append(item)
        else:
            advanced[axis] = _index_array(x._trace, item, writing)
            basic.append(slice(None))
            axis += 1
    return basic, advanced


def _without_masks(x: Tracer, items: list[Any], writing: bool) -> list[Any]:
    """Masks as the positions where they hold; those known at trace time fix the sizes that they cover."""
    from .masked import fitting

    used = sum(0 if k is None or k is Ellipsis else max(_mask_rank(k), 1) for k in items)
    found: list[Any] = []
    axis = 0
    for item in items:
        mask = promote.known_array(item) if isinstance(item, (list, np.ndarray, Tracer)) else None
        if mask is None and _mask_rank(item) and not (writing and item.ndim == 1):
            node = fitting(x._trace, promote.node_of(x._trace, item), x.node, axis)
            found += [Tracer.of(x._trace, n) for n in find_true(x._trace, node)]
            axis += item.ndim
            continue
        if mask is None or mask.dtype != np.bool_ or mask.ndim == 0:
            found.append(item)
            axis += 0 if item is None else x.ndim - used if item is Ellipsis else 1
            continue
        for extent, dim in zip(mask.shape, x.node.shape[axis : axis + mask.ndim], strict=False):
            if x._trace.fix(dim, "a boolean mask") != extent:
                raise IndexError(f"{here()}: boolean index did not match indexed array along axis {axis}")
        found += list(np.nonzero(mask))
        axis += mask.ndim
    return found


def _mask_rank(item: Any) -> int:
    """How many axes a mask covers; 0 for what is no mask."""
    return getattr(item, "ndim", 0) if getattr(item, "dtype", None) == np.bool_ else 0


def _plain(item: Any) -> Any:
    return 0 if isinstance(item, SizeValue) else item


def _index_array(trace: Trace, item: Any, writing: bool) -> Node:
    if isinstance(item, list):
        item = np.asarray(item)
    if type(item) is np.ndarray and item.size == 0 and item.dtype == np.float64:
        item = item.astype(np.int64)
    node = promote.node_of(trace, item)
    if node.dtype.kind == "b" and writing and len(node.shape) == 1:
        return node
    if node.dtype.kind == "b":
        raise UnsupportedError(
            f"{here()}: a traced bool as an index adds an axis whose size depends on its value; use np.where, or "
            f"aotarray.cond"
        )
    if node.dtype.kind not in "iu":
        raise IndexError(
            f"{here()}: only integers, slices (`:`), ellipsis (`...`), None and integer or boolean arrays "
            f"are valid indices"
        )
    return promote.cast(trace, node, np.dtype(np.int64))


def _is_whole(basic: Sequence[Any], x: Tracer) -> bool:
    return len(basic) == x.ndim and all(isinstance(k, slice) and k == slice(None) for k in basic)


def _basic_lens(trace: Trace, shape: tuple[Dim, ...], items: Sequence[Any]) -> views.Affine:
    index: list[Dim] = []
    target: list[Dim] = []
    axis = 0
    for item in items:
        if item is None:
            target.append(1)
            continue
        extent = shape[axis]
        if isinstance(item, slice):
            offset, step, length = _slice(trace, item, extent)
            index.append(
                offset + step * sizes.name(axis_name(len(target))) if length != 1 or step != 1 else offset
            )
            target.append(length)
        else:
            index.append(_integer(trace, item, extent, axis))
        axis += 1
    return views.Affine(tuple(index), tuple(target))


def _slice(trace: Trace, item: slice, extent: Dim) -> tuple[Dim, int, Dim]:
    def bound(value: Any) -> Dim | None:
        if value is None:
            return None
        dim = as_dim(value)
        if dim is None:
            raise TypeError(f"{here()}: slice indices must be integers, sizes or None")
        return dim

    step = 1 if item.step is None else bound(item.step)
    if not isinstance(step, int):
        assert step is not None
        step = trace.fix(step, "the step of a slice")
    if step == 0:
        raise ValueError(f"{here()}: slice step cannot be zero")
    if isinstance(extent, int) and all(
        b is None or isinstance(b, int) for b in (bound(item.start), bound(item.stop))
    ):
        first, last, step = slice(bound(item.start), bound(item.stop), step).indices(extent)
        return first, step, len(range(first, last, step))
    start, stop = (
        b if b is None else views.from_start(trace, b, extent, "the bound of a slice", clamped=step > 0)
        for b in (bound(item.start), bound(item.stop))
    )
    offset, length = views.slice_axis(extent, start, stop, step)
    return offset, step, length


def _integer(trace: Trace, item: Any, extent: Dim, axis: int) -> Dim:
    position = as_dim(item)
    assert position is not None
    position = (
        position + extent
        if isinstance(position, int) and position < 0
        else views.from_start(trace, position, extent, "index")
    )
    known = trace.hint(position), trace.hint(extent)
    out_of_range = known[0] is not None and known[1] is not None and not 0 <= known[0] < known[1]
    if out_of_range:
        raise IndexError(f"{here()}: index {item} is out of bounds for axis {axis} with size {known[1]}")
    message = f"index {item} is out of bounds for axis {axis}"
    trace.graph.require("ge", position, 0, message, "IndexError")
    trace.graph.require("ge", extent, position + 1, f"{message} with size {{a}}", "IndexError")
    return position


def _position(advanced: dict[int, Node], key: Any) -> int:
    """Where the index arrays' axes go: at the first one when they are adjacent, else first (NumPy's rule).

    Integers count as index arrays here, and everything else between two of them keeps them apart.
    """
    items = key if isinstance(key, tuple) else (key,)
    spots = [
        n for n, k in enumerate(items) if k is not None and k is not Ellipsis and not isinstance(k, slice)
    ]
    adjacent = spots == list(range(spots[0], spots[-1] + 1))
    return min(advanced) if adjacent else 0


def gather(trace: Trace, x: Node, advanced: dict[int, Node], position: int) -> Node:
    """`x` indexed by integer arrays along some axes; their common shape appears at `position`."""
    axes = tuple(sorted(advanced))
    shape = promote.broadcast_shapes(trace, [advanced[a].shape for a in axes], "index arrays")
    indices = [promote.broadcast_node(trace, advanced[a], shape) for a in axes]
    rest = [d for a, d in enumerate(x.shape) if a not in axes]
    target = (*rest[:position], *shape, *rest[position:])
    known: dict[str, Any] = {"trusted": True} if are_inside(x, dict(zip(axes, indices, strict=True))) else {}
    return trace.graph.apply(
        "gather", (x, *indices), here(), axes=axes, position=position, shape=target, **known
    )
