"""Three one-line functions: the smallest things worth compiling."""

import numpy as np


def waves(x):
    return np.sin(x) + np.cos(x)


def squash(x):
    return np.tanh(x * 3.0)


def root(x):
    return np.sqrt(x)


def main():
    import aotarray

    line = np.linspace(-10.0, 10.0, 1_000_000)
    square = np.random.default_rng(0).random((1000, 1000))
    for function, x in [(waves, line), (squash, line), (root, square)]:
        compiled = aotarray.jit(function)
        y = compiled(x).block_until_ready()
        difference = np.max(np.abs(y - function(x)))
        print(f"{function.__name__}: shape {y.shape}, device {y.device}, largest difference {difference:.1e}")
        assert difference < 2e-15


if __name__ == "__main__":
    main()
