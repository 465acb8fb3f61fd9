"""One search for a selector: on a cheaper model or not, ended by a person or not."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from swarm.errors import ConfigError
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.hints import Hints
from swarm.problem.problem import Problem
from swarm.search.budget import Budget, Counts
from swarm.search.driver import Search, SearchState, run
from swarm.search.history import EpochRecord
from swarm.search.proxy import LOW_CORRELATION, confirm
from swarm.search.result import SearchResult
from swarm.selector.results import Evaluated
from swarm.selector.sizes import bounds_of_answer
from swarm.selector.telling import FitTasks
from swarm.storage.archive import Archive
from swarm.strategies.base import Strategy
from swarm.strategies.operators.memory import shrink

__all__ = ["Plan", "search"]

Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class Plan:
    """What is to be searched, and how.

    Attributes
    ----------
    problem : Problem
    strategy : Strategy
    hints : Hints
    budget : Budget
    seed : int
    proxy : mapping, estimator or None
        Parameters that make the estimator cheaper, or a cheaper one.
    racing : float or None
    pruning : bool
    n_jobs : int
    archive : str or None
    """

    problem: Problem
    strategy: Strategy
    hints: Hints
    budget: Budget
    seed: int
    proxy: Any
    racing: float | None
    pruning: bool
    n_jobs: int
    archive: str | None


def search(
    plan: Plan,
    tasks: FitTasks,
    callbacks: list[Callable[[EpochRecord, SearchState], Any]],
    fitted: Callable[[SearchState], dict[str, Any] | None],
) -> Evaluated:
    """Run the search of a plan, and read what it has evaluated.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C comes before anything was evaluated.
    """
    problem = plan.problem
    guide = _guide(plan)
    with ExitStack() as stack:
        archive = Archive() if plan.archive is None else Archive(plan.archive)
        stack.enter_context(closing(archive))
        evaluator = stack.enter_context(_evaluator(plan, guide or problem, archive))
        driver = Search(
            plan.strategy,
            problem.space,
            evaluator,
            plan.hints,
            plan.seed,
            plan.budget,
            plan.racing,
        )
        try:
            result = run(
                driver,
                callbacks=[*callbacks, tasks.stop_if_asked],
                step=tasks.around(driver.step, fitted),
            )
        except KeyboardInterrupt:
            known = _salvaged(driver, evaluator)
            if known is None:
                raise
            result = known
        if tasks.asked_to_stop:
            result = replace(result, reason="stopped")
        full = evaluator
        if guide is not None:
            full = stack.enter_context(_evaluator(plan, problem, archive))
            result = confirm(result, evaluator, full)
            _warn_of_poor_guide(result)
        bounds = bounds_of_answer(plan.strategy, problem.space)
        return Evaluated.of(result, problem, full.known, bounds)


def _evaluator(plan: Plan, problem: Problem, archive: Archive) -> CrossValidation:
    return CrossValidation(problem, archive, n_jobs=plan.n_jobs, pruning=plan.pruning)


def _guide(plan: Plan) -> Problem | None:
    """Pose the problem to the cheaper model, where there is one."""
    if plan.proxy is None:
        return None
    cheaper = plan.proxy
    if isinstance(cheaper, Mapping):
        try:
            cheaper = clone(plan.problem.estimator).set_params(**cheaper)
        except ValueError as error:
            raise ConfigError(f"proxy: {str(error).splitlines()[0]}") from error
    return plan.problem.with_estimator(cheaper, seed=plan.seed)


def _salvaged(driver: Search, evaluator: CrossValidation) -> SearchResult | None:
    """Answer with the best that is known, where not even the first epoch was finished."""
    space, exact = driver.space, evaluator.problem.exact_shrink
    masks: list[Bool] = []
    used: list[Bool] = []
    costs: list[float] = []
    for mask, record in evaluator.known.all():
        if record.complete and not record.failed and space.obeys(mask[None, :])[0]:
            masks.append(mask)
            used.append(mask & record.used.any(axis=0) if exact else mask)
            costs.append(record.cost)
    if not masks:
        return None
    answers = shrink(np.array(masks), np.array(used), space) if exact else np.array(masks)
    row = int(np.lexsort((answers.sum(axis=1), costs))[0])
    every = int.from_bytes(np.packbits(np.ones(evaluator.n_folds, dtype=bool)).tobytes(), "big")
    state = replace(
        driver.start(),
        best_mask=answers[row],
        best_cost=costs[row],
        asked={np.packbits(mask).tobytes(): every for mask in masks},
        counts=Counts(len(masks), len(masks), len(masks) * evaluator.n_folds),
    )
    return SearchResult(state, (), "interrupted", space)


def _warn_of_poor_guide(result: SearchResult) -> None:
    correlation = result.confirmed.correlation if result.confirmed else 1.0
    if correlation < LOW_CORRELATION:
        warnings.warn(
            f"the cheaper model ranks subsets at {correlation:.2f} to the full one, below "
            f"{LOW_CORRELATION}; let proxy differ less, or search without",
            stacklevel=5,
        )
