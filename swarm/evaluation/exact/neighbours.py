"""Nearest neighbours of many masks, compiled.

Squared Euclidean distances add up over features, so a mask costs one pass over its columns and
no model. Distances are summed feature by feature and never formed as ``|x|^2 - 2xy + |y|^2``,
which loses digits. scikit-learn forms some of its own that way: wherever rounding of that kind
could change who is a neighbour in a way that changes the answer, the row is called doubtful.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["largest_squares", "measure", "nearest", "rounding_of", "smallest"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]

# Numbers that are looked through at a time for one that is small.
_BLOCK = 16


def largest_squares(test: Float, train: Float) -> Float:
    """Largest square of each column of test rows, plus that of training rows: (n_columns,)."""
    found: Float = (test**2).max(axis=1) + (train**2).max(axis=1)
    return found


@njit(nogil=True, cache=True)
def rounding_of(largest: Float, columns: Int) -> float:  # pragma: no cover
    """Return how far off a squared distance over `columns` may be, in any way of summing it.

    Parameters
    ----------
    largest : float64 (n_columns,)
        See :func:`largest_squares`.
    """
    norms = 0.0
    for j in columns:
        norms += largest[j]
    return 1e-15 * (len(columns) + 4.0) * norms


# Products and sums in one instruction round once: within what `rounding_of` allows.
@njit(nogil=True, cache=True, fastmath={"contract"})
def measure(
    test: Float, train: Float, columns: Int, row: int, work: Float
) -> None:  # pragma: no cover
    """Squared distances of a test row to all training rows, into `work` (n_train,)."""
    n_train = train.shape[1]
    n = len(columns)
    work[:] = 0.0
    # Four columns a pass: the sums are read and written a quarter as often.
    for start in range(0, n - n % 4, 4):
        a, b, c, d = columns[start], columns[start + 1], columns[start + 2], columns[start + 3]
        at_a, at_b, at_c, at_d = test[a, row], test[b, row], test[c, row], test[d, row]
        of_a, of_b, of_c, of_d = train[a], train[b], train[c], train[d]
        for i in range(n_train):
            step_a, step_b = at_a - of_a[i], at_b - of_b[i]
            step_c, step_d = at_c - of_c[i], at_d - of_d[i]
            work[i] += (step_a * step_a + step_b * step_b) + (step_c * step_c + step_d * step_d)
    for j in columns[n - n % 4 :]:
        here = test[j, row]
        there = train[j]
        for i in range(n_train):
            step = here - there[i]
            work[i] += step * step


@njit(nogil=True, cache=True)
def nearest(
    test: Float, train: Float, columns: Int, k: int, row: int, work: Float, best: Float, who: Int
) -> None:  # pragma: no cover
    """Find the `k` + 1 nearest training rows of a test row, nearest first.

    Parameters
    ----------
    test : float64 (n_columns, n_test), train : float64 (n_columns, n_train)
    columns : int (n_chosen,)
    work : float64 (n_train,)
        Receives the squared distances.
    best : float64 (k + 1,), who : int (k + 1,)
        Receive the smallest of them, inf where there are fewer rows, and their rows.
    """
    measure(test, train, columns, row, work)
    smallest(work, k, best, who)


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
