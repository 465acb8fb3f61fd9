"""Evaluate the best subsets of a search again, on fold partitions that the search never used.

The best of many subsets is partly the luckiest on the folds of the search. Costs on fresh folds do
not have this bias (up to the choice among the few candidates), and their gap to the searched costs
is the winner's curse, measured without test rows. See Cawley and Talbot (2010), On over-fitting in
model selection, and Reunanen (2003), Overfitting in making comparisons between variable selection
methods, both in the Journal of Machine Learning Research.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from swarm.arrays import Bool
from swarm.checks import require
from swarm.errors import InputError
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.types import evaluate_fully
from swarm.problem.folds import Fold, partition_key
from swarm.problem.problem import Problem
from swarm.search.candidates import Candidates, pareto_front
from swarm.search.confirmation import Confirmation, ConfirmationPlan
from swarm.search.packing import first_of_equal
from swarm.search.proxy import best_subsets
from swarm.search.rankings import prefixes
from swarm.search.result import SearchResult


def fresh_seed(seed: int, repeat: int) -> int:
    """Seed of a fresh fold partition; `repeat` counts from 1, 0 is that of a prefilter."""
    return int(np.random.SeedSequence([seed, repeat]).generate_state(1)[0])


def fresh_problem(
    problem: Problem,
    partition: Callable[[int], Sequence[Fold]],
    seed: int,
    repeats: int,
    first: int = 1,
) -> Problem | None:
    """Return the problem on `repeats` fresh fold partitions, as one list of folds.

    Partitions with a fold that cannot be trained on, or that are those of the search, are left
    out; None if there is no other. The seed is that of the folds of the search.
    """
    require("repeats", repeats, at_least=1, whole=True)
    seen = {partition_key(problem.folds)}
    folds: list[Fold] = []
    for repeat in range(first, first + repeats):
        try:
            made = list(partition(fresh_seed(seed, repeat)))
            problem.with_folds(made)
        except InputError:
            continue
        if partition_key(made) not in seen:
            seen.add(partition_key(made))
            folds += made
    return problem.with_folds(folds) if len(folds) > 1 else None


def confirm_on_fresh_folds(
    result: SearchResult,
    searched: CrossValidation,
    fresh: CrossValidation,
    plan: ConfirmationPlan,
) -> SearchResult:
    """Evaluate the best subsets of a search on fresh folds, and choose among them.

    See :func:`candidates`. Without a finite cost there is no confirmation.
    """
    table = candidates(result, searched, plan)
    costs = evaluate_fully(searched, table.masks).costs
    everything = ~result.space.forbidden
    fold_costs = evaluate_fully(fresh, np.vstack([table.masks, everything])).fold_costs
    # A failed subset has no fold costs.
    fold_costs = np.where(np.isnan(fold_costs), np.inf, fold_costs)
    table = replace(table, costs=costs, searched=costs, fresh=fold_costs[:-1])
    table = table.take(result.space.rank(table.masks, table.fresh_costs))
    table = table.take(np.isfinite(table.fresh_costs))
    if not len(table):
        return result
    folds = plan.problem.folds
    confirmation = Confirmation(
        candidates=table,
        baseline=fold_costs[-1],
        n_train=float(np.mean([len(train) for train, _ in folds])),
        n_test=float(np.mean([len(test) for _, test in folds])),
        goal=plan.goal,
        margin=plan.margin,
    )
    return replace(result, confirmation=confirmation)


def measure_prefixes(
    result: SearchResult, evaluator: CrossValidation, mask: Bool, seed: int
) -> SearchResult:
    """Measure the first units of rankings on the folds of the search, see `prefixes`.

    A strategy with a rule of its own has no other candidate than its answer.
    """
    if result.state.strategy.members.answer is not None:
        return result
    table = prefixes(evaluator.problem, mask, seed)
    if not len(table):
        return result
    costs = evaluate_fully(evaluator, table.masks).costs
    return replace(result, prefixes=replace(table, costs=costs, searched=costs))


def candidates(
    result: SearchResult, evaluator: CrossValidation, plan: ConfirmationPlan
) -> Candidates:
    """Return the subsets to evaluate on fresh folds; those not of the search have no cost yet.

    They are `n_best` subsets with the lowest cost on the folds of the search, and the subset of the
    units that at least half of those share that the strategy proposed; if the goal is the size, the
    best of each size as well. Where rankings were measured, half of the `n_best` are the best of
    their prefixes: a search fits its folds, so that few prefixes would be among the best of both.
    The number of subsets on fresh folds is the same. A strategy with a rule of its own has one
    candidate.
    """
    if result.state.strategy.members.answer is not None:
        return _unmeasured(result.best_mask[None, :])
    if result.measured is None:
        masks, costs = best_subsets(result, evaluator)
    else:
        measured = result.measured
        finite = np.flatnonzero(np.isfinite(measured.costs))
        finite = finite[result.space.rank(measured.masks[finite], measured.costs[finite])]
        masks, costs = measured.masks[finite], measured.costs[finite]
    if not len(masks):
        return _unmeasured(result.best_mask[None, :])
    ranked = _best_prefixes(result, plan.n_best // 2)
    best = masks[: plan.n_best - len(ranked)]
    shared = best.mean(axis=0) >= 0.5
    parts = [best, shared[None, :]] if result.space.obeys(shared[None, :])[0] else [best]
    if plan.goal == "size":
        front = pareto_front(masks.sum(axis=1), costs)
        spread = np.linspace(0, len(front) - 1, min(plan.n_best, len(front)))
        parts.append(masks[front[np.unique(spread.round().astype(int))]])
    table = _unmeasured(np.vstack(parts)).append(ranked)
    return table.take(first_of_equal(table.masks))


def _best_prefixes(result: SearchResult, n: int) -> Candidates:
    """Return the `n` prefixes of rankings with the lowest cost on the folds of the search."""
    table = result.prefixes
    if table is None:
        return _unmeasured(np.zeros((0, result.space.n_units), dtype=bool))
    table = table.take(np.isfinite(table.costs))
    return table.take(result.space.rank(table.masks, table.costs)[:n])


def _unmeasured(masks: Bool) -> Candidates:
    return Candidates.build(masks, np.full(len(masks), np.nan))
