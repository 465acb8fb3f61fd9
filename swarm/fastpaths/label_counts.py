"""Count labels of the nearest neighbours of every row in every fold, compiled.

Distances between rows are the same in every fold. Therefore, they are computed once, and each fold
takes its training rows from the sorted neighbours of a row.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from swarm.arrays import Bool, Float, Int
from swarm.fastpaths.neighbours import ROWS, measure, queries, reference, smallest

__all__ = ["MOST_NEIGHBOURS", "label_counts", "packed"]

Words = NDArray[np.uint64]

# A count is stored in a byte.
MOST_NEIGHBOURS = 255


def packed(labels: Int) -> Words:
    """Pack eight labels of a row into a word, so that one sum counts eight: (n_rows, n_words)."""
    n_rows, n_labels = labels.shape
    bytes_ = np.zeros((n_rows, -(-n_labels // 8) * 8), dtype=np.uint8)
    bytes_[:, :n_labels] = labels
    return bytes_.view(np.uint64)


@njit(nogil=True, cache=True)
def label_counts(
    rows: Float,
    columns: Int,
    labels: Words,
    trained: Bool,
    asked: Bool,
    k: int,
    tolerance: float,
    counts: Words,
    sure: Bool,
) -> None:  # pragma: no cover
    """Count how many of the `k` nearest training rows of every row have each label.

    A row is not a neighbour of itself.

    Parameters
    ----------
    rows : float64 (n_columns, n_rows)
    columns : int (n_chosen,)
    labels : uint64 (n_rows, n_words)
        See :func:`packed`.
    trained, asked : bool (n_folds, n_rows)
        Training rows of each fold, and rows whose neighbours are needed.
    tolerance : float
        Bound on the rounding error of a squared distance.
    counts : uint64 (n_folds, n_rows, n_words)
        Output: counts for the rows in `asked`, eight labels per word.
    sure : bool (n_folds,)
        Output: whether rounding cannot change the counts.
    """
    n_folds, n_rows = trained.shape
    # Usually few of the nearest rows are outside the training rows; otherwise, all are examined.
    size = min(n_rows, k + 2 + k // 2 + 4)
    block, masked = np.empty((ROWS, n_rows)), np.empty(n_rows)
    best, who = np.empty(size), np.empty(size, np.int64)
    least, lying = np.empty(k + 2), np.empty(k + 2, np.int64)
    there = reference(rows, columns)
    sure[:] = True
    for row in range(n_rows):
        if row % ROWS == 0:
            here = queries(rows, columns, row, min(row + ROWS, n_rows))
            measure(here, there, block[: len(here)])
        work = block[row % ROWS]
        work[row] = np.inf
        smallest(work, size - 1, best, who)
        for fold in range(n_folds):
            if not asked[fold, row]:
                continue
            own = counts[fold, row]
            taken, bound, last = _take(best, who, trained[fold], labels, k, own)
            if taken <= k:
                for i in range(n_rows):
                    masked[i] = work[i] if trained[fold, i] else np.inf
                smallest(masked, k, least[: k + 1], lying[: k + 1])
                taken, bound, last = _take(
                    least[: k + 1], lying[: k + 1], trained[fold], labels, k, own
                )
            if last - bound <= tolerance:
                sure[fold] = sure[fold] and _alike(work, bound, tolerance, labels, trained[fold])


@njit(nogil=True, cache=True)
def _take(
    best: Float, who: Int, trained: Bool, labels: Words, k: int, counts: Words
) -> tuple[int, float, float]:  # pragma: no cover
    """Count labels of the first `k` training rows.

    Returns the number of training rows, up to k + 1, and the distances of the k-th and the next.
    """
    taken, bound, last = 0, 0.0, np.inf
    n_words = len(counts)
    for word in range(n_words):
        counts[word] = 0
    for place in range(len(best)):
        other = who[place]
        if other < 0 or not trained[other]:
            continue
        taken += 1
        if taken > k:
            last = best[place]
            break
        bound = best[place]
        for word in range(n_words):
            counts[word] += labels[other, word]
    return taken, bound, last


@njit(nogil=True, cache=True)
def _alike(
    work: Float, bound: float, tolerance: float, labels: Words, trained: Bool
) -> bool:  # pragma: no cover
    """Whether all training rows that could be the k-th nearest have the same labels."""
    first = -1
    for i in range(len(work)):
        if not trained[i] or abs(work[i] - bound) > tolerance:
            continue
        if first < 0:
            first = i
        elif (labels[i] != labels[first]).any():
            return False
    return True
