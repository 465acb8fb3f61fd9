"""Complete-linkage clustering of units."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from swarm.arrays import Float
from swarm.errors import InputError

__all__ = ["clusters", "renumbered"]


def clusters(distance: Float, n_clusters: int) -> NDArray[np.intp]:
    """Cluster units by agglomerative clustering with complete linkage.

    Parameters
    ----------
    distance : float64 (d, d)
        Distance between units.
    n_clusters : int
        Number of clusters, from 1 to d.

    Returns
    -------
    int (d,)
        Cluster of each unit, numbered from 0 in the order in which the clusters first occur.

    Raises
    ------
    InputError
        If `n_clusters` is below 1 or above d.
    """
    n_units = len(distance)
    if n_clusters < 1:
        raise InputError(f"n_clusters must be at least 1, got {n_clusters}")
    if n_clusters > n_units:
        raise InputError(
            f"n_clusters must be at most {n_units}, the number of units, got {n_clusters}"
        )
    if n_clusters in (1, n_units):
        # Includes the case of one unit, which AgglomerativeClustering rejects.
        return np.arange(n_units) if n_clusters == n_units else np.zeros(n_units, dtype=np.intp)
    from sklearn.cluster import AgglomerativeClustering

    model = AgglomerativeClustering(n_clusters, metric="precomputed", linkage="complete")
    return renumbered(model.fit_predict(distance))


def renumbered(labels: NDArray[np.integer]) -> NDArray[np.intp]:
    """Number clusters from 0 in the order in which they first occur."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    number = np.empty_like(first)
    number[np.argsort(first)] = np.arange(len(first))
    found: NDArray[np.intp] = number[inverse]
    return found
