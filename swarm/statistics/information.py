"""Mutual information of all pairs of columns at once, from their values in bins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.errors import DataError, InputError
from swarm.statistics.encoding import as_numbers, is_nominal

__all__ = ["mutual_information", "unit_information"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]

# A column of more codes than this is counted by sorting: its indicator columns would fill memory.
_MOST_CODES = 256
# What the indicators and the counts of one block may take.
_BLOCK_BYTES = 2**28
_MOST_INDICATORS = 2048
# Whole numbers up to here are exact in float32, which is twice as fast.
_EXACT_FLOAT32 = 2**24


def mutual_information(
    features: pd.DataFrame,
    target: pd.Series | pd.DataFrame | NDArray[np.generic],
    task: str,
    *,
    n_bins: int = 10,
) -> tuple[Float, Float]:
    """Mutual information, in nats, of all pairs of features and of each with each label.

    ``I(f, h) = H(f) + H(h) - H(f, h)`` of the values in bins. A column of numbers is cut into
    `n_bins` intervals of equal width; columns of names, and of at most `n_bins` different
    values, are taken by their values, and so are classes and labels. The missing cells of a
    column are a bin of their own. A constant column has information 0 with all others.

    The counts of all pairs of bins are one matrix product over the indicators of the bins,
    made block by block so that thousands of columns need no more than some 100 MiB beside the
    result. Counts are whole numbers, their logarithms are computed from elementary operations
    and summed as whole numbers: the result is the same to the last bit on any machine.

    Parameters
    ----------
    features : DataFrame (n_rows, d)
    target : (n_rows,) or (n_rows, n_labels)
    task : str
        ``"regression"`` bins the target as the features; any other takes it by its values.
    n_bins : int

    Returns
    -------
    redundancy : float64 (d, d)
        Symmetric, at least 0, read-only; the diagonal holds the entropies.
    relevance : float64 (d, n_labels)
        At least 0, read-only.

    Raises
    ------
    InputError
        If there are fewer than 2 bins, or features and target differ in length.
    DataError
        If a column has no form as numbers, or infinite values.

    References
    ----------
    Document 004, equation 4 and section 5 ("dividing the interval into 10 bins").
    """
    if n_bins < 2:
        raise InputError(f"n_bins must be at least 2, got {n_bins}")
    labels = pd.DataFrame(target)
    if len(labels) != len(features):
        raise InputError(
            f"there are {len(features)} rows of features but {len(labels)} of the target; "
            "give one target a row"
        )
    codes = np.hstack([_codes(features, n_bins), _codes(labels, n_bins, task != "regression")])
    between = _information(codes)
    d = features.shape[1]
    redundancy, relevance = between[:d, :d].copy(), between[:d, d:].copy()
    for array in (redundancy, relevance):
        array.setflags(write=False)
    return redundancy, relevance


def unit_information(
    redundancy: Float, relevance: Float, units: Sequence[Sequence[int]]
) -> tuple[Float, Float]:
    """Information between units: the mean over their columns, or pairs of columns.

    Parameters
    ----------
    redundancy : float64 (d, d)
    relevance : float64 (d, n_labels)
    units : n_units sequences of int
        Column positions of each unit. With one unit per column everything stays as it is.

    Returns
    -------
    redundancy : float64 (n_units, n_units)
        Symmetric, read-only.
    relevance : float64 (n_units, n_labels)
        Read-only.

    Raises
    ------
    InputError
        If a unit has no column.
    """
    sizes = np.array([len(unit) for unit in units])
    if not sizes.all():
        empty = int(np.argmin(sizes))
        raise InputError(f"unit {empty} has no column; give every unit at least one")
    columns = np.concatenate([np.asarray(unit, dtype=np.intp) for unit in units])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    pairs = np.add.reduceat(redundancy[np.ix_(columns, columns)], starts, axis=0)
    sums = np.add.reduceat(pairs, starts, axis=1)
    # The two halves are summed in different orders, so they may differ in the last bit.
    shared: Float = (sums + sums.T) / (2.0 * sizes[:, None] * sizes[None, :])
    told: Float = np.add.reduceat(relevance[columns], starts, axis=0) / sizes[:, None]
    for array in (shared, told):
        array.setflags(write=False)
    return shared, told


def _codes(table: pd.DataFrame, n_bins: int, by_value: bool = False) -> Int:
    """Bin of every cell, from 0 without gaps: int (n_rows, d)."""
    values = as_numbers(table)
    infinite = np.isinf(values).any(axis=0)
    if infinite.any():
        name = table.columns[int(np.argmax(infinite))]
        raise DataError(f"column {name!r} has infinite values; clip or drop them")
    missing = np.isnan(values)
    order = np.argsort(values, axis=0, kind="stable")
    ranked = np.take_along_axis(values, order, axis=0)
    steps = np.zeros(values.shape, dtype=np.int64)
    # Missing cells come last; they get their code below.
    steps[1:] = ranked[1:] > ranked[:-1]
    distinct = np.cumsum(steps, axis=0)
    nominal = np.array([by_value or is_nominal(dtype) for dtype in table.dtypes], dtype=bool)
    few = nominal | (distinct[-1] < n_bins)
    codes = np.empty(values.shape, dtype=np.int64)
    np.put_along_axis(codes, order, distinct, axis=0)
    # A column that is missing altogether has no value to be cut by.
    many = np.flatnonzero(~few)
    low, high = np.nanmin(values[:, many], axis=0), np.nanmax(values[:, many], axis=0)
    # Halves, as the width of a column may exceed the largest float.
    place = (values[:, many] / 2 - low / 2) / (high / 2 - low / 2)
    cut = np.floor(np.where(missing[:, many], 0.0, place) * n_bins)
    codes[:, many] = np.minimum(cut, n_bins - 1).astype(np.int64)
    return np.where(missing, codes.max(axis=0, initial=0, where=~missing) + 1, codes)


def _information(codes: Int) -> Float:
    """Mutual information of all pairs of columns of codes (n_rows, m): float64 (m, m)."""
    n_rows, m = codes.shape
    n_codes = codes.max(axis=0, initial=0) + 1
    table, scale = _count_logs(n_rows)
    sums = np.zeros((m, m), dtype=np.int64)
    narrow = np.flatnonzero(n_codes <= _MOST_CODES)
    blocks = list(_blocks(codes, n_codes, narrow))
    for number, first in enumerate(blocks):
        ones = first.indicators(codes)
        for second in blocks[number:]:
            # The same array twice: half of the product is enough then, and BLAS knows.
            others = ones if second is first else second.indicators(codes)
            counts = (ones.T @ others).astype(np.int64)
            part = np.add.reduceat(table[counts], first.starts, axis=0)
            part = np.add.reduceat(part, second.starts, axis=1)
            sums[np.ix_(first.columns, second.columns)] = part
            sums[np.ix_(second.columns, first.columns)] = part.T
    for column in np.flatnonzero(n_codes > _MOST_CODES):
        sums[column] = sums[:, column] = _by_sorting(codes, int(column), table)
    own = np.diag(sums)
    # H(f) = (table[n] - own) / n, and so on; the whole numbers of a constant column cancel.
    total = table[n_rows] + sums - own[:, None] - own[None, :]
    information: Float = np.maximum(total / (scale * n_rows), 0.0)
    return information


@dataclass(frozen=True)
class _Block:
    """Columns whose indicators are made together."""

    columns: Int
    starts: Int
    width: int
    dtype: type

    def indicators(self, codes: Int) -> NDArray[np.floating]:
        ones: NDArray[np.floating] = np.zeros((len(codes), self.width), dtype=self.dtype)
        np.put_along_axis(ones, codes[:, self.columns] + self.starts, 1.0, axis=1)
        return ones


def _blocks(codes: Int, n_codes: Int, columns: Int) -> Iterator[_Block]:
    n_rows = len(codes)
    dtype = np.float32 if n_rows < _EXACT_FLOAT32 else np.float64
    cell = np.dtype(dtype).itemsize
    most = max(_MOST_CODES, min(_MOST_INDICATORS, _BLOCK_BYTES // (2 * cell * n_rows)))
    ends = np.cumsum(n_codes[columns])
    while columns.size:
        taken = max(1, int(np.searchsorted(ends, most, side="right")))
        width = int(ends[taken - 1])
        starts = ends[:taken] - n_codes[columns[:taken]]
        yield _Block(columns[:taken], starts, width, dtype)
        columns, ends = columns[taken:], ends[taken:] - width


def _by_sorting(codes: Int, column: int, table: Int) -> Int:
    """Sums of `table` over the counts of one column with each, whatever its number of codes."""
    n_rows, m = codes.shape
    sums = np.empty(m, dtype=np.int64)
    most = max(1, _BLOCK_BYTES // (32 * n_rows))
    for start in range(0, m, most):
        others = codes[:, start : start + most]
        joint = np.sort(codes[:, [column]] * (others.max(axis=0) + 1) + others, axis=0)
        new = np.ones((others.shape[1], n_rows), dtype=bool)
        new[:, 1:] = (joint[1:] != joint[:-1]).T
        place = np.flatnonzero(new)
        counts = np.diff(np.append(place, new.size))
        firsts = np.searchsorted(place, np.arange(others.shape[1]) * n_rows)
        sums[start : start + most] = np.add.reduceat(table[counts], firsts)
    return sums


def _count_logs(n_rows: int) -> tuple[Int, float]:
    """``c ln c`` for c from 0 to `n_rows` as whole multiples of 1 / scale.

    The largest sum of them is that of one count of all rows, which is below 2^62. The logarithm
    is ``ln(m 2^e) = e ln 2 + 2 artanh((m - 1) / (m + 1))``: libraries differ in its last bit.
    """
    count = np.arange(n_rows + 1, dtype=np.float64)
    mantissa, exponent = np.frexp(np.maximum(count, 1.0))
    low = mantissa < np.sqrt(0.5)
    mantissa, exponent = np.where(low, mantissa * 2, mantissa), exponent - low
    ratio = (mantissa - 1) / (mantissa + 1)
    square = ratio * ratio
    series = np.zeros_like(ratio)
    # |ratio| < 0.172, so that the next term is below 1e-18.
    for power in range(23, 0, -2):
        series = series * square + 1.0 / power
    logs = exponent * 0.6931471805599453 + 2.0 * ratio * series
    scale = 2.0 ** (56 - n_rows.bit_length())
    return np.rint(count * logs * scale).astype(np.int64), scale
