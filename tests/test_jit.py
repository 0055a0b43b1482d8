"""What `jit` promises: any nesting, Python's calling conventions, weak scalars, sizes, caching, threads."""

import copy
import dataclasses
import functools
import gc
import pickle
import threading
import tracemalloc
import weakref
from typing import NamedTuple

import numpy as np
import pytest

import aotarray

X = np.linspace(-2.0, 3.0, 12).reshape(3, 4)
V = np.linspace(0.5, 4.0, 7)


def leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    elif dataclasses.is_dataclass(value):
        value = [getattr(value, f.name) for f in dataclasses.fields(value)]
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def same(function, *args, compiled=None, **kwargs):
    """The compiled function gives NumPy's dtypes, shapes and values; returns it."""
    compiled = compiled or aotarray.jit(function)
    want, got = function(*args, **kwargs), compiled(*args, **kwargs)
    assert type(got) in (type(want), aotarray.runtime.arrays.Array)
    for w, g in zip(leaves(want), leaves(got), strict=True):
        if w is None:
            assert g is None
            continue
        assert isinstance(g, np.ndarray)
        assert g.dtype == np.asarray(w).dtype
        np.testing.assert_allclose(g, w, rtol=1e-14, strict=False)
        assert g.shape == np.shape(w)
    return compiled


# -- arguments and results ------------------------------------------------------------------------
class Point(NamedTuple):
    x: object
    y: object


@dataclasses.dataclass
class Model:
    weights: object
    bias: object = 0.0


@dataclasses.dataclass(frozen=True)
class Frozen:
    scale: object


def test_any_nesting_of_arguments():
    def f(a, b):
        return a[0] + a[1]["k"][0] * b.x - b.y.weights

    same(f, (V, {"k": [V, V]}), Point(2.0, Model(V)))


def test_any_nesting_of_results():
    same(lambda x: {"a": (x, [x + 1, None]), "b": Point(x * 2, Model(x, x - 1)), "c": Frozen(x)}, V)


def test_results_of_every_container_kind():
    result = aotarray.jit(lambda x: Point(x, Model(x, Frozen(x))))(V)
    assert type(result) is Point
    assert type(result.y) is Model
    assert type(result.y.bias) is Frozen
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.y.bias.scale = 1


def test_none_is_part_of_the_structure():
    def f(x, y=None):
        return x if y is None else x * y

    compiled = same(f, V)
    same(f, V, V, compiled=compiled)
    same(f, V, None, compiled=compiled)


def test_keyword_arguments_and_defaults():
    def f(x, scale=2.0, *, shift=1.0):
        return x * scale + shift

    compiled = same(f, V)
    same(f, V, 3.0, compiled=compiled)
    same(f, V, scale=3.0, compiled=compiled)
    same(f, V, shift=V, compiled=compiled)
    same(f, shift=V, x=V, compiled=compiled)


def test_positional_only_and_variable_arguments():
    def f(a, /, *rest, **named):
        return sum(rest, a) + named["z"] * named.get("w", 1.0)

    compiled = same(f, V, z=V)
    same(f, V, V, 2.0, z=V, w=3.0, compiled=compiled)
    same(f, V, V, V, V, w=V, z=V, compiled=compiled)


def test_lambdas_partials_and_callable_objects():
    class Scale:
        def __init__(self, by):
            self.by = by

        def __call__(self, x):
            return x * self.by

    same(lambda x: x + 1, V)
    same(functools.partial(np.multiply, V), V)
    same(functools.partial(lambda a, b, c: a + b * c, V, c=2.0), V)
    same(Scale(V), V)
    same(np.sin, V)


class Counter:
    def __init__(self, by):
        self.by = by

    @aotarray.jit
    def scale(self, x, power=1):
        return x * self.by**power

    @functools.partial(aotarray.jit, static_argnames="mode")
    def choose(self, x, mode="up"):
        return x + self.by if mode == "up" else x - self.by

    @staticmethod
    @aotarray.jit
    def double(x):
        return x * 2


def test_methods_take_their_instance_as_static_by_identity():
    one, two = Counter(2.0), Counter(V)
    for _ in range(2):
        np.testing.assert_array_equal(one.scale(V), V * 2)
        np.testing.assert_array_equal(two.scale(V), V * V)
        np.testing.assert_array_equal(two.scale(V, power=2), V * V**2)
        np.testing.assert_array_equal(one.choose(V, mode="down"), V - 2)
        np.testing.assert_array_equal(Counter.double(V), V * 2)
    reference = weakref.ref(one)
    del one
    gc.collect()
    assert reference() is None
    np.testing.assert_array_equal(aotarray.jit(two.scale._function)(V), V * V)


def test_methods_of_dataclasses_take_the_fields_as_arguments():
    @dataclasses.dataclass
    class Affine:
        a: object
        b: object

        @aotarray.jit
        def at(self, x):
            return self.a * x + self.b

    np.testing.assert_array_equal(Affine(2.0, V).at(V), 2 * V + V)
    np.testing.assert_array_equal(Affine(3.0, V).at(V), 3 * V + V)
    assert Affine.at.stats().traces == 1


def test_methods_without_weak_references_say_so():
    class Slotted:
        __slots__ = ()

        @aotarray.jit
        def f(self, x):
            return x

    with pytest.raises(TypeError, match="add '__weakref__' to its __slots__"):
        Slotted().f(V)


def test_static_arguments():
    @functools.partial(aotarray.jit, static_argnames=("kind", "n"))
    def f(x, kind, n=1):
        if kind == "sum":
            return x.sum()
        if kind is None or kind is True:
            return x + 1 if kind else x
        return x.reshape(kind)[:n] if isinstance(kind, tuple) else x * kind

    np.testing.assert_allclose(f(X, "sum"), X.sum())
    np.testing.assert_array_equal(f(X, None), X)
    np.testing.assert_array_equal(f(X, True), X + 1)
    np.testing.assert_array_equal(f(X, 1), X)
    np.testing.assert_array_equal(f(X, (4, 3), n=2), X.reshape(4, 3)[:2])
    traces = f.stats().traces
    f(X, kind="sum")
    f(X + 1, True)
    assert f.stats().traces == traces


# -- scalars ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["f4", "f2", "i2", "u1", "?", "c8"])
@pytest.mark.parametrize(
    "number", [2.5, 3, True, 1 + 2j, np.float64(2.5), np.int64(3), np.float32(0.5), np.bool_(True)]
)
def test_python_scalars_are_weak_and_numpy_scalars_strong(dtype, number):
    x = np.array([0, 1, 2], dtype)
    compiled = aotarray.jit(lambda x, k: x * k)
    want = x * number
    assert compiled(x, number).dtype == want.dtype
    np.testing.assert_allclose(compiled(x, number), want, rtol=1e-3)


def test_constants_in_the_function_are_weak_too():
    x = V.astype(np.float32)
    same(lambda x: x * 2.5 + np.pi - 1, x)
    same(lambda x: x * np.float64(2.5), x)


def test_number_kinds_are_told_apart():
    compiled = aotarray.jit(lambda k: k + 1)
    for number in (1, 1.0, True, 1j):
        same(lambda k: k + 1, number, compiled=compiled)
    assert compiled.stats().traces == 4


# -- captured arrays, aliases, out --------------------------------------------------------------------
def test_captured_arrays_are_constants_copied_at_the_first_call():
    table = V.copy()
    compiled = aotarray.jit(lambda x: x + table)
    want = V + table
    np.testing.assert_array_equal(compiled(V), want)
    table[:] = 0
    np.testing.assert_array_equal(compiled(V), want)


def test_results_never_share_memory():
    x = X.copy()
    table = V.copy()
    same_array, view, twice, constant, number = aotarray.jit(lambda x: (x, x[1:], (x, x), table, 7))(x)
    for result in (same_array, view, *twice, constant):
        assert not np.shares_memory(result, x)
        result[...] = -1
    assert not np.shares_memory(*twice)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(table, V)
    assert number == 7


def test_out():
    compiled = aotarray.jit(lambda x: x * 2)
    out = np.empty_like(V)
    assert compiled(V, out=out) is out
    np.testing.assert_array_equal(out, V * 2)
    strided = np.zeros((7, 2))
    compiled(V, out=strided[:, 1])
    np.testing.assert_array_equal(strided[:, 1], V * 2)
    with pytest.raises(ValueError, match=r"out\[0\]"):
        compiled(V, out=np.empty(3))
    with pytest.raises(TypeError, match=r"out\[0\]"):
        compiled(V, out=np.empty(7, np.float32))


def test_out_of_nested_results():
    compiled = aotarray.jit(lambda x: {"a": x + 1, "b": (x * 2, x.sum())})
    out = {"a": np.empty(7), "b": (np.empty(7), np.empty(()))}
    result = compiled(V, out=out)
    assert result["a"] is out["a"]
    np.testing.assert_array_equal(out["b"][0], V * 2)
    np.testing.assert_allclose(out["b"][1], V.sum())


def test_out_may_be_the_argument():
    x = V.copy()
    aotarray.jit(lambda x: x[::-1] * 2)(x, out=x)
    np.testing.assert_array_equal(x, V[::-1] * 2)


def test_out_is_a_parameter_where_the_function_has_one():
    with pytest.raises(aotarray.errors.TraceError, match=r"writing into argument 'out'"):
        aotarray.jit(lambda x, out: np.add(x, 1, out=out))(V, V.copy())


# -- results ------------------------------------------------------------------------------------------
def test_results_say_where_they_are():
    y = aotarray.jit(np.sin)(V)
    assert isinstance(y, np.ndarray)
    assert repr(y.device) == "CpuDevice(id=0)"
    assert y.device() == y.device == aotarray.devices()[0]
    assert y.block_until_ready() is y
    np.testing.assert_array_equal(y + 1, np.asarray(y) + 1)


def test_name_docstring_and_signature_are_kept():
    @aotarray.jit
    def documented(x, y=1):
        """Say it."""
        return x + y

    assert documented.__name__ == "documented"
    assert documented.__doc__ == "Say it."
    assert documented.__wrapped__(1) == 2
    assert "documented" in repr(documented)


@aotarray.jit
def by_name(x):
    return x + 1


def test_pickling_and_copying():
    assert pickle.loads(pickle.dumps(by_name)) is by_name
    assert copy.copy(by_name) is by_name
    assert copy.deepcopy([by_name])[0] is by_name
    with pytest.raises(pickle.PicklingError, match="compile it where it is loaded"):
        pickle.dumps(aotarray.jit(lambda x: x))


# -- sizes ----------------------------------------------------------------------------------------------
def test_fifty_sizes_compile_once():
    compiled = aotarray.jit(lambda x: x / x.shape[0] - x.mean() + np.arange(len(x)))
    for n in range(2, 52):
        same(compiled.__wrapped__, np.linspace(0, 1, n), compiled=compiled)
    assert compiled.stats().compilations == 1
    assert compiled.stats().traces == 1


def test_range_of_a_size_specialises_that_size_alone():
    def f(x, y):
        total = y * 0
        for k in range(x.shape[0]):
            total = total + x[k] * y
        return total

    compiled = aotarray.jit(f)
    for n, m in [(3, 4), (3, 5), (3, 6), (2, 4), (2, 7), (3, 4)]:
        same(f, np.arange(1.0, n + 1), np.ones(m), compiled=compiled)
    assert compiled.stats().compilations == 2


def test_a_condition_on_a_size_keys_on_its_outcome():
    def f(x):
        return x * 2 if x.shape[0] > 3 else x - 1

    compiled = aotarray.jit(f)
    for n in (2, 3, 4, 5, 6, 10, 3):
        same(f, np.arange(float(n)), compiled=compiled)
    assert compiled.stats().compilations == 2


def test_sizes_that_are_one_and_sizes_that_are_equal():
    compiled = aotarray.jit(lambda x, y: x + y)
    for a, b in [
        ((3, 4), (3, 4)),
        ((3, 4), (1, 4)),
        ((3, 4), (3, 1)),
        ((1, 1), (3, 4)),
        ((5, 5), (5, 5)),
        ((5, 1), (1, 5)),
    ]:
        same(compiled.__wrapped__, np.ones(a), np.full(b, 2.0), compiled=compiled)
    with pytest.raises(ValueError, match=r"could not be broadcast together with shapes \(3,4\) \(5,4\)"):
        compiled(np.ones((3, 4)), np.ones((5, 4)))
    assert compiled.stats().compilations <= 6


def test_equal_sizes_then_different_ones():
    compiled = aotarray.jit(lambda x, y: x.sum() + y)
    for n, m in [(3, 3), (3, 4), (4, 4), (0, 2), (1, 5), (5, 1)]:
        same(compiled.__wrapped__, np.arange(float(n)), np.arange(float(m)), compiled=compiled)


def test_derived_sizes_that_are_one_here():
    def f(x, y):
        return x[: x.shape[0] - 2] + y

    compiled = aotarray.jit(f)
    for n, m in [(5, 3), (3, 4), (6, 4), (3, 1), (3, 2)]:
        same(f, np.arange(float(n)), np.arange(float(m)), compiled=compiled)


def test_sizes_that_numpy_refuses_are_refused_every_time():
    compiled = aotarray.jit(lambda x: x.reshape(-1, 2))
    same(compiled.__wrapped__, np.ones(4), compiled=compiled)
    for _ in range(2):
        with pytest.raises(ValueError, match="cannot reshape array"):
            compiled(np.ones(5))
    same(compiled.__wrapped__, np.ones(6), compiled=compiled)
    assert compiled.stats().compilations == 1


def test_shapes_compare_without_specialising():
    def f(x, y):
        if x.shape != y.shape:
            return x.sum() + y
        return x * y if len(x) else y

    compiled = aotarray.jit(f)
    for n, m in [(3, 3), (4, 4), (5, 5), (3, 4), (4, 6)]:
        same(f, np.arange(1.0, n + 1), np.arange(1.0, m + 1), compiled=compiled)
    assert compiled.stats().compilations == 2


# -- nesting, threads, memory -----------------------------------------------------------------------------
def test_compiled_functions_called_while_tracing_are_inlined():
    inner = aotarray.jit(lambda x, scale=2.0: x * scale)

    @aotarray.jit
    def outer(x):
        scratch = np.zeros(x.shape)
        inner(x, scale=3.0, out=scratch)
        return inner(x) + inner(np.ones(3)).sum() + scratch

    np.testing.assert_allclose(outer(V), V * 2 + 6 + V * 3)
    assert inner.stats().traces == 0
    np.testing.assert_allclose(inner(V), V * 2)
    np.testing.assert_allclose(outer(V), V * 2 + 6 + V * 3)


def test_recursion_over_static_arguments():
    @functools.partial(aotarray.jit, static_argnames="n")
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    np.testing.assert_allclose(power(V, 4), V**4)


def test_first_calls_of_many_threads_compile_once():
    calls = []

    def f(x):
        calls.append(1)
        return np.exp(x) * 2 + np.arange(len(x))

    compiled = aotarray.jit(f)
    barrier, results = threading.Barrier(8), [None] * 8

    def call(k):
        barrier.wait()
        results[k] = compiled(np.full(5 + k, 0.5))

    threads = [threading.Thread(target=call, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert compiled.stats().compilations == 1
    for k, result in enumerate(results):
        np.testing.assert_allclose(result, np.exp(np.full(5 + k, 0.5)) * 2 + np.arange(5 + k))


def test_calls_do_not_grow_memory():
    compiled = aotarray.jit(lambda x, p: {"y": x * p["k"], "z": x.sum()})
    plain = aotarray.jit(lambda x: x + 1)
    arguments = V, {"k": 2.0}
    for _ in range(50):
        compiled(*arguments)
        plain(V)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(2000):
            compiled(*arguments)
            plain(V)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()


def test_every_layout_gives_the_same():
    def f(x):
        return np.sqrt(np.abs(x)) + x.T.sum(axis=0)[:, None]

    compiled = aotarray.jit(f)
    base = np.arange(48.0).reshape(6, 8)
    for x in (
        base[::2, ::2],
        base[::-1],
        np.asfortranarray(base),
        base.T,
        np.broadcast_to(base[0], (3, 8)),
        base[:0],
    ):
        same(f, x, compiled=compiled)
    readonly = base.copy()
    readonly.flags.writeable = False
    same(f, readonly, compiled=compiled)
    odd = np.frombuffer(b"\0" + base.tobytes(), np.uint8)[1:].view(np.float64).reshape(6, 8)
    same(f, odd, compiled=compiled)


def test_arrays_of_other_libraries_are_read_through_their_interfaces():
    class Wrapped:
        __array_interface__ = V.__array_interface__

    np.testing.assert_array_equal(aotarray.jit(lambda x: x + 1)(Wrapped()), V + 1)


def test_parameters_may_have_any_name():
    def f(sin, power, out_0, range, i, n, t0, begin, value, float64, where, x_0):
        return (
            np.sin(sin) * np.power(power, 2)
            + out_0
            + range
            + i
            + n
            + t0
            + begin
            + value
            + float64
            + where
            + x_0
        )

    same(f, *(np.linspace(k, k + 1, 5) for k in range(12)))


def test_values_pass_for_what_numpy_has():
    def kinds(x, k, s):
        made = np.zeros(x.shape)
        values = x, made, x[0], x.sum(), k, k + 1, s, s * 2, x.shape[0], x.shape[0] * 2, len(x)
        return [[isinstance(v, c) for c in (np.ndarray, np.generic, np.floating, float, int, tuple)] for v in values]

    want = kinds(V, 2, 0.5)
    found = []
    aotarray.trace(lambda x, k, s: found.extend(kinds(x, k, s)) or x, "f64[n], int, float")
    assert found == want
    assert type(aotarray.jit(lambda x: x if isinstance(x, np.ndarray) else None)(V)) is not type(None)


def test_threads():
    x = np.linspace(0, 3, 200_000)
    compiled = [aotarray.jit(lambda x: np.sin(x).sum(), threads=n) for n in (None, 1, 2, np.int64(3))]
    assert len({float(f(x)) for f in compiled}) == 1

    class Model:
        @aotarray.jit(threads=1)
        def run(self, x):
            return x + 1

    model = Model()
    assert model.run(x)[0] == 1


@pytest.mark.parametrize("threads", [0, -1, 1025, 2**70, "2", 1.0, True])
def test_wrong_numbers_of_threads(threads):
    kind = ValueError if type(threads) is int else TypeError
    with pytest.raises(kind, match=r"threads must be .* or None, not"):
        aotarray.jit(lambda x: x, threads=threads)
