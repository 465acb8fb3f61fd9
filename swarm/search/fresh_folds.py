"""Evaluate the best subsets of a search again, on fold partitions that the search never used.

The best of many subsets is partly the luckiest on the folds of the search. Costs on fresh folds do
not have this bias (up to the choice among the few candidates), and their gap to the searched costs
is the winner's curse, measured without test rows. See Cawley and Talbot (2010), On over-fitting in
model selection, and Reunanen (2003), Overfitting in making comparisons between variable selection
methods, both in the Journal of Machine Learning Research.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from swarm.arrays import Bool
from swarm.checks import require
from swarm.errors import InputError
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.types import evaluate_fully
from swarm.problem.problem import Problem
from swarm.rows import Fold, derived_seed, partition_key
from swarm.search.candidates import Candidates, pareto_front
from swarm.search.confirmation import Confirmation, ConfirmationPlan
from swarm.search.elimination import ELIMINATION, eliminate
from swarm.search.packing import first_of_equal, pack_masks
from swarm.search.proxy import best_subsets
from swarm.search.rankings import MOST_PREFIXES, RANKINGS, Rankings, prefers_rankings
from swarm.search.requests import requested_masks
from swarm.search.result import SearchResult

# Standard errors by which another subset has to be better than what is preferred. With half of one,
# ten columns or a tenth were nearest to the better of search and elimination, of LightGBM, logistic
# regression and forests alike; the search of many more units than rows deserves more doubt.
_DOUBT_OF_ELIMINATION, _DOUBT_OF_RANKINGS = 0.5, 2.0
# All prefixes of rankings are measured on so many folds, and the best of them on the others.
_FIRST_FOLDS = 5


def fresh_problem(problem: Problem, repeats: int, first: int = 1) -> Problem | None:
    """Return the problem on `repeats` fresh fold partitions, as one list of folds.

    Partitions with a fold that cannot be trained on, or that are those of the search, are left
    out; None if there is no other.
    """
    require("repeats", repeats, at_least=1, whole=True)
    division = problem.division
    if division is None or division.draw is None:
        return None
    seen = {partition_key(problem.folds)}
    folds: list[Fold] = []
    for repeat in range(first, first + repeats):
        try:
            with warnings.catch_warnings():
                # They were issued when the folds of the search were drawn.
                warnings.simplefilter("ignore", UserWarning)
                made = list(division.draw(derived_seed(division.seed, repeat)))
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
    """Evaluate the best subsets of a search on fresh folds, and choose among them and rankings.

    See :func:`candidates` and :func:`measure_rivals`. Without a finite cost there is no
    confirmation.
    """
    masks = candidates(result, searched, plan)
    everything = ~result.space.forbidden
    fold_costs = evaluate_fully(fresh, np.vstack([masks, everything])).fold_costs
    # A failed subset has no fold costs.
    fold_costs = np.where(np.isnan(fold_costs), np.inf, fold_costs)
    table = Candidates.build(masks, np.full(len(masks), np.nan), fresh_fold_costs=fold_costs[:-1])
    # Of equal subsets that of the ranking is kept: its fresh folds did not choose it.
    table = ranked_candidates(result).append(table)
    table = table.take(first_of_equal(table.masks))
    keys = set(pack_masks(np.vstack([masks, everything])))
    n_fits = len(_models(keys, range(fresh.n_folds)) - result.rival_models)
    table = table.take(result.space.rank(table.masks, table.fresh_costs))
    if not plan.replaces_search:
        n_fits += _unrequested(result, table.masks, searched.n_folds)
        costs = evaluate_fully(searched, table.masks).costs
        table = replace(table, costs=costs, search_costs=costs)
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
        n_fits=n_fits,
        replaces_search=plan.replaces_search,
        **_preference(fresh.problem),
    )
    if plan.replaces_search:
        # On the folds of a search its costs would be those of a ranking that has seen their test
        # rows; its models there have importances.
        answer = table.masks[[confirmation.chosen]]
        evaluate_fully(searched, answer)
        n_fits += _unrequested(result, answer, searched.n_folds)
        table = replace(table, costs=table.fresh_costs, search_costs=table.fresh_costs)
        confirmation = replace(confirmation, candidates=table, n_fits=n_fits)
    return replace(result, confirmation=confirmation)


def _preference(problem: Problem) -> dict[str, Any]:
    """Return the origins that are preferred, and by how many standard errors."""
    if problem.space.min_size == problem.space.max_size:
        return {"preferred": (ELIMINATION,), "doubt": _DOUBT_OF_ELIMINATION}
    if prefers_rankings(problem):
        return {"preferred": RANKINGS, "doubt": _DOUBT_OF_RANKINGS}
    return {}


def _unrequested(result: SearchResult, masks: Bool, n_folds: int) -> int:
    """Count the models of masks on the folds of a search that it has not requested before."""
    requested, needed = requested_masks(result, n_folds)
    n_requested = dict(zip(pack_masks(requested), needed.sum(axis=1).tolist(), strict=True))
    return sum(n_folds - n_requested.get(key, 0) for key in pack_masks(masks))


def measure_rivals(
    result: SearchResult,
    fresh: CrossValidation,
    rankings: Rankings | None,
    eliminator: CrossValidation | None,
    n_kept: int | None,
) -> SearchResult:
    """Measure what competes with a search, or replaces it, on fresh folds.

    They are the first units of rankings, and what an elimination leaves, each made on the training
    rows of its fold. All of them are measured on a few folds, and the best `n_kept` on the others;
    with None, all on all.

    Parameters
    ----------
    result : SearchResult
    fresh : CrossValidation
    rankings : Rankings or None
    eliminator : CrossValidation or None
        Of :func:`swarm.search.elimination.elimination_problem` on the same folds.
    n_kept : int or None
    """
    n_folds, n_fits = fresh.n_folds, 0
    table = _no_candidates(result) if rankings is None else rankings.prefixes()
    left = None
    if eliminator is not None:
        left, n_fits = eliminate(eliminator)
    if left is not None:
        unknown, name = np.array([np.nan]), np.array([ELIMINATION])
        table = table.append(Candidates.build(left[:1], unknown, origin=name))
    if not len(table):
        return result
    table = replace(table, fresh_fold_costs=np.full((len(table), n_folds), np.nan))
    trained = set[tuple[int, bytes]]()

    def measured(table: Candidates, folds: range) -> Candidates:
        """Fill in the costs on some of the folds."""
        if not len(folds):
            return table
        of_ranking = table.origin != ELIMINATION
        masks = []
        for fold in folds:
            of_fold = np.empty_like(table.masks)
            if rankings is not None:
                train = fresh.problem.folds[fold][0]
                of_fold[of_ranking] = rankings.prefixes_of(table.take(of_ranking), train)
            if left is not None:
                of_fold[~of_ranking] = left[1 + fold]
            masks.append(of_fold)
            trained.update(_models(pack_masks(of_fold), [fold]))
        costs = fresh.fold_costs(np.vstack(masks), np.repeat(folds, len(table)))
        filled = table.fresh_fold_costs.copy()
        filled[:, folds] = costs.reshape(len(folds), len(table)).T
        return replace(table, fresh_fold_costs=filled)

    n_kept = len(table) if n_kept is None else n_kept
    n_first = min(_FIRST_FOLDS, n_folds)
    table = measured(table, range(n_first))
    order = result.space.rank(table.masks, table.fresh_fold_costs[:, :n_first].mean(axis=1))
    best, others = table.take(order[:n_kept]), table.take(order[n_kept:])
    best = measured(best, range(n_first, n_folds))
    table = best.append(others)
    n_fits += len(trained)
    return replace(result, rivals=table, n_rival_fits=n_fits, rival_models=frozenset(trained))


def most_rival_fits(n_folds: int, n_kept: int | None) -> int:
    """Return how many models of rankings :func:`measure_rivals` trains at most."""
    n_first = n_folds if n_kept is None else min(_FIRST_FOLDS, n_folds)
    return MOST_PREFIXES * n_first + (n_kept or 0) * (n_folds - n_first)


def candidates(result: SearchResult, evaluator: CrossValidation, plan: ConfirmationPlan) -> Bool:
    """Return the subsets of a search (n, n_units) to evaluate on fresh folds.

    They are `n_best` subsets with the lowest cost on the folds of the search, and the subset of the
    units that at least half of those share that the strategy proposed; if the goal is the size, the
    best of each size as well. Where rankings were measured, these are half of the `n_best`. A
    strategy with a rule of its own has one candidate. Where rankings replace the search, it has
    none.
    """
    if plan.replaces_search:
        return _no_candidates(result).masks
    if result.state.strategy.members.answer is not None:
        return result.best_mask[None, :]
    if result.measured is None:
        masks, costs = best_subsets(result, evaluator)
    else:
        measured = result.measured
        finite = np.flatnonzero(np.isfinite(measured.costs))
        finite = finite[result.space.rank(measured.masks[finite], measured.costs[finite])]
        masks, costs = measured.masks[finite], measured.costs[finite]
    if not len(masks):
        return result.best_mask[None, :]
    best = masks[: plan.n_best - len(ranked_candidates(result))]
    shared = best.mean(axis=0) >= 0.5
    parts = [best, shared[None, :]] if result.space.obeys(shared[None, :])[0] else [best]
    if plan.goal == "size":
        front = pareto_front(masks.sum(axis=1), costs)
        spread = np.linspace(0, len(front) - 1, min(plan.n_best, len(front)))
        parts.append(masks[front[np.unique(spread.round().astype(int))]])
    both = np.vstack(parts)
    return both[first_of_equal(both)]


def ranked_candidates(result: SearchResult) -> Candidates:
    """Return what rankings and an elimination propose, if it was measured on all fresh folds."""
    if result.rivals is None:
        return _no_candidates(result)
    rows = np.flatnonzero(~np.isnan(result.rivals.fresh_fold_costs).any(axis=1))
    return result.rivals.take(rows)


def _models(keys: Iterable[bytes], folds: Iterable[int]) -> set[tuple[int, bytes]]:
    """Return each fold with each packed mask."""
    return set(product(folds, keys))


def _no_candidates(result: SearchResult) -> Candidates:
    return Candidates.build(np.zeros((0, result.space.n_units), dtype=bool), np.empty(0))
