"""The search that the parameters of a selector describe: its problem and its description."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from swarm.arrays import Bool
from swarm.errors import ConfigError, as_clause
from swarm.problem.hints import Hints, prepare_hints
from swarm.problem.inputs import check_target, partitions
from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from swarm.problem.table import names_of
from swarm.search.budget import Budget
from swarm.search.confirmation import ConfirmationPlan
from swarm.search.fresh_folds import fresh_problem
from swarm.search.prefilter import Prefilter, is_wide
from swarm.search.proxy import Proxy, on_part_of_rows
from swarm.search.search import Search
from swarm.search.warm_start import check_warm_start, read_warm, warm_masks
from swarm.selector.checks import prefilter_options, proxy_options
from swarm.selector.defaults import folds_and_scorer, n_jobs_of, strategy_and_bounds, task_for
from swarm.selector.inputs import checked_table, names_of_constraint, route_fit_metadata
from swarm.strategies.base import Strategy


@dataclass(frozen=True, eq=False)
class PosedProblem:
    """The problem that the arguments of ``fit`` pose, and the strategy for it."""

    problem: Problem
    strategy: Strategy
    folds: Any  # what the problem drew its folds from, with `groups`
    groups: Any

    def on_fresh_folds(self, repeats: int, first: int = 1) -> Problem | None:
        """Return the problem on partitions that the search does not use, None if there are none."""
        problem = self.problem
        draw = partitions(
            self.folds,
            problem.X,
            y=problem.y,
            target=problem.target,
            task=problem.task,
            groups=self.groups,
        )
        return None if draw is None else fresh_problem(problem, draw, problem.seed, repeats, first)


def pose(selector: Any, X: Any, y: Any, params: dict[str, Any]) -> PosedProblem:
    """Build the problem from the arguments of ``fit``, and set `n_features_in_` and names."""
    check_target(y)
    weight, groups, fit_params, score_params = route_fit_metadata(selector, params)
    table = checked_table(selector, X, reset=True)
    strategy, min_size, max_size = strategy_and_bounds(selector)
    space = SearchSpace.build(
        names_of(table),
        groups=names_of_constraint(selector, table, "groups"),
        fixed=names_of_constraint(selector, table, "fixed"),
        forbidden=names_of_constraint(selector, table, "forbidden"),
        min_size=min_size,
        max_size=max_size,
    )
    task = task_for(y, selector.estimator)
    folds, scoring = folds_and_scorer(selector, y, table.shape[0], task, groups)
    problem = Problem.build(
        table,
        y,
        selector.estimator,
        space=space,
        scoring=scoring,
        folds=folds,
        groups=groups,
        weight=weight,
        importance=selector.importance,
        fit_params=fit_params,
        score_params=score_params,
        task=task,
        seed=selector.random_state,
        weights_in_score=selector.weights_in_score,
    )
    return PosedProblem(problem, strategy, folds, groups)


def _described(cv: Any) -> str:
    """Describe `cv` in a sentence; a list of folds has thousands of row numbers."""
    if isinstance(cv, (list, tuple)):
        return "a list of folds"
    return f"cv={' '.join(repr(cv).split())}"


def search_of(selector: Any, posed: PosedProblem, budget: Budget) -> Search:
    """Return the search; whatever it refuses is refused before anything is trained."""
    problem, strategy = posed.problem, posed.strategy
    if selector.warm is not None:
        check_warm_start(strategy)
    proxy = _proxy(selector, posed)
    prefilter = _prefilter(selector, posed, problem if proxy is None else proxy.problem)
    warm = _warm(selector, posed)
    hints = Hints(warm=warm)
    if prefilter is None:
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
        seed=selector.random_state,
        evaluation={"n_jobs": n_jobs_of(selector), "pruning": selector.pruning},
        proxy=proxy,
        confirmation=_confirmation(selector, posed),
        prefilter=prefilter,
    )


def _warm(selector: Any, posed: PosedProblem) -> Bool | None:
    if selector.warm is None:
        return None
    space = posed.problem.space
    warm = selector.warm
    if not isinstance(warm, (str, Path, np.ndarray)):
        warm = names_of_constraint(selector, posed.problem.X, "warm")
    masks = warm_masks(read_warm(warm, list(space.columns)), space)
    if masks is None:
        raise ConfigError("warm has no subset of the features of X; pass one, or warm=None")
    return masks


def _proxy(selector: Any, posed: PosedProblem) -> Proxy | None:
    options = proxy_options(selector.proxy)
    if options is None:
        return None
    part, cheaper = posed.problem, options["estimator"]
    if options["rows"] is not None:
        part = on_part_of_rows(part, options["rows"], posed.groups)
    if cheaper is None:
        try:
            cheaper = clone(part.estimator).set_params(**options["params"])
        except ValueError as error:
            reason = as_clause(str(error))
            raise ConfigError(f"proxy: {reason}; rename it or leave it out") from error
    sizes = options["best"], options["probes"]
    return Proxy(part.with_estimator(cheaper, seed=selector.random_state), *sizes)


def _confirmation(selector: Any, posed: PosedProblem) -> ConfirmationPlan | None:
    if selector.confirm is False:
        return None
    options = {} if selector.confirm is True else dict(selector.confirm)
    try:
        fresh = posed.on_fresh_folds(options.pop("repeats", 5))
        if fresh is None:
            raise ConfigError(
                f"folds have to be drawn again, which {_described(selector.cv)} does not allow; "
                "pass a number of folds or a shuffled splitter, or confirm=False"
            )
        return ConfirmationPlan(fresh, options.pop("best", 20), **options)
    except ValueError as error:
        raise ConfigError(f"confirm: {str(error).replace('n_best', 'best')}") from None


def _prefilter(selector: Any, posed: PosedProblem, ranked: Problem) -> Prefilter | None:
    options = prefilter_options(selector.prefilter)
    if options is None or not is_wide(posed.problem.space, options["when"]):
        return None
    # Folds that cannot be drawn again are also those of the search.
    fresh = posed.on_fresh_folds(1, first=0) or posed.problem
    return Prefilter.of(ranked, fresh.folds, posed.strategy, options["least"])
