"""Sorting, order statistics, searching, counting and filters against NumPy, over dtypes and shapes."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import check

import aotarray

RNG = np.random.default_rng(5)
DTYPES = ["bool", "int8", "uint32", "int64", "float16", "float32", "float64", "complex64"]


def values(dtype, shape):
    found = RNG.integers(0, 9, shape) + (1j * RNG.integers(0, 3, shape) if "complex" in dtype else 0)
    return found.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(7,), (4, 5), (2, 0, 3)])
def test_sorting(dtype, shape):
    x = values(dtype, shape)
    check(lambda x: (np.sort(x), np.sort(x, axis=0), np.sort(x, axis=None)), [x])
    check(lambda x: (np.argsort(x, kind="stable"), x.argsort(axis=0, kind="stable")), [x])
    check(lambda x: np.sort(x[::-1].T, axis=-1, kind="stable"), [x])
    check(lambda x: np.sort_complex(x) if x.dtype != np.float16 and x.dtype != bool else x, [x])


def test_sorting_compiled():
    def f(x):
        y = x * 2
        y.sort(axis=0)
        y[1:].sort(axis=1)
        order = np.argsort(x, axis=1)
        return y, np.take_along_axis(x, order, axis=1), np.sort(x)[..., ::-1], x

    x = RNG.standard_normal((5, 6))
    x[2, 3] = np.nan
    check(f, [x], compiled=True)
    check(f, [np.asfortranarray(x)], compiled=True)


def test_partitions_and_lexsort():
    x = RNG.permutation(20).astype(float).reshape(4, 5)
    check(
        lambda x: (
            np.partition(x, 2),
            np.partition(x, (0, 3), axis=0)[[0, 3]],
            np.partition(x, -1, None)[-1],
        ),
        [x],
    )
    check(lambda x: np.take_along_axis(x, np.argpartition(x, 1, axis=-1), -1)[:, 1], [x])
    keys = [values("int64", 12), values("float32", 12)]
    check(lambda a, b: (np.lexsort((a, b)), np.lexsort([b, a], axis=0)), keys, compiled=True)
    check(lambda a: np.lexsort(a), [values("int64", (3, 8))])


@pytest.mark.filterwarnings("ignore:All-NaN")
@pytest.mark.parametrize("dtype", ["int32", "float16", "float32", "float64"])
def test_order_statistics(dtype):
    x = values(dtype, (4, 6))
    check(lambda x: (np.median(x), np.median(x, axis=1), np.median(x, axis=(0, 1), keepdims=True)), [x])
    check(lambda x: (np.percentile(x, 30), np.quantile(x, [0.1, 0.5], axis=0)), [x])
    check(lambda x: np.percentile(x, np.array([[10.0, 20.0]]), axis=1, keepdims=True), [x])
    for method in ("lower", "nearest", "hazen", "median_unbiased"):
        check(lambda x, method=method: np.quantile(x, 0.3, method=method), [x])
    check(lambda x, q: np.quantile(x, q), [x, np.linspace(0, 1, 3)])
    holes = np.where(x > 6, np.nan, x) if "float" in dtype else x
    check(
        lambda x: (np.nanmedian(x, axis=0), np.nanpercentile(x, [25, 75], axis=1), np.nanquantile(x, 0.5)),
        [holes],
    )


def test_weighted_quantiles():
    args = [RNG.standard_normal(9), RNG.uniform(0.1, 1, 9)]
    check(lambda x, w: np.quantile(x, 0.4, weights=w, method="inverted_cdf"), args)


def test_searching():
    edges, x = np.array([0.0, 1.0, 2.5, 4.0]), RNG.uniform(-1, 5, (3, 4))
    for side in ("left", "right"):
        check(
            lambda e, x, side=side: (np.searchsorted(e, x, side), e.searchsorted(x[0, 0], side)), [edges, x]
        )
    check(lambda e, x: np.searchsorted(e[::-1], x, sorter=np.argsort(e[::-1])), [edges, x])
    check(lambda e, x: np.searchsorted(e.astype(int), 2), [edges, x])
    check(lambda e, x: (np.digitize(x, e), np.digitize(x, e[::-1], right=True)), [edges, x])
    check(
        lambda e, x: (np.interp(x, e, e**2), np.interp(x, e, e, left=-1, right=x[0, 0])),
        [edges, x],
        compiled=True,
    )
    check(
        lambda e, x: (np.interp(x, e, e * 1j), np.interp(0.5, e, e), np.interp(x, e, e, period=4.5)),
        [edges, x],
    )
    check(lambda e, x: np.isin(x.astype(int), [1, 3], invert=True), [edges, x])
    check(lambda e, x: np.unravel_index(x.astype(np.int64) + 1, (2, 5)), [edges, x])
    check(lambda e, x: np.ravel_multi_index((abs(x.astype(int)), abs(x.astype(int)) % 2), (7, 2)), [edges, x])


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_counting(dtype):
    x = values(dtype, 30)
    check(lambda x: np.histogram(x, 4), [x])
    check(lambda x: np.histogram(x, bins=5, range=(0, 8), density=True), [x])
    check(lambda x: np.histogram(x, bins=np.array([0, 2.0, 9.0]), weights=x * 2), [x])
    check(lambda x: np.histogram_bin_edges(x, 3), [x])
    check(lambda x: np.histogram2d(x, x[::-1], bins=(3, 4)), [x])
    check(lambda x: np.histogram2d(x, x, bins=3, range=((0, 9), (0, 9)), weights=x), [x])
    check(lambda x: np.bincount(x.astype(np.int64), minlength=9), [x])
    check(lambda x: np.bincount(x.astype(np.int64), x, minlength=12), [x], compiled=True)


@pytest.mark.parametrize("dtype", ["int16", "float32", "float64", "complex128"])
def test_filters_and_covariances(dtype):
    x, y = values(dtype, (3, 7)), values(dtype, 4)
    for mode in ("full", "same", "valid"):
        check(lambda x, y, mode=mode: (np.convolve(x[0], y, mode), np.correlate(y, x[1], mode)), [x, y])
    check(lambda x, y: (np.correlate(x[0], y), np.convolve(x[0], 2)), [x, y])
    check(lambda x, y: (np.cov(x), np.cov(x, rowvar=False), np.cov(x[0]), np.cov(x[0], x[1], ddof=0)), [x, y])
    check(lambda x, y: (np.cov(x[:1]), np.corrcoef(x[:, :1], rowvar=False)), [x, y])
    check(lambda x, y: (np.corrcoef(x), np.corrcoef(x[0], x[2]), np.cov(x, bias=True)), [x, y])
    if dtype != "complex128":
        check(lambda x, y: np.cov(x, aweights=np.arange(1.0, 8.0), fweights=np.arange(1, 8)), [x, y])
        check(lambda x, y: (np.i0(x), np.vander(y), np.vander(y, 3, increasing=True)), [x, y])
        check(lambda x, y: np.polyfit(np.arange(7.0), x[0], 2), [x, y], scale=100)


def test_errors_are_numpys():
    x = np.arange(4.0)
    with pytest.raises(np.exceptions.AxisError):
        aotarray.jit(lambda x: np.sort(x, axis=1))(x)
    with pytest.raises(ValueError, match="kth"):
        aotarray.jit(lambda x: np.partition(x, 9))(x)
    with pytest.raises(ValueError, match="monotonic"):
        aotarray.jit(lambda x: np.digitize(x, x[[0, 3, 1]]))(x)
    with pytest.raises(ValueError, match="range"):
        aotarray.jit(lambda x: np.percentile(x, 101))(x)
    with pytest.raises(ValueError, match="cannot be empty"):
        aotarray.jit(lambda x, y: np.convolve(x, y))(x, np.ones(0))


def test_sizes_are_free():
    compiled = aotarray.jit(lambda x: (np.sort(x), np.histogram(x, 3)[0], np.convolve(x, x)))
    for n in (5, 9, 12):
        x = RNG.standard_normal(n)
        for one, other in zip(
            compiled(x), (np.sort(x), np.histogram(x, 3)[0], np.convolve(x, x)), strict=True
        ):
            np.testing.assert_array_equal(one, other)
    assert compiled.stats().traces == 1
