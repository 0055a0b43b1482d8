"""Arithmetic of Python numbers that are arguments: as in Python, or an error that says what differs."""

import math
import operator

import numpy as np
import pytest

import aotarray

BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor"]


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("a", [True, False, 3])
@pytest.mark.parametrize("b", [True, False, 2])
def test_bools_are_ints(name, a, b):
    function = getattr(operator, name)
    compiled = aotarray.jit(lambda a, b: function(a, b))
    try:
        expected = function(a, b)
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            compiled(a, b)
        return
    found = compiled(a, b)
    assert found == expected
    assert found.dtype.kind == {bool: "b", int: "i", float: "f"}[type(expected)]


@pytest.mark.parametrize("function", [operator.neg, operator.pos, operator.invert, abs])
@pytest.mark.filterwarnings("ignore:Bitwise inversion")
def test_one_bool(function):
    for value in (True, False):
        found = aotarray.jit(lambda x: function(x))(value)
        assert found == function(value) and found.dtype == np.int64


@pytest.mark.parametrize("base", [-2.0, -0.0, 0.0, 1.5, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("exponent", [-1.0, -0.5, 0.0, 0.5, 2.5, 3.0, math.inf, -math.inf, math.nan])
def test_powers_of_floats(base, exponent):
    for compiled in (aotarray.jit(lambda x, y: x**y), aotarray.jit(lambda x, y: x**exponent)):
        try:
            expected = base**exponent
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError, match="cannot be raised to a negative power"):
                compiled(base, exponent)
            continue
        if isinstance(expected, complex):
            with pytest.raises(ValueError, match="a negative Python float to a fractional power is complex"):
                compiled(base, exponent)
        else:
            np.testing.assert_allclose(compiled(base, exponent), expected, rtol=1e-15)


def test_rounding_what_has_no_int():
    compiled = aotarray.jit(lambda x: round(x))
    for value in (2.5, -3.5, 0.4, 1e15):
        assert compiled(value) == round(value)
    with pytest.raises(OverflowError, match="cannot convert float infinity to integer"):
        compiled(math.inf)
    with pytest.raises(ValueError, match="cannot convert float NaN to integer"):
        compiled(math.nan)
