"""What columns look like: identifiers, constants, duplicates, free text, dates, groups."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

# Fewer rows say nothing about identifiers: 30 ages of 30 people may all differ.
_FEWEST_ROWS = 50
# Rows that are looked at before all are.
_HEAD = 1000
# Columns, and cells, that are converted at once.
_BLOCK = 256
_CELLS = 1 << 22
_SHARE_DISTINCT = 0.95
_WORDS_IN_TEXT = 3.0
_ID_NAME = re.compile(
    r"(?:^|[\W_])(?i:id|ids|uuid|guid|key|nr|no|num|number|code|index)$|[a-z](?:ID|Id|Nr|No)$",
)
_GROUP_NAME = re.compile(
    r"(?:^|[\W_])(?i:id|uuid|guid|group|patient|subject|customer|client|user|household|molecule"
    r"|device|session|batch)$|[a-z](?:ID|Id)$",
)
_SIGNS = re.compile(r"[%€$£',\s]")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)")
_DATE_FORMATS = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%d.%m.%Y",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%Y/%m/%d",
    "%d.%m.%y",
    "%d/%m/%y",
    "%m/%d/%y",
)


def is_text(column: pd.Series) -> bool:
    """Whether a column holds text, as such or as a category."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.categories.dtype == object or isinstance(
            column.cat.categories.dtype, pd.StringDtype
        )
    return column.dtype == object or isinstance(column.dtype, pd.StringDtype)


def text_values(column: pd.Series, limit: int | None = None) -> list[str]:
    """Return the values of a text column that are not missing, at most `limit` of them."""
    held = column.dropna()
    return [str(value) for value in (held if limit is None else held.iloc[:limit]).tolist()]


def text_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns that hold text, as such or as a category."""
    return _names(frame, [at for at, column in other_columns(frame) if is_text(column)])


def constant_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns with one value, and none missing, in all rows."""
    return _names(frame, _constant(frame))


def _constant(frame: pd.DataFrame) -> list[int]:
    places = [at for at, column in other_columns(frame) if column.nunique(dropna=False) == 1]
    for block, values in number_blocks(frame):
        if len(values):
            places += np.compress((values == values[0]).all(axis=0), block).tolist()
    return places


def duplicate_columns(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """Return each column that equals an earlier one in every row, with that column.

    Constant columns are left out.
    """
    same: dict[bytes, list[int]] = {}
    for block, values in number_blocks(frame):
        if values.dtype.kind == "f":
            # Missing values count as equal, and so do -0.0 and 0.0.
            values = np.where(np.isnan(values), np.nan, values) + 0.0
        for at, column in zip(block, values.T, strict=True):
            same.setdefault(_digest(values.dtype.kind, column), []).append(at)
    for at, other in other_columns(frame):
        hashes = pd.util.hash_pandas_object(other.astype(object), index=False)
        same.setdefault(_digest("O", hashes.to_numpy()), []).append(at)
    first = {at: min(alike) for alike in same.values() for at in alike if at != min(alike)}
    constant = _constant(frame) if first else []
    again = sorted(first.keys() - constant)
    return list(
        zip(_names(frame, again), [str(frame.columns[first[at]]) for at in again], strict=True)
    )


def id_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns in which (almost) every row has a value of its own.

    Text counts if 95 % of its values are distinct and it is not free text. Whole numbers count if
    all are distinct and they are dense (a range below three times the number of rows), in
    ascending or descending order, or named like an identifier. Other numbers never count, and
    below 50 rows nothing does.
    """
    if len(frame) < _FEWEST_ROWS:
        return []
    ids = [at for at, column in other_columns(frame) if _is_id(str(frame.columns[at]), column)]
    for block, values in number_blocks(frame.iloc[:_HEAD]):
        if values.dtype.kind == "b":
            continue
        # A missing value is no reason against it.
        whole = ((values == np.floor(values)) | ~np.isfinite(values)).all(axis=0)
        ids += [
            at
            for at in np.compress(whole, block).tolist()
            if _is_id(str(frame.columns[at]), frame.iloc[:, at])
        ]
    return _names(frame, ids)


def is_free_text(column: pd.Series) -> bool:
    """Whether a text column has mostly distinct values of several words."""
    if not is_text(column) or len(column) < _FEWEST_ROWS:
        return False
    values = text_values(column, _HEAD)
    if not values or len(set(values)) < 0.5 * len(values):
        return False
    return sum(len(value.split()) for value in values) / len(values) >= _WORDS_IN_TEXT


def is_number(text: str) -> bool:
    """Whether a text is a number but for percent and currency signs and separators of thousands."""
    return bool(_NUMBER.fullmatch(_SIGNS.sub("", text)))


def signed_number(column: pd.Series) -> str | None:
    """Return a value of a text column of numbers that is none as it is; None of other columns."""
    if not is_text(column):
        return None
    # The head alone: most columns have no numbers.
    values = list(dict.fromkeys(text_values(column, _HEAD)))
    if not all(map(is_number, values)):
        return None
    return next((value for value in values if _SIGNS.search(value)), None)


def date_format(column: pd.Series) -> str | None:
    """Return the format of a text column of dates, as in :meth:`datetime.strptime`.

    Returns
    -------
    str or None
        None if a value has none of the formats that are known. ``%d/%m/%Y`` is preferred to
        ``%m/%d/%Y`` if both fit.
    """
    if not is_text(column):
        return None
    values = text_values(column)
    if not values or not any(character.isdigit() for character in values[0]):
        return None
    distinct = pd.Series(list(dict.fromkeys(values)))
    for form in _DATE_FORMATS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # The head first: most columns have no dates.
            if pd.to_datetime(distinct.iloc[:20], format=form, errors="coerce").isna().any():
                continue
            if pd.to_datetime(distinct, format=form, errors="coerce").notna().all():
                return form
    return None


def group_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns that are named like an identifier and repeat their values.

    They have at least ten values, and at least 1.2 rows for each.
    """
    names = enumerate(map(str, frame.columns))
    named = [at for at, name in names if _GROUP_NAME.search(name)]
    return _names(frame, [at for at in named if _is_group(frame.iloc[:, at])])


def is_sorted(moments: pd.Series) -> bool:
    """Whether the rows are in ascending order of their dates, with at least ten of them."""
    held = moments.dropna()
    return held.nunique() >= 10 and len(held) > 0.9 * len(moments) and held.is_monotonic_increasing


def _is_plain(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "biuf"


def number_blocks(frame: pd.DataFrame) -> Iterator[tuple[list[int], NDArray[Any]]]:
    """Yield positions and values (n_rows, n_block) of the columns of NumPy numbers, by dtype.

    Many at once, as a wide table takes seconds column by column, but not a copy of a long one.
    """
    by_kind: dict[str, list[int]] = {}
    for at, dtype in enumerate(frame.dtypes):
        if _is_plain(dtype):
            by_kind.setdefault(dtype.str, []).append(at)
    for places in by_kind.values():
        width = max(1, min(_BLOCK, _CELLS // max(1, len(frame))))
        for start in range(0, len(places), width):
            block = places[start : start + width]
            yield block, frame.iloc[:, block].to_numpy()


def other_columns(frame: pd.DataFrame) -> Iterator[tuple[int, pd.Series]]:
    """Yield positions and values of the columns that are not NumPy numbers."""
    for at, dtype in enumerate(frame.dtypes):
        if not _is_plain(dtype):
            yield at, hashable(frame.iloc[:, at])


def hashable(column: pd.Series) -> pd.Series:
    """Return a column with cells of several values, such as lists in a Parquet file, as text."""
    if column.dtype != object:
        return column
    several = column.map(lambda cell: isinstance(cell, (list, tuple, dict, set, np.ndarray)))
    return column.where(~several.astype(bool), column.map(str)) if several.any() else column


def _names(frame: pd.DataFrame, places: Iterable[int]) -> list[str]:
    """Return the names at some positions, in the order of the table."""
    return [str(frame.columns[at]) for at in sorted(places)]


def _digest(kind: str, values: NDArray[Any]) -> bytes:
    found = hashlib.blake2b(kind.encode(), digest_size=16)
    found.update(np.ascontiguousarray(values).data)
    return found.digest()


def _whole(column: pd.Series) -> NDArray[Any] | None:
    """Return the values of a column of whole numbers that are not missing, else None."""
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return None
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iu":
        return column.to_numpy()
    values: NDArray[Any] = column.to_numpy(dtype=np.float64, na_value=np.nan)
    values = values[np.isfinite(values)]
    return values if len(values) and (values == np.floor(values)).all() else None


def _is_id(name: str, column: pd.Series) -> bool:
    n_rows = len(column)
    if is_text(column):
        head = text_values(column, _HEAD)
        if len(head) < _FEWEST_ROWS or len(set(head)) < _SHARE_DISTINCT * len(head):
            return False
        distinct = int(column.nunique())
        return (
            distinct >= _SHARE_DISTINCT * int(column.notna().sum())
            and not is_free_text(column)
            and signed_number(column) is None
            and date_format(column) is None
        )
    values = _whole(column)
    if values is None or len(values) < 0.9 * n_rows:
        return False
    if len(np.unique(values[:_HEAD])) < len(values[:_HEAD]):
        return False
    if len(np.unique(values)) < len(values):
        return False
    rises = values[1:] > values[:-1]
    dense = float(values.max()) - float(values.min()) < 3 * n_rows
    return dense or bool(rises.all() or not rises.any()) or bool(_ID_NAME.search(name))


def _is_group(column: pd.Series) -> bool:
    if len(column) < _FEWEST_ROWS:
        return False
    if not is_text(column):
        if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
            return False
        head = column.dropna().iloc[:_HEAD].to_numpy(dtype=np.float64)
        if (head != np.floor(head)).any():
            return False
    distinct = int(column.nunique())
    return distinct >= 10 and 1.2 * distinct <= len(column)
