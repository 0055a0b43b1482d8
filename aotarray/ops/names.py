"""Names that generated source uses itself, which parameters and sizes therefore cannot have there."""

from __future__ import annotations

import keyword

from .table import OPS

_OTHERS = """
    begin end first last range min max where scratch nan inf
    bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64
    fast_add fast_multiply fold_max fold_min bit_count
    double_to_half float_to_half half_to_float to_i8 to_i16 to_i32 to_i64 to_u8 to_u16 to_u32 to_u64
"""

#: the exponents of floats that have a scalar function of their own, besides those that are other ufuncs
KNOWN_POWERS = {
    -3.0: "power_minus_3", -2.5: "power_minus_5_halves", -2.0: "power_minus_2", -1.5: "power_minus_3_halves",
    -0.5: "power_minus_half", 1.5: "power_3_halves", 2.5: "power_5_halves", 3.0: "power_3", 4.0: "power_4",
}  # fmt: skip

#: Python's words, scalar functions, dtypes and the kernels' own parameters
RESERVED = frozenset((
    *keyword.kwlist, *OPS, *(f"complex_{n}_{part}" for n in OPS for part in ("real", "imag")), *_OTHERS.split(),
    *KNOWN_POWERS.values(),
))  # fmt: skip
