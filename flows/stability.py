"""The stability flow: repeat a search over seeds and over samples of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from prefect import flow

from conf.check import check
from conf.estimator import build_estimator
from conf.resolve import split_options
from conf.schema import SelectConfig
from flows.configured import (
    PreparedData,
    archive_url,
    checked_search,
    fetch_as_configured,
    prepare_as_configured,
    refuse_warm_start,
    search_as_configured,
)
from flows.flow_runs import COMMAND_FLOW
from flows.terminal import CellDisplay, print_findings, say, show_searches, show_stage
from flows.tracking import start_repeated
from swarm.errors import ConfigError
from swarm.validation.stability import CORE, NOISE, classify
from tasks.files import records
from tasks.search_cell import Cell, CellResult, run_cell
from tasks.stability import (
    Assessment,
    assess,
    assessment_files,
    describe_index,
    draw_sample,
    index_as_dict,
    scheme_of,
    stability_metrics,
)
from tasks.step import SearchInterrupted
from tasks.steps import split_rows
from tasks.table import Table
from tasks.tracking.run_log import RunLog

_SCHEMES = {
    "group": "whole groups",
    "stratified_group": "whole groups",
    "stratified": "rows, with the classes in proportion",
    "random": "rows, at random",
}


@dataclass(frozen=True)
class Repetitions:
    """The searches of a stability study."""

    seeds: int = 10  # on all training rows, with the seed of the configuration and those after it
    resamples: int = 10  # on samples of the training rows, each with its own seed as well
    share: float = 0.5  # of the rows, or of the groups, in a sample without replacement
    core: float = CORE  # a feature is core if at least this share of the searches select it
    noise: float = NOISE  # and noise if at most this share do

    def __post_init__(self) -> None:
        for name in ("seeds", "resamples"):
            value = getattr(self, name)
            if value == 1 or value < 0:
                raise ConfigError(
                    f"{name} must be 0 or at least 2, as a single search has no stability, "
                    f"got {value}"
                )
        if not self.seeds and not self.resamples:
            raise ConfigError("seeds and resamples are both 0; set one of them to 2 or more")
        if not 0 < self.share < 1:
            raise ConfigError(f"share must be between 0 and 1, got {self.share:g}; 0.5 is common")
        classify(np.empty(0), self.core, self.noise)


@dataclass(frozen=True)
class StabilityRun:
    """Result of a stability study."""

    run_id: str
    assessment: Assessment
    scheme: str  # how rows were sampled

    @property
    def headline(self) -> str:
        """The classes of the features, and the stability index over samples, else over seeds."""
        classes, by_rows = self.assessment.classes, self.assessment.by_rows
        counts = [f"{classes.count(name)} {name}" for name in ("core", "optional", "noise")]
        over = self.assessment.by_seed if by_rows is None else by_rows
        text = f"{', '.join(counts)} features"
        # The index is NaN if every search selected all features.
        if over is None or over.index != over.index:
            return text
        return f"{text}; stability index {over.index:.2f}"

    def sentence(self) -> str:
        """Describe the stability of the selection in a few sentences."""
        classes, (core, noise) = self.assessment.classes, self.assessment.thresholds
        by_rows, by_seed = self.assessment.by_rows, self.assessment.by_seed
        n_core = classes.count("core")
        sentences = []
        if by_rows is not None:
            sentences.append(describe_index(by_rows, f"samples of {self.scheme}"))
        if by_seed is not None:
            sentences.append(describe_index(by_seed, "seeds on all training rows"))
        sentences.append(
            f"Of {len(classes)} features {n_core} {'is' if n_core == 1 else 'are'} core (in at "
            f"least {core:.0%} of the searches over "
            f"{'samples' if self.assessment.basis == 'resamples' else 'seeds'}), "
            f"{classes.count('optional')} optional and {classes.count('noise')} noise (in at most "
            f"{noise:.0%})."
        )
        if by_rows is not None and by_seed is not None:
            if by_rows.high < by_seed.low:
                sentences.append("The selection depends on the rows far more than on the seed.")
            elif by_seed.high < 0.75:
                sentences.append(
                    "Searches on the same rows disagree too: use a larger budget, or the features "
                    "may be redundant."
                )
        return " ".join(sentences)

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON data; undefined values are null."""
        assessment = self.assessment
        return {
            "run": self.run_id,
            "draws": self.scheme,
            "basis": assessment.basis,
            "core_from": assessment.thresholds[0],
            "noise_to": assessment.thresholds[1],
            "stability_over_seeds": index_as_dict(assessment.by_seed),
            "stability_over_rows": index_as_dict(assessment.by_rows),
            "consensus": list(assessment.consensus),
            "features": records(assessment.table),
        }


@flow(name="stability", **COMMAND_FLOW)
def stability(
    config: SelectConfig, repetitions: Repetitions | None = None, verbosity: int = 1
) -> StabilityRun:
    """Repeat a search, and measure how often each feature is selected.

    After an interruption, finished searches are replayed from the archive.

    Parameters
    ----------
    config : SelectConfig
    repetitions : Repetitions, optional
    verbosity : int
        0 for silence, 1 for progress, 2 for a line per search.

    Raises
    ------
    InputError
        For bad input, before any search is started.
    """
    plan = repetitions or Repetitions()
    check(config)
    refuse_warm_start(config, "stability")
    if config.proxy is not None:
        raise ConfigError("stability does not support a proxy; add --set proxy=null")
    with show_stage("reading the data", verbosity):
        table = fetch_as_configured(config)
    estimator = build_estimator(config.model)
    train = table.take(split_rows(table, estimator=estimator, **split_options(config)).train)

    def sample(number: int) -> Table:
        return draw_sample(train, plan.share, config.seed, number, estimator)

    with show_stage("preparing the search", verbosity):
        whole = prepare_as_configured(config, train, hold_out=False)
        if plan.resamples:
            # Report a sample that is impossible, or too small for the folds, before any search.
            prepare_as_configured(config, sample(0), hold_out=False)
        checked_search(config, whole)
        kind = _SCHEMES[scheme_of(train, estimator)]
        scheme = f"{plan.share:.0%} of the {kind}, without replacement"
        log = start_repeated(
            config,
            "stability",
            settings=vars(plan),
            n_seeds=max(plan.seeds, plan.resamples),
            problem=whole.problem,
            table=train,
            tags={"draws": scheme},
        )
    with log:
        print_findings(whole.findings, verbosity)
        say(f"searching: run {log.run_id} in {log.tracking.label}", verbosity)
        log.findings(whole.findings, config.mute)
        try:
            with show_searches(plan.seeds + plan.resamples, 0, verbosity) as shown:
                by_seed = [_search(config, whole, "all rows", i, shown) for i in range(plan.seeds)]
                by_rows = []
                for i in range(plan.resamples):
                    drawn_rows = prepare_as_configured(config, sample(i), hold_out=False)
                    by_rows.append(_search(config, drawn_rows, f"draw {i + 1}", i, shown))
        except SearchInterrupted:
            raise KeyboardInterrupt from None
        thresholds = plan.core, plan.noise
        run = _conclude(assess(whole.problem.space, by_seed, by_rows, thresholds), scheme, log)
        with show_stage("sending the rest to MLflow", verbosity):
            log.settle()
    return run


def _search(
    config: SelectConfig, data: PreparedData, rows: str, number: int, shown: CellDisplay
) -> CellResult:
    """Run one search as a task; all workers evaluate its subsets."""
    cell = Cell(rows, config.strategy.name, config.seed + number)
    search = search_as_configured(config, data, cell.seed)
    task = run_cell.with_options(task_run_name=f"{rows}, seed {cell.seed}")
    result = task(cell, search, archive_url(config.archive))
    shown.finish(result)
    return result


def _conclude(assessment: Assessment, scheme: str, log: RunLog) -> StabilityRun:
    """Log tables, figures and the answer."""
    log.files(assessment_files(assessment))
    log.metrics({0: _metrics(assessment)})
    run = StabilityRun(log.run_id, assessment, scheme)
    log.tag({"headline": run.headline})
    links = {"features": "stability.csv", "figure": "figures/stability.svg"}
    log.note(run.sentence(), links)
    return run


def _metrics(assessment: Assessment) -> dict[str, float]:
    """Return the metrics of the run that are defined."""
    figures: dict[str, float] = {
        f"features_{name}": float(assessment.classes.count(name))
        for name in ("core", "optional", "noise")
    }
    figures["consensus_size"] = float(len(assessment.consensus))
    return figures | stability_metrics(assessment)
