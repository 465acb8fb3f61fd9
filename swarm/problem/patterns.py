"""Columns named by a pattern or by their type: ``lag_*``, ``dtype:category``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import pandas as pd
from pandas.api import types

from swarm.errors import InputError, SpaceError, nearest, suggestion

_TYPE = "dtype:"
TYPES = ("number", "category", "text", "date", "boolean")


def type_of(dtype: Any) -> str:
    """Return which of `TYPES` the values of a dtype of pandas are; empty if none."""
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
    """Whether an item stands for several of the names; one that is itself a name does not."""
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

    A pattern is that of :mod:`fnmatch`, with regard to case, or ``dtype:`` and one of `TYPES`. An
    item that is the name of a column is that column, and all others stay as they are.

    Parameters
    ----------
    role : str
        What the items are for; begins the messages.
    items : iterable
    columns : mapping of name to dtype
        A dtype may be None, as that of a group of columns.
    skip : collection of str
        Names that no pattern matches.
    error : type
        Of what is raised.

    Raises
    ------
    InputError
        If a pattern matches nothing, or its type is unknown.
    """
    items = list(items)
    # A name that is given as well is not there twice.
    seen = {each for each in items if isinstance(each, str)} | set(skip)
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
    wanted = item.removeprefix(_TYPE)
    if wanted not in TYPES:
        raise error(f"{role}: unknown type in {item!r}{suggestion(wanted, TYPES)}")
    typed = {name: dtype for name, dtype in columns.items() if dtype is not None}
    return [name for name, dtype in typed.items() if type_of(dtype) == wanted]
