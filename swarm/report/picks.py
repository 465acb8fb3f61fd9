"""Subsets picked from all evaluated ones by several rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swarm.arrays import Bool, Float
from swarm.search.picks import pick
from swarm.storage.records import costs_of
from swarm.strategies.operators.sequential import is_better, standard_error

__all__ = ["PRICED_RULES", "RULES", "Pick", "one_se_limit", "pick_by_rules"]

RULES = {
    "best": ("Best", "the result of this search"),
    "lowest": ("Lowest", "the lowest cost of all evaluated subsets, not confirmed"),
    "parsimonious": ("Parsimonious", "the smallest within one standard error of the lowest cost"),
    "knee": ("Knee", "further features lower the cost clearly less"),
}

# If features have prices.
PRICED_RULES = {
    rule: (title, text.replace("smallest", "cheapest")) for rule, (title, text) in RULES.items()
}


@dataclass(frozen=True)
class Pick:
    """A subset and the rule that picks it.

    Attributes
    ----------
    rule : str
        A key of :data:`RULES`.
    features : names
    cost : float
        Cross-validated cost.
    error : float
        Standard error of the cost over the folds.
    """

    rule: str
    features: tuple[str, ...]
    cost: float
    error: float


def pick_by_rules(
    best: Bool,
    masks: Bool,
    fold_costs: Float,
    subset: Callable[[Bool], Sequence[str]],
    prices: NDArray[Any],
) -> list[Pick]:
    """Pick a subset by every rule in :data:`RULES`; the result of the search comes first.

    Parameters
    ----------
    best : bool (n_units,)
        Best subset of the search.
    masks : bool (n, n_units)
        Subsets that were trained on every fold.
    fold_costs : float64 (n, n_folds)
        Their fold costs; inf if a fit failed.
    subset : callable
        Returns the feature names of a mask.
    prices : (n,)
        What each subset costs to obtain; its size without prices.

    Returns
    -------
    list of Pick
        Empty if `best` is not among `masks` or has no finite cost. ``lowest`` is included if a
        subset costs less than `best`, ``knee`` if the Pareto front has a knee.
    """
    at = np.flatnonzero((masks == best).all(axis=1)) if len(masks) else np.empty(0, dtype=int)
    costs = costs_of(fold_costs) if len(masks) else np.empty(0)
    if not at.size or not np.isfinite(costs[at[0]]):
        return []
    finite = np.isfinite(costs)
    errors = np.zeros(len(costs))
    errors[finite] = [standard_error(row) for row in fold_costs[finite]]
    chosen = {"best": int(at[0])}
    lowest = pick("best", prices, costs, errors)
    if is_better(costs[lowest], costs[at[0]]):
        chosen["lowest"] = lowest
    chosen["parsimonious"] = pick("parsimonious", prices, costs, errors)
    bend = pick("knee", prices, costs, errors)
    # If the front has no knee, the rule picks its end.
    if bend != lowest:
        chosen["knee"] = bend
    return [
        Pick(rule, tuple(subset(masks[row])), float(costs[row]), float(errors[row]))
        for rule, row in chosen.items()
    ]


def one_se_limit(found: Sequence[Pick]) -> float:
    """Return the lowest cost plus its standard error over the folds; NaN without picks."""
    by_rule = {one.rule: one for one in found}
    least = by_rule.get("lowest", by_rule.get("best"))
    return float("nan") if least is None else least.cost + least.error
