"""What cannot be compiled, and the way round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ..context import here
from .registry import FUNCTIONS, METHODS, implements

_POLYNOMIAL = "use np.polyval with coefficients computed outside"
_LAYOUT = "layout is not visible inside a compiled function; use shape"
_RETURN = "return the array instead"
_SHOW = "print it with aotarray.debug.print, or return the array"

#: (way round, functions)
REFUSED_FUNCTIONS = (
    ("use np.concatenate of slices and what goes between", "insert"),
    ("use np.histogram2d, or np.digitize of each coordinate and np.add.at", "histogramdd"),
    (_POLYNOMIAL, "polyadd polymul polysub polydiv polyder polyint"),
    ("write the loop over axes as array operations", "apply_along_axis apply_over_axes"),
    (_SHOW, "array2string array_repr array_str"),
    ("use explicit shapes", "resize"),
    ("work on integers of one width, by shifts and masks", "packbits unpackbits"),
    ("its dtype depends on values; use x.real", "real_if_close"),
    ("use np.exp(np.linspace(np.log(a), np.log(b), n))", "geomspace"),
    ("index with a[:, None] and b[None, :]", "ix_"),
    ("use masks: np.arange(n)[:, None] >= np.arange(m)", "tril_indices_from triu_indices_from diag_indices_from"),
    ("memory is not visible inside a compiled function", "shares_memory may_share_memory"),
    ("the order of contraction is chosen here; call np.einsum", "einsum_path"),
    ("dates are not compiled; pass integers", "isnat busday_count busday_offset is_busday datetime_as_string"),
    ("return the array and save it outside", "save savetxt savez savez_compressed"),
)
_WALK = "write array operations, or aotarray.map over the first axis"
#: those that no protocol of NumPy's reaches, or only through each element: refused when given a traced value
REFUSED_PLAIN = (
    ("use astype; layout is not visible inside a compiled function", "require"),
    (_LAYOUT, "isfortran"),
    ("use aotarray.check(np.isfinite(x))", "asarray_chkfinite"),
    ("use np.broadcast_arrays, or np.broadcast_shapes of the shapes", "broadcast"),
    (_WALK, "nditer nested_iters"),
    ("use np.stack of the values", "fromiter"),
    (_POLYNOMIAL, "poly roots"),
    ("use arrays of two axes, and @ for their product", "asmatrix bmat"),
    ("memory is not visible inside a compiled function", "from_dlpack"),
    (_SHOW, "format_float_positional format_float_scientific base_repr binary_repr"),
)
#: classes that are refused by what they do with a traced array
REFUSED_CLASSES = (
    ("use arrays of two axes, and @ for their product", "matrix"),
    (_POLYNOMIAL, "poly1d"),
    (_WALK, "ndenumerate vectorize"),
)
#: what is no business of traced arrays: it runs while tracing, on values known then, as in plain NumPy
PLAIN = (
    ("dtypes and kinds of values",
     "dtype finfo iinfo promote_types issubdtype isdtype mintypecode typename datetime_data isscalar iterable"),
    ("shapes and indices of known sizes",
     "broadcast_shapes ndindex mask_indices diag_indices tril_indices triu_indices"),
    ("windows of known lengths", "bartlett blackman hamming hanning kaiser"),
    ("files and memory",
     "fromfile load loadtxt genfromtxt fromregex fromstring frombuffer memmap recarray busdaycalendar"),
    ("settings and information",
     "errstate geterr seterr geterrcall seterrcall getbufsize setbufsize printoptions get_printoptions "
     "set_printoptions get_include show_config show_runtime info test __array_namespace_info__"),
    ("making ufuncs of Python functions, which are refused traced arrays", "frompyfunc"),
    ("base classes", "ndarray ufunc flatiter"),
    ("another name of vstack", "row_stack"),
)  # fmt: skip
REFUSED_METHODS = (
    ("use np.where, or slices", "itemset setfield"),
    ("reinterpreting bytes is not supported; use astype to convert values", "view getfield"),
    ("arrays are in native byte order inside a compiled function", "byteswap"),
    ("use reshape", "resize"),
    ("copy the array instead", "setflags"),
    (_RETURN, "tobytes tofile dump dumps"),
)
REFUSED_PROPERTIES = (
    ("use x.reshape(-1)", "flat"),
    (_LAYOUT, "strides flags"),
    (_RETURN, "data ctypes"),
    ("use the array it is a view of", "base"),
)


def _refusal(name: str, way: str) -> Callable[..., Any]:
    def rule(*args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(f"{here()}: {name} is not supported in compiled functions: {way}")

    return rule


def _find(dotted: str) -> Any:
    """NumPy's function of this name, or None where this NumPy has none."""
    found: Any = np
    for part in dotted.split("."):
        found = getattr(found, part, None)
    return found


for _way, _names in REFUSED_FUNCTIONS:
    for _name in _names.split():
        if _find(_name) is not None and _find(_name) not in FUNCTIONS:
            implements(_name)(_refusal(f"numpy.{_name}", _way))
#: name -> rule of `REFUSED_PLAIN`, for the stand-ins
REFUSALS = {
    name: _refusal(f"numpy.{name}", way)
    for way, names in REFUSED_PLAIN
    for name in names.split()
    if hasattr(np, name)
}
for _way, _names in REFUSED_METHODS:
    for _name in _names.split():
        METHODS.setdefault(_name, _refusal(f"ndarray.{_name}", _way))
for _way, _names in REFUSED_PROPERTIES:
    for _name in _names.split():
        METHODS.setdefault(_name, property(_refusal(f"ndarray.{_name}", _way)))  # type: ignore[arg-type]
