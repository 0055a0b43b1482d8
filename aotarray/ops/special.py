"""Special functions that NumPy has no ufunc for: what the op table holds in its place.

Each is called as a ufunc of float32 and float64, element by element in plain Python. So it defines what compiled
code is tested against.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class SpecialFunction:
    """A function of one real number, as a ufunc: float32 gives float32, float64 gives float64."""

    nin = nout = 1

    def __init__(self, name: str, exact: Callable[[float], float]) -> None:
        self.__name__ = name
        self.exact = exact

    def __call__(self, x: Any) -> Any:
        """The function of an array of float32 or float64; an array of its dtype and shape."""
        x = np.asarray(x)
        found = np.array([self.exact(v) for v in x.ravel().tolist()], np.float64)
        with np.errstate(all="ignore"):
            return found.reshape(x.shape).astype(x.dtype)[()]

    def resolve_dtypes(self, dtypes: tuple[Any, ...]) -> tuple[Any, ...]:
        """The loop's dtypes, as `numpy.ufunc.resolve_dtypes` has them."""
        if dtypes[0] not in _FLOATS:
            raise TypeError(f"{self.__name__} has no loop of {dtypes[0]}")
        return dtypes[0], dtypes[0]


def _scaled_erfc(x: float) -> float:
    if x < 25.0:
        return math.exp(x * x) * math.erfc(x) if x > -26.65 else math.inf
    total, term = 0.0, 1.0
    for k in range(1, 12):
        total += term
        term *= -(2 * k - 1) / (2.0 * x * x)
    return total / (x * math.sqrt(math.pi)) if x == x else x


def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x * math.sqrt(0.5))


def _log_normal_cdf(x: float) -> float:
    z = x * math.sqrt(0.5)
    if x > -1.0:
        return math.log1p(-0.5 * math.erfc(z))
    return math.log(0.5 * _scaled_erfc(-z)) - z * z if math.isfinite(x) else x


def _log_gamma(x: float) -> float:
    if not math.isfinite(x):
        return x
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):  # at a pole, or too large
        return math.inf


def _gamma(x: float) -> float:
    try:
        return math.gamma(x)
    except OverflowError:
        return math.inf
    except ValueError:  # at a pole
        return math.copysign(math.inf, x) if x == 0 else math.nan


def _digamma(x: float) -> float:
    """By recurrence and Stirling's series; below 0 by reflection (Abramowitz and Stegun, 6.3.7 and 6.3.18)."""
    if x == 0:
        return -math.copysign(math.inf, x)
    if x < 0:
        rest = math.fmod(x, 1.0)
        return math.nan if not rest else _digamma(1.0 - x) - math.pi / math.tan(math.pi * rest)
    total = 0.0
    while x < 16.0:
        total -= 1.0 / x
        x += 1.0
    z = 1.0 / (x * x)
    series = z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132 - z * 691 / 32760)))))
    return total + math.log(x) - 0.5 / x - series


SPECIAL = {
    f.__name__: f
    for f in (
        SpecialFunction("erf", math.erf),
        SpecialFunction("erfc", math.erfc),
        SpecialFunction("erfcx", _scaled_erfc),
        SpecialFunction("ndtr", _normal_cdf),
        SpecialFunction("log_ndtr", _log_normal_cdf),
        SpecialFunction("gammaln", _log_gamma),
        SpecialFunction("gamma", _gamma),
        SpecialFunction("digamma", _digamma),
    )
}
