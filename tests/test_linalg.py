"""np.linalg and np.fft against NumPy: dtypes, batches, empty arrays, named results, errors, a built module."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from agreement import check

import aotarray
from aotarray.errors import UnsupportedError

RNG = np.random.default_rng(11)
L, F = np.linalg, np.fft


def stack(dtype, *shape):
    """Well-conditioned square matrices."""
    values = RNG.standard_normal((*shape, shape[-1]))
    if np.dtype(dtype).kind == "c":
        values = values + 1j * RNG.standard_normal(values.shape)
    return (values + 4 * np.eye(shape[-1])).astype(dtype)


def positive(dtype, *shape):
    values = stack(dtype, *shape)
    return (values @ values.conj().swapaxes(-1, -2)).astype(dtype)


SQUARE = [
    lambda a: L.inv(a),
    lambda a: (L.det(a), tuple(L.slogdet(a))),
    lambda a: L.cholesky(a) + 1,
    lambda a: (L.eigh(a).eigenvalues, L.eigvalsh(a, UPLO="U")),
    lambda a: (L.matrix_power(a, -2), L.matrix_power(a, 0), L.matrix_power(a, 3)),
    lambda a: (L.cond(a), L.cond(a, 1), L.matrix_rank(a), L.matrix_rank(a, tol=1e-3)),
    lambda a: L.solve(a, a[..., :1]) * 2,
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int32"])
@pytest.mark.parametrize("shape", [(3,), (2, 3, 4)])
def test_square_matrices(dtype, shape):
    for function in SQUARE:
        check(function, [positive(dtype, *shape)], scale=300)


TALL = [
    lambda a: (tuple(L.qr(a)), tuple(L.qr(a, mode="complete")), L.qr(a, mode="r"), L.qr(a, mode="raw")),
    lambda a: (tuple(L.svd(a)), tuple(L.svd(a, full_matrices=False)), L.svd(a, compute_uv=False)),
    lambda a: L.pinv(a),
    lambda a: (L.matrix_rank(a), L.cond(a)),
    lambda a: [L.norm(a, ord=o, axis=(-2, -1), keepdims=k) for o in (2, -2, "nuc") for k in (False, True)],
]


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 3)])
def test_rectangular_matrices(dtype, shape):
    values = RNG.standard_normal(shape) + (1j * RNG.standard_normal(shape) if "c" in dtype else 0)
    for function in TALL:
        check(function, [values.astype(dtype)], scale=300)


def test_right_hand_sides():
    a, batch = stack("f8", 4), stack("f8", 2, 4)
    check(lambda a, b: L.solve(a, b), [a, RNG.standard_normal(4)], scale=100)
    check(lambda a, b: L.solve(a, b), [batch, RNG.standard_normal(4)], scale=100)
    check(lambda a, b: L.solve(a, b), [batch, RNG.standard_normal((4, 3))], scale=100)
    check(lambda a, b: L.solve(a, b), [a, RNG.standard_normal((5, 4, 3)).astype("f4")], scale=100)
    tall = RNG.standard_normal((6, 3))
    for b in (RNG.standard_normal(6), RNG.standard_normal((6, 2))):
        check(lambda a, b: L.lstsq(a, b, rcond=None), [tall, b], scale=100)
        check(lambda a, b: L.lstsq(a.T, b[:3])[0], [tall, b], scale=100)
    check(lambda a: L.tensorinv(a, ind=1), [stack("f8", 6).reshape(6, 2, 3)], scale=100)
    check(lambda a, b: L.tensorsolve(a, b), [stack("f8", 6).reshape(2, 3, 6), np.ones((2, 3))], scale=100)


def test_compiled_with_kernels_around():
    def step(x, p, a, q):
        x = a @ x
        p = a @ p @ a.T + q
        gain = np.linalg.solve(p + np.eye(p.shape[0]), p).T
        w, v = np.linalg.eigh((p + p.T) / 2)
        return x - gain @ x, p - gain @ p, np.sqrt(w), abs(v)

    args = [RNG.standard_normal(4), positive("f8", 4), stack("f8", 4) / 8, np.eye(4)]
    check(step, args, compiled=True, scale=1000)


def test_arguments_are_not_changed():
    a, b = stack("f8", 3), RNG.standard_normal((3, 2))
    before = a.copy(), b.copy()
    compiled = aotarray.jit(lambda a, b: (L.solve(a, b), L.inv(a), tuple(L.qr(a))))
    for args in ((a, b), (np.asfortranarray(a), b[::-1][::-1])):
        compiled(*args)
        assert np.array_equal(args[0], before[0])
        assert np.array_equal(args[1], before[1])


def test_eigenvalues_need_complex_matrices():
    def roots(a):
        w, v = L.eig(a.astype(complex))
        return w, abs(v), L.eigvals(a * (1 + 0j))

    check(roots, [stack("f8", 3)], scale=100)
    with pytest.raises(UnsupportedError, match=r"eigvalsh of symmetric"):
        aotarray.lower(L.eigvals, "f64[n, n]")


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (2, 0, 0)])
def test_empty_matrices(shape):
    for function in (L.inv, L.det, L.eigvalsh, lambda a: L.svd(a, compute_uv=False), lambda a: L.solve(a, a)):
        check(function, [np.zeros(shape)], compiled=True)


def test_errors_are_numpys():
    for function in (L.inv, L.cholesky, lambda a: L.solve(a, a[0])):
        with pytest.raises(L.LinAlgError):
            aotarray.jit(function)(-np.ones((2, 2)))
    with pytest.raises(L.LinAlgError, match="must be square"):
        aotarray.jit(L.inv)(np.ones((2, 3)))
    with pytest.raises(L.LinAlgError, match="at least two-dimensional"):
        aotarray.jit(L.inv)(np.ones(3))
    with pytest.raises(TypeError, match="float16"):
        aotarray.jit(L.inv)(np.ones((3, 3), "f2"))
    with pytest.raises(ValueError, match=r"linalg\.lstsq gave an array .* where the compiled function needs"):
        aotarray.jit(lambda a, b: L.lstsq(a, b)[1])(np.ones((4, 2)), np.ones(4))


# -- transforms -------------------------------------------------------------------------------------------
ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
SEVERAL = [f"{name}{end}" for name in ("fft", "ifft", "rfft", "irfft") for end in ("2", "n")]


def signal(name, shape, dtype):
    real = name in ("rfft", "ihfft", "rfft2", "rfftn")
    values = RNG.standard_normal(shape)
    return values.astype(dtype) if real else (values + 1j * RNG.standard_normal(shape)).astype(
        np.result_type(dtype, np.complex64)
    )  # fmt: skip


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_transforms_along_one_axis(name, dtype):
    function = getattr(F, name)
    for shape in ((8,), (3, 7), (2, 0, 5)):
        check(lambda x: function(x), [signal(name, shape, dtype)], scale=10)
    x = signal(name, (6, 5), dtype)
    check(lambda x: function(x, 9, axis=0, norm="ortho"), [x], scale=10)
    check(lambda x: function(x, n=x.shape[0] + 2, axis=-1), [x], scale=10)


@pytest.mark.parametrize("name", SEVERAL)
def test_transforms_along_several_axes(name):
    function = getattr(F, name)
    x = signal(name, (4, 5, 6), "float64")
    check(
        lambda x: (function(x), function(x, axes=(0, 2)), function(x, s=(6, 4), axes=(1, 0))), [x], scale=10
    )


def test_spectral_derivative_is_compiled():
    def derivative(u, k):
        return np.fft.irfft(1j * k * np.fft.rfft(u), u.shape[0])

    x = np.arange(64) * (2 * np.pi / 64)
    args = [np.sin(3 * x), np.arange(33.0)]
    check(derivative, args, compiled=True, scale=100)
    check(
        lambda x: (F.fftshift(x), F.ifftshift(x), F.fftshift(x, axes=1)),
        [np.arange(15.0).reshape(3, 5)],
        compiled=True,
    )


@pytest.mark.parametrize("n", [1, 8, 9])
def test_frequencies(n):
    def frequencies(x, d):
        n = x.shape[0]
        return F.fftfreq(n), F.fftfreq(n, 0.25), F.rfftfreq(n, d), F.fftfreq(6, d), F.rfftfreq(7)

    check(frequencies, [np.ones(n), 0.3], exact=True, compiled=n == 8)
    lowered = aotarray.lower(lambda x: F.fftfreq(x.shape[0]) * F.fftfreq(len(x), 2), "f64[n]")
    assert "f64[n]" in str(lowered.graph)


def test_transforms_refuse():
    with pytest.raises(ValueError, match="number of FFT data points"):
        aotarray.jit(lambda x: F.fft(x, 0))(np.ones(3))
    with pytest.raises(ValueError, match="number of FFT data points"):
        aotarray.jit(F.fft)(np.ones(0))
    with pytest.raises(TypeError):
        aotarray.jit(F.rfft)(np.ones(3, complex))


# -- built ------------------------------------------------------------------------------------------------
USE = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np
from solvers_aot import solve
a = np.array([[4.0, 1.0], [1.0, 3.0]])
x, w, y, order = solve(a, np.array([1.0, 2.0]), np.array([1, 1]))
assert np.array_equal(x, np.linalg.solve(a, [1.0, 2.0]))
assert np.allclose(w, np.linalg.eigvalsh(a)) and np.array_equal(y, [1.0, 4.0]) and np.array_equal(order, [0, 1])
for bad, error in (((np.zeros((2, 2)), np.ones(2), np.array([0])), np.linalg.LinAlgError),
                   ((a, np.ones(2), np.array([2])), IndexError)):
    try:
        solve(*bad)
    except error:
        print(error.__name__)
print(sorted(m for m in sys.modules if m.split(".")[0] in ("numba", "llvmlite", "aotarray")))
"""


def test_built_module(tmp_path):
    def solve(a, b, idx):
        x = np.linalg.solve(a, b)
        y = b.copy()
        np.add.at(y, idx, 1.0)
        return x, np.linalg.eigvalsh(a), y, np.argsort(b)

    aotarray.build(solve, "f64[n, n], f64[n], i64[k]", name="solvers_aot", out=tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(USE.format(folder=str(tmp_path)))],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["LinAlgError", "IndexError", "[]"]


def test_shown():
    lowered = aotarray.lower(lambda a, b: (np.sort(b), L.svd(a, full_matrices=False).U), "f64[n, m], f64[k]")
    text = str(lowered.graph)
    assert "ndarray.sort(copy(b), axis=-1) : f64[k]" in text
    assert "linalg.svd(a, full_matrices=False, hermitian=False)[0] : f64[n, min(n, m)]" in text
