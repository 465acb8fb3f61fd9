"""Votes of the nearest neighbours for many masks, compiled.

Every function takes the columns of all masks, see :class:`.tables.Chosen`, so that a batch is
one call.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from swarm.arrays import Bool, Float, Int
from swarm.fastpaths.neighbours import (
    ROWS,
    measure,
    nearest_of_all,
    norm_of,
    queries,
    reference,
    rounding_of,
)

__all__ = ["count_votes", "neighbours_of", "vote", "weighted_vote"]


@njit(nogil=True, cache=True)
def vote(
    test: Float,
    train: Float,
    largest: Float,
    codes: Int,
    n_classes: int,
    pointers: Int,
    chosen: Int,
    k: int,
    labels: Int,
) -> None:  # pragma: no cover
    """Majority vote of the `k` nearest training rows of every test row, first class on ties.

    If other rows are at the distance of the k-th within rounding, the result is certain only if
    it does not depend on which of them vote.

    Parameters
    ----------
    largest : float64 (n_columns,)
        See :func:`.neighbours.largest_squares`.
    codes : int (n_train,)
        Classes of the training rows, from 0.
    labels : int (n, n_test)
        Output: class of each test row by each mask, -1 if doubtful.
    """
    n_train = train.shape[1]
    block, best = np.empty((ROWS, n_train)), np.empty((ROWS, k + 1))
    who = np.empty((ROWS, k + 1), np.int64)
    votes = np.empty(n_classes, np.int64)
    for m in range(len(pointers) - 1):
        columns = chosen[pointers[m] : pointers[m + 1]]
        tolerance, there = rounding_of(largest, columns), reference(train, columns)
        for start in range(0, test.shape[1], ROWS):
            here = queries(test, columns, start, min(start + ROWS, test.shape[1]))
            measure(here, there, block[: len(here)])
            nearest_of_all(block[: len(here)], k, best, who)
            for row in range(len(here)):
                if best[row, k] - best[row, k - 1] > tolerance:
                    votes[:] = 0
                    for place in range(k):
                        votes[codes[who[row, place]]] += 1
                    labels[m, start + row] = _most(votes)
                else:
                    given = (codes, n_classes, k)
                    labels[m, start + row] = _sure(block[row], best[row, k - 1], tolerance, *given)


@njit(nogil=True, cache=True)
def count_votes(
    test: Float,
    train: Float,
    largest: Float,
    codes: Int,
    pointers: Int,
    chosen: Int,
    k: int,
    votes: Int,
) -> None:  # pragma: no cover
    """As :func:`vote`, but count the votes for each class.

    Parameters
    ----------
    votes : int (n_classes, n, n_test)
        Output; -1 where doubtful.
    """
    n_train = train.shape[1]
    block, best = np.empty((ROWS, n_train)), np.empty((ROWS, k + 1))
    who = np.empty((ROWS, k + 1), np.int64)
    for m in range(len(pointers) - 1):
        columns = chosen[pointers[m] : pointers[m + 1]]
        tolerance, there = rounding_of(largest, columns), reference(train, columns)
        for start in range(0, test.shape[1], ROWS):
            here = queries(test, columns, start, min(start + ROWS, test.shape[1]))
            measure(here, there, block[: len(here)])
            nearest_of_all(block[: len(here)], k, best, who)
            for row in range(len(here)):
                own = votes[:, m, start + row]
                if best[row, k] - best[row, k - 1] > tolerance:
                    own[:] = 0
                    for place in range(k):
                        own[codes[who[row, place]]] += 1
                else:
                    _count_sure(block[row], best[row, k - 1], tolerance, codes, k, own)


@njit(nogil=True, cache=True)
def _count_sure(
    work: Float, bound: float, tolerance: float, codes: Int, k: int, votes: Int
) -> None:  # pragma: no cover
    """Count votes if all rows at distance `bound` have the same class, otherwise -1."""
    votes[:] = 0
    left, last = k, -1
    for i in range(len(work)):
        if work[i] < bound - tolerance:
            votes[codes[i]] += 1
            left -= 1
        elif work[i] <= bound + tolerance:
            if last >= 0 and codes[i] != last:
                votes[:] = -1
                return
            last = codes[i]
    if left > 0:
        votes[last] += left


@njit(nogil=True, cache=True)
def _sure(
    work: Float, bound: float, tolerance: float, codes: Int, n_classes: int, k: int
) -> int:  # pragma: no cover
    """Return the class that wins regardless of which rows at distance `bound` vote, or -1."""
    sure, maybe = np.zeros(n_classes, np.int64), np.zeros(n_classes, np.int64)
    left = k
    for i in range(len(work)):
        if work[i] < bound - tolerance:
            sure[codes[i]] += 1
            left -= 1
        elif work[i] <= bound + tolerance:
            maybe[codes[i]] += 1
    return _winner(sure, maybe, left)


@njit(nogil=True, cache=True)
def _most(votes: Int) -> int:  # pragma: no cover
    """Return the class with the most votes, the first one on ties."""
    first = 0
    for label in range(1, len(votes)):
        if votes[label] > votes[first]:
            first = label
    return first


@njit(nogil=True, cache=True)
def _winner(sure: Int, maybe: Int, left: int) -> int:  # pragma: no cover
    """Return the class that wins regardless of which `left` of the `maybe` rows vote, or -1."""
    total = maybe.sum()
    if left == 0:
        return _most(sure)
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
    test: Float,
    train: Float,
    largest: Float,
    codes: Int,
    n_classes: int,
    pointers: Int,
    chosen: Int,
    k: int,
    labels: Int,
) -> None:  # pragma: no cover
    """As :func:`vote`, with each neighbour weighted by the inverse of its distance.

    If there are neighbours at distance 0, only these vote.
    """
    n_train = train.shape[1]
    block, best = np.empty((ROWS, n_train)), np.empty((ROWS, k + 1))
    who = np.empty((ROWS, k + 1), np.int64)
    weight = np.empty(n_classes)
    for m in range(len(pointers) - 1):
        columns = chosen[pointers[m] : pointers[m + 1]]
        tolerance, there = rounding_of(largest, columns), reference(train, columns)
        for start in range(0, test.shape[1], ROWS):
            here = queries(test, columns, start, min(start + ROWS, test.shape[1]))
            measure(here, there, block[: len(here)])
            nearest_of_all(block[: len(here)], k, best, who)
            for row in range(len(here)):
                best[row] += norm_of(here[row])
                given = (codes, k, tolerance, weight)
                labels[m, start + row] = _weighed(best[row], who[row], *given)


@njit(nogil=True, cache=True)
def _weighed(
    best: Float, who: Int, codes: Int, k: int, tolerance: float, weight: Float
) -> int:  # pragma: no cover
    """Return the class with the largest weight, or -1 if doubtful."""
    if best[k] - best[k - 1] <= tolerance:
        return -1
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
        # Rounding decides whether their distance is 0 or tiny; they win in both cases.
        if agreed and weight.sum() < 0.5 / np.sqrt(tolerance):
            return here  # type: ignore[no-any-return]
        return -1
    first = int(np.argmax(weight))
    second = 0.0
    for label in range(len(weight)):
        if label != first:
            second = max(second, weight[label])
    return first if weight[first] - second > 2.0 * error else -1


@njit(nogil=True, cache=True)
def neighbours_of(
    test: Float,
    train: Float,
    largest: Float,
    pointers: Int,
    chosen: Int,
    k: int,
    who: Int,
    distance: Float,
    sure: Bool,
) -> None:  # pragma: no cover
    """Find the `k` nearest training rows of every test row, nearest first.

    Parameters
    ----------
    who : int (n, n_test, k), distance : float64 (n, n_test, k)
        Output: their positions and distances.
    sure : bool (n,)
        Output: whether rounding cannot change the neighbours.
    """
    n_train = train.shape[1]
    block, best = np.empty((ROWS, n_train)), np.empty((ROWS, k + 1))
    found = np.empty((ROWS, k + 1), np.int64)
    for m in range(len(pointers) - 1):
        columns = chosen[pointers[m] : pointers[m + 1]]
        tolerance, there = rounding_of(largest, columns), reference(train, columns)
        sure[m] = True
        for start in range(0, test.shape[1], ROWS):
            here = queries(test, columns, start, min(start + ROWS, test.shape[1]))
            measure(here, there, block[: len(here)])
            nearest_of_all(block[: len(here)], k, best, found)
            for row in range(len(here)):
                sure[m] = sure[m] and best[row, k] - best[row, k - 1] > tolerance
                who[m, start + row] = found[row, :k]
                # Distances are used as weights, so they are summed without losing digits.
                for place in range(k):
                    total = 0.0
                    for j in columns:
                        step = test[j, start + row] - train[j, found[row, place]]
                        total += step * step
                    distance[m, start + row, place] = np.sqrt(total)
