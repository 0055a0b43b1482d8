"""What cannot be compiled, and the way round: results whose size depends on values, sorting, decompositions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import UnsupportedError
from ..context import here
from .registry import FUNCTIONS, METHODS, implements

_DEPENDS = "its result's size depends on values; {}"
_SORTS = "sorting is not compiled yet; sort outside the compiled function"
_SOLVES = "decompositions and solvers are not compiled; call it outside the compiled function and pass the result in"
_WAYS = {
    _DEPENDS.format("use np.where(mask, a, b), or a reduction with where=mask"): (
        "nonzero flatnonzero argwhere extract compress delete insert trim_zeros"
    ),
    _DEPENDS.format("call it outside the compiled function"): (
        "unique unique_values unique_counts unique_inverse unique_all union1d intersect1d setdiff1d setxor1d bincount"
    ),
    _SORTS: "sort argsort lexsort partition argpartition sort_complex median nanmedian percentile nanpercentile "
    "quantile nanquantile",
    "it searches a sorted array; for few bins use (x[..., None] >= bins).sum(-1), which searchsorted(side='right') equals": (
        "searchsorted digitize"
    ),
    "count with (x[:, None] == np.arange(k)).sum(0), or call it outside the compiled function": (
        "histogram histogram2d histogramdd histogram_bin_edges"
    ),
    "use ((a[:, None] == b).any(1)) for small b": "isin",
    "multiply and sum shifted slices instead": "convolve correlate",
    "compute it from x - x.mean(...) and @": "cov corrcoef",
    "evaluate the polynomial by Horner's rule": "polyval polyfit poly roots polyadd polymul",
    "write the loop over axes as array operations": "apply_along_axis apply_over_axes",
    "put values with np.where, or slices": "put put_along_axis place putmask fill_diagonal",
    "return the array and print it outside": "array2string array_repr array_str savetxt save",
    "use explicit shapes": "resize",
    "work on integer types of one width, by shifts and masks": "packbits unpackbits",
    _SOLVES: "linalg.solve linalg.inv linalg.det linalg.slogdet linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh "
    "linalg.svd linalg.svdvals linalg.qr linalg.cholesky linalg.lstsq linalg.pinv linalg.matrix_rank linalg.cond "
    "linalg.tensorinv linalg.tensorsolve",
    "transforms are not compiled; call it outside the compiled function": (
        "fft.fft fft.ifft fft.rfft fft.irfft fft.fft2 fft.ifft2 fft.fftn fft.ifftn fft.rfft2 fft.irfft2 fft.rfftn "
        "fft.irfftn fft.hfft fft.ihfft fft.fftshift fft.ifftshift"
    ),
}
_METHODS = {
    "flat": "use x.reshape(-1)", "sort": _SORTS, "argsort": _SORTS, "partition": _SORTS, "argpartition": _SORTS,
    "nonzero": "its result's size depends on values; use np.where(mask, a, b)", "compress": "use np.where(mask, x, 0)",
    "searchsorted": "use (x[..., None] >= bins).sum(-1)", "put": "use np.where, or slices", "itemset": "assign to a slice",
    "view": "reinterpreting bytes is not supported; use astype to convert values", "tobytes": "return the array instead",
    "tofile": "return the array instead", "dump": "return the array instead", "dumps": "return the array instead",
    "resize": "use reshape", "byteswap": "arrays are in native byte order inside a compiled function",
    "setfield": "use slices", "getfield": "use astype", "setflags": "copy the array instead", "data": "return the array instead",
    "ctypes": "return the array instead", "strides": "layout is not visible inside a compiled function; use shape",
    "flags": "layout is not visible inside a compiled function", "base": "use the array it is a view of",
}  # fmt: skip
_PROPERTIES = {"flat", "data", "ctypes", "strides", "flags", "base"}


def _refusal(name: str, way: str) -> Callable[..., Any]:
    def rule(*args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(f"{here()}: {name} is not supported in compiled functions: {way}")

    return rule


def _fill() -> None:
    import numpy as np

    for way, names in _WAYS.items():
        for dotted in names.split():
            found: Any = np
            for part in dotted.split("."):
                found = getattr(found, part, None)
            if found is not None and found not in FUNCTIONS:
                implements(dotted)(_refusal(f"numpy.{dotted}", way))
    for name, way in _METHODS.items():
        rule = _refusal(f"ndarray.{name}", way)
        METHODS.setdefault(name, property(rule) if name in _PROPERTIES else rule)  # type: ignore[arg-type]


_fill()
