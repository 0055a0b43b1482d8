"""Special functions of real numbers, by the names that `scipy.special` gives them; scipy is not needed.

In compiled functions they become machine code, under these names and as scipy's own ufuncs: `scipy.special.erf(x)`
of a traced array is `aotarray.special.erf(x)`. Outside, they give arrays, slowly: use scipy there. float32 gives
float32, all else float64. docs/accuracy.md has the errors of those that are ops of their own.

>>> import aotarray.special as special
>>> float(special.erfc(0.0))
1.0
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import UnsupportedError
from .ops import OPS
from .ops.special import SPECIAL
from .trace import promote
from .trace.context import Trace, here

Rule = Callable[..., Any]
#: name of a ufunc of scipy -> the same on arrays of one dtype, float32 or float64
RULES: dict[str, Rule] = {}


def call_scipy(trace: Trace, ufunc: Any, inputs: tuple[Any, ...], dtype: np.dtype | None) -> Any:
    """A ufunc of scipy.special on traced arrays, in the dtypes of its own loops; None for any other ufunc."""
    from .trace.tracer import Tracer

    name = ufunc.__name__
    if getattr(sys.modules.get("scipy.special._ufuncs"), name, None) is not ufunc:
        return None
    rule = RULES.get(name)
    if rule is None:
        raise UnsupportedError(
            f"{here()}: scipy.special.{name} is not supported in compiled functions; aotarray.special lists those that "
            f"are; call it outside and pass the result as an argument"
        )
    nodes = [promote.node_of(trace, x) for x in inputs]
    loop = promote.resolve(ufunc, nodes, dtype)
    if any(d.kind == "c" for d in loop):
        raise UnsupportedError(
            f"{here()}: scipy.special.{name} of complex values is not supported; use x.real"
        )
    return rule(*(Tracer.of(trace, promote.cast(trace, n, d)) for n, d in zip(nodes, loop, strict=True)))


def _of_scipy(*aliases: str, wide: bool = False) -> Callable[[Rule], Rule]:
    """Make of a rule a function of any operands, and register the rule; a `wide` one is computed in float64."""

    def register(rule: Rule) -> Rule:
        @functools.wraps(rule)
        def apply(*operands: Any) -> Any:
            narrow = wide and operands[0].dtype == np.float32
            found = rule(*(x.astype(np.float64) for x in operands)) if narrow else rule(*operands)
            return found.astype(np.float32) if narrow else found

        @functools.wraps(rule)
        def function(*operands: Any) -> Any:
            with np.errstate(all="ignore"):
                return apply(*_converted(operands))

        for name in (rule.__name__, *aliases):
            RULES[name] = apply
        return function

    return register


def _converted(operands: tuple[Any, ...]) -> list[Any]:
    """Operands in float32 where they all promote to it, else in float64."""
    from .trace.functions.registry import lift, trace_of

    if promote.is_traced(operands):
        trace = trace_of(*operands)
        nodes = [lift(x, *operands).node for x in operands]
        given = [promote.dtype_or_weak(n) for n in nodes]
        target = _float_of(*given)
        from .trace.tracer import Tracer

        return [Tracer.of(trace, promote.cast(trace, n, target)) for n in nodes]
    weak = (bool, int, float)
    arrays = [x if type(x) in weak else np.asarray(x) for x in operands]
    target = _float_of(*(type(x) if type(x) in weak else x.dtype for x in arrays))
    return [np.asarray(x, target) for x in arrays]


def _float_of(*dtypes: Any) -> np.dtype:
    """The dtype of the loop, from dtypes and the types of Python numbers."""
    zero = {bool: False, int: 0, float: 0.0}
    common = np.result_type(*(zero.get(d, d) for d in dtypes))
    if common.kind == "c":
        raise UnsupportedError(f"{here()}: special functions of complex values are not supported; use x.real")
    return np.dtype(np.float32 if common == np.float32 else np.float64)


def _op(name: str, x: Any) -> Any:
    """An op of the op table; outside of a trace its definition."""
    if not promote.is_traced(x):
        return SPECIAL[name](x)
    from .trace.tracer import Tracer

    return Tracer.of(x._trace, promote.elementwise(x._trace, OPS[name], (x.node,)))


# -- the normal distribution ------------------------------------------------------------------------
@_of_scipy()
def erf(x: Any, /) -> Any:
    """The error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x."""
    return _op("erf", x)


@_of_scipy()
def erfc(x: Any, /) -> Any:
    """1 - erf(x), without cancellation."""
    return _op("erfc", x)


@_of_scipy()
def erfcx(x: Any, /) -> Any:
    """exp(x**2) erfc(x)."""
    return _op("erfcx", x)


@_of_scipy()
def ndtr(x: Any, /) -> Any:
    """The cumulative distribution function of the standard normal distribution."""
    return _op("ndtr", x)


@_of_scipy()
def log_ndtr(x: Any, /) -> Any:
    """The logarithm of `ndtr`."""
    return _op("log_ndtr", x)


# -- gamma functions --------------------------------------------------------------------------------
@_of_scipy()
def gamma(x: Any, /) -> Any:
    """The gamma function, (x - 1)! of positive integers; NaN at negative ones."""
    return _op("gamma", x)


@_of_scipy()
def gammaln(x: Any, /) -> Any:
    """log(abs(gamma(x)))."""
    return _op("gammaln", x)


@_of_scipy()
def loggamma(x: Any, /) -> Any:
    """log(gamma(x)) of positive numbers; NaN below 0."""
    return np.where(x < 0, np.nan, _op("gammaln", x))


@_of_scipy()
def gammasgn(x: Any, /) -> Any:
    """The sign of gamma(x): 1 or -1, NaN at negative integers."""
    below = np.floor(x)
    parity = below - 2.0 * np.floor(0.5 * below)
    negative = np.where(below == x, np.nan, 1.0 - 2.0 * parity)
    return np.where(x > 0, np.abs(np.sign(x)), np.where(x == 0, np.copysign(1.0, x), negative))


@_of_scipy("psi")
def digamma(x: Any, /) -> Any:
    """The derivative of log(gamma(x))."""
    return _op("digamma", x)


# -- logistic functions -----------------------------------------------------------------------------
@_of_scipy()
def expit(x: Any, /) -> Any:
    """1 / (1 + exp(-x))."""
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1.0) / (small + 1.0)


@_of_scipy()
def log_expit(x: Any, /) -> Any:
    """The logarithm of `expit`."""
    return np.minimum(x, 0.0) - np.log1p(np.exp(-np.abs(x)))


@_of_scipy()
def logit(p: Any, /) -> Any:
    """log(p / (1 - p)), the inverse of `expit`."""
    middle = (p >= 0.3) & (p <= 0.65)
    return np.where(middle, 2.0 * np.arctanh(2.0 * p - 1.0), np.log(p / (1.0 - p)))


# -- entropy and losses -----------------------------------------------------------------------------
@_of_scipy()
def xlogy(x: Any, y: Any, /) -> Any:
    """x log(y), 0 where x is 0 and y is not NaN."""
    return np.where((x == 0) & ~np.isnan(y), 0.0, x * np.log(y))


@_of_scipy()
def xlog1py(x: Any, y: Any, /) -> Any:
    """x log(1 + y), 0 where x is 0 and y is not NaN."""
    return np.where((x == 0) & ~np.isnan(y), 0.0, x * np.log1p(y))


@_of_scipy()
def entr(x: Any, /) -> Any:
    """-x log(x), 0 at 0, minus infinity below."""
    found = np.where(x > 0, -x * np.log(x), np.where(x == 0, np.abs(x), -np.inf))
    return np.where(np.isnan(x), x, found)


@_of_scipy(wide=True)
def rel_entr(x: Any, y: Any, /) -> Any:
    """x log(x / y) of positive numbers, 0 where x is 0, infinity outside."""
    ratio = x / y
    near = (ratio > 0.5) & (ratio < 2.0)
    inside = (ratio > np.finfo(x.dtype).tiny) & (ratio < np.inf)
    logs = np.where(inside, np.log(ratio), np.log(x) - np.log(y))
    positive = x * np.where(near, np.log1p((x - y) / y), logs)
    return _relative(x, y, positive, np.zeros_like(y))


@_of_scipy(wide=True)
def kl_div(x: Any, y: Any, /) -> Any:
    """x log(x / y) - x + y of positive numbers, y where x is 0, infinity outside."""
    return _relative(x, y, x * np.log(x / y) - x + y, y)


def _relative(x: Any, y: Any, positive: Any, at_zero: Any) -> Any:
    found = np.where((x > 0) & (y > 0), positive, np.where((x == 0) & (y >= 0), at_zero, np.inf))
    return np.where(np.isnan(x) | np.isnan(y), np.nan, found)


@_of_scipy()
def huber(delta: Any, r: Any, /) -> Any:
    """r**2 / 2 up to delta, delta (abs(r) - delta / 2) beyond; infinity where delta is negative."""
    size = np.abs(r)
    found = np.where(size <= delta, 0.5 * r * r, delta * (size - 0.5 * delta))
    return np.where(delta < 0, np.inf, found)


@_of_scipy(wide=True)
def pseudo_huber(delta: Any, r: Any, /) -> Any:
    """delta**2 (sqrt(1 + (r / delta)**2) - 1); infinity where delta is negative."""
    ratio = r / delta
    found = delta * delta * np.expm1(0.5 * np.log1p(ratio * ratio))
    return np.where(delta < 0, np.inf, np.where((delta == 0) | (r == 0), 0.0, found))


# -- powers -----------------------------------------------------------------------------------------
@_of_scipy()
def exp10(x: Any, /) -> Any:
    """10**x."""
    return np.power(10.0, x)


@_of_scipy(wide=True)
def exprel(x: Any, /) -> Any:
    """(exp(x) - 1) / x, 1 at 0."""
    found = np.expm1(x) / x
    return np.where(np.abs(x) < 1e-17, 1.0, np.where(x == np.inf, np.inf, found))


@_of_scipy(wide=True)
def cosm1(x: Any, /) -> Any:
    """cos(x) - 1, without cancellation."""
    half = np.sin(0.5 * x)
    return -2.0 * half * half


@_of_scipy(wide=True)
def boxcox(x: Any, lmbda: Any, /) -> Any:
    """(x**lmbda - 1) / lmbda, log(x) where lmbda is 0."""
    return _box_cox(np.log(x), lmbda)


@_of_scipy(wide=True)
def boxcox1p(x: Any, lmbda: Any, /) -> Any:
    """((1 + x)**lmbda - 1) / lmbda, log(1 + x) where lmbda is 0."""
    return _box_cox(np.log1p(x), lmbda)


def _box_cox(log: Any, lmbda: Any) -> Any:
    exponent = lmbda * log
    # Where the power overflows, it may not once it is divided.
    large = np.copysign(1.0, lmbda) * np.exp(exponent - np.log(np.abs(lmbda))) - 1.0 / lmbda
    found = np.where(exponent < np.log(np.finfo(log.dtype).max), np.expm1(exponent) / lmbda, large)
    flat = (np.abs(lmbda) < 1e-19) | ((np.abs(log) < 1e-289) & (np.abs(lmbda) < 1e273))
    return np.where(flat, log, found)


@_of_scipy(wide=True)
def inv_boxcox(x: Any, lmbda: Any, /) -> Any:
    """The inverse of `boxcox`."""
    return np.where(lmbda == 0, np.exp(x), np.exp(_inverse_log(x, lmbda)))


@_of_scipy(wide=True)
def inv_boxcox1p(x: Any, lmbda: Any, /) -> Any:
    """The inverse of `boxcox1p`."""
    found = np.where(np.abs(lmbda * x) < 1e-154, x, np.expm1(_inverse_log(x, lmbda)))
    return np.where(lmbda == 0, np.expm1(x), found)


def _inverse_log(x: Any, lmbda: Any) -> Any:
    """log(1 + lmbda x) / lmbda, also where the product overflows."""
    product = lmbda * x
    overflows = (product == np.inf) & np.isfinite(lmbda) & np.isfinite(x)
    return np.where(overflows, np.log(np.abs(lmbda)) + np.log(np.abs(x)), np.log1p(product)) / lmbda


for _name in ("exp2", "expm1", "log1p", "cbrt"):
    RULES[_name] = getattr(np, _name)

__all__ = sorted(name for name in RULES if name in globals())
