"""The search that the parameters of a selector describe: its problem and its description."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from swarm.arrays import Bool
from swarm.errors import ConfigError
from swarm.problem.inputs import check_target
from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from swarm.problem.table import dtypes_of, names_of
from swarm.search.budget import Budget
from swarm.search.pose import pose_search
from swarm.search.search import Search
from swarm.search.warm_start import check_warm_start, read_warm, warm_masks
from swarm.selector.checks import prefilter_options, proxy_options
from swarm.selector.defaults import folds_of, n_jobs_of, strategy_and_bounds, task_for
from swarm.selector.inputs import checked_table, names_of_constraint, route_fit_metadata
from swarm.strategies.base import Strategy
from swarm.strategies.catalogue import AUTO


def pose(selector: Any, X: Any, y: Any, params: dict[str, Any]) -> tuple[Problem, Strategy]:
    """Build problem and strategy from the arguments of ``fit``; set `n_features_in_` and names."""
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
        dtypes=dtypes_of(table),
    )
    task = task_for(y, selector.estimator)
    folds = folds_of(selector, table.shape[0])
    problem = Problem.build(
        table,
        y,
        selector.estimator,
        space=space,
        scoring=selector.scoring,
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
    return problem, strategy


def _described(cv: Any) -> str:
    """Describe `cv` in a sentence; a list of folds has thousands of row numbers."""
    if isinstance(cv, (list, tuple)):
        return "a list of folds"
    return f"cv={' '.join(repr(cv).split())}"


def search_of(selector: Any, problem: Problem, strategy: Strategy, budget: Budget) -> Search:
    """Return the search; whatever it refuses is refused before anything is trained."""
    confirm = selector.confirm
    if isinstance(confirm, (bool, str)):
        # A rule that picks selects among the subsets of the search itself.
        confirm = {} if confirm is True or (confirm and selector.pick == "best") else None
    search = pose_search(
        problem,
        strategy,
        budget=budget,
        seed=selector.random_state,
        evaluation={"n_jobs": n_jobs_of(selector), "pruning": selector.pruning},
        warm=_warm(selector, problem, strategy),
        proxy=proxy_options(selector.proxy),
        confirm=confirm,
        prefilter=prefilter_options(selector.prefilter),
        auto=selector.strategy == AUTO and not selector.strategy_params and selector.warm is None,
    )
    if selector.confirm != "auto" and confirm is not None and search.confirmation is None:
        raise ConfigError(
            f"folds have to be drawn again, which {_described(selector.cv)} does not allow; "
            "pass a number of folds or a shuffled splitter, or confirm=False"
        )
    return search


def _warm(selector: Any, problem: Problem, strategy: Strategy) -> Bool | None:
    if selector.warm is None:
        return None
    check_warm_start(strategy)
    space, warm = problem.space, selector.warm
    if not isinstance(warm, (str, Path, np.ndarray)):
        warm = names_of_constraint(selector, problem.X, "warm")
    masks = warm_masks(read_warm(warm, list(space.columns)), space)
    if masks is None:
        raise ConfigError("warm has no subset of the features of X; pass one, or warm=None")
    return masks
