"""How a `while` or `for` is run: by Python, step by step, or as a loop of the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import SizeError, TraceError
from ...graph import Node
from ...types import ArrayType
from .. import promote
from ..context import Trace, here
from ..size_value import SizeValue
from ..tracer import Tracer
from . import along, choices
from .loops import Counter, Loop
from .state import State
from .truths import as_node, truth, wrapped

#: a loop of known length is unrolled up to so many steps
UNROLLED = 8
#: and up to so many where its step cannot be that of a loop of the program
AT_MOST = 256
#: what tracing a step may raise where unrolling may not
_FAILS = (TraceError, SizeError, TypeError, ValueError, IndexError, OverflowError)


class _SteeredError(Exception):
    """A traced value decides how often the loop runs."""


class Trial:
    """What happens while it is open can be undone."""

    def __init__(self, trace: Trace, state: State) -> None:
        self.trace, self.state = trace, state
        self.record: dict[int, tuple[Any, ...]] = {}
        self.checks = len(trace.graph.checks)
        self.known, self.effects = trace.graph.known, len(trace.effects[-1])
        self.decisions = len(trace.decisions)
        trace.trials.append(self.record)

    def keep(self) -> None:
        self.trace.trials[:] = [r for r in self.trace.trials if r is not self.record]

    def undo(self) -> None:
        """Put variables, arrays and containers back."""
        self.keep()
        for storage, state in self.record.values():
            storage.state = state
        self.state.restore_containers()
        self.state.put(self.state.entry)
        del self.trace.graph.checks[self.checks :]
        self.trace.graph.forget(self.known)
        del self.trace.effects[-1][self.effects :]
        del self.trace.decisions[self.decisions :]


class Repeat:
    """A `while`."""

    def __init__(self, trace: Trace, state: State, test: Callable[[], Any], body: Callable[[], Any]) -> None:
        self.trace, self.state, self.test, self.body = trace, state, test, body

    def run(self) -> None:
        known = self._known()
        if known is False or (known is True and self._python(UNROLLED)):
            return
        trial = Trial(self.trace, self.state)
        try:
            Loop(self.state, self.body, lambda: as_node(self.test()), None, self._ran).run()
        except _FAILS as error:
            trial.undo()
            if known is not True:
                raise
            self._peel(error)
        else:
            trial.keep()

    def _known(self) -> Any:
        """The condition: a Python bool where no traced value and no size decides it, else None."""
        asked, checks, decisions = self.trace.asked, len(self.trace.graph.checks), len(self.trace.decisions)
        try:
            found = truth(self.test())
        except SizeError:
            return None
        if self.trace.asked != asked:
            del self.trace.graph.checks[checks:]
            del self.trace.decisions[decisions:]
            return None
        return found if isinstance(found, bool) else None

    def _python(self, limit: int) -> bool:
        """True when Python has run the loop in at most so many steps; else all is as before."""
        trial = Trial(self.trace, self.state)
        for _ in range(limit):
            self.body()
            known = self._known()
            if known is False:
                trial.keep()
                return True
            if known is not True:
                break
        trial.undo()
        return False

    def _peel(self, error: BaseException) -> None:
        """Python runs the steps whose condition it knows; a loop of the program those that follow."""
        trial = Trial(self.trace, self.state)
        try:
            for _ in range(AT_MOST):
                if self._known() is not True:
                    break
                self.body()
            else:
                raise error
            if self._known() is not False:
                state = self.state.again()
                Repeat(self.trace, state, self.test, self.body).run()
        except _FAILS:
            trial.undo()
            raise error from None
        trial.keep()

    def _ran(self) -> Any:
        known = self._known()
        return known if known is not None else wrapped(as_node(self.test()))


class Each:
    """A `for`."""

    def __init__(self, trace: Trace, state: State, over: Any, go_on: Any, body: Callable[[Any], Any]) -> None:
        self.trace, self.state, self.over, self.go_on, self.body = trace, state, over, go_on, body
        self.count: Any = None

    def run(self) -> None:
        if type(self.over) is range or along.is_open(self.over):
            self.count = along.length(self.trace, self.over)
        if self.count is None or (type(self.count) is int and self.count <= UNROLLED):
            self._unrolled()
            return
        if type(self.count) is SizeValue and self.trace.hint(self.count.dim) == 0 and not self.count > 0:
            return
        trial = Trial(self.trace, self.state)
        try:
            self._looped()
        except _FAILS as error:
            trial.undo()
            if not self._is_short():
                raise
            self._unrolled_after(error)
        else:
            trial.keep()

    def _is_short(self) -> bool:
        if type(self.count) is SizeValue:
            known = self.trace.hint(self.count.dim)
            return known is not None and known <= AT_MOST
        return type(self.count) is int and self.count <= AT_MOST

    def _unrolled_after(self, error: BaseException) -> None:
        trial = Trial(self.trace, self.state)
        try:
            self._unrolled()
        except _FAILS:
            trial.undo()
            raise error from None
        trial.keep()

    def _unrolled(self) -> None:
        for item in self.over:
            going = True if self.go_on is None else truth(self.go_on())
            if going is False:
                return
            if going is True:
                self.body(item)
                continue
            step = lambda item=item: self.body(item)  # noqa: E731
            choices.choose(self.state.again(), going, (_nothing, step))

    # -- as a loop of the program ---------------------------------------------------------------
    def _looped(self) -> None:
        try:
            trial = Trial(self.trace, self.state)
            Loop(self.state, self._step, None, self._counter(), self._ran).run()
            trial.keep()
        except _SteeredError:
            trial.undo()
            test = lambda: as_node(self.go_on())  # noqa: E731
            Loop(self.state, self.body, test, self._from_zero(), self._ran).run()
        except BaseException:
            trial.keep()
            raise

    def _step(self, item: Any) -> None:
        self.body(item)
        if self.go_on is not None and truth(self.go_on()) is not True:
            raise _SteeredError

    def _counter(self) -> Counter:
        """Ranges in steps of one count themselves."""
        over = self.over
        if isinstance(over, range) or type(over) is along.Range:
            if over.step == 1:
                return Counter(self._bound(over.start), self._bound(over.stop), False, lambda k: k)
            if over.step == -1:
                return Counter(self._bound(over.stop + 1), self._bound(over.start + 1), True, lambda k: k)
        return self._from_zero()

    def _from_zero(self) -> Counter:
        trace, over, count = self.trace, self.over, self.count
        return Counter(self._bound(0), self._bound(count), False, lambda k: along.item(trace, over, k, count))

    def _bound(self, value: Any) -> Node:
        node = promote.cast(self.trace, promote.node_of(self.trace, value), promote.INT64)
        if node.type != ArrayType(np.dtype(np.int64), ()):
            raise TypeError(f"{here()}: a bound of range() is {node.type}, and must be an integer")
        return node

    def _ran(self) -> Any:
        """Whether there is a first step: a bool, or a traced one."""
        if type(self.count) is SizeValue:
            try:
                return bool(self.count > 0)
            except SizeError:
                pass
        elif type(self.count) is int:
            return self.count > 0
        zero = self.trace.graph.literal(0, promote.INT64, here())
        return Tracer.of(self.trace, self.trace.graph.apply("less", (zero, self._bound(self.count)), here()))


def _nothing() -> None:
    pass
