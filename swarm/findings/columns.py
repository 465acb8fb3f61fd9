"""What columns look like: identifiers, constants, equal ones, free text, dates."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype
from scipy.spatial import KDTree

from swarm.arrays import Float
from swarm.problem.table import block_width, is_collection, is_plain
from swarm.reader import is_number, timestamps

# Fewer rows say nothing about identifiers: 30 ages of 30 people may all differ.
_FEWEST_ROWS = 50
# Rows that are looked at before all are.
_HEAD = 1000
_SHARE_DISTINCT = 0.95
_LONGEST_QUANTITY = 2**53
_FEWEST_OTHERS = 20
_NINES = re.compile(r"9{2,}(?:\.9*)?")
_WORDS_IN_TEXT = 3.0
ID_NAME = re.compile(
    r"(?:^|[\W_])(?i:id|ids|uuid|guid|key|nr|no|num|number|code|index)$|[a-z](?:ID|Id|Nr|No)$",
)
_CODE = re.compile(r"0\d")
# Fewer levels than rows by this factor, and levels that numbers may be recoded to.
_ROWS_PER_LEVEL, _FEW_LEVELS = 1.2, 20
# Columns are compared by so many projections on random signs. Beyond rounding, a column in another
# unit has no variance of its own, and the projections are near.
_PROJECTIONS, _NEAR, _NEIGHBOURS, _LEAST_R2 = 8, 0.1, 4, 0.9999
_MOST_DECIMALS = 6
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


def text_kind(column: pd.Series) -> tuple[Literal["date", "text", "number", "category"], str]:
    """Say what a text column holds, with the format of its dates, or one of its numbers."""
    if (form := date_format(column)) is not None:
        return "date", form
    # The head alone: most columns have neither words nor numbers.
    values = text_values(column, _HEAD)
    distinct = list(dict.fromkeys(values))
    n_words = sum(len(value.split()) for value in values)
    is_prose = n_words >= _WORDS_IN_TEXT * len(values) and len(distinct) >= 0.5 * len(values)
    if values and is_prose and len(column) >= _FEWEST_ROWS:
        return "text", ""
    example = next((value for value in distinct if not value.isdecimal()), None)
    # Codes may have leading zeros.
    if example is None or not all(map(is_number, distinct)) or any(map(_CODE.match, distinct)):
        return "category", ""
    return "number", example


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
    if not is_numeric_dtype(column) or is_bool_dtype(column):
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
    # No mean of two, which may overflow.
    return len(values) > 0 and abs(int(np.sort(values)[len(values) // 2])) > _LONGEST_QUANTITY


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


def numbers_of(frame: pd.DataFrame) -> Float:
    """Return the values (n_rows, n_columns) as numbers, categories as codes, NaN if missing."""
    numbers = np.empty(frame.shape)
    for block, values in number_blocks(frame):
        numbers[:, block] = values
    for at, column in other_columns(frame):
        if is_numeric_dtype(column):
            numbers[:, at] = column.to_numpy(dtype=np.float64, na_value=np.nan)
            continue
        # Dates are in their order.
        codes = pd.factorize(column, sort=is_datetime64_any_dtype(column))[0]
        numbers[:, at] = np.where(codes < 0, np.nan, codes)
    return numbers


def hashable(column: pd.Series) -> pd.Series:
    """Return a column with cells of several values, such as lists in a Parquet file, as text."""
    if isinstance(column.dtype, pd.ArrowDtype) and column.dtype.type in (list, dict):
        return column.map(str, na_action="ignore").astype(object)
    if column.dtype != object:
        return column
    several = column.map(is_collection)
    return column.where(~several.astype(bool), column.map(str)) if several.any() else column


def as_plain(column: pd.Series) -> pd.Series:
    """Return a column of another library's numbers as floats, if they are exact, or as text."""
    if not is_numeric_dtype(column):
        return hashable(column)
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return column if (np.abs(values) > _LONGEST_QUANTITY).any() else pd.Series(values)


def empty_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns without a value in any row."""
    missing = frame.isna().all()
    return [str(name) for name in missing.index[missing.to_numpy()]]


def infinite_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns with infinite values."""
    # Blocks, as column by column takes seconds for 20,000 columns.
    places = [
        at
        for block, values in number_blocks(frame)
        if values.dtype.kind == "f"
        for at in np.compress(np.isinf(values).any(axis=0), block).tolist()
    ]
    for at, column in other_columns(frame):
        if is_numeric_dtype(column):
            values = column.to_numpy(dtype=np.float64, na_value=np.nan)
            places += [at] if np.isinf(values).any() else []
    return [str(frame.columns[at]) for at in sorted(places)]


def constant_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns with one value, and none missing, in all rows."""
    places = [at for at, column in other_columns(frame) if column.nunique(dropna=False) == 1]
    for block, values in number_blocks(frame):
        if len(values):
            places += np.compress((values == values[0]).all(axis=0), block).tolist()
    return [str(frame.columns[at]) for at in sorted(places)]


def id_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns of text or whole numbers in which (almost) every row has its own value."""
    # Free text, dates and numbers as text do not count, and numbers have to be dense or in order,
    # be named like an identifier, or have 16 digits. Below 50 rows nothing counts.
    if len(frame) < _FEWEST_ROWS:
        return []
    places = [at for at, column in other_columns(frame) if is_id(str(frame.columns[at]), column)]
    for block, values in number_blocks(frame.iloc[:_HEAD]):
        if values.dtype.kind == "b":
            continue
        # A missing value is no reason against it.
        whole = ((values == np.floor(values)) | ~np.isfinite(values)).all(axis=0)
        suspects = np.compress(whole & ~_is_repetitive(values), block).tolist()
        places += [at for at in suspects if is_id(str(frame.columns[at]), frame.iloc[:, at])]
    return [str(frame.columns[at]) for at in sorted(places)]


def _is_repetitive(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each column (n_columns,) repeats a number, and has none of 16 digits."""
    ordered = np.sort(values, axis=0)
    repeats = ((ordered[1:] == ordered[:-1]) & np.isfinite(ordered[1:])).any(axis=0)
    with np.errstate(invalid="ignore"):
        long = (np.abs(values.astype(np.float64)) > _LONGEST_QUANTITY).any(axis=0)
    repetitive: NDArray[np.bool_] = repeats & ~long
    return repetitive


def is_id(name: str, column: pd.Series) -> bool:
    """Whether a column is one of identifiers, with a value of its own in (almost) every row."""
    if is_text(column):
        head = text_values(column, _HEAD)
        if len(head) < _FEWEST_ROWS or len(set(head)) < _SHARE_DISTINCT * len(head):
            return False
        is_distinct = int(column.nunique()) >= _SHARE_DISTINCT * int(column.notna().sum())
        return is_distinct and text_kind(column)[0] == "category"
    values = whole_numbers(column)
    if values is None or len(values) < 0.9 * len(column):
        return False
    if is_long_number(values):
        return 1.2 * len(np.unique(values)) > len(values)
    if len(np.unique(values[:_HEAD])) < len(values[:_HEAD]):
        return False
    if len(np.unique(values)) < len(values):
        return False
    rises = values[1:] > values[:-1]
    dense = float(values.max()) - float(values.min()) < 3 * len(column)
    return dense or bool(rises.all() or not rises.any()) or bool(ID_NAME.search(name))


def same_columns(frame: pd.DataFrame) -> dict[str, str]:
    """Return the columns that say what an earlier one says, with a clause that names it."""
    # The values are equal, the levels are one to one, or the numbers are so in another unit.
    first, clauses = dict[bytes, int](), dict[int, str]()
    blocks, others = list(number_blocks(frame)), list(other_columns(frame))
    digests = {at: each for block, values in blocks for at, each in _digests(block, values)}
    for at, other in others:
        hashes = pd.util.hash_pandas_object(other.astype(object), index=False)
        digests[at] = _digest("O", hashes.to_numpy())
    for at in sorted(digests):
        earlier = first.setdefault(digests[at], at)
        if earlier != at:
            clauses[at] = f"equal to {str(frame.columns[earlier])!r}"
    levels = {at: codes for at, codes in _levels(frame) if at not in clauses}
    by_codes: dict[bytes, list[int]] = {}
    for at in sorted(levels):
        alike = by_codes.setdefault(_digest("c", levels[at]), [])
        earlier = next((each for each in alike if _is_recoded(frame, each, at, levels[at])), at)
        if earlier == at:
            alike.append(at)
        else:
            clauses[at] = f"{str(frame.columns[earlier])!r} in other codes"
    clauses |= _in_other_units(frame, [at for at in sorted(digests) if at not in clauses])
    return {str(frame.columns[at]): clauses[at] for at in sorted(clauses)}


def _digests(block: list[int], values: NDArray[Any]) -> Iterator[tuple[int, bytes]]:
    """Yield positions and hashes of columns (n_rows, n_block) of numbers, whatever their types."""
    if values.dtype.kind in "iu" and np.abs(values).max(initial=0) <= _LONGEST_QUANTITY:
        # As floats, which a gap makes of integers.
        values = values.astype(np.float64)
    if values.dtype.kind == "f":
        # Missing values count as equal, and so do -0.0 and 0.0.
        values = np.where(np.isnan(values), np.nan, values).astype(np.float64) + 0.0
    for at, column in zip(block, values.T, strict=True):
        yield at, _digest(values.dtype.kind, column)


def _digest(kind: str, values: NDArray[Any]) -> bytes:
    hashed = hashlib.blake2b(kind.encode(), digest_size=16)
    hashed.update(np.ascontiguousarray(values).data)
    return hashed.digest()


def _levels(frame: pd.DataFrame) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield positions and levels (n_rows,), numbered as they first occur, of columns with some."""
    places = [at for at, column in other_columns(frame) if not is_datetime64_any_dtype(column)]
    for block, values in number_blocks(frame.iloc[: 5 * _FEW_LEVELS]):
        ordered = np.sort(values, axis=0)
        few = (ordered[1:] != ordered[:-1]).sum(axis=0) < _FEW_LEVELS
        whole = (np.isnan(values) | (values == np.floor(values))).all(axis=0)
        places += np.compress(few | whole, block).tolist()
    for at in places:
        codes = np.asarray(pd.factorize(hashable(frame.iloc[:, at]), use_na_sentinel=False)[0])
        n_levels = int(codes.max(initial=0)) + 1
        if n_levels > 1 and _ROWS_PER_LEVEL * n_levels <= len(codes):
            yield at, codes


def _is_recoded(frame: pd.DataFrame, at: int, other: int, codes: NDArray[np.intp]) -> bool:
    """Whether two columns with levels one to one are codes of each other, not measured values."""
    # Of many levels, one to one: the incomes of people are no codes of the people.
    columns = [frame.iloc[:, each] for each in (at, other)]
    if codes.max() < _FEW_LEVELS or all(map(is_text, columns)):
        return True
    once = np.unique(codes, return_index=True)[1]
    ids = [is_text(each) or is_id(str(each.name), each.iloc[once]) for each in columns]
    return all(ids) and len(once) >= _FEWEST_ROWS


def _in_other_units(frame: pd.DataFrame, places: list[int]) -> dict[int, str]:
    """Return the columns of numbers that are linear in an earlier one, up to rounding."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (_PROJECTIONS, len(frame)))
    taken, points = [], [np.empty((0, _PROJECTIONS))]
    for block, values in number_blocks(frame.iloc[:, places]):
        if values.dtype.kind == "b":
            continue
        standard = _standardized(values.astype(np.float64))
        projected = (signs @ standard / np.sqrt(len(frame))).T
        # A reversed column has the same point.
        points.append(projected * np.where(projected[:, :1] < 0, -1.0, 1.0))
        taken += [places[each] for each in block]
    order = np.argsort(taken, kind="stable")
    taken, position = [taken[each] for each in order], np.vstack(points)[order]
    if len(taken) < 2:
        return {}
    n_near = min(_NEIGHBOURS, len(taken))
    near = KDTree(position).query(position, n_near, distance_upper_bound=_NEAR)[1]
    clauses: dict[int, str] = {}
    for later, others in enumerate(near.tolist()):
        for earlier in sorted(each for each in others if each < later):
            slope = _slope(frame.iloc[:, taken[earlier]], frame.iloc[:, taken[later]])
            if slope:
                name = str(frame.columns[taken[earlier]])
                how = "reversed" if slope < 0 else "in another unit"
                clauses[taken[later]] = f"{name!r} {how} (times {slope:.4g})"
                break
    return clauses


def _standardized(values: Float) -> Float:
    """Return columns of mean 0 and variance 1, with 0 for missing and infinite values."""
    values = np.where(np.isfinite(values), values, np.nan)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        standard = (values - np.nanmean(values, axis=0)) / np.nanstd(values, axis=0)
    filled: Float = np.nan_to_num(standard, nan=0.0, posinf=0.0, neginf=0.0)
    return filled


def _slope(x: pd.Series, y: pd.Series) -> float:
    """Return the slope of y in x if y is linear in it but for rounding, else 0."""
    both = [each.to_numpy(dtype=np.float64, na_value=np.nan) for each in (x, y)]
    finite = np.isfinite(both[0])
    if not np.array_equal(finite, np.isfinite(both[1])) or finite.sum() < _FEWEST_OTHERS:
        return 0.0
    first, second = both[0][finite], both[1][finite]
    # Of sums that overflow there is no correlation.
    with np.errstate(all="ignore"):
        centred = first - first.mean(), second - second.mean()
        lengths = np.array([np.sqrt(each @ each) for each in centred])
        correlation = float((centred[0] / lengths[0]) @ (centred[1] / lengths[1]))
    if not (correlation**2 >= _LEAST_R2 and np.isfinite(lengths).all()):
        return 0.0
    slope = correlation * float(lengths[1] / lengths[0])
    rounding = (_step(second) + abs(slope) * _step(first)) / 2
    tolerance = 1.01 * rounding + 1e-9 * float(np.abs(second).max())
    is_linear = np.abs(centred[1] - slope * centred[0]).max() <= 2 * tolerance
    return slope if is_linear else 0.0


def _step(values: Float) -> float:
    """Return the power of ten that the values are rounded to; 0 if they are not."""
    for decimals in range(_MOST_DECIMALS):
        scaled = values * 10.0**decimals
        if np.allclose(scaled, np.rint(scaled), rtol=1e-12, atol=1e-6):
            return 10.0**-decimals
    return 0.0


def date_columns(
    frame: pd.DataFrame, formats: Mapping[str, str | None]
) -> Iterator[tuple[str, pd.Series]]:
    """Yield the columns of dates as timestamps, whatever their role.

    `formats` are those of the columns that are known to be dates, None for ISO 8601.
    """
    # Of a wide table, most columns are numbers.
    maybe = [not is_plain(t) or str(name) in formats for name, t in frame.dtypes.items()]
    for name, column in frame.loc[:, maybe].items():
        if is_datetime64_any_dtype(column):
            yield str(name), column
            continue
        form = formats.get(str(name)) or date_format(column)
        if form is not None:
            yield str(name), timestamps(column, form)
