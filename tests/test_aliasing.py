"""Arrays that share memory, or do not: writes through views, generated programs and hand-written ones, as NumPy has it.

AOTARRAY_FUZZ=20 runs twenty times as many programs. A failure prints a script that shows it by itself.
"""

import os

import numpy as np
import pytest
import reference
from mutating import Program, build, copied, shrink
from plain_program import run_plain

import aotarray
from aotarray import compiler
from aotarray.errors import UnsupportedError
from aotarray.interpret import interpret
from aotarray.passes import simplify
from aotarray.verify import verify

SCALE = int(os.environ.get("AOTARRAY_FUZZ", "1"))
BLOCKS = range(8)
STRIDE = 1_000_000

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    """These programs are of no use to anyone later."""
    before = os.environ.get("AOTARRAY_CACHE_DIR")
    os.environ["AOTARRAY_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    compiler.cache.cache_clear()
    yield
    os.environ.pop("AOTARRAY_CACHE_DIR")
    if before is not None:
        os.environ["AOTARRAY_CACHE_DIR"] = before
    compiler.cache.cache_clear()


# -- generated programs -------------------------------------------------------------------------------
def flat(value):
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, (tuple, list)) else [value]


def difference(found, expected):
    """What is wrong with the results, to the bit but for the sign of zero, or nothing."""
    for k, (mine, numpys) in enumerate(zip(map(np.asarray, flat(found)), expected, strict=True)):
        if (mine.dtype, mine.shape) != (numpys.dtype, numpys.shape):
            return f"result {k}: {mine.dtype} {mine.shape}, not {numpys.dtype} {numpys.shape}"
        if not np.array_equal(mine, numpys):
            return f"result {k}:\n{mine}\nnot\n{numpys}"
    return ""


def sharing(results, arguments, before):
    """Results have memory of their own, arguments keep their bytes."""
    for k, result in enumerate(results):
        for other in (*arguments, *results[:k]):
            if isinstance(other, np.ndarray) and np.shares_memory(result, other):
                return f"result {k} shares memory with another result or an argument"
    changed = [
        k for k, (a, b) in enumerate(zip(arguments, before, strict=True)) if a.tobytes() != b.tobytes()
    ]
    return f"arguments {changed} were changed" if changed else ""


def eager(program, given):
    """The function run by NumPy with our own loops, outside of any trace."""
    with np.errstate(all="ignore"):
        return program.function(aotarray)(*map(copied, given))


def graphs(program, given):
    graph = verify(aotarray.trace(program.function(aotarray), *given))
    return interpret(graph, given)


def simplified(program, given):
    graph = verify(simplify(verify(aotarray.trace(program.function(aotarray), *given))), simplified=True)
    return interpret(graph, given)


def plain(program, given):
    return run_plain(aotarray.lower(program.function(aotarray), *given).plan, given)


def failure(program, ways, compiled=False):
    """(which input, what) of the first failure in one of the ways; a refusal that names the way round is none."""
    run = aotarray.jit(program.function(aotarray)) if compiled else None
    for which, given in enumerate(program.inputs):
        expected = program.expected(which)
        try:
            for way in ways:
                if wrong := difference(way(program, given), expected):
                    return which, f"{way.__name__}: {wrong}"
            if run is not None:
                mine = [copied(a) for a in given]
                results = flat(run(*mine))
                if wrong := difference(results, expected) or sharing(results, mine, given):
                    return which, f"jit: {wrong}"
        except Exception as error:
            if not refused(error):
                return which, f"{type(error).__name__}: {error}"
    return None


def refused(error):
    """Reshapes that may be views or copies; copies of arguments that may be views; bodies that index nothing."""
    text = str(error)
    if isinstance(error, UnsupportedError):
        return "reshape a copy" in text
    if isinstance(error, aotarray.errors.TraceError):
        return "writing into argument" in text
    return isinstance(error, IndexError) and "with size 0" in text


def examine(program, ways, compiled=False):
    found = failure(program, ways, compiled)
    if found is None:
        return

    def fails(candidate: Program) -> bool:
        again = failure(candidate, ways, compiled)
        return again is not None and again[1].split(":")[0] == found[1].split(":")[0]

    small = shrink(program, fails)
    which, what = failure(small, ways, compiled) or found
    pytest.fail(small.report(what, which))


@pytest.mark.parametrize("block", BLOCKS)
def test_generated_programs_write_as_numpy_does(block):
    for k in range(26 * SCALE):
        examine(build(block * STRIDE + k), (eager, graphs, simplified, *((plain,) if k % 4 == 0 else ())))


@pytest.mark.parametrize("block", BLOCKS)
def test_compiled_programs_write_as_numpy_does(block):
    """Each compiled once, but for sizes that are 1 or equal, and run with three inputs."""
    for k in range(25 * SCALE):
        examine(build(block * STRIDE + 500_000 + k, 3, control=k % 4 == 0), (), compiled=True)


def test_programs_come_from_their_seed():
    assert build(7).source() == build(7).source()
    assert all(np.array_equal(a, b) for a, b in zip(build(7).inputs[0], build(7).inputs[0], strict=True))


def test_failing_programs_shrink_to_what_fails():
    """Here "fails" means: writes through a transpose of something."""
    seed = next(s for s in range(1000) if ".T[" in build(s).source())
    small = shrink(build(seed), lambda p: ".T[" in p.source())
    assert ".T[" in small.source()
    assert small.source().count("\n") < build(seed).source().count("\n")
    assert small.expected(0) is not None


# -- functions that give their argument back, or a copy of it --------------------------------------------
ALIASES = """
np.roll(y, 0); np.roll(y, 0, 0); np.roll(y[:1, :1], 1); np.repeat(y, 1); np.repeat(y, 1, axis=0); np.tile(y, 1)
np.concatenate([y]); np.stack([y]); np.hstack([y]); np.vstack([y]); np.block([y]); np.pad(y, 0); np.pad(y, (0, 1))
np.sort(y[:1], axis=0); np.partition(y[:1], 0, axis=0); np.round(y, 0); np.round(i); np.floor(i); np.fix(i); np.rint(y)
np.nan_to_num(i); np.nan_to_num(y, copy=False); np.nan_to_num(y); np.clip(y, None, 100); np.clip(i, -1000, 1000)
np.abs(u); np.abs(b); np.conj(y); y.conj(); np.conjugate(y); np.real(y); np.real(z); z.real; z.imag; np.imag(z)
z[1:].real; z.real.reshape(-1); z.T.imag; z.reshape(-1).real; np.imag(z)[::-1]; y.real; np.positive(y); +y; y.T.T; y.mT
y.sum(axis=()); y.max(axis=()); np.mean(y, axis=()); np.any(b, axis=()); y[:1].sum(axis=0); y[:1].max(axis=0)
np.cumsum(y[:1], axis=0); np.diff(y, n=0); np.triu(y, -10); np.tril(y, 10); np.flip(y, ()); np.flip(y, 0)
np.rot90(y, 4); np.rot90(y, 0); np.rot90(y); np.fliplr(y); np.squeeze(y); np.expand_dims(y, 0); np.atleast_1d(y)
np.atleast_3d(y); np.moveaxis(y, 0, 0); np.swapaxes(y, 0, 0); y.transpose(0, 1); np.rollaxis(y, 0); np.ravel(y)
y.ravel(); y.flatten(); y.reshape(3, 4); y.reshape(-1); np.reshape(y, (3, 4), copy=True); y.reshape(12, copy=True)
np.reshape(y, 12); np.ravel(y[0, ::2]) * 1; np.asarray(y); np.asanyarray(y); np.array(y); np.array(y, copy=None)
np.asarray(y, dtype=float); np.asarray(y, copy=True); np.array(y, ndmin=3); np.array(y, ndmin=3, copy=None)
np.array([y]); np.ascontiguousarray(y); np.ascontiguousarray(y[0]); np.ascontiguousarray(y[1:]); np.asfortranarray(y[0])
y.astype(float); y.astype(float, copy=False); y.astype(np.float32, copy=False); np.astype(y, float, copy=False)
np.astype(y, float); np.copy(y); y.copy(); y.__copy__(); np.broadcast_arrays(y)[0]; np.meshgrid(y[0], copy=False)[0]
np.meshgrid(y[0], y[1])[0]; np.meshgrid(y[0], y[1], sparse=True)[0]; np.meshgrid(y[0], y[1], sparse=True, copy=False)[0]
np.split(y, 1)[0]; np.array_split(y, 2)[1]; np.hsplit(y, 2)[0]; np.take(y, [0, 1, 2], axis=0); y[:]; y[...]; y[()]
y[[0, 1, 2]]; y[0]; y[0, ...]; y[None]; np.where(True, y, 0); np.where(b, y, y); np.select([b], [y])
np.piecewise(y, [y > 100], [0, lambda q: q]); np.einsum('ij', y); np.einsum('ij->ij', y); np.einsum('ij->ji', y)
np.linalg.matrix_power(y[:3, :3], 1); np.linalg.multi_dot([y, np.eye(4)]); np.fft.fftshift(y, axes=()); np.unwrap(y)
np.maximum(y, y); y * 1; y + 0; y ** 1; i // 1; i | 0; i << 0; np.logical_or(b, False); np.ldexp(y, 0)
np.append(y, []); np.median(y[:1], axis=0); np.average(y[:1], axis=0); np.diag(y[0]); np.outer(1, y); np.kron(1, y)
np.convolve(y[0], [1]); y.round(20); y.clip(-1000); y.repeat(1, axis=0); y.take([0, 1, 2], axis=0); y.swapaxes(0, 1)
"""


@pytest.mark.parametrize(
    "text", [t.strip() for line in ALIASES.splitlines() for t in line.split(";") if t.strip()]
)
def test_what_functions_return_shares_memory_where_numpys_does(text):
    """Write into the result, and look at what it was made of."""
    if ("copy=" in text and "reshape" in text) and np.lib.NumpyVersion(np.__version__) < "2.1.0":
        pytest.skip("this NumPy has no copy= of reshape")
    lines = [
        "def f(x):", "    y = x.copy()", "    i = y.astype(int)", "    u = y.astype(np.uint8)", "    b = y > 3",
        "    z = y + 1j * y", f"    r = {text}", "    r[...] = ~r if r.dtype == bool else 99",
        "    return y, i, u, b, z, r",
    ]  # fmt: skip
    scope = {"np": np}
    exec("\n".join(lines), scope)
    x = np.arange(12.0).reshape(3, 4) + 1
    assert difference(interpret(aotarray.trace(scope["f"], x), [x]), scope["f"](x)) == ""


READ_ONLY = [
    "np.diagonal(y)", "y.diagonal()", "np.broadcast_to(y, (2, 3, 4))", "np.broadcast_to(y, (3, 4))", "np.imag(y)",
    "np.diagonal(y)[1:]", "np.broadcast_to(y[0], (3, 4)).T",
]  # fmt: skip


@pytest.mark.parametrize("text", READ_ONLY)
def test_views_that_numpy_makes_read_only_are(text):
    scope = {"np": np}
    exec(f"def f(x):\n    y = x.copy()\n    r = {text}\n    r[...] = 1\n    return y", scope)
    for way in (scope["f"], aotarray.jit(scope["f"])):
        with pytest.raises(ValueError, match="assignment destination is read-only"):
            way(np.arange(12.0).reshape(3, 4))


# -- what lies in another order than C's -----------------------------------------------------------------
OTHER_ORDER = [
    "x.T + 1", "np.copy(x.T)", "np.array(x.T)", "np.zeros_like(x.T)", "np.full_like(x.T, 2)", "x.T.astype(np.float32)",
    "np.sqrt(x.T) * 2", "np.where(x.T > 0, x.T, 0)", "-x.swapaxes(0, 1)", "abs((x.T + 1) * 2)", "x[:, [0, 1, 2, 3]]",
    "np.concatenate([x[:1].T, x[1:].T], axis=1)", "np.cumsum(x.T, axis=0)",
    "np.sum(x.T[None] * np.ones((2, 1, 1)), axis=0)",
]  # fmt: skip


@pytest.mark.parametrize("text", OTHER_ORDER)
@pytest.mark.parametrize("flat", ["y.reshape(-1)", "y.ravel()", "np.reshape(y, 12)", "np.ravel(y)"])
def test_reshapes_of_other_orders_are_not_taken_for_views(text, flat):
    """NumPy copies here, so a write does not reach `y`."""
    scope = {"np": np}
    exec(f"def f(x):\n    y = {text}\n    z = {flat}\n    z[0] = 99\n    return z, y", scope)
    x = np.arange(12.0).reshape(3, 4)
    assert 99 not in scope["f"](x)[1]
    with pytest.raises(UnsupportedError, match="reshape a copy"):
        aotarray.trace(scope["f"], x)


C_ORDER = [
    "x + 1", "x.T.copy()", "np.copy(x)", "np.zeros_like(x)", "x[::-1] * 2", "x[:, ::2] + x[:, :2]", "x[[0, 1, 2]]",
    "x + x[0]", "x[:, :1] + x[0]", "np.zeros((3, 4))", "x.sum(axis=0)[None] * x",
]  # fmt: skip


@pytest.mark.parametrize("text", C_ORDER)
def test_reshapes_of_c_order_are_views(text):
    scope = {"np": np}
    exec(f"def f(x):\n    y = {text}\n    z = y.reshape(-1)\n    z[0] = 99\n    return z, y", scope)
    x = np.arange(12.0).reshape(3, 4)
    assert 99 in scope["f"](x)[1]
    assert difference(interpret(aotarray.trace(scope["f"], x), [x]), scope["f"](x)) == ""


def test_ravel_of_parts_is_a_copy():
    def f(x):
        z = x + 1j * x
        a = np.ravel(z.real)
        a[0] = 99
        return a

    def reads(x):
        z = x + 1j * x
        a = np.ravel(z.real)
        a[0] = 99
        return z

    x = np.arange(12.0).reshape(3, 4)
    assert difference(interpret(aotarray.trace(f, x), [x]), [f(x)]) == ""
    assert not (reads(x) == 99).any()
    with pytest.raises(UnsupportedError, match="reshape a copy"):
        aotarray.trace(reads, x)  # of one element it would be a view


# -- loops and choices own their arrays, in plain Python too ------------------------------------------------
def carry_the_same_array_twice(x):
    def body(i, carry):
        a, b = carry
        a += b + i
        return a, a

    return aotarray.fori_loop(0, 3, body, (x, x))


def carry_what_is_captured(x):
    y = x.copy()

    def body(i, carry):
        carry = carry * 2
        carry[0] = i
        return y

    return aotarray.fori_loop(0, 3, lambda i, c: body(i, c), x), y


def write_into_what_was_captured_and_carried(x):
    y = x.copy()

    def body(carry):
        k, a = carry
        a[0] += 1
        return k + 1, y

    return aotarray.while_loop(lambda c: c[0] < 3, body, (0, x)), y


def stack_what_changes_later(x):
    def body(a, row):
        a[0] += row[0]
        return a, a

    return aotarray.scan(body, x[0], x)


def swap_at_each_step(x):
    def body(i, carry):
        a, b = carry
        a[0] += i
        return b, a

    return aotarray.fori_loop(0, 5, body, (x, x * 2))


def choose_an_operand(x):
    y = x.copy()
    z = aotarray.cond(y.sum() > 0, lambda a: a, lambda a: a[::-1], y)
    z[0] = 50
    return y, z


def write_into_an_operand(x):
    y = x.copy()

    def first(a):
        a[0] = 70
        return a

    z = aotarray.switch(0, [first, lambda a: a + 1], y)
    w = aotarray.cond(True, first, lambda a: a, y)
    return y, z, w


def choose_what_is_captured(x):
    y = x.copy()
    z = aotarray.cond(x.sum() > 0, lambda: y, lambda: y)
    z[0] = 3
    return y, z


def overwrite_all_of_a_view(x):
    def body(i, a):
        np.rot90(a)[0, ::-1] = 3
        a[1:][...] = 2
        return a

    return aotarray.fori_loop(0, 3, body, x)


CONTROL = [
    overwrite_all_of_a_view,
    carry_the_same_array_twice, carry_what_is_captured, write_into_what_was_captured_and_carried,
    stack_what_changes_later, swap_at_each_step, choose_an_operand, write_into_an_operand, choose_what_is_captured,
]  # fmt: skip


@pytest.mark.parametrize("function", CONTROL, ids=lambda f: f.__name__)
def test_loops_and_choices_own_their_arrays(function, monkeypatch):
    x = np.arange(6.0).reshape(3, 2) + 1
    with monkeypatch.context() as patch:
        for name in ("cond", "switch", "while_loop", "fori_loop", "scan"):
            patch.setattr(aotarray, name, getattr(reference, name))
        expected = [np.array(r) for r in flat(function(x.copy()))]
    for way in (function, aotarray.jit(function)):
        mine = x.copy()
        found = way(mine)
        assert difference(found, expected) == ""
        assert np.array_equal(mine, x)


# -- arrays without axes -----------------------------------------------------------------------------------
def zero_axes(x):
    a = x.copy()
    a[...] = 5
    b = np.copy(a)
    b += 1
    c = b.astype(np.float32)
    c[...] = c * 2
    d = a.astype(float, copy=False)
    d[()] = 7
    return a, b, c, d


def test_copies_of_arrays_without_axes_are_arrays():
    x = np.array(2.0)
    assert difference(aotarray.jit(zero_axes)(x), zero_axes(x)) == ""
