"""Plan the search of a configuration: nothing is stored, no server is started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from joblib import cpu_count

from conf.estimator import build_estimator
from conf.schema import SelectConfig
from flows.preparing import preparation
from flows.searching import probe_as_configured, proxy_problem, refuse_early
from swarm.evaluation.crossval import CrossValidation
from swarm.planning import Machine, Plan, Timing, make_plan, rehearse, this_machine, time_subsets
from swarm.planning.plan import Settings
from swarm.planning.rehearsal import Landscape
from swarm.planning.timing import some_of
from swarm.problem.hints import Hints
from swarm.problem.problem import Problem
from swarm.search.budget import Budget
from swarm.strategies.catalogue import make
from tasks.steps import fetch_data, prepare_search, split_rows

__all__ = ["Planned", "plan_search"]

# Kinds of made-up costs: how much subsets differ beside those measured, and how much of a
# subset the models leave unused.
_LANDSCAPES = ((1.0, 0.0), (2.0, 0.15), (0.5, 0.3))
_TIMED = 6


@dataclass(frozen=True)
class Planned:
    """A plan, and what it rests on.

    Attributes
    ----------
    plan : Plan
    timing : Timing
    machine : Machine
    way : str
        Whether models are fitted, and why.
    rows, units : int
        Rows that are searched on, and units to choose from.
    workers : int
    proxy : bool
        Whether the search is on a cheaper model.
    """

    plan: Plan
    timing: Timing
    machine: Machine
    way: str
    rows: int
    units: int
    workers: int
    proxy: bool


def plan_search(config: SelectConfig, tell: Callable[[str], None] = lambda text: None) -> Planned:
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
    # Those of a select run, which the report shows whatever the strategy needs.
    prepared = prepare_search.fn(
        table.take(rows.train),
        build_estimator(config.model),
        **preparation(config),
        seed=config.seed,
        needs=("distance", "clusters", *strategy.needs),
    )
    refuse_early(strategy, prepared, config.seed)
    problem, hints = prepared.problem, prepared.hints
    guide = proxy_problem(config, problem) or problem
    budget = Budget(**config.budget.model_dump())
    space = problem.space
    # Before anything is known of costs: sizes hardly depend on them.
    blank = Landscape(np.full(problem.n_folds, 0.3), spread=0.05, noise=0.02)
    likely = rehearse(strategy, space, hints, budget, blank, seed=config.seed, patience=1.5).masks
    tell("timing a few subsets on one thread")
    probe_as_configured(config, problem, None)
    timing, way = _timed(config, guide, likely)
    full = 0.0 if guide is problem else float(_timed(config, problem, likely[:2])[0].seconds.max())
    tell("rehearsing the search on made-up costs")
    pruning = config.evaluation.pruning and problem.scoring.bounded
    importances = guide.importance != "none"
    rehearsals = [
        rehearse(
            strategy,
            space,
            hints,
            budget,
            timing.landscape(steepness, unused * importances, guide.exact_shrink),
            seed=config.seed,
            pruning=pruning,
            racing=config.evaluation.racing,
        )
        for steepness, unused in _LANDSCAPES
    ]
    machine = this_machine()
    settings = _settings(config, pruning, full)
    plan = make_plan(
        guide, strategy, budget, rehearsals, timing, machine, settings, _bytes_of(hints)
    )
    return Planned(
        plan,
        timing,
        machine,
        way,
        len(problem.target),
        space.n_units,
        settings.workers,
        guide is not problem,
    )


def _timed(config: SelectConfig, problem: Problem, masks: Any) -> tuple[Timing, str]:
    with CrossValidation(problem, pruning=False, exact=config.evaluation.exact) as evaluator:
        return time_subsets(evaluator, some_of(masks, _TIMED)), evaluator.way


def _settings(config: SelectConfig, pruning: bool, full_seconds: float) -> Settings:
    evaluation, proxy, ensemble = config.evaluation, config.proxy, config.ensemble
    workers = cpu_count() if evaluation.n_jobs == -1 else evaluation.n_jobs
    backend = evaluation.backend
    alone = backend == "sequential" or (workers == 1 and evaluation.timeout_seconds is None)
    return Settings(
        workers=1 if alone and evaluation.address is None else workers,
        processes=not alone and backend != "threading" and evaluation.address is None,
        elsewhere=evaluation.address is not None,
        pruning=pruning,
        racing=evaluation.racing is not None,
        full_evaluations=0 if proxy is None else proxy.best + proxy.probes,
        full_seconds=full_seconds,
        # The ensemble, its rivals on all features and on random subsets, and two single models.
        models_after=ensemble.n_models * (2 + config.test.random_subsets) + 2,
    )


def _bytes_of(hints: Hints) -> int:
    """Bytes of the arrays in the hints, matrices of distances above all."""
    total = 0
    for each in fields(hints):
        value = getattr(hints, each.name)
        if value is None:
            continue
        parts = [value] if hasattr(value, "nbytes") else list(vars(value).values())
        total += sum(int(getattr(part, "nbytes", 0)) for part in parts)
    return total
