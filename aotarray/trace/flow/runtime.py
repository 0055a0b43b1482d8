"""The run-time half of rewritten functions: decides while tracing what Python runs and what the program runs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...errors import TraceError
from ...graph import Node, SourceLine
from .. import effects, promote
from ..context import active, here
from ..tracer import MARK, Tracer
from . import along, choices
from .rewrite import Site
from .source import converted
from .state import State
from .steps import Each, Repeat
from .truths import BUILTINS, any_of, as_bool, truth, wrapped
from .values import Maybe, Unset

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "is_": operator.is_, "is_not": operator.is_not,
}  # fmt: skip


class Flow:
    """What the rewritten code of one function calls."""

    def __init__(self, sites: tuple[Site, ...], where: SourceLine) -> None:
        self.sites, self.where = sites, where

    # -- statements -----------------------------------------------------------------------------
    def choose(
        self, number: int, get: Any, put: Any, test: Any, then: Any, orelse: Any, raised: Any = None
    ) -> None:  # fmt: skip
        """`if`."""
        trace, known = active(), truth(test)
        if isinstance(known, bool) or trace is None:
            (then if known else orelse)()
            return
        if raised is not None:
            self._raise(known, raised)
            orelse()
            return
        state = State(trace, self.sites[number], here(), get, put)
        choices.choose(state, known, (orelse, then))

    def _raise(self, test: Node, raised: Callable[[], Any]) -> None:
        """The program raises where a traced bool holds."""
        with _texts() as values:
            error = raised()
            kind, text = (error, "") if isinstance(error, type) else (type(error), str(error))
        _check(self.negated(wrapped(test)), text, kind, values)

    def repeat(
        self, number: int, get: Any, put: Any, test: Callable[[], Any], body: Callable[[], Any]
    ) -> None:
        """`while`."""
        trace = active()
        if trace is None:
            while test():
                body()
            return
        state = State(trace, self.sites[number], here(), get, put)
        Repeat(trace, state, test, body).run()

    def each(
        self, number: int, get: Any, put: Any, over: Any, go_on: Callable[[], Any] | None, body: Callable[[Any], Any]
    ) -> None:  # fmt: skip
        """`for`."""
        trace = active()
        if trace is None:
            for item in over:
                body(item)
                if go_on is not None and not go_on():
                    break
            return
        state = State(trace, self.sites[number], here(), get, put)
        Each(trace, state, over, go_on, body).run()

    def check(self, test: Any, message: Callable[[], Any]) -> None:
        """`assert`."""
        known = truth(test)
        if isinstance(known, bool):
            if not known:
                text = message()
                raise AssertionError(*([] if text is None else [text]))
            return
        with _texts() as values:
            text = message()
            text = "" if text is None else str(text)
        _check(wrapped(known), text, AssertionError, values)

    # -- names and calls ------------------------------------------------------------------------
    def unset(self, name: str) -> Unset:
        return Unset(name)

    def used(self, value: Any) -> Any:
        """A variable that may have no value, being read."""
        if type(value) is Unset:
            raise value.error()
        if type(value) is Maybe:
            return value.read()
        return value

    def refuse_outer(self, names: tuple[str, ...]) -> None:
        """A function that assigns names from outside is called."""
        trace = active()
        if trace is not None and any(number in trace.written for number in trace.bodies):
            raise TraceError(
                f"{here()}: {', '.join(names)}: a function that assigns variables from outside of it is called in a "
                f"loop or choice that values steer; return the value instead"
            )

    def of(self, function: Any) -> Any:
        """What a call calls."""
        trace = active()
        if trace is None:
            return function
        try:
            known = BUILTINS.get(function)
        except TypeError:
            known = None
        return converted(function) if known is None else known

    def along(self, function: Any) -> Any:
        """`range`, `zip`, `enumerate` or `reversed` in the head of a `for`."""
        return along.ALONG.get(function, function) if active() is not None else function

    def item(self, value: Any, key: Any) -> Any:
        """`value[key]`."""
        trace = active()
        if trace is not None and type(value) in (list, tuple, np.ndarray) and promote.is_traced(key):
            if type(value) is np.ndarray:
                return Tracer.of(trace, promote.node_of(trace, value))[key]
            if type(key) is Tracer:
                found = along.looked_up(trace, value, key)
                if found is not None:
                    return found
        return value[key]

    # -- expressions ----------------------------------------------------------------------------
    def neither(self, *flags: Any) -> Any:
        """True where no flag is set."""
        if any(f is True for f in flags):
            return False
        traced = [truth(f) for f in flags if f is not False]
        if not traced:
            return True
        return self.negated(wrapped(any_of(traced)))

    def negated(self, value: Any) -> Any:
        """`not value`."""
        known = truth(value)
        if isinstance(known, bool):
            return not known
        trace = active()
        assert trace is not None
        return wrapped(trace.graph.apply("logical_not", (known,), here()))

    def both(self, first: Any, second: Callable[[], Any]) -> Any:
        """`first and second()` where only its truth counts."""
        known = truth(first)
        if isinstance(known, bool):
            return second() if known else False
        return self._joined(known, second, lambda: False)

    def either(self, first: Any, second: Callable[[], Any]) -> Any:
        """`first or second()` where only its truth counts."""
        known = truth(first)
        if isinstance(known, bool):
            return True if known else second()
        return self._joined(known, lambda: True, second)

    def _joined(self, known: Node, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
        return self._choice(known, lambda: as_bool(then()), lambda: as_bool(orelse()), "`and`, `or`")

    def and_(self, first: Any, second: Callable[[], Any]) -> Any:
        """`first and second()`."""
        known = truth(first)
        if isinstance(known, bool):
            return second() if known else first
        return self._choice(known, second, lambda: first, "`and`")

    def or_(self, first: Any, second: Callable[[], Any]) -> Any:
        """`first or second()`."""
        known = truth(first)
        if isinstance(known, bool):
            return first if known else second()
        return self._choice(known, lambda: first, second, "`or`")

    def chosen(self, test: Any, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
        """`then() if test else orelse()`."""
        known = truth(test)
        if isinstance(known, bool):
            return then() if known else orelse()
        return self._choice(known, then, orelse, "`x if c else y`")

    def _choice(self, test: Node, then: Callable[[], Any], orelse: Callable[[], Any], what: str) -> Any:
        trace = active()
        assert trace is not None
        return choices.value_of(trace, test, (orelse, then), what)

    def compared(self, signs: tuple[str, ...], left: Any, *rest: Callable[[], Any]) -> Any:
        """A chain of comparisons, or `in`."""
        sign, *others = signs
        right = rest[0]()
        found = (
            self._contains(left, right, sign) if sign in ("in_", "not_in") else _COMPARE[sign](left, right)
        )
        if not others:
            return found
        return self.and_(found, lambda: self.compared(tuple(others), right, *rest[1:]))

    def _contains(self, value: Any, container: Any, sign: str) -> Any:
        if type(container) in (list, tuple) and promote.is_traced((value, *container)):
            found: Any = False
            for item in container:
                found = self.either(value is item or value == item, _value(found))
        elif type(container) is Tracer:
            found = (container == value).any()
        else:
            found = value in container
        return found if sign == "in_" else self.negated(found)


@contextmanager
def _texts() -> Iterator[list[tuple[Any, str]]]:
    """While a message is made, traced values leave marks in it: gives these values and how they are to be shown."""
    trace = active()
    assert trace is not None
    outer, trace.texts = trace.texts, []
    try:
        yield trace.texts
    finally:
        trace.texts = outer


def _check(test: Any, text: str, kind: type[Exception], values: Sequence[tuple[Any, str]]) -> None:
    """A check of the program whose message shows the values at their marks."""
    text = text.replace("{", "{{").replace("}", "}}")
    for k, (_, spec) in enumerate(values):
        text = text.replace(MARK.format(k), f"{{v{k}:{spec}}}" if spec else f"{{v{k}}}")
    effects.check(test, text, exception=kind, **{f"v{k}": value for k, (value, _) in enumerate(values)})


def _value(value: Any) -> Callable[[], Any]:
    return lambda: value
