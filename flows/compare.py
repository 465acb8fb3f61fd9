"""The compare flow: data sets x strategies x seeds at an equal budget."""

from __future__ import annotations

import hashlib
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
from prefect import flow
from prefect.futures import PrefectFuture
from threadpoolctl import threadpool_limits

from conf.check import check
from conf.estimator import build_estimator, build_selector
from conf.later_keys import without_later_keys
from conf.load import as_yaml
from conf.resolve import fold_kind
from conf.schema import CompareConfig
from flows.compare_runner import (
    as_they_finish,
    connected,
    connection_check,
    one_server,
    task_runner,
)
from flows.configured import (
    PreparedData,
    archive_url,
    fetched,
    plan_as_configured,
    prepare_as_configured,
    probe_as_configured,
)
from flows.flow_runs import COMMAND_FLOW
from flows.progress import Display, cell_display, say, show_stage, tell, warnings_of
from flows.stages import Stage
from flows.tracking import logged_parameters, tracking_as_configured, wait_for_log
from swarm.errors import EvaluationError, InputError
from swarm.findings import Finding, codes_of, unmuted
from swarm.report.comparison import ComparisonData, sentences
from swarm.storage.archive import Archive
from swarm.strategies.catalogue import make
from swarm.validation.comparison import Comparison
from swarm.validation.comparison import compare as compare_cells
from swarm.validation.metrics import cost_label
from tasks.comparison import (
    SearchRuns,
    by_strategy,
    package_versions,
    parent_metrics,
    unfinished,
    write_comparison,
)
from tasks.search_cell import (
    Cell,
    CellResult,
    ConfiguredSelector,
    cost_of_all,
    cost_on_test_rows,
    run_cell,
    run_selector,
)
from tasks.steps import positive_of
from tasks.tracking import Tracking
from tasks.tracking.run_log import RunLog, describe_run, failure

# Keys that define where and how a comparison runs, without effect on its results.
_ELSEWHERE = ("description", "runner", "tracking", "archive", "retries", "mute", "schedule")


@dataclass(frozen=True)
class ComparisonRun:
    """Result of a comparison.

    Attributes
    ----------
    run_id : str
        The parent run.
    comparison : Comparison
    cells : DataFrame
        One row per search.
    everything : mapping of data set to (cost, size)
        The baseline: all features. The cost is the mean over the resamples.
    test_everything : mapping of data set to float
        Cost of all features on the test rows; empty if nothing is judged on them.
    read_back : int
        Searches that were already finished.
    findings : mapping of data set to tuple of Finding
    """

    run_id: str
    comparison: Comparison
    cells: pd.DataFrame
    everything: Mapping[str, tuple[float, int]]
    read_back: int
    findings: Findings
    test_everything: Mapping[str, float] = field(default_factory=dict)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The findings that are more than notes, a line each."""
        return tuple(
            f"data set {name!r}: {text}"
            for name, own in self.findings.items()
            for text in warnings_of(own)
        )


class FailedSearches(EvaluationError):
    """Some searches of a comparison failed, after all others were finished.

    Attributes
    ----------
    compared : ComparisonRun or None
        The comparison of the strategies without a failed search; None if there is none.
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
        connected(config.runner.kind, config.runner.workers, config.runner.address),
        tempfile.TemporaryDirectory(prefix="swarm-compare-") as folder,
    ):
        # Warning filters are global to a process, so threads cannot set their own.
        warnings.simplefilter("ignore")
        with_runner = _compare.with_options(task_runner=runner)
        # The runner waits for its workers before the folder with the stop file is removed.
        return with_runner(config, new, verbosity, Path(folder) / "stop")


@flow(name="compare", **COMMAND_FLOW)
def _compare(config: CompareConfig, new: bool, verbosity: int, stop: Path) -> ComparisonRun:
    text = f"reading and preparing {len(config.datasets)} data set"
    text += "s" * (len(config.datasets) != 1)
    with show_stage(Stage.PREPARE, verbosity, text=text):
        prepared = _Prepared.of(config)
        Archive(prepared.url).close()
        tracking = tracking_as_configured(config.tracking)
        prepared.probe()
        log, resumed = _open_log(config, tracking, new)
    with log:
        say(f"comparison {log.run_id} in {tracking.label}", verbosity)
        for name, own in prepared.findings.items():
            for each in own:
                tell([replace(each, text=f"data set {name!r}: {each.text}")], verbosity)
        with show_stage(Stage.SEARCH, verbosity, text="evaluating all features"):
            everything = prepared.everything()
        cells = [
            Cell(dataset, label, seed)
            for dataset in config.datasets
            for seed in config.seed_list
            for label in config.strategies
        ]
        problems = {key: data.problem.fingerprint() for key, data in prepared.data.items()}
        runs = SearchRuns(log)
        wanted = {cell: problems[prepared.key(cell)] for cell in cells}
        earlier = runs.finished(wanted) if resumed else []
        found = {result.cell: result for result in earlier if result.cell in wanted}
        if resumed:
            say(f"continuing: {len(found)} of {len(cells)} searches are finished", verbosity)
        read_back = len(found)
        left = [cell for cell in cells if cell not in found]
        say(f"{Stage.SEARCH.line}: {len(left)} searches", verbosity)
        with cell_display(len(cells), len(found), verbosity) as shown, one_server():
            fresh, failed = _searched(prepared, left, runs, shown, stop)
            found |= fresh
        lost = {cell.strategy for cell in failed}
        results = [
            found[Cell(dataset, label, seed)]
            for dataset in config.datasets
            for label in config.strategies
            for seed in sorted(config.seed_list)
            if label not in lost
        ]
        run = None
        if results:
            with show_stage(Stage.REPORT, verbosity):
                run = _concluded(prepared, results, everything, log, read_back, bool(lost))
        wait_for_log(log, verbosity)
        if failed:
            cell, reason = next(iter(failed.items()))
            sections = ", ".join(f"strategies.{label}" for label in sorted(lost))
            left_out = ", which the tables leave out" if results else ""
            raise FailedSearches(
                f"{len(failed)} of {len(left)} searches failed, the first {cell.name}: "
                f"{failure(reason).rstrip('.;')}; correct or remove {sections}{left_out}, or run"
                " the same command to try them again",
                run,
            ) from reason
    assert run is not None
    return run


# The findings of each data set.
Findings = Mapping[str, tuple[Finding, ...]]
# A data set, and the shift of the seed of its split: 0 if all seeds share their rows.
_Key = tuple[str, int]


@dataclass(frozen=True, eq=False)
class _Prepared:
    """The data sets of a comparison, and what of them is the same for all searches."""

    config: CompareConfig
    data: Mapping[_Key, PreparedData]
    findings: Findings
    url: str

    @classmethod
    def of(cls, config: CompareConfig) -> _Prepared:
        """Fetch and prepare every data set, so that bad input is reported before any search.

        Of each code, the findings have the first one of a data set, whatever its resamples.
        """
        first, needs = next(iter(config.strategies)), _needs(config)
        prepared, told = dict[_Key, PreparedData](), dict[str, dict[str, Finding]]()
        for name in config.datasets:
            with _named(name):
                table = fetched(config.as_select(name, first))
                split = config.own_split(name) is not None
                for seed in config.seed_list:
                    key = name, config.shift(seed)
                    if key in prepared:
                        continue
                    select = config.as_select(name, first, seed)
                    data = prepare_as_configured(select, table, needs=needs, seed=0, split=split)
                    fresh = {each.code: each for each in data.findings}
                    prepared[key], told[name] = data, {**fresh, **told.get(name, {})}
        findings = {name: unmuted(own.values(), config.mute) for name, own in told.items()}
        return cls(config, prepared, findings, archive_url(config.archive))

    @property
    def by_dataset(self) -> dict[str, list[PreparedData]]:
        """The resamples of each data set."""
        return {
            name: [data for (dataset, _), data in self.data.items() if dataset == name]
            for name in self.config.datasets
        }

    def key(self, cell: Cell) -> _Key:
        """Return the key of the data of a search."""
        return cell.dataset, self.config.shift(cell.seed)

    def probe(self) -> None:
        """Probe the model of every data set before a run is opened."""
        first = next(iter(self.config.strategies))
        with closing(Archive(self.url)) as archive:
            for (name, _), data in self.data.items():
                with _named(name):
                    select = self.config.as_select(name, first)
                    probe_as_configured(select, data, plan_as_configured(select, data), archive)

    def everything(self) -> dict[str, tuple[float, int]]:
        """Return the mean cost of all features of each data set, and their number."""
        return {
            name: (
                _mean([cost_of_all(data.problem, self.url) for data in own]),
                own[0].problem.space.n_columns,
            )
            for name, own in self.by_dataset.items()
        }

    def test_everything(self) -> dict[str, float]:
        """Return the mean cost of all features on the test rows of each data set that has some."""
        costs: dict[str, list[float]] = {}
        for (name, _), data in self.data.items():
            if data.test is not None:
                columns = data.problem.space.subset(~data.problem.space.forbidden)
                cost = cost_on_test_rows(data.problem, columns, data.test)
                costs.setdefault(name, []).append(cost)
        return {name: _mean(own) for name, own in costs.items()}

    def row_counts(self) -> dict[str, tuple[float, float]]:
        """Return the mean number of training and test rows of each data set."""
        return {
            name: (
                _mean([len(data.train.features) for data in own]),
                _mean([len(data.test.features) for data in own if data.test is not None]),
            )
            for name, own in self.by_dataset.items()
        }

    def positive(self) -> dict[str, str]:
        """Return the positive class of each data set with two classes."""
        found = {name: positive_of(own[-1].problem) for name, own in self.by_dataset.items()}
        return {name: str(label) for name, label in found.items() if label is not None}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


@contextmanager
def _named(dataset: str) -> Iterator[None]:
    """Name the data set in errors about its input."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"data set {dataset!r}: {error}") from None


def _needs(config: CompareConfig) -> tuple[str, ...]:
    """Return the names of all hints that the strategies need."""
    rivals = [
        config.strategy(label) for label in config.strategies if not config.is_selector(label)
    ]
    needs = (name for rival in rivals for name in make(rival.name, rival.params).needs)
    return tuple(dict.fromkeys(needs))


def _fingerprint(config: CompareConfig) -> str:
    """Hash what is compared, but not where and on how many workers it runs."""
    dumped = config.model_dump(mode="json", by_alias=True, exclude=set(_ELSEWHERE))
    for key in ("n_jobs", "backend", "address", "exact", "device"):
        dumped["evaluation"].pop(key, None)
    # An unfinished comparison of a version without these keys and values is continued.
    for section in (dumped, *dumped["datasets"].values()):
        folds = section["folds"]
        if folds is not None and folds["kind"] == "auto":
            folds["kind"] = "stratified"
    dumped = without_later_keys(dumped)
    for name, section in dumped["datasets"].items():
        dumped["datasets"][name] = without_later_keys(section)
    # Earlier versions had the folds of other kinds here.
    by_role = {
        name: kind
        for name, kind in _automatic_kinds(config).items()
        if kind not in ("stratified", "random")
    }
    if by_role:
        dumped["automatic_folds"] = by_role
    for section in dumped["strategies"].values():
        section["estimator"] = without_later_keys({"model": section["estimator"]})["model"]
        if section["selector"] is None:
            for key in ("selector", "estimator", "allow"):
                del section[key]
    text = json.dumps([version("swarmselect"), dumped])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _automatic_kinds(config: CompareConfig) -> dict[str, str]:
    """Return the resolved kind of folds of each data set for which it is ``auto``."""
    first = next(iter(config.strategies))
    selects = {name: config.as_select(name, first) for name in config.datasets}
    return {
        name: fold_kind(select, build_estimator(select.model))
        for name, select in selects.items()
        if select.folds.kind == "auto"
    }


def _open_log(config: CompareConfig, tracking: Tracking, new: bool) -> tuple[RunLog, bool]:
    fingerprint = _fingerprint(config)
    tags = {"kind": "compare", "fingerprint": fingerprint}
    earlier = None if new else unfinished(tracking, fingerprint)
    if earlier is not None:
        return RunLog.resume(tracking, earlier, tags), True
    text = as_yaml(config)
    log = RunLog.start(
        tracking, config.name, logged_parameters(config), tags, text, description=config.description
    )
    return log, False


def _searched(
    prepared: _Prepared, cells: Sequence[Cell], runs: SearchRuns, shown: Display, stop: Path
) -> tuple[dict[Cell, CellResult], dict[Cell, Exception]]:
    """Run the searches, and return results and failures; this process logs each as it finishes."""
    runner = prepared.config.runner
    submit = _submitter(prepared, stop, runs)
    found: dict[Cell, CellResult] = {}
    failed: dict[Cell, Exception] = {}
    try:
        check_connection = connection_check(runner.kind, runner.address)
        for cell, future in as_they_finish(cells, submit, runner.workers, check_connection):
            try:
                found[cell] = future.result(raise_on_failure=True)
            except Exception as error:
                failed[cell] = error
                runs.fail(cell, failure(error))
                shown.failed(cell, failure(error))
            else:
                runs.end(found[cell])
                shown.finished(found[cell])
    except BaseException:
        # Searches in threads and processes check for this file between two fits.
        stop.touch()
        raise
    return found, failed


def _submitter(
    prepared: _Prepared, stop: Path, runs: SearchRuns
) -> Callable[[Cell], PrefectFuture[Any]]:
    """Return a function that submits a search to the task runner and opens its run."""
    config, url = prepared.config, prepared.url
    tags = {key: describe_run(data.problem, key[0], "", 0) for key, data in prepared.data.items()}
    retries = config.retries.model_dump()

    def submit(cell: Cell) -> PrefectFuture[Any]:
        key = prepared.key(cell)
        data, section = prepared.data[key], config.strategies[cell.strategy]
        kind = "selector" if config.is_selector(cell.strategy) else "strategy"
        name = section.selector or config.strategy(cell.strategy).name
        known = {"dataset": cell.dataset, f"{kind}.name": name, "seed": cell.seed}
        known |= {f"{kind}.params.{own}": value for own, value in section.params.items()}
        runs.begin(cell, {**tags[key], "strategy": name, "seed": str(cell.seed)}, known)
        if kind == "selector":
            # The check of the configuration requires a split.
            assert data.test is not None
            chosen = _selector(config, cell)
            selecting = run_selector.retried(**retries, task_run_name=cell.name)
            return selecting.submit(cell, chosen, data.problem, url, stop, data.test)
        select = config.as_select(cell.dataset, cell.strategy, cell.seed)
        plan = plan_as_configured(select, data, cell.seed)
        searching = run_cell.retried(**retries, task_run_name=cell.name)
        return searching.submit(cell, plan, url, stop, data.test)

    return submit


def _selector(config: CompareConfig, cell: Cell) -> ConfiguredSelector:
    """Build the selector of a cell."""
    section = config.strategies[cell.strategy]
    model = config.as_select(cell.dataset, cell.strategy).model
    given = {*section.params, *(["estimator"] if section.estimator is not None else [])}
    made = build_selector(cell.strategy, section, model)
    return ConfiguredSelector(made, frozenset(given))


def _concluded(
    prepared: _Prepared,
    results: Sequence[CellResult],
    everything: Mapping[str, tuple[float, int]],
    log: RunLog,
    read_back: int,
    partial: bool,
) -> ComparisonRun:
    """Compute tables and tests, write the figures, and log them.

    Of a partial comparison, which is completed later, only files are logged.
    """
    config, told = prepared.config, prepared.findings
    cells = pd.DataFrame([result.row() for result in results])
    compared = list(dict.fromkeys(cells["strategy"]))
    test_everything = prepared.test_everything()
    judged = test_everything if config.is_judged_on_test else {}
    baseline = {name: (judged.get(name, cost), size) for name, (cost, size) in everything.items()}
    comparison = compare_cells(
        cells,
        baseline,
        reference=config.reference if config.reference in compared else None,
        alpha=config.alpha,
        judged_by="test_cost" if config.is_judged_on_test else "cost",
        resampled=prepared.row_counts() if config.resample else None,
    )
    limits = {k: v for k, v in config.budget.model_dump().items() if v is not None}
    facts = {
        "data sets": ", ".join(config.datasets),
        "strategies": ", ".join(compared),
        "seeds": ", ".join(str(seed) for seed in config.seed_list),
        "budget of each search": ", ".join(f"{key} {value:g}" for key, value in limits.items()),
    }
    labels = {
        name: cost_label(own[-1].problem.scoring) for name, own in prepared.by_dataset.items()
    }
    data = ComparisonData(
        config.name,
        config.description,
        facts,
        comparison,
        everything,
        labels,
        by_strategy(results, lambda result: result.history),
        package_versions(),
        test_everything,
        by_strategy(results, lambda result: result.features),
        prepared.positive(),
    )
    files = write_comparison(data, cells)
    listed = {name: [each.as_dict() for each in own] for name, own in told.items()}
    files["findings.json"] = json.dumps(listed, indent=2, ensure_ascii=False).encode()
    log.tag({"findings": codes_of(each for own in told.values() for each in own)})
    log.files(files)
    if not partial:
        log.metrics({0: parent_metrics(comparison)})
        answer, *more = sentences(comparison)
        links = {"report": "comparison.html", "summary": "summary.csv", "all searches": "cells.csv"}
        log.tag({"headline": answer})
        log.note(answer, links, [*more, config.description])
    return ComparisonRun(
        log.run_id, comparison, cells, everything, read_back, told, test_everything
    )
