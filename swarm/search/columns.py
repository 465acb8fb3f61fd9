"""Why a column is in or out: what the measured subsets with it and without it have scored."""

from __future__ import annotations

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
        Of a chosen unit the nearest that is left out and not forbidden, of the others the nearest
        chosen one; -1 where there is none, or no correlation with it.
    correlations : float64 (n_units,)
        Absolute rank correlations (Spearman) with them.
    """

    units: Int
    correlations: Float

    def __post_init__(self) -> None:
        read_only(self.units, self.correlations)

    @classmethod
    def of(cls, space: SearchSpace, chosen: Bool, distance: Float | None) -> Self:
        """Return the neighbours by distances (n_units, n_units); without them there are none."""
        units, strengths = np.full(len(chosen), -1), np.full(len(chosen), np.nan)
        for one, other in ((chosen, ~chosen & ~space.forbidden), (~chosen, chosen)):
            if distance is None or not (one.any() and other.any()):
                continue
            between = np.nan_to_num(distance[np.ix_(one, other)], nan=1.0)
            rho = 1.0 - between.min(axis=1)
            nearest = np.flatnonzero(other)[between.argmin(axis=1)]
            # A constant column has no correlation.
            units[one] = np.where(rho > 0.0, nearest, -1)
            strengths[one] = np.where(rho > 0.0, rho, np.nan)
        return cls(units, strengths)


@dataclass(frozen=True, eq=False)
class _Scored:
    """Subsets with costs of one kind, the lowest first."""

    masks: Bool
    costs: Float

    @classmethod
    def of(cls, masks: Bool, costs: Float) -> Self:
        """Return the subsets with a finite cost."""
        order = np.argsort(costs, kind="stable")
        order = order[np.isfinite(costs[order])]
        return cls(masks[order], costs[order])

    def best(self, inside: bool) -> Float:
        """Return the lowest cost of the subsets with, or without, each unit: (n_units,)."""
        present = self.masks if inside else ~self.masks
        if not len(present):
            return np.full(present.shape[1], np.nan)
        return np.where(present.any(axis=0), self.costs[present.argmax(axis=0)], np.nan)

    def costs_of(self, masks: Bool) -> Float:
        """Return the cost of each of the masks, NaN where it is unknown."""
        known = dict(zip(pack_masks(self.masks), self.costs.tolist(), strict=True))
        return np.array([known.get(key, np.nan) for key in pack_masks(masks)], dtype=np.float64)


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
    """Tell of every column why it is in or out, from what was measured; nothing is fitted.

    Scores of a row are of one kind: those on fresh folds where subsets with and without the column
    were confirmed, else those on the folds of the search. Costs of a proxy are of another model,
    and are left out.

    Parameters
    ----------
    result : SearchResult
    measured : MeasuredSubsets
    chosen : bool (n_units,)
    scoring : Scoring
    neighbours : Neighbours
        Of the chosen subset.
    members : bool (n, n_units), optional
        The subsets of an ensemble.
    labels : sequence, optional
        Of the columns; their names by default.

    Returns
    -------
    DataFrame
        Indexed by label, the chosen columns first and the others by how little worse the best
        subset with them is than the best without:

        - ``status``: ``"chosen"``, ``"ensemble"`` if in other members of it, or ``"out"``
        - ``note``: ``"fixed"``, ``"forbidden"``, ``"never tried"`` or why there is no score
        - ``group``: name of the group that it belongs to; empty without
        - ``n_subsets``: distinct subsets with it that were measured on all folds
        - ``score_with``, ``score_without``: of the best measured subset with it, and without it
        - ``scored_on``: ``"fresh folds"`` or ``"search folds"``
        - ``nearest``, ``correlation``: the column, or group, on the other side of the choice with
          the strongest rank correlation, and its absolute value
        - ``score_swapped``, ``swapped_on``: score of the chosen subset if the two change places,
          where that was measured, and on which folds
    """
    space = result.space
    # Of arrays as well as of numbers.
    natural: Any = scoring.natural
    searched, fresh = _by_kind(result, measured)
    sides = [[kind.best(inside) for inside in (True, False)] for kind in (fresh, searched)]
    is_fresh = np.all([~np.isnan(f) | np.isnan(s) for f, s in zip(*sides, strict=True)], axis=0)
    best_with, best_without = (np.where(is_fresh, f, s) for f, s in zip(*sides, strict=True))
    swapped, swapped_on = _swapped(chosen, neighbours, fresh, searched)
    in_ensemble = np.zeros_like(chosen) if members is None else members.any(axis=0)
    names = _names(space, labels)
    known = ~(np.isnan(best_with) & np.isnan(best_without))
    by_unit = {
        "status": np.select([chosen, in_ensemble], [CHOSEN, IN_ENSEMBLE], OUT),
        "note": _notes(result, measured, chosen, best_with),
        "group": [
            name if len(unit) > 1 else ""
            for name, unit in zip(space.names, space.units, strict=True)
        ],
        "n_subsets": measured.counts,
        "score_with": natural(best_with),
        "score_without": natural(best_without),
        "scored_on": np.where(known, np.where(is_fresh, FRESH_FOLDS, SEARCH_FOLDS), ""),
        "nearest": [names[unit] if unit >= 0 else "" for unit in neighbours.units.tolist()],
        "correlation": neighbours.correlations,
        "score_swapped": natural(swapped),
        "swapped_on": swapped_on,
    }
    index = pd.Index(space.columns if labels is None else labels, tupleize_cols=False)
    rank = np.where(chosen, 0, np.where(in_ensemble, 1, 2))
    # NaN is last.
    gain = np.nan_to_num(best_without - best_with, nan=-np.inf)
    order = np.lexsort((-gain[space.unit_of], rank[space.unit_of]))
    table = pd.DataFrame(by_unit).iloc[space.unit_of].set_axis(index.rename("column"))
    return table.iloc[order]


def _by_kind(result: SearchResult, measured: MeasuredSubsets) -> tuple[_Scored, _Scored]:
    """Return the subsets with costs on the folds of the search, and those on fresh folds."""
    costs, confirmation = costs_of(measured.fold_costs), result.confirmation
    if confirmation is None:
        nothing = np.zeros((0, result.space.n_units), dtype=bool)
        return _Scored.of(measured.masks, costs), _Scored.of(nothing, np.empty(0))
    # All columns are left out: they would be the best subset with most columns that are out.
    candidates = confirmation.candidates
    is_biased = only_ranked(measured.masks, result)
    searched = _Scored.of(measured.masks[~is_biased], costs[~is_biased])
    return searched, _Scored.of(candidates.masks, candidates.fresh_costs)


def _swapped(
    chosen: Bool, neighbours: Neighbours, fresh: _Scored, searched: _Scored
) -> tuple[Float, list[str]]:
    """Return the cost of the chosen subset with each unit in its neighbour's place, or the reverse.

    That on fresh folds if it is known; also the kind of each cost.
    """
    costs, kinds = np.full(len(chosen), np.nan), [""] * len(chosen)
    units = np.flatnonzero(neighbours.units >= 0)
    masks = np.tile(chosen, (len(units), 1))
    rows = np.arange(len(units))
    masks[rows, units] ^= True
    masks[rows, neighbours.units[units]] ^= True
    for kind, subsets in ((SEARCH_FOLDS, searched), (FRESH_FOLDS, fresh)):
        known = subsets.costs_of(masks)
        for row in np.flatnonzero(~np.isnan(known)):
            costs[units[row]], kinds[units[row]] = known[row], kind
    return costs, kinds


def _notes(
    result: SearchResult, measured: MeasuredSubsets, chosen: Bool, best_with: Float
) -> list[str]:
    """Say what else decides on each unit, or why there is no score with it."""
    space, cut = result.space, result.cut
    is_cut = np.zeros_like(chosen) if cut is None else ~cut.kept
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
