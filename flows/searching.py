"""The search of a select run: epochs as tasks, on the model that counts or on a cheaper one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conf.estimator import build_estimator
from conf.schema import SelectConfig
from flows.configured import evaluation_options
from flows.opaque import opaque
from flows.progress import display, say
from swarm.errors import ConfigError
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.probe import probe
from swarm.problem.hints import Hints
from swarm.problem.problem import Problem
from swarm.search.budget import Budget
from swarm.search.driver import Search, SearchState, run
from swarm.search.history import EpochRecord
from swarm.search.proxy import LOW_CORRELATION
from swarm.search.result import SearchResult
from swarm.search.training_time import training_seconds
from swarm.storage.archive import Archive, KnownEvaluations
from swarm.strategies.base import Strategy, uses_importances
from swarm.strategies.exhaustive import Exhaustive
from swarm.warning_codes import coded
from tasks.prefect_artifacts import show_progress
from tasks.run_log import RunLog
from tasks.steps import Prepared, confirm_best, run_epoch, worth_retrying

__all__ = [
    "Searched",
    "evaluator_as_configured",
    "probe_as_configured",
    "proxy_problem",
    "refuse_early",
    "search_as_configured",
    "search_to_run",
]


@dataclass(frozen=True)
class Searched:
    """What a search leaves behind.

    Attributes
    ----------
    result : SearchResult
    known : KnownEvaluations
        What the archive holds for the model that counts.
    warnings : tuple of str
    training_seconds : float
        See :func:`swarm.search.training_time.training_seconds`; of the proxy, where there is one.
    """

    result: SearchResult
    known: KnownEvaluations
    warnings: tuple[str, ...]
    training_seconds: float


def refuse_early(strategy: Strategy, prepared: Prepared, seed: int) -> None:
    """Refuse parameters of the strategy that do not suit the table, before there is a run."""
    try:
        strategy.start(prepared.problem.space, prepared.hints, np.random.default_rng([seed, 0]))
    except MemoryError:
        raise ConfigError(
            f"the strategy needs more memory for {prepared.problem.space.n_units:,} units than "
            "there is; make the population in strategy.params smaller"
        ) from None


def probe_as_configured(config: SelectConfig, problem: Problem, archive: Archive | None) -> None:
    """Try the model, and the cheaper one where there is one, before there is a run.

    See :func:`swarm.evaluation.probe.probe`.
    """
    timeout = config.evaluation.timeout_seconds
    guide = proxy_problem(config, problem)
    for each in (problem, guide):
        if each is not None:
            probe(each, archive, timeout)


def proxy_problem(config: SelectConfig, problem: Problem) -> Problem | None:
    """Pose the problem to the cheaper model, where one is configured."""
    if config.proxy is None:
        return None
    params = {**config.model.params, **config.proxy.params}
    cheaper = build_estimator(config.model.model_copy(update={"params": params}))
    importance = config.evaluation.importance
    return problem.with_estimator(cheaper, importance=importance, seed=config.seed)


def search_as_configured(
    config: SelectConfig,
    strategy: Strategy,
    problem: Problem,
    hints: Hints,
    archive: Archive,
    log: RunLog,
    verbosity: int,
) -> Searched:
    """Run the epochs, and confirm the best subsets where they were found on a cheaper model."""
    guide = proxy_problem(config, problem)
    with evaluator_as_configured(config, guide or problem, archive, strategy) as evaluator:
        say(evaluator.way, verbosity)
        if isinstance(strategy, Exhaustive):
            say(
                f"{strategy.count(problem.space):,} subsets are evaluated, all there are", verbosity
            )
        say(f"run {log.run_id} in {log.tracking.label}", verbosity)
        log.spool.tags({"evaluation": evaluator.way})
        search = search_to_run(config, strategy, hints, evaluator)
        result = _epochs(config, search, log, verbosity)
        trained = training_seconds(result.state, evaluator.known)
        if config.proxy is None:
            return Searched(result, evaluator.known, (), trained)
        with evaluator_as_configured(config, problem, archive, strategy) as full:
            result = confirm_best(
                opaque(result),
                opaque(evaluator),
                opaque(full),
                n_best=config.proxy.best,
                n_probes=config.proxy.probes,
            )
            return Searched(result, full.known, _told(result, log, verbosity), trained)


def search_to_run(
    config: SelectConfig, strategy: Strategy, hints: Hints, evaluator: CrossValidation
) -> Search:
    """Build the search, with its seed, budget and racing."""
    return Search(
        strategy,
        evaluator.problem.space,
        evaluator,
        hints,
        config.seed,
        Budget(**config.budget.model_dump()),
        config.evaluation.racing,
    )


def evaluator_as_configured(
    config: SelectConfig, problem: Problem, archive: Archive | None, strategy: Strategy
) -> CrossValidation:
    """Open the evaluator, by default with an archive in memory."""
    options = evaluation_options(config.evaluation)
    return CrossValidation(problem, archive, importances=uses_importances(strategy), **options)


def _epochs(config: SelectConfig, search: Search, log: RunLog, verbosity: int) -> SearchResult:
    """Run the epochs, each a task that can be retried; Ctrl-C ends the search, not the run."""
    epoch = run_epoch.with_options(
        retries=config.retries.attempts - 1,
        retry_delay_seconds=config.retries.delay_seconds,
        retry_condition_fn=worth_retrying,
    )

    def step(state: SearchState) -> tuple[SearchState, EpochRecord]:
        named = epoch.with_options(task_run_name=f"epoch-{state.epoch + 1:04d}")
        return named(opaque(search), opaque(state))

    with display(search.budget, verbosity) as shown, show_progress(search.budget) as tell:
        result = run(
            search,
            step=step,
            callbacks=[
                lambda record, _: log.epoch(record),
                lambda record, _: shown.epoch(record),
                lambda record, _: tell(record),
            ],
        )
        if result.interrupted:
            say("interrupted: going on with the best subsets so far", verbosity)
    return result


def _told(result: SearchResult, log: RunLog, verbosity: int) -> tuple[str, ...]:
    """Say, log and judge how well the cheaper model guided the search."""
    confirmed = result.confirmed
    assert confirmed is not None
    correlation = confirmed.correlation
    metrics = {"proxy_best_cost": float(confirmed.cheap.min()), "confirmed_best_cost": result.cost}
    if correlation == correlation:
        metrics["proxy_rank_correlation"] = correlation
    log.judged(result.state.epoch, metrics)
    say(
        f"{len(confirmed.costs)} subsets of the cheaper model measured on the full one: rank "
        f"correlation {correlation:.2f}, best cost {result.cost:.5f}",
        verbosity,
    )
    if correlation >= LOW_CORRELATION:
        return ()
    return (
        coded(
            "SWM201",
            f"the cheaper model ranks subsets at {correlation:.2f} to the full one, below "
            f"{LOW_CORRELATION}; let proxy.params differ less from model.params, or search without",
        ),
    )
