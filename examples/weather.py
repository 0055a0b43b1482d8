"""Dwarfs of a weather model on fields (i, j, k): horizontal diffusion, vertical advection, a tridiagonal solve.

The schemes are those of the COSMO model's dynamical core (M. Baldauf et al., Monthly Weather Review 139, 2011).
"""

import numpy as np

#: weights of the explicit and the implicit part of vertical advection
EXPLICIT, IMPLICIT = 0.4, 0.6


def horizontal_diffusion(field, coefficient):
    """Fourth-order diffusion with limited fluxes: `field` (n + 4, m + 4, k), `coefficient` and result (n, m, k)."""
    laplacian = 4.0 * field[1:-1, 1:-1] - (
        field[2:, 1:-1] + field[:-2, 1:-1] + field[1:-1, 2:] + field[1:-1, :-2]
    )
    flux = laplacian[1:, 1:-1] - laplacian[:-1, 1:-1]
    flux_x = np.where(flux * (field[2:-1, 2:-2] - field[1:-2, 2:-2]) > 0.0, 0.0, flux)
    flux = laplacian[1:-1, 1:] - laplacian[1:-1, :-1]
    flux_y = np.where(flux * (field[2:-2, 2:-1] - field[2:-2, 1:-2]) > 0.0, 0.0, flux)
    return field[2:-2, 2:-2] - coefficient * (flux_x[1:] - flux_x[:-1] + flux_y[:, 1:] - flux_y[:, :-1])


def diffuse(field, coefficient, steps):
    """`steps` of horizontal diffusion of the inner points of `field` (n + 4, m + 4, k)."""
    field = field.copy()
    for _ in range(steps):
        field[2:-2, 2:-2] = horizontal_diffusion(field, coefficient)
    return field


def tridiagonal(lower, diagonal, upper, right):
    """x of `lower[k] x[k-1] + diagonal[k] x[k] + upper[k] x[k+1] = right[k]` along the last axis, by Thomas."""
    n = right.shape[-1]
    c = np.zeros_like(right)
    d = np.zeros_like(right)
    x = np.zeros_like(right)
    c[..., 0] = upper[..., 0] / diagonal[..., 0]
    d[..., 0] = right[..., 0] / diagonal[..., 0]
    for k in range(1, n):
        pivot = diagonal[..., k] - lower[..., k] * c[..., k - 1]
        c[..., k] = upper[..., k] / pivot
        d[..., k] = (right[..., k] - lower[..., k] * d[..., k - 1]) / pivot
    x[..., n - 1] = d[..., n - 1]
    for k in range(n - 2, -1, -1):
        x[..., k] = d[..., k] - c[..., k] * x[..., k + 1]
    return x


def vertical_advection(tendency_stage, u_stage, wcon, u_pos, tendency, rate):
    """The new tendency of the wind u by implicit vertical advection; `rate` is 1 / dt.

    Fields are (n, m, k), but the contravariant vertical wind `wcon`, (n + 1, m, k).
    """
    levels = u_stage.shape[-1]
    c = np.zeros_like(u_stage)
    d = np.zeros_like(u_stage)
    result = np.zeros_like(u_stage)

    # the uppermost level has no neighbour above
    below = 0.25 * (wcon[1:, :, 1] + wcon[:-1, :, 1])
    upper = below * IMPLICIT
    centre = rate - upper
    explicit = -below * EXPLICIT * (u_stage[:, :, 1] - u_stage[:, :, 0])
    right = rate * u_pos[:, :, 0] + tendency[:, :, 0] + tendency_stage[:, :, 0] + explicit
    c[:, :, 0] = upper / centre
    d[:, :, 0] = right / centre

    for k in range(1, levels - 1):
        above = -0.25 * (wcon[1:, :, k] + wcon[:-1, :, k])
        below = 0.25 * (wcon[1:, :, k + 1] + wcon[:-1, :, k + 1])
        lower = above * IMPLICIT
        upper = below * IMPLICIT
        centre = rate - lower - upper
        explicit = -above * EXPLICIT * (u_stage[:, :, k - 1] - u_stage[:, :, k])
        explicit = explicit - below * EXPLICIT * (u_stage[:, :, k + 1] - u_stage[:, :, k])
        right = rate * u_pos[:, :, k] + tendency[:, :, k] + tendency_stage[:, :, k] + explicit
        divided = 1.0 / (centre - c[:, :, k - 1] * lower)
        c[:, :, k] = upper * divided
        d[:, :, k] = (right - d[:, :, k - 1] * lower) * divided

    # the lowest has none below
    k = levels - 1
    above = -0.25 * (wcon[1:, :, k] + wcon[:-1, :, k])
    lower = above * IMPLICIT
    centre = rate - lower
    explicit = -above * EXPLICIT * (u_stage[:, :, k - 1] - u_stage[:, :, k])
    right = rate * u_pos[:, :, k] + tendency[:, :, k] + tendency_stage[:, :, k] + explicit
    divided = 1.0 / (centre - c[:, :, k - 1] * lower)
    u = (right - d[:, :, k - 1] * lower) * divided
    result[:, :, k] = rate * (u - u_pos[:, :, k])

    for k in range(levels - 2, -1, -1):
        u = d[:, :, k] - c[:, :, k] * u
        result[:, :, k] = rate * (u - u_pos[:, :, k])
    return result


def main():
    import aotarray

    random = np.random.default_rng(0)
    n, m, levels = 20, 30, 40
    fields = random.random((5, n, m, levels))
    wcon = random.random((n + 1, m, levels))
    field = random.random((n + 4, m + 4, levels))
    stage, wind, position, tendency, _ = fields
    runs = [
        (diffuse, (field, np.full((n, m, levels), 0.03), 10)),
        (tridiagonal, (stage, wind + 3.0, position, tendency)),
        (vertical_advection, (stage, wind, wcon, position, tendency, 3.0 / 20.0)),
    ]
    for function, arguments in runs:
        result = aotarray.jit(function, control_flow="python")(*arguments)
        assert np.array_equal(result, function(*arguments))
        print(f"{function.__name__}: shape {result.shape}, the same bits as NumPy")


if __name__ == "__main__":
    main()
