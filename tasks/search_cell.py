"""One search of a comparison: its identity, its result, and the task that runs it."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from swarm.errors import EvaluationError, SwarmError
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.problem import Problem
from swarm.search.result import SearchResult
from swarm.search.runner import FinishedSearch, SearchHooks, SearchPlan, run_search
from swarm.storage.archive import Archive
from tasks.step import step
from tasks.steps import is_retryable
from tasks.table import Table
from tasks.tracking.note import run_title
from tasks.tracking.run_log import parquet

__all__ = [
    "Cell",
    "CellResult",
    "SearchInterrupted",
    "cost_of_all",
    "is_search_retryable",
    "run_cell",
    "search_cell",
]


class SearchInterrupted(SwarmError):
    """The searches were interrupted; finished evaluations are in the archive."""


def is_search_retryable(task: object, run: object, state: Any) -> bool:
    """Retry condition: neither invalid input nor an interruption is retried."""
    try:
        state.result(raise_on_failure=True)
    except SearchInterrupted:
        return False
    except Exception:
        return is_retryable(task, run, state)
    return True


@dataclass(frozen=True, order=True)
class Cell:
    """One search of a comparison."""

    dataset: str
    strategy: str
    seed: int

    @property
    def name(self) -> str:
        """Name of the MLflow run of the search."""
        return run_title(self.dataset, self.strategy, self.seed)


@dataclass(frozen=True)
class CellResult:
    """Result of one search; except for the times it depends only on configuration and data.

    Attributes
    ----------
    cost, size, features
        Cost, number of features and feature names of the best subset.
    test_cost : float or None
        Cost of a model of the best subset on the held-out rows.
    epochs, evaluations, distinct, fits : int
        Budget spent, archived evaluations included.
    reason : str
        Why the search ended.
    seconds_algorithm : float
        T1 of Hafiz et al. (2018): processor time of the search without its evaluations.
    seconds_evaluation : float
        T2: training time of the folds that the search needed, archived ones included.
    history : DataFrame
        One row per epoch.
    """

    cell: Cell
    problem: str
    cost: float
    size: int
    features: list[str]
    n_available: int
    test_cost: float | None
    epochs: int
    evaluations: int
    distinct: int
    fits: int
    reason: str
    seconds_algorithm: float
    seconds_evaluation: float
    history: pd.DataFrame

    def files(self) -> dict[str, bytes]:
        """Return the artifacts from which :meth:`read` restores the result."""
        facts = {**vars(self.cell), **vars(self)}
        del facts["cell"], facts["history"]
        text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
        return {"features.json": text.encode(), "history.parquet": parquet(self.history)}

    @classmethod
    def read(cls, features: Path, history: Path) -> CellResult:
        """Read the artifacts of a search that finished."""
        facts = json.loads(features.read_text(encoding="utf-8"))
        cell = Cell(facts.pop("dataset"), facts.pop("strategy"), facts.pop("seed"))
        table = pd.read_parquet(BytesIO(history.read_bytes()))
        return cls(cell=cell, history=table, **facts)

    def row(self) -> dict[str, Any]:
        """Return the row of the search in the table of all cells."""
        names = ("cost", "size", "evaluations", "distinct", "fits", "epochs", "reason")
        return {
            **asdict(self.cell),
            **{name: getattr(self, name) for name in names},
            "test_cost": np.nan if self.test_cost is None else self.test_cost,
            "seconds_algorithm": self.seconds_algorithm,
            "seconds_evaluation": self.seconds_evaluation,
            "features": " ".join(self.features),
        }


@step("all-features")
def cost_of_all(problem: Problem, archive: str) -> float:
    """Return the cost of all features, the baseline of improvements."""
    everything = np.ones((1, problem.space.n_units), dtype=bool)
    order = np.arange(problem.n_folds)
    with closing(Archive(archive)) as opened, CrossValidation(problem, opened) as evaluator:
        answer = evaluator.evaluate(everything, np.array([np.inf]), order)
    if answer.failed[0]:
        raise EvaluationError(
            f"the model fails on all {problem.space.n_columns} features: "
            f"{(answer.first_error or 'unknown').strip().splitlines()[-1]}"
        )
    return float(answer.costs[0])


@step("search")
def run_cell(
    cell: Cell, plan: SearchPlan, archive: str, stop: Path, test: Table | None = None
) -> CellResult:
    """Run one search; evaluations that are in the archive are not repeated.

    Parameters
    ----------
    cell : Cell
    plan : SearchPlan
    archive : str
        URL of the archive, with secrets.
    stop : Path
        The search ends when this file exists.
    test : Table, optional
        Held-out rows.

    Raises
    ------
    Stopped
        If the searches were interrupted.
    """
    return search_cell(cell, plan, archive, stop, test)[0]


def search_cell(
    cell: Cell,
    plan: SearchPlan,
    archive: str,
    stop: Path | None = None,
    test: Table | None = None,
) -> tuple[CellResult, SearchResult]:
    """Run one search outside Prefect; see :func:`run_cell`."""

    def check_stop(*_: object) -> None:
        if stop is not None and stop.exists():
            raise SearchInterrupted("the comparison was interrupted")

    check_stop()
    with closing(Archive(archive)) as opened:
        hooks = SearchHooks(epochs=[check_stop], fits=check_stop)
        # The result must not depend on hints that only other strategies need.
        finished = run_search(plan.with_own_hints(), opened, hooks)
        if finished.result.interrupted:
            raise SearchInterrupted("the search was interrupted")
        return _result(cell, plan.problem, finished, test), finished.result


def _result(
    cell: Cell, problem: Problem, finished: FinishedSearch, test: Table | None
) -> CellResult:
    result = finished.result
    counts = result.state.counts
    return CellResult(
        cell=cell,
        problem=problem.fingerprint(),
        cost=result.cost,
        size=len(result.features),
        features=result.features,
        n_available=problem.space.n_columns,
        test_cost=_test_cost(problem, result.features, test),
        epochs=result.state.epoch,
        evaluations=counts.evaluations,
        distinct=counts.distinct,
        fits=counts.fits,
        reason=result.reason,
        seconds_algorithm=finished.algorithm_seconds,
        seconds_evaluation=finished.training_seconds,
        history=result.history,
    )


def _test_cost(problem: Problem, features: list[str], test: Table | None) -> float | None:
    """Return the cost on the held-out rows of one model trained on all search rows."""
    if test is None:
        return None
    from sklearn.base import clone

    model = clone(problem.estimator)
    weight = {}
    if problem.weight is not None:
        steps = getattr(model, "steps", None)
        weight = {f"{steps[-1][0]}__sample_weight" if steps else "sample_weight": problem.weight}
    target = np.asarray(test.target)
    target = target[:, 0] if target.ndim == 2 and target.shape[1] == 1 else target
    model.fit(problem.features[features], problem.target, **weight)
    return problem.scoring.cost(model, test.features[features], target)
