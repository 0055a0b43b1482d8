"""Products of every rank: matmul, dot, inner, tensordot, einsum, kron, cross, norms."""

import numpy as np
import pytest
from agreement import check

import aotarray

RNG = np.random.default_rng(11)
DTYPES = ["float64", "float32", "float16", "complex128", "int8", "uint32", "bool"]


def make(shape, dtype):
    if dtype == "bool":
        return RNG.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind in "iu":
        return RNG.integers(0, 100, shape).astype(dtype)
    values = RNG.standard_normal(shape)
    return (values + 1j * RNG.standard_normal(shape) if dtype.startswith("complex") else values).astype(dtype)


SHAPES = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((20, 30), (30, 25)), ((5, 2, 30), (30, 4)),
    ((30,), (5, 30, 4)), ((5, 2, 30), (5, 30, 4)), ((1, 2, 30), (5, 30, 4)), ((6, 1, 2, 30), (5, 30, 4)),
    ((5, 2, 30), (30,)), ((0, 3), (3, 2)), ((2, 0), (0, 2)), ((1, 30), (30, 1)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
def test_matmul_of_every_rank(left, right, dtype):
    compiled = dtype in ("float64", "int8") and 0 not in left
    check(
        lambda a, b: (a @ b, np.matmul(a, b)),
        [make(left, dtype), make(right, dtype)],
        scale=8,
        compiled=compiled,
    )


PRODUCTS = [
    lambda x, y: (np.dot(x, y.T), np.dot(x, y[0]), np.dot(x[:, 0], y), np.dot(x, 2), x.dot(y.T)),
    lambda x, y: (np.inner(x, y), np.inner(x[0], y[0]), np.vdot(x, y), np.inner(x, y[0])),
    lambda x, y: (np.outer(x, y[0]), np.linalg.outer(x[0], y[0]), np.kron(x, y[:2]), np.kron(x[0], y)),
    lambda x, y: (np.tensordot(x, y, ((0, 1), (0, 1))), np.tensordot(x, y, 0), np.tensordot(x, y.T, 1)),
    lambda x, y: (
        np.tensordot(x, y, (1, 1)),
        np.tensordot(x[None], y, ([1], [0])),
        np.dot(x[None], y.T[None]),
    ),
    lambda x, y: (np.vecdot(x, y), np.linalg.vecdot(x, y, axis=0), np.linalg.matmul(x, y.T)),
    lambda x, y: (
        np.einsum("ij,kj->ik", x, y),
        np.einsum("ij->ji", x),
        np.einsum("ij->j", x),
        np.einsum("ij,ij", x, y),
    ),
    lambda x, y: (
        np.einsum("i,j", x[:, 0], y[0]),
        np.einsum("...j,j->...", x, y[0]),
        np.einsum("ii", x[:4, :4]),
    ),
    lambda x, y: (
        np.einsum("ij,jk,kl->il", x, y.T, x),
        np.einsum(x, [0, 1], y, [2, 1], [0, 2]),
        np.einsum("ii->i", x[:4, :4]),
    ),
    lambda x, y: (
        np.einsum("ij,ij->ij", x, y),
        np.einsum("ij, kl -> ", x, y),
        np.einsum("i...,i...->...", x, y),
    ),
    lambda x, y: (np.einsum("bij,bjk->bik", x[None], y.T[None]), np.linalg.multi_dot([x, y.T, x])),
    lambda x, y: np.linalg.matrix_power(x[:4, :4], 3),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("number", range(len(PRODUCTS)))
def test_products(number, dtype):
    x, y = make((4, 5), dtype), make((4, 5), dtype)
    check(PRODUCTS[number], [x, y], scale=16, compiled=dtype == "float64")


@pytest.mark.parametrize("dtype", ["float64", "int8", "complex128"])
def test_cross(dtype):
    x, y = make((4, 3), dtype), make((4, 3), dtype)
    check(
        lambda x, y: (np.cross(x, y), np.cross(x.T, y.T, axis=0), np.cross(x, y[0]), np.linalg.cross(x, y)),
        [x, y],
        scale=4,
    )


def test_large_products_go_to_the_library():
    graph = aotarray.trace(lambda a, b: a @ b, "f64[n, k], f64[k, m]")
    assert [n.op.name for n in graph.nodes()].count("matmul") == 1


@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "complex128"])
def test_computed_matrices_by_a_column_are_not_stored(dtype):
    def pairs(x, c):
        return (x - x.T) ** 2 @ c, (2 * (x + x.T))[None] @ c, np.dot(x * x.T, 3 * c), (x * x.T) @ np.exp(c)

    check(pairs, [make((30, 1), dtype), make((30, 1), dtype)], scale=40)
    graph = aotarray.trace(lambda x, c: ((x - x.T) ** 2) @ c, "f64[n, 1], f64[n, 1]")
    assert "matmul" not in [n.op.name for n in graph.nodes()]
    graph = aotarray.trace(lambda x, c: ((x - x.T) ** 2) @ np.exp(c), "f64[n, 1], f64[n, 1]")
    assert "matmul" in [n.op.name for n in graph.nodes()]  # or n * n times exp


def test_small_products_are_inlined():
    graph = aotarray.trace(lambda a, b: a @ b, "f64[n, 3], f64[3, m]")
    assert "matmul" not in [n.op.name for n in graph.nodes()]


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex64", "int64"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: (np.linalg.norm(x), np.linalg.norm(x, axis=0), np.linalg.norm(x, axis=1, keepdims=True)),
        lambda x: (np.linalg.norm(x, 1, axis=1), np.linalg.norm(x, 3, axis=0), np.linalg.norm(x, 0, axis=0)),
        lambda x: (
            np.linalg.norm(x, np.inf),
            np.linalg.norm(x, -np.inf),
            np.linalg.norm(x, 1),
            np.linalg.norm(x, -1),
        ),
        lambda x: (
            np.linalg.norm(x, "fro"),
            np.linalg.norm(x[None], axis=(1, 2)),
            np.linalg.norm(x.ravel(), np.inf),
        ),
        lambda x: (
            np.linalg.vector_norm(x),
            np.linalg.vector_norm(x, axis=0, ord=1),
            np.linalg.matrix_norm(x),
        ),
    ],
)
def test_norms(function, dtype):
    check(function, [make((4, 5), dtype)], scale=4, compiled=dtype == "float32")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x @ x, "matmul: sizes of the summed axes"),
        (lambda x: np.dot(x, x), "dot: sizes"),
        (lambda x: np.einsum("ij,jk", x, x), "broadcast"),
        (lambda x: np.einsum("ij->ii", x), "distinct"),
        (lambda x: np.einsum("i->i", x), "do not fit"),
        (lambda x: np.matmul(x, 2), "dimensions"),
        (lambda x: np.cross(x, x), "incompatible dimensions"),
    ],
)
def test_shapes_that_do_not_fit(function, message):
    with pytest.raises(ValueError, match=message):
        aotarray.lower(function, np.ones((4, 5)))


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 3), (3, 4)), ((16, 16), (16, 16)), ((17, 16), (16, 5)), ((2, 17), (17, 2)), ((1, 1), (1, 1)),
        ((4,), (4, 3)), ((3, 4), (4,)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 1, 2, 3), (6, 3, 4)),
        ((0, 3), (3, 2)), ((3, 0), (0, 2)), ((0, 2, 3), (3, 2)), ((5, 2, 3), (1, 3, 5)),
    ],
)  # fmt: skip
def test_products_of_small_matrices(a, b, dtype):
    """These are made without NumPy, from arrays as they lie."""
    random = np.random.default_rng(0)
    x, y = random.normal(size=a).astype(dtype), random.normal(size=b).astype(dtype)
    product = aotarray.jit(lambda p, q: p @ q)
    for left in (x, np.asfortranarray(x), x[..., ::-1]):
        for right in (y, np.asfortranarray(y), np.repeat(y, 2, axis=-1)[..., ::2]):
            want, got = left @ right, product(left, right)
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(got, want, rtol=0, atol=50 * np.finfo(dtype).eps)
    assert np.isnan(product(np.full(a, np.nan, dtype), y)).all() or 0 in (*a, *b)
