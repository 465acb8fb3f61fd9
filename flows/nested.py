"""The nested flow: the whole procedure in outer folds, scored on rows that it never saw."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import pandas as pd
from prefect import flow

from conf.resolve import fold_kind, outer_gap
from conf.schema import SelectConfig
from flows.display.study_table import NARROW
from flows.display.terminal import warnings_of
from flows.run.flow_runs import COMMAND_FLOW
from flows.stability import stability_metrics
from flows.study import read_rows, repeated_search, run_study
from swarm.errors import ConfigError
from swarm.json_data import as_json, json_file, plain, records
from swarm.metrics import display_name, value_range
from swarm.problem.scoring import Scoring
from swarm.report.stability import stability_files
from swarm.report.table import TextTable
from swarm.validation.contenders import CONTENDERS
from swarm.validation.nested import SELECTED, NestedEstimate, estimate
from swarm.validation.sentences import (
    IN_TABLES,
    format_bounds,
    format_score,
    format_signed,
    format_signed_interval,
)
from swarm.validation.stability import Assessment, assess, describe_index, index_record
from tasks.nested import STAGES, run_outer_fold
from tasks.parts import outer_folds, outer_kind

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
    """The outer folds of nested resampling.

    Attributes
    ----------
    folds
        Number of outer folds of a partition.
    repeats
        Number of partitions of the rows.
    rows
        Whether all rows of the table are divided, or only the training rows of its split, which
        leaves the test rows for a single final evaluation.
    """

    folds: int = 5
    repeats: int = 1
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
    """Result of nested resampling.

    Attributes
    ----------
    run_id
        Id of the parent run; each outer fold is a child.
    estimate
        Costs and gains on the test rows of the outer folds.
    stability
        Agreement of the best subsets of the outer folds.
    folds
        A table with a row per outer fold.
    scheme
        How the rows were divided.
    scoring
        Scorer of the search.
    warnings
        The findings that are more than notes, a line each.
    artifacts
        What to look at among the artifacts of the run.
    """

    run_id: str
    estimate: NestedEstimate
    stability: Assessment
    folds: pd.DataFrame
    scheme: str
    scoring: Scoring
    warnings: tuple[str, ...]
    artifacts: ClassVar[str] = "nested_folds.csv and figures"

    def totals(self, kind: Literal["fits", "seconds"]) -> dict[str, float]:
        """Sum the fits or seconds of each stage over the outer folds."""
        return {stage: plain(self.folds[f"{kind}_{stage}"].sum()) for stage in STAGES}

    def score(self, contender: str) -> tuple[float, float, float]:
        """Return the score of a contender, in the metric of the search, with its interval."""
        row = self.estimate.cost(contender)
        return self.scoring.natural(row["cost"]), *self.scoring.natural_interval(
            row["low"], row["high"]
        )

    def difference(self, contender: str) -> tuple[float, float, float]:
        """Return the score of a contender minus that of all features, with its interval."""
        gain = self.estimate.gain(contender)
        difference = self.score(contender)[0] - self.score("all_features")[0]
        return difference, *self.scoring.natural_difference(-gain["high"], -gain["low"])

    @property
    def headline(self) -> str:
        """The verdict, and the scores of the ensemble and of all features."""
        verdict = {"better": "Gain", "worse": "Loss"}.get(self.estimate.verdict(), "No clear gain")
        ensemble = format_score(self.score("ensemble")[0])
        all_features = format_score(self.score("all_features")[0])
        metric = display_name(self.scoring.metric)
        return f"{verdict} in outer folds: {metric} {ensemble}, all features {all_features}"

    def sentence(self) -> str:
        """State the score of the procedure and its difference to that of all features."""
        ensemble, low, high = self.score("ensemble")
        all_features = format_score(self.score("all_features")[0])
        outcomes = {"better": "a gain", "worse": "a loss"}
        outcome = outcomes.get(self.estimate.verdict(), "no clear gain")
        text = (
            f"In {self.estimate.n_folds} outer folds {CONTENDERS['ensemble']} scores "
            f"{display_name(self.scoring.metric)} {format_score(ensemble)} "
            f"[{format_score(low)}, {format_score(high)}] and {CONTENDERS['all_features']} "
            f"{all_features}: {outcome}, difference "
            f"{format_signed_interval(*self.difference('ensemble'))}."
        )
        guess = self.estimate.guess
        if guess is not None:
            text += f" A model that ignores the features: {format_score(guess)}."
        return text

    def optimism(self) -> str:
        """State by how much the best subset scores worse than in the search, and than confirmed."""
        worse, better = ("higher", "lower") if self.scoring.lower_is_better else ("lower", "higher")
        searched, confirmed = self.estimate.optimism, self.estimate.optimism_confirmed
        tests = {"in the search": searched, "on new folds of its rows": confirmed}
        if searched == confirmed:
            # Nothing was searched.
            del tests["in the search"]
        shifts = [
            f"{format_score(abs(test.mean))} {worse if test.mean >= 0 else better} than {where}"
            for where, test in tests.items()
            if test is not None
        ]
        metric = display_name(self.scoring.metric)
        return f"On the test rows the {metric} of the best subset is {' and '.join(shifts)}."

    def as_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types; undefined values are null."""
        features = self.folds["features"].map(json.loads)
        return {
            "run": self.run_id,
            "outer_folds": self.scheme,
            **as_json(self.estimate),
            "verdict": self.estimate.verdict(),
            "stability": index_record(self.stability.by_rows),
            "fits": self.totals("fits"),
            "seconds": self.totals("seconds"),
            "folds": records(self.folds.assign(features=features)),
            "features": records(self.stability.table),
        }

    def metrics(self) -> dict[str, float | None]:
        """Return the metrics of the parent run; undefined ones are None."""
        estimate = self.estimate
        metrics: dict[str, float] = {}
        for row in estimate.costs.to_dict("records"):
            name = f"nested/cost_{row['contender']}"
            metrics |= _with_interval(name, row["cost"], row["low"], row["high"])
        for contender in SELECTED:
            gain = estimate.gain(contender)
            name = f"nested/gain_{contender}"
            metrics |= _with_interval(name, gain["gain"], gain["low"], gain["high"])
        metrics["nested/optimism"] = estimate.optimism.mean
        if estimate.optimism_confirmed is not None:
            metrics["nested/optimism_confirmed"] = estimate.optimism_confirmed.mean
        metrics |= stability_metrics(self.stability)
        fits = self.totals("fits")
        seconds = self.totals("seconds")
        metrics |= {f"spent/fits_{stage}": float(total) for stage, total in fits.items()}
        metrics |= {f"work/seconds_{stage}": total for stage, total in seconds.items()}
        return {name: plain(value) for name, value in metrics.items()}

    def files(self) -> dict[str, bytes]:
        """Return the artifacts: tables of folds, costs, gains, metrics and features, a figure."""
        tables = {
            "nested_folds.csv": self.folds,
            "nested_costs.csv": self.estimate.costs,
            "nested_gains.csv": self.estimate.gains,
            "nested_metrics.csv": self.estimate.metrics,
            "stability.csv": self.stability.table,
        }
        return {
            **{name: table.to_csv(index=False).encode() for name, table in tables.items()},
            "nested.json": json_file(self.as_dict()),
            **stability_files(self.stability),
        }

    def tables(self, width: int) -> list[TextTable]:
        """Return the scores, with their differences to all features."""
        # An interval has a row of its own on a narrow terminal.
        separator = " " if width > NARROW else "\n"
        rows = []
        for row in self.estimate.costs.to_dict("records"):
            name = str(row["contender"])
            value, low, high = self.score(name)
            score = f"{format_score(value)}{separator}[{format_score(low)}, {format_score(high)}]"
            difference = ""
            if name in SELECTED:
                value, low, high = self.difference(name)
                interval = ", ".join(format_bounds(low, high))
                difference = f"{format_signed(value)}{separator}[{interval}]"
            rows.append([IN_TABLES[name], score, difference, f"{row['n_features']:.1f}"])
        scores = f"{display_name(self.scoring.metric)} ({self.estimate.level:.0%} interval)"
        header = ["", scores, "difference to all features", "features"]
        title = f"On the test rows of {self.estimate.n_folds} outer folds"
        return [TextTable(header, rows, title, n_left=3)]

    def sentences(self) -> list[str]:
        """Return the result, the optimism of the search, the stability, and what stages took."""
        index = self.stability.by_rows
        assert index is not None
        seconds = self.totals("seconds")
        stages = [
            f"{stage} {fits:,.0f} fits, {seconds[stage]:,.1f} s"
            for stage, fits in self.totals("fits").items()
            if fits
        ]
        return [
            self.sentence(),
            self.optimism(),
            describe_index(index, "outer folds, which share rows"),
            f"Stages, cached fits included: {'; '.join(stages)}.",
        ]


def _with_interval(name: str, value: float, low: float, high: float) -> dict[str, float]:
    return {name: value, f"{name}_low": low, f"{name}_high": high}


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
    return run_study(_nested, config, outer or OuterPlan(), verbosity)


@flow(name="nested", **COMMAND_FLOW)
def _nested(config: SelectConfig, outer: OuterPlan, verbosity: int, stop: Path) -> NestedRun:
    hold_out = outer.rows == "train"
    table, estimator = read_rows("nested", config, hold_out=hold_out, verbosity=verbosity)
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
    scheme = f"{len(parts)} of {len(table.features):,} rows, {_KINDS[kind]}"
    procedure = {**config.ensemble.model_dump(), "metrics": config.test.metrics}
    with repeated_search(
        "nested",
        config,
        table,
        enumerate(parts),
        settings=vars(outer),
        tags={"outer_folds": scheme},
        stop=stop,
        verbosity=verbosity,
        step=run_outer_fold,
        options=lambda train: {"train": train, **procedure},
    ) as (log, whole, results):
        scoring = whole.problem.scoring
        # The conversion of a cost to the metric is its own inverse.
        costs = scoring.natural_interval(*value_range(scoring.metric))
        folds = pd.DataFrame([fold.row() for fold in results])
        run = NestedRun(
            run_id=log.run_id,
            estimate=estimate(folds, pd.concat([fold.scores for fold in results]), costs=costs),
            stability=assess(
                whole.problem.space, {"resamples": [fold.features for fold in results]}
            ),
            folds=folds,
            scheme=scheme,
            scoring=scoring,
            warnings=warnings_of(whole.findings),
        )
        log.files(run.files())
        log.metrics({0: run.metrics()})
        links = {
            "folds": "nested_folds.csv",
            "costs": "nested_costs.csv",
            "features": "stability.csv",
        }
        log.tag({"headline": run.headline, "verdict": run.sentence()})
        log.note(run.sentence(), links)
    return run
