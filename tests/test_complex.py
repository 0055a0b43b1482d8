"""Complex elementary functions against NumPy: every pair of special parts, and values from everywhere."""

from __future__ import annotations

import itertools
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from plain_program import run_plain

import aotarray

UNARY = [
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh",
    "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "sign", "reciprocal", "absolute",
]  # fmt: skip
BINARY = ["power", "divide"]
EXACT = {"reciprocal", "divide", "tan", "tanh", "arcsin", "arccos", "arctan", "arcsinh", "arccosh",
         "arctanh", "power"}  # fmt: skip
KINDS = [np.complex64, np.complex128]
#: ulps between two results that are each within 4 of the true value
ULPS = 6


def parts(kind: Any) -> np.ndarray:
    limits = np.finfo(kind)
    usual = [1e-5, 0.3, 0.5, 2.0, 30.0, 88.0, 100.0, 180.0, 700.0, 720.0, 1000.0, 1440.0]
    values = [0.0, 1.0, np.inf, np.nan, limits.tiny, limits.smallest_subnormal, limits.max, *usual]
    return np.array([sign * v for v in values for sign in (1, -1)], limits.dtype)


def pairs(kind: Any, few: bool = False) -> np.ndarray:
    """All combinations of special parts; a NaN has either sign bit."""
    values = parts(kind)[: 14 if few else None]
    z = np.empty(len(values) ** 2, kind)
    z.real, z.imag = np.array(list(itertools.product(values, values))).T
    return z


def spread(kind: Any, seed: int = 0) -> np.ndarray:
    """Values of all sizes, and of magnitude near 1."""
    rng = np.random.default_rng(seed)
    sizes = [1e-8, 0.1, 1, 20, 300]
    z = [
        rng.standard_normal(60) * a + 1j * rng.standard_normal(60) * b
        for a, b in itertools.product(sizes, sizes)
    ]
    return np.concatenate([*z, np.exp(1j * rng.uniform(-4, 4, 500))]).astype(kind)


def loss(name: str, expected: np.ndarray, z: Any) -> np.ndarray:
    """What NumPy's own formula may be off by, beside its roundings: absolute, in each part."""
    eps = np.finfo(expected.dtype).eps
    if name == "log1p":  # NumPy rounds 1 + re
        return np.where(np.isfinite(expected), 4 * eps, 0.0)
    if name == "expm1":  # the difference of two terms
        return np.nan_to_num(4 * eps * (np.abs(np.expm1(z.real)) + 2), nan=0.0, posinf=0.0)
    return np.zeros(expected.shape)


def assert_close(name: str, found: np.ndarray, expected: np.ndarray, z: Any) -> None:
    assert found.dtype == expected.dtype
    two = [("real", found.real, expected.real), ("imag", found.imag, expected.imag)]
    for part, a, b in two if expected.dtype.kind == "c" else [("", found, expected)]:
        same = (np.isnan(a) & np.isnan(b)) | ((a == b) & (np.signbit(a) == np.signbit(b)))
        if name not in EXACT:
            with np.errstate(all="ignore"):
                allowed = ULPS * np.spacing(np.abs(b)) + (loss(name, b, z) if part == "real" else 0.0)
                same |= (a != b) & np.isfinite(a) & np.isfinite(b) & (np.abs(a - b) <= allowed)
        at = np.flatnonzero(~same)[:5]
        assert not at.size, f"{name}, {part}: {z[at]} gives {a[at]}, not {b[at]}"


def quietly(function: Any, *arguments: Any) -> Any:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name: str, kind: Any) -> None:
    function = getattr(np, name)
    compiled = aotarray.jit(lambda z: function(z))
    for z in (pairs(kind), spread(kind)):
        assert_close(name, compiled(z), quietly(function, z), z)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name: str, kind: Any) -> None:
    function = getattr(np, name)
    compiled = aotarray.jit(lambda a, b: function(a, b))
    special = pairs(kind, few=True)
    a, b = np.repeat(special, len(special)), np.tile(special, len(special))
    assert_close(name, compiled(a, b), quietly(function, a, b), a)
    a, b = spread(kind, 1), spread(kind, 2)
    assert_close(name, compiled(a, b), quietly(function, a, b), a)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("exponent", [*range(-5, 6), 99, 100, -99, -100, 0.5, 1.5, 2 + 1j])
def test_powers(exponent: complex, kind: Any) -> None:
    a = np.concatenate([pairs(kind), spread(kind)])
    b = np.full(a.shape, exponent, kind)
    assert_close("power", aotarray.jit(lambda a, b: np.power(a, b))(a, b), quietly(np.power, a, b), a)


@pytest.mark.parametrize("kind", ["c64", "c128"])
def test_generated_source_as_plain_python(kind: str) -> None:
    def compute(z: Any) -> Any:
        return np.stack([getattr(np, name)(z) for name in UNARY if name not in ("absolute", "reciprocal")])

    z = spread(np.complex64 if kind == "c64" else np.complex128)[::40]
    compiled = aotarray.jit(compute)(z)
    (found,) = run_plain(aotarray.lower(compute, f"{kind}[n]").plan, [z])
    np.testing.assert_array_equal(found, compiled)


def test_both_parts_take_one_call() -> None:
    text = aotarray.lower(lambda z: np.arcsin(z) + 1, "c128[n]").asm
    calls = [line for line in text.splitlines() if "call" in line and "aot_complex_asin_f64" in line]
    assert 0 < len(calls) <= 2  # strides as usual, and in general


def test_a_built_module_has_them(tmp_path: Any) -> None:
    def compute(z: Any, w: Any) -> Any:
        return np.exp(z) + np.arcsin(z) ** w, np.log(z) * np.tanh(w)

    aotarray.build(compute, "c128[n], c128[n]", name="complex_module", out=tmp_path)
    z, w = spread(np.complex128, 3), spread(np.complex128, 4)
    np.savez(tmp_path / "given.npz", z=z, w=w)
    program = (
        "import sys; sys.path.insert(0, '.')\n"
        "import numpy as np, complex_module as m; g = np.load('given.npz'); a, b = m.compute(g['z'], g['w'])\n"
        "np.savez('found.npz', a=a, b=b)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    found = np.load(tmp_path / "found.npz")
    for name, expected in zip("ab", aotarray.jit(compute)(z, w), strict=True):
        np.testing.assert_array_equal(found[name], expected)
