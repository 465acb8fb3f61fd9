"""Clusters of units."""

import numpy as np
from numpy.typing import NDArray

from swarm.arrays import Float


def clusters(distance: Float, n_clusters: int) -> NDArray[np.intp]:
    """Cluster units by complete linkage of `distance` (d, d): labels (d,), by first occurrence."""
    n_units = len(distance)
    # AgglomerativeClustering rejects a single unit.
    if n_clusters == n_units:
        return np.arange(n_units)
    if n_clusters == 1:
        return np.zeros(n_units, dtype=np.intp)
    from sklearn.cluster import AgglomerativeClustering

    model = AgglomerativeClustering(n_clusters, metric="precomputed", linkage="complete")
    return _renumbered(model.fit_predict(distance))


def _renumbered(labels: NDArray[np.integer]) -> NDArray[np.intp]:
    """Number clusters from 0 in the order in which they first occur."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    number = np.empty_like(first)
    number[np.argsort(first)] = np.arange(len(first))
    return number[inverse]
