"""The generator Philox 4x64-10, on anything that has integer operators: arrays, scalars, code under construction.

J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Words are
numbered as `numpy.random.Philox` gives them: four for each counter, from counter 1 on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ROUNDS = 10
MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_LOW = 0xFFFFFFFF


def high_product(a: Any, b: Any) -> Any:
    """The upper 64 bits of the product of two 64-bit integers, from products of their halves."""
    a0, a1, b0, b1 = a & _LOW, a >> 32, b & _LOW, b >> 32
    left, right = a0 * b1, a1 * b0
    middle = (a0 * b0 >> 32) + (left & _LOW) + (right & _LOW)
    return a1 * b1 + (left >> 32) + (right >> 32) + (middle >> 32)


def word_at(number: Any, stream: Any, k0: Any, k1: Any, select: Callable[[Any, Any, Any], Any]) -> Any:
    """Word `number` of a stream of the key (k0, k1), all uint64; stream 0 is NumPy's."""
    c: tuple[Any, ...] = ((number >> 2) + 1, 0, 0, stream)
    for turn in range(ROUNDS):
        if turn:
            k0, k1 = k0 + WEYL[0], k1 + WEYL[1]
        high0, high1 = high_product(c[0], MULTIPLIERS[0]), high_product(c[2], MULTIPLIERS[1])
        c = (k0 ^ c[1] ^ high1, c[2] * MULTIPLIERS[1], k1 ^ c[3] ^ high0, c[0] * MULTIPLIERS[0])
    lane = number & 3
    return select(lane < 2, select(lane == 0, c[0], c[1]), select(lane == 2, c[2], c[3]))
