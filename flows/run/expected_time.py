"""How long a search takes: its fits, times one that is measured."""

import math
from datetime import timedelta

import numpy as np
from joblib import cpu_count

from swarm.evaluation.crossval import CrossValidation
from swarm.problem.problem import Problem
from swarm.search.fresh_folds import most_rival_fits
from swarm.search.search import Search
from tasks.table import Table

# Fits on larger tables run in a process of their own, which is ended after its timeout.
_MAX_UNTIMED_CELLS = 1_000_000
_TIMEOUT_SECONDS = 20.0
# The hints of more units take longer than a check may.
_MAX_UNITS = 500
# A longer search is advised to use a proxy on a share of the rows, if these are enough.
_MAX_TIME = timedelta(hours=1)
_PROXY_ROWS = 0.1
_MIN_PROXY_ROWS = 2000
# Most columns of a wide table are of no use, so a prefilter is advised.
_MIN_PREFILTER_UNITS = 200


def has_hints(data: Table | Problem) -> bool:
    """Whether a table is narrow enough to compute its hints in a check."""
    return data.features.shape[1] <= _MAX_UNITS


def timeout_of(problem: Problem) -> float | None:
    """Return the seconds after which a trial fit is ended; None if it is certain to be short."""
    return None if problem.features.size <= _MAX_UNTIMED_CELLS else _TIMEOUT_SECONDS


def describe_search_time(search: Search) -> str:
    """Time one fit on half of the units, and multiply it by the fits of the search."""
    full_seconds = _time_fit(search.problem)
    search_seconds = full_seconds if search.proxy is None else _time_fit(search.search_problem)
    if search_seconds is None or full_seconds is None:
        return "search: scores are computed without fitting models"
    timing = f"one fit of half of the columns takes {_describe(search_seconds)}"
    if search.proxy is not None:
        timing += f", on the full model and all rows {_describe(full_seconds)}"
    n_search_fits = _search_fits(search)
    if n_search_fits is None:
        return f"search: {timing}, and budget.seconds ends it"
    n_full_fits = _confirmation_fits(search)
    n_jobs = search.evaluation["n_jobs"]
    n_workers = cpu_count() if n_jobs == -1 else n_jobs
    seconds = (n_search_fits * search_seconds + n_full_fits * full_seconds) / n_workers
    time = timedelta(seconds=math.ceil(seconds))
    workers = "1 worker" if n_workers == 1 else f"{n_workers} workers"
    text = f"search: about {n_search_fits + n_full_fits:,} fits; {timing}: {time} on {workers}"
    if time <= _MAX_TIME:
        return text
    if search.prefilter is None and search.problem.space.n_units >= _MIN_PREFILTER_UNITS:
        text += "; --set prefilter=always leaves the least important columns out first"
    is_large = search.problem.n_rows * _PROXY_ROWS >= _MIN_PROXY_ROWS
    if search.proxy is None and is_large:
        text += f"; --set proxy.rows={_PROXY_ROWS} searches on fewer rows"
    return text


def _describe(seconds: float) -> str:
    return f"{'more than ' if seconds == _TIMEOUT_SECONDS else ''}{seconds:.2g} s"


def _time_fit(problem: Problem) -> float | None:
    """Return the seconds of one fit of half of the units; None if costs need no fits."""
    space = problem.space
    half = space.fixed | (np.cumsum(~space.forbidden) <= max(2, space.n_units // 2))
    half &= ~space.forbidden
    with CrossValidation(problem, timeout=timeout_of(problem)) as evaluator:
        if not evaluator.fits_models:
            return None
        # The first fit of a fold prepares its columns for the second one.
        masks = np.vstack([half, half & (np.cumsum(half) < half.sum())])
        masks = masks[masks.any(axis=1)]
        if np.isinf(evaluator.fold_costs(masks, np.zeros(len(masks), dtype=int))).any():
            return _TIMEOUT_SECONDS
        return min(record.seconds for record in evaluator.evaluations.lookup(masks))


def _search_fits(search: Search) -> int | None:
    """Return the fits of the search without pruning; None if only its seconds are limited."""
    budget = search.budget
    problem = search.search_problem
    _, n_evaluations = search.strategy.evaluations_in(problem.space)
    limits = [n_evaluations, budget.evaluations, budget.distinct]
    if budget.epochs is not None and not search.strategy.ends_by_itself:
        if search.prefilter is not None or not has_hints(problem):
            # The first units are as many masks as those that a prefilter keeps, and have hints.
            n_units = min(max(_MAX_UNITS, problem.space.min_size), problem.space.n_units)
            search = search.on_units(search.first_units(n_units))
        with CrossValidation(problem) as evaluator:
            limits.append(budget.epochs * len(search.driver(evaluator).first_masks()))
    fits = [limit * problem.n_folds for limit in limits if limit is not None]
    if budget.fits:
        fits.append(budget.fits)
    return min(fits, default=None)


def _confirmation_fits(search: Search) -> int:
    """Return the fits of the full model after the search, without those that compete with it."""
    plan = search.confirmation
    proxy = search.proxy
    n_measured = 0 if proxy is None else proxy.n_best + proxy.n_probes
    n_fits = n_measured * search.problem.n_folds
    if plan is None:
        return n_fits
    if plan.replaces_search:
        return most_rival_fits(plan.problem.n_folds, None)
    n_confirmed = min(plan.n_best, n_measured) if n_measured else plan.n_best
    # The units that the subsets share, and all features, are confirmed too.
    return n_fits + (n_confirmed + 2) * plan.problem.n_folds
