"""Elementary and integer scalar functions, as plain Python and as LLVM IR that inlines and vectorises.

`FUNCTIONS` lists them; `definitions` gives the IR of some; `python_function` gives one to call on NumPy
scalars, with the same bits as the IR on machines with fused multiply-add.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from aotarray.vecmath import (  # noqa: F401  (each registers its functions)
    complex_functions,
    conversions,
    error_function,
    exponential,
    gamma_functions,
    integers,
    inverse_trigonometric,
    logarithm,
    power,
    random_bits,
    rounding,
    trigonometric,
)
from aotarray.vecmath.ir import definitions, signature, symbol, without_fma
from aotarray.vecmath.primitives import dtype_of
from aotarray.vecmath.rare_calls import inline_rare_calls
from aotarray.vecmath.registry import BODIES, FUNCTIONS, ScalarFunction

__all__ = [
    "FUNCTIONS",
    "ScalarFunction",
    "definitions",
    "inline_rare_calls",
    "python_function",
    "signature",
    "symbol",
    "without_fma",
]


def python_function(name: str) -> Callable[..., Any]:
    """Function `name` on NumPy scalars of one dtype, giving one; `KeyError` for an unknown name."""
    if name not in FUNCTIONS:
        raise KeyError(f"no scalar function {name}")

    def call(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return BODIES[name, dtype_of(arguments[0])](*arguments)

    call.__name__ = call.__qualname__ = name
    return call
