"""Two-dimensional learning: likelihoods of the subset's size and of each unit.

A velocity is a matrix (2, n_units): entry ``[0, j]`` is the likelihood of subsets of ``j + 1``
units, entry ``[1, j]`` that of unit j. Source: Hafiz et al. (2018), section 3.
"""

from __future__ import annotations

import numpy as np

from swarm.arrays import Bool, Float, Int
from swarm.problem.space import SearchSpace
from swarm.strategies.operators.local_search import lowest

__all__ = [
    "exemplar_learning",
    "roulette_size",
    "self_influence",
    "self_learning",
    "size_learning",
    "take_likeliest",
]


def size_learning(masks: Bool) -> Bool:
    """Learning set of the size: one bit, at the number of units of each mask (n, n_units).

    An empty mask, such as a composite exemplar may be, has no bit.

    References
    ----------
    Hafiz et al. (2018), section 3.1.
    """
    size = masks.sum(axis=1)
    learned: Bool = np.arange(1, masks.shape[1] + 1) == size[:, None]
    return learned


def exemplar_learning(exemplar: Bool, position: Bool) -> Bool:
    """Learning set of an exemplar: its size, and its units that the particle lacks.

    Parameters
    ----------
    exemplar, position : bool (n, n_units)

    Returns
    -------
    bool (n, 2, n_units)

    References
    ----------
    Hafiz et al. (2018), equations 6 and 7.
    """
    return np.stack([size_learning(exemplar), exemplar & ~position], axis=1)


def self_learning(position: Bool) -> Bool:
    """Learning set of the particle itself: its size and its units, bool (n, 2, n_units).

    References
    ----------
    Hafiz et al. (2018), section 3.2 and equation 7.
    """
    return np.stack([size_learning(position), position], axis=1)


def self_influence(cost: Float, previous: Float) -> Float:
    """Weight of a particle's own position: positive if it has just improved.

    ``delta = 1 - cost / max(cost)``, with the sign of the improvement. By equation 9, a cost that
    is not lower than the previous one makes it negative; the first position counts as an
    improvement. If a scorer gives negative costs, the lowest of the swarm replaces zero; a failed
    position has the highest cost.

    Parameters
    ----------
    cost, previous : float64 (n,)
        Costs of the current and of the previous positions; inf before the first and for failures.

    Returns
    -------
    float64 (n,)
        Within [-1, 1].

    References
    ----------
    Hafiz et al. (2018), equations 8 and 9.
    """
    finite = np.isfinite(cost)
    worst = cost[finite].max(initial=-np.inf)
    base = min(0.0, cost[finite].min(initial=0.0))
    span = worst - base
    if not span > 0:
        return np.zeros(len(cost))
    share: Float = 1.0 - (np.where(finite, cost, worst) - base) / span
    return np.where(cost < previous, share, -share)


def roulette_size(likelihood: Float, spin: Float, space: SearchSpace) -> Int:
    """Draw the size of each subset in proportion to its likelihood.

    Negative likelihoods count as zero, since slots of a roulette wheel cannot be negative. If the
    likelihood of every allowed size is zero, all allowed sizes are equally likely.

    Parameters
    ----------
    likelihood : float64 (n, n_units)
        Likelihoods of the sizes 1 to n_units.
    spin : float64 (n,)
        Uniform random numbers in [0, 1).

    Returns
    -------
    int (n,)
        From `min_size` to `max_size`.

    References
    ----------
    Hafiz et al. (2018), section 3.5, algorithm 2 and equation 15.
    """
    sizes = np.arange(1, likelihood.shape[1] + 1)
    allowed = (sizes >= space.min_size) & (sizes <= space.max_size)
    slots = np.where(allowed, np.maximum(likelihood, 0.0), 0.0)
    slots = np.where(slots.sum(axis=1, keepdims=True) > 0, slots, allowed)
    wheel = np.cumsum(slots, axis=1)
    size: Int = 1 + (wheel <= (spin * wheel[:, -1])[:, None]).sum(axis=1)
    return np.clip(size, space.min_size, space.max_size)


def take_likeliest(
    likelihood: Float, size: Int, space: SearchSpace, rng: np.random.Generator
) -> Bool:
    """Select the `size` (n,) units of the highest likelihood.

    Fixed units come first and forbidden ones never; ties are broken at random.

    Parameters
    ----------
    likelihood : float64 (n, n_units)

    Returns
    -------
    bool (n, n_units)

    References
    ----------
    Hafiz et al. (2018), algorithm 2 and equation 16.
    """
    key = np.where(space.fixed, -np.inf, -likelihood)
    return lowest(key, np.broadcast_to(~space.forbidden, key.shape), size, rng)
