"""Shortest paths between all pairs of nodes, by Floyd and Warshall."""

import numpy as np


def shortest_paths(weights):
    """The lengths of the shortest paths; `weights` (n, n), infinite where there is no edge."""
    distances = weights.copy()
    for k in range(distances.shape[0]):
        distances = np.minimum(distances, distances[:, k, None] + distances[None, k, :])
    return distances


def main():
    import aotarray

    random = np.random.default_rng(0)
    weights = np.where(random.random((200, 200)) < 0.03, random.random((200, 200)), np.inf)
    distances = aotarray.jit(shortest_paths, control_flow="python")(weights)
    print(f"longest of the shortest paths: {np.max(distances[np.isfinite(distances)]):.3f}")
    assert np.array_equal(distances, shortest_paths(weights))


if __name__ == "__main__":
    main()
