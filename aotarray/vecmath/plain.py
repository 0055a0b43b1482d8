"""The names that generated source imports, as plain Python on NumPy scalars: it runs without any compiler.

Scalar functions come from the definitions that the compiled code is made of, so that both give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import FUNCTIONS, python_function
from .primitives import NUMPY

nan = np.float64(np.nan)
inf = np.float64(np.inf)


def _constructor(kind: Any) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(value).astype(kind)[()]

    convert.__name__ = convert.__qualname__ = np.dtype(kind).name
    convert.__doc__ = f"`value` as {np.dtype(kind).name}; integers wrap."
    return convert


def where(test: Any, a: Any, b: Any) -> Any:
    """`a` where `test` holds, else `b`."""
    return a if test else b


def fast_add(a: Any, b: Any) -> Any:
    """`a + b`, which compiled code may add in vector order."""
    return a + b


def fast_multiply(a: Any, b: Any) -> Any:
    """`a * b`, which compiled code may multiply in vector order."""
    return a * b


def fold_max(a: Any, b: Any) -> Any:
    """The larger value; NaN where one is NaN, and 0.0 is larger than -0.0."""
    if a == b:
        return b if np.signbit(a) else a
    return np.maximum(a, b)


def fold_min(a: Any, b: Any) -> Any:
    """The smaller value; NaN where one is NaN, and -0.0 is smaller than 0.0."""
    if a == b:
        return a if np.signbit(a) else b
    return np.minimum(a, b)


_NAMES = {np.dtype(kind).name: _constructor(kind) for code, kind in NUMPY.items() if code != "b1"}


def __getattr__(name: str) -> Any:
    """Dtype constructors and scalar functions, by name."""
    if name in _NAMES:
        return _NAMES[name]
    if name in FUNCTIONS:
        function = python_function(name)
        return lambda *operands: function(*(np.asarray(x)[()] for x in operands))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
