"""Random words as a scalar function: each depends on its number and the key alone."""

from __future__ import annotations

from aotarray.philox import word_at
from aotarray.vecmath.primitives import Scalar, select
from aotarray.vecmath.registry import define


@define("philox", "u64")
def philox(number: Scalar, stream: Scalar, k0: Scalar, k1: Scalar) -> Scalar:
    return word_at(number, stream, k0, k1, select)
