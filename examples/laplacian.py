"""The five-point Laplacian of a grid, written with slices."""

import numpy as np


def laplacian(u):
    """For `u` of shape (n, m), the (n - 2, m - 2) values at inner points of a grid with spacing 1."""
    return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]


def main():
    import aotarray

    y, x = np.mgrid[0:1000, 0:1200]
    u = 0.25 * (x * x + y * y)  # its Laplacian is 1 everywhere
    result = aotarray.jit(laplacian)(u)
    print(f"shape {result.shape}, values from {result.min()} to {result.max()}")
    assert np.array_equal(result, laplacian(u))


if __name__ == "__main__":
    main()
