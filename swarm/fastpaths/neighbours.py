"""Nearest neighbours of many masks and their votes, compiled, and where ties can be broken.

Squared Euclidean distances are sums over features, so that a mask takes one product of its columns
and no model. They are computed as ``|x|^2 - 2xy + |y|^2``, as in parts of scikit-learn. This loses
digits: a row is doubtful if rounding, here or in scikit-learn, could change its neighbours in a way
that changes the result. Functions for many masks take their columns, see :class:`.tables.Chosen`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit

from swarm.arrays import Bool, Float, Int
from swarm.threads import one_thread

# Rows whose distances are computed together.
ROWS = 64
# Block size of the search for small values.
_BLOCK = 16
# Arrays of :func:`smallest`.
Scratch = tuple[Float, Int, Int]
# Integers up to this limit are exact in float64.
_EXACT = 2.0**53
# Rows that fitted models have to confirm before a rule is trusted.
_ENOUGH = 64


def largest_squares(test: Float, train: Float, exact_scales: bool) -> Float:
    """Return the largest square of each column in test rows plus that in training rows."""
    # If scales are not exact, its bound grows: a sum over n rows has a relative error of at most
    # n u.
    found: Float = (test**2).max(axis=1) + (train**2).max(axis=1)
    return found if exact_scales else found * (1.0 + train.shape[1] / 4.0)


def whole_columns(*tables: Float) -> Bool:
    """Whether columns of tables (n_columns, n_rows) contain only integers: bool (n_columns,)."""
    whole: Bool = np.all([(table == np.rint(table)).all(axis=1) for table in tables], axis=0)
    return whole


def sums_are_exact(whole: Bool, largest: Float, columns: Int) -> bool:
    """Whether squared distances over `columns` are exact in any order of summation."""
    # No term of |x|^2 - 2xy + |y|^2 or of (x - y)^2 exceeds twice the sum of the norms.
    return bool(whole[columns].all()) and 2.0 * float(largest[columns].sum()) <= _EXACT


@dataclass
class Trust:
    """Trust in a tie-breaking rule, shared by threads: its attributes change one way only."""

    confirmed: int = 0  # number of rows with the same result as a fitted model
    broken: bool = False  # whether a result ever differed; the rule is then disabled

    @property
    def earned(self) -> bool:
        """Whether comparisons with fitted models are no longer needed."""
        return not self.broken and self.confirmed >= _ENOUGH

    def holds(self, n_rows: int, agrees: Callable[[], bool]) -> bool:
        """Whether to trust the results of `n_rows` rows; compares with a model until earned."""
        if not self.broken and not self.earned:
            # The limit of OpenMP is one of the thread that sets it.
            with one_thread():
                try:
                    agreed = agrees()
                except (TypeError, ValueError):
                    # A model that fails confirms nothing.
                    agreed = False
            if agreed:
                self.confirmed += n_rows
            else:
                self.broken = True
        return not self.broken


@njit(nogil=True, cache=True)
def rounding_of(largest: Float, columns: Int) -> float:  # pragma: no cover
    """Return the difference of two squared distances above which rounding keeps their order."""
    # With unit roundoff u, n columns and norms of at most N in total, either sum has an error of
    # at most 2 (n + 3) u N; two distances, here and in scikit-learn, have four times that.
    norms = 0.0
    for j in columns:
        norms += largest[j]
    return 1e-15 * (len(columns) + 4.0) * norms


@njit(nogil=True, cache=True)
def reference(train: Float, columns: Int) -> Float:  # pragma: no cover
    """Return -2 times the columns, then norms: (n_chosen + 1, n_train) of ``|y|^2 - 2xy``."""
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
    """Return test rows, each with a final 1; see :func:`reference`."""
    n = len(columns)
    rows = np.empty((stop - start, n + 1))
    for place in range(n):
        column = test[columns[place]]
        for row in range(start, stop):
            rows[row - start, place] = column[row]
    rows[:, n] = 1.0
    return rows


@njit(nogil=True, cache=True)
def _nearest(
    test: Float,
    there: Float,  # see reference
    columns: Int,
    start: int,
    block: Float,  # output, products of the test rows and `there`
    best: Float,
    who: Int,
    scratch: Scratch,
) -> Float:  # pragma: no cover
    """Find the nearest training rows from test row `start` on; return :func:`queries`."""
    here = queries(test, columns, start, min(start + ROWS, test.shape[1]))
    np.dot(here, there, block[: len(here)])
    for row in range(len(here)):
        smallest(block[row], best.shape[1] - 1, best[row], who[row], scratch)
    return here


@njit(nogil=True, cache=True)
def scratch_for(n: int) -> Scratch:  # pragma: no cover
    """Allocate what :func:`smallest` needs for `n` values: an allocation takes as long as a row."""
    n_blocks = (n + _BLOCK - 1) // _BLOCK
    return np.empty(n_blocks), np.empty(n_blocks + 1, np.int64), np.empty(_BLOCK + 1, np.int64)


@njit(nogil=True, cache=True)
def smallest(
    work: Float, k: int, best: Float, who: Int, scratch: Scratch
) -> None:  # pragma: no cover
    """Find the `k` + 1 smallest values of `work`, in order; inf and -1 if there are fewer."""
    # The inner loops are branch-free, since branches on the values would be unpredictable.
    lows, kept, found = scratch
    n, n_blocks = len(work), len(lows)
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
    n_kept = 0
    for b in range(n_blocks):
        kept[n_kept] = b
        n_kept += lows[b] <= bound
    best[:] = np.inf
    who[:] = -1
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


@njit(nogil=True, cache=True)
def _norm(row: Float) -> float:  # pragma: no cover
    """Return the sum of squares of a row of :func:`queries`."""
    norm = 0.0
    for place in range(len(row) - 1):
        norm += row[place] * row[place]
    return norm


@njit(nogil=True, cache=True)
def vote(
    test: Float,
    train: Float,
    largest: Float,  # (n_columns,), see largest_squares
    codes: Int,  # (n_train,), classes from 0
    n_classes: int,
    pointers: Int,
    chosen: Int,
    k: int,
    weighted: bool,  # by inverse distances; neighbours at distance 0 vote alone
    labels: Int,  # output (n, n_test), -1 if doubtful
) -> None:  # pragma: no cover
    """Vote of the `k` nearest training rows of every test row, first class on ties."""
    # If other rows are at the distance of the k-th within rounding, the result is certain only if
    # it does not depend on which of them vote.
    n_train = train.shape[1]
    block, best = np.empty((ROWS, n_train)), np.empty((ROWS, k + 1))
    scratch = scratch_for(n_train)
    who = np.empty((ROWS, k + 1), np.int64)
    votes, weight = np.empty(n_classes, np.int64), np.empty(n_classes)
    for m in range(len(pointers) - 1):
        columns = chosen[pointers[m] : pointers[m + 1]]
        tolerance, there = rounding_of(largest, columns), reference(train, columns)
        for start in range(0, test.shape[1], ROWS):
            here = _nearest(test, there, columns, start, block, best, who, scratch)
            for row in range(len(here)):
                if weighted:
                    best[row] += _norm(here[row])
                    labels[m, start + row] = _weighed(
                        best[row], who[row], codes, k, tolerance, weight
                    )
                elif best[row, k] - best[row, k - 1] > tolerance:
                    votes[:] = 0
                    for place in range(k):
                        votes[codes[who[row, place]]] += 1
                    labels[m, start + row] = _most(votes)
                else:
                    bound = best[row, k - 1]
                    labels[m, start + row] = _sure(block[row], bound, tolerance, codes, votes, k)


@njit(nogil=True, cache=True)
def count_votes(
    test: Float,
    train: Float,
    largest: Float,
    codes: Int,
    pointers: Int,
    chosen: Int,
    k: int,
    votes: Int,  # output (n_classes, n, n_test), -1 where doubtful
) -> None:  # pragma: no cover
    """As :func:`vote`, but count the votes for each class."""
    n_train = train.shape[1]
    block, best = np.empty((ROWS, n_train)), np.empty((ROWS, k + 1))
    scratch = scratch_for(n_train)
    who = np.empty((ROWS, k + 1), np.int64)
    for m in range(len(pointers) - 1):
        columns = chosen[pointers[m] : pointers[m + 1]]
        tolerance, there = rounding_of(largest, columns), reference(train, columns)
        for start in range(0, test.shape[1], ROWS):
            here = _nearest(test, there, columns, start, block, best, who, scratch)
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
    work: Float, bound: float, tolerance: float, codes: Int, sure: Int, k: int
) -> int:  # pragma: no cover
    """Return the class that wins regardless of which rows at distance `bound` vote, or -1."""
    sure[:] = 0
    maybe = np.zeros_like(sure)
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
    who: Int,  # output (n, n_test, k)
    distance: Float,  # output (n, n_test, k)
    sure: Bool,  # output (n,), whether rounding cannot change the neighbours
) -> None:  # pragma: no cover
    """Find the `k` nearest training rows of every test row, nearest first."""
    n_train = train.shape[1]
    block, best = np.empty((ROWS, n_train)), np.empty((ROWS, k + 1))
    scratch = scratch_for(n_train)
    found = np.empty((ROWS, k + 1), np.int64)
    for m in range(len(pointers) - 1):
        columns = chosen[pointers[m] : pointers[m + 1]]
        tolerance, there = rounding_of(largest, columns), reference(train, columns)
        sure[m] = True
        for start in range(0, test.shape[1], ROWS):
            here = _nearest(test, there, columns, start, block, best, found, scratch)
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
