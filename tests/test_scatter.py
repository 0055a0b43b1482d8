"""Writing at integer arrays and masks, ufunc.at and the put family against NumPy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from agreement import check

import aotarray
from aotarray.errors import TraceError
from aotarray.fusion.elements import element_loop

RNG = np.random.default_rng(8)
INDEX = np.array([2, 0, 2, -1])


def grid(dtype="float64", shape=(5, 6)):
    return RNG.integers(0, 50, shape).astype(dtype)


def writes(change):
    """A function that applies `change` to a copy and returns it."""

    def function(x, i):
        y = x.copy()
        change(y, i)
        return y

    return function


def _assign(key, value):
    return writes(lambda y, i: y.__setitem__(key(i), value(y, i)))


ASSIGNMENTS = [
    _assign(lambda i: i, lambda y, i: 7),
    _assign(lambda i: i, lambda y, i: np.arange(6.0)),
    _assign(lambda i: i, lambda y, i: np.arange(24.0).reshape(4, 6)),
    _assign(lambda i: i, lambda y, i: np.arange(4.0)[:, None]),
    _assign(lambda i: (slice(None), i), lambda y, i: np.arange(4.0)),
    _assign(lambda i: (slice(None), i), lambda y, i: y[:, :4] * 2),
    _assign(lambda i: (i, i), lambda y, i: np.arange(4.0)),
    _assign(lambda i: (i, 1), lambda y, i: np.arange(4.0)),
    _assign(lambda i: (1, i), lambda y, i: -1),
    _assign(lambda i: (i[:, None], i[:2]), lambda y, i: np.arange(8.0).reshape(4, 2)),
    _assign(lambda i: (slice(1, 4), i), lambda y, i: y[1:4, [0, 1, 2, 3]]),
    _assign(lambda i: (Ellipsis, i, None), lambda y, i: np.arange(4.0)[:, None]),
    _assign(lambda i: i[:0], lambda y, i: 3),
    _assign(lambda i: [3, 1], lambda y, i: y[[1, 3]]),
    _assign(lambda i: np.ix_([0, 2], [1, 4]), lambda y, i: 9),
]


@pytest.mark.parametrize("number", range(len(ASSIGNMENTS)))
def test_assignment(number):
    check(ASSIGNMENTS[number], [grid(), INDEX])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "float32", "complex64"])
def test_assignment_converts(dtype):
    def f(x, i):
        y = x.copy()
        y[i] = i[:, None] * 1.5
        return y

    check(f, [grid(dtype), INDEX])


def test_axes_of_a_separated_index_come_first():
    x = grid(shape=(2, 3, 4))

    def f(x, i):
        y = x.copy()
        y[0, :, i] = np.arange(12.0).reshape(4, 3)
        y[1, :, i] += x[0, :, i]
        y[i[:2] % 2, 1:, i[:2]] = np.arange(2.0)
        np.multiply.at(y, (i % 2, slice(None), i), np.arange(12.0).reshape(4, 3))
        return y

    check(f, [x, INDEX], compiled=True)


def test_compiled_updates_repeat_and_chain():
    def f(x, i):
        y = x * 2
        y[i] += 1  # buffered: a repeated index counts once
        np.add.at(y, i, 1.0)  # unbuffered: it counts each time
        part = y[1:, ::2]
        part[:, i % 2] = part[:, i % 2] * 0.5
        np.maximum.at(y, (i, slice(0, 2)), 20.0)
        np.subtract.at(y, 0, 3.0)
        np.negative.at(y, i[:1])
        return y, part, x

    check(f, [grid(), INDEX], compiled=True)


@pytest.mark.parametrize("dtype", ["int32", "float32", "complex128"])
def test_ufunc_at(dtype):
    for ufunc in (np.add, np.multiply, np.maximum):
        check(writes(lambda y, i, u=ufunc: u.at(y, i, y[0])), [grid(dtype), INDEX])
    check(writes(lambda y, i: np.add.at(y, (i, i), i.astype(y.dtype))), [grid(dtype), INDEX])
    check(writes(lambda y, i: np.add.at(y, i, 1.5)), [grid(dtype), INDEX])
    if dtype != "int32":
        with pytest.raises(TypeError):
            aotarray.lower(writes(lambda y, i: np.bitwise_and.at(y, i, y[0])), grid(dtype), INDEX)


def test_put_family():
    x = grid()
    check(writes(lambda y, i: np.put_along_axis(y, np.argmax(y, 1, keepdims=True), -1, axis=1)), [x, INDEX])
    check(writes(lambda y, i: np.put_along_axis(y, i[None], y[:1, :4] * 2, axis=1)), [x, INDEX])
    check(writes(lambda y, i: np.put_along_axis(y, i, 0.5, axis=None)), [x, INDEX])
    check(writes(lambda y, i: np.put(y, i * 3, [1, 2], mode="wrap")), [x, INDEX])
    check(writes(lambda y, i: y.put(i, y[0, :2])), [x, INDEX])
    check(writes(lambda y, i: np.putmask(y, y > 20, y * 2)), [x, INDEX])
    check(writes(lambda y, i: np.place(y, y > 20, [1, 2, 3])), [x, INDEX], compiled=True)
    check(writes(lambda y, i: np.fill_diagonal(y, i)), [x, INDEX])
    check(writes(lambda y, i: np.fill_diagonal(y[1:, 1:], 0)), [x, INDEX])


def test_masks_with_one_value_for_each_element():
    x = grid()
    n = int((x > 20).sum())
    check(writes(lambda y, i: y.__setitem__(y > 20, np.arange(float(n)))), [x, INDEX], compiled=True)
    check(writes(lambda y, i: y.__setitem__(y[:, 0] > 1000, np.ones((0, 6)))), [x, INDEX])
    with pytest.raises(ValueError, match="cannot assign"):
        aotarray.jit(lambda x, v: writes(lambda y, i: y.__setitem__(y > 20, v))(x, None))(x, np.ones(n + 2))


def test_masks_beside_other_indices():
    x = grid()
    check(writes(lambda y, i: y.__setitem__((y[:, 0] > 20, 1), 1)), [x, INDEX], compiled=True)
    check(writes(lambda y, i: y.__setitem__((slice(1, 3), y[0] > 20), y[1:3, :1])), [x, INDEX])
    check(writes(lambda y, i: y.__setitem__((y[:, 0] >= 0, i[0]), np.arange(5.0))), [x, INDEX])
    check(writes(lambda y, i: np.add.at(y, y > 20, 1.5)), [x, INDEX])
    check(writes(lambda y, i: np.multiply.at(y, (slice(None), y[1] > 20), 2)), [x, INDEX])
    with pytest.raises(IndexError, match="boolean"):
        aotarray.jit(writes(lambda y, i: y.__setitem__((i > 0, 1), 1)))(x, INDEX)


def test_a_histogram_by_add_at():
    def count(x, edges):
        counts = np.zeros(edges.shape[0] + 1, dtype=np.int64)
        np.add.at(counts, np.searchsorted(edges, x), 1)
        return counts

    check(count, [RNG.standard_normal(100), np.linspace(-2, 2, 9)], compiled=True)


def test_errors_are_numpys():
    x = grid()
    for change in (
        lambda y, i: y.__setitem__(i, 1),
        lambda y, i: np.add.at(y, (slice(None), i), 1.0),
        lambda y, i: np.put_along_axis(y, i[None], 1.0, axis=1),
        lambda y, i: np.put(y, i, 1.0),
    ):
        with pytest.raises(IndexError, match="out of bounds"):
            aotarray.jit(writes(change))(x, np.array([0, 99]))
    with pytest.raises(ValueError, match=r"shape mismatch|could not be broadcast"):
        aotarray.jit(writes(lambda y, i: y.__setitem__(i, np.ones((3, 6)))))(x, INDEX)
    with pytest.raises(TraceError, match=r"x = x\.copy\(\)"):
        aotarray.jit(lambda x, i: x.__setitem__(i, 1))(x, INDEX)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = x.copy()
        aotarray.jit(writes(lambda y, i: y.__setitem__(i, 1)))(x, INDEX)
        assert np.array_equal(x, before)


ALONG = np.array([3, 0, -1, 3, 3, 1, -5, 0])
#: (shape of the array, shape of the values, how many index arrays)
STEPS = [
    ((5,), (8,), 1), ((5,), (), 1), ((5,), (1,), 1), ((5, 6), (8, 6), 1), ((5, 6), (6,), 1), ((5, 6), (8, 1), 1),
    ((5, 6), (1, 6), 1), ((5, 6), (), 1), ((5, 1), (8, 1), 1), ((1, 1), (8, 1), 1), ((5, 3, 4), (8, 3, 4), 1),
    ((5, 3, 4), (4,), 1), ((5, 3, 4), (8, 1, 4), 1), ((5, 200), (8, 200), 1), ((5, 5), (8,), 2), ((5, 5), (), 2),
    ((5, 5, 4), (8, 4), 2), ((5, 0), (8, 0), 1),
]  # fmt: skip


@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.multiply, np.maximum, np.minimum])
@pytest.mark.parametrize(("shape", "values", "count"), STEPS)
def test_ufunc_at_is_a_kernel(ufunc, shape, values, count):
    """One by one, in NumPy's order, whatever the sizes are."""

    def f(x, v, i):
        y = x * 0.5
        ufunc.at(y, (i,) * count if count > 1 else i, v * 3)
        return y

    index = ALONG % shape[0] if shape[0] < 5 else ALONG
    arguments = [RNG.standard_normal(shape), RNG.standard_normal(values), index]
    check(f, arguments, exact=True, compiled=True)
    graph = aotarray.lower(f, *arguments).plan.graph
    assert [element_loop(n) is not None for n in graph.nodes() if n.op.kind in ("library", "control")] == [
        True
    ]


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float16", "float32", "complex64"])
@pytest.mark.parametrize("index", ["int64", "uint8", "int16"])
def test_ufunc_at_keeps_dtypes(dtype, index):
    x, v, i = grid(dtype), grid(dtype, (4, 6)), np.array([2, 0, 2, 1], index)
    for ufunc in (np.add, np.subtract, np.multiply, np.maximum):
        check(writes(lambda y, i, u=ufunc, v=v: u.at(y, i, v)), [x, i], exact=True, compiled=True)


def test_ufunc_at_of_parts_and_in_loops():
    def f(x, v, i):
        y = x.copy()
        np.add.at(y[1:, ::2], i[:2] % 3, v[:2, ::2])
        np.add.at(y, i[:0], v[:0])
        np.subtract.at(y, i, y[i] + y[0])  # what is read is read before
        return y

    arguments = [grid(), grid(shape=(4, 6)), INDEX]
    check(f, arguments, exact=True, compiled=True)

    def looped(x, v, i):
        def step(k, y):
            np.add.at(y, i, v * k)
            return y

        return aotarray.fori_loop(0, 3, step, x.copy())

    check(looped, arguments, exact=True, compiled=True)
    x, v, _ = arguments
    for bad in (5, -6):
        given = x.copy()
        with pytest.raises(IndexError, match=f"index {bad} is out of bounds for axis 0 with size 5"):
            aotarray.jit(lambda x, v, i: np.add.at(x, i, v), inout=("x",))(given, v, np.array([0, 1, bad, 2]))
        np.testing.assert_array_equal(given, x)


def test_updates_at_one_traced_position_write_once():
    """`y[i] += v` writes the row that it has read and changed, which then is written no more."""

    def f(x, v, i):
        y = x.copy()

        def step(k, y):
            y[i[k]] += v[k]
            y[2:, i[k] - 2] *= 2.0
            y[k, i[k]] -= 1.0
            return y

        return aotarray.fori_loop(0, i.shape[0], step, y)

    def rows(x, v, i):
        def step(k, y):
            y[i[k]] += v[k]
            return y

        return aotarray.fori_loop(0, i.shape[0], step, x.copy())

    for index in (INDEX % 5, (INDEX % 5).astype(np.int32)):
        arguments = [grid(), grid(shape=(4, 6)), index]
        check(f, arguments, exact=True, compiled=True)
        check(rows, arguments, exact=True, compiled=True)
        (loop,) = (n for n in aotarray.lower(rows, *arguments).plan.graph.nodes() if n.op.name == "loop")
        assert element_loop(loop) is not None
