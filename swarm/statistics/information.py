"""Mutual information of columns with one another and with a target."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from swarm.arrays import Float, Int, read_only
from swarm.errors import DataError, InputError
from swarm.statistics.encoding import as_numbers, columns_of_units, is_nominal
from swarm.threads import one_thread

# Intervals of equal width into which numbers are divided.
_EQUAL_BINS = 10
# Columns with more codes are counted by sorting, because their indicators would fill memory.
_MAX_CODES = 256
_MAX_INDICATORS = 2048
# Memory for the indicators and the counts of one block.
_MAX_BLOCK_BYTES = 2**28
# Memory to code one block of columns; the table may fill most of it.
_MAX_CODING_BYTES = 2**26
# Integers below this limit are exact in float32, which is twice as fast.
_MAX_FLOAT32_INTEGER = 2**24
# Integer columns with up to this number of distinct values are discrete to the nearest neighbours.
_MAX_DISCRETE_VALUES = 20


def mutual_information(
    features: pd.DataFrame,
    target: pd.Series | pd.DataFrame | NDArray[np.generic],
    task: str,
) -> tuple[Float, Float]:
    """Mutual information, in nats, of pairs of features (d, d), and with labels (d, n_labels).

    Numeric columns of more than 10 values, and such a target of "regression", have 10 bins of equal
    width; else each value is a bin, and missing cells are one. Counts and their logarithms are
    summed as integers, so that redundancy and relevance are bit-identical on all machines.
    """
    # Source: Matijević (2022), equation 4 and section 5 ("dividing the interval into 10 bins").
    labels = pd.DataFrame(target)
    if len(labels) != len(features):
        raise InputError(
            f"there are {len(features)} rows of features but {len(labels)} of the target; "
            "they must match"
        )
    codes = np.hstack([_codes(features), _codes(labels, task != "regression")])
    information = _information(codes)
    d = features.shape[1]
    redundancy = information[:d, :d].copy()
    relevance = information[:d, d:].copy()
    read_only(redundancy, relevance)
    return redundancy, relevance


def target_information(
    features: pd.DataFrame,
    target: pd.Series | pd.DataFrame | NDArray[np.generic],
    task: str,
) -> Float:
    """Mutual information, in nats, of each feature with each label: (d, n_labels), read-only.

    It is bit-identical to the relevance of :func:`mutual_information`, in linear time and memory.
    """
    labels = _codes(pd.DataFrame(target), task != "regression")
    table, scale = _count_logs(len(labels))
    relevance = np.empty((features.shape[1], labels.shape[1]))
    width = max(1, _MAX_CODING_BYTES // (64 * max(1, len(labels))))
    for start in range(0, features.shape[1], width):
        codes = _codes(features.iloc[:, start : start + width])
        d = codes.shape[1]
        column_sums = np.array([table[np.bincount(column)].sum() for column in codes.T])
        for i, label in enumerate(labels.T):
            joint_sums = _by_sorting(np.hstack([codes, label[:, None]]), d, table)
            # The integers and their rounding are those of `_information`.
            total = table[len(labels)] + joint_sums[:d] - column_sums - joint_sums[d]
            relevance[start : start + d, i] = np.maximum(total / (scale * len(labels)), 0.0)
    read_only(relevance)
    return relevance


def neighbour_information(
    features: pd.DataFrame, target: NDArray[np.generic], task: str, seed: int
) -> Float:
    """Mutual information, in nats, of features with the target, by scikit-learn's estimators.

    Nominal columns and integers of at most 20 values are discrete; missing values become the lower
    median; several labels give their mean. `seed` is the seed of the noise that breaks ties.
    """
    from sklearn.feature_selection import mutual_info_classif, mutual_info_regression

    labels = np.asarray(target).T.reshape(-1, len(features))
    values = as_numbers(features)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice", RuntimeWarning)

        median = np.nanquantile(values, 0.5, axis=0, method="lower")
    values = np.where(np.isnan(values), np.nan_to_num(median), values)
    discrete = [
        is_nominal(dtype)
        or (types.is_integer_dtype(dtype) and len(np.unique(column)) <= _MAX_DISCRETE_VALUES)
        for dtype, column in zip(features.dtypes, values.T, strict=True)
    ]
    estimate = mutual_info_regression if task == "regression" else mutual_info_classif
    total = np.zeros(values.shape[1])
    # scikit-learn would start threads anew for each column of a class with few rows.
    with one_thread():
        for label in labels:
            total += estimate(
                values, label, discrete_features=np.array(discrete, dtype=bool), random_state=seed
            )
    # The estimates of constant columns are rounding errors of about 1e-16.
    is_constant = (values == values[0]).all(axis=0)
    return np.where(is_constant, 0.0, total / len(labels))


def unit_information(
    redundancy: Float, relevance: Float, units: Sequence[Sequence[int]]
) -> tuple[Float, Float]:
    """Means of redundancy (d, d) and relevance (d, n_labels) over columns of units, read-only."""
    columns, starts, sizes = columns_of_units(units)
    pairs = np.add.reduceat(redundancy[np.ix_(columns, columns)], starts, axis=0)
    sums = np.add.reduceat(pairs, starts, axis=1)
    # Both triangles are summed in different orders, so they may differ in the last bit.
    means = (sums + sums.T) / (2.0 * sizes[:, None] * sizes[None, :])
    read_only(means)
    return means, unit_relevance(relevance, units)


def unit_relevance(relevance: Float, units: Sequence[Sequence[int]]) -> Float:
    """Mean of relevance over the columns of units: (n_units, n_labels), read-only."""
    columns, starts, sizes = columns_of_units(units)
    means: Float = np.add.reduceat(relevance[columns], starts, axis=0) / sizes[:, None]
    read_only(means)
    return means


def _codes(table: pd.DataFrame, by_value: bool = False) -> Int:
    """Return the bin of every cell, from 0 without gaps: int (n_rows, d)."""
    values = as_numbers(table)
    is_infinite = np.isinf(values).any(axis=0)
    if is_infinite.any():
        name = table.columns[int(np.argmax(is_infinite))]
        raise DataError(f"column {name!r} has infinite values; clip or drop them")
    missing = np.isnan(values)
    order = np.argsort(values, axis=0, kind="stable")
    ranked = np.take_along_axis(values, order, axis=0)
    steps = np.zeros(values.shape, dtype=np.int64)
    # Missing cells are sorted last; they get their code below.
    steps[1:] = ranked[1:] > ranked[:-1]
    distinct = np.cumsum(steps, axis=0)
    nominal = np.array([by_value or is_nominal(dtype) for dtype in table.dtypes], dtype=bool)
    codes = np.empty(values.shape, dtype=np.int64)
    np.put_along_axis(codes, order, distinct, axis=0)
    # Binned columns have values: a column without any has no distinct ones.
    binned = np.flatnonzero(~nominal & (distinct[-1] >= _EQUAL_BINS))
    low = np.nanmin(values[:, binned], axis=0)
    high = np.nanmax(values[:, binned], axis=0)
    # Values are halved because the range of a column may exceed the largest float.
    position = (values[:, binned] / 2 - low / 2) / (high / 2 - low / 2)
    bins = np.floor(np.where(missing[:, binned], 0.0, position) * _EQUAL_BINS)
    codes[:, binned] = np.minimum(bins, _EQUAL_BINS - 1).astype(np.int64)
    return np.where(missing, codes.max(axis=0, initial=0, where=~missing) + 1, codes)


def _information(codes: Int) -> Float:
    """Mutual information of all pairs of columns of codes (n_rows, m): float64 (m, m)."""
    n_rows, m = codes.shape
    n_codes = codes.max(axis=0, initial=0) + 1
    table, scale = _count_logs(n_rows)
    sums = np.zeros((m, m), dtype=np.int64)
    narrow = np.flatnonzero(n_codes <= _MAX_CODES)
    blocks = list(_blocks(codes, n_codes, narrow))
    for i, rows in enumerate(blocks):
        row_indicators = rows.indicators(codes)
        for columns in blocks[i:]:
            # BLAS computes only half of the product of an array with itself.
            indicators = row_indicators if columns is rows else columns.indicators(codes)
            counts = (row_indicators.T @ indicators).astype(np.int64)
            block_sums = np.add.reduceat(table[counts], rows.starts, axis=0)
            block_sums = np.add.reduceat(block_sums, columns.starts, axis=1)
            sums[np.ix_(rows.columns, columns.columns)] = block_sums
            sums[np.ix_(columns.columns, rows.columns)] = block_sums.T
    for column in np.flatnonzero(n_codes > _MAX_CODES):
        sums[column] = sums[:, column] = _by_sorting(codes, int(column), table)
    diagonal = np.diag(sums)
    # H(f) = (table[n] - diagonal) / n, and so on; for a constant column, the integers cancel.
    total = table[n_rows] + sums - diagonal[:, None] - diagonal[None, :]
    return np.maximum(total / (scale * n_rows), 0.0)


@dataclass(frozen=True)
class _Block:
    """Columns whose indicators are computed together."""

    columns: Int
    starts: Int
    width: int
    dtype: type

    def indicators(self, codes: Int) -> NDArray[np.floating]:
        indicators: NDArray[np.floating] = np.zeros((len(codes), self.width), dtype=self.dtype)
        np.put_along_axis(indicators, codes[:, self.columns] + self.starts, 1.0, axis=1)
        return indicators


def _blocks(codes: Int, n_codes: Int, columns: Int) -> Iterator[_Block]:
    n_rows = len(codes)
    dtype = np.float32 if n_rows < _MAX_FLOAT32_INTEGER else np.float64
    max_width = _MAX_BLOCK_BYTES // (2 * np.dtype(dtype).itemsize * n_rows)
    max_width = max(_MAX_CODES, min(_MAX_INDICATORS, max_width))
    ends = np.cumsum(n_codes[columns])
    while columns.size:
        count = max(1, int(np.searchsorted(ends, max_width, side="right")))
        width = int(ends[count - 1])
        starts = ends[:count] - n_codes[columns[:count]]
        yield _Block(columns[:count], starts, width, dtype)
        columns, ends = columns[count:], ends[count:] - width


def _by_sorting(codes: Int, column: int, table: Int) -> Int:
    """Sum `table` over the joint counts of one column with every other, for any number of codes."""
    n_rows, m = codes.shape
    sums = np.empty(m, dtype=np.int64)
    width = max(1, _MAX_BLOCK_BYTES // (32 * n_rows))
    for start in range(0, m, width):
        block = codes[:, start : start + width]
        joint = np.sort(codes[:, [column]] * (block.max(axis=0) + 1) + block, axis=0)
        is_new = np.ones((block.shape[1], n_rows), dtype=bool)
        is_new[:, 1:] = (joint[1:] != joint[:-1]).T
        positions = np.flatnonzero(is_new)
        counts = np.diff(np.append(positions, is_new.size))
        starts = np.searchsorted(positions, np.arange(block.shape[1]) * n_rows)
        sums[start : start + width] = np.add.reduceat(table[counts], starts)
    return sums


def _count_logs(n_rows: int) -> tuple[Int, float]:
    """Table of ``c ln c`` for c from 0 to `n_rows` as multiples of 1 / scale, below 2^62."""
    # ln(m 2^e) = e ln 2 + 2 artanh((m - 1) / (m + 1)), since libraries differ in the last bit.
    count = np.arange(n_rows + 1, dtype=np.float64)
    mantissa, exponent = np.frexp(np.maximum(count, 1.0))
    is_low = mantissa < np.sqrt(0.5)
    mantissa = np.where(is_low, mantissa * 2, mantissa)
    exponent = exponent - is_low
    ratio = (mantissa - 1) / (mantissa + 1)
    square = ratio * ratio
    series = np.zeros_like(ratio)
    # The next term is below 1e-18, since |ratio| < 0.172.
    for power in range(23, 0, -2):
        series = series * square + 1.0 / power
    logs = exponent * 0.6931471805599453 + 2.0 * ratio * series
    scale = 2.0 ** (56 - n_rows.bit_length())
    return np.rint(count * logs * scale).astype(np.int64), scale
