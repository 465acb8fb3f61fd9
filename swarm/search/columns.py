"""Why a column is in or out: the scores of measured subsets with and without it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from swarm.arrays import Bool, Float, Int, read_only
from swarm.problem.scoring import Scoring
from swarm.problem.space import SearchSpace
from swarm.search.packing import pack_masks, union_of_masks
from swarm.search.requests import MeasuredSubsets, only_ranked
from swarm.search.result import SearchResult
from swarm.storage.records import costs_of

CHOSEN, IN_ENSEMBLE, OUT = "chosen", "ensemble", "out"
FRESH_FOLDS, SEARCH_FOLDS = "fresh folds", "search folds"
NEVER_TRIED = "never tried"


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest unit on the other side of a choice, for every unit.

    Attributes
    ----------
    units : int (n_units,)
        Nearest unit that is left out and not forbidden for a chosen unit, and nearest chosen unit
        for another one; -1 if there is none, or no correlation with it.
    correlations : float64 (n_units,)
        Absolute rank correlations (Spearman) with these units.
    """

    units: Int
    correlations: Float

    def __post_init__(self) -> None:
        read_only(self.units, self.correlations)

    @classmethod
    def of(cls, space: SearchSpace, chosen: Bool, distance: Float | None) -> Self:
        """Find the neighbours by distances (n_units, n_units); None finds none."""
        units = np.full(len(chosen), -1)
        correlations = np.full(len(chosen), np.nan)
        for side, other_side in ((chosen, ~chosen & ~space.forbidden), (~chosen, chosen)):
            if distance is None or not (side.any() and other_side.any()):
                continue
            between = np.nan_to_num(distance[np.ix_(side, other_side)], nan=1.0)
            rho = 1.0 - between.min(axis=1)
            nearest = np.flatnonzero(other_side)[between.argmin(axis=1)]
            # A constant column has no correlation.
            units[side] = np.where(rho > 0.0, nearest, -1)
            correlations[side] = np.where(rho > 0.0, rho, np.nan)
        return cls(units, correlations)


@dataclass(frozen=True, eq=False)
class _ScoredSubsets:
    """Subsets with costs on the same folds, the lowest first."""

    masks: Bool
    costs: Float

    @classmethod
    def of(cls, masks: Bool, costs: Float) -> Self:
        """Sort the subsets with a finite cost."""
        order = np.argsort(costs, kind="stable")
        order = order[np.isfinite(costs[order])]
        return cls(masks[order], costs[order])

    def best_with(self) -> Float:
        """Return the lowest cost of the subsets with each unit: (n_units,)."""
        return self._lowest(self.masks)

    def best_without(self) -> Float:
        """Return the lowest cost of the subsets without each unit: (n_units,)."""
        return self._lowest(~self.masks)

    def _lowest(self, is_meant: Bool) -> Float:
        """Return the cost of the first subset (n, n_units) that is meant for each unit."""
        if not len(is_meant):
            return np.full(is_meant.shape[1], np.nan)
        return np.where(is_meant.any(axis=0), self.costs[is_meant.argmax(axis=0)], np.nan)

    def costs_of(self, masks: Bool) -> Float:
        """Return the cost of each of the masks, NaN if it is unknown."""
        cost_of = dict(zip(pack_masks(self.masks), self.costs.tolist(), strict=True))
        return np.array([cost_of.get(key, np.nan) for key in pack_masks(masks)], dtype=np.float64)


def column_table(
    result: SearchResult,
    measured: MeasuredSubsets,
    chosen: Bool,
    *,
    scoring: Scoring,
    neighbours: Neighbours,
    members: Bool | None = None,
    labels: Sequence[Any] | None = None,
) -> pd.DataFrame:
    """Return why each column is in or out, from the measured subsets; nothing is fitted.

    All scores of a row are on the same folds: on fresh folds if subsets with and without the column
    were confirmed, else on the folds of the search. Costs of a proxy are of another model, and are
    left out.

    Parameters
    ----------
    result : SearchResult
    measured : MeasuredSubsets
    chosen : bool (n_units,)
    scoring : Scoring
    neighbours : Neighbours
        Neighbours of the chosen subset.
    members : bool (n, n_units), optional
        The subsets of an ensemble.
    labels : sequence, optional
        Labels of the columns; their names by default.

    Returns
    -------
    DataFrame
        Indexed by label, the chosen columns first and the others by how little worse the best
        subset with them is than the best without:

        - ``status``: ``"chosen"``, ``"ensemble"`` if in other members of it, or ``"out"``
        - ``note``: ``"fixed"``, ``"forbidden"``, ``"never tried"`` or why there is no score
        - ``group``: name of the group that it belongs to; empty if it belongs to none
        - ``n_subsets``: distinct subsets with it that were measured on all folds
        - ``score_with``, ``score_without``: of the best measured subset with it, and without it
        - ``scored_on``: ``"fresh folds"`` or ``"search folds"``
        - ``nearest``, ``correlation``: the column, or group, on the other side of the choice with
          the strongest rank correlation, and its absolute value
        - ``score_swapped``, ``swapped_on``: score of the chosen subset if the two change places,
          if that was measured, and on which folds
    """
    space = result.space
    searched, fresh = _by_folds(result, measured)
    fresh_with = fresh.best_with()
    fresh_without = fresh.best_without()
    searched_with = searched.best_with()
    searched_without = searched.best_without()
    is_fresh = (~np.isnan(fresh_with) | np.isnan(searched_with)) & (
        ~np.isnan(fresh_without) | np.isnan(searched_without)
    )
    best_with = np.where(is_fresh, fresh_with, searched_with)
    best_without = np.where(is_fresh, fresh_without, searched_without)
    swapped, swapped_on = _swapped(chosen, neighbours, fresh, searched)
    in_ensemble = np.zeros_like(chosen) if members is None else members.any(axis=0)
    names = _names(space, labels)
    has_score = ~(np.isnan(best_with) & np.isnan(best_without))
    by_unit = {
        "status": np.select([chosen, in_ensemble], [CHOSEN, IN_ENSEMBLE], OUT),
        "note": _notes(result, measured, chosen, best_with),
        "group": [
            name if len(unit) > 1 else ""
            for name, unit in zip(space.names, space.units, strict=True)
        ],
        "n_subsets": measured.counts,
        "score_with": scoring.natural(best_with),
        "score_without": scoring.natural(best_without),
        "scored_on": np.where(has_score, np.where(is_fresh, FRESH_FOLDS, SEARCH_FOLDS), ""),
        "nearest": [names[unit] if unit >= 0 else "" for unit in neighbours.units.tolist()],
        "correlation": neighbours.correlations,
        "score_swapped": scoring.natural(swapped),
        "swapped_on": swapped_on,
    }
    index = pd.Index(space.columns if labels is None else labels, tupleize_cols=False)
    rank = np.where(chosen, 0, np.where(in_ensemble, 1, 2))
    # Columns without a score are last.
    gain = np.nan_to_num(best_without - best_with, nan=-np.inf)
    order = np.lexsort((-gain[space.unit_of], rank[space.unit_of]))
    table = pd.DataFrame(by_unit).iloc[space.unit_of].set_axis(index.rename("column"))
    return table.iloc[order]


def _by_folds(
    result: SearchResult, measured: MeasuredSubsets
) -> tuple[_ScoredSubsets, _ScoredSubsets]:
    """Return the subsets with costs on the folds of the search, and those with fresh costs.

    The subset of all columns has no fresh cost here: it would be the best with most columns that
    are out.
    """
    costs = costs_of(measured.fold_costs)
    confirmation = result.confirmation
    nothing = np.zeros((0, result.space.n_units), dtype=bool), np.empty(0)
    if confirmation is None:
        return _ScoredSubsets.of(measured.masks, costs), _ScoredSubsets.of(*nothing)
    candidates = confirmation.candidates
    fresh = _ScoredSubsets.of(candidates.masks, candidates.fresh_costs)
    if confirmation.replaces_search:
        return _ScoredSubsets.of(*nothing), fresh
    is_biased = only_ranked(measured.masks, result)
    return _ScoredSubsets.of(measured.masks[~is_biased], costs[~is_biased]), fresh


def _swapped(
    chosen: Bool, neighbours: Neighbours, fresh: _ScoredSubsets, searched: _ScoredSubsets
) -> tuple[Float, list[str]]:
    """Return the cost of the chosen subset with each unit in its neighbour's place, or the reverse.

    The cost is on fresh folds if it is known there; also return the folds of each cost.
    """
    costs = np.full(len(chosen), np.nan)
    folds = [""] * len(chosen)
    units = np.flatnonzero(neighbours.units >= 0)
    masks = np.tile(chosen, (len(units), 1))
    rows = np.arange(len(units))
    masks[rows, units] ^= True
    masks[rows, neighbours.units[units]] ^= True
    for name, subsets in ((SEARCH_FOLDS, searched), (FRESH_FOLDS, fresh)):
        swapped_costs = subsets.costs_of(masks)
        for row in np.flatnonzero(~np.isnan(swapped_costs)):
            costs[units[row]] = swapped_costs[row]
            folds[units[row]] = name
    return costs, folds


def _notes(
    result: SearchResult, measured: MeasuredSubsets, chosen: Bool, best_with: Float
) -> list[str]:
    """Say what else decides on each unit, or why there is no score with it."""
    space = result.space
    is_cut = np.zeros_like(chosen) if result.cut is None else ~result.cut.kept
    tried = union_of_masks(result.state.requests, space.n_units) | (measured.counts > 0)
    unmeasured = (
        "tried on the proxy only"
        if result.measured is not None
        else "no subset with it was trained on all folds"
    )
    unscored = np.isnan(best_with)
    conditions = {
        "forbidden": space.forbidden,
        "fixed": space.fixed,
        "left out by the prefilter": is_cut & unscored,
        NEVER_TRIED: ~tried & unscored,
        unmeasured: (measured.counts == 0) & unscored,
        "no model used it": unscored,
    }
    return [str(note) for note in np.select([*conditions.values()], [*conditions], "")]


def _names(space: SearchSpace, labels: Sequence[Any] | None) -> list[Any]:
    """Return the units by name, or by the label of their only column."""
    return [
        name if labels is None or len(unit) > 1 else labels[unit[0]]
        for name, unit in zip(space.names, space.units, strict=True)
    ]
