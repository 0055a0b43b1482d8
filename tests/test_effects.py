"""`check` and `debug.print`: one text, order and error eagerly, interpreted, as plain source, compiled and built."""

import contextlib
import gc
import importlib.util
import io
import re
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest
from plain_program import run_plain

import aotarray
from aotarray.errors import LeakError, TraceError, UnsupportedError
from aotarray.interpret import interpret
from aotarray.passes import simplify
from aotarray.show import show_graph
from aotarray.verify import verify

X = np.linspace(-1.0, 2.0, 7)


def observed(call):
    """What a call prints, and what it raises: ("...", "ValueError: ...")."""
    out = io.StringIO()
    raised = None
    with contextlib.redirect_stdout(out):
        try:
            call()
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"
    return out.getvalue(), raised


def everywhere(function, *arguments):
    """What each way to run `function` prints and raises, which is one and the same; returns it."""
    expected = observed(lambda: function(*arguments))
    lowered = aotarray.lower(function, *arguments)
    verify(lowered.traced.graph)
    graph = verify(simplify(lowered.traced.graph), simplified=True)
    assert show_graph(graph)
    assert lowered.fused
    compiled = aotarray.jit(function)
    ways = {
        "interpreted": lambda: interpret(graph, arguments),
        "plain": lambda: run_plain(lowered.plan, arguments),
        "compiled": lambda: compiled(*arguments),
        "again": lambda: compiled(*arguments),
    }
    for way, call in ways.items():
        assert observed(call) == expected, way
    return expected


# -- check ------------------------------------------------------------------------------------------
def test_a_check_that_holds_does_nothing():
    def f(x):
        aotarray.check(x > -2, "x is {x}", x=x)
        return np.sin(x)

    assert everywhere(f, X) == ("", None)
    np.testing.assert_array_equal(aotarray.jit(f)(X), aotarray.jit(np.sin)(X))


def test_a_check_that_fails_names_values_line_and_function():
    def root(x):
        aotarray.check(x >= 0, "no root of {x:.3f}", x=x)
        return np.sqrt(x)

    line = root.__code__.co_firstlineno + 1
    _, raised = everywhere(root, -2.5)
    assert raised == f"ValueError: no root of -2.500 (test_effects.py:{line}, in root)"
    everywhere(root, np.float32(-2.5))


@pytest.mark.parametrize("code", ["?", "b", "h", "i", "l", "B", "H", "I", "L", "e", "f", "d", "F", "D"])
def test_values_of_every_dtype_are_shown_as_numpy_shows_them(code):
    def f(x, y):
        aotarray.check(False if y is None else y < 0, "{x} {y} {y!r} {z}", x=x, y=y, z=x[:2])
        return x

    def g(x):
        aotarray.debug.print("{x} {y!r} {y}", x=x, y=x[1])

    x = np.array([0, 1, 3, 1]).astype(code)
    if code not in "FD?":
        everywhere(f, x, x[1])
    assert everywhere(g, x)[0] == f"{x} {x[1]!r} {x[1]}\n"


@pytest.mark.parametrize("value", [3, 0.1, 1e300, 1.5 - 2j])
def test_python_numbers_stay_python_numbers(value):
    printed, _ = everywhere(lambda v: aotarray.debug.print("{v} {v!r} {w!r}", v=v, w=v + v), value)
    assert printed == f"{value} {value!r} {value + value!r}\n"


@pytest.mark.parametrize(
    "exception", [ValueError, IndexError, RuntimeError, FloatingPointError, ZeroDivisionError, AssertionError]
)
def test_the_exception_can_be_chosen(exception):
    def f(x):
        aotarray.check(x.sum() > 0, "sum {s}", s=x.sum(), exception=exception)
        return x

    assert everywhere(f, -np.ones(3))[1].startswith(f"{exception.__name__}: sum -3.0 (")


def test_other_exceptions_are_refused():
    class Own(ValueError):
        pass

    for exception in (Own, UnicodeDecodeError, KeyboardInterrupt, 3):
        for call in (lambda f: f(1.0), lambda f: aotarray.jit(f)(1.0)):
            with pytest.raises(TraceError, match=r"test_effects.py:\d+: .*not a built-in exception"):
                call(lambda x, e=exception: aotarray.check(x > 0, exception=e))


def test_conditions_of_all_kinds():
    def f(x, n, flags):
        aotarray.check(flags)
        aotarray.check(n, "n is zero")
        aotarray.check([n > 0, x.sum() > 0], "both")
        aotarray.check(np.array([True, True]))
        aotarray.check(x.shape[0], "empty")
        return x

    ok = np.array([[True, True]])
    assert everywhere(f, np.ones(3), 1, ok) == ("", None)
    assert "check failed" in everywhere(f, np.ones(3), 1, ~ok)[1]
    assert "n is zero" in everywhere(f, np.ones(3), 0, ok)[1]
    assert "both" in everywhere(f, -np.ones(3), 1, ok)[1]


def test_an_empty_array_holds():
    assert everywhere(lambda x: aotarray.check(x > 0), np.ones(0)) == ("", None)


def test_the_first_check_that_fails_is_raised():
    def f(x):
        aotarray.check(x < 10, "large")
        aotarray.check(x > 0, "small")
        aotarray.check(x > 5, "smaller")
        return x

    assert "large" in everywhere(f, 11.0)[1]
    assert "small " in everywhere(f, -1.0)[1]
    assert "smaller" in everywhere(f, 1.0)[1]


def test_a_check_comes_before_what_it_guards():
    def f(x, i):
        aotarray.check(i < x.shape[0], "i is {i} of {n}", i=i, n=x.shape[0])
        return x[i] * 2

    def g(a):
        aotarray.check(np.abs(a).max() > 0, "a is zero")
        return np.linalg.inv(a)

    assert "i is 9 of 7" in everywhere(f, X, 9)[1]
    assert everywhere(f, X, 3) == ("", None)
    assert "a is zero" in everywhere(g, np.zeros((3, 3)))[1]


def test_a_check_whose_results_nobody_reads_stays():
    def f(x):
        with np.errstate(all="ignore"):
            y = np.exp(x) * 3
        aotarray.check(np.isfinite(y).all(), "overflow: {m}", m=y.max())
        return x + 1

    assert "overflow: inf" in everywhere(f, np.array([1.0, 1000.0]))[1]


def test_what_is_false_while_tracing_is_raised_at_once():
    def f(x):
        aotarray.check(len(x.shape) == 1, "rank {r} of {x:.2f}", r=x.ndim, x=x.sum())
        return x

    with pytest.raises(ValueError, match=r"rank 2 of f64\[\] \(test_effects.py:\d+, in f\)"):
        aotarray.lower(f, "f64[n, m]")
    with pytest.raises(ValueError, match="rank 2"):
        aotarray.jit(f)(np.ones((2, 2)))


def test_a_failing_check_leaves_nothing_behind():
    @aotarray.jit
    def f(x):
        y = np.cumsum(x) * 2
        aotarray.check(y[-1] > 0, "{y}", y=y)
        return y + 1, y

    good, bad = np.ones(300_000), -np.ones(300_000)
    f(good)

    def failing(count):
        for _ in range(count):
            with pytest.raises(ValueError, match="in f"):
                f(bad)

    failing(3)
    gc.collect()
    tracemalloc.start()
    failing(20)
    gc.collect()
    now = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert now < 200_000
    np.testing.assert_array_equal(f(good)[1], np.arange(1, 300_001) * 2.0)


# -- print ------------------------------------------------------------------------------------------
def test_prints_happen_in_order_each_once():
    def f(x):
        aotarray.debug.print("same {}", x)
        aotarray.debug.print("same {}", x)
        y = np.sin(x)
        aotarray.debug.print("y {0} {0} {1:>{w}}|", y, y.sum(), w=25)
        aotarray.check(x < 1, "stop")
        aotarray.debug.print("not reached if x is 1")
        return y

    for x in (X[:3] * 0, np.ones(2)):
        printed, raised = everywhere(lambda v: f(v) if v.ndim == 0 else f(v.sum()) + v, x)
        assert printed.count("same") == 2
        assert ("not reached" in printed) == (raised is None)


def test_print_reaches_what_stands_in_for_stdout(capsys):
    @aotarray.jit
    def f(x):
        aotarray.debug.print("x = {x}", x=x)

    f(np.arange(3))
    assert capsys.readouterr().out == "x = [0 1 2]\n"


def test_large_arrays_follow_the_print_options():
    def f(x):
        aotarray.debug.print("{x} {y}", x=x, y=x[::-1, ::2])

    with np.printoptions(precision=2, threshold=20):
        printed, _ = everywhere(f, np.linspace(0, 1, 400).reshape(20, 20))
    assert "..." in printed


def test_braces_percent_signs_and_other_letters():
    def f(x):
        aotarray.debug.print("{{x}} is {x} % {s} \u00e9\u4e2d\n\\", x=x, s="{static} }{")
        aotarray.check(x > 0, "{{{x}}} {s}", x=x, s="{")

    printed, raised = everywhere(f, -1.5)
    assert printed == "{x} is -1.5 % {static} }{ \u00e9\u4e2d\n\\\n"
    assert raised.startswith("ValueError: {-1.5} { (")


def test_elements_attributes_and_conversions():
    def f(x):
        aotarray.debug.print("{x[3]:.2f} {x.shape} {x.dtype!s:>10} {y!r}", x=x, y=x[0])

    assert everywhere(f, X)[0] == f"{X[3]:.2f} (7,)    float64 {X[0]!r}\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{y}", "no value 'y'"),
        ("{x:.2f}", "unsupported format string"),
        ("{x", "expected '}'"),
        ("x}", "Single '}'"),
        ("{s:d}", "Unknown format code 'd'"),
        ("{}", "no value '0'"),
        ("{x.nothing}", "no attribute 'nothing'"),
        ("{s:{t}}", "known while tracing"),
    ],
)
def test_texts_that_do_not_fit_are_errors_of_the_trace(text, reason):
    def f(x):
        aotarray.debug.print(text, x=x, s=x.sum(), t=x.sum())

    def g(x):
        aotarray.check(x > -100, text, x=x, s=x.sum(), t=x.sum())

    for function in (f, g):
        with pytest.raises(TraceError, match=rf"test_effects.py:{function.__code__.co_firstlineno + 1}: .*{reason}"):
            aotarray.lower(function, "f64[n]")


def test_values_that_cannot_be_shown_are_refused():
    with pytest.raises(UnsupportedError, match="give them one by one"):
        aotarray.lower(lambda x: aotarray.debug.print("{x}", x=[x, x]), "f64[n]")


def test_elements_found_are_shown_and_checked():
    def f(x):
        aotarray.debug.print("{v} {n}", v=x[x > 0], n=len(x[x > 1]))
        aotarray.check(x[x > 0] > 0.5, "not {least}", least=x[x > 0].min())

    compiled = aotarray.jit(f)
    assert observed(lambda: compiled(np.array([3.0, -1, 1]))) == ("[3. 1.] 1\n", None)
    printed, error = observed(lambda: compiled(np.array([0.25, -1])))
    assert printed == "[0.25] 0\n" and "not 0.25" in str(error)


def test_sizes_are_shown_as_ints():
    def f(x):
        aotarray.debug.print("{n!r} {m}", n=x.shape[0], m=x.shape[0] * 2)

    compiled = aotarray.jit(f)
    for n in (5, 6):
        assert observed(lambda n=n: compiled(np.ones(n))) == (f"{n} {2 * n}\n", None)
    assert compiled.stats().compilations == 1


def test_sizes_that_a_call_settles_keep_effects_and_what_is_written():
    def f(x, y):
        s = 0.0
        for i in range(x.shape[0]):  # a small size, known to the program
            s = s + x[i]
        aotarray.debug.print("s = {}", s)
        aotarray.check(s < 5, "s is {s}", s=s)
        y[...] = y + s

    for x in (np.ones(3), np.full(2, 4.0)):
        expected, found = np.ones(2), np.ones(2)
        wanted = observed(lambda x=x, y=expected: f(x, y))
        assert observed(lambda x=x, y=found: aotarray.jit(f, inout="y")(x, y)) == wanted
        np.testing.assert_array_equal(found, expected)


# -- loops and choices ------------------------------------------------------------------------------
def test_each_step_of_a_loop_prints_and_checks():
    def f(x, limit):
        def step(i, s):
            aotarray.debug.print("{i}: {s:.3f} {half}", i=i, s=s, half=x / 2)
            aotarray.check(s < limit, "{s} in step {i}", s=s, i=i)
            return s * 2 + x.sum()

        return aotarray.fori_loop(0, 6, step, 1.0)

    assert everywhere(f, np.ones(2), 1e9)[0].count("\n") == 6
    printed, raised = everywhere(f, np.ones(2), 20.0)
    assert printed.count("\n") == 4
    assert raised.startswith("ValueError: 22.0 in step 3 (test_effects.py")


def test_a_check_stops_a_long_loop_at_its_step():
    def f(x):
        def step(i, s):
            aotarray.check(i != 12_345, "at {i}", i=i)
            return s + i

        return aotarray.fori_loop(0, 10**9, step, x)

    compiled = aotarray.jit(f)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^at 12345 \(test_effects.py:\d+, in step\)$"):
            compiled(0)


def test_conditions_and_bodies_of_while_loops():
    def f(x):
        def going(s):
            aotarray.debug.print("test {}", s)
            return s < 4

        def step(s):
            aotarray.debug.print("step {}", s)
            return s + 1

        found = aotarray.while_loop(going, step, x)
        aotarray.debug.print("end {}", found)

    assert everywhere(f, 1)[0] == "test 1\nstep 1\ntest 2\nstep 2\ntest 3\nstep 3\ntest 4\nend 4\n"


def test_scans_of_rows():
    def f(xs):
        def step(s, x):
            aotarray.debug.print("{s} {x}", s=s, x=x)
            aotarray.check(x.sum() < 50, "row {x}", x=x)
            return s + x.sum(), x * 2

        return aotarray.scan(step, 0.0, xs, reverse=True)

    assert everywhere(f, np.arange(6.0).reshape(3, 2))[0] == "0.0 [4. 5.]\n9.0 [2. 3.]\n14.0 [0. 1.]\n"
    assert "row [58. 59.]" in everywhere(f, np.arange(60.0).reshape(30, 2))[1]
    assert everywhere(f, np.ones((0, 2))) == ("", None)


def test_a_branch_that_is_not_taken_does_nothing():
    def f(x):
        def negative():
            aotarray.debug.print("negative {}", x)
            aotarray.check(False, "x is {x}", x=x)
            return x

        def positive():
            aotarray.debug.print("positive {}", x)
            return x * 2

        return aotarray.cond(x < 0, negative, positive)

    assert everywhere(f, 1.5) == ("positive 1.5\n", None)
    printed, raised = everywhere(f, -1.5)
    assert printed == "negative -1.5\n"
    assert raised.startswith("ValueError: x is -1.5 (")


def test_switch_and_nesting():
    def f(n):
        def outer(i, s):
            def inner(j, t):
                aotarray.switch(
                    j,
                    [
                        lambda: aotarray.debug.print("zero of {}", i),
                        lambda: aotarray.debug.print("one {}", t),
                        lambda: None,
                    ],
                )
                return t + j

            found = aotarray.fori_loop(0, 3, inner, s)
            aotarray.debug.print("outer {i} {found}", i=i, found=found)
            aotarray.check(found < 12, "{found} at {i}", found=found, i=i)
            return found

        return aotarray.fori_loop(0, n, outer, 0)

    assert everywhere(f, 3)[0].count("zero") == 3
    assert "12 at 3" in everywhere(f, 10)[1]


def test_loops_for_their_prints_alone_stay():
    def f(x):
        def step(i, s):
            aotarray.debug.print("{}", s[0])
            return s[0] + 1, s[1] * 2

        aotarray.fori_loop(0, 3, step, (x, x))
        aotarray.fori_loop(0, 2, lambda i, s: (aotarray.debug.print("x"), s)[1], 0.0)
        return x

    assert everywhere(f, 1.0)[0] == "1.0\n2.0\n3.0\nx\nx\n"


def test_loops_with_prints_happen_once_where_another_loop_uses_them():
    def f(x):
        def step(i, s):
            aotarray.debug.print("first {}", s)
            return s + 1

        found = aotarray.fori_loop(0, 2, step, x)
        return aotarray.fori_loop(0, 3, lambda i, s: (aotarray.debug.print("then {}", s), s + found)[1], 0.0)

    assert everywhere(f, 1.0)[0] == "first 1.0\nfirst 2.0\nthen 0.0\nthen 3.0\nthen 6.0\n"


def test_map_and_equal_loops():
    def f(xs):
        for _ in range(2):
            aotarray.map(lambda x: aotarray.debug.print("{}", x), xs)

    assert everywhere(f, np.arange(2))[0] == "0\n1\n0\n1\n"


def test_values_that_leak_out_of_a_body_are_refused():
    def f(x):
        kept = []
        aotarray.fori_loop(0, 3, lambda i, s: (kept.append(s), s + 1)[1], x)
        aotarray.debug.print("{}", kept[-1])

    with pytest.raises(LeakError):
        aotarray.lower(f, "f64[]")


# -- where compiled functions run ---------------------------------------------------------------------
def test_compiled_functions_inside_compiled_functions():
    @aotarray.jit
    def inner(x):
        aotarray.debug.print("inner {}", x)
        aotarray.check(x > 0, "inner {x}", x=x)
        return x * 2

    def f(x):
        aotarray.debug.print("before")
        y = inner(x) + inner(x - 1)
        aotarray.debug.print("after {}", y)
        return y

    assert everywhere(f, 3.0)[0] == "before\ninner 3.0\ninner 2.0\nafter 10.0\n"
    printed, raised = everywhere(f, 1.0)
    assert printed == "before\ninner 1.0\ninner 0.0\n"
    assert "inner 0.0 (" in raised


def test_threads_each_see_their_own_values():
    @aotarray.jit
    def f(x):
        y = np.sin(x).sum()
        aotarray.check(x[0] >= 0, "x0 is {x}, {n}", x=x[0], n=x.shape[0])
        return y

    f(np.ones(5))
    wrong = []

    def work(k):
        for i in range(200):
            x = np.full(1000 + i, -float(k))
            try:
                f(x)
                wrong.append("not raised")
            except ValueError as error:
                if not str(error).startswith(f"x0 is {-float(k)}, {1000 + i} ("):
                    wrong.append(str(error))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_what_a_print_raises_ends_the_call():
    class Full:
        def write(self, text):
            raise OSError("disk full")

        def flush(self):
            pass

    @aotarray.jit
    def f(x):
        aotarray.debug.print("{}", x)
        return x * 2

    with contextlib.redirect_stdout(Full()), pytest.raises(OSError, match="disk full"):
        f(1.0)
    assert f(2.0) == 4.0


def test_a_print_may_call_the_function_that_prints():
    depth = []

    class Echo(io.StringIO):
        def write(self, text):
            if text.strip() and len(depth) < 3:
                depth.append(text)
                f(np.full(1000, len(depth)))
            return super().write(text)

    @aotarray.jit
    def f(x):
        y = x * 2.0
        aotarray.debug.print("{:.1f}", y.sum())
        return y

    with contextlib.redirect_stdout(Echo()):
        found = f(np.ones(1000))
    assert depth == ["2000.0", "2000.0", "4000.0"]
    np.testing.assert_array_equal(found, np.full(1000, 2.0))


def test_fusion_of_the_rest_is_kept():
    def f(x):
        aotarray.debug.print("n = {}", x.shape[0])
        y = np.sin(x) * 2
        aotarray.check(x[0] > -100, "{x}", x=x[0])
        return np.exp(y) + x

    kernels = re.findall(r"^def ", aotarray.lower(f, "f64[n]").source, re.MULTILINE)
    assert len(kernels) <= 3  # the scalars beside one loop


BUILT = """
import sys
import numpy as np
sys.path.insert(0, {folder!r})
import effects_aot
print(effects_aot.built(np.array([1.0, 2.0]), 3))
for x, n in ((np.array([1.0, -2.0]), 3), (np.array([1.0, 2.0]), 20)):
    try:
        effects_aot.built(x, n)
    except Exception as error:
        print(type(error), error)
assert not [m for m in sys.modules if m.split(".")[0] in ("numba", "llvmlite", "aotarray")]
"""


def built(x, n):
    aotarray.debug.print("x = {x}, n = {n!r}, {{}} {y:.2f}", x=x, n=n, y=x.sum())
    aotarray.check(x > 0, "x must be positive, not {x}", x=x)

    def step(i, s):
        aotarray.cond(i > 2, lambda: aotarray.debug.print("large {}", i), lambda: None)
        aotarray.check(s < 1000, "{s:.1f} in step {i}", s=s, i=i, exception=OverflowError)
        return s * 2

    return aotarray.fori_loop(0, n, step, x.sum())


def test_built_modules_print_and_raise_with_numpy_alone(tmp_path):
    aotarray.build(built, "f64[n], int", name="effects_aot", out=tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", BUILT.format(folder=str(tmp_path))], capture_output=True, text=True, check=True
    )
    first = built.__code__.co_firstlineno
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print(built(np.array([1.0, 2.0]), 3))
        for x, n in ((np.array([1.0, -2.0]), 3), (np.array([1.0, 2.0]), 20)):
            try:
                built(x, n)
            except Exception as error:
                print(type(error), error)
    assert done.stdout == out.getvalue()
    assert f"x must be positive, not [ 1. -2.] (test_effects.py:{first + 2}, in built)" in done.stdout
    assert f"<class 'OverflowError'> 1536.0 in step 9 (test_effects.py:{first + 6}, in step)" in done.stdout


def test_outside_of_any_trace_both_are_plain_python():
    assert observed(lambda: aotarray.debug.print("{} {x:.1f}", 1, x=np.float32(2.5))) == ("1 2.5\n", None)
    aotarray.check(np.array([True, True]))
    with pytest.raises(ValueError, match=r"^3 is odd \(test_effects.py:\d+, in test_outside"):
        aotarray.check(3 % 2 == 0, "{n} is odd", n=3)
    assert importlib.util.find_spec("aotarray.debug") is not None


def test_effects_stay_where_small_sizes_become_constants():
    def f(x):
        aotarray.debug.print("{s}", s=x.sum())
        aotarray.check(x.sum() > -1, "negative")
        return np.linalg.det(x)

    compiled = aotarray.jit(f)
    assert observed(lambda: compiled(np.eye(3))) == ("3.0\n", None)
    printed, error = observed(lambda: compiled(-np.eye(3)))
    assert printed == "-3.0\n" and "negative" in error
