"""Plan the search of a configuration: nothing is stored, no server is started."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from joblib import cpu_count

from conf.schema import SelectConfig
from flows.configured import (
    fetched,
    plan_as_configured,
    prepare_as_configured,
    probe_as_configured,
)
from swarm.planning import Plan, make_plan, this_machine, time_subsets
from swarm.search.prefilter import most_cut_fits
from swarm.search.runner import SearchPlan
from swarm.storage.archive import Archive
from swarm.strategies.catalogue import make

__all__ = ["estimate_search", "plan_search"]


def plan_search(config: SelectConfig, tell: Callable[[str], None] = lambda text: None) -> Plan:
    """Read the data, time a few subsets on one thread, and estimate the search.

    Parameters
    ----------
    config : SelectConfig
        Checked.
    tell : callable
        Called with a line of text at each stage.

    Raises
    ------
    InputError
        For any input that the search itself would refuse before it starts.
    EvaluationError
        If the model fails on a subset.
    """
    strategy = make(config.strategy.name, config.strategy.params)
    tell("reading the data")
    table = fetched(config)
    tell("preparing the search")
    # The hints of a select run: its report needs distances, whatever the strategy needs.
    data = prepare_as_configured(config, table, needs=("distance", "clusters", *strategy.needs))
    planned = plan_as_configured(config, data)
    planned.check()
    probe_as_configured(config, planned, None)
    return estimate_search(config, planned, tell)


def estimate_search(
    config: SelectConfig, planned: SearchPlan, tell: Callable[[str], None] = lambda text: None
) -> Plan:
    """Time a few subsets on one thread, and estimate a search that is prepared and probed.

    Raises
    ------
    EvaluationError
        If the model fails on a subset.
    """
    evaluation, proxy = config.evaluation, planned.proxy
    tell("timing a few subsets on one thread")
    alone = replace(planned, evaluation={"pruning": evaluation.pruning, "exact": evaluation.exact})
    confirm, per_fold = 0.0, None
    if proxy is not None:
        with alone.evaluator(alone.problem, Archive()) as full:
            timing = time_subsets(alone.search(full), count=2)
        per_fold = float(timing.seconds.max())
        confirm = per_fold * alone.problem.n_folds * (proxy.n_best + proxy.n_probes)
    workers = cpu_count() if evaluation.n_jobs == -1 else evaluation.n_jobs
    remote = evaluation.address is not None
    single = workers == 1 and evaluation.timeout_seconds is None and not remote
    in_process = single or evaluation.backend == "sequential"
    prefilter, kept, ranking = planned.prefilter, None, 0
    if prefilter is not None:
        least, most = prefilter.bounds(alone.problem.space)
        kept = alone.first_units(round(math.sqrt(least * most)))
        ranking = most_cut_fits(prefilter)
        with alone.evaluator(prefilter.problem, Archive()) as ranked:
            began = time.perf_counter()
            ranked.fold_costs(alone.first_units(most)[None, :], np.zeros(1, dtype=np.int64))
            # Most of the sizes that are tried are smaller.
            confirm += (time.perf_counter() - began) * ranking / 2
    with alone.evaluator(alone.problems[-1], Archive()) as evaluator:
        search = alone.search(evaluator, kept)
        timing = time_subsets(search)
        if planned.confirmation is not None:
            slowest = float(timing.seconds.max()) if per_fold is None else per_fold
            # The best subsets, the features that they share, and all features.
            subsets = planned.confirmation.n_best + 2
            confirm += slowest * planned.confirmation.problem.n_folds * subsets
        tell("simulating the search on synthetic costs")
        return make_plan(
            search,
            timing,
            this_machine(),
            workers=1 if in_process else workers,
            processes=not (in_process or remote or evaluation.backend == "threading"),
            remote=remote,
            confirm_seconds=confirm,
            proxy=proxy is not None,
            prefilter_fits=ranking,
            # The ensemble, its baselines on all features and on random subsets, two single models.
            models_after=config.ensemble.n_models * (2 + config.test.random_subsets) + 2,
        )
