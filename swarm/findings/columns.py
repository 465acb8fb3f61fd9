"""What columns look like: identifiers, constants, equal ones, free text, dates."""

import hashlib
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype
from scipy.spatial import KDTree

from swarm.arrays import AnyArray, Bool, Float
from swarm.problem.table import block_width, is_collection, is_plain
from swarm.reader import is_number, timestamps

# Fewer rows say nothing about identifiers: 30 ages of 30 people may all differ.
_MIN_ROWS = 50
# Most columns are judged by their first rows.
_N_HEAD = 1000
_MIN_SHARE_DISTINCT = 0.95
_MAX_QUANTITY = 2**53
_MIN_OTHER_VALUES = 20
_NINES = re.compile(r"9{2,}(?:\.9*)?")
_MIN_WORDS_IN_TEXT = 3.0
ID_NAME = re.compile(
    r"(?:^|[\W_])(?i:id|ids|uuid|guid|key|nr|no|num|number|code|index)$|[a-z](?:ID|Id|Nr|No)$",
)
_CODE = re.compile(r"0\d")
_MIN_ROWS_PER_LEVEL = 1.2
# Numbers may be recoded to fewer levels.
_FEW_LEVELS = 20
# Columns are compared by projections on random signs. Beyond rounding, a column in another unit has
# no variance of its own, and its projections are near.
_N_PROJECTIONS = 8
_MAX_DISTANCE = 0.1
_N_NEIGHBOURS = 4
_MIN_R2 = 0.9999
_MAX_DECIMALS = 6
# If both fit, formats with the day first are preferred. Two-digit years come last.
_DAYS = (
    *("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y"),
    *("%Y/%m/%d", "%Y.%m.%d", "%d-%b-%Y", "%d %b %Y", "%d %B %Y", "%a, %d %b %Y"),
    *("%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y"),
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%b-%y"),
)
_MONTHS = ("%Y-%m", "%Y/%m", "%m/%Y", "%m.%Y", "%b %Y", "%B %Y", "%b-%Y")
_YEARS_OF_MONTHS = (1800, 2200)
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
    """Return what a text column has, with the format of its dates, or one of its numbers."""
    if (form := date_format(column)) is not None:
        return "date", form
    values = text_values(column, _N_HEAD)
    distinct = list(dict.fromkeys(values))
    n_words = sum(len(value.split()) for value in values)
    is_prose = n_words >= _MIN_WORDS_IN_TEXT * len(values) and len(distinct) >= 0.5 * len(values)
    if values and is_prose and len(column) >= _MIN_ROWS:
        return "text", ""
    example = next((value for value in distinct if not value.isdecimal()), None)
    # Codes may have leading zeros.
    if example is None or not all(map(is_number, distinct)) or any(map(_CODE.match, distinct)):
        return "category", ""
    return "number", example


def date_format(column: pd.Series) -> str | None:
    """Return the format of a text column of dates for `strptime`; None if there is none."""
    # The format is "ISO8601" if ISO dates differ in their form. %d/%m/%Y is preferred to %m/%d/%Y.
    # Two-digit years need a day above 12 or a constant day: 10.11.12 may be a version.
    if not is_text(column):
        return None
    # Most columns have no dates in their first cells.
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
    has_half = time["half"] is not None
    form = time["before"] + ("%I:%M" if has_half else "%H:%M")
    if time["second"]:
        form += ":%S"
    if time["fraction"]:
        form += ".%f"
    if has_half:
        form += time["space"] + "%p"
    if zone := time["zone"]:
        form += " " if zone[0].isspace() else ""
        form += "%Z" if zone.strip() in ("UTC", "GMT") else "%z"
    return form


def _is_plausible(texts: pd.Series, parsed: pd.Series, form: str) -> bool:
    """Whether texts that fit a format are dates rather than codes or versions."""
    if form in _MONTHS:
        return bool(parsed.dt.year.between(*_YEARS_OF_MONTHS).all())
    if form != "%d.%m.%y":
        return True
    days = parsed.dt.day
    is_padded = texts.str.match(r"\d\d\.\d\d\.")
    return bool(is_padded.all() and (days.max() > 12 or days.nunique() == 1))


def whole_numbers(column: pd.Series) -> AnyArray | None:
    """Return the values of a column of whole numbers that are not missing, else None."""
    if not is_numeric_dtype(column) or is_bool_dtype(column):
        return None
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iu":
        return column.to_numpy()
    if not _is_whole(column.iloc[:_N_HEAD].to_numpy(dtype=np.float64, na_value=np.nan)):
        return None
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    values = values[np.isfinite(values)]
    return values if len(values) and _is_whole(values) else None


def _is_whole(values: AnyArray) -> bool:
    return bool(((values == np.floor(values)) | ~np.isfinite(values)).all())


def is_long_number(values: AnyArray) -> bool:
    """Whether whole numbers have so many digits that they are identifiers, not quantities."""
    if not len(values):
        return False
    # The median of an even number of values, a mean of two, could overflow.
    middle = int(np.sort(values)[len(values) // 2])
    return abs(middle) > _MAX_QUANTITY


def sentinels(frame: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Return by column a value that may stand for missing ones, and its share of the rows."""
    # Such a value is the smallest or the largest one, in at least 1 % of the rows, and far from the
    # others: by three times their range or, if it is written in nines, such as -999, by a quarter
    # or by its sign.
    marks = {}
    for block, values in number_blocks(frame):
        if values.dtype.kind == "b" or len(values) < _MIN_ROWS:
            continue
        needed = max(5, 0.01 * len(values))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ends = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
        for end in ends:
            is_frequent = (values == end).sum(axis=0) >= needed
            for column in np.flatnonzero(is_frequent & (end != 0) & np.isfinite(end)).tolist():
                mark = float(end[column])
                cells = values[:, column]
                if _is_sentinel(mark, cells[np.isfinite(cells)]):
                    share = float((cells == end[column]).mean())
                    marks[str(frame.columns[block[column]])] = (mark, share)
    return marks


def _is_sentinel(mark: float, values: AnyArray) -> bool:
    others = values[values != mark].astype(np.float64)
    n_values = len(np.unique(others[:_N_HEAD]))
    if len(others) < _MIN_OTHER_VALUES or n_values < _MIN_OTHER_VALUES // 2:
        return False
    low = float(others.min())
    high = float(others.max())
    gap = max(low - mark, mark - high)
    if not _NINES.fullmatch(f"{abs(mark):.12g}"):
        return gap > 3 * (high - low)
    return gap > (high - low) / 4 or mark < 0 <= low


def number_blocks(frame: pd.DataFrame) -> Iterator[tuple[list[int], AnyArray]]:
    """Yield positions and values (n_rows, n_block) of columns of numbers: many at once are fast."""
    by_dtype: dict[str, list[int]] = {}
    for position, dtype in enumerate(frame.dtypes):
        if is_plain(dtype):
            by_dtype.setdefault(dtype.str, []).append(position)
    width = block_width(len(frame))
    for positions in by_dtype.values():
        for start in range(0, len(positions), width):
            block = positions[start : start + width]
            yield block, frame.iloc[:, block].to_numpy()


def other_columns(frame: pd.DataFrame) -> Iterator[tuple[int, pd.Series]]:
    """Yield positions and values of the columns that are not NumPy numbers."""
    for position, dtype in enumerate(frame.dtypes):
        if not is_plain(dtype):
            yield position, hashable(frame.iloc[:, position])


def numbers_of(frame: pd.DataFrame) -> Float:
    """Return the values (n_rows, n_columns) as numbers, categories as codes, NaN if missing."""
    numbers = np.empty(frame.shape)
    for block, values in number_blocks(frame):
        numbers[:, block] = values
    for position, column in other_columns(frame):
        if is_numeric_dtype(column):
            numbers[:, position] = column.to_numpy(dtype=np.float64, na_value=np.nan)
            continue
        # The codes of dates keep their order.
        codes = pd.factorize(column, sort=is_datetime64_any_dtype(column))[0]
        numbers[:, position] = np.where(codes < 0, np.nan, codes)
    return numbers


def hashable(column: pd.Series) -> pd.Series:
    """Return a column with cells of several values, such as lists in a Parquet file, as text."""
    if isinstance(column.dtype, pd.ArrowDtype) and column.dtype.type in (list, dict):
        return column.map(str, na_action="ignore").astype(object)
    if column.dtype != object:
        return column
    has_many = column.map(is_collection).astype(bool)
    return column.where(~has_many, column.map(str)) if has_many.any() else column


def as_plain(column: pd.Series) -> pd.Series:
    """Return a column of another library's numbers as floats, if they are exact, or as text."""
    if not is_numeric_dtype(column):
        return hashable(column)
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return column if (np.abs(values) > _MAX_QUANTITY).any() else pd.Series(values)


def empty_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns without a value in any row."""
    missing = frame.isna().all()
    return [str(name) for name in missing.index[missing.to_numpy()]]


def infinite_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns with infinite values."""
    positions: list[int] = []
    for block, values in number_blocks(frame):
        if values.dtype.kind == "f":
            positions += np.compress(np.isinf(values).any(axis=0), block).tolist()
    for position, column in other_columns(frame):
        if is_numeric_dtype(column):
            values = column.to_numpy(dtype=np.float64, na_value=np.nan)
            if np.isinf(values).any():
                positions.append(position)
    return _names(frame, positions)


def _names(frame: pd.DataFrame, positions: Iterable[int]) -> list[str]:
    """Return the names of columns in the order of the table."""
    return [str(frame.columns[position]) for position in sorted(positions)]


def constant_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns with one value, and none missing, in all rows."""
    positions = [
        position for position, column in other_columns(frame) if column.nunique(dropna=False) == 1
    ]
    for block, values in number_blocks(frame):
        if len(values):
            positions += np.compress((values == values[0]).all(axis=0), block).tolist()
    return _names(frame, positions)


def id_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns of text or whole numbers in which (almost) every row has its own value."""
    # Free text, dates and numbers as text do not count, and numbers have to be dense or in order,
    # be named like an identifier, or have 16 digits. Below 50 rows nothing counts.
    if len(frame) < _MIN_ROWS:
        return []
    suspects = [position for position, _ in other_columns(frame)]
    for block, values in number_blocks(frame.iloc[:_N_HEAD]):
        if values.dtype.kind == "b":
            continue
        # Identifiers may have missing values.
        is_whole = ((values == np.floor(values)) | ~np.isfinite(values)).all(axis=0)
        suspects += np.compress(is_whole & ~_is_repetitive(values), block).tolist()
    return _names(
        frame,
        (
            position
            for position in suspects
            if is_id(str(frame.columns[position]), hashable(frame.iloc[:, position]))
        ),
    )


def _is_repetitive(values: AnyArray) -> Bool:
    """Whether each column (n_columns,) repeats a number, and has none of 16 digits."""
    ordered = np.sort(values, axis=0)
    repeats = ((ordered[1:] == ordered[:-1]) & np.isfinite(ordered[1:])).any(axis=0)
    with np.errstate(invalid="ignore"):
        is_long = (np.abs(values.astype(np.float64)) > _MAX_QUANTITY).any(axis=0)
    return repeats & ~is_long


def is_id(name: str, column: pd.Series) -> bool:
    """Whether a column is one of identifiers, with a value of its own in (almost) every row."""
    if is_text(column):
        head = text_values(column, _N_HEAD)
        if len(head) < _MIN_ROWS or len(set(head)) < _MIN_SHARE_DISTINCT * len(head):
            return False
        is_distinct = int(column.nunique()) >= _MIN_SHARE_DISTINCT * int(column.notna().sum())
        return is_distinct and text_kind(column)[0] == "category"
    values = whole_numbers(column)
    if values is None or len(values) < 0.9 * len(column):
        return False
    if is_long_number(values):
        return 1.2 * len(np.unique(values)) > len(values)
    first_values = values[:_N_HEAD]
    if len(np.unique(first_values)) < len(first_values) or len(np.unique(values)) < len(values):
        return False
    is_dense = float(values.max()) - float(values.min()) < 3 * len(column)
    rises = values[1:] > values[:-1]
    is_in_order = bool(rises.all() or not rises.any())
    return is_dense or is_in_order or bool(ID_NAME.search(name))


def same_columns(frame: pd.DataFrame) -> dict[str, str]:
    """Return the columns that duplicate an earlier one, with a clause that names it."""
    # The values are equal, the levels are one to one, or the numbers are in another unit.
    digests: dict[int, bytes] = {}
    for block, values in number_blocks(frame):
        digests.update(_digests(block, values))
    for position, column in other_columns(frame):
        hashes = pd.util.hash_pandas_object(column.astype(object), index=False)
        digests[position] = _digest("O", hashes.to_numpy())
    clauses: dict[int, str] = {}
    first: dict[bytes, int] = {}
    for position in sorted(digests):
        earlier = first.setdefault(digests[position], position)
        if earlier != position:
            clauses[position] = f"equal to {str(frame.columns[earlier])!r}"
    levels = {position: codes for position, codes in _levels(frame) if position not in clauses}
    by_codes: dict[bytes, list[int]] = {}
    for position in sorted(levels):
        codes = levels[position]
        alike = by_codes.setdefault(_digest("c", codes), [])
        recoded = (other for other in alike if _is_recoded(frame, other, position, codes))
        earlier = next(recoded, position)
        if earlier == position:
            alike.append(position)
        else:
            clauses[position] = f"{str(frame.columns[earlier])!r} in other codes"
    distinct = [position for position in sorted(digests) if position not in clauses]
    clauses |= _in_other_units(frame, distinct)
    return {str(frame.columns[position]): clauses[position] for position in sorted(clauses)}


def _digests(block: list[int], values: AnyArray) -> Iterator[tuple[int, bytes]]:
    """Yield positions and hashes of columns (n_rows, n_block) of numbers, whatever their types."""
    if values.dtype.kind in "iu" and np.abs(values).max(initial=0) <= _MAX_QUANTITY:
        # A gap would make floats of integers.
        values = values.astype(np.float64)
    if values.dtype.kind == "f":
        # Missing values count as equal, and so do -0.0 and 0.0.
        values = np.where(np.isnan(values), np.nan, values).astype(np.float64) + 0.0
    for position, column in zip(block, values.T, strict=True):
        yield position, _digest(values.dtype.kind, column)


def _digest(kind: str, values: AnyArray) -> bytes:
    hashed = hashlib.blake2b(kind.encode(), digest_size=16)
    hashed.update(np.ascontiguousarray(values).data)
    return hashed.digest()


def _levels(frame: pd.DataFrame) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield positions of columns with repeated levels, and these (n_rows,) by first occurrence."""
    positions = [
        position for position, column in other_columns(frame) if not is_datetime64_any_dtype(column)
    ]
    for block, values in number_blocks(frame.iloc[: 5 * _FEW_LEVELS]):
        ordered = np.sort(values, axis=0)
        has_few = (ordered[1:] != ordered[:-1]).sum(axis=0) < _FEW_LEVELS
        is_whole = (np.isnan(values) | (values == np.floor(values))).all(axis=0)
        positions += np.compress(has_few | is_whole, block).tolist()
    for position in positions:
        column = hashable(frame.iloc[:, position])
        codes = np.asarray(pd.factorize(column, use_na_sentinel=False)[0])
        n_levels = int(codes.max(initial=0)) + 1
        if n_levels > 1 and _MIN_ROWS_PER_LEVEL * n_levels <= len(codes):
            yield position, codes


def _is_recoded(frame: pd.DataFrame, first: int, second: int, codes: NDArray[np.intp]) -> bool:
    """Whether two columns with levels one to one are codes of each other, not measured values."""
    # Numbers of many levels need to be identifiers: incomes of people are no codes of the people.
    columns = [frame.iloc[:, first], frame.iloc[:, second]]
    if codes.max() < _FEW_LEVELS or all(map(is_text, columns)):
        return True
    rows = np.unique(codes, return_index=True)[1]
    are_ids = all(
        is_text(column) or is_id(str(column.name), column.iloc[rows]) for column in columns
    )
    return are_ids and len(rows) >= _MIN_ROWS


def _in_other_units(frame: pd.DataFrame, positions: list[int]) -> dict[int, str]:
    """Return the columns of numbers that are linear in an earlier one, up to rounding."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (_N_PROJECTIONS, len(frame)))
    columns: list[int] = []
    blocks = [np.empty((0, _N_PROJECTIONS))]
    for block, values in number_blocks(frame.iloc[:, positions]):
        if values.dtype.kind == "b":
            continue
        standard = _standardized(values.astype(np.float64))
        projected = (signs @ standard / np.sqrt(len(frame))).T
        # A reversed column has the same point.
        blocks.append(projected * np.where(projected[:, :1] < 0, -1.0, 1.0))
        columns += [positions[place] for place in block]
    if len(columns) < 2:
        return {}
    order = np.argsort(columns, kind="stable")
    points = np.vstack(blocks)[order]
    columns = [columns[place] for place in order]
    n_near = min(_N_NEIGHBOURS, len(columns))
    near = KDTree(points).query(points, n_near, distance_upper_bound=_MAX_DISTANCE)[1]
    clauses: dict[int, str] = {}
    for later, neighbours in enumerate(near.tolist()):
        for earlier in sorted(place for place in neighbours if place < later):
            slope = _slope(frame.iloc[:, columns[earlier]], frame.iloc[:, columns[later]])
            if slope:
                name = str(frame.columns[columns[earlier]])
                how = "reversed" if slope < 0 else "in another unit"
                clauses[columns[later]] = f"{name!r} {how} (times {slope:.4g})"
                break
    return clauses


def _standardized(values: Float) -> Float:
    """Return columns of mean 0 and variance 1, with 0 for missing and infinite values."""
    values = np.where(np.isfinite(values), values, np.nan)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        standard = (values - np.nanmean(values, axis=0)) / np.nanstd(values, axis=0)
    return np.nan_to_num(standard, nan=0.0, posinf=0.0, neginf=0.0)


def _slope(x: pd.Series, y: pd.Series) -> float:
    """Return the slope of y in x if y is linear in it but for rounding, else 0."""
    x_values = x.to_numpy(dtype=np.float64, na_value=np.nan)
    y_values = y.to_numpy(dtype=np.float64, na_value=np.nan)
    is_finite = np.isfinite(x_values)
    is_comparable = np.array_equal(is_finite, np.isfinite(y_values))
    if not is_comparable or is_finite.sum() < _MIN_OTHER_VALUES:
        return 0.0
    x_values = x_values[is_finite]
    y_values = y_values[is_finite]
    # There is no correlation if a sum overflows.
    with np.errstate(all="ignore"):
        x_centred = x_values - x_values.mean()
        y_centred = y_values - y_values.mean()
        x_length = np.sqrt(x_centred @ x_centred)
        y_length = np.sqrt(y_centred @ y_centred)
        correlation = float((x_centred / x_length) @ (y_centred / y_length))
    if not (correlation**2 >= _MIN_R2 and np.isfinite(x_length) and np.isfinite(y_length)):
        return 0.0
    slope = correlation * float(y_length / x_length)
    rounding = (_step(y_values) + abs(slope) * _step(x_values)) / 2
    tolerance = 1.01 * rounding + 1e-9 * float(np.abs(y_values).max())
    is_linear = np.abs(y_centred - slope * x_centred).max() <= 2 * tolerance
    return slope if is_linear else 0.0


def _step(values: Float) -> float:
    """Return the power of ten that the values are rounded to; 0 if they are not."""
    for decimals in range(_MAX_DECIMALS):
        scaled = values * 10.0**decimals
        if np.allclose(scaled, np.rint(scaled), rtol=1e-12, atol=1e-6):
            return 10.0**-decimals
    return 0.0


def date_columns(
    frame: pd.DataFrame, formats: Mapping[str, str | None]
) -> Iterator[tuple[str, pd.Series]]:
    """Yield the columns of dates as timestamps, whatever their role.

    `formats` has the columns that are known to be dates, and None for ISO 8601.
    """
    # Most columns of a wide table are numbers.
    may_be_date = [
        not is_plain(dtype) or str(name) in formats for name, dtype in frame.dtypes.items()
    ]
    for name, column in frame.loc[:, may_be_date].items():
        if is_datetime64_any_dtype(column):
            yield str(name), column
            continue
        form = formats.get(str(name)) or date_format(column)
        if form is not None:
            yield str(name), timestamps(column, form)
