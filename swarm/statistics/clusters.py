"""Clusters of units."""

import numpy as np
from numpy.typing import NDArray

from swarm.arrays import Float


def clusters(distance: Float, n_clusters: int) -> NDArray[np.intp]:
    """Cluster units by complete linkage of `distance` (d, d): labels (d,), by first occurrence."""
    n_units = len(distance)
    if n_clusters in (1, n_units):
        # Includes the case of one unit, which AgglomerativeClustering rejects.
        return np.arange(n_units) if n_clusters == n_units else np.zeros(n_units, dtype=np.intp)
    from sklearn.cluster import AgglomerativeClustering

    model = AgglomerativeClustering(n_clusters, metric="precomputed", linkage="complete")
    return _renumbered(model.fit_predict(distance))


def _renumbered(labels: NDArray[np.integer]) -> NDArray[np.intp]:
    """Number clusters from 0 in the order in which they first occur."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    number = np.empty_like(first)
    number[np.argsort(first)] = np.arange(len(first))
    ordered: NDArray[np.intp] = number[inverse]
    return ordered
