"""Pruning: stop training masks that cannot win."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from swarm.arrays import Bool, Float, Int
from swarm.storage.records import Record

# Sums in another order differ in the last digits; this tolerance keeps ties below the limit.
_MARGIN = 1e-10


@dataclass(frozen=True)
class Limit:
    """Stop a mask once its trained folds put its mean above `cost`; costs are non-negative."""

    cost: float = float("inf")

    @property
    def is_finite(self) -> bool:
        """Whether training may stop before all folds are trained."""
        return self.cost < np.inf

    def passed(self, total: float, n_folds: int) -> bool:
        """Whether costs with the sum `total` exceed the limit, or a fit has failed."""
        return total / n_folds > self.cost or bool(np.isinf(total))

    def next_fold(self, fold_costs: Float, fold_order: Int) -> int | None:
        """Return the fold to train next, or None if the known costs decide about the limit."""
        # Folds (m,) are examined in `fold_order`, regardless of which are known (not NaN), so that
        # the decision does not depend on the contents of an archive.
        return self._walk(fold_costs, fold_order)[1]

    def needed_folds(self, fold_costs: Float, fold_order: Int) -> Bool:
        """Return the folds (n_folds,) that decide about the limit in `fold_order`."""
        # A pure function of the true costs, so that the archive does not change the budget of a
        # search.
        needed = np.zeros(len(fold_costs), dtype=bool)
        needed[self._walk(fold_costs, fold_order)[0]] = True
        return needed

    def admits(self, record: Record) -> bool:
        """Whether the cost of a record is known, and at most `cost`."""
        return record.complete and not record.failed and record.cost <= self.cost

    def _walk(self, fold_costs: Float, fold_order: Int) -> tuple[list[int], int | None]:
        """Return the examined folds, and the missing fold or None if it is decided."""
        total, seen = 0.0, list[int]()
        for fold in fold_order.tolist():
            if self.passed(total, len(fold_costs)):
                return seen, None
            if np.isnan(fold_costs[fold]):
                return seen, fold
            seen.append(fold)
            total += float(fold_costs[fold])
        return seen, None


def limit_of(incumbent: float) -> Limit:
    """Return the limit of a mask with this incumbent; a tie stays below it despite rounding."""
    cost = float(incumbent)
    if np.isfinite(cost):
        cost += _MARGIN * max(1.0, abs(cost))
    return Limit(cost)


def settle(
    records: Sequence[Record], fold_order: Int, limits: Sequence[Limit]
) -> tuple[Bool, Bool]:
    """Apply the limits to many records: the needed folds (n, n_folds), and which lack one (n,)."""
    n, n_folds = len(records), len(records[0].fold_costs) if records else 0
    needed, is_open = np.zeros((n, n_folds), dtype=bool), np.zeros(n, dtype=bool)
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
