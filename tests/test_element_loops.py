"""Loops that every element walks on its own: one kernel, and the numbers of plain Python loops."""

import numpy as np
import pytest
from agreement import assert_same, leaves
from plain_program import run_plain

import aotarray
from aotarray.fusion.elements import element_loop
from aotarray.interpret import interpret
from aotarray.passes import simplify
from aotarray.verify import verify

RNG = np.random.default_rng(11)


def loops_of(lowered):
    return [n for n in lowered.plan.graph.nodes() if n.op.name == "loop"]


def kernels_of(lowered):
    return [k.name for k in lowered.plan.kernels]


def check(function, *arguments, fused=True, scale=4.0, compiled=True):
    """Interpreted, plain and compiled as NumPy has it; `fused`: each loop is a kernel."""
    with np.errstate(all="ignore"):
        expected = leaves(function(*(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)))
    lowered = aotarray.lower(function, *arguments)
    graph = verify(simplify(verify(lowered.traced.graph)), simplified=True)
    found = loops_of(lowered)
    assert fused is None or all((element_loop(n) is not None) == fused for n in found), lowered.plan.graph
    results = [interpret(graph, arguments), run_plain(lowered.plan, arguments)]
    if compiled:
        results.append(leaves(aotarray.jit(function)(*arguments)))
    for result in results:
        for one, other in zip(result, expected, strict=True):
            kept = np.asarray(other)
            assert_same(np.asarray(one).astype(kept.dtype), kept, scale=scale)
    return lowered


# -- by hand ----------------------------------------------------------------------------------------
def iir(x, b0, b1, a1):
    y = np.zeros_like(x)
    y[0] = b0 * x[0]

    def step(i, y):
        y[i] = b0 * x[i] + b1 * x[i - 1] - a1 * y[i - 1]
        return y

    return aotarray.fori_loop(1, x.shape[0], step, y)


def thomas(a, b, c, d):
    n = d.shape[-1]
    cp, dp, x = np.empty_like(d), np.empty_like(d), np.empty_like(d)
    cp[..., 0] = c[..., 0] / b[..., 0]
    dp[..., 0] = d[..., 0] / b[..., 0]

    def forward(k, state):
        cp, dp = state
        m = b[..., k] - a[..., k] * cp[..., k - 1]
        cp[..., k] = c[..., k] / m
        dp[..., k] = (d[..., k] - a[..., k] * dp[..., k - 1]) / m
        return cp, dp

    cp, dp = aotarray.fori_loop(1, n, forward, (cp, dp))
    x[..., -1] = dp[..., -1]

    def back(i, x):
        k = n - 2 - i
        x[..., k] = dp[..., k] - cp[..., k] * x[..., k + 1]
        return x

    return aotarray.fori_loop(0, n - 1, back, x)


@pytest.mark.parametrize("size", [1, 2, 9])
def test_a_recursive_filter(size):
    check(iir, RNG.random(size), 0.3, 0.2, 0.5)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 4), (1, 4), (0, 4), (300, 2)])
def test_a_tridiagonal_solver_along_the_last_axis(shape):
    a, b, c, d = (RNG.random(shape) for _ in range(4))
    check(thomas, a, b + 4, c, d)


def test_layouts():
    base = [RNG.random((6, 5, 4)) + 3 * (k == 1) for k in range(4)]
    check(thomas, *(np.asfortranarray(x) for x in base))
    check(thomas, *(x[::-1, :, ::-1] for x in base))
    check(thomas, *(x.transpose(2, 0, 1) for x in base))


def test_states_alone():
    def mandelbrot(c, n):
        def step(_, state):
            z, count = state
            inside = np.abs(z) <= 2
            z[inside] = z[inside] * z[inside] + c[inside]
            count[inside] += 1
            return z, count

        return aotarray.fori_loop(0, n, step, (np.zeros_like(c), np.zeros(c.shape, np.int64)))[1]

    y, x = np.mgrid[-1.5:1.5:13j, -2:1:300j]
    lowered = check(mandelbrot, x + 1j * y, 30)
    assert len(kernels_of(lowered)) == 1
    check(
        lambda x, n: aotarray.fori_loop(0, n, lambda i, s: (s[1], s[0] + s[1] * i), (x, x + 1)),
        RNG.random(7),
        5,
    )
    check(lambda n: aotarray.fori_loop(0, n, lambda i, s: (s[1], s[0] + s[1]), (0, 1)), 40)
    check(lambda x: aotarray.fori_loop(3, 3, lambda i, s: s * 2, x), RNG.random((3, 4)))


def test_scans_with_rows_and_stacks():
    def smooth(x):
        return aotarray.scan(lambda s, v: (0.5 * s + v, s - v), np.zeros(x.shape[1:]), x)

    check(smooth, RNG.random((6, 5)))
    check(smooth, RNG.random((6, 5, 3)).transpose(0, 2, 1))
    check(smooth, RNG.random(6))
    check(lambda x: aotarray.scan(lambda s, v: (s + v, s), 0.0, x, reverse=True), RNG.random(8))
    check(lambda x: aotarray.map(lambda v: v * 2 + 1, x), RNG.random((4, 3)))


def test_a_state_settles_only_when_no_bit_changes():
    """A block is left when a step changed nothing; the sign of zero counts, and NaN is never settled."""

    def flip(x, n):
        return aotarray.fori_loop(0, n, lambda i, s: -s, x)

    check(flip, np.array([0.0, -0.0, 0.0]), 3)
    check(flip, np.array([np.nan, 1.0, np.inf]), 3)
    check(lambda x, n: aotarray.fori_loop(0, n, lambda i, s: np.sqrt(s), x), np.array([1.0, 0.0, 16.0]), 70)
    check(lambda x, n: aotarray.fori_loop(0, n, lambda i, s: np.minimum(s + (i > 5), 3), x), np.zeros(4), 20)


def test_positions_that_are_values():
    def histogram(x, counts):
        def step(i, counts):
            counts[x[i]] += 1
            return counts

        return aotarray.fori_loop(0, x.shape[0], step, counts.copy())

    check(histogram, RNG.integers(-5, 5, 40), np.zeros(5, np.int64))
    with pytest.raises(IndexError, match="index 5 is out of bounds for axis 0 with size 5"):
        aotarray.jit(histogram)(np.array([1, 5]), np.zeros(5, np.int64))

    def rows(x, at):
        def step(i, y):
            y[at[i]] = y[at[i] - 1] + i
            y[i, :] *= 2
            return y

        return aotarray.fori_loop(0, at.shape[0], step, x * 1)

    check(rows, RNG.random((5, 3)), np.array([4, 0, -2, 2, 2]))


def test_writes_into_parts_of_rows():
    def inner(x):
        def step(k, y):
            y[1:-1, k] = y[1:-1, k - 1] + 1
            return y

        return aotarray.fori_loop(1, x.shape[1], step, x.copy())

    check(inner, RNG.random((6, 5)))

    def shifted(x):  # an element reads its neighbour's
        def step(k, y):
            y[1:, k] = y[:-1, k - 1] + 1
            return y

        return aotarray.fori_loop(1, x.shape[1], step, x.copy())

    check(shifted, RNG.random((6, 5)), fused=False)


def test_what_is_no_loop_of_elements():
    def stencil(x, n):
        def step(_, u):
            new = u.copy()
            new[1:-1] = 0.5 * (u[2:] + u[:-2])
            return new

        return aotarray.fori_loop(0, n, step, x)

    check(stencil, RNG.random(9), 4, fused=False)
    check(lambda x, n: aotarray.fori_loop(0, n, lambda i, s: s - s.mean(), x), RNG.random(9), 4, fused=False)
    check(lambda x, n: aotarray.fori_loop(0, n, lambda i, s: s[::-1] * 2, x), RNG.random(9), 3, fused=False)
    check(lambda x, n: aotarray.fori_loop(0, n, lambda i, s: s.T + 1, x), RNG.random((4, 4)), 3, fused=False)

    def forward(lower, b):  # a sum in each step, and a write in place
        def step(i, x):
            x[i] = (b[i] - (lower[i] * x).sum()) / lower[i, i]
            return x

        return aotarray.fori_loop(0, b.shape[0], step, np.zeros_like(b))

    lower = np.tril(RNG.random((6, 6))) + np.eye(6)
    check(forward, lower, RNG.random(6), fused=False)


def test_in_other_loops_and_choices():
    def march(x, r, steps):
        def time(_, u):
            u = u + r * np.roll(u, 1, 0)

            def sweep(k, v):
                v[:, k] = 0.5 * v[:, k - 1] + u[:, k]
                return v

            return aotarray.fori_loop(1, u.shape[1], sweep, u.copy())

        return aotarray.fori_loop(0, steps, time, x)

    u = RNG.random((4, 5))
    with np.errstate(all="ignore"):
        expected = march(u.copy(), 0.1, 3)
    lowered = aotarray.lower(march, u, 0.1, 3)
    assert_same(np.asarray(aotarray.jit(march)(u, 0.1, 3)), expected, scale=8)
    assert_same(run_plain(lowered.plan, [u, 0.1, 3])[0], expected, scale=8)
    check(
        lambda x, p: aotarray.cond(p > 0, lambda: aotarray.fori_loop(0, 3, lambda i, s: s * 2 + i, x), lambda: x),
        RNG.random(5), 1.0,
    )  # fmt: skip


def test_new_sizes():
    compiled = aotarray.jit(iir)
    for n in (5, 100, 3):
        x = RNG.random(n)
        assert_same(np.asarray(compiled(x, 0.3, 0.2, 0.5)), iir(x, 0.3, 0.2, 0.5), scale=4)


def test_arrays_that_steps_make_need_no_copy():
    """What is written everywhere before it is read needs no values to start from; all else does."""

    def prefix(x):
        y = np.zeros_like(x)
        y[0] = x[0]

        def step(i, y):
            y[i] = y[i - 1] + x[i]
            return y

        return aotarray.fori_loop(1, x.shape[0], step, y)

    x = RNG.random((7, 3))
    assert len(kernels_of(check(prefix, x))) == 1

    def written(
        place, lower=0, start=None, value=lambda y, x, i: x[i], upper=lambda n: n, begin=np.ones_like
    ):
        def whole(x):
            y = begin(x)
            if start is not None:
                y[start] = 5

            def step(i, y):
                y[place(i, x.shape[0])] = value(y, x, i)
                return y

            return aotarray.fori_loop(lower, upper(x.shape[0]), step, y)

        return whole

    last = written(lambda i, n: n - 1 - i)
    assert len(kernels_of(check(last, x))) == 1
    few = (  # a few positions are left to what the array started as
        written(lambda i, n: i, lower=1),
        written(lambda i, n: i, lower=3),
        written(lambda i, n: i, lower=2, start=0),
        written(lambda i, n: i, upper=lambda n: n - 1),
        written(lambda i, n: n - 1 - i, lower=2, upper=lambda n: n - 1),
        written(lambda i, n: i, 1, None, lambda y, x, i: y[i - 1] + x[i], lambda n: n - 2, lambda x: x * 3),
    )
    for partly in few:
        assert len(kernels_of(check(partly, x))) == 1
        for size in (1, 2, 3):
            check(partly, x[:size], fused=None, compiled=False)
    for empty in (few[0], few[3]):
        check(empty, x[:0], fused=None, compiled=False)
    many = (
        written(lambda i, n: 2 * i, upper=lambda n: n // 2),
        written(lambda i, n: i, lower=1, start=0, value=lambda y, x, i: y[-1] + x[i]),
        written(lambda i, n: i, value=lambda y, x, i: y[i] + x[i]),
        written(lambda i, n: i, lower=1, start=0, value=lambda y, x, i: y[i] + y[i - 1]),
        written(lambda i, n: n - 1 - i, 1, -1, lambda y, x, i: y[x.shape[0] - 2 - i], lambda n: n - 1),
        written(lambda i, n: i % n),
    )
    for other in many:
        assert len(kernels_of(check(other, x))) > 1


def test_loops_one_after_another():
    """Loops over the same elements share a kernel unless one reads what other elements made."""

    def twice(x, shift):
        def step(i, y):
            y[:, i] = 0.5 * y[:, i - 1] + x[:, i]
            return y

        y = aotarray.fori_loop(1, x.shape[1], step, x.copy())

        def second(i, z):
            z[:, i] = z[:, i - 1] * y[:, i] if not shift else z[:, i - 1] * y[::-1, i]
            return z

        return aotarray.fori_loop(1, x.shape[1], second, y.copy() if not shift else x.copy())

    x = RNG.random((5, 6))
    check(lambda x: twice(x, False), x)
    check(lambda x: twice(x, True), x)

    def sums(x):  # a loop without axes reads what the one before made
        total = aotarray.fori_loop(0, x.shape[0], lambda i, s: s + x[i], 0.0)
        return aotarray.fori_loop(0, x.shape[0], lambda i, s: s + (x[i] - total) ** 2, 0.0)

    assert len(kernels_of(check(sums, RNG.random(9)))) == 1


def lorenz(start, step, count):
    def slope(s):
        return np.stack([10.0 * (s[1] - s[0]), s[0] * (28.0 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]])

    path = np.zeros((count, 3)) if isinstance(count, int) else np.zeros((start.shape[0], 3))

    def runge_kutta(i, carry):
        s, path = carry
        a = slope(s)
        b = slope(s + 0.5 * step * a)
        c = slope(s + 0.5 * step * b)
        s = s + step / 6 * (a + 2 * b + 2 * c + slope(s + step * c))
        path[i] = s
        return s, path

    return aotarray.fori_loop(0, path.shape[0], runge_kutta, (np.ones(3) * start[0], path))


def test_elements_of_a_few_numbers_each():
    """Arrays of a few elements that mix: each is a register, and the whole loop a kernel."""
    lowered = check(lambda x: lorenz(x, 0.01, x), RNG.random(20), scale=1e3)
    assert len(kernels_of(lowered)) == 1

    turn = np.array([[0.6, -0.8, 0.1], [0.8, 0.6, 0.0], [0.0, 0.1, 0.9]])

    def turned(points, n):  # many small vectors
        def step(i, p):
            return (turn * p[:, None, :]).sum(axis=2) + i

        return aotarray.fori_loop(0, n, step, points[:, :3] * np.ones(3))

    check(turned, RNG.random((7, 3)), 4)

    def both(x, n):  # a matrix, a vector and a number
        def step(i, carry):
            m, v, s = carry
            v = (m * v).sum(axis=1) * 0.3
            return m.T * 0.5 + v, v, s + v[0]

        return aotarray.fori_loop(0, n, step, (turn * x[0], np.ones(3) * x[1], 0.0))

    assert len(kernels_of(check(both, RNG.random(2), 5))) == 1
    check(
        lambda x, n: aotarray.fori_loop(0, n, lambda i, s: s[::-1] * 2 + i, np.ones(4) * x[0]),
        RNG.random(2),
        3,
    )
    chosen = lambda x, n: aotarray.fori_loop(0, n, lambda i, s: s + s[i % 3], np.ones(3) * x)  # noqa: E731
    check(chosen, RNG.random(3), 5, fused=False)


# -- at random --------------------------------------------------------------------------------------
class Bodies:
    """A random loop over elements: Python source from a seed."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.lanes = tuple(
            int(d) for d in self.rng.choice([1, 2, 3, 130], self.rng.integers(0, 3), p=[0.2, 0.3, 0.4, 0.1])
        )
        self.steps = int(self.rng.integers(1, 6))
        self.axis = int(self.rng.integers(0, len(self.lanes) + 1))
        self.states = [
            str(d) for d in self.rng.choice(["f8", "f4", "i8", "c16", "?"], self.rng.integers(0, 3))
        ]
        self.tracks = [str(d) for d in self.rng.choice(["f8", "f4", "i4"], self.rng.integers(0, 3))]
        if not self.states and not self.tracks:
            self.tracks = ["f8"]

    def at(self, text):
        return ", ".join([":"] * self.axis + [text] + [":"] * (len(self.lanes) - self.axis))

    def position(self):
        return str(self.rng.choice(["i", "i - 1", "(i * 3) % n", "n - 1 - i", "0", "-1"]))

    def value(self, depth=0):
        r = self.rng
        leaf = [f"x[{self.at(self.position())}]", f"w[{self.at('i')}]", "p", "i", "1.5", "lane"]
        leaf += [f"(s{k} + 0)" if code == "?" else f"s{k}" for k, code in enumerate(self.states)] * 2
        leaf += [f"y{k}[{self.at(self.position())}]" for k in range(len(self.tracks))] * 2
        if depth > 2 or r.random() < 0.25:
            return str(r.choice(leaf))
        a, b = self.value(depth + 1), self.value(depth + 1)
        forms = [f"({a} + {b})", f"({a} - {b})", f"({a} * 0.5)", f"np.where(np.abs({a}) > 1, {b}, 0.25)"]
        forms += [f"np.real({a})", f"np.sqrt(np.abs({a}) + 1)", f"({a} * {b} / (1 + np.abs({b})))"]
        return str(r.choice(forms))

    def source(self):
        names = [f"s{k}" for k in range(len(self.states))] + [f"y{k}" for k in range(len(self.tracks))]
        lines = ["def program(x, w, p, lane):", f"    n = x.shape[{self.axis}]"]
        for k, code in enumerate(self.states):
            lines.append(
                f"    s{k} = (lane + {k}).astype('{code}')"
                if k % 2
                else f"    s{k} = np.zeros(lane.shape, '{code}')"
            )
        for k, code in enumerate(self.tracks):
            lines.append(f"    y{k} = (x * 3 + {k}).astype('{code}')")
        lines += ["    def step(i, state):", f"        {', '.join(names)}, = state"]
        for k, code in enumerate(self.tracks):
            for _ in range(int(self.rng.integers(1, 3))):
                sign = self.rng.choice(["=", "+="])
                value = f"np.asarray(np.real({self.value()})).astype('{code}')"
                lines.append(f"        y{k}[{self.at(self.position())}] {sign} {value}")
        for k, code in enumerate(self.states):
            value = self.value() if code == "c16" else f"np.real({self.value()})"
            test = " > 0.5" if code == "?" else ""
            lines.append(f"        t{k} = (np.zeros_like(lane) + {value}){test}")
        lines += [f"        s{k} = t{k}.astype('{code}')" for k, code in enumerate(self.states)]
        everything = f"{', '.join(names)},"
        lines += [
            f"        return {everything}",
            f"    {everything} = aotarray.fori_loop(0, n, step, ({everything}))",
        ]
        if self.rng.random() < 0.5:
            lines += self.following(names)
            everything += " z,"
        lines.append(f"    return {everything}")
        return "\n".join(lines)

    def following(self, names):
        """A second loop, which reads what the first made, and makes an array from nothing."""
        down = self.rng.random() < 0.5
        place, back, start = ("n - 2 - i", "n - 1 - i", "-1") if down else ("i + 1", "i", "0")
        reads = [f"{name}[{self.at(place)}]" if name[0] == "y" else name for name in names]
        value = " + ".join(f"np.real({r} * 1)" for r in reads)
        return [
            "    z = np.empty(x.shape)",
            f"    z[{self.at(start)}] = {value.replace(place, start)}",
            "    def second(i, z):",
            f"        z[{self.at(place)}] = 0.5 * z[{self.at(back)}] + {value}",
            "        return z",
            "    z = aotarray.fori_loop(0, n - 1, second, z)",
        ]

    def arguments(self):
        shape = (*self.lanes[: self.axis], self.steps, *self.lanes[self.axis :])
        x, w = (self.rng.random(shape) * 4 - 2 for _ in range(2))
        if self.rng.random() < 0.3:
            x = np.asfortranarray(x)
        return x, w, 0.75, np.asarray(self.rng.random(self.lanes))


def run_random(seed, compiled):
    made = Bodies(seed)
    source, arguments = made.source(), made.arguments()
    space = {"np": np, "aotarray": aotarray}
    exec(source, space)
    function = space["program"]
    lowered = aotarray.lower(function, *arguments)
    with np.errstate(all="ignore"):
        expected = leaves(function(*(np.copy(a) if isinstance(a, np.ndarray) else a for a in arguments)))
    results = [run_plain(lowered.plan, arguments)]
    if compiled:
        results.append(leaves(aotarray.jit(function)(*arguments)))
    for result in results:
        for one, other in zip(result, expected, strict=True):
            if other.dtype.kind == "f":
                np.testing.assert_allclose(
                    one, other, rtol=1e-3 if other.dtype == np.float32 else 1e-9, err_msg=source
                )
            else:
                np.testing.assert_allclose(one, other, rtol=1e-9, err_msg=source)
    return [element_loop(n) is not None for n in loops_of(lowered)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("block", range(6))
def test_random_bodies(block):
    fused = [f for k in range(10) for f in run_random(1000 * block + k, compiled=k < 3)]
    assert sum(fused) > len(fused) / 2
