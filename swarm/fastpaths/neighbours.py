"""Nearest neighbours of many masks and their votes, compiled, and where ties can be broken.

Squared Euclidean distances are sums over features, so that a mask takes one product of its columns
and no model. They are computed as ``|x|^2 - 2xy + |y|^2``, as in parts of scikit-learn. This loses
digits: a neighbour is certain if rounding, here or in scikit-learn, cannot replace it by a row that
changes the result. Functions for many masks take their columns, see :class:`.tables.Chosen`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from swarm.arrays import Bool, Float, Int
from swarm.fastpaths.tables import Chosen
from swarm.threads import one_thread

# Rows whose distances are computed together.
_ROWS = 64
# Block size of the search for small values.
_VALUES_PER_BLOCK = 16
# Arrays of :func:`_smallest`.
_Scratch = tuple[Float, Int, Int]
# A tolerance below every difference of distances.
_NO_DOUBT = -1.0
# Integers up to this limit are exact in float64.
_LARGEST_EXACT = 2.0**53
# Rows that fitted models have to confirm before a rule is trusted.
_ENOUGH = 64


class Rows(NamedTuple):
    """Rows whose neighbours are needed, and those among which they are, of folds with one table."""

    queries: Float  # (n_columns, n_rows)
    train: Float  # (n_columns, n_train)
    largest: Float  # (n_columns,), see largest_squares
    groups: Int  # (n_train,), equal for rows that give the same result as neighbours
    is_query: Bool  # (n_folds, n_rows)
    is_train: Bool  # (n_folds, n_train)
    are_the_same: bool  # whether both are one table, of which no row is its own neighbour


def largest_squares(test: Float, train: Float, exact_scales: bool) -> Float:
    """Return the largest square of each column in test rows plus that in training rows."""
    # If scales are not exact, its bound grows: a sum over n rows has a relative error of at most
    # n u.
    largest: Float = (test**2).max(axis=1) + (train**2).max(axis=1)
    return largest if exact_scales else largest * (1.0 + train.shape[1] / 4.0)


def whole_columns(*tables: Float) -> Bool:
    """Whether columns of tables (n_columns, n_rows) contain only integers: bool (n_columns,)."""
    whole: Bool = np.all([(table == np.rint(table)).all(axis=1) for table in tables], axis=0)
    return whole


def sums_are_exact(whole: Bool, largest: Float, columns: Int) -> bool:
    """Whether squared distances over `columns` are exact in any order of summation."""
    # No term of |x|^2 - 2xy + |y|^2 or of (x - y)^2 exceeds twice the sum of the norms.
    return bool(whole[columns].all()) and 2.0 * float(largest[columns].sum()) <= _LARGEST_EXACT


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
def _factors(queries: Float, columns: Int, start: int, stop: int) -> Float:  # pragma: no cover
    """Return rows, each with a final 1; see :func:`reference`."""
    n = len(columns)
    rows = np.empty((stop - start, n + 1))
    for place in range(n):
        column = queries[columns[place]]
        for row in range(start, stop):
            rows[row - start, place] = column[row]
    rows[:, n] = 1.0
    return rows


@njit(nogil=True, cache=True)
def nearest_rows(
    rows: Rows, chosen: Chosen, k: int, ties_by_row: bool
) -> tuple[Int, Int]:  # pragma: no cover
    """Find the `k` nearest training rows of every row, nearest first, in every fold.

    Returns their numbers (n, n_folds, n_rows, k), and how many of them are certain (n, n_folds,
    n_rows): all if `ties_by_row`, where distances are exact and the first of equal rows is nearer.
    """
    n_masks, n_rows = len(chosen.pointers) - 1, rows.queries.shape[1]
    n_folds, n_train = rows.is_train.shape
    neighbours = np.zeros((n_masks, n_folds, n_rows, k), np.int64)
    n_certain = np.full((n_masks, n_folds, n_rows), k, np.int64)
    # So many that k + 1 of them are training rows, but for three standard deviations of a random
    # draw; where they are not, all rows are examined.
    share = rows.is_train.sum() / rows.is_train.size
    size = min(n_train, math.ceil((k + 1 + 3.0 * math.sqrt((k + 1) * (1.0 - share))) / share))
    nearest, distances = np.empty(size, np.int64), np.empty(size)
    products, masked = np.empty((_ROWS, n_train)), np.empty(n_train)
    scratch = _scratch_for(n_train)
    for m in range(n_masks):
        columns = chosen.columns[chosen.pointers[m] : chosen.pointers[m + 1]]
        factors = reference(rows.train, columns)
        tolerance = _NO_DOUBT if ties_by_row else rounding_of(rows.largest, columns)
        for row in range(n_rows):
            if row % _ROWS == 0:
                block = _factors(rows.queries, columns, row, min(row + _ROWS, n_rows))
                np.dot(block, factors, products[: len(block)])
            values = products[row % _ROWS]
            if rows.are_the_same:
                values[row] = np.inf
            _smallest(values, distances, nearest, scratch)
            for fold in range(n_folds):
                if not rows.is_query[fold, row]:
                    continue
                is_train, numbers = rows.is_train[fold], neighbours[m, fold, row]
                count, last, following = _first(distances, nearest, is_train, numbers)
                if count <= k:
                    for i in range(n_train):
                        masked[i] = values[i] if is_train[i] else np.inf
                    least, order = distances[: k + 1].copy(), nearest[: k + 1].copy()
                    _smallest(masked, least, order, scratch)
                    count, last, following = _first(least, order, is_train, numbers)
                if count <= k:
                    # Distances that overflow.
                    n_certain[m, fold, row] = 0
                elif not following - last > tolerance:
                    low, high = last - tolerance, last + tolerance
                    if not _are_alike(values, low, high, is_train, rows.groups):
                        n_certain[m, fold, row] = (values[numbers] < low).sum()
    return neighbours, n_certain


@njit(nogil=True, cache=True)
def _first(
    distances: Float, order: Int, is_train: Bool, numbers: Int
) -> tuple[int, float, float]:  # pragma: no cover
    """Fill `numbers` (k,) with the first training rows of `order`."""
    # Returns the number of training rows, up to k + 1, and the distances of the k-th and the next.
    count, last, k = 0, 0.0, len(numbers)
    for place in range(len(order)):
        row = order[place]
        if row >= 0 and is_train[row]:
            if count == k:
                return k + 1, last, distances[place]
            numbers[count], last = row, distances[place]
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
    """Allocate what `_smallest` needs for `n` values: an allocation takes as long as a row."""
    n_blocks = (n + _VALUES_PER_BLOCK - 1) // _VALUES_PER_BLOCK
    return (
        np.empty(n_blocks),
        np.empty(n_blocks + 1, np.int64),
        np.empty(_VALUES_PER_BLOCK + 1, np.int64),
    )


@njit(nogil=True, cache=True)
def _smallest(
    values: Float, least: Float, order: Int, scratch: _Scratch
) -> None:  # pragma: no cover
    """Find the smallest values and their places, in order; inf and -1 if there are fewer."""
    # The inner loops are branch-free, since branches on the values would be unpredictable.
    lows, blocks, places = scratch
    n, n_blocks, k = len(values), len(lows), len(least) - 1
    for b in range(n_blocks):
        lows[b] = _minimum(values[b * _VALUES_PER_BLOCK : (b + 1) * _VALUES_PER_BLOCK])
    # Each of the k + 1 blocks with the lowest minima has a value up to the highest of these
    # minima. With this bound, most blocks are skipped.
    least[:] = np.inf
    for b in range(n_blocks):
        value = lows[b]
        for place in range(k, 0, -1):
            higher = least[place - 1] if least[place - 1] > value else value
            least[place] = least[place] if least[place] < higher else higher
        least[0] = least[0] if least[0] < value else value
    bound = least[k]
    n_searched = 0
    for b in range(n_blocks):
        blocks[n_searched] = b
        n_searched += lows[b] <= bound
    least[:] = np.inf
    order[:] = -1
    for b in blocks[:n_searched]:
        start, count = b * _VALUES_PER_BLOCK, 0
        for i in range(start, min(start + _VALUES_PER_BLOCK, n)):
            places[count] = i
            count += values[i] <= bound
        for i in places[:count]:
            if values[i] < least[k]:
                _insert(least, order, k, values[i], i)


@njit(nogil=True, cache=True)
def _insert(least: Float, order: Int, k: int, value: float, i: int) -> None:  # pragma: no cover
    """Insert a value into the sorted values, after those equal to it."""
    place = k
    while place > 0 and value < least[place - 1]:
        least[place] = least[place - 1]
        order[place] = order[place - 1]
        place -= 1
    least[place] = value
    order[place] = i


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz"})
def _minimum(block: Float) -> float:  # pragma: no cover
    minimum = block[0]
    for i in range(len(block)):
        value = block[i]
        if value < minimum:
            minimum = value
    return minimum  # type: ignore[no-any-return]


@njit(nogil=True, cache=True)
def _squares_of(
    rows: Rows, columns: Int, row: int, neighbours: Int, squares: Float
) -> None:  # pragma: no cover
    """Fill in squared distances of neighbours (k,) of a row, summed without losing digits."""
    for place in range(len(neighbours)):
        total = 0.0
        for j in columns:
            step = rows.queries[j, row] - rows.train[j, neighbours[place]]
            total += step * step
        squares[place] = total


@njit(nogil=True, cache=True)
def distances_of(rows: Rows, chosen: Chosen, neighbours: Int) -> Float:  # pragma: no cover
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
    n_touching, agree = 0, True
    for place in range(len(codes)):
        square = squares[place]
        if square <= tolerance:
            n_touching += 1
            agree = agree and codes[place] == codes[0]
        else:
            weight = 1.0 / np.sqrt(square)
            weights[codes[place]] += weight
            error += weight * (tolerance / square + 1e-14)
    if n_touching > 0:
        # Rounding decides whether their distance is 0 or tiny; they win in both cases.
        if agree and weights.sum() < 0.5 / np.sqrt(tolerance):
            return codes[0]  # type: ignore[no-any-return]
        return -1
    first = int(np.argmax(weights))
    second = 0.0
    for label in range(len(weights)):
        if label != first:
            second = max(second, weights[label])
    return first if weights[first] - second > 2.0 * error else -1


@njit(nogil=True, cache=True)
def weigh_votes(
    rows: Rows, chosen: Chosen, neighbours: Int, codes: Int, n_classes: int
) -> Int:  # pragma: no cover
    """Return the class with the largest weight (n, n_rows), or -1 if rounding decides."""
    n, n_rows, k = neighbours.shape
    labels, weights, squares = np.empty((n, n_rows), np.int64), np.empty(n_classes), np.empty(k)
    for m in range(n):
        columns = chosen.columns[chosen.pointers[m] : chosen.pointers[m + 1]]
        tolerance = rounding_of(rows.largest, columns)
        for row in range(n_rows):
            near = codes[neighbours[m, row]]
            labels[m, row] = near[0]
            if (near != near[0]).any():
                _squares_of(rows, columns, row, neighbours[m, row], squares)
                labels[m, row] = _heaviest_class(squares, near, tolerance, weights)
    return labels
