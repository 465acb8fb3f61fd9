"""One look at the columns of a table: what each of them is, and what is wrong with it.

`swarm init` writes its keys from it, and `swarm check`, runs and `SubsetSelector.fit` report it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_datetime64_any_dtype
from scipy.stats import f as f_distribution

from swarm.findings.columns import (
    as_plain,
    constant_columns,
    date_columns,
    empty_columns,
    id_columns,
    infinite_columns,
    is_text,
    number_blocks,
    same_columns,
    sentinels,
    text_kind,
)
from swarm.findings.groups import GroupColumn, group_columns, is_time, other_names
from swarm.findings.leaks import leak_columns
from swarm.problem.table import as_frame, is_plain, names_of

# Categories with more values than this share of the rows distinguish rows.
_MOST_VALUES, _FEWEST_ROWS = 0.5, 50
_MANY_COLUMNS = 100
# Distinct times by which rows can be sorted; their blocks, and how likely chance makes them differ.
_FEWEST_DATES, _FEWEST_TIMES, _BLOCKS, _BY_CHANCE = 10, 3, 10, 0.001

Kind = Literal["empty", "constant", "identifier", "date", "text", "number", "category"]


@dataclass(frozen=True)
class Flaw:
    """Something wrong with a column."""

    code: str  # of its finding
    clause: str  # what was seen, without the name of the column
    is_sure: bool = True  # whether the column is no feature; otherwise only its user can say


@dataclass(frozen=True)
class ColumnLook:
    """What a column is."""

    name: str
    kind: Kind
    form: str = ""  # of dates as text, for `strptime`; of numbers that remained text, a cell
    flaws: tuple[Flaw, ...] = ()  # the most certain ones first

    @property
    def is_unread(self) -> bool:
        """Whether it has numbers that remained text."""
        return self.kind == "category" and self.form != ""

    @property
    def reason(self) -> str:
        """Why the column is no feature; empty if it is one."""
        return next((flaw.clause for flaw in self.flaws if flaw.is_sure), "")


@dataclass(frozen=True)
class Look:
    """What the columns of a table are, in their order, and how its rows are related."""

    columns: tuple[ColumnLook, ...]
    groups: tuple[
        GroupColumn, ...
    ] = ()  # columns whose equal values mark rows that belong together
    time: str | None = None  # column that the rows are in order of


def look_at(
    table: Any,
    target: NDArray[Any] | None = None,
    task: str = "",
    *,
    groups: pd.Series | None = None,
    formats: Mapping[str, str | None] | None = None,
) -> Look:
    """Look at the columns of a table once.

    Parameters
    ----------
    table : DataFrame of pandas or polars, or array
        Candidates for features.
    target : array (n_rows,), optional
        Without it there are no leaks, and only dates can order the rows.
    task : str
        Of the target: ``"binary"``, ``"multiclass"`` or ``"regression"``.
    groups : Series, optional
        What rows belong to, if it is known.
    formats : dict, optional
        Formats of columns that are known to be dates, None for ISO 8601.
    """
    frame = as_frame(table, names_of(table))
    if frame.shape[1] > _MANY_COLUMNS:
        # In a copy, columns of one type are one array, which all of these read.
        frame = frame.copy()
    others = [name for name, dtype in frame.dtypes.items() if not is_plain(dtype)]
    frame = frame.assign(**{str(name): as_plain(frame[name]) for name in others})
    flaws: dict[str, list[Flaw]] = {name: [] for name in frame.columns}

    def note(code: str, clauses: Mapping[str, str], is_sure: bool = True) -> None:
        for name, clause in clauses.items():
            flaws[name].append(Flaw(code, clause, is_sure))

    def rest(*apart: Collection[str]) -> pd.DataFrame:
        skipped = {name for name, each in flaws.items() if any(flaw.is_sure for flaw in each)}
        return frame.drop(columns=list(skipped.union(*apart)), errors="ignore")

    empty = empty_columns(frame)
    note("SWM002", dict.fromkeys(empty, "no value in any row"))
    note("SWM002", dict.fromkeys(infinite_columns(frame), "infinite values"))
    constant = constant_columns(rest())
    note("SWM112", dict.fromkeys(constant, "one value in all rows"))
    texts = {str(name): text_kind(column) for name, column in rest().items() if is_text(column)}
    time = order_of(rest(), target, formats or {})
    dates = [name for name, (kind, _) in texts.items() if kind == "date"]
    ids = id_columns(rest([] if time is None else [time]))
    note("SWM111", dict.fromkeys(ids, "a value of its own in every row"))
    note("SWM113", same_columns(rest()))
    prose = [name for name, (kind, _) in texts.items() if kind == "text"]
    note("SWM115", dict.fromkeys(prose, "free text, mostly distinct"))
    times = {*dates, *([] if time is None else [time])}
    suspects = [] if groups is not None else group_columns(rest(), skip=times)
    named = groups if groups is not None else _first_group(frame, suspects)
    if named is not None:
        again = other_names(rest(times, [str(named.name)]), named)
        note("SWM111", dict.fromkeys(again, f"another identifier of {str(named.name)!r}"))
    grouping = [each.name for each in suspects]
    many = _many_levels(rest(grouping, times), texts)
    for name, clause in many.items():
        cell = texts[name][1]
        note("SWM115", {name: f"numbers as text ({cell!r}), {clause}" if cell else clause})
    if target is not None:
        candidates = frame.drop(columns=list({*times, *grouping, *ids, *constant, *empty}))
        for leak in leak_columns(candidates, target, task):
            flaws[leak.column].append(Flaw(leak.code, leak.clause, leak.code == "SWM114"))
    note("SWM115", {n: f"dates as text ({texts[n][1]})" for n in dates}, is_sure=False)
    numbers = [n for n, (kind, _) in texts.items() if kind == "number" and n not in many]
    note("SWM115", {n: f"numbers as text ({texts[n][1]!r})" for n in numbers}, is_sure=False)
    marks = {
        name: f"{value:.12g} in {share:.1%} of the rows, unlike all other values"
        for name, (value, share) in sentinels(rest()).items()
    }
    note("SWM121", marks, is_sure=False)
    kinds: dict[str, Kind] = {name: "number" for name in frame.columns}
    stamps = [str(name) for name, t in frame.dtypes.items() if is_datetime64_any_dtype(t)]
    kinds.update(dict.fromkeys(stamps, "date"))
    for name, (kind, _) in texts.items():
        kinds[name] = "category" if kind == "number" else kind
    kinds.update(dict.fromkeys(ids, "identifier"))
    kinds.update(dict.fromkeys(constant, "constant"))
    kinds.update(dict.fromkeys(empty, "empty"))
    forms = {name: form for name, (_, form) in texts.items()}
    return Look(
        tuple(ColumnLook(n, kinds[n], forms.get(n, ""), tuple(flaws[n])) for n in frame.columns),
        tuple(suspects),
        time,
    )


def _first_group(frame: pd.DataFrame, suspects: Iterable[GroupColumn]) -> pd.Series | None:
    """Return the likeliest column of groups without missing values."""
    return next((frame[s.name] for s in suspects if frame[s.name].notna().all()), None)


def _many_levels(frame: pd.DataFrame, categories: Iterable[str]) -> dict[str, str]:
    """Return the categories of which most have a row or two."""
    n_rows = len(frame)
    counts = {name: int(frame[name].nunique()) for name in categories if name in frame.columns}
    return {
        name: f"{count:,} different texts in {n_rows:,} rows"
        for name, count in counts.items()
        if n_rows >= _FEWEST_ROWS and count > _MOST_VALUES * n_rows
    }


def order_of(
    frame: pd.DataFrame, target: NDArray[Any] | None, formats: Mapping[str, str | None]
) -> str | None:
    """Return the first column of dates that rows are sorted by, or of times that change the target.

    Times are whole numbers such as years; `formats` are as for :func:`look_at`.
    """
    for name, moments in date_columns(frame, formats):
        dates = moments.dropna()
        is_complete = dates.nunique() >= _FEWEST_DATES and len(dates) > 0.9 * len(moments)
        if is_complete and (dates.is_monotonic_increasing or dates.is_monotonic_decreasing):
            return name
    if target is None or np.ndim(target) != 1:
        return None
    for block, values in number_blocks(frame):
        if values.dtype.kind == "b" or len(values) < _FEWEST_ROWS:
            continue
        before, after = values[:-1], values[1:]
        in_order = (before <= after).all(axis=0) | (before >= after).all(axis=0)
        in_order &= (before != after).sum(axis=0) >= _FEWEST_TIMES - 1
        for place in np.flatnonzero(in_order & (values % 1 == 0).all(axis=0)).tolist():
            name = str(frame.columns[block[place]])
            if is_time(name, values[:, place]) and _drifts(values[:, place], target):
                return name
    return None


def _drifts(times: NDArray[Any], target: NDArray[Any]) -> bool:
    """Whether the mean target, or the share of a class, differs between blocks of sorted times."""
    codes = pd.factorize(times)[0]
    n_blocks = min(_BLOCKS, int(codes.max()) + 1)
    blocks = codes * n_blocks // (int(codes.max()) + 1)
    is_number = target.dtype.kind in "iuf" and len(np.unique(target)) > _BLOCKS
    values = target[:, None] if is_number else pd.get_dummies(target).to_numpy()
    values = values.astype(np.float64)
    counts = np.bincount(blocks, minlength=n_blocks)
    for column in values.T:
        total = ((column - column.mean()) ** 2).sum()
        means = np.bincount(blocks, column, minlength=n_blocks) / counts
        within = ((column - means[blocks]) ** 2).sum()
        freedom = len(column) - n_blocks
        ratio = (total - within) / (n_blocks - 1) / max(within / freedom, np.finfo(float).tiny)
        if f_distribution.sf(ratio, n_blocks - 1, freedom) < _BY_CHANCE / values.shape[1]:
            return True
    return False
