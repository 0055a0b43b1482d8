"""Random NumPy programs: a generator that knows, for every value, how far two correct evaluations may differ.

A program is plain source (`Program.source`), grown line by line and evaluated with NumPy as it grows, so that
each line is legal. Every value carries a bound on its error (see tolerance.py). A value that is not exact
never reaches an op that could magnify a rounding difference into another answer: comparisons, roundings,
casts to integers, argmax.
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
from tolerance import (
    BINARY,
    ELEMENTARY,
    ELEMENTARY2,
    SYMBOLS,
    ULPS,
    UNARY,
    difference,
    exact,
    finfo,
    fold_bound,
    lipschitz,
    magnitude,
    product_bound,
    quotient_bound,
    rounded,
    sum_bound,
    times,
    ulp,
)  # fmt: skip

from aotarray.types import code

MAX_ELEMENTS = 60_000
UNSUPPORTED_IN_HALF = ("np.nextafter", "np.spacing")
REAL = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
)
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

    def spec(self) -> str:
        """The arguments' types with all sizes fixed."""
        return ", ".join(
            f"{code(a.dtype)}[{', '.join(map(str, a.shape))}]" if hasattr(a, "dtype") else type(a).__name__
            for a in self.arguments
        )

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


class Builder:
    """Grows one program."""

    def __init__(self, choose: Choices) -> None:
        self.choose = choose
        self.values: dict[str, np.ndarray] = {}
        self.bounds: dict[str, np.ndarray] = {}
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

    numbers: list[str]
    scalars: dict[str, Any]

    def shape(self) -> tuple[int, ...]:
        choose = self.choose
        if choose.chance(8):
            return choose.choice(
                [
                    (700,),
                    (9000,),
                    (3, 600),
                    (600, 3),
                    (2, 3, 530),
                    (300, 2, 2),
                    (20000,),
                    (2, 9000),
                    (40, 700),
                ]
            )
        if self.values and choose.chance(60):
            shape = list(choose.choice([v.shape for v in self.values.values()]))
            if shape and choose.chance(30):
                shape = shape[choose.integer(0, len(shape)) :]
            if shape and choose.chance(30):
                shape[choose.integer(0, len(shape) - 1)] = 1
            return tuple(shape)
        return tuple(choose.choice(EXTENTS) for _ in range(choose.integer(0, 4)))

    def array(self, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        values = contents(
            np.dtype(dtype), shape, self.choose.integer(0, 2**31), self.choose.choice([0, 0, 5, 40])
        )
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
    def names(
        self, test: Callable[[np.ndarray], bool] = lambda v: True, only_exact: bool = False
    ) -> list[str]:
        return [
            n for n, v in self.values.items()
            if test(v) and (not only_exact or not self.bounds[n].any())
            and not (v.size and np.isinf(self.bounds[n]).all())
        ]  # fmt: skip

    def pick(
        self, test: Callable[[np.ndarray], bool] = lambda v: True, only_exact: bool = False
    ) -> str | None:
        found = self.names(test, only_exact)
        if not found:
            return None
        return found[-1 - min(self.choose.integer(0, len(found) - 1), self.choose.integer(0, len(found) - 1))]

    def evaluate(self, text: str, names: dict[str, Any]) -> Any:
        with np.errstate(all="ignore"):
            return eval(text, {"np": np, **self.scalars, **names})

    def record(self, text: str, bound: Callable[[np.ndarray], np.ndarray] | None = None) -> str | None:
        """Add `v = text`; without `bound` the text only moves elements, and moves the bounds the same way."""
        try:
            result = self.evaluate(text, self.values)
        except (TypeError, ValueError, OverflowError, IndexError):
            return None
        result = np.asarray(result)
        if result.dtype.name not in DTYPES or result.size > MAX_ELEMENTS or result.ndim > 4:
            return None
        if result.dtype == np.float16 and text.startswith(UNSUPPORTED_IN_HALF):
            return None
        name = f"v{len(self.lines)}"
        with np.errstate(all="ignore"):
            moved = bound(result) if bound is not None else self.moved(text, result)
        self.values[name] = result
        self.bounds[name] = np.array(np.broadcast_to(moved, result.shape), np.float64)
        self.lines.append(f"{name} = {text}")
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
                pool = (
                    ["2", "3", "1", "0", "-1", "7"]
                    if dtype.kind in "iub"
                    else ["0.5", "2.0", "-1.5", "3", "1e-3", "0.0", "-0.0"]
                )
                pool += [
                    f"np.{dtype}(1)",
                    "True",
                    "np.float32(0.1)",
                    "np.int8(-7)",
                    "np.uint64(2**63)",
                    "np.int64(-2**63)",
                ]
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
        if op in ("gcd", "lcm") and not kinds <= {"i", "u"}:
            return
        spelled = (
            f"{x} {SYMBOLS[op]} {text}"
            if op in SYMBOLS and self.choose.chance(70)
            else f"np.{op}({x}, {text})"
        )

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
            passed = lipschitz(r, (v,), (e,))
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
        if (
            dtype.kind in "iu" and v.dtype.kind == "f" and v.size
        ):  # out of range is undefined in C and in NumPy
            limits = np.iinfo(dtype)
            if not (np.isfinite(v).all() and (v > limits.min).all() and (v < limits.max).all()):
                low = max(limits.min, -90)
                x = self.record(f"np.clip(np.where(np.isnan({x}), 0, {x}), {low}, 90)", exact)
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
        text, _, f = other
        c, e = self.values[test], self.bounds[x]
        self.record(
            f"np.where({test}, {x}, {text})",
            lambda r: rounded(np.where(c, e, f), r) if r.dtype.kind in "fc" else exact(r),
        )

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
            self.record(f"{x}[{self.index_text(shape)}]")
        elif kind == 4 and rank:
            order = list(range(rank))
            for k in range(rank - 1, 0, -1):
                j = choose.integer(0, k)
                order[k], order[j] = order[j], order[k]
            self.record(
                choose.choice([f"{x}.T", f"np.transpose({x}, {tuple(order)})", f"np.swapaxes({x}, 0, -1)"]),
            )
        elif kind == 5:
            size = self.values[x].size
            targets = [
                "-1",
                f"({', '.join(map(str, shape[::-1]))},)" if shape else "1",
                f"(1, {size})",
                f"({size}, 1)",
            ]
            if rank >= 2:
                targets += [
                    f"({x}.shape[0], -1)" if shape[0] else "-1",
                    f"(-1, {shape[-1]})" if size else "-1",
                ]
            targets += [f"({d}, {size // d})" for d in (2, 3, 7) if size and size % d == 0]
            self.record(f"{x}.reshape({choose.choice(targets)})")
        elif kind == 6 and rank:
            self.record(f"np.flip({x}, {choose.integer(0, rank - 1)})")
        elif kind == 7 and rank < 4:
            target = choose.choice(
                [f"(2, *{x}.shape)", f"(1, *{x}.shape)"] + [f"{n}.shape" for n in self.values]
            )
            self.record(f"np.broadcast_to({x}, {target})")
        elif kind == 8 and rank < 4:
            self.record(f"np.expand_dims({x}, {choose.integer(-rank - 1, rank)})")
        elif self.values[x].dtype.kind == "c":
            bounds = self.bounds[x]
            self.record(f"{x}.{choose.choice(['real', 'imag'])}", lambda r: bounds)

    def axes_text(self, rank: int) -> tuple[str, tuple[int, ...]]:
        choose = self.choose
        if rank == 0 or choose.chance(25):
            return "None", tuple(range(rank))
        axes = sorted({choose.integer(0, rank - 1) for _ in range(choose.integer(1, rank))})
        shown = [a - rank if choose.chance(40) else a for a in axes]
        return (str(shown[0]) if len(shown) == 1 else str(tuple(shown))), tuple(axes)

    def reduction(self) -> None:
        choose = self.choose
        op = choose.choice(
            ["sum", "sum", "mean", "max", "min", "prod", "any", "all", "var", "std", "count_nonzero", "ptp"]
        )
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
            return w.ndim == v.ndim and all(
                a == b for k, (a, b) in enumerate(zip(v.shape, w.shape, strict=True)) if k != axis
            )

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
        text = (
            f"np.take({x}, {index}, axis={axis})"
            if choose.chance(25)
            else f"{x}[{', '.join([*lead, index])}]"
        )
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
                    return np.broadcast_shapes(w.shape, region.shape) == region.shape and np.can_cast(
                        w.dtype, dtype, "same_kind"
                    )
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
                    moved = (
                        rounded(e, np.asarray(region))
                        if value.dtype.kind in "fc"
                        else exact(np.asarray(region))
                    )
                else:
                    rule = sum_bound if sign == "+=" else product_bound
                    moved = rounded(
                        rule(np.asarray(region), (np.asarray(old), given), (bound[place], e)),
                        np.asarray(region),
                    )
                bound[place] = moved
        except (TypeError, ValueError, OverflowError, IndexError):
            return
        self.lines.append(statement)
        self.values[local], self.bounds[local] = value, bound

    def row_pattern(self) -> None:
        """Shapes of code that people write: centring, scaling, softmax, matrix products."""
        choose = self.choose
        x = self.pick(
            lambda v: v.dtype.kind == "f" and v.dtype != np.float16 and 1 <= v.ndim <= 3 and v.size > 0,
            only_exact=True,
        )
        if x is None:
            return
        rank = self.values[x].ndim
        axis = choose.integer(-rank, -1)
        before = dict(self.values)
        lines = choose.choice([
            ["{x}.max({k})", "{x} - {0}", "np.exp({1})", "{2}.sum({k})", "{2} / {3}"],
            ["{x}.mean({k})", "{x} - {0}", "{1} * {1}", "{2}.mean({k})", "{1} / np.sqrt({3} + 1e-3)"],
            ["{x}.sum({k})", "{x} * 2 + {0}", "{1}.max(axis={a})"],
            ["{x}.min({k})", "{x}.max({k})", "({x} - {0})", "{1} - {0}", "{2} / ({3} + 1)"],
        ])  # fmt: skip
        made: list[str] = []
        for line in lines:
            text = line.format(*made, x=x, a=axis, k=f"axis={axis}, keepdims=True")
            name = self.record(text, self.pattern_bound(text, made, x, axis))
            if name is None:
                self.values = before | self.values
                return
            made.append(name)

    def pattern_bound(
        self, text: str, made: list[str], x: str, axis: int
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Bounds of the lines of `row_pattern`."""
        values, bounds = self.values, self.bounds
        names = [
            n for n in (*made, x) if n in text.replace("(", " ").replace(")", " ").replace(".", " ").split()
        ]

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
                return rounded(times(magnitude(r), np.expm1(np.minimum(e, 700.0))) + ULPS * ulp(r), r, 0)
            del v, first
            if "np.sqrt" in text:
                c, m = made[1], made[3]
                root = np.sqrt(values[m].astype(np.float64) + 1e-3)
                e_root = np.where(
                    np.isfinite(bounds[m]),
                    bounds[m] / 0.03 + 2 * ulp(values[m]) / 0.03 + 4 * root * float(finfo(r.dtype).eps),
                    np.inf,
                )
                return rounded(
                    quotient_bound(r, (values[c], root), (bounds[c], np.where(bounds[m] > 0, e_root, 0.0))),
                    r,
                    4,
                )
            if " / (" in text:
                return rounded(
                    quotient_bound(
                        r, (values[made[2]], values[made[3]] + 1), (bounds[made[2]], bounds[made[3]])
                    ),
                    r,
                    4,
                )
            if " / " in text:
                a, b = text.split(" / ")
                return rounded(quotient_bound(r, (values[a], values[b]), (bounds[a], bounds[b])), r)
            if "* 2 +" in text:
                return rounded(2 * bounds[x] + bounds[made[0]], r, 2)
            if " - " in text:
                a, b = text.strip("()").split(" - ")
                return rounded(bounds[a] + bounds[b], r)
            a, b = text.split(" * ")
            return rounded(product_bound(r, (values[a], values[b]), (bounds[a], bounds[b])), r)

        return bound

    def matmul(self) -> None:
        x = self.pick(
            lambda v: v.ndim == 2 and v.dtype.kind in "iuf" and v.dtype != np.float16, only_exact=True
        )
        if x is None:
            return
        v = self.values[x]
        y = self.pick(
            lambda w: w.ndim in (1, 2) and w.shape[0] == v.shape[1] and w.dtype == v.dtype, only_exact=True
        )
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

    def ordering(self) -> None:
        """Sorting and searching: exact values only, since an order may not depend on rounding."""
        choose = self.choose
        x = self.pick(lambda v: v.dtype.kind in "biuf" and v.ndim > 0 and v.size > 0, only_exact=True)
        if x is None:
            return
        v = self.values[x]
        axis = choose.integer(-v.ndim, v.ndim - 1)
        if v.dtype.kind == "f" and (np.isnan(v).any() or (np.signbit(v) & (v == 0)).any()):
            return  # which of equal values comes first is NumPy's own business, and it differs by CPU
        kth = choose.integer(0, v.shape[axis] - 1)
        flat = x if v.ndim == 1 else f"{x}.ravel()"
        texts = [f"np.sort({x}, axis={axis})", f"np.argsort({x}, axis={axis}, kind='stable')"]
        texts += [f"np.partition({x}, {kth}, axis={axis})[{', '.join([':'] * (axis % v.ndim) + [str(kth)])}]"]
        side = choose.choice(["", ", side='right'"])
        texts += [f"np.searchsorted(np.sort({flat}), {x}{side})"]
        texts += [f"np.take_along_axis({x}, np.argsort({x}, axis={axis}, kind='stable'), {axis})"]
        texts += [f"np.digitize({x}, np.sort({flat}))"] if v.dtype.kind != "b" else []
        self.record(choose.choice(texts), exact)

    def advanced(self) -> None:
        """Integer arrays beside slices, integers and each other; masks of leading axes known as positions."""
        choose = self.choose
        x = self.pick(lambda v: v.ndim > 0 and v.size > 0)
        if x is None:
            return
        count = choose.integer(1, 3)
        items: list[str] = []
        for extent in self.values[x].shape:
            listed = [choose.integer(-extent, extent - 1) for _ in range(count)]
            column = f"np.array({listed})[:, None]"
            arrays = [f"np.array({listed})", str(listed), column]
            items.append(choose.choice([*arrays, self.slice_text(extent), ":", str(listed[0]), "None, :", "..."]))
        if items.count("...") > 1:
            return
        self.record(f"{x}[{', '.join(items)}]")

    def write_advanced(self) -> None:
        """A local copy written at integer arrays, masks or by a function; duplicates in order."""
        choose = self.choose
        x = self.pick(lambda v: v.ndim > 0 and v.size > 0, only_exact=True)
        local = self.record(f"{x}.copy()") if x is not None else None
        if local is None:
            return
        v = self.values[local]
        axis = choose.integer(0, v.ndim - 1)
        listed = [choose.integer(-v.shape[axis], v.shape[axis] - 1) for _ in range(choose.integer(1, 4))]
        place = ", ".join([":"] * axis + [choose.choice([f"np.array({listed})", str(listed)])])
        number = choose.choice(["0", "1", "2"]) if v.dtype.kind != "b" else "True"
        forms = [f"{local}[{place}] = {number}", f"{local}[{local} == {local}] = {number}"]
        forms += [f"np.put({local}, {choose.choice(['[0, -1, 0]', '[0]'])}, {number})"]
        forms += [f"np.place({local}, {local} == {local}, [{number}])", f"{local}[{place}] = {local}[{place}]"]
        if v.dtype.kind in "iuf":
            forms += [f"{local}[{place}] += 1", f"{local}[{local} > 1] *= 2", f"{local}[{place}] *= 2"]
            forms += [f"{local}[{local} > 1] = {local}[{local} > 1] - 1"]
            if axis == 0:
                forms += [f"np.add.at({local}, {listed}, 1)", f"np.maximum.at({local}, {listed}, 2)"]
        statement = choose.choice(forms)
        value = v.copy()
        try:
            with np.errstate(all="ignore"):
                exec(statement, {"np": np, **self.values, local: value})
        except (TypeError, ValueError, OverflowError, IndexError):
            return
        self.lines.append(statement)
        self.values[local] = value

    STEPS = (
        (5, "unary"), (9, "binary"), (4, "elementary"), (1, "elementary2"), (1, "integer_power"), (3, "cast"),
        (3, "where"), (7, "view"), (6, "reduction"), (2, "arg_reduction"), (2, "scan"), (3, "concatenate"),
        (3, "gather"), (4, "update"), (3, "row_pattern"), (1, "matmul"),
    )  # fmt: skip
    #: with much that sorts, searches, indexes by arrays and writes at arrays
    INDEXING_STEPS = ((6, "ordering"), (8, "advanced"), (8, "write_advanced"), *STEPS)


def contents(dtype: np.dtype, shape: tuple[int, ...], seed: int, special: int) -> np.ndarray:
    """Values of a dtype; `special` percent of them are extremes, infinities, NaN, -0.0 and subnormals."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "c":
        part = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
        values = np.empty(shape, dtype)
        values.real, values.imag = (
            contents(part, shape, seed, special),
            contents(part, shape, seed + 1, special),
        )
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
            [
                np.nan,
                np.inf,
                -np.inf,
                -0.0,
                0.0,
                limits.smallest_subnormal,
                -limits.tiny,
                limits.max,
                limits.min,
                1.0,
                0.5,
            ],
            dtype,
        )
    chosen = rng.integers(0, 100, shape) < special
    return np.asarray(np.where(chosen, pool[rng.integers(0, len(pool), shape)], values), dtype)


def build_program(
    choose: Choices, max_ops: int = 14, steps: Sequence[tuple[int, str]] = Builder.STEPS
) -> Program:
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
    source = "\n".join(
        [header, *(f"    {line}" for line in builder.lines), f"    return ({', '.join(returned)},)", ""]
    )
    return Program(
        source,
        builder.arguments,
        [builder.values[n] for n in returned],
        [builder.bounds[n] for n in returned],
        len(builder.lines),
    )


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
