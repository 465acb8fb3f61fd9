"""Evaluate the best subsets of a search again, on fold partitions that the search never used.

The best of many subsets is partly the luckiest on the folds of the search. Costs on fresh folds do
not have this bias (up to the choice among the few candidates), and their gap to the searched costs
is the winner's curse, measured without test rows. See Cawley and Talbot (2010), On over-fitting in
model selection, and Reunanen (2003), Overfitting in making comparisons between variable selection
methods, both in the Journal of Machine Learning Research.
"""

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
from swarm.search.rankings import MAX_PREFIXES, RANKINGS, Rankings, prefers_rankings
from swarm.search.requests import requested_masks
from swarm.search.result import SearchResult

# Standard errors by which another subset has to be better than a preferred one. With half of one,
# ten columns or a tenth were nearest to the better of search and elimination, for LightGBM,
# logistic regression and forests alike; the search of many more units than rows is less reliable.
_DOUBT_OF_ELIMINATION = 0.5
_DOUBT_OF_RANKINGS = 2.0
# All prefixes of rankings are measured on so many folds, and the best of them on the others.
_N_FIRST_FOLDS = 5


def fresh_problem(problem: Problem, repeats: int, first: int = 1) -> Problem | None:
    """Return the problem on `repeats` fresh fold partitions, as one list of folds.

    Partitions with a fold that cannot be trained on, and those of the search, are left out; the
    problem is None if there is no other.
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
                # The folds of the search have issued the same warnings.
                warnings.simplefilter("ignore", UserWarning)
                partition = list(division.draw(derived_seed(division.seed, repeat)))
            problem.with_folds(partition)
        except InputError:
            continue
        if partition_key(partition) not in seen:
            seen.add(partition_key(partition))
            folds += partition
    return problem.with_folds(folds) if len(folds) > 1 else None


def confirm_on_fresh_folds(
    result: SearchResult,
    searched: CrossValidation,
    fresh: CrossValidation,
    plan: ConfirmationPlan,
) -> SearchResult:
    """Evaluate the best subsets of a search on fresh folds, and choose among them and rankings.

    See :func:`candidates` and :func:`measure_rivals`. If no cost is finite, the result has no
    confirmation.
    """
    masks = candidates(result, searched, plan)
    with_all = np.vstack([masks, ~result.space.forbidden])
    fold_costs = evaluate_fully(fresh, with_all).fold_costs
    # A failed subset has no fold costs.
    fold_costs = np.where(np.isnan(fold_costs), np.inf, fold_costs)
    table = Candidates.build(masks, np.full(len(masks), np.nan), fresh_fold_costs=fold_costs[:-1])
    # Keep the ranking's copy of a duplicate: it was not chosen on these folds.
    table = ranked_candidates(result).append(table)
    table = table.take(first_of_equal(table.masks))
    keys = set(pack_masks(with_all))
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
        # The models on the folds of a search have importances. Their costs are too low, as the
        # ranking has seen the test rows, so that those on the fresh folds stand for them.
        answer = table.masks[[confirmation.chosen]]
        evaluate_fully(searched, answer)
        n_fits += _unrequested(result, answer, searched.n_folds)
        table = replace(table, costs=table.fresh_costs, search_costs=table.fresh_costs)
        confirmation = replace(confirmation, candidates=table, n_fits=n_fits)
    return replace(result, confirmation=confirmation)


def _preference(problem: Problem) -> dict[str, Any]:
    """Return the origins that are preferred, and by how many standard errors."""
    if prefers_rankings(problem):
        return {"preferred": RANKINGS, "doubt": _DOUBT_OF_RANKINGS}
    if problem.space.min_size == problem.space.max_size:
        return {"preferred": (ELIMINATION,), "doubt": _DOUBT_OF_ELIMINATION}
    return {}


def _unrequested(result: SearchResult, masks: Bool, n_folds: int) -> int:
    """Count the models of masks on the folds of the search that it has not requested."""
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
    """Measure the rivals of a search, or what replaces it, on fresh folds.

    Rivals are the first units of rankings and the units that elimination leaves, each computed on
    the training rows of the fold. All rivals are measured on a few folds, and the best `n_kept` on
    the others; all are if it is None. `eliminator` evaluates the problem of
    :func:`swarm.search.elimination.elimination_problem` on the same folds.
    """
    n_folds = fresh.n_folds
    n_fits = 0
    table = _no_candidates(result) if rankings is None else rankings.prefixes()
    eliminated = None
    if eliminator is not None:
        eliminated, n_fits = eliminate(eliminator)
    if eliminated is not None:
        unknown = np.array([np.nan])
        origin = np.array([ELIMINATION])
        table = table.append(Candidates.build(eliminated[:1], unknown, origin=origin))
    if not len(table):
        return result
    table = replace(table, fresh_fold_costs=np.full((len(table), n_folds), np.nan))
    models: set[tuple[int, bytes]] = set()

    def measure(table: Candidates, folds: range) -> Candidates:
        """Fill in the costs on some of the folds."""
        if not len(folds):
            return table
        is_ranked = table.origin != ELIMINATION
        masks = []
        for fold in folds:
            fold_masks = np.empty_like(table.masks)
            if rankings is not None:
                train = fresh.problem.folds[fold][0]
                fold_masks[is_ranked] = rankings.prefixes_of(table.take(is_ranked), train)
            if eliminated is not None:
                fold_masks[~is_ranked] = eliminated[1 + fold]
            masks.append(fold_masks)
            models.update(_models(pack_masks(fold_masks), [fold]))
        costs = fresh.fold_costs(np.vstack(masks), np.repeat(folds, len(table)))
        fold_costs = table.fresh_fold_costs.copy()
        fold_costs[:, folds] = costs.reshape(len(folds), len(table)).T
        return replace(table, fresh_fold_costs=fold_costs)

    n_kept = len(table) if n_kept is None else n_kept
    n_first = min(_N_FIRST_FOLDS, n_folds)
    table = measure(table, range(n_first))
    order = result.space.rank(table.masks, table.fresh_fold_costs[:, :n_first].mean(axis=1))
    best = measure(table.take(order[:n_kept]), range(n_first, n_folds))
    return replace(
        result,
        rivals=best.append(table.take(order[n_kept:])),
        n_rival_fits=n_fits + len(models),
        rival_models=frozenset(models),
    )


def most_rival_fits(n_folds: int, n_kept: int | None) -> int:
    """Largest number of models of rankings that :func:`measure_rivals` trains."""
    n_first = n_folds if n_kept is None else min(_N_FIRST_FOLDS, n_folds)
    return MAX_PREFIXES * n_first + (n_kept or 0) * (n_folds - n_first)


def candidates(result: SearchResult, evaluator: CrossValidation, plan: ConfirmationPlan) -> Bool:
    """Return the subsets of a search (n, n_units) to evaluate on fresh folds.

    These are the `n_best` subsets with the lowest cost on the folds of the search, and the subset
    of the units that at least half of them share. If the goal is the size, the best subset of each
    size is added. With measured rankings, half of `n_best` are from the search. A strategy with a
    rule of its own has one candidate, and a search that rankings replace has none.
    """
    if plan.replaces_search:
        return _no_candidates(result).masks
    if result.state.strategy.members.answer is not None:
        return result.best_mask[None, :]
    if result.measured is None:
        masks, costs = best_subsets(result, evaluator)
    else:
        measured = result.measured.take(np.isfinite(result.measured.costs))
        measured = measured.take(result.space.rank(measured.masks, measured.costs))
        masks, costs = measured.masks, measured.costs
    if not len(masks):
        return result.best_mask[None, :]
    best = masks[: plan.n_best - len(ranked_candidates(result))]
    shared = best.mean(axis=0, keepdims=True) >= 0.5
    proposed = [best, shared[result.space.obeys(shared)]]
    if plan.goal == "size":
        front = pareto_front(masks.sum(axis=1), costs)
        places = np.linspace(0, len(front) - 1, min(plan.n_best, len(front)))
        proposed.append(masks[front[np.unique(places.round().astype(int))]])
    proposed_masks = np.vstack(proposed)
    return proposed_masks[first_of_equal(proposed_masks)]


def ranked_candidates(result: SearchResult) -> Candidates:
    """Return the subsets of rankings and elimination that were measured on all fresh folds."""
    if result.rivals is None:
        return _no_candidates(result)
    rows = np.flatnonzero(~np.isnan(result.rivals.fresh_fold_costs).any(axis=1))
    return result.rivals.take(rows)


def _models(keys: Iterable[bytes], folds: Iterable[int]) -> set[tuple[int, bytes]]:
    """Return each fold with each packed mask."""
    return set(product(folds, keys))


def _no_candidates(result: SearchResult) -> Candidates:
    return Candidates.build(np.zeros((0, result.space.n_units), dtype=bool), np.empty(0))
