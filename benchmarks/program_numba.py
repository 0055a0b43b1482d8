"""The whole programs as an expert writes them for Numba: parallel loops, fused by hand, exact arithmetic.

Names are those of the example functions. `vertical_advection`, `tridiagonal` and the filters go along each column on
its own; stencils have two arrays that take turns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange

loops = njit(parallel=True, fastmath=False, error_model="numpy", nogil=True)
serial = njit(fastmath=False, error_model="numpy", nogil=True)


@loops
def heat(u: Any, steps: Any, number: Any) -> Any:
    a, b = u.copy(), u.copy()
    n, m = u.shape
    for _ in range(steps):
        for i in prange(1, n - 1):
            for j in range(1, m - 1):
                b[i, j] = a[i, j] + number * (
                    a[i + 1, j] + a[i - 1, j] + a[i, j + 1] + a[i, j - 1] - 4.0 * a[i, j]
                )
        a, b = b, a
    return a


@loops
def jacobi(u: Any, steps: Any) -> Any:
    a, b = u.copy(), u.copy()
    n, m = u.shape
    for _ in range(steps):
        for i in prange(1, n - 1):
            for j in range(1, m - 1):
                b[i, j] = 0.2 * (a[i, j] + a[i, j - 1] + a[i, j + 1] + a[i + 1, j] + a[i - 1, j])
        for i in prange(1, n - 1):
            for j in range(1, m - 1):
                a[i, j] = 0.2 * (b[i, j] + b[i, j - 1] + b[i, j + 1] + b[i + 1, j] + b[i - 1, j])
    return a, b


@loops
def laplace(u: Any, tolerance: Any) -> Any:
    a, b = u.copy(), u.copy()
    n, m = u.shape
    steps = 0
    change = np.inf
    while change > tolerance:
        change = 0.0
        for i in prange(1, n - 1):
            row = 0.0
            for j in range(1, m - 1):
                new = 0.25 * (a[i + 1, j] + a[i - 1, j] + a[i, j + 1] + a[i, j - 1])
                row = max(row, abs(new - a[i, j]))
                b[i, j] = new
            change = max(change, row)
        a, b = b, a
        steps += 1
    return a, steps


@loops
def fdtd(ex: Any, ey: Any, hz: Any, source: Any) -> Any:
    ex, ey, hz = ex.copy(), ey.copy(), hz.copy()
    n, m = ex.shape
    for t in range(source.shape[0]):
        for i in prange(n):
            for j in range(m):
                if i > 0:
                    ey[i, j] -= 0.5 * (hz[i, j] - hz[i - 1, j])
                else:
                    ey[i, j] = source[t]
            for j in range(1, m):
                ex[i, j] -= 0.5 * (hz[i, j] - hz[i, j - 1])
        for i in prange(n - 1):
            for j in range(m - 1):
                hz[i, j] -= 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])
    return ex, ey, hz


@loops
def life(world: Any, steps: Any) -> Any:
    a, b = world.copy(), np.zeros_like(world)
    n, m = world.shape
    if steps > 0:
        b[:, 0] = b[:, -1] = b[0, :] = b[-1, :] = 0
    for _ in range(steps):
        for i in prange(1, n - 1):
            for j in range(1, m - 1):
                around = np.uint8(
                    a[i - 1, j - 1] + a[i - 1, j] + a[i - 1, j + 1] + a[i, j - 1] + a[i, j + 1]
                    + a[i + 1, j - 1] + a[i + 1, j] + a[i + 1, j + 1]
                )  # fmt: skip
                b[i, j] = (around == np.uint8(3)) | ((around == np.uint8(2)) & a[i, j])
        a, b = b, a
        if _ == 0:
            b[:, 0] = b[:, -1] = b[0, :] = b[-1, :] = 0
    return a


@serial
def _alive(a: Any, up: Any, i: Any, down: Any, left: Any, j: Any, right: Any) -> Any:
    around = np.uint8(
        np.uint8(a[up, left]) + np.uint8(a[up, j]) + np.uint8(a[up, right])
        + np.uint8(a[i, left]) + np.uint8(a[i, right])
        + np.uint8(a[down, left]) + np.uint8(a[down, j]) + np.uint8(a[down, right])
    )  # fmt: skip
    return (around == np.uint8(3)) | ((around == np.uint8(2)) & a[i, j])


@loops
def life_on_torus(world: Any, steps: Any) -> Any:
    a, b = world.copy(), world.copy()
    n, m = world.shape
    for _ in range(steps):
        for i in prange(n):
            up = i - 1 if i > 0 else n - 1
            down = i + 1 if i < n - 1 else 0
            b[i, 0] = _alive(a, up, i, down, m - 1, 0, 1 % m)
            for j in range(1, m - 1):
                b[i, j] = _alive(a, up, i, down, j - 1, j, j + 1)
            b[i, m - 1] = _alive(a, up, i, down, (m - 2) % m, m - 1, 0)
        a, b = b, a
    return a


@serial
def _laplacian(f: Any, i: Any, j: Any, k: Any) -> Any:
    return 4.0 * f[i, j, k] - (f[i + 1, j, k] + f[i - 1, j, k] + f[i, j + 1, k] + f[i, j - 1, k])


@serial
def _limited(flux: Any, difference: Any) -> Any:
    return 0.0 if flux * difference > 0.0 else flux


@serial
def _diffused(f: Any, c: Any, i: Any, j: Any, k: Any) -> Any:
    """At point (i + 2, j + 2, k) of the field."""
    p, q = i + 2, j + 2
    here = _laplacian(f, p, q, k)
    east = _limited(_laplacian(f, p + 1, q, k) - here, f[p + 1, q, k] - f[p, q, k])
    west = _limited(here - _laplacian(f, p - 1, q, k), f[p, q, k] - f[p - 1, q, k])
    north = _limited(_laplacian(f, p, q + 1, k) - here, f[p, q + 1, k] - f[p, q, k])
    south = _limited(here - _laplacian(f, p, q - 1, k), f[p, q, k] - f[p, q - 1, k])
    return f[p, q, k] - c[i, j, k] * (east - west + north - south)


@loops
def horizontal_diffusion(field: Any, coefficient: Any) -> Any:
    n, m, levels = coefficient.shape
    out = np.empty((n, m, levels), field.dtype)
    for i in prange(n):
        for j in range(m):
            for k in range(levels):
                out[i, j, k] = _diffused(field, coefficient, i, j, k)
    return out


@loops
def diffuse(field: Any, coefficient: Any, steps: Any) -> Any:
    n, m, levels = coefficient.shape
    a, b = field.copy(), field.copy()
    for _ in range(steps):
        for i in prange(n):
            for j in range(m):
                for k in range(levels):
                    b[i + 2, j + 2, k] = _diffused(a, coefficient, i, j, k)
        a, b = b, a
    return a


@loops
def tridiagonal(lower: Any, diagonal: Any, upper: Any, right: Any) -> Any:
    rows, columns, n = right.shape
    x = np.empty_like(right)
    for i in prange(rows):
        c = np.empty(n)
        for j in range(columns):
            c[0] = upper[i, j, 0] / diagonal[i, j, 0]
            x[i, j, 0] = right[i, j, 0] / diagonal[i, j, 0]
            for k in range(1, n):
                pivot = diagonal[i, j, k] - lower[i, j, k] * c[k - 1]
                c[k] = upper[i, j, k] / pivot
                x[i, j, k] = (right[i, j, k] - lower[i, j, k] * x[i, j, k - 1]) / pivot
            for k in range(n - 2, -1, -1):
                x[i, j, k] -= c[k] * x[i, j, k + 1]
    return x


@loops
def vertical_advection(
    tendency_stage: Any, u_stage: Any, wcon: Any, u_pos: Any, tendency: Any, rate: Any
) -> Any:
    rows, columns, n = u_stage.shape
    out = np.empty_like(u_stage)
    for i in prange(rows):
        c, d = np.empty(n), np.empty(n)
        for j in range(columns):
            below = 0.25 * (wcon[i + 1, j, 1] + wcon[i, j, 1])
            upper = below * 0.6
            centre = rate - upper
            right = rate * u_pos[i, j, 0] + tendency[i, j, 0] + tendency_stage[i, j, 0]
            right -= below * 0.4 * (u_stage[i, j, 1] - u_stage[i, j, 0])
            c[0] = upper / centre
            d[0] = right / centre
            for k in range(1, n):
                above = -below
                lower = above * 0.6
                explicit = -above * 0.4 * (u_stage[i, j, k - 1] - u_stage[i, j, k])
                upper = 0.0
                if k < n - 1:
                    below = 0.25 * (wcon[i + 1, j, k + 1] + wcon[i, j, k + 1])
                    upper = below * 0.6
                    explicit -= below * 0.4 * (u_stage[i, j, k + 1] - u_stage[i, j, k])
                right = rate * u_pos[i, j, k] + tendency[i, j, k] + tendency_stage[i, j, k] + explicit
                divided = 1.0 / (rate - lower - upper - c[k - 1] * lower)
                c[k] = upper * divided
                d[k] = (right - d[k - 1] * lower) * divided
            u = d[n - 1]
            out[i, j, n - 1] = rate * (u - u_pos[i, j, n - 1])
            for k in range(n - 2, -1, -1):
                u = d[k] - c[k] * u
                out[i, j, k] = rate * (u - u_pos[i, j, k])
    return out


@loops
def _acceleration(position: Any, mass: Any, softening: Any, a: Any) -> None:
    n = position.shape[0]
    x, y, z = position[:, 0].copy(), position[:, 1].copy(), position[:, 2].copy()
    for i in prange(n):
        ax = ay = az = 0.0
        for j in range(n):
            dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
            r2 = dx * dx + dy * dy + dz * dz + softening * softening
            if r2 > 0.0:
                pull = mass[j, 0] / (r2 * np.sqrt(r2))
                ax += dx * pull
                ay += dy * pull
                az += dz * pull
        a[i, 0], a[i, 1], a[i, 2] = ax, ay, az


@serial
def bodies(position: Any, velocity: Any, mass: Any, dt: Any, steps: Any, softening: Any) -> Any:
    position, velocity = position.copy(), velocity.copy()
    n = position.shape[0]
    a = np.empty_like(position)
    total = mass.sum()
    for c in range(3):
        momentum = 0.0
        for i in range(n):
            momentum += mass[i, 0] * velocity[i, c]
        velocity[:, c] -= momentum / total
    energy = np.zeros(steps + 1)
    _acceleration(position, mass, softening, a)
    for step in range(steps + 1):
        if step > 0:
            for i in range(n):
                for c in range(3):
                    velocity[i, c] += a[i, c] * dt / 2.0
                    position[i, c] += velocity[i, c] * dt
            _acceleration(position, mass, softening, a)
            for i in range(n):
                for c in range(3):
                    velocity[i, c] += a[i, c] * dt / 2.0
        for i in range(n):
            for c in range(3):
                energy[step] += 0.5 * mass[i, 0] * velocity[i, c] * velocity[i, c]
    return position, velocity, energy


@loops
def kmeans(points: Any, centres: Any) -> Any:
    n, d = points.shape
    k = centres.shape[0]
    centres = centres.copy()
    labels = np.full(n, -1)
    changed = 1
    rounds = 0
    while changed > 0:
        changed = 0
        for i in prange(n):
            best, least = 0, np.inf
            for c in range(k):
                distance = 0.0
                for e in range(d):
                    distance += (points[i, e] - centres[c, e]) ** 2
                if distance < least:
                    best, least = c, distance
            if best != labels[i]:
                changed += 1
                labels[i] = best
        sums, counts = np.zeros((k, d)), np.zeros(k)
        for i in range(n):
            counts[labels[i]] += 1.0
            for e in range(d):
                sums[labels[i], e] += points[i, e]
        for c in range(k):
            if counts[c] > 0:
                for e in range(d):
                    centres[c, e] = sums[c, e] / counts[c]
        rounds += 1
    return labels, centres, rounds


@loops
def mandelbrot(x: Any, y: Any, limit: Any) -> Any:
    n, m = y.size, x.size
    count = np.zeros((n, m), np.int64)
    z = np.zeros((n, m), np.complex128)
    for i in prange(n):
        for j in range(m):
            re = im = 0.0
            last = 0
            for step in range(limit):
                if np.hypot(re, im) >= 2.0:
                    break
                last = step
                re, im = re * re - im * im + x[j], 2.0 * re * im + y[i]
            count[i, j] = 0 if last == limit - 1 else last
            z[i, j] = complex(re, im)
    return count, z


@loops
def escape_times(x: Any, y: Any, limit: Any) -> Any:
    n, m = y.size, x.size
    count = np.zeros((n, m), np.int32)
    for i in prange(n):
        for j in range(m):
            re = im = 0.0
            inside = 0
            for _ in range(limit):
                re, im = re * re - im * im + x[j], 2.0 * re * im + y[i]
                if not re * re + im * im <= 4.0:
                    break
                inside += 1
            count[i, j] = inside
    return count


@loops
def shortest_paths(weights: Any) -> Any:
    distances = weights.copy()
    n = distances.shape[0]
    for k in range(n):
        for i in prange(n):
            through = distances[i, k]
            for j in range(n):
                distances[i, j] = min(distances[i, j], through + distances[k, j])
    return distances


@loops
def solve(a: Any, b: Any, tolerance: Any) -> Any:
    n = b.size
    x, r, p = np.zeros(n), b.copy(), b.copy()
    squared = np.dot(r, r)
    steps = 0
    while np.sqrt(squared) > tolerance:
        ap = np.dot(a, p)
        alpha = squared / np.dot(p, ap)
        previous, squared = squared, 0.0
        for i in range(n):
            x[i] += alpha * p[i]
            r[i] -= alpha * ap[i]
            squared += r[i] * r[i]
        beta = squared / previous
        for i in range(n):
            p[i] = r[i] + beta * p[i]
        steps += 1
    return x, steps


@loops
def poisson(b: Any, tolerance: Any) -> Any:
    n, m = b.shape
    u, r = np.zeros((n, m)), b.copy()
    p, ap = np.zeros((n + 2, m + 2)), np.zeros((n, m))
    p[1:-1, 1:-1] = r
    squared = 0.0
    for i in prange(n):
        for j in range(m):
            squared += r[i, j] * r[i, j]
    steps = 0
    while np.sqrt(squared) > tolerance:
        product = 0.0
        for i in prange(n):
            for j in range(m):
                ap[i, j] = (
                    4.0 * p[i + 1, j + 1] - p[i, j + 1] - p[i + 2, j + 1] - p[i + 1, j] - p[i + 1, j + 2]
                )
                product += p[i + 1, j + 1] * ap[i, j]
        alpha = squared / product
        previous, squared = squared, 0.0
        for i in prange(n):
            for j in range(m):
                u[i, j] += alpha * p[i + 1, j + 1]
                r[i, j] -= alpha * ap[i, j]
                squared += r[i, j] * r[i, j]
        beta = squared / previous
        for i in prange(n):
            for j in range(m):
                p[i + 1, j + 1] = r[i, j] + beta * p[i + 1, j + 1]
        steps += 1
    return u, steps


@loops
def biquad(x: Any, b: Any, a: Any) -> Any:
    y = np.empty_like(x)
    for c in prange(x.shape[0]):
        z1 = z2 = 0.0
        for n in range(x.shape[1]):
            out = b[0] * x[c, n] + z1
            z1 = b[1] * x[c, n] - a[1] * out + z2
            z2 = b[2] * x[c, n] - a[2] * out
            y[c, n] = out
    return y


@serial
def _product(a: Any, b: Any, out: Any) -> None:
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            out[i, j] = total


@serial
def _track(measured: Any, f: Any, h: Any, noise: Any, error: Any, state: Any, p: Any, filtered: Any) -> None:
    """All steps of one track; `state` and `p` are changed. Two values are measured."""
    n = state.size
    ft, ht = f.T.copy(), h.T.copy()
    new, fp, ph = np.empty(n), np.empty((n, n)), np.empty((n, 2))
    s, gain, kept = np.empty((2, 2)), np.empty((n, 2)), np.empty((n, n))
    for t in range(measured.shape[0]):
        for i in range(n):
            new[i] = 0.0
            for k in range(n):
                new[i] += f[i, k] * state[k]
        _product(f, p, fp)
        _product(fp, ft, p)
        for i in range(n):
            for j in range(n):
                p[i, j] += noise[i, j]
        _product(p, ht, ph)
        _product(h, ph, s)
        for i in range(2):
            for j in range(2):
                s[i, j] += error[i, j]
        determinant = s[0, 0] * s[1, 1] - s[0, 1] * s[1, 0]
        y0, y1 = measured[t, 0], measured[t, 1]
        for k in range(n):
            y0 -= h[0, k] * new[k]
            y1 -= h[1, k] * new[k]
        for i in range(n):
            gain[i, 0] = (ph[i, 0] * s[1, 1] - ph[i, 1] * s[1, 0]) / determinant
            gain[i, 1] = (ph[i, 1] * s[0, 0] - ph[i, 0] * s[0, 1]) / determinant
            state[i] = new[i] + gain[i, 0] * y0 + gain[i, 1] * y1
            filtered[t, i] = state[i]
        for i in range(n):
            for j in range(n):
                kept[i, j] = (i == j) - gain[i, 0] * h[0, j] - gain[i, 1] * h[1, j]
        _product(kept, p, fp)
        p[:] = fp


@serial
def kalman(measured: Any, f: Any, h: Any, noise: Any, error: Any, state: Any, covariance: Any) -> Any:
    filtered = np.empty((measured.shape[0], state.size))
    p = covariance.copy()
    _track(measured, f, h, noise, error, state.copy(), p, filtered)
    return filtered, p


@loops
def kalman_tracks(measured: Any, f: Any, h: Any, noise: Any, error: Any, state: Any, covariance: Any) -> Any:
    steps, tracks, _ = measured.shape
    filtered = np.empty((steps, tracks, state.shape[1]))
    p = covariance.copy()
    for k in prange(tracks):
        _track(measured[:, k], f, h, noise, error, state[k].copy(), p[k], filtered[:, k])
    return filtered, p


@loops
def puts(strike: Any, volatility: Any, rate: Any, years: Any, points: Any, steps: Any) -> Any:
    options = strike.size
    dt = years / steps
    spot, value = np.empty((points, options)), np.empty((points, options))
    parts = get_num_threads()
    for part in prange(parts):
        lo, hi = options * part // parts, options * (part + 1) // parts
        width = hi - lo
        s, sigma = strike[lo:hi], volatility[lo:hi]
        v, d = np.empty((points, width)), np.empty((points, width))
        a, b, c = np.empty((points, width)), np.empty((points, width)), np.empty((points, width))
        factor, pivot = np.zeros((points, width)), np.ones((points, width))
        for i in range(points):
            for o in range(width):
                spot[i, lo + o] = i * (3.0 * s[o] / (points - 1))
                v[i, o] = max(s[o] - spot[i, lo + o], 0.0)
                variance = sigma[o] ** 2 * i**2
                a[i, o] = 0.25 * dt * (variance - rate * i)
                b[i, o] = -0.5 * dt * (variance + rate)
                c[i, o] = 0.25 * dt * (variance + rate * i)
        for i in range(1, points - 1):
            for o in range(width):
                pivot[i, o] = 1.0 - b[i, o] + a[i, o] * factor[i - 1, o]
                factor[i, o] = -c[i, o] / pivot[i, o]
        for n in range(steps):
            low = np.exp(-rate * dt * (n + 1))
            for o in range(width):
                d[0, o] = s[o] * low
            for i in range(1, points - 1):
                for o in range(width):
                    right = a[i, o] * v[i - 1, o] + (1.0 + b[i, o]) * v[i, o] + c[i, o] * v[i + 1, o]
                    d[i, o] = (right + a[i, o] * d[i - 1, o]) / pivot[i, o]
            v[points - 1] = 0.0
            for i in range(points - 2, 0, -1):
                for o in range(width):
                    v[i, o] = d[i, o] - factor[i, o] * v[i + 1, o]
            v[0] = d[0]
        for i in range(points):
            for o in range(width):
                value[i, lo + o] = v[i, o]
    return spot, value
