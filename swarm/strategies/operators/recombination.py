"""Recombination of a pbest with the pbest of its leader."""

from __future__ import annotations

import numpy as np

from swarm.arrays import Bool

__all__ = ["recombine"]


def recombine(
    pbest: Bool, leader: Bool, rng: np.random.Generator, *, fixed: Bool, forbidden: Bool
) -> Bool:
    """Cross two masks uniformly, then drop one unit and add one on average.

    Each bit is that of `pbest` or of `leader`, with probability 0.5. Then each of the l selected
    units that may leave is dropped with probability ``1 / l``, and each of the m units that may
    enter is added with probability ``1 / m``. So the size of the result is on average that of its
    parents, which the sigmoid of the binary PSO pulls towards half of the units.

    Parameters
    ----------
    pbest, leader : bool (n_particles, n_units)
        `leader` has one row per particle.
    fixed, forbidden : bool (n_units,)
        Units that are not flipped.

    Returns
    -------
    bool (n_particles, n_units)
        Not repaired: a row may be empty.

    References
    ----------
    Syswerda (1989), Uniform crossover in genetic algorithms; the rates of the flips are ours.
    """
    child = np.where(rng.random(pbest.shape) < 0.5, pbest, leader)
    removable = child & ~fixed
    addable = ~child & ~forbidden
    dropped = removable / np.maximum(1, removable.sum(axis=1, keepdims=True))
    added = addable / np.maximum(1, addable.sum(axis=1, keepdims=True))
    flipped: Bool = child ^ (rng.random(child.shape) < dropped + added)
    return flipped
