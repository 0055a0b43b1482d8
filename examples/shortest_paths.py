"""Shortest paths between all pairs of nodes, by Floyd and Warshall."""

import numpy as np


def shortest_paths(weights):
    """The lengths of the shortest paths; `weights` (n, n), infinite where there is no edge."""
    distances = weights.copy()
    for k in range(distances.shape[0]):
        distances = np.minimum(distances, distances[:, k, None] + distances[None, k, :])
    return distances
