"""Grids in time loops: heat, Jacobi's method, electromagnetic waves (FDTD), the Game of Life.

Plain NumPy, written as in textbooks: slices assigned in loops.
"""

import numpy as np


def heat(u, steps, number):
    """The temperatures `u` (n, m) after `steps` explicit steps; edges stay. `number` is dt * diffusivity / h**2."""
    u = u.copy()
    for _ in range(steps):
        u[1:-1, 1:-1] += number * (
            u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1]
        )
    return u


def jacobi(u, steps):
    """Two arrays that take turns in the five-point mean, as in the PolyBench kernel jacobi-2d."""
    a = u.copy()
    b = u.copy()
    for _ in range(steps):
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])
        a[1:-1, 1:-1] = 0.2 * (b[1:-1, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:] + b[2:, 1:-1] + b[:-2, 1:-1])
    return a, b


def laplace(u, tolerance):
    """Laplace's equation for the edges of `u` by Jacobi's method, until no point changes by more than `tolerance`."""
    steps = 0
    change = np.inf
    while change > tolerance:
        new = u.copy()
        new[1:-1, 1:-1] = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
        change = np.max(np.abs(new - u))
        u = new
        steps += 1
    return u, steps


def fdtd(ex, ey, hz, source):
    """Yee's scheme for a two-dimensional electromagnetic field, one step for each value of `source`.

    As in the PolyBench kernel fdtd-2d: `ex`, `ey` and `hz` are (n, m), the source drives the first row of `ey`.
    """
    ex, ey, hz = ex.copy(), ey.copy(), hz.copy()
    for t in range(source.shape[0]):
        ey[0, :] = source[t]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    return ex, ey, hz


def life(world, steps):
    """Conway's Game of Life with dead cells around it; `world` (n, m) holds 0 and 1."""
    z = world.copy()
    for _ in range(steps):
        n = (
            z[:-2, :-2] + z[:-2, 1:-1] + z[:-2, 2:]
            + z[1:-1, :-2] + z[1:-1, 2:]
            + z[2:, :-2] + z[2:, 1:-1] + z[2:, 2:]
        )  # fmt: skip
        birth = (n == 3) & (z[1:-1, 1:-1] == 0)
        survive = ((n == 2) | (n == 3)) & (z[1:-1, 1:-1] == 1)
        z[...] = 0
        z[1:-1, 1:-1][birth | survive] = 1
    return z


def life_on_torus(world, steps):
    """Conway's Game of Life on a torus; `world` (n, m) holds bools."""
    for _ in range(steps):
        cells = world.astype(np.uint8)
        across = cells + np.roll(cells, 1, axis=1) + np.roll(cells, -1, axis=1)
        around = across + np.roll(across, 1, axis=0) + np.roll(across, -1, axis=0)
        world = (around == 3) | (world & (around == 4))
    return world


def main():
    import aotarray

    random = np.random.default_rng(0)
    u = random.random((100, 120))
    wave = np.sin(0.1 * np.arange(50.0))
    world = random.integers(0, 2, (100, 120)).astype(np.uint8)
    runs = [
        (heat, (u, 100, 0.2)), (jacobi, (u, 100)), (laplace, (u, 1e-3)), (fdtd, (u, u, u, wave)),
        (life, (world, 50)), (life_on_torus, (world == 1, 50)),
    ]  # fmt: skip
    for function, arguments in runs:
        result = aotarray.jit(function, control_flow="python")(*arguments)
        expected = function(*arguments)
        results, wanted = (r if isinstance(r, tuple) else (r,) for r in (result, expected))
        assert all(np.array_equal(r, w) for r, w in zip(results, wanted, strict=True))
        print(f"{function.__name__}: the same bits as NumPy")


if __name__ == "__main__":
    main()
