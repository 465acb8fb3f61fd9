"""The search that the parameters of a selector describe: its problem and its description."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from swarm.selector.selector import SubsetSelector


def pose(
    selector: SubsetSelector, X: Any, y: Any, params: dict[str, Any]
) -> tuple[Problem, Strategy]:
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
    problem = Problem.build(
        table,
        y,
        selector.estimator,
        space=space,
        scoring=selector.scoring,
        folds=folds_of(selector, table.shape[0]),
        groups=groups,
        weight=weight,
        importance=selector.importance,
        fit_params=fit_params,
        score_params=score_params,
        task=task_for(y, selector.estimator),
        seed=selector.random_state,
        weights_in_score=selector.weights_in_score,
    )
    return problem, strategy


def _described(cv: object) -> str:
    """Describe `cv` for a message: a list of folds has thousands of row numbers."""
    if isinstance(cv, (list, tuple)):
        return "a list of folds"
    return f"cv={' '.join(repr(cv).split())}"


def search_of(
    selector: SubsetSelector, problem: Problem, strategy: Strategy, budget: Budget
) -> Search:
    """Return the search, which refuses its options before anything is trained."""
    confirm = _confirm_options(selector)
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


def _confirm_options(selector: SubsetSelector) -> Mapping[str, Any] | None:
    if isinstance(selector.confirm, Mapping):
        return selector.confirm
    # A rule of `pick` selects among the subsets of the search itself.
    is_automatic = selector.confirm == "auto" and selector.pick == "best"
    return {} if selector.confirm is True or is_automatic else None


def _warm(selector: SubsetSelector, problem: Problem, strategy: Strategy) -> Bool | None:
    if selector.warm is None:
        return None
    check_warm_start(strategy)
    space = problem.space
    warm = selector.warm
    if not isinstance(warm, (str, Path, np.ndarray)):
        warm = names_of_constraint(selector, problem.X, "warm")
    masks = warm_masks(read_warm(warm, list(space.columns)), space)
    if masks is None:
        raise ConfigError("warm has no subset of the features of X; pass one, or warm=None")
    return masks
