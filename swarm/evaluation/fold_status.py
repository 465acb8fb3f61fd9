"""Apply stopping rules to many masks at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swarm.evaluation.limit import Limit
from swarm.storage.records import Record

__all__ = ["FoldStatus", "costs_of_records", "settle"]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FoldStatus:
    """Folds that decide about each mask of a batch, and whether they are known.

    Attributes
    ----------
    needed : bool (n, n_folds)
        See :meth:`swarm.evaluation.limit.Limit.needed_folds`.
    open : bool (n,)
        Whether a needed fold is missing, see :meth:`swarm.evaluation.limit.Limit.next_fold`.
    """

    needed: Bool
    open: Bool


def settle(records: Sequence[Record], fold_order: Int, limits: Sequence[Limit]) -> FoldStatus:
    """Examine the folds of each record until its limit is exceeded.

    Costs are summed in `fold_order`, as for a single record.
    """
    n, n_folds = len(records), len(records[0].fold_costs) if records else 0
    needed = np.zeros((n, n_folds), dtype=bool)
    if any(limit.rivals is not None for limit in limits):
        missing = np.zeros(n, dtype=bool)
        for i, (record, limit) in enumerate(zip(records, limits, strict=True)):
            needed[i] = limit.needed_folds(record.fold_costs, fold_order)
            missing[i] = limit.next_fold(record.fold_costs, fold_order) is not None
        return FoldStatus(needed, missing)
    if n == 0 or len(fold_order) == 0:
        return FoldStatus(needed, np.zeros(n, dtype=bool))
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
    return FoldStatus(needed, ended & ~passed[rows, last])


def costs_of_records(fold_costs: Float) -> Float:
    """Return the cost of each row of fold costs (n, n_folds), as `Record.cost`; NaN if unknown."""
    failed = np.isinf(fold_costs).any(axis=1)
    with np.errstate(invalid="ignore"):
        mean = np.ascontiguousarray(fold_costs).sum(axis=1) / fold_costs.shape[1]
    costs: Float = np.where(failed, np.inf, mean)
    return costs
