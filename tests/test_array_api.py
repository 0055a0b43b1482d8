"""`aotarray.numpy` and traced arrays against the array API standard 2024.12: names, signatures, dtypes, values."""

import functools
import inspect
import operator
import types

import numpy as np
import pytest
from agreement import assert_same, check, leaves, numpy_result
from array_api_standard import ATTRIBUTES, CONSTANTS, DTYPES, ELEMENTWISE, METHODS, STANDARD

import aotarray
import aotarray.numpy as anp
from aotarray.errors import ConcretizationError, UnsupportedError
from aotarray.interpret import interpret
from aotarray.trace.functions import FUNCTIONS
from aotarray.trace.functions.creation import CREATION
from aotarray.trace.tracer import Tracer

#: functions that take no arrays
NO_RULE = {"finfo", "iinfo", "isdtype", "from_dlpack"}
EXTRA = {"sort", "argsort", "fft.fftfreq", "fft.rfftfreq"}  # parameters that NumPy does not have
DEPENDENT = ("nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values")


def find(namespace, dotted):
    return functools.reduce(getattr, dotted.split("."), namespace)


def forms(signature):
    """Arguments as the standard allows them to be given: by position and by name."""
    positional, either, named = [], {}, {}
    for p in signature.parameters.values():
        if p.kind == p.KEYWORD_ONLY:
            named[p.name] = 1
        elif p.kind == p.POSITIONAL_OR_KEYWORD:
            either[p.name] = 1
        else:
            positional.append(1)
    yield [*positional, *either.values()], named
    yield positional, {**either, **named}


@pytest.mark.parametrize("name", STANDARD)
def test_functions_take_the_standards_arguments(name):
    own, rule = find(anp, name), CREATION.get(name) or FUNCTIONS.get(find(np, name))
    places = [own] if rule is None or name in EXTRA else [own, rule]
    assert rule is not None or isinstance(own, np.ufunc) or name in NO_RULE
    if isinstance(own, np.ufunc):
        positional = [p for p in STANDARD[name].parameters.values() if p.kind == p.POSITIONAL_ONLY]
        assert len(positional) == own.nin
        places = []
    for place in places:
        for arguments, named in forms(STANDARD[name]):
            inspect.signature(place).bind(*arguments, **named)


def test_constants_dtypes_and_version():
    assert anp.__array_api_version__ <= "2024.12"
    for name, value in CONSTANTS.items():
        assert getattr(anp, name) is value or getattr(anp, name) == value or np.isnan(value)
    for name in DTYPES:
        assert np.dtype(getattr(anp, name)).name == name


def test_arrays_have_the_standards_attributes():
    for name in (*ATTRIBUTES, *METHODS):
        assert hasattr(Tracer, name), name

    def f(x):
        assert x.__array_namespace__() is x.__array_namespace__(api_version="2024.12") is anp
        assert (x.device, x.to_device("cpu"), x.ndim, x.dtype) == ("cpu", x, 2, np.float64)
        assert x.shape[0].__array_namespace__() is anp
        assert (x.T.shape, x.mT.shape, x.size) == ((3, 2), (3, 2), 6)
        with pytest.raises(
            ValueError, match=r"version '2030.12' of the array API is not supported; .*2024\.12"
        ):
            x.__array_namespace__(api_version="2030.12")
        with pytest.raises(ValueError, match='Only "cpu" is allowed'):
            x.to_device("gpu")
        with pytest.raises(ValueError, match='Only "cpu" is allowed'):
            anp.zeros(3, device="gpu")
        with pytest.raises(ValueError, match='Only "cpu" is allowed'):
            anp.astype(x, anp.float32, device="gpu")
        for method in (x.__dlpack__, x.__dlpack_device__):
            with pytest.raises(UnsupportedError, match=r"no memory that another library could read"):
                method()
        for convert in (bool, int, float, complex, operator.index):
            with pytest.raises((ConcretizationError, TypeError)):
                convert(x[0, 0])
        return x

    aotarray.lower(f, np.ones((2, 3)))


def test_creation_functions_make_traced_arrays():
    """Wherever they are called from, so that all arrays of a program are of one namespace."""

    def f(x):
        made = [anp.asarray(2.0), anp.asarray([1.0, 2.0]), anp.arange(3), anp.linspace(0, 1, 3)]
        assert [type(y) for y in made] == [Tracer] * 4
        assert np.broadcast_shapes(x.shape, (2, 1)) == (2, x.shape[0])
        return x

    aotarray.lower(f, "f64[n]")
    assert anp.broadcast_shapes((3, 1), (2,)) == (3, 2)


def test_known_scalars_convert():
    def f(x):
        one = anp.asarray(1)
        assert (bool(one), int(one), float(one), complex(one), operator.index(one)) == (True, 1, 1.0, 1, 1)
        return x

    aotarray.lower(f, np.ones(3))


def test_namespace_info():
    info = anp.__array_namespace_info__()
    assert info.default_device() == "cpu"
    assert info.devices() == ["cpu"]
    assert info.default_dtypes() == np.__array_namespace_info__().default_dtypes()
    for kind in (None, "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating",
                 "numeric", ("bool", "integral")):  # fmt: skip
        assert info.dtypes(kind=kind, device="cpu") == np.__array_namespace_info__().dtypes(kind=kind)
    assert info.capabilities() == np.__array_namespace_info__().capabilities()
    with pytest.raises(ValueError, match="unsupported kind"):
        info.dtypes(kind="number")
    with pytest.raises(ValueError, match="Device not understood"):
        info.dtypes(device="gpu")


# -- element-wise functions -----------------------------------------------------------------------
def values(dtype, rank=2):
    """Few values of all sorts."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(len(dtype.name) + rank)
    if dtype.kind == "b":
        return rng.integers(0, 2, (2, 3)).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(1, 5, (2, 3)).astype(dtype)
    x = rng.uniform(0.1, 0.9, (2, 3))
    return (x + 1j * x[::-1] if dtype.kind == "c" else x).astype(dtype)


def elementwise_cases():
    for kind, names in ELEMENTWISE.items():
        dtypes = anp.__array_namespace_info__().dtypes(kind=kind.split(" or ") if kind != "all" else None)
        for name in names.split():
            yield from ((name, dtype) for dtype in dtypes)


@pytest.mark.parametrize(("name", "dtype"), list(elementwise_cases()))
def test_elementwise_functions(name, dtype):
    x = values(dtype)
    arguments = (x,) if len(STANDARD[name].parameters) == 1 else (x, values(dtype, 1)[0])
    eager = numpy_result(getattr(anp, name), arguments)
    assert_same(eager, numpy_result(getattr(np, name), arguments), exact=True)
    check(getattr(anp, name), arguments, scale=20.0)
    if len(arguments) == 2 and name not in ("atan2", "copysign", "hypot", "logaddexp", "nextafter"):
        number = {"b": True, "i": 1, "u": 1, "f": 0.5, "c": 0.5}[x.dtype.kind]
        check(lambda x: (getattr(anp, name)(x, number), getattr(anp, name)(number, x)), (x,), scale=20.0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_elementwise_functions_compiled(dtype):
    names = [n for n, d in elementwise_cases() if d == dtype]
    x, y = values(dtype), values(dtype, 1)[0]

    def f(x, y):
        found = []
        for name in names:
            found.append(getattr(anp, name)(*(x, y)[: len(STANDARD[name].parameters)]))
        return found

    check(f, (x, y), compiled=True, scale=20.0)


# -- everything else ------------------------------------------------------------------------------
#: calls in the standard's form; x, y are (3, 4) of a dtype, v is (4,), m (3, 3) positive definite, i (2,) positions
CALLS = """\
xp.arange(2, dtype=x.dtype), xp.arange(1, 7, 2, dtype=xp.float32, device=x.device), xp.arange(x.shape[0])
xp.asarray(x, dtype=xp.float64, device=x.device, copy=True), xp.asarray([1.0, 2.0]), xp.asarray(x, copy=False)
xp.empty((2, x.shape[0]), dtype=xp.int8, device=x.device) * 0, xp.empty_like(x, dtype=xp.bool, device=x.device) & False
xp.eye(3, 4, k=1, dtype=xp.float32, device=x.device), xp.eye(x.shape[0])
xp.full((2, 3), 7, dtype=xp.uint8, device=x.device), xp.full_like(x, 1, dtype=xp.float32, device=x.device)
xp.full(3, True), xp.full((), 2.0)
xp.linspace(0, 1, 5, dtype=xp.float32, device=x.device, endpoint=False), xp.linspace(0.0, 2.0, num=x.shape[1])
xp.meshgrid(v, v[:2], indexing='ij'), xp.meshgrid(v, v[:2])
xp.ones(3, dtype=xp.int16, device=x.device), xp.ones_like(x, dtype=xp.int16, device=x.device), xp.ones((x.shape[0], 2))
xp.zeros(3, dtype=xp.int16, device=x.device), xp.zeros_like(x, dtype=xp.int16, device=x.device)
xp.tril(x, k=1), xp.triu(x, k=-1)
xp.from_dlpack(x), xp.from_dlpack(x, device='cpu', copy=True)
xp.astype(x, xp.float32, copy=False), xp.astype(x, xp.bool, device='cpu')
xp.asarray(xp.isdtype(x.dtype, 'integral')), xp.asarray(xp.isdtype(x.dtype, (xp.float32, 'complex floating')))
xp.asarray(xp.can_cast(x.dtype, xp.float64)), xp.asarray(xp.can_cast(x, xp.float64))
xp.zeros(1, dtype=xp.result_type(x, xp.float32)), xp.zeros(1, dtype=xp.result_type(x, 1.0, y))
xp.take(x, i, axis=1), xp.take(v, i), xp.take_along_axis(x, xp.argsort(x, axis=1), axis=1)
xp.take_along_axis(x, xp.argsort(x, axis=-1), axis=-1)
xp.matmul(x, xp.matrix_transpose(y)), x @ y.mT, xp.matmul(x, v)
xp.tensordot(x, y, axes=2), xp.tensordot(x, v, axes=1), xp.tensordot(x, y, axes=((0,), (0,)))
xp.vecdot(x, y, axis=-1), xp.vecdot(x, y, axis=0)
xp.broadcast_arrays(x, v), xp.broadcast_to(v, shape=(2, 4)), xp.broadcast_to(v, (3, v.shape[0]))
xp.concat([x, y], axis=0), xp.concat((x, y), axis=1), xp.concat([x, y], axis=None)
xp.expand_dims(x, axis=1), xp.expand_dims(x, axis=-1)
xp.flip(x), xp.flip(x, axis=1), xp.flip(x, axis=(0, 1))
xp.moveaxis(x, 0, 1), xp.moveaxis(x, (0, 1), (1, 0)), xp.permute_dims(x, (1, 0)), xp.permute_dims(x, axes=(1, 0))
xp.repeat(x, 2), xp.repeat(x, 2, axis=1), xp.reshape(x, (4, 3)), xp.reshape(x, shape=(-1,), copy=True)
xp.roll(x, 1), xp.roll(x, 1, axis=0), xp.roll(x, shift=(1, -1), axis=(0, 1))
xp.squeeze(x[None], 0), xp.squeeze(x[None], axis=(0,)), xp.stack([x, y], axis=1), xp.stack([x, y])
xp.tile(x, (2, 1)), xp.tile(v, (2,)), xp.unstack(x), xp.unstack(x, axis=1)
xp.searchsorted(xp.sort(v), v, side='right'), xp.searchsorted(v, v, side='left', sorter=xp.argsort(v))
xp.where(x > v, x, y), xp.where(x > v, x, 0)
xp.count_nonzero(x), xp.count_nonzero(x, axis=1, keepdims=True)
xp.argsort(x, axis=0, stable=True), xp.sort(x, axis=-1, stable=True), xp.sort(x, axis=0)
xp.cumulative_sum(x, axis=1), xp.cumulative_sum(v, include_initial=True), xp.cumulative_sum(v, dtype=xp.float64)
xp.cumulative_prod(x, axis=1), xp.cumulative_prod(v, include_initial=True), xp.cumulative_prod(v, dtype=xp.float64)
xp.prod(x), xp.prod(x, axis=1, keepdims=True), xp.prod(x, dtype=xp.float64)
xp.sum(x), xp.sum(x, axis=(0, 1)), xp.sum(x, axis=1, keepdims=True, dtype=xp.complex128)
xp.all(x), xp.all(x, axis=(0, 1), keepdims=True), xp.any(x), xp.any(x, axis=0, keepdims=True)
xp.diff(x, axis=0, n=2), xp.diff(v, prepend=v[:1], append=v[:2])
xp.clip(x, 1, 2), xp.clip(x, min=1), xp.clip(x, max=2), xp.clip(x, v, None), xp.clip(x, v, v + v), xp.clip(x)
xp.linalg.matrix_power(m, 3), xp.linalg.matrix_transpose(x), xp.linalg.outer(v, v)
xp.linalg.diagonal(x, offset=1), xp.linalg.trace(x, offset=1), xp.linalg.trace(x, dtype=xp.float64)
xp.linalg.cross(x[:, :3], y[:, :3], axis=-1), xp.linalg.cross(x, y, axis=0)
xp.linalg.matmul(x, y.mT), xp.linalg.tensordot(x, y, axes=2), xp.linalg.vecdot(x, y, axis=0)
x[0], x[..., 1], x[:, None], x[1:, ::2], x[i], x[i, i], xp.newaxis
""".splitlines()
REAL = """\
xp.argmax(x), xp.argmax(x, axis=1, keepdims=True), xp.argmin(x), xp.argmin(x, axis=0)
xp.max(x), xp.max(x, axis=(0, 1), keepdims=True), xp.min(x), xp.min(x, axis=1)
xp.sort(x, axis=1, descending=True), xp.argsort(x, axis=0, descending=True, stable=True)
""".splitlines()
FLOATING = """\
xp.mean(x), xp.mean(x, axis=1, keepdims=True), xp.std(x, axis=0, correction=1.0, keepdims=True), xp.std(x)
xp.var(x, axis=(0, 1), correction=1), xp.var(x, correction=0.5), xp.astype(x, xp.int32) if x.dtype.kind == 'f' else x
xp.linalg.cholesky(m), xp.linalg.cholesky(m, upper=True), xp.linalg.det(m), xp.linalg.inv(m)
xp.linalg.eigvalsh(m), xp.linalg.eigh(m).eigenvalues, xp.linalg.svdvals(x), xp.linalg.svd(x, full_matrices=False).S
xp.linalg.matrix_norm(x), xp.linalg.matrix_norm(x, ord='nuc', keepdims=True), xp.linalg.matrix_norm(x, ord=2)
xp.linalg.matrix_rank(m), xp.linalg.matrix_rank(m, rtol=1e-3), xp.linalg.pinv(m, rtol=1e-6), xp.linalg.pinv(x)
abs(xp.linalg.qr(x, mode='reduced').R), abs(xp.linalg.qr(x, mode='complete')[1])
xp.linalg.slogdet(m).sign, xp.linalg.slogdet(m).logabsdet, xp.linalg.solve(m, x), xp.linalg.solve(m, v[:3])
xp.linalg.vector_norm(x), xp.linalg.vector_norm(x, axis=1, ord=1), xp.linalg.vector_norm(x, ord=xp.inf, keepdims=True)
xp.linalg.vector_norm(x, axis=(0, 1), ord=3), xp.linalg.vector_norm(x, axis=0, ord=0)
xp.fft.fft(x), xp.fft.fft(x, n=5, axis=0, norm='ortho'), xp.fft.ifft(x, norm='forward')
xp.fft.fftn(x), xp.fft.fftn(x, s=(2, 3), axes=(0, 1)), xp.fft.ifftn(x, axes=(0,)), xp.fft.irfft(x), xp.fft.irfft(x, n=5)
xp.fft.irfftn(x), xp.fft.hfft(x), xp.fft.hfft(x, n=5), xp.fft.fftshift(x), xp.fft.ifftshift(x, axes=(1,))
xp.fft.rfft(x.real), xp.fft.rfftn(x.real, axes=(0, 1)), xp.fft.ihfft(x.real, n=3)
xp.fft.fftfreq(5, d=0.5, device=x.device), xp.fft.rfftfreq(5, d=0.5, dtype=xp.float32), xp.fft.fftfreq(x.shape[0])
""".splitlines()


class Reference:
    """NumPy, with the standard's parameters that it lacks."""

    def __init__(self, module=np):
        self.module = module

    def __getattr__(self, name):
        found = getattr(self.module, name)
        return Reference(found) if isinstance(found, types.ModuleType) else found

    def sort(self, x, axis=-1, descending=False, stable=True):
        return np.flip(np.sort(x, axis), axis) if descending else np.sort(x, axis)

    def argsort(self, x, axis=-1, descending=False, stable=True):
        if descending:
            return np.lexsort(
                (np.broadcast_to(np.arange(x.shape[axis]), x.T.shape).T, -x.astype(float)), axis=axis
            )
        return np.argsort(x, axis=axis, stable=stable)

    def from_dlpack(self, x, device=None, copy=None):
        return x

    def fftfreq(self, n, d=1.0, device=None, dtype=None):
        return np.fft.fftfreq(n, d).astype(dtype or float)

    def rfftfreq(self, n, d=1.0, device=None, dtype=None):
        return np.fft.rfftfreq(n, d).astype(dtype or float)


def operands(dtype):
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 3, (2, 3, 4)).astype(dtype)
    if dtype.kind in "fc":
        x += rng.random((3, 4)).astype(dtype)
    m = (np.eye(3) * 4 + np.ones((3, 3))).astype(dtype)
    return x, y, y[0].copy(), m, np.array([2, 0])


def evaluated(text, xp):
    code = compile(f"({text},)", "<call>", "eval")
    return lambda x, y, v, m, i: [
        part for part in eval(code, {"xp": xp, "x": x, "y": y, "v": v, "m": m, "i": i}) if part is not None
    ]


def call_cases():
    for dtype in DTYPES:
        kind = np.dtype(dtype).kind
        lines = (*CALLS, *(REAL if kind in "iuf" else ()), *(FLOATING if kind in "fc" else ()))
        if kind == "b":
            lines = [
                t for t in lines if not any(s in t for s in ("diff", "clip", "linalg", "prod", "cumulative"))
            ]
        yield from ((text, dtype) for text in lines)


@pytest.mark.parametrize(("text", "dtype"), list(call_cases()))
def test_calls(text, dtype):
    arguments = operands(dtype)
    expected = leaves(numpy_result(evaluated(text, Reference()), arguments))
    eager = leaves(numpy_result(evaluated(text, anp), arguments))
    results = [eager]
    for xp in (anp,) if "descending" in text else (anp, Reference()):
        graph = aotarray.lower(evaluated(text, xp), *arguments).traced.graph
        results.append(interpret(graph, arguments))
    for found in results:
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other, scale=100.0)


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64", "complex128"])
def test_calls_compiled(dtype):
    arguments = operands(dtype)
    for texts in (t for t in (CALLS, REAL, FLOATING) if t is CALLS or dtype[0] == "f"):
        text = ", ".join(texts)
        expected = leaves(numpy_result(evaluated(text, Reference()), arguments))
        found = leaves(aotarray.jit(evaluated(text, anp))(*arguments))
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other, scale=100.0)


@pytest.mark.parametrize("name", DEPENDENT)
def test_sizes_that_depend_on_values(name):
    x = np.array([3, 0, 3, 1])
    expected = leaves(getattr(np, name)(x))
    traced = aotarray.jit(lambda x: getattr(x.__array_namespace__(), name)(x))
    for found in (getattr(anp, name)(x), traced(x)):
        for one, other in zip(leaves(found), expected, strict=True):
            free = name == "unique_values"  # in any order
            assert_same(*((np.sort(one), np.sort(other)) if free else (one, other)))


def test_boolean_masks():
    def f(x):
        y = x[x > 0]
        assert y.__array_namespace__() is anp
        assert y.device == "cpu"
        return y, anp.sum(y), anp.sort(y, descending=True), anp.argsort(y, descending=True)

    results = aotarray.jit(f)(np.array([3, 0, 3, 1]))
    for found, expected in zip(results, ([3, 3, 1], 7, [3, 3, 1], [0, 1, 2]), strict=True):
        assert_same(found, np.array(expected))


def operator_cases():
    symbols = {
        "iu": "+ - * / // % ** & | ^ << >> < <= > >= == !=",
        "f": "+ - * / // % ** < <= > >= == !=",
        "c": "+ - * / ** == !=",
        "b": "& | ^ == !=",
    }
    for dtype in DTYPES:
        listed = next(s for kinds, s in symbols.items() if np.dtype(dtype).kind in kinds)
        yield from ((symbol, dtype) for symbol in listed.split())


@pytest.mark.parametrize(("symbol", "dtype"), list(operator_cases()))
def test_operators(symbol, dtype):
    """Of two arrays, of an array and a Python scalar on either side, and in place."""
    x, y = values(dtype), values(dtype, 1)
    number = {"b": True, "i": 2, "u": 2, "f": 2.0, "c": 2.0}[x.dtype.kind]
    binary = eval(f"lambda a, b: a {symbol} b")
    check(lambda x, y: (binary(x, y), binary(x, number), binary(number, x)), (x, y), scale=20.0)
    if symbol[0] not in "<>=!" and (symbol != "/" or x.dtype.kind in "fc"):
        space = {}
        exec(f"def f(x, y):\n a = x.copy()\n b = a\n a {symbol}= y\n return b", space)
        check(space["f"], (x, y), scale=20.0)


def test_products_along_other_axes():
    """Generalised ufuncs take `axis`, `axes` and `keepdims`."""
    x, y = np.arange(24.0).reshape(2, 3, 4), np.arange(24.0, 0, -1).reshape(2, 3, 4)
    check(lambda x, y: np.vecdot(x, y, axis=1, keepdims=True), (x, y))
    check(lambda x, y: np.vecdot(x, y, axes=[0, 0]), (x, y))
    check(lambda x, y: np.vecdot(x, y, axes=[(0,), (-3,), ()]), (x, y))
    check(lambda x, y: np.matmul(x, y, axes=[(0, 1), (1, 2), (-2, -1)]), (x[:, :, 0], y), compiled=True)
    check(lambda x, y: np.matmul(x, y, axes=[(2, 0), (0, 2), (0, 1)]), (x, y))
    with pytest.raises(TypeError, match="are for functions that fold one axis"):
        aotarray.lower(lambda x, y: np.matmul(x, y, axis=0), x, y)
    with pytest.raises(TypeError, match="cannot specify both 'axis' and 'axes'"):
        aotarray.lower(lambda x, y: np.vecdot(x, y, axis=0, axes=[0, 0]), x, y)


def test_matrix_product_in_place():
    def f(m, v):
        a = m.copy()
        b = a
        a @= m
        return a, b

    m = np.arange(9.0).reshape(3, 3)
    check(f, (m, m[0]), compiled=True)
    with pytest.raises(ValueError, match="broadcast together"):
        aotarray.lower(lambda x, y: operator.imatmul(x.copy(), y), np.ones((2, 3)), np.ones((3, 4)))
