"""Symbolic sizes: integers known only when the compiled code runs, as polynomials of named sizes.

A `Size` is a sum of integer multiples of products of atoms. An atom is a name (`n`) or a call
(`floordiv`, `mod`, `min`, `max`) on sizes. Equal sizes are equal objects after normalisation, so `==`
and `hash` answer "provably the same". A constant result is a plain `int`; code takes `int | Size`.
Names stand for integers >= 0. The same algebra serves loop indices during code generation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Union

Dim = Union[int, "Size"]
Atom = Union[str, "Call"]
Monomial = tuple[Any, ...]  # atoms, sorted by their text, repeated for powers


class Call:
    """`floordiv`, `mod`, `min` or `max` of two sizes: an atom of the polynomial."""

    __slots__ = ("args", "name", "text")

    def __init__(self, name: str, args: tuple[Dim, Dim]) -> None:
        self.name = name
        self.args = args
        self.text = _call_text(name, args)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text


def _call_text(name: str, args: tuple[Dim, Dim]) -> str:
    if name == "floordiv":
        return f"({_wrap(args[0])}//{_wrap(args[1])})"
    if name == "mod":
        return f"({_wrap(args[0])} % {_wrap(args[1])})"
    return f"{name}({args[0]}, {args[1]})"


def _wrap(size: Dim) -> str:
    text = str(size)
    return text if text.isidentifier() or text.isdigit() else f"({text})"


class Size:
    """An integer polynomial of atoms; build with names and operators, never directly."""

    __slots__ = ("_hash", "_text", "terms")

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self._hash = hash(terms)
        self._text: str | None = None

    # -- algebra ------------------------------------------------------------------------------
    def __add__(self, other: Dim) -> Dim:
        if not isinstance(other, (int, Size)):
            return NotImplemented
        return _sum(self, other, 1)

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        if not isinstance(other, (int, Size)):
            return NotImplemented
        return _sum(self, other, -1)

    def __rsub__(self, other: int) -> Dim:
        return _sum(_terms_only(other), self, -1)

    def __mul__(self, other: Dim) -> Dim:
        if not isinstance(other, (int, Size)):
            return NotImplemented
        return _product(self, other)

    __rmul__ = __mul__

    def __neg__(self) -> Dim:
        return _product(self, -1)

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other)

    def __rfloordiv__(self, other: int) -> Dim:
        return floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return mod(self, other)

    def __rmod__(self, other: int) -> Dim:
        return mod(other, self)

    # -- identity and text ----------------------------------------------------------------------
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self._hash == other._hash and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        """The size as Python source: `n*m - 2`, `max(n - 2, 0)`."""
        if self._text is None:
            self._text = _text(self.terms)
        return self._text

    __repr__ = __str__


def name(text: str) -> Size:
    """The size called `text`."""
    return Size((((text,), 1),))


def _sort_key(monomial: Monomial) -> tuple[int, str]:
    return (-len(monomial), "*".join(map(str, monomial)))


def _make(terms: Mapping[Monomial, int]) -> Dim:
    kept = [(m, c) for m, c in terms.items() if c]
    if not kept:
        return 0
    if len(kept) == 1 and kept[0][0] == ():
        return kept[0][1]
    kept.sort(key=lambda item: _sort_key(item[0]))
    return Size(tuple(kept))


def _terms_only(size: Dim) -> Size:
    """`size` as a `Size` object even when constant (internal)."""
    return size if isinstance(size, Size) else Size((((), int(size)),) if size else ())


def _sum(a: Size, b: Dim, sign: int) -> Dim:
    terms = dict(a.terms)
    for monomial, coefficient in _terms_only(b).terms:
        terms[monomial] = terms.get(monomial, 0) + sign * coefficient
    return _make(terms)


def _product(a: Size, b: Dim) -> Dim:
    terms: dict[Monomial, int] = {}
    for ma, ca in a.terms:
        for mb, cb in _terms_only(b).terms:
            monomial = tuple(sorted(ma + mb, key=str))
            terms[monomial] = terms.get(monomial, 0) + ca * cb
    return _make(terms)


def of_call(call: Call) -> Size:
    """A call as a size."""
    return Size((((call,), 1),))


@lru_cache(maxsize=65536)
def floordiv(a: Dim, b: Dim) -> Dim:
    """`a // b`; exact divisions simplify (`(2*n)//2`, `(n*m)//m`)."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b else 0
    if b == 1 or a == 0:
        return a
    exact = _divide_exactly(a, b)
    if exact is not None:
        return exact
    return of_call(Call("floordiv", (a, b)))


@lru_cache(maxsize=65536)
def mod(a: Dim, b: Dim) -> Dim:
    """`a % b`, with the sign of `b`."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b if b else 0
    if b == 1 or _divide_exactly(a, b) is not None:
        return 0
    return of_call(Call("mod", (a, b)))


def _divide_exactly(a: Dim, b: Dim) -> Dim | None:
    """`a / b` when `b` is one term that divides every term of `a`."""
    divisor = _terms_only(b).terms
    if len(divisor) != 1:
        return 1 if a == b else None
    monomial, coefficient = divisor[0]
    terms: dict[Monomial, int] = {}
    for m, c in _terms_only(a).terms:
        rest = list(m)
        for atom in monomial:
            if atom not in rest:
                return None
            rest.remove(atom)
        if c % coefficient:
            return None
        terms[tuple(rest)] = c // coefficient
    return _make(terms)


@lru_cache(maxsize=65536)
def maximum(a: Dim, b: Dim) -> Dim:
    """The larger of two sizes, simplified where their order is known."""
    order = _order(a, b)
    if order is not None:
        return b if order < 0 else a
    return of_call(Call("max", (a, b)))


@lru_cache(maxsize=65536)
def minimum(a: Dim, b: Dim) -> Dim:
    """The smaller of two sizes, simplified where their order is known."""
    order = _order(a, b)
    if order is not None:
        return a if order < 0 else b
    return of_call(Call("min", (a, b)))


def _order(a: Dim, b: Dim) -> int | None:
    """-1 when a <= b always, 1 when a >= b always, None when unknown."""
    difference = a - b
    if isinstance(difference, int):
        return -1 if difference <= 0 else 1
    if never_negative(difference):
        return 1
    if never_negative(-difference):
        return -1
    return None


def never_negative(size: Dim) -> bool:
    """True when `size` is provably >= 0 for all sizes (names are >= 0)."""
    if isinstance(size, int):
        return size >= 0
    return all(c >= 0 and all(_atom_never_negative(a) for a in m) for m, c in size.terms)


def _atom_never_negative(atom: Atom) -> bool:
    if isinstance(atom, str):
        return True
    a, b = atom.args
    if atom.name == "max":
        return never_negative(a) or never_negative(b)
    if atom.name == "min":
        return never_negative(a) and never_negative(b)
    return never_negative(a) and never_negative(b)


def evaluate(size: Dim, values: Mapping[str, int]) -> int:
    """The integer value of `size` with `values` for its names."""
    result = substitute(size, values)
    if not isinstance(result, int):
        raise KeyError(f"no value for a name in {result}")
    return result


def substitute(size: Dim, values: Mapping[str, Dim]) -> Dim:
    """`size` with names replaced by other sizes."""
    if isinstance(size, int):
        return size
    total: Dim = 0
    for monomial, coefficient in size.terms:
        term: Dim = coefficient
        for atom in monomial:
            term = term * _substitute_atom(atom, values)
        total = total + term
    return total


def exchange(size: Dim, atoms: Mapping[Atom, Dim]) -> Dim:
    """`size` with other sizes in place of atoms, also inside of `floordiv`, `mod`, `min` and `max`."""
    if isinstance(size, int):
        return size
    total: Dim = 0
    for monomial, coefficient in size.terms:
        term: Dim = coefficient
        for atom in monomial:
            if atom not in atoms and isinstance(atom, Call):
                a, b = (exchange(arg, atoms) for arg in atom.args)
                term = term * _CALLS[atom.name](a, b)
            else:
                term = term * atoms.get(atom, name(atom) if isinstance(atom, str) else 0)
        total = total + term
    return total


_CALLS = {"floordiv": floordiv, "mod": mod, "min": minimum, "max": maximum}


def _substitute_atom(atom: Atom, values: Mapping[str, Dim]) -> Dim:
    if isinstance(atom, str):
        return values.get(atom, name(atom))
    a, b = (substitute(arg, values) for arg in atom.args)
    return _CALLS[atom.name](a, b)


def map_calls(size: Dim, rule: Callable[[Call], Dim | None]) -> Dim:
    """`size` with each call that `rule` has a size for replaced by that, outermost calls first."""
    if isinstance(size, int):
        return size
    total: Dim = 0
    for monomial, coefficient in size.terms:
        term: Dim = coefficient
        for atom in monomial:
            term = term * (name(atom) if isinstance(atom, str) else _map_call(atom, rule))
        total = total + term
    return total


def _map_call(call: Call, rule: Callable[[Call], Dim | None]) -> Dim:
    known = rule(call)
    if known is not None:
        return known
    return _CALLS[call.name](*(map_calls(arg, rule) for arg in call.args))


def names(size: Dim) -> frozenset[str]:
    """All names that `size` depends on."""
    if isinstance(size, int):
        return frozenset()
    found: set[str] = set()
    for monomial, _ in size.terms:
        for atom in monomial:
            if isinstance(atom, str):
                found.add(atom)
            else:
                for arg in atom.args:
                    found |= names(arg)
    return frozenset(found)


def linear_coefficient(size: Dim, variable: str) -> Dim | None:
    """The factor of `variable` in `size` when it is linear in it, else None."""
    if isinstance(size, int):
        return 0
    factor: Dim = 0
    for monomial, coefficient in size.terms:
        count = sum(1 for atom in monomial if atom == variable)
        if any(isinstance(atom, Call) and variable in names(of_call(atom)) for atom in monomial) or count > 1:
            return None
        if count:
            rest = list(monomial)
            rest.remove(variable)
            factor = factor + _make({tuple(rest): coefficient})
    return factor


def product(sizes: Iterable[Dim]) -> Dim:
    """The number of elements of a shape."""
    result: Dim = 1
    for size in sizes:
        result = result * size
    return result


def _text(terms: tuple[tuple[Monomial, int], ...]) -> str:
    if not terms:
        return "0"
    parts: list[str] = []
    for monomial, coefficient in sorted(terms, key=lambda term: term[1] < 0):
        body = "*".join(map(str, monomial))
        magnitude = abs(coefficient)
        piece = str(magnitude) if not body else body if magnitude == 1 else f"{magnitude}*{body}"
        if not parts:
            parts.append(f"-{piece}" if coefficient < 0 else piece)
        else:
            parts.append(f"- {piece}" if coefficient < 0 else f"+ {piece}")
    return " ".join(parts)
