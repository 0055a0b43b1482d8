"""Random NumPy programs: a generator that knows, for every value, how far two correct evaluations may differ.

A program is plain source (`Program.source`), grown line by line and evaluated with NumPy as it grows, so that each
line is legal. Every value carries a bound on |ours - NumPy's| for each element: 0 where DESIGN asks for equality to
the bit, `ULPS` units in the last place after an elementary function, the usual n * eps * sum|x| after a float sum,
and first-order propagation from there. A value that is not exact never reaches an op that could magnify a rounding
difference into another answer (comparisons, roundings, casts to integers, argmax); `inf` means "anything goes".
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

#: an elementary function is within 4 ulp of the truth, on both sides
ULPS = 8
MAX_ELEMENTS = 60_000
REAL = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
DTYPES = (*REAL, "complex64", "complex128")
EXTENTS = (0, 1, 1, 2, 3, 3, 4, 5, 7, 8, 17)


class Choices:
    """Where a program's choices come from; this one is a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def choice(self, items: Sequence[Any]) -> Any:
        return items[self.integer(0, len(items) - 1)]

    def chance(self, percent: int) -> bool:
        return self.integer(1, 100) <= percent


class Drawn(Choices):
    """Choices that hypothesis makes, and shrinks: low numbers are simple."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw

    def integer(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def chance(self, percent: int) -> bool:
        return self.integer(0, 99) >= 100 - percent


@dataclass
class Program:
    """A function of NumPy arrays as source, arguments for it, NumPy's results and their tolerances."""

    source: str
    arguments: list[Any]
    results: list[np.ndarray]
    bounds: list[np.ndarray]
    ops: int

    def function(self) -> Callable[..., Any]:
        scope: dict[str, Any] = {"np": np}
        exec(compile(self.source, "<program>", "exec"), scope)
        found: Callable[..., Any] = scope["program"]
        return found

    def report(self) -> str:
        """The whole program as a script that shows the failure by itself."""
        lines = ["import numpy as np, aotarray", "from numpy import nan, inf", "", self.source]
        names = [f"a{k}" for k in range(len(self.arguments))]
        lines += [f"{name} = {spell(value)}" for name, value in zip(names, self.arguments, strict=True)]
        call = ", ".join(names)
        lines += [f"print(program({call}))", f"print(aotarray.jit(program)({call}))"]
        return "\n".join(lines)


def spell(value: Any) -> str:
    """An argument as an expression, its layout included."""
    if not isinstance(value, np.ndarray):
        return repr(value)
    if value.size > 4000:
        return f"np.frombuffer({value.tobytes()!r}, np.{value.dtype}).reshape({value.shape})"
    text = f"np.array({np.ravel(value).tolist()!r}, np.{value.dtype}).reshape({value.shape})"
    if value.ndim == 0 or value.size == 0:
        return text
    if all(s == 0 or d == 1 for s, d in zip(value.strides, value.shape, strict=True)) and value.size > 1:
        return f"np.broadcast_to({text}[{', '.join(':1' for _ in value.shape)}], {value.shape})"
    for axis, stride in enumerate(value.strides):
        if stride < 0:
            text = f"np.flip(np.flip({text}, {axis}).copy(), {axis})"
    if value.ndim > 1 and value.flags.f_contiguous:
        text = f"np.asfortranarray({text})"
    elif not value.flags.c_contiguous and min(value.strides) > 0:
        text = f"np.repeat({text}, 2, -1)[..., ::2]"
    return text


# -- error bounds ---------------------------------------------------------------------------------
def exact(value: np.ndarray) -> np.ndarray:
    return np.zeros(value.shape)


def magnitude(value: np.ndarray) -> np.ndarray:
    """|value| in float64; NaN counts as infinite."""
    wide = np.abs(value.astype(np.complex128 if value.dtype.kind == "c" else np.float64))
    return np.where(np.isnan(wide), np.inf, wide)


def finfo(dtype: np.dtype) -> Any:
    return np.finfo(dtype) if dtype.kind in "fc" else np.finfo(np.float64)


def ulp(value: np.ndarray) -> np.ndarray:
    """One unit in the last place of `value`'s dtype, in float64."""
    limits = finfo(value.dtype)
    size = np.minimum(magnitude(value), float(limits.max))
    return np.maximum(size * float(limits.eps), float(limits.smallest_subnormal))


def rounded(bound: np.ndarray, value: np.ndarray, rounds: float = 1) -> np.ndarray:
    """A propagated bound with the rounding of the result's own, or infinite where it may overflow."""
    bound = np.where(np.isnan(bound), np.inf, bound)
    total = np.where(bound > 0, bound * 1.01 + rounds * ulp(value), 0.0)
    spills = (magnitude(value) + total >= float(finfo(value.dtype).max) / 2) & (total > 0)
    return np.broadcast_to(np.where(spills, np.inf, total), value.shape)


def _times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a * b where 0 * inf is 0."""
    return np.where((a == 0) | (b == 0), 0.0, a * b)


Bounds = Callable[[np.ndarray, Sequence[np.ndarray], Sequence[np.ndarray]], np.ndarray]


def _sum_bound(r: np.ndarray, v: Sequence[np.ndarray], e: Sequence[np.ndarray]) -> np.ndarray:
    return e[0] + e[1]


def _product_bound(r: np.ndarray, v: Sequence[np.ndarray], e: Sequence[np.ndarray]) -> np.ndarray:
    a, b = magnitude(v[0]), magnitude(v[1])
    wild = (np.isinf(a) & (e[1] > 0)) | (np.isinf(b) & (e[0] > 0))
    return np.where(wild, np.inf, _times(a, e[1]) + _times(b, e[0]) + _times(e[0], e[1]))


def _quotient_bound(r: np.ndarray, v: Sequence[np.ndarray], e: Sequence[np.ndarray]) -> np.ndarray:
    a, b = magnitude(v[0]), magnitude(v[1])
    room = b - e[1]
    moved = (e[0] > 0) | (e[1] > 0)
    bound = (e[0] + _times(magnitude(r), e[1])) / np.where(room > 0, room, 1.0)
    return np.where(moved & ((room <= 0) | ~np.isfinite(a) | ~np.isfinite(b)), np.inf, np.where(moved, bound, 0.0))


def _sqrt_bound(r: np.ndarray, v: Sequence[np.ndarray], e: Sequence[np.ndarray]) -> np.ndarray:
    x = v[0].astype(np.float64)
    return np.where(e[0] == 0, 0.0, np.where(x > e[0], e[0] / np.sqrt(np.where(x > e[0], x - e[0], 1.0)), np.inf))


def _lipschitz(r: np.ndarray, v: Sequence[np.ndarray], e: Sequence[np.ndarray]) -> np.ndarray:
    return np.where(np.isfinite(v[0]) | (e[0] == 0), e[0], np.inf)


def _largest(r: np.ndarray, v: Sequence[np.ndarray], e: Sequence[np.ndarray]) -> np.ndarray:
    """max and min do not say which of +0.0 and -0.0 they take."""
    zeros = [x == 0 for x in v]
    signs = np.signbit(v[0].astype(np.float64)) != np.signbit(v[1].astype(np.float64))
    return np.maximum(e[0], e[1]) + np.where(zeros[0] & zeros[1] & signs & (r.dtype.kind == "f"), 1e-300, 0.0)


#: ufuncs that are exact on exact operands -> the bound they propagate, or None where they may only see exact ones
UNARY: dict[str, Bounds | None] = {
    "negative": lambda r, v, e: e[0], "positive": lambda r, v, e: e[0], "absolute": lambda r, v, e: e[0],
    "fabs": lambda r, v, e: e[0], "conjugate": lambda r, v, e: e[0], "sqrt": _sqrt_bound,
    "square": lambda r, v, e: _product_bound(r, (v[0], v[0]), (e[0], e[0])),
    "rint": None, "floor": None, "ceil": None, "trunc": None, "sign": None, "invert": None, "logical_not": None,
    "isnan": None, "isinf": None, "isfinite": None, "signbit": None, "spacing": None, "reciprocal": None,
    "bitwise_count": None,
}  # fmt: skip
BINARY: dict[str, Bounds | None] = {
    "add": _sum_bound, "subtract": _sum_bound, "multiply": _product_bound, "divide": _quotient_bound,
    "maximum": _largest, "minimum": _largest, "fmax": _largest, "fmin": _largest,
    "floor_divide": None, "remainder": None, "fmod": None, "less": None, "less_equal": None, "greater": None,
    "greater_equal": None, "equal": None, "not_equal": None, "logical_and": None, "logical_or": None,
    "logical_xor": None, "bitwise_and": None, "bitwise_or": None, "bitwise_xor": None, "left_shift": None,
    "right_shift": None, "copysign": None, "nextafter": None, "heaviside": None, "gcd": None, "lcm": None,
}  # fmt: skip
SYMBOLS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//", "remainder": "%", "less": "<",
    "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!=", "bitwise_and": "&",
    "bitwise_or": "|", "bitwise_xor": "^",
}  # fmt: skip
#: within `ULPS` of each other on exact operands; True where the slope is at most 1, so that a bound passes through
ELEMENTARY = {
    "exp": False, "exp2": False, "expm1": False, "log": False, "log2": False, "log10": False, "log1p": False,
    "sin": True, "cos": True, "tan": False, "arcsin": False, "arccos": False, "arctan": True, "sinh": False,
    "cosh": False, "tanh": True, "arcsinh": True, "arccosh": False, "arctanh": False, "cbrt": False,
    "deg2rad": True, "rad2deg": False,
}  # fmt: skip
ELEMENTARY2 = ("arctan2", "hypot", "logaddexp", "power")


class Builder:
    """Grows one program."""

    def __init__(self, choose: Choices) -> None:
        self.choose = choose
        self.values: dict[str, np.ndarray] = {}
        self.bounds: dict[str, np.ndarray] = {}
        self.frozen: set[str] = set()  # arguments, Python numbers and views of them: not written to
        self.owner: dict[str, str] = {}
        self.lines: list[str] = []
        self.arguments: list[Any] = []

    # -- arguments --------------------------------------------------------------------------------
    def add_argument(self) -> None:
        choose = self.choose
        name = f"a{len(self.arguments)}"
        if self.arguments and choose.chance(12):
            value: Any = choose.choice([2, -3, 0, 0.5, -1.25, True, 1e10, 2 - 1j])
        else:
            value = self.array(choose.choice(DTYPES), self.shape())
        self.arguments.append(value)
        if isinstance(value, np.ndarray):
            self.values[name], self.bounds[name] = value, exact(value)
        else:
            self.numbers.append(name)
            self.scalars[name] = value
        self.frozen.add(name)

    numbers: list[str]
    scalars: dict[str, Any]

    def shape(self) -> tuple[int, ...]:
        choose = self.choose
        if choose.chance(8):
            return choose.choice([(700,), (9000,), (3, 600), (600, 3), (2, 3, 530), (300, 2, 2), (20000,), (2, 9000), (40, 700)])
        if self.values and choose.chance(60):
            shape = list(choose.choice([v.shape for v in self.values.values()]))
            if shape and choose.chance(30):
                shape = shape[choose.integer(0, len(shape)) :]
            if shape and choose.chance(30):
                shape[choose.integer(0, len(shape) - 1)] = 1
            return tuple(shape)
        return tuple(choose.choice(EXTENTS) for _ in range(choose.integer(0, 4)))

    def array(self, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        values = contents(np.dtype(dtype), shape, self.choose.integer(0, 2**31), self.choose.choice([0, 0, 5, 40]))
        return self.laid_out(values)

    def laid_out(self, values: np.ndarray) -> np.ndarray:
        """The same values in another layout, and now and then read-only."""
        choose, kind = self.choose, self.choose.integer(0, 6)
        if values.ndim and kind == 1:
            values = np.asfortranarray(values)
        elif values.ndim and kind == 2:
            wide = np.zeros([2 * d for d in values.shape], values.dtype)
            view = wide[tuple(slice(None, None, 2) for _ in values.shape)]
            view[...] = values
            values = view
        elif values.ndim and kind == 3:
            flipped = tuple(slice(None, None, -1) if choose.chance(50) else slice(None) for _ in values.shape)
            values = values[flipped].copy()[flipped]
        elif values.ndim and kind == 4 and values.size:
            keep = tuple(slice(None, 1) if choose.chance(50) else slice(None) for _ in values.shape)
            values = np.broadcast_to(values[keep], values.shape)
        elif values.ndim > 1 and kind == 5:
            order = list(range(values.ndim))
            order[0], order[-1] = order[-1], order[0]
            values = values.transpose(order).copy().transpose(order)
        if choose.chance(10):
            values = values.view()
            values.flags.writeable = False
        return values

    # -- picking and recording --------------------------------------------------------------------
    def names(self, test: Callable[[np.ndarray], bool] = lambda v: True, only_exact: bool = False) -> list[str]:
        return [
            n for n, v in self.values.items()
            if test(v) and (not only_exact or not self.bounds[n].any()) and not (v.size and np.isinf(self.bounds[n]).all())
        ]  # fmt: skip

    def pick(self, test: Callable[[np.ndarray], bool] = lambda v: True, only_exact: bool = False) -> str | None:
        found = self.names(test, only_exact)
        if not found:
            return None
        return found[-1 - min(self.choose.integer(0, len(found) - 1), self.choose.integer(0, len(found) - 1))]

    def evaluate(self, text: str, names: dict[str, Any]) -> Any:
        with np.errstate(all="ignore"):
            return eval(text, {"np": np, **self.scalars, **names})

    def record(self, text: str, bound: Callable[[np.ndarray], np.ndarray] | None = None, view_of: str = "") -> str | None:
        """Add `v = text`; without `bound` the text only moves elements, and moves the bounds the same way."""
        try:
            result = self.evaluate(text, self.values)
        except (TypeError, ValueError, OverflowError, IndexError):
            return None
        result = np.asarray(result)
        if result.dtype.name not in DTYPES or result.size > MAX_ELEMENTS or result.ndim > 4:
            return None
        name = f"v{len(self.lines)}"
        with np.errstate(all="ignore"):
            moved = bound(result) if bound is not None else self.moved(text, result)
        self.values[name] = result
        self.bounds[name] = np.array(np.broadcast_to(moved, result.shape), np.float64)
        self.lines.append(f"{name} = {text}")
        self.owner[name] = self.owner.get(view_of, view_of) if view_of else name
        if view_of and (view_of in self.frozen or True):
            self.frozen.add(name)
        return name

    def moved(self, text: str, result: np.ndarray) -> np.ndarray:
        """The bounds of a line that only moves elements."""
        if result.dtype.kind not in "fc":
            return exact(result)
        floats = {n: self.bounds[n] for n, v in self.values.items() if v.dtype.kind in "fc"}
        return np.asarray(self.evaluate(text, {**self.values, **floats}))

    # -- steps --------------------------------------------------------------------------------------
    def unary(self) -> None:
        op = self.choose.choice(list(UNARY))
        rule = UNARY[op]
        x = self.pick(only_exact=rule is None)
        if x is None or (op == "signbit" and np.isnan(self.values[x]).any()):
            return
        if op == "spacing" and self.values[x].dtype == np.float16:
            return
        if op == "reciprocal" and self.values[x].dtype.kind in "iub" and (self.values[x] == 0).any():
            return  # undefined in C and in NumPy
        if op in ("sqrt", "square", "sign", "reciprocal") and self.values[x].dtype.kind == "c":
            return
        v, e = self.values[x], self.bounds[x]
        rule = rule or (lambda r, v, e: exact(r))
        spelled = {"negative": f"-{x}", "absolute": f"abs({x})", "invert": f"~{x}"}.get(op)
        text = spelled if spelled and self.choose.chance(50) else f"np.{op}({x})"
        if self.values[x].dtype.kind == "c" and op == "absolute":
            self.record(text, lambda r: rounded(e + ULPS * ulp(r), r, 0))
            return
        self.record(text, lambda r: rounded(rule(r, (v,), (e,)), r))

    def operand_for(self, x: str, only_exact: bool) -> tuple[str, np.ndarray, np.ndarray] | None:
        """A second operand that broadcasts with `x`: another value, a number, a scalar argument."""
        choose, shape = self.choose, self.values[x].shape
        if choose.chance(25):
            if self.numbers and choose.chance(50):
                text = choose.choice(self.numbers)
            else:
                dtype = self.values[x].dtype
                pool = ["2", "3", "1", "0", "-1", "7"] if dtype.kind in "iub" else ["0.5", "2.0", "-1.5", "3", "1e-3", "0.0", "-0.0"]
                pool += [f"np.{dtype}(1)", "True", "np.float32(0.1)", "np.int8(-7)", "np.uint64(2**63)", "np.int64(-2**63)"]
                text = choose.choice(pool)
            value = np.asarray(self.evaluate(text, {}))
            return text, value, exact(value)

        def fits(v: np.ndarray) -> bool:
            try:
                return math.prod(np.broadcast_shapes(v.shape, shape)) <= MAX_ELEMENTS
            except ValueError:
                return False

        name = self.pick(fits, only_exact)
        return None if name is None else (name, self.values[name], self.bounds[name])

    def binary(self) -> None:
        op = self.choose.choice(list(BINARY))
        rule = BINARY[op]
        x = self.pick(only_exact=rule is None)
        if x is None:
            return
        other = self.operand_for(x, rule is None)
        if other is None:
            return
        text, w, f = other
        v, e = self.values[x], self.bounds[x]
        if self.choose.chance(30):
            x, text, v, w, e, f = text, x, w, v, f, e
        if op == "copysign" and w.dtype.kind == "f" and np.isnan(w).any():
            return
        kinds = {v.dtype.kind, w.dtype.kind}
        if "c" in kinds and op not in ("add", "subtract", "multiply", "equal", "not_equal"):
            return
        if op == "nextafter" and np.float16 in (v.dtype, w.dtype):
            return
        if op in ("gcd", "lcm") and not kinds <= {"i", "u"}:
            return
        spelled = f"{x} {SYMBOLS[op]} {text}" if op in SYMBOLS and self.choose.chance(70) else f"np.{op}({x}, {text})"

        def bound(r: np.ndarray) -> np.ndarray:
            if rule is None:
                return exact(r)
            a, b = (np.asarray(q.astype(r.dtype) if r.dtype.kind in "fc" else q) for q in (v, w))
            found = rule(r, (a, b), (e, f))
            if r.dtype.kind == "c" and op == "multiply":  # NumPy's loop may use fma
                size = magnitude(a) * magnitude(b)
                found = np.where(np.isfinite(size), found + 4 * float(finfo(r.dtype).eps) * size, np.inf)
                found = np.where(size >= float(finfo(r.dtype).max) / 4, np.inf, found)
            return rounded(found, r)

        self.record(spelled, bound)

    def elementary(self) -> None:
        op = self.choose.choice(list(ELEMENTARY))
        x = self.pick(lambda v: v.dtype.kind != "c", only_exact=not ELEMENTARY[op])
        if x is None:
            return
        v, e = self.values[x], self.bounds[x]

        def bound(r: np.ndarray) -> np.ndarray:
            passed = _lipschitz(r, (v,), (e,))
            settled = ~np.isfinite(r) & (e == 0)
            return np.where(settled, 0.0, rounded(passed + ULPS * ulp(r), r, 0))

        self.record(f"np.{op}({x})", bound)

    def elementary2(self) -> None:
        op = self.choose.choice(ELEMENTARY2)
        x = self.pick(lambda v: v.dtype.kind == "f", only_exact=True)
        if x is None:
            return
        other = self.operand_for(x, True)
        if other is None or other[1].dtype.kind == "c":
            return
        text = other[0]
        spelled = f"{x} ** {text}" if op == "power" else f"np.{op}({x}, {text})"
        self.record(spelled, lambda r: np.where(np.isfinite(r), rounded(ULPS * ulp(r), r, 0), 0.0))

    def integer_power(self) -> None:
        x = self.pick(lambda v: v.dtype.kind in "iu", only_exact=True)
        if x is not None:
            self.record(f"{x} ** {self.choose.choice([2, 3, 0, 1, 5])}", exact)

    def cast(self) -> None:
        dtype = np.dtype(self.choose.choice(DTYPES))
        x = self.pick(only_exact=dtype.kind in "biu")
        if x is None:
            return
        v, e = self.values[x], self.bounds[x]
        if v.dtype.kind == "c" and dtype.kind != "c":
            return
        if dtype.kind in "iu" and v.dtype.kind == "f" and v.size:  # out of range is undefined in C and in NumPy
            limits = np.iinfo(dtype)
            if not (np.isfinite(v).all() and (v > limits.min).all() and (v < limits.max).all()):
                x = self.record(f"np.clip(np.where(np.isnan({x}), 0, {x}), {max(limits.min, -9000)}, {min(limits.max, 9000)})", exact)
                if x is None:
                    return
        self.record(f"{x}.astype(np.{dtype})", lambda r: rounded(e, r) if r.dtype.kind in "fc" else exact(r))

    def where(self) -> None:
        x = self.pick()
        if x is None:
            return
        other = self.operand_for(x, False)
        test = self.pick(lambda v: v.dtype.kind == "b", only_exact=True)
        if other is None or test is None:
            return
        text, w, f = other
        c, v, e = self.values[test], self.values[x], self.bounds[x]
        self.record(f"np.where({test}, {x}, {text})", lambda r: rounded(np.where(c, e, f), r) if r.dtype.kind in "fc" else exact(r))

    def slice_text(self, extent: int) -> str:
        choose = self.choose
        step = choose.choice([1, 1, 1, 2, 3, -1, -1, -2])
        ends = ["", "", str(choose.integer(-extent - 1, extent + 1)), "1", "-1", "2"]
        text = f"{choose.choice(ends)}:{choose.choice(ends)}"
        return text if step == 1 else f"{text}:{step}"

    def index_text(self, shape: tuple[int, ...]) -> str:
        """Basic indices: slices, integers, None, an ellipsis."""
        choose = self.choose
        items: list[str] = []
        for axis, extent in enumerate(shape):
            if choose.chance(10) and len(shape) < 4:
                items.append("None")
            if extent and choose.chance(15):
                items.append(str(choose.choice([0, -1, extent // 2, -extent])))
            elif choose.chance(60):
                items.append(self.slice_text(extent))
            else:
                items.append(":")
            if axis == len(shape) - 1 and choose.chance(15):
                items = ["...", *items[-1:]]
        return ", ".join(items) or "..."

    def view(self) -> None:
        choose = self.choose
        x = self.pick()
        if x is None:
            return
        shape, rank = self.values[x].shape, self.values[x].ndim
        kind = choose.integer(0, 9)
        if kind <= 3 and rank:
            self.record(f"{x}[{self.index_text(shape)}]", view_of=x)
        elif kind == 4 and rank:
            order = list(range(rank))
            for k in range(rank - 1, 0, -1):
                j = choose.integer(0, k)
                order[k], order[j] = order[j], order[k]
            self.record(choose.choice([f"{x}.T", f"np.transpose({x}, {tuple(order)})", f"np.swapaxes({x}, 0, -1)"]), view_of=x)
        elif kind == 5:
            size = self.values[x].size
            targets = ["-1", f"({', '.join(map(str, shape[::-1]))},)" if shape else "1", f"(1, {size})", f"({size}, 1)"]
            if rank >= 2:
                targets += [f"({x}.shape[0], -1)" if shape[0] else "-1", f"(-1, {shape[-1]})" if size else "-1"]
            targets += [f"({d}, {size // d})" for d in (2, 3, 7) if size and size % d == 0]
            self.record(f"{x}.reshape({choose.choice(targets)})", view_of=x)
        elif kind == 6 and rank:
            self.record(f"np.flip({x}, {choose.integer(0, rank - 1)})", view_of=x)
        elif kind == 7 and rank < 4:
            target = choose.choice([f"(2, *{x}.shape)", f"(1, *{x}.shape)"] + [f"{n}.shape" for n in self.values])
            self.record(f"np.broadcast_to({x}, {target})", view_of=x)
        elif kind == 8 and rank < 4:
            self.record(f"np.expand_dims({x}, {choose.integer(-rank - 1, rank)})", view_of=x)
        elif self.values[x].dtype.kind == "c":
            bounds = self.bounds[x]
            self.record(f"{x}.{choose.choice(['real', 'imag'])}", lambda r: bounds, view_of=x)

    def axes_text(self, rank: int) -> tuple[str, tuple[int, ...]]:
        choose = self.choose
        if rank == 0 or choose.chance(25):
            return "None", tuple(range(rank))
        axes = sorted({choose.integer(0, rank - 1) for _ in range(choose.integer(1, rank))})
        shown = [a - rank if choose.chance(40) else a for a in axes]
        return (str(shown[0]) if len(shown) == 1 else str(tuple(shown))), tuple(axes)

    def reduction(self) -> None:
        choose = self.choose
        op = choose.choice(["sum", "sum", "mean", "max", "min", "prod", "any", "all", "var", "std", "count_nonzero", "ptp"])
        soft = op in ("sum", "mean", "max", "min", "var")
        x = self.pick(only_exact=not soft)
        if x is None or (self.values[x].dtype.kind == "c" and op not in ("sum", "mean", "any", "all")):
            return
        v, e = self.values[x], self.bounds[x]
        text, axes = self.axes_text(v.ndim)
        keep = choose.chance(40)
        spelled = f"np.{op}({x}, axis={text}{', keepdims=True' if keep else ''})"
        if op in ("sum", "mean", "max", "min", "any", "all") and choose.chance(50):
            spelled = spelled.replace(f"np.{op}({x}, ", f"{x}.{op}(")
        self.record(spelled, lambda r: fold_bound(op, r, v, e, axes, keep))

    def arg_reduction(self) -> None:
        x = self.pick(lambda v: v.dtype.kind != "c" and v.size > 0, only_exact=True)
        if x is None:
            return
        rank = self.values[x].ndim
        axis = "None" if rank == 0 or self.choose.chance(30) else str(self.choose.integer(-rank, rank - 1))
        keep = ", keepdims=True" if self.choose.chance(20) else ""
        self.record(f"np.{self.choose.choice(['argmax', 'argmin'])}({x}, axis={axis}{keep})", exact)

    def scan(self) -> None:
        x = self.pick(lambda v: v.ndim > 0, only_exact=True)
        if x is None:
            return
        v, rank = self.values[x], self.values[x].ndim
        if v.dtype.kind == "c":
            return
        axis = "None" if self.choose.chance(15) else str(self.choose.integer(-rank, rank - 1))
        self.record(f"np.{self.choose.choice(['cumsum', 'cumsum', 'cumprod'])}({x}, axis={axis})", exact)

    def concatenate(self) -> None:
        choose = self.choose
        x = self.pick(lambda v: v.ndim > 0)
        if x is None:
            return
        v = self.values[x]
        axis = choose.integer(0, v.ndim - 1)

        def joins(w: np.ndarray) -> bool:
            return w.ndim == v.ndim and all(a == b for k, (a, b) in enumerate(zip(v.shape, w.shape, strict=True)) if k != axis)

        parts = [x, *(p for _ in range(choose.integer(1, 3)) if (p := self.pick(joins)))]
        listed = ", ".join(parts)
        texts = [f"np.concatenate([{listed}], axis={axis - v.ndim if choose.chance(30) else axis})"]
        if all(self.values[p].shape == v.shape for p in parts):
            texts.append(f"np.stack([{listed}], axis={choose.integer(0, v.ndim)})")
        spelled = choose.choice(texts)
        self.record(spelled, lambda r: rounded(self.moved(spelled, r), r))

    def gather(self) -> None:
        choose = self.choose
        x = self.pick(lambda v: v.ndim > 0 and v.size > 0)
        if x is None:
            return
        v = self.values[x]
        axis = choose.integer(0, v.ndim - 1)
        extent = v.shape[axis]
        i = self.pick(lambda w: w.dtype.kind in "iu" and w.ndim <= 2 and w.size > 0, only_exact=True)
        listed = [choose.integer(-extent, extent - 1) for _ in range(choose.integer(1, 4))]
        index = f"np.array({listed})"
        if i is not None and choose.chance(60):
            w = self.values[i]
            inside = bool((w < extent).all() and (w.dtype.kind == "u" or (w >= -extent).all()))
            index = i if inside and choose.chance(80) else f"{i} % {extent}"
        lead = [":"] * axis
        if choose.chance(25) and v.ndim > 1:  # a second index array, or a slice, beside the first
            lead = [choose.choice(["::-1", "1:", ":", f"np.array([{v.shape[k] - 1}])"]) for k in range(axis)]
        text = f"np.take({x}, {index}, axis={axis})" if choose.chance(25) else f"{x}[{', '.join([*lead, index])}]"
        self.record(text)

    def update(self) -> None:
        """A local copy with a slice overwritten, or changed in place."""
        choose = self.choose
        x = self.pick(lambda v: v.ndim > 0)
        if x is None:
            return
        local = self.record(f"{x}.copy()")
        if local is None:
            return
        for _ in range(choose.integer(1, 2)):
            key = self.index_text(self.values[local].shape)
            if "None" in key:
                continue
            try:
                region = self.values[local][eval(f"np.s_[{key}]")]
            except IndexError:
                continue
            dtype = region.dtype

            def fits(w: np.ndarray, region: np.ndarray = region, dtype: np.dtype = dtype) -> bool:
                try:
                    return np.broadcast_shapes(w.shape, region.shape) == region.shape and np.can_cast(w.dtype, dtype, "same_kind")
                except ValueError:
                    return False

            source = self.pick(fits) if choose.chance(80) else None
            text = source if source is not None else choose.choice(["0", "1", "True"])
            sign = choose.choice(["=", "=", "=", "+=", "*="])
            if sign != "=" and (dtype.kind == "b" or dtype.kind == "c"):
                sign = "="
            self.write(local, key, sign, text, source)

    def write(self, local: str, key: str, sign: str, text: str, source: str | None) -> None:
        value, bound = self.values[local].copy(), self.bounds[local].copy()
        statement = f"{local}[{key}] {sign} {text}"
        before, given = value.copy(), self.values[source] if source else np.asarray(eval(text))
        e = self.bounds[source] if source else exact(given)
        place = eval(f"np.s_[{key}]")
        try:
            with np.errstate(all="ignore"):
                exec(statement, {"np": np, **self.values, local: value})
                if np.isscalar(value[place]) and given.ndim:
                    return
                if value.dtype.kind in "iu" and given.dtype.kind not in "biu":
                    return
                region = value[place]
                old = before[place]
                e = np.broadcast_to(e, np.shape(region))
                if sign == "=":
                    moved = rounded(e, np.asarray(region)) if value.dtype.kind in "fc" else exact(np.asarray(region))
                else:
                    rule = _sum_bound if sign == "+=" else _product_bound
                    moved = rounded(rule(np.asarray(region), (np.asarray(old), given), (bound[place], e)), np.asarray(region))
                bound[place] = moved
        except (TypeError, ValueError, OverflowError, IndexError):
            return
        self.lines.append(statement)
        self.values[local], self.bounds[local] = value, bound

    def row_pattern(self) -> None:
        """Shapes of code that people write: centring, scaling, softmax, matrix products."""
        choose = self.choose
        x = self.pick(lambda v: v.dtype.kind == "f" and v.dtype != np.float16 and 1 <= v.ndim <= 3 and v.size > 0, only_exact=True)
        if x is None:
            return
        rank = self.values[x].ndim
        axis = choose.integer(-rank, -1)
        before = dict(self.values)
        lines = choose.choice([
            ["{x}.max(axis={a}, keepdims=True)", "{x} - {0}", "np.exp({1})", "{2}.sum(axis={a}, keepdims=True)", "{2} / {3}"],
            ["{x}.mean(axis={a}, keepdims=True)", "{x} - {0}", "{1} * {1}", "{2}.mean(axis={a}, keepdims=True)", "{1} / np.sqrt({3} + 1e-3)"],
            ["{x}.sum(axis={a}, keepdims=True)", "{x} * 2 + {0}", "{1}.max(axis={a})"],
            ["{x}.min(axis={a}, keepdims=True)", "{x}.max(axis={a}, keepdims=True)", "({x} - {0})", "{1} - {0}", "{2} / ({3} + 1)"],
        ])  # fmt: skip
        made: list[str] = []
        for line in lines:
            text = line.format(*made, x=x, a=axis)
            name = self.record(text, self.pattern_bound(text, made, x, axis))
            if name is None:
                self.values = before | self.values
                return
            made.append(name)

    def pattern_bound(self, text: str, made: list[str], x: str, axis: int) -> Callable[[np.ndarray], np.ndarray]:
        """Bounds of the lines of `row_pattern`."""
        values, bounds = self.values, self.bounds
        names = [n for n in (*made, x) if n in text.replace("(", " ").replace(")", " ").replace(".", " ").split()]

        def bound(r: np.ndarray) -> np.ndarray:
            first = names[0] if names else x
            v = [values[n] for n in (*made, x)]
            for op in ("sum", "mean", "max", "min"):
                if f".{op}(" in text:
                    source = text.split(".")[0]
                    w = values[source]
                    return fold_bound(op, r, w, bounds[source], (axis % w.ndim,), "keepdims" in text)
            if text.startswith("np.exp"):
                e = bounds[made[1]]
                return rounded(_times(magnitude(r), np.expm1(np.minimum(e, 700.0))) + ULPS * ulp(r), r, 0)
            del v, first
            if "np.sqrt" in text:
                c, m = made[1], made[3]
                root = np.sqrt(values[m].astype(np.float64) + 1e-3)
                e_root = np.where(np.isfinite(bounds[m]), bounds[m] / 0.03 + 2 * ulp(values[m]) / 0.03 + 4 * root * float(finfo(r.dtype).eps), np.inf)
                return rounded(_quotient_bound(r, (values[c], root), (bounds[c], np.where(bounds[m] > 0, e_root, 0.0))), r, 4)
            if " / (" in text:
                return rounded(_quotient_bound(r, (values[made[2]], values[made[3]] + 1), (bounds[made[2]], bounds[made[3]])), r, 4)
            if " / " in text:
                a, b = text.split(" / ")
                return rounded(_quotient_bound(r, (values[a], values[b]), (bounds[a], bounds[b])), r)
            if "* 2 +" in text:
                return rounded(2 * bounds[x] + bounds[made[0]], r, 2)
            if " - " in text:
                a, b = text.strip("()").split(" - ")
                return rounded(bounds[a] + bounds[b], r)
            a, b = text.split(" * ")
            return rounded(_product_bound(r, (values[a], values[b]), (bounds[a], bounds[b])), r)

        return bound

    def matmul(self) -> None:
        x = self.pick(lambda v: v.ndim == 2 and v.dtype.kind in "iuf" and v.dtype != np.float16, only_exact=True)
        if x is None:
            return
        v = self.values[x]
        y = self.pick(lambda w: w.ndim in (1, 2) and w.shape[0] == v.shape[1] and w.dtype == v.dtype, only_exact=True)
        if y is None:
            return
        w = self.values[y]

        def bound(r: np.ndarray) -> np.ndarray:
            if r.dtype.kind not in "fc":
                return exact(r)
            if not (np.isfinite(v).all() and np.isfinite(w).all()):
                return np.full(r.shape, np.inf)
            size = magnitude(v) @ magnitude(w)
            return rounded(2 * v.shape[1] * float(finfo(r.dtype).eps) * size + float(finfo(r.dtype).tiny), r)

        self.record(f"{x} @ {y}", bound)

    STEPS = (
        (5, "unary"), (9, "binary"), (4, "elementary"), (1, "elementary2"), (1, "integer_power"), (3, "cast"), (3, "where"),
        (7, "view"), (6, "reduction"), (2, "arg_reduction"), (2, "scan"), (3, "concatenate"), (3, "gather"), (4, "update"),
        (3, "row_pattern"), (1, "matmul"),
    )  # fmt: skip


def fold_bound(op: str, r: np.ndarray, v: np.ndarray, e: np.ndarray, axes: tuple[int, ...], keep: bool) -> np.ndarray:
    """The bound of a reduction's result."""
    n = math.prod(v.shape[a] for a in axes)
    kw: dict[str, Any] = {"axis": axes, "keepdims": keep}
    if r.dtype.kind not in "fc" or n == 0:
        return exact(r)
    if op in ("max", "min", "ptp"):
        zero = v.astype(np.float64) == 0
        signs = (zero & np.signbit(v.astype(np.float64))).any(**kw) & (zero & ~np.signbit(v.astype(np.float64))).any(**kw)
        bound = e.max(**kw) + np.where((r == 0) & signs, 1e-300, 0.0)
        return bound if op != "ptp" else rounded(bound, r)
    limits = finfo(r.dtype)
    eps = float(limits.eps)
    size = magnitude(v)
    whole = np.isfinite(v)
    total = np.where(whole, size, 0.0).sum(**kw)
    if op == "prod":
        grows, shrinks = np.maximum(size, 1.0).prod(**kw), np.minimum(np.where(size == 0, 1.0, size), 1.0).prod(**kw)
        risky = (grows >= float(limits.max) / 4) | (shrinks <= float(limits.tiny) * 4)
        return np.where(n == 1, 0.0, np.where(risky, np.inf, rounded(2 * n * eps * magnitude(r), r)))
    moved = e.sum(**kw)
    spread = 2 * (n - 1) * eps * total
    bound = np.where(total >= float(limits.max) / 4, np.inf, moved + spread)
    if op == "sum":
        if v.dtype.kind in "fc" and n > 1:  # which zero a sum of zeros is, where the terms do not say
            bound = bound + np.where((total == 0) & whole.all(**kw), 1e-300, 0.0)
        return rounded(bound, r)
    if op == "mean":
        return rounded(bound / n + eps * magnitude(r), r)
    middle = np.where(whole, v, 0).astype(np.float64).sum(axis=axes, keepdims=True) / n
    far = np.abs(np.where(whole, v, 0).astype(np.float64) - middle)
    e_mean = (np.where(whole, size, 0.0).sum(axis=axes, keepdims=True) * 2 * n * eps + e.sum(axis=axes, keepdims=True)) / n
    e_far = e + e_mean + 2 * eps * (far + np.abs(middle)) + 2 * float(limits.smallest_subnormal)
    bound = (2 * far * e_far + e_far * e_far).sum(**kw) / n + 2 * n * eps * (far * far).sum(**kw) / n + eps * magnitude(r)
    if r.dtype == np.float16:
        bound = np.where(magnitude(r) > 30000, np.inf, bound + ulp(r))
    bound = np.where((np.square(far).sum(**kw) >= float(finfo(v.dtype).max) / 8) | (total >= float(finfo(v.dtype).max) / 8), np.inf, bound)
    bound = np.where(whole.all(**kw), bound, 0.0 if not e.any() else np.inf)
    if op == "std":
        variance = np.square(r.astype(np.float64))
        twice = bound if r.dtype != np.float16 else bound + ulp(r) * (1 + magnitude(r))
        bound = np.where(variance > 2 * twice, twice / np.sqrt(np.maximum(variance, 1e-300)), np.sqrt(3 * twice)) + 2 * eps * magnitude(r)
        bound = np.where(np.isfinite(r), bound, np.where(np.isnan(r), bound * 0, np.inf))
    return rounded(bound, r, 2)


def contents(dtype: np.dtype, shape: tuple[int, ...], seed: int, special: int) -> np.ndarray:
    """Values of a dtype; `special` percent of them are extremes, infinities, NaN, -0.0 and subnormals."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "c":
        part = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
        values = np.empty(shape, dtype)
        values.real, values.imag = contents(part, shape, seed, special), contents(part, shape, seed + 1, special)
        return values
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape) == 1)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        low, high = [(-9 if dtype.kind == "i" else 0, 10), (limits.min, limits.max)][int(rng.integers(0, 2))]
        values = rng.integers(low, high, shape, dtype=dtype, endpoint=True)
        pool = np.array([limits.min, limits.max, 0, 1, limits.max - 1], dtype)
    else:
        limits = np.finfo(dtype)
        scale = [1.0, 1.0, 10.0, 1e3, 0.1][int(rng.integers(0, 5))]
        with np.errstate(over="ignore"):
            values = np.asarray(rng.normal(size=shape) * scale).astype(dtype)
        if rng.integers(0, 4) == 0:
            values = np.rint(values)
        pool = np.array(
            [np.nan, np.inf, -np.inf, -0.0, 0.0, limits.smallest_subnormal, -limits.tiny, limits.max, limits.min, 1.0, 0.5], dtype
        )
    chosen = rng.integers(0, 100, shape) < special
    return np.asarray(np.where(chosen, pool[rng.integers(0, len(pool), shape)], values), dtype)


def build_program(choose: Choices, max_ops: int = 14, steps: Sequence[tuple[int, str]] = Builder.STEPS) -> Program:
    """One program of up to `max_ops` lines."""
    builder = Builder(choose)
    builder.numbers, builder.scalars = [], {}
    for _ in range(choose.integer(1, 3)):
        builder.add_argument()
    wheel = [name for weight, name in steps for _ in range(weight)]
    for _ in range(4 * max_ops):
        if len(builder.lines) >= max_ops:
            break
        getattr(builder, choose.choice(wheel))()
    names = list(builder.values)
    unused = [n for k, n in enumerate(names) if not any(_uses(line, n) for line in builder.lines)]
    returned = [choose.choice(unused or names) for _ in range(choose.integer(1, 4))]
    returned = list(dict.fromkeys([names[-1], *returned]))
    header = f"def program({', '.join(f'a{k}' for k in range(len(builder.arguments)))}):"
    source = "\n".join([header, *(f"    {line}" for line in builder.lines), f"    return ({', '.join(returned)},)", ""])
    return Program(source, builder.arguments, [builder.values[n] for n in returned], [builder.bounds[n] for n in returned], len(builder.lines))


def _uses(line: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", line.partition(" = ")[2] or line) is not None


@st.composite
def programs(draw: Callable[[Any], Any], max_ops: int = 14) -> Program:
    """Programs that hypothesis can shrink."""
    return build_program(Drawn(draw), max_ops)


@dataclass
class Difference:
    """What is wrong with one result."""

    output: int
    what: str
    program: Program = field(repr=False)

    def __str__(self) -> str:
        return f"result {self.output}: {self.what}\n\n{self.program.report()}"


def compare(program: Program, found: Sequence[Any]) -> Difference | None:
    """The first result that breaks DESIGN's contract, if any."""
    for k, (expected, bound) in enumerate(zip(program.results, program.bounds, strict=True)):
        what = difference(expected, np.asarray(found[k]), bound)
        if what:
            return Difference(k, what, program)
    return None


def difference(expected: np.ndarray, found: np.ndarray, bound: np.ndarray) -> str:
    """Why `found` is not `expected`, or nothing."""
    if found.dtype != expected.dtype:
        return f"dtype {found.dtype} instead of {expected.dtype}"
    if found.shape != expected.shape:
        return f"shape {found.shape} instead of {expected.shape}"
    if expected.dtype.kind == "c":
        return difference(expected.real, found.real, bound) or difference(expected.imag, found.imag, bound)
    if expected.dtype.kind != "f":
        wrong = expected != found
    else:
        with np.errstate(all="ignore"):
            same = (expected == found) & ((np.signbit(expected) == np.signbit(found)) | (bound > 0)) | (np.isnan(expected) & np.isnan(found))
            near = np.abs(expected.astype(np.float64) - found.astype(np.float64)) <= bound
            wrong = ~(same | near | np.isinf(bound))
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} elements differ, first at {at}: {found[at]!r} instead of {expected[at]!r}, allowed {bound[at]:.3g}"
