"""Writing into local arrays: NumPy's view semantics, compared with NumPy on the same code."""

import numpy as np
import pytest

import aotarray

X = np.arange(12.0).reshape(3, 4) - 4
V = np.arange(7.0) * 1.5 - 3


def slices(x):
    y = x.copy()
    y[1:-1] = 0.5
    y[0] = y[2] * 2
    y[..., -1] += 1
    return y


def broadcast_into_rows(x):
    y = x.copy()
    y[:, 1] = x[0, 0]
    y[1:] = y[0]
    y[:, ::2] = x[:, 1::2] * 3
    return y


def operators(x):
    y = x.copy()
    y += 1
    y -= x * 2
    y *= y
    y /= 3
    y **= 2
    y //= 2
    y %= 5
    return y


def names_share_an_array(x):
    y = x.copy()
    z = y
    z += 1
    return y, z


def operators_without_in_place_make_new_arrays(x):
    y = x.copy()
    z = y
    z = z + 1
    return y, z


def views_see_writes(x):
    a = x.copy()
    b = a[1:]
    b[0] = 5
    a[2] = -1
    return a, b


def views_of_views(x):
    a = x.copy()
    b = a[1:, ::-1]
    c = b.T[1:3]
    c += 10
    c[0, 0] = -7
    a[:, 0] = 3
    return a, b, c


def transposed_writes(x):
    a = x.copy()
    a.T[1] = 9
    np.swapaxes(a, 0, 1)[2:] *= 2
    a[::-1][0] = 1
    return a


def reshaped_writes(x):
    a = x.copy()
    flat = a.reshape(-1)
    flat[3:6] = 1
    a.ravel()[0] = 8
    return a, flat


def reshapes_of_blocks(x):
    a = x.copy()
    a[1:].reshape(-1)[3] = 50
    a[0].reshape(2, 2)[1] = 60
    a[:, None].reshape(4, 3)[0, 0] = 70
    b = a.T.reshape(-1)
    c = a[:, 1:].ravel()
    return a, b, c


def new_axes(x):
    a = x.copy()
    a[:, None][1, 0] = 4
    a[None][0, 0] += 1
    return a


def swaps(x):
    a = x.copy()
    a[0], a[1] = a[1].copy(), a[0].copy()
    return a


def swap_through_views(x):
    a = x.copy()
    first, second = a[0], a[1]
    a[0], a[1] = second, first
    return a


def fills(x):
    out = np.zeros(x.shape)
    out[0] = x[1]
    out[1:, 1:] = x[1:, :-1] - x[1:, 1:]
    return out


def empty_then_filled(x):
    out = np.empty_like(x)
    out[:-1] = x[1:]
    out[-1] = 0
    return out


def small_matrix(x):
    t = x[0, 0]
    r = np.eye(3)
    r[0, 0] = np.cos(t)
    r[0, 1] = -np.sin(t)
    r[1, 0], r[1, 1] = np.sin(t), np.cos(t)
    return r


def element_by_element(x):
    out = np.zeros(4)
    for k in range(4):
        out[k] = x[:, k].sum()
        if k:
            out[k] += out[k - 1]
    return out


def masks(x):
    y = x.copy()
    y[y > 2] = 0
    y[y < -2] += 1
    y[x == 0] = x.sum()
    m = x > 1
    y[m] = np.sqrt(x[m]) + y[m] * 2
    y[~m] **= 2
    return y, x[m].sum(), np.mean(y[m]), (x[m] > 2).any()


def masked_rows(x):
    y = x.copy()
    y[x[:, 0] > 0] = x[0]
    y[x.sum(axis=1) < 0] = 2
    y[np.array([True, False, False])] = 5
    z = y[1:]
    z[z > 3] = -1
    return y, z


def stencil(x):
    u = np.zeros_like(x)
    u[1:-1, 1:-1] = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1]
    u[0] = u[1]
    u[:, 0] = u[:, 1]
    return u


def out_arguments(x):
    y = np.empty(x.shape)
    np.add(x, 1, out=y)
    np.sqrt(np.abs(y), out=y)
    np.multiply(y, 2, out=y[1:], where=x[1:] > 0) if False else np.multiply(y[1:], 2, out=y[1:])
    np.sin(y, out=y, where=x > 0)
    return y


def scalars_are_values(x):
    s = x[0, 0]
    t = s
    s += 1
    a = x.copy()
    u = a[0, 1]
    a[0, 1] = 100
    total = a.sum()
    total *= 2
    return s, t, u, a, total


def arrays_without_axes(x):
    a = np.zeros(())
    b = a
    a += 2
    c = x.copy()[0, 1, ...]
    c[...] = 9
    c += 1
    return a, b, c


def dtypes_stay(x):
    a = np.zeros(x.shape, dtype=np.int32)
    a[:] = x * 1.5
    b = np.ones(x.shape, dtype=np.float32)
    b *= 1.1
    b += x.astype(np.float32)
    return a, b


def accumulators(x):
    total = 0.0
    rows = np.zeros(x.shape[1])
    for row in x:
        rows += row
        total += row.sum()
    return rows, total


def fill_method(x):
    y = np.empty(x.shape)
    y.fill(3)
    y[0].fill(1)
    return y


def copies_are_apart(x):
    a = x.copy()
    b = a[1:].copy()
    c = np.array(a)
    a[:] = 0
    b[0] = 1
    return a, b, c


def asarray_is_the_same(x):
    a = x.copy()
    b = np.asarray(a)
    b[0] = 1
    return a


def loops_over_rows(x):
    y = x.copy()
    for k in range(1, y.shape[0]):
        y[k] += y[k - 1] * 0.5
    return y


FUNCTIONS = [
    slices, broadcast_into_rows, operators, names_share_an_array, operators_without_in_place_make_new_arrays,
    views_see_writes, views_of_views, transposed_writes, reshaped_writes, reshapes_of_blocks,
    new_axes, swaps, swap_through_views, fills,
    empty_then_filled, small_matrix, element_by_element, masks, masked_rows, stencil, out_arguments,
    scalars_are_values, arrays_without_axes, dtypes_stay, accumulators, fill_method, copies_are_apart,
    asarray_is_the_same, loops_over_rows,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_writes_as_numpy_does(function):
    x = X.copy()
    want, got = function(X), aotarray.jit(function)(x)
    np.testing.assert_array_equal(x, X)
    want, got = (r if isinstance(r, tuple) else (r,) for r in (want, got))
    for w, g in zip(want, got, strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=1e-15)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7])
def test_writes_into_slices_of_any_size(n):
    def f(x):
        y = np.zeros(x.shape[0] + 2)
        y[1:-1] = x
        y[: y.shape[0] // 2] *= 2
        y[-1] = y[0]
        return y

    compiled = test_writes_into_slices_of_any_size.__dict__.setdefault("compiled", aotarray.jit(f))
    x = np.arange(1.0, n + 1)
    np.testing.assert_array_equal(compiled(x), f(x))
    assert compiled.stats().compilations <= 2


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4", "c8", "c16"])
def test_writes_convert_to_the_dtype(dtype):
    def f(x):
        y = np.zeros(x.shape, dtype)
        y[1:] = 3
        y[0] = x[0].astype(dtype)
        return y

    x = np.array([2.0, 1.0, 5.0])
    np.testing.assert_array_equal(aotarray.jit(f)(x), f(x))


def writes_the_argument(x):
    x[0] = 1
    return x


def adds_to_the_argument(x):
    x += 1
    return x


def writes_a_view_of_the_argument(x):
    y = x.T[1:]
    y[...] = 0
    return x


def out_is_the_argument(x):
    return np.add(x, 1, out=x)


def masks_the_argument(x):
    x[x > 0] = 0
    return x


@pytest.mark.parametrize(
    "function",
    [
        writes_the_argument,
        adds_to_the_argument,
        writes_a_view_of_the_argument,
        out_is_the_argument,
        masks_the_argument,
    ],
    ids=lambda f: f.__name__,
)
def test_arguments_are_not_written(function):
    x = X.copy()
    line = function.__code__.co_firstlineno
    message = rf"test_inplace\.py:({line + 1}|{line + 2}): writing into argument 'x'.*x = x\.copy\(\)"
    with pytest.raises(aotarray.errors.TraceError, match=message):
        aotarray.jit(function)(x)
    with pytest.raises(aotarray.errors.TraceError, match=message):
        aotarray.trace(function, "f64[n, m]")
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize(
    ("write", "error", "message"),
    [
        (lambda y, x: y.__setitem__(slice(None), x[:, :2]), ValueError, "could not"),
        (
            lambda y, x: y.__setitem__((0, 9), 1),
            IndexError,
            "index 9 is out of bounds for axis 1 with size 4",
        ),
        (lambda y, x: y.__setitem__((0, 0, 0), 1), IndexError, "too many indices"),
        (lambda y, x: y.astype(int).__iadd__(1.5), TypeError, "same_kind"),
        (
            lambda y, x: np.broadcast_to(y, (2, 3, 4)).__setitem__(0, 1),
            (ValueError, NotImplementedError),
            "read-only|broadcast",
        ),
    ],
)
def test_writes_that_numpy_refuses(write, error, message):
    def f(x):
        write(x.copy(), x)
        return x

    with pytest.raises((TypeError, ValueError, IndexError)):
        f(X)
    with pytest.raises(error, match=message):
        aotarray.jit(f)(X)


def test_writing_a_traced_value_into_a_captured_array_is_refused():
    table = np.zeros(7)

    def f(x):
        table[0] = x[0]
        return x

    with pytest.raises(
        aotarray.errors.ConcretizationError, match="make arrays to write into inside the function"
    ):
        aotarray.jit(f)(V)
    assert table[0] == 0


def writes_a_reshape(x):
    a = x.copy()
    a.T.reshape(-1)[0] = 1
    return a


def reads_a_reshape_after_a_write(x):
    a = x.copy()
    b = a.T.reshape(-1)
    a[0] = 1
    return b + 1


@pytest.mark.parametrize(
    "function", [writes_a_reshape, reads_a_reshape_after_a_write], ids=lambda f: f.__name__
)
def test_reshapes_that_may_or_may_not_be_views(function):
    with pytest.raises(
        aotarray.errors.UnsupportedError, match=r"test_inplace\.py:\d+: .*reshape a copy \(x\.copy"
    ):
        aotarray.jit(function)(X)
