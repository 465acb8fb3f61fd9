"""Run an exact path over masks and folds, on several threads."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from swarm.evaluation.exact.choose import ExactPath

__all__ = ["fold_costs"]

# Pieces of work for each thread: enough to share out, few enough to be worth it.
_PIECES = 4


def fold_costs(
    path: ExactPath, masks: NDArray[np.bool_], n_folds: int, n_threads: int = 1
) -> NDArray[np.float64]:
    """Cost of each mask (n, n_units) on each fold: float64 (n, n_folds), NaN where doubtful.

    The compiled parts let other threads run, so threads are enough to use every core.
    """
    from joblib import Parallel, delayed
    from threadpoolctl import threadpool_limits

    count = 1 if n_threads == 1 else math.ceil(_PIECES * n_threads / n_folds)
    pieces = np.array_split(masks, min(count, len(masks)))
    with threadpool_limits(limits=1):
        if n_threads == 1:
            found = [path.fold_costs(piece, f) for f in range(n_folds) for piece in pieces]
        else:
            pool = Parallel(n_jobs=n_threads, backend="threading")
            found = pool(
                delayed(path.fold_costs)(piece, f) for f in range(n_folds) for piece in pieces
            )
    by_fold = [np.concatenate(found[f * len(pieces) :][: len(pieces)]) for f in range(n_folds)]
    return np.stack(by_fold, axis=1)
