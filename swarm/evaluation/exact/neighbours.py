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

__all__ = ["label_counts", "nearest", "neighbours_of", "rounding_of", "vote", "weighted_vote"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]


@njit(nogil=True, cache=True)
def rounding_of(test: Float, train: Float, columns: Int) -> float:  # pragma: no cover
    """Return how far off a squared distance over `columns` may be, in any way of summing it."""
    largest = np.zeros(2)
    for i in range(test.shape[1]):
        norm = 0.0
        for j in columns:
            norm += test[j, i] * test[j, i]
        largest[0] = max(largest[0], norm)
    for i in range(train.shape[1]):
        norm = 0.0
        for j in columns:
            norm += train[j, i] * train[j, i]
        largest[1] = max(largest[1], norm)
    return 1e-15 * (len(columns) + 4.0) * (largest[0] + largest[1])  # type: ignore[no-any-return]


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
    best[:] = np.inf
    who[:] = -1
    for i in range(n_train):
        distance = work[i]
        if distance < best[k]:
            place = k
            while place > 0 and distance < best[place - 1]:
                best[place] = best[place - 1]
                who[place] = who[place - 1]
                place -= 1
            best[place] = distance
            who[place] = i


@njit(nogil=True, cache=True)
def vote(
    test: Float, train: Float, codes: Int, n_classes: int, columns: Int, k: int, labels: Int
) -> None:  # pragma: no cover
    """Let the `k` nearest training rows of every test row vote, the first class winning ties.

    Where rows are as far away as the k-th within rounding, the answer is given if it is the same
    whichever of them vote.

    Parameters
    ----------
    codes : int (n_train,)
        Classes of the training rows, from 0.
    labels : int (n_test,)
        Receives the class of each test row, -1 where it is doubtful.
    """
    n_train = train.shape[1]
    tolerance = rounding_of(test, train, columns)
    work, best, who = np.empty(n_train), np.empty(k + 1), np.empty(k + 1, np.int64)
    sure, maybe = np.empty(n_classes, np.int64), np.empty(n_classes, np.int64)
    for row in range(test.shape[1]):
        nearest(test, train, columns, k, row, work, best, who)
        sure[:] = 0
        maybe[:] = 0
        left = k
        if best[k] - best[k - 1] > tolerance:
            for place in range(k):
                sure[codes[who[place]]] += 1
            left = 0
        else:
            bound = best[k - 1]
            for i in range(n_train):
                if work[i] < bound - tolerance:
                    sure[codes[i]] += 1
                    left -= 1
                elif work[i] <= bound + tolerance:
                    maybe[codes[i]] += 1
        labels[row] = _winner(sure, maybe, left)


@njit(nogil=True, cache=True)
def _winner(sure: Int, maybe: Int, left: int) -> int:  # pragma: no cover
    """Class that wins whichever `left` of the `maybe` rows vote besides the sure ones, or -1."""
    total = maybe.sum()
    first = 0
    for label in range(len(sure)):
        if sure[label] > sure[first]:
            first = label
    if left == 0:
        return first
    for winner in range(len(sure)):
        least = sure[winner] + max(0, left - (total - maybe[winner]))
        wins = True
        for label in range(len(sure)):
            most = sure[label] + min(left, maybe[label])
            if label != winner and (most > least or (most == least and label < winner)):
                wins = False
                break
        if wins:
            return winner
    return -1


@njit(nogil=True, cache=True)
def weighted_vote(
    test: Float, train: Float, codes: Int, n_classes: int, columns: Int, k: int, labels: Int
) -> None:  # pragma: no cover
    """As :func:`vote`, each neighbour with a weight of one over its distance.

    Neighbours at no distance leave the others without a say.
    """
    tolerance = rounding_of(test, train, columns)
    work, best, who = np.empty(train.shape[1]), np.empty(k + 1), np.empty(k + 1, np.int64)
    weight = np.empty(n_classes)
    for row in range(test.shape[1]):
        nearest(test, train, columns, k, row, work, best, who)
        labels[row] = -1
        if best[k] - best[k - 1] <= tolerance:
            continue
        weight[:] = 0.0
        error = 0.0
        here = codes[who[0]]
        touching, agreed = 0, True
        for place in range(k):
            if best[place] <= tolerance:
                touching += 1
                agreed = agreed and codes[who[place]] == here
            else:
                share = 1.0 / np.sqrt(best[place])
                weight[codes[who[place]]] += share
                error += share * (tolerance / best[place] + 1e-14)
        if touching > 0:
            # Rounding decides whether they are at no distance or very near: either way they win.
            if agreed and weight.sum() < 0.5 / np.sqrt(tolerance):
                labels[row] = here
            continue
        first = int(np.argmax(weight))
        second = 0.0
        for label in range(n_classes):
            if label != first:
                second = max(second, weight[label])
        if weight[first] - second > 2.0 * error:
            labels[row] = first


@njit(nogil=True, cache=True)
def neighbours_of(
    test: Float, train: Float, columns: Int, k: int, who: Int, distance: Float
) -> bool:  # pragma: no cover
    """Find the `k` nearest training rows of every test row, nearest first.

    Parameters
    ----------
    who : int (n_test, k), distance : float64 (n_test, k)
        Receive their rows and distances.

    Returns
    -------
    bool
        Whether rounding leaves no doubt about who they are.
    """
    tolerance = rounding_of(test, train, columns)
    work, best, found = np.empty(train.shape[1]), np.empty(k + 1), np.empty(k + 1, np.int64)
    sure = True
    for row in range(test.shape[1]):
        nearest(test, train, columns, k, row, work, best, found)
        sure = sure and best[k] - best[k - 1] > tolerance
        who[row] = found[:k]
        distance[row] = np.sqrt(best[:k])
    return sure


@njit(nogil=True, cache=True)
def label_counts(
    query: Float, train: Float, labels: Int, columns: Int, k: int, own: bool, counts: Int
) -> bool:  # pragma: no cover
    """Count for every query row how many of its `k` nearest training rows have each label.

    Parameters
    ----------
    labels : int (n_train, n_labels)
    own : bool
        Whether the query rows are the training rows, which are no neighbours of themselves.
    counts : int (n_query, n_labels)
        Receives the counts.

    Returns
    -------
    bool
        Whether rounding leaves no doubt about them.
    """
    tolerance = rounding_of(query, train, columns)
    # One more than needed: a row that is left out is among its own nearest.
    size = k + 1 if own else k
    work, best, who = np.empty(train.shape[1]), np.empty(size + 1), np.empty(size + 1, np.int64)
    sure = True
    for row in range(query.shape[1]):
        nearest(query, train, columns, size, row, work, best, who)
        counts[row] = 0
        taken = 0
        for place in range(size + 1):
            if own and who[place] == row:
                continue
            if taken == k:
                last = work[who[place]]
                break
            bound = best[place]
            counts[row] += labels[who[place]]
            taken += 1
        if last - bound <= tolerance:
            sure = sure and _alike(work, bound, tolerance, labels, row if own else -1)
    return sure


@njit(nogil=True, cache=True)
def _alike(
    work: Float, bound: float, tolerance: float, labels: Int, left_out: int
) -> bool:  # pragma: no cover
    """Whether all rows that may be the k-th nearest have the same labels."""
    first = -1
    for i in range(len(work)):
        if i == left_out or abs(work[i] - bound) > tolerance:
            continue
        if first < 0:
            first = i
        elif (labels[i] != labels[first]).any():
            return False
    return True
