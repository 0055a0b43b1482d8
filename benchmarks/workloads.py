"""The table of workloads: plain NumPy functions, how to make their inputs, and what limits them.

`python benchmarks/run.py --list` prints it. A function here is what a user would write; the generic peers
(jax.jit, torch.compile, Pythran) compile these very functions. Hand-written loops are in `numba_loops.py`.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

Inputs = Callable[[np.random.Generator, int], tuple[Any, ...]]

MEMORY = "memory"  # moves bytes: compared with the stream probe
COMPUTE = "compute"  # arithmetic: no limit shown unless `flops` is given
CALL = "call"  # too small to be anything but the cost of a call


@dataclass(frozen=True)
class Workload:
    """One row of the table."""

    name: str  # group/what
    function: Callable[..., Any]
    inputs: Inputs  # (random generator, about how many elements) -> arguments
    bound: str = COMPUTE
    small: int = 10_000
    default: int = 1_000_000
    large: int = 100_000_000  # 0: left out with --size large
    most: int = 2**62  # more elements than this are not asked for
    numexpr: str | None = None  # the same in numexpr's language, over the function's argument names
    flops: Callable[..., float] | None = None  # arguments -> multiply-adds counted as two
    tolerance: float | None = None  # relative to the value and to the largest value; None: by dtype

    def elements(self, size: str) -> int:
        """How many elements `size` (small, default, large or a number) asks for; 0: not run."""
        named = {"small": self.small, "default": self.default, "large": self.large}
        count = named[size] if size in named else int(float(size))
        return min(count, self.most)

    def make(self, count: int) -> tuple[Any, ...]:
        return self.inputs(np.random.default_rng(12345), count)


def load_file(name: str, path: Path) -> ModuleType:
    """The module in a file, under a name of its own."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _example(name: str) -> ModuleType:
    return load_file(f"examples_{name}", Path(__file__).resolve().parent.parent / "examples" / f"{name}.py")


black_scholes = _example("black_scholes").price
haversine = _example("haversine").haversine
hillshade = _example("hillshade").hillshade
laplacian_2d = _example("laplacian").laplacian
layer_norm = _example("layer_norm").layer_norm
softmax = _example("softmax").softmax
sin_plus_cos = _example("article").waves
tanh_3x = _example("article").squash
root = _example("article").root


# inputs


def vectors(*dtypes: str, low: float = -3.0, high: float = 3.0) -> Inputs:
    """One vector of n values in [low, high) for each dtype."""

    def make(random: np.random.Generator, n: int) -> tuple[Any, ...]:
        return tuple(_uniform(random, (n,), dtype, low, high) for dtype in dtypes)

    return make


def matrix(dtype: str, columns: int = 0, low: float = -3.0, high: float = 3.0) -> Inputs:
    """One matrix of about n values, with `columns` columns (0: square)."""

    def make(random: np.random.Generator, n: int) -> tuple[Any, ...]:
        m = min(columns, max(8, n // 8)) if columns else max(8, round(n**0.5))
        return (_uniform(random, (max(8, n // m), m), dtype, low, high),)

    return make


def cube(dtype: str) -> Inputs:
    """One cube of about n values."""

    def make(random: np.random.Generator, n: int) -> tuple[Any, ...]:
        side = max(4, round(n ** (1 / 3)))
        return (_uniform(random, (side, side, side), dtype, -3.0, 3.0),)

    return make


def _uniform(random: np.random.Generator, shape: tuple[int, ...], dtype: str, low: float, high: float) -> Any:
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    if kind.kind in "iu":
        return random.integers(max(int(low), np.iinfo(kind).min), int(high), shape, dtype=kind)
    if kind.kind == "c":
        real = random.uniform(low, high, (*shape, 2)).astype(kind.type(0).real.dtype)
        return real.view(kind)[..., 0]
    if kind == np.float32:
        values = random.random(shape, dtype=np.float32)
        values *= np.float32(high - low)
        values += np.float32(low)
        return values
    return random.uniform(low, high, shape)


# element-wise


def scale_add(x, y):
    return x * 2.5 + y


def horner(x):
    return ((((0.1 * x - 0.3) * x + 0.7) * x - 1.1) * x + 1.3) * x - 0.9


def leaky_relu(x):
    return np.where(x > 0.0, x, 0.01 * x)


def affine_rows_columns(x, a, b):
    return x * a + b


def mixed_precision(x, y):
    return x * y + x


def affine_inputs(random: np.random.Generator, n: int) -> tuple[Any, ...]:
    (x,) = matrix("f8", 1000)(random, n)
    return x, random.normal(size=x.shape[1]), random.normal(size=(x.shape[0], 1))


# transcendental


def exp(x):
    return np.exp(x)


def log(x):
    return np.log(x)


def arctan2(y, x):
    return np.arctan2(y, x)


def power(x, y):
    return x**y


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1.0 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def prices_inputs(random: np.random.Generator, n: int) -> tuple[Any, ...]:
    return random.uniform(50, 150, n), random.uniform(50, 150, n), random.uniform(0.1, 2.0, n)


def places_inputs(random: np.random.Generator, n: int) -> tuple[Any, ...]:
    return 52.52, 13.405, random.uniform(-80, 80, n), random.uniform(-180, 180, n)


# reductions


def sum_of_squares(x):
    return np.sum(x * x)


def weighted_sum(x, y):
    return np.sum(x * y)


def mean_0(x):
    return x.mean(axis=0)


def mean_1(x):
    return x.mean(axis=1)


def var_0(x):
    return x.var(axis=0)


def var_1(x):
    return x.var(axis=1)


def var_all(x):
    return x.var()


def largest(x):
    return x.max()


def largest_1(x):
    return x.max(axis=1)


def argmax_1(x):
    return x.argmax(axis=1)


def sum_middle(x):
    return x.sum(axis=1)


def count_above(x):
    return np.count_nonzero(x > 0.5)


# rows and columns


def log_sum_exp(x):
    top = x.max(axis=1, keepdims=True)
    return np.log(np.exp(x - top).sum(axis=1)) + top[:, 0]


def normalise_rows(x):
    return x / np.sqrt((x * x).sum(axis=1, keepdims=True))


def column_sums(x):
    return x.sum(axis=0)


def standardise_columns(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


def softmax_columns(x):
    weights = np.exp(x - x.max(axis=0))
    return weights / weights.sum(axis=0)


def zscore(x):
    return (x - x.mean()) / x.std()


def skewness(x):
    centred = x - x.mean()
    return np.mean(centred * centred * centred) / np.mean(centred * centred) ** 1.5


def running_sum(x):
    return np.cumsum(x)


def layer_inputs(random: np.random.Generator, n: int) -> tuple[Any, ...]:
    (x,) = matrix("f4", 1024)(random, n)
    m = x.shape[1]
    return x, random.normal(size=m).astype("f4"), random.normal(size=m).astype("f4")


# pairs of points


def distances(a, b):
    d = a[:, None, :] - b[None, :, :]
    return np.sqrt((d * d).sum(axis=-1))


def nearest(points, centres):
    d = points[:, None, :] - centres[None, :, :]
    return (d * d).sum(axis=-1).argmin(axis=1)


def distances_inputs(random: np.random.Generator, n: int) -> tuple[Any, ...]:
    side = max(4, round(n**0.5))
    return random.normal(size=(side, 3)), random.normal(size=(side, 3))


def nearest_inputs(random: np.random.Generator, n: int) -> tuple[Any, ...]:
    return random.normal(size=(max(8, n // 16), 4)), random.normal(size=(16, 4))


# stencils and images


def three_point(u):
    return u[:-2] - 2.0 * u[1:-1] + u[2:]


def seven_point(u):
    inner = u[1:-1, 1:-1, 1:-1]
    along_0 = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1]
    along_1 = u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
    along_2 = u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:]
    return inner + 0.1 * (along_0 + along_1 + along_2 - 6.0 * inner)


def periodic_gradient(u):
    return 0.5 * (np.roll(u, -1) - np.roll(u, 1))


def box_blur(z):
    total = z[:-2, :-2] + z[:-2, 1:-1] + z[:-2, 2:]
    total = total + z[1:-1, :-2] + z[1:-1, 1:-1] + z[1:-1, 2:]
    total = total + z[2:, :-2] + z[2:, 1:-1] + z[2:, 2:]
    return total * (1.0 / 9.0)


def sobel(z):
    across = (z[:-2, 2:] + 2.0 * z[1:-1, 2:] + z[2:, 2:]) - (z[:-2, :-2] + 2.0 * z[1:-1, :-2] + z[2:, :-2])
    down = (z[2:, :-2] + 2.0 * z[2:, 1:-1] + z[2:, 2:]) - (z[:-2, :-2] + 2.0 * z[:-2, 1:-1] + z[:-2, 2:])
    return np.sqrt(across * across + down * down)


def terrain_inputs(random: np.random.Generator, n: int) -> tuple[Any, ...]:
    return (matrix("f8", low=0.0, high=500.0)(random, n)[0], 30.0, 30.0)


# integers, bools, complex numbers


def mix_bits(x):
    x = (x ^ (x >> 16)) * np.uint32(0x45D9F3B)
    x = (x ^ (x >> 16)) * np.uint32(0x45D9F3B)
    return x ^ (x >> 16)


def divide_integers(x):
    return x // 7 + x % 7


def grey(pixels):
    wide = pixels.astype(np.uint16)
    return ((77 * wide[:, 0] + 150 * wide[:, 1] + 29 * wide[:, 2]) >> 8).astype(np.uint8)


def masks(x, y, m):
    return ((x > 0.5) & (y < 1.0)) | ~m


def complex_multiply(x, y):
    return x * y


def escape(c):
    z = c
    for _ in range(8):
        z = z * z + c
    return z.real * z.real + z.imag * z.imag


def grey_inputs(random: np.random.Generator, n: int) -> tuple[Any, ...]:
    return (random.integers(0, 256, (max(8, n), 3), dtype=np.uint8),)


def escape_inputs(random: np.random.Generator, n: int) -> tuple[Any, ...]:
    radius, angle = 0.25 * np.sqrt(random.random(n)), random.uniform(0, 2 * np.pi, n)
    return (radius * np.exp(1j * angle),)


# products of matrices


def dense_relu(x, w, b):
    return np.maximum(x @ w + b, 0.0)


def rotate(points, r):
    return points @ r.T


def dense_inputs(random: np.random.Generator, n: int) -> tuple[Any, ...]:
    side = max(8, round(n**0.5))
    shapes = ((side, side), (side, side), (side,))
    return tuple(random.normal(size=shape).astype("f4") for shape in shapes)


def dense_flops(x: Any, w: Any, b: Any) -> float:
    return 2.0 * x.shape[0] * x.shape[1] * w.shape[1]


def rotate_inputs(random: np.random.Generator, n: int) -> tuple[Any, ...]:
    return random.normal(size=(max(8, n // 3), 3)), random.normal(size=(3, 3))


# layouts and gathers


def add(x, y):
    return x + y


def take_weighted(x, index, w):
    return x[index] * w


def strided_inputs(random: np.random.Generator, n: int) -> tuple[Any, ...]:
    return random.normal(size=2 * n)[::2], random.normal(size=2 * n)[1::2]


def reversed_inputs(random: np.random.Generator, n: int) -> tuple[Any, ...]:
    return random.normal(size=n)[::-1], random.normal(size=n)


def transposed_inputs(random: np.random.Generator, n: int) -> tuple[Any, ...]:
    side = max(8, round(n**0.5))
    return random.normal(size=(side, side)).T, random.normal(size=(side, side))


def fortran_inputs(random: np.random.Generator, n: int) -> tuple[Any, ...]:
    side = max(8, round(n**0.5))
    x, y = random.normal(size=(2, side, side))
    return np.asfortranarray(x), np.asfortranarray(y)


def take_inputs(random: np.random.Generator, n: int) -> tuple[Any, ...]:
    return random.normal(size=n), random.integers(0, n, n), random.normal(size=n)


# tiny arrays


def length_3(v):
    return np.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])


def product_4(a, b):
    return a @ b


def product_4_inputs(random: np.random.Generator, n: int) -> tuple[Any, ...]:
    return random.normal(size=(4, 4)), random.normal(size=(4, 4))


TINY = {"bound": CALL, "small": 8, "default": 8, "large": 0, "most": 8}
ROWS = {"small": 32_768, "default": 2_097_152}

WORKLOADS = (
    Workload("elementwise/scale_add", scale_add, vectors("f8", "f8"), MEMORY, numexpr="x * 2.5 + y"),
    Workload("elementwise/horner", horner, vectors("f8"), MEMORY,
             numexpr="((((0.1 * x - 0.3) * x + 0.7) * x - 1.1) * x + 1.3) * x - 0.9"),
    Workload("elementwise/leaky_relu_f32", leaky_relu, vectors("f4"), MEMORY,
             numexpr="where(x > 0, x, x * 0.01)"),
    Workload("elementwise/sqrt_2d", root, matrix("f8", low=0.0), MEMORY, numexpr="sqrt(x)"),
    Workload("elementwise/broadcast", affine_rows_columns, affine_inputs, MEMORY, numexpr="x * a + b"),
    Workload("elementwise/mixed_f32_f64", mixed_precision, vectors("f4", "f8"), MEMORY, numexpr="x * y + x"),

    Workload("transcendental/sin_plus_cos", sin_plus_cos, vectors("f8", low=-10, high=10),
             numexpr="sin(x) + cos(x)"),
    Workload("transcendental/sin_plus_cos_f32", sin_plus_cos, vectors("f4", low=-10, high=10),
             numexpr="sin(x) + cos(x)"),
    Workload("transcendental/tanh_3x_f32", tanh_3x, vectors("f4", low=-1.5, high=1.5), numexpr="tanh(x * 3)"),
    Workload("transcendental/exp", exp, vectors("f8"), numexpr="exp(x)"),
    Workload("transcendental/exp_f32", exp, vectors("f4"), numexpr="exp(x)"),
    Workload("transcendental/log", log, vectors("f8", low=1e-3, high=1e3), numexpr="log(x)"),
    Workload("transcendental/arctan2", arctan2, vectors("f8", "f8"), numexpr="arctan2(y, x)"),
    Workload("transcendental/power", power, vectors("f8", "f8", low=0.1, high=3.0), numexpr="x ** y"),
    Workload("transcendental/sigmoid_f32", sigmoid, vectors("f4"), numexpr="1 / (1 + exp(-x))"),
    Workload("transcendental/gelu_f32", gelu, vectors("f4"),
             numexpr="0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))"),

    Workload("finance/black_scholes", black_scholes, prices_inputs, large=20_000_000),
    Workload("geodesy/haversine", haversine, places_inputs, large=50_000_000,
             numexpr="12742.0176 * arcsin(sqrt(sin((lat2 - lat1) * 0.008726646259971648) ** 2"
                     " + cos(lat1 * 0.017453292519943295) * cos(lat2 * 0.017453292519943295)"
                     " * sin((lon2 - lon1) * 0.008726646259971648) ** 2))"),

    Workload("reductions/sum_of_squares", sum_of_squares, vectors("f8"), MEMORY, numexpr="sum(x * x)"),
    Workload("reductions/weighted_sum_f32", weighted_sum, vectors("f4", "f4", low=0.0), MEMORY,
             numexpr="sum(x * y)"),
    Workload("reductions/mean_axis0", mean_0, matrix("f8", 1000), MEMORY),
    Workload("reductions/mean_axis1", mean_1, matrix("f8", 1000), MEMORY),
    Workload("reductions/var_axis0", var_0, matrix("f8", 1000), MEMORY),
    Workload("reductions/var_axis1", var_1, matrix("f8", 1000), MEMORY),
    Workload("reductions/var", var_all, vectors("f8"), MEMORY),
    Workload("reductions/max", largest, vectors("f8"), MEMORY, numexpr="max(x)"),
    Workload("reductions/max_axis1_f32", largest_1, matrix("f4", 1000), MEMORY, numexpr="max(x, axis=1)"),
    Workload("reductions/argmax_axis1", argmax_1, matrix("f8", 1000), MEMORY),
    Workload("reductions/sum_middle_axis", sum_middle, cube("f8"), MEMORY, numexpr="sum(x, axis=1)"),
    Workload("reductions/count_above", count_above, vectors("f8"), MEMORY),

    Workload("rows/softmax_f32", softmax, matrix("f4", 1024), **ROWS),
    Workload("rows/layer_norm_f32", layer_norm, layer_inputs, MEMORY, **ROWS),
    Workload("rows/log_sum_exp", log_sum_exp, matrix("f8", 1024), large=50_000_000),
    Workload("rows/normalise", normalise_rows, matrix("f8", 1024), MEMORY, large=50_000_000),

    Workload("columns/sums", column_sums, matrix("f8", 512), MEMORY, numexpr="sum(x, axis=0)"),
    Workload("columns/standardise", standardise_columns, matrix("f8", 512), MEMORY, large=50_000_000),
    Workload("columns/softmax", softmax_columns, matrix("f8", 512), large=50_000_000),

    Workload("statistics/zscore", zscore, vectors("f8"), MEMORY),
    Workload("statistics/skewness", skewness, vectors("f8", low=0.0), MEMORY, tolerance=1e-9),
    Workload("statistics/running_sum", running_sum, vectors("f8"), MEMORY),

    Workload("pairs/distances_3d", distances, distances_inputs, large=50_000_000),
    Workload("pairs/nearest_of_16", nearest, nearest_inputs, large=50_000_000),

    Workload("stencils/three_point_1d", three_point, vectors("f8"), MEMORY),
    Workload("stencils/laplacian_2d", laplacian_2d, matrix("f8"), MEMORY),
    Workload("stencils/seven_point_3d", seven_point, cube("f8"), MEMORY),
    Workload("stencils/periodic_gradient", periodic_gradient, vectors("f8"), MEMORY),

    Workload("images/hillshade", hillshade, terrain_inputs, large=50_000_000),
    Workload("images/box_blur_f32", box_blur, matrix("f4"), MEMORY),
    Workload("images/sobel_f32", sobel, matrix("f4"), MEMORY),

    Workload("integers/mix_bits_u32", mix_bits, vectors("u4", low=0, high=2**32), MEMORY),
    Workload("integers/divide_i64", divide_integers, vectors("i8", low=-(10**6), high=10**6)),
    Workload("integers/grey_u8", grey, grey_inputs, MEMORY),
    Workload("integers/masks", masks, vectors("f8", "f8", "?"), MEMORY,
             numexpr="((x > 0.5) & (y < 1.0)) | ~m"),

    Workload("complex/multiply", complex_multiply, vectors("c16", "c16"), MEMORY, large=50_000_000,
             numexpr="x * y"),
    Workload("complex/escape", escape, escape_inputs, large=50_000_000),

    Workload("matmul/dense_relu_f32", dense_relu, dense_inputs, default=512 * 512, large=4096 * 4096,
             most=4096 * 4096, flops=dense_flops, tolerance=1e-4),
    Workload("matmul/rotate_points", rotate, rotate_inputs, MEMORY),

    Workload("layouts/strided", add, strided_inputs, MEMORY, large=50_000_000, numexpr="x + y"),
    Workload("layouts/reversed", add, reversed_inputs, MEMORY, numexpr="x + y"),
    Workload("layouts/transposed", add, transposed_inputs, MEMORY, numexpr="x + y"),
    Workload("layouts/fortran", add, fortran_inputs, MEMORY, numexpr="x + y"),
    Workload("layouts/gather", take_weighted, take_inputs, large=50_000_000),

    Workload("tiny/sin_plus_cos_8", sin_plus_cos, vectors("f8"), numexpr="sin(x) + cos(x)", **TINY),
    Workload("tiny/add_8", add, vectors("f8", "f8"), numexpr="x + y", **TINY),
    Workload("tiny/length_3", length_3, vectors("f8"), **{**TINY, "small": 3, "default": 3, "most": 3}),
    Workload("tiny/product_4x4", product_4, product_4_inputs, **TINY),
)  # fmt: skip


def select(pattern: str) -> list[Workload]:
    """The workloads whose names hold one of the comma-separated parts of `pattern` (all if empty)."""
    parts = [p for p in pattern.split(",") if p]
    return [w for w in WORKLOADS if not parts or any(p in w.name for p in parts)]
