"""Ctrl-C and other signals while a kernel runs: it ends early, raises, and leaves everything usable."""

import signal
import threading

import numpy as np
import pytest

import aotarray

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")


def positive(x, y):
    """A map of bools."""
    t = x[:, None] + y
    for _ in range(12):
        t = np.sin(t) + np.cos(t * 1.1)
    return t > 0


def rows(x, y):
    t = x[:, None] + y
    for _ in range(6):
        t = np.sin(t) + np.cos(t * 1.1)
    return t.sum(axis=1)


@pytest.fixture(params=[1, 2])
def threads(request):
    before = aotarray.get_num_threads()
    aotarray.set_num_threads(request.param)
    yield request.param
    aotarray.set_num_threads(before)


def interrupted(call, after=0.1):
    """Whether a signal some time `after` the start ends the call."""

    def stop(*_):
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, after)
        try:
            call()
        except KeyboardInterrupt:
            return True
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


@pytest.mark.parametrize(("function", "n"), [(positive, 30_000), (rows, 600_000)])
def test_a_kernel_ends_when_a_signal_raises(function, n, threads):
    compiled = aotarray.jit(function)
    x, y = np.linspace(0, 1, n), np.linspace(0, 1, 3000)
    expected = np.array(compiled(x[:300], y))
    out = np.empty((n, 3000), bool) if function is positive else np.empty(n)
    for after in (0.1, 0.5, 2.0):
        out.view(np.uint8)[...] = 7
        assert interrupted(lambda: compiled(x, y, out=out), after)
        assert (out[-300:].view(np.uint8) == 7).all()  # it ended early
        if not (out[:300].view(np.uint8) == 7).all():
            break  # on a busy machine it may end before it starts
    np.testing.assert_array_equal(out[:300], expected)
    np.testing.assert_array_equal(compiled(x[:300], y), expected)


def test_a_handler_that_does_not_raise_changes_nothing(threads):
    compiled = aotarray.jit(rows)
    x, y = np.linspace(0, 1, 20_000), np.linspace(0, 1, 3000)
    expected = np.array(compiled(x, y))
    inner = np.array(compiled(x[:100], y))
    seen = []
    old = signal.signal(signal.SIGALRM, lambda *_: seen.append(np.array_equal(compiled(x[:100], y), inner)))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        found = compiled(x, y)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert seen
    assert all(seen)  # a handler may call compiled functions
    np.testing.assert_array_equal(found, expected)


def test_other_threads_go_on(threads):
    compiled = aotarray.jit(rows)
    x, y = np.linspace(0, 1, 600_000), np.linspace(0, 1, 3000)
    few = x[:5000]
    expected = np.array(compiled(few, y))
    results = []
    thread = threading.Thread(target=lambda: results.extend(np.array(compiled(few, y)) for _ in range(3)))
    thread.start()
    assert interrupted(lambda: compiled(x, y))
    thread.join()
    assert len(results) == 3
    for found in results:
        np.testing.assert_array_equal(found, expected)
