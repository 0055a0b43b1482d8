"""What `aotarray demo` compiles: plain NumPy, the same functions as examples/black_scholes.py."""

# Plain NumPy as a user writes it, without annotations.
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False

import numpy as np

RATE = 0.02
VOLATILITY = 0.3


def normal_cdf(x):
    """The normal distribution function, to about 1e-15.

    Hart's rational approximation (Computer Approximations, 1968, number 5666) as published by G. West,
    "Better approximations to cumulative normal functions", Wilmott, May 2005.
    """
    z = np.abs(x)
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
    tail = np.exp(-0.5 * z * z) * top / bottom
    return np.where(x > 0, 1.0 - tail, tail)


def price(s, k, t):
    """Prices of a call and a put: `s` spot price, `k` strike price, `t` years to expiry."""
    spread = VOLATILITY * np.sqrt(t)
    d1 = (np.log(s / k) + (RATE + 0.5 * VOLATILITY**2) * t) / spread
    d2 = d1 - spread
    discounted = k * np.exp(-RATE * t)
    call = s * normal_cdf(d1) - discounted * normal_cdf(d2)
    put = discounted * normal_cdf(-d2) - s * normal_cdf(-d1)
    return call, put
