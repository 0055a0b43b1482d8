"""Layer normalisation (Ba, Kiros, Hinton, 2016): rows to mean 0 and variance 1, then scaled and shifted."""

import numpy as np

EPSILON = 1e-5


def layer_norm(x, gain, bias):
    """`x` is (..., m); `gain` and `bias` are (m,)."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    return centred / np.sqrt(variance + EPSILON) * gain + bias


def main():
    import aotarray

    random = np.random.default_rng(0)
    x, gain, bias = random.normal(3.0, 2.0, (2000, 768)), random.normal(size=768), random.normal(size=768)
    y = aotarray.jit(layer_norm)(x, gain, bias)
    difference = np.max(np.abs(y - layer_norm(x, gain, bias)))
    print(f"shape {y.shape}, largest difference {difference:.1e}")
    assert difference < 1e-13


if __name__ == "__main__":
    main()
