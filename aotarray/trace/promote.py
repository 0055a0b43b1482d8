"""Operands to nodes: NumPy's own promotion (NEP 50, weak Python scalars), broadcasting, element-wise ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import sizes
from ..errors import LeakError, UnsupportedError
from ..graph import Node, literal_value
from ..ops import OPS, Op
from ..sizes import Dim
from ..types import is_supported
from . import views
from .context import Trace, here
from .size_value import SizeValue, as_dim

INT64 = np.dtype(np.int64)
WEAK_TYPES = {"b": np.dtype(bool), "i": int, "f": float, "c": complex}
_WEAK_DTYPE = {kind: np.dtype(kind) for kind in (bool, int, float, complex)}


def node_of(trace: Trace, value: Any) -> Node:
    """Any operand as a node: tracer, size, Python scalar (weak), NumPy scalar, array or sequence of numbers."""
    if getattr(value, "_is_tracer", False):
        if value._trace is not trace:
            raise LeakError(
                f"{here()}: this traced value belongs to another call; return it from the function "
                "instead of keeping it"
            )
        found: Node = value.node
        return found
    if isinstance(value, SizeValue):
        return trace.graph.apply("size", where=here(), value=as_dim(value))
    kind = type(value)
    if kind is int and not -(2**63) <= value < 2**63:
        return trace.graph.literal(value, np.dtype(np.uint64), here(), weak=True)
    if kind in _WEAK_DTYPE:
        return trace.graph.literal(value, _WEAK_DTYPE[kind], here(), weak=kind is not bool)
    if isinstance(value, (list, tuple)) and any(is_traced(v) for v in value):
        from .functions import stack_sequence

        found = stack_sequence(trace, value)
        return found
    array = np.asarray(value)
    if not is_supported(array.dtype):
        raise UnsupportedError(
            f"{here()}: values of dtype {array.dtype} cannot be compiled; convert to bool, int, float or complex"
        )
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.ndim == 0:
        return trace.graph.literal(array[()], array.dtype, here())
    return trace.graph.constant(array, here())


def is_traced(value: Any) -> bool:
    """True for a traced array or size, and for a sequence that holds one."""
    if isinstance(value, (list, tuple)):
        return any(is_traced(v) for v in value)
    return getattr(value, "_is_tracer", False) or isinstance(value, SizeValue)


def known_array(value: Any) -> np.ndarray | None:
    """The array behind `value` when its elements are known at trace time, else None."""
    if getattr(value, "_is_tracer", False):
        node: Node = value.node
        return value._trace.graph.constants[node.params["index"]] if node.op.name == "constant" else None
    return None if is_traced(value) else np.asarray(value)


def dtype_or_weak(node: Node) -> Any:
    """What NumPy's promotion is told: a dtype, or the Python type of a weak scalar."""
    return WEAK_TYPES[node.dtype.kind if node.dtype.kind != "u" else "i"] if node.type.weak else node.dtype


def cast(trace: Trace, node: Node, dtype: np.dtype, wraps: bool = False) -> Node:
    """`node` converted; Python numbers must fit, as in NumPy, unless it `wraps`: those not known at trace time are
    looked at as the program runs."""
    if node.dtype == dtype and not node.type.weak:
        return node
    if node.op.name == "literal":
        value = literal_value(node)
        if node.type.weak and dtype.kind in "iu" and node.dtype.kind in "iu" and not wraps:
            limits = np.iinfo(dtype)
            if not limits.min <= int(value) <= limits.max:
                raise OverflowError(f"{here()}: Python integer {int(value)} out of bounds for {dtype}")
        with np.errstate(all="ignore"):
            return trace.graph.literal(value.astype(dtype), dtype, node.where)
    found = trace.graph.apply("cast", (node,), here(), dtype=dtype.name)
    if wraps or not node.type.weak or node.dtype.kind != "i" or dtype.kind not in "iu" or dtype == node.dtype:
        return found
    if dtype == np.uint64:
        outside = compare(trace, "less", node, 0)
    else:
        back = trace.graph.apply("cast", (found,), here(), dtype=node.dtype.name)
        outside = trace.graph.apply("not_equal", (back, node), here())
    return guard(trace, found, outside, "OverflowError", f"Python integer out of bounds for {dtype}")


def compare(trace: Trace, name: str, node: Node, number: int) -> Node:
    """A comparison of `node` with a number of its dtype."""
    limit = broadcast_node(trace, trace.graph.literal(number, node.dtype, here()), node.shape)
    return trace.graph.apply(name, (node, limit), here())


def guard(trace: Trace, node: Node, wrong: Node, exception: str, message: str) -> Node:
    """`node`; the program raises where `wrong`, a bool array of its shape, holds."""
    return trace.graph.apply("guard", (node, wrong), here(), exception=exception, message=message)


def broadcast_shapes(trace: Trace, shapes: Sequence[tuple[Dim, ...]], what: str) -> tuple[Dim, ...]:
    """NumPy's broadcasting on symbolic shapes. Sizes not provably equal are checked at entry."""
    rank = max((len(s) for s in shapes), default=0)
    result: list[Dim] = []
    for axis in range(rank):
        known: Dim = 1
        for shape in shapes:
            position = axis - (rank - len(shape))
            if position < 0 or shape[position] == 1:
                continue
            size = shape[position]
            if known == 1:
                known = size
            elif known != size:
                known = _agree(trace, known, size, what, shapes)
        result.append(known)
    return tuple(result)


def _agree(trace: Trace, a: Dim, b: Dim, what: str, shapes: Sequence[tuple[Dim, ...]]) -> Dim:
    ha, hb = trace.hint(a), trace.hint(b)
    if ha is not None and hb is not None and ha != hb:
        if ha == 1 or hb == 1:  # a derived size that happens to be 1 here: NumPy broadcasts it
            trace.fix(a if ha == 1 else b, "broadcasting of a size that is 1")
            return b if ha == 1 else a
        shown = " ".join(str(tuple(trace.hint(d) for d in s)).replace(" ", "") for s in shapes)
        raise ValueError(f"{here()}: operands of {what} could not be broadcast together with shapes {shown}")
    return trace.same(a, b, f"operands of {what} could not be broadcast together")


def fit_rank(trace: Trace, node: Node, rank: int) -> Node:
    """A value to write without the leading axes that `rank` has no room for, as far as these are of size 1."""
    while len(node.shape) > rank and (node.shape[0] == 1 or trace.hint(node.shape[0]) == 1):
        trace.same(node.shape[0], 1, "assignment")
        node = views.drop_axes(node.shape, (0,)).read(trace.graph, node)
    return node


def broadcast_node(trace: Trace, node: Node, shape: tuple[Dim, ...]) -> Node:
    """`node` as an array of `shape` (an axis of a size that turned out to be 1 is repeated)."""
    return node if node.shape == shape else broadcast_lens(trace, node.shape, shape).read(trace.graph, node)


def broadcast_lens(trace: Trace, source: tuple[Dim, ...], shape: tuple[Dim, ...]) -> views.Affine:
    """The view of an array of shape `source` as one of `shape`."""
    lead = len(shape) - len(source)
    if lead < 0:
        raise ValueError(f"{here()}: could not broadcast shape {source} into {shape}")
    index: list[Dim] = []
    for axis, dim in enumerate(source):
        target = shape[lead + axis]
        if dim == 1 or (dim != target and trace.hint(dim) == 1 and trace.hint(target) != 1):
            index.append(0)
        else:
            index.append(views.axes(len(shape))[lead + axis])
    return views.Affine(tuple(index), shape)


def elementwise(
    trace: Trace, op: Op, operands: Sequence[Node], dtype: np.dtype | None = None, operator: bool = False
) -> Node:
    """One ufunc on nodes: loop dtypes by NumPy, casts, broadcasting, the op.

    `operator` marks Python operators between weak scalars, whose result stays weak.
    """
    trace.note_length()
    ufunc: Any = op.ufunc
    if operator and op.name in _OF_INTS and all(o.type.weak for o in operands):
        operands = [_int_of_bool(trace, o) for o in operands]
    loop = resolve(ufunc, operands, dtype)
    if op.name in _COMPARISONS:
        loop = _comparison_loop(operands, loop, ufunc)
    if op.name == "power" and not all(o.type.weak for o in operands):
        return _power(trace, operands[0], operands[1], loop, operator)
    shape = broadcast_shapes(trace, [o.shape for o in operands], op.name)
    weak = operator and all(o.type.weak for o in operands)
    if op.name in ("logical_and", "logical_or", "logical_xor", "logical_not"):
        loop = (np.dtype(bool),) * len(loop)
    cast_operands = [cast(trace, o, d) for o, d in zip(operands, loop, strict=False)]
    if op.name == "power" and loop[0].kind == "i":
        cast_operands[1] = _whole_power(trace, cast_operands[1], weak)
    if weak and op.name == "power" and loop[0].kind == "f":
        cast_operands = _real_power(trace, *cast_operands)
    if weak and op.name in ("divide", "floor_divide", "remainder"):
        cast_operands[1] = _checked(trace, cast_operands[1], "equal", ZeroDivisionError, "division by zero")
    if weak and op.name in ("left_shift", "right_shift"):
        cast_operands[1] = _checked(trace, cast_operands[1], "less", ValueError, "negative shift count")
    converted = [broadcast_node(trace, o, shape) for o in cast_operands]
    node = trace.graph.apply(op.name, converted, here())
    if not is_supported(node.dtype):
        raise UnsupportedError(f"{here()}: {op.name} with result dtype {node.dtype} is not supported")
    if weak and node.dtype.kind == "i" and op.name in ("multiply", "power", "left_shift"):
        node = _within_64_bits(trace, op.name, node, operands)
    return weakened(trace, node) if weak and node.dtype.kind != "b" else node


#: operators that make an int of Python bools
_OF_INTS = frozenset({
    "add", "subtract", "multiply", "floor_divide", "remainder", "power", "left_shift", "right_shift",
    "negative", "positive", "invert", "absolute",
})  # fmt: skip


def _int_of_bool(trace: Trace, node: Node) -> Node:
    """A Python bool as the Python int that it is in arithmetic."""
    return weakened(trace, cast(trace, node, np.dtype(np.int64))) if node.dtype == bool else node


def _real_power(trace: Trace, base: Node, exponent: Node) -> list[Node]:
    """Operands of a power of Python floats, which raises for zero to a negative one, and must not be complex."""
    if base.op.name == "literal" and literal_value(base) > 0:
        return [base, exponent]
    known = float(literal_value(exponent)) if exponent.op.name == "literal" else None
    if known is None or -np.inf < known < 0:
        wrong = compare(trace, "equal", base, 0)
        if known is None:
            wrong = _all(trace, wrong, compare(trace, "less", exponent, 0), _is_finite(trace, exponent))
        base = guard(trace, base, wrong, "ZeroDivisionError", "0.0 cannot be raised to a negative power")
    if known is None or (np.isfinite(known) and not known.is_integer()):
        wrong = _all(trace, compare(trace, "less", base, 0), _is_finite(trace, base))
        if known is None:
            whole = trace.graph.apply("rint", (exponent,), here())
            part = trace.graph.apply("not_equal", (whole, exponent), here())
            wrong = _all(trace, wrong, part, _is_finite(trace, exponent))
        message = "a negative Python float to a fractional power is complex; make it complex in compiled functions"
        base = guard(trace, base, wrong, "ValueError", message)
    return [base, exponent]


def _is_finite(trace: Trace, node: Node) -> Node:
    return trace.graph.apply("isfinite", (node,), here())


def _all(trace: Trace, first: Node, *rest: Node) -> Node:
    for node in rest:
        first = trace.graph.apply("logical_and", (first, node), here())
    return first


#: exponents for which NumPy calls another ufunc
_POWERS = {2.0: "square", 1.0: "positive", -1.0: "reciprocal", 0.5: "sqrt"}


def _power(trace: Trace, base: Node, exponent: Node, loop: Sequence[np.dtype], operator: bool) -> Node:
    """`base ** exponent` as NumPy does it: known exponents by their own ufuncs, negative integers refused."""
    shape = broadcast_shapes(trace, [base.shape, exponent.shape], "power")
    converted = [broadcast_node(trace, cast(trace, o, d), shape) for o, d in zip((base, exponent), loop, strict=True)]
    known = literal_value(exponent) if exponent.op.name == "literal" else None
    if loop[0].kind in "fc":
        other = None
        if known is not None and not known.imag and (operator or loop[0] != np.float16):
            other = _POWERS.get(float(known.real))
        return trace.graph.apply(other or "power", converted[:1] if other else converted, here())
    message = "Integers to negative integer powers are not allowed."
    if known is not None and known < 0:
        raise ValueError(f"{here()}: {message}")
    node = trace.graph.apply("power", converted, here())
    if known is not None or loop[1].kind != "i":
        return node
    return guard(trace, node, compare(trace, "less", converted[1], 0), "ValueError", message)


def _whole_power(trace: Trace, exponent: Node, python: bool) -> Node:
    """An exponent of signed integers, which may not be negative; a `python` int would become a float there."""
    message = "Integers to negative integer powers are not allowed."
    if python:
        message = "a Python int to a negative power is a float; make its base a float in compiled functions"
    return _checked(trace, exponent, "less", ValueError, message)


def _checked(trace: Trace, node: Node, name: str, exception: type[Exception], message: str) -> Node:
    """`node`, for which comparing true with zero raises: while tracing where it is known, else as the program runs."""
    if node.op.name == "literal":
        if literal_value(node) == 0 if name == "equal" else literal_value(node) < 0:
            raise exception(f"{here()}: {message}")
        return node
    return guard(trace, node, compare(trace, name, node, 0), exception.__name__, message)


def _within_64_bits(trace: Trace, name: str, node: Node, operands: Sequence[Node]) -> Node:
    """The result for two Python ints, which have no largest: one that 64 bits cannot hold raises."""
    double = np.dtype(np.float64)
    a, b = (cast(trace, o, double) for o in operands)
    if name == "left_shift":
        b = elementwise(trace, OPS["power"], [scalar_node(trace, 2.0, double), b])
    product = elementwise(trace, OPS["power" if name == "power" else "multiply"], [a, b])
    size = elementwise(trace, OPS["absolute"], [product])
    message = "a Python int beyond 64 bits; make it a float in compiled functions"
    return guard(trace, node, compare(trace, "greater_equal", size, 2**63), "OverflowError", message)


def weakened(trace: Trace, node: Node) -> Node:
    """The same scalar, taking part in promotion as a Python scalar does."""
    from ..types import ArrayType

    weak = ArrayType(node.dtype, node.shape, True)
    return trace.graph.apply(node.op.name, node.operands, node.where, weak, **node.params)


def resolve(ufunc: Any, operands: Sequence[Node], dtype: np.dtype | None) -> tuple[np.dtype, ...]:
    """The loop's operand dtypes, from NumPy."""
    given = tuple(dtype_or_weak(o) for o in operands)
    try:
        if all(isinstance(g, type) for g in given):
            given = tuple(o.dtype for o in operands)
        fixed = {} if dtype is None else {"signature": (*(None,) * len(given), *(dtype,) * ufunc.nout)}
        resolved = ufunc.resolve_dtypes((*given, *(None,) * ufunc.nout), **fixed)
    except TypeError as error:
        shown = ", ".join(g.__name__ if isinstance(g, type) else str(g) for g in given)
        raise TypeError(f"{here()}: numpy.{ufunc.__name__} is not defined for ({shown})") from error
    for found in resolved[: len(given)]:
        if not is_supported(found):
            raise UnsupportedError(
                f"{here()}: numpy.{ufunc.__name__} in {found} is not supported; convert to float64 first"
            )
    return tuple(resolved[: len(given)])


_COMPARISONS = frozenset({"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"})


def _comparison_loop(operands: Sequence[Node], loop: Sequence[np.dtype], ufunc: Any) -> tuple[np.dtype, ...]:
    """A Python int outside an integer dtype's range still compares, as in NumPy: by value, in a wider dtype."""
    for k, operand in enumerate(operands):
        other = operands[1 - k]
        if not operand.type.weak or operand.dtype.kind not in "iu" or other.type.weak or other.dtype.kind not in "iu":
            continue
        if operand.op.name == "literal":
            limits = np.iinfo(loop[k])
            if limits.min <= int(literal_value(operand)) <= limits.max:
                continue
        return tuple(ufunc.resolve_dtypes((*(o.dtype for o in operands), None))[:2])
    return tuple(loop)


def scalar_node(trace: Trace, value: Any, dtype: np.dtype) -> Node:
    """A literal of exactly `dtype`."""
    return trace.graph.literal(value, dtype, here())


__all__ = [
    "OPS", "broadcast_node", "broadcast_shapes", "cast", "dtype_or_weak", "elementwise", "fit_rank", "node_of",
    "resolve", "scalar_node", "sizes", "weakened",
]  # fmt: skip
