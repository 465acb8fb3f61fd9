"""Subswarms: membership, leaders, and the particles that search locally."""

from __future__ import annotations

import numpy as np

from swarm.arrays import Bool, Float, Int

__all__ = ["leader_of_each", "local_searchers", "rank_in_group", "regroup", "split_evenly"]


def split_evenly(n_particles: int, n_swarms: int) -> Int:
    """Subswarm label of each particle: int (n_particles,); sizes differ by at most one."""
    return np.sort(np.arange(n_particles) % n_swarms)


def regroup(group: Int, rng: np.random.Generator) -> Int:
    """Shuffle the particles over the subswarms, whose sizes stay the same."""
    return rng.permutation(group)


def rank_in_group(group: Int, cost: Float, size: Int) -> Int:
    """Rank of each particle within its subswarm by pbest cost, then size, then number.

    Parameters
    ----------
    group : int (n_particles,)
    cost : float64 (n_particles,)
        Pbest costs.
    size : int (n_particles,)
        Units in the pbest.

    Returns
    -------
    int (n_particles,)
        Zero for the leader of each subswarm.
    """
    order = np.lexsort((size, cost, group))
    sorted_group = group[order]
    first = np.searchsorted(sorted_group, sorted_group, side="left")
    rank = np.empty_like(group)
    rank[order] = np.arange(len(group)) - first
    return rank


def leader_of_each(group: Int, rank: Int) -> Int:
    """Index of the leader of each particle's own subswarm: int (n_particles,)."""
    leaders = np.flatnonzero(rank == 0)
    labels = group[leaders]
    order = np.argsort(labels)
    return leaders[order][np.searchsorted(labels[order], group)]


def local_searchers(rank: Int, n_extra: int, probability: float, rng: np.random.Generator) -> Bool:
    """Mark the particles that search locally: leaders, and the next `n_extra` with `probability`.

    One number per particle is drawn, so that the draw does not depend on the grouping.

    References
    ----------
    The description of multi-swarm BPSO (docs/sources.md), section 3 (final algorithm).
    """
    lucky = rng.random(len(rank)) < probability
    searching: Bool = (rank == 0) | ((rank <= n_extra) & lucky)
    return searching
