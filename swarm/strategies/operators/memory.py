"""Personal bests of a swarm, and the state that keeps them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swarm.arrays import Bool, Float, Int, read_only
from swarm.evaluation.types import Evaluations
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Members, Proposal


@dataclass(frozen=True)
class Memory:
    """The pbests: the best position that each particle has found.

    Attributes
    ----------
    masks : bool (n_particles, n_units)
    costs : float64 (n_particles,)
        Measured for exactly these masks; inf before the first evaluation.
    importances : float64 (n_particles, n_units)
    """

    masks: Bool
    costs: Float
    importances: Float

    def __post_init__(self) -> None:
        read_only(self.masks, self.costs, self.importances)

    @classmethod
    def blank(cls, masks: Bool) -> Memory:
        """Make a memory of unevaluated positions."""
        return cls(masks.copy(), np.full(len(masks), np.inf), np.zeros(masks.shape))


@dataclass(frozen=True)
class MemoryState:
    """State after `epoch` proposals; the arrays of subclasses become read-only."""

    space: SearchSpace
    epoch: int
    memory: Memory

    def __post_init__(self) -> None:
        read_only(*(value for value in vars(self).values() if isinstance(value, np.ndarray)))

    @property
    def members(self) -> Members:
        """The solutions, in one group."""
        return Members.plain(self.memory.masks, self.memory.costs)


def propose_to_improve(memory: Memory, masks: Bool, role: str) -> Proposal:
    """Propose a mask for each particle; its incumbent is the pbest."""
    n = len(masks)
    return Proposal(masks, memory.costs, np.arange(n), (role,) * n)


def best_of(memory: Memory) -> int:
    """Index of the gbest: lowest cost, then fewest units, then first."""
    return int(np.lexsort((memory.masks.sum(axis=1), memory.costs))[0])


def improves(cost: Float, size: Int, than: Float, than_size: Int) -> Bool:
    """Whether the cost is lower, or equal and finite with fewer units: bool (n,)."""
    return (cost < than) | (np.isfinite(cost) & (cost == than) & (size < than_size))


def remember(memory: Memory, owner: Int, masks: Bool, costs: Float, importances: Float) -> Memory:
    """Update the pbests of `owner` (n,) by candidates (n, n_units), row by row."""
    best_masks = memory.masks.copy()
    best_costs = memory.costs.copy()
    best_importances = memory.importances.copy()
    size = masks.sum(axis=1)
    for rows in _rows_of_distinct_owners(owner):
        particle = owner[rows]
        best_size = best_masks[particle].sum(axis=1)
        is_better = improves(costs[rows], size[rows], best_costs[particle], best_size)
        rows = rows[is_better]
        particle = particle[is_better]
        best_masks[particle] = masks[rows]
        best_costs[particle] = costs[rows]
        best_importances[particle] = importances[rows]
    return Memory(best_masks, best_costs, best_importances)


def learn(memory: Memory, proposal: Proposal, evaluations: Evaluations) -> Memory:
    """Update the personal bests by the masks of a proposal."""
    return remember(
        memory, proposal.owner, proposal.masks, evaluations.costs, evaluations.importances
    )


def shrink(masks: Bool, used: Bool, space: SearchSpace) -> Bool:
    """Drop the units that no fold model used, but keep the first of them up to `min_size`."""
    # Source: the description of multi-swarm BPSO (docs/sources.md), section 1: "the updated
    # position (subset) will only include the features that were actually used by the model".
    smaller = masks & (used | space.fixed)
    n_missing = np.minimum(masks.sum(axis=1), space.min_size) - smaller.sum(axis=1)
    too_small = np.flatnonzero(n_missing > 0)
    dropped = masks[too_small] & ~smaller[too_small]
    smaller[too_small] |= dropped & (np.cumsum(dropped, axis=1) <= n_missing[too_small, None])
    return smaller


def _rows_of_distinct_owners(owner: Int) -> list[Int]:
    """Split the row numbers, in row order, so that no particle occurs twice in a list."""
    order = np.argsort(owner, kind="stable")
    sorted_owner = owner[order]
    occurrence = np.empty(len(owner), dtype=np.int64)
    occurrence[order] = np.arange(len(owner)) - np.searchsorted(sorted_owner, sorted_owner)
    return [np.flatnonzero(occurrence == i) for i in range(int(occurrence.max(initial=-1)) + 1)]
