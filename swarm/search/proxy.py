"""Search with a proxy, a cheaper model, then measure the best subsets on the full model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.stats import spearmanr

from swarm.arrays import Bool, Float
from swarm.checks import require
from swarm.errors import EvaluationError
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.types import evaluate_fully
from swarm.search.asked import looked_up
from swarm.search.packing import first_of_equal, pack_folds, unpack_masks
from swarm.search.result import ConfirmedSubsets, SearchResult
from swarm.strategies.operators.memory import shrink

# Below this rank correlation the cheaper model is a poor guide.
LOW_CORRELATION = 0.8


def confirm(
    result: SearchResult,
    guide: CrossValidation,
    evaluator: CrossValidation,
    *,
    n_best: int,
    n_probes: int,
) -> SearchResult:
    """Measure the best subsets of a search, and a sample of the others, on the full model.

    Parameters
    ----------
    result : SearchResult
        Result of a search with the cheaper model.
    guide : CrossValidation
        Evaluator of the cheaper model. Units that none of its fold models used are dropped first,
        if that changes no cheaper model.
    evaluator : CrossValidation
        Evaluator of the full model, on the same data and folds.
    n_best : int
        Number of best subsets to measure. The best of all measured subsets is the result.
    n_probes : int
        Number of subsets, sampled from all that the search requested, to measure on both models.
        The rank correlation is computed over these alone: the best subsets differ too little for
        their ranks to agree between any two models.

    Returns
    -------
    SearchResult
        With :attr:`SearchResult.confirmed`.

    Raises
    ------
    EvaluationError
        If the full model fails on all of them.
    """
    require("n_best", n_best, at_least=1, whole=True)
    require("n_probes", n_probes, at_least=0, whole=True)
    best, best_cheap = best_subsets(result, guide, n_best)
    probes = probe_masks(result, n_probes)
    asked = _costs(guide, probes)
    masks, cheap = np.vstack([best, probes]), np.concatenate([best_cheap, asked])
    costs = _costs(evaluator, masks)
    if not np.isfinite(costs).any():
        raise EvaluationError(
            f"none of {len(masks)} subsets of the cheaper model has a finite cost on the full "
            "model; check the failed fits"
        )
    rank = result.space.rank(masks, cheap)
    kept = rank[first_of_equal(masks[rank])]
    correlation = rank_correlation(asked, costs[len(best) :])
    return replace(
        result, confirmed=ConfirmedSubsets(masks[kept], costs[kept], cheap[kept], correlation)
    )


def best_subsets(
    result: SearchResult, evaluator: CrossValidation, n: int | None = None
) -> tuple[Bool, Float]:
    """Return the `n` best distinct subsets that a search evaluated on all folds, and their costs.

    Units that no fold model used are dropped, if that changes no model.
    """
    space, asked = result.space, result.state.asked
    every = pack_folds(np.ones(evaluator.n_folds, dtype=bool))
    masks = unpack_masks((key for key, folds in asked.items() if folds == every), space.n_units)
    exact = evaluator.problem.exact_shrink
    costs, used = np.zeros(len(masks)), masks.copy() if exact else masks
    for row, (_, record) in enumerate(looked_up(masks, evaluator.known)):
        costs[row] = record.cost
        if exact:
            used[row] &= record.used.any(axis=0)
    if exact and len(masks):
        masks = shrink(masks, used, space)
    allowed = np.isfinite(costs) & space.obeys(masks)
    masks, costs = masks[allowed], costs[allowed]
    rank = space.rank(masks, costs)
    kept = rank[first_of_equal(masks[rank])[:n]]
    return masks[kept], costs[kept]


def probe_masks(result: SearchResult, count: int) -> Bool:
    """Return at most `count` requested subsets within the constraints, evenly spread."""
    masks = unpack_masks(result.state.asked, result.space.n_units)
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
