"""NumPy ufuncs on tracers: calls, `out=`, `where=`, `dtype=`, and the methods reduce, accumulate, outer, at."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..ops import OPS, UFUNC_OPS
from . import promote
from .context import Trace, here
from .tracer import Tracer


def call_ufunc(trace: Trace, ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `__array_ufunc__` answers."""
    if method == "__call__":
        return _call(trace, ufunc, inputs, dict(kwargs))
    from .functions import UFUNC_METHODS

    rule = UFUNC_METHODS.get((ufunc, method)) or UFUNC_METHODS.get((None, method))
    if rule is None:
        raise UnsupportedError(
            f"{here()}: numpy.{ufunc.__name__}.{method} is not supported in compiled functions; write it with the "
            f"functions of docs/supported.md"
        )
    return rule(trace, ufunc, *inputs, **kwargs)


def _call(trace: Trace, ufunc: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    out = kwargs.pop("out", None)
    where = kwargs.pop("where", True)
    dtype = kwargs.pop("dtype", None)
    kwargs.pop("casting", None)
    kwargs.pop("order", None)
    kwargs.pop("subok", None)
    core = {name: kwargs.pop(name) for name in ("axis", "axes", "keepdims") if ufunc.signature and name in kwargs}
    if kwargs:
        raise UnsupportedError(f"{here()}: numpy.{ufunc.__name__} with {', '.join(sorted(kwargs))}= is not supported")
    kind = np.dtype(dtype) if dtype is not None else None
    result = _along(trace, ufunc, inputs, kind, **core) if core else _apply(trace, ufunc, inputs, kind)
    results = result if isinstance(result, tuple) else (result,)
    outs = out if isinstance(out, tuple) else (out,) * len(results)
    finished = tuple(_deliver(trace, r, o, where, ufunc) for r, o in zip(results, outs, strict=True))
    return finished if isinstance(result, tuple) else finished[0]


def _apply(trace: Trace, ufunc: Any, inputs: tuple[Any, ...], dtype: np.dtype | None) -> Any:
    from .functions import FUNCTIONS, UFUNCS

    rule = UFUNCS.get(ufunc)
    if rule is not None:
        return rule(trace, inputs, dtype)
    if ufunc in FUNCTIONS:
        return FUNCTIONS[ufunc](*inputs)
    op = UFUNC_OPS.get(ufunc)
    if op is None:
        from ..special import call_scipy

        found = call_scipy(trace, ufunc, inputs, dtype)
        if found is None:
            raise UnsupportedError(
                f"{here()}: the ufunc {ufunc.__name__} is not supported in compiled functions; write it with those of "
                f"docs/supported.md"
            )
        return found
    operands = [promote.node_of(trace, x) for x in inputs]
    return Tracer.of(trace, promote.elementwise(trace, op, operands, dtype))


def _along(
    trace: Trace, ufunc: Any, inputs: tuple[Any, ...], dtype: np.dtype | None, axis: Any = None, axes: Any = None,
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """A generalised ufunc (`vecdot`, `matmul`) along other axes than the last: they are moved there, and back."""
    *given, made = (len(names.split(",")) if names else 0 for names in re.findall(r"\(([^)]*)\)", ufunc.signature))
    if axis is not None and axes is not None:
        raise TypeError(f"{here()}: cannot specify both 'axis' and 'axes'")
    if (axis is not None or keepdims) and (made or set(given) != {1}):
        raise TypeError(f"{here()}: {ufunc.__name__}: axis= and keepdims= are for functions that fold one axis")
    if axes is None:
        axes = [-1 if axis is None else axis] * len(inputs) if set(given) == {1} else [range(-n, 0) for n in given]
    axes = [(a,) if isinstance(a, int) else tuple(a) for a in axes]
    if len(axes) == len(inputs):
        axes.append(axes[0] if keepdims else tuple(range(-made, 0)))
    moved = []
    for value, at in zip(inputs, axes, strict=False):
        x: Any = Tracer.of(trace, promote.node_of(trace, value))
        moved.append(np.moveaxis(x, at, range(-len(at), 0)))
    result = _apply(trace, ufunc, tuple(moved), dtype)
    if keepdims:
        return np.expand_dims(result, axes[-1])
    return np.moveaxis(result, range(-made, 0), axes[-1]) if made else result


def _deliver(trace: Trace, result: Tracer, out: Any, where: Any, ufunc: Any) -> Any:
    """Write into `out=` where `where=` holds; without either, the result itself."""
    if out is None:
        if where is not True:
            raise UnsupportedError(
                f"{here()}: numpy.{ufunc.__name__} with where= needs out=, as the other elements would be undefined"
            )
        return result
    if not isinstance(out, Tracer):
        raise UnsupportedError(f"{here()}: out= must be an array made inside the compiled function")
    if not np.can_cast(result.dtype, out.dtype, "same_kind"):
        raise TypeError(f"{here()}: cannot cast {ufunc.__name__} output from {result.dtype} to {out.dtype}")
    if where is not True:
        node = select(trace, promote.node_of(trace, where), promote.cast(trace, result.node, out.dtype), out.node)
        out.write(Tracer.of(trace, node))
    else:
        out.write(result)
    return out


def select(trace: Trace, test: Any, a: Any, b: Any) -> Any:
    """`where` on nodes of one dtype, broadcast together."""
    test = promote.cast(trace, test, np.dtype(bool))
    shape = promote.broadcast_shapes(trace, [test.shape, a.shape, b.shape], "where")
    parts = [promote.broadcast_node(trace, x, shape) for x in (test, a, b)]
    return trace.graph.apply("where", parts, here())


__all__ = ["OPS", "call_ufunc", "select"]
