"""Spells the scalar form of each op as Python source, shared by every target.

Operands and results are source texts: a name or literal for a real value, a pair for a complex one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np

from ..errors import UnsupportedError
from ..ops import OPS, Op
from ..ops.names import KNOWN_POWERS
from ..types import DTYPE_OF_CODE

Value = Union[str, tuple[str, str]]
Let = Callable[[str], str]

#: names of the dtype constructors in generated source
CONSTRUCTOR = {
    "b1": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16",
    "u32": "uint32", "u64": "uint64", "f16": "float32", "f32": "float32", "f64": "float64",
}  # fmt: skip
PART = {"c64": "f32", "c128": "f64"}


def is_atom(text: str) -> bool:
    """True for names and literals, which need no variable of their own."""
    return text.isidentifier() or text.replace(".", "", 1).isdigit()


def literal(value: Any, code: str) -> Value:
    """A constant of dtype `code`."""
    if code in PART:
        return _real(value.real, PART[code]), _real(value.imag, PART[code])
    return _real(value, code)


def _real(value: Any, code: str) -> str:
    if code == "b1":
        return "True" if value else "False"
    if code[0] in "iu":
        text = str(int(value))
        if code == "i64" and int(value) > -(2**63):
            return f"int64({text})"
        return f"{CONSTRUCTOR[code]}({text})" if int(value) > -(2**63) else "int64(-9223372036854775807 - 1)"
    number = float(value)
    if number != number:
        text = "nan"
    elif number in (float("inf"), float("-inf")):
        text = "inf" if number > 0 else "-inf"
    else:
        text = repr(number)
    if code == "f64":
        return f"({text})" if text.startswith("-") else text
    return f"float32({text})"


def spell(op: Op, codes: Sequence[str], result: str, operands: Sequence[Value], let: Let) -> Value:
    """The expression for one element-wise op. `codes` are the operands' dtypes."""
    if op.name == "cast":
        return cast(operands[0], codes[0], result)
    if any(isinstance(o, tuple) for o in operands) or result in PART:
        return _complex(op, codes, result, operands, let)
    texts = [o for o in operands if isinstance(o, str)]
    if set(codes) == {"i64", "u64"} and op.name in _MIXED:
        return _compare_signs(op.name, texts if codes[0] == "i64" else texts[::-1], codes[0] == "i64")
    text = _spell_real(op, codes[-1] if op.name == "where" else codes[0], result, texts)
    return _round_half(text) if result == "f16" and op.name not in _EXACT_IN_HALF else text


#: ops whose result on float16 operands is a float16 already
_EXACT_IN_HALF = {"where", "negative", "positive", "absolute", "fabs", "maximum", "minimum", "fmax", "fmin", "sign",
                  "floor", "ceil", "trunc", "rint", "conjugate", "real", "copysign"}  # fmt: skip


def _round_half(text: str) -> str:
    return f"half_to_float(float_to_half({text}))"


#: comparison -> the same with its operands swapped
_MIXED = {
    "less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal",
    "equal": "equal", "not_equal": "not_equal",
}  # fmt: skip


def _compare_signs(name: str, texts: Sequence[str], in_order: bool) -> str:
    """An int64 compared with a uint64 by value: neither dtype holds both."""
    signed, unsigned = texts
    name = name if in_order else _MIXED[name]
    symbol = str(OPS[name].template("i")).format("", "").strip()
    if name in ("less", "less_equal", "not_equal"):
        return f"({signed} < 0) | (uint64({signed}) {symbol} {unsigned})"
    return f"({signed} >= 0) & (uint64({signed}) {symbol} {unsigned})"


#: literal exponents of floats that have a function of their own
_LITERAL_POWERS = {
    str(_real(exponent, code)): name for exponent, name in KNOWN_POWERS.items() for code in ("f32", "f64")
}


def _spell_real(op: Op, code: str, result: str, texts: Sequence[str]) -> str:
    if op.name in ("real", "conjugate", "positive"):
        return texts[0]
    if op.name == "imag":
        return str(_real(0, code))
    if op.name == "power" and texts[1] in _LITERAL_POWERS:
        return f"{_LITERAL_POWERS[texts[1]]}({texts[0]})"
    template = op.template(code)
    if template is None:
        return f"{op.name}({', '.join(texts)})"
    if template.startswith("{T}(") and result == "i64":  # what Python's arithmetic gives anyway
        template = template.removeprefix("{T}(")[:-1]
    if op.name == "divide" and texts[1] in ("0.0", "(-0.0)"):
        texts = [texts[0], f"float64({texts[1]})"]  # in plain Python, a division of floats by zero raises
    return template.format(*texts, T=CONSTRUCTOR[result])


def cast(value: Value, source: str, target: str) -> Value:
    """`value.astype(target)`."""
    if target in PART:
        if isinstance(value, tuple):
            real, imag = value
        else:
            real, imag = value, str(_real(0, PART[target]))
        part = PART.get(source, source)
        return str(cast(real, part, PART[target])), str(
            cast(imag, PART.get(source, PART[target]), PART[target])
        )
    if isinstance(value, tuple):
        if target == "b1":
            return f"({value[0]} != 0) | ({value[1]} != 0)"
        return cast(value[0], PART[source], target)
    if source == target:
        return value
    if target == "b1":
        return f"{value} != 0"
    if target == "f16":
        if source == "f64":
            return f"half_to_float(double_to_half({value}))"
        if source in ("i64", "u64", "i32", "u32"):
            return f"half_to_float(double_to_half(float64({value})))"
        return _round_half(value if source == "f32" else f"float32({value})")
    if source == "f16" and target == "f32":
        return value
    if source in ("f16", "f32", "f64") and target[0] in "iu":
        return f"to_{target}({value})"
    return f"{CONSTRUCTOR[target]}({value})"


def _complex(op: Op, codes: Sequence[str], result: str, operands: Sequence[Value], let: Let) -> Value:
    """Complex arithmetic by parts, in the order of operations that NumPy uses."""
    rule = _COMPLEX_RULES.get(op.name)
    if op.name == "complex":
        return str(operands[0]), str(operands[1])
    if op.name == "where":
        a, b = operands[1], operands[2]
        return f"where({operands[0]}, {a[0]}, {b[0]})", f"where({operands[0]}, {a[1]}, {b[1]})"
    pairs = [o if isinstance(o, tuple) else (o, "0.0") for o in operands]
    if rule is not None:
        return rule(pairs, let)
    if op.name in ("divide", "reciprocal"):
        return _DIVISIONS[op.name](pairs, let, str(_real(1, PART[result])))
    if op.name in _COMPLEX_FUNCTIONS:
        flat = ", ".join(part for pair in pairs for part in pair)
        return f"complex_{op.name}_real({flat})", f"complex_{op.name}_imag({flat})"
    raise UnsupportedError(
        f"{op.name} of complex values is not supported; split it into real and imaginary parts"
    )


_COMPLEX_FUNCTIONS = {
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh",
    "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "power", "sign",
}  # fmt: skip

Pair = tuple[str, str]


def _multiply(pairs: Sequence[Pair], let: Let) -> Value:
    (a, b), (c, d) = pairs
    return f"{a} * {c} - {b} * {d}", f"{a} * {d} + {b} * {c}"


def _divide(pairs: Sequence[Pair], let: Let, one: str) -> Value:
    """Smith's algorithm as NumPy's loop has it (numpy/_core/src/umath/loops.c.src), without its branches."""
    (a, b), (c, d) = pairs
    wide = let(f"fabs({c}) >= fabs({d})")
    zero = let(f"({c} == 0) & ({d} == 0)")
    high, low = let(f"where({wide}, {c}, {d})"), let(f"where({wide}, {d}, {c})")
    ratio = let(f"{low} / {high}")
    scale = let(f"{one} / ({high} + {low} * {ratio})")
    real = let(f"where({wide}, {a} + {b} * {ratio}, {a} * {ratio} + {b}) * {scale}")
    imag = let(f"where({wide}, {b} - {a} * {ratio}, {b} * {ratio} - {a}) * {scale}")
    return f"where({zero}, {a} / fabs({c}), {real})", f"where({zero}, {b} / fabs({c}), {imag})"


def _reciprocal(pairs: Sequence[Pair], let: Let, one: str) -> Value:
    ((a, b),) = pairs
    wide = let(f"fabs({b}) <= fabs({a})")
    high, low = let(f"where({wide}, {a}, {b})"), let(f"where({wide}, {b}, {a})")
    ratio = let(f"{low} / {high}")
    scale = let(f"{high} + {low} * {ratio}")
    return f"where({wide}, {one}, {ratio}) / {scale}", f"where({wide}, -{ratio}, -{one}) / {scale}"


_DIVISIONS: dict[str, Callable[[Sequence[Pair], Let, str], Value]] = {
    "divide": _divide,
    "reciprocal": _reciprocal,
}


def _compare(symbol: str) -> Callable[[Sequence[Pair], Let], Value]:
    """NumPy orders complex numbers by real part, then imaginary part; NaN in either makes it false."""

    def rule(pairs: Sequence[Pair], let: Let) -> Value:
        (a, b), (c, d) = pairs
        strict = symbol[0]
        return f"(({a} {strict} {c}) & ({b} == {b}) & ({d} == {d})) | (({a} == {c}) & ({b} {symbol} {d}))"

    return rule


def _isfinite(pairs: Sequence[Pair], let: Let) -> Value:
    ((a, b),) = pairs
    return f"isfinite({a}) & isfinite({b})"


_COMPLEX_RULES: dict[str, Callable[[Sequence[Pair], Let], Value]] = {
    "add": lambda p, let: (f"{p[0][0]} + {p[1][0]}", f"{p[0][1]} + {p[1][1]}"),
    "subtract": lambda p, let: (f"{p[0][0]} - {p[1][0]}", f"{p[0][1]} - {p[1][1]}"),
    "multiply": _multiply,
    "square": lambda p, let: (
        f"{p[0][0]} * {p[0][0]} - {p[0][1]} * {p[0][1]}",
        f"{p[0][0]} * {p[0][1]} + {p[0][1]} * {p[0][0]}",
    ),
    "negative": lambda p, let: (f"-{p[0][0]}", f"-{p[0][1]}"),
    "positive": lambda p, let: (p[0][0], p[0][1]),
    "conjugate": lambda p, let: (p[0][0], f"-{p[0][1]}"),
    "real": lambda p, let: p[0][0],
    "imag": lambda p, let: p[0][1],
    "absolute": lambda p, let: f"hypot({p[0][0]}, {p[0][1]})",
    "equal": lambda p, let: f"({p[0][0]} == {p[1][0]}) & ({p[0][1]} == {p[1][1]})",
    "not_equal": lambda p, let: f"({p[0][0]} != {p[1][0]}) | ({p[0][1]} != {p[1][1]})",
    "less": _compare("<"),
    "less_equal": _compare("<="),
    "greater": _compare(">"),
    "greater_equal": _compare(">="),
    "isnan": lambda p, let: f"({p[0][0]} != {p[0][0]}) | ({p[0][1]} != {p[0][1]})",
    "isinf": lambda p, let: f"isinf({p[0][0]}) | isinf({p[0][1]})",
    "isfinite": _isfinite,
}


def fold_start(op: str, code: str) -> tuple[str, ...]:
    """The value a fold starts from. As in NumPy a sum starts from 0.0: a sum of negative zeros is 0.0."""
    part = PART.get(code, code)
    if op == "sum":
        return (str(_real(0, part)),) * (2 if code in PART else 1)
    if op == "prod":
        return (str(_real(1, part)), str(_real(0, part))) if code in PART else (str(_real(1, code)),)
    if op in ("any", "all"):
        return ("True" if op == "all" else "False",)
    if code in PART:
        raise UnsupportedError(f"{op} of complex values is not supported; take it of .real or abs()")
    if code == "b1":
        return ("False" if op == "max" else "True",)
    dtype = DTYPE_OF_CODE[code]
    if dtype.kind == "f":
        return (str(_real(-np.inf if op == "max" else np.inf, code)),)
    limits = np.iinfo(dtype)
    return (str(_real(limits.min if op == "max" else limits.max, code)),)


def scan_start(op: str, code: str) -> tuple[str, ...]:
    """The value a running fold starts from: one that changes no bit of the first element."""
    part = PART.get(code, code)
    if op == "sum" and part[0] == "f":
        return (str(_real(-0.0, part)),) * (2 if code in PART else 1)
    return fold_start(op, code)


def fold(
    op: str, code: str, names: Sequence[str], values: Sequence[str], exact_order: bool
) -> tuple[str, ...]:
    """`acc op value`, by parts. Sums and products may be reordered unless `exact_order`."""
    if len(names) == 2 and op == "prod":
        (a, b), (c, d) = names, values
        return f"{a} * {c} - {b} * {d}", f"{a} * {d} + {b} * {c}"
    return tuple(
        _fold_real(op, PART.get(code, code), a, v, exact_order) for a, v in zip(names, values, strict=True)
    )


def _fold_real(op: str, code: str, acc: str, value: str, exact_order: bool) -> str:
    if code[0] == "f" and op in ("sum", "prod"):
        if exact_order:
            return f"{acc} {'+' if op == 'sum' else '*'} {value}"
        return f"{'fast_add' if op == 'sum' else 'fast_multiply'}({acc}, {value})"
    if code[0] == "f" and op in ("max", "min"):  # the form of NumPy's rule that vectorises as a fold
        return f"fold_{op}({acc}, {value})"
    ufunc = {
        "sum": "add",
        "prod": "multiply",
        "max": "maximum",
        "min": "minimum",
        "any": "logical_or",
        "all": "logical_and",
    }
    return _spell_real(OPS[ufunc[op]], code, code, (acc, value))
