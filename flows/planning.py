"""Plan the search of a configuration: nothing is stored, no server is started."""

from __future__ import annotations

from collections.abc import Callable

from joblib import cpu_count

from conf.estimator import build_estimator
from conf.schema import SelectConfig
from flows.preparing import preparation
from flows.searching import (
    evaluator_as_configured,
    probe_as_configured,
    proxy_problem,
    refuse_early,
    search_to_run,
)
from swarm.planning import Plan, make_plan, this_machine, time_subsets
from swarm.strategies.catalogue import make
from tasks.steps import fetch_data, prepare_search, split_rows

__all__ = ["plan_search"]


def plan_search(config: SelectConfig, tell: Callable[[str], None] = lambda text: None) -> Plan:
    """Read the data, time a few subsets on one thread, and estimate the search.

    Parameters
    ----------
    config : SelectConfig
        Checked.
    tell : callable
        Is told what is going on.

    Raises
    ------
    InputError
        For bad input: all that the search itself would refuse before it starts.
    EvaluationError
        If the model fails on a subset.
    """
    strategy = make(config.strategy.name, config.strategy.params)
    tell("reading the data")
    options = config.data.model_dump(exclude={"source"})
    table = fetch_data.fn(config.data.source, {**options, "fold": config.folds.column})
    rows = split_rows.fn(table, config.split.kind, config.split.test_size, config.split_seed)
    tell("preparing the search")
    # The hints of a select run: its report shows distances whatever the strategy needs.
    prepared = prepare_search.fn(
        table.take(rows.train),
        build_estimator(config.model),
        **preparation(config),
        seed=config.seed,
        needs=("distance", "clusters", *strategy.needs),
    )
    refuse_early(strategy, prepared, config.seed)
    problem, evaluation, proxy = prepared.problem, config.evaluation, config.proxy
    guide = proxy_problem(config, problem) or problem
    probe_as_configured(config, problem, None)
    tell("timing a few subsets on one thread")
    here = {"n_jobs": 1, "backend": "sequential", "address": None, "timeout_seconds": None}
    alone = config.model_copy(update={"evaluation": evaluation.model_copy(update=here)})
    confirm = None
    if proxy is not None:
        with evaluator_as_configured(alone, problem, None, strategy) as full:
            timing = time_subsets(search_to_run(alone, strategy, prepared.hints, full), count=2)
        per_subset = float(timing.seconds.max()) * problem.n_folds
        confirm = per_subset * (proxy.best + proxy.probes)
    workers = cpu_count() if evaluation.n_jobs == -1 else evaluation.n_jobs
    remote = evaluation.address is not None
    single = workers == 1 and evaluation.timeout_seconds is None and not remote
    in_process = single or evaluation.backend == "sequential"
    with evaluator_as_configured(alone, guide, None, strategy) as evaluator:
        search = search_to_run(alone, strategy, prepared.hints, evaluator)
        timing = time_subsets(search)
        tell("simulating the search on synthetic costs")
        return make_plan(
            search,
            timing,
            this_machine(),
            workers=1 if in_process else workers,
            processes=not (in_process or remote or evaluation.backend == "threading"),
            remote=remote,
            confirm_seconds=confirm,
            # The ensemble, its rivals on all features and on random subsets, two single models.
            models_after=config.ensemble.n_models * (2 + config.test.random_subsets) + 2,
        )
