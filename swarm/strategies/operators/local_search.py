"""Local search of the multi-swarm: drop unimportant units, add distant ones."""

from __future__ import annotations

from typing import Literal

import numpy as np

from swarm.arrays import Bool, Float, Int
from swarm.problem.space import SearchSpace
from swarm.statistics.distances import Distances


def lowest(key: Float, among: Bool, count: Int, rng: np.random.Generator) -> Bool:
    """Mark the `count` lowest keys of each row among the marked units.

    Ties are broken at random, so that exactly ``min(count, available)`` units are marked.

    Parameters
    ----------
    key : float64 (n, n_units)
    among : bool (n, n_units)
    count : int (n,)

    Returns
    -------
    bool (n, n_units)
    """
    masked = np.where(among, key, np.inf)
    order = np.lexsort((rng.random(key.shape), masked, ~among), axis=1)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(key.shape[1])[None, :], axis=1)
    return (rank < count[:, None]) & among


def search_locally(
    pbest: Bool,
    importance: Float,
    distances: Distances,
    space: SearchSpace,
    rng: np.random.Generator,
    *,
    addition_bound: Literal["min", "max"] = "min",
) -> Bool:
    """Search around pbest subsets S of size l among d units.

    ``xi ~ U{1..l}`` units of S with the lowest importance are candidates for removal and
    ``eta ~ U{1..min(l, d - l)}`` units outside S with the largest total distance
    ``d_total(S, j)^2 = sum_{i in S} d(i, j)^2`` are candidates for addition; each candidate
    flips with probability 0.5. The source bounds eta by ``max(l, d - l)``; ``min`` keeps a sparse
    subset sparse. Fixed and forbidden units are never candidates.

    Parameters
    ----------
    pbest : bool (n, n_units)
    importance : float64 (n, n_units)
        Higher is more important; read where `pbest` is set.

    Returns
    -------
    bool (n, n_units)
        Not repaired: a row may be empty.

    References
    ----------
    The description of multi-swarm BPSO (docs/sources.md), section 2.
    """
    removable = pbest & ~space.fixed
    addable = ~pbest & ~space.forbidden
    size = pbest.sum(axis=1)
    outside = pbest.shape[1] - size
    bound = np.minimum if addition_bound == "min" else np.maximum
    most_added = bound(size, outside)
    removals = _uniform_count(np.minimum(size, removable.sum(axis=1)), rng)
    # A draw above the number of units outside takes them all.
    additions = np.minimum(_uniform_count(most_added, rng), addable.sum(axis=1))
    candidates = lowest(importance, removable, removals, rng)
    candidates |= lowest(-distances.total(pbest), addable, additions, rng)
    return pbest ^ (candidates & (rng.random(pbest.shape) < 0.5))


def _uniform_count(most: Int, rng: np.random.Generator) -> Int:
    """Draw from ``U{1..most}`` for each row, and 0 where `most` is 0."""
    drawn = 1 + np.floor(rng.random(most.shape) * most).astype(np.int64)
    return np.minimum(drawn, most)
