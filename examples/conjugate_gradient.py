"""Conjugate gradients until convergence, with a matrix and with a stencil instead of one."""

import numpy as np


def solve(a, b, tolerance):
    """x of `a @ x = b` for a symmetric positive definite `a` (n, n): until the residual is below `tolerance`."""
    x = np.zeros_like(b)
    r = b - a @ x
    p = r.copy()
    squared = r @ r
    steps = 0
    while np.sqrt(squared) > tolerance:
        ap = a @ p
        alpha = squared / (p @ ap)
        x += alpha * p
        r -= alpha * ap
        previous = squared
        squared = r @ r
        p = r + (squared / previous) * p
        steps += 1
    return x, steps


def minus_laplacian(u):
    """`4 u - neighbours` on (n, m), with zeros around it."""
    v = 4.0 * u
    v[1:, :] -= u[:-1, :]
    v[:-1, :] -= u[1:, :]
    v[:, 1:] -= u[:, :-1]
    v[:, :-1] -= u[:, 1:]
    return v


def poisson(b, tolerance):
    """u of `minus_laplacian(u) = b`: until the residual's norm is below `tolerance`."""
    u = np.zeros_like(b)
    r = b - minus_laplacian(u)
    p = r.copy()
    squared = np.sum(r * r)
    steps = 0
    while np.sqrt(squared) > tolerance:
        ap = minus_laplacian(p)
        alpha = squared / np.sum(p * ap)
        u = u + alpha * p
        r = r - alpha * ap
        previous = squared
        squared = np.sum(r * r)
        p = r + (squared / previous) * p
        steps += 1
    return u, steps


def main():
    import aotarray

    random = np.random.default_rng(0)
    a = random.random((200, 200))
    a, b = a @ a.T / 200.0 + np.eye(200), random.random(200)
    x, steps = aotarray.jit(solve, control_flow="python")(a, b, 1e-9)
    print(f"solve: {steps} steps, residual {np.linalg.norm(a @ x - b):.1e}")
    assert np.allclose(x, solve(a, b, 1e-9)[0])

    b = random.random((60, 80))
    u, steps = aotarray.jit(poisson, control_flow="python")(b, 1e-9)
    print(f"poisson: {steps} steps, residual {np.linalg.norm(minus_laplacian(u) - b):.1e}")
    assert np.allclose(u, poisson(b, 1e-9)[0])


if __name__ == "__main__":
    main()
