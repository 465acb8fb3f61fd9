"""Hashes of rows, rows that occur several times, and rows whose labels are in another order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from swarm.findings.columns import hashable
from swarm.findings.registry import Finding, make_finding

_PRIME = np.uint64(1_099_511_628_211)
# Rows are distinguished by so many columns first; only those that these leave equal are compared in
# all of them.
_FIRST_COLUMNS = 200
# A column distinguishes rows if it has so many values, and one for every two distinct rows.
_FEWEST_VALUES, _SHARE = 50, 0.5


def hash_rows(frame: pd.DataFrame) -> NDArray[np.uint64]:
    """Hash each row (n_rows,) by its values, whatever the types that hold them."""
    # Missing values are equal to one another, and whole numbers to the same floats.
    total = np.zeros(len(frame), dtype=np.uint64)
    for place in range(frame.shape[1]):
        column = hashable(frame.iloc[:, place])
        if is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype):
            column = pd.Series(column.to_numpy(dtype=np.float64, na_value=np.nan) + 0.0)
        total *= _PRIME
        total += pd.util.hash_pandas_object(column, index=False).to_numpy()
    return total


def label_findings(X: Any, others: Mapping[str, Any]) -> list[Finding]:
    """Find arguments with the row labels of X in another order, though rows match by position."""
    if not isinstance(X, pd.DataFrame):
        return []
    shuffled = [
        name
        for name, other in others.items()
        if isinstance(other, (pd.Series, pd.DataFrame)) and _is_reordered(X.index, other.index)
    ]
    return [
        make_finding(
            "SWM122",
            f"{name} has the row labels of X in another order, and rows are matched by position",
            remedy=f"align them, such as {name} = {name}.loc[X.index], or reset the index of both",
        )
        for name in shuffled
    ]


def _is_reordered(labels: pd.Index, others: pd.Index) -> bool:
    if len(labels) != len(others) or labels.equals(others):
        return False
    hashes, other_hashes = (
        np.sort(pd.util.hash_pandas_object(each, index=False)) for each in (labels, others)
    )
    return np.array_equal(hashes, other_hashes)


def repeated_rows(features: pd.DataFrame, target: NDArray[Any]) -> NDArray[np.bool_]:
    """Find rows (n_rows,) that equal an earlier one, if a column mostly distinguishes rows."""
    # In a few columns of categories or counts many rows are equal by chance.
    hashes = hash_rows(features.iloc[:, :_FIRST_COLUMNS])
    hashes += _PRIME * hash_rows(pd.DataFrame(target))
    alike = np.flatnonzero(pd.Series(hashes).duplicated(keep=False))
    rest = hash_rows(features.iloc[alike, _FIRST_COLUMNS:])
    again = pd.DataFrame({"first": hashes[alike], "rest": rest}).duplicated()
    repeated = np.zeros(len(features), dtype=np.bool_)
    repeated[alike[again]] = True
    if repeated.any() and not is_distinguished(features, int((~repeated).sum())):
        repeated[:] = False
    return repeated


def is_distinguished(features: pd.DataFrame, n_distinct: int) -> bool:
    """Whether a single column mostly distinguishes the rows, so that equal ones are copies."""
    needed = max(_FEWEST_VALUES, _SHARE * n_distinct)
    columns = (hashable(features.iloc[:, at]) for at in range(features.shape[1]))
    return any(column.nunique() >= needed for column in columns)
