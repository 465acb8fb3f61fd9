"""Columns of dates: parsed by their format, and split into parts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from swarm.errors import DataError
from swarm.findings.columns import date_format, is_sorted

__all__ = ["date_parts", "parsed_dates", "sorted_dates"]

_HOURS = ("%H", "%I", "%c", "%X")


def parsed_dates(column: pd.Series, form: str | None) -> pd.Series:
    """Return a column as timestamps; missing values stay missing.

    Parameters
    ----------
    column
        Text, or timestamps already.
    form
        As in :meth:`datetime.strptime`; None for ISO 8601.

    Raises
    ------
    DataError
        If a value has another form.
    """
    if pd.api.types.is_datetime64_any_dtype(column):
        return column
    text = column.astype("string")
    found = pd.to_datetime(text, format=form or "ISO8601", errors="coerce")
    wrong = text[found.isna() & text.notna()]
    if len(wrong):
        raise DataError(
            f"date column {column.name!r} has {wrong.tolist()[0]!r} in {len(wrong)} rows, which is "
            f"not of the form {form or 'ISO 8601'}; correct its format in data.dates"
        )
    return pd.Series(found, index=column.index, name=column.name)


def sorted_dates(frame: pd.DataFrame, formats: Mapping[str, str | None]) -> str | None:
    """Return the first column of dates by which the rows are sorted, whatever its role.

    Parameters
    ----------
    frame
        All columns of a table.
    formats
        Formats of the columns that are known to be dates, None for ISO 8601.
    """
    # Of a wide table, most columns are numbers.
    plain = [isinstance(dtype, np.dtype) and dtype.kind in "biufc" for dtype in frame.dtypes]
    for name, column in frame.loc[:, [not p for p in plain]].items():
        moments = column
        if not pd.api.types.is_datetime64_any_dtype(column):
            form = formats.get(str(name)) or date_format(column)
            if form is None:
                continue
            moments = pd.to_datetime(column, format=form, errors="coerce")
        if is_sorted(moments):
            return str(name)
    return None


def date_parts(dates: Mapping[str, pd.Series], formats: Mapping[str, str | None]) -> pd.DataFrame:
    """Return year, month, day and weekday of each column, and the hour if its format has one.

    Numbers, from 0 for Monday for the weekday; missing where the date is missing.
    """
    parts: dict[str, pd.Series] = {}
    attributes = {"weekday": "day_of_week"}
    for name, column in dates.items():
        wanted = ["year", "month", "day", "weekday"]
        if any(mark in (formats[name] or "") for mark in _HOURS):
            wanted.append("hour")
        for part in wanted:
            values = getattr(column.dt, attributes.get(part, part))
            parts[f"{name}_{part}"] = values.astype(np.float64 if column.isna().any() else np.int64)
    return pd.DataFrame(parts)
