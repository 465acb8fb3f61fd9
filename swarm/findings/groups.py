"""Columns whose equal values say that rows belong together, such as visits of one patient."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.arrays import AnyArray, Float
from swarm.findings.columns import (
    ID_NAME,
    date_format,
    hashable,
    is_id,
    is_long_number,
    is_text,
    numbers_of,
    text_values,
    whole_numbers,
)

_MIN_ROWS = 50
_MIN_VALUES = 10
_MIN_ROWS_PER_VALUE = 1.2
_NAME = re.compile(
    r"(?:^|[\W_])(?i:id|uuid|guid|group|patient|subject|customer|client|user|household|molecule"
    r"|device|session|batch|account|member|employee)$|[a-z](?:ID|Id)$",
)
# An ordinary category, which has no such name, must not look like groups.
_MIN_GROUPS = 20
_MIN_MEAN_SIZE = 2.0
_MAX_SIZE_OF_MEAN = 3.0
_MAX_SPREAD = 0.75
_TIME_NAME = re.compile(
    r"(?:^|[\W_])(?i:year|yr|quarter|month|week|day|hour|minute|second|date|time|timestamp|period"
    r"|season|semester|wave|round)$|[a-z](?:Year|Month|Week|Day|Date|Time|Period)$",
)
_YEARS = (1900, 2100)
# A column has one value in at least this share of the groups, and chance explains at most so much.
_MIN_SHARE_CONSTANT = 0.95
_MAX_SHARE_BY_CHANCE = 0.5
# A column of chance would have 1 and 2, and a column that follows the order of the groups 0.
_MIN_CHANGES = 0.5
_MIN_ROUGHNESS = 1.0
# The values of no more rows, columns and cells are compared.
_MAX_ROWS = 100_000
_MAX_COLUMNS = 300
_MAX_CELLS = 10_000_000


@dataclass(frozen=True)
class GroupColumn:
    """A column that names what rows belong to.

    Attributes
    ----------
    name : str
    evidence : str
        Clause without a full stop.
    """

    name: str
    evidence: str

    def __str__(self) -> str:
        return f"rows with the same {self.name!r} likely belong together: {self.evidence}"


def group_columns(frame: pd.DataFrame, skip: Collection[str] = ()) -> list[GroupColumn]:
    """Find columns whose equal values mark rows that belong together, the most likely first."""
    # A column with the name of an identifier, or with numbers of 16 digits, needs ten values and
    # 1.2 rows for each. Any other column needs 20 values in similar numbers of rows, two on
    # average, and two further columns (also in `skip`) that are constant within them, or one that
    # has five values. Columns that follow the order of the values, as a season follows the day of
    # the year, are no evidence. Years and other times are no groups.
    if len(frame) < _MIN_ROWS:
        return []
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    identifiers: list[GroupColumn] = []
    # The number of values, negated, and the position of each candidate.
    candidates: list[tuple[int, int]] = []
    n_rows = min(_MAX_ROWS, len(frame))
    n_columns = min(_MAX_COLUMNS, _MAX_CELLS // n_rows)
    for position, name in enumerate(frame.columns):
        by_name = bool(_NAME.search(name))
        if name in skip or not (by_name or position < n_columns):
            continue
        column = hashable(frame.iloc[:, position])
        values = None if is_text(column) else whole_numbers(column)
        if values is None and not is_text(column):
            continue
        if values is not None and is_time(name, values):
            continue
        long_number = _is_long(column) if values is None else is_long_number(values)
        n_values = int(column.nunique())
        if by_name or long_number:
            if n_values >= _MIN_VALUES and _MIN_ROWS_PER_VALUE * n_values <= len(column):
                why = "the name is that of an identifier" if by_name else "of 16 digits and more"
                identifiers.append(GroupColumn(name, f"{_counted(column)}, {why}"))
        elif _MIN_GROUPS <= n_values <= len(column) / _MIN_MEAN_SIZE:
            candidates.append((-n_values, position))
    if not candidates:
        return identifiers
    compared = frame.iloc[:n_rows, :n_columns]
    numbers = np.nan_to_num(numbers_of(compared), nan=np.inf)
    by_values = (_by_values(compared, position, numbers) for _, position in sorted(candidates))
    return identifiers + [group for group in by_values if group is not None][:1]


def _is_long(column: pd.Series) -> bool:
    """Whether a text column has numbers of 16 digits and more."""
    head = text_values(column, _MIN_ROWS)
    return all(text.isdecimal() and len(text) >= 16 for text in head)


def is_time(name: str, values: AnyArray) -> bool:
    """Whether whole numbers are years, or have the name of a time."""
    if _TIME_NAME.search(name):
        return True
    low = values.min()
    high = values.max()
    is_year = _YEARS[0] <= low and high <= _YEARS[1]
    return bool(is_year and 2 * len(np.unique(values)) > high - low + 1)


def other_names(frame: pd.DataFrame, groups: pd.Series) -> list[str]:
    """Return the columns that name the groups (n_rows,) again: one to one, and like identifiers."""
    codes = pd.factorize(groups)[0]
    # The first row of each group.
    first_rows = np.unique(codes, return_index=True)[1]
    n_groups = len(first_rows)
    if n_groups < _MIN_GROUPS or _MIN_ROWS_PER_VALUE * n_groups > len(codes):
        return []
    group_of = np.searchsorted(codes[first_rows], codes)
    names = []
    for position, name in enumerate(frame.columns):
        dtype: Any = frame.dtypes.iloc[position]
        # Most columns of fractions show it in a few rows.
        if isinstance(dtype, np.dtype) and dtype.kind == "f":
            head = frame.iloc[: 2 * _MIN_GROUPS, position].to_numpy()
            if not (np.isnan(head) | (head == np.floor(head))).all():
                continue
        column = hashable(frame.iloc[:, position])
        levels = _codes(column)
        is_constant = (levels == levels[first_rows][group_of]).all()
        is_named = n_groups >= _MIN_ROWS or bool(ID_NAME.search(str(name)))
        if is_constant and is_named and is_id(str(name), column.iloc[first_rows]):
            names.append(str(name))
    return names


def _by_values(frame: pd.DataFrame, position: int, numbers: Float) -> GroupColumn | None:
    """Judge a column by the values of all columns; `numbers` (n_rows, n_columns) replace them."""
    column = hashable(frame.iloc[:, position])
    codes = _codes(column)
    counts = np.bincount(codes[codes >= 0])
    # The first rows may have fewer groups than all rows.
    if len(counts) < _MIN_GROUPS or counts.mean() < _MIN_MEAN_SIZE:
        return None
    spread = float(counts.std() / counts.mean())
    is_similar = counts.max() <= _MAX_SIZE_OF_MEAN * counts.mean() and spread <= _MAX_SPREAD
    if not is_similar or (codes < 0).any() or date_format(column) is not None:
        return None
    order = np.argsort(codes, kind="stable")
    # Most columns vary within the first groups already.
    head = numbers[order[: counts[: 2 * _MIN_GROUPS].sum()]]
    changes = (head[1:] != head[:-1]).sum(axis=0)
    is_other = np.arange(len(changes)) != position
    candidates = np.flatnonzero((changes <= 4 * _MIN_GROUPS) & is_other)
    constant = _constant_within(frame.iloc[:, candidates], order, counts)
    scales = [name for name, n in constant.items() if not is_text(frame[name]) and n >= 5]
    if len(constant) < 2 and not scales:
        return None
    names = ", ".join(map(repr, list(constant)[:3]))
    if len(constant) > 3:
        names += f" and {len(constant) - 3} more"
    verb = "has" if len(constant) == 1 else "have"
    evidence = f"{_counted(column)}, within which {names} {verb} one value"
    return GroupColumn(str(frame.columns[position]), evidence)


def _constant_within(
    frame: pd.DataFrame, order: NDArray[np.intp], counts: NDArray[np.intp]
) -> dict[str, int]:
    """Return the columns that are constant within groups, and their numbers of values.

    `order` (n_rows,) sorts the rows by groups, which have `counts` (n_groups,) rows.
    """
    starts = np.r_[0, counts.cumsum()[:-1]]
    has_more_rows = counts > 1
    constant = {}
    for position, name in enumerate(frame.columns):
        column = hashable(frame.iloc[:, position])
        codes = _codes(column)[order]
        low = np.minimum.reduceat(codes, starts)
        high = np.maximum.reduceat(codes, starts)
        if (low == high)[has_more_rows].mean() < _MIN_SHARE_CONSTANT:
            continue
        shares = np.unique(codes, return_counts=True)[1] / len(codes)
        sizes, times = np.unique(counts[has_more_rows], return_counts=True)
        chance = sum(n * (shares**size).sum() for size, n in zip(sizes, times, strict=True))
        n_values = len(np.unique(low))
        # Another name of the groups is no evidence.
        is_name = n_values == len(low) and (is_text(column) or whole_numbers(column) is not None)
        is_chance = chance > _MAX_SHARE_BY_CHANCE * times.sum()
        if not is_chance and not is_name and not _follows_order(low):
            constant[str(name)] = n_values
    return constant


def _follows_order(levels: NDArray[np.intp]) -> bool:
    """Whether a value per group is a step function or a smooth one of the order of the groups."""
    shares = np.unique(levels, return_counts=True)[1] / len(levels)
    steps = np.diff(levels.astype(np.float64))
    expected = len(steps) * (1.0 - float((shares**2).sum()))
    roughness = (steps**2).mean() / max(levels.var(), np.finfo(float).tiny)
    has_few_changes = np.count_nonzero(steps) < _MIN_CHANGES * expected
    return bool(has_few_changes or roughness < _MIN_ROUGHNESS)


def _codes(column: pd.Series) -> NDArray[np.intp]:
    """Return the ranks of the values, and -1 for missing values."""
    if column.dtype == object:
        column = column.map(str, na_action="ignore")
    return np.asarray(pd.factorize(column, sort=True)[0])


def _counted(column: pd.Series) -> str:
    """Describe how often the values of a column occur."""
    counts = column.value_counts()
    low = int(counts[counts > 0].min())
    high = int(counts.max())
    rows = f"{low:,} rows each" if low == high else f"{low:,} to {high:,} rows"
    return f"{int((counts > 0).sum()):,} values of {rows}"
