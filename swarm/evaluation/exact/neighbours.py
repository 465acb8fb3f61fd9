"""Nearest neighbours of many masks, compiled.

Squared Euclidean distances add up over features, so a mask costs one product of its columns and
no model. They are formed as ``|x|^2 - 2xy + |y|^2``, as scikit-learn forms some of its own. That
loses digits: wherever rounding of that kind, in its sums or in these, could change who is a
neighbour in a way that changes the answer, the row is called doubtful.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["ROWS", "largest_squares", "measure", "norms_of", "rounding_of", "rows_of", "smallest"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]

# Rows whose distances are found at a time.
ROWS = 64
# Numbers that are looked through at a time for one that is small.
_BLOCK = 16


def largest_squares(test: Float, train: Float) -> Float:
    """Largest square of each column of test rows, plus that of training rows: (n_columns,)."""
    found: Float = (test**2).max(axis=1) + (train**2).max(axis=1)
    return found


@njit(nogil=True, cache=True)
def rounding_of(largest: Float, columns: Int) -> float:  # pragma: no cover
    """Return how far apart two squared distances over `columns` are that keep their order.

    With unit roundoff u, ``n`` columns and norms of at most N together, either way of summing
    is off by at most ``2 (n + 3) u N``. Two distances of ours and the same two of
    scikit-learn's make four times that, ``8.9e-16 (n + 3) N``.

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
def norms_of(columns: Float) -> Float:  # pragma: no cover
    """Sum of squares of each row; `columns` is (n_chosen, n_rows)."""
    norms = np.zeros(columns.shape[1])
    for j in range(columns.shape[0]):
        for i in range(columns.shape[1]):
            norms[i] += columns[j, i] * columns[j, i]
    return norms


@njit(nogil=True, cache=True)
def rows_of(table: Float, columns: Int, start: int, stop: int) -> Float:  # pragma: no cover
    """Some rows of a table (n_columns, n_rows), as (stop - start, n_chosen)."""
    rows = np.empty((stop - start, len(columns)))
    for place in range(len(columns)):
        column = table[columns[place]]
        for row in range(start, stop):
            rows[row - start, place] = column[row]
    return rows


@njit(nogil=True, cache=True)
def measure(test: Float, train: Float, norms: Float, work: Float) -> None:  # pragma: no cover
    """Find the squared distances of test rows to all training rows.

    Parameters
    ----------
    test : float64 (n_rows, n_chosen), train : float64 (n_chosen, n_train)
    norms : float64 (n_train,)
        See :func:`norms_of`.
    work : float64 (n_rows, n_train)
        Receives them.
    """
    np.dot(test, train, work)
    for row in range(work.shape[0]):
        norm = 0.0
        for place in range(test.shape[1]):
            norm += test[row, place] * test[row, place]
        for i in range(work.shape[1]):
            work[row, i] = (norm + norms[i]) - 2.0 * work[row, i]


@njit(nogil=True, cache=True)
def smallest(work: Float, k: int, best: Float, who: Int) -> None:  # pragma: no cover
    """Find the `k` + 1 smallest numbers of `work`, smallest first, the first of equal ones."""
    n_blocks = (len(work) + _BLOCK - 1) // _BLOCK
    lows = np.empty(n_blocks)
    best[:] = np.inf
    # The k + 1 lowest blocks have a number each up to the highest of their minima: with that
    # for a bound most numbers are passed over by whole blocks.
    for b in range(n_blocks):
        lows[b] = _least(work[b * _BLOCK : (b + 1) * _BLOCK])
        if lows[b] < best[k]:
            _insert(best, who, k, lows[b], b)
    bound = best[k]
    best[:] = np.inf
    who[:] = -1
    for b in range(n_blocks):
        if lows[b] > bound:
            continue
        block = work[b * _BLOCK : (b + 1) * _BLOCK]
        for i in range(len(block)):
            if block[i] <= bound and block[i] < best[k]:
                _insert(best, who, k, block[i], b * _BLOCK + i)


@njit(nogil=True, cache=True)
def _insert(best: Float, who: Int, k: int, value: float, number: int) -> None:  # pragma: no cover
    """Put a value in its place, after those equal to it."""
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
