"""Many threads, forks and many calls: results stay right, processes end, memory does not grow."""

import contextlib
import importlib.util
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import aotarray

SECONDS = 5.0  # of each of the two tests with 8 threads
LARGE = 300_000  # elements that several threads share


def soften(x, y):
    """Element-wise work, a row-free result and a sum: one large output, one small."""
    z = np.exp(-x * x) + np.sin(y) * 0.5
    return z, z.sum()


def gather(x, i):
    return x[i] * 2.0


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A module with both functions."""
    folder = tmp_path_factory.mktemp("stress")
    work = [(soften, ["f64[n], f64[n]"]), (gather, ["f64[n], i64[m]"])]
    path = aotarray.build(work, name="stressed", out=folder).path
    spec = importlib.util.spec_from_file_location("stressed", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Compiled:
    """The two functions through jit, under the names that the built module has."""

    soften = staticmethod(aotarray.jit(soften))
    gather = staticmethod(aotarray.jit(gather))
    set_num_threads = staticmethod(aotarray.set_num_threads)
    get_num_threads = staticmethod(aotarray.get_num_threads)


@pytest.fixture(params=["jit", "built"])
def way(request, built):
    return built if request.param == "built" else Compiled


def inputs(n, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=n), random.normal(size=n)


def in_threads(count, work):
    """Run work(k) in threads; raises the first exception of any."""
    failures = []

    def guarded(k):
        try:
            work(k)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


# ---- threads -----------------------------------------------------------------------------------------


def test_eight_threads_call_at_once(way):
    """Sizes on both sides of what is parallel and of what reuses memory, while the thread limit changes."""
    cases = []
    for n in (8, 1000, 40_000, LARGE):
        x, y = inputs(n, n)
        cases.append((x, y, *way.soften(x, y)))
    bad = np.array([0, 99])
    stop = time.monotonic() + SECONDS
    calls = [0] * 8
    before = way.get_num_threads()

    def work(k):
        for step in itertools.count(k):
            if time.monotonic() >= stop:
                return
            x, y, z, total = cases[step % len(cases)]
            out = (np.empty_like(x), np.empty(())) if step % 3 == 0 else None
            found, found_total = way.soften(x, y, out=out)
            assert np.array_equal(found, z)
            assert found_total == total
            with pytest.raises(IndexError, match="index 99 is out of bounds for axis 0 with size 8"):
                way.gather(cases[0][0], bad)
            if k == 0:
                way.set_num_threads(1 + step % 4)
            calls[k] += 1

    try:
        in_threads(8, work)
    finally:
        way.set_num_threads(before)
    assert min(calls) > 0


def test_two_threads_compile_the_same_function_at_once():
    for k in range(3):
        function = aotarray.jit(lambda x, k=k: np.sqrt(x) + k)
        barrier = threading.Barrier(2)
        results = [None, None]

        def work(thread, function=function, barrier=barrier, results=results):
            barrier.wait()
            results[thread] = function(np.arange(10.0))

        in_threads(2, work)
        for result in results:
            assert np.array_equal(result, np.sqrt(np.arange(10.0)) + k)
        assert function.stats().compilations == 1


def test_results_outlive_the_threads_that_made_them(way):
    x, y = inputs(LARGE)
    expected, _ = way.soften(x, y)
    kept = []
    in_threads(6, lambda k: kept.append(way.soften(x, y)[0]))
    addresses = {z.__array_interface__["data"][0] for z in kept}
    assert len(addresses) == 6
    assert all(np.array_equal(z, expected) for z in kept)


def test_shapes_that_change_during_calls():
    """Another thread sets an argument's shape: a call sees the one or the other, never freed memory."""
    function = aotarray.jit(lambda x, y: (x * 2.0, y.reshape(-1) + 1.0))
    shapes = ((2, 600, 2), (3, 400, 2), (4, 300, 2))
    x, y = np.arange(2400.0).reshape(shapes[0]), np.ones((40, 60))[:, ::2]
    doubled = 2 * x.ravel()
    function(x, y)
    stop = threading.Event()

    def reshape():
        for shape in itertools.cycle(shapes):
            if stop.is_set():
                return
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                x.shape = shape

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=reshape)
    thread.start()
    try:
        for _ in range(3000):
            found, _ = function(x, y)
            assert found.shape in shapes
            assert np.array_equal(found.ravel(), doubled)
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)


# ---- forks -------------------------------------------------------------------------------------------

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")


def in_fork(work, seconds=30):
    """The exit code of a child that calls `work` and leaves as Python does; -9 when it hangs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            work()
            code = 0
        os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@needs_fork
def test_forks_while_a_pool_is_live_and_another_thread_is_inside(way):
    x, y = inputs(LARGE)
    before = way.get_num_threads()
    way.set_num_threads(3)
    try:
        expected, total = way.soften(x, y)

        def child():
            for _ in range(3):
                found, found_total = way.soften(x, y)
                assert np.array_equal(found, expected)
                assert found_total == total

        assert in_fork(child) == 0
        assert in_fork(lambda: os._exit(in_fork(child))) == 0
        stop = threading.Event()

        def keep_busy():
            while not stop.is_set():
                way.soften(x, y)

        threads = [threading.Thread(target=keep_busy) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            assert [in_fork(child) for _ in range(15)] == [0] * 15
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        child()
    finally:
        way.set_num_threads(before)


@needs_fork
def test_a_forked_process_ends_as_usual():
    """A child that goes through Python's own exit, with a pool in the parent and results alive."""
    code = """
import os, sys, threading, numpy as np, aotarray
aotarray.set_num_threads(3)
f = aotarray.jit(lambda x: np.exp(np.sin(x)))
x = np.linspace(0, 9, 400_000)
kept = [f(x) for _ in range(3)]
pid = os.fork()
again = f(x)
assert np.array_equal(again, kept[0])
if pid:
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
print("done", flush=True)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stderr, result.stdout) == (0, "", "done\ndone\n")


# ---- memory ------------------------------------------------------------------------------------------

STATM = Path("/proc/self/statm")
needs_statm = pytest.mark.skipif(not STATM.exists(), reason="no /proc")


def resident():
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def growth(work, calls):
    """Bytes that `calls` calls of `work` add after half as many calls to warm up."""
    for _ in range(calls // 2):
        work()
    before = resident()
    for _ in range(calls):
        work()
    return resident() - before


@needs_statm
@pytest.mark.parametrize("n", [8, 5000, 40_000])
def test_ten_thousand_calls_keep_no_memory(way, n):
    x, y = inputs(n)
    out = np.empty_like(x), np.empty(())

    def work():
        way.soften(x, y)
        way.soften(x[::-1], y=y)
        way.soften(x, y, out=out)

    assert growth(work, 3500) < 2 << 20  # 10,500 calls


@needs_statm
def test_ten_thousand_failing_calls_keep_no_memory(way):
    x, y = inputs(40_000)
    bad = np.array([3, 99_999_999])
    read_only = np.empty(40_000)
    read_only.flags.writeable = False

    def fails(error, *args, **kwargs):
        function = way.gather if args[-1] is bad else way.soften
        try:
            function(*args, **kwargs)
        except error:
            return
        raise AssertionError(error)

    def work():
        fails(IndexError, x, bad)
        fails(ValueError, x, y[1:])
        fails(TypeError, x, "y")
        fails(TypeError, x)
        fails(TypeError, x, y, z=x)
        fails(ValueError, x, y, out=(read_only, np.empty(())))
        fails(ValueError, x, y, out=(x[1:], np.empty(())))

    assert growth(work, 1500) < 2 << 20  # 10,500 calls


@needs_statm
def test_memory_of_large_results_is_bounded_and_given_back():
    function = aotarray.jit(lambda x: x + 1.0)
    x = np.zeros(1 << 20)
    function(x)
    aotarray.trim_memory()
    kept = [function(x) for _ in range(80)]
    before = resident()
    del kept
    held = before - resident()
    assert held >= 100 << 20  # of 640 MiB, at most 512 are kept
    given = aotarray.trim_memory()
    assert 0 < given <= 512 << 20
    assert before - resident() >= 600 << 20
    assert aotarray.trim_memory() == 0


def test_memory_is_used_again_and_never_shared():
    function = aotarray.jit(lambda x: x * 2.0)
    x = np.arange(100_000.0)
    function(x)
    first = function(x)
    place = first.ctypes.data
    view = first[10:20]
    del first
    assert function(x).ctypes.data != place  # the view keeps it
    assert np.array_equal(view, x[10:20] * 2)
    del view
    places = {function(x).ctypes.data for _ in range(4)}
    assert len(places) <= 2


def test_results_in_kept_memory_are_arrays_like_others(built):
    import copy
    import pickle

    x, y = inputs(LARGE)
    z, _ = built.soften(x, y)
    assert type(z) is np.ndarray
    assert z.flags.c_contiguous
    assert z.flags.writeable
    assert z.flags.aligned
    assert z.ctypes.data % 64 == 0
    z += 1
    z.sort()
    z[:3] = 7
    same = pickle.loads(pickle.dumps(z)), copy.deepcopy(z), np.frombuffer(memoryview(z)), z.view("u8")
    assert all(np.array_equal(z, other.view("f8")) for other in same)
    z.shape = (-1, 2)
    z.T[...] = 0
    assert not z.any()
    with pytest.raises(ValueError, match="does not own its data"):
        z.resize((3, 3))


def test_memory_reuse_may_be_switched_off():
    code = """
import numpy as np, aotarray
f = aotarray.jit(lambda x: x + 1.0)
y = f(np.zeros(200_000))
print(y.base is None, aotarray.trim_memory())
del y
print(aotarray.trim_memory())
"""
    for value, expected in (("0", "True 0\n0\n"), ("1", "False 0\n1601536\n")):
        environment = {**os.environ, "AOTARRAY_MEMORY_REUSE": value}
        assert subprocess.check_output([sys.executable, "-c", code], text=True, env=environment) == expected


# ---- the same bits for any number of threads -----------------------------------------------------------

DIGEST = """
import hashlib, sys
import numpy as np, aotarray

def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)

def functions():
    yield "elements", lambda x: np.exp(np.sin(x)) / (1.0 + x * x)
    yield "rows", lambda x: x.sum(axis=1)
    yield "softmax", softmax
    yield "columns", lambda x: x.sum(axis=0)
    yield "mean and variance of columns", lambda x: (x.mean(axis=0), x.var(axis=0))
    yield "all", lambda x: (x * x).sum()
    yield "largest", lambda x: (x.max(), x.argmax(), x.std())

random = np.random.default_rng(0)
for shape in ((1500, 1001), (3, 400_000), (400_000, 3)):
    for dtype in ("f8", "f4"):
        for layout in (lambda a: a, np.asfortranarray, lambda a: a[::-1, ::-1]):
            x = layout(random.normal(size=shape).astype(dtype))
            for name, function in functions():
                results = aotarray.jit(function)(x)
                results = results if isinstance(results, tuple) else (results,)
                digest = hashlib.sha256(b"".join(np.asarray(r).tobytes() for r in results)).hexdigest()[:16]
                print(name, shape, dtype, digest)
"""


def test_bits_do_not_depend_on_the_number_of_threads():
    found = {}
    for threads in ("1", "2", "3"):
        environment = {**os.environ, "AOTARRAY_NUM_THREADS": threads}
        result = subprocess.run(
            [sys.executable, "-c", DIGEST], capture_output=True, text=True, check=True, env=environment
        )
        found[threads] = result.stdout.splitlines()
    assert len(found["1"]) == 3 * 2 * 3 * 7
    assert found["2"] == found["1"]
    assert found["3"] == found["1"]


def test_jit_and_built_modules_give_the_same_bits(built):
    for n in (1, 7, 64, 1001, LARGE):
        x, y = inputs(n, n)
        a, b = Compiled.soften(x, y), built.soften(x, y)
        assert a[0].tobytes() == b[0].tobytes()
        assert a[1].tobytes() == b[1].tobytes()


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3"])
def test_the_environment_chooses_a_lower_level(level):
    from aotarray.runtime import _launcher

    if _launcher.cpu_level() == "generic" or _launcher.cpu_level() < level[-2:]:
        pytest.skip(f"this CPU has no {level}")
    code = "from aotarray import compiler; print(compiler.host_level())"
    environment = {**os.environ, "AOTARRAY_CPU": level}
    found = subprocess.check_output([sys.executable, "-c", code], text=True, env=environment)
    assert found.strip() == level[-2:]
    environment["AOTARRAY_CPU"] = "pentium"
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert "AOTARRAY_CPU=pentium is not one of x86-64-v1 to x86-64-v4" in failed.stderr
