"""Points in space: gravity between bodies, with a boolean mask, and k-means until convergence."""

import numpy as np

GRAVITY = 1.0


def acceleration(position, mass, softening):
    """Newton's gravity at each of the bodies `position` (n, 3) with `mass` (n, 1), softened near a body."""
    x = position[:, 0:1]
    y = position[:, 1:2]
    z = position[:, 2:3]
    dx = x.T - x
    dy = y.T - y
    dz = z.T - z
    inverse = dx**2 + dy**2 + dz**2 + softening**2
    inverse[inverse > 0] = inverse[inverse > 0] ** (-1.5)
    ax = GRAVITY * (dx * inverse) @ mass
    ay = GRAVITY * (dy * inverse) @ mass
    az = GRAVITY * (dz * inverse) @ mass
    return np.hstack((ax, ay, az))


def bodies(position, velocity, mass, dt, steps, softening):
    """Leapfrog steps (kick, drift, kick): the positions and velocities (n, 3) at the end, and the kinetic energies."""
    velocity = velocity - np.mean(mass * velocity, axis=0) / np.mean(mass)
    a = acceleration(position, mass, softening)
    energy = np.zeros(steps + 1)
    energy[0] = 0.5 * np.sum(mass * velocity**2)
    for step in range(steps):
        velocity = velocity + a * dt / 2.0
        position = position + velocity * dt
        a = acceleration(position, mass, softening)
        velocity = velocity + a * dt / 2.0
        energy[step + 1] = 0.5 * np.sum(mass * velocity**2)
    return position, velocity, energy


def kmeans(points, centres):
    """Lloyd's algorithm until no label changes: `points` (n, d), `centres` (k, d) to start from.

    The labels (n,), the centres, and how often the labels were found.
    """
    k = centres.shape[0]
    labels = np.full(points.shape[0], -1)
    changed = True
    rounds = 0
    while changed:
        distances = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        new = distances.argmin(axis=1)
        changed = (new != labels).any()
        labels = new
        counts = np.bincount(labels, minlength=k)[:, None].astype(points.dtype)
        sums = np.zeros_like(centres)
        np.add.at(sums, labels, points)
        centres = np.where(counts > 0, sums / np.maximum(counts, 1), centres)
        rounds += 1
    return labels, centres, rounds


def main():
    import aotarray

    random = np.random.default_rng(0)
    position, velocity = random.normal(size=(2, 50, 3))
    run = aotarray.jit(bodies, control_flow="python", static_argnames="steps")
    arguments = position, velocity, np.full((50, 1), 0.4), 0.01, 100, 0.1
    energy = run(*arguments)[2]
    difference = np.max(np.abs(energy / bodies(*arguments)[2] - 1.0))
    print(
        f"bodies: kinetic energy {energy[0]:.3f}, {energy[-1]:.3f} at the end, largest difference {difference:.1e}"
    )
    assert difference < 1e-9

    points = random.normal(size=(4, 3))[random.integers(0, 4, 1000)] + 0.1 * random.normal(size=(1000, 3))
    labels, centres, rounds = aotarray.jit(kmeans, control_flow="python")(points, points[:4])
    expected = kmeans(points, points[:4])
    assert np.array_equal(labels, expected[0])
    assert np.allclose(centres, expected[1])
    print(f"kmeans: {rounds} rounds")


if __name__ == "__main__":
    main()
