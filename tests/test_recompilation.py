"""A function that is compiled again and again: when the warning comes, and what it says."""

import dataclasses
import functools
import re
import warnings

import numpy as np
import pytest

import aotarray
from aotarray.errors import RecompileWarning


def warned(calls):
    """The texts of the warnings that a series of calls gives."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for call in calls:
            call()
    assert all(w.category is RecompileWarning and w.filename == __file__ for w in found)
    return [str(w.message) for w in found]



def test_it_comes_with_the_eighth_program_and_at_doublings():
    @functools.partial(aotarray.jit, static_argnames="n")
    def step(x, n):
        return x + n

    x = np.ones(3)
    assert warned(functools.partial(step, x, n) for n in range(7)) == []
    (eighth,) = warned(functools.partial(step, x, n) for n in range(7, 15))
    assert re.match(r"test_recompilation.py:\d+: step\(\) has been compiled 8 times; the last 8 differ in\n", eighth)
    assert "static argument 'n': 0; 1; 2; 3; ...\n" in eighth
    assert "static_argnames" in eighth
    (sixteenth,) = warned(functools.partial(step, x, n) for n in range(15, 31))
    assert "compiled 16 times; the last 8 differ in" in sixteenth
    assert "static argument 'n': 8; 9; 10; 11; ..." in sixteenth
    assert warned(functools.partial(step, x, n) for n in range(31)) == []
    assert step.stats().compilations == 31


def test_sizes_alone_never_warn():
    @aotarray.jit
    def f(x, y):
        return x.sum() + y.sum()

    assert warned(functools.partial(f, np.ones(n), np.ones(n + 1)) for n in range(2, 40)) == []


def test_a_size_that_is_needed_as_an_int():
    @aotarray.jit
    def total(points):
        s = points[0]
        for k in range(1, points.shape[0]):
            s = s + points[k]
        return s

    (text,) = warned(functools.partial(total, np.ones((n, 20))) for n in range(2, 12))
    line = total.__wrapped__.__code__.co_firstlineno + 3
    assert "points.shape[0] as a Python int, for range, indexing or a function that takes an int" in text
    assert f"(test_recompilation.py:{line}): 2; 3; 4; 5; ..." in text
    assert "fori_loop" in text
    assert "argument" not in text


def test_types_axes_nesting_and_outcomes():
    @aotarray.jit
    def f(x, parts):
        return x + len(parts) + (1 if x.size > 100 else 2)

    values = [np.float32(1), np.ones(3), np.ones((3, 4), np.int16), 2.5, np.ones(200)]
    (text,) = warned(functools.partial(f, x, [1.0] * n) for x in values for n in (1, 2))
    assert "nesting of argument 'parts': a list of 1 item; a list of 2 items\n" in text
    assert "type of argument 'x': float32; float64; int16; a Python float\n" in text
    assert "number of axes of argument 'x': 0; 1; 2\n" in text
    assert "np.asarray(v, dtype)" in text
    assert "sizes:" not in text


def test_outcomes_of_conditions_and_patterns():
    @aotarray.jit
    def f(x, y, z):
        return x.sum() + y.sum() + z.sum() + (x.shape[0] > 2 * y.shape[0])

    sizes = [(1, 1, 2), (1, 2, 3), (2, 1, 3), (2, 3, 1), (2, 2, 2), (2, 2, 3), (3, 2, 2), (9, 2, 3)]
    (text,) = warned(functools.partial(f, *map(np.ones, s)) for s in sizes)
    assert re.search(r"x\.shape\[0\] > 2 \* y\.shape\[0\]|2\*", text)
    assert "sizes: x[1] y[1] z[n]; x[1] y[n] z[m]; " in text
    assert "patterns" in text


def test_instances_of_a_class():
    class Model:
        def __init__(self, scale):
            self.scale = scale

        @aotarray.jit
        def forward(self, x):
            return x * self.scale

    models = [Model(k) for k in range(8)]
    (text,) = warned(functools.partial(m.forward, np.ones(3)) for m in models)
    assert text.count("Model at 0x") == 4
    assert "each instance" in text


def test_dataclasses_and_dicts():
    @dataclasses.dataclass
    class State:
        a: object

    @aotarray.jit
    def f(tree):
        return tree["s"].a * 2 if isinstance(tree, dict) else tree.a

    kinds = [np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8]
    calls = [{"s": State(np.ones(2, k))} for k in kinds] + [State(np.ones(2))]
    (text,) = warned(functools.partial(f, c) for c in calls)
    assert "type of argument \"tree['s'].a\": float32; float64; int8; int16; ..." in text
    assert "nesting of argument 'tree': a dict with keys 's'; State of 1 values" in text


def test_as_an_error_it_leaves_the_program_usable():
    @functools.partial(aotarray.jit, static_argnames="n")
    def step(x, n):
        return x + n

    with warnings.catch_warnings():
        warnings.simplefilter("error", RecompileWarning)
        for n in range(7):
            step(1.0, n)
        with pytest.raises(RecompileWarning):
            step(1.0, 7)
        assert step(1.0, 7) == 8.0
    assert step.stats().compilations == 8
