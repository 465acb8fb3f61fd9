"""Clusters of units: by complete linkage, or in linear time for the columns of wide tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from swarm.arrays import Float, Int
from swarm.statistics.spearman import LazyDistances, spread_order

# Sample size of the initial complete linkage of wide tables, and number of k-means rounds after it.
_SAMPLE, _ROUNDS = 1000, 5
# Columns of one product, and the largest integer in a centre: products stay below 2^53.
_PANEL, _LARGEST = 2048, float(2**20)


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
    if n_clusters in (1, n_units):
        # Includes the case of one unit, which AgglomerativeClustering rejects.
        return np.arange(n_units) if n_clusters == n_units else np.zeros(n_units, dtype=np.intp)
    from sklearn.cluster import AgglomerativeClustering

    model = AgglomerativeClustering(n_clusters, metric="precomputed", linkage="complete")
    return _renumbered(model.fit_predict(distance))


def line_clusters(distances: LazyDistances, n_clusters: int) -> Int:
    """Cluster units by sign-invariant k-means on ranks.

    A cluster is a line through the origin: the sum of the centred ranks of its members, each with
    the sign of its correlation with the previous centre. A unit is assigned to the centre with
    the largest mean rho^2 over its columns. The rounds end when no unit moves, or after 5 rounds,
    because chance correlations keep moving noise.

    The initial centres are computed by complete linkage, as for narrow tables, from a sample of
    1,000 units that is spread over the table. An empty cluster is given the unit that fits its own
    centre least. Constant columns correlate with nothing and form a separate cluster.

    Ranks and centres are integers and their products exact, so that the labels do not depend on
    BLAS or the number of threads.

    Parameters
    ----------
    distances : LazyDistances
    n_clusters : int
        From 1 to the number of units.

    Returns
    -------
    int (n_units,)
        Cluster of each unit, numbered from 0 in the order in which the clusters first occur.

    Raises
    ------
    InputError
        If `n_clusters` is below 1 or above the number of units.

    References
    ----------
    Cutting et al. (1992), Scatter/Gather (k-means initialized from a clustered sample); Kriegel
    et al. (2009), Clustering high-dimensional data (clusters around lines).
    """
    n_units = distances.n_units
    varies = np.add.reduceat(distances.norm, distances.starts) > 0
    n_lines = min(n_clusters - int(not varies.all()), int(varies.sum()))
    labels = np.full(n_units, n_lines)
    if n_lines < 1:
        return np.zeros(n_units, dtype=np.int64)
    labels[varies] = _on_lines(distances, np.flatnonzero(varies), n_lines)
    return _renumbered(labels).astype(np.int64)


def _on_lines(distances: LazyDistances, units: Int, n_lines: int) -> Int:
    """Return the labels of non-constant units: int (n,)."""
    sample = units[spread_order(len(units))[: max(_SAMPLE, n_lines)]]
    cut = clusters(distances.between(sample), n_lines)
    leaders = np.unique(cut, return_index=True)[1]
    labels = np.full(distances.n_units, -1)
    labels[sample] = cut
    first = distances.ranks[distances.starts[sample[leaders]]].astype(np.float64)
    centres = _moved(distances, labels, first)
    for _ in range(_ROUNDS):
        found, fit = _joined(distances, centres)
        _fill_empty(found, fit, units, n_lines)
        settled = np.array_equal(found[units], labels[units])
        labels[units] = found[units]
        if settled:
            break
        centres = _moved(distances, labels, centres)
    return labels[units]


def _joined(distances: LazyDistances, centres: Float) -> tuple[Int, Float]:
    """Return the best centre of every unit, and its mean rho^2 times the size of the unit."""
    norm = np.einsum("ij,ij->i", centres, centres)
    scale = np.where(norm > 0, norm, 1.0)[:, None]
    n_columns = len(distances.ranks)
    fit = np.empty((len(centres), n_columns))
    for start in range(0, n_columns, _PANEL):
        panel = slice(start, start + _PANEL)
        products = centres @ distances.ranks[panel].astype(np.float64).T
        own = np.where(distances.norm[panel] > 0, distances.norm[panel], 1.0)
        fit[:, panel] = np.square(products) / scale / own
    if n_columns != distances.n_units:
        fit = np.add.reduceat(fit, distances.starts, axis=1)
    best = np.argmax(fit, axis=0)
    return best, fit[best, np.arange(distances.n_units)]


def _fill_empty(labels: Int, fit: Float, units: Int, n_lines: int) -> None:
    """Move the units that fit their cluster least into the empty clusters."""
    size = np.bincount(labels[units], minlength=n_lines)
    empty = np.flatnonzero(size == 0)
    if not empty.size:
        return
    worst = units[np.argsort(fit[units], kind="stable")]
    # The best unit of each cluster stays, so that no other cluster becomes empty.
    order = np.lexsort((-fit[units], labels[units]))
    keeps = units[order[np.unique(labels[units][order], return_index=True)[1]]]
    free = worst[~np.isin(worst, keeps)]
    labels[free[: len(empty)]] = empty


def _moved(distances: LazyDistances, labels: Int, centres: Float) -> Float:
    """Sum the ranks of each cluster, each with the sign of its product with the old centre."""
    sums = np.zeros(centres.shape)
    n_columns = len(distances.ranks)
    sizes = np.diff(np.append(distances.starts, n_columns))
    owner = np.repeat(labels, sizes)
    for start in range(0, n_columns, _PANEL):
        own = owner[start : start + _PANEL]
        inside = np.flatnonzero(own >= 0)
        ranks = distances.ranks[start : start + _PANEL][inside].astype(np.float64)
        cluster = own[inside]
        # A product of 0 needs a fixed sign; which one does not matter.
        side = np.where(np.einsum("ij,ij->i", ranks, centres[cluster]) < 0, -1.0, 1.0)
        signs = np.zeros((len(centres), len(inside)))
        signs[cluster, np.arange(len(inside))] = side
        sums += signs @ ranks
    largest = np.abs(sums).max(axis=1, keepdims=True)
    # Rounded to integers of bounded size, so that all products are exact.
    return np.rint(sums * (_LARGEST / np.where(largest > 0, largest, 1.0)))


def _renumbered(labels: NDArray[np.integer]) -> NDArray[np.intp]:
    """Number clusters from 0 in the order in which they first occur."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    number = np.empty_like(first)
    number[np.argsort(first)] = np.arange(len(first))
    found: NDArray[np.intp] = number[inverse]
    return found
