"""The cells of a study: searches of (rows, strategy, seed), their results and their MLflow runs."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from swarm.errors import EvaluationError
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.fitting import fit_for
from swarm.json_data import json_file
from swarm.metrics import natural_name
from swarm.problem.problem import Problem
from swarm.problem.scoring import Scoring
from swarm.search.driver import Driver
from swarm.search.history import EpochRecord
from swarm.search.requests import training_seconds
from swarm.search.result import SearchResult
from swarm.search.runner import run as run_search
from swarm.search.search import Search
from swarm.search.state import SearchState
from swarm.storage.archive import Archive
from swarm.storage.records import reason_of
from tasks.files import parquet
from tasks.step import RETRIES, SearchInterrupted, step
from tasks.table import Table
from tasks.tracking import Tracking
from tasks.tracking.curves import epoch_metrics
from tasks.tracking.run_log import RunLog


@dataclass(frozen=True, order=True)
class Cell:
    """One search of a study.

    Attributes
    ----------
    dataset : str
        Name of the data set of a comparison; otherwise of the rows, such as "fold 2 of 5".
    strategy : str
    seed : int
    """

    dataset: str
    strategy: str
    seed: int

    @property
    def name(self) -> str:
        """Name of the MLflow run of the search."""
        return f"{self.dataset}-{self.strategy}-{self.seed}"


@dataclass(frozen=True)
class CellResult:
    """Result of one search; except for times it depends on configuration and data alone.

    Attributes
    ----------
    cell : Cell
    problem : str
        Fingerprint of the problem.
    cost, size, features : float, int, list of str
        The best subset.
    n_available : int
        Number of columns of the table.
    test_cost : float or None
        Cost of a model of the best subset on the held-out rows.
    epochs : int
    evaluations, distinct, fits : int
        Counts, those from the archive included.
    reason : str
        Why the search ended.
    seconds_algorithm : float
        T1 of Hafiz et al. (2018): processor time of the search without evaluations.
    seconds_evaluation : float
        T2: training time of the folds, those from the archive included.
    history : DataFrame
        A row per epoch.
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
        names = [field.name for field in fields(CellResult)]
        values = {name: getattr(self, name) for name in names if name not in ("cell", "history")}
        facts = {**vars(self.cell), **values}
        return {"features.json": json_file(facts), "history.parquet": parquet(self.history)}

    def metrics(self, scoring: Scoring) -> dict[str, float | None]:
        """Return the metrics of the whole search; those of its epochs are in the history."""
        metrics: dict[str, float | None] = {
            "work/seconds_algorithm": self.seconds_algorithm,
            "work/seconds_evaluation": self.seconds_evaluation,
        }
        if self.test_cost is not None:
            metrics[f"test/{natural_name(scoring.name)}"] = scoring.natural(self.test_cost)
        return metrics

    @classmethod
    def read(cls, features: Path, history: Path) -> CellResult:
        """Read the artifacts of a search that finished."""
        facts = json.loads(features.read_text(encoding="utf-8"))
        cell = Cell(facts.pop("dataset"), facts.pop("strategy"), facts.pop("seed"))
        table = pd.read_parquet(BytesIO(history.read_bytes()))
        return cls(cell=cell, history=table, **facts)

    def row(self) -> dict[str, Any]:
        """Return the row of the search in the table of all cells."""
        names = ["cost", "size", "evaluations", "distinct", "fits", "epochs", "reason", "test_cost"]
        names += ["seconds_algorithm", "seconds_evaluation"]
        values = {name: getattr(self, name) for name in names}
        values = {name: np.nan if value is None else value for name, value in values.items()}
        return {**asdict(self.cell), **values, "features": json.dumps(self.features)}


@step("all-features")
def cost_of_all(problem: Problem, archive: str) -> float:
    """Return the cost of all features, the baseline of improvements."""
    all_features = ~problem.space.forbidden[None, :]
    order = np.arange(problem.n_folds)
    with closing(Archive(archive)) as opened, CrossValidation(problem, opened) as evaluator:
        evaluations = evaluator.evaluate(all_features, np.array([np.inf]), order)
    if evaluations.failed[0]:
        reason = reason_of(evaluations.first_error)
        raise EvaluationError(
            f"the model fails on all {problem.space.n_allowed} features ({reason}); choose another"
        )
    return float(evaluations.costs[0])


@step("search", retries=RETRIES)
def run_cell(
    cell: Cell,
    search: Search,
    archive: str,
    stop: Path | None = None,
    test: Table | None = None,
) -> CellResult:
    """Run one search; evaluations that are in the archive are not repeated.

    Parameters
    ----------
    cell : Cell
    search : Search
    archive : str
        URL of the archive, with secrets.
    stop : Path, optional
        File whose existence ends the search.
    test : Table, optional
        Held-out rows.

    Raises
    ------
    SearchInterrupted
        If the searches were interrupted.
    """
    return search_cell(cell, search, archive, stop, test)[0]


def search_cell(
    cell: Cell,
    search: Search,
    archive: str,
    stop: Path | None = None,
    test: Table | None = None,
) -> tuple[CellResult, SearchResult]:
    """Run one search outside Prefect; see :func:`run_cell`."""

    def check_stop(*_: object) -> None:
        if stop is not None and stop.exists():
            raise SearchInterrupted("the study was interrupted; repeat it to continue")

    seconds = 0.0

    def time_step(driver: Driver, state: SearchState) -> tuple[SearchState, EpochRecord]:
        nonlocal seconds
        evaluator = driver.evaluator
        assert isinstance(evaluator, CrossValidation)
        began = time.thread_time() - evaluator.cpu_seconds
        next_state, record = driver.step(state)
        seconds += max(0.0, time.thread_time() - evaluator.cpu_seconds - began)
        return next_state, record

    check_stop()
    with closing(Archive(archive)) as opened:
        # The result must not depend on hints that only other strategies need.
        search = search.with_needed_hints()
        result = run_search(search, opened, on_epoch=check_stop, on_fit=check_stop, step=time_step)
        if result.interrupted:
            raise SearchInterrupted("the study was interrupted; repeat it to continue")
        trained = training_seconds(
            result.state.requests, opened.open_problem(search.search_problem)
        )
    counts = result.state.counts
    problem = search.problem
    cell_result = CellResult(
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
        fits=counts.fits,
        reason=result.reason,
        seconds_algorithm=seconds,
        seconds_evaluation=trained,
        history=result.history,
    )
    return cell_result, result


def cost_on_test_rows(problem: Problem, features: Sequence[str], test: Table) -> float:
    """Return the cost on the held-out rows of one model trained on all search rows."""
    positions = np.flatnonzero(np.isin(problem.space.columns, list(features)))
    model, rows = fit_for(problem, positions, np.arange(problem.n_rows), test.features)
    return problem.scoring.cost(model, rows, test.target, test.weight_in_score(problem))


def find_unfinished(tracking: Tracking, kind: str, fingerprint: str) -> str | None:
    """Return the run id of the latest unfinished study with this fingerprint, if any."""
    filter_string = f"tags.kind = '{kind}' and tags.fingerprint = '{fingerprint}'"
    unfinished = (run for run in tracking.runs(filter_string) if run.info.status != "FINISHED")
    return next((str(run.info.run_id) for run in unfinished), None)


class CellRuns:
    """Opens and ends the child run of each cell; see :class:`RunLog` for its guarantees."""

    def __init__(self, parent: RunLog) -> None:
        self._parent = parent
        self._logs: dict[Cell, RunLog] = {}
        # Unfinished runs of earlier starts, with the logged steps of each metric.
        self._unfinished: dict[Cell, tuple[str, dict[str, dict[int, float]]]] = {}

    def read_finished(self, problems: Mapping[Cell, str]) -> dict[Cell, CellResult]:
        """Read the finished searches on problems of these fingerprints, and end the other runs."""
        tracking = self._parent.tracking
        results: dict[Cell, CellResult] = {}
        seen: set[Cell] = set()
        for run in tracking.runs(f"tags.`mlflow.parentRunId` = '{self._parent.run_id}'"):
            tags = run.data.tags
            run_id = str(run.info.run_id)
            if run.info.status == "RUNNING":
                # Its process was killed.
                tracking.finish(run_id, "KILLED")
            if "dataset" not in tags or "seed" not in tags:
                continue
            cell = Cell(tags["dataset"], tags["label"], int(tags["seed"]))
            if cell in seen or cell not in problems or tags.get("problem") != problems[cell]:
                continue
            seen.add(cell)
            if run.info.status != "FINISHED":
                points = tracking.values(run_id) if run.data.metrics else {}
                self._unfinished[cell] = run_id, points
                continue
            results[cell] = CellResult.read(
                tracking.download(run_id, "features.json"),
                tracking.download(run_id, "history.parquet"),
            )
        return results

    def begin(self, cell: Cell, tags: Mapping[str, str], params: Mapping[str, object]) -> None:
        """Open the run of a search."""
        run_id, points = self._unfinished.pop(cell, (None, {}))
        self._logs[cell] = self._parent.child(cell.name, params, tags, run_id, points)

    def end(self, result: CellResult, scoring: Scoring) -> None:
        """Log the result of a search by epoch and as a whole, and end its run."""
        log = self._logs[result.cell]
        rows: dict[Any, Any] = result.history.set_index("epoch").to_dict("index")
        log.metrics({int(epoch): epoch_metrics(row, scoring) for epoch, row in rows.items()})
        log.metrics({0: result.metrics(scoring)})
        log.files(result.files())
        log.tag({"stopped": result.reason})
        log.finish()

    def fail(self, cell: Cell, error: str) -> None:
        """End the run of a failed search."""
        self._logs[cell].finish("FAILED", error)
