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
