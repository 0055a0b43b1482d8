"""Last axes of a few elements are written out: small products, stacks, vectors; and what guards raise from there."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import assert_same, check

import aotarray

RNG = np.random.default_rng(5)


def kalman(x, p, f, q, h, r, z):
    x, p = f @ x, f @ p @ f.T + q
    gain = p @ h.T @ np.linalg.inv(h @ p @ h.T + r)
    return x + gain @ (z - h @ x), (np.eye(len(p)) - gain @ h) @ p


def filter_arguments(n, m):
    normal = RNG.standard_normal
    return [normal(n), np.eye(n), normal((n, n)), np.eye(n), normal((m, n)), np.eye(m), normal(m)]


def kernels(function, *args):
    program = aotarray.jit(function).lower(*args).plan.program
    return [type(i).__name__ for i in program.instructions]


@pytest.mark.parametrize(("n", "m"), [(2, 1), (4, 2)])
def test_filter_step_is_a_few_kernels(n, m):
    args = filter_arguments(n, m)
    check(kalman, args, compiled=True, scale=1000)
    found = kernels(kalman, *args)
    assert "LibraryCall" not in found
    assert found.count("KernelCall") <= 5


def test_filter_in_a_loop():
    x, p, *rest = filter_arguments(4, 2)

    def run(x, p, f, q, h, r, zs):
        return aotarray.scan(lambda state, z: (kalman(*state, f, q, h, r, z), state[0]), (x, p), zs)

    zs = RNG.standard_normal((6, 2))
    rest[0] /= 4
    (found_x, found_p), rows = aotarray.jit(run)(x, p, *rest[:-1], zs)
    expected = x, p
    for z, row in zip(zs, rows, strict=True):
        assert_same(row, expected[0], scale=1000)
        expected = kalman(*expected, *rest[:-1], z)
    assert_same(found_x, expected[0], scale=1000)
    assert_same(found_p, expected[1], scale=1000)


def test_rotated_points_are_one_kernel():
    points, r = RNG.standard_normal((7, 3)), RNG.standard_normal((3, 3))
    for p in (points, np.asfortranarray(points), points[::-2], points[:0]):
        check(lambda p, r: p @ r.T, [p, r], compiled=True, scale=10)
    assert kernels(lambda p, r: p @ r.T, points, r) == ["KernelCall"]


PRODUCTS = [
    lambda a, b: a @ b,
    lambda a, b: np.einsum("nij,njk->nik", a, b),
    lambda a, b: np.einsum("nij,nkj->ki", a, b),
    lambda a, b: np.dot(a, b[0]),
    lambda a, b: np.linalg.norm(a, axis=-1) + np.trace(b, axis1=-2, axis2=-1)[:, None],
    lambda a, b: np.cross(a[..., :3], b[..., :3]),
    lambda a, b: a / np.sqrt((a * b).sum(-1, keepdims=True) ** 2 + 1),
    lambda a, b: np.stack([a[..., 0] + b[..., 1], a[..., 2] * 2], axis=-1),
]


@pytest.mark.parametrize("number", range(len(PRODUCTS)))
def test_small_products(number):
    for dtype in ("f8", "c8", "i4") if number < 4 else ("f8",):
        a, b = (RNG.standard_normal((5, 4, 4)) * 9 for _ in range(2))
        compiled = dtype == "f8"
        check(PRODUCTS[number], [a.astype(dtype), b.astype(dtype)], compiled=compiled, scale=100)


def test_large_outer_sizes_keep_their_loops():
    a, b = RNG.standard_normal((30, 2)), RNG.standard_normal((2, 50))
    check(lambda a, b: (a @ b, (a @ b).sum(0)), [a, b], compiled=True, scale=100)


def test_zero_signs_of_sums():
    a = np.array([[-0.0, -0.0], [0.0, -0.0]])
    check(lambda a: (a @ np.ones(2), a @ np.ones((2, 2))), [a], exact=True, compiled=True)


def test_guards_in_parallel_kernels():
    """One bad element among many is seen, whichever thread meets it."""
    compiled = aotarray.jit(np.linalg.inv)
    a = np.broadcast_to(np.eye(2), (200_000, 2, 2)).copy()
    compiled(a)
    for k in (0, 99_999, 199_999):
        bad = a.copy()
        bad[k] = 0
        with pytest.raises(np.linalg.LinAlgError):
            compiled(bad)
