"""What a careful user writes by hand: parallel Numba loops for workloads of the table.

Each takes the workload's arguments and returns its result. `fastmath` is off: it changes results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, prange

#: workload name -> the loop
LOOPS: dict[str, Callable[..., Any]] = {}


def loop(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function as the hand-written loop of these workloads."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        compiled = njit(parallel=True, fastmath=False, error_model="numpy")(function)
        LOOPS.update(dict.fromkeys(names, compiled))
        return compiled

    return register


@loop("elementwise/scale_add")
def scale_add(x, y):
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = x[i] * 2.5 + y[i]
    return out


@loop("elementwise/horner")
def horner(x):
    out = np.empty_like(x)
    for i in prange(x.size):
        t = x[i]
        out[i] = ((((0.1 * t - 0.3) * t + 0.7) * t - 1.1) * t + 1.3) * t - 0.9
    return out


@loop("elementwise/leaky_relu_f32")
def leaky_relu(x):
    out = np.empty_like(x)
    slope = np.float32(0.01)
    for i in prange(x.size):
        t = x[i]
        out[i] = t if t > 0 else slope * t
    return out


@loop("elementwise/broadcast")
def broadcast(x, a, b):
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        shift = b[i, 0]
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] * a[j] + shift
    return out


@loop("elementwise/mixed_f32_f64")
def mixed(x, y):
    out = np.empty_like(y)
    for i in prange(x.size):
        t = np.float64(x[i])
        out[i] = t * y[i] + t
    return out


@loop("elementwise/sqrt_2d")
def root(x):
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = math.sqrt(x[i, j])
    return out


@loop("transcendental/sin_plus_cos", "transcendental/sin_plus_cos_f32")
def sin_plus_cos(x):
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = math.sin(x[i]) + math.cos(x[i])
    return out


@loop("transcendental/tanh_3x_f32")
def tanh_3x(x):
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = math.tanh(x[i] * np.float32(3.0))
    return out


@loop("transcendental/exp", "transcendental/exp_f32")
def exp(x):
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = math.exp(x[i])
    return out


@loop("transcendental/log")
def log(x):
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = math.log(x[i])
    return out


@loop("transcendental/arctan2")
def arctan2(y, x):
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = math.atan2(y[i], x[i])
    return out


@loop("transcendental/power")
def power(x, y):
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = x[i] ** y[i]
    return out


@loop("transcendental/sigmoid_f32")
def sigmoid(x):
    out = np.empty_like(x)
    one = np.float32(1.0)
    for i in prange(x.size):
        out[i] = one / (one + math.exp(-x[i]))
    return out


@loop("transcendental/gelu_f32")
def gelu(x):
    out = np.empty_like(x)
    half, one, cubic, scale = np.float32(0.5), np.float32(1.0), np.float32(0.044715), np.float32(0.79788456)
    for i in prange(x.size):
        t = x[i]
        out[i] = half * t * (one + math.tanh(scale * (t + cubic * t * t * t)))
    return out


@njit(error_model="numpy")
def normal_cdf(x):
    z = abs(x)
    top = 3.52624965998911e-2 * z + 0.700383064443688
    top = top * z + 6.37396220353165
    top = top * z + 33.912866078383
    top = top * z + 112.079291497871
    top = top * z + 221.213596169931
    top = top * z + 220.206867912376
    bottom = 8.83883476483184e-2 * z + 1.75566716318264
    bottom = bottom * z + 16.064177579207
    bottom = bottom * z + 86.7807322029461
    bottom = bottom * z + 296.564248779674
    bottom = bottom * z + 637.333633378831
    bottom = bottom * z + 793.826512519948
    bottom = bottom * z + 440.413735824752
    tail = math.exp(-0.5 * z * z) * top / bottom
    return 1.0 - tail if x > 0 else tail


@loop("finance/black_scholes")
def black_scholes(s, k, t):
    call, put = np.empty_like(s), np.empty_like(s)
    for i in prange(s.size):
        spread = 0.3 * math.sqrt(t[i])
        d1 = (math.log(s[i] / k[i]) + (0.02 + 0.5 * 0.3 * 0.3) * t[i]) / spread
        d2 = d1 - spread
        discounted = k[i] * math.exp(-0.02 * t[i])
        call[i] = s[i] * normal_cdf(d1) - discounted * normal_cdf(d2)
        put[i] = discounted * normal_cdf(-d2) - s[i] * normal_cdf(-d1)
    return call, put


@loop("geodesy/haversine")
def haversine(lat1, lon1, lat2, lon2):
    out = np.empty_like(lat2)
    phi1, lambda1 = math.radians(lat1), math.radians(lon1)
    cos1 = math.cos(phi1)
    for i in prange(lat2.size):
        phi2, lambda2 = math.radians(lat2[i]), math.radians(lon2[i])
        up, across = math.sin((phi2 - phi1) / 2), math.sin((lambda2 - lambda1) / 2)
        out[i] = 2 * 6371.0088 * math.asin(math.sqrt(up * up + cos1 * math.cos(phi2) * across * across))
    return out


@loop("reductions/sum_of_squares")
def sum_of_squares(x):
    total = 0.0
    for i in prange(x.size):
        total += x[i] * x[i]
    return total


@loop("reductions/weighted_sum_f32")
def weighted_sum(x, y):
    total = 0.0  # in double: a float32 sum one by one is too inexact
    for i in prange(x.size):
        total += np.float64(x[i] * y[i])
    return np.float32(total)


@loop("reductions/mean_axis1")
def mean_1(x):
    n, m = x.shape
    out = np.empty(n)
    for i in prange(n):
        total = 0.0
        for j in range(m):
            total += x[i, j]
        out[i] = total / m
    return out


@loop("reductions/var_axis1")
def var_1(x):
    n, m = x.shape
    out = np.empty(n)
    for i in prange(n):
        total = 0.0
        for j in range(m):
            total += x[i, j]
        mean = total / m
        squares = 0.0
        for j in range(m):
            squares += (x[i, j] - mean) ** 2
        out[i] = squares / m
    return out


@loop("reductions/max_axis1_f32")
def largest_1(x):
    n, m = x.shape
    out = np.empty(n, x.dtype)
    for i in prange(n):
        top = x[i, 0]
        for j in range(1, m):
            top = max(top, x[i, j])
        out[i] = top
    return out


@loop("reductions/max")
def largest(x):
    top = x[0]
    for i in prange(x.size):
        top = max(top, x[i])
    return top


@loop("reductions/argmax_axis1")
def argmax_1(x):
    n, m = x.shape
    out = np.empty(n, np.int64)
    for i in prange(n):
        best, where = x[i, 0], 0
        for j in range(1, m):
            if x[i, j] > best:
                best, where = x[i, j], j
        out[i] = where
    return out


@loop("reductions/sum_middle_axis")
def sum_middle(x):
    out = np.zeros((x.shape[0], x.shape[2]))
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                out[i, k] += x[i, j, k]
    return out


@loop("reductions/count_above")
def count_above(x):
    total = 0
    for i in prange(x.size):
        total += x[i] > 0.5
    return total


@loop("rows/softmax_f32")
def softmax(x):
    n, m = x.shape
    out = np.empty_like(x)
    for i in prange(n):
        top = x[i, 0]
        for j in range(1, m):
            top = max(top, x[i, j])
        total = np.float32(0.0)
        for j in range(m):
            out[i, j] = math.exp(x[i, j] - top)
            total += out[i, j]
        for j in range(m):
            out[i, j] /= total
    return out


@loop("rows/layer_norm_f32")
def layer_norm(x, gain, bias):
    n, m = x.shape
    out = np.empty_like(x)
    for i in prange(n):
        total = np.float32(0.0)
        for j in range(m):
            total += x[i, j]
        mean = total / np.float32(m)
        squares = np.float32(0.0)
        for j in range(m):
            squares += (x[i, j] - mean) * (x[i, j] - mean)
        scale = np.float32(1.0) / math.sqrt(squares / np.float32(m) + np.float32(1e-5))
        for j in range(m):
            out[i, j] = (x[i, j] - mean) * scale * gain[j] + bias[j]
    return out


@loop("rows/log_sum_exp")
def log_sum_exp(x):
    n, m = x.shape
    out = np.empty(n)
    for i in prange(n):
        top = x[i, 0]
        for j in range(1, m):
            top = max(top, x[i, j])
        total = 0.0
        for j in range(m):
            total += math.exp(x[i, j] - top)
        out[i] = math.log(total) + top
    return out


@loop("rows/normalise")
def normalise_rows(x):
    n, m = x.shape
    out = np.empty_like(x)
    for i in prange(n):
        squares = 0.0
        for j in range(m):
            squares += x[i, j] * x[i, j]
        length = math.sqrt(squares)
        for j in range(m):
            out[i, j] = x[i, j] / length
    return out


BLOCK = 128  # rows of a block, so that the result does not depend on the thread count


@loop("columns/sums")
def column_sums(x):
    n, m = x.shape
    blocks = (n + BLOCK - 1) // BLOCK
    partial = np.zeros((blocks, m))
    for b in prange(blocks):
        for i in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
            for j in range(m):
                partial[b, j] += x[i, j]
    out = np.zeros(m)
    for b in range(blocks):
        for j in range(m):
            out[j] += partial[b, j]
    return out


@loop("reductions/mean_axis0")
def mean_0(x):
    return column_sums(x) / x.shape[0]


@njit(parallel=True, error_model="numpy")
def column_squares(x, mean):
    n, m = x.shape
    blocks = (n + BLOCK - 1) // BLOCK
    partial = np.zeros((blocks, m))
    for b in prange(blocks):
        for i in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
            for j in range(m):
                partial[b, j] += (x[i, j] - mean[j]) ** 2
    out = np.zeros(m)
    for b in range(blocks):
        for j in range(m):
            out[j] += partial[b, j]
    return out


@loop("reductions/var_axis0")
def var_0(x):
    n = x.shape[0]
    return column_squares(x, column_sums(x) / n) / n


@loop("columns/standardise")
def standardise_columns(x):
    n, m = x.shape
    mean = column_sums(x) / n
    deviation = np.sqrt(column_squares(x, mean) / n)
    out = np.empty_like(x)
    for i in prange(n):
        for j in range(m):
            out[i, j] = (x[i, j] - mean[j]) / deviation[j]
    return out


@njit(parallel=True, error_model="numpy")
def moments(x):
    total = 0.0
    for i in prange(x.size):
        total += x[i]
    mean = total / x.size
    squares = 0.0
    for i in prange(x.size):
        squares += (x[i] - mean) ** 2
    return mean, squares / x.size


@loop("reductions/var")
def var_all(x):
    return moments(x)[1]


@loop("statistics/zscore")
def zscore(x):
    mean, variance = moments(x)
    deviation = math.sqrt(variance)
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = (x[i] - mean) / deviation
    return out


@loop("columns/softmax")
def softmax_columns(x):
    n, m = x.shape
    top = np.full(m, -np.inf)
    for i in range(n):
        for j in range(m):
            top[j] = max(top[j], x[i, j])
    out = np.empty_like(x)
    for i in prange(n):
        for j in range(m):
            out[i, j] = math.exp(x[i, j] - top[j])
    total = column_sums(out)
    for i in prange(n):
        for j in range(m):
            out[i, j] /= total[j]
    return out


@loop("statistics/skewness")
def skewness(x):
    mean, variance = moments(x)
    total = 0.0
    for i in prange(x.size):
        centred = x[i] - mean
        total += centred * centred * centred
    return total / x.size / variance**1.5


@loop("pairs/distances_3d")
def distances(a, b):
    out = np.empty((a.shape[0], b.shape[0]))
    for i in prange(a.shape[0]):
        x, y, z = a[i, 0], a[i, 1], a[i, 2]
        for j in range(b.shape[0]):
            dx, dy, dz = x - b[j, 0], y - b[j, 1], z - b[j, 2]
            out[i, j] = math.sqrt(dx * dx + dy * dy + dz * dz)
    return out


@loop("pairs/nearest_of_16")
def nearest(points, centres):
    out = np.empty(points.shape[0], np.int64)
    for i in prange(points.shape[0]):
        best, where = np.inf, 0
        for k in range(centres.shape[0]):
            total = 0.0
            for j in range(points.shape[1]):
                d = points[i, j] - centres[k, j]
                total += d * d
            if total < best:
                best, where = total, k
        out[i] = where
    return out


@loop("stencils/three_point_1d")
def three_point(u):
    out = np.empty(u.size - 2)
    before, here, after = u[:-2], u[1:-1], u[2:]  # views: an index with an offset is tested for its sign
    for i in prange(out.size):
        out[i] = before[i] - 2.0 * here[i] + after[i]
    return out


@loop("stencils/laplacian_2d")
def laplacian_2d(u):
    n, m = u.shape
    out = np.empty((n - 2, m - 2))
    for i in prange(n - 2):
        for j in range(m - 2):
            out[i, j] = u[i, j + 1] + u[i + 2, j + 1] + u[i + 1, j] + u[i + 1, j + 2] - 4.0 * u[i + 1, j + 1]
    return out


@loop("stencils/seven_point_3d")
def seven_point(u):
    n, m, p = u.shape
    out = np.empty((n - 2, m - 2, p - 2))
    for i in prange(1, n - 1):
        for j in range(1, m - 1):
            for k in range(1, p - 1):
                around = (u[i - 1, j, k] + u[i + 1, j, k]) + (u[i, j - 1, k] + u[i, j + 1, k])
                around += u[i, j, k - 1] + u[i, j, k + 1]
                out[i - 1, j - 1, k - 1] = u[i, j, k] + 0.1 * (around - 6.0 * u[i, j, k])
    return out


@loop("stencils/periodic_gradient")
def periodic_gradient(u):
    n = u.size
    out = np.empty_like(u)
    out[0] = 0.5 * (u[1 % n] - u[n - 1])
    out[n - 1] = 0.5 * (u[0] - u[n - 2])
    before, after, inner = u[:-2], u[2:], out[1:-1]
    for i in prange(inner.size):
        inner[i] = 0.5 * (after[i] - before[i])
    return out


@loop("images/hillshade")
def hillshade(z, dx, dy):
    n, m = z.shape
    out = np.empty_like(z)
    azimuth, altitude = math.radians(315.0), math.radians(45.0)
    sin_az, cos_az = math.sin(azimuth), math.cos(azimuth)
    sin_alt, cos_alt = math.sin(altitude), math.cos(altitude)
    for i in prange(n):
        up, down = max(i - 1, 0), min(i + 1, n - 1)
        for j in range(m):
            left, right = max(j - 1, 0), min(j + 1, m - 1)
            west = z[up, left] + 2.0 * z[i, left] + z[down, left]
            east = z[up, right] + 2.0 * z[i, right] + z[down, right]
            north = z[up, left] + 2.0 * z[up, j] + z[up, right]
            south = z[down, left] + 2.0 * z[down, j] + z[down, right]
            eastward, northward = (east - west) / (8.0 * dx), (north - south) / (8.0 * dy)
            slope = sin_az * eastward + cos_az * northward
            shade = (sin_alt - cos_alt * slope) / math.sqrt(1.0 + eastward * eastward + northward * northward)
            out[i, j] = min(max(shade, 0.0), 1.0)
    return out


@loop("images/box_blur_f32")
def box_blur(z):
    n, m = z.shape
    out = np.empty((n - 2, m - 2), z.dtype)
    ninth = np.float32(1.0 / 9.0)
    for i in prange(n - 2):
        for j in range(m - 2):
            total = z[i, j] + z[i, j + 1] + z[i, j + 2]
            total = total + z[i + 1, j] + z[i + 1, j + 1] + z[i + 1, j + 2]
            total = total + z[i + 2, j] + z[i + 2, j + 1] + z[i + 2, j + 2]
            out[i, j] = total * ninth
    return out


@loop("images/sobel_f32")
def sobel(z):
    n, m = z.shape
    out = np.empty((n - 2, m - 2), z.dtype)
    two = np.float32(2.0)
    for i in prange(n - 2):
        for j in range(m - 2):
            a, b, c = z[i, j], z[i, j + 1], z[i, j + 2]
            d, f = z[i + 1, j], z[i + 1, j + 2]
            g, h, k = z[i + 2, j], z[i + 2, j + 1], z[i + 2, j + 2]
            across = (c + two * f + k) - (a + two * d + g)
            down = (g + two * h + k) - (a + two * b + c)
            out[i, j] = math.sqrt(across * across + down * down)
    return out


@loop("integers/mix_bits_u32")
def mix_bits(x):
    out = np.empty_like(x)
    factor = np.uint32(0x45D9F3B)
    for i in prange(x.size):
        t = x[i]
        t = np.uint32((t ^ (t >> np.uint32(16))) * factor)
        t = np.uint32((t ^ (t >> np.uint32(16))) * factor)
        out[i] = t ^ (t >> np.uint32(16))
    return out


@loop("integers/divide_i64")
def divide_integers(x):
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = x[i] // 7 + x[i] % 7
    return out


@loop("integers/grey_u8")
def grey(pixels):
    out = np.empty(pixels.shape[0], np.uint8)
    for i in prange(pixels.shape[0]):
        out[i] = (77 * pixels[i, 0] + 150 * pixels[i, 1] + 29 * pixels[i, 2]) >> 8
    return out


@loop("integers/masks")
def masks(x, y, m):
    out = np.empty(x.size, np.bool_)
    for i in prange(x.size):
        out[i] = ((x[i] > 0.5) & (y[i] < 1.0)) | (not m[i])
    return out


@loop("complex/multiply")
def complex_multiply(x, y):
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = x[i] * y[i]
    return out


@loop("complex/escape")
def escape(c):
    out = np.empty(c.size)
    for i in prange(c.size):
        re, im = c[i].real, c[i].imag
        a, b = re, im
        for _ in range(8):
            a, b = a * a - b * b + re, 2.0 * a * b + im
        out[i] = a * a + b * b
    return out


@loop("matmul/rotate_points")
def rotate(points, r):
    out = np.empty_like(points)
    for i in prange(points.shape[0]):
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        for k in range(3):
            out[i, k] = x * r[k, 0] + y * r[k, 1] + z * r[k, 2]
    return out


@loop("matmul/dense_relu_f32")
def dense_relu(x, w, b):
    out = x @ w
    for i in prange(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = max(out[i, j] + b[j], np.float32(0.0))
    return out


@loop("layouts/strided", "layouts/reversed")
def add_vectors(x, y):
    out = np.empty(x.size)
    for i in prange(x.size):
        out[i] = x[i] + y[i]
    return out


@loop("layouts/transposed")
def add_transposed(x, y):
    n, m = x.shape
    out = np.empty((n, m))
    for b in prange((n + 31) // 32):  # tiles of 32 x 32
        for c in range((m + 31) // 32):
            rows, columns = slice(32 * b, 32 * b + 32), slice(32 * c, 32 * c + 32)
            left, right, into = x[rows, columns], y[rows, columns], out[rows, columns]
            for i in range(into.shape[0]):
                for j in range(into.shape[1]):
                    into[i, j] = left[i, j] + right[i, j]
    return out


@loop("layouts/fortran")
def add_fortran(x, y):
    n, m = x.shape
    out = np.empty((m, n))
    left, right = x.T, y.T
    for i in prange(m):
        for j in range(n):
            out[i, j] = left[i, j] + right[i, j]
    return out.T


@loop("layouts/gather")
def take_weighted(x, index, w):
    out = np.empty_like(w)
    for i in prange(w.size):
        out[i] = x[index[i]] * w[i]
    return out


# Nobody starts threads for eight numbers: these are serial.


@njit(error_model="numpy")
def length_3(v):
    return math.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])


@njit(error_model="numpy")
def product(a, b):
    out = np.zeros((a.shape[0], b.shape[1]))
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                out[i, j] += a[i, k] * b[k, j]
    return out


@njit(error_model="numpy")
def add_serial(x, y):
    out = np.empty_like(x)
    for i in range(x.size):
        out[i] = x[i] + y[i]
    return out


@njit(error_model="numpy")
def sin_plus_cos_serial(x):
    out = np.empty_like(x)
    for i in range(x.size):
        out[i] = math.sin(x[i]) + math.cos(x[i])
    return out


LOOPS |= {
    "tiny/length_3": length_3,
    "tiny/product_4x4": product,
    "tiny/add_8": add_serial,
    "tiny/sin_plus_cos_8": sin_plus_cos_serial,
}
