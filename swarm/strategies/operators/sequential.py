"""Steps by one unit, and the selection of a subset from a path of sizes."""

from __future__ import annotations

import numpy as np

from swarm.arrays import Bool, Float, Int
from swarm.problem.space import SearchSpace

__all__ = [
    "additions",
    "first_best",
    "first_of_size",
    "is_better",
    "removals",
    "standard_error",
    "within_one_error",
]

# Equal mean costs may differ in the last digits, by the order of summation of the fold costs.
_MARGIN = 1e-12


def additions(mask: Bool, space: SearchSpace, barred: int = -1) -> Bool:
    """Every set with one unit more than `mask` (n_units,), the first unit first.

    Parameters
    ----------
    barred : int
        A unit that must not be added; -1 for none.

    Returns
    -------
    bool (n, n_units)
        Without rows if no unit can be added.
    """
    units = np.flatnonzero(~mask & ~space.forbidden)
    return _turned(mask, units[units != barred])


def removals(mask: Bool, space: SearchSpace, barred: int = -1) -> Bool:
    """Every set with one unit fewer than `mask` (n_units,); the first lacks the last unit.

    The sets are in lexicographic order, 012, 013, 023, 123, so that the set of the earlier units
    wins a tie, as it does when units are added.

    Parameters
    ----------
    barred : int
        A unit that must not be removed; -1 for none.

    Returns
    -------
    bool (n, n_units)
        Without rows if no unit can be removed.
    """
    units = np.flatnonzero(mask & ~space.fixed)[::-1]
    return _turned(mask, units[units != barred])


def _turned(mask: Bool, units: Int) -> Bool:
    """Copies of the mask, each with one of the units flipped: (len(units), n_units)."""
    masks = np.tile(mask, (len(units), 1))
    masks[np.arange(len(units)), units] ^= True
    return masks


def first_of_size(sizes: Int, space: SearchSpace) -> Bool:
    """The fixed units and the first of the others, for each size (n,): bool (n, n_units).

    Forbidden units are excluded, so a size must not exceed the number of allowed units.
    """
    order = np.lexsort((~space.fixed, space.forbidden))
    rank = np.empty_like(order)
    rank[order] = np.arange(space.n_units)
    return rank < sizes[:, None]


def first_best(costs: Float) -> int:
    """Index of the first of the costs (n,) that equals the lowest up to rounding."""
    lowest = np.min(costs)
    return int(np.argmax(costs <= lowest + _margin(lowest)))


def is_better(cost: float, than: float) -> bool:
    """Whether `cost` is lower than `than` by more than rounding."""
    return bool(cost < than - (_margin(than) if np.isfinite(than) else 0.0))


def _margin(cost: float) -> float:
    return _MARGIN * max(1.0, abs(cost))


def standard_error(fold_costs: Float) -> float:
    """Standard error of the mean of the fold costs (n_folds,).

    ``s / sqrt(n_folds)``, where s is the sample standard deviation with ``n_folds - 1`` in the
    denominator; 0 for a single fold, from which no error can be estimated.
    """
    if len(fold_costs) < 2:
        return 0.0
    return float(np.std(fold_costs, ddof=1) / np.sqrt(len(fold_costs)))


def within_one_error(costs: Float, errors: Float) -> int:
    """Index of the first cost that is within one standard error of the lowest.

    Parameters
    ----------
    costs : float64 (n,)
        By ascending size; inf where nothing was measured, at least one finite.
    errors : float64 (n,)
        Standard errors; only that of the lowest cost is used, and of equal lowest costs that of
        the first.

    References
    ----------
    Breiman, Friedman, Olshen and Stone, Classification and Regression Trees (1984), section
    3.4.3. mlxtend calls the rule ``parsimonious``.
    """
    best = first_best(costs)
    limit = costs[best] + errors[best]
    return int(np.argmax(costs <= limit + _margin(limit)))
