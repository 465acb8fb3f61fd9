"""Inputs of the model of a subset: rows of its columns, and parameters of ``fit``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from swarm.arrays import Int
from swarm.errors import ConfigError
from swarm.problem.column_params import COLUMN_LISTS, listed_columns, restrict_columns
from swarm.problem.dtypes import has_odd_categories, with_model_dtype
from swarm.problem.inner_estimators import preprocesses, readers

# Characters that packages do not allow in the names of columns.
_REFUSED = {"lightgbm": '",:[]{}\n\r\0', "xgboost": "[]<"}
_STORE_CATEGORIES = ("lightgbm", "xgboost", "catboost")
_SUSPICIOUS = re.compile(f"[ {re.escape(''.join(_REFUSED.values()))}]")


def with_accepted_names(columns: pd.DataFrame, estimator: Any) -> pd.DataFrame:
    """Return the columns of a subset by names that `fit` and `predict` accept.

    Unless steps before a model make arrays, characters that LightGBM or XGBoost do not allow
    become underscores, unique names stay unique, and categories that they cannot store become
    text.
    """
    names = [str(name) for name in columns.columns]
    is_plain = not _odd_categories(columns)
    if is_plain and not any(map(_SUSPICIOUS.search, names)) and "" not in names:
        return columns
    packages = _packages(estimator)
    if not is_plain and not packages.isdisjoint(_STORE_CATEGORIES):
        columns = with_plain_categories(columns)
    refused = "".join(refused for package, refused in _REFUSED.items() if package in packages)
    if not refused:
        return columns
    changed: dict[str, str] = {}
    for name in names:
        new_name = re.sub(f"[{re.escape(refused)}]", "_", name) or "_"
        while new_name.replace(" ", "_") in changed:
            new_name += "_"
        changed[new_name.replace(" ", "_")] = new_name
    return columns.set_axis(list(changed.values()), axis=1)


def _packages(estimator: Any) -> set[str]:
    """Return the packages of the estimators that read the table, without those behind a step."""
    # Steps before a model make arrays, without names.
    parts = [
        part
        for reader, kind in readers(estimator)
        if kind == "table" and not preprocesses(reader)
        for part in (reader, *_params(reader).values())
    ]
    return {base.__module__.split(".")[0] for part in parts for base in type(part).__mro__}


def with_plain_categories(features: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose categories are text, numbers or booleans; others become their text."""
    # Intervals, dates, periods and tuples cannot be stored as JSON. Codes and order do not change.
    odd = _odd_categories(features)
    if not odd:
        return features
    return features.assign(**{name: with_model_dtype(features[name]) for name in odd})


def _odd_categories(features: pd.DataFrame) -> list[str]:
    """Return the columns with categories other than text, numbers and booleans."""
    return [
        name
        for name, dtype in zip(features.columns, features.dtypes, strict=True)
        if has_odd_categories(dtype)
    ]


def _params(estimator: Any) -> dict[str, Any]:
    return dict(estimator.get_params(deep=True)) if hasattr(estimator, "get_params") else {}


def rows_for_model(columns: pd.DataFrame, rows: Int | slice, as_array: bool) -> Any:
    """Return rows of the columns of a subset as a table, or as an array if X was an array."""
    # The array has the memory layout of the table, so that sums, and thus costs, are bit-identical.
    part = columns.iloc[rows]
    if not as_array:
        return part
    values = part.to_numpy()
    return values if values.flags.writeable else values.copy(order="K")


def fit_params_of(
    # Those of length `n_rows` have one value per row; ``categorical_feature`` and ``cat_features``
    # list columns; the rest is passed unchanged.
    params: Mapping[str, Any],
    n_rows: int,
    columns: Sequence[str],  # names of all columns
    positions: Sequence[int],  # (n_columns,) of the subset
    rows: Int,  # (n,)
) -> dict[str, Any]:
    """Restrict the parameters of ``fit`` to some columns and rows."""
    options = {}
    for name, value in params.items():
        if names_columns(name, value):
            value = restrict_columns(value, columns, [columns[position] for position in positions])
        elif _is_by_row(value, n_rows):
            value = _taken(value, rows)
        options[name] = value
    return options


def names_columns(name: str, value: object) -> bool:
    """Whether a parameter is a list of columns."""
    is_list = isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes))
    return is_list and name.rpartition("__")[2] in COLUMN_LISTS


def with_named_columns(params: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """Replace positions of columns by names in the parameters that list columns."""
    changed = dict(params)
    for name, value in params.items():
        if names_columns(name, value):
            try:
                changed[name] = listed_columns(value, columns)
            except ValueError as error:
                raise ConfigError(
                    f"the parameter {name!r} of fit has {error}, which is no column; choose from "
                    f"{', '.join(map(repr, columns[:10]))}{', ...' if len(columns) > 10 else ''}"
                ) from None
    return changed


def _is_by_row(value: Any, n_rows: int) -> bool:
    if isinstance(value, (str, bytes, Mapping)):
        return False
    shape = getattr(value, "shape", None)
    if shape is not None:
        return len(shape) > 0 and shape[0] == n_rows
    return isinstance(value, Sequence) and len(value) == n_rows


def _taken(value: Any, rows: Int) -> Any:
    if hasattr(value, "iloc"):
        return value.iloc[rows]
    if isinstance(value, (list, tuple)):
        return [value[row] for row in rows.tolist()]
    return value[rows]
