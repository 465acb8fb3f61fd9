"""How long a search takes: its fits, times one that is measured."""

from __future__ import annotations

import math
from datetime import timedelta

import numpy as np
from joblib import cpu_count

from swarm.evaluation.crossval import CrossValidation
from swarm.problem.problem import Problem
from swarm.search.fresh_folds import most_rival_fits
from swarm.search.search import Search
from tasks.table import Table

# Fits on larger tables run in a process of their own, which is ended after so many seconds.
_TIMED_CELLS, _TIMED_SECONDS = 1_000_000, 20.0
# The hints of more units take longer than a check may.
_MOST_UNITS = 500
# What takes longer is better searched with a proxy on a tenth of the rows, if these are enough.
_LONG, _PROXY_ROWS, _LEAST_PROXY_ROWS = timedelta(hours=1), 0.1, 2000
# With hundreds of columns, most are of no use.
_LEAST_PREFILTER_UNITS = 200


def has_hints(data: Table | Problem) -> bool:
    """Whether a table is narrow enough to compute its hints in a check."""
    return data.features.shape[1] <= _MOST_UNITS


def timeout_of(problem: Problem) -> float | None:
    """Return the seconds after which a trial fit is ended; None if it is certain to be short."""
    return None if problem.features.size <= _TIMED_CELLS else _TIMED_SECONDS


def describe_search_time(search: Search) -> str:
    """Time one fit on half of the units, and multiply it by the fits of the search."""
    full = _time_fit(search.problem)
    fit = full if search.proxy is None else _time_fit(search.search_problem)
    if fit is None or full is None:
        return "search: scores are computed without fitting models"
    measured = f"one fit of half of the columns takes {_describe(fit)}"
    if search.proxy is not None:
        measured += f", on the full model and all rows {_describe(full)}"
    searching, confirming = _search_fits(search), _confirmation_fits(search)
    if searching is None:
        return f"search: {measured}, and budget.seconds ends it"
    n_jobs = search.evaluation["n_jobs"]
    n_workers = cpu_count() if n_jobs == -1 else n_jobs
    seconds = (searching * fit + confirming * full) / n_workers
    time = timedelta(seconds=math.ceil(seconds))
    workers = "1 worker" if n_workers == 1 else f"{n_workers} workers"
    text = f"search: about {searching + confirming:,} fits; {measured}: {time} on {workers}"
    if time <= _LONG:
        return text
    if search.prefilter is None and search.problem.space.n_units >= _LEAST_PREFILTER_UNITS:
        text += "; --set prefilter=always leaves the least important columns out first"
    is_large = search.problem.n_rows * _PROXY_ROWS >= _LEAST_PROXY_ROWS
    if search.proxy is None and is_large:
        text += f"; --set proxy.rows={_PROXY_ROWS} searches on fewer rows"
    return text


def _describe(seconds: float) -> str:
    return f"{'more than ' if seconds == _TIMED_SECONDS else ''}{seconds:.2g} s"


def _time_fit(problem: Problem) -> float | None:
    """Return the seconds of one fit of half of the units; None if costs need no fits."""
    space = problem.space
    half = space.fixed | (np.cumsum(~space.forbidden) <= max(2, space.n_units // 2))
    half &= ~space.forbidden
    with CrossValidation(problem, timeout=timeout_of(problem)) as evaluator:
        if not evaluator.fits_models:
            return None
        # Two fits, as the first of a fold prepares its columns for the other.
        masks = np.vstack([half, half & (np.cumsum(half) < half.sum())])
        masks = masks[masks.any(axis=1)]
        if np.isinf(evaluator.fold_costs(masks, np.zeros(len(masks), dtype=int))).any():
            return _TIMED_SECONDS
        return min(record.seconds for record in evaluator.evaluations.lookup(masks))


def _search_fits(search: Search) -> int | None:
    """Return the fits of the search without pruning; None if only its seconds are limited."""
    budget, problem = search.budget, search.search_problem
    _, most = search.strategy.evaluations_in(problem.space)
    limits = [each for each in (most, budget.evaluations, budget.distinct) if each is not None]
    if budget.epochs is not None and not search.strategy.ends_by_itself:
        if search.prefilter is not None or not has_hints(problem):
            # The first units are as many masks as those that a prefilter keeps, and have hints.
            count = min(max(_MOST_UNITS, problem.space.min_size), problem.space.n_units)
            search = search.on_units(search.first_units(count))
        with CrossValidation(problem) as evaluator:
            limits.append(budget.epochs * len(search.driver(evaluator).first_masks()))
    fits = [each * problem.n_folds for each in limits] + ([budget.fits] if budget.fits else [])
    return min(fits, default=None)


def _confirmation_fits(search: Search) -> int:
    """Return the fits of the full model after the search, without those that compete with it."""
    plan, proxy, n_folds = search.confirmation, search.proxy, search.problem.n_folds
    measured = 0 if proxy is None else proxy.n_best + proxy.n_probes
    if plan is None:
        return measured * n_folds
    if plan.replaces_search:
        return most_rival_fits(plan.problem.n_folds, None)
    confirmed = min(plan.n_best, measured) if measured else plan.n_best
    # The units that they share, and all features.
    return measured * n_folds + (confirmed + 2) * plan.problem.n_folds
