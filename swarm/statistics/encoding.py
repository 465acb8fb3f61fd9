"""Columns of any dtype as numbers, and the columns of units, for statistics."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from swarm.arrays import Float, Int
from swarm.errors import DataError, InputError


def as_numbers(features: pd.DataFrame) -> Float:
    """Convert the table to float64 (n_rows, n_columns), with NaN for missing cells.

    Dates are numbered in their order, categories by code and strings by first occurrence, an order
    without meaning; DataError for any other dtype.
    """
    if all(
        types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype)
        for dtype in features.dtypes
    ):
        return features.to_numpy(dtype=np.float64, na_value=np.nan)
    values = np.empty(features.shape, dtype=np.float64)
    for position in range(features.shape[1]):
        values[:, position] = _numbers(features.iloc[:, position])
    return values


def is_nominal(dtype: object) -> bool:
    """Whether a column is nominal: category, string or bool."""
    return bool(
        isinstance(dtype, pd.CategoricalDtype)
        or types.is_bool_dtype(dtype)  # type: ignore[arg-type]
        or types.is_string_dtype(dtype)  # type: ignore[arg-type]
        or types.is_object_dtype(dtype)  # type: ignore[arg-type]
    )


def columns_of_units(units: Sequence[Sequence[int]]) -> tuple[Int, Int, Int]:
    """Concatenate the columns of units (n_columns,); also return starts and sizes (n_units,)."""
    sizes = np.array([len(unit) for unit in units], dtype=np.int64)
    if not sizes.all():
        empty = int(np.argmin(sizes))
        raise InputError(f"unit {empty} has no column; give every unit at least one")
    columns = np.fromiter((column for unit in units for column in unit), dtype=np.int64)
    return columns, np.cumsum(sizes) - sizes, sizes


def _numbers(column: pd.Series) -> Float:
    if column.dtype == object or isinstance(column.dtype, pd.ArrowDtype):
        column = _infer_dtype(column)
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _with_missing(column.cat.codes.to_numpy())
    if types.is_datetime64_any_dtype(dtype) or types.is_timedelta64_dtype(dtype):
        missing = column.isna().to_numpy()
        return np.where(missing, np.nan, column.astype("int64").to_numpy().astype(np.float64))
    if types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    if is_nominal(dtype):
        return _with_missing(pd.factorize(column)[0])
    raise DataError(
        f"column {column.name!r} has the dtype {dtype}, which has no order and no categories; "
        "convert it to numbers or to a category, or drop it"
    )


def _infer_dtype(column: pd.Series) -> pd.Series:
    """Convert a column of objects, or in Arrow's memory, to the dtype of its cells."""
    dtype = types.infer_dtype(column, skipna=True)
    if dtype in ("integer", "floating", "mixed-integer-float", "decimal", "boolean"):
        return pd.Series(column.to_numpy(dtype=np.float64, na_value=np.nan), name=column.name)
    if dtype in ("timedelta", "timedelta64"):
        return pd.to_timedelta(column)
    return column


def _with_missing(codes: NDArray[np.integer]) -> Float:
    """Convert codes to numbers; pandas gives missing cells the code -1."""
    return np.where(codes < 0, np.nan, codes.astype(np.float64))
