"""The raw table of a source, before columns are assigned roles."""

from __future__ import annotations

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
    """A table as read; `name` and `source` are those of :class:`~tasks.table.Table`."""

    name: str
    source: str
    frame: pd.DataFrame  # all columns, with the names of the source
    target: tuple[str, ...] = ()  # columns that the source declares as its target
    aside: tuple[str, ...] = ()  # may have a role but are never features: ids, a saved index
    categorical: tuple[str, ...] = ()  # columns that the source declares as categorical
    # columns of whole numbers that were read as text: as numbers, different ones would be equal
    as_text: tuple[str, ...] = ()
    # formats and cells of the columns whose texts are numbers, which they are in `frame`
    numbers: Mapping[str, NumberFormat] = field(default_factory=dict)
    written: Mapping[str, pd.Series] = field(default_factory=dict)
    csv: Mapping[str, Any] | None = None  # how the file is written, None if it is no CSV file


def with_numbers(raw: Raw, dates: Collection[str] = ()) -> Raw:
    """Return a table in which texts such as ``$1,243.56`` and ``12.5%`` are numbers."""
    decimal = "." if raw.csv is None else str(raw.csv["decimal"])
    frame, kept = raw.frame.copy(deep=False), {*raw.as_text, *raw.categorical, *dates}
    numbers, written = {}, {}
    for at, (name, dtype) in enumerate(frame.dtypes.items()):
        if str(name) in kept or not (is_object_dtype(dtype) or isinstance(dtype, pd.StringDtype)):
            continue
        texts = frame.iloc[:, at]
        form = NumberFormat.of(texts, decimal)
        if form is not None:
            numbers[str(name)], written[str(name)] = form, texts
            read: Any = form.numbers(texts)
            frame.isetitem(at, read)
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

    Whole numbers and truth values that gaps had made floats or objects are themselves again, so
    that labels do not depend on whether there are gaps.
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
