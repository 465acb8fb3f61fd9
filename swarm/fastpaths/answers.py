"""What a path that spares the models tells of many masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Answers", "by_fold", "joined"]

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Answers:
    """Costs, and importances where the models that are spared would have had them.

    Attributes
    ----------
    costs : float64 (n, n_folds)
        NaN where doubtful: a prediction that the order of rounding could change. That fold of
        that mask is left to a fitted model.
    importances : float64 (n, n_folds, n_units) or None
        As :func:`swarm.problem.models.model_importances`, summed up by unit; NaN where the
        cost is.
    """

    costs: Float
    importances: Float | None = None


def by_fold(
    costs: Callable[[NDArray[np.bool_], int], Float], masks: NDArray[np.bool_], n_folds: int
) -> Answers:
    """Answer fold by fold, without importances."""
    return Answers(np.stack([costs(masks, fold) for fold in range(n_folds)], axis=1))


def joined(parts: Sequence[Answers]) -> Answers:
    """Put the answers to pieces of a batch together again."""
    told = [part.importances for part in parts if part.importances is not None]
    return Answers(
        np.concatenate([part.costs for part in parts]), np.concatenate(told) if told else None
    )
