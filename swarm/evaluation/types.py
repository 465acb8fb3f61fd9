"""What an evaluation is to a strategy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from swarm.evaluation.limit import Race

__all__ = ["Evaluations", "Evaluator", "Work"]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]


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
