"""Pose a search on a problem, as the selector, the flows and ``swarm check`` do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sklearn.base import clone

from swarm.arrays import Bool
from swarm.errors import ConfigError, InputError, as_clause
from swarm.problem.hints import Hints, prepare_hints
from swarm.problem.problem import Problem
from swarm.search.budget import Budget
from swarm.search.confirmation import ConfirmationPlan
from swarm.search.fresh_folds import fresh_problem
from swarm.search.prefilter import Prefilter, is_wide
from swarm.search.proxy import Proxy, on_part_of_rows
from swarm.search.rankings import can_replace_search
from swarm.search.search import Search
from swarm.strategies.base import Strategy
from swarm.strategies.rankings import RankingSizes

# Only few sizes can flatter where nothing was searched: a second partition gained half a point for
# the columns to keep on gene tables, and nothing for the vote. A larger table takes minutes on one.
_REPEATS, _REPEATS_OF_RANKINGS = 5, 2
_MANY_CELLS = 1 << 24


def pose_search(
    problem: Problem,
    strategy: Strategy,
    *,
    budget: Budget,
    seed: int,
    evaluation: Mapping[str, Any],
    hints: Hints | None = None,  # None: those that the strategy needs
    warm: Bool | None = None,  # masks to start from, without `hints`
    proxy: Mapping[str, Any] | None = None,  # options of `proxy_of`
    confirm: Mapping[str, Any] | None = None,  # `repeats`, `best` and those of ConfirmationPlan
    prefilter: Mapping[str, Any] | None = None,  # `when`, `least` and `n_clusters`
    auto: bool = False,  # whether rankings may replace the strategy
) -> Search:
    """Return the search; what it refuses is refused before anything is trained.

    Without other folds of the same kind nothing is confirmed, and rankings and a prefilter use
    those of the search.
    """
    asks_for_search = proxy is not None or (prefilter or {}).get("when") == "always"
    asks_for_search |= (confirm or {}).get("rankings") is False
    if auto and not asks_for_search and can_replace_search(problem):
        strategy = RankingSizes()
    if isinstance(strategy, RankingSizes):
        return Search(
            problem=problem,
            strategy=strategy,
            budget=budget,
            seed=seed,
            evaluation=evaluation,
            confirmation=_rankings_alone(problem, confirm or {}),
        )
    guide = None
    if proxy is not None:
        guide = proxy_of(problem, **proxy, seed=seed)
    cut = None
    if prefilter is not None and is_wide(problem.space, prefilter["when"]):
        fresh = fresh_problem(problem, 1, first=0) or problem
        # Units are ranked by the model that the search runs on.
        ranked = problem if guide is None else guide.problem
        least, n_clusters = prefilter.get("least", 20), prefilter.get("n_clusters")
        cut = Prefilter.of(ranked, fresh.folds, strategy, least=least, n_clusters=n_clusters)
    if hints is None:
        hints = Hints(warm=warm)
        if cut is None:
            hints = prepare_hints(
                problem.features,
                problem.space,
                problem.target,
                problem.task,
                warm=warm,
                needs=strategy.needs,
            )
    return Search(
        problem=problem,
        strategy=strategy,
        hints=hints,
        budget=budget,
        seed=seed,
        evaluation=evaluation,
        proxy=guide,
        confirmation=None if confirm is None else _confirmation(problem, _REPEATS, **confirm),
        prefilter=cut,
    )


def proxy_of(
    problem: Problem,
    *,
    best: int,
    probes: int,
    estimator: Any = None,  # None: that of the problem
    params: Mapping[str, Any] | None = None,  # parameters of the estimator that differ
    rows: float | None = None,  # share of the rows; None: all
    importance: Any = "auto",
    seed: int = 0,
) -> Proxy:
    """Return a cheaper problem to guide a search: another model, fewer rows, or both."""
    part = problem if rows is None else on_part_of_rows(problem, rows)
    try:
        cheaper = clone(part.estimator if estimator is None else estimator)
        cheaper.set_params(**(params or {}))
    except ValueError as error:
        raise ConfigError(f"proxy: {as_clause(str(error))}; rename it or leave it out") from error
    return Proxy(part.with_estimator(cheaper, importance=importance, seed=seed), best, probes)


def _rankings_alone(problem: Problem, confirm: Mapping[str, Any]) -> ConfirmationPlan:
    """Return the plan of rankings without a search, on its folds if no others can be drawn."""
    if problem.n_folds < 2:
        raise ConfigError(
            "strategy 'rankings' compares sizes on at least two folds, got one; use another number"
            " of folds, or another strategy"
        )
    is_large = problem.features.size > _MANY_CELLS
    plan = _confirmation(problem, 1 if is_large else _REPEATS_OF_RANKINGS, **confirm)
    if plan is None:
        options = {name: confirm[name] for name in ("goal", "margin") if name in confirm}
        plan = ConfirmationPlan(problem.with_folds(problem.folds), **options)
    return replace(plan, replaces_search=True)


def _confirmation(
    problem: Problem,
    default: int,
    *,
    repeats: int | None = None,
    best: int = 20,
    **options: Any,
) -> ConfirmationPlan | None:
    """Return the plan on `repeats` fresh partitions; None if the folds cannot be drawn again."""
    try:
        fresh = fresh_problem(problem, default if repeats is None else repeats)
        return None if fresh is None else ConfirmationPlan(fresh, best, **options)
    except InputError as error:
        raise ConfigError(f"confirm: {str(error).replace('n_best', 'best')}") from None
