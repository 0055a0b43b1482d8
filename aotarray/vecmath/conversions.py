"""Conversions that are no single instruction: float to integer as NumPy on x86-64, and float16.

A float out of the integer's range is undefined in C; what NumPy gives there is the instruction's answer, the
lowest integer, and narrower integers take the low bits of int32's. float16 is carried as its 16 bits (u16).
"""

from __future__ import annotations

from aotarray.vecmath.primitives import Scalar, bits, constant, convert, dtype_of, from_bits, select
from aotarray.vecmath.registry import define

LOWEST = {"i32": -(2.0**31), "i64": -(2.0**63)}


def _truncate(x: Scalar, to: str) -> Scalar:
    """cvttsd2si: towards zero, the lowest integer where that does not fit."""
    if to == "i32" and dtype_of(x) == "f64":
        inside = (x > -(2.0**31) - 1.0) & (x < 2.0**31)
    else:
        inside = (x >= LOWEST[to]) & (x < -LOWEST[to])
    return convert(select(inside, x, LOWEST[to]), to)


@define("to_i32", "f32", "f64", result="i32")
def to_i32(x: Scalar) -> Scalar:
    return _truncate(x, "i32")


@define("to_i64", "f32", "f64", result="i64")
def to_i64(x: Scalar) -> Scalar:
    return _truncate(x, "i64")


@define("to_i8", "f32", "f64", result="i8")
def to_i8(x: Scalar) -> Scalar:
    return convert(_truncate(x, "i32"), "i8")


@define("to_i16", "f32", "f64", result="i16")
def to_i16(x: Scalar) -> Scalar:
    return convert(_truncate(x, "i32"), "i16")


@define("to_u8", "f32", "f64", result="u8")
def to_u8(x: Scalar) -> Scalar:
    return convert(_truncate(x, "i32"), "u8")


@define("to_u16", "f32", "f64", result="u16")
def to_u16(x: Scalar) -> Scalar:
    return convert(_truncate(x, "i32"), "u16")


@define("to_u32", "f32", "f64", result="u32")
def to_u32(x: Scalar) -> Scalar:
    """As through int64, which holds every uint32."""
    return convert(_truncate(x, "i64"), "u32")


@define("to_u64", "f32", "f64", result="u64")
def to_u64(x: Scalar) -> Scalar:
    low = convert(_truncate(x, "i64"), "u64")
    high = convert(_truncate(x - 2.0**63, "i64"), "u64") ^ (1 << 63)
    return select(x >= 2.0**63, high, low)


@define("half_to_float", "u16", result="f32")
def half_to_float(h: Scalar) -> Scalar:
    """Exact: a multiplication moves the exponent, and makes subnormals normal."""
    word = convert(h, "u32")
    magnitude = (word & 0x7FFF) << 13
    scaled = bits(from_bits(magnitude) * 2.0**112)
    special = magnitude | 0x7F800000
    return from_bits(select(magnitude >= 0x0F800000, special, scaled) | ((word & 0x8000) << 16))


def _round_shift(word: Scalar, count: int) -> Scalar:
    """word / 2**count rounded to nearest even."""
    odd = (word >> count) & 1
    return (word + (odd + ((1 << (count - 1)) - 1))) >> count


@define("float_to_half", "f32", result="u16")
def float_to_half(x: Scalar) -> Scalar:
    """Round to nearest even; a NaN keeps the upper bits of its payload, and stays a NaN."""
    word = bits(x)
    magnitude = word & 0x7FFFFFFF
    normal = _round_shift(magnitude - (112 << 23), 13)
    # 2**-1 has a unit in the last place of 2**-24, the step of float16's subnormals.
    subnormal = bits(from_bits(magnitude) + 0.5) - 0x3F000000
    result = select(magnitude < 0x38800000, subnormal, normal)
    result = select(magnitude >= 0x477FF000, constant(0x7C00, word), result)
    payload = (magnitude >> 13) & 0x3FF
    nan = select(payload == 0, constant(0x7C01, word), payload | 0x7C00)
    result = select(magnitude > 0x7F800000, nan, result)
    return convert(result | ((word >> 16) & 0x8000), "u16")


@define("double_to_half", "f64", result="u16")
def double_to_half(x: Scalar) -> Scalar:
    """As `float_to_half`, rounded once from float64."""
    word = bits(x)
    magnitude = word & 0x7FFFFFFFFFFFFFFF
    normal = _round_shift(magnitude - (1008 << 52), 42)
    subnormal = bits(from_bits(magnitude) + 2.0**28) - 0x41B0000000000000
    result = select(magnitude < 0x3F10000000000000, subnormal, normal)
    result = select(magnitude >= 0x40EFFE0000000000, constant(0x7C00, word), result)
    payload = (magnitude >> 42) & 0x3FF
    nan = select(payload == 0, constant(0x7C01, word), payload | 0x7C00)
    result = select(magnitude > 0x7FF0000000000000, nan, result)
    return convert(result | ((word >> 48) & 0x8000), "u16")
