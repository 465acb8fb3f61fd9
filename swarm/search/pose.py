"""Pose a search on a problem, as the selector, the flows and ``swarm check`` do."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sklearn.base import clone

from swarm.arrays import Bool
from swarm.errors import ConfigError, InputError, as_clause
from swarm.problem.hints import Hints, prepare_hints
from swarm.problem.problem import Importance, Problem
from swarm.protocols import Estimator
from swarm.search.budget import Budget
from swarm.search.confirmation import ConfirmationPlan
from swarm.search.fresh_folds import fresh_problem
from swarm.search.prefilter import Prefilter, is_wide
from swarm.search.proxy import Proxy, on_part_of_rows
from swarm.search.rankings import can_replace_search
from swarm.search.search import Search
from swarm.strategies.base import Strategy
from swarm.strategies.rankings import RankingSizes

_REPEATS = 5
# The choice among a few sizes has little bias: on gene tables a second partition gained half a
# point for the columns to keep, and nothing for the vote.
_REPEATS_OF_RANKINGS = 2
# A partition of a larger table takes minutes, so that rankings have one.
_MAX_CELLS_TO_REPEAT = 1 << 24


def pose_search(
    problem: Problem,
    strategy: Strategy,
    *,
    budget: Budget,
    seed: int,
    evaluation: Mapping[str, Any],
    hints: Hints | None = None,
    warm: Bool | None = None,
    proxy: Mapping[str, Any] | None = None,
    confirm: Mapping[str, Any] | None = None,
    prefilter: Mapping[str, Any] | None = None,
    auto: bool = False,
) -> Search:
    """Return the search, which refuses its options before anything is trained.

    If folds of the same kind cannot be drawn again, nothing is confirmed, and rankings and a
    prefilter use the folds of the search.

    Parameters
    ----------
    problem, strategy, budget, seed, evaluation
        Those of the :class:`swarm.search.search.Search`.
    hints : Hints, optional
        Default: those that the strategy needs.
    warm : bool (n, n_units), optional
        Masks to start from, if there are no `hints`.
    proxy : mapping, optional
        Options of :func:`proxy_of`.
    confirm : mapping, optional
        The options `repeats`, `best` and those of
        :class:`swarm.search.confirmation.ConfirmationPlan`.
    prefilter : mapping, optional
        The options `when`, `least` and `n_clusters`.
    auto : bool, default=False
        Whether rankings may replace the strategy.
    """
    needs_search = (
        proxy is not None
        or (prefilter or {}).get("when") == "always"
        or (confirm or {}).get("rankings") is False
    )
    if auto and not needs_search and can_replace_search(problem):
        strategy = RankingSizes()
    if isinstance(strategy, RankingSizes):
        return Search(
            problem=problem,
            strategy=strategy,
            budget=budget,
            seed=seed,
            evaluation=evaluation,
            confirmation=_plan_of_rankings(problem, confirm or {}),
        )
    guide = None
    if proxy is not None:
        guide = proxy_of(problem, **proxy, seed=seed)
    cut = None
    if prefilter is not None and is_wide(problem.space, prefilter["when"]):
        fresh = fresh_problem(problem, 1, first=0) or problem
        cut = Prefilter.of(
            # The model that the search runs on ranks the units.
            problem if guide is None else guide.problem,
            fresh.folds,
            strategy,
            least=prefilter.get("least", 20),
            n_clusters=prefilter.get("n_clusters"),
        )
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
    estimator: Estimator | None = None,
    params: Mapping[str, Any] | None = None,
    rows: float | None = None,
    importance: Importance = "auto",
    seed: int = 0,
) -> Proxy:
    """Return a cheaper problem to guide a search: another model, fewer rows, or both.

    `params` are set on the estimator, by default that of the problem; `rows` is a share of the
    rows, by default all. See :class:`swarm.search.proxy.Proxy` for `best` and `probes`.
    """
    sampled = problem if rows is None else on_part_of_rows(problem, rows)
    try:
        cheaper = clone(problem.estimator if estimator is None else estimator)
        cheaper.set_params(**(params or {}))
    except ValueError as error:
        raise ConfigError(f"proxy: {as_clause(str(error))}; rename it or leave it out") from error
    return Proxy(sampled.with_estimator(cheaper, importance=importance, seed=seed), best, probes)


def _plan_of_rankings(problem: Problem, confirm: Mapping[str, Any]) -> ConfirmationPlan:
    """Return the plan of rankings without a search, on its folds if no others can be drawn."""
    if problem.n_folds < 2:
        raise ConfigError(
            "strategy 'rankings' compares sizes on at least two folds, got one; use another number"
            " of folds, or another strategy"
        )
    is_large = problem.features.size > _MAX_CELLS_TO_REPEAT
    plan = _confirmation(problem, 1 if is_large else _REPEATS_OF_RANKINGS, **confirm)
    if plan is None:
        options = {name: confirm[name] for name in ("goal", "margin") if name in confirm}
        plan = ConfirmationPlan(problem.with_folds(problem.folds), **options)
    return replace(plan, replaces_search=True)


def _confirmation(
    problem: Problem,
    default_repeats: int,
    *,
    repeats: int | None = None,
    best: int = 20,
    **options: Any,
) -> ConfirmationPlan | None:
    """Return the plan on `repeats` fresh partitions; None if the folds cannot be drawn again."""
    try:
        fresh = fresh_problem(problem, default_repeats if repeats is None else repeats)
        return None if fresh is None else ConfirmationPlan(fresh, best, **options)
    except InputError as error:
        raise ConfigError(f"confirm: {str(error).replace('n_best', 'best')}") from None
