"""The compare flow: data sets x strategies x seeds at an equal budget."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
from prefect import flow

from conf.load import as_yaml
from conf.schema import CompareConfig
from flows.display.terminal import print_findings, say, show_stage, warnings_of
from flows.run.compare_data import ComparedData, Findings
from flows.run.flow_runs import COMMAND_FLOW
from flows.run.tracking import logged_parameters, tracking_as_configured
from flows.study import Study, run_study, settle
from swarm.errors import EvaluationError
from swarm.findings import codes_of
from swarm.json_data import json_file, plain, records
from swarm.metrics import natural_name
from swarm.report.comparison import (
    ComparedDataset,
    ComparisonData,
    rank_table,
    sentences,
    summary_tables,
)
from swarm.report.table import TextTable
from swarm.storage.archive import Archive
from swarm.validation.comparison import compare as compare_cells
from swarm.wording import counted
from tasks.comparison import package_versions, write_comparison
from tasks.refresh.lock import run_lock
from tasks.study import Cell, CellResult, CellRuns, find_unfinished, run_cell
from tasks.tracking import Tracking, curves_page
from tasks.tracking.run_log import RunLog, failure

# These keys say where and how a comparison runs, without effect on its results.
_WITHOUT_EFFECT = {"description", "runner", "tracking", "archive", "mute", "schedule"}


@dataclass(frozen=True)
class ComparisonRun:
    """Result of a comparison.

    Attributes
    ----------
    run_id
        Id of the parent run.
    experiment
        Name of its experiment.
    data
        Content of the report.
    findings
        Findings by data set.
    read_back
        Number of searches that were already finished.
    artifacts
        What to look at among the artifacts of the run.
    """

    run_id: str
    experiment: str
    data: ComparisonData
    findings: Findings
    read_back: int
    artifacts: ClassVar[str] = "comparison.html"

    @property
    def warnings(self) -> tuple[str, ...]:
        """The findings that are more than notes, a line each."""
        return tuple(
            f"data set {name!r}: {text}"
            for name, findings in self.findings.items()
            for text in warnings_of(findings)
        )

    def sentences(self) -> list[str]:
        """Return a sentence or two for each test."""
        return sentences(self.data.comparison)

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON data; undefined values are null."""
        comparison = self.data.comparison
        return {
            "run_id": self.run_id,
            "experiment": self.experiment,
            "all_features": {
                name: {
                    "cost": dataset.cost,
                    "size": dataset.n_features,
                    "test_cost": dataset.test_cost,
                }
                for name, dataset in self.data.datasets.items()
            },
            "summary": records(comparison.summary),
            "ranks": {
                str(name): {key: plain(rank) for key, rank in row.items()}
                for name, row in comparison.ranks.iterrows()
            },
            "sentences": self.sentences(),
            "warnings": list(self.warnings),
        }

    def metrics(self) -> dict[str, float]:
        """Return mean ranks and scores, such as ``mean_accuracy/wine/bpso``."""
        ranks = self.data.comparison.ranks["average"]
        metrics = {f"rank/{name}": float(rank) for name, rank in ranks.items()}
        for row in self.data.comparison.summary.to_dict("records"):
            scoring = self.data.datasets[row["dataset"]].scoring
            name = f"{natural_name(scoring.name)}/{row['dataset']}/{row['strategy']}"
            metrics[f"mean_{name}"] = scoring.natural(float(row["mean_cost"]))
            if "mean_test_cost" in row:
                metrics[f"mean_test_{name}"] = scoring.natural(float(row["mean_test_cost"]))
        return metrics

    def tables(self, width: int) -> list[TextTable]:
        """Return a table for each data set, and the ranks if there are several."""
        tables = list(summary_tables(self.data, width).values())
        return [*tables, rank_table(self.data.comparison)] if len(tables) > 1 else tables


class FailedSearches(EvaluationError):
    """Some searches of a comparison failed, after all others were finished.

    `compared` is the comparison of the strategies without a failed search, None if there is none.
    """

    def __init__(
        self, failures: Mapping[Cell, Exception], n_searches: int, compared: ComparisonRun | None
    ) -> None:
        cell, reason = next(iter(failures.items()))
        labels = sorted({cell.strategy for cell in failures})
        sections = ", ".join(f"strategies.{label}" for label in labels)
        left_out = "" if compared is None else ", which the tables leave out"
        super().__init__(
            f"{len(failures)} of {n_searches} searches failed, the first {cell.name}: "
            f"{failure(reason).rstrip('.;')}; correct or remove {sections}{left_out}, or run"
            " the same command to try them again"
        )
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
    return run_study(_compare, config, new, verbosity, runner=config.runner)


@flow(name="compare", **COMMAND_FLOW)
def _compare(config: CompareConfig, new: bool, verbosity: int, stop: Path) -> ComparisonRun:
    with show_stage(
        f"reading and preparing {counted(len(config.datasets), 'data set')}", verbosity
    ):
        prepared = ComparedData.of(config)
        Archive(prepared.url).close()
        tracking = tracking_as_configured(config.tracking)
        prepared.probe()
    # All strategies of a seed are run together.
    cells = [
        Cell(dataset, label, seed)
        for dataset in config.datasets
        for seed in config.seed_list
        for label in config.strategies
    ]
    study = Study(
        cells,
        prepared.inputs,
        run_cell,
        archive=prepared.url,
        runner=config.runner,
        stop=stop,
        keep_going=True,
    )
    with _open_log(config, tracking, new, prepared.url) as (log, resumed):
        say(f"comparison {log.run_id} in {tracking.label}", verbosity)
        for name, findings in prepared.findings.items():
            named = [replace(item, text=f"data set {name!r}: {item.text}") for item in findings]
            print_findings(named, verbosity)
        with show_stage("evaluating all features", verbosity):
            datasets = prepared.evaluate_all_features()
        runs = CellRuns(log)
        finished: dict[Cell, CellResult] = {}
        if resumed:
            finished = runs.read_finished(prepared.fingerprints(cells))
            say(f"continuing: {len(finished)} of {len(cells)} searches are finished", verbosity)
        say(f"searching: {len(cells) - len(finished)} searches", verbosity)
        results, failures = study.run(runs, finished, verbosity)
        run = None
        failed_labels = {cell.strategy for cell in failures}
        # Strategies are compared by all of their searches, ordered by data set, strategy and seed.
        complete = [
            results[Cell(dataset, label, seed)]
            for dataset in config.datasets
            for label in config.strategies
            for seed in sorted(config.seed_list)
            if label not in failed_labels
        ]
        if complete:
            with show_stage("writing the report", verbosity):
                run = ComparisonRun(
                    run_id=log.run_id,
                    experiment=config.tracking.experiment,
                    data=_report_data(config, complete, datasets),
                    findings=prepared.findings,
                    read_back=len(finished),
                )
                _log_report(log, run, partial=bool(failures))
        settle(log, verbosity)
        if failures:
            cause = next(iter(failures.values()))
            raise FailedSearches(failures, len(cells) - len(finished), run) from cause
    assert run is not None
    return run


def _fingerprint(config: CompareConfig) -> str:
    """Hash what is compared, but not where and on how many workers it runs."""
    dumped = config.model_dump(mode="json", by_alias=True, exclude=_WITHOUT_EFFECT)
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
    earlier = None if new else find_unfinished(tracking, "compare", fingerprint)
    with ExitStack() as locked:
        if earlier is not None:
            locked.enter_context(run_lock(url, earlier))
            log = RunLog.resume(tracking, earlier, tags)
        else:
            log = RunLog.start(
                tracking,
                config.name,
                logged_parameters(config),
                tags,
                as_yaml(config),
                description=config.description,
            )
            locked.enter_context(run_lock(url, log.run_id))
        with log:
            yield log, earlier is not None


def _report_data(
    config: CompareConfig, results: Sequence[CellResult], datasets: Mapping[str, ComparedDataset]
) -> ComparisonData:
    """Compute the tables and tests of a comparison."""
    cells = pd.DataFrame([result.row() for result in results])
    labels = list(dict.fromkeys(cells["strategy"]))
    histories: dict[tuple[str, str], list[pd.DataFrame]] = {}
    for result in results:
        key = result.cell.dataset, result.cell.strategy
        histories.setdefault(key, []).append(result.history)
    all_features = {name: (item.cost, item.n_features) for name, item in datasets.items()}
    n_rows = None
    if config.resample:
        n_rows = {name: (item.n_train, item.n_test) for name, item in datasets.items()}
        all_features |= {
            name: (item.test_cost, item.n_features)
            for name, item in datasets.items()
            if item.test_cost is not None
        }
    comparison = compare_cells(
        cells,
        all_features,
        reference=config.reference if config.reference in labels else None,
        judged_by="test_cost" if config.resample else "cost",
        resampled=n_rows,
        fixed={name: item.fixed for name, item in datasets.items()},
    )
    return ComparisonData(
        title=config.name,
        description=config.description,
        facts=_facts(config, labels),
        comparison=comparison,
        datasets=datasets,
        cells=cells,
        histories=histories,
        versions=package_versions(),
    )


def _log_report(log: RunLog, run: ComparisonRun, partial: bool) -> None:
    """Log the tables and the page of a comparison; the answer only if it is not partial."""
    files = write_comparison(run.data)
    files["findings.json"] = json_file(
        {name: [item.as_dict() for item in findings] for name, findings in run.findings.items()}
    )
    log.tag({"findings": codes_of(chain.from_iterable(run.findings.values()))})
    log.files(files)
    if partial:
        return
    log.metrics({0: run.metrics()})
    headline, *sentences = run.sentences()
    links = {
        "curves": curves_page(log.tracking.experiment_id, log.run_id).removeprefix("/"),
        "report": "comparison.html",
        "summary": "summary.csv",
        "all searches": "cells.csv",
    }
    log.tag({"headline": headline})
    ranks = rank_table(run.data.comparison).as_markdown()
    log.note(headline, links, [ranks, *sentences, run.data.description])


def _facts(config: CompareConfig, strategies: Sequence[str]) -> dict[str, str]:
    budget = config.budget.model_dump()
    limits = [f"{key} {limit:g}" for key, limit in budget.items() if limit is not None]
    return {
        "data sets": ", ".join(config.datasets),
        "strategies": ", ".join(strategies),
        "seeds": ", ".join(str(seed) for seed in config.seed_list),
        "budget of each search": ", ".join(limits),
    }
