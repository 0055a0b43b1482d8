"""Reduction of huge arguments modulo pi/2, by integers.

M. Payne and R. Hanek, "Radian reduction for trigonometric functions", SIGNUM Newsletter 18, 1983: of the
bits of 2/pi, those that give multiples of 4 are left out, and 192 of the following multiply x's integer
mantissa. The fraction of the product is right to 137 bits; no float64 comes closer to a multiple of pi/2
than 2**-62 or so.
"""

from __future__ import annotations

from aotarray.vecmath.primitives import (
    Scalar,
    add_fast,
    bits,
    convert,
    fma,
    from_bits,
    lookup,
    multiply_high,
    select,
    signed,
)

# 2/pi in binary after 64 zero bits.
TWO_OVER_PI = (
    0x0000000000000000,
    0xA2F9836E4E441529,
    0xFC2757D1F534DDC0,
    0xDB6295993C439041,
    0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484,
    0xE99C7026B45F7E41,
    0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F,
    0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08,
    0x56033046FC7B6BAB,
    0xF0CFBC209AF4361D,
    0xA9E391615EE61B08,
)


def reduce_large(x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """r, its error and n with x = n pi/2 + r + error, for float64 of 1 or more; NaN for infinity."""
    word = bits(x)
    exponent = (word >> 52) & 0x7FF
    mantissa = (word & 0x000FFFFFFFFFFFFF) | 0x0010000000000000
    position = exponent - (1075 + 2 - 64)
    index, shift = position >> 6, position & 63
    words = [lookup("aot_two_over_pi", TWO_OVER_PI, index + i) for i in range(4)]
    high, middle, low = ((words[i] << shift) | ((words[i + 1] >> 1) >> (63 - shift)) for i in range(3))
    carry = multiply_high(mantissa, low)
    p1 = mantissa * middle + carry
    overflow = select(p1 < carry, word * 0 + 1, word * 0)
    p0 = mantissa * high + multiply_high(mantissa, middle) + overflow
    p2 = mantissa * low
    # The upper two bits are n; what follows is the fraction, taken as signed to bring it to [-1/2, 1/2).
    f0 = (p0 << 2) | (p1 >> 62)
    f1 = (p1 << 2) | (p2 >> 62)
    negative = f0 >> 63
    n = (p0 >> 62) + negative
    mask = word * 0 - negative
    f0, f1 = f0 ^ mask, f1 ^ mask
    pieces = (f0 >> 32, f0 & 0xFFFFFFFF, f1 >> 32, f1 & 0xFFFFFFFF)
    a, b, d, e = (convert(signed(piece), "f64") for piece in pieces)
    total, rest = add_fast(a * 2.0**-32, b * 2.0**-64)
    rest = rest + (d * 2.0**-96 + e * 2.0**-128)
    fraction, rest = add_fast(total, rest)
    r = fraction * 1.5707963267948966
    error = fma(fraction, 6.123233995736766e-17, fma(fraction, 1.5707963267948966, -r))
    error = fma(rest, 1.5707963267948966, error)
    sign = (word ^ (negative << 63)) & (1 << 63)
    n = select((word >> 63) != 0, word * 0 - n, n)
    nan_if_infinite = x - x
    return from_bits(bits(r) ^ sign) + nan_if_infinite, from_bits(bits(error) ^ sign), n
