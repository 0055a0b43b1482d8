"""Integer functions as NumPy defines them: wrapping, no trap, division by zero gives 0."""

from __future__ import annotations

from typing import Any

from aotarray.vecmath.primitives import (
    Scalar,
    bits,
    constant,
    convert,
    dtype_of,
    from_bits,
    instruction,
    iterate,
    operate,
    select,
    trunc,
    unsigned,
)
from aotarray.vecmath.registry import INTEGERS, define, rare
from aotarray.vecmath.trace import BITS


def _is_signed(x: Scalar) -> bool:
    return dtype_of(x)[0] == "i"


def _lowest(x: Scalar) -> int:
    return -(1 << (BITS[dtype_of(x)] - 1))


def _quotient(a: Any, b: Any) -> Any:
    q = abs(int(a)) // abs(int(b))
    return type(a)(-q if (a < 0) != (b < 0) else q)


# Integers divide as floats: no instruction set has vectors of integer division. A quotient of n-bit integers
# that is not whole is at least 2**-n of itself away from one: rounding never makes it so. Conversions to and
# from float64 add a magic number and take its bits, which wraps and works everywhere. 64-bit integers do so
# where both are small, and are a rare call where not.
_SMALL = 1 << 51
_MAGIC, _MAGIC_BITS = 1.5 * 2.0**52, 0x4338000000000000


def _large(a: Scalar, b: Scalar) -> Scalar:
    if _is_signed(a):
        return (unsigned(a + _SMALL) | unsigned(b + _SMALL)) >> 52 != 0
    return (a | b) >> 51 != 0


@rare(_large, "i64")
def divide_large_i64(a: Scalar, b: Scalar) -> Scalar:
    unsafe = (b == 0) | ((a == _lowest(a)) & (b == -1))
    return instruction("sdiv", _quotient, a, select(unsafe, 1, b))


@rare(_large, "u64")
def divide_large_u64(a: Scalar, b: Scalar) -> Scalar:
    return instruction("udiv", _quotient, a, select(b == 0, 1, b))


def _divide_64(a: Scalar, b: Scalar) -> Scalar:
    large = divide_large_i64(a, b) if _is_signed(a) else divide_large_u64(a, b)
    x, y = (from_bits(v + _MAGIC_BITS) - _MAGIC for v in (a, b))
    quotient = bits(trunc(x / y) + _MAGIC) - _MAGIC_BITS
    return select(_large(a, b), large, convert(quotient, dtype_of(a)))


def _truncated(a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    """Quotient towards zero and its remainder; anything for division by zero."""
    dtype = dtype_of(a)
    if BITS[dtype] == 64:
        q = _divide_64(a, b)
    elif BITS[dtype] == 32:
        quotient = trunc(convert(a, "f64") / convert(b, "f64"))
        q = convert(bits(quotient + _MAGIC), dtype)
    else:
        x, y = (convert(convert(v, "i32"), "f32") for v in (a, select(b == 0, 1, b)))
        q = convert(convert(x / y, "i32"), dtype)
    return q, a - q * b


@define("floor_divide", *INTEGERS)
def floor_divide(a: Scalar, b: Scalar) -> Scalar:
    q, r = _truncated(a, b)
    if _is_signed(a):
        q = select((r != 0) & ((r < 0) != (b < 0)), q - 1, q)
    return select(b == 0, 0, q)


@define("remainder", *INTEGERS)
def remainder(a: Scalar, b: Scalar) -> Scalar:
    _, r = _truncated(a, b)
    if _is_signed(a):
        r = select((r != 0) & ((r < 0) != (b < 0)), r + b, r)
    return select(b == 0, 0, r)


@define("fmod", *INTEGERS)
def fmod(a: Scalar, b: Scalar) -> Scalar:
    return select(b == 0, 0, _truncated(a, b)[1])


@define("power", *INTEGERS)
def power(a: Scalar, b: Scalar) -> Scalar:
    """Repeated squaring; 0 for a negative exponent, which NumPy refuses."""
    one = constant(1, a)

    def going(result: Scalar, base: Scalar, exponent: Scalar) -> Scalar:
        return exponent > 0

    def step(result: Scalar, base: Scalar, exponent: Scalar) -> tuple[Scalar, ...]:
        return select((exponent & 1) != 0, result * base, result), base * base, exponent >> 1

    result = iterate((one, a, b), going, step)[0]
    return select(b < 0, 0, result) if _is_signed(a) else result


def _in_range(b: Scalar) -> tuple[Scalar, Scalar]:
    """Whether a shift count is in range, and a count that is."""
    count = unsigned(b) if _is_signed(b) else b
    ok = count < BITS[dtype_of(b)]
    return ok, select(ok, b, 0)


@define("left_shift", *INTEGERS)
def left_shift(a: Scalar, b: Scalar) -> Scalar:
    ok, count = _in_range(b)
    return select(ok, a << count, 0)


@define("right_shift", *INTEGERS)
def right_shift(a: Scalar, b: Scalar) -> Scalar:
    ok, count = _in_range(b)
    fill = a >> (BITS[dtype_of(a)] - 1) if _is_signed(a) else constant(0, a)
    return select(ok, a >> count, fill)


@define("absolute", *INTEGERS)
def absolute(a: Scalar) -> Scalar:
    return select(a < 0, 0 - a, a) if _is_signed(a) else a


@define("sign", *INTEGERS)
def sign(a: Scalar) -> Scalar:
    positive = select(a > 0, constant(1, a), constant(0, a))
    return select(a < 0, constant(-1, a), positive) if _is_signed(a) else positive


@define("square", *INTEGERS)
def square(a: Scalar) -> Scalar:
    return a * a


@define("maximum", *INTEGERS)
@define("fmax", *INTEGERS)
def maximum(a: Scalar, b: Scalar) -> Scalar:
    return select(a > b, a, b)


@define("minimum", *INTEGERS)
@define("fmin", *INTEGERS)
def minimum(a: Scalar, b: Scalar) -> Scalar:
    return select(a < b, a, b)


@define("maximum", "b1")
@define("fmax", "b1")
def maximum_bool(a: Scalar, b: Scalar) -> Scalar:
    return a | b


@define("minimum", "b1")
@define("fmin", "b1")
def minimum_bool(a: Scalar, b: Scalar) -> Scalar:
    return a & b


def _magnitude(a: Scalar) -> Scalar:
    return unsigned(absolute(a)) if _is_signed(a) else a


def _remainder_exact(a: Any, b: Any) -> Any:
    return type(a)(int(a) % int(b))


def _gcd(a: Scalar, b: Scalar) -> Scalar:
    """Euclid's algorithm on unsigned integers."""

    def going(x: Scalar, y: Scalar) -> Scalar:
        return x != 0

    def step(x: Scalar, y: Scalar) -> tuple[Scalar, ...]:
        return instruction("urem", _remainder_exact, y, x), x

    return iterate((a, b), going, step)[1]


@define("gcd", *INTEGERS)
def gcd(a: Scalar, b: Scalar) -> Scalar:
    return convert(_gcd(_magnitude(a), _magnitude(b)), dtype_of(a))


@define("lcm", *INTEGERS)
def lcm(a: Scalar, b: Scalar) -> Scalar:
    x, y = _magnitude(a), _magnitude(b)
    g = _gcd(x, y)
    multiple = instruction("udiv", _quotient, x, select(g == 0, 1, g)) * y
    return convert(multiple, dtype_of(a))


def _population(a: Any) -> Any:
    return type(a)(int(a).bit_count())


@define("bit_count", *INTEGERS, result="u8")
def bit_count(a: Scalar) -> Scalar:
    """Ones in the magnitude, as `np.bitwise_count`."""
    return convert(operate("ctpop", _population, _magnitude(a)), "u8")
