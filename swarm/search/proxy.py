"""Search with a proxy, then measure the best subsets on the full problem.

A proxy is a cheaper model, a sample of the rows, or both.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import spearmanr

from swarm.arrays import Bool, Float
from swarm.checks import require
from swarm.errors import ConfigError, DataError, EvaluationError
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.types import evaluate_fully
from swarm.problem.problem import Problem
from swarm.rows import derived_seed, hold_out
from swarm.search.candidates import Candidates
from swarm.search.packing import first_of_equal, pack_folds, unpack_masks
from swarm.search.requests import read_records
from swarm.search.result import SearchResult
from swarm.strategies.operators.memory import shrink

# The sample must not have the seed of the folds: it would consist of whole folds.
_ROWS_SEED = 13


@dataclass(frozen=True, eq=False)
class Proxy:
    """A problem that guides a search in place of its own: a cheaper model, fewer rows, or both.

    Attributes
    ----------
    problem : Problem
        The cheaper problem.
    n_best, n_probes : int
        Numbers of the best subsets, and of a sample of all requested ones, that are measured on
        the full problem.
    """

    problem: Problem
    n_best: int
    n_probes: int

    @property
    def sizes(self) -> dict[str, int]:
        """The two numbers by name."""
        return {"n_best": self.n_best, "n_probes": self.n_probes}


def on_part_of_rows(problem: Problem, share: float) -> Problem:
    """Return the problem on a share of its rows, drawn with its seed, see :func:`hold_out`.

    Every row stays in its fold, and the rows of a group together.
    """
    require("rows of the proxy", share, above=0, below=1)
    assert problem.division is not None
    rows = problem.division.rows
    seed = derived_seed(problem.seed, _ROWS_SEED)
    try:
        return problem.on_rows(hold_out(rows, rows.kind, share, seed=seed)[1])
    except DataError as error:
        raise ConfigError(f"proxy.rows {share:g} leaves too few rows: {error}") from None


def measure_best(
    result: SearchResult,
    guide: CrossValidation,
    evaluator: CrossValidation,
    *,
    n_best: int,
    n_probes: int,
) -> SearchResult:
    """Measure the best subsets of a search on a proxy, and a sample, on the full problem.

    The best of all measured subsets is the result. The rank correlation is that of only the sample
    of `n_probes`, as the best subsets differ too little for their ranks to agree. Ctrl-C ends the
    measurement with the costs so far, and is raised again if there are none.
    """
    require("n_best", n_best, at_least=1, whole=True)
    require("n_probes", n_probes, at_least=0, whole=True)
    best, best_proxy_costs = best_subsets(result, guide, n_best)
    if not len(best):
        raise result.no_subset_error()
    probes = probe_masks(result, n_probes)
    probe_costs = _costs(guide, probes)
    masks = np.vstack([best, probes])
    proxy_costs = np.concatenate([best_proxy_costs, probe_costs])
    interrupted_step = ""
    try:
        costs = _costs(evaluator, masks)
    except KeyboardInterrupt:
        costs = _costs_so_far(evaluator, masks)
        interrupted_step = "the measurement on the full model"
        if not np.isfinite(costs).any():
            raise
    if not np.isfinite(costs).any():
        raise EvaluationError(
            f"none of {len(masks)} subsets of the cheaper model has a finite cost on the full "
            "model; check the failed fits"
        )
    rank = result.space.rank(masks, proxy_costs)
    rows = rank[first_of_equal(masks[rank])]
    rows = rows[~np.isnan(costs[rows])]
    correlation = None
    if n_probes and not interrupted_step:
        correlation = rank_correlation(probe_costs, costs[len(best) :])
    measured = Candidates.build(masks[rows], costs[rows], search_costs=proxy_costs[rows])
    return replace(
        result, measured=measured, correlation=correlation, interrupted_step=interrupted_step
    )


def _costs_so_far(evaluator: CrossValidation, masks: Bool) -> Float:
    """Return the cost of each mask, NaN if not every fold was trained."""
    records = (record for _, record in read_records(masks, evaluator.evaluations))
    return np.array([record.cost if record.complete else np.nan for record in records])


def best_subsets(
    result: SearchResult, evaluator: CrossValidation, n: int | None = None
) -> tuple[Bool, Float]:
    """Return the `n` best distinct subsets that a search evaluated on all folds, and their costs.

    Units that no fold model used are dropped, if that changes no model.
    """
    space = result.space
    all_folds = pack_folds(np.ones(evaluator.n_folds, dtype=bool))
    complete = (key for key, folds in result.state.requests.items() if folds == all_folds)
    masks = unpack_masks(complete, space.n_units)
    exact = evaluator.problem.exact_shrink
    costs = np.zeros(len(masks))
    used = masks.copy() if exact else masks
    for row, (_, record) in enumerate(read_records(masks, evaluator.evaluations)):
        costs[row] = record.cost
        if exact:
            used[row] &= record.units_used(masks[row])
    if exact and len(masks):
        masks = shrink(masks, used, space)
    is_allowed = np.isfinite(costs) & space.obeys(masks)
    masks, costs = masks[is_allowed], costs[is_allowed]
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


def rank_correlation(x: Float, y: Float) -> float:
    """Return Spearman's rank correlation of the finite pairs; NaN if one side is constant."""
    is_pair = np.isfinite(x) & np.isfinite(y)
    x, y = x[is_pair], y[is_pair]
    if min(len(np.unique(x)), len(np.unique(y))) < 2:
        return float("nan")
    return float(spearmanr(x, y).statistic)
