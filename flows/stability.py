"""The stability flow: repeat a search over seeds and over samples of the rows."""

from __future__ import annotations

import json
from contextlib import closing
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
    checked_plan,
    fetched,
    plan_as_configured,
    prepare_as_configured,
    refuse_warm_start,
)
from flows.flow_runs import COMMAND_FLOW
from flows.progress import Display, cell_display, say, show_stage, tell
from flows.stages import Stage
from flows.tracking import start_repeated, wait_for_log
from swarm.errors import ConfigError, DataError
from swarm.findings import as_file, codes_of
from swarm.report.formatting import counted
from swarm.storage.archive import Archive
from swarm.validation.archived import ArchivedEvidence, archived_evidence
from swarm.validation.stability import CORE, NOISE, Stability, classify, interpret_index
from tasks.search_cell import Cell, CellResult, run_cell
from tasks.stability import (
    Assessment,
    assess,
    assessment_files,
    draw_sample,
    index_as_dict,
    plain,
    scheme_of,
    similarity_of,
    stability_metrics,
    with_probes,
)
from tasks.step import SearchInterrupted
from tasks.steps import split_rows
from tasks.table import Table

_SCHEMES = {
    "group": "whole groups",
    "stratified": "rows, with the classes in proportion",
    "random": "rows, at random",
}


@dataclass(frozen=True)
class Repetitions:
    """The searches of a stability study.

    Attributes
    ----------
    seeds : int
        Searches on all training rows, with the seed of the configuration and those after it.
    resamples : int
        Searches on samples of the training rows, each with its own seed as well.
    share : float
        Share of the rows, or of the groups, in a sample without replacement.
    core, noise : float
        A feature is core if at least the share `core` of the searches select it, and noise if
        at most the share `noise` do.
    level : float
        Confidence of the intervals.
    probes : int
        Shuffled copies of features that are added to the table, as noise that a search may select.
    false_selections : float
        Largest acceptable expected number of false selections among the stable features.
    """

    seeds: int = 10
    resamples: int = 10
    share: float = 0.5
    core: float = CORE
    noise: float = NOISE
    level: float = 0.95
    probes: int = 0
    false_selections: float = 1.0

    @property
    def paired(self) -> bool:
        """Whether samples are complementary halves, which error control needs."""
        return self.share == 0.5 and self.resamples > 0

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
        if not 0 < self.level < 1:
            raise ConfigError(f"level must be between 0 and 1, got {self.level:g}; try 0.95")
        if self.probes < 0:
            raise ConfigError(
                f"probes must be at least 0, got {self.probes}; as many as features are best"
            )
        if not self.false_selections > 0:
            raise ConfigError(
                f"false_selections must be above 0, got {self.false_selections:g}; 1 is common"
            )
        classify(np.empty(0), self.core, self.noise)


@dataclass(frozen=True)
class StabilityRun:
    """Result of a stability study.

    Attributes
    ----------
    run_id : str
    assessment : Assessment
    scheme : str
        How rows were sampled.
    """

    run_id: str
    assessment: Assessment
    scheme: str

    @property
    def headline(self) -> str:
        """The classes of the features, and the stability index over samples, else over seeds."""
        found = self.assessment
        counts = [f"{found.classes.count(name)} {name}" for name in ("core", "optional", "noise")]
        over = found.by_seed if found.by_rows is None else found.by_rows
        said = f"{', '.join(counts)} features"
        # The index is NaN if every search selected all features.
        if over is None or over.index != over.index:
            return said
        return f"{said}; stability index {over.index:.2f}"

    def sentences(self) -> list[str]:
        """State the stability, the error control, and what probes tell."""
        return [_stability(self.assessment, self.scheme), *_control(self.assessment)]

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON data; undefined values are null."""
        found = self.assessment
        control, probes = found.control, found.probes
        return {
            "run": self.run_id,
            "draws": self.scheme,
            "basis": found.basis,
            "core_from": found.thresholds[0],
            "noise_to": found.thresholds[1],
            "stability_over_seeds": index_as_dict(found.by_seed),
            "stability_over_rows": index_as_dict(found.by_rows),
            "adjusted_over_seeds": plain(found.adjusted_by_seed),
            "adjusted_over_rows": plain(found.adjusted_by_rows),
            "error_control": None
            if control is None
            else {
                "method": "complementary pairs",
                "n_pairs": control.n_pairs,
                "mean_size": control.mean_size,
                "false_selections": control.wanted,
                "threshold": plain(control.threshold),
                "bound": plain(control.bound),
                "lowest_bound": control.lowest,
                "n_stable": int(control.stable.sum()),
            },
            "probes": None
            if probes is None
            else {
                "n_probes": probes.n_probes,
                "selection_rate": probes.probe_rate,
                "false_share": probes.false_share,
            },
            "consensus": list(found.consensus),
            "features": json.loads(found.table.to_json(orient="records")),
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
    with show_stage(Stage.READ, verbosity):
        table = fetched(config)
    estimator = build_estimator(config.model)
    train = table.take(split_rows(table, estimator=estimator, **split_options(config)).train)
    logged = config

    def sample(number: int) -> Table:
        return draw_sample(train, plan.share, config.seed, number, estimator)

    with show_stage(Stage.PREPARE, verbosity):
        config, train, probes = _probed(config, train, plan.probes)
        whole = prepare_as_configured(config, train, split=False)
        if plan.resamples:
            # Report a sample that is impossible, or too small for the folds, before any search.
            prepare_as_configured(config, sample(0), split=False)
        checked_plan(config, whole)
        drawn = "in complementary pairs" if plan.paired else "without replacement"
        scheme = f"{plan.share:.0%} of the {_SCHEMES[scheme_of(train, estimator)]}, {drawn}"
        log = start_repeated(
            logged,
            "stability",
            vars(plan),
            max(plan.seeds, plan.resamples),
            whole.problem,
            train,
            {"draws": scheme},
        )
    with log:
        tell(whole.findings, verbosity)
        say(f"{Stage.SEARCH.line}: run {log.run_id} in {log.tracking.label}", verbosity)
        log.files({"findings.json": as_file(whole.findings, config.mute)})
        log.tag({"findings": codes_of(whole.findings)})
        try:
            with cell_display(plan.seeds + plan.resamples, 0, verbosity) as shown:
                by_seed = [
                    _searched(config, whole, "all rows", i, shown) for i in range(plan.seeds)
                ]
                by_rows = []
                for i in range(plan.resamples):
                    drawn_rows = prepare_as_configured(config, sample(i), split=False)
                    by_rows.append(_searched(config, drawn_rows, f"draw {i + 1}", i, shown))
        except SearchInterrupted:
            raise KeyboardInterrupt from None
        space = whole.problem.space
        assessment = assess(
            space,
            by_seed,
            by_rows,
            (plan.core, plan.noise),
            plan.level,
            probes,
            false_selections=plan.false_selections if plan.paired else None,
            similarity=similarity_of(whole.problem.features, space),
        )
        log.files(assessment_files(assessment))
        log.metrics({0: _metrics(assessment)})
        run = StabilityRun(log.run_id, assessment, scheme)
        links = {"features": "stability.csv", "figure": "figures/stability.svg"}
        answer, *more = run.sentences()
        log.tag({"headline": run.headline})
        log.note(answer, links, more)
        wait_for_log(log, verbosity)
    return run


def _probed(
    config: SelectConfig, train: Table, count: int
) -> tuple[SelectConfig, Table, tuple[str, ...]]:
    """Add probes to the rows, those of groups of features also to the space; return their names."""
    if not count:
        return config, train, ()
    space = prepare_as_configured(config, train, needs=(), split=False).problem.space
    wider, probes = with_probes(train, space, count, config.seed)
    groups = {**config.space.groups, **probes.groups}
    section = config.space.model_copy(update={"groups": groups})
    return config.model_copy(update={"space": section}), wider, probes.names


def _searched(
    config: SelectConfig, data: PreparedData, rows: str, number: int, shown: Display
) -> CellResult:
    """Run one search as a task; all workers evaluate its subsets."""
    cell = Cell(rows, config.strategy.name, config.seed + number)
    named = f"{rows}, seed {cell.seed}"
    searching = run_cell.retried(**config.retries.model_dump(), task_run_name=named)
    plan = plan_as_configured(config, data, cell.seed)
    result = searching(cell, plan, archive_url(config.archive))
    shown.finished(result)
    return result


def _metrics(assessment: Assessment) -> dict[str, float]:
    """Return the metrics of the run that are defined."""
    figures: dict[str, float] = {
        f"features_{name}": float(assessment.classes.count(name))
        for name in ("core", "optional", "noise")
    }
    figures["consensus_size"] = float(len(assessment.consensus))
    figures |= stability_metrics(assessment)
    if assessment.control is not None:
        figures["features_stable"] = float(assessment.control.stable.sum())
        figures["false_selections_lowest_bound"] = assessment.control.lowest
    if assessment.probes is not None:
        figures["probe_selection_rate"] = assessment.probes.probe_rate
        figures["false_selections_share"] = assessment.probes.false_share
    return figures


def _stability(found: Assessment, scheme: str) -> str:
    """Describe the stability of the selection in a few sentences."""
    counts = {name: found.classes.count(name) for name in ("core", "optional", "noise")}
    verb = "is" if counts["core"] == 1 else "are"
    core, noise = found.thresholds
    said = []
    if found.by_rows is not None:
        said.append(describe_index(found.by_rows, f"samples of {scheme}"))
    if found.by_seed is not None:
        said.append(describe_index(found.by_seed, "seeds on all training rows"))
    said.append(
        f"Of {len(found.classes)} features {counts['core']} {verb} core (in at least {core:.0%} of "
        f"the searches over {'samples' if found.basis == 'resamples' else 'seeds'}), "
        f"{counts['optional']} optional and {counts['noise']} noise (in at most {noise:.0%})."
    )
    if found.by_rows is not None and found.by_seed is not None:
        if found.by_rows.high < found.by_seed.low:
            said.append("The selection depends on the rows far more than on the seed.")
        elif found.by_seed.high < 0.75:
            said.append(
                "Searches on the same rows disagree too: use a larger budget, or the features "
                "may be redundant."
            )
    return " ".join(said)


def _control(found: Assessment) -> list[str]:
    """State the error control, the estimates from probes and the adjusted stability."""
    said = []
    control, probes = found.control, found.probes
    if control is not None and control.threshold == control.threshold:
        said.append(
            f"{counted(control.stable.sum(), 'feature')} selected in at least "
            f"{control.threshold:.0%} of the samples: {control.bound:.2f} false selections expected"
            f" at most ({counted(control.n_pairs, 'complementary pair')}, Shah and Samworth 2013)."
        )
    elif control is not None:
        said.append(
            f"No threshold bounds the expected false selections by {control.wanted:g}: "
            f"{counted(control.n_pairs, 'pair')} with {control.mean_size:.1f} of "
            f"{control.n_units} features selected allow {control.lowest:.2f} at best; use more "
            "--resamples, a smaller space.max_size or confirm.goal size."
        )
    if probes is not None:
        said.append(
            f"A search selects a probe with probability {probes.probe_rate:.0%}; if uninformative "
            f"features do as well, up to {probes.false_share:.0%} of its selections are false."
        )
    for adjusted, over in ((found.adjusted_by_rows, "samples"), (found.adjusted_by_seed, "seeds")):
        if adjusted is not None and adjusted == adjusted:
            said.append(
                f"Over {over}, the stability is {adjusted:.2f} if features with a rank correlation "
                "of 0.9 or more may replace one another."
            )
    return said


def describe_index(found: Stability, over: str) -> str:
    """State the stability index of the subsets found over `over`, with its interpretation."""
    if found.index != found.index:
        return f"Over {found.n_subsets} {over}, every search selected all features or none."
    return (
        f"Over {found.n_subsets} {over}, the stability index is {found.index:.2f} "
        f"[{found.low:.2f}, {found.high:.2f}] ({interpret_index(found.index)}; 1: always the same "
        "features, 0: chance)."
    )


def archived_evidence_of(config: SelectConfig) -> ArchivedEvidence:
    """Read the evaluations of the search of a configuration, whichever searches made them.

    Parameters
    ----------
    config : SelectConfig
        Checked.

    Raises
    ------
    ConfigError
        If the setting of the model is to be chosen.
    DataError
        If the archive has too few evaluations of this problem.
    """
    if config.model.search:
        raise ConfigError(
            "the archive keeps evaluations of each setting of the model apart; copy the setting "
            "of a run to model.params, and remove model.search"
        )
    data = prepare_as_configured(config, fetched(config), needs=())
    problem = data.problem
    with closing(Archive(archive_url(config.archive))) as archive:
        if not archive.has_evaluations(problem):
            raise DataError(
                "the archive has no evaluations of this problem; run `swarm select` with this "
                "configuration first"
            )
        known = list(archive.open_problem(problem).all())
    return archived_evidence(
        problem.space.names,
        np.array([mask for mask, _ in known]),
        np.array([record.fold_costs for _, record in known]),
        ~(problem.space.fixed | problem.space.forbidden),
        float(np.mean([len(train) for train, _ in problem.folds])),
        float(np.mean([len(test) for _, test in problem.folds])),
        config.test.confidence,
    )
