"""Arrays made inside a traced function: zeros, arange, linspace, eye, array and their kin, with traced sizes.

NumPy's protocols do not reach most of these; `aotarray.trace.standins` calls the rules of CREATION instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ... import sizes
from ...errors import ConcretizationError, UnsupportedError
from ...graph import Node, axis_name
from ...ops import OPS
from ...sizes import Dim
from ...types import is_supported
from .. import promote, views
from ..context import Trace, active, current, here
from ..size_value import SizeValue, as_dim, wrap
from ..tracer import Storage, Tracer, known_value
from ..ufuncs import select
from .registry import FUNCTIONS, Rule, trace_of
from .shaping import dims_of, ravel

#: name of a NumPy function -> what it does while a function is traced
CREATION: dict[str, Callable[..., Any]] = {}


def creates(*names: str) -> Callable[[Rule], Rule]:
    """Register a creation rule, also with NumPy's own dispatch where the function has it."""

    def register(rule: Rule) -> Rule:
        for name in names:
            CREATION[name] = rule
            FUNCTIONS[getattr(np, name)] = rule
        return rule

    return register


def is_traced(value: Any) -> bool:
    """True for a traced array or size, and for a sequence that holds one."""
    if isinstance(value, (Tracer, SizeValue)):
        return True
    return isinstance(value, (list, tuple)) and any(is_traced(v) for v in value)


def fresh(trace: Trace, node: Node, like: Node | None = None) -> Tracer:
    """A new array that may be written into, also where it has no axes; its axes lie in memory as those of `like`."""
    return Tracer(trace, Storage(node, like=like))


def _running(*values: Any) -> Trace:
    return trace_of(*values) if is_traced(values) else current()


def _dtype(dtype: Any, default: Any = np.float64) -> np.dtype:
    found = np.dtype(default if dtype is None else dtype)
    if not is_supported(found):
        raise UnsupportedError(
            f"{here()}: an array of dtype {found} cannot be compiled; use bool, int, float or complex"
        )
    native: np.dtype = found.newbyteorder("=")
    return native


def shape_of(trace: Trace, shape: Any) -> tuple[Dim, ...]:
    """A shape argument, with a check that no size is negative."""
    items = shape if isinstance(shape, (list, tuple)) else (shape,)
    if any(isinstance(d, Tracer) and as_dim(d) is None for d in items):
        raise ConcretizationError(
            f"{here()}: a shape is made of sizes, not of traced values; take sizes from x.shape with + - * "
            f"// %, "
            f"or make the argument static (static_argnames)"
        )
    dims = dims_of(shape)
    for dim in dims:
        require_not_negative(trace, dim, "negative dimensions are not allowed")
    return dims


def require_not_negative(trace: Trace, dim: Dim, message: str) -> None:
    """ValueError now, or a check when the program starts."""
    known = trace.hint(dim)
    if known is not None and known < 0:
        raise ValueError(f"{here()}: {message}")
    if not sizes.never_negative(dim):
        trace.graph.require("ge", dim, 0, f"{message} ({dim} is {{a}})")


def filled(
    trace: Trace, shape: tuple[Dim, ...], value: Any, dtype: np.dtype, like: Node | None = None
) -> Tracer:
    """A new array of one value, which may be traced (and then broadcasts)."""
    node = promote.cast(trace, promote.node_of(trace, value), dtype)
    promote.broadcast_shapes(trace, [shape, node.shape], "full")
    return fresh(trace, promote.broadcast_node(trace, node, shape), like)


def _constant(name: str, value: int) -> None:
    @creates(name)
    def rule(
        shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None
    ) -> Tracer:
        trace = _running(shape, like)
        return filled(trace, shape_of(trace, shape), value, _dtype(dtype))

    @creates(f"{name}_like")
    def like_rule(
        a: Any,
        dtype: Any = None,
        order: str = "K",
        subok: bool = True,
        shape: Any = None,
        *,
        device: Any = None,
    ) -> Tracer:
        trace = _running(a, shape)
        like = _like(trace, a, order)
        return filled(trace, _like_shape(trace, a, shape), value, _dtype(dtype, _dtype_of(trace, a)), like)


# Elements of `empty` are undefined in NumPy; zeros are as good as any and the same in every run.
for _name, _value in {"zeros": 0, "ones": 1, "empty": 0}.items():
    _constant(_name, _value)


def _dtype_of(trace: Trace, value: Any) -> np.dtype:
    return (
        value.dtype
        if isinstance(value, (Tracer, np.ndarray, np.generic))
        else promote.node_of(trace, value).dtype
    )


def _like(trace: Trace, a: Any, order: str) -> Node | None:
    """What a new array follows in the order of its axes."""
    return promote.node_of(trace, a) if order == "K" and is_traced(a) else None


def _like_shape(trace: Trace, a: Any, shape: Any) -> tuple[Dim, ...]:
    if shape is not None:
        return shape_of(trace, shape)
    return promote.node_of(trace, a).shape if is_traced(a) else np.shape(a)


@creates("full")
def full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None
) -> Tracer:
    trace = _running(shape, fill_value, like)
    value = promote.node_of(trace, fill_value)
    return filled(trace, shape_of(trace, shape), Tracer.of(trace, value), _dtype(dtype, value.dtype))


@creates("full_like")
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
    device: Any = None,
) -> Tracer:  # fmt: skip
    trace = _running(a, fill_value, shape)
    like = _like(trace, a, order)
    return filled(trace, _like_shape(trace, a, shape), fill_value, _dtype(dtype, _dtype_of(trace, a)), like)


# -- ranges ---------------------------------------------------------------------------------------
@creates("arange")
def arange(
    start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, *, device: Any = None, like: Any = None
) -> Tracer:
    """The number of elements is ceil((stop - start) / step), as in NumPy."""
    trace = _running(start, stop, step, like)
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    start, stop, step = (_number(v) if isinstance(v, Tracer) else v for v in (start, stop, step))
    if not any(is_traced(v) for v in (start, stop, step)):
        return fresh(trace, trace.graph.constant(np.arange(*(start, stop, step), dtype=dtype), here()))
    length = _range_length(trace, start, stop, step)
    floating = any(isinstance(v, (float, np.floating)) for v in (start, stop, step))
    target = _dtype(dtype, np.float64 if floating else np.int64)
    return fresh(trace, _range_values(trace, start, step, length, target))


def _number(value: Tracer) -> Any:
    """A traced scalar that depends on sizes alone, which get fixed."""
    known = known_value(
        value._trace, value.node, "np.arange with a fractional range; use np.arange(n) * step + start"
    )
    if known is None or known.ndim:
        raise ConcretizationError(
            f"{here()}: np.arange needs sizes or numbers; its length would depend on a traced value. "
            f"Use np.arange(n) * step + start"
        )
    return known.item() if value.node.type.weak else known[()]


def _range_length(trace: Trace, start: Any, stop: Any, step: Any) -> Dim:
    """ceil((stop - start) / step) where it can be said with integers, else with the sizes fixed.

    Multiplied by a common denominator the division is one of integers. As long as these stay below 2**53,
    NumPy's division of doubles has the same ceiling.
    """
    exact = [_exact(v) for v in (start, stop, step)]
    scale = math.lcm(*(v.denominator for v in exact if isinstance(v, Fraction)))
    if scale > 1024:
        numbers = [
            trace.fix(v, "np.arange with a fractional step; use np.arange(n) * step + start")
            if isinstance(v, sizes.Size)
            else float(v)
            for v in exact
        ]
        return len(np.arange(*numbers))
    first, last, stride = (int(v * scale) if isinstance(v, Fraction) else v * scale for v in exact)
    if stride == 0:
        raise ZeroDivisionError(f"{here()}: np.arange with step 0")
    if not isinstance(stride, int):
        trace.graph.require("ne", stride, 0, "np.arange with step 0")
    span = last - first
    if isinstance(stride, int) and stride > 0:
        count = span if stride == 1 else sizes.floordiv(span + (stride - 1), stride)
    else:
        count = -sizes.floordiv(-span, stride)
    return sizes.maximum(count, 0)


def _exact(value: Any) -> Dim | Fraction:
    dim = as_dim(value)
    return Fraction(float(value)) if dim is None else dim


def _range_values(trace: Trace, start: Any, step: Any, length: Dim, dtype: np.dtype) -> Node:
    """start + i * delta in `dtype`, as NumPy: delta is the difference of the first two elements."""
    if dtype.kind == "b":
        if not isinstance(length, int) or length > 2:
            raise TypeError(
                f"{here()}: arange() is only supported for booleans when the result has at most length 2."
            )
        return trace.graph.constant(np.arange(start, start + length, step, dtype=bool), here())
    position: Node = trace.graph.apply("iota", where=here(), length=length)
    wide = np.dtype(np.float32) if dtype == np.float16 else dtype
    if not is_traced((start, step)):
        with np.errstate(all="ignore"):
            first, second = (
                np.array(start).astype(dtype).astype(wide),
                np.array(start + step).astype(dtype).astype(wide),
            )
            delta = second - first
            uneven = dtype.kind in "fc" and first + delta != second
        values = _plus_multiple(trace, first, delta, position, wide)
        if uneven:
            is_second = _op(trace, "equal", position, promote.node_of(trace, 1))
            values = select(trace, is_second, trace.graph.literal(second, wide, here()), values)
        return promote.cast(trace, values, dtype)
    origin, following = (promote.cast(trace, promote.node_of(trace, v), dtype) for v in (start, start + step))
    origin, following = (promote.cast(trace, v, wide) for v in (origin, following))
    steps = _op(
        trace, "multiply", promote.cast(trace, position, wide), _op(trace, "subtract", following, origin)
    )
    return promote.cast(trace, _op(trace, "add", origin, steps), dtype)


def _plus_multiple(trace: Trace, first: Any, delta: Any, position: Node, dtype: np.dtype) -> Node:
    node = promote.cast(trace, position, dtype)
    if delta != 1:
        node = _op(trace, "multiply", node, trace.graph.literal(delta, dtype, here()))
    if first != 0:
        node = _op(trace, "add", trace.graph.literal(first, dtype, here()), node)
    return node


def _op(trace: Trace, name: str, *operands: Node) -> Node:
    return promote.elementwise(trace, OPS[name], operands)


@creates("linspace")
def linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None,
    axis: int = 0, *, device: Any = None,
) -> Any:  # fmt: skip
    """NumPy's algorithm: arange(num) * ((stop - start) / div) + start; the last element is `stop` itself."""
    trace = _running(start, stop, num)
    count = _count(trace, num)
    low, high = (promote.node_of(trace, v) for v in (start, stop))
    zeros = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}
    inexact = np.result_type(*(zeros[n.dtype.kind] if n.type.weak else n.dtype for n in (low, high)), 0.0)
    result = _dtype(dtype, inexact)
    low, high = (promote.cast(trace, n, inexact) for n in (low, high))
    delta = _op(trace, "subtract", high, low)
    div = count - 1 if endpoint else count
    # With div <= 0 there is at most one element, `start`, and any step does.
    step = _op(trace, "divide", delta, _size(trace, sizes.maximum(div, 1), inexact))
    number: Node = trace.graph.apply("iota", where=here(), length=count)
    number = views.insert_axes(number.shape, tuple(range(1, len(delta.shape) + 1))).read(trace.graph, number)
    position = promote.cast(trace, number, inexact)
    values = _op(trace, "multiply", position, step)
    if not _is_ample(delta):
        values = select(trace, _any_zero(trace, step), _spread(trace, position, delta, div, inexact), values)
    values = _op(trace, "add", values, low)
    if endpoint:
        last = _op(trace, "equal", number, _size(trace, sizes.maximum(div, 1), np.dtype(np.int64)))
        values = select(trace, last, high, values)
    if result.kind in "iu":
        values = _op(trace, "floor", values)
    samples: Tracer = fresh(trace, promote.cast(trace, values, result))
    if axis != 0:
        order = list(range(1, samples.ndim))
        order.insert(axis if axis >= 0 else samples.ndim + axis, 0)
        samples = samples.view_through(views.transpose(samples.node.shape, order))
    if not retstep:
        return samples
    if not isinstance(div, int):
        trace.graph.require("ge", div, 1, "np.linspace(..., retstep=True) needs two points or more")
    return samples, (Tracer.of(trace, step) if isinstance(div, sizes.Size) or div > 0 else math.nan)


def _count(trace: Trace, num: Any) -> Dim:
    count = as_dim(num)
    if count is None:
        raise TypeError(
            f"{here()}: the number of samples must be an integer or a size, not {type(num).__name__}"
        )
    require_not_negative(trace, count, f"Number of samples, {num}, must be non-negative.")
    return count


def _size(trace: Trace, dim: Dim, dtype: np.dtype) -> Node:
    return promote.cast(trace, promote.node_of(trace, wrap(dim, trace)), dtype)


def _is_ample(delta: Node) -> bool:
    """True when `delta / div` cannot round to zero, as div < 2**63."""
    from ...graph import literal_value

    return (
        delta.op.name == "literal" and abs(literal_value(delta)) > float(np.finfo(delta.dtype).tiny) * 2.0**63
    )


def _any_zero(trace: Trace, step: Node) -> Node:
    zero = _op(trace, "equal", step, trace.graph.literal(0, step.dtype, here()))
    return (
        trace.graph.apply("any", (zero,), here(), axes=tuple(range(len(zero.shape)))) if zero.shape else zero
    )


def _spread(trace: Trace, position: Node, delta: Node, div: Dim, dtype: np.dtype) -> Node:
    part = _op(trace, "divide", position, _size(trace, sizes.maximum(div, 1), dtype))
    return _op(trace, "multiply", part, delta)


@creates("logspace")
def logspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    if np.ndim(base) if not is_traced(base) else promote.node_of(current(), base).shape:
        raise UnsupportedError(
            f"{here()}: np.logspace with an array as base is not supported; use base ** np.linspace(...)"
        )
    trace = _running(start, stop, num, base)
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    powers = _op(trace, "power", promote.node_of(trace, base), exponents.node)
    return fresh(trace, powers if dtype is None else promote.cast(trace, powers, _dtype(dtype)))


# -- matrices and grids -----------------------------------------------------------------------------
@creates("eye")
def eye(
    N: Any,
    M: Any = None,
    k: Any = 0,
    dtype: Any = float,
    order: str = "C",
    *,
    device: Any = None,
    like: Any = None,
) -> Tracer:
    trace = _running(N, M, k, like)
    shape = shape_of(trace, (N, N if M is None else M))
    return fresh(trace, promote.cast(trace, _band(trace, "equal", shape, k), _dtype(dtype)))


@creates("identity")
def identity(n: Any, dtype: Any = None, *, like: Any = None) -> Tracer:
    return eye(n, dtype=dtype)


@creates("tri")
def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = float, *, like: Any = None) -> Tracer:
    trace = _running(N, M, k, like)
    shape = shape_of(trace, (N, N if M is None else M))
    return fresh(trace, promote.cast(trace, _band(trace, "greater_equal", shape, k), _dtype(dtype)))


def _band(trace: Trace, relation: str, shape: tuple[Dim, ...], k: Any) -> Node:
    """Where row + k `relation` column."""
    rows, columns = (grid_axis(trace, shape, axis) for axis in (0, 1))
    if as_dim(k) != 0:
        rows = _op(trace, "add", rows, promote.node_of(trace, k))
    return _op(trace, relation, rows, columns)


def grid_axis(trace: Trace, shape: Sequence[Dim], axis: int) -> Node:
    """The index along one axis, as an array of the whole shape."""
    line = trace.graph.apply("iota", where=here(), length=shape[axis])
    return views.Affine((sizes.name(axis_name(axis)),), tuple(shape)).read(trace.graph, line)


@creates("indices")
def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    trace = _running(dimensions)
    shape, target = shape_of(trace, tuple(dimensions)), _dtype(dtype)
    shapes = [
        tuple(d if k == a else 1 for k, d in enumerate(shape)) if sparse else shape for a in range(len(shape))
    ]
    parts = [promote.cast(trace, grid_axis(trace, s, a), target) for a, s in enumerate(shapes)]
    if sparse:
        return tuple(fresh(trace, p) for p in parts)
    return array([fresh(trace, p) for p in parts], target)


@creates("meshgrid")
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Tracer, ...]:
    trace = _running(*xi)
    if indexing not in ("xy", "ij"):
        raise ValueError(f"{here()}: Valid values for `indexing` are 'xy' and 'ij'.")
    order = list(range(len(xi)))
    if indexing == "xy" and len(xi) > 1:
        order[:2] = 1, 0
    lines = [ravel(x) for x in xi]
    extents: list[Dim] = [1] * len(xi)
    for axis, line in zip(order, lines, strict=True):
        extents[axis] = line.node.shape[0]
    found = []
    for axis, line in zip(order, lines, strict=True):
        shape = tuple(d if k == axis else 1 for k, d in enumerate(extents)) if sparse else tuple(extents)
        index: Dim = 0 if line.node.shape[0] == 1 else sizes.name(axis_name(axis))
        grid = line.view_through(views.Affine((index,), shape))
        found.append(fresh(trace, grid.node) if copy else grid)
    return tuple(found)


@creates("fromfunction")
def fromfunction(
    function: Callable[..., Any], shape: Any, *, dtype: Any = float, like: Any = None, **kwargs: Any
) -> Any:
    trace = _running(shape, like)
    dims, target = shape_of(trace, tuple(shape)), _dtype(dtype)
    grids = (promote.cast(trace, grid_axis(trace, dims, a), target) for a in range(len(dims)))
    return function(*(fresh(trace, g) for g in grids), **kwargs)


# -- conversions ------------------------------------------------------------------------------------
@creates("array")
def array(
    object: Any, dtype: Any = None, *, copy: Any = True, order: str = "K", subok: bool = False,
    ndmin: int = 0, like: Any = None,
) -> Any:  # fmt: skip
    if not is_traced(object):
        made = np.array(object, dtype=dtype, ndmin=ndmin, order=order)  # type: ignore[call-overload]
        trace = _running(like)
        return fresh(trace, promote.node_of(trace, made)) if is_supported(made.dtype) else made
    trace = _running(object)
    node = promote.node_of(trace, object)
    target = _dtype(dtype, node.dtype)
    converted = promote.cast(trace, node, target)
    lead = max(ndmin - len(converted.shape), 0)
    if isinstance(object, Tracer) and converted is node and not _always(copy):
        return object.view_through(views.insert_axes(node.shape, tuple(range(lead)))) if lead else object
    if lead:
        converted = views.insert_axes(converted.shape, tuple(range(lead))).read(trace.graph, converted)
    return fresh(trace, converted, converted if order == "K" else None)


@creates("asarray", "asanyarray")
def asarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None
) -> Any:
    return array(a, dtype, copy=False if copy is None else copy)


def _always(copy: Any) -> bool:
    """Whether `copy` asks for a copy: True, or NumPy's own constant for it; None and others only if needed."""
    return copy in (True, np._CopyMode.ALWAYS)


def _laid_out(name: str, transposed: bool) -> None:
    """The array itself where its elements lie in C order (or the transpose's do), else a copy."""

    @creates(name)
    def rule(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
        found = array(a, dtype, copy=False, ndmin=1)
        if found is not a or found.ndim < 1 or (found.T if transposed else found).in_order():
            return found
        return found.perhaps_copied(found.node)


_laid_out("ascontiguousarray", False)
_laid_out("asfortranarray", True)


__all__ = ["CREATION", "active", "creates", "fresh", "is_traced"]
