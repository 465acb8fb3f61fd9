"""Local search of the multi-swarm: drop unimportant units, add distant ones."""

from typing import Literal

import numpy as np

from swarm.arrays import Bool, Float, Int
from swarm.problem.space import SearchSpace
from swarm.statistics.lowest import first_of


def lowest(key: Float, among: Bool, count: Int, rng: np.random.Generator) -> Bool:
    """Mark the ``count[i]`` lowest keys of row i among the marked units, ties broken at random."""
    masked = np.where(among, key, np.inf)
    order = np.lexsort((rng.random(key.shape), masked, ~among), axis=1)
    return first_of(order, count) & among


def total_squared(subsets: Bool, squared: Float) -> Float:
    """Sum ``d_total(S, j)^2 = sum_{i in S} d(i, j)^2`` for every S and j: (n, n_units)."""
    # The rounding of a matrix product depends on its blocking and on the number of BLAS threads,
    # and may differ for equal columns. With sums row by row, equal units tie on any machine.
    total = np.zeros(subsets.shape)
    for row, subset in enumerate(subsets):
        total[row] = squared[subset].sum(axis=0)
    return total


def search_locally(
    pbest: Bool,
    importance: Float,  # (n, n_units), read where `pbest` is set
    squared: Float,  # (n_units, n_units), squared distances
    space: SearchSpace,
    rng: np.random.Generator,
    *,
    addition_bound: Literal["min", "max"] = "min",
) -> Bool:
    """Drop unimportant units of pbest subsets S (n, n_units), and add distant ones, unrepaired."""
    # xi ~ U{1..l} of its l units with the lowest importance may leave it, and
    # eta ~ U{1..min(l, d - l)} others with the largest d_total(S, j) may enter, each with
    # probability 0.5; the source bounds eta by max(l, d - l), which fills a sparse subset.
    # Source: the description of multi-swarm BPSO (docs/sources.md), section 2.
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
    candidates |= lowest(-total_squared(pbest, squared), addable, additions, rng)
    return pbest ^ (candidates & (rng.random(pbest.shape) < 0.5))


def _uniform_count(most: Int, rng: np.random.Generator) -> Int:
    """Draw from ``U{1..most}`` for each row, and 0 where `most` is 0."""
    drawn = 1 + np.floor(rng.random(most.shape) * most).astype(np.int64)
    return np.minimum(drawn, most)
