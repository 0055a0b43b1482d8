"""Every ufunc of NumPy on every dtype it is defined for, special values included; out=, where=, dtype=."""

import numpy as np
import pytest
from agreement import check, numpy_result

import aotarray
from aotarray.errors import UnsupportedError

SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.5,
    3.0,
    1e-3,
    7.25,
    100.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-310,
    1e30,
    -0.3,
]
VALUES = {
    "bool": [True, False],
    "int8": [0, 1, -1, 5, -7, 127, -128, 64, 3, 2],
    "uint16": [0, 1, 65535, 300, 7, 2, 12],
    "int32": [0, 1, -1, 2**31 - 1, -(2**31), 12345, 3, -77],
    "int64": [0, 1, -1, 2**63 - 1, -(2**63), 12345, -3, 5],
    "uint64": [0, 1, 2**64 - 1, 2**63, 17, 3],
    "float16": SPECIAL,
    "float32": SPECIAL,
    "float64": SPECIAL,
    "complex64": [0.5, -2.5, 3.0, 1e-3, 7.25, 1.0, -1.0],
    "complex128": [0.5, -2.5, 3.0, 1e-3, 7.25, 1.0, -1.0],
}
UFUNCS = sorted(
    {u.__name__: u for u in vars(np).values() if isinstance(u, np.ufunc) and u.signature is None}.values(),
    key=lambda u: u.__name__,
)
#: float16 has no neighbours here: the error says to use float32
NO_HALF = {"nextafter", "spacing"}


def operands(ufunc, dtype):
    """All pairs of the dtype's values, or the values alone."""
    with np.errstate(all="ignore"):
        values = np.array(VALUES[dtype]).astype(dtype)
    if dtype.startswith("complex"):
        values = (values[:, None] + 1j * values).ravel().astype(dtype)[:40]
    if ufunc.nin == 1:
        return [values]
    grid = np.meshgrid(values, values[:16])
    return [g.ravel() for g in grid]


def is_defined(ufunc, arguments):
    try:
        numpy_result(ufunc, arguments)
    except (TypeError, ValueError):
        return False
    return True


@pytest.mark.parametrize("dtype", VALUES)
@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda u: u.__name__)
def test_traced_ufunc_equals_numpy(ufunc, dtype):
    arguments = operands(ufunc, dtype)
    if not is_defined(ufunc, arguments):
        return
    if ufunc.__name__ in NO_HALF and dtype in ("bool", "int8", "float16"):
        with pytest.raises(UnsupportedError, match="float16"):
            aotarray.lower(lambda *a: ufunc(*a), *arguments)
        return
    check(lambda *a: ufunc(*a), arguments)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    "name", ["modf", "frexp", "divmod", "fmod", "copysign", "maximum", "fmin", "rint", "trunc"]
)
def test_exact_ufuncs_give_the_very_bits(name, dtype):
    ufunc = getattr(np, name)
    check(
        lambda *a: ufunc(*a),
        operands(ufunc, dtype),
        exact=name not in ("divmod", "fmod"),
        compiled=dtype != "float16",
    )


@pytest.mark.parametrize("exponents", ["int8", "int32", "int64"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_ldexp_rounds_once(dtype, exponents):
    info = np.iinfo(exponents)
    n = np.clip(
        np.array([0, 1, -1, 10, -14, -24, 100, -126, -149, 127, 1023, -1022, -1074, 3000, -3000]),
        info.min,
        info.max,
    )
    with np.errstate(all="ignore"):
        x = np.array([1.0, -1.75, np.pi, 5e-324, 1e308, 1.1754943e-38, np.inf, np.nan, -0.0]).astype(dtype)
    check(np.ldexp, [x[:, None], n.astype(exponents)], exact=True, compiled=exponents == "int32")


def test_ldexp_of_the_widest_exponents():
    check(np.ldexp, [np.array([1.5, 5e-324, 1e308]), np.array([2**62, -(2**62), 2**63 - 1])], exact=True)


def test_two_results_go_where_out_says():
    def f(x):
        whole, fraction = np.empty_like(x), np.empty_like(x)
        np.modf(x, out=(fraction, whole))
        return fraction - whole

    check(f, [np.linspace(-3, 3, 13)], exact=True, compiled=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: np.add(x, y, dtype=np.float64),
        lambda x, y: np.multiply(x, 3, dtype=np.float32),
        lambda x, y: np.add(x, y, out=np.zeros_like(x)),
        lambda x, y: np.sqrt(np.abs(x), out=np.full_like(x, -1), where=x > 0),
        lambda x, y: np.add.reduce(x),
        lambda x, y: np.add.reduce(x, axis=(0, 1), keepdims=True, initial=10),
        lambda x, y: np.multiply.reduce(x, axis=1, where=x > 0),
        lambda x, y: np.maximum.reduce(x, axis=None),
        lambda x, y: np.minimum.reduce(x, axis=1, initial=0, where=y > 0),
        lambda x, y: np.logical_xor.reduce(x > y, axis=1),
        lambda x, y: np.add.accumulate(x, axis=1),
        lambda x, y: np.multiply.accumulate(x),
        lambda x, y: np.subtract.outer(x, y[0]),
        lambda x, y: np.less.outer(x[0], y[1]),
        lambda x, y: np.divmod(x, 0.75),
        lambda x, y: divmod(x, y),
        lambda x, y: divmod(2.0, y),
        lambda x, y: np.float_power(np.abs(x), 3),
        lambda x, y: x**2 + 2**y,
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_calls_and_methods(function, dtype):
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal((4, 5)).astype(dtype) for _ in range(2))
    check(function, [x, y], compiled=dtype == "float64")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: np.add.reduceat(x, [0, 2]), "reduceat is not supported; reshape"),
        (lambda x: np.maximum.accumulate(x), "maximum.accumulate is not supported"),
        (lambda x: np.hypot.reduce(x), "hypot.reduce is not supported; those of add"),
        (lambda x: np.sqrt(x, where=x > 0), "needs out="),
    ],
)
def test_what_ufuncs_do_not_do_here(function, message):
    with pytest.raises(UnsupportedError, match=message):
        aotarray.lower(function, np.ones(4))
