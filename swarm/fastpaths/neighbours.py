"""Nearest neighbours of many masks and their votes, compiled, and when ties can be broken.

Squared Euclidean distances are sums over features, so that a mask takes one product of its columns
and no model. They are computed as ``|x|^2 - 2xy + |y|^2``, as in parts of scikit-learn. This loses
digits: a neighbour is certain if rounding, here or in scikit-learn, cannot replace it by a row that
changes the result. Functions for many masks take their columns, see :class:`.tables.Chosen`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from swarm.arrays import Bool, Float, Int
from swarm.fastpaths.tables import Chosen
from swarm.threads import one_thread

# Rows whose distances are computed together.
_BLOCK = 96
# Block size of the search for small values.
_VALUES_PER_BLOCK = 16
# Ties and outliers keep the bound of this search from being tight: it may include this number of
# blocks in vain, and its range is halved up to this number of times.
_MAX_EXTRA_BLOCKS = 2
_MAX_HALVINGS = 16
# Places up to this number are ranked by comparing all pairs, without branches.
_MAX_RANKED_PLACES = 64
# Arrays of :func:`_smallest`.
_Scratch = tuple[Float, Int, Int, Float, Int]
# Distances of all rows, distances and numbers of the nearest ones, and scratch arrays.
_Search = tuple[Float, Float, Int, _Scratch]
Words = NDArray[np.uint64]
# Every difference of distances is above this tolerance.
_NO_TOLERANCE = -1.0
# Integers up to this limit are exact in float64.
_MAX_EXACT_INTEGER = 2.0**53
# A rule is trusted once fitted models have confirmed this number of rows.
_MIN_CONFIRMED = 64


class FoldRows(NamedTuple):
    """Rows of folds that share their values, for compiled code.

    Attributes
    ----------
    table : float64 (n_columns, n_rows)
        Every row of the data; zeros if the folds do not use it.
    largest : float64 (n_columns,)
        See :func:`largest_squares`.
    words : uint64 (n_rows, n_words)
        Bits of eight labels in each word, one byte apart.
    groups : int (n_rows,)
        Equal for rows with the same labels.
    is_query, is_train : bool (n_folds, n_rows)
    pointers : int (n_rows + 1,)
        Row i is no training row of the folds ``left_out[pointers[i] : pointers[i + 1]]``.
    left_out : int
    """

    table: Float
    largest: Float
    words: Words
    groups: Int
    is_query: Bool
    is_train: Bool
    pointers: Int
    left_out: Int


class QueryRows(NamedTuple):
    """Rows whose neighbours are needed, and the training rows among which they are.

    Attributes
    ----------
    queries : float64 (n_columns, n_rows)
    train : float64 (n_columns, n_train)
    largest : float64 (n_columns,)
        See :func:`largest_squares`.
    groups : int (n_train,)
        Equal for rows that give the same result as neighbours.
    """

    queries: Float
    train: Float
    largest: Float
    groups: Int


def largest_squares(test: Float, train: Float, exact_scales: bool) -> Float:
    """Sum the largest square of each column in test rows and that in training rows."""
    largest = (test**2).max(axis=1) + (train**2).max(axis=1)
    if exact_scales:
        return largest
    # A sum over n rows has a relative error of at most n u, by which the bound grows.
    return largest * (1.0 + train.shape[1] / 4.0)


def whole_columns(*tables: Float) -> Bool:
    """Whether columns of tables (n_columns, n_rows) contain only integers: bool (n_columns,)."""
    return np.all([(table == np.rint(table)).all(axis=1) for table in tables], axis=0)


def sums_are_exact(whole: Bool, largest: Float, columns: Int) -> bool:
    """Whether squared distances over `columns` are exact in any order of summation."""
    # No term of |x|^2 - 2xy + |y|^2 or of (x - y)^2 exceeds twice the sum of the norms.
    return bool(whole[columns].all()) and 2.0 * float(largest[columns].sum()) <= _MAX_EXACT_INTEGER


@dataclass
class Trust:
    """Trust in a tie-breaking rule, shared by threads: its attributes change one way only.

    Attributes
    ----------
    confirmed : int
        Number of rows with the same result as a fitted model.
    broken : bool
        Whether a result ever differed; the rule is then disabled.
    """

    confirmed: int = 0
    broken: bool = False

    @property
    def earned(self) -> bool:
        """Whether comparisons with fitted models are no longer needed."""
        return not self.broken and self.confirmed >= _MIN_CONFIRMED

    def holds(self, n_rows: int, agrees: Callable[[], bool]) -> bool:
        """Whether to trust the results of `n_rows` rows; compares with a model until earned."""
        if not self.broken and not self.earned:
            # Every thread has its own limit of OpenMP.
            with one_thread():
                try:
                    is_confirmed = agrees()
                except (TypeError, ValueError):
                    is_confirmed = False
            if is_confirmed:
                self.confirmed += n_rows
            else:
                self.broken = True
        return not self.broken


@njit(nogil=True, cache=True)
def rounding_of(largest: Float, columns: Int) -> float:  # pragma: no cover
    """Return the difference of two squared distances above which rounding keeps their order."""
    # A sum over n columns with norms of at most N in total has an error of at most 2 (n + 3) u N
    # for the unit roundoff u. Two distances, here and in scikit-learn, have four times that.
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
        column = train[columns[place]]
        row = rows[place]
        for i in range(len(column)):
            row[i] = -2.0 * column[i]
            norms[i] += column[i] * column[i]
    return rows


@njit(nogil=True, cache=True)
def _factors_of(queries: Float, columns: Int, start: int) -> Float:  # pragma: no cover
    """Return rows from `start` on, up to a block, each with a final 1; see :func:`reference`."""
    n = len(columns)
    stop = min(start + _BLOCK, queries.shape[1])
    # A product transposes a matrix at no cost.
    factors = np.empty((n + 1, stop - start))
    for place in range(n):
        factors[place] = queries[columns[place], start:stop]
    factors[n] = 1.0
    return factors.T


@njit(nogil=True, cache=True)
def nearest_rows(rows: QueryRows, chosen: Chosen, k: int) -> tuple[Int, Int]:  # pragma: no cover
    """Find the `k` nearest training rows of every row, nearest first.

    Returns their numbers (n, n_rows, k), and how many of them are certain (n, n_rows).
    """
    n_masks = len(chosen.pointers) - 1
    n_rows = rows.queries.shape[1]
    n_train = rows.train.shape[1]
    neighbours = np.zeros((n_masks, n_rows, k), np.int64)
    n_certain = np.full((n_masks, n_rows), k, np.int64)
    nearest = np.empty(k + 1, np.int64)
    distances = np.empty(k + 1)
    products = np.empty((_BLOCK, n_train))
    is_train = np.ones(n_train, np.bool_)
    scratch = _scratch_for(n_train)
    for m in range(n_masks):
        columns = chosen.columns[chosen.pointers[m] : chosen.pointers[m + 1]]
        factors = reference(rows.train, columns)
        tolerance = rounding_of(rows.largest, columns)
        for row in range(n_rows):
            if row % _BLOCK == 0:
                block = _factors_of(rows.queries, columns, row)
                np.dot(block, factors, products[: len(block)])
            values = products[row % _BLOCK]
            _smallest(values, distances, nearest, scratch)
            if nearest[k] < 0:
                # The distances overflow.
                n_certain[m, row] = 0
                continue
            numbers = neighbours[m, row]
            numbers[:] = nearest[:k]
            last = distances[k - 1]
            if not distances[k] - last > tolerance:
                low = last - tolerance
                if not _are_alike(values, low, last + tolerance, is_train, rows.groups):
                    n_certain[m, row] = (values[numbers] < low).sum()
    return neighbours, n_certain


@njit(nogil=True, cache=True)
def count_labels(
    rows: FoldRows, columns: Int, k: int, ties_by_row: bool
) -> tuple[Words, Bool]:  # pragma: no cover
    """Count labels of the `k` nearest training rows of each row: (n_rows, n_folds, n_words).

    Also returns the folds (n_folds,) whose neighbours are all certain. All of them are if
    `ties_by_row`: distances are then exact, and the first of equal rows is nearer.
    """
    n_folds, n_rows = rows.is_train.shape
    n_words = rows.words.shape[1]
    counts = np.zeros((n_rows, n_folds, n_words), np.uint64)
    is_certain = np.ones(n_folds, np.bool_)
    n_missing = np.empty(n_folds, np.int64)
    # The list is long enough to have k + 1 training rows in a random draw, within three standard
    # deviations. If it is too short, all rows are examined.
    share = rows.is_train.sum() / rows.is_train.size
    size = min(n_rows, math.ceil((k + 1 + 3.0 * math.sqrt((k + 1) * (1.0 - share))) / share))
    nearest = np.empty(size, np.int64)
    distances = np.empty(size)
    products = np.empty((_BLOCK, n_rows))
    scratch = _scratch_for(n_rows)
    factors = reference(rows.table, columns)
    tolerance = _NO_TOLERANCE if ties_by_row else rounding_of(rows.largest, columns)
    for row in range(n_rows):
        if row % _BLOCK == 0:
            block = _factors_of(rows.table, columns, row)
            np.dot(block, factors, products[: len(block)])
        values = products[row % _BLOCK]
        # No row is its own neighbour.
        values[row] = np.inf
        _smallest(values, distances, nearest, scratch)
        n_missing[:] = k
        if _are_apart(distances[k - 1 :], tolerance):
            # A row outside the list may be nearly as near as the last one.
            _sum_labels(rows, k, nearest[:-1], counts[row], n_missing)
        for fold in range(n_folds):
            if n_missing[fold] == 0 or not rows.is_query[fold, row]:
                continue
            search = (values, distances, nearest, scratch)
            numbers, certain = _neighbours_in_fold(rows, fold, k, search, tolerance)
            is_certain[fold] &= certain
            counts[row, fold] = 0
            for number in numbers:
                counts[row, fold] += rows.words[number]
    return counts, is_certain


@njit(nogil=True, cache=True)
def _are_apart(distances: Float, tolerance: float) -> bool:  # pragma: no cover
    """Whether all differences of consecutive distances exceed a tolerance."""
    n_close = 0
    for i in range(len(distances) - 1):
        n_close += not distances[i + 1] - distances[i] > tolerance
    return n_close == 0


@njit(nogil=True, cache=True)
def _sum_labels(
    rows: FoldRows, k: int, nearest: Int, sums: Words, n_missing: Int
) -> None:  # pragma: no cover
    """Sum labels (n_folds, n_words) of `k` training rows, and count those not in `nearest`."""
    n_folds, n_words = sums.shape
    n_missing[:] = 0
    # Folds share the sum of the first k rows, and replace rows that they leave out by the next.
    for word in range(n_words):
        total = np.uint64(0)
        for number in nearest[:k]:
            total += rows.words[number, word]
        sums[:, word] = total
    for number in nearest[:k]:
        for place in range(rows.pointers[number], rows.pointers[number + 1]):
            fold = rows.left_out[place]
            n_missing[fold] += 1
            for word in range(n_words):
                sums[fold, word] -= rows.words[number, word]
    for fold in range(n_folds):
        place = k
        while n_missing[fold] > 0 and place < len(nearest):
            number = nearest[place]
            if rows.is_train[fold, number]:
                n_missing[fold] -= 1
                for word in range(n_words):
                    sums[fold, word] += rows.words[number, word]
            place += 1


@njit(nogil=True, cache=True)
def _neighbours_in_fold(
    rows: FoldRows, fold: int, k: int, search: _Search, tolerance: float
) -> tuple[Int, bool]:  # pragma: no cover
    """Find the neighbours (k,) of a row in a fold when ties may matter, or the list is short.

    Also returns whether they are certain.
    """
    values, distances, nearest, scratch = search
    is_train = rows.is_train[fold]
    numbers = np.zeros(k, np.int64)
    count, last, following = _first_training_rows(distances, nearest, is_train, numbers)
    if count <= k:
        masked = np.where(is_train, values, np.inf)
        lowest = np.empty(k + 1)
        order = np.empty(k + 1, np.int64)
        _smallest(masked, lowest, order, scratch)
        count, last, following = _first_training_rows(lowest, order, is_train, numbers)
    if count <= k:
        # The distances overflow.
        return numbers, False
    if following - last > tolerance:
        return numbers, True
    low = last - tolerance
    high = last + tolerance
    return numbers, _are_alike(values, low, high, is_train, rows.groups)


@njit(nogil=True, cache=True)
def _first_training_rows(
    distances: Float, order: Int, is_train: Bool, numbers: Int
) -> tuple[int, float, float]:  # pragma: no cover
    """Fill `numbers` (k,) with the first training rows of `order`.

    Returns the number of training rows, up to k + 1, and the distances of the k-th and the next.
    """
    k = len(numbers)
    count = 0
    last = 0.0
    for place in range(len(order)):
        row = order[place]
        if row >= 0 and is_train[row]:
            if count == k:
                return k + 1, last, distances[place]
            numbers[count] = row
            last = distances[place]
            count += 1
    return count, last, np.inf


@njit(nogil=True, cache=True)
def _are_alike(
    values: Float, low: float, high: float, is_train: Bool, groups: Int
) -> bool:  # pragma: no cover
    """Whether all training rows that could be the k-th nearest are of the same group."""
    first = -1
    for i in range(len(values)):
        if not is_train[i] or values[i] < low or values[i] > high:
            continue
        if first < 0:
            first = i
        elif groups[i] != groups[first]:
            return False
    return True


@njit(nogil=True, cache=True)
def _scratch_for(n: int) -> _Scratch:  # pragma: no cover
    """Allocate the arrays of `_smallest` for `n` values: an allocation takes as long as a row."""
    n_blocks = (n + _VALUES_PER_BLOCK - 1) // _VALUES_PER_BLOCK
    return (
        np.empty(n_blocks),
        np.empty(n_blocks + 1, np.int64),
        np.empty(n + 1, np.int64),
        np.empty(_MAX_RANKED_PLACES),
        np.empty(_MAX_RANKED_PLACES, np.int64),
    )


@njit(nogil=True, cache=True)
def _smallest(
    values: Float, lowest: Float, order: Int, scratch: _Scratch
) -> None:  # pragma: no cover
    """Find the smallest values and their places, in order; inf and -1 if there are fewer."""
    # The inner loops are branch-free, since branches on the values would be unpredictable.
    minima, blocks, places, ranked, ranks = scratch
    n = len(values)
    n_blocks = len(minima)
    k = len(lowest) - 1
    for b in range(n_blocks):
        minima[b] = _minimum(values[b * _VALUES_PER_BLOCK : (b + 1) * _VALUES_PER_BLOCK])
    # Few blocks have a value up to a bound of their minima, unless most blocks are needed.
    bound = _bound_of(minima if n_blocks >= 2 * len(lowest) else values, len(lowest))
    n_searched = 0
    for b in range(n_blocks):
        blocks[n_searched] = b
        n_searched += minima[b] <= bound
    count = 0
    for b in blocks[:n_searched]:
        start = b * _VALUES_PER_BLOCK
        if start + _VALUES_PER_BLOCK <= n:
            # A loop of a known length is unrolled.
            for i in range(start, start + _VALUES_PER_BLOCK):
                places[count] = i
                count += values[i] <= bound
        else:
            for i in range(start, n):
                places[count] = i
                count += values[i] <= bound
    lowest[:] = np.inf
    order[:] = -1
    if count <= len(ranks):
        _rank(values, places[:count], ranks, ranked)
        for c in range(count):
            if ranks[c] <= k:
                lowest[ranks[c]] = ranked[c]
                order[ranks[c]] = places[c]
    else:
        for i in places[:count]:
            if values[i] < lowest[k]:
                _insert(lowest, order, k, values[i], i)


@njit(nogil=True, cache=True)
def _rank(values: Float, places: Int, ranks: Int, ranked: Float) -> None:  # pragma: no cover
    """Fill in the values at `places`, and their ranks; of equal values, the first is lower."""
    for c in range(len(places)):
        value = values[places[c]]
        ranked[c] = value
        n_above = 0
        for earlier in range(c):
            is_below = value < ranked[earlier]
            ranks[earlier] += is_below
            n_above += is_below
        ranks[c] = c - n_above


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz"})
def _bound_of(values: Float, n: int) -> float:  # pragma: no cover
    """Return a bound that at least `n` values reach, and few more."""
    # The counts of a bisection are vectorized; an exact selection takes longer than the rest.
    low = np.inf
    high = -np.inf
    # Loops over places are vectorized, loops over values are not.
    for i in range(len(values)):
        low = min(low, values[i])
        high = max(high, values[i] if values[i] < np.inf else -np.inf)
    if _count_up_to(values, high) < n:
        return np.finfo(np.float64).max
    for _ in range(_MAX_HALVINGS):
        middle = 0.5 * (low + high)
        count = _count_up_to(values, middle)
        if count < n:
            low = middle
        else:
            high = middle
            if count <= n + _MAX_EXTRA_BLOCKS:
                break
    return high


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz"})
def _count_up_to(values: Float, bound: float) -> int:  # pragma: no cover
    count = 0
    for i in range(len(values)):
        count += values[i] <= bound
    return count


@njit(nogil=True, cache=True)
def _insert(lowest: Float, order: Int, k: int, value: float, i: int) -> None:  # pragma: no cover
    """Insert a value into the sorted values, after those equal to it."""
    place = k
    while place > 0 and value < lowest[place - 1]:
        lowest[place] = lowest[place - 1]
        order[place] = order[place - 1]
        place -= 1
    lowest[place] = value
    order[place] = i


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz"})
def _minimum(block: Float) -> float:  # pragma: no cover
    minimum = block[0]
    for i in range(len(block)):
        value = block[i]
        if value < minimum:
            minimum = value
    return minimum


@njit(nogil=True, cache=True)
def _squares_of(
    rows: QueryRows, columns: Int, row: int, neighbours: Int, squares: Float
) -> None:  # pragma: no cover
    """Fill in squared distances of neighbours (k,) of a row, summed without losing digits."""
    for place in range(len(neighbours)):
        total = 0.0
        for j in columns:
            difference = rows.queries[j, row] - rows.train[j, neighbours[place]]
            total += difference * difference
        squares[place] = total


@njit(nogil=True, cache=True)
def distances_of(rows: QueryRows, chosen: Chosen, neighbours: Int) -> Float:  # pragma: no cover
    """Return the distances of neighbours (n, n_rows, k), see :func:`_squares_of`."""
    squares = np.empty(neighbours.shape)
    for m in range(len(neighbours)):
        columns = chosen.columns[chosen.pointers[m] : chosen.pointers[m + 1]]
        for row in range(neighbours.shape[1]):
            _squares_of(rows, columns, row, neighbours[m, row], squares[m, row])
    return np.sqrt(squares)


@njit(nogil=True, cache=True)
def count_votes(
    neighbours: Int, n_certain: Int, codes: Int, n_classes: int
) -> Int:  # pragma: no cover
    """Count the votes of the certain neighbours (n, n_rows, k): int64 (n_classes, n, n_rows)."""
    n, n_rows, _ = neighbours.shape
    votes = np.zeros((n_classes, n, n_rows), np.int64)
    for m in range(n):
        for row in range(n_rows):
            for neighbour in neighbours[m, row, : n_certain[m, row]]:
                votes[codes[neighbour], m, row] += 1
    return votes


@njit(nogil=True, cache=True)
def _heaviest_class(
    squares: Float, codes: Int, tolerance: float, weights: Float
) -> int:  # pragma: no cover
    """Return the class of neighbours (k,) with the largest weight, or -1 if rounding decides."""
    weights[:] = 0.0
    error = 0.0
    n_touching = 0
    is_unanimous = True
    for place in range(len(codes)):
        square = squares[place]
        if square <= tolerance:
            n_touching += 1
            is_unanimous = is_unanimous and codes[place] == codes[0]
        else:
            weight = 1.0 / np.sqrt(square)
            weights[codes[place]] += weight
            error += weight * (tolerance / square + 1e-14)
    if n_touching > 0:
        # Rounding decides whether a distance is 0 or tiny; such neighbours win in both cases.
        if is_unanimous and weights.sum() < 0.5 / np.sqrt(tolerance):
            return codes[0]
        return -1
    first = int(np.argmax(weights))
    second = 0.0
    for label in range(len(weights)):
        if label != first:
            second = max(second, weights[label])
    return first if weights[first] - second > 2.0 * error else -1


@njit(nogil=True, cache=True)
def weigh_votes(
    rows: QueryRows, chosen: Chosen, neighbours: Int, codes: Int, n_classes: int
) -> Int:  # pragma: no cover
    """Return the class with the largest weight (n, n_rows), or -1 if rounding decides."""
    n, n_rows, k = neighbours.shape
    labels = np.empty((n, n_rows), np.int64)
    weights = np.empty(n_classes)
    squares = np.empty(k)
    for m in range(n):
        columns = chosen.columns[chosen.pointers[m] : chosen.pointers[m + 1]]
        tolerance = rounding_of(rows.largest, columns)
        for row in range(n_rows):
            votes = codes[neighbours[m, row]]
            labels[m, row] = votes[0]
            if (votes != votes[0]).any():
                _squares_of(rows, columns, row, neighbours[m, row], squares)
                labels[m, row] = _heaviest_class(squares, votes, tolerance, weights)
    return labels
