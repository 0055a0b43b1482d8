"""The launcher on small kernels written in C: every rule of program.py, for jit and inside built modules."""

import contextlib
import gc
import itertools
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from aotarray.aot.module_data import Function, Overload, Variant, module_data
from aotarray.fusion.schedule import MATMUL
from aotarray.program import (
    DTYPES,
    Arg,
    Buffer,
    Check,
    Collapse,
    KernelCall,
    LibraryCall,
    Program,
    RaiseIf,
    Size,
    SizeOp,
    Stride,
)
from aotarray.runtime.encode import encode
from aotarray.runtime.image import image_from_object

launcher = pytest.importorskip("aotarray.runtime._launcher")
compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
pytestmark = pytest.mark.skipif(compiler is None, reason="the kernels of this test need a C compiler")

RUNTIME = Path(launcher.__file__).parent
NUMPY = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
         "float16", "float32", "float64", "complex64", "complex128")  # fmt: skip
CODE = dict(zip(NUMPY, DTYPES, strict=True))

KERNELS = r"""
#include <stdint.h>
#include <string.h>
#ifndef SUFFIX
#define SUFFIX
#endif
#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
#define KERNEL(name) \
    void JOIN(name, SUFFIX)(void *const *p, const int64_t *q, void *scratch, int64_t begin, int64_t end)
#define UNUSED (void)p, (void)q, (void)scratch, (void)begin, (void)end

KERNEL(add)
{
    (void)scratch;
    const double *x = p[0], *y = p[1];
    double *out = p[2];
    for (int64_t i = begin; i < end; i++) out[i * q[2]] = x[i * q[0]] + y[i * q[1]];
}

KERNEL(addf)
{
    (void)scratch;
    const float *x = p[0], *y = p[1];
    float *out = p[2];
    for (int64_t i = begin; i < end; i++) out[i * q[2]] = x[i * q[0]] + y[i * q[1]];
}

/* Three loops over two arrays: sizes in q[0..2], strides of x, y and out after them. */
KERNEL(nest)
{
    (void)scratch;
    const double *x = p[0], *y = p[1];
    double *out = p[2];
    for (int64_t e = begin; e < end; e++) {
        int64_t k = e % q[2], j = e / q[2] % q[1], i = e / q[2] / q[1];
        out[i * q[9] + j * q[10] + k * q[11]] =
            x[i * q[3] + j * q[4] + k * q[5]] + 2 * y[i * q[6] + j * q[7] + k * q[8]];
    }
}

/* The integers that a kernel is given, after collapsing. */
KERNEL(integers)
{
    (void)scratch;
    int64_t *out = p[1];
    for (int64_t i = begin; i < end; i++) for (int n = 0; n < 12; n++) out[n] = q[n];
}

KERNEL(bytes)
{
    (void)scratch;
    for (int64_t i = begin; i < end; i++)
        memcpy((char *)p[1] + i * q[1] * q[2], (const char *)p[0] + i * q[0] * q[2], (size_t)q[2]);
}

KERNEL(fill)
{
    (void)scratch;
    for (int64_t i = begin; i < end; i++) ((double *)p[0])[i] += 1;
}

KERNEL(find_negative)
{
    (void)scratch;
    int64_t *flag = p[1];
    for (int64_t i = begin; i < end; i++)
        if (((const double *)p[0])[i * q[0]] < 0 && !flag[0]) flag[0] = 1, flag[1] = i;
}

/* Writes scratch, reads it back: wrong when threads share it. Slow on purpose. */
KERNEL(through_scratch)
{
    int64_t *out = p[0], *mine = scratch;
    for (int64_t i = begin; i < end; i++) {
        for (int64_t k = 0; k < q[0]; k++) ((volatile int64_t *)mine)[k] = i * 7 + k;
        int64_t sum = 0;
        for (int64_t k = 0; k < q[0]; k++) sum += ((volatile int64_t *)mine)[k] - k;
        out[i] = (uintptr_t)scratch % 64 ? -1 : sum / q[0];
    }
}

/* Which stack it runs on, to tell threads apart. Slow on purpose. */
KERNEL(stack)
{
    (void)q, (void)scratch;
    volatile int64_t spin = 0;
    for (int64_t i = begin; i < end; i++) {
        for (int k = 0; k < 20000; k++) spin += k;
        ((int64_t *)p[0])[i] = (int64_t)((uintptr_t)&spin >> 16);
    }
}

/* Where chunks begin. */
KERNEL(chunks)
{
    (void)q, (void)scratch;
    for (int64_t i = begin; i < end; i++) ((int64_t *)p[0])[i] = begin;
}

KERNEL(nothing) { UNUSED; }

extern void aot_c_exp_c128(double, double, double *);
extern void aot_c_pow_c128(double, double, double, double, double *);
extern double fmod(double, double);
KERNEL(imported)
{
    (void)q, (void)scratch;
    const double *x = p[0], *y = p[1];
    for (int64_t i = begin; i < end; i++) {
        aot_c_exp_c128(x[2 * i], x[2 * i + 1], (double *)p[2] + 2 * i);
        aot_c_pow_c128(x[2 * i], x[2 * i + 1], y[2 * i], y[2 * i + 1], (double *)p[3] + 2 * i);
        ((double *)p[4])[i] = fmod(x[2 * i], y[2 * i]);
    }
}
"""


def compile_kernels(folder: Path, suffix: str = "") -> Path:
    source, output = folder / "kernels.c", folder / f"kernels{suffix}.o"
    source.write_text(KERNELS)
    subprocess.run(
        [compiler, "-O2", "-fPIC", "-fno-tree-vectorize", f"-DSUFFIX={suffix}", "-c", source, "-o", output],
        check=True,
    )
    return output


@pytest.fixture(scope="session")
def load(tmp_path_factory):
    """Makes a Program of the launcher."""
    image = image_from_object(compile_kernels(tmp_path_factory.mktemp("kernels")).read_bytes())
    mapped = launcher.Image(image.code, image.imports, image.got_offset)

    def load(program, result_type=np.ndarray):
        offsets = [image.symbols[kernel] for kernel in program.kernels]
        return launcher.Program(encode(program), program.constants, mapped, offsets, result_type)

    return load


@pytest.fixture(autouse=True)
def two_threads():
    before = launcher.get_num_threads()
    launcher.set_num_threads(2)
    yield
    launcher.set_num_threads(before)


def adder(dtype="f64", cost=1024, kernel="add", **options):
    """x + y in one dimension."""
    return Program(
        name="adder",
        args=(Arg("x", dtype, 1), Arg("y", dtype, 1)),
        slots=(SizeOp("dim", 0, 0), SizeOp("dim", 1, 0)),
        checks=(Check("eq", 0, 1, "x has {a} elements and y {b}"),),
        buffers=tuple(
            Buffer(kind, dtype, (0,), index) for kind, index in (("arg", 0), ("arg", 1), ("out", 0))
        ),
        instructions=(
            KernelCall(0, (0, 1, 2), tuple(Stride(b, 0) for b in range(3)), 0, 0, cost, **options),
        ),
        outputs=(2,),
        kernels=(kernel,),
    )


def three_loops(collapse=True, kernel="nest", rank=3):
    """x + 2 y over three loops; y is broadcast by the caller's zero strides."""
    ints = tuple(Size(d) for d in range(3)) + tuple(Stride(b, d) for b in range(3) for d in range(3))
    operands = tuple(tuple(3 + 3 * b + d for d in range(3)) for b in range(3))
    return Program(
        name="three_loops",
        args=(Arg("x", "f64", 3), Arg("y", "f64", 3)),
        slots=(
            *(SizeOp("dim", 0, d) for d in range(3)),
            SizeOp("mul", 0, 1),
            SizeOp("mul", 3, 2),
            SizeOp("const", 12),
        ),
        checks=(),
        buffers=tuple(
            Buffer(kind, "f64", (0, 1, 2), index) for kind, index in (("arg", 0), ("arg", 1), ("out", 0))
        ),
        instructions=(
            KernelCall(
                0, (0, 1, 2), ints, 4, 4, 1024, collapse=Collapse((0, 1, 2), operands) if collapse else None
            ),
        ),
        outputs=(2,),
        kernels=(kernel,),
    )


def simple(kernel, dtype, n, *, ints=(), cost=0, scratch=-1, grain=1):
    """One output of n elements made by a kernel from nothing; n comes as a weak int... in slot 0."""
    return Program(
        name=kernel,
        args=(Arg("like", "f64", 1),),
        slots=(SizeOp("dim", 0, 0), *(SizeOp("const", value) for value in n)),
        checks=(),
        buffers=(Buffer("out", dtype, (0,), 0),),
        instructions=(KernelCall(0, (0,), ints, 0, 0, cost, grain, scratch),),
        outputs=(0,),
        kernels=(kernel,),
    )


# ---- arguments ---------------------------------------------------------------------------------------


def test_adds_any_layout(load):
    run = load(adder()).run
    x = np.arange(40.0)
    for view in (x[:10], x[10:20][::-1], x[::4], x[5:25:2], np.broadcast_to(x[3], (10,))):
        (out,) = run((view, x[:10]))
        assert np.array_equal(out, view + x[:10])
        assert out.flags.c_contiguous
        assert out.flags.owndata


def test_misaligned_and_odd_strides_are_copied(load):
    run = load(adder()).run
    raw = np.zeros(8 * 10 + 3, "u1")
    misaligned = raw[3:].view("f8")
    misaligned[:] = np.arange(10)
    record = np.zeros(10, "f8, i2")
    record["f0"] = np.arange(10)
    packed = np.zeros(10, np.dtype("f8, i2", align=False))["f0"]
    for odd in (misaligned, record["f0"], packed):
        assert np.array_equal(run((odd, odd))[0], odd + odd)


def test_empty_runs_nothing(load):
    program = load(adder())
    (out,) = program.run((np.empty(0), np.empty(0)))
    assert out.shape == (0,)


@pytest.mark.parametrize("name", NUMPY)
def test_every_dtype_passes_unchanged(load, name):
    dtype = np.dtype(name)
    bytes_per_item = dtype.itemsize
    program = Program(
        name="copy",
        args=(Arg("x", CODE[name], 1),),
        slots=(SizeOp("dim", 0, 0), SizeOp("const", bytes_per_item)),
        checks=(),
        buffers=(Buffer("arg", CODE[name], (0,), 0), Buffer("out", CODE[name], (0,), 0)),
        instructions=(KernelCall(0, (0, 1), (Stride(0, 0), Stride(1, 0), Size(1)), 0, 0, 10),),
        outputs=(1,),
        kernels=("bytes",),
    )
    loaded = load(program)
    x = np.random.default_rng(0).integers(0, 2, 30).astype(dtype)
    for view in (x, x[::-3], x[:0]):
        (out,) = loaded.run((view,))
        assert out.dtype == dtype
        assert np.array_equal(out, view)
    other = np.zeros(3, "f4" if name != "float32" else "f8")
    assert not loaded.matches((other,))
    with pytest.raises(TypeError, match=rf"argument 'x': expected {name} of rank 1, got {other.dtype}\[3\]"):
        loaded.run((other,))


def test_same_dtype_under_another_name(load):
    """`longlong` is int64 without being its dtype object."""
    program = load(simple_copy("i64"))
    x = np.arange(5).astype(np.longlong)
    assert program.matches((x,))
    assert np.array_equal(program.run((x,))[0], x)
    again = np.dtype("f8", copy=True)
    assert np.array_equal(load(simple_copy("f64")).run((np.ones(3, again),))[0], np.ones(3))


def simple_copy(code, rank=1, weak="", **buffer):
    """Copies one argument of one element or dimension."""
    size = np.dtype(NUMPY[DTYPES.index(code)]).itemsize
    dims = (0,) if rank else ()
    return Program(
        name="copy",
        args=(Arg("x", code, rank, weak),),
        slots=(SizeOp("dim", 0, 0) if rank else SizeOp("const", 1), SizeOp("const", size)),
        checks=(),
        buffers=(Buffer("arg", code, dims, 0, **buffer), Buffer("out", code, dims, 0)),
        instructions=(
            KernelCall(
                0,
                (0, 1),
                (Stride(0, 0), Stride(1, 0), Size(1)) if rank else (Size(0), Size(0), Size(1)),
                0,
                0,
                10,
            ),
        ),
        outputs=(1,),
        kernels=("bytes",),
    )


@pytest.mark.parametrize(
    ("weak", "code", "value"),
    [("bool", "b1", True), ("int", "i64", -7), ("float", "f64", 2.5), ("complex", "c128", 1 - 2j)],
)
def test_weak_scalars_match_by_exact_type(load, weak, code, value):
    program = load(simple_copy(code, 0, weak))
    (out,) = program.run((value,))
    assert isinstance(out, np.ndarray)
    assert out.shape == ()
    assert out == value
    for other in (True, 3, 2.5, 1j, np.float64(1), np.bool(True), np.int64(3), np.array(value), None, "x"):
        assert program.matches((other,)) == (type(other) is type(value))


def test_numpy_scalars_are_arrays_of_rank_0(load):
    for name in NUMPY:
        program = load(simple_copy(CODE[name], 0))
        scalar = np.dtype(name).type(1)
        assert program.matches((scalar,))
        assert program.run((scalar,))[0] == scalar
        assert program.run((np.array(scalar),))[0].shape == ()
        assert not program.matches((1.0,))


def test_large_ints_overflow_as_in_numpy(load):
    program = load(simple_copy("i64", 0, "int"))
    assert program.run((-(2**63),))[0] == -(2**63)
    assert not program.matches((2**63,))
    with pytest.raises(OverflowError, match="Python int too large to convert to C long"):
        program.run((2**63,))


BIG_ENDIAN = "argument 'x': big-endian float64; convert with x.astype(x.dtype.newbyteorder('='))"


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (np.zeros(3, ">f8"), BIG_ENDIAN),
        (np.zeros(3, object), "argument 'x': dtype object is not supported"),
        (np.zeros(3, "M8[s]"), "argument 'x': dtype datetime64[s] is not supported"),
        (np.datetime64("2020-01-01"), "argument 'x': dtype datetime64[D] is not supported"),
        (np.array(["a"]), "argument 'x': dtype <U1 is not supported"),
        (np.zeros(3, np.longdouble), "argument 'x': dtype float128 is not supported"),
        (np.zeros(3, "f4, f4"), "argument 'x': dtype [('f0', '<f4'), ('f1', '<f4')] is not supported"),
        (np.ma.zeros(3), "argument 'x': MaskedArray is not supported; convert with numpy.asarray(x)"),
        ([1.0], "argument 'x': expected an array or a number, got list"),
        (None, "argument 'x': expected an array or a number, got NoneType"),
        (b"abc", "argument 'x': expected an array or a number, got bytes"),
        (np.zeros((2, 3)), "argument 'x': expected float64 of rank 1, got float64[2, 3]"),
        (1.5, "argument 'x': expected float64 of rank 1, got float"),
    ],
)  # fmt: skip
def test_refused_arguments_are_named(load, value, error):
    program = load(adder())
    assert not program.matches((value, np.zeros(3)))
    with pytest.raises(TypeError) as caught:
        program.run((value, np.zeros(3)))
    assert str(caught.value) == error


def test_checks(load):
    program = load(adder())
    assert not program.matches((np.zeros(3), np.zeros(4)))
    with pytest.raises(ValueError, match=r"^x has 3 elements and y 4$"):
        program.run((np.zeros(3), np.zeros(4)))
    with pytest.raises(TypeError, match="adder takes 2 arguments, not 1"):
        program.run((np.zeros(3),))


def test_size_arithmetic(load):
    def value(op, a, b):
        return {
            "add": a + b, "sub": a - b, "mul": a * b,
            "floordiv": a // b if b else 0, "mod": a % b if b else 0,
            "min": min(a, b), "max": max(a, b),
        }[op]  # fmt: skip

    ops = ("add", "sub", "mul", "floordiv", "mod", "min", "max")
    for a, b in itertools.product((-7, -1, 0, 3, 8), (-3, -1, 0, 2, 5)):
        slots = [SizeOp("dim", 0, 0), SizeOp("const", a), SizeOp("const", b)]
        checks = []
        for op in ops:
            slots += [SizeOp(op, 1, 2), SizeOp("const", value(op, a, b))]
            checks.append(Check("eq", len(slots) - 2, len(slots) - 1, f"{op} gave {{a}}, not {{b}}"))
        slots.append(SizeOp("const", a + 1))
        checks += [Check("ne", 1, len(slots) - 1, "ne"), Check("ge", len(slots) - 1, 1, "ge")]
        program = Program(
            "sizes", (Arg("x", "f64", 1),), tuple(slots), tuple(checks), (Buffer("out", "f64", (0,), 0),),
            (KernelCall(0, (0,), (), 0, 0, 0),), (0,), ("nothing",),
        )  # fmt: skip
        load(program).run((np.zeros(2),))


# ---- outputs -----------------------------------------------------------------------------------------


def test_out_is_written_and_returned(load):
    run = load(adder()).run
    x = np.arange(6.0)
    wide = np.zeros(12)
    for out in (np.empty(6), wide[::2], wide[::-2]):
        (result,) = run((x, x), (out,))
        assert result is out
        assert np.array_equal(out, 2 * x)
    assert np.array_equal(run((x, x), (None,))[0], 2 * x)


def test_outs_may_overlap_each_other(load):
    program = Program(
        "twice", (Arg("x", "f64", 1),), (SizeOp("dim", 0, 0),), (),
        (Buffer("arg", "f64", (0,), 0), Buffer("out", "f64", (0,), 0), Buffer("out", "f64", (0,), 1)),
        (
            KernelCall(0, (0, 0, 1), (Stride(0, 0), Stride(0, 0), Stride(1, 0)), 0, 0, 10),
            KernelCall(0, (0, 1, 2), (Stride(0, 0), Stride(1, 0), Stride(2, 0)), 0, 0, 10),
        ),
        (1, 2), ("add",),
    )  # fmt: skip
    memory, x = np.zeros(5), np.arange(4.0)
    load(program).run((x,), (memory[:-1], memory[1:]))
    assert np.array_equal(memory, [0, 0, 3, 6, 9])
    with pytest.raises(TypeError, match="tuple of 2"):
        load(program).run((x,), (memory[:-1],))


def test_out_may_overlap_arguments(load):
    run = load(adder()).run
    x = np.arange(10.0)
    want = x[1:] + x[:-1]
    run((x[1:], x[:-1]), (x[:-1],))
    assert np.array_equal(x[:-1], want)
    x = np.arange(10.0)
    run((x, x), (x[::-1],))
    assert np.array_equal(x[::-1], 2 * np.arange(10.0))


def test_misaligned_out_is_written(load):
    raw = np.zeros(8 * 4 + 1, "u1")
    out = raw[1:].view("f8")
    load(adder()).run((np.arange(4.0), np.arange(4.0)), (out,))
    assert np.array_equal(out, 2 * np.arange(4.0))


@pytest.mark.parametrize(
    ("out", "error", "text"),
    [
        (np.zeros(4), ValueError, r"out\[0\] is float64\[4\]; the result is float64 of shape \(3,\)"),
        (np.zeros((3, 1)), ValueError, r"out\[0\] is float64\[3, 1\]; the result is float64 of shape \(3,\)"),
        (np.zeros(3, "f4"), TypeError, r"out\[0\] is float32\[3\]; the result is float64 of shape \(3,\)"),
        (np.zeros(3, ">f8"), TypeError, r"argument 'out': big-endian float64"),
        ([0.0] * 3, TypeError, r"out\[0\] must be a numpy.ndarray, not list"),
        (np.broadcast_to(np.zeros(1), (3,)), ValueError, r"out\[0\] is read-only"),
    ],
)
def test_refused_outs(load, out, error, text):
    with pytest.raises(error, match=text):
        load(adder()).run((np.zeros(3), np.zeros(3)), (out,))


def test_result_type(load):
    class Array(np.ndarray):
        pass

    program = load(adder(), Array)
    (out,) = program.run((np.ones(3), np.ones(3)))
    assert type(out) is Array
    (again,) = program.run((out, out))
    assert np.array_equal(again, np.full(3, 4.0))
    with pytest.raises(TypeError, match="subclass"):
        load(adder(), int)


# ---- memory ------------------------------------------------------------------------------------------


def through_temp(bytes_each, zero=True, by_alias=True):
    """zeros + 1 + 1, seen through an alias of another shape, then added to a constant."""
    n = bytes_each // 8
    return Program(
        name="through_temp",
        args=(Arg("x", "f64", 1),),
        slots=(SizeOp("const", n), SizeOp("const", n // 2), SizeOp("const", 2), SizeOp("const", 1)),
        checks=(),
        buffers=(
            Buffer("temp", "f64", (1, 2), zero=zero),
            Buffer("alias", "f64", (0,), 0),
            Buffer("const", "f64", (0,), 64),
            Buffer("out", "f64", (0,), 0),
        ),
        instructions=(
            KernelCall(0, (0,), (), 0, 0, 1024),
            KernelCall(0, (1,), (), 0, 0, 1024),
            KernelCall(1, (1, 2, 3), (Stride(1, 0), Stride(2, 0), Stride(3, 0)), 0, 0, 1024),
        ),
        outputs=(3,),
        kernels=("fill", "add"),
        constants=bytes(64) + np.arange(float(n)).tobytes(),
    )


@pytest.mark.parametrize("size", [64, 4096, 1 << 22])
def test_zeroed_temporaries_aliases_and_constants(load, size):
    program = load(through_temp(size))
    for _ in range(3):
        (out,) = program.run((np.zeros(1),))
        assert np.array_equal(out, 2 + np.arange(size / 8))


def test_dense_arguments_are_copied_when_strided(load):
    program = Program(
        name="flatten",
        args=(Arg("x", "f64", 2),),
        slots=(SizeOp("dim", 0, 0), SizeOp("dim", 0, 1), SizeOp("mul", 0, 1), SizeOp("const", 8)),
        checks=(),
        buffers=(
            Buffer("arg", "f64", (0, 1), 0, dense=True),
            Buffer("alias", "f64", (2,), 0),
            Buffer("out", "f64", (2,), 0),
        ),
        instructions=(KernelCall(0, (1, 2), (Stride(1, 0), Stride(2, 0), Size(3)), 2, 2, 100),),
        outputs=(2,),
        kernels=("bytes",),
    )
    loaded = load(program)
    x = np.arange(24.0).reshape(4, 6)
    for view in (x, x.T, x[::2, ::-1], x[1:1], np.asfortranarray(x)):
        assert np.array_equal(loaded.run((view,))[0], view.ravel())


def test_negative_temporaries_are_refused(load):
    program = through_temp(64)
    slots = (SizeOp("const", 8), SizeOp("const", -1), *program.slots[2:])
    broken = load(Program(**{**{f: getattr(program, f) for f in program.__slots__}, "slots": slots}))
    with pytest.raises(ValueError, match="negative dimensions"):
        broken.run((np.zeros(1),))
    huge = (SizeOp("const", 8), SizeOp("const", 2**60), *program.slots[2:])
    with pytest.raises(MemoryError):
        load(Program(**{**{f: getattr(program, f) for f in program.__slots__}, "slots": huge})).run(
            (np.zeros(1),)
        )


# ---- loops -------------------------------------------------------------------------------------------


def layouts(rng):
    """A pair of random views of one random shape."""
    shape = tuple(rng.integers(1, 4, 3))
    pair = []
    for _ in range(2):
        axes = rng.permutation(3)
        base = rng.random(tuple(np.array(shape)[axes] * rng.integers(1, 3, 3)))
        view = base.transpose(np.argsort(axes))
        view = view[tuple(slice(None, None, n // s) for n, s in zip(view.shape, shape, strict=True))]
        if rng.random() < 0.3:
            view = np.broadcast_to(view[:, :1], shape)
        if rng.random() < 0.3:
            view = view[:, ::-1]
        pair.append(view)
    return pair


def test_collapsed_loops_give_the_same(load):
    collapsed, plain = load(three_loops()), load(three_loops(collapse=False))
    rng = np.random.default_rng(1)
    for _ in range(300):
        x, y = layouts(rng)
        want = x + 2 * y
        assert np.array_equal(collapsed.run((x, y))[0], want)
        assert np.array_equal(plain.run((x, y))[0], want)
        out = np.empty(x.shape[::-1]).T
        assert np.array_equal(collapsed.run((x, y), (out,))[0], want)


def merged_sizes(load, x, y):
    program = three_loops(kernel="integers")
    buffers = (*program.buffers[:2], Buffer("out", "i64", (5,), 0))
    call = program.instructions[0]
    collapse = Collapse((0, 1, 2), call.collapse.operands[:2])
    ints = (*call.ints[:9], Size(0), Size(0), Size(0))
    calls = (KernelCall(0, (0, 2), ints, 5, 5, 0, grain=100, collapse=collapse),)
    fields = {f: getattr(program, f) for f in program.__slots__}
    loaded = load(Program(**{**fields, "buffers": buffers, "instructions": calls}))
    (found,) = loaded.run((x, y))
    return tuple(found[:3])


def test_which_loops_merge(load):
    x = np.zeros((3, 4, 5))
    assert merged_sizes(load, x, x) == (1, 1, 60)
    assert merged_sizes(load, x, np.zeros((6, 4, 5))[::2]) == (1, 3, 20)
    assert merged_sizes(load, x, np.zeros((3, 8, 5))[:, ::2]) == (1, 12, 5)
    assert merged_sizes(load, x, np.broadcast_to(np.zeros(5), (3, 4, 5))) == (1, 12, 5)
    assert merged_sizes(load, x, np.broadcast_to(np.zeros((4, 5)), (3, 4, 5))) == (1, 3, 20)
    assert merged_sizes(load, x, x.transpose(0, 2, 1).copy().transpose(0, 2, 1)) == (3, 4, 5)
    assert merged_sizes(load, x[:, :1], x[:, :1]) == (1, 3, 5)
    assert merged_sizes(load, x[:, :, :1], x[:, :, :1]) == (1, 1, 12)


def test_loops_that_share_an_integer_are_refused():
    program = three_loops()
    call = program.instructions[0]
    shared = Collapse((0, 1, 2), ((3, 4, 5), (5, 4, 3)))
    broken = KernelCall(0, call.pointers, call.ints, 4, 4, 1, collapse=shared)
    fields = {f: getattr(program, f) for f in program.__slots__}
    with pytest.raises(ValueError, match="integer 5 serves two loops"):
        encode(Program(**{**fields, "instructions": (broken,)}))


# ---- library calls and raises ------------------------------------------------------------------------


def test_matmul_of_all_kinds_of_buffer(load):
    """(x @ c) through a temporary, aliased, times y."""
    program = Program(
        name="products",
        args=(Arg("x", "f64", 2), Arg("y", "f64", 2)),
        slots=(
            SizeOp("dim", 0, 0),
            SizeOp("dim", 0, 1),
            SizeOp("const", 4),
            SizeOp("const", 2),
            SizeOp("dim", 1, 1),
        ),
        checks=(),
        buffers=(
            Buffer("arg", "f64", (0, 1), 0),
            Buffer("const", "f64", (1, 2), 0),
            Buffer("temp", "f64", (0, 2)),
            Buffer("alias", "f64", (2, 0), 2),
            Buffer("arg", "f64", (0, 4), 1),
            Buffer("out", "f64", (2, 4), 0),
        ),
        instructions=(LibraryCall(MATMUL, (0, 1), (2,)), LibraryCall(MATMUL, (3, 4), (5,))),
        outputs=(5,),
        kernels=(),
        constants=np.arange(12.0).tobytes(),
    )
    fields = {f: getattr(program, f) for f in program.__slots__}
    program = Program(**{**fields, "slots": (program.slots[0], SizeOp("const", 3), *program.slots[2:])})
    constant = np.arange(12.0).reshape(3, 4)
    loaded = load(program)
    for x in (np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(2, 6)[:, ::2]):
        y = np.ones((2, 5))
        want = (x @ constant).reshape(4, 2) @ y
        assert np.array_equal(loaded.run((x, y))[0], want)
        out = np.empty((5, 4)).T
        assert loaded.run((x, y), (out,))[0] is out
        assert np.array_equal(out, want)


def negative_finder():
    return Program(
        name="negative",
        args=(Arg("x", "f64", 1),),
        slots=(SizeOp("dim", 0, 0), SizeOp("const", 2)),
        checks=(),
        buffers=(
            Buffer("arg", "f64", (0,), 0),
            Buffer("temp", "i64", (1,), zero=True),
            Buffer("out", "f64", (0,), 0),
        ),
        instructions=(
            KernelCall(0, (0, 1), (Stride(0, 0),), 0, 0, 10, grain=1 << 40),
            RaiseIf(1, "IndexError", "x[{value}] is negative"),
            KernelCall(1, (0, 0, 2), (Stride(0, 0), Stride(0, 0), Stride(2, 0)), 0, 0, 10),
        ),
        outputs=(2,),
        kernels=("find_negative", "add"),
    )


def test_raise_if(load):
    program = load(negative_finder())
    assert np.array_equal(program.run((np.arange(3.0),))[0], [0, 2, 4])
    with pytest.raises(IndexError, match=r"^x\[2\] is negative$"):
        program.run((np.array([1.0, 2.0, -1.0]),))


# ---- imports -----------------------------------------------------------------------------------------


def test_imported_functions(load):
    buffers = [Buffer("arg", "c128", (0,), i) for i in range(2)]
    buffers += [Buffer("out", "c128", (0,), 0), Buffer("out", "c128", (0,), 1), Buffer("out", "f64", (0,), 2)]
    program = load(
        Program(
            "imported", (Arg("x", "c128", 1), Arg("y", "c128", 1)), (SizeOp("dim", 0, 0),), (),
            tuple(buffers),
            (KernelCall(0, (0, 1, 2, 3, 4), (), 0, 0, 100),), (2, 3, 4), ("imported",),
        )
    )  # fmt: skip
    parts = [-2.5, -1.0, -0.0, 0.0, 0.5, 3.0]
    numbers = np.array([complex(a, b) for a in parts for b in parts])
    powers = [0, 1, 2, 3, 5, -1, -2, -7, 0.5, 2j, 1 - 1j, 99, 100, -100]
    x, y = (a.ravel() for a in np.meshgrid(numbers, np.array(powers, complex)))
    with np.errstate(all="ignore"):
        exponential, power, remainder = program.run((x, y))
        assert np.array_equal(exponential, np.exp(x), equal_nan=True)
        assert np.array_equal(power.view("f8"), np.power(x, y).view("f8"), equal_nan=True)
        assert np.array_equal(remainder, np.fmod(x.real, y.real), equal_nan=True)


def test_unknown_imports_are_named():
    with pytest.raises(ImportError, match="'no_such_function'"):
        launcher.Image(b"\xc3" * 16, [(0, "no_such_function")], 0)
    with pytest.raises(ValueError, match="offset 12"):
        launcher.Image(b"\xc3" * 16, [(12, "fmod")], 0)
    assert {"fmod", "powf", "memcpy", "aot_c_tanh_c64"} <= set(launcher.import_names())


def test_foreign_words_are_refused(load):
    image = launcher.Image(b"\xc3" * 16, [], 0)
    words = encode(adder())
    for bad in (b"", words[:-8], b"\0" * len(words)):
        with pytest.raises(ValueError, match="program"):
            launcher.Program(bad, b"", image, [0])
    with pytest.raises(ValueError, match="1 kernels"):
        launcher.Program(words, b"", image, [0, 0])
    with pytest.raises(ValueError, match="offset"):
        launcher.Program(words, b"", image, [1 << 20])


# ---- threads -----------------------------------------------------------------------------------------


def test_work_is_shared_in_chunks_of_the_grain(load):
    program = load(simple("chunks", "i64", (), cost=1 << 20, grain=16))
    for count in (1, 15, 16, 17, 1000, 12345):
        (begins,) = program.run((np.zeros(count),))
        assert not (begins % 16).any()
        assert (np.diff(begins) >= 0).all()
        assert begins[0] == 0
    assert len(np.unique(begins)) >= 8
    launcher.set_num_threads(1)
    assert not program.run((np.zeros(900),))[0].any()
    (begins,) = program.run((np.zeros(12345),))  # of about a millisecond each, to look for signals between them
    assert not (begins % 16).any()
    assert len(np.unique(begins)) == 13


def takes_two_threads(program):
    """Whether two threads took part in one of several runs; a busy machine may keep one from it."""
    return any(len(np.unique(program.run((np.zeros(500),))[0])) == 2 for _ in range(200))


def test_several_threads_take_part(load):
    assert takes_two_threads(load(simple("stack", "i64", (), cost=20_000 * 1024)))


def test_each_thread_has_its_scratch(load):
    program = load(
        simple("through_scratch", "i64", (1000, 8000), ints=(Size(1),), cost=3_000 * 1024, scratch=2)
    )
    for count in (3, 500):
        assert np.array_equal(program.run((np.zeros(count),))[0], 7 * np.arange(count))


def test_concurrent_callers(load):
    program = load(adder(cost=1 << 14))
    x = np.random.default_rng(0).random(20_000)
    wrong = []

    def call(k):
        for _ in range(60):
            if not np.array_equal(program.run((x, np.full_like(x, k)))[0], x + k):
                wrong.append(k)

    threads = [threading.Thread(target=call, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_number_of_threads():
    launcher.set_num_threads(7)
    assert launcher.get_num_threads() == 7
    for bad in (0, -1, 5000):
        with pytest.raises(ValueError, match="between 1 and"):
            launcher.set_num_threads(bad)
    with pytest.raises(TypeError):
        launcher.set_num_threads("2")


def in_fresh_process(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )  # fmt: skip


def test_threads_from_the_environment():
    code = "from aotarray.runtime import _launcher as l; print(l.get_num_threads())"
    assert in_fresh_process(code, AOTARRAY_NUM_THREADS="3").stdout == "3\n"
    result = in_fresh_process(code, AOTARRAY_NUM_THREADS="many")
    assert 1 <= int(result.stdout) <= len(os.sched_getaffinity(0))
    assert "AOTARRAY_NUM_THREADS=many is not a number of threads" in result.stderr


def run_in_fork(check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if check() else 1)
        except BaseException:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_forked_children_work(load):
    program = load(simple("stack", "i64", (), cost=20_000 * 1024))
    program.run((np.zeros(500),))

    def parallel():
        return takes_two_threads(program)

    assert run_in_fork(parallel) == 0
    assert run_in_fork(lambda: run_in_fork(parallel) == 0) == 0
    stop = threading.Event()

    def keep_busy():
        while not stop.is_set():
            program.run((np.zeros(500),))

    thread = threading.Thread(target=keep_busy)
    thread.start()
    try:
        assert [run_in_fork(parallel) for _ in range(10)] == [0] * 10
    finally:
        stop.set()
        thread.join()
    assert parallel()


# ---- the dispatcher ----------------------------------------------------------------------------------


class Dispatcher(launcher.Dispatcher):
    def __init__(self):
        self.slow = []

    def _slow(self, args, kwargs):
        self.slow.append((args, kwargs))
        return "slow"


def test_dispatch(load):
    f, x = Dispatcher(), np.arange(4.0)
    assert f(x) == "slow"
    f._add_entry(load(adder()), "single")
    f._add_entry(load(adder("f32", kernel="addf")), "tuple")
    for _ in range(3):
        assert np.array_equal(f(x, x), 2 * x)
        (single,) = f(x.astype("f4"), x.astype("f4"))
        assert single.dtype == "f4"
    f.slow.clear()
    slow = [
        ((x, x[:3]), {}),
        ((x,), {}),
        ((x, None), {}),
        (([1], x), {}),
        ((x, 2**70), {}),
        ((x,), {"y": x}),
        ((), {}),
    ]
    for args, kwargs in slow:
        assert f(*args, **kwargs) == "slow"
    assert len(f.slow) == len(slow)
    assert all(seen[1] == kwargs for seen, (_, kwargs) in zip(f.slow, slow, strict=True))
    f._clear_entries()
    assert f(x, x) == "slow"
    with pytest.raises(ValueError, match="kind"):
        f._add_entry(load(adder()), "list")


def test_dispatch_of_keywords(load):
    f, x, out = Dispatcher(), np.arange(4.0), np.empty(4)
    f._add_entry(load(adder()), "single")
    assert f(x, y=x) == "slow"
    f._set_parameters(("x", "y"))
    f.slow.clear()
    for result in (f(x, y=x), f(y=x, x=x), f(x, x, out=None)):
        assert np.array_equal(result, 2 * x)
    assert f(x, x, out=out) is out
    assert f(x, y=x, out=out) is out
    with pytest.raises(ValueError, match=r"out\[0\] is float64\[3\]"):
        f(x, x, out=out[:3])
    assert not f.slow
    for kwargs in ({"z": x}, {"x": x}, {"y": x, "z": x}, {"y": x, "out": (out,)}, {"y": None}):
        assert f(x, **kwargs) == "slow"
    assert f(x, x, y=x) == "slow"
    with pytest.raises(TypeError, match="once"):
        f._set_parameters(("x", "y"))
    g = Dispatcher()
    g._add_entry(load(adder()), "tuple")
    g._set_parameters(("x", "y"))
    assert g(x, x, out=(out,))[0] is out
    assert g(x, x, out=out) == "slow"


def test_dispatcher_errors_pass_through(load):
    f = Dispatcher()
    f._add_entry(load(negative_finder()), "single")
    with pytest.raises(IndexError):
        f(np.array([-1.0]))
    plain = launcher.Dispatcher()
    with pytest.raises(AttributeError, match="_slow"):
        plain(1)


def test_many_arguments_and_entries(load):
    names = [f"a{i}" for i in range(32)]
    program = Program(
        "many", tuple(Arg(n, "f64", 1) for n in names), (SizeOp("dim", 31, 0),), (),
        (Buffer("arg", "f64", (0,), 30), Buffer("arg", "f64", (0,), 31), Buffer("out", "f64", (0,), 0)),
        (KernelCall(0, (0, 1, 2), tuple(Stride(b, 0) for b in range(3)), 0, 0, 10),), (2,), ("add",),
    )  # fmt: skip
    f, x = Dispatcher(), np.arange(3.0)
    for _ in range(20):
        f._add_entry(load(adder()), "single")
    f._add_entry(load(program), "single")
    f(x, x)
    assert np.array_equal(f(*[x] * 32), 2 * x)
    assert f(*[x] * 40) == "slow"


def test_dispatcher_cycles_are_collected(load):
    class Cyclic(np.ndarray):
        pass

    f = Dispatcher()
    f.me = f
    f._add_entry(load(adder(), Cyclic), "single")
    dead = threading.local  # any object whose refcount shows the cycle is gone
    f.kept = dead
    before = sys.getrefcount(dead)
    del f
    gc.collect()
    assert sys.getrefcount(dead) == before - 1


# ---- leaks -------------------------------------------------------------------------------------------


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc")
def test_failing_calls_leak_nothing(load):
    plain, negative = load(adder()), load(negative_finder())
    big = load(through_temp(1 << 16))
    x, wrong = np.zeros(2000), np.zeros(3)
    negatives = -np.ones(2000)
    misaligned = np.zeros(8 * 2000 + 1, "u1")[1:].view("f8")
    read_only = np.zeros(2000)
    read_only.flags.writeable = False
    calls = [
        lambda: plain.run((x, wrong)),
        lambda: plain.run((x, None)),
        lambda: plain.run((x, x.astype(">f8"))),
        lambda: plain.run((misaligned, x), (wrong,)),
        lambda: plain.run((misaligned, x), (read_only,)),
        lambda: plain.run((misaligned, x), (misaligned,)),
        lambda: negative.run((negatives,)),
        lambda: big.run((x,), (wrong,)),
        lambda: big.run((x,)),
    ]

    def all_calls(times):
        for _ in range(times):
            for call in calls:
                with contextlib.suppress(TypeError, ValueError, IndexError):
                    call()

    all_calls(50)
    counts = [sys.getrefcount(o) for o in (x, wrong, negatives, misaligned, read_only, np.dtype("f8"))]
    before = resident()
    all_calls(500)
    assert [
        sys.getrefcount(o) for o in (x, wrong, negatives, misaligned, read_only, np.dtype("f8"))
    ] == counts
    assert resident() - before < 4 << 20


# ---- hostile arguments -------------------------------------------------------------------------------


def test_temporaries_beyond_all_memory_are_refused(load):
    """Their sizes must not wrap round on the way to an allocation."""
    program = Program(
        "huge", (Arg("x", "f64", 1),), (SizeOp("dim", 0, 0), SizeOp("const", 1)), (),
        (*(Buffer("temp", "f64", (0,)) for _ in range(8)), Buffer("out", "f64", (1,), 0)),
        (KernelCall(0, (0,), (), 1, 1, 10),), (8,), ("fill",),
    )  # fmt: skip
    loaded = load(program)
    for n in (1 << 57, 1 << 58, (1 << 59) - 1):
        with pytest.raises(MemoryError):
            loaded.run((np.broadcast_to(0.0, n),))


# ---- built modules -----------------------------------------------------------------------------------

LEAF = tuple(("leaf", i) for i in range(3))


def scaled():
    """x[n] * 1 + s: a rank-0 argument, as arrays or Python numbers."""
    return Program(
        "scaled", (Arg("x", "f64", 1), Arg("s", "f64", 0)), (SizeOp("dim", 0, 0), SizeOp("const", 0)), (),
        (Buffer("arg", "f64", (0,), 0), Buffer("arg", "f64", (), 1), Buffer("out", "f64", (0,), 0)),
        (KernelCall(0, (0, 1, 2), (Stride(0, 0), Size(1), Stride(2, 0)), 0, 0, 10),), (2,), ("add",),
    )  # fmt: skip


def version(program, spec, count, result=LEAF[0]):
    """An overload whose parameters are the arguments."""
    return Overload(program, LEAF[:count], result, spec)


def module_functions():
    pair = (("tuple", (LEAF[0], ("dict", ("w", "nothing"), (LEAF[1], ("none",))))),)
    named = ("dict", ("sum", "more"), (LEAF[0], ("tuple", (("none",),))))
    listed = (("list", LEAF[:2]), ("none",))
    sums = (
        version(adder(), "(x: f64[n], y: f64[n])", 2),
        version(adder("f32", kernel="addf"), "(x: f32[n], y: f32[n])", 2),
        Overload(adder(), listed, ("list", (LEAF[0],)), "(x: [f64[n], f64[n]], y: None)"),
    )
    floats, ints = simple_copy("f64", 0, "float"), simple_copy("i64", 0, "int")
    return [
        Function("add", ("x", "y"), 'Sum of x and y.\n\nÄ "quoted" \\ line.', sums),
        Function("nested", ("pair",), "", (Overload(adder(), pair, named, "(pair: ...)"),)),
        Function("scaled", ("x", "s"), "", (version(scaled(), "(x: f64[n], s: f64[])", 2),)),
        Function("halves", ("h",), "", (version(simple_copy("f16", 0), "(h: f16[])", 1),)),
        Function("weak", ("v",), "", (version(floats, "(v: float)", 1),)),
        Function("whole", ("i",), "", (version(ints, "(i: int)", 1),)),
        Function("negative", ("x",), "", (version(negative_finder(), "(x: f64[n])", 1),)),
        Function("temp", ("x",), "", (version(through_temp(4096), "(x: f64[n])", 1),)),
    ]


def build_module(folder, name, functions, variants):
    objects = [compile_kernels(folder, f"_{v.suffix}") for v in variants]
    (folder / "data.c").write_text(module_data(name, functions, variants, "A module."))
    subprocess.run(
        [compiler, "-O1", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden",
         "-shared", "-DAOTARRAY_MODULE", f"-I{sysconfig.get_path('include')}", f"-I{RUNTIME}",
         RUNTIME / "launcher.c", folder / "data.c", *objects, "-lm", "-lpthread",
         "-o", folder / f"{name}.abi3.so"],
        check=True,
    )  # fmt: skip


X86 = tuple(Variant(f"v{n}", f"x86-64-v{n}", n) for n in (2, 3))


@pytest.fixture(scope="session")
def module_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("module")
    build_module(folder, "small_aot", module_functions(), X86)
    return folder


@pytest.fixture(scope="session")
def module(module_folder):
    sys.path.insert(0, str(module_folder))
    try:
        import small_aot
    finally:
        sys.path.remove(str(module_folder))
    return small_aot


def test_module_attributes(module):
    assert module.__doc__ == "A module."
    assert module.__variant__ in ("x86-64-v2", "x86-64-v3")
    assert module.__signatures__[:2] == ("add(x: f64[n], y: f64[n])", "add(x: f32[n], y: f32[n])")
    assert module.add.__doc__ == 'Sum of x and y.\n\nÄ "quoted" \\ line.'
    assert module.add.__text_signature__ == "(x, y, *, out=None)"
    assert module.add.__module__ == "small_aot"
    assert module.get_num_threads() >= 1


def test_module_overloads(module):
    x = np.arange(5.0)
    for out in (module.add(x, x), module.add(x, y=x), module.add(y=x, x=x)):
        assert np.array_equal(out, 2 * x)
        assert type(out) is np.ndarray
    assert module.add(x.astype("f4"), x.astype("f4")).dtype == "f4"
    (listed,) = module.add([x, x], None)
    assert np.array_equal(listed, 2 * x)
    result = module.nested((x, {"w": x, "nothing": None}))
    assert list(result) == ["sum", "more"]
    assert np.array_equal(result["sum"], 2 * x)
    assert result["more"] == (None,)
    assert np.array_equal(module.temp(x), 2 + np.arange(512))


def test_module_outs(module):
    x, out = np.arange(5.0), np.empty(5)
    assert module.add(x, x, out=out) is out
    assert module.add(x, x, out=(out,)) is out
    assert module.add(x, x, out=None) is not out
    assert module.nested((x, {"w": x, "nothing": None}), out=out)["sum"] is out
    assert np.array_equal(module.add(x, x, out=x), 2 * np.arange(5.0))
    with pytest.raises(TypeError, match=r"add\(\): out must be an array, or a tuple of 1"):
        module.add(x, x, out=(out, out))


def test_module_takes_python_numbers(module):
    x = np.arange(3.0)
    for scalar in (2.0, 2, np.float64(2), np.array(2.0)):
        assert np.array_equal(module.scaled(x, scalar), x + 2)
    assert module.halves(0.1) == np.float16(0.1)
    assert module.weak(3) == 3.0
    assert module.weak(10**30) == 1e30
    assert module.whole(-4) == -4
    for call in (lambda: module.scaled(x, True), lambda: module.whole(1.5), lambda: module.weak(1j)):
        with pytest.raises(TypeError, match="has no version for"):
            call()
    with pytest.raises(OverflowError):
        module.whole(2**63)


@pytest.mark.parametrize(
    ("args", "kwargs", "error"),
    [
        ((), {}, "add() missing 2 required positional arguments: 'x' and 'y'"),
        ((1,), {}, "add() missing 1 required positional argument: 'y'"),
        ((1, 2, 3), {}, "add() takes 2 positional arguments but 3 were given"),
        ((1, 2), {"x": 1}, "add() got multiple values for argument 'x'"),
        ((1, 2), {"z": 1}, "add() got an unexpected keyword argument 'z'"),
        (
            (np.zeros(3, "f4"), np.zeros((2, 2))),
            {},
            "add() has no version for (float32[3], float64[2, 2]); it takes: (x: f64[n], y: f64[n]) or "
            "(x: f32[n], y: f32[n]) or (x: [f64[n], f64[n]], y: None)",
        ),
        (
            ((1.0, {"k": np.zeros(2)}), [True]),
            {},
            "add() has no version for ((float, {'k': float64[2]}), [bool]); it takes: "
            "(x: f64[n], y: f64[n]) or (x: f32[n], y: f32[n]) or (x: [f64[n], f64[n]], y: None)",
        ),
    ],
)
def test_module_errors(module, args, kwargs, error):
    with pytest.raises(TypeError) as caught:
        module.add(*args, **kwargs)
    assert str(caught.value) == error


def test_module_names_bad_arguments(module):
    x = np.zeros(3)
    with pytest.raises(ValueError, match=r"^add\(\): x has 3 elements and y 4$"):
        module.add(x, np.zeros(4))
    with pytest.raises(TypeError, match="argument 's': expected an array or a number, got list"):
        module.scaled(x, [1])
    with pytest.raises(TypeError, match="argument 'x': big-endian float64"):
        module.scaled(x.astype(">f8"), 1)
    with pytest.raises(IndexError, match="is negative"):
        module.negative(-np.ones(2))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc")
def test_module_leaks_nothing(module):
    x, y = np.zeros(2000), np.zeros(3)
    tree = (x, {"w": x, "nothing": None})
    calls = [
        lambda: module.add(x, y),
        lambda: module.add([x, y], None),
        lambda: module.add([x, x], None),
        lambda: module.add([x, None], None),
        lambda: module.add(x, (y, {"k": x})),
        lambda: module.add(x, x, out=y),
        lambda: module.add(x, x, out=x),
        lambda: module.add(x),
        lambda: module.nested(tree),
        lambda: module.nested((x, {"w": x})),
        lambda: module.scaled(x, 1),
        lambda: module.scaled(x, [x]),
        lambda: module.negative(x - 1),
        lambda: module.whole(2**70),
        lambda: module.halves(3.5),
    ]

    def all_calls(times):
        for _ in range(times):
            for call in calls:
                with contextlib.suppress(TypeError, ValueError, IndexError, OverflowError):
                    call()

    all_calls(50)
    counts = [sys.getrefcount(o) for o in (x, y, tree, None, True)]
    before = resident()
    all_calls(500)
    after = [sys.getrefcount(o) for o in (x, y, tree, None, True)]
    assert after[:3] == counts[:3]
    assert all(abs(a - b) < 100 for a, b in zip(after, counts, strict=True))
    assert resident() - before < 4 << 20


def test_module_stands_alone(module_folder):
    code = (
        f"import sys; sys.path.insert(0, {str(module_folder)!r})\n"
        "import small_aot, numpy as np\n"
        "assert not {'aotarray', 'numba', 'llvmlite'} & set(sys.modules)\n"
        "x = np.arange(300000.); assert (small_aot.add(x, x) == 2 * x).all()\n"
        "print(small_aot.__variant__)"
    )

    def variant(wanted):
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=module_folder,
            env={**environment, "AOTARRAY_CPU": wanted},
        )  # fmt: skip

    assert variant("x86-64-v2").stdout == "x86-64-v2\n"
    best = variant("")
    assert best.returncode == 0, best.stderr
    assert best.stdout in ("x86-64-v2\n", "x86-64-v3\n")
    lacking = variant("x86-64-v4")
    message = "AOTARRAY_CPU=x86-64-v4, but module 'small_aot' has no code for it; it has code for x86-64-v"
    assert f"ImportError: {message}" in lacking.stderr


def test_module_for_a_better_cpu_is_refused(tmp_path):
    build_module(tmp_path, "future_aot", module_functions()[:1], (Variant("host", "x86-64-v9", 9),))
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport future_aot"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ImportError: module 'future_aot' needs a CPU with x86-64-v9" in result.stderr


def test_module_data_is_deterministic_and_verified():
    functions = module_functions()
    assert module_data("m", functions) == module_data("m", functions)
    add = functions[0]
    with pytest.raises(ValueError, match="named 'add'"):
        module_data("m", [add, add])
    with pytest.raises(ValueError, match="not a name"):
        module_data("no-name", [add])
    with pytest.raises(ValueError, match="cannot be named 'out'"):
        module_data("m", [Function("f", ("x", "out"), "", add.overloads)])
    with pytest.raises(ValueError, match="leaves of the parameters"):
        module_data("m", [Function("f", ("x",), "", (Overload(adder(), LEAF[:1], LEAF[0], ""),))])


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="the module for interpreters has another name")
def test_another_interpreter_is_refused(module_folder):
    inner = (
        f"import sys; sys.path.insert(0, {str(module_folder)!r})\n"
        "try:\n    import small_aot\nexcept ImportError as error:\n    print(type(error).__name__, error)\n"
    )
    code = (
        f"import sys; sys.path.insert(0, {str(module_folder)!r})\n"
        "import small_aot, _xxsubinterpreters as interpreters\n"
        f"interpreters.run_string(interpreters.create(), {inner!r})"
    )
    assert "ImportError" in in_fresh_process(code).stdout


def test_leaving_while_threads_run(module_folder):
    code = (
        f"import sys; sys.path.insert(0, {str(module_folder)!r})\n"
        "import small_aot, threading, time, numpy as np\n"
        "small_aot.set_num_threads(2); x = np.zeros(1 << 20)\n"
        "def run():\n    while True: small_aot.add(x, x)\n"
        "for _ in range(3): threading.Thread(target=run, daemon=True).start()\n"
        "time.sleep(0.2); print('left')"
    )
    assert in_fresh_process(code).stdout == "left\n"
