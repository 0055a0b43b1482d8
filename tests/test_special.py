"""Special functions: `aotarray.special`, and scipy's ufuncs on traced arrays."""

import os
import subprocess
import sys

import numpy as np
import pytest
from agreement import assert_same, check

import aotarray
import aotarray.numpy as anp
from aotarray import special
from aotarray.errors import UnsupportedError
from aotarray.special import RULES

EDGES = [
    0.0,
    1.0,
    0.5,
    0.25,
    0.3,
    0.65,
    2.0,
    3.0,
    1e-5,
    0.1,
    0.9,
    30.0,
    1e-20,
    1e-300,
    1e300,
    np.inf,
    np.nan,
    7.5,
]
ONE = """erf erfc erfcx expit logit log_expit ndtr log_ndtr entr exp10 exprel cosm1 gamma gammaln loggamma gammasgn
digamma psi""".split()  # noqa: SIM905
TWO = "xlogy xlog1py rel_entr kl_div huber pseudo_huber boxcox boxcox1p inv_boxcox inv_boxcox1p".split()  # noqa: SIM905
#: in their tails these differ from scipy's by what scipy loses
ROUGH = ("ndtr", "log_ndtr", "erfcx")
#: of subnormal numbers, where scipy's give 0 or infinity
TINY = ("expm1", "gammaln", "loggamma")


@pytest.fixture(scope="module")
def scipy_special():
    return pytest.importorskip("scipy.special", reason="scipy is not installed")


def arguments(name, dtype):
    """Edges of both signs, and numbers of all usual sizes; all pairs of edges for two arguments."""
    rng = np.random.default_rng(7)
    edges = np.array([s * v for v in EDGES for s in (1, -1)])
    scattered = np.concatenate([rng.uniform(0, 1, 40), rng.uniform(-40, 40, 40), rng.standard_normal(40)])
    with np.errstate(over="ignore"):
        if name not in TWO:
            return (np.concatenate([edges, scattered]).astype(dtype),)
        grid = np.meshgrid(edges, edges)
        return tuple(np.concatenate([g.ravel(), rng.permutation(scattered)]).astype(dtype) for g in grid)


def near(found, expected, units):
    """Equal but for some units in the last place; infinities and NaN in the same places."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    with np.errstate(all="ignore"):
        gap = np.abs(found.astype(float) - expected.astype(float)) <= units * np.spacing(np.abs(expected))
    same = (found == expected) | (np.isnan(found) & np.isnan(expected)) | gap
    return ~same


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", sorted(RULES))
def test_scipys_ufuncs(scipy_special, name, dtype):
    function = getattr(scipy_special, name)
    given = arguments(name, dtype)
    with np.errstate(all="ignore"):
        expected = function(*given)
        found = aotarray.jit(lambda *x: function(*x))(*given)
        wrong = near(found, expected, 4000 if name in ROUGH else 400)
        if name in TINY:
            wrong &= np.abs(given[0]) > 1e-300
        if "gamma" in name or name in (
            "digamma",
            "psi",
        ):  # near zeros, where only the terms that cancel are right
            wrong &= ~np.isclose(found, expected, rtol=0, atol=1e-13 if dtype == "float64" else 1e-5)
    assert [(tuple(x[k] for x in given), expected[k]) for k in np.flatnonzero(wrong)] == []


@pytest.mark.parametrize("name", ["erf", "xlogy", "kl_div", "expit"])
def test_dtypes_are_those_of_scipys_loops(scipy_special, name):
    function = getattr(scipy_special, name)
    one = [np.ones(3, d) for d in ("?", "i1", "u2", "i4", "i8", "f2", "f4", "f8")]
    cases = [(x,) for x in one] if function.nin == 1 else [(x, y) for x in one for y in (*one, 2, 2.0)]
    for given in cases:
        check(lambda *x: function(*x), given)


def test_other_ufuncs_of_scipy_are_refused(scipy_special):
    with pytest.raises(
        UnsupportedError, match=r"scipy\.special\.jv is not supported in compiled functions; aotarray"
    ):
        aotarray.lower(lambda x: scipy_special.jv(0, x), "f64[n]")
    with pytest.raises(UnsupportedError, match=r"scipy\.special\.erf of complex values is not supported"):
        aotarray.lower(lambda x: scipy_special.erf(x), "c128[n]")


@pytest.mark.parametrize("name", special.__all__)
def test_own_functions(name):
    """Traced they give what they give outside; float32 stays, everything else is float64."""
    function = getattr(special, name)
    count = 2 if name in TWO else 1
    for dtype in ("float64", "float32", "int32", "bool", "float16"):
        x = (
            np.array([1, 2, 3]).astype(dtype)
            if dtype in ("int32", "bool")
            else np.linspace(0.1, 0.9, 5).astype(dtype)
        )
        expected = function(*(x,) * count)
        assert expected.dtype == (np.float32 if dtype == "float32" else np.float64)
        check(function, (x,) * count, compiled=dtype[:3] == "flo", scale=10.0)
    if count == 2:
        assert function(np.float32([0.5]), 0.25).dtype == np.float32
        check(lambda x: (function(x, 0.25), function(0.25, x)), (np.float32([0.5, 0.75]),), scale=10.0)
    with pytest.raises(UnsupportedError, match="of complex values are not supported"):
        function(*(np.ones(2) + 0j,) * count)


def test_they_work_in_loops_built_modules_and_without_scipy(tmp_path):
    source = """
import numpy as np
import aotarray
import aotarray.numpy as anp
from aotarray import special

@aotarray.export("f64[n]")
def price(x):
    return aotarray.fori_loop(0, 3, lambda i, y: special.ndtr(y) + anp.special.erfc(y), x)
"""
    (tmp_path / "prices.py").write_text(source)
    run = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
sys.modules["scipy"] = None
import prices, aotarray, numpy as np
aotarray.build(prices.price, name="prices_native", out={str(tmp_path)!r})
import prices_native
x = np.linspace(-2, 2, 9)
print(np.array_equal(prices_native.price(x), aotarray.jit(prices.price)(x)), "scipy.special" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True)
    assert done.stdout.split() == ["True", "False"], done.stderr


def test_namespace_has_them():
    assert anp.special is special
    assert_same(anp.special.erf(np.zeros(3)), np.zeros(3))


#: what traces as it is; `m` is (8, 6)
FUNCTIONS = (
    *(f"special.{n}(x)" for n in ONE), *(f"special.{n}(x, y)" for n in TWO),
    "special.logsumexp(x)", "special.logsumexp(m, axis=0, b=y[:1])", "special.softmax(x)",
    "special.log_softmax(m, axis=1)", "special.softplus(x)", "special.sinc(x)",
    "integrate.trapezoid(m, dx=0.5)", "integrate.trapezoid(m, m[0], axis=1)", "integrate.simpson(m, dx=0.5)",
    "integrate.cumulative_trapezoid(m)", "integrate.romb(m[:, :5])",
    "stats.zscore(m)", "stats.gmean(m)", "stats.skew(m)", "stats.kurtosis(m)", "stats.moment(m, order=3)",
    "stats.sem(m)", "stats.entropy(m)", "stats.boxcox_llf(2.0, x)", "cluster.vq.whiten(m)", "optimize.rosen(x)",
    "optimize.rosen_der(x)",
    "constants.convert_temperature(m, 'C', 'K')", "fft.fftshift(m)",
)  # fmt: skip
#: and only with SCIPY_ARRAY_API=1
BY_NAMESPACE = (
    "fft.fft(m)", "fft.rfft(m, axis=0)", "fft.irfftn(m)", "signal.fftconvolve(x, y)", "signal.hilbert(x)",
    "signal.welch(m, nperseg=4)[1]", "signal.freqz(x)[1]", "integrate.cumulative_simpson(m, dx=0.5)",
    "stats.variation(m)", "stats.tmean(m)",
)  # fmt: skip


@pytest.mark.parametrize("mode", ["0", "1"])
def test_functions_of_scipy_that_trace_as_they_are(scipy_special, mode):
    program = f"""
import numpy as np, aotarray
from scipy import cluster, constants, fft, integrate, optimize, signal, special, stats
import scipy.cluster.vq
x, y = np.array([0.1, 0.25, 0.7, 0.9]), np.array([0.2, 0.5, 1.0, 2.0])
m = np.random.default_rng(1).uniform(0.1, 2, (8, 6))
for text in {FUNCTIONS + BY_NAMESPACE * (mode == "1")!r}:
    function = eval("lambda x, y, m: " + text)
    np.testing.assert_allclose(aotarray.jit(function)(x, y, m), function(x, y, m), rtol=1e-12, atol=1e-13, err_msg=text)
"""
    environment = {**os.environ, "SCIPY_ARRAY_API": mode}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
