"""Loops and choices: numbers against plain Python loops in NumPy, eagerly, interpreted, compiled and built."""

import doctest
import signal
import subprocess
import sys
import threading
import time
from typing import NamedTuple

import numpy as np
import pytest
from agreement import assert_same, leaves
from plain_program import run_plain
from programs import Choices, build_program, compare

import aotarray
from aotarray.errors import LeakError, TraceError
from aotarray.interpret import interpret
from aotarray.passes import simplify
from aotarray.show import show_graph
from aotarray.verify import verify

RNG = np.random.default_rng(3)


def check(function, reference, *arguments, scale=1.0):
    """The eager function, the interpreter, the generated source and compiled code agree with `reference`."""
    with np.errstate(all="ignore"):
        expected = leaves(reference(*(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)))
        eager = leaves(function(*(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)))
    lowered = aotarray.lower(function, *arguments)
    verify(lowered.traced.graph)
    graph = verify(simplify(lowered.traced.graph), simplified=True)
    show_graph(graph)
    results = {
        "eager": eager,
        "interpreted": interpret(graph, arguments),
        "plain": run_plain(lowered.plan, arguments),
        "compiled": leaves(aotarray.jit(function)(*arguments)),
    }
    for found in results.values():
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            kept = np.asarray(other)
            assert_same(np.asarray(one).astype(kept.dtype), kept, scale=scale)


# -- while ------------------------------------------------------------------------------------------
def newton(a):
    def step(state):
        x, _ = state
        new = 0.5 * (x + a / x)
        return new, np.abs(new - x)

    return aotarray.while_loop(lambda state: state[1] > 1e-12, step, (a, 1.0))


def newton_plain(a):
    x, change = a, 1.0
    while change > 1e-12:
        new = 0.5 * (x + a / x)
        x, change = new, np.abs(new - x)
    return x, change


def test_newton_until_convergence():
    check(newton, newton_plain, 2.0)
    check(newton, newton_plain, np.float64(1e6))


def conjugate_gradient(a, b):
    def going(state):
        return (state["rs"] > 1e-20) & (state["k"] < 100)

    def step(state):
        ap = a @ state["p"]
        alpha = state["rs"] / np.sum(state["p"] * ap)
        x = state["x"] + alpha * state["p"]
        r = state["r"] - alpha * ap
        rs = np.sum(r * r)
        return {"x": x, "r": r, "p": r + rs / state["rs"] * state["p"], "rs": rs, "k": state["k"] + 1}

    start = {"x": np.zeros_like(b), "r": b, "p": b, "rs": np.sum(b * b), "k": 0}
    return aotarray.while_loop(going, step, start)["x"]


def test_conjugate_gradient_until_convergence():
    m = RNG.normal(size=(12, 12))
    a, b = m @ m.T + 12 * np.eye(12), RNG.normal(size=12)
    check(conjugate_gradient, np.linalg.solve, a, b, scale=1e3)


def mandelbrot(c):
    def step(state):
        z, count, k = state
        inside = np.abs(z) <= 2
        return np.where(inside, z * z + c, z), count + inside, k + 1

    init = (np.zeros_like(c), np.zeros(c.shape, np.int64), 0)
    return aotarray.while_loop(lambda s: (s[2] < 50) & np.any(np.abs(s[0]) <= 2), step, init)[1]


def mandelbrot_plain(c):
    z, count, k = np.zeros_like(c), np.zeros(c.shape, np.int64), 0
    while k < 50 and np.any(np.abs(z) <= 2):
        inside = np.abs(z) <= 2
        z, count, k = np.where(inside, z * z + c, z), count + inside, k + 1
    return count


def test_mandelbrot_escape_loop():
    c = np.linspace(-2, 0.5, 9) + 1j * np.linspace(-1, 1, 7)[:, None]
    check(mandelbrot, mandelbrot_plain, c)


def test_a_loop_that_does_not_start_gives_what_it_was_given():
    def never(x):
        return aotarray.while_loop(lambda s: s[1] < 0, lambda s: (s[0] * 2, s[1] + 1), (x, 0))

    check(never, lambda x: (x, 0), np.arange(4.0))


def test_collatz_counts_in_integers():
    def collatz(n):
        def step(state):
            n, steps = state
            return np.where(n % 2 == 0, n // 2, 3 * n + 1), steps + 1

        return aotarray.while_loop(lambda s: s[0] != 1, step, (n, 0))

    check(collatz, lambda n: (1, 111), 27)


# -- counted loops ----------------------------------------------------------------------------------
def jacobi(u, steps):
    def step(i, u):
        u[1:-1, 1:-1] = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
        return u

    return aotarray.fori_loop(0, steps, step, u)


def jacobi_plain(u, steps):
    for _ in range(steps):
        u = u.copy()
        u[1:-1, 1:-1] = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
    return u


@pytest.mark.parametrize("steps", [0, 1, 2, 7])
def test_jacobi_time_loop(steps):
    u = RNG.normal(size=(6, 5))
    check(jacobi, jacobi_plain, u, steps)
    check(jacobi, jacobi_plain, np.asfortranarray(u)[::-1], steps)


def test_an_argument_is_not_changed():
    u = RNG.normal(size=(6, 5))
    kept = u.copy()
    for run in (jacobi, aotarray.jit(jacobi)):
        run(u, 3)
        np.testing.assert_array_equal(u, kept)


def test_bounds_are_numbers_sizes_or_traced():
    def counted(x, low, high):
        a = aotarray.fori_loop(2, 6, lambda i, s: s + i * x, np.zeros_like(x))
        b = aotarray.fori_loop(0, x.shape[0], lambda i, s: s + x[i] * i, 0.0)
        c = aotarray.fori_loop(low, high, lambda i, s: s * 2 + i, 1)
        return a, b, c

    def plain(x, low, high):
        a, b, c = np.zeros_like(x), 0.0, 1
        for i in range(2, 6):
            a = a + i * x
        for i in range(x.shape[0]):
            b = b + x[i] * i
        for i in range(low, high):
            c = c * 2 + i
        return a, b, c

    for low, high in [(0, 5), (3, 3), (4, -2), (-3, 2)]:
        check(counted, plain, np.arange(5.0), low, high)


def test_the_counter_is_a_python_int():
    """It leaves float32 as it is."""
    check(
        lambda x: aotarray.fori_loop(0, 3, lambda i, s: s + x * i, x),
        lambda x: x + x * 0 + x * 1 + x * 2,
        np.arange(4, dtype=np.float32),
    )


def test_what_is_carried_may_change_places():
    def swapped(x, y, n):
        return aotarray.fori_loop(0, n, lambda i, s: (s[1], s[0] + s[1]), (x, y))

    def plain(x, y, n):
        for _ in range(n):
            x, y = y, x + y
        return x, y

    for n in (0, 1, 4, 5):
        check(swapped, plain, np.arange(3.0), np.ones(3), n)


def test_writing_at_the_counter():
    def filled(x):
        def step(i, y):
            y[i] = y[i - 1] + x[i]
            y[-1 - i, 1:] *= 0.5
            y[i, i % 2] = i
            return y

        return aotarray.fori_loop(1, x.shape[0], step, x)

    def plain(x):
        y = x.copy()
        for i in range(1, len(x)):
            y[i] = y[i - 1] + x[i]
            y[-1 - i, 1:] *= 0.5
            y[i, i % 2] = i
        return y

    check(filled, plain, np.arange(15.0).reshape(5, 3))

    def beyond(x, n):
        def step(i, y):
            y[0, i] = 1
            return y

        return aotarray.fori_loop(0, n, step, x)

    with pytest.raises(IndexError, match="index 3 is out of bounds for axis 1 with size 3"):
        aotarray.jit(beyond)(np.ones((2, 3)), 4)


def test_nested_loops():
    def nested(x, n):
        def outer(i, total):
            def inner(j, row):
                return row * 0.5 + x * (i + j)

            return total + aotarray.fori_loop(0, i, inner, np.ones_like(x)).sum()

        return aotarray.fori_loop(0, n, outer, 0.0)

    def plain(x, n):
        total = 0.0
        for i in range(n):
            row = np.ones_like(x)
            for j in range(i):
                row = row * 0.5 + x * (i + j)
            total = total + row.sum()
        return total

    check(nested, plain, np.arange(4.0), 5)


def test_a_loop_is_the_whole_step_of_another():
    def powers(x, n):
        return aotarray.fori_loop(
            0, n, lambda i, a: aotarray.fori_loop(0, 3, lambda j, b: b * 1.1 + x, a), x
        )

    def plain(x, n):
        a = x
        for _ in range(3 * n):
            a = a * 1.1 + x
        return a

    check(powers, plain, np.arange(4.0), 3)


def test_floyd_warshall():
    def shortest(d):
        return aotarray.fori_loop(
            0, d.shape[0], lambda k, d: np.minimum(d, d[:, k][:, None] + d[k][None, :]), d
        )

    def plain(d):
        for k in range(len(d)):
            d = np.minimum(d, d[:, k][:, None] + d[k][None, :])
        return d

    check(shortest, plain, RNG.uniform(1, 9, size=(7, 7)))


def test_values_that_no_step_changes_are_not_carried():
    def step(i, state):
        x, w = state
        return x * w, w

    def whole(x, w):
        return aotarray.fori_loop(0, 3, step, (x, w))

    x, w = np.arange(4.0), np.full(4, 1.5)
    check(whole, lambda x, w: (x * w * w * w, w), x, w)
    (loop,) = [n for n in aotarray.lower(whole, x, w).traced.graph.nodes() if n.op.name == "loop"]
    assert loop.params["carried"] == 1


class State(NamedTuple):
    position: np.ndarray
    velocity: list


def test_any_tree_is_carried():
    def fall(start):
        def step(i, s):
            return State(s.position + 0.1 * s.velocity[0], [s.velocity[0] - 0.98])

        return aotarray.fori_loop(0, 4, step, start)

    start = State(np.arange(3.0), [np.ones(3)])
    found = aotarray.jit(fall)(start)
    expected = fall(start)
    assert isinstance(found, State)
    np.testing.assert_allclose(found.position, expected.position)
    np.testing.assert_allclose(found.velocity[0], expected.velocity[0])


# -- choices ----------------------------------------------------------------------------------------
def test_a_choice_computes_what_it_chose():
    def choose(x, p):
        return aotarray.cond(p > 0, lambda v: v.sum() * 2, lambda v: np.exp(v).max() - p, x)

    def plain(x, p):
        return x.sum() * 2 if p > 0 else np.exp(x).max() - p

    for p in (1.0, -1.0):
        check(choose, plain, np.arange(5.0), p)


def test_only_the_chosen_function_raises():
    def take(x, i):
        return aotarray.cond(i < 3, lambda: x[i], lambda: 0.0)

    x = np.arange(3.0)
    compiled = aotarray.jit(take)
    assert compiled(x, 1) == 1.0
    assert compiled(x, 7) == 0.0
    with pytest.raises(IndexError, match="index -9 is out of bounds for axis 0 with size 3"):
        compiled(x, -9)


def test_a_switch_clamps_its_index():
    branches = [lambda v: v * 2, lambda v: np.sqrt(v), lambda v: -v]

    def choose(x, k):
        return aotarray.switch(k, branches, x)

    for k in (-5, 0, 1, 2, 9):
        check(choose, lambda x, k: branches[min(max(k, 0), 2)](x), np.arange(5.0), k)


def test_a_choice_in_a_loop():
    def steps(x, n):
        def step(i, y):
            return aotarray.cond(i % 2 == 0, lambda: y + x, lambda: y * 0.5)

        return aotarray.fori_loop(0, n, step, x)

    def plain(x, n):
        y = x
        for i in range(n):
            y = y + x if i % 2 == 0 else y * 0.5
        return y

    check(steps, plain, np.arange(4.0), 5)


# -- scan and map -----------------------------------------------------------------------------------
def test_scan_adds_up():
    def running(x):
        return aotarray.scan(lambda s, v: (s + v, s), 0.0, x)

    def plain(x):
        return np.sum(x), np.concatenate([[0.0], np.cumsum(x)[:-1]])

    check(running, plain, np.arange(6.0))
    check(running, plain, np.arange(12.0)[::-2])
    check(running, lambda x: (0.0, np.empty(0)), np.empty(0))


def test_scan_backwards_keeps_places():
    def running(x):
        return aotarray.scan(lambda s, v: (s + v, (s + v, v * 2)), np.zeros(3), x, reverse=True)

    def plain(x):
        return x.sum(0), (np.cumsum(x[::-1], 0)[::-1], x * 2)

    check(running, plain, np.arange(12.0).reshape(4, 3))
    check(running, plain, np.asfortranarray(np.arange(12.0).reshape(4, 3)))


def test_recursive_filter():
    def iir(b, a, x):
        def step(z, v):
            y = b[0] * v + z[0]
            return (b[1] * v - a[1] * y + z[1], b[2] * v - a[2] * y), y

        return aotarray.scan(step, (0.0, 0.0), x)[1]

    def plain(b, a, x):
        z, out = [0.0, 0.0], []
        for v in x:
            y = b[0] * v + z[0]
            z = [b[1] * v - a[1] * y + z[1], b[2] * v - a[2] * y]
            out.append(y)
        return np.array(out)

    check(iir, plain, np.array([0.2, 0.3, 0.1]), np.array([1.0, -0.4, 0.2]), RNG.normal(size=20))


def test_kalman_filter():
    def kalman(f, q, z):
        def step(state, z):
            x, p = state
            x, p = f @ x, f @ p @ f.T + q
            k = p[:, 0] / (p[0, 0] + 0.5)
            x = x + k * (z - x[0])
            return (x, p - k[:, None] * p[0][None, :]), x

        return aotarray.scan(step, (np.zeros(2), np.eye(2)), z)

    def plain(f, q, z):
        x, p, out = np.zeros(2), np.eye(2), []
        for v in z:
            x, p = f @ x, f @ p @ f.T + q
            k = p[:, 0] / (p[0, 0] + 0.5)
            x = x + k * (v - x[0])
            p = p - k[:, None] * p[0][None, :]
            out.append(x)
        return (x, p), np.array(out)

    check(kalman, plain, np.array([[1.0, 0.1], [0.0, 1.0]]), 0.01 * np.eye(2), RNG.normal(size=9), scale=10)


def test_tridiagonal_solve_along_the_last_axis():
    def thomas(a, b, c, d):
        def down(state, row):
            a, b, c, d = row
            w = b - a * state[0]
            new = (c / w, (d - a * state[1]) / w)
            return new, new

        zero = np.zeros(d.shape[:-1])
        rows = tuple(np.moveaxis(v, -1, 0) for v in (a, b, c, d))
        _, (cs, ds) = aotarray.scan(down, (zero, zero), rows)

        def up(x, row):
            x = row[1] - row[0] * x
            return x, x

        return np.moveaxis(aotarray.scan(up, zero, (cs, ds), reverse=True)[1], 0, -1)

    def plain(a, b, c, d):
        n = d.shape[-1]
        cs, ds, x = np.empty_like(d), np.empty_like(d), np.empty_like(d)
        cs[..., 0], ds[..., 0] = c[..., 0] / b[..., 0], d[..., 0] / b[..., 0]
        for k in range(1, n):
            w = b[..., k] - a[..., k] * cs[..., k - 1]
            cs[..., k], ds[..., k] = c[..., k] / w, (d[..., k] - a[..., k] * ds[..., k - 1]) / w
        x[..., -1] = ds[..., -1]
        for k in range(n - 2, -1, -1):
            x[..., k] = ds[..., k] - cs[..., k] * x[..., k + 1]
        return x

    shape = (3, 4, 6)
    a, c, d = (RNG.normal(size=shape) for _ in range(3))
    check(thomas, plain, a, 5 + RNG.uniform(size=shape), c, d)


def test_rows_are_reshaped_and_multiplied():
    """A row is memory of the whole, also for NumPy's routines."""

    def whole(x, w):
        def step(s, row):
            return s + 1, (row.reshape(3, 2) @ w).reshape(-1)

        return aotarray.scan(step, 0, x)

    def plain(x, w):
        return len(x), np.stack([(r.reshape(3, 2) @ w).reshape(-1) for r in x])

    check(whole, plain, np.arange(24.0).reshape(4, 6), RNG.normal(size=(2, 5)))
    check(whole, plain, np.arange(48.0).reshape(4, 12)[:, ::2], RNG.normal(size=(2, 5)))


def test_scan_of_a_length():
    def fibonacci():
        return aotarray.scan(lambda s, _: ((s[1], s[0] + s[1]), s[0]), (0, 1), length=10)[1]

    check(fibonacci, lambda: np.array([0, 1, 1, 2, 3, 5, 8, 13, 21, 34]))


def test_map_stacks_results():
    def each(x):
        return aotarray.map(lambda row: (np.sort(row) if False else row - row.mean(), row.max()), x)

    def plain(x):
        return x - x.mean(1, keepdims=True), x.max(1)

    check(each, plain, RNG.normal(size=(4, 5)))


def test_nested_scans():
    def whole(x):
        def outer(s, row):
            t, ys = aotarray.scan(lambda a, v: (a + v, a * v), s, row)
            return t, ys

        return aotarray.scan(outer, 0.0, x)

    def plain(x):
        s, out = 0.0, np.empty_like(x)
        for i, row in enumerate(x):
            for j, v in enumerate(row):
                out[i, j] = s * v
                s = s + v
        return s, out

    check(whole, plain, RNG.normal(size=(3, 4)))


# -- types and errors -------------------------------------------------------------------------------
def test_a_python_number_takes_the_type_that_the_body_returns():
    x = np.arange(3, dtype=np.float32)
    total = aotarray.jit(lambda x: aotarray.fori_loop(0, 3, lambda i, s: s + x[i], 0))(x)
    assert total.dtype == np.float32
    assert total == 3


def test_a_type_that_changes_is_an_error_with_the_leaf_and_the_line():
    def halves(x):
        return aotarray.fori_loop(0, 3, lambda i, s: {"x": s["x"] / 2}, {"x": x})

    with pytest.raises(TraceError, match=r"test_control\.py:\d+: fori_loop: carry\['x'\] is i32\[n\] before a step "
                                         r"and f64\[n\] after it"):  # fmt: skip
        aotarray.lower(halves, "i32[n]")
    with pytest.raises(TraceError, match=r"carry\['x'\] is int32 of shape \(3,\) before a step and float64"):
        halves({"x": np.arange(3, dtype=np.int32)}["x"])

    def longer(x):
        return aotarray.while_loop(lambda s: s.sum() < 9, lambda s: np.concatenate([s, s]), x)

    with pytest.raises(TraceError, match=r"carry is f64\[n\] before a step and f64\[2\*n\] after it"):
        aotarray.jit(longer)(np.ones(3))


def test_a_structure_that_changes_is_an_error():
    with pytest.raises(TraceError, match=r"the body returns \(an array,\) where it is given \(an array, an array\)"):
        aotarray.lower(lambda x: aotarray.fori_loop(0, 3, lambda i, s: (s[0],), (x, x)), "f64[n]")


def test_branches_that_differ_are_an_error():
    with pytest.raises(TraceError, match=r"cond: result is f64\[n\] from one function and f64\[\] from another"):
        aotarray.lower(lambda x: aotarray.cond(x.sum() > 0, lambda: x.sum(), lambda: x), "f64[n]")
    with pytest.raises(TraceError, match=r"one function returns an array, another \(an array, an array\)"):
        aotarray.lower(lambda x: aotarray.cond(x.sum() > 0, lambda: (x, x), lambda: x), "f64[n]")


def test_a_condition_is_a_scalar():
    with pytest.raises(TraceError, match=r"the condition is b1\[n\], and must be a scalar; reduce it"):
        aotarray.lower(lambda x: aotarray.while_loop(lambda s: s > 0, lambda s: s - 1, x), "f64[n]")


def test_a_write_from_inside_is_an_error():
    def writes(x):
        y = np.zeros_like(x)

        def step(i, s):
            y[0] = s
            return s + 1

        return aotarray.fori_loop(0, 3, step, 0.0), y

    with pytest.raises(TraceError, match="writing into an array that was made outside of this body"):
        aotarray.lower(writes, "f64[n]")


def test_a_value_from_inside_is_an_error_outside():
    kept = []

    def leaks(x):
        def step(i, s):
            kept.append(s * 2)
            return s + 1

        return aotarray.fori_loop(0, 3, step, x) + kept[-1]

    with pytest.raises(LeakError, match="a value of the body of a loop or choice"):
        aotarray.lower(leaks, "f64[n]")


def test_python_control_flow_names_the_way():
    with pytest.raises(TraceError, match=r"aotarray\.cond chooses .* aotarray\.while_loop repeats"):
        aotarray.lower(lambda x: x if x.sum() > 0 else -x, "f64[n]")
    with pytest.raises(TraceError, match=r"aotarray\.fori_loop counts"):
        aotarray.lower(lambda x, k: [x for _ in range(k)], "f64[n], i64[]")
    with pytest.raises(ValueError, match=r"aotarray\.fori_loop"):
        aotarray.lower(lambda x: sum(x[i] for i in range(x.shape[0])), "f64[n]")


def test_a_long_python_loop_names_the_way():
    def long(x):
        for i in range(6000):
            x = x * 0.5 + i
        return x

    with pytest.warns(UserWarning, match=r"long\(\) has recorded 10000 operations .* aotarray\.fori_loop"):
        aotarray.trace(long, "f64[]")


def test_an_index_out_of_bounds_in_a_loop_raises():
    def walk(x, n):
        return aotarray.fori_loop(0, n, lambda i, s: s + x[i], 0.0)

    compiled = aotarray.jit(walk)
    assert compiled(np.arange(4.0), 4) == 6
    for _ in range(3):
        with pytest.raises(IndexError, match="index 4 is out of bounds for axis 0 with size 4"):
            compiled(np.arange(4.0), 6)
    assert compiled(np.arange(4.0), 4) == 6


# -- what it costs ----------------------------------------------------------------------------------
def test_the_program_does_not_grow_with_the_number_of_steps():
    def stepped(n):
        return aotarray.lower(lambda u: jacobi(u, n), "f64[16, 16]").plan.program

    few, many = stepped(3), stepped(100_000)
    assert len(few.buffers) == len(many.buffers)
    assert len(few.instructions) == len(many.instructions)
    assert len(few.kernels) == len(many.kernels)


def test_a_loop_copies_nothing_between_steps():
    program = aotarray.lower(lambda u: jacobi(u, 9), "f64[16, 16]").plan.program
    names = [type(i).__name__ for i in program.instructions]
    begin, end = names.index("LoopBegin"), names.index("LoopNext")
    assert names[begin + 1 : end] == ["KernelCall", "Swap"]


def test_results_that_nobody_reads_are_not_computed():
    def whole(x, w):
        def step(s, v):
            a, b, c = s
            return (a + v, b * w + v, c + b), (np.exp(v), a)

        (a, *_), (_, kept) = aotarray.scan(step, (0.0, np.zeros(3), np.ones(3)), x)
        return a, kept

    def plain(x, w):
        return x.sum(), np.concatenate([[0.0], np.cumsum(x)[:-1]])

    x, w = np.arange(5.0), np.ones(3)
    check(whole, plain, x, w)
    graph = simplify(aotarray.lower(whole, x, w).traced.graph)
    (loop,) = [n for n in graph.nodes() if n.op.name == "loop"]
    assert loop.params["carried"] == 1
    assert len(loop.params["body"].outputs) == 2
    assert [i.shape for i in loop.params["body"].inputs] == [(), (), ()]


def test_what_a_live_result_needs_is_carried():
    def whole(x):
        return aotarray.while_loop(
            lambda s: s["k"] < 4, lambda s: {"k": s["k"] + 1, "a": s["b"], "b": s["b"] * 2, "c": s["a"]},
            {"k": 0, "a": x, "b": x, "c": x},
        )["a"]  # fmt: skip

    check(whole, lambda x: x * 8, np.arange(3.0))
    (loop,) = [n for n in simplify(aotarray.lower(whole, np.arange(3.0)).traced.graph).nodes() if n.op.name == "while"]
    assert loop.params["carried"] == 3


def test_stacks_and_choices_lie_in_the_results():
    def whole(x, p):
        ys = aotarray.map(lambda v: v * 2 + p, x)
        return ys, aotarray.cond(p > 0, lambda: x + 1, lambda: x)

    check(whole, lambda x, p: (x * 2 + p, x + 1 if p > 0 else x), np.arange(12.0).reshape(3, 4), 2.0)
    names = [k.name for k in aotarray.lower(whole, np.ones((3, 4)), 1.0).plan.kernels]
    assert len(names) == 4  # all rows, the choice and its two functions
    outs = np.full((8, 3), np.nan), np.full((3, 4), np.nan)
    x = np.arange(12.0).reshape(3, 4)
    aotarray.jit(whole)(x, 1.0, out=(outs[0][::2].T, outs[1]))
    np.testing.assert_array_equal(outs[0][::2].T, x * 2 + 1)
    np.testing.assert_array_equal(outs[1], x + 1)
    assert np.isnan(outs[0][1::2]).all()


def test_many_threads_run_one_loop():
    compiled = aotarray.jit(jacobi)
    inputs = [RNG.normal(size=(12, 12)) for _ in range(4)]
    expected = [jacobi_plain(u, 40) for u in inputs]
    compiled(inputs[0], 1)
    wrong = []

    def work(k):
        for _ in range(50):
            if not np.allclose(compiled(inputs[k], 40), expected[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_other_threads_run_beside_a_loop():
    """The GIL is let go while a loop of short steps runs."""
    compiled = aotarray.jit(lambda n: aotarray.fori_loop(0, n, lambda i, s: s * 0.5 + i, 0.0))
    compiled(3)
    done = threading.Event()
    thread = threading.Thread(target=lambda: (compiled(60_000_000), done.set()))
    thread.start()
    turns = 0
    while not done.is_set() and turns < 100:
        time.sleep(0.001)
        turns += 1
    thread.join()
    assert turns > 5


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_a_loop_without_end_can_be_interrupted():
    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    compiled = aotarray.jit(lambda x: aotarray.while_loop(lambda s: s > -1, lambda s: s * 0.5 + x, x))
    aotarray.jit(lambda x: x)(1.0)
    old = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 2.0)
        with pytest.raises(Stop):
            compiled(1.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


# -- built ------------------------------------------------------------------------------------------
BUILT = """
import sys
import numpy as np
import loops_aot
x, change = loops_aot.newton(2.0)
assert abs(x - 2 ** 0.5) < 1e-12 and change <= 1e-12
u = np.arange(30.0).reshape(5, 6) ** 2
v = loops_aot.jacobi(u, 4)
w = u
for _ in range(4):
    w = w.copy()
    w[1:-1, 1:-1] = 0.25 * (w[2:, 1:-1] + w[:-2, 1:-1] + w[1:-1, 2:] + w[1:-1, :-2])
np.testing.assert_allclose(v, w)
try:
    loops_aot.walk(np.arange(4.0), 9)
except IndexError as error:
    assert "index 4 is out of bounds for axis 0 with size 4" in str(error), error
else:
    raise AssertionError
assert not {"numba", "llvmlite", "aotarray"} & set(sys.modules)
"""


def walk(x, n):
    return aotarray.fori_loop(0, n, lambda i, s: s + x[i], 0.0)


def test_a_built_module_runs_loops_with_numpy_alone(tmp_path):
    aotarray.build(
        [(newton, ["float"]), (jacobi, ["f64[n, m], int"]), (walk, ["f64[n], int"])],
        name="loops_aot",
        out=tmp_path,
        cpu="native",
    )
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{BUILT}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_examples_in_docstrings():
    from aotarray.trace import control

    assert doctest.testmod(control).failed == 0


# -- random programs --------------------------------------------------------------------------------
def stepped(program):
    """The program as the body of a scan over two copies of its arrays; the second step's results."""
    function, given = program.function(), program.arguments
    arrays = [isinstance(a, np.ndarray) for a in given]

    def whole(*values):
        def body(carry, rows):
            row = iter(rows)
            return carry, function(*(next(row) if a else v for v, a in zip(values, arrays, strict=True)))

        rows = tuple(v for v, a in zip(values, arrays, strict=True) if a)
        found = aotarray.scan(body, (), rows, length=2)[1]
        return tuple(y[1] for y in leaves(found))

    return whole, [np.stack([a, a]) if isinstance(a, np.ndarray) else a for a in given]


def chosen(program):
    """The program as one of two functions to choose from."""
    function = program.function()

    def whole(which, *values):
        return aotarray.switch(which, [function, function], *values)

    return whole, [1, *program.arguments]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("wrap", [stepped, chosen])
@pytest.mark.parametrize("block", range(3))
def test_random_programs_in_loops_and_choices(block, wrap):
    for k in range(5):
        program = build_program(Choices(40_000 + 1000 * block + k), 10)
        function, arguments = wrap(program)
        lowered = aotarray.lower(function, *arguments)
        graph = verify(simplify(verify(lowered.traced.graph)), simplified=True)
        results = [interpret(graph, arguments), run_plain(lowered.plan, arguments)]
        if k < 2:
            results.append(leaves(aotarray.jit(function)(*arguments)))
        for found in results:
            difference = compare(program, found)
            assert difference is None, str(difference)
