"""What a race needs to know: the fold costs of incumbents, and how far folds differ by chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swarm.evaluation.limit import Race
from swarm.evaluation.types import Evaluations
from swarm.strategies.base import Members, Proposal

__all__ = ["RaceMemory"]

Float = NDArray[np.float64]

# Nobody races before the spread rests on this many degrees of freedom.
_FREEDOM = 20


@dataclass(frozen=True)
class RaceMemory:
    """What has been seen so far; it follows from the trajectory of the search alone.

    Attributes
    ----------
    rivals : float64 (n_members, n_folds)
        Fold costs of what each member holds; NaN rows where they are not known.
    squares, freedom : float, int
        Sum of squares of fold costs about what mask and fold explain, over the masks that reached
        their incumbents, and its degrees of freedom.
    """

    rivals: Float
    squares: float = 0.0
    freedom: int = 0

    def __post_init__(self) -> None:
        self.rivals.setflags(write=False)

    @classmethod
    def blank(cls, n_folds: int) -> RaceMemory:
        """Know nothing yet."""
        return cls(np.zeros((0, n_folds)))

    @property
    def spread(self) -> float:
        """Standard deviation of the difference of two masks, from fold to fold."""
        return float(np.sqrt(2.0 * self.squares / self.freedom)) if self.freedom else 0.0

    def race(self, proposal: Proposal, chance: float) -> Race | None:
        """Let the masks of a proposal race against what their owners hold."""
        if self.freedom < _FREEDOM:
            return None
        rivals = np.full((len(proposal.masks), self.rivals.shape[1]), np.nan)
        racing = (proposal.owner >= 0) & np.isfinite(proposal.incumbents)
        racing &= proposal.owner < len(self.rivals)
        rivals[racing] = self.rivals[proposal.owner[racing]]
        return Race(rivals, self.spread, chance)

    def observe(
        self, before: Members, after: Members, proposal: Proposal, answers: Evaluations
    ) -> RaceMemory:
        """Take in an epoch.

        Parameters
        ----------
        before, after : Members
            What the strategy held before it observed the answers, and after.
        """
        n_members = len(after.costs)
        rivals = np.full((n_members, self.rivals.shape[1]), np.nan)
        if len(self.rivals) == len(before.costs) == n_members:
            kept = before.costs == after.costs
            rivals[kept] = self.rivals[kept]
        # Costs of masks that were worse are told or not, as pruning has it: they do not count.
        reached = np.isfinite(answers.costs) & (answers.costs <= proposal.incumbents)
        told = np.flatnonzero(reached & (proposal.owner >= 0))
        # Backwards, so that the first of several rows has the last word.
        for row in told[::-1]:
            owner = proposal.owner[row]
            if owner < n_members and answers.costs[row] == after.costs[owner]:
                rivals[owner] = answers.fold_costs[row]
        squares, freedom = _unexplained(answers.fold_costs[reached])
        return RaceMemory(rivals, self.squares + squares, self.freedom + freedom)


def _unexplained(fold_costs: Float) -> tuple[float, int]:
    """Sum of squares about mask and fold means of (m, n_folds), and its degrees of freedom."""
    m, n_folds = fold_costs.shape
    if m < 2 or n_folds < 2:
        return 0.0, 0
    rest = fold_costs - fold_costs.mean(axis=1, keepdims=True)
    rest -= rest.mean(axis=0)
    return float(np.square(rest).sum()), (m - 1) * (n_folds - 1)
