"""How long the search of a configuration takes, measured on one fit, and what makes it shorter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from joblib import cpu_count
from numpy.typing import ArrayLike

from conf.resolve import proxy_problem
from conf.schema import SelectConfig
from conf.sections import ProxySection
from swarm.arrays import Bool
from swarm.errors import ConfigError
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.hints import Hints
from swarm.problem.problem import Problem
from swarm.search.budget import Budget
from swarm.search.confirmation import ConfirmationPlan
from swarm.search.fresh_folds import most_prefix_fits
from swarm.search.search import Search
from swarm.strategies.catalogue import make
from tasks.table import Table

# Larger tables are probed in a process of their own, which can be ended.
_PROBED_CELLS, _PROBE_SECONDS = 1_000_000, 20.0
# Shorter fits are timed twice.
_REPEATED = 2.0
# The hints of more units take longer than a check may.
_MOST_UNITS = 500
# A search that is expected to take longer than _LONG is offered a proxy for _SHORTER.
_LONG, _SHORTER = timedelta(hours=1), timedelta(minutes=10)
_LEAST_PROXY_ROWS = 2000
# Subsets in the confirmation of such a proxy, on one partition, if the usual confirmation would
# take over half of _SHORTER: the longer a table, the less its folds differ.
_FEW = 4


@dataclass(frozen=True)
class _FitTime:
    """One fit of half of the units."""

    seconds: float
    failed: bool  # or took longer than `seconds`

    def __str__(self) -> str:
        return f"{'more than ' if self.failed else ''}{self.seconds:.2g} s"


def has_hints(data: Table | Problem) -> bool:
    """Whether a table is narrow enough to compute its hints in a check."""
    return data.features.shape[1] <= _MOST_UNITS


def timeout_of(problem: Problem) -> float | None:
    """Return the seconds after which a trial fit is ended; None if it is certain to be short."""
    return None if problem.features.size <= _PROBED_CELLS else _PROBE_SECONDS


def describe_search_time(
    config: SelectConfig, problem: Problem, hints: Hints, groups: ArrayLike | None
) -> str:
    """Time one fit on half of the units, and multiply it by the fits of the search."""
    full = _time_fit(problem)
    if full is None:
        return "search: scores are computed without fitting models"

    def expected_of(config: SelectConfig) -> _Expected:
        guide = proxy_problem(config, problem, groups)
        return _Expected(
            search=_most_search_fits(config, hints, guide),
            confirmation=_most_confirmation_fits(config, problem),
            of_search=full if config.proxy is None else _time_fit(guide) or full,
            of_confirmation=full,
            n_workers=n_workers,
        )

    n_workers = cpu_count() if config.evaluation.n_jobs == -1 else config.evaluation.n_jobs
    expected = expected_of(config)
    measured = f"one fit of half of the columns takes {expected.of_search}"
    if config.proxy is not None:
        measured += f", on the full model and all rows {full}"
    if expected.search is None:
        return f"search: {measured}, and budget.seconds ends it"
    several = "1 worker" if n_workers == 1 else f"{n_workers} workers"
    fits = f"at most {expected.search + expected.confirmation:,} fits"
    text = f"search: {fits}; {measured}: {expected} on {several}"
    if expected.time <= _LONG or config.proxy is not None:
        return text
    shorter, faster = config, expected
    try:
        for _ in range(2):
            # Twice, as a fit on fewer rows takes more than its share of the time.
            shorter = _shorter(shorter, problem, faster)
            faster = expected_of(shorter)
    except ConfigError:
        # So few rows cannot be divided into the folds.
        return text
    return f"{text}; {_proposal(shorter)}: {faster}" if faster.time < expected.time else text


@dataclass(frozen=True)
class _Expected:
    """Numbers of fits without pruning, and how long one of them takes."""

    search: int | None  # None if only its seconds are limited
    confirmation: int  # of the full model on all rows, also of the best subsets of a proxy
    of_search: _FitTime
    of_confirmation: _FitTime
    n_workers: int

    @property
    def searching(self) -> float:
        """Seconds of the search on all workers."""
        return (self.search or 0) * self.of_search.seconds / self.n_workers

    @property
    def time(self) -> timedelta:
        """What search and confirmation take on all workers."""
        confirming = self.confirmation * self.of_confirmation.seconds / self.n_workers
        return timedelta(seconds=math.ceil(self.searching + confirming))

    def __str__(self) -> str:
        failed = self.of_search.failed or self.of_confirmation.failed
        return f"{'more than ' if failed else ''}{self.time}"


def _time_fit(problem: Problem) -> _FitTime | None:
    """Time one fit of half of the units; None if costs need no fits."""
    space = problem.space
    mask = space.fixed | (np.cumsum(~space.forbidden) <= max(1, space.n_units // 2))
    mask &= ~space.forbidden
    with CrossValidation(problem, timeout=timeout_of(problem)) as evaluator:
        if not evaluator.fits_models:
            return None
        timed = _one_fit(evaluator, mask)
        if timed.seconds < _REPEATED and mask.sum() > 1:
            # The first fit of a fold prepares its columns for those that follow.
            timed = _one_fit(evaluator, mask & (np.cumsum(mask) < mask.sum()))
    return timed


def _one_fit(evaluator: CrossValidation, mask: Bool) -> _FitTime:
    failed = np.isinf(evaluator.fold_costs(mask[None, :], np.zeros(1, dtype=int))).any()
    seconds = evaluator.evaluations.lookup(mask[None, :])[0].seconds
    return _FitTime(_PROBE_SECONDS if failed else seconds, failed=bool(failed))


def _most_search_fits(config: SelectConfig, hints: Hints, problem: Problem) -> int | None:
    """Return the fits of the search without pruning; None if unlimited."""
    budget, n_folds = config.budget, problem.n_folds
    strategy = make(config.strategy.name, config.strategy.params)
    _, most = strategy.evaluations_in(problem.space)
    limits = [each for each in (most, budget.evaluations, budget.distinct) if each is not None]
    if budget.epochs is not None and not strategy.ends_by_itself:
        search = Search(problem, strategy, hints=hints, budget=Budget(epochs=1), seed=config.seed)
        if not has_hints(problem):
            # The first units of a wide table are as many masks.
            search = search.on_units(search.first_units(max(_MOST_UNITS, problem.space.min_size)))
        with CrossValidation(search.problem) as evaluator:
            limits.append(budget.epochs * len(search.driver(evaluator).first_masks()))
    fits = [each * n_folds for each in limits] + ([budget.fits] if budget.fits else [])
    return min(fits, default=None)


def _most_confirmation_fits(config: SelectConfig, problem: Problem) -> int:
    """Return the fits of the full model that follow the search."""
    n_folds, confirm, fits = problem.n_folds, config.confirm, 0
    if config.proxy is not None:
        fits += (config.proxy.best + config.proxy.probes) * n_folds
    if confirm is None:
        return fits
    plan = ConfirmationPlan(problem, n_best=confirm.best, rankings=confirm.rankings)
    n_fresh, n_ranked = confirm.repeats * n_folds, confirm.best // 2 if plan.uses_rankings else 0
    if n_ranked:
        fits += n_ranked * n_folds + most_prefix_fits(confirm.best, n_fresh)
    n_searched = confirm.best - n_ranked
    if config.proxy is not None:
        n_searched = min(n_searched, config.proxy.best + config.proxy.probes)
    if confirm.goal == "size":
        n_searched += confirm.best
    # The units that they share, and all features.
    return fits + (n_searched + 2) * n_fresh


def _shorter(config: SelectConfig, problem: Problem, expected: _Expected) -> SelectConfig:
    """Return a configuration with a proxy on so few rows that its search is short enough.

    Its confirmation is of few subsets if it would take most of the time; `expected` is what the
    search takes as configured.
    """
    share = 1.0 if config.proxy is None else config.proxy.rows or 1.0
    proxy, confirm = config.proxy or ProxySection(rows=0.5), config.confirm
    most, full_fit = _SHORTER.total_seconds(), expected.of_confirmation.seconds / expected.n_workers

    def confirming() -> float:
        shorter = config.model_copy(update={"proxy": proxy, "confirm": confirm})
        return _most_confirmation_fits(shorter, problem) * full_fit

    if confirming() > most / 2:
        proxy = ProxySection(rows=0.5, best=_FEW, probes=0)
        if confirm is not None:
            confirm = confirm.model_copy(update={"best": _FEW, "repeats": 1})
    share *= max(0.0, most - confirming()) / expected.searching
    rows = min(0.5, max(share, _LEAST_PROXY_ROWS / len(problem.features)))
    proxy = proxy.model_copy(update={"rows": float(f"{rows:.1g}")})
    return config.model_copy(update={"proxy": proxy, "confirm": confirm})


def _proposal(config: SelectConfig) -> str:
    """Return the proxy of a configuration, and a confirmation of few subsets, as YAML."""
    assert config.proxy is not None
    sections = {"proxy": config.proxy.model_dump(exclude_defaults=True)}
    if config.confirm is not None and config.confirm.best == _FEW:
        sections["confirm"] = {"best": _FEW, "repeats": config.confirm.repeats}
    written = [
        f"`{name}: {{{', '.join(f'{key}: {value}' for key, value in keys.items())}}}`"
        for name, keys in sections.items()
    ]
    return " with ".join(written)
