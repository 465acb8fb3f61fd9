"""Columns whose equal values say that rows belong together, such as visits of one patient."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.arrays import Float
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

_FEWEST_ROWS, _FEWEST_VALUES = 50, 10
_NAME = re.compile(
    r"(?:^|[\W_])(?i:id|uuid|guid|group|patient|subject|customer|client|user|household|molecule"
    r"|device|session|batch|account|member|employee)$|[a-z](?:ID|Id)$",
)
# Without such a name an ordinary category must not look like groups.
_FEWEST_GROUPS, _FEWEST_PER_GROUP, _MOST_OF_MEAN, _MOST_SPREAD = 20, 2.0, 3.0, 0.75
_TIME_NAME = re.compile(
    r"(?:^|[\W_])(?i:year|yr|quarter|month|week|day|hour|minute|second|date|time|timestamp|period"
    r"|season|semester|wave|round)$|[a-z](?:Year|Month|Week|Day|Date|Time|Period)$",
)
_YEARS = (1900, 2100)
# Share of the groups in which a column has one value, and the most that chance may explain.
_CONSTANT, _BY_CHANCE = 0.95, 0.5
# A column that chance alone made would have 1 and 2, one that follows the order of the groups 0.
_FEWEST_CHANGES, _LEAST_ROUGHNESS = 0.5, 1.0
# Rows, columns and cells whose values are looked at.
_ROWS, _COLUMNS, _CELLS = 100_000, 300, 10_000_000


@dataclass(frozen=True)
class GroupColumn:
    """A column that names what rows belong to."""

    name: str
    evidence: str  # a clause without a full stop

    def __str__(self) -> str:
        return f"rows with the same {self.name!r} likely belong together: {self.evidence}"


def group_columns(frame: pd.DataFrame, skip: Collection[str] = ()) -> list[GroupColumn]:
    """Find columns whose equal values mark rows that belong together, the most likely first."""
    # A column with the name of an identifier, or with numbers of 16 digits, needs ten values and
    # 1.2 rows for each. Any other needs 20 values in similar numbers of rows, two on average, and
    # two other columns (also those of `skip`) that are constant within them, or one that has five
    # values. Columns that follow the order of the values, as a season follows the day of the year,
    # are no evidence. Years and other times are no groups.
    if len(frame) < _FEWEST_ROWS:
        return []
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    named, others = [], []
    n_rows = min(_ROWS, len(frame))
    most = min(_COLUMNS, _CELLS // n_rows)
    for at, name in enumerate(frame.columns):
        by_name = bool(_NAME.search(name))
        if name in skip or not (by_name or at < most):
            continue
        column = hashable(frame.iloc[:, at])
        values = None if is_text(column) else whole_numbers(column)
        if values is None and not is_text(column):
            continue
        if values is not None and is_time(name, values):
            continue
        long_number = _is_long(column) if values is None else is_long_number(values)
        distinct = int(column.nunique())
        if by_name or long_number:
            if distinct >= _FEWEST_VALUES and 1.2 * distinct <= len(column):
                why = "the name is that of an identifier" if by_name else "of 16 digits and more"
                named.append(GroupColumn(name, f"{_counted(column)}, {why}"))
        elif _FEWEST_GROUPS <= distinct <= len(column) / _FEWEST_PER_GROUP:
            others.append((-distinct, at))
    if not others:
        return named
    looked_at = frame.iloc[:n_rows, :most]
    numbers = np.nan_to_num(numbers_of(looked_at), nan=np.inf)
    by_values = (_by_values(looked_at, at, numbers) for _, at in sorted(others))
    return named + [group for group in by_values if group is not None][:1]


def _is_long(column: pd.Series) -> bool:
    """Whether a text column has numbers of 16 digits and more."""
    head = text_values(column, _FEWEST_ROWS)
    return all(text.isdecimal() and len(text) >= 16 for text in head)


def is_time(name: str, values: NDArray[Any]) -> bool:
    """Whether whole numbers are years, or have the name of a time."""
    if _TIME_NAME.search(name):
        return True
    low, high = values.min(), values.max()
    is_year = _YEARS[0] <= low and high <= _YEARS[1]
    return bool(is_year and 2 * len(np.unique(values)) > high - low + 1)


def other_names(frame: pd.DataFrame, groups: pd.Series) -> list[str]:
    """Return the columns that name the groups (n_rows,) again: one to one, and like identifiers."""
    codes = pd.factorize(groups)[0]
    once = np.unique(codes, return_index=True)[1]
    if len(once) < _FEWEST_GROUPS or 1.2 * len(once) > len(codes):
        return []
    names = []
    for at, name in enumerate(frame.columns):
        dtype: Any = frame.dtypes.iloc[at]
        # A few rows first: most columns vary within.
        if isinstance(dtype, np.dtype) and dtype.kind == "f":
            head = frame.iloc[: 2 * _FEWEST_GROUPS, at].to_numpy()
            if not (np.isnan(head) | (head == np.floor(head))).all():
                continue
        column = hashable(frame.iloc[:, at])
        levels = _codes(column)
        is_constant = (levels == levels[once][np.searchsorted(codes[once], codes)]).all()
        is_named = len(once) >= _FEWEST_ROWS or bool(ID_NAME.search(str(name)))
        if is_constant and is_named and is_id(str(name), column.iloc[once]):
            names.append(str(name))
    return names


def _by_values(frame: pd.DataFrame, at: int, numbers: Float) -> GroupColumn | None:
    """Judge a column by its values and those of the others; `numbers` are equal where these are."""
    name, column = str(frame.columns[at]), hashable(frame.iloc[:, at])
    codes = _codes(column)
    counts = np.bincount(codes[codes >= 0])
    # The rows that are looked at may have fewer.
    if len(counts) < _FEWEST_GROUPS or counts.mean() < _FEWEST_PER_GROUP:
        return None
    spread = float(counts.std() / counts.mean())
    similar = counts.max() <= _MOST_OF_MEAN * counts.mean() and spread <= _MOST_SPREAD
    if not similar or (codes < 0).any() or date_format(column) is not None:
        return None
    order = np.argsort(codes, kind="stable")
    # A few groups first: most columns vary within.
    head = numbers[order[: counts[: 2 * _FEWEST_GROUPS].sum()]]
    changes = (head[1:] != head[:-1]).sum(axis=0)
    few = np.flatnonzero((changes <= 4 * _FEWEST_GROUPS) & (np.arange(len(changes)) != at))
    constant = _constant_within(frame.iloc[:, few], order, counts)
    if constant:
        shown = ", ".join(map(repr, list(constant)[:3]))
        more = f" and {len(constant) - 3} more" if len(constant) > 3 else ""
        verb = "has" if len(constant) == 1 else "have"
        evidence = f"{_counted(column)}, within which {shown}{more} {verb} one value"
        scales = [n for n, values in constant.items() if not is_text(frame[n]) and values >= 5]
        if len(constant) > 1 or scales:
            return GroupColumn(name, evidence)
    return None


def _constant_within(
    frame: pd.DataFrame,
    order: NDArray[np.intp],  # (n_rows,), rows group by group
    counts: NDArray[np.intp],  # (n_groups,), rows of each group
) -> dict[str, int]:
    """Return the columns that are constant within groups, and their numbers of values."""
    starts = np.r_[0, counts.cumsum()[:-1]]
    several = counts > 1
    constant = {}
    for at, name in enumerate(frame.columns):
        column = hashable(frame.iloc[:, at])
        codes = _codes(column)[order]
        low, high = np.minimum.reduceat(codes, starts), np.maximum.reduceat(codes, starts)
        if (low == high)[several].mean() < _CONSTANT:
            continue
        shares = np.unique(codes, return_counts=True)[1] / len(codes)
        sizes, times = np.unique(counts[several], return_counts=True)
        chance = sum(n * (shares**size).sum() for size, n in zip(sizes, times, strict=True))
        distinct = len(np.unique(low))
        # Another name of the groups is no evidence.
        is_name = distinct == len(low) and (is_text(column) or whole_numbers(column) is not None)
        if chance <= _BY_CHANCE * times.sum() and not is_name and not _follows_order(low):
            constant[str(name)] = distinct
    return constant


def _follows_order(levels: NDArray[np.intp]) -> bool:
    """Whether a value per group is a step function or a smooth one of the order of the groups."""
    shares = np.unique(levels, return_counts=True)[1] / len(levels)
    steps = np.diff(levels.astype(np.float64))
    expected = len(steps) * (1.0 - float((shares**2).sum()))
    roughness = (steps**2).mean() / max(levels.var(), np.finfo(float).tiny)
    return bool(np.count_nonzero(steps) < _FEWEST_CHANGES * expected) or (
        bool(roughness < _LEAST_ROUGHNESS)
    )


def _codes(column: pd.Series) -> NDArray[np.intp]:
    """Return the ranks of the values, and -1 for missing ones."""
    if column.dtype == object:
        column = column.map(str, na_action="ignore")
    return np.asarray(pd.factorize(column, sort=True)[0])


def _counted(column: pd.Series) -> str:
    """Describe how often the values of a column occur."""
    counts = column.value_counts()
    low, high = int(counts[counts > 0].min()), int(counts.max())
    rows = f"{low:,} rows each" if low == high else f"{low:,} to {high:,} rows"
    return f"{int((counts > 0).sum()):,} values of {rows}"
