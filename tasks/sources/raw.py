"""The raw table of a source, before columns are assigned roles."""

import ctypes
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_object_dtype

from swarm.errors import DataError, nearest
from swarm.reader import NumberFormat
from swarm.wording import quoted


@dataclass(frozen=True, eq=False)
class Raw:
    """A table as read.

    Attributes
    ----------
    name, source : str
        See :class:`~tasks.table.Table`.
    frame : DataFrame
        All columns, with the names of the source.
    target : tuple of str
        Columns that the source declares as its target.
    aside : tuple of str
        Columns that may have a role but are never features: ids, a saved index.
    categorical : tuple of str
        Columns that the source declares as categorical.
    as_text : tuple of str
        Columns of whole numbers that were read as text: as numbers, different ones would be equal.
    numbers : mapping of str to NumberFormat
        Formats of the columns whose texts are numbers, which they are in `frame`.
    written : mapping of str to Series
        Cells of these columns.
    csv : mapping, optional
        How the file is written; None if it is no CSV file.
    """

    name: str
    source: str
    frame: pd.DataFrame
    target: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    as_text: tuple[str, ...] = ()
    numbers: Mapping[str, NumberFormat] = field(default_factory=dict)
    written: Mapping[str, pd.Series] = field(default_factory=dict)
    csv: Mapping[str, Any] | None = None

    @property
    def named_frame(self) -> pd.DataFrame:
        """The table with names of columns as text."""
        return self.frame.set_axis([str(name) for name in self.frame.columns], axis=1)


def with_numbers(raw: Raw, dates: Collection[str] = ()) -> Raw:
    """Return a table in which texts such as ``$1,243.56`` and ``12.5%`` are numbers."""
    decimal = "." if raw.csv is None else str(raw.csv["decimal"])
    frame = raw.frame.copy(deep=False)
    remain_text = {*raw.as_text, *raw.categorical, *dates}
    numbers: dict[str, NumberFormat] = {}
    written: dict[str, pd.Series] = {}
    for position, (name, dtype) in enumerate(frame.dtypes.items()):
        is_text = is_object_dtype(dtype) or isinstance(dtype, pd.StringDtype)
        if str(name) in remain_text or not is_text:
            continue
        texts = frame.iloc[:, position]
        number_format = NumberFormat.of(texts, decimal)
        if number_format is not None:
            numbers[str(name)] = number_format
            written[str(name)] = texts
            values: Any = number_format.numbers(texts)
            frame.isetitem(position, values)
    return replace(raw, frame=frame, numbers=numbers, written=written) if numbers else raw


def large_numbers(frame: pd.DataFrame) -> list[str]:
    """Return the columns of floats above 2**53, which have lost digits if they were whole."""
    floats = frame.select_dtypes(np.float64)
    return floats.columns[(floats.abs() > 2.0**53).any()].tolist()


def name_list(names: str | Sequence[str] | None) -> list[str]:
    """Return a list of names; a single name becomes a list of one."""
    if names is None:
        return []
    return [names] if isinstance(names, str) else list(names)


def labelled_rows(frame: pd.DataFrame, targets: Sequence[str]) -> pd.DataFrame:
    """Return the rows in which no target is missing.

    Whole numbers and truth values, which gaps made floats or objects, get their type back, so that
    labels do not depend on gaps.
    """
    has_target = frame[list(targets)].notna().all(axis=1)
    if has_target.all():
        return frame
    if not has_target.any():
        raise DataError(f"no row has a target ({quoted(targets)}); choose another target")
    rows = frame[has_target].reset_index(drop=True)
    return rows.assign(**{name: _without_gaps(rows[name]) for name in targets})


def _without_gaps(column: pd.Series) -> pd.Series:
    if column.dtype == "float64" and (column % 1 == 0).all():
        return column.astype("int64")
    return column.infer_objects()


def release_memory() -> None:
    """Release the memory that Arrow and the C library keep, up to twice the size of a table."""
    if arrow := sys.modules.get("pyarrow"):
        arrow.default_memory_pool().release_unused()
    if sys.platform == "linux":
        # glibc only
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def duplicates(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once."""
    return [name for name, count in Counter(names).items() if count > 1]


def unknown_column(role: str, name: str, source: str, columns: Iterable[str]) -> str:
    """Say that a table has no such column, with the nearest one or the first names."""
    hint = nearest(name, columns) or f"; the columns are {quoted(columns)}"
    return f"unknown {role} column {name!r} in {source!r}{hint}"
