"""The exception hierarchy. Every error a user can meet names what went wrong, where, and a way round."""

from __future__ import annotations


class AotarrayError(Exception):
    """Base class of all errors raised by aotarray itself."""


class TraceError(AotarrayError):
    """The function cannot be traced: the message names the user's line and what to use instead."""


class ConcretizationError(TraceError, TypeError):
    """A traced value was used where a concrete Python value is needed (`if t:`, `float(t)`)."""


class UnsupportedError(TraceError, NotImplementedError):
    """An op, dtype or argument that aotarray does not support; names the op and a way round."""


class RecompileWarning(UserWarning):
    """One compiled function has been compiled many times; says what differs between its calls, and what to do."""


class UnassignedError(TraceError, UnboundLocalError):
    """A variable is used that no path, or only one of several, gave a value."""


class LeakError(TraceError):
    """A tracer was used after its trace ended, or in another trace."""


class SpecError(AotarrayError, ValueError):
    """A signature string cannot be parsed or does not fit the function."""


class SizeError(AotarrayError, ValueError):
    """A size is used in a way that would freeze it (in `build`), or sizes contradict each other."""


class VerifyError(AotarrayError, AssertionError):
    """A graph or loop nest breaks a rule of its stage: a fault in aotarray, not in the user's code."""


class CompileError(AotarrayError):
    """Machine code could not be made: a fault in aotarray or an unusable compiler set-up."""


class LinkError(AotarrayError):
    """No linker, or the linker failed; the message holds its output and what to install."""


class CacheError(AotarrayError):
    """The cache folder cannot be used (owner, permissions)."""
