"""Recursive filters: a biquad over samples, and Kalman filters over measurements."""

import numpy as np


def biquad(x, b, a):
    """The second-order filter `b`, `a` (3 numbers each, a[0] = 1) along the last axis of `x` (..., n).

    The transposed direct form II, as in scipy.signal.lfilter.
    """
    y = np.zeros_like(x)
    z1 = np.zeros_like(x[..., 0])
    z2 = np.zeros_like(x[..., 0])
    for n in range(x.shape[-1]):
        y[..., n] = b[0] * x[..., n] + z1
        z1 = b[1] * x[..., n] - a[1] * y[..., n] + z2
        z2 = b[2] * x[..., n] - a[2] * y[..., n]
    return y


def kalman(measured, transition, observation, noise, error, state, covariance):
    """The filtered states (t, n) and their last covariance (n, n) for `measured` (t, m).

    `transition` (n, n), `observation` (m, n), process `noise` (n, n), measurement `error` (m, m); the first
    `state` (n,) and `covariance` (n, n).
    """
    filtered = np.zeros((measured.shape[0], state.shape[0]), dtype=state.dtype)
    unit = np.eye(state.shape[0], dtype=state.dtype)
    for t in range(measured.shape[0]):
        state = transition @ state
        covariance = transition @ covariance @ transition.T + noise
        innovation = measured[t] - observation @ state
        spread = observation @ covariance @ observation.T + error
        gain = covariance @ observation.T @ np.linalg.inv(spread)
        state = state + gain @ innovation
        covariance = (unit - gain @ observation) @ covariance
        filtered[t] = state
    return filtered, covariance


def kalman_tracks(measured, transition, observation, noise, error, state, covariance):
    """Many tracks at once: `measured` (t, tracks, m), `state` (tracks, n), `covariance` (tracks, n, n)."""
    filtered = np.zeros((measured.shape[0], *state.shape), dtype=state.dtype)
    unit = np.eye(transition.shape[0], dtype=state.dtype)
    for t in range(measured.shape[0]):
        state = state @ transition.T
        covariance = transition @ covariance @ transition.T + noise
        innovation = measured[t] - state @ observation.T
        spread = observation @ covariance @ observation.T + error
        gain = np.swapaxes(np.linalg.solve(spread, observation @ covariance), -1, -2)
        state = state + (gain @ innovation[..., None])[..., 0]
        covariance = (unit - gain @ observation) @ covariance
        filtered[t] = state
    return filtered, covariance


def main():
    import aotarray

    random = np.random.default_rng(0)
    x = random.random((4, 1000))
    b, a = np.array([0.0675, 0.1349, 0.0675]), np.array([1.0, -1.1430, 0.4128])
    assert np.array_equal(aotarray.jit(biquad, control_flow="python")(x, b, a), biquad(x, b, a))
    print("biquad: the same bits as NumPy")

    steps, dt = 200, 0.1
    truth = np.stack([np.cos(dt * np.arange(steps)), np.sin(dt * np.arange(steps))], axis=1)
    measured = truth + 0.3 * random.normal(size=truth.shape)
    transition = np.eye(4) + dt * np.eye(4, k=2)
    arguments = (
        measured,
        transition,
        np.eye(4)[:2],
        0.01 * np.eye(4),
        0.09 * np.eye(2),
        np.zeros(4),
        np.eye(4),
    )
    filtered, _ = aotarray.jit(kalman, control_flow="python")(*arguments)
    before, after = (np.sqrt(np.mean((z - truth)[50:] ** 2)) for z in (measured, filtered[:, :2]))
    print(f"kalman: error {before:.3f} measured, {after:.3f} filtered")
    assert np.allclose(filtered, kalman(*arguments)[0])


if __name__ == "__main__":
    main()
