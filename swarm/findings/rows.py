"""Hashes of rows, repeated rows, and rows whose labels are in another order."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from swarm.arrays import AnyArray, Bool, Int
from swarm.findings.columns import hashable, number_blocks, other_columns
from swarm.findings.registry import Finding, make_finding
from swarm.problem.table import block_width, is_plain

_PRIME = np.uint64(1_099_511_628_211)
# Rows are compared in so many columns first, and rows that are equal then in four times as many.
_N_FIRST_COLUMNS = 200
# A column distinguishes rows if it has so many values, and one for every two distinct rows.
_MIN_VALUES = 50
_MIN_SHARE_VALUES = 0.5


def hash_rows(frame: pd.DataFrame) -> NDArray[np.uint64]:
    """Hash each row (n_rows,) by its values, whatever the types that hold them."""
    total = np.zeros(len(frame), dtype=np.uint64)
    width = block_width(len(frame))
    for start in range(0, frame.shape[1], width):
        for hashes in _hashes(frame.iloc[:, start : start + width]):
            total *= _PRIME
            total += hashes
    return total


def _hashes(frame: pd.DataFrame) -> Iterable[AnyArray]:
    """Hash the values of each column (n_rows,); columns of plain numbers all at once."""
    # Missing values get the same hash, and so do whole numbers and equal floats.
    if all(map(is_plain, frame.dtypes)):
        numbers = frame.to_numpy(dtype=np.float64) + 0.0
        return pd.util.hash_array(numbers.T.ravel()).reshape(frame.shape[::-1])
    return [_hash(hashable(frame.iloc[:, position])) for position in range(frame.shape[1])]


def _hash(column: pd.Series) -> AnyArray:
    if is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype):
        column = pd.Series(column.to_numpy(dtype=np.float64, na_value=np.nan) + 0.0)
    return pd.util.hash_pandas_object(column, index=False).to_numpy()


def label_findings(X: Any, arguments: Mapping[str, Any]) -> list[Finding]:
    """Find arguments with the row labels of X in another order, though rows match by position."""
    if not isinstance(X, pd.DataFrame):
        return []
    shuffled = [
        name
        for name, value in arguments.items()
        if isinstance(value, (pd.Series, pd.DataFrame)) and _is_reordered(X.index, value.index)
    ]
    return [
        make_finding(
            "SWM122",
            f"{name} has the row labels of X in another order, and rows are matched by position",
            remedy=f"align them, such as {name} = {name}.loc[X.index], or reset the index of both",
        )
        for name in shuffled
    ]


def _is_reordered(first: pd.Index, second: pd.Index) -> bool:
    if len(first) != len(second) or first.equals(second):
        return False
    hashes, other_hashes = (
        np.sort(pd.util.hash_pandas_object(labels, index=False)) for labels in (first, second)
    )
    return np.array_equal(hashes, other_hashes)


def repeated_rows(features: pd.DataFrame, target: AnyArray) -> Bool:
    """Find rows (n_rows,) that equal an earlier one, if a column mostly distinguishes rows.

    In a few columns of categories or counts many rows are equal by chance.
    """
    hashes = hash_rows(pd.DataFrame(target))
    alike = np.arange(len(features))
    start, end = 0, _N_FIRST_COLUMNS
    while start < features.shape[1] and len(alike):
        hashes[alike] = hashes[alike] * _PRIME + hash_rows(features.iloc[alike, start:end])
        alike = alike[pd.Series(hashes[alike]).duplicated(keep=False)]
        start, end = end, 5 * end
    is_repeated = np.zeros(len(features), dtype=np.bool_)
    is_repeated[alike[pd.Series(hashes[alike]).duplicated()]] = True
    if is_repeated.any() and not is_distinguished(features, int((~is_repeated).sum())):
        is_repeated[:] = False
    return is_repeated


def is_distinguished(features: pd.DataFrame, n_distinct: int) -> bool:
    """Whether a single column mostly distinguishes the rows, so that equal ones are copies."""
    needed = max(_MIN_VALUES, _MIN_SHARE_VALUES * n_distinct)
    if any((_count_distinct(values) >= needed).any() for _, values in number_blocks(features)):
        return True
    return any(column.nunique() >= needed for _, column in other_columns(features))


def _count_distinct(values: AnyArray) -> Int:
    """Count the distinct numbers of each column (n_columns,), without missing ones."""
    ordered = np.sort(values, axis=0)
    missing = np.isnan(ordered)
    is_new = (ordered[1:] != ordered[:-1]) & ~missing[1:]
    return is_new.sum(axis=0) + ~missing[0]
