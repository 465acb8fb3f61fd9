"""The subset that each rule picks from all evaluated ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swarm.search.picks import pick
from swarm.strategies.operators.sequential import is_better, standard_error

__all__ = ["RULES", "Pick", "one_se_limit", "pick_by_rules"]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]

RULES = {
    "best": ("Best", "the answer of this search"),
    "lowest": ("Lowest", "found by another search on the same problem"),
    "parsimonious": ("Parsimonious", "the smallest within one standard error of the lowest cost"),
    "knee": ("Knee", "beyond it, another feature lowers the cost clearly less"),
}


@dataclass(frozen=True)
class Pick:
    """A subset, and the rule that picks it.

    Attributes
    ----------
    rule : str
        A key of :data:`RULES`.
    features : names
    cost : float
        Cross-validated.
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
) -> list[Pick]:
    """Pick by every rule of :mod:`swarm.picks`; the answer of the search comes first.

    Parameters
    ----------
    best : bool (n_units,)
        The answer of the search.
    masks : bool (n, n_units)
        Subsets that were trained on every fold.
    fold_costs : float64 (n, n_folds)
        Their costs; inf where a fit failed.
    subset : callable
        Gives the names that a mask stands for.

    Returns
    -------
    list of Pick
        Empty where `best` is not among `masks`, or has no finite cost. ``lowest`` is there
        where something is cheaper than the answer, ``knee`` where the front has a bend.
    """
    at = np.flatnonzero((masks == best).all(axis=1)) if len(masks) else np.empty(0, dtype=int)
    costs = fold_costs.sum(axis=1) / fold_costs.shape[1] if len(masks) else np.empty(0)
    if not at.size or not np.isfinite(costs[at[0]]):
        return []
    sizes, finite = masks.sum(axis=1), np.isfinite(costs)
    errors = np.zeros(len(costs))
    errors[finite] = [standard_error(row) for row in fold_costs[finite]]
    chosen = {"best": int(at[0])}
    lowest = pick("best", sizes, costs, errors)
    if is_better(costs[lowest], costs[at[0]]):
        chosen["lowest"] = lowest
    chosen["parsimonious"] = pick("parsimonious", sizes, costs, errors)
    bend = pick("knee", sizes, costs, errors)
    # Of a front without a bend the rule picks the end.
    if bend != lowest:
        chosen["knee"] = bend
    return [
        Pick(rule, tuple(subset(masks[row])), float(costs[row]), float(errors[row]))
        for rule, row in chosen.items()
    ]


def one_se_limit(found: Sequence[Pick]) -> float:
    """Lowest cost plus its standard error over the folds; NaN without picks."""
    by_rule = {one.rule: one for one in found}
    least = by_rule.get("lowest", by_rule.get("best"))
    return float("nan") if least is None else least.cost + least.error
