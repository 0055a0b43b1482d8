"""np.linalg: solvers, inverses, decompositions and what is made of them, as calls of NumPy's routines."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import sizes
from ...errors import UnsupportedError
from ...sizes import Dim
from .. import promote
from ..context import here
from ..library import call, probe
from .elementwise import cast_to
from .registry import array, implements
from .shaping import moveaxis
from .tiny_matrices import tiny, tiny_cholesky, tiny_det, tiny_inv, tiny_slogdet, tiny_solve

Shape = tuple[Dim, ...]


def _square(x: Any) -> None:
    """The last two axes have one size."""
    message = "Last 2 dimensions of the array must be square"
    n, m = x.node.shape[-2:]
    known = x._trace.hint(n), x._trace.hint(m)
    if None not in known and known[0] != known[1]:
        raise np.linalg.LinAlgError(f"{here()}: {message}")
    x._trace.same(n, m, message)


def _one(name: str, x: Any, shape: Shape, *others: Any, **keywords: Any) -> Any:
    """A routine of one result."""
    dtype = np.asarray(probe(getattr(np.linalg, name), x, *others, **keywords)).dtype
    return call(x._trace, f"linalg.{name}", [x, *others], keywords, results=[(dtype, shape)])[0]


def _several(name: str, x: Any, shapes: tuple[Shape, ...], *others: Any, **keywords: Any) -> Any:
    """A routine whose results are a (named) tuple."""
    found = probe(getattr(np.linalg, name), x, *others, **keywords)
    results = [(np.asarray(f).dtype, shape) for f, shape in zip(found, shapes, strict=True)]
    made = call(x._trace, f"linalg.{name}", [x, *others], keywords, results=results, several=True)
    return type(found)(*made) if hasattr(found, "_fields") else tuple(made)


def _checked(name: str, a: Any, *others: Any, **keywords: Any) -> tuple[Any, Shape, Dim, Dim]:
    """(array, leading sizes, rows, columns), after NumPy's own checks of rank and dtype."""
    x = array(a, *others)
    probe(getattr(np.linalg, name), x, *others, **keywords)
    *lead, m, n = x.node.shape
    return x, tuple(lead), m, n


@implements("linalg.inv")
def inv(a: Any) -> Any:
    x, *_ = _checked("inv", a)
    _square(x)
    if tiny(x):
        return tiny_inv(cast_to(x, _inverse_dtype(x)))
    return _one("inv", x, x.node.shape)


@implements("linalg.det")
def det(a: Any) -> Any:
    x, lead, *_ = _checked("det", a)
    _square(x)
    if tiny(x):
        return tiny_det(cast_to(x, _inverse_dtype(x)))
    return _one("det", x, lead)


@implements("linalg.slogdet")
def slogdet(a: Any) -> Any:
    x, lead, *_ = _checked("slogdet", a)
    _square(x)
    if tiny(x):
        found = probe(np.linalg.slogdet, x)
        return type(found)(*tiny_slogdet(cast_to(x, _inverse_dtype(x))))
    return _several("slogdet", x, (lead, lead))


@implements("linalg.cholesky")
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    x, *_ = _checked("cholesky", a)
    _square(x)
    if tiny(x):
        return tiny_cholesky(cast_to(x, _inverse_dtype(x)), upper)
    return _one("cholesky", x, x.node.shape, **({"upper": True} if upper else {}))


@implements("linalg.solve")
def solve(a: Any, b: Any) -> Any:
    """One vector, or stacks of matrices, as right-hand sides."""
    x, y = array(a, b), array(b, a)
    probe(np.linalg.solve, x, y)
    _square(x)
    n, row = x.node.shape[-1], -1 if y.ndim == 1 else -2
    x._trace.same(n, y.node.shape[row], "solve: rows of the matrix and of the right-hand side")
    if tiny(x):
        dtype = np.result_type(_inverse_dtype(x), _inverse_dtype(y))
        x, y = cast_to(x, dtype), cast_to(y, dtype)
    if y.ndim == 1:
        shape = x.node.shape[:-1]
        return tiny_solve(x, y, shape) if tiny(x) else _one("solve", x, shape, y)
    lead = promote.broadcast_shapes(x._trace, [x.node.shape[:-2], y.node.shape[:-2]], "solve")
    shape = (*lead, n, y.node.shape[-1])
    return tiny_solve(x, y, shape) if tiny(x) else _one("solve", x, shape, y)


@implements("linalg.qr")
def qr(a: Any, mode: str = "reduced") -> Any:
    x, lead, m, n = _checked("qr", a, mode=mode)
    k = sizes.minimum(m, n)
    if mode == "r":
        return _one("qr", x, (*lead, k, n), mode=mode)
    shapes = {
        "complete": ((*lead, m, m), (*lead, m, n)),
        "raw": ((*lead, n, m), (*lead, k)),
    }
    return _several("qr", x, shapes.get(mode, ((*lead, m, k), (*lead, k, n))), mode=mode)


@implements("linalg.eigh")
def eigh(a: Any, UPLO: str = "L") -> Any:
    x, lead, m, _ = _checked("eigh", a, UPLO=UPLO)
    _square(x)
    return _several("eigh", x, ((*lead, m), x.node.shape), UPLO=UPLO)


@implements("linalg.eigvalsh")
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    x, lead, m, _ = _checked("eigvalsh", a, UPLO=UPLO)
    _square(x)
    return _one("eigvalsh", x, (*lead, m), UPLO=UPLO)


def _need_complex(x: Any, name: str) -> None:
    if x.dtype.kind != "c":
        symmetric = "eigh" if name == "eig" else "eigvalsh"
        raise UnsupportedError(
            f"{here()}: numpy.linalg.{name} of real values: whether its result is complex depends on them; "
            f"use {name}(x.astype(complex)), or {symmetric} of symmetric matrices"
        )


@implements("linalg.eig")
def eig(a: Any) -> Any:
    x, lead, m, _ = _checked("eig", a)
    _need_complex(x, "eig")
    _square(x)
    return _several("eig", x, ((*lead, m), x.node.shape))


@implements("linalg.eigvals")
def eigvals(a: Any) -> Any:
    x, lead, m, _ = _checked("eigvals", a)
    _need_complex(x, "eigvals")
    _square(x)
    return _one("eigvals", x, (*lead, m))


@implements("linalg.svd")
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    x, lead, m, n = _checked("svd", a)
    if hermitian:
        _square(x)
    k = sizes.minimum(m, n)
    flags = {"full_matrices": bool(full_matrices), "hermitian": bool(hermitian)}
    if not compute_uv:
        return _one("svd", x, (*lead, k), compute_uv=False, **flags)
    rows, columns = (m, n) if full_matrices else (k, k)
    return _several("svd", x, ((*lead, m, rows), (*lead, k), (*lead, columns, n)), **flags)


def singular_values(x: Any, axes: tuple[int, int]) -> Any:
    """Singular values of the matrices along two axes, as a last axis."""
    return svd(moveaxis(x, axes, (-2, -1)), compute_uv=False)


if hasattr(np.linalg, "svdvals"):

    @implements("linalg.svdvals")
    def svdvals(x: Any, /) -> Any:
        return svd(x, compute_uv=False)


@implements("linalg.lstsq")
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """Solution, residuals, rank and singular values; the residuals as for matrices of full rank."""
    x, y = array(a, b), array(b, a)
    found = probe(np.linalg.lstsq, x, y, rcond)
    m, n = x.node.shape
    x._trace.same(m, y.node.shape[0], "lstsq: rows of the matrix and of the right-hand side")
    columns: Dim = 1 if y.ndim == 1 else y.node.shape[1]
    residuals = columns * sizes.minimum(sizes.maximum(m - n, 0), 1)
    shapes: tuple[Shape, ...] = ((n, *y.node.shape[1:]), (residuals,), (), (sizes.minimum(m, n),))
    results = [(np.asarray(f).dtype, shape) for f, shape in zip(found, shapes, strict=True)]
    keywords = {} if rcond is None else {"rcond": rcond}
    return tuple(call(x._trace, "linalg.lstsq", [x, y], keywords, results=results, several=True))


@implements("linalg.pinv")
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Any:
    keywords = {"rcond": rcond, "hermitian": bool(hermitian), "rtol": None if rtol is np._NoValue else rtol}
    x = array(a, rcond)
    shape = x.node.shape
    given = {k: v for k, v in keywords.items() if v is not None}
    return _one("pinv", x, (*shape[:-2], *shape[:-3:-1]), **given)


@implements("linalg.matrix_rank")
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    x = array(A, tol, rtol)
    keywords = {"tol": tol, "hermitian": bool(hermitian), "rtol": rtol}
    return _one("matrix_rank", x, x.node.shape[:-2], **{k: v for k, v in keywords.items() if v is not None})


@implements("linalg.cond")
def cond(x: Any, p: Any = None) -> Any:
    values = array(x)
    return _one("cond", values, values.node.shape[:-2], **({} if p is None else {"p": p}))


@implements("linalg.tensorinv")
def tensorinv(a: Any, ind: int = 2) -> Any:
    x = array(a)
    if ind <= 0:
        raise ValueError(f"{here()}: Invalid ind argument.")
    return call(
        x._trace, "linalg.tensorinv", [x, ind],
        results=[(_inverse_dtype(x), (*x.node.shape[ind:], *x.node.shape[:ind]))],
    )[0]  # fmt: skip


@implements("linalg.tensorsolve")
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    x, y = array(a, b), array(b, a)
    if axes is not None:
        rest = [k for k in range(x.ndim) if k not in axes]
        x = x.transpose(*rest, *axes)
    dtype = np.result_type(_inverse_dtype(x), _inverse_dtype(y))
    shape = x.node.shape[y.ndim :]
    return call(x._trace, "linalg.tensorsolve", [x, y], results=[(dtype, shape)])[0]


def _inverse_dtype(x: Any) -> Any:
    return probe(np.linalg.inv, np.eye(2, dtype=x.dtype)).dtype
