"""Statistics for racing: fold costs of the incumbents, and the noise between folds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swarm.arrays import Float
from swarm.evaluation.limit import Race
from swarm.evaluation.types import Evaluations
from swarm.strategies.base import Members, Proposal

__all__ = ["FREEDOM", "RaceMemory", "unexplained"]

# Degrees of freedom of the spread before racing starts.
FREEDOM = 20


@dataclass(frozen=True)
class RaceMemory:
    """Fold costs observed so far, determined by the trajectory of the search alone.

    Attributes
    ----------
    rivals : float64 (n_members, n_folds)
        Fold costs of the current solution of each member; NaN rows if unknown.
    squares, freedom : float, int
        Residual sum of squares of the fold costs, after mask and fold effects, over the masks that
        reached their incumbents, and its degrees of freedom.
    """

    rivals: Float
    squares: float = 0.0
    freedom: int = 0

    def __post_init__(self) -> None:
        self.rivals.setflags(write=False)

    @classmethod
    def blank(cls, n_folds: int) -> RaceMemory:
        """Return a memory without observations."""
        return cls(np.zeros((0, n_folds)))

    @property
    def spread(self) -> float:
        """Standard deviation, over folds, of the difference between two masks."""
        return float(np.sqrt(2.0 * self.squares / self.freedom)) if self.freedom else 0.0

    def race(self, proposal: Proposal, chance: float) -> Race | None:
        """Return the race of a proposal against the current solutions of its owners."""
        if self.freedom < FREEDOM:
            return None
        rivals = np.full((len(proposal.masks), self.rivals.shape[1]), np.nan)
        racing = (proposal.owner >= 0) & np.isfinite(proposal.incumbents)
        racing &= proposal.owner < len(self.rivals)
        rivals[racing] = self.rivals[proposal.owner[racing]]
        return Race(rivals, self.spread, chance)

    def observe(
        self, before: Members, after: Members, proposal: Proposal, answers: Evaluations
    ) -> RaceMemory:
        """Update by an epoch.

        Parameters
        ----------
        before, after : Members
            Solutions of the strategy before and after it observed the answers.
        """
        n_members = len(after.costs)
        rivals = np.full((n_members, self.rivals.shape[1]), np.nan)
        if len(self.rivals) == len(before.costs) == n_members:
            kept = before.costs == after.costs
            rivals[kept] = self.rivals[kept]
        # Whether costs of worse masks are known depends on pruning, so they are ignored.
        reached = np.isfinite(answers.costs) & (answers.costs <= proposal.incumbents)
        rows = np.flatnonzero(reached & (proposal.owner >= 0))
        # In reverse, so that the first of several rows of an owner wins.
        for row in rows[::-1]:
            owner = proposal.owner[row]
            if owner < n_members and answers.costs[row] == after.costs[owner]:
                rivals[owner] = answers.fold_costs[row]
        squares, freedom = unexplained(answers.fold_costs[reached])
        return RaceMemory(rivals, self.squares + squares, self.freedom + freedom)


def unexplained(fold_costs: Float) -> tuple[float, int]:
    """Residual sum of squares of (m, n_folds) after mask and fold means, and its freedom."""
    m, n_folds = fold_costs.shape
    if m < 2 or n_folds < 2:
        return 0.0, 0
    rest = fold_costs - fold_costs.mean(axis=1, keepdims=True)
    rest -= rest.mean(axis=0)
    return float(np.square(rest).sum()), (m - 1) * (n_folds - 1)
