"""What NumPy functions do with tracers: tables from NumPy callables to rules, filled by the modules beside.

FUNCTIONS      NumPy function (`__array_function__`) -> rule(*args, **kwargs)
UFUNCS         ufunc that is not one op -> rule(trace, inputs, dtype)
UFUNC_METHODS  (ufunc or None, method) -> rule(trace, ufunc, *inputs, **kwargs)
METHODS        ndarray method or property name -> rule(tracer, ...), installed on Tracer
"""

from __future__ import annotations

from .. import array_api
from . import (  # noqa: F401  (each fills the tables)
    creation,
    einsum,
    elementwise,
    finding,
    joining,
    linear_algebra,
    norms,
    numeric,
    ordering,
    padding,
    products,
    reductions,
    running,
    scatter,
    selecting,
    shaping,
    statistics,
    transforms,
    ufunc_rules,
    unsupported,
)
from .joining import stack_sequence
from .registry import FUNCTIONS, METHODS, UFUNC_METHODS, UFUNCS, install

METHODS.update(array_api.METHODS)
install()

__all__ = ["FUNCTIONS", "METHODS", "UFUNCS", "UFUNC_METHODS", "stack_sequence"]
