"""When the training of a mask may end: it cannot win any more, or hardly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

__all__ = ["Limit", "Race", "limit_of", "loosest_of"]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]

# Sums in another order differ in the last digits; a mask is dropped only beyond doubt.
_MARGIN = 1e-10


@dataclass(frozen=True, eq=False)
class Race:
    """What a proposal races against.

    Attributes
    ----------
    rivals : float64 (n, n_folds)
        Fold costs of the incumbent of each mask; NaN rows where there is none to race.
    spread : float
        Standard deviation, from fold to fold, of the difference of two masks.
    chance : float
        A mask is given up where its chance to win falls below this.
    """

    rivals: Float
    spread: float
    chance: float

    def __post_init__(self) -> None:
        self.rivals.setflags(write=False)


@dataclass(frozen=True, eq=False)
class Limit:
    """A rule that ends the training of a mask.

    Exact: the folds seen put the mean above `cost`, as no fold costs less than nothing. Lossy,
    only where there are rivals: the chance is low that the folds to come make up for the
    difference to the incumbent's own costs on the folds seen. With ``j`` of ``n`` folds seen,
    differences of mean ``m`` and standard deviation ``s``, the mean over all folds is normal
    around ``m`` with variance ``s^2 (n - j) / (n j)``, and the chance is that of it being
    negative.

    Attributes
    ----------
    cost : float
        inf for no limit.
    rivals : float64 (n_rivals, n_folds) or None
        A mask that is asked for several times races against each incumbent, and is given up
        where it is against all.
    spread, chance : float
        See :class:`Race`.
    """

    cost: float = float("inf")
    rivals: Float | None = None
    spread: float = 0.0
    chance: float = 0.0

    def passed(self, total: float, n_folds: int) -> bool:
        """Whether costs that sum up to `total` are above the limit, or a fit has failed."""
        return total / n_folds > self.cost or bool(np.isinf(total))

    def hopeless(self, costs: Float, seen: list[int]) -> bool:
        """Whether the race is lost after the folds `seen`.

        Parameters
        ----------
        costs : float64 (n_folds,)
            Known where seen.
        """
        n_folds, j = len(costs), len(seen)
        if self.rivals is None or j == 0 or j == n_folds:
            return False
        behind = costs[seen].sum() - self.rivals[:, seen].sum(axis=1).max()
        width = self.spread * np.sqrt((n_folds - j) / (n_folds * j))
        return bool(behind / j > -NormalDist().inv_cdf(self.chance) * width)

    def next_fold(self, fold_costs: Float, fold_order: Int) -> int | None:
        """Return the fold to train next to settle whether a mask is beyond the limit.

        Folds are taken in `fold_order`, whichever are known, so that what settles a mask is
        a function of its true fold costs and not of what an archive happened to hold.

        Parameters
        ----------
        fold_costs : float64 (n_folds,)
            NaN where the fold was not trained.
        fold_order : int (n_folds,)

        Returns
        -------
        int or None
            None where it is settled.
        """
        return self._walk(fold_costs, fold_order)[1]

    def needed_folds(self, fold_costs: Float, fold_order: Int) -> Bool:
        """Which folds settle whether a mask is beyond the limit, trained in `fold_order`.

        A pure function of the mask's true fold costs, so that what a search is charged for
        does not depend on what an archive happened to know.

        Returns
        -------
        bool (n_folds,)
        """
        needed = np.zeros(len(fold_costs), dtype=bool)
        needed[self._walk(fold_costs, fold_order)[0]] = True
        return needed

    def _walk(self, fold_costs: Float, fold_order: Int) -> tuple[list[int], int | None]:
        """Folds that are looked at, and the one that is missing, None where it is settled."""
        total, seen = 0.0, list[int]()
        for fold in fold_order.tolist():
            if self.passed(total, len(fold_costs)) or self.hopeless(fold_costs, seen):
                return seen, None
            if np.isnan(fold_costs[fold]):
                return seen, fold
            seen.append(fold)
            total += float(fold_costs[fold])
        return seen, None


def limit_of(incumbent: float, race: Race | None = None, row: int = 0) -> Limit:
    """Return the limit of a mask with this incumbent; a tie stays below it, however rounded."""
    cost = float(incumbent)
    if np.isfinite(cost):
        cost += _MARGIN * max(1.0, abs(cost))
    if race is None or np.isnan(race.rivals[row]).any():
        return Limit(cost)
    return Limit(cost, race.rivals[row : row + 1], race.spread, race.chance)


def loosest_of(limits: Sequence[Limit]) -> Limit:
    """Join limits of the same mask: what none of them would end goes on."""
    cost = max(limit.cost for limit in limits)
    rivals = [limit.rivals for limit in limits if limit.rivals is not None]
    if len(rivals) < len(limits):
        return Limit(cost)
    return Limit(cost, np.vstack(rivals), limits[0].spread, limits[0].chance)
