"""Tables and columns with the dtypes that models support."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_numeric_dtype

# Columns, and cells, that are converted at once.
_COLUMNS_PER_BLOCK = 256
_CELLS_PER_BLOCK = 1 << 22
# Of the pandas dtypes with a mask of missing values.
_NULLABLE = {"i": "Int", "u": "UInt", "f": "Float"}


def is_plain(dtype: Any) -> bool:
    """Whether a type is one of NumPy's numbers."""
    return isinstance(dtype, np.dtype) and dtype.kind in "biuf"


def has_plain_dtypes(table: pd.DataFrame) -> bool:
    """Whether all columns have one of NumPy's numbers of at most 8 bytes."""
    return all(is_plain(dtype) and dtype.itemsize <= 8 for dtype in table.dtypes)


def block_width(n_rows: int) -> int:
    """Return how many columns are converted at once."""
    return max(1, min(_COLUMNS_PER_BLOCK, _CELLS_PER_BLOCK // max(1, n_rows)))


def is_polars(table: Any) -> bool:
    """Whether a table is a polars DataFrame; does not import polars."""
    return type(table).__module__.split(".")[0] == "polars" and hasattr(table, "to_pandas")


def with_model_dtypes(table: Any, unchanged: Collection[str | None] = ()) -> Any:
    """Return a pandas or polars table with columns that models support, except for `unchanged`.

    Booleans with missing values become pandas `boolean`, decimals floats, durations seconds,
    numbers as objects or in Arrow's memory those of NumPy or pandas, and categories such as
    intervals text.
    """
    if is_polars(table):
        from polars import Float64, Object, Series, selectors

        objects = [name for name, dtype in table.schema.items() if dtype == Object]
        table = table.with_columns(
            Series(name, table[name].to_list(), strict=False) for name in objects
        )
        seconds = selectors.duration().dt.total_microseconds() / 1e6
        return table.with_columns(selectors.decimal().cast(Float64), seconds)
    columns = {
        position: with_model_dtype(table.iloc[:, position])
        for position, (name, dtype) in enumerate(table.dtypes.items())
        if name not in unchanged and _may_change(dtype)
    }
    changed = {at: new for at, new in columns.items() if new.dtype != table.dtypes.iloc[at]}
    if changed:
        table = table.copy(deep=False)
        for position, column in changed.items():
            table.isetitem(position, column)
    return table


def with_model_dtype(column: pd.Series) -> pd.Series:
    """Return a column as in :func:`with_model_dtypes`."""
    dtype: Any = column.dtype
    if not _may_change(dtype):
        return column
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


def has_several_values(column: pd.Series) -> bool:
    """Whether a cell of a column is a list or another collection."""
    if isinstance(column.dtype, pd.ArrowDtype):
        return column.dtype.type in (list, dict)
    return column.dtype == object and any(map(is_collection, column.tolist()))


def is_collection(cell: object) -> bool:
    """Whether a cell is a list or another collection."""
    return isinstance(cell, (list, tuple, dict, set, np.ndarray))


def has_odd_categories(dtype: Any) -> bool:
    """Whether a column has categories other than text, numbers and booleans."""
    return (
        isinstance(dtype, pd.CategoricalDtype)
        and not is_numeric_dtype(dtype.categories)
        and not all(isinstance(each, (str, int, float)) for each in dtype.categories)
    )


def _may_change(dtype: Any) -> bool:
    if isinstance(dtype, np.dtype):
        return dtype.kind in "Om"
    return isinstance(dtype, pd.ArrowDtype) or has_odd_categories(dtype)


def _as_float(column: pd.Series) -> pd.Series:
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return pd.Series(values, index=column.index, name=column.name)
