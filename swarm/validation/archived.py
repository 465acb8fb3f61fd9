"""What the evaluations in the archive say about each column, without a new search.

Two figures of each unit, from subsets that searches have already evaluated on the same folds:

- the **effect of removal**: pairs of evaluated subsets that differ in this unit alone, and the mean
  difference of their fold costs. This is leave-one-covariate-out importance (Lei et al., 2018,
  Distribution-free predictive inference for regression) given the other units of the pair, averaged
  over the neighbourhood that the searches visited;
- the **winner share**: how often the unit is in the best evaluated subset if the folds are weighted
  at random (the Bayesian bootstrap; Rubin, 1981, Annals of Statistics 9).

Neither is a selection probability on other rows: all subsets were evaluated on the same rows, and
searches evaluate mostly subsets that did well on these folds. Both understate the uncertainty; only
searches on other rows, which ``swarm stability`` runs, can bound false selections.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from swarm.arrays import Bool, Float
from swarm.errors import DataError
from swarm.search.packing import first_of_equal
from swarm.statistics.resampled import corrected_t

_DRAWS = 2000


@dataclass(frozen=True, eq=False)
class ArchivedEvidence:
    """Evidence about units from archived evaluations.

    Attributes
    ----------
    table : DataFrame
        One row per unit: feature, winner_share, n_pairs (of subsets that differ in this unit
        alone), effect (mean cost without the unit minus mean cost with it; NaN without a pair), low
        and high (its interval over the folds, corrected for shared rows). By decreasing
        `winner_share`, then `effect`.
    n_subsets, n_complete : int
        Distinct subsets in the archive, and those with a cost on every fold.
    n_winners : int
        Distinct subsets that were the best under some weights of the folds.
    level : float
    """

    table: pd.DataFrame
    n_subsets: int
    n_complete: int
    n_winners: int
    level: float


def archived_evidence(
    names: Sequence[str],
    masks: Bool,
    fold_costs: Float,
    free: Bool,
    n_train: float,
    n_test: float,
    level: float = 0.95,
) -> ArchivedEvidence:
    """Compute the effect of removal and the winner share of each unit.

    Parameters
    ----------
    names : sequence of str (n_units,)
    masks : bool (n, n_units)
        Evaluated subsets.
    fold_costs : float64 (n, n_folds)
        NaN for folds that were skipped, inf for failed ones.
    free : bool (n_units,)
        Units that are neither fixed nor forbidden; the table has no others.
    n_train, n_test : float
        Mean number of rows of a fold.
    level : float
        Confidence level of the intervals.

    Raises
    ------
    DataError
        If fewer than two subsets have a finite cost on every fold.
    """
    first = first_of_equal(masks)
    masks, fold_costs = masks[first], fold_costs[first]
    complete = np.isfinite(fold_costs).all(axis=1)
    if complete.sum() < 2:
        raise DataError(
            f"the archive has {int(complete.sum())} completely evaluated subsets of this problem; "
            "run `swarm select` with this configuration first"
        )
    shares, n_winners = _winners(masks[complete], fold_costs[complete])
    rows = [
        {
            "feature": names[unit],
            "winner_share": shares[unit],
            **_effect(masks, fold_costs, unit, n_train, n_test, level),
        }
        for unit in np.flatnonzero(free).tolist()
    ]
    table = pd.DataFrame(rows).sort_values(
        ["winner_share", "effect"], ascending=False, kind="stable", ignore_index=True
    )
    return ArchivedEvidence(table, len(masks), int(complete.sum()), n_winners, level)


def _winners(masks: Bool, fold_costs: Float) -> tuple[Float, int]:
    """Return the share of random fold weights whose best subset has each unit."""
    weights = np.random.default_rng(0).dirichlet(np.ones(fold_costs.shape[1]), _DRAWS)
    # Among equal costs the smaller subset wins, as in a search.
    order = np.argsort(masks.sum(axis=1), kind="stable")
    costs = (weights @ fold_costs[order].T).round(12)
    best = order[costs.argmin(axis=1)]
    shares: Float = masks[best].mean(axis=0)
    return shares, len(np.unique(best))


def _effect(
    masks: Bool, fold_costs: Float, unit: int, n_train: float, n_test: float, level: float
) -> dict[str, float]:
    """Compare the subsets that differ in one unit alone, fold by fold."""
    rest = masks.copy()
    rest[:, unit] = False
    position = {row.tobytes(): i for i, row in enumerate(rest) if masks[i, unit]}
    pairs = [
        (position[row.tobytes()], i)
        for i, row in enumerate(rest)
        if not masks[i, unit] and row.tobytes() in position
    ]
    nan = float("nan")
    nothing = {"n_pairs": 0, "effect": nan, "low": nan, "high": nan}
    if not pairs:
        return nothing
    kept, without = np.array(pairs).T
    with np.errstate(invalid="ignore"):
        differences = fold_costs[without] - fold_costs[kept]
    known = np.isfinite(differences)
    usable = known.any(axis=1)
    if not known.any(axis=0).all():
        return {**nothing, "n_pairs": int(usable.sum())}
    # Each fold has the mean of its pairs, as costs of one fold are not independent.
    folds = np.where(known, differences, 0.0).sum(axis=0) / known.sum(axis=0)
    found = corrected_t(folds, n_train, n_test, level) if len(folds) > 1 else None
    return {
        "n_pairs": int(usable.sum()),
        "effect": float(folds.mean()),
        "low": nan if found is None else found.low,
        "high": nan if found is None else found.high,
    }
