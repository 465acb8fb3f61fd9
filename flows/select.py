"""The select flow: search a table for a subset, evaluate it on test rows, log it to MLflow."""

import time
from dataclasses import replace

from prefect import flow

from conf.check import check
from conf.schema import SelectConfig
from flows.display.search_display import SearchDisplay
from flows.display.terminal import print_findings, say, show_stage
from flows.run.answer import SelectRun, describe, evaluate, fit, register, report
from flows.run.configured import (
    fetch_as_configured,
    prepare,
    report_needs,
    split,
    with_warm_subsets,
)
from flows.run.flow_runs import COMMAND_FLOW
from flows.run.search_run import SearchRun, open_run
from swarm.search.fresh_folds import most_rival_fits
from swarm.search.history import EpochRecord
from swarm.search.result import SearchResult
from swarm.search.runner import Stages
from tasks.report import search_files
from tasks.steps import (
    confirm_fresh,
    cut_by_importance,
    initial_swarm,
    last_step,
    measure_best,
    rank_units,
    run_epoch,
)


@flow(name="select", **COMMAND_FLOW)
def select(config: SelectConfig, run_id: str | None = None, verbosity: int = 1) -> SelectRun:
    """Search the features of a table, and evaluate the result on rows that no search has seen.

    Parameters
    ----------
    config : SelectConfig
    run_id : str, optional
        A run to resume: the search is replayed from the archive.
    verbosity : int
        0 for silence, 1 for progress, 2 for a line per epoch.

    Raises
    ------
    InputError
        For bad input, before anything is trained.
    """
    check(config)
    config = with_warm_subsets(config)
    with show_stage("reading the data", verbosity):
        table = fetch_as_configured(config)
    with show_stage("preparing the search", verbosity):
        rows = split(config, table)
        # The training and test rows are copies.
        del table
        data = prepare(config, rows, report_needs(config))
    with open_run(config, data, run_id) as run:
        outcome = search_and_evaluate(run, verbosity)
        return replace(outcome, unsent=run.log.close())


def search_and_evaluate(run: SearchRun, verbosity: int) -> SelectRun:
    """Search, evaluate the answer, describe and register it; the run stays open."""
    # The answer shows the gravest findings, so these lines are for -v.
    print_findings(run.findings, verbosity - 1)
    result = _search(run, verbosity)
    run.log.files(search_files(result, run.evaluations))
    ensemble = fit(run, result, verbosity)
    outcome = evaluate(run, result, ensemble, verbosity)
    with show_stage("writing the report", verbosity):
        run.log.files(report(run, outcome))
    with show_stage("sending the rest to MLflow", verbosity):
        run.log.settle()
    outcome = register(run, outcome, verbosity)
    describe(run, outcome)
    return outcome


def _search(run: SearchRun, verbosity: int) -> SearchResult:
    """Iterate the epochs on the units of a prefilter, and confirm the best subsets."""
    display = SearchDisplay(run, verbosity)
    with Stages(run.search, run.archive, display.fit) as stages:
        if run.search.prefilter is not None:
            with display.prefilter(run.search.prefilter):
                cut_by_importance.after(run.search.hints)(stages)
            display.log_prefilter(stages)
        result = _epochs(stages, display)
        if run.search.proxy is not None:
            with display.stage("evaluating the best subsets on the full model"):
                result = measure_best.after(last_step(result))(stages, result)
            display.log_proxy(result)
        if run.search.confirmation is None or result.interrupted:
            return result
        n_folds = run.search.confirmation.problem.n_folds
        if stages.rankings_compete(result):
            n_fits = most_rival_fits(n_folds, stages.n_rivals)
            with display.stage("ranking the columns", n_fits):
                result = rank_units.after(last_step(result))(stages, result)
        if not result.interrupted:
            with display.confirmation(stages, result):
                result = confirm_fresh.after(last_step(result))(stages, result)
        display.log_confirmation(result)
        return result


def _epochs(stages: Stages, display: SearchDisplay) -> SearchResult:
    """Run each epoch as a task of the frozen state before it, which can be retried.

    Ctrl-C ends the search with the result of the finished epochs, not the run.
    """
    driver = stages.driver()
    started = time.monotonic()
    state = initial_swarm.after(stages.cut or stages.search.hints)(driver)
    # Prefect draws each epoch after the last result of the epoch before it.
    previous: object = state.fold_sums
    records: list[EpochRecord] = []
    reason = None
    with display.epochs(stages) as on_epoch:
        try:
            while (reason := driver.stop_reason(state, time.monotonic() - started)) is None:
                epoch = run_epoch.with_options(task_run_name=f"epoch-{state.epoch + 1:04d}")
                state, record = epoch.after(previous)(driver, state)
                records.append(record)
                previous = record
                on_epoch(record)
        except KeyboardInterrupt:
            if not records:
                raise
            reason = "interrupted"
    if reason == "interrupted":
        say(f"interrupted: {display.remedy}", display.verbosity)
    return SearchResult(state, tuple(records), reason, driver.space, cut=stages.cut)
