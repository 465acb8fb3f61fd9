"""Pruning: stop training masks that cannot win.

The limit of a mask is the highest cost with which it can win. Costs are non-negative, so that its
folds, trained in order, stop mattering once they put its mean above the limit, or one has failed.
"""

import math

import numpy as np

from swarm.arrays import Bool, Float, Int

# Sums in another order differ in the last digits; this tolerance keeps ties below the limit.
_TIE_TOLERANCE = 1e-10


def limits_of(incumbents: Float) -> Float:
    """Return the limits of masks with these incumbents (n,); ties stay below despite rounding."""
    finite = np.where(np.isfinite(incumbents), incumbents, 0.0)
    with np.errstate(over="ignore"):
        return incumbents + _TIE_TOLERANCE * np.maximum(1.0, np.abs(finite))


def needed_folds(fold_costs: Float, fold_order: Int, limits: Float) -> tuple[Bool, Int]:
    """Return the needed folds of masks (n, n_folds), and the fold to train next (n,) or -1.

    Folds (m,) are examined in `fold_order`, regardless of which are known (not NaN), so that
    neither decisions nor the budget of a search depend on the contents of an archive.
    """
    n, n_folds = fold_costs.shape
    needed = np.zeros((n, n_folds), dtype=bool)
    next_folds = np.full(n, -1)
    if n == 0 or len(fold_order) == 0:
        return needed, next_folds
    costs = fold_costs[:, fold_order]
    sums_before = np.zeros(costs.shape)
    with np.errstate(invalid="ignore"):
        np.cumsum(costs[:, :-1], axis=1, out=sums_before[:, 1:])
        is_decided = (sums_before / n_folds > limits[:, None]) | np.isinf(sums_before)
    stops = is_decided | np.isnan(costs)
    n_needed = np.where(stops.any(axis=1), stops.argmax(axis=1), costs.shape[1])
    needed[:, fold_order] = np.arange(costs.shape[1]) < n_needed[:, None]
    rows = np.flatnonzero(stops.any(axis=1))
    rows = rows[~is_decided[rows, n_needed[rows]]]
    next_folds[rows] = fold_order[n_needed[rows]]
    return needed, next_folds


def next_fold(fold_costs: Float, fold_order: Int, limit: float) -> int | None:
    """Return the fold of a mask to train next, or None if its known costs decide."""
    # This repeats `needed_folds` for one mask without arrays, as workers call it before every fit.
    total = 0.0
    for fold in fold_order.tolist():
        if total / len(fold_costs) > limit or math.isinf(total):
            return None
        cost = float(fold_costs[fold])
        if math.isnan(cost):
            return int(fold)
        total += cost
    return None
