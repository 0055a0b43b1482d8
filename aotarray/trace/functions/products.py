"""Products: matmul and its kin, dot, inner, outer, tensordot, kron, cross.

All become `contract`: a library call for matrices, a sum of products in place where that is as good.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import sizes
from ...graph import Node
from ...sizes import Dim
from .. import promote
from ..context import Trace, here
from ..size_value import wrap
from ..tracer import Tracer
from .elementwise import cast_to, deliver, op
from .joining import stack
from .linear_algebra import inv
from .reductions import any_rule, fold, normalise_axes
from .registry import array, implements
from .shaping import moveaxis, reshape
from .tiny_matrices import LARGEST, fixed

#: up to this many products a sum of products is computed where it is used
INLINE_PRODUCTS = 16

#: at most this many additions are done again rather than stored
CHEAP = 6

Labels = Sequence[Any]


def contract(a: Any, a_labels: Labels, b: Any, b_labels: Labels, out_labels: Labels) -> Any:
    """`einsum` of two arrays of one dtype, whose labels are distinct within each of them."""
    a, a_labels = _sum_own(a, a_labels, (*b_labels, *out_labels))
    b, b_labels = _sum_own(b, b_labels, (*a_labels, *out_labels))
    shared = [k for k in a_labels if k in b_labels]
    summed = [k for k in shared if k not in out_labels]
    batch = [k for k in shared if k in out_labels]
    a_only, b_only = ([k for k in labels if k not in shared] for labels in (a_labels, b_labels))
    extent = _extents(a, a_labels, b, b_labels)
    if _few(a._trace, [extent[k] for k in summed]):
        a, b = _counted(a, a_labels, summed), _counted(b, b_labels, summed)
        extent |= {k: a._trace.fix(extent[k], "a sum of few products") for k in summed}
    count = sizes.product(extent[k] for k in summed)
    small = isinstance(count, int) and count <= INLINE_PRODUCTS
    vector = not a_only or not b_only
    if small or vector or _fuses(a, b, b_only, extent) or count == 0:
        found = _sum_of_products(a, a_labels, b, b_labels, (*batch, *a_only, *b_only), summed)
    else:
        found = _by_matrices(a, a_labels, b, b_labels, (batch, a_only, b_only, summed), extent)
    order = (*batch, *a_only, *b_only)
    return (
        found.transpose(*(order.index(k) for k in out_labels)) if tuple(order) != tuple(out_labels) else found
    )


def _fuses(matrix: Any, column: Any, columns: Labels, extent: dict[Any, Dim]) -> bool:
    """True for a computed matrix and a single column: the matrix need not be stored.

    An element of the column is then computed again for each row, so that it must be cheap.
    """
    return all(extent[k] == 1 for k in columns) and _price(matrix.node) > 0 and _price(column.node) <= CHEAP


def _price(node: Node) -> int:
    """What computing an element costs, about the number of additions; 0 for what is stored."""
    price = 0
    stack, seen = [node], {node.number}
    while stack:
        found = stack.pop()
        if found.op.kind == "elementwise":
            price += found.op.cost
        if found.op.kind in ("elementwise", "view"):
            stack += [o for o in found.operands if o.number not in seen]
            seen.update(o.number for o in found.operands)
    return price


def _few(trace: Any, extents: Sequence[Dim]) -> bool:
    """True for at most 4 products in each sum: of constant sizes, or (in `jit`) of those of the call."""
    count = 1
    for extent in extents:
        count *= trace.hint(extent) or LARGEST + 1
    return count <= LARGEST


def _counted(x: Any, labels: Labels, summed: Labels) -> Any:
    """The array with constants as sizes of the axes that are summed."""
    return fixed(x, *(k for k, label in enumerate(labels) if label in summed and x.node.shape[k] != 1))


def _sum_own(x: Any, labels: Labels, others: Labels) -> tuple[Any, Labels]:
    """Sum axes that nothing else has."""
    gone = [k for k, label in enumerate(labels) if label not in others]
    if not gone:
        return x, labels
    return Tracer.of(x._trace, _fold_products(x._trace, x.node, gone)), [k for k in labels if k in others]


def _extents(a: Any, a_labels: Labels, b: Any, b_labels: Labels) -> dict[Any, Dim]:
    extent: dict[Any, Dim] = dict(zip(a_labels, a.node.shape, strict=True))
    for label, size in zip(b_labels, b.node.shape, strict=True):
        known = extent.get(label, 1)
        extent[label] = (
            size if known == 1 else known if size == 1 else a._trace.same(known, size, "sizes of a product")
        )
    return extent


def _aligned(x: Any, labels: Labels, order: Labels) -> Any:
    """Axes in `order`, with size 1 where `x` has none."""
    present = [k for k in order if k in labels]
    moved = x.transpose(*(labels.index(k) for k in present)) if len(present) > 1 else x
    return moved[tuple(slice(None) if k in labels else None for k in order)] if order else moved


def _sum_of_products(a: Any, a_labels: Labels, b: Any, b_labels: Labels, kept: Labels, summed: Labels) -> Any:
    order = [*kept, *summed]
    x, y = _aligned(a, a_labels, order), _aligned(b, b_labels, order)
    dtype = x.dtype
    if dtype == np.float16:
        x, y = cast_to(x, np.float32), cast_to(y, np.float32)
    node = op("multiply", x, y).node
    if summed:
        node = _fold_products(x._trace, node, range(len(kept), len(order)))
    return cast_to(Tracer.of(x._trace, node), dtype)


def _fold_products(trace: Any, node: Any, axes: Any) -> Any:
    if node.dtype == bool:
        return any_rule(Tracer.of(trace, node), tuple(axes)).node
    if node.dtype == np.float16:
        wide = promote.cast(trace, node, np.dtype(np.float32))
        return promote.cast(trace, _total(trace, wide, tuple(axes)), node.dtype)
    return _total(trace, node, tuple(axes))


def _total(trace: Trace, node: Node, axes: tuple[int, ...]) -> Node:
    """A sum along axes: of few elements, written out, so that what reads one element of it needs no loop."""
    count = sizes.product(node.shape[a] for a in axes)
    if not isinstance(count, int) or not 1 < count <= LARGEST:
        return fold(trace, "sum", node, axes)
    x = Tracer.of(trace, node)
    found: Any = Tracer.of(trace, promote.scalar_node(trace, 0, node.dtype))  # NumPy's sums start from 0.0 too
    for position in itertools.product(*(range(trace.fix(node.shape[a], "a sum")) for a in axes)):
        at = dict(zip(axes, position, strict=True))
        found = op("add", found, x[tuple(at.get(a, slice(None)) for a in range(x.ndim))])
    total: Node = found.node
    return total


def _by_matrices(
    a: Any, a_labels: Labels, b: Any, b_labels: Labels, groups: tuple[Labels, ...], extent: dict[Any, Dim]
) -> Any:
    """Transpose and reshape to (batch, m, k) @ (batch, k, n), and back."""
    batch, rows, columns, summed = groups
    lead = [extent[k] for k in batch]
    x = _stretched(_aligned(a, a_labels, [*batch, *rows, *summed]), [*batch, *rows, *summed], extent)
    y = _stretched(_aligned(b, b_labels, [*batch, *summed, *columns]), [*batch, *summed, *columns], extent)
    m, n, k = (sizes.product(extent[label] for label in group) for group in (rows, columns, summed))
    left = _shaped(x, [*lead, m, k]) if len(rows) != 1 or len(summed) != 1 else x
    right = _shaped(y, [*lead, k, n]) if len(columns) != 1 or len(summed) != 1 else y
    trace = a._trace
    product = Tracer.of(trace, trace.graph.apply("matmul", (left.node, right.node), here()))
    if len(rows) == 1 and len(columns) == 1:
        return product
    return _shaped(product, [*lead, *(extent[k] for k in rows), *(extent[k] for k in columns)])


def _stretched(x: Any, labels: Labels, extent: dict[Any, Dim]) -> Any:
    shape = tuple(extent[k] for k in labels)
    return Tracer.of(x._trace, promote.broadcast_node(x._trace, x.node, shape))


def _shaped(x: Any, shape: Sequence[Dim]) -> Any:
    return reshape(x, tuple(wrap(d, x._trace) for d in shape))


def common(*values: Any) -> list[Any]:
    """The operands as arrays of their common dtype."""
    arrays = [array(v, *values) for v in values]
    dtype = np.result_type(*(a.dtype for a in arrays))
    return [cast_to(a, dtype) for a in arrays]


# -- matmul and its kin: operands of one dtype, from the ufunc's loop ---------------------------------
def _need_axes(name: str, *pairs: tuple[Any, int]) -> None:
    for x, least in pairs:
        if x.ndim < least:
            raise ValueError(f"{here()}: {name}: an operand has {x.ndim} dimensions, but needs {least}")


def matmul(a: Any, b: Any) -> Any:
    _need_axes("matmul", (a, 1), (b, 1))
    x = a if a.ndim > 1 else a[None, :]
    y = b if b.ndim > 1 else b[:, None]
    a._trace.same(x.node.shape[-1], y.node.shape[-2], "matmul: sizes of the summed axes")
    rank = max(x.ndim, y.ndim) - 2
    lead = promote.broadcast_shapes(a._trace, [x.node.shape[:-2], y.node.shape[:-2]], "matmul")
    x, y = _batched(x, lead), _batched(y, lead)
    batch = list(range(rank))
    x_labels, y_labels = [*batch, "m", "k"], [*batch, "k", "n"]
    if a.ndim == 1:
        x, x_labels = x[..., 0, :], [*batch, "k"]
    if b.ndim == 1:
        y, y_labels = y[..., 0], [*batch, "k"]
    out = [*batch, *(["m"] if a.ndim > 1 else []), *(["n"] if b.ndim > 1 else [])]
    return contract(x, x_labels, y, y_labels, out)


def _batched(x: Any, lead: tuple[Dim, ...]) -> Any:
    shape = (*lead, *x.node.shape[-2:])
    return Tracer.of(x._trace, promote.broadcast_node(x._trace, x.node, shape))


def vecdot(a: Any, b: Any) -> Any:
    _need_axes("vecdot", (a, 1), (b, 1))
    a = op("conjugate", a) if a.dtype.kind == "c" else a
    rank = max(a.ndim, b.ndim)
    shape = promote.broadcast_shapes(a._trace, [a.node.shape, b.node.shape], "vecdot")
    x, y = (Tracer.of(a._trace, promote.broadcast_node(a._trace, v.node, shape)) for v in (a, b))
    return contract(x, range(rank), y, range(rank), range(rank - 1))


def matvec(a: Any, b: Any) -> Any:
    _need_axes("matvec", (a, 2), (b, 1))
    return matmul(a, b[..., None])[..., 0]


def vecmat(a: Any, b: Any) -> Any:
    _need_axes("vecmat", (a, 1), (b, 2))
    a = op("conjugate", a) if a.dtype.kind == "c" else a
    return matmul(a[..., None, :], b)[..., 0, :]


# -- functions ----------------------------------------------------------------------------------------
@implements("dot", method="dot")
def dot(a: Any, b: Any, out: Any = None) -> Any:
    x, y = common(a, b)
    if x.ndim == 0 or y.ndim == 0:
        return deliver(x._trace, op("multiply", x, y), out)
    x_labels = [("a", k) for k in range(x.ndim - 1)]
    y_labels = [("b", k) for k in range(y.ndim - 1)]
    where_summed = max(y.ndim - 2, 0)
    x._trace.same(x.node.shape[-1], y.node.shape[where_summed], "dot: sizes of the summed axes")
    full = [*y_labels[:where_summed], "k", *y_labels[where_summed:]]
    return deliver(x._trace, contract(x, [*x_labels, "k"], y, full, [*x_labels, *y_labels]), out)


@implements("inner")
def inner(a: Any, b: Any, /) -> Any:
    x, y = common(a, b)
    return op("multiply", x, y) if x.ndim == 0 or y.ndim == 0 else tensordot(x, y, (-1, -1))


@implements("vdot")
def vdot(a: Any, b: Any, /) -> Any:
    x, y = (reshape(v, -1) for v in common(a, b))
    x._trace.same(x.node.shape[0], y.node.shape[0], "vdot: sizes")
    return contract(op("conjugate", x) if x.dtype.kind == "c" else x, "k", y, "k", "")


@implements("outer")
def outer(a: Any, b: Any, out: Any = None) -> Any:
    x, y = reshape(array(a, b), -1), reshape(array(b, a), -1)
    return deliver(x._trace, op("multiply", x[:, None], y[None, :]), out)


@implements("linalg.outer")
def linalg_outer(x1: Any, x2: Any, /) -> Any:
    return outer(x1, x2)


@implements("tensordot", "linalg.tensordot")
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    x, y = common(a, b)
    if isinstance(axes, (int, np.integer)):
        first, second = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    else:
        first, second = ([int(k) for k in (g if isinstance(g, (tuple, list)) else (g,))] for g in axes)
    if len(first) != len(second):
        raise ValueError(f"{here()}: shape-mismatch for sum")
    first = [normalise_axes(x.ndim, k)[0] for k in first]
    second = [normalise_axes(y.ndim, k)[0] for k in second]
    x_labels: list[Any] = [("a", k) for k in range(x.ndim)]
    y_labels: list[Any] = [("b", k) for k in range(y.ndim)]
    for n, (p, q) in enumerate(zip(first, second, strict=True)):
        x._trace.same(x.node.shape[p], y.node.shape[q], "tensordot: sizes of the summed axes")
        x_labels[p] = y_labels[q] = ("sum", n)
    out = [k for k in (*x_labels, *y_labels) if k[0] != "sum"]
    return contract(x, x_labels, y, y_labels, out)


@implements("kron")
def kron(a: Any, b: Any) -> Any:
    x, y = array(a, b), array(b, a)
    rank = max(x.ndim, y.ndim)
    x, y = (v[(None,) * (rank - v.ndim)] if v.ndim < rank else v for v in (x, y))
    spread_x = x[tuple(k for _ in range(rank) for k in (slice(None), None))] if rank else x
    spread_y = y[tuple(k for _ in range(rank) for k in (None, slice(None)))] if rank else y
    shape = [p * q for p, q in zip(x.node.shape, y.node.shape, strict=True)]
    return _shaped(op("multiply", spread_x, spread_y), shape)


@implements("cross")
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = common(a, b)
    x, y = moveaxis(x, axisa, -1), moveaxis(y, axisb, -1)
    widths = [v._trace.fix(v.node.shape[-1], "the vectors of np.cross") for v in (x, y)]
    if widths != [3, 3]:
        raise ValueError(f"{here()}: incompatible dimensions for cross product (dimension must be 3)")
    (a0, a1, a2), (b0, b1, b2) = ([v[..., k] for k in range(3)] for v in (x, y))
    parts = [
        op("subtract", op("multiply", p, q), op("multiply", r, s))
        for p, q, r, s in ((a1, b2, a2, b1), (a2, b0, a0, b2), (a0, b1, a1, b0))
    ]
    return moveaxis(stack(parts, -1), -1, axisc)


@implements("linalg.cross")
def linalg_cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return cross(x1, x2, axis=axis)


@implements("linalg.matmul")
def linalg_matmul(x1: Any, x2: Any, /) -> Any:
    return matmul(*common(x1, x2))


@implements("linalg.vecdot")
def linalg_vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    x, y = common(x1, x2)
    return vecdot(moveaxis(x, axis, -1), moveaxis(y, axis, -1))


@implements("linalg.multi_dot")
def multi_dot(arrays: Any, *, out: Any = None) -> Any:
    found = array(arrays[0], arrays)
    for other in arrays[1:]:
        found = dot(found, other)
    return deliver(found._trace, found, out)


@implements("linalg.matrix_power")
def matrix_power(a: Any, n: int) -> Any:
    x = array(a)
    size = x._trace.same(*x.node.shape[-2:], "Last 2 dimensions of the array must be square")
    n = operator.index(n)
    if n == 0:
        trace = x._trace
        along = Tracer.of(trace, trace.graph.apply("iota", where=here(), length=size))
        one = cast_to(op("equal", along[:, None], along[None, :]), x.dtype)
        return Tracer.of(trace, promote.broadcast_node(trace, one.node, x.node.shape))
    if n < 0:
        x, n = inv(x), -n
    found = None
    for digit in f"{n:b}":
        found = x if found is None else matmul(found, found)
        if digit == "1" and found is not x:
            found = matmul(found, x)
    return found
