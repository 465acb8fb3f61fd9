"""Distances between features from their rank correlation: a matrix, or row by row.

The matrix of a wide table does not fit in memory. ``d_total(S, j)^2`` requires the correlations of
the members of S with every column: a product of ranks, ``|S| x n_rows x n_columns``. Subsets change
little between epochs, so the most recently used rows are cached, up to a fixed number of bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numba import njit
from numpy.typing import NDArray
from scipy import stats

from swarm.arrays import Bool, Float, Int, read_only
from swarm.statistics.encoding import as_numbers, columns_of_units

Ranks = NDArray[np.int16]

# Cells that are ranked together, as ranking takes several copies of them.
_PANEL_CELLS = 2**20
# Bytes of the cache of rows.
_KEPT = 512 << 20
# A larger subset is sampled to this many members.
_MEMBERS = 256
# A longer table is sampled to this many rows: the standard error of rho is then 0.014.
_ROWS = 5000
# Rows and columns of one product.
_BLOCK, _PANEL = 256, 2048


def spearman_distance(features: pd.DataFrame) -> Float:
    """Distance ``1 - |rho|`` between all columns, rho being Spearman's rank correlation.

    Ties get their average rank. A constant column has distance 1 to all others.

    The present values of a column are ranked, and missing cells get the mean rank, which adds
    nothing to a correlation. This differs from the pairwise-complete coefficient, which would
    require new ranks for every pair of columns.

    Category and string columns are encoded by their codes, bool as 0 and 1 (see
    :func:`swarm.statistics.encoding.as_numbers`). The order of nominal codes is arbitrary, and so
    are the distances of nominal columns with more than two values.

    The ranks are centred on integers, so that their products are summed without rounding (up to
    about 200,000 rows) and the result is bit-identical for any BLAS and number of threads.

    Parameters
    ----------
    features : (n_rows, d)
        Table of features.

    Returns
    -------
    float64 (d, d)
        Within [0, 1], symmetric, zero diagonal, read-only.

    Raises
    ------
    DataError
        If the dtype of a column is not supported.
    """
    ranks = centred_ranks(as_numbers(features))
    distance: Float = ranks.T @ ranks
    del ranks
    # In place: at 10,000 columns, a further copy takes 800 MB.
    _to_distance(distance, np.diag(distance).copy())
    read_only(distance)
    return distance


@njit(nogil=True, cache=True)
def _distance(product: float, square: float, other: float) -> float:  # pragma: no cover
    """Return ``1 - |rho|``, given the product of two columns and their sums of squares."""
    scale = np.sqrt(square * other)
    # The products of a constant column are zero; any divisor gives rho 0.
    return max(0.0, 1.0 - abs(product) / (scale if scale != 0.0 else 1.0))


@njit(nogil=True, cache=True)
def _to_distance(products: Float, squares: Float) -> None:  # pragma: no cover
    """Convert products (d, d) of columns, given their sums of squares, into distances in place."""
    for row in range(products.shape[0]):
        for column in range(products.shape[1]):
            products[row, column] = _distance(products[row, column], squares[row], squares[column])
        products[row, row] = 0.0


@njit(nogil=True, cache=True)
def _square(products: Float, norm: Float, other: Float, squared: Float) -> None:  # pragma: no cover
    """Write ``(1 - |rho|)^2``, given products (n, m) of columns and their sums of squares."""
    for row in range(products.shape[0]):
        for column in range(products.shape[1]):
            squared[row, column] = _distance(products[row, column], norm[row], other[column]) ** 2


def unit_distance(distance: Float, units: Sequence[Sequence[int]]) -> Float:
    """Distance between units: the root mean square over their pairs of columns.

    Parameters
    ----------
    distance : float64 (d, d)
        Distance between columns.
    units : n_units sequences of int
        Column positions of each unit. With one unit per column, the distance is unchanged.

    Returns
    -------
    float64 (n_units, n_units)
        Symmetric, zero diagonal, read-only.

    Raises
    ------
    InputError
        If a unit has no column.
    """
    columns, starts, sizes = columns_of_units(units)
    squares = distance[np.ix_(columns, columns)] ** 2
    sums = np.add.reduceat(np.add.reduceat(squares, starts, axis=0), starts, axis=1)
    # Both triangles are summed in different orders, so they may differ in the last bit.
    means = (sums + sums.T) / (2.0 * sizes[:, None] * sizes[None, :])
    between: Float = np.sqrt(means)
    np.fill_diagonal(between, 0.0)
    read_only(between)
    return between


def centred_ranks(values: Float) -> Float:
    """Rank every column of (n_rows, d): twice the centred average ranks, 0 for missing cells.

    Integers from ``1 - n_rows`` to ``n_rows - 1``; products of two columns are exact sums.
    """
    ranks = np.empty_like(values)
    width = max(1, _PANEL_CELLS // max(1, len(values)))
    for start in range(0, values.shape[1], width):
        # Contiguous columns are sorted faster.
        panel = np.ascontiguousarray(values[:, start : start + width].T)
        missing = np.isnan(panel)
        complete = ~missing.any(axis=1)
        found = np.zeros_like(panel)
        found[complete] = 2.0 * stats.rankdata(panel[complete], axis=1) - (len(values) + 1)
        for position in np.flatnonzero(~complete):
            present = ~missing[position]
            among = stats.rankdata(panel[position, present])
            found[position, present] = 2.0 * among - (int(present.sum()) + 1)
        ranks[:, start : start + width] = found.T
    return ranks


class LazyDistances:
    """Distances ``1 - |rho|`` between units, rho being Spearman's rank correlation.

    Rows are bit-identical to those of :func:`spearman_distance`: ranks
    are centred on integers, so that products are sums of integers below 2^53, exact for any BLAS
    and number of threads; later steps are element-wise, and totals are summed in the order of the
    units. Units of several columns agree with :func:`unit_distance` to 1e-12.

    Two deterministic limits bound the work of an epoch:

    - a subset of more than `members` units is sampled to the first `members` in
      :func:`spread_order`, and its totals are scaled up. The order is common to all subsets, so
      that large subsets share rows;
    - a table of more than `rows` rows is sampled to the first `rows` in :func:`spread_order`.

    Parameters
    ----------
    features : DataFrame (n_rows, n_columns)
    units : n_units sequences of int
        Column positions of each unit: a partition of the columns.
    kept : int
        Bytes of the cache of rows.
    members, rows : int
        Sample sizes of subsets and of rows.

    Raises
    ------
    DataError
        If a column can neither be ranked nor coded.
    InputError
        If a unit has no column.
    """

    def __init__(
        self,
        features: pd.DataFrame,
        units: Sequence[Sequence[int]],
        *,
        kept: int = _KEPT,
        members: int = _MEMBERS,
        rows: int = _ROWS,
    ) -> None:
        self.n_units = len(units)
        self.members = members
        #: int (n_units,): position in `ranks` of the first column of each unit.
        self.starts: Int
        order, self.starts, self._sizes = columns_of_units(units)
        self._single = bool((self._sizes == 1).all())
        #: int (n_columns, n_rows): centred ranks; columns of a unit are adjacent.
        self.ranks = _ranks(features, order, rows)
        #: float64 (n_columns,): sum of squares of the ranks of each column.
        self.norm = _norms(self.ranks)
        self._capacity = max(1, min(self.n_units, kept // (8 * self.n_units)))
        self._blank()

    def total(self, subsets: Bool) -> Float:
        """Sum the squared distances; see :class:`swarm.statistics.distances.Distances`."""
        chosen = _thinned(subsets, self.members)
        total = np.zeros(subsets.shape)
        needed = np.flatnonzero(chosen.any(axis=0))
        with self._lock:
            # Rows of this call are not evicted during it: a pass over more rows than the cache
            # holds would otherwise never hit.
            self._clock += 1
            slot = self._slot[needed]
            self._used[slot[slot >= 0]] = self._clock
            # Each part has as many uncached rows as one product computes. Units stay in order,
            # cached or not, so that a total does not depend on the cache.
            part = np.maximum(np.cumsum(slot < 0) - 1, 0) // _BLOCK
            for units in np.split(needed, np.flatnonzero(np.diff(part)) + 1):
                self._add(total, chosen, units)
        size, counted = subsets.sum(axis=1), chosen.sum(axis=1)
        large = size > counted
        total[large] *= (size[large] / counted[large])[:, None]
        return total

    def between(self, units: Int) -> Float:
        """Return the distances between some units: float64 (n, n)."""
        columns = self._columns_of(units)
        part = object.__new__(LazyDistances)
        part.n_units, part._single = len(units), self._single
        part.ranks, part.norm = self.ranks[columns], self.norm[columns]
        part._sizes = self._sizes[units]
        part.starts = np.cumsum(part._sizes) - part._sizes
        squared = part._squared(np.arange(len(units)))
        # Both triangles of grouped units are summed in different orders.
        return np.sqrt((squared + squared.T) / 2.0)

    def _add(self, total: Float, chosen: Bool, units: Int) -> None:
        """Add the rows of some units to the totals of their subsets."""
        slot = self._slot[units]
        new = units[slot < 0]
        fresh = self._squared(new) if new.size else np.empty((0, self.n_units))
        slot[slot < 0] = -1 - np.arange(len(new))
        _add_rows(total, np.ascontiguousarray(chosen[:, units]), slot, self._rows, fresh)
        place = np.argsort(self._used, kind="stable")[: len(new)]
        place = place[self._used[place] < self._clock]
        kept, before = new[: len(place)], self._unit[place]
        self._slot[before[before >= 0]] = -1
        self._rows[place] = fresh[: len(place)]
        self._slot[kept], self._unit[place], self._used[place] = place, kept, self._clock

    def _squared(self, units: Int) -> Float:
        """Return the squared distances of units to all units: float64 (n, n_units)."""
        if self._single:
            return self._squared_columns(units)
        sizes = self._sizes[units]
        owner, columns = np.repeat(np.arange(len(units)), sizes), self._columns_of(units)
        sums = np.zeros((len(units), self.n_units))
        for start in range(0, len(columns), _BLOCK):
            piece = slice(start, start + _BLOCK)
            squares = self._squared_columns(columns[piece])
            np.add.at(sums, owner[piece], np.add.reduceat(squares, self.starts, axis=1))
        sums /= sizes[:, None] * self._sizes[None, :]
        sums[np.arange(len(units)), units] = 0.0
        return sums

    def _columns_of(self, units: Int) -> Int:
        """Return the rows of `ranks` of some units, unit by unit."""
        sizes = self._sizes[units]
        before = np.cumsum(sizes) - sizes
        return np.repeat(self.starts[units] - before, sizes) + np.arange(sizes.sum())

    def _squared_columns(self, columns: Int) -> Float:
        """Return the squared distances of columns to all columns: float64 (n, n_columns)."""
        n_columns = len(self.ranks)
        squares = np.empty((len(columns), n_columns))
        rows = self.ranks[columns].astype(np.float64)
        for start in range(0, n_columns, _PANEL):
            panel = slice(start, start + _PANEL)
            products = rows @ self.ranks[panel].astype(np.float64).T
            _square(products, self.norm[columns], self.norm[panel], squares[:, panel])
        squares[np.arange(len(columns)), columns] = 0.0
        return squares

    def _blank(self) -> None:
        self._lock = threading.Lock()
        self._clock = 0
        # Pages that are never written use no memory.
        self._rows = np.empty((self._capacity, self.n_units))
        self._slot = np.full(self.n_units, -1)
        self._unit = np.full(self._capacity, -1)
        self._used = np.full(self._capacity, -1)

    def __getstate__(self) -> dict[str, Any]:
        """Exclude the lock and the cache."""
        kept = ("_lock", "_clock", "_rows", "_slot", "_unit", "_used")
        return {name: value for name, value in vars(self).items() if name not in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._blank()


def spread_order(n: int) -> Int:
    """Return a fixed order of ``range(n)`` whose every prefix is spread evenly over the range.

    Sorted by the multiples of the golden ratio, modulo one (Fibonacci hashing).
    """
    return np.argsort(np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def spread_rows(n_rows: int, most: int) -> Int:
    """Return the positions of at most `most` rows, the first in :func:`spread_order`, ascending."""
    return np.arange(n_rows) if n_rows <= most else np.sort(spread_order(n_rows)[:most])


def _thinned(subsets: Bool, members: int) -> Bool:
    """Sample each subset to at most `members` units, the first in the spread order."""
    order = spread_order(subsets.shape[1])
    inside = subsets[:, order]
    chosen = np.zeros_like(subsets)
    chosen[:, order] = inside & (np.cumsum(inside, axis=1) <= members)
    return chosen


def _ranks(features: pd.DataFrame, order: Int, most: int) -> Ranks:
    """Return centred ranks, int (n_columns, n_rows), of at most `most` rows, block by block."""
    n_rows = len(features)
    taken = spread_rows(n_rows, most)
    # Twice a centred rank is at most the number of rows.
    ranks = np.empty((len(order), len(taken)), dtype=np.int16 if len(taken) < 2**15 else np.int32)
    for start in range(0, len(order), _PANEL):
        columns = order[start : start + _PANEL]
        ranks[start : start + _PANEL] = centred_ranks(
            as_numbers(features.iloc[taken, columns])
        ).T.astype(ranks.dtype)
    read_only(ranks)
    return ranks


def _norms(ranks: Ranks) -> Float:
    norms = np.empty(len(ranks))
    for start in range(0, len(ranks), _PANEL):
        values = ranks[start : start + _PANEL].astype(np.float64)
        norms[start : start + _PANEL] = np.einsum("ij,ij->i", values, values)
    return norms


@njit(nogil=True, cache=True)
def _add_rows(
    total: Float, chosen: Bool, slot: Int, kept: Float, fresh: Float
) -> None:  # pragma: no cover
    """Add rows, one after the other, to the totals of the subsets (n, n_rows) that contain them.

    A row is ``kept[slot]``, or ``fresh[-1 - slot]`` if `slot` is negative.
    """
    for number in range(len(slot)):
        row = kept[slot[number]] if slot[number] >= 0 else fresh[-1 - slot[number]]
        for subset in range(total.shape[0]):
            if chosen[subset, number]:
                for unit in range(total.shape[1]):
                    total[subset, unit] += row[unit]
