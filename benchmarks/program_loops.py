"""The example programs written with aotarray's loops in place of Python's, for functions that only trace."""

from typing import Any

import numpy as np
import particles
import weather
from conjugate_gradient import minus_laplacian

from aotarray import fori_loop, scan, while_loop


def heat(u: Any, steps: Any, number: Any) -> Any:
    def step(_: Any, u: Any) -> Any:
        u[1:-1, 1:-1] += number * (
            u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1]
        )
        return u

    return fori_loop(0, steps, step, u.copy())


def jacobi(u: Any, steps: Any) -> Any:
    def step(_: Any, s: Any) -> Any:
        a, b = s
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])
        a[1:-1, 1:-1] = 0.2 * (b[1:-1, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:] + b[2:, 1:-1] + b[:-2, 1:-1])
        return a, b

    return fori_loop(0, steps, step, (u.copy(), u.copy()))


def laplace(u: Any, tolerance: Any) -> Any:
    def step(s: Any) -> Any:
        u, steps, _ = s
        new = u.copy()
        new[1:-1, 1:-1] = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
        change = np.max(np.abs(new - u))
        return new, steps + 1, change

    return while_loop(lambda s: s[2] > tolerance, step, (u, 0, u.dtype.type(np.inf)))[:2]


def fdtd(ex: Any, ey: Any, hz: Any, source: Any) -> Any:
    def step(s: Any, v: Any) -> Any:
        ex, ey, hz = s
        ey[0, :] = v
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
        return (ex, ey, hz), ()

    return scan(step, (ex, ey, hz), source)[0]


def life(world: Any, steps: Any) -> Any:
    def step(_: Any, z: Any) -> Any:
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

    return fori_loop(0, steps, step, world.copy())


def life_on_torus(world: Any, steps: Any) -> Any:
    def step(_: Any, world: Any) -> Any:
        cells = world.astype(np.uint8)
        across = cells + np.roll(cells, 1, axis=1) + np.roll(cells, -1, axis=1)
        around = across + np.roll(across, 1, axis=0) + np.roll(across, -1, axis=0)
        return (around == 3) | (world & (around == 4))

    return fori_loop(0, steps, step, world)


def diffuse(field: Any, coefficient: Any, steps: Any) -> Any:
    def step(_: Any, field: Any) -> Any:
        field[2:-2, 2:-2] = weather.horizontal_diffusion(field, coefficient)
        return field

    return fori_loop(0, steps, step, field.copy())


def tridiagonal(lower: Any, diagonal: Any, upper: Any, right: Any) -> Any:
    n = right.shape[-1]
    c = np.zeros_like(right)
    d = np.zeros_like(right)
    x = np.zeros_like(right)
    c[..., 0] = upper[..., 0] / diagonal[..., 0]
    d[..., 0] = right[..., 0] / diagonal[..., 0]

    def down(k: Any, s: Any) -> Any:
        c, d = s
        pivot = diagonal[..., k] - lower[..., k] * c[..., k - 1]
        c[..., k] = upper[..., k] / pivot
        d[..., k] = (right[..., k] - lower[..., k] * d[..., k - 1]) / pivot
        return c, d

    c, d = fori_loop(1, n, down, (c, d))
    x[..., n - 1] = d[..., n - 1]

    def up(j: Any, x: Any) -> Any:
        k = n - 2 - j
        x[..., k] = d[..., k] - c[..., k] * x[..., k + 1]
        return x

    return fori_loop(0, n - 1, up, x)


def bodies(position: Any, velocity: Any, mass: Any, dt: Any, steps: Any, softening: Any) -> Any:
    velocity = velocity - np.mean(mass * velocity, axis=0) / np.mean(mass)
    a = particles.acceleration(position, mass, softening)
    first = 0.5 * np.sum(mass * velocity**2)
    energy = np.zeros(steps + 1)
    energy[0] = first

    def step(k: Any, s: Any) -> Any:
        position, velocity, a, energy = s
        velocity = velocity + a * dt / 2.0
        position = position + velocity * dt
        a = particles.acceleration(position, mass, softening)
        velocity = velocity + a * dt / 2.0
        energy[k + 1] = 0.5 * np.sum(mass * velocity**2)
        return position, velocity, a, energy

    p, v, _, e = fori_loop(0, steps, step, (position, velocity, a, energy))
    return p, v, e


def kmeans(points: Any, centres: Any) -> Any:
    k = centres.shape[0]
    labels = np.full(points.shape[0], -1)

    def step(s: Any) -> Any:
        labels, centres, rounds, changed = s
        distances = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        new = distances.argmin(axis=1)
        changed = (new != labels).any()
        labels = new
        counts = np.bincount(labels, minlength=k)[:, None].astype(points.dtype)
        sums = np.zeros_like(centres)
        np.add.at(sums, labels, points)
        centres = np.where(counts > 0, sums / np.maximum(counts, 1), centres)
        return labels, centres, rounds + 1, changed

    return while_loop(lambda s: s[3], step, (labels, centres, 0, True))[:3]


def mandelbrot(x: Any, y: Any, limit: Any, horizon: Any = 2.0) -> Any:
    c = x + y[:, None] * 1j

    def step(n: Any, s: Any) -> Any:
        count, z = s
        inside = np.abs(z) < horizon
        count[inside] = n
        z[inside] = z[inside] ** 2 + c[inside]
        return count, z

    count, z = fori_loop(
        0, limit, step, (np.zeros(c.shape, dtype=np.int64), np.zeros(c.shape, dtype=np.complex128))
    )
    count[count == limit - 1] = 0
    return count, z


def escape_times(x: Any, y: Any, limit: Any) -> Any:
    cr = x[None, :] + 0.0 * y[:, None]
    ci = y[:, None] + 0.0 * x[None, :]

    def step(_: Any, s: Any) -> Any:
        zr, zi, count, active = s
        zr_new = zr * zr - zi * zi + cr
        zi_new = 2.0 * zr * zi + ci
        zr = np.where(active, zr_new, zr)
        zi = np.where(active, zi_new, zi)
        active &= zr * zr + zi * zi <= 4.0
        count += active
        return zr, zi, count, active

    return fori_loop(
        0,
        limit,
        step,
        (
            np.zeros_like(cr),
            np.zeros_like(ci),
            np.zeros(cr.shape, dtype=np.int32),
            np.ones(cr.shape, dtype=bool),
        ),
    )[2]


def shortest_paths(weights: Any) -> Any:
    return fori_loop(0, weights.shape[0], lambda k, d: np.minimum(d, d[:, k, None] + d[None, k, :]), weights)


def solve(a: Any, b: Any, tolerance: Any) -> Any:
    x = np.zeros_like(b)
    r = b - a @ x
    p = r.copy()
    squared = r @ r

    def step(s: Any) -> Any:
        x, r, p, squared, steps = s
        ap = a @ p
        alpha = squared / (p @ ap)
        x += alpha * p
        r -= alpha * ap
        previous = squared
        squared = r @ r
        p = r + (squared / previous) * p
        return x, r, p, squared, steps + 1

    x, _, _, _, steps = while_loop(lambda s: np.sqrt(s[3]) > tolerance, step, (x, r, p, squared, 0))
    return x, steps


def poisson(b: Any, tolerance: Any) -> Any:
    lap = minus_laplacian
    u = np.zeros_like(b)
    r = b - lap(u)
    p = r.copy()
    squared = np.sum(r * r)

    def step(s: Any) -> Any:
        u, r, p, squared, steps = s
        ap = lap(p)
        alpha = squared / np.sum(p * ap)
        u = u + alpha * p
        r = r - alpha * ap
        previous = squared
        squared = np.sum(r * r)
        p = r + (squared / previous) * p
        return u, r, p, squared, steps + 1

    u, _, _, _, steps = while_loop(lambda s: np.sqrt(s[3]) > tolerance, step, (u, r, p, squared, 0))
    return u, steps


def biquad(x: Any, b: Any, a: Any) -> Any:
    def step(n: Any, s: Any) -> Any:
        y, z1, z2 = s
        y[..., n] = b[0] * x[..., n] + z1
        z1 = b[1] * x[..., n] - a[1] * y[..., n] + z2
        z2 = b[2] * x[..., n] - a[2] * y[..., n]
        return y, z1, z2

    return fori_loop(
        0, x.shape[-1], step, (np.zeros_like(x), np.zeros_like(x[..., 0]), np.zeros_like(x[..., 0]))
    )[0]


def kalman(
    measured: Any, transition: Any, observation: Any, noise: Any, error: Any, state: Any, covariance: Any
) -> Any:
    unit = np.eye(state.shape[0], dtype=state.dtype)

    def step(s: Any, z: Any) -> Any:
        state, covariance = s
        state = transition @ state
        covariance = transition @ covariance @ transition.T + noise
        innovation = z - observation @ state
        spread = observation @ covariance @ observation.T + error
        gain = covariance @ observation.T @ np.linalg.inv(spread)
        state = state + gain @ innovation
        covariance = (unit - gain @ observation) @ covariance
        return (state, covariance), state

    (_, covariance), filtered = scan(step, (state, covariance), measured)
    return filtered, covariance


def kalman_tracks(
    measured: Any, transition: Any, observation: Any, noise: Any, error: Any, state: Any, covariance: Any
) -> Any:
    unit = np.eye(transition.shape[0], dtype=state.dtype)

    def step(s: Any, z: Any) -> Any:
        state, covariance = s
        state = state @ transition.T
        covariance = transition @ covariance @ transition.T + noise
        innovation = z - state @ observation.T
        spread = observation @ covariance @ observation.T + error
        gain = np.swapaxes(np.linalg.solve(spread, observation @ covariance), -1, -2)
        state = state + (gain @ innovation[..., None])[..., 0]
        covariance = (unit - gain @ observation) @ covariance
        return (state, covariance), state

    (_, covariance), filtered = scan(step, (state, covariance), measured)
    return filtered, covariance


def puts(strike: Any, volatility: Any, rate: Any, years: Any, points: Any, steps: Any) -> Any:
    dt = years / steps
    j = np.arange(points)[:, None]
    spot = j * (3.0 * strike / (points - 1))
    value = np.maximum(strike - spot, 0.0)
    variance = volatility**2 * j**2
    a = 0.25 * dt * (variance - rate * j)
    b = -0.5 * dt * (variance + rate)
    c = 0.25 * dt * (variance + rate * j)
    factor = np.zeros_like(value)
    pivot = np.ones_like(value)

    def first(i: Any, s: Any) -> Any:
        factor, pivot = s
        pivot[i] = 1.0 - b[i] + a[i] * factor[i - 1]
        factor[i] = -c[i] / pivot[i]
        return factor, pivot

    factor, pivot = fori_loop(1, points - 1, first, (factor, pivot))

    def step(n: Any, s: Any) -> Any:
        value, d = s
        low = strike * np.exp(-rate * dt * (n + 1))
        right = a[1:-1] * value[:-2] + (1.0 + b[1:-1]) * value[1:-1] + c[1:-1] * value[2:]
        d[0] = low

        def down(i: Any, d: Any) -> Any:
            d[i] = (right[i - 1] + a[i] * d[i - 1]) / pivot[i]
            return d

        d = fori_loop(1, points - 1, down, d)
        value = np.zeros_like(value)

        def up(k: Any, value: Any) -> Any:
            i = points - 2 - k
            value[i] = d[i] - factor[i] * value[i + 1]
            return value

        value = fori_loop(0, points - 2, up, value)
        value[0] = low
        return value, d

    return spot, fori_loop(0, steps, step, (value, np.zeros_like(value)))[0]


def vertical_advection(
    tendency_stage: Any, u_stage: Any, wcon: Any, u_pos: Any, tendency: Any, rate: Any
) -> Any:
    levels = u_stage.shape[-1]

    def row(k: Any, above: Any, below: Any) -> Any:
        """The coefficients of a level: with the one above and the one below, where there are such."""
        a, c, centre = 0.0, 0.0, rate
        right = rate * u_pos[:, :, k] + tendency[:, :, k] + tendency_stage[:, :, k]
        if above:
            wind = -0.25 * (wcon[1:, :, k] + wcon[:-1, :, k])
            a = wind * weather.IMPLICIT
            right = right - wind * weather.EXPLICIT * (u_stage[:, :, k - 1] - u_stage[:, :, k])
            centre = centre - a
        if below:
            wind = 0.25 * (wcon[1:, :, k + 1] + wcon[:-1, :, k + 1])
            c = wind * weather.IMPLICIT
            right = right - wind * weather.EXPLICIT * (u_stage[:, :, k + 1] - u_stage[:, :, k])
            centre = centre - c
        return a, centre, c, right

    def down(k: Any, s: Any) -> Any:
        c, d = s
        a, centre, new, right = row(k, True, True)
        divided = 1.0 / (centre - c[:, :, k - 1] * a)
        c[:, :, k] = new * divided
        d[:, :, k] = (right - d[:, :, k - 1] * a) * divided
        return c, d

    def up(j: Any, s: Any) -> Any:
        u, result = s
        k = levels - 2 - j
        u = d[:, :, k] - c[:, :, k] * u
        result[:, :, k] = rate * (u - u_pos[:, :, k])
        return u, result

    c, d = np.zeros_like(u_stage), np.zeros_like(u_stage)
    _, centre, new, right = row(0, False, True)
    c[:, :, 0] = new / centre
    d[:, :, 0] = right / centre
    c, d = fori_loop(1, levels - 1, down, (c, d))
    last = levels - 1
    a, centre, _, right = row(last, True, False)
    u = (right - d[:, :, last - 1] * a) * (1.0 / (centre - c[:, :, last - 1] * a))
    result = np.zeros_like(u_stage)
    result[:, :, last] = rate * (u - u_pos[:, :, last])
    return fori_loop(0, levels - 1, up, (u, result))[1]
