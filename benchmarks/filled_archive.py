"""An archive with many evaluations of one problem, without training any."""

from __future__ import annotations

import numpy as np

from swarm.problem.problem import Problem
from swarm.storage.archive import Archive
from swarm.storage.records import Record, blank_record

_PART = 5000


def fill(
    archive: Archive, problem: Problem, n_masks: int, seed: int = 0, cost: float | None = None
) -> None:
    """Add evaluations of random masks on all folds, without importances.

    Parameters
    ----------
    archive : Archive
    problem : Problem
        With so many units that random masks are distinct.
    n_masks : int
    seed : int
        Another seed gives other masks.
    cost : float, optional
        Cost of every fold; default: random ones from 0.3 to 0.5.
    """
    known = archive.open_problem(problem)
    n_units, n_folds = problem.space.n_units, problem.n_folds
    rng = np.random.default_rng([seed, n_units])
    for start in range(0, n_masks, _PART):
        masks = rng.random((min(_PART, n_masks - start), n_units)) < 0.5
        costs = rng.uniform(0.3, 0.5, size=(len(masks), n_folds))
        if cost is not None:
            costs[:] = cost
        known.add(
            [
                (mask, Record(row, blank.importances, ~blank.used, 0.01))
                for mask, row in zip(masks, costs, strict=True)
                for blank in [blank_record(n_folds, int(mask.sum()))]
            ]
        )
