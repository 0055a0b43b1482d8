"""The Mandelbrot set by a masked escape loop on whole arrays."""

import numpy as np


def mandelbrot(x, y, limit, horizon=2.0):
    """For points `x` (m,), `y` (n,) of the plane: how many of `limit` iterations of z*z + c stay within `horizon`.

    Points that never leave count 0. The counts (n, m), and the last z.
    """
    c = x + y[:, None] * 1j
    count = np.zeros(c.shape, dtype=np.int64)
    z = np.zeros(c.shape, dtype=np.complex128)
    for n in range(limit):
        inside = np.abs(z) < horizon
        count[inside] = n
        z[inside] = z[inside] ** 2 + c[inside]
    count[count == limit - 1] = 0
    return count, z


def escape_times(x, y, limit):
    """The same counts with real numbers, and without the points that never leave: they count `limit`."""
    cr = x[None, :] + 0.0 * y[:, None]
    ci = y[:, None] + 0.0 * x[None, :]
    zr = np.zeros_like(cr)
    zi = np.zeros_like(ci)
    count = np.zeros(cr.shape, dtype=np.int32)
    active = np.ones(cr.shape, dtype=bool)
    for _ in range(limit):
        zr_new = zr * zr - zi * zi + cr
        zi_new = 2.0 * zr * zi + ci
        zr = np.where(active, zr_new, zr)
        zi = np.where(active, zi_new, zi)
        active &= zr * zr + zi * zi <= 4.0
        count += active
    return count


def main():
    import aotarray

    x, y = np.linspace(-2.25, 0.75, 300), np.linspace(-1.25, 1.25, 250)
    count, _ = aotarray.jit(mandelbrot, control_flow="python")(x, y, 100)
    differ = np.count_nonzero(count != mandelbrot(x, y, 100)[0])
    print(f"mandelbrot: {np.count_nonzero(count == 0)} points stay, {differ} counts differ from NumPy's")
    assert differ < 10  # z*z + c doubles a difference in the last bit in each step
    assert np.array_equal(
        aotarray.jit(escape_times, control_flow="python")(x, y, 100), escape_times(x, y, 100)
    )


if __name__ == "__main__":
    main()
