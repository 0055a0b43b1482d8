"""What a step of a compiled loop costs, beside plain Python, Numba and JAX.

    python benchmarks/loops.py

A step's time is the difference of 1,000 steps and none, by the least of several rounds. Peers that are not installed
are left out.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import aotarray

STEPS = 1000


def stencil(u: Any) -> Any:
    """A step of Jacobi's method."""
    v = u.copy()
    v[1:-1, 1:-1] = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
    return v


@aotarray.jit
def counted(u: Any, n: Any) -> Any:
    return aotarray.fori_loop(0, n, lambda i, u: stencil(u), u)


@aotarray.jit
def until(u: Any, n: Any) -> Any:
    return aotarray.while_loop(lambda s: s[1] < n, lambda s: (stencil(s[0]), s[1] + 1), (u, 0))[0]


@aotarray.jit
def scalar(u: Any, n: Any) -> Any:
    return aotarray.fori_loop(0, n, lambda i, s: s * 0.5 + i, u[0, 0])


@aotarray.jit
def filtered(x: Any) -> Any:
    """A recursive filter: one step of `scan` for each element."""
    return aotarray.scan(lambda s, v: (s * 0.9 + v, s), 0.0, x)[1]


def plain(u: Any, n: int) -> Any:
    for _ in range(n):
        u = stencil(u)
    return u


def numba_loop() -> Callable[[Any, int], Any]:
    import numba

    @numba.njit  # type: ignore[untyped-decorator]
    def run(u: Any, n: int) -> Any:
        u, v = u.copy(), u.copy()
        for _ in range(n):
            for i in range(1, u.shape[0] - 1):
                for j in range(1, u.shape[1] - 1):
                    v[i, j] = 0.25 * (u[i + 1, j] + u[i - 1, j] + u[i, j + 1] + u[i, j - 1])
            u, v = v, u
        return u

    return run  # type: ignore[no-any-return]


def jax_loop() -> Callable[[Any, int], Any]:
    import jax

    jax.config.update("jax_enable_x64", True)

    def step(i: Any, u: Any) -> Any:
        new = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
        return u.at[1:-1, 1:-1].set(new)

    run = jax.jit(lambda u, n: jax.lax.fori_loop(0, n, step, u))
    return lambda u, n: run(u, n).block_until_ready()


def best(run: Callable[[], Any], rounds: int = 15) -> float:
    """The least time of a call."""
    run()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def step_time(run: Callable[[Any, int], Any], u: Any) -> float:
    """What one more step costs."""
    return (best(lambda: run(u, STEPS)) - best(lambda: run(u, 0))) / STEPS


def main() -> None:
    for size in (16, 128):
        u = np.random.default_rng(0).random((size, size))
        rows: list[tuple[str, Callable[[Any, int], Any]]] = [
            ("fori_loop", counted), ("while_loop", until), ("NumPy in Python", plain),
        ]  # fmt: skip
        rows += [("Numba, by hand", numba_loop())] if importlib.util.find_spec("numba") else []
        rows += [("jax.lax.fori_loop", jax_loop())] if importlib.util.find_spec("jax") else []
        for name, run in rows:
            np.testing.assert_allclose(run(u, 10), plain(u, 10))
            print(f"stencil {size} x {size}   {name:<20} {step_time(run, u) * 1e6:8.2f} us a step")
    print(f"one scalar         {'fori_loop':<20} {step_time(scalar, u) * 1e9:8.1f} ns a step")
    x = np.random.default_rng(0).random(100_000)
    print(f"recursive filter   {'scan':<20} {best(lambda: filtered(x)) / len(x) * 1e9:8.1f} ns an element")


if __name__ == "__main__":
    main()
