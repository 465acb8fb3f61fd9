"""Stratified folds for multi-label targets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from swarm.arrays import Float, Int

__all__ = ["iterative_stratification"]


def iterative_stratification(
    target: NDArray[Any], n_folds: int, rng: np.random.Generator | None
) -> Int:
    """Assign each row to a fold, rarest label first, to the fold that lacks this label most.

    Ties are broken by the number of rows that a fold lacks, then at random. A label with fewer
    rows than folds is missing from some folds, which is not an error.

    Parameters
    ----------
    target : (n_rows, n_labels)
        0 or 1.
    rng
        Shuffles rows and breaks ties. None: rows in their order, ties to the first fold.

    Returns
    -------
    int (n_rows,)

    References
    ----------
    Sechidis, Tsoumakas and Vlahavas (2011), On the stratification of multi-label data, ECML
    PKDD. The packages that implement it are no longer maintained.
    """
    n_rows, n_labels = target.shape
    order = np.arange(n_rows) if rng is None else rng.permutation(n_rows)
    chance = np.zeros((n_rows, n_folds)) if rng is None else rng.random((n_rows, n_folds))
    # The last column marks all rows: its deficit is the number of rows that a fold lacks.
    labels = np.column_stack([target[order] != 0, np.ones(n_rows, dtype=bool)])
    lacking = np.repeat(labels.sum(axis=0)[:, None] / n_folds, n_folds, axis=1)
    placed = np.full(n_rows, -1, dtype=np.int64)
    open_rows = np.ones(n_rows, dtype=bool)
    while open_rows.any():
        left = labels[open_rows, :n_labels].sum(axis=0)
        rarest = int(np.where(left > 0, left, n_rows + 1).argmin()) if left.any() else n_labels
        rows = np.flatnonzero(open_rows & labels[:, rarest])
        for row in rows:
            fold = _most_lacking(lacking[rarest], lacking[n_labels], chance[row])
            placed[row] = fold
            lacking[labels[row], fold] -= 1.0
        open_rows[rows] = False
    fold_of = np.empty(n_rows, dtype=np.int64)
    fold_of[order] = placed
    return fold_of


def _most_lacking(of_label: Float, of_rows: Float, chance: Float) -> int:
    best = np.flatnonzero(of_label == of_label.max())
    if len(best) > 1:
        best = best[of_rows[best] == of_rows[best].max()]
    return int(best[chance[best].argmax()])
