"""Stop the evaluation of masks that are unlikely to win, within a partition and between several.

A race compares the folds of a mask so far with those of its incumbent. On several fold partitions
the rule is that of irace (López-Ibáñez et al. 2016): candidates are evaluated on one instance after
the other, and dropped once they are clearly worse than the best one on the instances so far, so
that those that lead have been evaluated most often. Here an instance is a fold partition, and a
dropped mask keeps an estimate of its cost, so that a swarm can move on.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from swarm.arrays import Bool, Float, Int
from swarm.evaluation.limit import Race
from swarm.evaluation.types import Evaluations, Evaluator, Work
from swarm.storage.records import costs_of
from swarm.strategies.base import Members, Proposal

# Degrees of freedom of the spread before racing starts.
_FREEDOM = 20


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
        squares, freedom = _unexplained(answers.fold_costs[reached])
        return RaceMemory(rivals, self.squares + squares, self.freedom + freedom)


def _unexplained(fold_costs: Float) -> tuple[float, int]:
    """Residual sum of squares of (m, n_folds) after mask and fold means, and its freedom."""
    m, n_folds = fold_costs.shape
    if m < 2 or n_folds < 2:
        return 0.0, 0
    rest = fold_costs - fold_costs.mean(axis=1, keepdims=True)
    rest -= rest.mean(axis=0)
    return float(np.square(rest).sum()), (m - 1) * (n_folds - 1)


def evaluate_by_partition(
    evaluator: Evaluator,
    masks: Bool,
    incumbents: Float,
    order: Int,
    repeats: int,
    memory: RaceMemory,
    chance: float,
) -> tuple[Evaluations, RaceMemory]:
    """Evaluate masks (n, n_units) on one partition after the other.

    Parameters
    ----------
    evaluator : Evaluator
    masks, incumbents, order
        As in :meth:`swarm.evaluation.types.Evaluator.evaluate`, the folds of a partition together.
    repeats : int
        Number of partitions.
    memory : RaceMemory
        Its rival is the best known mask; there is none before the first epoch.
    chance : float
        A mask is evaluated on another partition unless its probability to have a lower cost than
        the best known mask, see :class:`swarm.evaluation.limit.Limit`, is below this.

    Returns
    -------
    evaluations : Evaluations
        Costs of masks that were evaluated on all partitions are exact. The others are worse than
        the best known mask on the folds that `needed` names; there they have measured fold costs,
        and on other folds those of the best known mask plus the mean difference.
    memory : RaceMemory
        With the fold costs of the best mask known now.
    """
    race = _Race(evaluator, masks, incumbents, order, repeats, memory, chance)
    active = np.arange(len(masks))
    for stage in range(1, repeats + 1):
        if len(active):
            active = race.evaluate(active, stage)
    return race.finished()


class _Race:
    """Results of the stages so far, row by row; filled in as the stages end."""

    def __init__(
        self,
        evaluator: Evaluator,
        masks: Bool,
        incumbents: Float,
        order: Int,
        repeats: int,
        memory: RaceMemory,
        chance: float,
    ) -> None:
        self.evaluator, self.masks, self.incumbents = evaluator, masks, incumbents
        self.order, self.repeats = order, repeats
        self.memory, self.chance = memory, chance
        n, n_folds = len(masks), len(order)
        self.costs = np.full(n, np.inf)
        self.fold_costs = np.full((n, n_folds), np.nan)
        self.importances = np.zeros(masks.shape)
        self.used = masks.copy()
        self.failed, self.complete = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        self.needed = np.zeros((n, n_folds), dtype=bool)
        self.work, self.exact_shrink = Work(), False
        self.error: str | None = None
        self.rival: Float | None = memory.rivals[0] if len(memory.rivals) else None
        self.spread = memory.spread if memory.freedom >= _FREEDOM else np.inf
        self.added = (0.0, 0)

    def evaluate(self, rows: Int, stage: int) -> Int:
        """Evaluate rows on the first partitions; return those that may be better than the best."""
        n_folds = len(self.order)
        folds = self.order[: n_folds // self.repeats * stage]
        last = stage == self.repeats
        limits = self.incumbents[rows]
        if not last:
            limits = self._limits(limits, folds)
        found = self.evaluator.evaluate(self.masks[rows], limits, folds)
        self._keep(rows, found, stage)
        measured = np.isfinite(found.costs) & (found.costs <= limits)
        if stage == 1:
            self.added = _unexplained(found.fold_costs[measured][:, folds])
            if self.memory.freedom < _FREEDOM:
                squares, freedom = self.added
                seen = RaceMemory(self.memory.rivals, squares, freedom)
                self.spread = seen.spread if freedom >= _FREEDOM else np.inf
        if last:
            self.complete[rows] = measured
            self.costs[rows] = found.costs
            return rows[:0]
        if not measured.any():
            return rows[:0]
        best = self._mean(folds) if self.rival is not None else found.costs[measured].min()
        near = found.costs - best <= self._width(len(folds))
        return rows[measured & near]

    def finished(self) -> tuple[Evaluations, RaceMemory]:
        """Estimate the costs of rows that were dropped, and put everything together."""
        rival = self._best()
        costs = np.where(self.complete, self.costs, np.inf)
        dropped = ~self.complete & ~self.failed & np.isfinite(self.fold_costs).any(axis=1)
        known = rival if self.rival is None else self.rival
        if known is not None:
            for row in np.flatnonzero(dropped):
                seen = np.isfinite(self.fold_costs[row])
                behind = (self.fold_costs[row, seen] - known[seen]).mean()
                self.fold_costs[row, ~seen] = known[~seen] + behind
                costs[row] = costs_of(self.fold_costs[row, None])[0]
        censored = ~self.failed & ~(costs <= self.incumbents)
        lost = censored | self.failed | np.isinf(costs)
        self.fold_costs[lost] = np.nan
        self.importances[lost] = 0.0
        if self.exact_shrink:
            # Models of the other partitions may use further units.
            self.used[dropped] = self.masks[dropped]
        self.used[lost] = self.masks[lost]
        evaluations = Evaluations(
            costs=np.where(lost, np.inf, costs),
            fold_costs=self.fold_costs,
            importances=self.importances,
            used=self.used,
            censored=censored | (lost & ~self.failed),
            failed=self.failed,
            needed=self.needed,
            exact_shrink=self.exact_shrink,
            work=self.work,
            first_error=self.error,
        )
        squares, freedom = self.added
        rivals = self.memory.rivals if rival is None else rival[None, :]
        return evaluations, RaceMemory(
            rivals, self.memory.squares + squares, self.memory.freedom + freedom
        )

    def _best(self) -> Float | None:
        """Fold costs of the best mask that was evaluated on all partitions; None if none was."""
        costs = np.where(self.complete, self.costs, np.inf)
        row = int(costs.argmin())
        lowest = np.inf if self.rival is None else self._mean(self.order)
        if costs[row] >= lowest:
            return self.rival
        best: Float = self.fold_costs[row].copy()
        return best

    def _limits(self, incumbents: Float, folds: Int) -> Float:
        """Costs on some folds above which a mask is dropped and worse than its incumbent."""
        if self.rival is None:
            return np.full(len(incumbents), np.inf)
        best = self._mean(folds)
        shift = self._mean(self.order) - best
        return np.maximum(incumbents - shift, best + self._width(len(folds)))

    def _mean(self, folds: Int) -> float:
        assert self.rival is not None
        return float(costs_of(self.rival[None, np.sort(folds)])[0])

    def _width(self, seen: int) -> float:
        """Mean difference on the folds seen below which the other folds may compensate."""
        n_folds = len(self.order)
        width = self.spread * np.sqrt((n_folds - seen) / (n_folds * seen))
        return float(-NormalDist().inv_cdf(self.chance) * width)

    def _keep(self, rows: Int, found: Evaluations, stage: int) -> None:
        self.exact_shrink = found.exact_shrink
        self.failed[rows] = found.failed
        self.needed[rows] |= found.needed
        # A row that was dropped by its limit has no costs on its last partition.
        self.fold_costs[rows] = found.fold_costs
        self.importances[rows], self.used[rows] = found.importances, found.used
        self.error = self.error or found.first_error
        self.work = self.work.plus(found.work, with_hits=stage == 1)
