"""Results lie in memory as NumPy's do, and loops go along with it."""

import itertools

import numpy as np
import pytest

import aotarray

RNG = np.random.default_rng(5)
SHAPES = [(3, 4), (300, 200), (5, 1, 7), (2, 3, 4), (100, 70, 30), (0, 3), (1, 1), (1, 6)]


def both(x, y):
    return x * 2 + y, x - y


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("orders", [*itertools.product("CF", "CF")])
def test_results_follow_arguments(shape, orders):
    x, y = (np.asarray(RNG.random(shape), order=o) for o in orders)
    for found, expected in zip(aotarray.jit(both)(x, y), both(x, y), strict=True):
        np.testing.assert_array_equal(found, expected)
        if orders[0] == orders[1]:
            assert found.flags.c_contiguous == expected.flags.c_contiguous
            assert found.flags.f_contiguous == expected.flags.f_contiguous


def test_strides_of_every_kind():
    compiled = aotarray.jit(both)
    base = [np.asarray(RNG.random((12, 10, 8)), order=o) for o in "CF"]
    cuts = [np.s_[::2, ::-1, 1:], np.s_[::-1, ::-1, ::-1], np.s_[1:, :, 3:4], np.s_[:, 0, :]]
    views = [b[c] for b in base for c in cuts] + [b.transpose(2, 0, 1)[:, ::3] for b in base]
    for x, y in itertools.product(views, views):
        if x.shape == y.shape:
            for found, expected in zip(compiled(x, y), both(x, y), strict=True):
                np.testing.assert_array_equal(found, expected)


def test_arrays_in_between_and_given_ones():
    """Loops change places only where no array of the program has to lie in C order."""

    def chain(x, row):
        y = np.exp(x - x.max(axis=0)) + row
        return y / y.sum(axis=0), np.roll(y, 1, 0) * x, x + row

    x, row = np.asfortranarray(RNG.random((40, 30))), RNG.random(30)
    for found, expected in zip(aotarray.jit(chain)(x, row), chain(x, row), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13)
    for order in "CF":
        outs = tuple(np.empty(x.shape, order=order) for _ in range(2))
        aotarray.jit(both)(x, x.copy(), out=outs)
        for found, expected in zip(outs, both(x, x), strict=True):
            np.testing.assert_array_equal(found, expected)
