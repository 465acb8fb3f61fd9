"""Nearest neighbours of many masks, compiled.

Squared Euclidean distances are sums over features, so that a mask takes one product of its columns
and no model. They are computed as ``|x|^2 - 2xy + |y|^2``, as in parts of scikit-learn. This loses
digits: a row is doubtful if rounding, here or in scikit-learn, could change its neighbours in a way
that changes the result.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from swarm.arrays import Float, Int

__all__ = [
    "ROWS",
    "largest_squares",
    "measure",
    "nearest_of_all",
    "norm_of",
    "queries",
    "reference",
    "rounding_of",
    "smallest",
    "widened",
]

# Rows whose distances are computed together.
ROWS = 64
# Block size of the search for small values.
_BLOCK = 16


def largest_squares(test: Float, train: Float) -> Float:
    """Return the largest square of each column in test rows plus that in training rows."""
    found: Float = (test**2).max(axis=1) + (train**2).max(axis=1)
    return found


def widened(largest: Float, n_train: int) -> Float:
    """Allow for scales summed in another order, see :func:`.tables.scales_are_exact`.

    The relative error of a sum over n rows is at most n u, and so is that of a variance and of
    the square of a scaled distance.
    """
    return largest * (1.0 + n_train / 4.0)


@njit(nogil=True, cache=True)
def rounding_of(largest: Float, columns: Int) -> float:  # pragma: no cover
    """Return the difference of two squared distances above which rounding keeps their order.

    With unit roundoff u, ``n`` columns and norms of at most N in total, the error of either
    summation is at most ``2 (n + 3) u N``. For two distances, here and in scikit-learn, the bound
    is four times that, ``8.9e-16 (n + 3) N``.

    Parameters
    ----------
    largest : float64 (n_columns,)
        See :func:`largest_squares`.
    """
    norms = 0.0
    for j in columns:
        norms += largest[j]
    return 1e-15 * (len(columns) + 4.0) * norms


@njit(nogil=True, cache=True)
def reference(train: Float, columns: Int) -> Float:  # pragma: no cover
    """Return the second operand of :func:`measure`: -2 times the columns, and a row of norms.

    Parameters
    ----------
    train : float64 (n_columns, n_train)
    columns : int (n_chosen,)

    Returns
    -------
    float64 (n_chosen + 1, n_train)
    """
    n = len(columns)
    rows = np.empty((n + 1, train.shape[1]))
    norms = rows[n]
    norms[:] = 0.0
    for place in range(n):
        column, row = train[columns[place]], rows[place]
        for i in range(len(column)):
            row[i] = -2.0 * column[i]
            norms[i] += column[i] * column[i]
    return rows


@njit(nogil=True, cache=True)
def queries(test: Float, columns: Int, start: int, stop: int) -> Float:  # pragma: no cover
    """Return the first operand of :func:`measure`: test rows, each with a final 1.

    Parameters
    ----------
    test : float64 (n_columns, n_test)
    """
    n = len(columns)
    rows = np.empty((stop - start, n + 1))
    for place in range(n):
        column = test[columns[place]]
        for row in range(start, stop):
            rows[row - start, place] = column[row]
    rows[:, n] = 1.0
    return rows


@njit(nogil=True, cache=True)
def measure(rows: Float, train: Float, work: Float) -> None:  # pragma: no cover
    """Compute ``|y|^2 - 2xy``: squared distances minus the norm of the query row.

    Parameters
    ----------
    rows : float64 (n_rows, n_chosen + 1)
        See :func:`queries`.
    train : float64 (n_chosen + 1, n_train)
        See :func:`reference`.
    work : float64 (n_rows, n_train)
        Output.
    """
    np.dot(rows, train, work)


@njit(nogil=True, cache=True)
def norm_of(row: Float) -> float:  # pragma: no cover
    """Return the sum of squares of a row of :func:`queries`."""
    norm = 0.0
    for place in range(len(row) - 1):
        norm += row[place] * row[place]
    return norm


@njit(nogil=True, cache=True)
def nearest_of_all(work: Float, k: int, best: Float, who: Int) -> None:  # pragma: no cover
    """Find the `k` + 1 smallest values of each row of `work`, see :func:`smallest`."""
    for row in range(work.shape[0]):
        smallest(work[row], k, best[row], who[row])


@njit(nogil=True, cache=True)
def smallest(work: Float, k: int, best: Float, who: Int) -> None:  # pragma: no cover
    """Find the `k` + 1 smallest values of `work`, in order; inf and -1 if there are fewer.

    Branches on the values would be unpredictable, so that the inner loops are branch-free.
    """
    n, n_blocks = len(work), (len(work) + _BLOCK - 1) // _BLOCK
    lows = np.empty(n_blocks)
    for b in range(n_blocks):
        lows[b] = _least(work[b * _BLOCK : (b + 1) * _BLOCK])
    # Each of the k + 1 blocks with the lowest minima has a value up to the highest of these
    # minima. With this bound, most blocks are skipped.
    best[:] = np.inf
    for b in range(n_blocks):
        value = lows[b]
        for place in range(k, 0, -1):
            higher = best[place - 1] if best[place - 1] > value else value
            best[place] = best[place] if best[place] < higher else higher
        best[0] = best[0] if best[0] < value else value
    bound = best[k]
    kept, n_kept = np.empty(n_blocks + 1, np.int64), 0
    for b in range(n_blocks):
        kept[n_kept] = b
        n_kept += lows[b] <= bound
    best[:] = np.inf
    who[:] = -1
    found = np.empty(_BLOCK + 1, np.int64)
    for b in kept[:n_kept]:
        first, n_found = b * _BLOCK, 0
        for i in range(first, min(first + _BLOCK, n)):
            found[n_found] = i
            n_found += work[i] <= bound
        for i in found[:n_found]:
            if work[i] < best[k]:
                _insert(best, who, k, work[i], i)


@njit(nogil=True, cache=True)
def _insert(best: Float, who: Int, k: int, value: float, number: int) -> None:  # pragma: no cover
    """Insert a value into the sorted values, after those equal to it."""
    place = k
    while place > 0 and value < best[place - 1]:
        best[place] = best[place - 1]
        who[place] = who[place - 1]
        place -= 1
    best[place] = value
    who[place] = number


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz"})
def _least(block: Float) -> float:  # pragma: no cover
    least = block[0]
    for i in range(len(block)):
        value = block[i]
        if value < least:
            least = value
    return least  # type: ignore[no-any-return]
