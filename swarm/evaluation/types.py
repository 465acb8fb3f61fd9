"""Interface between evaluators and strategies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any, Protocol

import numpy as np

from swarm.arrays import Bool, Float, Int, read_only
from swarm.evaluation.limit import Race

# Arrays of Evaluations with a row for each mask.
ROW_ARRAYS = ("costs", "fold_costs", "importances", "used", "censored", "failed", "needed")


@dataclass(frozen=True)
class Work:
    """Actual work of an evaluation; less if results are in the archive.

    Attributes
    ----------
    fits : int
        Number of trained models.
    hits : int
        Masks found in the archive, without any training.
    fallbacks : int
        Masks for which a fast path falls back to fitted models, because rounding decides their
        cost.
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

    def plus(self, more: Work, *, with_hits: bool) -> Work:
        """Add the work of another evaluation; without its hits if those masks have been counted."""
        total = {
            each.name: getattr(self, each.name) + getattr(more, each.name) for each in fields(Work)
        }
        return Work(**{**total, "hits": self.hits + more.hits * with_hits})


@dataclass(frozen=True)
class Evaluations:
    """Results of a proposal, row by row; independent of the workers and of the archive.

    Attributes
    ----------
    costs : float64 (n,)
        Exact if at most the incumbent's; inf if worse (`censored`) or failed.
    fold_costs : float64 (n, n_folds)
        NaN rows if censored.
    importances : float64 (n, n_units)
        Mean over the fold models; zeros if censored, failed or not available.
    used : bool (n, n_units)
        Units that some fold model used; the mask itself if that is unknown.
    censored, failed : bool (n,)
        Worse than the incumbent, or stopped in a race; a fit failed.
    needed : bool (n, n_folds)
        Folds that decided each result.
    on_parts : bool (n, n_parts, n_folds) or None
        Folds that were needed on parts of the rows, see :mod:`swarm.search.row_parts`.
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
    on_parts: Bool | None = None

    def __post_init__(self) -> None:
        read_only(self.costs, self.fold_costs, self.importances, self.used, self.censored)


def censored(masks: Bool, n_folds: int, failed: Bool | None = None) -> Evaluations:
    """Return evaluations of masks (n, n_units) without a cost, for which no fold was needed."""
    n = len(masks)
    failed = np.zeros(n, dtype=bool) if failed is None else failed
    return Evaluations(
        costs=np.full(n, np.inf),
        fold_costs=np.full((n, n_folds), np.nan),
        importances=np.zeros(masks.shape),
        used=masks.copy(),
        censored=~failed,
        failed=failed,
        needed=np.zeros((n, n_folds), dtype=bool),
        exact_shrink=False,
        work=Work(),
    )


def stacked(parts: Sequence[Evaluations]) -> Evaluations:
    """Join the rows of at least one evaluation of other masks of the same problem."""
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in ROW_ARRAYS
    }
    return replace(
        parts[0],
        **joined,
        work=reduce(lambda total, part: total.plus(part.work, with_hits=True), parts, Work()),
        first_error=next((part.first_error for part in parts if part.first_error), None),
    )


class Evaluator(Protocol):
    """Evaluates batches of masks."""

    n_folds: int

    def evaluate(
        self, masks: Bool, incumbents: Float, fold_order: Int, race: Race | None = None
    ) -> Evaluations:
        """Evaluate `masks` (n, n_units) against `incumbents` (n,).

        Parameters
        ----------
        fold_order : int (m,)
            Order in which folds are trained, hardest first. Costs are means over these folds, which
            may be those of one partition; results on other folds are ignored.
        race : Race, optional
            Stop masks that are unlikely to win; they are reported as censored.
        """


def evaluate_fully(evaluator: Evaluator, masks: Bool) -> Evaluations:
    """Evaluate masks (n, n_units) on all folds, whatever they cost."""
    return evaluator.evaluate(masks, np.full(len(masks), np.inf), np.arange(evaluator.n_folds))
