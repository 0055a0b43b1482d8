"""The table of whole programs: each from `examples/`, with the arguments to run it with."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import conjugate_gradient
import filters
import fractal
import option_grid
import particles
import shortest_paths
import stencils
import weather

import aotarray

Random = np.random.Generator


@dataclass(frozen=True)
class Case:
    """A program; `make(random, dtype, *size)` gives its arguments."""

    name: str
    function: Callable[..., Any]  # plain NumPy, with Python's loops
    make: Callable[..., tuple[Any, ...]]
    sizes: tuple[tuple[int, ...], ...]  # that tests run
    size: tuple[int, ...]  # that the benchmark runs
    static: tuple[str, ...] = ()  # parameters that are part of the program
    dtypes: tuple[str, ...] = ("float64", "float32")
    tolerance: float = 0.0  # relative; 0: the same bits as NumPy

    def compiled(self) -> Callable[..., Any]:
        """The program as it is, compiled by aotarray."""
        return aotarray.jit(self.function, control_flow="python", static_argnames=self.static)

    def arguments(self, size: tuple[int, ...], dtype: str = "", seed: int = 0) -> tuple[Any, ...]:
        return self.make(np.random.default_rng(seed), np.dtype(dtype or self.dtypes[0]).type, *size)


def _grid(random: Random, dtype: Any, n: int, m: int, steps: int) -> tuple[Any, ...]:
    return random.random((n, m)).astype(dtype), steps


def _heat(random: Random, dtype: Any, n: int, m: int, steps: int) -> tuple[Any, ...]:
    return *_grid(random, dtype, n, m, steps), 0.2


def _laplace(random: Random, dtype: Any, n: int, m: int) -> tuple[Any, ...]:
    u = np.zeros((n, m), dtype)
    u[0], u[:, 0] = random.random(m), random.random(n)
    return u, 1e-4


def _fdtd(random: Random, dtype: Any, n: int, m: int, steps: int) -> tuple[Any, ...]:
    return *(random.random((n, m)).astype(dtype) for _ in range(3)), np.sin(0.1 * np.arange(steps)).astype(
        dtype
    )


def _world(random: Random, dtype: Any, n: int, m: int, steps: int) -> tuple[Any, ...]:
    return random.integers(0, 2, (n, m)).astype(dtype), steps


def _diffusion(random: Random, dtype: Any, n: int, m: int, k: int) -> tuple[Any, ...]:
    return random.random((n + 4, m + 4, k)).astype(dtype), np.full((n, m, k), 0.03, dtype)


def _diffuse(random: Random, dtype: Any, n: int, m: int, k: int, steps: int) -> tuple[Any, ...]:
    return *_diffusion(random, dtype, n, m, k), steps


def _tridiagonal(random: Random, dtype: Any, *shape: int) -> tuple[Any, ...]:
    return tuple(random.random(shape).astype(dtype) + dtype(k) for k in (0, 3, 0, 0))


def _advection(random: Random, dtype: Any, n: int, m: int, k: int) -> tuple[Any, ...]:
    stage, u_stage, u_pos, tendency = (random.random((n, m, k)).astype(dtype) for _ in range(4))
    return stage, u_stage, random.random((n + 1, m, k)).astype(dtype), u_pos, tendency, 3.0 / 20.0


def _bodies(random: Random, dtype: Any, n: int, steps: int) -> tuple[Any, ...]:
    position, velocity = random.normal(size=(n, 3)).astype(dtype), random.normal(size=(n, 3)).astype(dtype)
    return position, velocity, np.full((n, 1), 20.0 / n, dtype), 0.01, steps, 0.1


def _clusters(random: Random, dtype: Any, n: int, d: int, k: int) -> tuple[Any, ...]:
    centres = random.normal(size=(k, d))
    points = centres[random.integers(0, k, n)] + 0.3 * random.normal(size=(n, d))
    return points.astype(dtype), points[:k].astype(dtype)


def _plane(random: Random, dtype: Any, m: int, n: int, limit: int) -> tuple[Any, ...]:
    return np.linspace(-2.25, 0.75, m).astype(dtype), np.linspace(-1.25, 1.25, n).astype(dtype), limit


def _weights(random: Random, dtype: Any, n: int) -> tuple[Any, ...]:
    weights = random.integers(1, 100, (n, n)).astype(dtype)
    if np.dtype(dtype).kind == "f":
        weights[random.random((n, n)) < 0.5] = np.inf
    return (weights,)


def _definite(random: Random, dtype: Any, n: int) -> tuple[Any, ...]:
    a = random.random((n, n))
    return (a @ a.T / n + np.eye(n)).astype(dtype), random.random(n).astype(dtype), 1e-6 * n**0.5


def _poisson(random: Random, dtype: Any, n: int, m: int) -> tuple[Any, ...]:
    return random.random((n, m)).astype(dtype), 1e-4 * (n * m) ** 0.5


def _signal(random: Random, dtype: Any, *shape: int) -> tuple[Any, ...]:
    b, a = np.array([0.0675, 0.1349, 0.0675]), np.array([1.0, -1.1430, 0.4128])  # Butterworth, at a fifth
    return random.random(shape).astype(dtype), b.astype(dtype), a.astype(dtype)


def _motion(dtype: Any) -> tuple[Any, ...]:
    """A point in the plane with nearly constant speed, whose place is measured."""
    transition = np.eye(4) + 0.1 * np.eye(4, k=2)
    matrices = transition, np.eye(4)[:2], 0.01 * np.eye(4), 0.1 * np.eye(2)
    return tuple(m.astype(dtype) for m in matrices)


def _kalman(random: Random, dtype: Any, steps: int) -> tuple[Any, ...]:
    return (
        random.normal(size=(steps, 2)).astype(dtype),
        *_motion(dtype),
        np.zeros(4, dtype),
        np.eye(4, dtype=dtype),
    )


def _tracks(random: Random, dtype: Any, steps: int, tracks: int) -> tuple[Any, ...]:
    measured = random.normal(size=(steps, tracks, 2)).astype(dtype)
    unit = np.broadcast_to(np.eye(4, dtype=dtype), (tracks, 4, 4)).copy()
    return measured, *_motion(dtype), np.zeros((tracks, 4), dtype), unit


def _puts(random: Random, dtype: Any, options: int, points: int, steps: int) -> tuple[Any, ...]:
    strike, volatility = random.uniform(50, 150, options), random.uniform(0.1, 0.5, options)
    return strike.astype(dtype), volatility.astype(dtype), 0.05, 1.0, points, steps


GRIDS = ((3, 3, 1), (16, 16, 7), (23, 41, 20), (1, 5, 2))
CASES: tuple[Case, ...] = (
    Case("heat", stencils.heat, _heat, GRIDS, (512, 512, 100)),
    Case("jacobi", stencils.jacobi, _grid, GRIDS, (512, 512, 50)),
    Case("laplace", stencils.laplace, _laplace, ((3, 3), (16, 20)), (128, 128)),
    Case("fdtd", stencils.fdtd, _fdtd, ((2, 2, 3), (16, 17, 9), (30, 21, 0)), (512, 512, 50)),
    Case("life", stencils.life, _world, GRIDS, (1024, 1024, 20), dtypes=("uint8", "int64")),
    Case("life on a torus", stencils.life_on_torus, _world, GRIDS, (1024, 1024, 20),
         dtypes=("bool",)),
    Case("horizontal diffusion", weather.horizontal_diffusion, _diffusion,
         ((1, 1, 1), (8, 7, 5), (3, 9, 16)), (128, 128, 64)),
    Case("diffusion steps", weather.diffuse, _diffuse, ((1, 1, 1, 2), (8, 7, 5, 4)),
         (128, 128, 64, 10)),
    Case("tridiagonal solve", weather.tridiagonal, _tridiagonal,
         ((2, 3, 1), (4, 5, 2), (7, 3, 16)), (128, 128, 80)),
    Case("vertical advection", weather.vertical_advection, _advection,
         ((1, 1, 2), (3, 4, 9), (6, 5, 20)), (128, 128, 80)),
    Case("n bodies", particles.bodies, _bodies, ((1, 1), (5, 3), (40, 6)), (500, 20),
         static=("steps",), tolerance=1e-12),
    Case("k-means", particles.kmeans, _clusters, ((30, 2, 3), (200, 5, 7)), (50_000, 8, 16),
         tolerance=1e-12),
    Case("mandelbrot", fractal.mandelbrot, _plane, ((30, 20, 40), (7, 1, 3)),
         (400, 300, 100), dtypes=("float64",), tolerance=1e-6),
    Case("escape times", fractal.escape_times, _plane, ((30, 20, 40), (7, 1, 3)),
         (400, 300, 100)),
    Case("shortest paths", shortest_paths.shortest_paths, _weights,
         ((1,), (7,), (40,)), (400,), dtypes=("float64", "int32")),
    Case("conjugate gradient", conjugate_gradient.solve, _definite, ((3,), (40,)), (1000,),
         dtypes=("float64",), tolerance=1e-10),
    Case("poisson", conjugate_gradient.poisson, _poisson, ((1, 1), (9, 14), (32, 32)),
         (256, 256), dtypes=("float64",), tolerance=1e-10),
    Case("biquad", filters.biquad, _signal, ((1,), (50,), (3, 200), (2, 3, 17)), (64, 20_000)),
    Case("kalman", filters.kalman, _kalman, ((1,), (50,)), (2000,), tolerance=1e-12),
    Case("kalman tracks", filters.kalman_tracks, _tracks, ((3, 1), (20, 7)), (50, 2000),
         tolerance=1e-12),
    Case("option grid", option_grid.puts, _puts, ((1, 5, 2), (3, 40, 6)), (64, 300, 100),
         static=("points",), tolerance=1e-12),
)  # fmt: skip
