"""Creation by plain NumPy calls with traced sizes, and the stand-ins that make it work."""

import builtins
import gc
import math
import os
import sys
import threading
import types

import numpy as np
import pytest
from numpy import arange as imported_arange

import aotarray
from aotarray.errors import SizeError

X = np.arange(12.0).reshape(3, 4) - 2

#: functions of one 2-d array; all but those that end in "fixes" keep every size open
CASES = {
    "zeros": lambda x: np.zeros(x.shape) + x,
    "zeros of a tuple and a dtype": lambda x: np.zeros((x.shape[0], 2), dtype=np.float32),
    "ones of a size": lambda x: np.ones(x.shape[0] + 1, int),
    "empty, then filled": lambda x: fill_empty(x),
    "empty_like": lambda x: np.empty_like(x) * 0,
    "zeros_like of a shape": lambda x: np.zeros_like(x, shape=(x.shape[1], 2), dtype=bool),
    "full of a traced value": lambda x: np.full(x.shape, x.sum()),
    "full of a number": lambda x: np.full(x.shape[1], 3),
    "full of a row": lambda x: np.full(x.shape, x[0]),
    "full of a size": lambda x: np.full(3, x.shape[1]),
    "ones_like": lambda x: np.ones_like(x, dtype=np.int8),
    "full_like": lambda x: np.full_like(x, 2.5, dtype=np.float32),
    "arange of len": lambda x: np.arange(len(x)),
    "arange from": lambda x: np.arange(1, x.shape[1]),
    "arange of two sizes": lambda x: np.arange(x.shape[0], x.shape[0] * 3),
    "arange down": lambda x: np.arange(x.shape[1], 0, -2),
    "arange of nothing": lambda x: np.arange(x.shape[1], x.shape[1] - 2),
    "arange by halves": lambda x: np.arange(0, x.shape[1], 0.5),
    "arange by three quarters": lambda x: np.arange(0.25, x.shape[0], 0.75),
    "arange of float32": lambda x: np.arange(x.shape[1], dtype=np.float32),
    "arange of float16": lambda x: np.arange(x.shape[0], x.shape[0] * 3, dtype=np.float16),
    "arange of complex": lambda x: np.arange(x.shape[0], dtype=complex),
    "arange by a size": lambda x: np.arange(0, x.size, x.shape[0]),
    "arange of numbers": lambda x: np.arange(0.1, 1.5, 0.2) * x[0, 1],
    "linspace": lambda x: np.linspace(0, 1, x.shape[0]),
    "linspace to a size": lambda x: np.linspace(0, x.shape[1], 7),
    "linspace of traced ends": lambda x: np.linspace(x[0, 0], x[-1, -1], x.shape[1]),
    "linspace without end": lambda x: np.linspace(0, 1, x.shape[0], endpoint=False),
    "linspace of one point or more": lambda x: np.linspace(2, 5, x.shape[0] - 2),
    "linspace of rows": lambda x: np.linspace(x[0], x[1], 5),
    "linspace of rows along axis 1": lambda x: np.linspace(x[0], x[1], x.shape[0], axis=1),
    "linspace of integers": lambda x: np.linspace(-3, 10, x.shape[1], dtype=int),
    "linspace of equal ends": lambda x: np.linspace(2.5, 2.5, len(x)),
    "linspace of tiny steps": lambda x: np.linspace(0, 5e-324, x.shape[1]),
    "linspace of float32": lambda x: np.linspace(np.float32(0), np.float32(1), x.shape[1]),
    "linspace with step": lambda x: np.linspace(0, 1, x.shape[1] + 1, retstep=True),
    "logspace": lambda x: np.logspace(0, 2, len(x)),
    "eye": lambda x: np.eye(x.shape[0]),
    "eye off the diagonal": lambda x: np.eye(x.shape[0], x.shape[1], 1, dtype=int),
    "eye below the diagonal": lambda x: np.eye(x.shape[0], x.shape[1], -1) + x,
    "eye by a size": lambda x: np.eye(x.shape[1], k=x.shape[0] - 1),
    "identity": lambda x: np.identity(len(x)),
    "tri": lambda x: np.tri(x.shape[0], x.shape[1], 1),
    "indices": lambda x: np.indices(x.shape),
    "sparse indices": lambda x: np.indices(x.shape, sparse=True),
    "meshgrid of ranges": lambda x: np.meshgrid(np.arange(x.shape[0]), np.linspace(0, 1, x.shape[1])),
    "meshgrid ij": lambda x: np.meshgrid(x[0], x[:, 1], indexing="ij"),
    "sparse meshgrid": lambda x: np.meshgrid(x[0], x[:, 1], sparse=True),
    "fromfunction": lambda x: np.fromfunction(lambda i, j: i * 2 + j, x.shape),
    "array of values": lambda x: np.array([x[0, 0], 1.0, x[1, 1]]),
    "array of rows": lambda x: np.array([x[0], x[1] * 2]),
    "array of mixed kinds": lambda x: np.array([[x[0, 0], 1], [len(x), True]]),
    "array of sizes": lambda x: np.array([x.shape[0], 5, x.shape[1]]),
    "array of a shape": lambda x: np.array(x.shape) * 2,
    "array with dtype": lambda x: np.array(x, dtype=np.float32, ndmin=3),
    "asarray of a list": lambda x: np.asarray([x[0], x[1]]),
    "stack of sizes": lambda x: np.stack([x.shape[0], x[0, 0]]),
    "broadcast_to": lambda x: np.broadcast_to(x[0], (5, x.shape[1])),
    "broadcast_to of a number": lambda x: np.broadcast_to(1.5, x.shape),
    "arithmetic of sizes": lambda x: (
        x * (x.shape[0] - 1) / (2 * x.shape[1] + 1) + x.size % 5 - x.shape[0] // 2
    ),
    "powers and quotients of sizes": lambda x: (
        x * (1 / x.size) + x.shape[0] ** 2 + np.sqrt(x.shape[1]) + -x.shape[0]
    ),
    "sizes of numpy integers": lambda x: np.zeros(x.shape[0] + np.int64(2)),
    "numpy integers of sizes": lambda x: np.zeros((np.int64(2) * x.shape[0] + 1, np.prod(x.shape))),
    "size by math": lambda x: np.zeros(
        math.prod(x.shape) + abs(x.shape[0]) + math.floor(x.shape[1]) + divmod(x.size, 3)[1]
    ),
    "bits of sizes fixes": lambda x: x[: x.shape[0] & 1] if x.shape[1] & 1 else x,
    "rounded sizes fixes": lambda x: x[: round(x.shape[0] / 2), : math.ceil(x.shape[1] / 3)],
    "sizes beside numpy floats": lambda x: x * (np.float32(2) * x.shape[0]),
    "slices by sizes": lambda x: x[: x.shape[0] // 2, x.shape[1] - 3 :],
    "dtype of a size": lambda x: x.astype(np.float32) * x.shape[0],
    "math fixes": lambda x: x / math.sqrt(x.shape[0]),
    "int fixes": lambda x: x[:, : int(x.shape[1] / 2)],
    "range fixes": lambda x: sum(x[k] for k in range(x.shape[0])),
    "fractional arange fixes": lambda x: np.arange(0, x.shape[1], 0.1),
    "arange of steps fixes": lambda x: np.arange(0, x.shape[0] * 0.3, 0.3),
    "tile of a constant": lambda x: np.tile(np.array([1, 2]), x.shape[0]),
    "repeat of a constant": lambda x: np.repeat(2.5, x.shape[1]),
    "concrete values": lambda x: weighted(x),
}


def fill_empty(x):
    out = np.empty((x.shape[0] + 1, x.shape[1]))
    out[0] = 0
    out[1:] = x
    return out


def weighted(x):
    total = np.zeros_like(x)
    for k, w in enumerate(np.array([0.25, 0.5, 0.25])):
        if w > 0.3 and np.arange(3)[k] == 1:
            total += w * x
    return total, [float(v) for v in np.linspace(0, 1, 3)], np.zeros(2).tolist(), int(np.ones(3).sum())


def compare(got, want):
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            compare(g, w)
        return
    want = np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-15 if want.dtype != np.float32 else 1e-7, atol=0)


@pytest.mark.parametrize("case", sorted(CASES))
def test_creation(case):
    function = CASES[case]
    compiled = aotarray.jit(function)
    for rows, columns in [(3, 4), (4, 5), (5, 7), (3, 4)]:
        x = np.arange(float(rows * columns)).reshape(rows, columns) - 2
        compare(compiled(x), function(x))
    if case.endswith("fixes"):
        assert compiled.stats().compilations > 1
        with pytest.raises(SizeError, match=r"test_creation\.py:\d+: size [nm] is needed as a Python int"):
            aotarray.trace(function, "f64[n, m]")
    else:
        assert compiled.stats().compilations == 1
        aotarray.trace(function, "f64[n, m]")


@pytest.mark.parametrize("n", range(5))
def test_small_numbers_of_points(n):
    functions = [
        lambda x: np.linspace(2, 5, x.shape[0]), lambda x: np.linspace(2, 5, x.shape[0], endpoint=False),
        lambda x: np.arange(x.shape[0] - 2, x.shape[0] * 2, 3), lambda x: np.eye(x.shape[0], k=1),
        lambda x: np.arange(x.shape[0], 1, -2), lambda x: np.linspace(x.sum(), 3, x.shape[0]),
    ]  # fmt: skip
    for function in functions:
        compare(aotarray.jit(function)(np.ones(n)), function(np.ones(n)))


def test_ranges_round_as_numpy_rounds():
    for start, step, n in [(0.1, 0.2, 50), (1e16, 3.0, 10), (-0.7, 0.3, 33), (3, 0.1, 20)]:
        got = aotarray.jit(lambda x, start=start, step=step: np.arange(start, start + len(x) * step, step))(
            np.ones(n)
        )
        want = np.arange(start, start + n * step, step)
        np.testing.assert_array_equal(got, want)


def test_linspace_is_numpys_to_the_bit():
    compiled = aotarray.jit(lambda x: np.linspace(-1.7, 3.3, len(x)))
    for n in (2, 3, 7, 10, 33, 1001):
        np.testing.assert_array_equal(compiled(np.ones(n)), np.linspace(-1.7, 3.3, n))


def test_ahead_of_time_a_bound_that_could_be_negative_is_checked():
    run = aotarray.lower(lambda x: x[x.shape[0] - 3 :], "f64[n]").compile()
    np.testing.assert_array_equal(run(np.arange(5.0)), [2, 3, 4])
    with pytest.raises(
        ValueError, match=r"the bound of a slice n - 3 is negative \(-1\): it would count from the end"
    ):
        run(np.arange(2.0))
    run = aotarray.lower(lambda x: np.zeros(x.shape[0] - 3), "f64[n]").compile()
    with pytest.raises(ValueError, match=r"negative dimensions are not allowed \(n - 3 is -1\)"):
        run(np.arange(2.0))


# -- names that were imported -----------------------------------------------------------------------------
def test_names_imported_into_the_functions_module_are_reached():
    def f(x):
        return x + imported_arange(x.shape[0])

    compiled = aotarray.jit(f)
    for n in (3, 4, 5):
        np.testing.assert_array_equal(compiled(np.ones(n)), f(np.ones(n)))
    assert compiled.stats().compilations == 1
    assert imported_arange is np.arange


@pytest.fixture
def elsewhere():
    module = types.ModuleType("elsewhere")
    exec("from numpy import zeros\ndef blank(n):\n    return zeros(n)\n", vars(module))
    return module


def test_names_imported_elsewhere_specialise_in_jit_and_are_errors_ahead_of_time(elsewhere):
    def f(x):
        return x + elsewhere.blank(x.shape[0])

    compiled = aotarray.jit(f)
    for n in (3, 4, 3):
        np.testing.assert_array_equal(compiled(np.ones(n)), np.ones(n))
    assert compiled.stats().compilations == 2
    with pytest.raises(SizeError, match="size n is needed as a Python int"):
        aotarray.trace(f, "f64[n]")


# -- the stand-ins ------------------------------------------------------------------------------------------
def test_originals_are_back_after_traces_and_errors():
    before = dict(vars(np)), builtins.len, dict(vars(np.random))

    def fails(x):
        assert np.zeros is not before[0]["zeros"]
        raise RuntimeError

    aotarray.jit(lambda x: np.zeros(len(x)))(X)
    with pytest.raises(RuntimeError):
        aotarray.jit(fails)(X)
    assert {k: v for k, v in vars(np).items() if before[0].get(k) is not v} == {}
    assert builtins.len is before[1]
    assert {k: v for k, v in vars(np.random).items() if before[2].get(k) is not v} == {}


def test_other_threads_see_no_difference():
    inside, done = threading.Event(), threading.Event()

    def waits(x):
        inside.set()
        assert done.wait(20)
        return np.zeros(x.shape)

    results = []
    tracer = threading.Thread(target=lambda: results.append(aotarray.jit(waits)(X)))
    tracer.start()
    assert inside.wait(20)
    try:
        made = np.zeros(3), np.array([1.0]), np.eye(2), np.random.rand(2), np.arange(3)
        assert all(type(m) is np.ndarray for m in made)
        assert len([1, 2]) == 2
        np.testing.assert_array_equal(aotarray.jit(lambda x: np.ones(len(x)))(X), np.ones(3))
        assert np.zeros((2, 2)).shape == (2, 2)
    finally:
        done.set()
        tracer.join()
    np.testing.assert_array_equal(results[0], np.zeros(X.shape))
    assert not hasattr(np.zeros, "__wrapped__")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_during_a_trace_leaves_the_child_with_originals():
    status = []

    def forks(x):
        child = os.fork()
        if not child:
            ok = not hasattr(np.zeros, "__wrapped__") and not hasattr(len, "__wrapped__")
            os._exit(0 if ok else 1)
        status.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return x

    aotarray.trace(forks, "f64[n]")
    assert status == [0]


def test_arrays_for_objects_stay_numpys():
    def f(x):
        names = np.array(["a", "b"])
        table = np.zeros(2, dtype=object)
        assert type(names) is np.ndarray
        assert type(table) is np.ndarray
        return x * len(names)

    np.testing.assert_array_equal(aotarray.jit(f)(X), X * 2)


def test_traces_leave_no_garbage_that_holds_arrays():
    big = np.ones(1000)
    references = sys.getrefcount(big)
    aotarray.trace(lambda x: x + big, "f64[n]")
    gc.collect()
    assert sys.getrefcount(big) == references
