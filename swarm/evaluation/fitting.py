"""Train the models of a mask on its remaining folds, in a worker."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from swarm.arrays import Bool, Float, Int, Positions
from swarm.errors import TransientError, describe
from swarm.evaluation.boosted import boosted_path
from swarm.evaluation.pruning import next_fold
from swarm.evaluation.transient import retry_transient
from swarm.problem.models import model_importances, used_by
from swarm.problem.problem import Problem
from swarm.problem.table import owned, take_columns, take_rows
from swarm.storage.records import Record

# A cost may be below its lower bound by rounding.
_COST_ROUNDING = 1e-10
T = TypeVar("T")
Watch = Callable[[int], AbstractContextManager[object]]


@dataclass(frozen=True)
class Job:
    """A mask and its folds that are left to train.

    Attributes
    ----------
    number : int
        Row of the batch.
    mask : bool (n_units,)
    fold_costs : float64 (n_folds,)
        NaN where unknown.
    fold_order : int (n,)
        Folds to train, in this order.
    limit : float
        Cost above which training stops.
    part : int
        0 for a whole mask, from 1 if its folds are separate jobs.
    """

    number: int
    mask: Bool
    fold_costs: Float
    fold_order: Int
    limit: float
    part: int = 0

    @property
    def key(self) -> tuple[int, int]:
        """Number and part, which identify the job in its batch."""
        return self.number, self.part

    def by_fold(self) -> list[Job]:
        """Split the job into one job per unknown fold, which can run in any order."""
        unknown = [fold for fold in self.fold_order if np.isnan(self.fold_costs[fold])]
        return [
            replace(self, fold_order=np.array([fold]), part=part)
            for part, fold in enumerate(unknown, start=1)
        ]


@dataclass(frozen=True)
class InvalidCost:
    """A cost that no scorer should return: NaN, or below its lower bound."""

    fold: int
    cost: float


def lowest_cost(problem: Problem) -> float:
    """Return the lower bound of the cost of a fold, with a margin for rounding."""
    return -_COST_ROUNDING if problem.scoring.bounded else -np.inf


def fit_mask(problem: Problem, job: Job, watch: Watch = nullcontext) -> Record | InvalidCost:
    """Train the folds of `job` in order until its cost is known, invalid or above the limit.

    A fit that raises sets the cost to inf and ends the job; MemoryError and TransientError
    propagate, as they depend on the machine. Each fit runs in `watch(fold)`.
    """
    with problem.settings.applied():
        return _fit_mask(problem, job, watch)


def _fit_mask(problem: Problem, job: Job, watch: Watch) -> Record | InvalidCost:
    started = time.perf_counter()
    positions = problem.space.positions(job.mask)
    columns = problem.columns(positions)
    record = Record.unknown(problem.n_folds, int(np.count_nonzero(job.mask)))
    fold_costs = job.fold_costs.copy()
    error = None
    while (fold := next_fold(fold_costs, job.fold_order, job.limit)) is not None:
        fit = partial(_fit_fold, problem, columns, positions, fold=fold, mask=job.mask)
        try:
            cost, importances, used = _watched(watch, fold, fit)
        except (MemoryError, TransientError):
            raise
        except Exception as failure:
            error = f"{describe(failure)}\n{traceback.format_exc()}"
            cost, importances, used = float("inf"), None, job.mask
        if not cost >= lowest_cost(problem):
            return InvalidCost(fold, cost)
        fold_costs[fold] = cost
        record.fold_costs[fold] = cost
        record.used[fold] = used[job.mask]
        if importances is not None:
            record.importances[fold] = importances[job.mask]
    return replace(record, seconds=time.perf_counter() - started, error=error)


def _watched(watch: Watch, fold: int, fit: Callable[[], T]) -> T:
    """Call `fit` within the timeout of a fold, and again after a transient error."""

    def watched_fit() -> T:
        with watch(fold):
            return fit()

    return retry_transient(watched_fit)


def _fit_fold(
    problem: Problem, columns: Any, positions: Positions, fold: int, mask: Bool
) -> tuple[float, Float | None, Bool]:
    """Return the cost of a fold, the importances of its model if any, and the units it uses."""
    test = problem.folds[fold][1]
    model, test_table = train_fold(problem, columns, positions, fold)
    cost = problem.cost(model, test_table, test)
    if np.isinf(cost):
        score = "-inf" if cost > 0 else "inf"
        raise ValueError(f"the scorer {problem.scoring.name!r} returned {score} on fold {fold}")
    if problem.importance == "fold":
        by_column = model_importances(model, len(positions))
        is_used = used_by(model, by_column).astype(np.float64)
        used = problem.space.by_unit(is_used, positions) > 0
        return cost, problem.space.by_unit(by_column, positions), used
    if problem.importance == "permutation":
        importances = _permutation_importances(problem, model, test_table, test, positions)
        return cost, importances, importances != 0
    return cost, None, mask


def train_fold(problem: Problem, columns: Any, positions: Positions, fold: int) -> tuple[Any, Any]:
    """Return the model of a fold, and the test rows as its input."""
    train, test = problem.folds[fold]
    path = boosted_path(problem)
    trained = None if path is None else path.train(problem, positions, fold)
    if trained is not None:
        return trained
    return problem.fit(columns, positions, train), take_rows(columns, test)


def fit_for(problem: Problem, positions: Positions, train: Int, test_table: Any) -> tuple[Any, Any]:
    """Fit the columns at `positions` on rows; return the model and its input of `test_table`.

    `test_table` has all columns of the problem, in their order.
    """
    columns = problem.columns(positions)
    with problem.settings.applied():
        return problem.fit(columns, positions, train), owned(take_columns(test_table, positions))


def _permutation_importances(
    problem: Problem, model: Any, test_table: Any, test: Int, positions: Positions
) -> Float:
    """Return the importances of units by permutation of the test rows: (n_units,)."""
    from sklearn.inspection import permutation_importance

    result = permutation_importance(
        model,
        test_table,
        take_rows(problem.y, test),
        scoring=problem.scoring.scorer,
        n_repeats=3,
        random_state=0,
        sample_weight=problem.score_weight(test),
    )
    return problem.space.by_unit(np.asarray(result.importances_mean, dtype=np.float64), positions)
