"""Rounding, complex parts, closeness and the rest of the element-wise functions; refusals; the namespace."""

import numpy as np
import pytest
from agreement import check

import aotarray
import aotarray.numpy as anp
from aotarray.errors import UnsupportedError

SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5, 2.675, 1e300, 0.125, 3.0, -7.4999])
COMPLEX = np.array([1 + 2j, -0.0 + 1j, np.nan + 1j, 3 - 0j, complex(np.inf, -1), -2.5 + 1.15j])
EXACT = [
    lambda x: np.clip(x, -1, 2),
    lambda x: x.clip(-0.5, np.float32(1)),
    lambda x: np.clip(x, None, 1),
    lambda x: np.clip(x, x[::-1], 2.5),
    lambda x: np.clip(x, a_min=0.0, a_max=None),
    np.fix,
    lambda x: (np.polyval([1, -2, 3], x), np.polyval(x[:3], 2), np.polyval([], x)),
    lambda x: (np.nancumsum(x), x.astype(np.min_scalar_type(x))),
    np.nan_to_num,
    lambda x: np.nan_to_num(x, nan=1, posinf=9, neginf=-9),
    lambda x: (np.isposinf(x), np.isneginf(x), np.isreal(x), np.iscomplex(x), np.isfinite(x), np.signbit(x)),
    lambda x: (np.isclose(x, x[::-1], equal_nan=True), np.isclose(x, 1.5, rtol=1e-3), np.allclose(x, x)),
    lambda x: (
        np.array_equal(x, x),
        np.array_equal(x, x, equal_nan=True),
        np.array_equal(x, x[:3]),
        np.array_equiv(x, x),
    ),
    lambda x: (np.where(x > 0, x, 0), np.where(np.isnan(x), -1.0, x), np.copy(x), np.real(x)),
]
ROUNDED = [
    *(lambda x, d=d: np.round(x, d) for d in (0, 1, 2, -1)),
    lambda x: x.round(2),
    np.sinc,
    np.angle,
    lambda x: np.angle(x, deg=True),
    lambda x: np.degrees(x) + np.radians(x),
    lambda x: np.unwrap(np.where(np.isfinite(x) & (np.abs(x) < 99), x, 0) * 3),
]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("number", range(len(EXACT)))
def test_exact_functions(number, dtype):
    with np.errstate(all="ignore"):
        x = SPECIAL.astype(dtype)
    check(EXACT[number], [x], exact=True, compiled=dtype == "float64")


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("number", range(len(ROUNDED)))
def test_rounded_functions(number, dtype):
    with np.errstate(all="ignore"):
        x = np.clip(SPECIAL, -1e4, 1e4).astype(dtype)
    check(ROUNDED[number], [x], compiled=dtype == "float64")


@pytest.mark.parametrize("decimals", [0, 2, -1, -2])
@pytest.mark.parametrize("dtype", ["int64", "int8", "uint16"])
def test_rounding_of_integers(dtype, decimals):
    check(lambda x: np.round(x, decimals), [np.array([0, 4, 5, 15, 25, 99, 100]).astype(dtype)])


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize(
    "function",
    [
        lambda z: (z.real, z.imag, np.conj(z), z.conjugate(), np.isreal(z), np.iscomplex(z)),
        lambda z: (np.angle(z), np.abs(z)),
        lambda z: (np.round(z, 1), np.rint(z)),
        lambda z: (np.maximum(z, z[::-1]), np.minimum(z, 1), np.fmax(z, z[::-1]), np.fmin(z, 2j)),
        lambda z: (
            np.nan_to_num(z),
            np.isclose(z, z),
            np.array_equal(z, z),
            np.allclose(z, z, equal_nan=True),
        ),
        lambda z: (
            z * z,
            z + 1,
            z - 2j,
            z / (z + 3),
            np.square(z),
            np.reciprocal(z + 3),
            z == z[::-1],
            z < 1,
        ),
    ],
)
def test_complex_functions(function, dtype):
    check(function, [COMPLEX.astype(dtype)], scale=4, compiled=dtype == "complex128")


def test_parts_can_be_written():
    def f(z):
        w = z.copy()
        w.real = 1
        w.imag = w.imag * 2
        return w

    check(f, [COMPLEX], exact=True)


def test_questions_about_dtypes_have_plain_answers():
    def f(x, z):
        assert (np.iscomplexobj(z), np.isrealobj(x), np.ndim(x), np.can_cast(x, np.float64)) == (
            True,
            True,
            1,
            True,
        )
        assert np.shape(x) == x.shape
        assert np.result_type(x, 1.0) == np.float32
        assert np.common_type(x, z) == np.complex128
        return x.astype(np.result_type(x, z)) + np.size(x) + z

    check(f, [np.ones(6, "f4"), COMPLEX])


REFUSED = [
    (lambda x: np.histogram(x, "auto"), "number of bins"),
    (lambda x: np.linalg.eigvals(x[:, None] * x), "eigvalsh"),
    (lambda x: np.histogramdd(x), "histogram2d"),
    (lambda x: np.pad(x, 1, mode="mean"), "the modes constant, edge"),
    (lambda x: np.roll(x, x[0].astype(int)), "np.arange"),
    (lambda x: np.max(x + 1j), "abs"),
    (lambda x: np.choose(x.astype(int), [x, x]), "mode='clip'"),
    (lambda x: np.min_scalar_type(x[0]), r"x\.dtype"),
    (lambda x: x.flat, "reshape"),
    (lambda x: x.view(np.int64), "astype"),
    (lambda x: x.tobytes(), "return the array"),
    (lambda x: x.strides, "shape"),
]


@pytest.mark.parametrize(("function", "message"), REFUSED)
def test_what_is_not_supported_names_the_line_and_a_way_round(function, message):
    with pytest.raises(UnsupportedError, match=message) as caught:
        aotarray.lower(function, np.ones(4))
    assert str(caught.value).startswith("test_functions_numeric.py:")


def test_namespace_records_the_same_ops():
    def f(np, x):
        y = np.zeros(x.shape, np.float32) + np.arange(x.shape[0])
        return np.concatenate([np.sin(x) * np.pi, y]) + np.linalg.norm(x) + np.sum(x, axis=0, keepdims=True)

    x = np.linspace(0, 1, 5)
    np.testing.assert_array_equal(aotarray.jit(lambda x: f(anp, x))(x), aotarray.jit(lambda x: f(np, x))(x))
    np.testing.assert_array_equal(f(anp, x), f(np, x))


def test_namespace_takes_traced_sizes():
    total = aotarray.jit(
        lambda x: anp.sqrt(x.shape[0]) + anp.sum(x.shape[0]) + anp.full(x.shape[0], 2.0).sum()
    )
    assert total(np.zeros(9)) == 3 + 9 + 18


def test_namespace_is_numpys():
    assert (anp.float32, anp.newaxis, anp.pi, anp.sin) == (np.float32, None, np.pi, np.sin)
    assert {"concatenate", "load"} & set(dir(anp)) == {"concatenate"}
    with pytest.raises(AttributeError, match=r"no attribute 'cupy'"):
        anp.cupy  # noqa: B018
