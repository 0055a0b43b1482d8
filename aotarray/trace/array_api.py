"""What the array API standard asks of `aotarray.numpy` and of traced arrays beyond what NumPy has.

The functions are written with NumPy's own, so that they take plain and traced arrays alike.
https://data-apis.org/array-api/2024.12
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import UnsupportedError
from .context import here

VERSION = "2024.12"
VERSIONS = ("2021.12", "2022.12", "2023.12", VERSION)
#: where a traced array is, in the words of NumPy
DEVICE = "cpu"

_KINDS = {
    "bool": "bool",
    "signed integer": "int8 int16 int32 int64",
    "unsigned integer": "uint8 uint16 uint32 uint64",
    "integral": "int8 int16 int32 int64 uint8 uint16 uint32 uint64",
    "real floating": "float32 float64",
    "complex floating": "complex64 complex128",
    "numeric": "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128",
}


def sort(
    x: Any,
    /,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: bool = False,
) -> Any:
    """`numpy.sort`, largest first where `descending`: then NaN comes first."""
    found = np.sort(x, axis=axis, kind=kind, order=order, stable=stable)
    return np.flip(found, axis) if descending else found


def argsort(
    x: Any,
    /,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: bool = False,
) -> Any:
    """`numpy.argsort`; equal elements keep their order unless `stable` is False or a `kind` is named."""
    if kind is None and stable is None:
        stable = True
    if not descending:
        return np.argsort(x, axis=axis, kind=kind, order=order, stable=stable)
    # Among equal elements the last of the reversed array comes first again when all is reversed once more.
    length = np.shape(x)[axis]
    found = np.argsort(np.flip(x, axis), axis=axis, kind=kind, order=order, stable=stable)
    return np.flip(length - 1 - found, axis)


def finfo(type: Any, /) -> Any:
    """`numpy.finfo` of a dtype, or of an array's."""
    return np.finfo(_dtype_of(type))


def iinfo(type: Any, /) -> Any:
    """`numpy.iinfo` of a dtype, or of an array's."""
    return np.iinfo(_dtype_of(type))


def _dtype_of(type: Any) -> Any:
    is_array = isinstance(type, (np.ndarray, np.generic)) or getattr(type, "_is_tracer", False) is True
    return type.dtype if is_array else type


def fftfreq(n: Any, /, d: Any = 1.0, device: Any = None, *, dtype: Any = None) -> Any:
    """`numpy.fft.fftfreq` in `dtype`."""
    return _in(np.fft.fftfreq(n, d, device=device), dtype)


def rfftfreq(n: Any, /, d: Any = 1.0, device: Any = None, *, dtype: Any = None) -> Any:
    """`numpy.fft.rfftfreq` in `dtype`."""
    return _in(np.fft.rfftfreq(n, d, device=device), dtype)


def _in(x: Any, dtype: Any) -> Any:
    return x if dtype is None else x.astype(dtype)


class NamespaceInfo:
    """What `__array_namespace_info__()` returns: devices and dtypes, and what sizes may depend on."""

    def capabilities(self) -> dict[str, Any]:
        """All that NumPy can."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        return DEVICE

    def devices(self) -> list[str]:
        return [DEVICE]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """What functions use where no dtype is named."""
        check_device(device)
        names = {"real floating": "f8", "complex floating": "c16", "integral": "i8", "indexing": "i8"}
        return {kind: np.dtype(name) for kind, name in names.items()}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype]:
        """The standard's dtypes, of a kind (a name or several) or all."""
        check_device(device)
        kinds = ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind
        for one in kinds:
            if one not in _KINDS:
                raise ValueError(f"unsupported kind: {one!r}; choose one of {', '.join(sorted(_KINDS))}")
        return {name: np.dtype(name) for one in kinds for name in _KINDS[one].split()}


def check_device(device: Any) -> None:
    """ValueError unless `device` is none or "cpu"."""
    if device not in (None, DEVICE):
        raise ValueError(f'{here()}: Device not understood. Only "cpu" is allowed, but received: {device}')


# -- of traced arrays -----------------------------------------------------------------------------
def namespace_of(self: Any, /, *, api_version: str | None = None) -> Any:
    """The module with the standard's functions for a traced array."""
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(
            f"{here()}: version {api_version!r} of the array API is not supported; {', '.join(VERSIONS)} are"
        )
    from .. import numpy

    return numpy


def to_device(self: Any, device: Any, /, *, stream: Any = None) -> Any:
    """The array itself: a compiled function runs on one device."""
    if stream is not None:
        raise ValueError(f"{here()}: The stream argument to to_device() is not supported")
    check_device(device)
    return self


def dlpack(self: Any, /, **kwargs: Any) -> Any:
    """Refused: there is no memory to share while a function is traced."""
    raise UnsupportedError(
        f"{here()}: a traced array has no memory that another library could read through DLPack; use the functions of "
        f"x.__array_namespace__(), or return the array and convert the result"
    )


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """`numpy.from_dlpack`; a traced array is what it is."""
    if not getattr(x, "_is_tracer", False):
        return np.from_dlpack(x, **({} if device is None else {"device": device}), copy=copy)
    check_device(device)
    return x.copy() if copy else x


#: the functions that take NumPy's place in `aotarray.numpy`, by dotted name
FUNCTIONS = {
    "sort": sort, "argsort": argsort, "finfo": finfo, "iinfo": iinfo, "from_dlpack": from_dlpack,
    "fft.fftfreq": fftfreq, "fft.rfftfreq": rfftfreq,
}  # fmt: skip
#: methods and properties of traced arrays
METHODS: dict[str, Any] = {
    "__array_namespace__": namespace_of, "to_device": to_device, "device": property(lambda self: DEVICE),
    "__dlpack__": dlpack, "__dlpack_device__": dlpack,
}  # fmt: skip
