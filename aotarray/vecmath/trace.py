"""Values that record what is done to them as LLVM IR: how a scalar function written in Python becomes text.

A `Value` behaves as a NumPy scalar of its dtype under operators, so one Python function both computes (given
NumPy scalars) and describes itself (given values). There is no control flow to record, so every function is
branch-free by construction, and equal operations are recorded once.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

LLVM = {
    "b1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64",
    "u8": "i8", "u16": "i16", "u32": "i32", "u64": "i64", "f32": "float", "f64": "double",
}  # fmt: skip
BITS = {"b1": 1, **{kind + str(n): n for kind in "iu" for n in (8, 16, 32, 64)}, "f32": 32, "f64": 64}
PURE = "nounwind speculatable willreturn memory(none)"


def constant_text(value: float | int, dtype: str) -> str:
    """A constant as LLVM spells it; a Python float is rounded to float32 where that is the dtype."""
    if dtype == "b1":
        return "true" if value else "false"
    if dtype[0] == "f":
        number = float(value)
        if dtype == "f32" and abs(number) <= 3.4028235677973366e38:
            number = struct.unpack("<f", struct.pack("<f", number))[0]
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    bits = BITS[dtype]
    wrapped = int(value) & ((1 << bits) - 1)
    return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)


@dataclass
class Builder:
    """The body of one function under construction; `lanes` > 0 makes every value a vector."""

    lanes: int = 0
    lines: list[str] = field(default_factory=list)
    called: dict[str, str] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    known: dict[tuple[str, str], Value] = field(default_factory=dict)

    def type(self, dtype: str) -> str:
        return f"<{self.lanes} x {LLVM[dtype]}>" if self.lanes else LLVM[dtype]

    def argument(self, index: int, dtype: str) -> Value:
        return Value(self, f"%a{index}", dtype)

    def constant(self, value: float | int, dtype: str) -> Value:
        text = constant_text(value, dtype)
        return Value(self, f"splat ({LLVM[dtype]} {text})" if self.lanes else text, dtype)

    def emit(self, text: str, dtype: str) -> Value:
        found = self.known.get((text, dtype))
        if found is None:
            found = Value(self, f"%v{len(self.lines)}", dtype)
            self.lines.append(f"  {found.text} = {text}")
            self.known[text, dtype] = found
        return found

    def call(self, name: str, dtype: str, *operands: Value, attributes: str = "") -> Value:
        """Call `name`, declared on first use, with operands of any dtypes."""
        types = ", ".join(self.type(v.dtype) for v in operands)
        self.called[name] = f"declare {self.type(dtype)} @{name}({types}) {PURE}"
        listed = ", ".join(f"{self.type(v.dtype)} {v.text}" for v in operands)
        return self.emit(f"call {self.type(dtype)} @{name}({listed}){attributes}", dtype)

    def call_part(self, name: str, part: int, *operands: Value) -> Value:
        """One of the two values of operands' dtype that `name` gives."""
        dtype = operands[0].dtype
        pair = f"{{ {self.type(dtype)}, {self.type(dtype)} }}"
        types = ", ".join(self.type(v.dtype) for v in operands)
        self.called[name] = f"declare {pair} @{name}({types})"
        listed = ", ".join(f"{self.type(v.dtype)} {v.text}" for v in operands)
        both = self.emit(f"call {pair} @{name}({listed})", dtype)
        return self.emit(f"extractvalue {pair} {both.text}, {part}", dtype)

    def intrinsic(self, name: str, *operands: Value) -> Value:
        """An LLVM intrinsic overloaded on its operands' one dtype."""
        kind = LLVM[operands[0].dtype].replace("double", "f64").replace("float", "f32")
        suffix = f"v{self.lanes}{kind}" if self.lanes else kind
        return self.call(f"llvm.{name}.{suffix}", operands[0].dtype, *operands)

    def load(self, table: str, entries: tuple[int, ...], index: Value) -> Value:
        """`entries[index]` from a private constant table of 64-bit words."""
        words = ", ".join(f"i64 {constant_text(e, 'u64')}" for e in entries)
        self.tables[table] = f"@{table} = private unnamed_addr constant [{len(entries)} x i64] [{words}]"
        at = self.emit(f"getelementptr inbounds i64, ptr @{table}, i64 {index.text}", "u64")
        return self.emit(f"load i64, ptr {at.text}", "u64")

    def iterate(self, state: tuple[Value, ...], going: Any, step: Any) -> tuple[Value, ...]:
        """`while going(*state): state = step(*state)`; a loop keeps its function from vectorising."""
        at = len(self.lines)
        before, head, body, after = (f"{word}{at}" for word in ("before", "head", "body", "after"))
        self.lines += [f"  br label %{before}", f"{before}:", f"  br label %{head}", f"{head}:"]
        start = len(self.lines)
        carried = tuple(Value(self, f"%p{at}.{i}", v.dtype) for i, v in enumerate(state))
        self.lines += [""] * len(state)
        condition = going(*carried)
        self.lines += [f"  br i1 {condition.text}, label %{body}, label %{after}", f"{body}:"]
        known = dict(self.known)
        following = step(*carried)
        self.lines += [f"  br label %{head}", f"{after}:"]
        self.known = known
        for i, (first, phi, following_one) in enumerate(zip(state, carried, following, strict=True)):
            kind = self.type(first.dtype)
            self.lines[start + i] = (
                f"  {phi.text} = phi {kind} [ {first.text}, %{before} ], [ {following_one.text}, %{body} ]"
            )
        return carried


class Value:
    """One scalar under construction: its builder, its text in the IR and its dtype."""

    __slots__ = ("builder", "dtype", "text")
    __array_ufunc__ = None
    __hash__ = object.__hash__

    def __init__(self, builder: Builder, text: str, dtype: str) -> None:
        self.builder = builder
        self.text = text
        self.dtype = dtype

    def like(self, other: Any) -> Value:
        """`other` as a value of this dtype: Python numbers are weak, as in NumPy."""
        if isinstance(other, Value):
            if other.dtype != self.dtype:
                raise TypeError(f"operands of dtypes {self.dtype} and {other.dtype}")
            return other
        return self.builder.constant(other, self.dtype)

    def binary(self, op: str, left: Value, right: Value) -> Value:
        return self.builder.emit(
            f"{op} {self.builder.type(self.dtype)} {left.text}, {right.text}", self.dtype
        )

    def arithmetic(self, op: str, other: Any, swapped: bool = False) -> Value:
        left, right = self, self.like(other)
        if swapped:
            left, right = right, left
        return self.binary(("f" + op) if self.dtype[0] == "f" else op, left, right)

    def compare(self, op: str, other: Any) -> Value:
        right = self.like(other)
        if self.dtype[0] == "f":
            word = "fcmp " + {"eq": "oeq", "ne": "une"}.get(op, "o" + op)
        elif op in ("eq", "ne"):
            word = "icmp " + op
        else:
            word = "icmp " + ("s" if self.dtype[0] == "i" else "u") + op
        return self.builder.emit(f"{word} {self.builder.type(self.dtype)} {self.text}, {right.text}", "b1")

    def __add__(self, other: Any) -> Value:
        return self.arithmetic("add", other)

    def __radd__(self, other: Any) -> Value:
        return self.arithmetic("add", other, swapped=True)

    def __sub__(self, other: Any) -> Value:
        return self.arithmetic("sub", other)

    def __rsub__(self, other: Any) -> Value:
        return self.arithmetic("sub", other, swapped=True)

    def __mul__(self, other: Any) -> Value:
        return self.arithmetic("mul", other)

    def __rmul__(self, other: Any) -> Value:
        return self.arithmetic("mul", other, swapped=True)

    def __truediv__(self, other: Any) -> Value:
        return self.arithmetic("div", other)

    def __rtruediv__(self, other: Any) -> Value:
        return self.arithmetic("div", other, swapped=True)

    def __neg__(self) -> Value:
        if self.dtype[0] != "f":
            return 0 - self
        return self.builder.emit(f"fneg {self.builder.type(self.dtype)} {self.text}", self.dtype)

    def __and__(self, other: Any) -> Value:
        return self.binary("and", self, self.like(other))

    def __or__(self, other: Any) -> Value:
        return self.binary("or", self, self.like(other))

    def __xor__(self, other: Any) -> Value:
        return self.binary("xor", self, self.like(other))

    def __invert__(self) -> Value:
        return self ^ (1 if self.dtype == "b1" else -1)

    def __lshift__(self, other: Any) -> Value:
        return self.binary("shl", self, self.like(other))

    def __rshift__(self, other: Any) -> Value:
        return self.binary("ashr" if self.dtype[0] == "i" else "lshr", self, self.like(other))

    def __lt__(self, other: Any) -> Value:
        return self.compare("lt", other)

    def __le__(self, other: Any) -> Value:
        return self.compare("le", other)

    def __gt__(self, other: Any) -> Value:
        return self.compare("gt", other)

    def __ge__(self, other: Any) -> Value:
        return self.compare("ge", other)

    def __eq__(self, other: Any) -> Value:  # type: ignore[override]
        return self.compare("eq", other)

    def __ne__(self, other: Any) -> Value:  # type: ignore[override]
        return self.compare("ne", other)

    def __bool__(self) -> bool:
        raise TypeError("a scalar function may not branch on a value: use select")
