"""The spec grammar: text such as `f64[n, m], x: inout f32[n - 2], float` to plain data, and back.

    spec       =  [ parameter { "," parameter } [ "," ] ]
    parameter  =  [ name ":" ] [ "inout" ] type                   inout: arrays that the function writes into
    type       =  dtype "[" [ size { "," size } ] "]"             an array; "f64[]" has no axes
               |  "float" | "int" | "bool" | "complex"            a Python scalar (weak, as in NumPy)
               |  "(" type "," [ type { "," type } ] ")" | "()"   a tuple
               |  "[" [ type { "," type } ] "]"                   a list
               |  "{" [ string ":" type { "," ... } ] "}"         a dict
    size       =  constant | name | size ("+" | "-" | "*" | "//" | "%") size | "(" size ")"

In `iN` and `uN`, N counts bits: 8, 16, 32 or 64. `f2`, `f4`, `f8`, `c8` and `c16` are NumPy's codes and
count bytes, so `f8`, `f64`, `float64` and `double` are one dtype. NumPy's `i8` (eight bytes) is `i64` here.
"""

from __future__ import annotations

import ast
import difflib
import json
import keyword
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar, Union

import numpy as np

from .errors import SpecError

Operator = Literal["+", "-", "*", "//", "%"]


@dataclass(frozen=True, slots=True)
class BinOp:
    """A size worked out from two others: `n - 2`."""

    op: Operator
    left: DimExpr
    right: DimExpr


#: A size: a constant, a name, or an expression of them.
DimExpr = Union[int, str, BinOp]


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array of `dtype` with one size an axis."""

    dtype: np.dtype
    dims: tuple[DimExpr, ...]


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """A weak Python scalar."""

    kind: Literal["bool", "int", "float", "complex"]


@dataclass(frozen=True, slots=True)
class TupleSpec:
    """A tuple of specs."""

    items: tuple[Spec, ...]


@dataclass(frozen=True, slots=True)
class ListSpec:
    """A list of specs."""

    items: tuple[Spec, ...]


@dataclass(frozen=True, slots=True)
class DictSpec:
    """A dict from strings to specs, in the order written."""

    items: tuple[tuple[str, Spec], ...]


Spec = Union[ArraySpec, ScalarSpec, TupleSpec, ListSpec, DictSpec]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument; `inout` arrays are written in place."""

    name: str | None
    spec: Spec
    inout: bool = False


_CODES = {
    "bool": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "c64": "complex64",
    "c128": "complex128",
}
_ALIASES = {
    "b1": "bool",
    "f2": "float16",
    "half": "float16",
    "f4": "float32",
    "single": "float32",
    "f8": "float64",
    "double": "float64",
    "c8": "complex64",
    "c16": "complex128",
    "int": "int64",
    "float": "float64",
    "complex": "complex128",
}
#: every accepted dtype name -> the dtype
DTYPES: dict[str, np.dtype] = {
    name: np.dtype(full)
    for name, full in {**_CODES, **_ALIASES, **{full: full for full in _CODES.values()}}.items()
}
_CODE_OF_DTYPE = {np.dtype(full): short for short, full in _CODES.items()}
_SCALARS: dict[str, ScalarSpec] = {
    "bool": ScalarSpec("bool"),
    "int": ScalarSpec("int"),
    "float": ScalarSpec("float"),
    "complex": ScalarSpec("complex"),
}

_TOKEN = re.compile(
    r"""\s*(?:(?P<name>[^\W\d]\w*)
           |(?P<number>\d\w*)
           |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
           |(?P<mark>//|[][(){},:+\-*%])
           |(?P<end>$)
           |(?P<other>.))""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else f"'{self.text}'"


def _token(match: re.Match[str]) -> _Token:
    kind = match.lastgroup or "end"
    return _Token(kind, match[kind], match.start(kind))


_T = TypeVar("_T")


def parse(text: str) -> tuple[Parameter, ...]:
    """The parameters that `text` describes, one an argument.

    >>> parse("f64[n, 3], float")[1]
    Parameter(name=None, spec=ScalarSpec(kind='float'), inout=False)

    Raises SpecError, which shows the place in the text and what was expected there.
    """
    try:
        return _Parser(text).parse()
    except RecursionError:
        raise SpecError("the spec is nested too deeply") from None


class _Parser:
    """Recursive descent: one method for each rule of the grammar."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [_token(match) for match in _TOKEN.finditer(text)]
        self.position = 0

    # -- tokens -----------------------------------------------------------------------------------
    @property
    def next(self) -> _Token:
        return self.tokens[self.position]

    def take(self) -> _Token:
        token = self.next
        if token.kind != "end":
            self.position += 1
        return token

    def accept(self, mark: str) -> bool:
        if self.next.kind == "mark" and self.next.text == mark:
            self.position += 1
            return True
        return False

    def expect(self, mark: str, wanted: str) -> None:
        if not self.accept(mark):
            raise self.expected(wanted)

    def expected(self, wanted: str) -> SpecError:
        return self.error(f"expected {wanted}, found {self.next}", self.next)

    def error(self, message: str, token: _Token) -> SpecError:
        line = re.sub(r"\s", " ", self.text)
        return SpecError(f"{message}\n  {line}\n  {' ' * token.at}^")

    def list_until(self, close: str, item: Callable[[], _T]) -> tuple[list[_T], bool]:
        """Items up to the closing mark, and whether a comma came last."""
        items: list[_T] = []
        comma = False
        while not self.accept(close):
            if items and not comma:
                raise self.expected(f"',' or '{close}'")
            items.append(item())
            comma = self.accept(",")
        return items, comma

    # -- rules ------------------------------------------------------------------------------------
    def parse(self) -> tuple[Parameter, ...]:
        parameters: list[Parameter] = []
        while self.next.kind != "end":
            start = self.next
            parameter = self.parameter()
            if parameter.name is not None and any(p.name == parameter.name for p in parameters):
                raise self.error(f"two arguments are named '{parameter.name}'", start)
            parameters.append(parameter)
            if self.next.kind != "end":
                self.expect(",", "',' or the end")
        return tuple(parameters)

    def parameter(self) -> Parameter:
        name = None
        if self.next.kind == "name" and self.tokens[self.position + 1].text == ":":
            name = self.identifier("an argument's name")
            self.expect(":", "':'")
        start = self.next
        inout = start.text == "inout"
        if inout:
            self.take()
        spec = self.type()
        if inout and not _is_of_arrays(spec):
            raise self.error("only arrays can be inout", start)
        return Parameter(name, spec, inout)

    def type(self) -> Spec:
        if self.accept("("):
            start = self.tokens[self.position - 1]
            items, comma = self.list_until(")", self.type)
            if len(items) == 1 and not comma:
                raise self.error("a tuple of one needs a comma: (f64[n],)", start)
            return TupleSpec(tuple(items))
        if self.accept("["):
            return ListSpec(tuple(self.list_until("]", self.type)[0]))
        if self.accept("{"):
            return self.dict()
        if self.next.text in ("<", ">", "="):
            raise self.error("arrays are in native byte order: write f64[n] without '<' or '>'", self.next)
        if self.next.kind != "name":
            raise self.expected('a type such as f64[n], float, (f64[n], f64[n]) or {"w": f64[n]}')
        return self.array_or_scalar()

    def array_or_scalar(self) -> Spec:
        token = self.take()
        if token.text not in DTYPES:
            raise self.error(_unknown_dtype(token.text), token)
        if self.accept("["):
            return ArraySpec(DTYPES[token.text], tuple(self.list_until("]", self.size)[0]))
        if token.text in _SCALARS:
            return _SCALARS[token.text]
        raise self.error(
            f"expected '[' after {token}: {token.text}[n] has one axis, {token.text}[] none", self.next
        )

    def dict(self) -> DictSpec:
        keys: set[str] = set()

        def entry() -> tuple[str, Spec]:
            token = self.next
            if token.kind == "name":
                raise self.error(f'expected a quoted key: "{token.text}"', token)
            if token.kind != "string":
                raise self.expected("a key in quotes or '}'")
            self.take()
            try:
                key = ast.literal_eval(token.text)
            except (ValueError, SyntaxError):
                raise self.error(f"{token.text} is no string", token) from None
            if key in keys:
                raise self.error(f"two entries have the key {token.text}", token)
            keys.add(key)
            self.expect(":", "':'")
            return key, self.type()

        return DictSpec(tuple(self.list_until("}", entry)[0]))

    def size(self) -> DimExpr:
        return self.binary(("+", "-"), lambda: self.binary(("*", "//", "%"), self.atom))

    def binary(self, operators: tuple[Operator, ...], operand: Callable[[], DimExpr]) -> DimExpr:
        left = operand()
        while True:
            op = next((op for op in operators if self.accept(op)), None)
            if op is None:
                return left
            start = self.next
            right = operand()
            if op in ("//", "%") and right == 0:
                raise self.error("division by zero", start)
            left = BinOp(op, left, right)

    def atom(self) -> DimExpr:
        token = self.next
        if token.kind == "name":
            return self.identifier("a size")
        if self.accept("("):
            inner = self.size()
            self.expect(")", "')'")
            return inner
        if token.kind != "number":
            raise self.expected("a size such as n, 3 or n - 2")
        if not (token.text.isascii() and token.text.isdigit()):
            raise self.error(f"{token} is neither a number nor a name", token)
        if int(token.text) >= 2**63:
            raise self.error(f"{token} does not fit 64 bits", token)
        self.take()
        return int(token.text)

    def identifier(self, wanted: str) -> str:
        token = self.take()
        if keyword.iskeyword(token.text):
            raise self.error(f"{token} is a word of Python, so it cannot name {wanted}", token)
        return token.text


def _is_of_arrays(spec: Spec) -> bool:
    """True for an array and for containers of arrays alone."""
    if isinstance(spec, DictSpec):
        return all(_is_of_arrays(item) for _, item in spec.items)
    return isinstance(spec, ArraySpec) or (
        isinstance(spec, (TupleSpec, ListSpec)) and all(map(_is_of_arrays, spec.items))
    )


def _unknown_dtype(name: str) -> str:
    bytes_code = re.fullmatch("([iu])([124])", name)
    if bytes_code:
        kind, size = bytes_code.groups()
        return f"unknown dtype '{name}': integers count bits here, write {kind}{8 * int(size)}"
    close = difflib.get_close_matches(name.lower(), DTYPES, n=1, cutoff=0.6)
    if close:
        return f"unknown dtype '{name}'; did you mean {close[0]}?"
    return f"unknown dtype '{name}'; there are {', '.join(_CODES)}"


def format(spec: Spec | Parameter | tuple[Parameter, ...]) -> str:
    """The canonical text of `spec`, which parses to the same again.

    >>> format(parse("float64[ n,m ],x:double[n-2]"))
    'f64[n, m], x: f64[n - 2]'
    """
    if isinstance(spec, tuple):
        return ", ".join(map(format, spec))
    if isinstance(spec, Parameter):
        name = "" if spec.name is None else f"{spec.name}: "
        return f"{name}{'inout ' if spec.inout else ''}{format(spec.spec)}"
    if isinstance(spec, ArraySpec):
        return f"{_CODE_OF_DTYPE[spec.dtype]}[{', '.join(format_size(dim) for dim in spec.dims)}]"
    if isinstance(spec, ScalarSpec):
        return spec.kind
    if isinstance(spec, DictSpec):
        entries = (f"{json.dumps(key, ensure_ascii=False)}: {format(item)}" for key, item in spec.items)
        return "{" + ", ".join(entries) + "}"
    inner = ", ".join(map(format, spec.items))
    if isinstance(spec, ListSpec):
        return f"[{inner}]"
    return f"({inner},)" if len(spec.items) == 1 else f"({inner})"


_PRECEDENCE: dict[Operator, int] = {"+": 1, "-": 1, "*": 2, "//": 2, "%": 2}


def format_size(size: DimExpr, precedence: int = 0) -> str:
    """The text of a size, in parentheses where its operator binds less than `precedence`."""
    if not isinstance(size, BinOp):
        return str(size)
    own = _PRECEDENCE[size.op]
    op = "*" if size.op == "*" else f" {size.op} "
    text = f"{format_size(size.left, own)}{op}{format_size(size.right, own + 1)}"
    return f"({text})" if own < precedence else text
