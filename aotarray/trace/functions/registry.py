"""The tables of rules, and the decorators that fill them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ...errors import LeakError
from ...graph import Node
from .. import promote
from ..context import Trace, active, here
from ..size_value import SizeValue
from ..tracer import Tracer

FUNCTIONS: dict[Any, Callable[..., Any]] = {}
UFUNCS: dict[Any, Callable[..., Any]] = {}
UFUNC_METHODS: dict[tuple[Any, str], Callable[..., Any]] = {}
METHODS: dict[str, Callable[..., Any]] = {}

Rule = TypeVar("Rule", bound=Callable[..., Any])


def implements(*functions: str, method: str = "") -> Callable[[Rule], Rule]:
    """Answer these NumPy functions ("sum", "linalg.norm"), and the ndarray method of this name."""

    def register(rule: Rule) -> Rule:
        for dotted in functions:
            found: Any = np
            for part in dotted.split("."):
                found = getattr(found, part)
            FUNCTIONS[found] = rule
        if method:
            METHODS[method] = rule
        return rule

    return register


def install() -> None:
    """Put the methods on Tracer."""
    for name, rule in METHODS.items():
        setattr(Tracer, name, rule)


def trace_of(*values: Any) -> Trace:
    """The trace that these arguments belong to, or the running one."""
    for value in values:
        if isinstance(value, (Tracer, SizeValue)):
            if not value._trace.open:
                raise LeakError(
                    f"{here()}: a traced value is used after its function returned; "
                    f"return it from the function instead of keeping it"
                )
            return value._trace
        if isinstance(value, (list, tuple)) and value:
            for item in value:
                if isinstance(item, (Tracer, SizeValue, list, tuple)):
                    return trace_of(item)
    trace = active()
    if trace is None:
        raise LeakError(f"{here()}: no function is being traced")
    return trace


def as_tracer(trace: Trace, value: Any) -> Tracer:
    """Any operand as a tracer."""
    return value if isinstance(value, Tracer) else Tracer.of(trace, promote.node_of(trace, value))


def array(value: Any, *others: Any) -> Any:
    """`np.asarray(value)` in the trace of these arguments: a tracer whose dtype is not weak."""
    trace = trace_of(value, *others)
    found = as_tracer(trace, value)
    node: Node = found.node
    return Tracer.of(trace, promote.cast(trace, node, node.dtype)) if node.type.weak else found


def lift(value: Any, *others: Any) -> Any:
    """The operand as a tracer; Python numbers stay weak."""
    return as_tracer(trace_of(value, *others), value)
