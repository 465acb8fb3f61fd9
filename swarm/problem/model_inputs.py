"""Inputs of the model of a subset: rows of its columns, and parameters of ``fit``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from swarm.arrays import Int
from swarm.errors import ConfigError
from swarm.problem.models import is_lightgbm, steps_before

# Parameters that name columns: of LightGBM, CatBoost and scikit-learn's histogram models.
_BY_COLUMN = ("categorical_feature", "cat_features", "categorical_features")
# The parameter of ColumnTransformer.
_TRANSFORMERS = "transformers"
# Characters that packages do not allow in the names of columns.
_REFUSED = {"lightgbm": '",:[]{}\n\r\0', "xgboost": "[]<"}
_SUSPICIOUS = re.compile(f"[ {re.escape(''.join(_REFUSED.values()))}]")


def with_accepted_names(columns: pd.DataFrame, estimator: Any) -> pd.DataFrame:
    """Return the columns of a subset by names that the estimator accepts, for `fit` and `predict`.

    LightGBM and XGBoost do not allow some characters in names, which become underscores, and
    LightGBM takes a blank for an underscore. Further underscores keep the names unique. Steps
    before a model make arrays, without names.
    """
    names = [str(name) for name in columns.columns]
    if not any(map(_SUSPICIOUS.search, names)) and "" not in names:
        return columns
    refused = _refused_characters(estimator)
    if not refused:
        return columns
    changed: dict[str, str] = {}
    for name in names:
        own = re.sub(f"[{re.escape(refused)}]", "_", name) or "_"
        while own.replace(" ", "_") in changed:
            own += "_"
        changed[own.replace(" ", "_")] = own
    return columns.set_axis(list(changed.values()), axis=1)


def _refused_characters(estimator: Any) -> str:
    if steps_before(estimator) or not hasattr(estimator, "get_params"):
        return ""
    parts = [estimator, *estimator.get_params(deep=True).values()]
    bases = {base.__module__.split(".")[0] for part in parts for base in type(part).__mro__}
    return "".join(refused for package, refused in _REFUSED.items() if package in bases)


def rows_for_model(columns: pd.DataFrame, rows: Int, as_array: bool) -> Any:
    """Return rows of the columns of a subset as a table, or as an array if X was an array.

    The array has the memory layout of the table, so that sums, and thus costs, are bit-identical.
    """
    part = columns.iloc[rows]
    if not as_array:
        return part
    values = part.to_numpy()
    return values if values.flags.writeable else values.copy(order="K")


def fit_params_of(
    params: Mapping[str, Any],
    n_rows: int,
    columns: Sequence[str],
    positions: Sequence[int],
    rows: Int,
) -> dict[str, Any]:
    """Restrict the parameters of ``fit`` to some columns and rows.

    Parameters
    ----------
    params
        Parameters for all columns and rows. A sequence of length `n_rows` has one value per row;
        ``categorical_feature`` and ``cat_features`` list columns; the rest is passed unchanged.
    columns
        Names of all columns.
    positions : (n_columns,)
        Columns of the subset.
    rows : int (n,)
    """
    found = {}
    for name, value in params.items():
        if names_columns(name, value):
            value = narrowed(value, columns, positions)
        elif _is_by_row(value, n_rows):
            value = _taken(value, rows)
        found[name] = value
    return found


def names_columns(name: str, value: object) -> bool:
    """Whether a parameter is a list of columns."""
    is_list = isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes))
    return is_list and name.rpartition("__")[2] in _BY_COLUMN


def column_params(estimator: Any) -> tuple[str, ...]:
    """Return the names of an estimator's parameters that list columns.

    They are those of its constructor, and the transformers of each ``ColumnTransformer`` that is a
    step of a pipeline. Those of LightGBM are excluded: they are training settings, see
    :func:`swarm.problem.models.chooses_by_column`.
    """
    from sklearn.compose import ColumnTransformer

    if is_lightgbm(estimator) or not hasattr(estimator, "get_params"):
        return ()
    params = estimator.get_params(deep=False)
    return (
        *(name for name, value in params.items() if names_columns(name, value)),
        *(
            f"{name}__{_TRANSFORMERS}"
            for name, step in getattr(estimator, "steps", None) or ()
            if isinstance(step, ColumnTransformer)
        ),
    )


def for_columns(estimator: Any, columns: Sequence[str], positions: Sequence[int]) -> Any:
    """Restrict the parameters that list columns to the columns of a subset.

    The estimator is modified in place and returned.
    """
    return _with_lists(estimator, columns, lambda value: narrowed(value, columns, positions))


def with_named_columns(params: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """Replace positions of columns by their names in the parameters that list columns."""
    return {
        name: _named(value, columns) if names_columns(name, value) else value
        for name, value in params.items()
    }


def with_names(estimator: Any, columns: Sequence[str]) -> Any:
    """Return a clone whose parameters list columns by name; the estimator if it has none."""
    if not column_params(estimator):
        return estimator
    from sklearn.base import clone

    return _with_lists(clone(estimator), columns, lambda value: _named(value, columns))


def _with_lists(estimator: Any, columns: Sequence[str], change: Callable[[Any], list[Any]]) -> Any:
    """Change the parameters that list columns, in place."""
    names = column_params(estimator)
    if not names:
        return estimator
    given = estimator.get_params()
    return estimator.set_params(
        **{name: _each_list(name, given[name], columns, change) for name in names}
    )


def _each_list(
    name: str, value: Any, columns: Sequence[str], change: Callable[[Any], list[Any]]
) -> Any:
    """Change a list of columns, or those of all transformers of a ``ColumnTransformer``."""
    if name.rpartition("__")[2] != _TRANSFORMERS:
        return change(value)
    return [
        (label, transformer, chosen if callable(chosen) else change(_listed(chosen, columns)))
        for label, transformer, chosen in value
    ]


def _listed(chosen: Any, columns: Sequence[str]) -> Any:
    """Return the columns of a transformer as a list, mask or array; a slice has names or positions.

    Raises
    ------
    ConfigError
        For a single name, which gives the transformer a series instead of a table.
    """
    if isinstance(chosen, slice):
        bounds = [chosen.start, chosen.stop]
        at = [list(columns).index(one) if isinstance(one, str) else one for one in bounds]
        if isinstance(chosen.stop, str):
            # Unlike positions, names are included.
            at[1] += 1
        return list(columns)[at[0] : at[1] : chosen.step]
    if isinstance(chosen, (str, int, np.integer)):
        raise ConfigError(
            f"a transformer of ColumnTransformer has the single column {chosen!r}, which a subset "
            f"may lack; pass a list, [{chosen!r}]"
        )
    return chosen


def narrowed(value: Any, columns: Sequence[str], positions: Sequence[int]) -> list[Any]:
    """Return the columns in `value` that are in a subset, by name or by their new position.

    Parameters
    ----------
    value : list of str, list of int or bool (n_columns,)
        Names or positions among all columns, or a mask of them.
    """
    values = list(value)
    if _is_mask(values, columns):
        return [bool(values[position]) for position in positions]
    place = {position: index for index, position in enumerate(positions)}
    kept = {columns[position] for position in positions}
    found: list[Any] = []
    for item in values:
        if isinstance(item, (int, np.integer)):
            found += [place[int(item)]] if int(item) in place else []
        elif item in kept:
            found.append(item)
    return found


def _is_mask(values: list[Any], columns: Sequence[str]) -> bool:
    return len(values) == len(columns) and all(isinstance(v, (bool, np.bool_)) for v in values)


def _named(value: Any, columns: Sequence[str]) -> list[Any]:
    values = list(value)
    if _is_mask(values, columns):
        return [name for name, on in zip(columns, values, strict=True) if on]
    # Positions that do not exist are left for the checks to report.
    names: dict[Any, str] = dict(enumerate(columns))
    return [
        names.get(item, item) if isinstance(item, (int, np.integer)) else item for item in values
    ]


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
