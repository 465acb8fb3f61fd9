"""One search or selector of a comparison: its identity, its result, and the task that runs it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.errors import EvaluationError, SwarmError
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.model_inputs import with_accepted_names
from swarm.problem.problem import Problem
from swarm.search.plan import SearchPlan
from swarm.search.runner import FinishedSearch, SearchHooks, run_search
from swarm.storage.archive import Archive
from swarm.validation.selectors import select
from tasks.step import SearchInterrupted, step
from tasks.table import Table
from tasks.tracking.run_log import RunLog, json_file, parquet

# Columns of the history of a selector, which has no epochs.
_HISTORY = ("epoch", "distinct_evaluations", "best_cost")


@dataclass(frozen=True, eq=False)
class ConfiguredSelector:
    """A selector, and what is left to the problem.

    Attributes
    ----------
    selector : object
        Unfitted.
    given : frozenset of str
        Parameters of the configuration. Of the others, `estimator` becomes the model of the
        problem, `cv` its folds, `scoring` its scorer and `random_state` the seed.
    """

    selector: Any
    given: frozenset[str]

    def seeded(self, problem: Problem, seed: int) -> Any:
        """Return a clone for a problem and a seed."""
        from sklearn.base import clone

        own = clone(self.selector)
        known = own.get_params(deep=False)
        values = {
            "estimator": problem.estimator,
            "cv": problem.folds,
            "scoring": problem.scoring.quiet or problem.scoring.scorer,
            "random_state": seed,
        }
        left = {k: v for k, v in values.items() if k in known and k not in self.given}
        return own.set_params(**left)


@dataclass(frozen=True, order=True)
class Cell:
    """One search, or one fit of a selector, of a comparison."""

    dataset: str
    strategy: str
    seed: int

    @property
    def name(self) -> str:
        """Name of the MLflow run of the search."""
        return f"{self.dataset}-{self.strategy}-{self.seed}"


@dataclass(frozen=True)
class CellResult:
    """Result of one search or selector; except for times it depends on configuration and data.

    Attributes
    ----------
    cost, size, features
        Cost, number of features and feature names of the best subset.
    test_cost : float or None
        Cost of a model of the best subset on the held-out rows.
    epochs : int
        0 for a selector.
    evaluations, distinct : int or None
        Budget spent, archived evaluations included; None for a selector.
    fits : int or None
        Model fits; None for a selector that does not tell.
    reason : str
        Why the search ended.
    seconds_algorithm : float
        T1 of Hafiz et al. (2018): processor time of the search without its evaluations. For a
        selector wall time without its model fits, or with them if they are not counted.
    seconds_evaluation : float or None
        T2: training time of the folds that the search needed, archived ones included, or of the
        model fits of the selector; None if they are not counted.
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
    evaluations: int | None
    distinct: int | None
    fits: int | None
    reason: str
    seconds_algorithm: float
    seconds_evaluation: float | None
    history: pd.DataFrame

    def files(self) -> dict[str, Callable[[], bytes]]:
        """Return the artifacts from which :meth:`read` restores the result, made when sent."""
        facts = {**vars(self.cell), **vars(self)}
        del facts["cell"], facts["history"]
        return {
            "features.json": lambda: json_file(facts),
            "history.parquet": lambda: parquet(self.history),
        }

    def log_to(self, log: RunLog, last: Mapping[str, float | None]) -> None:
        """Log the search by epoch, its artifacts, and further metrics of its `last` epoch."""
        log.metrics(self.steps())
        log.metrics({self.epochs: last})
        log.files(self.files())
        log.tag({"stopped": self.reason})

    @classmethod
    def read(cls, features: Path, history: Path) -> CellResult:
        """Read the artifacts of a search that finished."""
        facts = json.loads(features.read_text(encoding="utf-8"))
        cell = Cell(facts.pop("dataset"), facts.pop("strategy"), facts.pop("seed"))
        table = pd.read_parquet(BytesIO(history.read_bytes()))
        return cls(cell=cell, history=table, **facts)

    def steps(self) -> dict[int, dict[str, float | None]]:
        """Return the metrics of each epoch."""
        rows = self.history.set_index("epoch").to_dict("index")
        return {int(str(epoch)): {str(k): v for k, v in row.items()} for epoch, row in rows.items()}

    def row(self) -> dict[str, Any]:
        """Return the row of the search in the table of all cells."""
        names = (
            *("cost", "size", "evaluations", "distinct", "fits", "epochs", "reason"),
            *("test_cost", "seconds_algorithm", "seconds_evaluation"),
        )
        found = {name: getattr(self, name) for name in names}
        found = {name: np.nan if value is None else value for name, value in found.items()}
        return {**asdict(self.cell), **found, "features": " ".join(self.features)}


@step("all-features")
def cost_of_all(problem: Problem, archive: str) -> float:
    """Return the cost of all features, the baseline of improvements."""
    everything = np.ones(problem.space.n_units, dtype=bool)
    return _cost(problem, everything, archive, f"all {problem.space.n_columns} features")


def _cost(problem: Problem, mask: NDArray[np.bool_], archive: str, what: str) -> float:
    """Return the cross-validated cost of one mask; `what` names it if the model fails."""
    order = np.arange(problem.n_folds)
    with closing(Archive(archive)) as opened, CrossValidation(problem, opened) as evaluator:
        answer = evaluator.evaluate(mask[None, :], np.array([np.inf]), order)
    if answer.failed[0]:
        raise EvaluationError(
            f"the model fails on {what}: "
            f"{(answer.first_error or 'unknown').strip().splitlines()[-1]}"
        )
    return float(answer.costs[0])


@step("search")
def run_cell(
    cell: Cell,
    plan: SearchPlan,
    archive: str,
    stop: Path | None = None,
    test: Table | None = None,
) -> CellResult:
    """Run one search; evaluations that are in the archive are not repeated.

    Parameters
    ----------
    cell : Cell
    plan : SearchPlan
    archive : str
        URL of the archive, with secrets.
    stop : Path, optional
        The search ends when this file exists.
    test : Table, optional
        Held-out rows.

    Raises
    ------
    SearchInterrupted
        If the searches were interrupted.
    """
    return search_cell(cell, plan, archive, stop, test)[0]


@step("selector")
def run_selector(
    cell: Cell,
    chosen: ConfiguredSelector,
    problem: Problem,
    archive: str,
    stop: Path,
    test: Table,
) -> CellResult:
    """Fit one selector on the training rows, and judge its columns on the test rows.

    Parameters
    ----------
    cell, archive, stop, test
        See :func:`run_cell`; the archive holds the cross-validated cost of the columns.
    chosen : ConfiguredSelector
    problem : Problem
        On the training rows.

    Raises
    ------
    EvaluationError
        If the selector fails, or selects nothing.
    """
    if stop.exists():
        raise SearchInterrupted("the comparison was interrupted")
    allowed = problem.space.subset(~problem.space.forbidden)
    try:
        selector = chosen.seeded(problem, cell.seed)
        columns = with_accepted_names(problem.features[allowed], selector)
        found = select(selector, columns, problem.target)
    except SwarmError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())
        raise EvaluationError(f"the selector failed, {type(error).__name__}: {reason}") from error
    features = [name for name, kept in zip(allowed, found.mask, strict=True) if kept]
    mask = np.isin(problem.space.names, features)
    trained = found.training_seconds
    return CellResult(
        cell=cell,
        problem=problem.fingerprint(),
        cost=_cost(problem, mask, archive, f"{len(features)} selected features"),
        size=len(features),
        features=features,
        n_available=problem.space.n_columns,
        test_cost=cost_on_test_rows(problem, features, test),
        epochs=0,
        evaluations=None,
        distinct=None,
        fits=found.fits,
        reason="selected",
        seconds_algorithm=found.seconds - (trained or 0.0),
        seconds_evaluation=trained,
        history=pd.DataFrame({name: [] for name in _HISTORY}, dtype="float64"),
    )


def search_cell(
    cell: Cell,
    plan: SearchPlan,
    archive: str,
    stop: Path | None = None,
    test: Table | None = None,
) -> tuple[CellResult, FinishedSearch]:
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
        return _result(cell, finished, test), finished


def _result(cell: Cell, finished: FinishedSearch, test: Table | None) -> CellResult:
    problem, result = finished.problem, finished.result
    counts = result.state.counts
    return CellResult(
        cell=cell,
        problem=problem.fingerprint(),
        cost=result.cost,
        size=len(result.features),
        features=result.features,
        n_available=problem.space.n_columns,
        test_cost=None if test is None else cost_on_test_rows(problem, result.features, test),
        epochs=result.state.epoch,
        evaluations=counts.evaluations,
        distinct=counts.distinct,
        fits=finished.fits,
        reason=result.reason,
        seconds_algorithm=finished.algorithm_seconds,
        seconds_evaluation=finished.training_seconds,
        history=result.history,
    )


def cost_on_test_rows(problem: Problem, features: Sequence[str], test: Table) -> float:
    """Return the cost on the held-out rows of one model trained on all search rows."""
    from sklearn.base import clone

    model = clone(problem.estimator)
    weight = {}
    if problem.weight is not None:
        steps = getattr(model, "steps", None)
        weight = {f"{steps[-1][0]}__sample_weight" if steps else "sample_weight": problem.weight}
    target = np.asarray(test.target)
    target = target[:, 0] if target.ndim == 2 and target.shape[1] == 1 else target
    trained, tested = (
        with_accepted_names(table[list(features)], model)
        for table in (problem.features, test.features)
    )
    model.fit(trained, problem.target, **weight)
    return problem.scoring.cost(model, tested, target, test.weight_in_score(problem))
