"""Clusters of the columns of wide tables, in time and memory linear in the columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from swarm.errors import InputError
from swarm.statistics.clusters import clusters
from swarm.statistics.lazy_distance import LazyDistances, spread_order

__all__ = ["line_clusters"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]

# Units that are clustered by complete linkage to start from, and rounds after it.
_SAMPLE, _ROUNDS = 1000, 5
# Units of one product, and the largest whole number in a centre: products stay below 2^53.
_PANEL, _LARGEST = 2048, float(2**20)


def line_clusters(distances: LazyDistances, n_clusters: int) -> Int:
    """Cluster units by k-means on ranks whose sign does not matter.

    A cluster is a line through the origin: the sum of the centred ranks of its members, each
    turned to the side of the centre of the round before. A unit joins the centre with the
    largest mean rho^2 over its columns. Rounds end when no unit moves, or after 5: chance
    correlations of noise would go on moving it.

    The first centres come from a sample of 1,000 units, spread over the table, that is cut by
    complete linkage as a narrow table is. A centre that lost all its units takes the one that
    suits its own centre least. Constant columns correlate with nothing: where there are any
    they are one cluster, and the others share what is left.

    Ranks and centres are whole numbers and their products exact, so the labels are the same
    for any BLAS and number of threads.

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
    Cutting et al. (1992), Scatter/Gather (a sample clustered to start k-means from); Kriegel
    et al. (2009), Clustering high-dimensional data (clusters around lines).
    """
    n_units = distances.n_units
    if not 1 <= n_clusters <= n_units:
        raise InputError(f"n_clusters must be from 1 to the {n_units} units, got {n_clusters}")
    varies = np.add.reduceat(distances.norm, distances.starts) > 0
    n_lines = min(n_clusters - int(not varies.all()), int(varies.sum()))
    labels = np.full(n_units, n_lines)
    if n_lines < 1:
        return np.zeros(n_units, dtype=np.int64)
    labels[varies] = _on_lines(distances, np.flatnonzero(varies), n_lines)
    return _renumbered(labels)


def _on_lines(distances: LazyDistances, units: Int, n_lines: int) -> Int:
    """Labels of some units: int (n,)."""
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
    inside: Int = labels[units]
    return inside


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
    """Give each cluster without units one that fits its own cluster least."""
    size = np.bincount(labels[units], minlength=n_lines)
    empty = np.flatnonzero(size == 0)
    if not empty.size:
        return
    worst = units[np.argsort(fit[units], kind="stable")]
    # The best unit of each cluster stays, so that none is emptied to fill another.
    order = np.lexsort((-fit[units], labels[units]))
    keeps = units[order[np.unique(labels[units][order], return_index=True)[1]]]
    free = worst[~np.isin(worst, keeps)]
    labels[free[: len(empty)]] = empty


def _moved(distances: LazyDistances, labels: Int, centres: Float) -> Float:
    """Sum the ranks of each cluster, every column turned to the side of its centre before."""
    sums = np.zeros(centres.shape)
    n_columns = len(distances.ranks)
    sizes = np.diff(np.append(distances.starts, n_columns))
    owner = np.repeat(labels, sizes)
    for start in range(0, n_columns, _PANEL):
        own = owner[start : start + _PANEL]
        inside = np.flatnonzero(own >= 0)
        ranks = distances.ranks[start : start + _PANEL][inside].astype(np.float64)
        cluster = own[inside]
        # A product of 0 has to fall to one side: any, but always the same.
        side = np.where(np.einsum("ij,ij->i", ranks, centres[cluster]) < 0, -1.0, 1.0)
        signs = np.zeros((len(centres), len(inside)))
        signs[cluster, np.arange(len(inside))] = side
        sums += signs @ ranks
    largest = np.abs(sums).max(axis=1, keepdims=True)
    # Rounded to whole numbers of a bounded size, so that all products are exact.
    return np.rint(sums * (_LARGEST / np.where(largest > 0, largest, 1.0)))


def _renumbered(labels: Int) -> Int:
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    number = np.empty_like(first)
    number[np.argsort(first)] = np.arange(len(first))
    found: Int = number[inverse].astype(np.int64)
    return found
