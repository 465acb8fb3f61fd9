"""What columns look like: identifiers, constants, duplicates, free text, dates."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.problem.table import block_width, is_collection, is_plain
from swarm.reader import timestamps

# Fewer rows say nothing about identifiers: 30 ages of 30 people may all differ.
_FEWEST_ROWS = 50
# Rows that are looked at before all are.
_HEAD = 1000
_SHARE_DISTINCT = 0.95
_LONGEST_QUANTITY = 2**53
_FEWEST_OTHERS = 20
_NINES = re.compile(r"9{2,}(?:\.9*)?")
_WORDS_IN_TEXT = 3.0
_ID_NAME = re.compile(
    r"(?:^|[\W_])(?i:id|ids|uuid|guid|key|nr|no|num|number|code|index)$|[a-z](?:ID|Id|Nr|No)$",
)
_SIGNS = re.compile(r"[%€$£',\s]")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)")
# Days before months where both fit. Two-digit years come last.
_DAYS = (
    *("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y"),
    *("%Y/%m/%d", "%Y.%m.%d", "%d-%b-%Y", "%d %b %Y", "%d %B %Y", "%a, %d %b %Y"),
    *("%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y"),
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%b-%y"),
)
_MONTHS = ("%Y-%m", "%Y/%m", "%m/%Y", "%m.%Y", "%b %Y", "%B %Y", "%b-%Y")
_MOST_MONTHS = (1800, 2200)
_DATE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .,:/+-]{5,39}")
_TIME = re.compile(
    r"(?P<before>T|,?\s+)\d{1,2}:\d\d(?P<second>:\d\d)?(?P<fraction>\.\d{1,9})?"
    r"(?:(?P<space>\s?)(?P<half>[AaPp][Mm]))?(?P<zone>\s?(?:Z|[+-]\d\d:?\d\d|UTC|GMT))?$"
)
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]|$)")


def is_text(column: pd.Series) -> bool:
    """Whether a column holds text, as such or as a category."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.categories.dtype == object or isinstance(
            column.cat.categories.dtype, pd.StringDtype
        )
    return column.dtype == object or isinstance(column.dtype, pd.StringDtype)


def text_values(column: pd.Series, limit: int | None = None) -> list[str]:
    """Return the values of a text column that are not missing, at most `limit` of them."""
    texts = column.dropna()
    return [str(value) for value in (texts if limit is None else texts.iloc[:limit]).tolist()]


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
    """Return each column that equals an earlier one in every row, with that one; no constants."""
    same: dict[bytes, list[int]] = {}
    for block, values in number_blocks(frame):
        if values.dtype.kind in "iu" and np.abs(values).max(initial=0) <= 2**53:
            # As floats, which a gap makes of integers.
            values = values.astype(np.float64)
        if values.dtype.kind == "f":
            # Missing values count as equal, and so do -0.0 and 0.0.
            values = np.where(np.isnan(values), np.nan, values).astype(np.float64) + 0.0
        for at, column in zip(block, values.T, strict=True):
            same.setdefault(_digest(values.dtype.kind, column), []).append(at)
    for at, other in other_columns(frame):
        hashes = pd.util.hash_pandas_object(other.astype(object), index=False)
        same.setdefault(_digest("O", hashes.to_numpy()), []).append(at)
    lowest = ((min(alike), alike) for alike in same.values())
    first = {at: least for least, alike in lowest for at in alike if at != least}
    constant = _constant(frame) if first else []
    again = sorted(first.keys() - constant)
    return list(
        zip(_names(frame, again), [str(frame.columns[first[at]]) for at in again], strict=True)
    )


def id_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns of text or whole numbers in which (almost) every row has its own value."""
    # Free text does not count, and numbers have to be dense or in order, be named like an
    # identifier, or have 16 digits. Below 50 rows nothing counts.
    if len(frame) < _FEWEST_ROWS:
        return []
    ids = [at for at, column in other_columns(frame) if _is_id(str(frame.columns[at]), column)]
    for block, values in number_blocks(frame.iloc[:_HEAD]):
        if values.dtype.kind == "b":
            continue
        # A missing value is no reason against it.
        whole = ((values == np.floor(values)) | ~np.isfinite(values)).all(axis=0)
        suspects = whole & ~_is_repetitive(values)
        ids += [
            at
            for at in np.compress(suspects, block).tolist()
            if _is_id(str(frame.columns[at]), frame.iloc[:, at])
        ]
    return _names(frame, ids)


def _is_repetitive(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each column (n_columns,) repeats a number, and has none of 16 digits."""
    ordered = np.sort(values, axis=0)
    repeats = ((ordered[1:] == ordered[:-1]) & np.isfinite(ordered[1:])).any(axis=0)
    with np.errstate(invalid="ignore"):
        long = (np.abs(values.astype(np.float64)) > _LONGEST_QUANTITY).any(axis=0)
    repetitive: NDArray[np.bool_] = repeats & ~long
    return repetitive


def is_free_text(column: pd.Series) -> bool:
    """Whether a text column has mostly distinct values of several words."""
    if not is_text(column) or len(column) < _FEWEST_ROWS:
        return False
    values = text_values(column, _HEAD)
    if not values or len(set(values)) < 0.5 * len(values):
        return False
    words = sum(len(value.split()) for value in values) / len(values)
    return words >= _WORDS_IN_TEXT and date_format(column) is None


def text_kind(column: pd.Series) -> tuple[Literal["date", "prose", "number", "category"], str]:
    """Say what a text column holds, with the format of its dates, or one of its numbers."""
    if (form := date_format(column)) is not None:
        return "date", form
    if is_free_text(column):
        return "prose", ""
    number = signed_number(column)
    return ("category", "") if number is None else ("number", number)


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
    # With decimal commas, numbers with points are texts.
    return next((value for value in values if _SIGNS.search(value) or "." in value), None)


def date_format(column: pd.Series) -> str | None:
    """Return the format of a text column of dates for `strptime`; None if there is none."""
    # It is "ISO8601" if ISO dates differ in their form. %d/%m/%Y is preferred to %m/%d/%Y.
    # Two-digit years need a day above 12 or a constant day: 10.11.12 may be a version.
    if not is_text(column):
        return None
    # The head first: most columns have no dates.
    head = [text.strip() for text in text_values(column, 20)]
    if not head or not all(map(_may_be_date, head)):
        return None
    distinct = pd.Series(list(dict.fromkeys(text_values(column)))).str.strip()
    time = _TIME.search(head[0])
    suffix = "" if time is None else _time_format(time)
    for form in _DAYS if suffix else _DAYS + _MONTHS:
        parsed = timestamps(distinct.iloc[:20], form + suffix)
        if parsed.isna().any():
            continue
        parsed = timestamps(distinct, form + suffix)
        if parsed.notna().all() and _is_plausible(distinct, parsed, form):
            return form + suffix
    if distinct.str.match(_ISO_DATE).all() and timestamps(distinct, "ISO8601").notna().all():
        return "ISO8601"
    return None


def _may_be_date(text: str) -> bool:
    """Whether a text has digits and something between them, so that it is no word or number."""
    return bool(_DATE.fullmatch(text)) and any(map(str.isdigit, text)) and not text.isalnum()


def _time_format(time: re.Match[str]) -> str:
    """Return the format of the end of a text, the time of day."""
    half = time["half"] is not None
    form = time["before"] + ("%I:%M" if half else "%H:%M")
    form += ":%S" if time["second"] else ""
    form += ".%f" if time["fraction"] else ""
    form += time["space"] + "%p" if half else ""
    zone = time["zone"] or ""
    named = zone.strip() in ("UTC", "GMT")
    return form + (" " if zone[:1].isspace() else "") + ("%Z" if named else "%z" if zone else "")


def _is_plausible(texts: pd.Series, parsed: pd.Series, form: str) -> bool:
    """Whether texts that fit a format are dates rather than codes or versions."""
    if form in _MONTHS:
        return bool(parsed.dt.year.between(*_MOST_MONTHS).all())
    if form != "%d.%m.%y":
        return True
    days, padded = parsed.dt.day, texts.str.match(r"\d\d\.\d\d\.")
    return bool(padded.all() and (days.max() > 12 or days.nunique() == 1))


def whole_numbers(column: pd.Series) -> NDArray[Any] | None:
    """Return the values of a column of whole numbers that are not missing, else None."""
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return None
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iu":
        return column.to_numpy()
    if not _is_whole(column.iloc[:_HEAD].to_numpy(dtype=np.float64, na_value=np.nan)):
        return None
    values: NDArray[Any] = column.to_numpy(dtype=np.float64, na_value=np.nan)
    values = values[np.isfinite(values)]
    return values if len(values) and _is_whole(values) else None


def _is_whole(values: NDArray[Any]) -> bool:
    return bool(((values == np.floor(values)) | ~np.isfinite(values)).all())


def is_long_number(values: NDArray[Any]) -> bool:
    """Whether whole numbers have so many digits that they are identifiers, not quantities."""
    return len(values) > 0 and abs(int(np.median(values))) > _LONGEST_QUANTITY


def sentinels(frame: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Return by column a value that may stand for missing ones, and its share of the rows."""
    # It is the smallest or the largest one of at least 1 % of the rows, and far from the others: by
    # three times their range or, if it is written in nines, such as -999, by a quarter or by its
    # sign.
    marks = {}
    for block, values in number_blocks(frame):
        if values.dtype.kind == "b" or len(values) < _FEWEST_ROWS:
            continue
        needed = max(5, 0.01 * len(values))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ends = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
        for end in ends:
            often = (values == end).sum(axis=0) >= needed
            for place in np.flatnonzero(often & (end != 0) & np.isfinite(end)).tolist():
                column = values[:, place]
                if _is_sentinel(float(end[place]), column[np.isfinite(column)]):
                    share = float((column == end[place]).mean())
                    marks[str(frame.columns[block[place]])] = (float(end[place]), share)
    return marks


def _is_sentinel(mark: float, values: NDArray[Any]) -> bool:
    others = values[values != mark].astype(np.float64)
    if len(others) < _FEWEST_OTHERS or len(np.unique(others[:_HEAD])) < _FEWEST_OTHERS // 2:
        return False
    low, high = float(others.min()), float(others.max())
    gap = max(low - mark, mark - high)
    if not _NINES.fullmatch(f"{abs(mark):.12g}"):
        return gap > 3 * (high - low)
    return gap > (high - low) / 4 or mark < 0 <= low


def is_sorted(moments: pd.Series) -> bool:
    """Whether the rows are in order of their dates, either way, with at least ten of them."""
    dates = moments.dropna()
    in_order = dates.is_monotonic_increasing or dates.is_monotonic_decreasing
    return dates.nunique() >= 10 and len(dates) > 0.9 * len(moments) and in_order


def number_blocks(frame: pd.DataFrame) -> Iterator[tuple[list[int], NDArray[Any]]]:
    """Yield positions and values (n_rows, n_block) of columns of numbers: many at once are fast."""
    by_kind: dict[str, list[int]] = {}
    for at, dtype in enumerate(frame.dtypes):
        if is_plain(dtype):
            by_kind.setdefault(dtype.str, []).append(at)
    for places in by_kind.values():
        width = block_width(len(frame))
        for start in range(0, len(places), width):
            block = places[start : start + width]
            yield block, frame.iloc[:, block].to_numpy()


def other_columns(frame: pd.DataFrame) -> Iterator[tuple[int, pd.Series]]:
    """Yield positions and values of the columns that are not NumPy numbers."""
    for at, dtype in enumerate(frame.dtypes):
        if not is_plain(dtype):
            yield at, hashable(frame.iloc[:, at])


def hashable(column: pd.Series) -> pd.Series:
    """Return a column with cells of several values, such as lists in a Parquet file, as text."""
    if column.dtype != object:
        return column
    several = column.map(is_collection)
    return column.where(~several.astype(bool), column.map(str)) if several.any() else column


def _names(frame: pd.DataFrame, places: Iterable[int]) -> list[str]:
    """Return the names at some positions, in the order of the table."""
    return [str(frame.columns[at]) for at in sorted(places)]


def _digest(kind: str, values: NDArray[Any]) -> bytes:
    hashed = hashlib.blake2b(kind.encode(), digest_size=16)
    hashed.update(np.ascontiguousarray(values).data)
    return hashed.digest()


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
    values = whole_numbers(column)
    if values is None or len(values) < 0.9 * n_rows:
        return False
    if is_long_number(values):
        return 1.2 * len(np.unique(values)) > len(values)
    if len(np.unique(values[:_HEAD])) < len(values[:_HEAD]):
        return False
    if len(np.unique(values)) < len(values):
        return False
    rises = values[1:] > values[:-1]
    dense = float(values.max()) - float(values.min()) < 3 * n_rows
    return dense or bool(rises.all() or not rises.any()) or bool(_ID_NAME.search(name))
