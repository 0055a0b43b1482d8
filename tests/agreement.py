"""Runs a function as NumPy, through the interpreter and compiled, and compares dtype, shape and values."""

import warnings

import numpy as np

import aotarray
from aotarray.interpret import interpret
from aotarray.passes import simplify

#: relative error of sums and elementary functions, by the dtype of the result's parts
CLOSE = {"float16": 4e-3, "float32": 2e-6, "float64": 1e-13}


def leaves(value):
    """The arrays of a result, however nested."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in leaves(value[key])]
    return [value]


def assert_same(found, expected, exact=False, scale=1.0):
    """Same dtype and shape; same values, within rounding unless `exact`."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype, f"dtype {found.dtype}, not {expected.dtype}"
    assert found.shape == expected.shape, f"shape {found.shape}, not {expected.shape}"
    if exact or expected.dtype.kind in "biu":
        np.testing.assert_array_equal(found, expected)
        if expected.dtype.kind == "f":
            usual = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(found)[usual], np.signbit(expected)[usual])
        return
    part = np.zeros((), expected.dtype).real.dtype
    rtol = CLOSE[part.name] * scale
    finite = np.abs(expected[np.isfinite(expected)])
    atol = (
        rtol * float(np.max(finite, initial=0.0))
        if part != np.float16
        else rtol * min(float(np.max(finite, initial=0.0)), 6e4)
    )
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


def numpy_result(function, arguments):
    """What NumPy itself gives, on copies."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*(a.copy() if isinstance(a, np.ndarray) else a for a in arguments))


def check(function, arguments, exact=False, compiled=False, scale=1.0):
    """The interpreter on the simplified graph, and `jit` when `compiled`, agree with NumPy."""
    expected = leaves(numpy_result(function, arguments))
    lowered = aotarray.lower(function, *arguments)
    found = interpret(simplify(lowered.traced.graph), arguments)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other, exact, scale)
    if compiled:
        results = leaves(aotarray.jit(function)(*arguments))
        for one, other in zip(results, expected, strict=True):
            assert_same(one, other, exact, scale)
