"""`ArrayType`: a dtype and a shape of symbolic sizes; dtype codes and their NumPy dtypes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .sizes import Dim, product

#: dtype codes shared with launcher.c: the position is the code.
DTYPES = ("b1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64", "c64", "c128")

_NUMPY_NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
DTYPE_OF_CODE: dict[str, np.dtype] = {c: np.dtype(n) for c, n in zip(DTYPES, _NUMPY_NAMES, strict=True)}
_CODE_OF_NAME = {n: c for c, n in zip(DTYPES, _NUMPY_NAMES, strict=True)}


_WEAK_NAMES = {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}


def code(dtype: np.dtype) -> str:
    """The short code of a supported native dtype ("f64"); KeyError for any other."""
    return _CODE_OF_NAME[dtype.name]


def is_supported(dtype: np.dtype) -> bool:
    """True for the bool, integer, float16/32/64 and complex64/128 dtypes."""
    return dtype.name in _CODE_OF_NAME and dtype.kind in "biufc"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """The type of a traced value: `dtype` (native byte order) and `shape` (ints and sizes).

    `weak` marks a Python scalar, which takes part in promotion as NumPy's weak scalars do.
    """

    dtype: np.dtype
    shape: tuple[Dim, ...]
    weak: bool = False

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Dim:
        return product(self.shape)

    @property
    def code(self) -> str:
        return code(self.dtype)

    def __str__(self) -> str:
        """As the spec grammar writes it: `f64[n, m]`, or `float` for a Python scalar."""
        if self.weak and not self.shape:
            return _WEAK_NAMES[self.dtype.kind]
        return f"{self.code}[{', '.join(map(str, self.shape))}]"
