"""Train a mask on its remaining folds. Runs in a worker."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swarm.evaluation.boosted import boosted_path
from swarm.evaluation.limit import Limit
from swarm.problem.model_inputs import fit_params_of, for_columns, rows_for_model
from swarm.problem.models import model_importances, used_by
from swarm.problem.problem import Problem
from swarm.storage.records import Record

__all__ = ["REFIT", "Fitted", "Job", "fit_mask", "fit_model"]

# Fold number of the model on all rows.
REFIT = -1
Watch = Callable[[int], AbstractContextManager[None]]


@dataclass(frozen=True)
class Job:
    """A mask and its folds that are left to train.

    Attributes
    ----------
    number : int
        Row of the batch.
    mask : bool (n_units,)
    fold_costs : float64 (n_folds,)
        Known costs; NaN elsewhere.
    fold_order : int (n_folds,)
    limit : Limit
        When training may stop.
    part : int
        0 for a whole mask; from 1 if its folds are separate jobs.
    refit : bool
        Whether to refit on all rows, if the importances of the problem require it.
    """

    number: int
    mask: NDArray[np.bool_]
    fold_costs: NDArray[np.float64]
    fold_order: NDArray[np.int64]
    limit: Limit
    part: int = 0
    refit: bool = True

    def by_fold(self) -> list[Job]:
        """Split the job into one job per unknown fold, which can run in any order."""
        unknown = [fold for fold in self.fold_order if np.isnan(self.fold_costs[fold])]
        return [
            replace(self, fold_order=np.array([fold]), part=part)
            for part, fold in enumerate(unknown, start=1)
        ]


@dataclass
class Fitted:
    """Result of a job, with one entry per trained fold.

    `importances` and `used` are float64 and bool (n_units,) each; `refit` contains the
    importances of the model on all rows.
    """

    number: int
    part: int = 0
    folds: list[int] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    importances: list[NDArray[np.float64] | None] = field(default_factory=list)
    used: list[NDArray[np.bool_]] = field(default_factory=list)
    refit: NDArray[np.float64] | None = None
    seconds: float = 0.0
    error: str | None = None


def _unwatched(fold: int) -> AbstractContextManager[None]:
    return nullcontext()


def fit_mask(problem: Problem, job: Job, watch: Watch = _unwatched) -> Fitted:
    """Train the folds of `job` in order, until its cost is known or exceeds the limit.

    A fit that raises sets the cost to inf and ends the job; its traceback is kept. Each fit runs
    in the context ``watch(fold)``, with ``REFIT`` for the model on all rows.

    Raises
    ------
    MemoryError
        Not recorded as a failed fit, because it depends on the machine and not on the mask.
    """
    started = time.perf_counter()
    result = Fitted(job.number, job.part)
    positions = problem.space.positions(job.mask)
    columns = problem.features.iloc[:, positions]
    record = replace(
        Record.unknown(problem.n_folds, problem.space.n_units), fold_costs=job.fold_costs.copy()
    )
    while (fold := job.limit.next_fold(record.fold_costs, job.fold_order)) is not None:
        try:
            with watch(fold):
                cost = _fit_fold(problem, columns, positions, fold, job.mask, result)
        except MemoryError:
            raise
        except Exception:
            result.error = traceback.format_exc()
            result.folds.append(fold)
            result.costs.append(float("inf"))
            result.importances.append(None)
            result.used.append(job.mask)
            break
        if np.isnan(cost):
            break
        record.fold_costs[fold] = cost
    wins = record.complete and not record.failed and record.cost <= job.limit.cost
    if problem.importance == "refit" and wins and job.refit:
        with watch(REFIT):
            _refit(problem, columns, positions, result)
    result.seconds = time.perf_counter() - started
    return result


def _fit_fold(
    problem: Problem,
    columns: Any,
    positions: Sequence[int],
    fold: int,
    mask: NDArray[np.bool_],
    result: Fitted,
) -> float:
    truth = problem.target[problem.folds[fold][1]]
    model, tested = _trained(problem, columns, positions, fold)
    cost = problem.scoring.cost(model, tested, truth)
    if np.isinf(cost):
        score = "-inf" if cost > 0 else "inf"
        raise ValueError(f"the scorer {problem.scoring.name!r} returned {score} on fold {fold}")
    importances, used = None, mask
    if problem.importance == "fold":
        values = model_importances(model, len(positions))
        importances = problem.space.by_unit(values, positions)
        flags = used_by(model, values).astype(np.float64)
        used = problem.space.by_unit(flags, positions) > 0
    elif problem.importance == "permutation":
        importances = _permuted(problem, model, tested, truth, positions)
        used = importances != 0
    result.folds.append(fold)
    result.costs.append(cost)
    result.importances.append(importances)
    result.used.append(used)
    return cost


def _trained(
    problem: Problem, columns: Any, positions: Sequence[int], fold: int
) -> tuple[Any, Any]:
    """Return the model of a fold, and the test rows as its input."""
    train, test = problem.folds[fold]
    path = boosted_path(problem)
    model = None if path is None else path.fit(positions, fold)
    if path is None or model is None:
        return fit_model(problem, columns, positions, train), _rows(problem, columns, test)
    rows = path.rows(positions, test)
    if path.trusted is None:
        wrapped = fit_model(problem, columns, positions, train)
        table = _rows(problem, columns, test)
        if not path.trust(model, wrapped, rows, table):
            return wrapped, table
    return model, rows


def fit_model(
    problem: Problem, columns: Any, positions: Sequence[int], rows: NDArray[np.int64]
) -> Any:
    """Fit a clone of the estimator on some rows of `columns`, with their weights."""
    from sklearn.base import clone

    model = clone(problem.estimator, safe=False)
    if problem.by_column:
        model = for_columns(model, problem.space.columns, positions)
    params = fit_params_of(
        problem.fit_params, len(problem.features), problem.space.columns, positions, rows
    )
    if problem.weight is not None:
        steps = getattr(model, "steps", None)
        name = f"{steps[-1][0]}__sample_weight" if steps else "sample_weight"
        params[name] = problem.weight[rows]
    table = _rows(problem, columns, rows)
    if problem.task == "unsupervised":
        return model.fit(table, **params)
    return model.fit(table, problem.target[rows], **params)


def _rows(problem: Problem, columns: Any, rows: NDArray[np.int64]) -> Any:
    return rows_for_model(columns, rows, problem.as_array)


def _refit(problem: Problem, columns: Any, positions: Sequence[int], result: Fitted) -> None:
    try:
        path = boosted_path(problem)
        model = None if path is None or not path.trusted else path.fit(positions, -1)
        if model is None:
            model = fit_model(problem, columns, positions, np.arange(len(problem.target)))
        values = model_importances(model, len(positions))
        result.refit = problem.space.by_unit(values, positions)
    except MemoryError:
        raise
    except Exception:
        result.error = traceback.format_exc()


def _permuted(
    problem: Problem, model: Any, tested: Any, truth: Any, positions: Sequence[int]
) -> NDArray[np.float64]:
    from sklearn.inspection import permutation_importance

    found = permutation_importance(
        model, tested, truth, scoring=problem.scoring.scorer, n_repeats=3, random_state=0
    )
    return problem.space.by_unit(np.asarray(found.importances_mean, dtype=np.float64), positions)
