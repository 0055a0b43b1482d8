"""The running trace: its graph, the sizes it knows, and the user's line that is being traced."""

from __future__ import annotations

import operator
import os
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal

import numpy as np

from .. import sizes
from ..errors import ConcretizationError, LeakError, SizeError
from ..graph import Graph, Node, SizeCheck, SourceLine
from ..sizes import Dim

#: where this package's files are
OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_SCIPY = os.path.join(os.path.dirname(os.path.dirname(_NUMPY)), "scipy") + os.sep


#: a graph with so many nodes takes seconds to compile
LONG = 10_000


@dataclass(frozen=True)
class Decision:
    """What a trace took for granted of sizes, so that other sizes need another trace."""

    kind: Literal["size", "condition"]
    what: str
    value: int | bool
    where: SourceLine


class Trace:
    """One call of a function with tracers.

    `hints` are the values that named sizes have in the call that caused the trace (`jit`), or None (`build`).
    """

    def __init__(self, name: str, hints: Mapping[str, int] | None) -> None:
        self.graph = Graph(name)
        self.hints = hints
        self.open = True
        self.thread = threading.get_ident()
        #: the bodies of loops and choices that are being traced, outermost first
        self.bodies: list[int] = []
        #: what each of them does in order, after what the function does outside of all
        self.effects: list[list[Node]] = [self.graph.effects]
        #: by the number of a body: what must hold, just where it runs, of sizes that are measured
        self.checks: dict[int, list[SizeCheck]] = {}
        self.decisions: list[Decision] = []
        #: by the number of a body that may write into arrays from outside: what they were before, by identity
        self.written: dict[int, dict[int, tuple[Any, ...]]] = {}
        #: the same for what is tried, and may be undone
        self.trials: list[dict[int, tuple[Any, ...]]] = []
        #: while the message of a check is made: the traced values in it, and how each is to be shown
        self.texts: list[tuple[Any, str]] | None = None
        #: how often a size was fixed or compared
        self.asked = 0
        self._bodies = 0
        self._warned = False

    @contextmanager
    def body(self, writes: bool = False) -> Iterator[int]:
        """While the body of a loop or a choice is traced; gives its number.

        What it makes is its own: the same expression elsewhere is another node. `writes` lets it write into arrays
        from outside, of which it keeps account.
        """
        self._bodies += 1
        number = self._bodies
        self.bodies.append(number)
        self.effects.append([])
        if writes:
            self.written[number] = {}
        known, before = self.graph.known, len(self.graph.checks)
        try:
            yield number
        finally:
            self.bodies.pop()
            self.effects.pop()
            self.graph.forget(known)
            made = self.graph.checks[before:]
            self.checks[number] = [c for c in made if self.is_measured(c[1] - c[2])]
            self.graph.checks[before:] = [c for c in made if c not in self.checks[number]]

    def note_write(self, storage: Any) -> bool:
        """Take down that an array will be written into; False where the body being traced may not."""
        found = []
        for number in reversed(self.bodies):
            if number == storage.body:
                break
            if number not in self.written:
                return False
            found.append(self.written[number])
        else:
            if storage.body:
                return False
        for record in (*found, *self.trials):
            record.setdefault(id(storage), (storage, storage.state))
        return True

    def note_length(self) -> None:
        """Warn, once, when so much is recorded that it must be a long loop in Python."""
        if self.graph.made < LONG or self._warned:
            return
        self._warned = True
        warnings.warn(
            f"{here()}: {self.graph.name}() has recorded {LONG} operations so far, and each is compiled: a Python loop "
            f"is unrolled; aotarray.fori_loop, while_loop and scan run a loop without that",
            stacklevel=2,
        )

    def fix(self, size: Dim, purpose: str) -> int:
        """The size as an int. In `jit` this makes it part of the key; in `build` it is an error."""
        if isinstance(size, int):
            return size
        self.require_open()
        self.asked += 1
        self._refuse_measured(size, f"is needed as a Python int ({purpose})")
        if self.hints is None:
            raise SizeError(
                f"{here()}: size {size} is needed as a Python int ({purpose}), which would freeze it; "
                f"give it a fixed value in the spec, or use array operations instead, or aotarray.fori_loop"
            )
        value = sizes.evaluate(size, self.hints)
        self.decisions.append(Decision("size", f"{size} as a Python int, for {purpose}", value, here()))
        self.graph.require("eq", size, value, f"this program was made for {size} = {{b}}, not {{a}}")
        return value

    def decide(self, a: Dim, relation: str, b: Dim) -> bool:
        """Whether `a relation b` ("eq", "ne", "lt", ...); in `jit` the outcome becomes part of the key."""
        self.require_open()
        known = _provable(a, relation, b)
        if known is not None:
            return known
        self.asked += 1
        self._refuse_measured(a - b, "is needed by a condition")
        if self.hints is None:
            raise SizeError(
                f"{here()}: {a} {_SIGNS[relation]} {b} is not known ahead of time, and a condition needs it; "
                f"give the sizes fixed values in the spec, or use np.where or slices, which need no condition"
            )
        outcome: bool = getattr(operator, relation)(
            sizes.evaluate(a, self.hints), sizes.evaluate(b, self.hints)
        )
        self.decisions.append(Decision("condition", f"{a} {_SIGNS[relation]} {b}", outcome, here()))
        if not outcome:
            relation = _OPPOSITE[relation]
        if relation in ("lt", "le"):
            a, b, relation = b, a, {"lt": "gt", "le": "ge"}[relation]
        if relation == "gt":
            b, relation = b + 1, "ge"
        self.graph.require(
            relation,
            a,
            b,
            f"this program was made for sizes of which {a} {relation} {b}, not {{a}} and {{b}}",
        )
        return outcome

    def is_measured(self, size: Dim) -> bool:
        """True for a size that depends on values, and is known only when these are."""
        return not sizes.names(size).isdisjoint(self.graph.measured)

    def _refuse_measured(self, size: Dim, what: str) -> None:
        if self.is_measured(size):
            name = min(sizes.names(size) & self.graph.measured.keys())
            raise ConcretizationError(
                f"{here()}: size {size} {what}, but it depends on values, which are not known while tracing "
                f"({name} is how many elements were found at {self.graph.measured[name].where}); use it in array "
                f"operations and np.where, as a bound of aotarray.fori_loop, or in a condition of aotarray.cond"
            )

    def require_open(self) -> None:
        """LeakError when the trace is over, or is another thread's."""
        if not self.open:
            raise LeakError(
                f"{here()}: a traced value is used after its function returned; return it from the "
                f"function instead of "
                f"keeping it"
            )
        if self.thread != threading.get_ident():
            raise LeakError(
                f"{here()}: a traced value is used in another thread than the one that traces; return it "
                f"from the "
                f"function, and start threads outside"
            )

    def hint(self, size: Dim) -> int | None:
        """The size in the call being traced, without fixing it."""
        if isinstance(size, int):
            return size
        return None if self.hints is None or self.is_measured(size) else sizes.evaluate(size, self.hints)

    def same(self, a: Dim, b: Dim, what: str, exception: str = "ValueError") -> Dim:
        """`a` and `b` as one size: proven equal, or checked when the program starts or has measured them."""
        if a == b:
            return a
        ha, hb = self.hint(a), self.hint(b)
        if (ha is not None and hb is not None and ha != hb) or (isinstance(a, int) and isinstance(b, int)):
            raise ValueError(f"{here()}: {what}: sizes {_shown(a, ha)} and {_shown(b, hb)} differ")
        self.graph.require("eq", a, b, f"{what}: {a} is {{a}} but {b} is {{b}}", exception)
        return a if isinstance(a, int) or self.is_measured(b) else b


_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


def _provable(a: Dim, relation: str, b: Dim) -> bool | None:
    """The outcome where it is the same for all sizes."""
    difference = a - b
    if isinstance(difference, int):
        found: bool = getattr(operator, relation)(difference, 0)
        return found
    if relation in ("lt", "ge") and sizes.never_negative(difference):
        return relation == "ge"
    if relation in ("gt", "le") and sizes.never_negative(-difference):
        return relation == "le"
    positive = sizes.never_negative(difference - 1), sizes.never_negative(-difference - 1)
    if any(positive):
        return relation == "ne" or (relation in ("gt", "ge") if positive[0] else relation in ("lt", "le"))
    return None


def _shown(size: Dim, value: int | None) -> str:
    return str(size) if value is None or isinstance(size, int) else f"{size} = {value}"


_state = threading.local()


def current() -> Trace:
    """The trace that is running in this thread."""
    trace = getattr(_state, "trace", None)
    if trace is None:
        raise LeakError(
            f"{here()}: a traced value is used outside the function it belongs to; return it instead"
        )
    found: Trace = trace
    return found


def active() -> Trace | None:
    """The running trace of this thread, if any."""
    return getattr(_state, "trace", None)


def current_body() -> int:
    """The number of the loop's or choice's body that is being traced in this thread; 0 outside."""
    trace = active()
    return trace.bodies[-1] if trace is not None and trace.bodies else 0


@contextmanager
def running(trace: Trace) -> Iterator[Trace]:
    """Make `trace` the running one of this thread."""
    outer = active()
    _state.trace = trace
    try:
        yield trace
    finally:
        _state.trace = outer
        trace.open = False


def here() -> SourceLine:
    """The innermost line of code that is neither aotarray's nor NumPy's nor SciPy's: the user's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((OWN, _NUMPY, _SCIPY, "<__array_function__", "<frozen")):
            return SourceLine(name, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return SourceLine("<unknown>", 0, "")
