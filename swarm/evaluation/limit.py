"""Pruning and racing: stop training masks that cannot, or are unlikely to, win."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from swarm.arrays import Bool, Float, Int
from swarm.storage.records import Record

# Sums in another order differ in the last digits; this tolerance keeps ties below the limit.
_MARGIN = 1e-10


@dataclass(frozen=True, eq=False)
class Race:
    """The incumbents that a proposal races against.

    Attributes
    ----------
    rivals : float64 (n, n_folds)
        Fold costs of the incumbent of each mask; NaN rows if a mask does not race.
    spread : float
        Standard deviation over folds of the difference between two masks.
    chance : float
        Training is stopped if the probability to win is below this threshold.
    """

    rivals: Float
    spread: float
    chance: float

    def __post_init__(self) -> None:
        self.rivals.setflags(write=False)


@dataclass(frozen=True, eq=False)
class Limit:
    """Stopping rule for the training of a mask.

    Exact (pruning): the costs of the trained folds already put the mean above `cost`, as costs
    are non-negative. Lossy (racing), only with rivals: the remaining folds are unlikely to
    compensate for the difference to the incumbent on the trained folds. With ``j`` of ``n`` folds
    trained, and differences of mean ``m`` and standard deviation ``s``, the mean difference over
    all folds is normal around ``m`` with variance ``s^2 (n - j) / (n j)``; the rule compares the
    probability that it is negative with `chance`.

    Attributes
    ----------
    cost : float
        inf for no limit.
    rivals : float64 (n_rivals, n_folds) or None
        A mask that occurs several times in a batch races against each incumbent, and is stopped
        only if it loses against all.
    spread, chance : float
        See :class:`Race`.
    """

    cost: float = float("inf")
    rivals: Float | None = None
    spread: float = 0.0
    chance: float = 0.0

    @property
    def is_finite(self) -> bool:
        """Whether training may stop before all folds are trained."""
        return self.cost < np.inf or self.rivals is not None

    def passed(self, total: float, n_folds: int) -> bool:
        """Whether costs with the sum `total` exceed the limit, or a fit has failed."""
        return total / n_folds > self.cost or bool(np.isinf(total))

    def hopeless(self, costs: Float, seen: list[int]) -> bool:
        """Whether the race is lost after the folds `seen`.

        Parameters
        ----------
        costs : float64 (n_folds,)
            Known for the folds `seen`.
        """
        n_folds, j = len(costs), len(seen)
        if self.rivals is None or j == 0 or j == n_folds:
            return False
        behind = costs[seen].sum() - self.rivals[:, seen].sum(axis=1).max()
        width = self.spread * np.sqrt((n_folds - j) / (n_folds * j))
        return bool(behind / j > -NormalDist().inv_cdf(self.chance) * width)

    def next_fold(self, fold_costs: Float, fold_order: Int) -> int | None:
        """Return the fold to train next, or None if it is decided whether a mask exceeds the limit.

        Folds are examined in `fold_order`, regardless of which are known, so that the decision
        depends on the true fold costs and not on the contents of an archive.

        Parameters
        ----------
        fold_costs : float64 (n_folds,)
            NaN if the fold was not trained.
        fold_order : int (n_folds,)
        """
        return self._walk(fold_costs, fold_order)[1]

    def needed_folds(self, fold_costs: Float, fold_order: Int) -> Bool:
        """Return the folds that decide whether a mask exceeds the limit, trained in `fold_order`.

        A pure function of the true fold costs, so that the budget of a search does not depend on
        the contents of an archive.

        Returns
        -------
        bool (n_folds,)
        """
        needed = np.zeros(len(fold_costs), dtype=bool)
        needed[self._walk(fold_costs, fold_order)[0]] = True
        return needed

    def admits(self, record: Record) -> bool:
        """Whether the cost of a record is known, and at most `cost`; rivals are ignored."""
        return record.complete and not record.failed and record.cost <= self.cost

    def _walk(self, fold_costs: Float, fold_order: Int) -> tuple[list[int], int | None]:
        """Return the examined folds, and the missing fold or None if it is decided."""
        total, seen = 0.0, list[int]()
        for fold in fold_order.tolist():
            if self.passed(total, len(fold_costs)) or self.hopeless(fold_costs, seen):
                return seen, None
            if np.isnan(fold_costs[fold]):
                return seen, fold
            seen.append(fold)
            total += float(fold_costs[fold])
        return seen, None


def limit_of(incumbent: float, race: Race | None = None, row: int = 0) -> Limit:
    """Return the limit of a mask with this incumbent; a tie stays below it despite rounding."""
    cost = float(incumbent)
    if np.isfinite(cost):
        cost += _MARGIN * max(1.0, abs(cost))
    if race is None or np.isnan(race.rivals[row]).any():
        return Limit(cost)
    return Limit(cost, race.rivals[row : row + 1], race.spread, race.chance)


def loosest_of(limits: Sequence[Limit]) -> Limit:
    """Join limits of the same mask: training stops only if all of them would stop it."""
    cost = max(limit.cost for limit in limits)
    rivals = [limit.rivals for limit in limits if limit.rivals is not None]
    if len(rivals) < len(limits):
        return Limit(cost)
    return Limit(cost, np.vstack(rivals), limits[0].spread, limits[0].chance)


def settle(
    records: Sequence[Record], fold_order: Int, limits: Sequence[Limit]
) -> tuple[Bool, Bool]:
    """Apply the limit of each record, for many records at once.

    Costs are summed in `fold_order`, as for a single record.

    Returns
    -------
    needed : bool (n, n_folds)
        See :meth:`Limit.needed_folds`.
    is_open : bool (n,)
        Whether a needed fold is missing, see :meth:`Limit.next_fold`.
    """
    n, n_folds = len(records), len(records[0].fold_costs) if records else 0
    needed, is_open = np.zeros((n, n_folds), dtype=bool), np.zeros(n, dtype=bool)
    if any(limit.rivals is not None for limit in limits):
        for i, (record, limit) in enumerate(zip(records, limits, strict=True)):
            needed[i] = limit.needed_folds(record.fold_costs, fold_order)
            is_open[i] = limit.next_fold(record.fold_costs, fold_order) is not None
        return needed, is_open
    if n == 0 or len(fold_order) == 0:
        return needed, is_open
    costs = np.stack([record.fold_costs for record in records])[:, fold_order]
    highest = np.array([limit.cost for limit in limits])
    before = np.zeros(costs.shape)
    with np.errstate(invalid="ignore"):
        np.cumsum(costs[:, :-1], axis=1, out=before[:, 1:])
        passed = (before / n_folds > highest[:, None]) | np.isinf(before)
    ends = passed | np.isnan(costs)
    rows, ended = np.arange(n), ends.any(axis=1)
    first = np.where(ended, ends.argmax(axis=1), costs.shape[1])
    needed[:, fold_order] = np.arange(costs.shape[1]) < first[:, None]
    last = np.minimum(first, costs.shape[1] - 1)
    return needed, ended & ~passed[rows, last]
