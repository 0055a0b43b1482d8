"""The operations scalar functions are written in, beyond Python's operators.

Each works on NumPy scalars, exactly, and on `Value`s, where it records the LLVM instruction or intrinsic that
does the same, so that both give the same bits. Python's numbers are weak, as in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from aotarray.vecmath.trace import BITS, LLVM, Value

Scalar = Any  # a NumPy scalar or a Value; a Python number where a constant is meant

NUMPY: dict[str, Any] = {
    "b1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "f32": np.float32, "f64": np.float64,
}  # fmt: skip
SHORT = {np.dtype(scalar): short for short, scalar in NUMPY.items()}


def dtype_of(x: Scalar) -> str:
    """The short dtype name of a value or NumPy scalar."""
    return x.dtype if isinstance(x, Value) else SHORT[np.dtype(type(x))]


def constant(value: float | int, like: Scalar, dtype: str | None = None) -> Scalar:
    """`value` as a constant of `dtype` (or of `like`'s), in the world `like` lives in; integers wrap."""
    dtype = dtype or dtype_of(like)
    if isinstance(like, Value):
        return like.builder.constant(value, dtype)
    if dtype[0] in "iu":
        return np.uint64(int(value) & 0xFFFFFFFFFFFFFFFF).astype(NUMPY[dtype])
    return NUMPY[dtype](value)


def select(condition: Scalar, yes: Scalar, no: Scalar) -> Scalar:
    """`yes if condition else no`; both are evaluated. At least one of them is not a Python number."""
    if isinstance(condition, Value):
        builder = condition.builder
        model = yes if isinstance(yes, Value) else no
        yes, no = model.like(yes), model.like(no)
        kind = builder.type(model.dtype)
        return builder.emit(
            f"select {builder.type('b1')} {condition.text}, {kind} {yes.text}, {kind} {no.text}", model.dtype
        )
    chosen = yes if condition else no
    model = yes if isinstance(yes, np.generic) else no
    return chosen if isinstance(chosen, np.generic) else type(model)(chosen)


def fma(a: Scalar, b: Scalar, c: Scalar) -> Scalar:
    """`a * b + c` rounded once where the machine can; a function must stay accurate where it rounds twice."""
    value = _first_value(a, b, c)
    if value is not None:
        return value.builder.intrinsic("fma", value.like(a), value.like(b), value.like(c))
    kind = next(type(v) for v in (a, b, c) if isinstance(v, np.floating))
    return _exact_fma(kind(a), kind(b), kind(c))


def exact_fma(a: Scalar, b: Scalar, c: Scalar) -> Scalar:
    """`a * b + c` where the product has to be exact: it is so without fma hardware too."""
    value = _first_value(a, b, c)
    if value is not None:
        name = f"aot_exact_fma_{value.dtype}"
        return value.builder.call(name, value.dtype, value.like(a), value.like(b), value.like(c))
    return fma(a, b, c)


def _first_value(*operands: Scalar) -> Value | None:
    return next((v for v in operands if isinstance(v, Value)), None)


def _exact_fma(a: Any, b: Any, c: Any) -> Any:
    if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
        return a * b + c
    if isinstance(a, np.float32):
        return _fma_f32(float(a) * float(b), float(c))
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        return a * b + c if a == 0 or b == 0 else np.float64(0.0)
    try:
        nearest = exact.numerator / exact.denominator
    except OverflowError:
        nearest = math.inf if exact > 0 else -math.inf
    return np.float64(nearest if nearest or exact > 0 else -0.0)


def _fma_f32(product: float, c: float) -> Any:
    """An exact product plus c as float32: the float64 sum rounds to odd, so that rounding it is right.

    S. Boldo and G. Melquiond, "Emulation of FMA and correctly rounded sums", IEEE Trans. Computers 57, 2008.
    """
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)
    if error and np.float64(total).view(np.int64) % 2 == 0:
        total = math.nextafter(total, math.copysign(math.inf, error))
    return np.float32(total)


def _unary(intrinsic: str, function: Any) -> Any:
    def apply(x: Scalar) -> Scalar:
        return x.builder.intrinsic(intrinsic, x) if isinstance(x, Value) else function(x)

    return apply


rint = _unary("rint", np.rint)
floor = _unary("floor", np.floor)
ceil = _unary("ceil", np.ceil)
trunc = _unary("trunc", np.trunc)
sqrt = _unary("sqrt", np.sqrt)
fabs = _unary("fabs", np.abs)


def copysign(x: Scalar, sign: Scalar) -> Scalar:
    """`x` with the sign bit of `sign`."""
    value = _first_value(x, sign)
    if value is not None:
        return value.builder.intrinsic("copysign", value.like(x), value.like(sign))
    return np.copysign(x, sign) if isinstance(x, np.generic) else np.copysign(type(sign)(x), sign)


def maximum(a: Scalar, b: Scalar) -> Scalar:
    """The larger, `a` where they are equal zeros or `a` is NaN: one SSE instruction, not NumPy's rule."""
    return select(a < b, b, a)


def minimum(a: Scalar, b: Scalar) -> Scalar:
    """The smaller, `a` where they are equal zeros or `a` is NaN."""
    return select(a > b, b, a)


def bits(x: Scalar) -> Scalar:
    """The bits of a float as an unsigned integer of its width."""
    dtype = "u64" if dtype_of(x) == "f64" else "u32"
    return _bitcast(x, dtype)


def from_bits(x: Scalar) -> Scalar:
    """The float whose bits an integer holds."""
    return _bitcast(x, "f64" if dtype_of(x) in ("u64", "i64") else "f32")


def _bitcast(x: Scalar, dtype: str) -> Scalar:
    if not isinstance(x, Value):
        return x.view(NUMPY[dtype])
    builder = x.builder
    return builder.emit(f"bitcast {builder.type(x.dtype)} {x.text} to {builder.type(dtype)}", dtype)


def signed(x: Scalar) -> Scalar:
    """An unsigned integer's bits as a signed one."""
    return convert(x, "i" + dtype_of(x)[1:])


def unsigned(x: Scalar) -> Scalar:
    """A signed integer's bits as an unsigned one."""
    return convert(x, "u" + dtype_of(x)[1:])


def convert(x: Scalar, dtype: str) -> Scalar:
    """`x` as `dtype`: integers wrap, floats round to nearest; a float must be in an integer's range."""
    source = dtype_of(x)
    if source == dtype:
        return x
    if not isinstance(x, Value):
        return x.astype(NUMPY[dtype])
    if LLVM[source] == LLVM[dtype]:
        return Value(x.builder, x.text, dtype)
    builder = x.builder
    if source[0] == "f":
        if dtype[0] == "f":
            word = "fpext" if dtype == "f64" else "fptrunc"
        else:
            word = "fptosi" if dtype[0] == "i" else "fptoui"
    elif dtype[0] == "f":
        word = "sitofp" if source[0] == "i" else "uitofp"
    elif BITS[dtype] < BITS[source]:
        word = "trunc"
    else:
        word = "sext" if source[0] == "i" else "zext"
    return builder.emit(f"{word} {builder.type(source)} {x.text} to {builder.type(dtype)}", dtype)


def lookup(table: str, entries: tuple[int, ...], index: Scalar) -> Scalar:
    """`entries[index]` as u64; `index` is a u64 in range."""
    if isinstance(index, Value):
        return index.builder.load(table, entries, index)
    return np.uint64(entries[int(index)])


def multiply_high(a: Scalar, b: Scalar) -> Scalar:
    """The upper 64 bits of the product of two u64."""
    if not isinstance(a, Value):
        return np.uint64((int(a) * int(b)) >> 64)
    emit = a.builder.emit
    wide = [emit(f"zext i64 {v.text} to i128", "u64").text for v in (a, a.like(b))]
    product = emit(f"mul i128 {wide[0]}, {wide[1]}", "u64").text
    return emit(f"trunc i128 {emit(f'lshr i128 {product}, 64', 'u64').text} to i64", "u64")


def operate(intrinsic: str, exact: Any, *operands: Scalar) -> Scalar:
    """An LLVM intrinsic of one dtype, or `exact` on NumPy scalars."""
    value = _first_value(*operands)
    if value is not None:
        return value.builder.intrinsic(intrinsic, *(value.like(v) for v in operands))
    return exact(*operands)


def instruction(word: str, exact: Any, a: Scalar, b: Scalar) -> Scalar:
    """A two-operand LLVM instruction (`frem`, `sdiv`), or `exact` on NumPy scalars."""
    value = _first_value(a, b)
    if value is not None:
        return value.binary(word, value.like(a), value.like(b))
    return exact(a, b)


def iterate(state: tuple[Scalar, ...], going: Any, step: Any) -> tuple[Scalar, ...]:
    """`while going(*state): state = step(*state)`. A function with a loop in it stays scalar."""
    if isinstance(state[0], Value):
        return state[0].builder.iterate(state, going, step)
    while going(*state):
        state = step(*state)
    return state


def horner(x: Scalar, coefficients: Sequence[Scalar]) -> Scalar:
    """c0 + c1 x + c2 x**2 + ..., from the highest degree down."""
    total: Scalar = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = fma(total, x, c)
    return total


def polynomial(x: Scalar, coefficients: Sequence[Scalar]) -> Scalar:
    """Horner's scheme on the even and the odd part: nearly as few operations, half the dependent steps."""
    if len(coefficients) < 4:
        return horner(x, coefficients)
    square = x * x
    return fma(horner(square, coefficients[1::2]), x, horner(square, coefficients[0::2]))


def estrin(x: Scalar, coefficients: Sequence[Scalar]) -> Scalar:
    """Estrin's scheme, in log2(n) dependent steps; for long polynomials with terms of alternating signs."""
    terms = list(coefficients)
    while len(terms) > 1:
        last = [terms[-1]] if len(terms) % 2 else []
        terms = [fma(terms[i + 1], x, terms[i]) for i in range(0, len(terms) - 1, 2)] + last
        x = x * x
    return terms[0]


def add_fast(a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    """Sum and its rounding error, where |a| >= |b| or a is 0 (Dekker)."""
    total = a + b
    return total, b - (total - a)


def multiply_pair(a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    """Product and its rounding error."""
    product = a * b
    return product, exact_fma(a, b, -product)
