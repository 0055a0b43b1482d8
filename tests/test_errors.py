"""Bad input: each has a named class, the user's line and a way round, and leaves nothing behind."""

import builtins
import math
import re
import threading

import numpy as np
import pytest

import aotarray
from aotarray.errors import (
    AotarrayError,
    ConcretizationError,
    LeakError,
    SizeError,
    SpecError,
    TraceError,
    UnsupportedError,
)

X = np.arange(6.0).reshape(2, 3)
V = np.arange(5.0)
HERE = r"test_errors\.py:\d+: "


def branches(x):
    if x.sum() > 0:
        return x
    return -x


def loops_while(x):
    while x[0, 0] > 1:
        x = x - 1
    return x


#: function of one traced array -> class and text of the error
TRACING = {
    "if": (branches, ConcretizationError, r"a condition \(`if`.*use np\.where\(condition, a, b\)"),
    "while": (loops_while, ConcretizationError, r"a condition .*use np\.where"),
    "and": (lambda x: (x > 1) and (x < 3), ConcretizationError, r"or & \| ~ between arrays"),
    "max": (lambda x: max(x[0, 0], x[0, 1]), ConcretizationError, r"use np\.where"),
    "in": (lambda x: 3 in x, ConcretizationError, r"use np\.where"),
    "float": (lambda x: float(x.sum()), ConcretizationError, r"float\(\).*use astype\(np\.float64\)"),
    "int": (
        lambda x: int(x[0, 0]),
        ConcretizationError,
        r"int\(\).*use astype\(np\.int64\), or make the argument static",
    ),
    "complex": (
        lambda x: complex(x[0, 0]),
        ConcretizationError,
        r"complex\(\).*use astype\(np\.complex128\)",
    ),
    "math": (lambda x: math.sin(x[0, 0]), ConcretizationError, r"float\(\)"),
    "list index": (
        lambda x: [1, 2][x[0, 0].astype(int)],
        ConcretizationError,
        r"an index or a range .*static_argnames",
    ),
    "range": (lambda x: [x for _ in range(x[0, 0].astype(int))], ConcretizationError, r"an index or a range"),
    "item": (lambda x: x.item(), ConcretizationError, r"item\(\).*index the array instead"),
    "tolist": (lambda x: x.tolist(), ConcretizationError, r"tolist\(\).*return the array"),
    "format": (lambda x: f"{x[0, 0]:.3f}", ConcretizationError, r"formatting .*print outside"),
    "vectorize": (
        lambda x: np.vectorize(lambda t: t)(x),
        ConcretizationError,
        r"does not go through NumPy's protocols",
    ),
    "shape": (
        lambda x: np.zeros(x[0].astype(int)),
        ConcretizationError,
        r"a shape is made of sizes, not of traced values",
    ),
    "arange": (lambda x: np.arange(x[0, 0]), ConcretizationError, r"np\.arange\(n\) \* step \+ start"),
    "eig": (lambda x: np.linalg.eig(x), UnsupportedError, r"numpy\.linalg\.eig of real values.*astype\(complex\)"),
    "unique rows": (lambda x: np.unique(x, axis=0), UnsupportedError, r"numpy\.unique along an axis .*outside"),
    "strings": (lambda x: np.char.upper(x), UnsupportedError, r"upper is not supported.*outside"),
    "random": (
        lambda x: x + np.random.rand(3),
        UnsupportedError,
        r"numpy\.random\.rand would draw once.*draw outside",
    ),
    "mask length": (
        lambda x: [x for _ in range(len(x[x > 1]))],
        ConcretizationError,
        r"size found0 is needed as a Python int \(range.*found at test_errors\.py:\d+\).*aotarray\.fori_loop",
    ),
    "mask condition": (lambda x: x if len(x[x > 1]) else -x, ConcretizationError, r"found0 is needed by a condition"),
    "mask comparison": (lambda x: x if len(x[x > 1]) > 2 else -x, ConcretizationError, r"aotarray\.cond chooses"),
    "mask iteration": (lambda x: list(x[x > 1]), ConcretizationError, r"found0 is needed.*iteration"),
    "method": (lambda x: x.upper(), AttributeError, r"a traced array has no attribute 'upper'"),
    "shape=": (lambda x: setattr(x, "shape", (3, 2)), UnsupportedError, r"use x = x\.reshape\(shape\)"),
    "object array": (
        lambda x: x + np.array([None, 1, 2]),
        UnsupportedError,
        r"dtype object cannot be compiled",
    ),
    "dates": (
        lambda x: x + np.array(["2020"], "M8[D]"),
        UnsupportedError,
        r"dtype datetime64\[D\] cannot be compiled",
    ),
    "astype": (lambda x: x.astype("M8[s]"), UnsupportedError, r"dtype datetime64\[s\] cannot be compiled"),
    "string": (lambda x: "a", TraceError, r"function\(\) returns a value of type str; return arrays"),
    "object": (lambda x: (x, object()), TraceError, r"returns a value of type object"),
    "set": (lambda x: {1}, TraceError, r"returns a value of type set"),
    "generator": (lambda x: (r for r in (x,)), TraceError, r"returns a value of type generator"),
    "broadcast": (
        lambda x: x + np.ones(4),
        ValueError,
        r"could not be broadcast together with shapes \(2,3\) \(4,\)",
    ),
    "reshape": (lambda x: x.reshape(4, -1), ValueError, r"cannot reshape array"),
    "index": (lambda x: x[2], IndexError, r"index 2 is out of bounds for axis 0 with size 2"),
    "indices": (lambda x: x[0, 0, 0], IndexError, r"too many indices for array"),
    "join": (lambda x: np.concatenate([x, x[:, 1:]]), ValueError, r"concatenate"),
    "dimension": (lambda x: np.zeros(x.shape[0] - 9), ValueError, r"negative dimensions are not allowed"),
}


@pytest.mark.parametrize("case", sorted(TRACING))
def test_tracing(case):
    function, error, message = TRACING[case]
    compiled = aotarray.jit(function)
    for _ in range(2):
        with pytest.raises(error, match=HERE + f".*{message}"):
            compiled(X)
    assert np.zeros is ORIGINALS["zeros"]
    assert builtins.len is ORIGINALS["len"]


ORIGINALS = {"zeros": np.zeros, "len": len}


def test_coroutines_are_refused():
    async def later(x):
        return x

    with pytest.raises(TraceError, match=r"later\(\) returns a value of type coroutine"):
        aotarray.jit(later)(X)


def test_scipy_is_refused():
    special = pytest.importorskip("scipy.special")
    linalg = pytest.importorskip("scipy.linalg")
    with pytest.raises(UnsupportedError, match=HERE + ".*j0 is not supported"):
        aotarray.jit(lambda x: special.j0(x))(X)
    with pytest.raises(AotarrayError, match=HERE):
        aotarray.jit(lambda x: linalg.solve(x, x))(X)


def test_errors_of_the_function_pass_unchanged():
    error = KeyError("mine")

    def fails(x):
        raise error

    compiled = aotarray.jit(fails)
    with pytest.raises(KeyError) as caught:
        compiled(X)
    assert caught.value is error
    assert np.zeros is ORIGINALS["zeros"]
    assert compiled.stats().compilations == 0


# -- leaks --------------------------------------------------------------------------------------------
def leaked():
    kept = []

    @aotarray.jit
    def keeps(x):
        kept.extend([x, x.shape[0]])
        return x + 1

    keeps(X)
    return kept


@pytest.mark.parametrize(
    "use",
    [
        lambda t, n: t + 1, lambda t, n: 1 - t, lambda t, n: np.sin(t), lambda t, n: t.sum(),
        lambda t, n: np.sum(t), lambda t, n: t[0],
        lambda t, n: t.shape, lambda t, n: len(t), lambda t, n: float(t),
        lambda t, n: n + 1,
        lambda t, n: np.zeros(n), lambda t, n: range(n),
        lambda t, n: t.__setitem__(0, 1),
        lambda t, n: aotarray.jit(lambda x: x + t)(X), lambda t, n: aotarray.jit(lambda x: x * n)(X),
        lambda t, n: aotarray.jit(lambda x: x[:n])(X), lambda t, n: aotarray.jit(lambda x: t)(X),
        lambda t, n: aotarray.jit(lambda x: np.zeros(n))(X),
    ],
)  # fmt: skip
def test_leaked_values(use):
    with pytest.raises(LeakError, match=HERE + r".*return it from the function instead of keeping it"):
        use(*leaked())


def test_leaked_values_can_be_shown():
    assert "f64[n, m]" in repr(leaked()[0])
    assert str(leaked()[1]) == "n"


def test_values_used_in_another_thread():
    def spreads(x):
        found = []

        def add():
            try:
                found.append(x + 1)
            except Exception as error:
                found.append(error)

        thread = threading.Thread(target=add)
        thread.start()
        thread.join()
        raise found[0]

    with pytest.raises(LeakError, match=HERE + r".*another thread.*start threads outside"):
        aotarray.jit(spreads)(X)


# -- arguments ------------------------------------------------------------------------------------------
ARGUMENTS = {
    "object": (np.array([1, "a"], object), UnsupportedError, "dtype object.*convert it to bool, an integer"),
    "date": (np.array(["2020"], "M8[D]"), UnsupportedError, r"dtype datetime64\[D\]"),
    "duration": (np.array([1], "m8[s]"), UnsupportedError, r"dtype timedelta64\[s\]"),
    "strings": (np.array(["a"]), UnsupportedError, "dtype <U1"),
    "record": (np.zeros(2, [("a", "f8")]), UnsupportedError, "dtype .*'a'"),
    "longdouble": (np.zeros(2, np.longdouble), UnsupportedError, "dtype float128"),
    "big-endian": (
        np.zeros(2, ">f8"),
        UnsupportedError,
        r"byte-swapped \(>f8\).*x\.astype\(x\.dtype\.newbyteorder\('='\)\)",
    ),
    "masked": (np.ma.masked_array([1.0], [True]), UnsupportedError, r"MaskedArray.*its \.data and \.mask"),
    "matrix": (np.zeros((1, 1)).view(np.matrix), UnsupportedError, r"matrix.*np\.asarray"),
    "str": ("abc", TypeError, "of type str, which cannot be traced.*static_argnames"),
    "bytes": (b"abc", TypeError, "of type bytes"),
    "set": ({1}, TypeError, "of type set"),
    "thing": (object(), TypeError, "of type object"),
    "function": (len, TypeError, "of type builtin_function_or_method"),
    "date scalar": (np.datetime64("2020"), UnsupportedError, "dtype datetime64"),
    "big int": (2**70, OverflowError, r"beyond 64 bits.*pass it as a float or np\.uint64"),
}


@pytest.mark.parametrize("case", sorted(ARGUMENTS))
@pytest.mark.parametrize("warm", [False, True])
def test_arguments(case, warm):
    value, error, message = ARGUMENTS[case]
    compiled = aotarray.jit(lambda x: x)
    if warm:
        compiled(V)
        compiled(1)
    with pytest.raises(error, match=HERE + f"argument 'x' .*{message}"):
        compiled(value)
    with pytest.raises(error, match=r"argument 'x\[1\]' .*" if case != "big-endian" else "byte-swapped"):
        compiled([1.0, value])


def two(x, y, *, k=1):
    return x + y


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((V,), {}, "two() missing a required argument: 'y'"),
        ((V, V, V), {}, "two() too many positional arguments"),
        ((V, V), {"z": 1}, "two() got an unexpected keyword argument 'z'"),
        ((V,), {"x": V}, "two() multiple values for argument 'x'"),
    ],
)
def test_wrong_calls(args, kwargs, message):
    compiled = aotarray.jit(two)
    for _ in range(2):
        with pytest.raises(TypeError, match=re.escape(message)):
            compiled(*args, **kwargs)
        compiled(V, V)


def test_static_arguments():
    with pytest.raises(TypeError, match=r"two\(\): static argument 'k' must be hashable, not a list"):
        aotarray.jit(two, static_argnames="k")(V, V, k=[1])
    with pytest.raises(ValueError, match="static_argnames: two has no parameter 'q'"):
        aotarray.jit(two, static_argnames="q")
    with pytest.raises(TypeError, match="jit takes a function, not a value of type int"):
        aotarray.jit(3)


# -- specs and sizes ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f64[n]", "does not fit: two() missing a required argument: 'y'"),
        ("f64[n], f64[n], f64[n]", "does not fit: two() too many positional arguments"),
        ("f64[n], q: f64[n]", "two() has no parameter 'q'; it has x, y, k"),
        ("f64[n], x: f64[n]", "multiple values for argument 'x'"),
        ("x: f64[n], f64[n]", "a parameter without a name follows one with a name"),
        ("f64[n, f64[n]", "found '['"),
        ("f99[n], f64[n]", "unknown dtype 'f99'"),
        ("f64[n], f64[exp]", "a size cannot be called 'exp'"),
        ("", "missing a required argument: 'x'"),
    ],
)
def test_specs(text, message):
    for call in (aotarray.trace, aotarray.lower):
        with pytest.raises(SpecError, match=re.escape(message)):
            call(two, text)


@pytest.mark.parametrize("text", ["f64[2*n], f64[m]", "f64[n - 2], f64[3]"])
def test_sizes_only_inside_expressions(text):
    with pytest.raises((SpecError, SizeError), match=r"'?n'?"):
        aotarray.lower(two, text).compile()


AHEAD = {
    "range": (
        lambda x: [x[k] for k in range(x.shape[0])],
        "size n is needed as a Python int .*give it a fixed value in the spec",
    ),
    "if": (
        lambda x: x if x.shape[0] > 3 else -x,
        "n > 3 is not known ahead of time.*fixed values in the spec",
    ),
    "if length": (lambda x: x if len(x) else -x, "n != 0 is not known ahead of time"),
    "sqrt": (lambda x: x / math.sqrt(x.shape[0]), r"size n is needed as a Python int \(float\(\)\)"),
    "float": (lambda x: x / float(len(x)), r"size n is needed as a Python int \(float\(\)\)"),
    "int": (lambda x: x[: int(x.shape[0] / 2)], r"size n is needed as a Python int \(int\(\)\)"),
    "iteration": (lambda x: sum(x), "size n is needed as a Python int .*iteration"),
    "key": (lambda x: {x.shape[0]: x}, "size n is needed as a Python int .*hash"),
    "fractional arange": (lambda x: np.arange(0, x.shape[0], 0.1), r"np\.arange\(n\) \* step \+ start"),
}


@pytest.mark.parametrize("case", sorted(AHEAD))
def test_sizes_needed_ahead_of_time(case):
    function, message = AHEAD[case]
    with pytest.raises(SizeError, match=HERE + f".*{message}"):
        aotarray.trace(function, "f64[n]")
    aotarray.trace(function, "f64[4]")
    aotarray.jit(function)(np.arange(4.0))


@pytest.mark.parametrize(
    ("function", "text", "error", "message"),
    [
        (
            lambda x, y: x + y,
            "f64[3], f64[4]",
            ValueError,
            r"could not be broadcast together with shapes \(3,\) \(4,\)",
        ),
        (lambda x: x.reshape(-1, 2), "f64[5]", ValueError, "cannot reshape array"),
        (lambda x: x[5], "f64[5]", IndexError, "index 5 is out of bounds for axis 0 with size 5"),
        (lambda x, y: x @ y, "f64[3, 4], f64[3, 4]", ValueError, "matmul"),
        (lambda x: np.zeros(x.shape[0] - 9), "f64[3]", ValueError, "negative dimensions"),
    ],
)
def test_contradictions_ahead_of_time(function, text, error, message):
    with pytest.raises(error, match=HERE + f".*{message}"):
        aotarray.trace(function, text)
