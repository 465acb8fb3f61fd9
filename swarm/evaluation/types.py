"""Interface between evaluators and strategies."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np

from swarm.arrays import Bool, Float, Int, read_only
from swarm.errors import EvaluationError, as_clause
from swarm.storage.records import reason_of

# Arrays of Evaluations with a row for each mask.
ROW_ARRAYS = ("costs", "fold_costs", "importances", "used", "censored", "failed", "needed")


@dataclass(frozen=True)
class Work:
    """Actual work of an evaluation; less if results are in the archive.

    Attributes
    ----------
    fits : int
        Trained models.
    hits : int
        Masks in the archive, without any training.
    fallbacks : int
        Masks of a fast path that needed models, because rounding decides their cost.
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
        Worse than the incumbent; a fit failed.
    needed : bool (n, n_folds)
        Folds that decided each result.
    exact_shrink : bool
        Whether units outside `used` can be dropped without changing any fold model.
    work : Work
    first_error : str or None
        Error of the first failed fit, see :class:`swarm.storage.records.Record`.
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
        read_only(self.costs, self.fold_costs, self.importances, self.used, self.censored)


def censored_evaluations(masks: Bool, n_folds: int) -> Evaluations:
    """Return evaluations of masks (n, n_units) without a cost, for which no fold was needed."""
    n = len(masks)
    return Evaluations(
        costs=np.full(n, np.inf),
        fold_costs=np.full((n, n_folds), np.nan),
        importances=np.zeros(masks.shape),
        used=masks.copy(),
        censored=np.ones(n, dtype=bool),
        failed=np.zeros(n, dtype=bool),
        needed=np.zeros((n, n_folds), dtype=bool),
        exact_shrink=False,
        work=Work(),
    )


def concatenate_evaluations(parts: Sequence[Evaluations]) -> Evaluations:
    """Join the rows of at least one evaluation of other masks of the same problem."""
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in ROW_ARRAYS
    }
    work = {
        field.name: sum(getattr(part.work, field.name) for part in parts) for field in fields(Work)
    }
    errors = (part.first_error for part in parts if part.first_error)
    return replace(parts[0], **arrays, work=Work(**work), first_error=next(errors, None))


def failed_evaluations(message: str, first_error: str | None) -> EvaluationError:
    """Return an error that names the first failure, with its traceback as a note for the log."""
    error = EvaluationError(f"{message}; the first: {as_clause(reason_of(first_error))}")
    error.add_note((first_error or "").partition("\n")[2])
    return error


class Evaluator(Protocol):
    """An object that evaluates batches of masks, such as :class:`.CrossValidation`."""

    n_folds: int

    def evaluate(self, masks: Bool, incumbents: Float, fold_order: Int) -> Evaluations:
        """Evaluate masks (n, n_units) against incumbents (n,), folds in the given order."""


def evaluate_fully(evaluator: Evaluator, masks: Bool) -> Evaluations:
    """Evaluate masks (n, n_units) on all folds, whatever they cost."""
    return evaluator.evaluate(masks, np.full(len(masks), np.inf), np.arange(evaluator.n_folds))
