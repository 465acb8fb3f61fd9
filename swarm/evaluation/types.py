"""What an evaluation is, to a strategy and to the archive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from swarm.evaluation.limit import Limit, Race

__all__ = ["Evaluations", "Evaluator", "Record", "Work"]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]


@dataclass(frozen=True)
class Record:
    """All that is known of one mask: some of its folds, or all.

    Attributes
    ----------
    fold_costs : float64 (n_folds,)
        NaN where the fold was not trained; inf where its fit failed.
    importances : float64 (n_folds, n_units)
        NaN rows where unknown.
    used : bool (n_folds, n_units)
        Units the fold model uses.
    seconds : float
        Training time of all that is recorded.
    error : str or None
        Traceback of a fit that failed.
    """

    fold_costs: Float
    importances: Float
    used: Bool
    seconds: float = 0.0
    error: str | None = None

    @classmethod
    def unknown(cls, n_folds: int, n_units: int) -> Record:
        """Nothing is known yet."""
        return cls(
            np.full(n_folds, np.nan),
            np.full((n_folds, n_units), np.nan),
            np.zeros((n_folds, n_units), dtype=bool),
        )

    @property
    def known(self) -> Bool:
        """Which folds were trained: bool (n_folds,)."""
        known: Bool = ~np.isnan(self.fold_costs)
        return known

    @property
    def complete(self) -> bool:
        """Whether the cost is known: every fold trained, or one failed."""
        return bool(self.known.all()) or self.failed

    @property
    def failed(self) -> bool:
        """Whether a fit raised."""
        return bool(np.isinf(self.fold_costs).any())

    @property
    def cost(self) -> float:
        """Mean of the fold costs, summed in fold order whatever the order of training."""
        return float("inf") if self.failed else float(np.sum(self.fold_costs)) / self.n_folds

    @property
    def n_folds(self) -> int:
        """Number of folds of the problem."""
        return len(self.fold_costs)

    @property
    def importance(self) -> Float:
        """Mean over the fold models that have importances: float64 (n_units,), zeros if none."""
        rows = self.importances[~np.isnan(self.importances).any(axis=1)]
        if len(rows) == 0:
            return np.zeros(self.importances.shape[1])
        mean: Float = np.sum(rows, axis=0) / len(rows)
        return mean

    def merge(self, other: Record) -> Record:
        """Add what `other` knows of the same mask; where both know, this one stays."""
        new = other.known & ~self.known
        fresh = np.isnan(self.importances).any(axis=1, keepdims=True)
        return Record(
            np.where(new, other.fold_costs, self.fold_costs),
            np.where(fresh, other.importances, self.importances),
            np.where(new[:, None], other.used, self.used),
            self.seconds + other.seconds,
            self.error if self.error is not None else other.error,
        )

    def next_fold(self, fold_order: Int, limit: Limit) -> int | None:
        """Return the fold to train next to settle whether the mask is beyond `limit`.

        Folds are taken in `fold_order`, whichever are known, so that what settles a mask is
        a function of its true fold costs and not of what an archive happened to hold.

        Returns
        -------
        int or None
            None where it is settled.
        """
        return self._walk(fold_order, limit)[1]

    def needed(self, fold_order: Int, limit: Limit) -> Bool:
        """Which folds settle whether the mask is beyond `limit`, trained in `fold_order`.

        A pure function of the mask's true fold costs, so that what a search is charged for
        does not depend on what an archive happened to know.

        Returns
        -------
        bool (n_folds,)
        """
        needed = np.zeros(self.n_folds, dtype=bool)
        needed[self._walk(fold_order, limit)[0]] = True
        return needed

    def _walk(self, fold_order: Int, limit: Limit) -> tuple[list[int], int | None]:
        """Folds that are looked at, and the one that is missing, None where it is settled."""
        total, seen = 0.0, list[int]()
        for fold in fold_order.tolist():
            if limit.passed(total, self.n_folds) or limit.hopeless(self.fold_costs, seen):
                return seen, None
            if np.isnan(self.fold_costs[fold]):
                return seen, fold
            seen.append(fold)
            total += float(self.fold_costs[fold])
        return seen, None


@dataclass(frozen=True)
class Work:
    """What an evaluation really took on this machine; differs when an archive answers.

    Attributes
    ----------
    fits : int
        Models trained.
    hits : int
        Masks answered by the archive without any training.
    fallbacks : int
        Masks that a fast path left to fitted models, because rounding decides their cost.
    seconds : float
        Wall time.
    training_seconds : float
        Training time, summed over workers.
    """

    fits: int = 0
    hits: int = 0
    fallbacks: int = 0
    seconds: float = 0.0
    training_seconds: float = 0.0


@dataclass(frozen=True)
class Evaluations:
    """Answers to a proposal, row by row, the same whatever the workers or the archive.

    Attributes
    ----------
    costs : float64 (n,)
        Exact where at most the incumbent; inf where worse (`censored`) or failed.
    fold_costs : float64 (n, n_folds)
        NaN rows where censored.
    importances : float64 (n, n_units)
        Mean over the fold models; zeros where censored, failed or not available.
    used : bool (n, n_units)
        Units that some fold model used; the mask itself where that cannot be told.
    censored, failed : bool (n,)
        Worse than the incumbent, or given up in a race; a fit raised.
    needed : bool (n, n_folds)
        The folds that settled each answer.
    exact_shrink : bool
        Whether units outside `used` can be dropped without changing any fold model.
    work : Work
    """

    costs: Float
    fold_costs: Float
    importances: Float
    used: Bool
    censored: Bool
    failed: Bool
    needed: Bool
    exact_shrink: bool
    work: Work
    first_error: str | None = None

    def __post_init__(self) -> None:
        for array in (self.costs, self.fold_costs, self.importances, self.used, self.censored):
            array.setflags(write=False)


class Evaluator(Protocol):
    """Evaluates batches of masks."""

    n_folds: int

    def evaluate(
        self, masks: Bool, incumbents: Float, fold_order: Int, race: Race | None = None
    ) -> Evaluations:
        """Evaluate `masks` (n, n_units) against `incumbents` (n,).

        Parameters
        ----------
        fold_order : int (n_folds,)
            The order in which folds are trained, hardest first.
        race : Race, optional
            Give up masks that hardly win any more; they are reported as worse than they must be.
        """
