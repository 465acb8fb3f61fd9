"""Columns named by a pattern or by their type: ``lag_*``, ``dtype:category``."""

from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import pandas as pd
from pandas.api import types

from swarm.errors import InputError, SpaceError, nearest, suggestion

_TYPE = "dtype:"
TYPES = ("number", "category", "text", "date", "boolean")


def type_of(dtype: Any) -> str:
    """Return the type of `TYPES` that a dtype of pandas has; empty if none."""
    if isinstance(dtype, pd.CategoricalDtype):
        return "category"
    if types.is_bool_dtype(dtype):
        return "boolean"
    if types.is_datetime64_any_dtype(dtype):
        return "date"
    if types.is_numeric_dtype(dtype):
        return "number"
    return "text" if types.is_object_dtype(dtype) or types.is_string_dtype(dtype) else ""


def is_pattern(item: object, names: Collection[object]) -> bool:
    """Whether an item is a pattern, and not one of the names."""
    if not isinstance(item, str) or item in names:
        return False
    return item.startswith(_TYPE) or any(mark in item for mark in "*?[")


def expand_patterns(
    role: str,
    items: Iterable[Any],
    columns: Mapping[str, Any],
    *,
    skip: Collection[str] = (),
    error: type[InputError] = SpaceError,
) -> list[Any]:
    """Replace patterns by the columns that they match, in the order of the columns.

    A pattern is either one of :mod:`fnmatch`, in which case matters, or ``dtype:`` and one of
    `TYPES`. All other items, such as names of columns, stay as they are.

    Parameters
    ----------
    role : str
        Beginning of the messages: what the items are for.
    items : iterable
    columns : mapping of name to dtype
        Dtypes; None for a group of columns.
    skip : collection of str
        Names that no pattern matches.
    error : type
        Class of the error.

    Raises
    ------
    InputError
        If a pattern matches nothing, or its type is unknown.
    """
    items = list(items)
    # A column that is named and matched is there once.
    seen = {item for item in items if isinstance(item, str)} | set(skip)
    expanded: list[Any] = []
    for item in items:
        if not is_pattern(item, columns):
            expanded.append(item)
            continue
        matches = _matches(role, item, columns, error)
        expanded += [name for name in matches if name not in seen]
        seen.update(matches)
        if not set(matches) - set(skip):
            raise error(
                f"{role}: no column matches {item!r}{nearest(item, columns)}; correct it, or leave "
                "it out"
            )
    return expanded


def _matches(
    role: str, item: str, columns: Mapping[str, Any], error: type[InputError]
) -> list[str]:
    """Return the names that a pattern matches."""
    if not item.startswith(_TYPE):
        return [name for name in columns if fnmatchcase(name, item)]
    type_name = item.removeprefix(_TYPE)
    if type_name not in TYPES:
        raise error(f"{role}: unknown type in {item!r}{suggestion(type_name, TYPES)}")
    return [
        name for name, dtype in columns.items() if dtype is not None and type_of(dtype) == type_name
    ]
