"""Results of a fast path for many masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from swarm.arrays import Bool, Float

__all__ = ["PathResult", "by_fold", "joined"]


@dataclass(frozen=True)
class PathResult:
    """Costs, and importances if fitted models would have them.

    Attributes
    ----------
    costs : float64 (n, n_folds)
        NaN if rounding could change a prediction; a fitted model is then the fallback for this
        mask and fold.
    importances : float64 (n, n_folds, n_units) or None
        As :func:`swarm.problem.models.model_importances`, summed by unit; NaN where the cost is
        NaN.
    """

    costs: Float
    importances: Float | None = None


def by_fold(costs: Callable[[Bool, int], Float], masks: Bool, n_folds: int) -> PathResult:
    """Compute costs fold by fold, without importances."""
    return PathResult(np.stack([costs(masks, fold) for fold in range(n_folds)], axis=1))


def joined(parts: Sequence[PathResult]) -> PathResult:
    """Concatenate the results of parts of a batch."""
    importances = [part.importances for part in parts if part.importances is not None]
    return PathResult(
        np.concatenate([part.costs for part in parts]),
        np.concatenate(importances) if importances else None,
    )
