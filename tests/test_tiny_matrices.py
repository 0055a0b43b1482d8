"""np.linalg of matrices of up to 4 rows, written out: values, accuracy, errors, sizes, built modules."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import mpmath
import numpy as np
import pytest
from agreement import assert_same, check, leaves

import aotarray

RNG = np.random.default_rng(23)
L = np.linalg


def matrices(dtype, lead, n):
    values = 5 * RNG.standard_normal((*lead, n, n))
    if np.dtype(dtype).kind == "c":
        values = values + 1j * RNG.standard_normal(values.shape)
    values[..., :1, :1] = 0  # row 0 is never the first pivot, unless it is alone
    return (values + 20 * np.eye(n)[::-1]).astype(dtype)


def positive(a):
    """Positive definite matrices of the same dtype; of bools, the identity."""
    square = a.swapaxes(-1, -2).conj() @ a if a.dtype != bool else np.zeros(a.shape)
    return (square + np.eye(a.shape[-1])).astype(a.dtype)


def everything(a, p, b, c):
    return (
        L.det(a), L.inv(a), tuple(L.slogdet(a)), L.solve(a, b), L.solve(a, c), L.cholesky(p),
        L.cholesky(p, upper=True),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int16", "bool"])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("lead", [(), (2, 3), (0,)])
def test_all_routines(dtype, n, lead):
    a = matrices(dtype, lead, n)
    if dtype == "bool":
        a = np.broadcast_to(np.tri(n, dtype=bool), (*lead, n, n))
    right = RNG.standard_normal((*lead, n, 2)).astype("float32")
    check(everything, [a, positive(a), RNG.standard_normal(n), right], scale=3000)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("lead", [(), (2, 3)])
def test_compiled(dtype, lead):
    a = matrices(dtype, lead, 3)
    args = [a, positive(a), RNG.standard_normal(3), RNG.standard_normal((*lead, 3, 2))]
    check(everything, args, compiled=True, scale=3000)


ROUTINES = [
    L.det,
    L.inv,
    L.slogdet,
    L.cholesky,
    lambda a: L.solve(a, a),
    lambda a: L.solve(a, np.ones(a.shape[-1])),
]


@pytest.mark.parametrize("spec", ["f64[n, 3, 3]", "c64[2, 2]", "i64[n, m, 4, 4]", "f32[1, 1]"])
def test_no_routine_is_called(spec):
    for function in ROUTINES:
        assert "linalg" not in str(aotarray.lower(function, spec).graph)


def test_larger_and_open_sizes_stay_calls():
    assert "linalg.det" in str(aotarray.lower(L.det, "f64[n, n]").graph)
    assert "linalg.det" in str(aotarray.lower(L.det, "f64[k, 5, 5]").graph)


def test_other_sizes_are_traced_again():
    compiled = aotarray.jit(lambda a, b: (L.inv(a), L.solve(a, b), a @ b))
    for n in (2, 3, 6, 2, 1, 4, 5, 0):
        a, b = matrices("f8", (3,), n), RNG.standard_normal(n)
        for found, expected in zip(compiled(a, b), (L.inv(a), L.solve(a, b), a @ b), strict=True):
            assert_same(found, expected, scale=3000)


# -- accuracy ---------------------------------------------------------------------------------------------
def exact(a, b):
    """inv, solve and det in 60 digits."""
    with mpmath.workdps(60):
        m = mpmath.matrix(a.tolist())
        inverse, solution, det = m**-1, mpmath.lu_solve(m, mpmath.matrix(b.tolist())), mpmath.det(m)
        n = len(b)
        rows = [[inverse[i, j] for j in range(n)] for i in range(n)]
        return np.array(rows), np.array([solution[i] for i in range(n)]), np.array(det)


def worst(found, true):
    """The largest error, relative to the largest element."""
    with mpmath.workdps(60):
        error = [
            abs(mpmath.mpmathify(complex(x)) - t)
            for x, t in zip(np.ravel(found), np.ravel(true), strict=True)
        ]
        return float(max(error) / max(abs(t) for t in np.ravel(true)))


def awkward(kind, n):
    """Ill-conditioned or badly scaled matrices."""
    a = RNG.standard_normal((n, n))
    if kind == "hilbert":
        return 1 / (np.arange(n)[:, None] + np.arange(n) + 1.0) + 1e-9 * a
    if kind == "rows":
        return a * 10.0 ** RNG.integers(-12, 12, (n, 1))
    if kind == "columns":
        return a * 10.0 ** RNG.integers(-12, 12, n)
    if kind == "nearly singular":
        a[-1] = a[0] * (1 + 1e-10) + 1e-11 * a[-1]
        return a
    if kind == "tiny pivot":
        a[0, 0] = 1e-17
        return a
    return a + 1j * RNG.standard_normal((n, n))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_as_accurate_as_numpy(n):
    ours = aotarray.jit(lambda a, b: (L.inv(a), L.solve(a, b), L.det(a)))
    totals = {}
    for kind in ("hilbert", "rows", "columns", "nearly singular", "tiny pivot", "complex"):
        for _ in range(15):
            a, b = awkward(kind, n), RNG.standard_normal(n)
            true = exact(a, b)
            for k, (found, numpys) in enumerate(
                zip(ours(a, b), (L.inv(a), L.solve(a, b), L.det(a)), strict=True)
            ):
                mine, theirs = totals.setdefault((kind, k), ([], []))
                mine.append(worst(found, true[k]))
                theirs.append(worst(numpys, true[k]))
    for key, (mine, theirs) in totals.items():
        assert max(mine) <= 4 * max(theirs) + 4e-16, key
        assert np.mean(mine) <= 2 * np.mean(theirs) + 4e-16, key


def test_determinants_neither_overflow_nor_underflow_on_the_way():
    found = aotarray.jit(lambda a: (L.det(a), L.slogdet(a)[1]))
    for n in (3, 4):
        for _ in range(50):
            exponents = RNG.integers(-300, 300, n)
            exponents[-1] = np.clip(-exponents[:-1].sum() + RNG.integers(-200, 200), -300, 300)
            a = np.diag(RNG.permutation(10.0**exponents))
            with np.errstate(all="ignore"):
                expected = L.det(a), L.slogdet(a)[1]
            if 1e-290 < abs(expected[0]) < 1e290:
                np.testing.assert_allclose(found(a)[0], expected[0], rtol=1e-12)
            np.testing.assert_allclose(found(a)[1], expected[1], rtol=1e-12)


# -- errors -----------------------------------------------------------------------------------------------
SINGULAR = [np.zeros((3, 3)), np.array([[1.0, 2], [2, 4]]), np.zeros((1, 1), "c8"), np.ones((4, 4), int)]


@pytest.mark.parametrize("a", SINGULAR, ids=lambda a: f"{a.dtype}{len(a)}")
def test_singular_matrices(a):
    batch = np.stack([np.eye(len(a), dtype=a.dtype), a])
    for x in (a, batch):
        for function in (L.inv, lambda a: L.solve(a, a[..., 0, 0].sum() + np.ones(a.shape[-1]))):
            with pytest.raises(L.LinAlgError, match=r"^Singular matrix$"):
                aotarray.jit(function)(x)
        check(lambda a: (L.det(a), tuple(L.slogdet(a))), [x], exact=True, compiled=True)


def test_not_positive_definite():
    for a in (-np.eye(2), np.array([[1.0, 2], [2, 1]]), np.full((2, 2), np.nan), np.diag([1.0, 0.0, 1.0])):
        with pytest.raises(L.LinAlgError, match=r"^Matrix is not positive definite$"):
            aotarray.jit(L.cholesky)(a)
    half = np.array([[4.0, 9.0], [1.0, 3.0]])  # only one triangle is read
    check(lambda a: (L.cholesky(a), L.cholesky(a.T, upper=True)), [half], scale=10)


def test_nan_is_not_singular():
    a = np.array([[np.nan, 1.0], [1.0, 2.0]])
    assert np.isnan(aotarray.jit(L.inv)(a)).all()
    assert np.isnan(aotarray.jit(L.det)(a))


def test_singular_only_where_it_is_computed():
    def solve(a, b):
        return aotarray.cond(L.det(a) == 0, lambda: b, lambda: L.solve(a, b))

    compiled = aotarray.jit(solve)
    b = np.array([1.0, 2.0])
    assert np.array_equal(compiled(np.zeros((2, 2)), b), b)
    np.testing.assert_allclose(compiled(2 * np.eye(2), b), b / 2)


USE = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np
from tiny_aot import solve
a = np.array([[4.0, 1.0], [1.0, 3.0]])
assert np.allclose(solve(a, np.array([1.0, 2.0])), np.linalg.solve(a, [1.0, 2.0]), rtol=1e-14)
try:
    solve(np.ones((2, 2)), np.ones(2))
except np.linalg.LinAlgError as error:
    print(error)
print(sorted(m for m in sys.modules if m.split(".")[0] in ("numba", "llvmlite", "aotarray")))
"""


def test_built_module(tmp_path):
    def solve(a, b):
        return np.linalg.solve(a, b)

    aotarray.build(solve, "f64[2, 2], f64[2]", name="tiny_aot", out=tmp_path)
    use = textwrap.dedent(USE.format(folder=str(tmp_path)))
    done = subprocess.run([sys.executable, "-c", use], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["Singular matrix", "[]"]


def test_inside_loops():
    def relax(a, x):
        return aotarray.fori_loop(0, 5, lambda k, x: L.solve(a, x) + L.det(a) * x, x)

    a, x = matrices("f8", (), 3), RNG.standard_normal(3)
    expected = x
    for _ in range(5):
        expected = L.solve(a, expected) + L.det(a) * expected
    assert_same(aotarray.jit(relax)(a, x), expected, scale=3000)
    assert leaves(expected)
