"""The compare flow: data sets x strategies x seeds at an equal budget."""

from __future__ import annotations

import hashlib
import json
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
from prefect import flow
from prefect.futures import PrefectFuture
from threadpoolctl import threadpool_limits

from conf.check import check
from conf.load import as_yaml
from conf.schema import CompareConfig
from flows.compare_data import ComparedData, Findings
from flows.configured import search_as_configured
from flows.flow_runs import COMMAND_FLOW
from flows.terminal import CellDisplay, print_findings, say, show_searches, show_stage, warnings_of
from flows.tracking import describe_run, logged_parameters, tracking_as_configured
from swarm.errors import EvaluationError
from swarm.findings import codes_of
from swarm.problem.scoring import Scoring
from swarm.report.comparison import ComparisonData, sentences
from swarm.storage.archive import Archive
from swarm.validation.comparison import Comparison
from swarm.validation.comparison import compare as compare_cells
from swarm.wording import counted
from tasks.comparison import (
    SearchRuns,
    by_strategy,
    find_unfinished,
    package_versions,
    parent_metrics,
    ranks_as_markdown,
    write_comparison,
)
from tasks.refresh.lock import run_lock
from tasks.search_cell import Cell, CellResult, run_cell
from tasks.task_runner import (
    as_they_finish,
    connection_check,
    one_server,
    reachable_cluster,
    task_runner,
)
from tasks.tracking import Tracking, curves_page
from tasks.tracking.run_log import RunLog, failure

# Keys that define where and how a comparison runs, without effect on its results.
_ELSEWHERE = ("description", "runner", "tracking", "archive", "mute", "schedule")


@dataclass(frozen=True)
class ComparisonRun:
    """Result of a comparison."""

    run_id: str  # the parent run
    comparison: Comparison
    cells: pd.DataFrame  # one row per search
    # cost (mean over the resamples) and number of all features, by data set
    all_features: Mapping[str, tuple[float, int]]
    read_back: int  # searches that were already finished
    findings: Findings  # by data set
    scorings: Mapping[str, Scoring]  # scorers of the searches, by data set
    # Cost of all features on the test rows, by data set; empty if nothing is judged on them.
    all_features_test: Mapping[str, float] = field(default_factory=dict)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The findings that are more than notes, a line each."""
        return tuple(
            f"data set {name!r}: {text}"
            for name, findings in self.findings.items()
            for text in warnings_of(findings)
        )


class FailedSearches(EvaluationError):
    """Some searches of a comparison failed, after all others were finished.

    `compared` is the comparison of the strategies without a failed search, None if there is none.
    """

    def __init__(self, message: str, compared: ComparisonRun | None) -> None:
        super().__init__(message)
        self.compared = compared


def compare(config: CompareConfig, new: bool = False, verbosity: int = 1) -> ComparisonRun:
    """Compare strategies; an unfinished comparison of the same configuration is continued.

    Parameters
    ----------
    config : CompareConfig
    new : bool
        Start a new comparison, even if one is unfinished.
    verbosity : int
        0 for silence, 1 for progress, 2 for a line per search.

    Raises
    ------
    InputError
        For bad input, before any search is started.
    FailedSearches
        If a search failed; the others are finished first, and compared.
    """
    check(config)
    runner = task_runner(config.runner.kind, config.runner.workers, config.runner.address)
    with (
        warnings.catch_warnings(),
        threadpool_limits(limits=1),
        reachable_cluster(config.runner.kind, config.runner.address),
        tempfile.TemporaryDirectory(prefix="swarm-compare-") as folder,
    ):
        # Warning filters are global to a process, so threads cannot set their own.
        warnings.simplefilter("ignore")
        with_runner = _compare.with_options(task_runner=runner)
        # The runner waits for its workers before the folder with the stop file is removed.
        return with_runner(config, new, verbosity, Path(folder) / "stop")


@flow(name="compare", **COMMAND_FLOW)
def _compare(config: CompareConfig, new: bool, verbosity: int, stop: Path) -> ComparisonRun:
    with show_stage(
        f"reading and preparing {counted(len(config.datasets), 'data set')}", verbosity
    ):
        prepared = ComparedData.of(config)
        Archive(prepared.url).close()
        tracking = tracking_as_configured(config.tracking)
        prepared.probe()
    with _open_log(config, tracking, new, prepared.url) as (log, resumed):
        say(f"comparison {log.run_id} in {tracking.label}", verbosity)
        for name, findings in prepared.findings.items():
            for each in findings:
                print_findings([replace(each, text=f"data set {name!r}: {each.text}")], verbosity)
        with show_stage("evaluating all features", verbosity):
            all_features = prepared.all_features()
        runs, cells = SearchRuns(log), _cells(config)
        finished = _read_back(prepared, cells, runs) if resumed else {}
        if resumed:
            say(f"continuing: {len(finished)} of {len(cells)} searches are finished", verbosity)
        left = [cell for cell in cells if cell not in finished]
        say(f"searching: {len(left)} searches", verbosity)
        with show_searches(len(cells), len(finished), verbosity) as shown, one_server():
            fresh, failures = _run_searches(prepared, left, runs, shown, stop)
        results, run = _without_failed(config, finished | fresh, failures), None
        if results:
            with show_stage("writing the report", verbosity):
                run = _conclude(
                    prepared,
                    results,
                    all_features=all_features,
                    log=log,
                    read_back=len(finished),
                    partial=bool(failures),
                )
        with show_stage("sending the rest to MLflow", verbosity):
            log.settle()
        if failures:
            raise _failed(failures, len(left), run) from next(iter(failures.values()))
    assert run is not None
    return run


def _cells(config: CompareConfig) -> list[Cell]:
    """Return the searches in the order in which they are run: all strategies of a seed together."""
    return [
        Cell(dataset, label, seed)
        for dataset in config.datasets
        for seed in config.seed_list
        for label in config.strategies
    ]


def _read_back(
    prepared: ComparedData, cells: Sequence[Cell], runs: SearchRuns
) -> dict[Cell, CellResult]:
    """Return the results of the searches that finished earlier."""
    problems = {key: data.problem.fingerprint() for key, data in prepared.data.items()}
    wanted = {cell: problems[prepared.key(cell)] for cell in cells}
    return {each.cell: each for each in runs.read_finished(wanted) if each.cell in wanted}


def _without_failed(
    config: CompareConfig, by_cell: Mapping[Cell, CellResult], failures: Collection[Cell]
) -> list[CellResult]:
    """Return the results by data set, strategy and seed, without strategies that failed once."""
    lost = {cell.strategy for cell in failures}
    return [
        by_cell[Cell(dataset, label, seed)]
        for dataset in config.datasets
        for label in config.strategies
        for seed in sorted(config.seed_list)
        if label not in lost
    ]


def _failed(
    failures: Mapping[Cell, Exception], n_searches: int, run: ComparisonRun | None
) -> FailedSearches:
    """Return the error of a comparison of which some searches failed."""
    cell, reason = next(iter(failures.items()))
    lost = sorted({each.strategy for each in failures})
    sections = ", ".join(f"strategies.{label}" for label in lost)
    left_out = "" if run is None else ", which the tables leave out"
    return FailedSearches(
        f"{len(failures)} of {n_searches} searches failed, the first {cell.name}: "
        f"{failure(reason).rstrip('.;')}; correct or remove {sections}{left_out}, or run"
        " the same command to try them again",
        run,
    )


def _fingerprint(config: CompareConfig) -> str:
    """Hash what is compared, but not where and on how many workers it runs."""
    dumped = config.model_dump(mode="json", by_alias=True, exclude=set(_ELSEWHERE))
    for key in ("n_jobs", "backend", "address"):
        dumped["evaluation"].pop(key, None)
    text = json.dumps([version("swarmselect"), dumped])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@contextmanager
def _open_log(
    config: CompareConfig, tracking: Tracking, new: bool, url: str
) -> Iterator[tuple[RunLog, bool]]:
    """Open the run, on which no other process works meanwhile, and say if it is continued."""
    fingerprint = _fingerprint(config)
    tags = {"kind": "compare", "fingerprint": fingerprint}
    earlier = None if new else find_unfinished(tracking, fingerprint)
    with ExitStack() as locked:
        if earlier is not None:
            locked.enter_context(run_lock(url, earlier))
            log = RunLog.resume(tracking, earlier, tags)
        else:
            parameters, text = logged_parameters(config), as_yaml(config)
            about = config.description
            log = RunLog.start(tracking, config.name, parameters, tags, text, description=about)
            locked.enter_context(run_lock(url, log.run_id))
        with log:
            yield log, earlier is not None


def _run_searches(
    prepared: ComparedData, cells: Sequence[Cell], runs: SearchRuns, shown: CellDisplay, stop: Path
) -> tuple[dict[Cell, CellResult], dict[Cell, Exception]]:
    """Run the searches, and return results and failures; this process logs each as it finishes."""
    runner = prepared.config.runner
    submit = _submitter(prepared, stop, runs)
    results: dict[Cell, CellResult] = {}
    failures: dict[Cell, Exception] = {}
    try:
        check_connection = connection_check(runner.kind)
        for cell, future in as_they_finish(cells, submit, runner.workers, check_connection):
            try:
                results[cell] = future.result(raise_on_failure=True)
            except Exception as error:
                failures[cell] = error
                runs.fail(cell, failure(error))
                shown.fail(cell, failure(error))
            else:
                problem = prepared.data[prepared.key(cell)].problem
                runs.end(results[cell], problem.scoring)
                shown.finish(results[cell])
    except BaseException:
        # Searches in threads and processes check for this file between two fits.
        stop.touch()
        raise
    return results, failures


def _submitter(
    prepared: ComparedData, stop: Path, runs: SearchRuns
) -> Callable[[Cell], PrefectFuture[Any]]:
    """Return a function that submits a search to the task runner and opens its run."""
    config, url = prepared.config, prepared.url
    tags = {key: describe_run(data.problem, key[0], "", 0) for key, data in prepared.data.items()}

    def submit(cell: Cell) -> PrefectFuture[Any]:
        key = prepared.key(cell)
        data, strategy = prepared.data[key], config.strategy(cell.strategy)
        params = {"dataset": cell.dataset, "strategy.name": strategy.name, "seed": cell.seed}
        params |= {f"strategy.params.{name}": value for name, value in strategy.params.items()}
        runs.begin(cell, {**tags[key], "strategy": strategy.name, "seed": str(cell.seed)}, params)
        select = config.as_select(cell.dataset, cell.strategy, cell.seed)
        search = search_as_configured(select, data, cell.seed)
        task = run_cell.with_options(task_run_name=cell.name)
        return task.submit(cell, search, url, stop, data.test)

    return submit


def _conclude(
    prepared: ComparedData,
    results: Sequence[CellResult],
    all_features: Mapping[str, tuple[float, int]],
    log: RunLog,
    read_back: int,
    partial: bool,
) -> ComparisonRun:
    """Compute tables and tests, draw figures, and log them; of a partial comparison only files."""
    config, findings = prepared.config, prepared.findings
    cells = pd.DataFrame([result.row() for result in results])
    compared = list(dict.fromkeys(cells["strategy"]))
    all_features_test = prepared.all_features_test()
    judged = all_features_test if config.resample else {}
    baseline = {name: (judged.get(name, cost), size) for name, (cost, size) in all_features.items()}
    comparison = compare_cells(
        cells,
        baseline,
        reference=config.reference if config.reference in compared else None,
        judged_by="test_cost" if config.resample else "cost",
        resampled=prepared.row_counts() if config.resample else None,
        fixed=prepared.fixed(),
    )
    scorings = {name: parts[-1].problem.scoring for name, parts in prepared.by_dataset.items()}
    data = ComparisonData(
        title=config.name,
        description=config.description,
        facts=_facts(config, compared),
        comparison=comparison,
        all_features=all_features,
        scorings=scorings,
        histories=by_strategy(results, lambda result: result.history),
        versions=package_versions(),
        all_features_test=all_features_test,
        chosen=by_strategy(results, lambda result: result.features),
        positive=prepared.positive(),
    )
    files = write_comparison(data, cells)
    records = {name: [each.as_dict() for each in some] for name, some in findings.items()}
    files["findings.json"] = json.dumps(records, indent=2, ensure_ascii=False).encode()
    log.tag({"findings": codes_of(each for some in findings.values() for each in some)})
    log.files(files)
    if not partial:
        log.metrics({0: parent_metrics(comparison, scorings)})
        answer, *more = sentences(comparison)
        links = {
            "curves": curves_page(log.tracking.experiment_id, log.run_id).removeprefix("/"),
            "report": "comparison.html",
            "summary": "summary.csv",
            "all searches": "cells.csv",
        }
        log.tag({"headline": answer})
        log.note(answer, links, [ranks_as_markdown(comparison), *more, config.description])
    return ComparisonRun(
        run_id=log.run_id,
        comparison=comparison,
        cells=cells,
        all_features=all_features,
        read_back=read_back,
        findings=findings,
        scorings=scorings,
        all_features_test=all_features_test,
    )


def _facts(config: CompareConfig, strategies: Sequence[str]) -> dict[str, str]:
    limits = {k: v for k, v in config.budget.model_dump().items() if v is not None}
    return {
        "data sets": ", ".join(config.datasets),
        "strategies": ", ".join(strategies),
        "seeds": ", ".join(str(seed) for seed in config.seed_list),
        "budget of each search": ", ".join(f"{key} {value:g}" for key, value in limits.items()),
    }
