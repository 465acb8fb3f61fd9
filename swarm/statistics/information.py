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
_MOST_CODES = 256
# Memory for the indicators and the counts of one block.
_BLOCK_BYTES = 2**28
# Memory to code one block of columns, beside a table that may fill it.
_CODING_BYTES = 2**26
_MOST_INDICATORS = 2048
# Integers up to this limit are exact in float32, which is twice as fast.
_EXACT_FLOAT32 = 2**24
# Integers with at most as many distinct values are discrete to the nearest neighbours.
_FEW_VALUES = 20


def mutual_information(
    features: pd.DataFrame,
    target: pd.Series | pd.DataFrame | NDArray[np.generic],
    task: str,
) -> tuple[Float, Float]:
    """Mutual information, in nats, of pairs of features (d, d), and with labels (d, n_labels)."""
    # Numeric columns of more than 10 values, and such a target of "regression", have 10 bins of
    # equal width; else each value is a bin, and missing cells are one. Counts and their logarithms
    # are summed as integers, so that redundancy and relevance are bit-identical anywhere. Source:
    # Matijević (2022), equation 4 and section 5 ("dividing the interval into 10 bins").
    labels = pd.DataFrame(target)
    if len(labels) != len(features):
        raise InputError(
            f"there are {len(features)} rows of features but {len(labels)} of the target; "
            "they must match"
        )
    codes = np.hstack([_codes(features), _codes(labels, task != "regression")])
    between = _information(codes)
    d = features.shape[1]
    redundancy, relevance = between[:d, :d].copy(), between[:d, d:].copy()
    read_only(redundancy, relevance)
    return redundancy, relevance


def target_information(
    features: pd.DataFrame,
    target: pd.Series | pd.DataFrame | NDArray[np.generic],
    task: str,
) -> Float:
    """Mutual information, in nats, of each feature with each label: (d, n_labels), read-only."""
    # Bit-identical to the relevance of mutual_information(), in linear time and memory.
    labels = _codes(pd.DataFrame(target), task != "regression")
    table, scale = _count_logs(len(labels))
    relevance = np.empty((features.shape[1], labels.shape[1]))
    most = max(1, _CODING_BYTES // (64 * max(1, len(labels))))
    for start in range(0, features.shape[1], most):
        codes = _codes(features.iloc[:, start : start + most])
        d = codes.shape[1]
        column_sums = np.array([table[np.bincount(column)].sum() for column in codes.T])
        for number, label in enumerate(labels.T):
            both = np.hstack([codes, label[:, None]])
            shared = _by_sorting(both, d, table)
            # The same integers, and the same rounding, as for all pairs.
            total = table[len(labels)] + shared[:d] - column_sums - shared[d]
            relevance[start : start + d, number] = np.maximum(total / (scale * len(labels)), 0.0)
    read_only(relevance)
    return relevance


def neighbour_information(
    features: pd.DataFrame, target: NDArray[np.generic], task: str, seed: int
) -> Float:
    """Mutual information, in nats, of features with the target, by scikit-learn's estimators."""
    # Nominal columns and integers of at most 20 values are discrete; missing values are the lower
    # median; several labels give their mean. `seed` is that of the noise that breaks ties.
    from sklearn.feature_selection import mutual_info_classif, mutual_info_regression

    labels = np.asarray(target).T.reshape(-1, len(features))
    values = as_numbers(features)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice", RuntimeWarning)
        # The lower median is a value of the column.
        median = np.nanquantile(values, 0.5, axis=0, method="lower")
    values = np.where(np.isnan(values), np.nan_to_num(median), values)
    discrete = [
        is_nominal(dtype)
        or (types.is_integer_dtype(dtype) and len(np.unique(column)) <= _FEW_VALUES)
        for dtype, column in zip(features.dtypes, values.T, strict=True)
    ]
    estimate = mutual_info_regression if task == "regression" else mutual_info_classif
    total = np.zeros(values.shape[1])
    # For classes of few rows scikit-learn starts threads anew for each column.
    with one_thread():
        for label in labels:
            total += estimate(
                values, label, discrete_features=np.array(discrete, dtype=bool), random_state=seed
            )
    # The estimates of constant columns are rounding errors of about 1e-16.
    constant = (values == values[0]).all(axis=0)
    return np.where(constant, 0.0, total / len(labels))


def unit_information(
    redundancy: Float, relevance: Float, units: Sequence[Sequence[int]]
) -> tuple[Float, Float]:
    """Means of redundancy (d, d) and relevance (d, n_labels) over columns of units, read-only."""
    columns, starts, sizes = columns_of_units(units)
    pairs = np.add.reduceat(redundancy[np.ix_(columns, columns)], starts, axis=0)
    sums = np.add.reduceat(pairs, starts, axis=1)
    # Both triangles are summed in different orders, so they may differ in the last bit.
    between: Float = (sums + sums.T) / (2.0 * sizes[:, None] * sizes[None, :])
    read_only(between)
    return between, unit_relevance(relevance, units)


def unit_relevance(relevance: Float, units: Sequence[Sequence[int]]) -> Float:
    """Mean of relevance over the columns of units: (n_units, n_labels), read-only."""
    columns, starts, sizes = columns_of_units(units)
    means: Float = np.add.reduceat(relevance[columns], starts, axis=0) / sizes[:, None]
    read_only(means)
    return means


def _codes(table: pd.DataFrame, by_value: bool = False) -> Int:
    """Return the bin of every cell, from 0 without gaps: int (n_rows, d)."""
    values = as_numbers(table)
    infinite = np.isinf(values).any(axis=0)
    if infinite.any():
        name = table.columns[int(np.argmax(infinite))]
        raise DataError(f"column {name!r} has infinite values; clip or drop them")
    missing = np.isnan(values)
    order = np.argsort(values, axis=0, kind="stable")
    ranked = np.take_along_axis(values, order, axis=0)
    steps = np.zeros(values.shape, dtype=np.int64)
    # Missing cells are sorted last; they get their code below.
    steps[1:] = ranked[1:] > ranked[:-1]
    distinct = np.cumsum(steps, axis=0)
    nominal = np.array([by_value or is_nominal(dtype) for dtype in table.dtypes], dtype=bool)
    few = nominal | (distinct[-1] < _EQUAL_BINS)
    codes = np.empty(values.shape, dtype=np.int64)
    np.put_along_axis(codes, order, distinct, axis=0)
    # Columns without any value are among the few.
    many = np.flatnonzero(~few)
    low, high = np.nanmin(values[:, many], axis=0), np.nanmax(values[:, many], axis=0)
    # Halved, because the range of a column may exceed the largest float.
    place = (values[:, many] / 2 - low / 2) / (high / 2 - low / 2)
    cut = np.floor(np.where(missing[:, many], 0.0, place) * _EQUAL_BINS)
    codes[:, many] = np.minimum(cut, _EQUAL_BINS - 1).astype(np.int64)
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
            # Passing the same array twice lets BLAS compute only half of the product.
            others = ones if second is first else second.indicators(codes)
            counts = (ones.T @ others).astype(np.int64)
            part = np.add.reduceat(table[counts], first.starts, axis=0)
            part = np.add.reduceat(part, second.starts, axis=1)
            sums[np.ix_(first.columns, second.columns)] = part
            sums[np.ix_(second.columns, first.columns)] = part.T
    for column in np.flatnonzero(n_codes > _MOST_CODES):
        sums[column] = sums[:, column] = _by_sorting(codes, int(column), table)
    diagonal = np.diag(sums)
    # H(f) = (table[n] - diagonal) / n, and so on; for a constant column, the integers cancel.
    total = table[n_rows] + sums - diagonal[:, None] - diagonal[None, :]
    information: Float = np.maximum(total / (scale * n_rows), 0.0)
    return information


@dataclass(frozen=True)
class _Block:
    """Columns whose indicators are computed together."""

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
        count = max(1, int(np.searchsorted(ends, most, side="right")))
        width = int(ends[count - 1])
        starts = ends[:count] - n_codes[columns[:count]]
        yield _Block(columns[:count], starts, width, dtype)
        columns, ends = columns[count:], ends[count:] - width


def _by_sorting(codes: Int, column: int, table: Int) -> Int:
    """Sum `table` over the joint counts of one column with every other, for any number of codes."""
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
    """Return ``c ln c`` for c from 0 to `n_rows` as multiples of 1 / scale, integers below 2^62."""
    # ln(m 2^e) = e ln 2 + 2 artanh((m - 1) / (m + 1)), since libraries differ in the last bit.
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
