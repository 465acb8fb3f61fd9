"""Search with a proxy, then measure the best subsets on the full problem.

A proxy is a cheaper model, a part of the rows, or both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from swarm.arrays import Bool, Float, Int
from swarm.checks import require
from swarm.errors import ConfigError, DataError, EvaluationError
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.types import evaluate_fully
from swarm.problem.problem import Problem
from swarm.search.candidates import Candidates
from swarm.search.packing import first_of_equal, pack_folds, unpack_masks
from swarm.search.requests import read_records
from swarm.search.result import SearchResult
from swarm.strategies.operators.memory import shrink

# Keeps the generator of the rows apart from those of the search.
_ROWS_SEED = 13
# Levels of a number by which rows are sampled.
_N_LEVELS = 10


@dataclass(frozen=True, eq=False)
class Proxy:
    """What guides a search in place of its problem: a cheaper model, fewer rows, or both."""

    problem: Problem
    # How many of the best subsets, and of all requested ones, are measured on the full problem.
    n_best: int
    n_probes: int

    @property
    def sizes(self) -> dict[str, int]:
        """The two numbers by name."""
        return {"n_best": self.n_best, "n_probes": self.n_probes}


def on_part_of_rows(problem: Problem, share: float, groups: Any = None) -> Problem:
    """Return the problem on a stratified part of its rows, drawn with its seed.

    Every row stays in its fold, and the rows of a group together. Strata are classes, sets of
    labels or ten levels of a number, within the folds; that of a group is its first row's.
    """
    require("rows of the proxy", share, above=0, below=1)
    rng = np.random.default_rng([problem.seed, _ROWS_SEED])
    n_rows = len(problem.target)
    members, first = np.arange(n_rows), np.arange(n_rows)
    # Several columns are times, which group no rows.
    if groups is not None and np.ndim(groups) == 1:
        _, first, members = np.unique(np.asarray(groups), return_index=True, return_inverse=True)
    strata = np.unique(_strata(problem)[first], return_inverse=True)[1]
    drawn = rng.permutation(len(strata))
    by_stratum = drawn[np.argsort(strata[drawn], kind="stable")]
    sizes = np.bincount(strata)
    stratum = strata[by_stratum]
    place = np.empty(len(strata))
    rank = np.arange(len(strata)) - (np.cumsum(sizes) - sizes)[stratum]
    # Without an offset the first rows would be one of each stratum, however small it is.
    place[by_stratum] = (rank + rng.random(len(sizes))[stratum]) / sizes[stratum]
    order = drawn[np.argsort(place[drawn], kind="stable")]
    n_chosen = 1 + int(np.searchsorted(np.cumsum(np.bincount(members)[order]), share * n_rows))
    rows = np.flatnonzero(np.isin(members, order[:n_chosen]))
    try:
        return problem.on_rows(rows)
    except DataError as error:
        raise ConfigError(
            f"proxy.rows {share:g} leaves {len(rows):,} rows, too few for the folds: {error}; use "
            "a larger share, or all rows"
        ) from None


def _strata(problem: Problem) -> Int:
    """Return the stratum of each row, of its fold and of its class or level: int (n_rows,)."""
    target, n_rows = problem.target, len(problem.target)
    level = np.zeros(n_rows, dtype=np.int64)
    if problem.task in ("binary", "multiclass", "multilabel"):
        axis = 0 if target.ndim == 2 else None
        level = np.unique(target, axis=axis, return_inverse=True)[1].reshape(-1)
    elif problem.task == "regression":
        ranks = np.empty(n_rows, dtype=np.int64)
        ranks[np.argsort(target, kind="stable")] = np.arange(n_rows)
        level = ranks * _N_LEVELS // n_rows
    fold = np.zeros(n_rows, dtype=np.int64)
    for number, (_, test) in enumerate(problem.folds):
        fold[test] = number + 1
    return level * (problem.n_folds + 1) + fold


def measure_best(
    result: SearchResult,
    guide: CrossValidation,
    evaluator: CrossValidation,
    *,
    n_best: int,
    n_probes: int,
) -> SearchResult:
    """Measure the best subsets of a search on a proxy, and some others, on the full problem.

    The best of all measured subsets is the result. The rank correlation is that of the sample of
    `n_probes` alone, as the best subsets differ too little for their ranks to agree. Ctrl-C leaves
    what was measured so far, and is raised again if that is nothing.
    """
    require("n_best", n_best, at_least=1, whole=True)
    require("n_probes", n_probes, at_least=0, whole=True)
    best, best_cheap = best_subsets(result, guide, n_best)
    if not len(best):
        raise result.no_subset_error()
    probes = probe_masks(result, n_probes)
    probe_costs = _costs(guide, probes)
    masks, cheap = np.vstack([best, probes]), np.concatenate([best_cheap, probe_costs])
    try:
        costs, interrupted_step = _costs(evaluator, masks), ""
    except KeyboardInterrupt:
        costs, interrupted_step = (
            _measured_costs(evaluator, masks),
            "the measurement on the full model",
        )
        if not np.isfinite(costs).any():
            raise
    if not np.isfinite(costs).any():
        raise EvaluationError(
            f"none of {len(masks)} subsets of the cheaper model has a finite cost on the full "
            "model; check the failed fits"
        )
    rank = result.space.rank(masks, cheap)
    rows = rank[first_of_equal(masks[rank])]
    rows = rows[~np.isnan(costs[rows])]
    correlation = None
    if n_probes and not interrupted_step:
        correlation = rank_correlation(probe_costs, costs[len(best) :])
    measured = Candidates.build(masks[rows], costs[rows], search_costs=cheap[rows])
    return replace(
        result, measured=measured, correlation=correlation, interrupted_step=interrupted_step
    )


def _measured_costs(evaluator: CrossValidation, masks: Bool) -> Float:
    """Return the cost of each mask, NaN where not every fold was trained."""
    records = (record for _, record in read_records(masks, evaluator.evaluations))
    return np.array([record.cost if record.complete else np.nan for record in records])


def best_subsets(
    result: SearchResult, evaluator: CrossValidation, n: int | None = None
) -> tuple[Bool, Float]:
    """Return the `n` best distinct subsets that a search evaluated on all folds, and their costs.

    Units that no fold model used are dropped, if that changes no model.
    """
    space, requests = result.space, result.state.requests
    every = pack_folds(np.ones(evaluator.n_folds, dtype=bool))
    masks = unpack_masks((key for key, folds in requests.items() if folds == every), space.n_units)
    exact = evaluator.problem.exact_shrink
    costs, used = np.zeros(len(masks)), masks.copy() if exact else masks
    for row, (_, record) in enumerate(read_records(masks, evaluator.evaluations)):
        costs[row] = record.cost
        if exact:
            used[row] &= record.units_used(masks[row])
    if exact and len(masks):
        masks = shrink(masks, used, space)
    allowed = np.isfinite(costs) & space.obeys(masks)
    masks, costs = masks[allowed], costs[allowed]
    rank = space.rank(masks, costs)
    rows = rank[first_of_equal(masks[rank])[:n]]
    return masks[rows], costs[rows]


def probe_masks(result: SearchResult, count: int) -> Bool:
    """Return at most `count` requested subsets within the constraints, evenly spread."""
    masks = unpack_masks(result.state.requests, result.space.n_units)
    masks = masks[result.space.obeys(masks)]
    places = np.round(np.linspace(0, len(masks) - 1, min(count, len(masks)))).astype(np.int64)
    return masks[places]


def _costs(evaluator: CrossValidation, masks: Bool) -> Float:
    """Return the cost of each mask; there may be none."""
    return evaluate_fully(evaluator, masks).costs if len(masks) else np.zeros(0)


def rank_correlation(one: Float, other: Float) -> float:
    """Return Spearman's rank correlation of the finite pairs; NaN if one side is constant."""
    both = np.isfinite(one) & np.isfinite(other)
    if min(len(np.unique(one[both])), len(np.unique(other[both]))) < 2:
        return float("nan")
    return float(spearmanr(one[both], other[both]).statistic)
