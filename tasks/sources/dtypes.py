"""Columns of files with the dtypes that models read."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype

from swarm.problem.table import has_odd_categories

# Prefixes of the pandas dtypes that have a mask of missing values.
_NULLABLE = {"i": "Int", "u": "UInt", "f": "Float"}


def with_model_dtypes(table: pd.DataFrame, unchanged: Collection[str | None] = ()) -> pd.DataFrame:
    """Return a table with columns that models read, except for `unchanged`.

    Booleans with missing values become pandas `boolean`, decimals floats, durations seconds,
    numbers as objects or in Arrow's memory those of NumPy or pandas, and categories such as
    intervals text.
    """
    columns: dict[int, Any] = {
        position: _with_model_dtype(table.iloc[:, position])
        for position, (name, dtype) in enumerate(table.dtypes.items())
        if name not in unchanged and _may_change(dtype)
    }
    changed = {at: new for at, new in columns.items() if new.dtype != table.dtypes.iloc[at]}
    if changed:
        table = table.copy(deep=False)
        for position, column in changed.items():
            table.isetitem(position, column)
    return table


def _with_model_dtype(column: pd.Series) -> pd.Series:
    dtype: Any = column.dtype
    if has_odd_categories(dtype):
        return column.cat.rename_categories(str)
    is_arrow = isinstance(dtype, pd.ArrowDtype)
    kind = infer_dtype(column, skipna=True)
    if kind == "boolean":
        return column.astype("boolean") if column.isna().any() else column.astype(bool)
    if kind == "decimal":
        return _as_float(column)
    if kind in ("timedelta", "timedelta64"):
        return _as_float(pd.to_timedelta(column).dt.total_seconds())
    if kind in ("integer", "floating", "mixed-integer-float"):
        if is_arrow:
            # pandas has no 16-bit floats with a mask.
            bits = max(8 * dtype.itemsize, 32 if dtype.kind == "f" else 8)
            number: Any = f"{_NULLABLE[dtype.kind]}{bits}"
            return column.astype(number)
        return pd.to_numeric(column)
    return column


def _may_change(dtype: Any) -> bool:
    if isinstance(dtype, np.dtype):
        return dtype.kind in "Om"
    return isinstance(dtype, pd.ArrowDtype) or has_odd_categories(dtype)


def _as_float(column: pd.Series) -> pd.Series:
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return pd.Series(values, index=column.index, name=column.name)
