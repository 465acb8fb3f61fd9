"""Neighbourhoods and exemplars: the particles that a particle learns from."""

from __future__ import annotations

import numpy as np

from swarm.arrays import Float, Int
from swarm.strategies.operators.memory import Memory

__all__ = ["learning_probability", "ring_best", "tournament_exemplars"]


def ring_best(memory: Memory) -> Int:
    """Index of the best pbest among each particle and its two neighbours on a ring: int (n,).

    Lowest cost, then fewest units, then the particle itself, the one before, the one after.

    References
    ----------
    Kennedy and Mendes (2002), Population structure and particle swarm performance.
    """
    place = np.arange(len(memory.costs))
    around = np.stack([place, np.roll(place, 1), np.roll(place, -1)], axis=1)
    size = memory.masks.sum(axis=1)
    best = np.lexsort((size[around], memory.costs[around]), axis=1)[:, 0]
    return around[place, best]


def learning_probability(n_particles: int) -> Float:
    """Probability with which each particle learns from another: from 0.05 to 0.5 over the swarm.

    ``Pc_i = 0.05 + 0.45 (exp(10 i / (n - 1)) - 1) / (exp(10) - 1)``, i from 0.

    References
    ----------
    Liang, Qin, Suganthan and Baskar (2006), Comprehensive learning particle swarm optimizer.
    """
    rank = np.arange(n_particles) / max(1, n_particles - 1)
    probability: Float = 0.05 + 0.45 * np.expm1(10.0 * rank) / np.expm1(10.0)
    return probability


def tournament_exemplars(memory: Memory, n_units: int, rng: np.random.Generator) -> Int:
    """Choose the exemplar of every particle and unit: int (n_particles, n_units).

    With the learning probability of the particle it is the winner of a tournament of two others,
    else the particle itself; one random unit is always learned from another particle, where the
    source only requires it of a particle that would otherwise learn from itself alone.

    References
    ----------
    Liang, Qin, Suganthan and Baskar (2006).
    """
    n = len(memory.costs)
    own = np.broadcast_to(np.arange(n)[:, None], (n, n_units))
    drawn = rng.integers(0, max(1, n - 1), size=(2, n, n_units))
    # Skipping the particle itself keeps the draw uniform over the others.
    first, second = np.minimum(drawn + (drawn >= own), n - 1)
    rank = np.empty(n, dtype=np.int64)
    rank[np.lexsort((memory.masks.sum(axis=1), memory.costs))] = np.arange(n)
    winner = np.where(rank[first] <= rank[second], first, second)
    learns = rng.random((n, n_units)) < learning_probability(n)[:, None]
    learns[np.arange(n), rng.integers(0, n_units, size=n)] = True
    return np.where(learns, winner, own)
