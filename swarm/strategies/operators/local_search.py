"""Local search of the multi-swarm: drop unimportant units, add distant ones."""

from typing import Literal

import numpy as np

from swarm.arrays import Bool, Float, Int
from swarm.problem.space import SearchSpace
from swarm.statistics.lowest import first_of


def mark_lowest(key: Float, candidates: Bool, count: Int, rng: np.random.Generator) -> Bool:
    """Mark the ``count[i]`` candidates of row i with the lowest keys, ties broken at random."""
    masked = np.where(candidates, key, np.inf)
    order = np.lexsort((rng.random(key.shape), masked, ~candidates), axis=1)
    return first_of(order, count) & candidates


def total_squared(subsets: Bool, squared: Float) -> Float:
    """Sum ``d_total(S, j)^2 = sum_{i in S} d(i, j)^2`` for every S and j: (n, n_units)."""
    # The rounding of a matrix product depends on its blocking and on the number of BLAS threads,
    # and may differ for equal columns. Sums of rows make equal units tie on any machine.
    total = np.zeros(subsets.shape)
    for row, subset in enumerate(subsets):
        total[row] = squared[subset].sum(axis=0)
    return total


def search_locally(
    pbest: Bool,
    importance: Float,
    squared: Float,
    space: SearchSpace,
    rng: np.random.Generator,
    *,
    addition_bound: Literal["min", "max"] = "min",
) -> Bool:
    """Drop unimportant units of pbest subsets S (n, n_units), and add distant ones, unrepaired.

    `importance` (n, n_units) is read where `pbest` is set, and `squared` (n_units, n_units) are
    squared distances.
    """
    # Source: the description of multi-swarm BPSO (docs/sources.md), section 2. Each of the
    # xi ~ U{1..l} units of lowest importance of the l units may leave, and each of the
    # eta ~ U{1..min(l, d - l)} units of largest d_total(S, j) may enter, with probability 0.5.
    # The source bounds eta by max(l, d - l), which fills a sparse subset.
    removable = pbest & ~space.fixed
    addable = ~pbest & ~space.forbidden
    size = pbest.sum(axis=1)
    n_missing = pbest.shape[1] - size
    bound = np.minimum if addition_bound == "min" else np.maximum
    n_removals = _draw_count(np.minimum(size, removable.sum(axis=1)), rng)
    n_additions = np.minimum(_draw_count(bound(size, n_missing), rng), addable.sum(axis=1))
    candidates = mark_lowest(importance, removable, n_removals, rng)
    candidates |= mark_lowest(-total_squared(pbest, squared), addable, n_additions, rng)
    return pbest ^ (candidates & (rng.random(pbest.shape) < 0.5))


def _draw_count(highest: Int, rng: np.random.Generator) -> Int:
    """Draw from ``U{1..highest}`` for each row, and 0 where `highest` is 0."""
    drawn = 1 + np.floor(rng.random(highest.shape) * highest).astype(np.int64)
    return np.minimum(drawn, highest)
