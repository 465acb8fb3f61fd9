"""The raw table of a source, before columns are assigned roles."""

from __future__ import annotations

import ctypes
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from swarm.errors import nearest
from swarm.wording import quoted


@dataclass(frozen=True, eq=False)
class Raw:
    """A table as read; `name` and `source` are those of :class:`~tasks.table.Table`."""

    name: str
    source: str
    frame: pd.DataFrame  # all columns, with the names of the source
    target: tuple[str, ...] = ()  # columns that the source declares as its target
    aside: tuple[str, ...] = ()  # may have a role but are never features: ids, a saved index
    categorical: tuple[str, ...] = ()  # columns that the source declares as categorical
    as_text: tuple[str, ...] = ()  # columns of long whole numbers that were read as text
    # texts of the columns of percentages, which are numbers in `frame`
    percentages: Mapping[str, pd.Series] = field(default_factory=dict)
    csv: Mapping[str, Any] | None = None  # how the file is written, None if it is no CSV file


def name_list(names: str | Sequence[str] | None) -> list[str]:
    """Return a list of names; a single name becomes a list of one."""
    if names is None:
        return []
    return [names] if isinstance(names, str) else list(names)


def labelled_rows(frame: pd.DataFrame, targets: Sequence[str]) -> pd.DataFrame:
    """Return the rows in which no target is missing.

    Whole numbers and truth values that gaps had made floats or objects are themselves again, so
    that labels do not depend on whether there are gaps.
    """
    has_target = frame[list(targets)].notna().all(axis=1)
    if has_target.all():
        return frame
    rows = frame[has_target].reset_index(drop=True)
    return rows.assign(**{name: _without_gaps(rows[name]) for name in targets})


def _without_gaps(column: pd.Series) -> pd.Series:
    if column.dtype == "float64" and (column % 1 == 0).all():
        return column.astype("int64")
    return column.infer_objects()


def release_memory() -> None:
    """Return what Arrow's pool and the C library keep for later, up to twice a table's size."""
    if arrow := sys.modules.get("pyarrow"):
        arrow.default_memory_pool().release_unused()
    if sys.platform == "linux":
        # Of glibc; others have no such function.
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def duplicates(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once."""
    return [name for name, count in Counter(names).items() if count > 1]


def unknown_column(role: str, name: str, source: str, columns: Iterable[str]) -> str:
    """Say that a table has no such column, with the nearest one or the first few."""
    hint = nearest(name, columns) or f"; the columns are {quoted(columns)}"
    return f"unknown {role} column {name!r} in {source!r}{hint}"
