"""The IR of scalar functions: deterministic, vectorised without calls, the same bits however it is run."""

from __future__ import annotations

import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aotarray import vecmath
from aotarray.vecmath.arrays import array_function, loop, optimise
from aotarray.vecmath.primitives import NUMPY, fma
from aotarray.vecmath.registry import FLOATS

EVERY = [
    (name, dtype)
    for name, f in sorted(vecmath.FUNCTIONS.items())
    if not f.imported  # C's, which only the launcher brings
    for dtype in f.dtypes
]
OF_FLOATS = [(name, dtype) for name, dtype in EVERY if dtype in FLOATS]


def points(dtype: str, arity: int, count: int) -> list[Any]:
    """Bit patterns from everywhere, and numbers near 1 and of moderate size."""
    rng = np.random.default_rng(11)
    if dtype not in FLOATS:
        info = np.iinfo(NUMPY[dtype]) if dtype != "b1" else None
        if info is None:
            return [rng.integers(0, 2, count).astype(np.bool_) for _ in range(arity)]
        whole = (info.min, info.max, count, NUMPY[dtype], True)
        return [rng.integers(*whole) for _ in range(arity)]
    word = np.uint64 if dtype == "f64" else np.uint32
    anywhere = rng.integers(0, np.iinfo(word).max, (arity, count // 2), dtype=word).view(NUMPY[dtype])
    near = rng.standard_normal((arity, count - count // 2)) * rng.choice([0.3, 1, 5, 100], count - count // 2)
    return [np.concatenate([a, b.astype(NUMPY[dtype])]) for a, b in zip(anywhere, near, strict=True)]


def same(a: Any, b: Any) -> bool:
    unsigned = f"u{a.dtype.itemsize}"
    return bool(np.all((a.view(unsigned) == b.view(unsigned)) | ((a != a) & (b != b))))


def test_definitions_do_not_depend_on_order_or_process() -> None:
    symbols = [vecmath.symbol(name, dtype) for name, f in vecmath.FUNCTIONS.items() for dtype in f.dtypes]
    text = vecmath.definitions(symbols)
    assert text == vecmath.definitions(reversed(symbols))
    program = (
        "import sys; from aotarray import vecmath as v\n"
        "s = [v.symbol(n, d) for n, f in v.FUNCTIONS.items() for d in f.dtypes]\n"
        "sys.stdout.write(v.definitions(s)); assert not {'numba', 'llvmlite'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == text


def test_signature() -> None:
    assert vecmath.signature("aot_sin_f64") == ("f64", ("f64",))
    assert vecmath.signature("aot_isnan_f32") == ("b1", ("f32",))
    assert vecmath.signature("aot_float_to_half_f32") == ("u16", ("f32",))
    assert vecmath.signature("aot_floor_divide_i8") == ("i8", ("i8", "i8"))
    with pytest.raises(KeyError, match="no scalar function aot_sin_i8"):
        vecmath.signature("aot_sin_i8")


def test_without_fma_leaves_no_fma() -> None:
    symbols = [vecmath.symbol(name, dtype) for name, dtype in EVERY]
    assert not re.search(r"call \S+ @llvm\.fma", vecmath.without_fma(vecmath.definitions(symbols)))


def test_fused_multiply_add_of_float32_rounds_once() -> None:
    rng = np.random.default_rng(13)
    words = rng.integers(0, 1 << 32, (3, 3000), dtype=np.uint32)
    words[:, 1000:] = words[:, 1000:] & 0x8FFFF001 | 0x3F000000  # sums next to ties
    for a, b, c in words.view(np.float32).T:
        if np.isfinite(a) and np.isfinite(b) and np.isfinite(c):
            exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
            with np.errstate(all="ignore"):
                found = fma(a, b, c)
            if np.isfinite(found):
                gap = abs(Fraction(float(found)) - exact)
                sides = (np.nextafter(found, np.float32(x)) for x in (-3.4e38, 3.4e38))
                assert all(gap <= abs(Fraction(float(side)) - exact) for side in sides)


@pytest.mark.parametrize(("name", "dtype"), EVERY)
def test_python_gives_the_bits_of_the_machine(name: str, dtype: str) -> None:
    arguments = points(dtype, vecmath.FUNCTIONS[name].arity, 60)
    function = vecmath.python_function(name)
    plain = [function(*(a[i] for a in arguments)) for i in range(60)]
    found = array_function(name, dtype)(*arguments)
    assert {type(x) for x in plain} == {found.dtype.type}
    assert same(np.array(plain), found)


@pytest.mark.parametrize(("name", "dtype"), EVERY)
def test_width_and_position_do_not_change_bits(name: str, dtype: str) -> None:
    arguments = points(dtype, vecmath.FUNCTIONS[name].arity, 1003)
    found = array_function(name, dtype)(*arguments)
    assert same(found, array_function(name, dtype, vectorise=False)(*arguments))
    shifted = array_function(name, dtype)(*(a[5:-3] for a in arguments))
    assert same(found[5:-3], shifted)
    if has_level_4():
        assert same(found, array_function(name, dtype, "x86-64-v4")(*arguments))


def has_level_4() -> bool:
    cpuinfo = Path("/proc/cpuinfo")
    flags = cpuinfo.read_text() if cpuinfo.exists() else ""
    return all(f in flags for f in ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"))


@pytest.mark.parametrize(("name", "dtype"), OF_FLOATS)
def test_loops_over_floats_are_vectors(name: str, dtype: str) -> None:
    text = str(optimise(loop(name, dtype), "x86-64-v4")[0])
    body = text[text.index("define void @loop") :]
    vector = re.search(r"^vector\.body:.*?(?=^middle\.block:)", body, re.MULTILINE | re.DOTALL)
    assert vector, "not vectorised"
    wide = r"<(8|16) x (double|i64)>" if dtype == "f64" else r"<(8|16|32) x (float|i32)>"
    assert re.search(wide, vector[0])
    # The one call that may stay is in a block of its own, taken where a lane is out of the ordinary.
    ordinary = re.split(r"^long\S*:", vector[0], flags=re.MULTILINE)[0]
    assert not re.search(r"call \w+ (double|float) @", ordinary)
    assert not re.search(r"call .*@aot_\w+_x\d+", ordinary)
