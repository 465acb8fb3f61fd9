"""Train a mask on its remaining folds. Runs in a worker."""

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
    """A mask and its folds that are left to train."""

    number: int  # row of the batch
    mask: Bool  # (n_units,)
    fold_costs: Float  # (n_folds,), NaN where unknown
    fold_order: Int  # (n_folds,)
    limit: float  # cost above which training stops
    part: int = 0  # 0 for a whole mask; from 1 if its folds are separate jobs

    @property
    def key(self) -> tuple[int, int]:
        """Number and part, which name the job in its batch."""
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
    trained = Record.unknown(problem.n_folds, int(np.count_nonzero(job.mask)))
    progress = replace(trained, fold_costs=job.fold_costs.copy())
    error = None
    while (fold := next_fold(progress.fold_costs, job.fold_order, job.limit)) is not None:
        importances: Float | None = None
        fit = partial(_fit_fold, problem, columns, positions, fold=fold, mask=job.mask)
        try:
            cost, importances, used = _watched(watch, fold, fit)
        except (MemoryError, TransientError):
            raise
        except Exception as raised:
            # See Record.
            error = f"{describe(raised)}\n{traceback.format_exc()}"
            cost, used = float("inf"), job.mask
        if not cost >= lowest_cost(problem):
            return InvalidCost(fold, cost)
        progress.fold_costs[fold] = trained.fold_costs[fold] = cost
        trained.used[fold] = used[job.mask]
        if importances is not None:
            trained.importances[fold] = importances[job.mask]
    return replace(trained, seconds=time.perf_counter() - started, error=error)


def _watched(watch: Watch, fold: int, fit: Callable[[], T]) -> T:
    """Call `fit` within the time limit of a fold, and again after a transient error."""

    def once() -> T:
        with watch(fold):
            return fit()

    return retry_transient(once)


def _fit_fold(
    problem: Problem, columns: Any, positions: Positions, fold: int, mask: Bool
) -> tuple[float, Float | None, Bool]:
    """Return the cost of a fold, the importances of its model if any, and the units it uses."""
    test = problem.folds[fold][1]
    model, tested = train_fold(problem, columns, positions, fold)
    cost = problem.cost(model, tested, test)
    if np.isinf(cost):
        score = "-inf" if cost > 0 else "inf"
        raise ValueError(f"the scorer {problem.scoring.name!r} returned {score} on fold {fold}")
    if problem.importance == "fold":
        values = model_importances(model, len(positions))
        flags = used_by(model, values).astype(np.float64)
        used = problem.space.by_unit(flags, positions) > 0
        return cost, problem.space.by_unit(values, positions), used
    if problem.importance == "permutation":
        importances = _permuted(problem, model, tested, test, positions)
        return cost, importances, importances != 0
    return cost, None, mask


def train_fold(problem: Problem, columns: Any, positions: Positions, fold: int) -> tuple[Any, Any]:
    """Return the model of a fold, and the test rows as its input."""
    train, test = problem.folds[fold]
    path = boosted_path(problem)
    trained = None if path is None else path.train(problem, positions, fold)
    return trained or (problem.fit(columns, positions, train), take_rows(columns, test))


def fit_for(problem: Problem, positions: Positions, train: Int, others: Any) -> tuple[Any, Any]:
    """Fit on some rows of columns at `positions`, and return the model and its input of others.

    `others` is a table with all columns of the problem, in their order.
    """
    columns = problem.columns(positions)
    with problem.settings.applied():
        return problem.fit(columns, positions, train), owned(take_columns(others, positions))


def _permuted(problem: Problem, model: Any, tested: Any, test: Int, positions: Positions) -> Float:
    from sklearn.inspection import permutation_importance

    permuted = permutation_importance(
        model,
        tested,
        take_rows(problem.y, test),
        scoring=problem.scoring.scorer,
        n_repeats=3,
        random_state=0,
        sample_weight=problem.score_weight(test),
    )
    return problem.space.by_unit(np.asarray(permuted.importances_mean, dtype=np.float64), positions)
