"""European puts by the Black-Scholes equation on a grid of prices: Crank-Nicolson steps, Thomas's solve."""

import numpy as np


def puts(strike, volatility, rate, years, points, steps):
    """Prices (points, options) of puts with `strike` and `volatility` (options,) at spots 0 to 3 strikes.

    `points` of the spot price, `steps` in time, from expiry back to today.
    """
    dt = years / steps
    j = np.arange(points)[:, None]
    spot = j * (3.0 * strike / (points - 1))
    value = np.maximum(strike - spot, 0.0)
    variance = volatility**2 * j**2
    a = 0.25 * dt * (variance - rate * j)
    b = -0.5 * dt * (variance + rate)
    c = 0.25 * dt * (variance + rate * j)

    # The matrix is the same in every step: so is the first half of Thomas's elimination.
    factor = np.zeros_like(value)
    pivot = np.ones_like(value)
    for i in range(1, points - 1):
        pivot[i] = 1.0 - b[i] + a[i] * factor[i - 1]
        factor[i] = -c[i] / pivot[i]

    d = np.zeros_like(value)
    for n in range(steps):
        low = strike * np.exp(-rate * dt * (n + 1))
        right = a[1:-1] * value[:-2] + (1.0 + b[1:-1]) * value[1:-1] + c[1:-1] * value[2:]
        d[0] = low
        for i in range(1, points - 1):
            d[i] = (right[i - 1] + a[i] * d[i - 1]) / pivot[i]
        value = np.zeros_like(value)
        for i in range(points - 2, 0, -1):
            value[i] = d[i] - factor[i] * value[i + 1]
        value[0] = low
    return spot, value


def main():
    import aotarray

    strike, volatility = np.linspace(80.0, 120.0, 5), np.full(5, 0.2)
    arguments = strike, volatility, 0.05, 1.0, 301, 100
    _, value = aotarray.jit(puts, control_flow="python", static_argnames="points")(*arguments)
    print(
        "at the money:",
        ", ".join(f"{v:.4f}" for v in value[100]),
        "for strikes",
        ", ".join(f"{s:g}" for s in strike),
    )
    assert np.allclose(value, puts(*arguments)[1])


if __name__ == "__main__":
    main()
