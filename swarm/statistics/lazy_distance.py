"""Distances of wide tables, computed row by row when a subset asks, and never all at once.

``d_total(S, j)^2`` needs the correlations of the members of S with every column: one product
of ranks, ``|S| x n_rows x n_columns``. Between epochs subsets change little, so the rows that
were computed last are kept, up to a fixed number of bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numba import njit
from numpy.typing import NDArray

from swarm.errors import InputError
from swarm.statistics.encoding import as_numbers
from swarm.statistics.spearman import centred_ranks

__all__ = ["LazyDistances", "spread_order"]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]
Ranks = NDArray[np.int16]

# Bytes of rows that are kept between two calls.
_KEPT = 512 << 20
# A larger subset is stood for by this many of its members.
_MEMBERS = 256
# More rows of the table are stood for by this many: |rho| is then known to within 0.014.
_ROWS = 5000
# Rows and columns of one product: what is worked on at a time.
_BLOCK, _PANEL = 256, 2048


class LazyDistances:
    """Distances ``1 - |rho|`` between units, rho being Spearman's rank correlation.

    Rows are the same, to the last bit, as those of
    :func:`swarm.statistics.spearman.spearman_distance`: ranks are centred on integers, so that
    products are sums of integers below 2^53, exact for any BLAS and number of threads; what
    follows is done element by element, and totals are added in the order of the units. Units of
    several columns agree with :func:`swarm.statistics.spearman.unit_distance` to 1e-12.

    Two limits keep the work of an epoch bounded, both deterministic:

    - a subset of more than `members` units is stood for by `members` of them, the first in
      :func:`spread_order`, and its totals are scaled up. As the order is one for all, large
      subsets share the rows that have to be computed;
    - of a table of more than `rows` rows, the first `rows` in :func:`spread_order` are ranked.

    Parameters
    ----------
    features : DataFrame (n_rows, n_columns)
    units : n_units sequences of int
        Column positions of each unit: a partition of the columns.
    kept : int
        Bytes of rows that are kept between calls.
    members, rows : int

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
        sizes = np.array([len(unit) for unit in units], dtype=np.int64)
        if not sizes.all():
            empty = int(np.argmin(sizes))
            raise InputError(f"unit {empty} has no column; give every unit at least one")
        self.n_units = len(units)
        self.members = members
        self._sizes = sizes
        self._single = bool((sizes == 1).all())
        order = np.fromiter((column for unit in units for column in unit), dtype=np.int64)
        #: int (n_columns, n_rows): centred ranks, columns of a unit next to each other.
        self.ranks = _ranks(features, order, rows)
        self._starts = np.cumsum(sizes) - sizes
        self._norm = _norms(self.ranks)
        self._capacity = max(1, min(self.n_units, kept // (8 * self.n_units)))
        self._blank()

    @property
    def reserved(self) -> int:
        """Bytes set aside for rows that are kept; written only as far as they are needed."""
        return int(self._rows.nbytes)

    @property
    def starts(self) -> Int:
        """Where the columns of each unit start in `ranks`: int (n_units,)."""
        return self._starts

    @property
    def norm(self) -> Float:
        """Sum of squares of the ranks of each column: float64 (n_columns,)."""
        return self._norm

    def total(self, subsets: Bool) -> Float:
        """Sum the squared distances; see :class:`swarm.statistics.distances.Distances`."""
        chosen = _thinned(subsets, self.members)
        total = np.zeros(subsets.shape)
        asked = np.flatnonzero(chosen.any(axis=0))
        with self._lock:
            # What this call asks for is not given up in it: a round over more rows than are kept
            # would else find none of them.
            self._clock += 1
            slot = self._slot[asked]
            self._used[slot[slot >= 0]] = self._clock
            # Parts of as many rows as one product makes; units in their order, kept or not, so
            # that a total does not depend on what was kept.
            part = np.maximum(np.cumsum(slot < 0) - 1, 0) // _BLOCK
            for units in np.split(asked, np.flatnonzero(np.diff(part)) + 1):
                self._add(total, chosen, units)
        size, counted = subsets.sum(axis=1), chosen.sum(axis=1)
        large = size > counted
        total[large] *= (size[large] / counted[large])[:, None]
        return total

    def between(self, units: Int) -> Float:
        """Return the distances among some units: float64 (n, n)."""
        columns = self._columns_of(units)
        part = object.__new__(LazyDistances)
        part.n_units, part._single = len(units), self._single
        part.ranks, part._norm = self.ranks[columns], self._norm[columns]
        part._sizes = self._sizes[units]
        part._starts = np.cumsum(part._sizes) - part._sizes
        squared = part._squared(np.arange(len(units)))
        # The two halves of grouped units are summed in different orders.
        distance: Float = np.sqrt((squared + squared.T) / 2.0)
        return distance

    def _add(self, total: Float, chosen: Bool, units: Int) -> None:
        """Add the rows of some units to the totals of the subsets they are in."""
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
        """Squared distances of units to all units: float64 (n, n_units)."""
        if self._single:
            return self._squared_columns(units)
        sizes = self._sizes[units]
        owner, columns = np.repeat(np.arange(len(units)), sizes), self._columns_of(units)
        sums = np.zeros((len(units), self.n_units))
        for start in range(0, len(columns), _BLOCK):
            piece = slice(start, start + _BLOCK)
            squares = self._squared_columns(columns[piece])
            np.add.at(sums, owner[piece], np.add.reduceat(squares, self._starts, axis=1))
        sums /= sizes[:, None] * self._sizes[None, :]
        sums[np.arange(len(units)), units] = 0.0
        return sums

    def _columns_of(self, units: Int) -> Int:
        """Rows of `ranks` that belong to units, unit by unit."""
        sizes = self._sizes[units]
        before = np.cumsum(sizes) - sizes
        found: Int = np.repeat(self._starts[units] - before, sizes) + np.arange(sizes.sum())
        return found

    def _squared_columns(self, columns: Int) -> Float:
        """Squared distances of columns to all columns: float64 (n, n_columns)."""
        n_columns = len(self.ranks)
        squares = np.empty((len(columns), n_columns))
        rows = self.ranks[columns].astype(np.float64)
        for start in range(0, n_columns, _PANEL):
            panel = slice(start, start + _PANEL)
            products = rows @ self.ranks[panel].astype(np.float64).T
            _square(products, self._norm[columns], self._norm[panel], squares[:, panel])
        squares[np.arange(len(columns)), columns] = 0.0
        return squares

    def _blank(self) -> None:
        self._lock = threading.Lock()
        self._clock = 0
        # Pages that were never written take no memory.
        self._rows = np.empty((self._capacity, self.n_units))
        self._slot = np.full(self.n_units, -1)
        self._unit = np.full(self._capacity, -1)
        self._used = np.full(self._capacity, -1)

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what can be computed again."""
        kept = ("_lock", "_clock", "_rows", "_slot", "_unit", "_used")
        return {name: value for name, value in vars(self).items() if name not in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._blank()


def spread_order(n: int) -> Int:
    """Return a fixed order of ``range(n)`` whose every beginning is spread over all of it.

    Multiples of the golden ratio, modulo one: neighbours are far apart in the order.
    """
    return np.argsort(np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def _thinned(subsets: Bool, members: int) -> Bool:
    """Keep of each subset at most `members` units, the first in the order of all."""
    order = spread_order(subsets.shape[1])
    inside = subsets[:, order]
    chosen = np.zeros_like(subsets)
    chosen[:, order] = inside & (np.cumsum(inside, axis=1) <= members)
    return chosen


def _ranks(features: pd.DataFrame, order: Int, most: int) -> Ranks:
    """Centred ranks, int (n_columns, n_rows), of at most `most` rows; a block at a time."""
    n_rows = len(features)
    taken = np.arange(n_rows) if n_rows <= most else np.sort(spread_order(n_rows)[:most])
    # Twice a centred rank is at most the number of rows.
    ranks = np.empty((len(order), len(taken)), dtype=np.int16 if len(taken) < 2**15 else np.int32)
    for start in range(0, len(order), _PANEL):
        columns = order[start : start + _PANEL]
        ranks[start : start + _PANEL] = centred_ranks(
            as_numbers(features.iloc[taken, columns])
        ).T.astype(ranks.dtype)
    ranks.setflags(write=False)
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
    """Add one row after the other to the subsets (n, n_rows) that have it.

    Its row is `slot` of `kept`, or, where that is negative, ``-1 - slot`` of `fresh`.
    """
    for number in range(len(slot)):
        row = kept[slot[number]] if slot[number] >= 0 else fresh[-1 - slot[number]]
        for subset in range(total.shape[0]):
            if chosen[subset, number]:
                for unit in range(total.shape[1]):
                    total[subset, unit] += row[unit]


@njit(nogil=True, cache=True)
def _square(products: Float, norm: Float, other: Float, squared: Float) -> None:  # pragma: no cover
    """Write ``(1 - |rho|)^2`` for products (n, m) of columns with these sums of squares."""
    for row in range(products.shape[0]):
        for column in range(products.shape[1]):
            scale = np.sqrt(norm[row] * other[column])
            # A constant column has only zero products; any divisor gives rho 0.
            distance = 1.0 - abs(products[row, column]) / (scale if scale != 0.0 else 1.0)
            squared[row, column] = max(0.0, distance) ** 2
