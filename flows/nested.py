"""The nested flow: the whole procedure in outer folds, scored on rows that it never saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prefect import flow

from conf.check import check
from conf.estimator import build_estimator
from conf.resolve import fold_kind, outer_gap, split_options
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
from flows.terminal import CellDisplay, print_findings, say, show_searches, show_stage, warnings_of
from flows.tracking import describe_run, start_repeated
from swarm.errors import ConfigError
from swarm.metrics import display_name, value_range
from swarm.problem.scoring import Scoring
from swarm.statistics.resampled import CorrectedTTest
from swarm.validation.contenders import CONTENDERS
from swarm.validation.nested import NestedEstimate, estimate
from swarm.validation.sentences import format_score, format_signed_interval
from swarm.validation.stability import CORE, NOISE
from tasks.files import plain, records
from tasks.nested import (
    STAGES,
    FoldResult,
    OuterFold,
    nested_files,
    outer_folds,
    outer_kind,
    run_outer_fold,
)
from tasks.search_cell import Cell
from tasks.stability import Assessment, assess, index_as_dict, stability_metrics
from tasks.step import SearchInterrupted
from tasks.steps import split_rows
from tasks.table import Table
from tasks.tracking.run_log import RunLog, failure

_KINDS = {
    "stratified": "at random, with the classes in proportion",
    "random": "at random",
    "group": "by whole groups",
    "stratified_group": "by whole groups, with the classes in proportion",
    "time": "in time, each tested on later rows",
    "column": "by the fold column",
}


@dataclass(frozen=True)
class OuterPlan:
    """The outer folds of nested resampling."""

    folds: int = 5  # outer folds of a partition
    repeats: int = 1  # partitions of the rows
    # Divide all rows of the table, or only the training rows of its split, which leaves the test
    # rows for a single final evaluation.
    rows: Literal["all", "train"] = "all"

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise ConfigError(f"folds must be at least 2, got {self.folds}; 5 is common")
        if self.repeats < 1:
            raise ConfigError(f"repeats must be at least 1, got {self.repeats}")
        if self.rows not in ("all", "train"):
            raise ConfigError(f"rows must be 'all' or 'train', got {self.rows!r}")


@dataclass(frozen=True)
class NestedRun:
    """Result of nested resampling."""

    run_id: str  # the parent run; each outer fold is a child
    estimate: NestedEstimate
    stability: Assessment  # agreement of the best subsets of the outer folds
    folds: tuple[FoldResult, ...]
    scheme: str  # how the rows were divided
    scoring: Scoring  # scorer of the search
    warnings: tuple[str, ...]

    def totals(self, kind: Literal["fits", "seconds"]) -> dict[str, float]:
        """Sum the fits or seconds of each stage over the outer folds."""
        return {stage: sum(getattr(fold, kind)[stage] for fold in self.folds) for stage in STAGES}

    def score(self, contender: str) -> tuple[float, float, float]:
        """Return the score of a contender, in the metric of the search, with its interval."""
        row = self.estimate.cost(contender)
        return self.scoring.natural(row["cost"]), *self.scoring.natural_interval(
            row["low"], row["high"]
        )

    def difference(self, contender: str) -> tuple[float, float, float]:
        """Return the score of a contender minus that of all features, with its interval."""
        gain = self.estimate.gain(contender)
        everything = self.score("all_features")[0]
        return self.score(contender)[0] - everything, *self.scoring.natural_difference(
            -gain["high"], -gain["low"]
        )

    @property
    def headline(self) -> str:
        """The verdict, and the scores of the ensemble and of all features."""
        verdict = {"better": "Gain", "worse": "Loss"}.get(self.estimate.verdict(), "No clear gain")
        scores = [format_score(self.score(name)[0]) for name in ("ensemble", "all_features")]
        metric = display_name(self.scoring.metric)
        return f"{verdict} in outer folds: {metric} {scores[0]}, all features {scores[1]}"

    def sentence(self) -> str:
        """State the score of the procedure and its difference to that of all features."""
        ensemble, low, high = self.score("ensemble")
        outcome = {"better": "a gain", "worse": "a loss"}
        metric, everything = display_name(self.scoring.metric), self.score("all_features")[0]
        guess = self.estimate.guess
        blind = (
            "" if guess is None else f" A model that ignores the features: {format_score(guess)}."
        )
        return (
            f"In {self.estimate.n_folds} outer folds {CONTENDERS['ensemble']} scores {metric} "
            f"{format_score(ensemble)} [{format_score(low)}, {format_score(high)}] and "
            f"{CONTENDERS['all_features']} "
            f"{format_score(everything)}: {outcome.get(self.estimate.verdict(), 'no clear gain')}, "
            f"difference {format_signed_interval(*self.difference('ensemble'))}.{blind}"
        )

    def optimism(self) -> str:
        """State by how much the best subset scores worse than in the search, and than confirmed."""
        worse, better = ("higher", "lower") if self.scoring.lower_is_better else ("lower", "higher")
        metric, confirmed = display_name(self.scoring.metric), self.estimate.optimism_confirmed

        def shift(test: CorrectedTTest) -> str:
            return f"{format_score(abs(test.mean))} {worse if test.mean >= 0 else better}"

        text = f"is {shift(self.estimate.optimism)} on the test rows than in the search"
        if confirmed is not None:
            text += f", and {shift(confirmed)} than on new folds of the rows of the search"
        return f"The {metric} of the best subset {text}."

    def as_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types; undefined values are null."""
        estimate = self.estimate
        return {
            "run": self.run_id,
            "outer_folds": self.scheme,
            "n_folds": estimate.n_folds,
            "n_train": estimate.n_train,
            "n_test": estimate.n_test,
            "level": estimate.level,
            "verdict": estimate.verdict(),
            "costs": records(estimate.costs),
            "gains": records(estimate.gains),
            "metrics": records(estimate.metrics),
            "optimism": _test(estimate.optimism),
            "optimism_confirmed": _test(estimate.optimism_confirmed),
            "guess": estimate.guess,
            "stability": index_as_dict(self.stability.by_rows),
            "fits": self.totals("fits"),
            "seconds": self.totals("seconds"),
            "folds": [
                {
                    "fold": fold.cell.cell.dataset,
                    "features": fold.cell.features,
                    "searched_cost": fold.scores.searched_cost,
                    "confirmed_cost": fold.scores.confirmed_cost,
                    "costs": {name: plain(cost) for name, cost in fold.scores.costs.items()},
                }
                for fold in self.folds
            ],
            "features": records(self.stability.table),
        }


@flow(name="nested", **COMMAND_FLOW)
def nested(config: SelectConfig, outer: OuterPlan | None = None, verbosity: int = 1) -> NestedRun:
    """Repeat search, confirmation and ensemble in outer folds, and score them on their test rows.

    Outer folds share nothing but the archive. After an interruption, finished outer folds are
    replayed from it.

    Parameters
    ----------
    config : SelectConfig
        Its test part is not needed: `split` only decides which rows are divided, and whether in
        time.
    outer : OuterPlan, optional
    verbosity : int
        0 for silence, 1 for progress, 2 for a line per outer fold.

    Raises
    ------
    InputError
        For bad input, before any search is started.
    """
    outer = outer or OuterPlan()
    check(config)
    refuse_warm_start(config, "nested")
    estimator = build_estimator(config.model)
    with show_stage("reading the data", verbosity):
        table = fetch_as_configured(config)
    if outer.rows == "train":
        table = table.take(split_rows(table, estimator=estimator, **split_options(config)).train)
    parts, scheme = _divide(config, outer, table, estimator)
    with show_stage("preparing the search", verbosity):
        whole = _prepare(config, table, parts)
        log = start_repeated(
            config,
            "nested",
            settings=vars(outer),
            n_seeds=outer.folds * outer.repeats,
            problem=whole.problem,
            table=table,
            tags={"outer_folds": scheme},
        )
    with log:
        print_findings(whole.findings, verbosity)
        say(f"outer folds: {scheme}", verbosity)
        say(f"searching: run {log.run_id} in {log.tracking.label}", verbosity)
        log.findings(whole.findings, config.mute)
        try:
            with show_searches(len(parts), 0, verbosity) as shown:
                results = [
                    _run_fold(config, number, part=part, table=table, log=log, shown=shown)
                    for number, part in enumerate(parts)
                ]
        except SearchInterrupted:
            raise KeyboardInterrupt from None
        with show_stage("writing the report", verbosity):
            run = _conclude(results, whole, log, scheme)
        with show_stage("sending the rest to MLflow", verbosity):
            log.settle()
    return run


def _divide(
    config: SelectConfig, outer: OuterPlan, table: Table, estimator: Any
) -> tuple[list[OuterFold], str]:
    """Return the outer folds, and what they are in words."""
    kind = outer_kind(table, config.split.kind, fold_kind(config, estimator), estimator)
    parts = outer_folds(
        table,
        kind,
        n_folds=outer.folds,
        repeats=outer.repeats,
        seed=config.split_seed,
        estimator=estimator,
        gap=outer_gap(config),
    )
    return parts, f"{len(parts)} of {len(table.features):,} rows, {_KINDS[kind]}"


def _prepare(config: SelectConfig, table: Table, parts: Sequence[OuterFold]) -> PreparedData:
    """Prepare all rows, and refuse outer folds that are too small before any of them is run."""
    whole = prepare_as_configured(config, table, needs=(), hold_out=False)
    for part in parts:
        prepare_as_configured(config, table.take(part.train), needs=(), hold_out=False)
    first = prepare_as_configured(config, table.take(parts[0].train), hold_out=False)
    checked_search(config, first)
    return whole


def _run_fold(
    config: SelectConfig,
    number: int,
    part: OuterFold,
    table: Table,
    log: RunLog,
    shown: CellDisplay,
) -> FoldResult:
    """Run one outer fold as a task, and log it as a child run."""
    cell = Cell(part.name, config.strategy.name, config.seed + number)
    train, test = table.take(part.train), table.take(part.test)
    data = prepare_as_configured(config, train, hold_out=False)
    tags = describe_run(data.problem, table.source, cell.strategy, cell.seed)
    tags |= {"kind": "outer-fold", "dataset": table.name, "outer_fold": part.name}
    child = log.child(cell.name, {"outer_fold": part.name, "seed": cell.seed}, tags)
    task = run_outer_fold.with_options(task_run_name=f"{part.name}, seed {cell.seed}")
    try:
        result = task(
            cell,
            search_as_configured(config, data, cell.seed),
            archive_url(config.archive),
            train,
            test,
            **config.ensemble.model_dump(),
            metrics=config.test.metrics,
        )
    except Exception as error:
        child.finish("FAILED", failure(error))
        raise
    _log_fold(child, result, data.problem.scoring)
    shown.finish(result.cell)
    return result


def _log_fold(child: RunLog, result: FoldResult, scoring: Scoring) -> None:
    """Log the search of an outer fold by epoch, then its scores."""
    scores = result.scores
    last = {
        **{f"outer/cost_{name}": plain(cost) for name, cost in scores.costs.items()},
        "outer/searched_cost": scores.searched_cost,
        "outer/confirmed_cost": scores.confirmed_cost,
        **{f"spent/fits_{stage}": float(result.fits[stage]) for stage in STAGES},
        **{f"work/seconds_{stage}": result.seconds[stage] for stage in STAGES},
    }
    result.cell.log_to(child, scoring, last)
    child.files({"metrics.csv": scores.table.to_csv(index=False).encode()})
    child.finish()


def _conclude(
    results: Sequence[FoldResult],
    whole: PreparedData,
    log: RunLog,
    scheme: str,
) -> NestedRun:
    """Combine the outer folds, and log tables and figures."""
    scoring = whole.problem.scoring
    # The conversion of a cost to the metric is its own inverse.
    costs = scoring.natural_interval(*value_range(scoring.metric))
    run = NestedRun(
        run_id=log.run_id,
        estimate=estimate([result.scores for result in results], costs=costs),
        stability=assess(
            whole.problem.space, [], [result.cell for result in results], (CORE, NOISE)
        ),
        folds=tuple(results),
        scheme=scheme,
        scoring=scoring,
        warnings=warnings_of(whole.findings),
    )
    log.files(nested_files(results, run.estimate, run.stability, run.as_dict()))
    log.metrics({0: _metrics(run)})
    links = {"folds": "nested_folds.csv", "costs": "nested_costs.csv", "features": "stability.csv"}
    log.tag({"headline": run.headline, "verdict": run.sentence()})
    log.note(run.sentence(), links)
    return run


def _metrics(run: NestedRun) -> dict[str, float | None]:
    """Return the metrics of the parent run; undefined ones are None."""
    figures: dict[str, float] = {}
    for row in run.estimate.costs.to_dict("records"):
        name = f"nested/cost_{row['contender']}"
        figures |= {name: row["cost"], f"{name}_low": row["low"], f"{name}_high": row["high"]}
    for contender in ("ensemble", "best_subset"):
        gain, name = run.estimate.gain(contender), f"nested/gain_{contender}"
        figures |= {name: gain["gain"], f"{name}_low": gain["low"], f"{name}_high": gain["high"]}
    figures["nested/optimism"] = run.estimate.optimism.mean
    if run.estimate.optimism_confirmed is not None:
        figures["nested/optimism_confirmed"] = run.estimate.optimism_confirmed.mean
    figures |= stability_metrics(run.stability)
    figures |= {f"spent/fits_{stage}": float(n) for stage, n in run.totals("fits").items()}
    figures |= {f"work/seconds_{stage}": s for stage, s in run.totals("seconds").items()}
    return {name: plain(value) for name, value in figures.items()}


def _test(test: CorrectedTTest | None) -> dict[str, float | None] | None:
    if test is None:
        return None
    return {name: plain(getattr(test, name)) for name in ("mean", "low", "high", "p")}
