"""Evaluation record of a mask."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swarm.arrays import Bool, Float, Int

__all__ = ["Record", "costs_of", "round_cost"]


@dataclass(frozen=True)
class Record:
    """Results of one mask on some folds, or on all.

    Attributes
    ----------
    fold_costs : float64 (n_folds,)
        NaN if the fold was not trained; inf if its fit failed.
    importances : float64 (n_folds, n_units)
        NaN rows if unknown.
    used : bool (n_folds, n_units)
        Units that the fold model uses.
    seconds : float
        Total training time.
    error : str or None
        Traceback of a failed fit.
    """

    fold_costs: Float
    importances: Float
    used: Bool
    seconds: float = 0.0
    error: str | None = None

    @classmethod
    def unknown(cls, n_folds: int, n_units: int) -> Record:
        """Return a record without results."""
        return cls(
            np.full(n_folds, np.nan),
            np.full((n_folds, n_units), np.nan),
            np.zeros((n_folds, n_units), dtype=bool),
        )

    @property
    def known(self) -> Bool:
        """Which folds were trained: bool (n_folds,)."""
        return ~np.isnan(self.fold_costs)

    @property
    def complete(self) -> bool:
        """Whether the cost is known: every fold was trained, or one failed."""
        return bool(self.known.all()) or self.failed

    @property
    def failed(self) -> bool:
        """Whether a fit failed."""
        return bool(np.isinf(self.fold_costs).any())

    @property
    def cost(self) -> float:
        """Mean of the fold costs, see :func:`costs_of`."""
        if self.failed:
            return float("inf")
        return round_cost(float(np.sum(self.fold_costs)) / self.n_folds)

    @property
    def n_folds(self) -> int:
        """Number of folds of the problem."""
        return len(self.fold_costs)

    @property
    def importance(self) -> Float:
        """Mean over the folds with importances: float64 (n_units,), zeros if there are none."""
        rows = self.importances[~np.isnan(self.importances).any(axis=1)]
        if len(rows) == 0:
            return np.zeros(self.importances.shape[1])
        mean: Float = np.sum(rows, axis=0) / len(rows)
        return mean

    def without(self, folds: Int) -> Record:
        """Return the record without the results of some folds (m,)."""
        kept = np.ones(self.n_folds, dtype=bool)
        kept[folds] = False
        return Record(
            np.where(kept, self.fold_costs, np.nan),
            np.where(kept[:, None], self.importances, np.nan),
            kept[:, None] & self.used,
            self.seconds,
            self.error,
        )

    def merge(self, other: Record) -> Record:
        """Add the results of `other` for the same mask; known values take precedence."""
        new = other.known & ~self.known
        fresh = np.isnan(self.importances).any(axis=1, keepdims=True)
        return Record(
            np.where(new, other.fold_costs, self.fold_costs),
            np.where(fresh, other.importances, self.importances),
            np.where(new[:, None], other.used, self.used),
            self.seconds + other.seconds,
            self.error if self.error is not None else other.error,
        )


def costs_of(fold_costs: Float) -> Float:
    """Return the mean of each row of fold costs (n, n_folds), to 12 significant digits: (n,).

    NaN if a fold is unknown, inf if one failed. Sums are in fold order, whatever the order of
    training. Rounding makes costs equal that are so in exact arithmetic, such as those of two
    subsets with as many errors on other folds: a smaller subset then wins the tie, and ranks and
    tests of costs see one.
    """
    failed = np.isinf(fold_costs).any(axis=1)
    with np.errstate(invalid="ignore"):
        mean = np.ascontiguousarray(fold_costs).sum(axis=1) / fold_costs.shape[1]
    return np.where(failed, np.inf, [round_cost(each) for each in mean.tolist()])


def round_cost(cost: float) -> float:
    """Round to 12 significant digits, see :func:`costs_of`."""
    return float(f"{cost:.11e}")
