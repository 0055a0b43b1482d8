"""det, slogdet, inv, solve and cholesky of matrices of at most 4 rows, written out element by element.

A matrix is a list of rows of traced arrays, one for each of its elements, over the axes before the last two. So
what is done with it fuses with what is around it. Pivots are chosen as LAPACK's `getrf` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import promote, views
from ..tracer import Tracer
from .elementwise import cast_to, guard, op, where
from .joining import stack
from .numeric import _part

#: up to this many rows a matrix is worked on element by element
LARGEST = 4

Row = list[Any]
Matrix = list[Row]


def tiny(x: Any, axis: int = -1) -> bool:
    """True for a size of 1 to 4 along an axis: a constant, or (in `jit`) that of the call being traced."""
    size = x._trace.hint(x.node.shape[axis])
    return size is not None and 1 <= size <= LARGEST


def fixed(x: Any, *axes: int) -> Any:
    """`x` with constants as its sizes along these axes; in `jit` they become checks of the program."""
    shape = list(x.node.shape)
    for axis in axes:
        shape[axis] = x._trace.fix(shape[axis], "a small matrix")
    return _seen_as(x, tuple(shape))


def _seen_as(x: Any, shape: tuple[Any, ...]) -> Any:
    """The same array with other words for its sizes."""
    if x.node.shape == shape:
        return x
    return Tracer.of(
        x._trace, views.Affine(tuple(views.axes(len(shape))), shape).read(x._trace.graph, x.node)
    )


def elements(x: Any) -> Matrix:
    """The elements of matrices in the last two axes."""
    x = fixed(x, -2, -1)
    rows, columns = x.node.shape[-2:]
    return [[x[..., i, j] for j in range(columns)] for i in range(rows)]


def joined(matrix: Matrix, shape: tuple[Any, ...]) -> Any:
    """An array of matrices from its elements."""
    return _seen_as(stack([stack(row, -1) for row in matrix], -2), shape)


def _magnitude(x: Any) -> Any:
    """What LAPACK compares when it chooses a pivot: |x|, or |re| + |im|."""
    if x.dtype.kind != "c":
        return op("absolute", x)
    return op("add", op("absolute", _part("real", x)), op("absolute", _part("imag", x)))


def _any(flags: Row) -> Any:
    found = flags[0]
    for flag in flags[1:]:
        found = op("logical_or", found, flag)
    return found


@dataclass
class Factors:
    """P A = L U, by Gaussian elimination with partial pivoting."""

    #: U on and above the diagonal, the multipliers of L below it
    rows: Matrix
    #: for each column: which of the rows below it was exchanged with the diagonal's
    swaps: list[Row]
    #: whether a pivot is exactly zero
    singular: Any

    @property
    def diagonal(self) -> Row:
        return [self.rows[k][k] for k in range(len(self.rows))]


def factor(matrix: Matrix) -> Factors:
    """The factors; of a singular matrix, nothing after the first pivot that is zero means anything."""
    rows, n = [list(row) for row in matrix], len(matrix)
    swaps: list[Row] = []
    for k in range(n):
        swaps.append(_pivot([rows[r][k] for r in range(k, n)]))
        for column in range(n):
            _exchange(rows, column, k, swaps[k])
        for r in range(k + 1, n):
            rows[r][k] = op("divide", rows[r][k], rows[k][k])
            for column in range(k + 1, n):
                rows[r][column] = _less(rows[r][column], rows[r][k], rows[k][column])
    return Factors(rows, swaps, _any([op("equal", rows[k][k], 0) for k in range(n)]))


def _less(x: Any, a: Any, b: Any) -> Any:
    """x - a b"""
    return op("subtract", x, op("multiply", a, b))


def _pivot(column: Row) -> Row:
    """For each element after the first, whether it is the largest, and the first of such."""
    best, larger = _magnitude(column[0]), []
    for value in column[1:]:
        size = _magnitude(value)
        larger.append(op("greater", size, best))
        best = where(larger[-1], size, best)
    for k in range(len(larger) - 1):
        larger[k] = op("logical_and", larger[k], op("logical_not", _any(larger[k + 1 :])))
    return larger


def _exchange(rows: Matrix, column: int, k: int, swaps: Row) -> None:
    """In one column, exchange row k with the row below it that `swaps` says."""
    first = rows[k][column]
    for r, swap in enumerate(swaps, k + 1):
        rows[k][column] = where(swap, rows[r][column], rows[k][column])
        rows[r][column] = where(swap, first, rows[r][column])


def _solved(factors: Factors, side: Row) -> Row:
    """The solution x of A x = b."""
    found, n = [[value] for value in side], len(side)
    for k, swap in enumerate(factors.swaps):
        _exchange(found, 0, k, swap)
    for k in range(n):
        for j in range(k):
            found[k][0] = _less(found[k][0], factors.rows[k][j], found[j][0])
    return _substituted(factors.rows, [row[0] for row in found])


def _substituted(upper: Matrix, side: Row) -> Row:
    """The solution x of U x = b."""
    found = list(side)
    for k in reversed(range(len(upper))):
        for j in range(k + 1, len(upper)):
            found[k] = _less(found[k], upper[k][j], found[j])
        found[k] = op("divide", found[k], upper[k][k])
    return found


def _regular(factors: Factors) -> Factors:
    """The factors, of which the program raises where a pivot is zero."""
    last = factors.rows[-1]
    last[-1] = guard(last[-1], factors.singular, "LinAlgError", "Singular matrix")
    return factors


# -- what linear_algebra.py calls ---------------------------------------------------------------------
def tiny_inv(x: Any) -> Any:
    """U^-1 L^-1 P: the inverse of L is made column by column, and P moves columns."""
    factors = _regular(factor(elements(x)))
    lower, n = factors.rows, len(factors.rows)
    columns: list[Row] = []
    for j in range(n):
        side = [_number(lower[0][0], float(i == j)) for i in range(n)]
        for i in range(j + 1, n):
            side[i] = op("negative", lower[i][j])
            for k in range(j + 1, i):
                side[i] = _less(side[i], lower[i][k], side[k])
        columns.append(_substituted(lower, side))
    for k in reversed(range(n)):
        for row in range(n):
            _exchange(columns, row, k, factors.swaps[k])
    return joined(_transposed(columns), x.node.shape)


def _number(like: Any, value: float) -> Any:
    """An array of one number."""
    literal = promote.scalar_node(like._trace, value, like.dtype)
    return Tracer.of(like._trace, promote.broadcast_node(like._trace, literal, like.node.shape))


def _transposed(matrix: Matrix) -> Matrix:
    return [list(column) for column in zip(*matrix, strict=True)]


def tiny_solve(x: Any, y: Any, shape: tuple[Any, ...]) -> Any:
    """The solution for one vector, or for the columns of matrices, all of them at once."""
    a, axis = elements(x), -1 if y.ndim == 1 else -2
    y = fixed(y, axis)
    if axis == -1:
        side = [y[k] for k in range(len(a))]
    else:
        a = [[v[..., None] for v in row] for row in a]
        side = [y[..., k, :] for k in range(len(a))]
    return _seen_as(stack(_solved(_regular(factor(a)), side), axis), shape)


def _odd(factors: Factors) -> Any:
    """Whether the permutation is an odd one; None for a single row."""
    odd = None
    for swap in factors.swaps[:-1]:
        odd = _any(swap) if odd is None else op("logical_xor", odd, _any(swap))
    return odd


def _signed(factors: Factors, value: Any) -> Any:
    odd = _odd(factors)
    return value if odd is None else where(odd, op("negative", value), value)


def tiny_det(x: Any) -> Any:
    """The product of the pivots."""
    factors = factor(elements(x))
    return where(factors.singular, 0.0, _signed(factors, _product(factors.diagonal)))


def _product(values: Row) -> Any:
    """The product of up to four numbers, in an order that neither overflows nor underflows unless it does itself.

    The largest times the smallest comes first, then what leads back towards 1.
    """
    ordered = list(values)
    for low, high in ((0, 1), (2, 3), (0, 2), (1, 3), (1, 2)):  # a sorting network
        if high < len(ordered):
            a, b = ordered[low], ordered[high]
            wrong = op("greater", _magnitude(a), _magnitude(b))
            ordered[low], ordered[high] = where(wrong, b, a), where(wrong, a, b)
    if len(ordered) < 3:
        found = values[0]
        return op("multiply", found, values[1]) if len(values) == 2 else found
    first = op("multiply", ordered[0], ordered[-1])
    if len(ordered) == 3:
        return op("multiply", first, ordered[1])
    small, large = ordered[1:3]
    grown = op("greater", _magnitude(first), 1)
    then, last = where(grown, small, large), where(grown, large, small)
    return op("multiply", op("multiply", first, then), last)


def tiny_slogdet(x: Any) -> tuple[Any, Any]:
    """Sign and logarithm of the determinant, from those of the pivots."""
    factors = factor(elements(x))
    sign = logarithm = None
    for pivot in factors.diagonal:
        size = op("absolute", pivot)
        one = op("divide", pivot, size) if pivot.dtype.kind == "c" else where(op("less", pivot, 0), -1.0, 1.0)
        one = cast_to(one, pivot.dtype)
        sign = one if sign is None else op("multiply", sign, one)
        logarithm = op("log", size) if logarithm is None else op("add", logarithm, op("log", size))
    singular = factors.singular
    return where(singular, 0.0, _signed(factors, sign)), where(singular, -np.inf, logarithm)


def tiny_cholesky(x: Any, upper: bool) -> Any:
    """L with A = L L^H, from the lower triangle of A; or L^H, from its upper triangle."""
    a = elements(x)
    if upper:
        a = [[_conjugate(v) for v in row] for row in _transposed(a)]
    n, wrong = len(a), []
    found = [[_number(a[0][0], 0.0) for _ in range(n)] for _ in range(n)]
    for j in range(n):
        square = _part("real", a[j][j])
        for k in range(j):
            square = op("subtract", square, _square(found[j][k]))
        wrong.append(op("logical_not", op("greater", square, 0)))
        pivot = op("sqrt", square)
        found[j][j] = cast_to(pivot, x.dtype)
        for i in range(j + 1, n):
            value = a[i][j]
            for k in range(j):
                value = _less(value, found[i][k], _conjugate(found[j][k]))
            found[i][j] = op("divide", value, found[j][j])
    found[-1][-1] = guard(found[-1][-1], _any(wrong), "LinAlgError", "Matrix is not positive definite")
    if upper:
        found = [[_conjugate(v) for v in row] for row in _transposed(found)]
    return joined(found, x.node.shape)


def _conjugate(x: Any) -> Any:
    return op("conjugate", x) if x.dtype.kind == "c" else x


def _square(x: Any) -> Any:
    """|x|^2"""
    if x.dtype.kind != "c":
        return op("multiply", x, x)
    real, imag = _part("real", x), _part("imag", x)
    return op("add", op("multiply", real, real), op("multiply", imag, imag))
