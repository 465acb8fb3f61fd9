"""The search of a select run: epochs as tasks, on the full model or on a proxy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from conf.schema import SelectConfig
from flows.progress import display, say, show_stage
from flows.stages import Forecast, Stage
from swarm.arrays import Bool
from swarm.evaluation.crossval import CrossValidation
from swarm.search.confirmation import ConfirmationPlan, candidates
from swarm.search.driver import Search, SearchState
from swarm.search.history import EpochRecord
from swarm.search.plan import SearchPlan
from swarm.search.prefilter import MANY_COLUMNS, Cut, Prefilter, most_cut_fits
from swarm.search.result import SearchResult
from swarm.search.row_parts import N_PROBES
from swarm.search.runner import FinishedSearch, SearchHooks, run_search
from swarm.search.tuning import Round, Tuning, TuningResult
from swarm.storage.archive import Archive
from swarm.storage.records import Record
from tasks.prefect_artifacts import show_progress
from tasks.steps import (
    choose_model_setting,
    confirm_best,
    confirm_fresh,
    cut_by_importance,
    run_epoch,
)
from tasks.tracking.run_log import RunLog


def search_as_configured(
    config: SelectConfig,
    plan: SearchPlan,
    archive: Archive,
    log: RunLog,
    verbosity: int,
    forecast: Forecast,
) -> FinishedSearch:
    """Run each epoch as a task that can be retried; display and log it when it ends.

    Ctrl-C ends the search, not the run. The forecast of the stages after the search learns the
    pace of its fits.
    """
    with ExitStack() as shown:
        steps = _ShownSteps(config, plan, log, verbosity, forecast, shown)
        finished = run_search(plan, archive, steps.hooks())
    if finished.result.cut_short:
        say(f"{finished.result.cut_short} was interrupted: {steps.remedy}", verbosity)
    _log_proxy(finished, log, verbosity)
    _log_parts(finished.result, log, verbosity)
    _log_confirmation(finished.result, log, verbosity)
    return finished


@dataclass
class _ShownSteps:
    """The steps of a search as tasks, each with its line on the terminal.

    The stack `shown` holds the display of the current step.
    """

    config: SelectConfig
    plan: SearchPlan
    log: RunLog
    verbosity: int
    forecast: Forecast
    shown: ExitStack

    def __post_init__(self) -> None:
        self.epoch = run_epoch.retried(**self.config.retries.model_dump())
        self.on_epoch: list[Callable[[EpochRecord], None]] = [self.log.epoch]
        self.on_fit: Callable[[Bool, Record], None] = lambda mask, record: None

    @property
    def remedy(self) -> str:
        """What follows Ctrl-C, and how to complete the search."""
        later = "all evaluations so far are in the archive"
        if self.log.tags.get("kind") == "select":
            later = f"`swarm resume {self.log.run_id}` completes the search"
        return f"continuing with the best subsets so far; {later}"

    def hooks(self) -> SearchHooks:
        """Return the steps as hooks of a search."""
        return SearchHooks(
            started=self.started,
            step=self.step,
            epochs=[self.epoch_ended],
            fits=lambda mask, record: self.on_fit(mask, record),
            ended=self.ended,
            cut=self.cut,
            tune=self.tune,
            confirm=self.confirm,
            confirm_fresh=self.confirm_fresh,
        )

    def say(self, text: str) -> None:
        """Write one line."""
        say(text, self.verbosity)

    def show(self, stage: Stage, text: str, total: int = 0, work: float = 0.0) -> None:
        """End the display of the previous step, and show this one."""
        self.shown.close()
        line = show_stage(
            stage, self.verbosity, text=text, total=total, work=work, forecast=self.forecast
        )
        self.on_fit = self.shown.enter_context(line).fit

    def cut(self, prefilter: Prefilter, evaluator: CrossValidation) -> Cut:
        """Leave units out before the search, and tell how many are kept."""
        if self.config.prefilter is not None and self.config.prefilter.when == "auto":
            self.say(
                f"prefilter: on, as the table has more than {MANY_COLUMNS:,} columns; "
                "--set prefilter=null searches all"
            )
        most = most_cut_fits(prefilter)
        self.show(Stage.SEARCH, f"ranking the units with at most {most:,} fits")
        found = cut_by_importance(prefilter, evaluator)
        if evaluator.fits_models:
            everything = ~prefilter.problem.space.forbidden[None, :]
            self.forecast.recall(everything, evaluator.known.lookup(everything))
        self.shown.close()
        self.say(found.sentence())
        self.log.tag({"prefilter": f"{found.n_kept} of {len(found.kept)} units"})
        return found

    def tune(self, tuning: Tuning, rounds: Sequence[Round], *given: Any) -> TuningResult:
        """Choose a setting of the model, and tell which."""
        most = sum(each.n_settings * each.n_subsets for each in rounds) * self.plan.problem.n_folds
        text = f"comparing {len(tuning.settings)} settings of the model"
        self.show(Stage.SEARCH, f"{text} with at most {most:,} fits", most)
        found = choose_model_setting(tuning, rounds, *given)
        self.shown.close()
        self.say(found.sentence())
        self.log.tag({f"model.chosen.{name}": str(value) for name, value in found.params.items()})
        return found

    def started(self, plan: SearchPlan, evaluator: CrossValidation) -> None:
        """Show the epochs; with a choice of settings, on what it has left of the budget."""
        self.shown.close()
        self.say(evaluator.way)
        least, most = self.plan.strategy.evaluations_in(self.plan.problem.space)
        if least == most and self.plan.prefilter is None:
            self.say(f"evaluations in total: {most:,}")
        self.say(f"{Stage.SEARCH.line}: run {self.log.run_id} in {self.log.tracking.label}")
        self.log.tag({"evaluation": evaluator.way})
        bar = display(plan.budget, self.verbosity, forecast=self.forecast)
        epochs = self.shown.enter_context(bar)
        self.on_fit = epochs.fit
        self.on_epoch += [epochs.epoch, self.shown.enter_context(show_progress(plan.budget))]

    def step(self, search: Search, state: SearchState) -> tuple[SearchState, EpochRecord]:
        """Run one epoch as a task."""
        return self.epoch.with_options(task_run_name=f"epoch-{state.epoch + 1:04d}")(search, state)

    def epoch_ended(self, record: EpochRecord, _: SearchState) -> None:
        """Log and display one epoch."""
        for callback in self.on_epoch:
            callback(record)

    def ended(self, result: SearchResult) -> SearchResult:
        """Say what follows the last epoch."""
        self.shown.close()
        if result.interrupted:
            self.say(f"interrupted: {self.remedy}")
        elif self.plan.rotate:
            self.show(Stage.SEARCH, "evaluating the best subsets on all partitions")
        elif self.plan.parts is not None:
            self.show(Stage.SEARCH, f"evaluating {N_PROBES} subsets on all rows and on parts")
        return result

    def confirm(
        self,
        result: SearchResult,
        guide: CrossValidation,
        evaluator: CrossValidation,
        **options: int,
    ) -> SearchResult:
        """Evaluate the best subsets of a proxy on the full model."""
        self.show(Stage.SEARCH, "evaluating the best subsets on the full model")
        return confirm_best(result, guide, evaluator, **options)

    def confirm_fresh(
        self,
        result: SearchResult,
        searched: CrossValidation,
        fresh: CrossValidation,
        plan: ConfirmationPlan,
    ) -> SearchResult:
        """Evaluate the best subsets on fresh folds."""
        masks = candidates(result, searched, plan)
        masks = np.vstack([masks, ~result.space.forbidden])
        # The baseline and the shared features may not have been searched.
        fits = np.zeros(len(masks), dtype=np.int64)
        forecast = self.forecast
        for each in (searched, fresh):
            if each.fits_models:
                records = each.known.lookup(masks)
                forecast.recall(masks, records)
                fits += [int((~record.known).sum()) for record in records]
        forecast.guess_pace(float(masks[:-1].sum(axis=1).mean()))
        # A model of all features may take much longer than one of a subset.
        seconds = [forecast.fit_seconds.of(size) for size in masks.sum(axis=1).tolist()]
        several = "s" * (len(masks) != 2)
        text = f"confirming {len(masks) - 1} subset{several} on {fresh.n_folds} fresh folds"
        self.show(Stage.CONFIRM, text, int(fits.sum()), float(fits @ seconds))
        return confirm_fresh(result, searched, fresh, plan)


def _log_proxy(finished: FinishedSearch, log: RunLog, verbosity: int) -> None:
    """Print and log how well the proxy guided the search, if there was one."""
    result = finished.result
    confirmed = result.confirmed
    if confirmed is None:
        return
    correlation = confirmed.correlation
    best = float(confirmed.costs.min())
    metrics = {"proxy/best_cost": float(confirmed.cheap.min()), "proxy/confirmed_cost": best}
    if correlation == correlation:
        metrics["proxy/rank_correlation"] = correlation
    log.metrics({result.state.epoch: metrics})
    say(
        f"proxy: {len(confirmed.costs)} subsets evaluated on the full model, rank correlation "
        f"{correlation:.2f}, best cost {best:.5f}",
        verbosity,
    )


def _log_parts(result: SearchResult, log: RunLog, verbosity: int) -> None:
    """Print and log how well parts of the rows ranked the subsets, if there were any."""
    parts = result.parts
    if parts is None:
        return
    metrics = {"rows/subsets_on_all": float(parts.subsets[-1])}
    if parts.correlations[0] == parts.correlations[0]:
        metrics["rows/rank_correlation"] = parts.correlations[0]
    log.metrics({result.state.epoch: metrics})
    say(parts.sentence(), verbosity)


def _log_confirmation(result: SearchResult, log: RunLog, verbosity: int) -> None:
    """Print and log the costs on fresh folds, if there are any."""
    confirmation = result.confirmation
    if confirmation is None:
        return
    metrics = {
        "confirm/cost": confirmation.cost,
        "confirm/winners_curse": confirmation.cost - confirmation.searched_cost,
    }
    if confirmation.gain is not None:
        metrics |= {
            "confirm/cost_all_features": confirmation.baseline_cost,
            "confirm/gain": confirmation.gain.mean,
            "confirm/gain_low": confirmation.gain.low,
            "confirm/gain_high": confirmation.gain.high,
        }
    log.metrics({result.state.epoch: metrics})
    log.tag({"confirmed": confirmation.verdict})
    subsets = f"{len(confirmation.masks)} subsets"
    say(f"confirmed: {subsets} on {confirmation.fold_costs.shape[1]} fresh folds", verbosity)
