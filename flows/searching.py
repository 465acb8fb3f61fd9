"""The search of a select run: epochs as tasks, on the full model or on a proxy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
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
from swarm.search.prefilter import MANY_COLUMNS, Cut, Prefilter, most_cut_fits
from swarm.search.result import SearchResult
from swarm.search.row_parts import N_PROBES
from swarm.search.runner import FinishedSearch, SearchHooks, SearchPlan, run_search
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

__all__ = ["search_as_configured"]


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
    epoch = run_epoch.retried(config.retries.attempts, config.retries.delay_seconds)

    def step(search: Search, state: SearchState) -> tuple[SearchState, EpochRecord]:
        named = epoch.with_options(task_run_name=f"epoch-{state.epoch + 1:04d}")
        return named(search, state)

    # With a choice of settings, the plan of the search is known after it.
    searched = plan
    with ExitStack() as shown:
        epochs: list[Callable[[EpochRecord], None]] = [log.epoch]
        # What counts the fits of the current stage.
        counters: list[Callable[[Bool, Record], None]] = []

        def begin(stage: Stage, text: str, total: int = 0, work: float = 0.0) -> None:
            """End the display of the previous stage, and show this one."""
            shown.close()
            line = show_stage(
                stage, verbosity, text=text, total=total, work=work, forecast=forecast
            )
            counters[:] = [shown.enter_context(line).fit]

        def started(evaluator: CrossValidation) -> None:
            shown.close()
            say(evaluator.way, verbosity)
            least, most = plan.strategy.evaluations_in(plan.problem.space)
            if least == most and plan.prefilter is None:
                say(f"evaluations in total: {most:,}", verbosity)
            told = f"{Stage.SEARCH.line}: run {log.run_id} in {log.tracking.label}"
            say(told, verbosity)
            log.tag({"evaluation": evaluator.way})
            bar = shown.enter_context(display(searched.budget, verbosity, forecast=forecast))
            counters[:] = [bar.fit]
            epochs.append(bar.epoch)
            epochs.append(shown.enter_context(show_progress(searched.budget)))

        def cut(prefilter: Prefilter, evaluator: CrossValidation) -> Cut:
            most = most_cut_fits(prefilter)
            if config.prefilter is not None and config.prefilter.when == "auto":
                say(
                    f"prefilter: on, as the table has more than {MANY_COLUMNS:,} columns; "
                    "--set prefilter=null searches all",
                    verbosity,
                )
            begin(Stage.SEARCH, f"ranking the units with at most {most:,} fits")
            found = cut_by_importance(prefilter, evaluator)
            if evaluator.fits_models:
                everything = ~prefilter.problem.space.forbidden[None, :]
                forecast.recall(everything, evaluator.known.lookup(everything))
            return found

        def cut_ended(cut: Cut) -> None:
            shown.close()
            say(cut.sentence(), verbosity)
            log.tag({"prefilter": f"{cut.n_kept} of {len(cut.kept)} units"})

        def tune(tuning: Tuning, rounds: Sequence[Round], *given: Any) -> TuningResult:
            most = sum(each.n_settings * each.n_subsets for each in rounds) * plan.problem.n_folds
            text = f"comparing {len(tuning.settings)} settings of the model"
            begin(Stage.SEARCH, f"{text} with at most {most:,} fits", most)
            return choose_model_setting(tuning, rounds, *given)

        def tuned(found: TuningResult, rest: SearchPlan) -> None:
            nonlocal searched
            searched = rest
            shown.close()
            say(found.sentence(), verbosity)
            log.tag({f"model.chosen.{name}": str(value) for name, value in found.params.items()})

        def epoch_ended(record: EpochRecord, _: SearchState) -> None:
            for callback in epochs:
                callback(record)

        def fitted(mask: Bool, record: Record) -> None:
            for callback in counters:
                callback(mask, record)

        def ended(result: SearchResult) -> SearchResult:
            shown.close()
            if result.interrupted:
                say("interrupted: continuing with the best subsets so far", verbosity)
            elif plan.rotate:
                begin(Stage.SEARCH, "evaluating the best subsets on all partitions")
            elif plan.parts is not None:
                begin(Stage.SEARCH, f"evaluating {N_PROBES} subsets on all rows and on parts")
            return result

        def confirm(
            result: SearchResult, guide: CrossValidation, evaluator: CrossValidation, **options: int
        ) -> SearchResult:
            begin(Stage.SEARCH, "evaluating the best subsets on the full model")
            return confirm_best(result, guide, evaluator, **options)

        def confirm_on_fresh(
            result: SearchResult,
            searched: CrossValidation,
            fresh: CrossValidation,
            confirmation: ConfirmationPlan,
        ) -> SearchResult:
            masks = candidates(result, searched, confirmation)
            masks = np.vstack([masks, ~result.space.forbidden])
            text = f"confirming {len(masks) - 1} subsets on {fresh.n_folds} fresh folds"
            # The baseline and the shared features may not have been searched.
            fits = np.zeros(len(masks), dtype=np.int64)
            for each in (searched, fresh):
                if each.fits_models:
                    records = each.known.lookup(masks)
                    forecast.recall(masks, records)
                    fits += [int((~record.known).sum()) for record in records]
            forecast.guess_pace(float(masks[:-1].sum(axis=1).mean()))
            # A model of all features may take much longer than one of a subset.
            seconds = [forecast.fit_seconds.of(size) for size in masks.sum(axis=1).tolist()]
            begin(Stage.CONFIRM, text, int(fits.sum()), float(fits @ seconds))
            return confirm_fresh(result, searched, fresh, confirmation)

        hooks = SearchHooks(
            started=started,
            step=step,
            epochs=[epoch_ended],
            fits=fitted,
            ended=ended,
            cut=cut,
            cut_ended=cut_ended,
            tune=tune,
            tuned=tuned,
            confirm=confirm,
            confirm_fresh=confirm_on_fresh,
        )
        finished = run_search(plan, archive, hooks)
    _log_proxy(finished, log, verbosity)
    _log_parts(finished.result, log, verbosity)
    _log_confirmation(finished.result, log, verbosity)
    return finished


def _log_proxy(finished: FinishedSearch, log: RunLog, verbosity: int) -> None:
    """Print and log how well the proxy guided the search, if there was one."""
    result = finished.result
    confirmed = result.confirmed
    if confirmed is None:
        return
    correlation = confirmed.correlation
    best = float(confirmed.costs.min())
    metrics = {"proxy_best_cost": float(confirmed.cheap.min()), "confirmed_best_cost": best}
    if correlation == correlation:
        metrics["proxy_rank_correlation"] = correlation
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
    metrics = {"rows_subsets_on_all": float(parts.subsets[-1])}
    if parts.correlations[0] == parts.correlations[0]:
        metrics["rows_rank_correlation"] = parts.correlations[0]
    log.metrics({result.state.epoch: metrics})
    say(parts.sentence(), verbosity)


def _log_confirmation(result: SearchResult, log: RunLog, verbosity: int) -> None:
    """Print and log the costs on fresh folds, if there are any."""
    confirmation = result.confirmation
    if confirmation is None:
        return
    metrics = {
        "confirmed_cost": confirmation.cost,
        "winners_curse": confirmation.cost - confirmation.searched_cost,
    }
    if confirmation.gain is not None:
        metrics |= {
            "confirmed_cost_all_features": confirmation.baseline_cost,
            "confirmed_gain": confirmation.gain.mean,
            "confirmed_gain_low": confirmation.gain.low,
            "confirmed_gain_high": confirmation.gain.high,
        }
    log.metrics({result.state.epoch: metrics})
    log.tag({"confirmed": confirmation.verdict})
    subsets = f"{len(confirmation.masks)} subsets"
    say(f"confirmed: {subsets} on {confirmation.fold_costs.shape[1]} fresh folds", verbosity)
