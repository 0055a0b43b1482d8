"""Random numbers: NumPy's Philox to the bit, the same compiled and not, for any threads; independent streams."""

from __future__ import annotations

import numpy as np
import pytest

import aotarray
import aotarray.random as random
from aotarray.interpret import interpret

SEEDS = (0, 7, 2**64 - 1, (5 << 64) + 3)


def generator(seed):
    return np.random.Generator(np.random.Philox(key=seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_words_and_floats_are_numpys(seed):
    key = random.key(seed)
    words = np.random.Philox(key=seed).random_raw(101)
    np.testing.assert_array_equal(random.bits(key, 101), words)
    np.testing.assert_array_equal(random.uniform(key, (3, 5)), generator(seed).random((3, 5)))
    single = generator(seed).random((3, 5), dtype=np.float32)
    np.testing.assert_array_equal(random.uniform(key, (3, 5), np.float32), single)


@pytest.mark.parametrize("threads", [1, 2])
def test_compiled_numbers_are_the_same(threads):
    before = aotarray.get_num_threads()
    aotarray.set_num_threads(threads)
    try:
        key = random.key(3)
        compiled = aotarray.jit(lambda key, x: (random.bits(key, x.shape), random.uniform(key, x.shape) + x))
        for shape in ((1000, 101), (5, 3)):
            words, values = compiled(key, np.zeros(shape))
            np.testing.assert_array_equal(words, random.bits(key, shape))
            np.testing.assert_array_equal(values, generator(3).random(shape))
        assert compiled.stats().traces == 1
    finally:
        aotarray.set_num_threads(before)


def _draw(key, x):
    a, b, c = random.split(key, 3)
    steps = random.fold_in(c, x.astype(np.int64)[0])
    return (
        random.normal(a, x.shape), random.normal(b, (2, 3), np.float32, scale=2.0),
        random.uniform(steps, 4, np.float32),
        random.integers(c, -5, 5, x.shape), random.integers(b, 7, shape=3, dtype=np.int32), steps,
        random.uniform(a, (), low=-1.0),
    )  # fmt: skip


def test_everything_is_the_same_inside_and_outside():
    args = [random.key(11), np.arange(6.0)]
    outside = _draw(*args)
    inside = aotarray.jit(_draw)(*args)
    graph = aotarray.lower(_draw, *args).traced.graph
    for one, two, three in zip(outside, inside, interpret(graph, args), strict=True):
        assert np.asarray(one).dtype == two.dtype == three.dtype
        np.testing.assert_allclose(two, one, rtol=1e-6 if two.dtype == np.float32 else 1e-13)
        np.testing.assert_allclose(three, one, rtol=1e-6 if two.dtype == np.float32 else 1e-13)


def test_distributions():
    key = random.key(1)
    z = random.normal(key, 200_000)
    assert abs(z.mean()) < 0.01
    assert abs(z.std() - 1) < 0.01
    assert abs((z**3).mean()) < 0.05
    assert abs((z**4).mean() - 3) < 0.1
    counts = np.bincount(random.integers(key, 10, shape=100_000), minlength=10)
    assert len(counts) == 10
    assert abs(counts - 10_000).max() < 500
    assert random.integers(key, -(2**63), 2**63 - 1, shape=1000).min() < -(2**61)


def test_streams_differ():
    keys = [
        random.key(5),
        *random.split(random.key(5), 4),
        *(random.fold_in(random.key(5), i) for i in range(4)),
    ]
    draws = {tuple(random.bits(k, 4)) for k in keys}
    assert len(draws) == len(keys)


def test_a_seed_may_be_traced():
    compiled = aotarray.jit(lambda seed: random.uniform(random.key(seed), 3))
    np.testing.assert_array_equal(compiled(np.int64(9)), generator(9).random(3))


def test_refusals():
    with pytest.raises(ValueError, match="128"):
        random.key(-1)
    with pytest.raises(TypeError, match="two uint64"):
        random.uniform(np.zeros(2), 3)
    with pytest.raises(TypeError, match="float64 or float32"):
        random.normal(random.key(0), 3, np.float16)
    with pytest.raises(ValueError, match="low >= high"):
        random.integers(random.key(0), 5, 5)
