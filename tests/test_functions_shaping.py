"""Views, joins, splits, padding, rolling, repeating, taking and indexing: the very elements NumPy gives."""

import numpy as np
import pytest
from agreement import check

import aotarray

RNG = np.random.default_rng(7)
REAL = RNG.standard_normal((4, 5))
ARRAYS = {
    "float64": REAL,
    "float16": REAL.astype("f2"),
    "complex64": (REAL + 1j * REAL[::-1]).astype("c8"),
    "int8": RNG.integers(-9, 9, (4, 5)).astype("i1"),
    "uint64": RNG.integers(0, 2**63, (4, 5)).astype("u8"),
    "bool": REAL > 0,
    "reversed": REAL[::-1, ::-1],
    "transposed": RNG.standard_normal((5, 4)).T,
}
ROWS = np.array([0, 2, -1])
GRID = np.array([[1], [3]])

VIEWS = [
    lambda x: (
        x.T,
        x.mT,
        np.transpose(x, (1, 0)),
        x.transpose(1, 0),
        np.swapaxes(x, 0, 1),
        np.matrix_transpose(x),
    ),
    lambda x: (np.moveaxis(x, 0, 1), np.rollaxis(x, 1), np.moveaxis(x[None], [0, 2], [2, 0])),
    lambda x: (
        x.ravel(),
        x.flatten(),
        x.reshape(2, 10),
        x.reshape(-1, 2),
        np.reshape(x, (5, 4)),
        x.reshape(20),
    ),
    lambda x: (np.flip(x), np.flip(x, 1), np.flip(x, (0, 1)), np.flipud(x), np.fliplr(x)),
    lambda x: (np.rot90(x), np.rot90(x, 2), np.rot90(x, -1), np.rot90(x, 4), np.rot90(x, 1, (1, 0))),
    lambda x: (
        np.diagonal(x),
        np.diagonal(x, 1),
        x.diagonal(-2),
        np.diagonal(x[None], 0, 1, 2),
        np.diagonal(x, 7),
    ),
    lambda x: (np.tril(x), np.triu(x, 1), np.tril(x, -2), np.triu(x, 9), np.tril(x[0]), np.triu(x[None], -1)),
    lambda x: (np.diag(x), np.diag(x[0]), np.diag(x[0], 2), np.diag(x[0], -1), np.diagflat(x, 1)),
    lambda x: (
        np.atleast_1d(x[0, 0]),
        np.atleast_2d(x[0]),
        np.atleast_3d(x),
        np.atleast_3d(x[0]),
        np.atleast_1d(x, 1.0),
    ),
    lambda x: (
        np.expand_dims(x, (0, 2)),
        np.squeeze(x[:1]),
        x[:, None].squeeze(1),
        np.squeeze(x[None, :, None]),
    ),
    lambda x: (np.broadcast_to(x, (3, 4, 5)), np.broadcast_arrays(x, x[0], x[:, :1])),
    lambda x: (x[1:-1, ::2], x[::-1], x[..., -1], x[None, 1], x[3:1], x[-3:, 4:0:-2], x[()], x[2, 3]),
    lambda x: (x.real, x.imag, np.real(x), np.imag(x), x.conj()),
]
JOINS = [
    lambda x: (np.concatenate([x, x], 1), np.concatenate([x, x[:2], x]), np.concatenate([x, x], axis=None)),
    lambda x: (np.stack([x, x], -1), np.stack([x, x]), np.hstack([x, x]), np.hstack([x[0], x[1]])),
    lambda x: (
        np.vstack([x, x[0]]),
        np.dstack([x, x]),
        np.dstack([x[0], x[0]]),
        np.column_stack([x, x[:, 0]]),
    ),
    lambda x: (np.block([[x, x], [x, x]]), np.block([x[0], x[1]]), np.append(x, x[0]), np.append(x, x, 0)),
    lambda x: (np.split(x, 2), np.array_split(x, 3, axis=1), np.array_split(x, 7), np.split(x, [1, 3])),
    lambda x: (np.hsplit(x, [1, 3]), np.vsplit(x, 4), np.hsplit(x[0], 5), np.dsplit(x[None], 5)),
    lambda x: (np.repeat(x, 3), np.repeat(x, 2, axis=0), x.repeat(2, 1), np.repeat(x, [1, 2, 0, 3], axis=0)),
    lambda x: (
        np.tile(x, 2),
        np.tile(x, (2, 1)),
        np.tile(x, (2, 1, 3)),
        np.tile(x[0], (2, 2)),
        np.tile(x, 1),
    ),
    lambda x: (
        np.roll(x, 1),
        np.roll(x, 1, 0),
        np.roll(x, -2, 1),
        np.roll(x, 7, 1),
        np.roll(x, (1, 2), (0, 1)),
    ),
    lambda x: (np.roll(x, 2, (0, 1)), np.roll(x, 0, 0), np.roll(x, -21)),
]
TAKES = [
    lambda x: (
        np.take(x, [1, -1, 0]),
        x.take([[0, 1], [2, 3]], axis=1),
        np.take(x, 3, axis=0),
        np.take(x, -1),
    ),
    lambda x: (np.take(x, [9, -9], axis=0, mode="wrap"), np.take(x, [9, -9], axis=1, mode="clip")),
    lambda x: (np.take_along_axis(x, np.array([[0], [1], [2], [-1]]), 1), np.take_along_axis(x, ROWS, None)),
    lambda x: (x[ROWS], x[:, ROWS], x[ROWS, 1], x[1, ROWS], x[GRID, ROWS], x[ROWS, :, None], x[None, ROWS]),
    lambda x: (
        x[..., ROWS],
        x[ROWS, ..., ROWS],
        x[[0, 1]],
        x[:, None, ROWS],
        x[0, None, ROWS],
        x[::-1, ROWS],
    ),
    lambda x: (x[ROWS, None, ROWS], x[None, ROWS, 1], x[None][:, ROWS, ROWS], x[None][0, :, ROWS], x[[]]),
    lambda x: (
        x[np.ix_([0, 1], [2, 3])],
        x[np.array([True, False, True, True])],
        x[[True, False, True, True], 1],
    ),
    lambda x: (np.choose((x[0] > 0).astype(int), [x[1], x[2]], mode="clip"), np.where(x > 0, x, 1)),
    lambda x: np.select([x > 1, x > 0], [x, x[::-1]], 0),
    lambda x: np.piecewise(x, [x < 0, x >= 0], [lambda v: v[0] * 0 + v, 3]),
]
PADS = [
    (mode, width)
    for mode in ("edge", "reflect", "symmetric", "wrap")
    for width in (1, 2, (0, 3), ((1, 2), (0, 3)), (3, 1), ((7, 9), (11, 6)), ((1, 1), (0, 0)))
]


@pytest.mark.parametrize("dtype", ARRAYS)
@pytest.mark.parametrize(
    "function",
    [
        *(pytest.param(f, id=f"views{n}") for n, f in enumerate(VIEWS)),
        *(pytest.param(f, id=f"joins{n}") for n, f in enumerate(JOINS)),
        *(pytest.param(f, id=f"takes{n}") for n, f in enumerate(TAKES)),
    ],
)
def test_the_elements_are_numpys(function, dtype):
    check(function, [ARRAYS[dtype]], exact=True, compiled=dtype == "transposed")


@pytest.mark.parametrize("dtype", ["float64", "complex64", "bool"])
@pytest.mark.parametrize(("mode", "width"), PADS, ids=str)
def test_padding(mode, width, dtype):
    check(
        lambda x: np.pad(x, width, mode=mode),
        [ARRAYS[dtype]],
        exact=True,
        compiled=dtype == "float64" and width in (1, ((7, 9), (11, 6))),
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.pad(x, 1),
        lambda x: np.pad(x, ((1, 2), (3, 0)), constant_values=((1, 2), (3, 4))),
        lambda x: np.pad(x, {0: 2, -1: (1, 0)}, constant_values=5),
        lambda x: np.pad(x, ((1,), (2,)), "constant", constant_values=(7, 8)),
        lambda x: np.pad(x, [(0, 1)]),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "int8", "float16"])
def test_padding_with_constants(function, dtype):
    check(function, [ARRAYS[dtype]], exact=True, compiled=dtype == "int8")


@pytest.mark.parametrize("mode", ["reflect", "symmetric", "wrap", "edge"])
def test_padding_compiles_once_for_all_sizes(mode):
    padded = aotarray.jit(lambda x: np.pad(x, (3, 2), mode=mode))
    for n in (2, 3, 4, 7, 100):
        x = np.arange(n) * 1.5
        np.testing.assert_array_equal(padded(x), np.pad(x, (3, 2), mode=mode))
    assert padded.stats().traces == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.roll(x, 3),
        lambda x: np.roll(x, -2) + np.flip(x),
        lambda x: np.tile(x, 2),
        lambda x: np.repeat(x, 3),
        lambda x: np.array_split(x, 3),
        lambda x: np.stack([x, x[::-1]], 1),
        lambda x: x[np.arange(x.shape[0] - 1, -1, -1)],
        lambda x: np.diff(x, prepend=0.0),
        lambda x: np.tril(x[:, None] * x),
        lambda x: np.diag(x, 1),
        lambda x: np.take(x, [0, -1, 2], mode="clip"),
    ],
)
def test_one_program_serves_all_sizes(function):
    compiled = aotarray.jit(function)
    for n in (4, 5, 9, 33):
        x = np.arange(n) * 0.5 - 1
        found, expected = compiled(x), function(x)
        found, expected = (r if isinstance(r, list) else [r] for r in (found, expected))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    assert compiled.stats().traces == 1


def test_writing_through_views_of_functions():
    def f(x):
        y = x.copy()
        np.flip(y)[0] = 7
        np.swapaxes(y, 0, 1)[1] += 1
        y.T[2, :2] = -1
        y[y > 1] = 0.5
        y[np.array([1.0, 2, 3, 4]) > 3] = 9
        return y

    check(f, [REAL], exact=True, compiled=True)


def test_an_index_out_of_bounds():
    compiled = aotarray.jit(lambda x, k: x[k])
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        compiled(np.arange(4.0), np.array([1, 9]))
    np.testing.assert_array_equal(compiled(np.arange(4.0), np.array([1, -4])), [1, 0])


def test_squeezing_an_axis_that_is_not_one():
    with pytest.raises(ValueError, match="not equal to one"):
        aotarray.jit(lambda x: np.squeeze(x, 0))(np.ones((2, 1)))


def test_split_into_unequal_parts():
    with pytest.raises(ValueError, match="equal division"):
        aotarray.jit(lambda x: np.split(x, 3))(np.ones(4))
