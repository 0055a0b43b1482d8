"""Plain Python loops and choices over traced values: the decorated function against the plain one."""

import linecache
import subprocess
import sys
import traceback

import numpy as np
import pytest
from agreement import assert_same, leaves
from python_flow_programs import PROGRAMS, thomas
from python_flow_random import function as random_function

import aotarray
from aotarray.errors import TraceError, UnsupportedError
from aotarray.interpret import interpret
from aotarray.passes import simplify
from aotarray.verify import verify


def copies(arguments):
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]


def check(function, arguments):
    """Compiled and interpreted, the function gives what Python and NumPy give."""
    with np.errstate(all="ignore"):
        expected = leaves(function(*copies(arguments)))
    compiled = aotarray.jit(function, control_flow="python")
    graph = aotarray.trace(compiled, *arguments)
    verify(graph)
    results = [interpret(verify(simplify(graph), simplified=True), arguments), leaves(compiled(*arguments))]
    for found in results:
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            kept = np.asarray(other)
            assert_same(np.asarray(one).astype(kept.dtype), kept, scale=10)


@pytest.mark.parametrize(("function", "calls"), PROGRAMS, ids=[f.__name__ for f, _ in PROGRAMS])
def test_a_program_gives_what_numpy_gives(function, calls):
    for arguments in calls:
        check(function, arguments)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("block", range(24))
def test_random_programs(block):
    """10 programs a block, to the bit; the first of each block compiled too; at most 3 are refused."""
    refused = 0
    for seed in range(10 * block, 10 * block + 10):
        text, function = random_function(seed)
        rng = np.random.default_rng(seed)
        arguments = [rng.normal(size=5), rng.normal(size=5), float(rng.normal()), int(rng.integers(0, 5))]
        with np.errstate(all="ignore"):
            expected = function(*copies(arguments))
        compiled = aotarray.jit(function, control_flow="python")
        try:
            graph = aotarray.trace(compiled, *arguments)
        except TraceError as error:  # names that share an array on some paths only
            if "share" not in str(error):
                raise
            refused += 1
            continue
        found = [interpret(verify(simplify(graph), simplified=True), arguments)]
        if seed % 10 == 0:
            found.append(compiled(*arguments))
        for results in found:
            for one, other in zip(results, expected, strict=True):
                np.testing.assert_array_equal(
                    np.asarray(one), np.asarray(other), err_msg=f"seed {seed}\n{text}"
                )
    assert refused <= 3


# -- what the program looks like --------------------------------------------------------------------
def ops(function, *arguments):
    graph = simplify(aotarray.trace(aotarray.jit(function, control_flow="python"), *arguments))
    return graph, [n for n in graph.nodes() if n.op.kind == "control"]


def test_a_loop_carries_what_it_changes_and_no_more():
    graph, loops = ops(thomas, "f64[n, m, k], f64[n, m, k]")
    assert [(n.op.name, n.params["carried"]) for n in loops] == [("loop", 2), ("loop", 1)]
    assert len(graph.outputs) == 1


def test_a_size_is_not_fixed():
    def total(x):
        s = 0.0
        for k in range(len(x)):
            s = s + x[k]
        return s

    compiled = aotarray.jit(total, control_flow="python")
    for n in (3, 30, 300):
        assert compiled(np.ones(n)) == n
    assert compiled.stats().traces == 1


def test_cheap_choices_of_scalars_are_no_jumps():
    def largest(x):
        best = x[0]
        for v in x:
            if v > best:
                best = v
        return best

    _, loops = ops(largest, "f64[n]")
    assert [n.op.name for n in loops] == ["loop"]
    assert "branch" not in {n.op.name for n in loops[0].params["body"].nodes()}


def test_only_the_path_taken_raises():
    def pick(x, k):
        s = 0.0
        if k < len(x):
            s = x[k] * 2
        if k < len(x):
            s = s + x[k] * 2
        return s

    compiled = aotarray.jit(pick, control_flow="python")
    assert compiled(np.arange(3.0), 1) == 4
    assert compiled(np.arange(3.0), 7) == 0


def test_a_built_module_runs_it(tmp_path):
    def until(x, tol):
        steps = 0
        while np.abs(x).max() > tol:
            x = x * 0.5
            steps += 1
            if steps > 50:
                raise ValueError(f"no end after {steps} steps")
        return x, steps

    aotarray.build(
        [(until, ["f64[n], float"])], name="until_aot", out=tmp_path, cpu="native", control_flow="python"
    )
    code = (
        "import numpy as np, until_aot\n"
        "print(until_aot.until(np.ones(3), 0.2))\n"
        "try:\n    until_aot.until(np.ones(3), -1.0)\nexcept ValueError as error:\n    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
                         env={"PYTHONPATH": str(tmp_path), "PATH": ""})  # fmt: skip
    assert "0.125" in run.stdout and "array(3)" in run.stdout, run.stderr
    assert "no end after 51 steps (test_python_flow.py:" in run.stdout


# -- lines ------------------------------------------------------------------------------------------
def test_errors_and_nodes_have_the_users_lines():
    def wrong(x, n):
        for _ in range(n):
            y = x * 2
            x = y.no_such_method()
        return x

    first = wrong.__code__.co_firstlineno
    with pytest.raises(AttributeError, match=rf"test_python_flow\.py:{first + 3}: ") as caught:
        aotarray.trace(aotarray.jit(wrong, control_flow="python"), np.ones(3), 9)
    frames = [f for f in traceback.extract_tb(caught.tb) if f.filename == __file__]
    assert [f.lineno for f in frames[1:]] == [first + 1, first + 3]
    assert {f.name for f in frames[1:]} == {"wrong"}
    assert frames[-1].line == "x = y.no_such_method()"


# -- what cannot be compiled ------------------------------------------------------------------------
X = np.arange(5.0)
COUNTER = 0


class Holder:
    value = 0.0


HOLDER = Holder()


def grows(x, n):
    out = []
    for k in range(n):
        out.append(x[k])
    return out[0]


def assigns_an_attribute(x, n):
    for k in range(n):
        HOLDER.value = x[k]
    return x


def assigns_a_global(x, n):
    global COUNTER
    for _ in range(n):
        COUNTER += 1
    return x


def calls_what_assigns_a_nonlocal(x, n):
    count = 0

    def note():
        nonlocal count
        count += 1

    for _ in range(n):
        note()
    return x * count


def tries_inside(x, n):
    for _ in range(n):
        try:
            x = x + 1
        except ValueError:
            x = x - 1
    return x


def tries_outside(x, n):
    try:
        for _ in range(n):
            x = x + 1
    except ValueError:
        pass
    return x


def changes_dtype(x, n):
    z = np.zeros(3, np.int64)
    for _ in range(n):
        z = z * 0.5
    return z


def changes_shape(x, n):
    for _ in range(n):
        x = x[1:]
    return x


def chooses_none(x, n):
    return x if n > 0 else None


def chooses_dtypes(x, n):
    if n > 0:
        y = np.float32(1) * n
    else:
        y = x[0]
    return y


def chooses_strings(x, n):
    mode = "a"
    if n > 0:
        mode = "b"
    return x * len(mode)


def asks_an_array(x, n):
    if x > 0:
        return x
    return -x


def writes_an_argument(x, n):
    for k in range(n):
        x[0] = k
        x = x + 1
    return x


def writes_what_may_be_an_argument(x, n):
    y = x if n > 0 else x * 2
    y[0] = 1
    return y


def reads_another_name(x, n):
    u = np.zeros_like(x)
    v, s = u, 0.0
    for k in range(n):
        u[0] = k + 1
        s += v[0]
        u = u + 1
    return s


def reads_the_other_name_after_it(x, n):
    a, b = x * 1, x * 2
    c = a if n > 0 else b
    c[0] = 7
    return a


def starts_as_another(x, n):
    u = x.copy()
    before, s = u, 0.0
    for _ in range(n):
        u[0] += 1
        s += u[0] - before[0]
        before = u.copy()
    return s


def two_carried_arrays_are_one(x, n):
    a = b = x * 1
    for k in range(n):
        a[0] = k
        s = b[0]
        a, b = a * 2, b + s
    return a, b


def is_a_generator(x, n):
    yield x


ERRORS = [
    (grows, r":\d+: list 'out' grows or shrinks in a loop"),
    (assigns_an_attribute, "assigning HOLDER.value in a loop or choice"),
    (assigns_a_global, "assigning the global COUNTER"),
    (calls_what_assigns_a_nonlocal, "count: a function that assigns variables from outside"),
    (tries_inside, "`try` in a loop"),
    (tries_outside, "a loop or choice inside of `try`"),
    (
        changes_dtype,
        r"variable 'z' is i64\[3\] before a step of the loop and f64\[3\] after it; .* astype\(np.int64\)",
    ),
    (changes_shape, r"variable 'x' is f64\[n\] before a step .* keep its shape"),
    (chooses_none, "is None on one path of the choice and f64"),
    (chooses_dtypes, r"variable 'y' is f64\[\] on one path of the choice and f32\[\] on the other"),
    (chooses_strings, "variable 'mode' is 'a' on one path of the choice and 'b' on the other"),
    (asks_an_array, r"the condition is b1\[n\], and must be a scalar; reduce it with .any\(\) or .all\(\)"),
    (writes_an_argument, "writing into argument 'x'"),
    (writes_what_may_be_an_argument, "this array may be argument 'x', or not"),
    (reads_another_name, "two names may share this array's memory"),
    (reads_the_other_name_after_it, "two names may share this array's memory"),
    (starts_as_another, "writes into 'before', which shares its memory with another name"),
    (two_carried_arrays_are_one, "writes into 'a', which shares its memory with 'b'"),
    (is_a_generator, r"is_a_generator\(\) is a generator or coroutine"),
]


@pytest.mark.parametrize(("function", "message"), ERRORS, ids=[f.__name__ for f, _ in ERRORS])
def test_what_cannot_be_compiled_names_the_line_and_the_way(function, message):
    with pytest.raises(TraceError, match=message) as caught:
        aotarray.trace(aotarray.jit(function, control_flow="python"), X, 3)
    assert "test_python_flow.py:" in str(caught.value)


def test_a_function_without_source():
    namespace = {}
    exec("def hidden(x):\n    return x if x[0] > 0 else -x\n", namespace)
    with pytest.raises(TraceError, match=r"needs the source of hidden\(\), which is not to be had"):
        aotarray.jit(namespace["hidden"], control_flow="python")(X)


def test_source_that_changed():
    name, old, new = "<changed>", "def moved(x):\n    return x\n", "\n\ndef other(x):\n    return x\n"
    namespace = {"__name__": "changed"}
    exec(compile(old, name, "exec"), namespace)
    linecache.cache[name] = (len(new), None, new.splitlines(True), name)
    with pytest.raises(TraceError, match=r"the source of moved\(\) is not in <changed> any more"):
        aotarray.jit(namespace["moved"], control_flow="python")(X)


def test_an_unknown_way():
    with pytest.raises(ValueError, match=r'control_flow is "python" or None, not \'jax\''):
        aotarray.jit(lambda x: x, control_flow="jax")
    assert issubclass(UnsupportedError, TraceError)


# -- checks -----------------------------------------------------------------------------------------
def test_raise_and_assert_are_checks():
    def checked(x, n):
        assert n > 0, f"n is {n}"
        if n > 100:
            raise OverflowError("too many")
        for k in range(n):
            if x[k] < 0:
                raise ValueError(f"x[{k}] is {x[k]:.1f}")
        return x

    compiled = aotarray.jit(checked, control_flow="python")
    np.testing.assert_array_equal(compiled(X, 3), X)
    for arguments, kind, message in [
        ((X, 0), AssertionError, "n is 0 "),
        ((X, 101), OverflowError, "too many "),
        ((-X, 4), ValueError, r"x\[1\] is -1.0 "),
    ]:
        with pytest.raises(kind, match=message):
            compiled(*arguments)


def test_a_variable_without_a_value():
    def last(x, n):
        for k in range(n):
            y = x[k]
        return y

    compiled = aotarray.jit(last, control_flow="python")
    assert compiled(X, 2) == 1
    with pytest.raises(UnboundLocalError, match="cannot access local variable 'y'"):
        compiled(X, 0)


def test_inout_arguments_are_written_in_loops():
    def sweep(a, n):
        for k in range(n):
            a[k] = a[k - 1] + 1

    a, b = X.copy(), X.copy()
    sweep(a, 4)
    aotarray.jit(sweep, control_flow="python", inout="a")(b, 4)
    np.testing.assert_array_equal(a, b)
