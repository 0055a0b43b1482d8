"""Whether a value holds, and the functions of Python that ask a value for what it is: known, or as a traced value."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import TraceError
from ...graph import Node, literal_value, topological
from ...sizes import Size
from .. import promote
from ..context import Trace, active, here
from ..control import kind_of
from ..tracer import Tracer, known_value
from ..ufuncs import select
from ..views import drop_axes


def truth(value: Any) -> bool | Node:
    """A Python bool where it is known while tracing, else a traced bool."""
    if type(value) is not Tracer:
        return bool(value)
    trace: Trace = value._trace
    node = value.node
    if any(d != 1 for d in node.shape):
        raise TraceError(
            f"{here()}: the condition is {node.type}, and must be a scalar; reduce it with .any() or .all()"
        )
    if node.shape:
        node = drop_axes(node.shape, range(len(node.shape))).read(trace.graph, node)
    if node.op.name == "literal":
        return bool(literal_value(node))
    if is_constant(node):
        return bool(known_value(trace, node, "a condition"))
    return node if node.dtype == np.bool_ else promote.cast(trace, node, np.dtype(bool))


def is_constant(node: Node) -> bool:
    """True for what depends on no argument and on no size."""
    for n in topological((node,)):
        if n.op.name in ("input", "parameter", "size", "iota") or n.op.kind in (
            "control",
            "result",
            "library",
        ):
            return False
        if any(isinstance(d, Size) for d in n.shape):
            return False
    return True


def wrapped(node: Node) -> Tracer:
    """A traced bool as a value."""
    trace = active()
    assert trace is not None
    return Tracer.of(trace, node)


def as_bool(value: Any) -> Any:
    """The truth of a value as a value."""
    known = truth(value)
    return known if isinstance(known, bool) else wrapped(known)


def as_node(value: Any) -> Node:
    """The truth of a value as a node."""
    trace = active()
    assert trace is not None
    known = truth(value)
    return trace.graph.literal(known, np.dtype(bool), here()) if isinstance(known, bool) else known


def any_of(nodes: Sequence[bool | Node]) -> Node:
    """Whether one of several traced bools holds."""
    trace = active()
    assert trace is not None
    first, *rest = [as_node(wrapped(n)) if isinstance(n, Node) else as_node(n) for n in nodes]
    for node in rest:
        first = trace.graph.apply("logical_or", (first, node), here())
    return first


# -- Python's functions -----------------------------------------------------------------------------
def _number(kind: type, dtype: Any) -> Callable[..., Any]:
    def convert(*args: Any, **kwargs: Any) -> Any:
        if len(args) != 1 or kwargs or type(args[0]) is not Tracer:
            return kind(*args, **kwargs)
        (value,) = args
        node, trace = value.node, value._trace
        if any(d != 1 for d in node.shape):
            raise TypeError(f"{here()}: only arrays with one element can be converted to Python scalars")
        if node.dtype.kind == "c":
            raise TypeError(f"{here()}: {kind.__name__}() argument must be a real number, not complex")
        if is_constant(node):
            return kind(*args)
        if node.shape:
            node = drop_axes(node.shape, range(len(node.shape))).read(trace.graph, node)
        if node.type.weak and node.dtype == dtype:
            return value
        found = trace.graph.apply("cast", (node,), here(), dtype=np.dtype(dtype).name)
        return Tracer.of(trace, promote.weakened(trace, found))

    return convert


def _extreme(name: str) -> Callable[..., Any]:
    own = getattr(builtins, name)
    compare = "greater" if name == "max" else "less"

    def pick(*args: Any, **kwargs: Any) -> Any:
        items = args[0] if len(args) == 1 and type(args[0]) in (list, tuple) else args
        trace = active()
        scalars = all(not np.ndim(v) for v in items) if len(items) > 1 and not kwargs else False
        if trace is None or not scalars or not promote.is_traced(tuple(items)):
            return own(*args, **kwargs)
        found = items[0]
        for item in items[1:]:
            found = _picked(trace, compare, item, found)
        return found

    return pick


def _picked(trace: Trace, compare: str, new: Any, old: Any) -> Any:
    a, b = promote.node_of(trace, new), promote.node_of(trace, old)
    test = promote.elementwise(trace, promote.OPS[compare], (a, b), operator=True)
    weak = a.type.weak and b.type.weak
    if a.dtype != b.dtype or a.type.weak != b.type.weak:
        if not weak and (a.type.weak or b.type.weak):
            number, other = (a, b) if a.type.weak else (b, a)
            kinds = "bifc".index(kind_of(number)), "bifc".index(kind_of(other))
            dtype = other.dtype if kinds[0] <= kinds[1] else np.result_type(other.dtype, number.dtype)
        else:
            dtype = np.result_type(a.dtype, b.dtype)
        a, b = promote.cast(trace, a, dtype), promote.cast(trace, b, dtype)
    found = select(trace, test, a, b)
    return Tracer.of(trace, promote.weakened(trace, found) if weak else found)


def _bool(*args: Any) -> Any:
    return as_bool(args[0]) if len(args) == 1 and type(args[0]) is Tracer else bool(*args)


#: by Python's own functions: what converted code calls instead
BUILTINS: dict[Any, Callable[..., Any]] = {
    builtins.bool: _bool,
    builtins.float: _number(float, np.float64),
    builtins.int: _number(int, np.int64),
    builtins.max: _extreme("max"),
    builtins.min: _extreme("min"),
}
