"""np.fft: transforms as calls of NumPy's, shifts as views, frequencies from a size."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import sizes
from ...sizes import Dim
from ..context import here
from ..library import call, probe
from ..size_value import as_dim, wrap
from ..tracer import Tracer
from .elementwise import deliver, op, where
from .joining import roll
from .reductions import normalise_axes
from .registry import array, implements, trace_of


def _length(name: str, m: Dim, n: Dim | None) -> Dim:
    """The size of the transformed axis of the result, for an axis of `m` and a given `n`."""
    if name in ("irfft", "hfft"):
        return 2 * (m - 1) if n is None else n
    points = m if n is None else n
    return sizes.floordiv(points, 2) + 1 if name in ("rfft", "ihfft") else points


def _points(n: Any) -> Dim | None:
    size = None if n is None else as_dim(n)
    if isinstance(size, int) and size < 1:
        raise ValueError(f"{here()}: Invalid number of FFT data points ({size}) specified.")
    return size


def _along_one(name: str) -> None:
    @implements(f"fft.{name}")
    def rule(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
        x = array(a, n, out)
        found = probe(getattr(np.fft, name), x, axis=axis, norm=norm)
        (along,) = normalise_axes(x.ndim, axis)
        shape = list(x.node.shape)
        shape[along] = _length(name, shape[along], _points(n))
        keywords = {"n": n, "axis": axis, "norm": norm}
        (result,) = call(x._trace, f"fft.{name}", [x], keywords, results=[(found.dtype, tuple(shape))])
        return deliver(x._trace, result, out)


def _along_several(name: str, default: Any) -> None:
    last = {"rfft": "rfft", "irff": "irfft"}.get(name[:4], "fft")

    @implements(f"fft.{name}")
    def rule(a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: Any = None) -> Any:
        x = array(a, s, out)
        found = probe(getattr(np.fft, name), x, axes=axes, norm=norm)
        given = (
            range(-len(s), 0) if axes is None and s is not None else range(x.ndim) if axes is None else axes
        )
        order = [normalise_axes(x.ndim, k)[0] for k in given]
        if s is not None and len(s) != len(order):
            raise ValueError(f"{here()}: Shape and axes have different lengths.")
        shape = list(x.node.shape)
        for k, along in enumerate(order):
            points = None if s is None or (type(s[k]) is int and s[k] == -1) else _points(s[k])
            kind = last if k == len(order) - 1 else "fft"
            shape[along] = _length(kind, shape[along], points)
        keywords = {"s": s, "axes": tuple(order) if s is not None or axes is not None else None, "norm": norm}
        (result,) = call(x._trace, f"fft.{name}", [x], keywords, results=[(found.dtype, tuple(shape))])
        return deliver(x._trace, result, out)


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _along_one(_name)
for _name in ("fft", "ifft", "rfft", "irfft"):
    _along_several(f"{_name}2", (-2, -1))
    _along_several(f"{_name}n", None)


def _shift(x: Any, axes: Any, inverse: bool) -> Any:
    values = array(x)
    given = (
        tuple(range(values.ndim)) if axes is None else axes if isinstance(axes, (tuple, list)) else (axes,)
    )
    order = [normalise_axes(values.ndim, k)[0] for k in given]
    halves = [sizes.floordiv(values.node.shape[k], 2) for k in order]
    return roll(values, tuple(wrap(-h if inverse else h, values._trace) for h in halves), tuple(order))


@implements("fft.fftshift")
def fftshift(x: Any, axes: Any = None) -> Any:
    return _shift(x, axes, inverse=False)


@implements("fft.ifftshift")
def ifftshift(x: Any, axes: Any = None) -> Any:
    return _shift(x, axes, inverse=True)


@implements("fft.fftfreq")
def fftfreq(n: Any, d: Any = 1.0, device: Any = None) -> Any:
    """For a size or a spacing that is traced; NumPy's order of operations."""
    k = array(np.arange(n) if type(n) is int else _counted(n), n, d)
    negative = op("greater", k, (n - 1) // 2)
    return op("multiply", where(negative, op("subtract", k, n), k), 1.0 / (n * d))


@implements("fft.rfftfreq")
def rfftfreq(n: Any, d: Any = 1.0, device: Any = None) -> Any:
    k = array(np.arange(n // 2 + 1) if type(n) is int else _counted(n // 2 + 1), n, d)
    return op("multiply", k, 1.0 / (n * d))


def _counted(n: Any) -> Any:
    """0, 1, ... below a traced size."""
    trace = trace_of(n)
    size = as_dim(n)
    if size is None:
        raise TypeError(f"{here()}: n should be an integer")
    return Tracer.of(trace, trace.graph.apply("iota", where=here(), length=size))
