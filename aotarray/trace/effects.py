"""What a compiled function does beside giving results: `check` raises, `print` prints, in the program's order.

A text is a format string. What is known while tracing is filled in at once; the fields left are filled by
`str.format` as the program runs, with NumPy scalars, arrays and Python numbers.
"""

from __future__ import annotations

import builtins
import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import TraceError, UnsupportedError
from ..graph import Node, SourceLine, literal_value
from . import promote
from .bodies import NOTHING
from .context import Trace, active, here
from .masked import Masked
from .tracer import Tracer


def check(
    condition: Any, message: str = "check failed", /, *, exception: type[Exception] = ValueError, **values: Any
) -> None:
    """Raise `exception` unless `condition` holds, also in compiled functions and built modules.

    `condition` is a bool scalar, or an array of which all elements must hold. `message` is a format string, filled
    with `values` (scalars and arrays) as they are when the check fails; the line and the function of the check
    follow it. `exception` is a built-in class that takes a message. A loop stops at the step whose check fails.

    Raises TraceError, with the line, for a message that its values do not fit. What is known to be false while a
    function is traced is raised at once, except inside of loops and choices, which may never get there.

    >>> import numpy as np, aotarray
    >>> def root(x):
    ...     aotarray.check(x >= 0, "no root of {x:.1f}", x=x)
    ...     return np.sqrt(x)
    >>> float(aotarray.jit(root)(4.0))
    2.0
    """
    trace, where = active(), here()
    _refuse_exception(exception, where)
    if trace is None:
        if not np.all(condition):
            raise exception(_fill(message, (), values) + _place(where))
        return
    node = promote.node_of(trace, condition if promote.is_traced(condition) else np.all(condition))
    if node.shape:
        node = Tracer.of(trace, node).all().node
    node = promote.cast(trace, node, np.dtype(bool))
    text = _Text(trace, "aotarray.check", message, (), values)
    if node.op.name == "literal":
        if literal_value(node):
            return
        if not trace.bodies:
            shown = [str(n.type) for n in text.nodes]
            raise exception(re.sub(r"{(\d+)[^{}]*}", r"{\1}", text.template).format(*shown) + _place(where))
    template = text.template + _escaped(_place(where))
    _record(trace, "check", (node, *text.nodes), where, text=template, exception=exception.__name__)


def debug_print(text: str, /, *args: Any, **values: Any) -> None:
    """Print `text.format(*args, **values)`, also in compiled functions and built modules, each time it is reached.

    Values are scalars and arrays, printed as NumPy prints them; in a loop, those of each step. Prints and checks
    happen in the order of the program. Raises TraceError, with the line, for a text that its values do not fit.

    >>> import aotarray
    >>> @aotarray.jit
    ... def double(x):
    ...     aotarray.debug.print("x is {x:.2f}", x=x)
    ...     return 2 * x
    >>> float(double(1.5))
    x is 1.50
    3.0
    """
    trace = active()
    if trace is None:
        print(_fill(text, args, values))
        return
    found = _Text(trace, "aotarray.debug.print", text, args, values)
    _record(trace, "print", found.nodes, here(), text=found.template)


def _record(trace: Trace, op: str, operands: Sequence[Node], where: SourceLine, **params: Any) -> None:
    """The next effect. Its number makes it another node than an equal one."""
    node = trace.graph.apply(op, operands, where, NOTHING, number=trace.graph.made, **params)
    trace.effects[-1].append(node)


def _refuse_exception(exception: Any, where: SourceLine) -> None:
    if isinstance(exception, type) and issubclass(exception, Exception):
        known: Any = vars(builtins).get(exception.__name__)
        try:
            if known is exception and known(""):
                return
        except TypeError:
            pass
    raise TraceError(
        f"{where}: aotarray.check: exception={exception!r} is not a built-in exception that takes a message; "
        f"use ValueError, RuntimeError, ArithmeticError or the like"
    )


def _place(where: SourceLine) -> str:
    return f" ({where}, in {where.function})"


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _fill(text: str, args: Sequence[Any], values: Mapping[str, Any]) -> str:
    """The text as a compiled function would fill it."""
    return text.format(*map(_shown, args), **{name: _shown(value) for name, value in values.items()})


def _shown(value: Any) -> Any:
    return np.asarray(value)[()] if isinstance(value, np.ndarray) else value


class _Text:
    """A format string for a program: known values filled in, the other fields numbered as `nodes` are."""

    def __init__(
        self, trace: Trace, what: str, text: str, args: Sequence[Any], values: Mapping[str, Any]
    ) -> None:
        self.trace, self.what = trace, what
        self.values = {**{str(k): v for k, v in enumerate(args)}, **values}
        self.nodes: list[Node] = []
        self._automatic = 0
        try:
            self.template = self._rewritten(text)
            self.template.format(*map(_example, self.nodes))
        except IndexError:  # of an element: examples are small
            pass
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            reason = f"there is no value {error}" if isinstance(error, KeyError) else error
            raise TraceError(f"{here()}: {what}: the text {text!r} does not fit its values: {reason}") from None

    def _rewritten(self, text: str) -> str:
        made = ""
        for literal, field, spec, conversion in string.Formatter().parse(text):
            made += _escaped(literal)
            if field is None:
                continue
            match = re.match(r"[^.\[]*", field)
            assert match is not None
            name, rest = match[0], field[match.end() :]
            if not name:
                name, self._automatic = str(self._automatic), self._automatic + 1
            known, value = self._value(name)
            rest += f"!{conversion}" if conversion else ""
            rest += f":{self._known(spec)}" if spec else ""
            made += _escaped(f"{{0{rest}}}".format(value)) if known else f"{{{value}{rest}}}"
        return made

    def _known(self, spec: str) -> str:
        """A format specification, whose own fields must be known while tracing."""
        outer, self.nodes = self.nodes, []
        found = self._rewritten(spec)
        inner, self.nodes = self.nodes, outer
        if inner:
            raise ValueError("a width or precision must be known while tracing")
        return found.format()

    def _value(self, name: str) -> tuple[bool, Any]:
        """(True, the value) where that is known, else (False, the number of its node)."""
        value = self.values[name]
        if isinstance(value, Masked):
            value = value.array()
        if isinstance(value, Tracer) and value.node.op.name == "literal":
            scalar = literal_value(value.node)
            return True, scalar.item() if value.node.type.weak else scalar
        if not promote.is_traced(value):
            return True, _shown(value)
        if isinstance(value, (list, tuple)):
            raise UnsupportedError(
                f"{here()}: {self.what}: {name!r} is a {type(value).__name__} of traced values; give them one by one"
            )
        node = promote.node_of(self.trace, value)
        if node not in self.nodes:
            self.nodes.append(node)
        return False, self.nodes.index(node)


def _example(node: Node) -> Any:
    """A value like those that a field will be filled with."""
    array = np.ones((2,) * len(node.shape), node.dtype)
    return array.item() if node.type.weak else array[()]


__all__ = ["check", "debug_print"]
