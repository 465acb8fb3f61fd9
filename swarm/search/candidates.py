"""The subsets among which the answer of a search is chosen, and the rules that pick from them.

Among subsets of equal cost, :func:`pick` returns the smallest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from swarm.arrays import Bool, Float, Int, read_only
from swarm.errors import DataError, check_known
from swarm.search.packing import first_of_equal
from swarm.storage.records import costs_of
from swarm.strategies.operators.sequential import within_one_error

PICKS = ("best", "parsimonious")
Goal = Literal["score", "balanced", "size"]
GOALS = ("score", "balanced", "size")
SEARCH = "search"


@dataclass(frozen=True, eq=False)
class Candidates:
    """Measured subsets, one row each.

    Attributes
    ----------
    masks : bool (m, n_units)
    costs : float64 (m,)
        Costs of the full model on the folds of the search; inf if it failed.
    search_costs : float64 (m,)
        Costs that the search computed, of the proxy if there is one; NaN if unknown.
    fresh_fold_costs : float64 (m, n_fresh)
        Costs on each fresh fold, inf if the model failed and NaN if it was not trained; without
        columns if nothing was confirmed.
    origin : str (m,)
        What proposed each subset: ``"search"`` or the name of a ranking.
    """

    masks: Bool
    costs: Float
    search_costs: Float
    fresh_fold_costs: Float
    origin: NDArray[np.str_]

    def __post_init__(self) -> None:
        read_only(self.masks, self.costs, self.search_costs, self.fresh_fold_costs, self.origin)

    @classmethod
    def build(
        cls,
        masks: Bool,
        costs: Float,
        *,
        search_costs: Float | None = None,
        fresh_fold_costs: Float | None = None,
        origin: NDArray[np.str_] | None = None,
    ) -> Self:
        """Build a table of subsets, which the search has proposed unless there is an `origin`."""
        return cls(
            masks,
            costs,
            costs if search_costs is None else search_costs,
            np.empty((len(masks), 0)) if fresh_fold_costs is None else fresh_fold_costs,
            np.full(len(masks), SEARCH) if origin is None else origin,
        )

    def __len__(self) -> int:
        return len(self.masks)

    @cached_property
    def sizes(self) -> Int:
        """Units of each subset: int (m,)."""
        return self.masks.sum(axis=1, dtype=np.int64)

    @cached_property
    def fresh_costs(self) -> Float:
        """Mean cost (m,) of each subset on the fresh folds; NaN without any."""
        if not self.fresh_fold_costs.shape[1]:
            return np.full(len(self), np.nan)
        return costs_of(self.fresh_fold_costs)

    def take(self, rows: Sequence[int] | Int | Bool) -> Self:
        """Return some of the rows, given by position or by a mask."""
        return type(self)(
            self.masks[rows],
            self.costs[rows],
            self.search_costs[rows],
            self.fresh_fold_costs[rows],
            self.origin[rows],
        )

    def distinct(self) -> Self:
        """Return the first row of each subset with a finite cost."""
        finite = self.take(np.isfinite(self.costs))
        return finite.take(first_of_equal(finite.masks))

    def append(self, other: Self) -> Self:
        """Return the rows of both tables."""
        fold_costs = (self.fresh_fold_costs, other.fresh_fold_costs)
        n_fresh = max(costs.shape[1] for costs in fold_costs)
        return type(self)(
            np.vstack([self.masks, other.masks]),
            np.append(self.costs, other.costs),
            np.append(self.search_costs, other.search_costs),
            np.vstack([_padded(costs, n_fresh) for costs in fold_costs]),
            np.append(self.origin, other.origin),
        )


def _padded(fold_costs: Float, n_folds: int) -> Float:
    """Return fold costs (m, n_folds), with NaN if a table has none."""
    if fold_costs.shape[1] == n_folds:
        return fold_costs
    return np.full((len(fold_costs), n_folds), np.nan)


def pick(
    goal: str,
    sizes: NDArray[np.generic],
    costs: Float,
    *,
    errors: Float | None = None,
    is_close: Callable[[int], bool] | None = None,
) -> int:
    """Return the row of the subset that a goal picks.

    ``best`` and ``score`` pick the lowest cost, ``parsimonious`` the smallest within one standard
    error (n,) of it, and ``balanced`` and ``size`` the smallest that `is_close`. If there is none,
    or `errors` or `is_close` is missing, the lowest cost is picked. Ties are broken by size, then
    by cost, then by row.
    """
    check_known("goal", goal, (*PICKS, *GOALS))
    front = pareto_front(sizes, costs)
    if not len(front):
        raise DataError(f"none of the {len(costs)} costs is finite; choose another model or scorer")
    if goal == "parsimonious" and errors is not None:
        return int(front[within_one_error(costs[front], errors[front])])
    if goal in ("balanced", "size") and is_close is not None:
        row = smallest(sizes, costs, is_close)
        if row is not None:
            return row
    return int(front[-1])


def smallest(
    sizes: NDArray[np.generic], costs: Float, is_close: Callable[[int], bool]
) -> int | None:
    """Return the row of the smallest subset that is close enough, the cheapest of equal sizes."""
    rows = map(int, np.lexsort((costs, sizes)))
    return next(filter(is_close, rows), None)


def pareto_front(sizes: NDArray[np.generic], costs: Float) -> Int:
    """Return the rows that no other row dominates in size and cost, by ascending size."""
    rows = np.flatnonzero(np.isfinite(costs))
    rows = rows[np.lexsort((costs[rows], sizes[rows]))]
    if not len(rows):
        return rows
    before = np.concatenate([[np.inf], np.minimum.accumulate(costs[rows])[:-1]])
    return rows[costs[rows] < before]
