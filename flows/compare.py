"""The compare flow: data sets x strategies x seeds at an equal budget."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
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

# Keys that define where and how a comparison runs, without effect on its results.
_ELSEWHERE = ("description", "runner", "tracking", "archive", "mute", "schedule")


@dataclass(frozen=True)
class ComparisonRun:
    """Result of a comparison."""

    run_id: str  # the parent run
    experiment: str
    data: ComparisonData  # that of the report
    findings: Findings  # by data set
    read_back: int  # searches that were already finished
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
        data, ranks = self.data, self.data.comparison.ranks
        return {
            "run_id": self.run_id,
            "experiment": self.experiment,
            "all_features": {
                name: {"cost": each.cost, "size": each.n_features, "test_cost": each.test_cost}
                for name, each in data.datasets.items()
            },
            "summary": records(data.comparison.summary),
            "ranks": {
                str(name): {key: plain(rank) for key, rank in row.items()}
                for name, row in ranks.iterrows()
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
        lost = sorted({each.strategy for each in failures})
        sections = ", ".join(f"strategies.{label}" for label in lost)
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
            for each in findings:
                print_findings([replace(each, text=f"data set {name!r}: {each.text}")], verbosity)
        with show_stage("evaluating all features", verbosity):
            datasets = prepared.evaluate_all_features()
        runs, finished = CellRuns(log), dict[Cell, CellResult]()
        if resumed:
            finished = runs.read_finished(prepared.fingerprints(cells))
            say(f"continuing: {len(finished)} of {len(cells)} searches are finished", verbosity)
        say(f"searching: {len(cells) - len(finished)} searches", verbosity)
        results, failures = study.run(runs, finished, verbosity)
        run, lost = None, sorted({cell.strategy for cell in failures})
        # The tables are by data set, strategy and seed.
        kept = [
            results[Cell(dataset, label, seed)]
            for dataset in config.datasets
            for label in config.strategies
            for seed in sorted(config.seed_list)
            if label not in lost
        ]
        if kept:
            with show_stage("writing the report", verbosity):
                run = ComparisonRun(
                    run_id=log.run_id,
                    experiment=config.tracking.experiment,
                    data=_report_data(config, kept, datasets),
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
    earlier = None if new else find_unfinished(tracking, "compare", fingerprint)
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


def _report_data(
    config: CompareConfig, results: Sequence[CellResult], datasets: Mapping[str, ComparedDataset]
) -> ComparisonData:
    """Compute the tables and tests of a comparison."""
    cells = pd.DataFrame([result.row() for result in results])
    compared = list(dict.fromkeys(cells["strategy"]))
    histories: dict[tuple[str, str], list[pd.DataFrame]] = {}
    for result in results:
        key = result.cell.dataset, result.cell.strategy
        histories.setdefault(key, []).append(result.history)
    resampled = config.resample
    all_costs = {
        name: each.test_cost if resampled and each.test_cost is not None else each.cost
        for name, each in datasets.items()
    }
    comparison = compare_cells(
        cells,
        {name: (all_costs[name], each.n_features) for name, each in datasets.items()},
        reference=config.reference if config.reference in compared else None,
        judged_by="test_cost" if resampled else "cost",
        resampled=(
            {name: (each.n_train, each.n_test) for name, each in datasets.items()}
            if resampled
            else None
        ),
        fixed={name: each.fixed for name, each in datasets.items()},
    )
    return ComparisonData(
        title=config.name,
        description=config.description,
        facts=_facts(config, compared),
        comparison=comparison,
        datasets=datasets,
        cells=cells,
        histories=histories,
        versions=package_versions(),
    )


def _log_report(log: RunLog, run: ComparisonRun, partial: bool) -> None:
    """Log the tables and the page of a comparison; the answer only if it is not partial."""
    files = write_comparison(run.data)
    found = {name: [each.as_dict() for each in some] for name, some in run.findings.items()}
    files["findings.json"] = json_file(found)
    log.tag({"findings": codes_of(each for some in run.findings.values() for each in some)})
    log.files(files)
    if partial:
        return
    log.metrics({0: run.metrics()})
    answer, *more = run.sentences()
    links = {
        "curves": curves_page(log.tracking.experiment_id, log.run_id).removeprefix("/"),
        "report": "comparison.html",
        "summary": "summary.csv",
        "all searches": "cells.csv",
    }
    log.tag({"headline": answer})
    ranks = rank_table(run.data.comparison).as_markdown()
    log.note(answer, links, [ranks, *more, run.data.description])


def _facts(config: CompareConfig, strategies: Sequence[str]) -> dict[str, str]:
    limits = {k: v for k, v in config.budget.model_dump().items() if v is not None}
    return {
        "data sets": ", ".join(config.datasets),
        "strategies": ", ".join(strategies),
        "seeds": ", ".join(str(seed) for seed in config.seed_list),
        "budget of each search": ", ".join(f"{key} {value:g}" for key, value in limits.items()),
    }
