"""Conversion of X and y, as scikit-learn accepts them, to tables."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.utils import get_tags
from sklearn.utils.validation import validate_data

from swarm.arrays import Bool
from swarm.errors import DataError

__all__ = ["as_table", "as_target", "is_polars", "select_columns", "wants_polars"]


def is_polars(X: Any) -> bool:
    """Whether X is a polars DataFrame; does not import polars."""
    return type(X).__module__.split(".")[0] == "polars" and hasattr(X, "to_pandas")


def wants_polars(selector: Any) -> bool:
    """Whether ``transform`` returns polars DataFrames."""
    from sklearn.utils._set_output import _get_output_config

    return bool(_get_output_config("transform", selector)["dense"] == "polars")


def as_table(selector: Any, X: Any) -> tuple[pd.DataFrame, bool]:
    """Return X as a table, and whether it was an array; set `n_features_in_` and names.

    The columns of a pandas or polars table keep their dtypes, categories and missing values. The
    columns of an array are numeric and named x0, x1, ...; a sparse matrix is converted to a dense
    one, since models use a few of its columns at a time.

    Parameters
    ----------
    selector : estimator
        Receives the attributes; its tags define whether values may be missing.
    X : DataFrame, array or sparse matrix (n_rows, n_features)

    Raises
    ------
    DataError
        If column names are not unique or ambiguous, or a sparse matrix exceeds the memory once it
        is dense.
    """
    if hasattr(X, "to_pandas") and not isinstance(X, pd.DataFrame):
        X = X.to_pandas()
    if isinstance(X, pd.DataFrame):
        if X.columns.has_duplicates:
            repeated = X.columns[X.columns.duplicated()][0]
            raise DataError(f"column {repeated!r} appears more than once; rename or drop one")
        validate_data(selector, X, skip_check_array=True)
        if hasattr(selector, "feature_names_in_"):
            return X, False
        _refuse_ambiguous_numbers(selector, X)
        return X.set_axis(_numbered(X.shape[1]), axis=1), False
    finite = not get_tags(selector).input_tags.allow_nan
    values = validate_data(
        selector,
        X,
        dtype="numeric",
        accept_sparse="csc",
        ensure_all_finite=finite or "allow-nan",
        ensure_min_samples=2,
    )
    if issparse(values):
        _refuse_larger_than_memory(values)
        values = values.toarray()
    return pd.DataFrame(values, columns=_numbered(values.shape[1])), True


def as_target(y: Any) -> Any:
    """Return y with an inferred dtype if its dtype is object, else unchanged."""
    if isinstance(y, np.ndarray) and y.dtype == object and y.ndim == 1:
        return pd.Series(y).infer_objects().to_numpy()
    if is_polars(y):
        return y.to_pandas()
    return y


def _refuse_ambiguous_numbers(selector: Any, X: pd.DataFrame) -> None:
    """Refuse constraints on columns that are named by numbers other than their positions."""
    if X.columns.equals(pd.RangeIndex(X.shape[1])):
        return
    for name in ("fixed", "forbidden", "groups", "costs", "warm"):
        given = getattr(selector, name, None)
        if given is not None and (not hasattr(given, "__len__") or len(given)):
            raise DataError(
                f"{name} may mean names or positions, as the columns have names that are not "
                "strings; rename them: X.columns = X.columns.astype(str)"
            )


def _numbered(count: int) -> list[str]:
    return [f"x{position}" for position in range(count)]


def _refuse_larger_than_memory(values: Any) -> None:
    needed = int(np.prod(values.shape, dtype=np.int64)) * values.dtype.itemsize
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # unknown on this system
        return
    if needed > there:
        raise DataError(
            f"the sparse matrix of {values.shape[0]} rows and {values.shape[1]} columns takes "
            f"{needed / 1e9:.0f} GB once dense, and the machine has {there / 1e9:.0f} GB; drop "
            "columns that are almost constant, for example with VarianceThreshold"
        )


def select_columns(X: Any, support: Bool) -> Any:
    """Columns of a table in `support` (n_features,), with their dtypes."""
    return X[:, np.flatnonzero(support).tolist()]
