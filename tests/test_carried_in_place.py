"""Loops that write over what they carry: where that is safe in place, elsewhere not, and always NumPy's answer."""

import sys
from pathlib import Path

import numpy as np
import pytest
from agreement import assert_same, leaves
from plain_program import run_plain

import aotarray
from aotarray.program import LoopBegin, LoopNext, Swap

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import stencils

RNG = np.random.default_rng(5)


def copies(arguments):
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]



def check(function, *arguments, native=True):
    """The generated source as plain Python, and machine code, give what NumPy gives, and leave the arguments."""
    with np.errstate(all="ignore"):
        expected = leaves(function(*copies(arguments)))
    compiled = aotarray.jit(function, control_flow="python")
    plan = compiled.lower(*arguments).plan
    given = copies(arguments)
    found = [run_plain(plan, given)] + ([leaves(compiled(*given))] if native else [])
    for results in found:
        assert len(results) == len(expected)
        for one, other in zip(results, expected, strict=True):
            assert_same(np.asarray(one), np.asarray(other), scale=10)
    for one, other in zip(given, arguments, strict=True):
        np.testing.assert_array_equal(one, other)
    return plan.program


def swaps(program):
    return sum(isinstance(i, Swap) for i in program.instructions)


def inside(program):
    """The instructions of the only loop."""
    (begin,) = [k for k, i in enumerate(program.instructions) if isinstance(i, LoopBegin)]
    (end,) = [k for k, i in enumerate(program.instructions) if isinstance(i, LoopNext)]
    return [type(i).__name__ for i in program.instructions[begin + 1 : end]]


def grid(n=6, m=7):
    return RNG.normal(size=(n, m))


# -- which loops do ---------------------------------------------------------------------------------
def test_fields_are_updated_where_they_lie():
    program = check(stencils.fdtd, grid(), grid(), grid(), np.sin(np.arange(4.0)))
    assert inside(program) == ["KernelCall", "RaiseIf", "KernelCall"]
    assert [b.kind for b in program.buffers].count("out") == 3
    assert [b for b in program.buffers if b.kind == "temp" and len(b.dims) == 2] == []


def test_arrays_that_take_turns_are_updated_where_they_lie():
    program = check(stencils.jacobi, grid(), 3)
    assert inside(program) == ["KernelCall", "KernelCall"]
    assert [b for b in program.buffers if b.kind == "temp" and len(b.dims) == 2] == []


def test_neighbours_that_are_overwritten_are_kept():
    assert swaps(check(stencils.heat, grid(), 3, 0.2)) == 1


def test_a_condition_reads_what_the_step_before_made():
    def halve(x, y):
        while np.max(np.abs(x)) > 0.1:
            x = x * 0.5
            y = y + x.sum()
        return x, y

    assert swaps(check(halve, grid(), grid())) == 0


def test_a_fold_reads_the_old_value_in_the_same_nest():
    def relax(x, b, steps):
        change = 0.0
        for _ in range(steps):
            new = x * 0.5 + b
            change = np.max(np.abs(new - x))
            x = new
        return x, change

    check(relax, grid(), grid(), 5)


def test_values_that_change_places():
    def turn(a, b, steps):
        for _ in range(steps):
            a, b = b, a
        return a, b

    def turn_scaled(a, b, steps):
        for _ in range(steps):
            a, b = b * 2, a + 1
        return a, b

    def pass_on(a, b, c, steps):
        for _ in range(steps):
            a, b, c = b, c, a + b
        return a, b, c

    for steps in (0, 1, 2, 5):
        check(turn, grid(), grid(), steps)
        check(turn_scaled, grid(), grid(), steps)
        check(pass_on, grid(), grid(), grid(), steps)


def test_one_value_under_two_names():
    def both(a, steps):
        b = a
        for _ in range(steps):
            a = a + 1
            b = a
        return a, b, a

    def start(a, steps):
        x = a.copy()
        for _ in range(steps):
            x[1:] += a[:-1]  # of what the loop started from
        return x, a

    check(both, grid(), 3)
    check(start, grid(), 3)


def test_another_nest_reads_the_old_value_first():
    def shifted(a, b, steps):
        for _ in range(steps):
            old = a.copy()
            a[1:, :] *= 0.5
            b[:, 1:] += old[:, :-1] - old[::-1, 1:]
        return a, b

    def crossed(a, b, steps):  # each reads the other's old neighbours: one at least needs other memory
        for _ in range(steps):
            a, b = a + b[::-1], b + a[::-1]
        return a, b

    def products(a, x, steps):
        for _ in range(steps):
            y = a @ x
            x = x + 0.1
            a = a * 0.5
            x = x - y * 0.01
        return a, x

    def copied(a, b, steps):
        for _ in range(steps):
            a, b = a + b[::-1], b + a[::-1]
        return a, b, a.sum()

    check(lambda a, b, n: shifted(a.copy(), b.copy(), n), grid(), grid(), 3)
    assert swaps(check(crossed, grid(), grid(), 3)) >= 1
    check(copied, grid(), grid(), 3)
    check(products, grid(5, 5), grid(5, 1), 3)


def test_reshaped_and_row_wise_reads():
    def reshaped(a, steps):
        for _ in range(steps):
            flat = a.reshape(-1)
            a = a + flat[::-1].reshape(a.shape)
        return a

    def rows(a, steps):
        for _ in range(steps):
            a = a - a.mean(axis=1, keepdims=True)
            a = a / (1 + np.abs(a).sum(axis=0))
        return a

    def sorted_rows(a, steps):
        for _ in range(steps):
            a = np.sort(a, axis=0) + a
        return a

    for function in (reshaped, rows, sorted_rows):
        check(function, grid(), 3)


def test_nested_loops_and_choices():
    def nested(a, b, steps):
        a, b = a.copy(), b.copy()
        for _ in range(steps):
            for k in range(3):
                a[1:, :] += 0.1 * b[:-1, :]
                b[:, 1:] -= a[:, 1:] * k
            if a[0, 0] > 0:
                a[2:, :] *= 0.5
            else:
                b[:2, :] += a[2:4, :]
        return b, a

    check(nested, grid(), grid(), 4)


def test_an_error_in_a_step_leaves_the_arguments():
    def pick(a, index, steps):
        for k in range(steps):
            a = a * 0.5 + a[0, index[k]]
        return a

    a, index = grid(), np.array([1, 2, 9])
    kept = a.copy()
    compiled = aotarray.jit(pick, control_flow="python")
    with pytest.raises(IndexError):
        compiled(a, index, 3)
    np.testing.assert_array_equal(a, kept)
    check(pick, a, index, 2)


def test_results_lie_where_the_caller_wants_them():
    fields = [grid() for _ in range(3)]
    wave = np.sin(np.arange(4.0))
    expected = stencils.fdtd(*fields, wave)
    compiled = aotarray.jit(stencils.fdtd, control_flow="python")
    wide = [np.zeros((7, 12)).T[::2] for _ in range(3)]
    compiled(*fields, wave, out=tuple(wide))
    over = copies(fields)  # results over the arguments
    compiled(*over, wave, out=tuple(over))
    turned = copies(fields)
    compiled(*turned, wave, out=(turned[1], turned[2], turned[0]))
    for k, want in enumerate(expected):
        np.testing.assert_array_equal(wide[k], want)
        np.testing.assert_array_equal(over[k], want)
        np.testing.assert_array_equal(turned[(k + 1) % 3], want)


def test_large_arrays_on_many_threads():
    fields = [RNG.normal(size=(300, 400)) for _ in range(3)]
    wave = np.sin(np.arange(6.0))
    for found, want in zip(
        aotarray.jit(stencils.fdtd, control_flow="python")(*fields, wave), stencils.fdtd(*fields, wave), strict=True
    ):
        np.testing.assert_array_equal(found, want)


# -- random loops -----------------------------------------------------------------------------------
SLICES = [slice(None), slice(1, None), slice(None, -1), slice(1, -1), slice(2, None), slice(None, None, -1)]
SLICES += [slice(None, None, 2), slice(0, 1), slice(-2, None)]


def random_step(rng):
    """A step of a few assignments to slices of three 6 x 6 arrays, which may then change places."""
    length = {k: len(range(6)[s]) for k, s in enumerate(SLICES)}

    def pick(count):
        """Slices of `count` elements."""
        return SLICES[rng.choice([k for k, n in length.items() if n == count])]

    kinds = []
    for _ in range(rng.integers(1, 5)):
        rows, columns = SLICES[rng.integers(len(SLICES))], SLICES[rng.integers(len(SLICES))]
        counts = len(range(6)[rows]), len(range(6)[columns])
        target, *sources = (int(k) for k in rng.integers(0, 3, 3))
        same = rng.random() < 0.5  # read where it is written
        read = [(rows, columns) if same else (pick(counts[0]), pick(counts[1])) for _ in range(2)]
        kinds.append((int(rng.integers(0, 7)), target, (rows, columns), sources, read))
    order = [int(k) for k in (rng.permutation(3) if rng.random() < 0.7 else rng.integers(0, 3, 3))]
    if rng.random() < 0.5:
        order = [0, 1, 2]

    def step(k, arrays):
        a = [x.copy() for x in arrays]
        for kind, target, place, (first, second), (here, there) in kinds:
            if kind == 0:
                a[target][place] = 0.5 * a[first][here] + 0.25 * a[second][there]
            elif kind == 1:
                a[target][place] -= 0.5 * a[first][here]
            elif kind == 2:
                a[target] = 0.5 * a[first] + k
            elif kind == 3:
                a[target] = a[target] - 0.01 * a[first].sum()
            elif kind == 4:
                a[target] = 0.5 * a[target] + 0.5 * a[first].T
            elif kind == 5:
                a[target] = a[first] - 0.1 * a[second].max(axis=1, keepdims=True)
            else:
                a[target] = np.where(arrays[first] > 0, a[target], 0.5 * arrays[second])
        return tuple(a[k] for k in order)

    return step


@pytest.mark.parametrize("block", range(10))
def test_random_loops(block):
    """12 loops a block; the first of them compiled too."""
    for seed in range(12 * block, 12 * block + 12):
        rng = np.random.default_rng(seed)
        step = random_step(rng)

        def run(a, b, c, step=step):
            return aotarray.fori_loop(0, 3, step, (a, b, c))

        def plain(a, b, c, step=step):
            arrays = (a, b, c)
            for k in range(3):
                arrays = step(k, arrays)
            return arrays

        arguments = [rng.normal(size=(6, 6)) for _ in range(3)]
        expected = plain(*copies(arguments))
        plan = aotarray.lower(run, *arguments).plan
        found = [run_plain(plan, copies(arguments))]
        if seed % 12 == 0:
            found.append(aotarray.jit(run)(*copies(arguments)))
        for results in found:
            for one, other in zip(results, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12, err_msg=f"seed {seed}")
