"""One look at the columns of a table: what each of them is, and what is wrong with it.

`swarm init` writes its keys from the look; `swarm check`, runs and `SubsetSelector.fit` report it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api.types import is_datetime64_any_dtype
from scipy.stats import f as f_distribution

from swarm.arrays import AnyArray
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

_MIN_ROWS = 50
# Categories with more values than this share of the rows distinguish rows.
_MAX_SHARE_VALUES = 0.5
_MANY_COLUMNS = 100
# Rows can be sorted by so many distinct dates or times.
_MIN_DATES = 10
_MIN_TIMES = 3
# The target differs between blocks of times if chance makes it so less often.
_MAX_BLOCKS = 10
_MAX_P_VALUE = 0.001

Kind = Literal["empty", "constant", "identifier", "date", "text", "number", "category"]


@dataclass(frozen=True)
class Flaw:
    """Something wrong with a column.

    Attributes
    ----------
    code : str
        Code of its finding.
    clause : str
        What was seen, without the name of the column.
    is_sure : bool
        Whether the column is no feature; otherwise only its user can say.
    """

    code: str
    clause: str
    is_sure: bool = True


@dataclass(frozen=True)
class ColumnLook:
    """What a column is.

    Attributes
    ----------
    name : str
    kind : str
    form : str
        Format of dates as text, for `strptime`; a cell of numbers that remained text.
    flaws : tuple of Flaw
        The most certain flaws first.
    """

    name: str
    kind: Kind
    form: str = ""
    flaws: tuple[Flaw, ...] = ()

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
    """What the columns of a table are, in their order, and how its rows are related.

    Attributes
    ----------
    columns : tuple of ColumnLook
    groups : tuple of GroupColumn
        Columns whose equal values mark rows that belong together.
    time : str, optional
        Column by which the rows are sorted.
    """

    columns: tuple[ColumnLook, ...]
    groups: tuple[GroupColumn, ...] = ()
    time: str | None = None


def look_at(
    table: Any,
    target: AnyArray | None = None,
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
        Target; None finds no leaks, and only dates that order the rows.
    task : str
        Task of the target: ``"binary"``, ``"multiclass"`` or ``"regression"``.
    groups : Series, optional
        Groups of the rows, if they are known.
    formats : dict, optional
        Formats of columns that are known to be dates, None for ISO 8601.
    """
    frame = as_frame(table, names_of(table))
    if frame.shape[1] > _MANY_COLUMNS:
        # The columns of one type are one array in a copy, which is fast to read again and again.
        frame = frame.copy()
    not_plain = [name for name, dtype in frame.dtypes.items() if not is_plain(dtype)]
    frame = frame.assign(**{str(name): as_plain(frame[name]) for name in not_plain})
    flaws: dict[str, list[Flaw]] = {name: [] for name in frame.columns}

    def note(code: str, clauses: Mapping[str, str], is_sure: bool = True) -> None:
        for name, clause in clauses.items():
            flaws[name].append(Flaw(code, clause, is_sure))

    def rest(*skipped: Collection[str]) -> pd.DataFrame:
        flawed = {name for name, noted in flaws.items() if any(flaw.is_sure for flaw in noted)}
        return frame.drop(columns=list(flawed.union(*skipped)), errors="ignore")

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
    suspects: list[GroupColumn] = []
    if groups is None:
        suspects = group_columns(rest(), skip=times)
        groups = _first_group(frame, suspects)
    if groups is not None:
        identifiers = other_names(rest(times, [str(groups.name)]), groups)
        note("SWM111", dict.fromkeys(identifiers, f"another identifier of {str(groups.name)!r}"))
    grouping = [suspect.name for suspect in suspects]
    many_levels = _many_levels(rest(grouping, times), texts)
    for name, clause in many_levels.items():
        cell = texts[name][1]
        note("SWM115", {name: f"numbers as text ({cell!r}), {clause}" if cell else clause})
    if target is not None:
        candidates = frame.drop(columns=list({*times, *grouping, *ids, *constant, *empty}))
        for leak in leak_columns(candidates, target, task):
            flaws[leak.column].append(Flaw(leak.code, leak.clause, leak.code == "SWM114"))
    formats_of = {name: form for name, (_, form) in texts.items()}
    note("SWM115", {n: f"dates as text ({formats_of[n]})" for n in dates}, is_sure=False)
    numbers = [n for n, (kind, _) in texts.items() if kind == "number" and n not in many_levels]
    note("SWM115", {n: f"numbers as text ({formats_of[n]!r})" for n in numbers}, is_sure=False)
    marks = {
        name: f"{value:.12g} in {share:.1%} of the rows, unlike all other values"
        for name, (value, share) in sentinels(rest()).items()
    }
    note("SWM121", marks, is_sure=False)
    kinds: dict[str, Kind] = {name: "number" for name in frame.columns}
    timestamps = [str(n) for n, dtype in frame.dtypes.items() if is_datetime64_any_dtype(dtype)]
    kinds.update(dict.fromkeys(timestamps, "date"))
    for name, (kind, _) in texts.items():
        kinds[name] = "category" if kind == "number" else kind
    kinds.update(dict.fromkeys(ids, "identifier"))
    kinds.update(dict.fromkeys(constant, "constant"))
    kinds.update(dict.fromkeys(empty, "empty"))
    columns = [
        ColumnLook(name, kinds[name], formats_of.get(name, ""), tuple(flaws[name]))
        for name in frame.columns
    ]
    return Look(tuple(columns), tuple(suspects), time)


def _first_group(frame: pd.DataFrame, suspects: Iterable[GroupColumn]) -> pd.Series | None:
    """Return the likeliest column of groups without missing values."""
    columns = (frame[suspect.name] for suspect in suspects)
    return next((column for column in columns if column.notna().all()), None)


def _many_levels(frame: pd.DataFrame, categories: Iterable[str]) -> dict[str, str]:
    """Describe the columns whose categories mostly have a row or two."""
    n_rows = len(frame)
    counts = {name: int(frame[name].nunique()) for name in categories if name in frame.columns}
    return {
        name: f"{count:,} different texts in {n_rows:,} rows"
        for name, count in counts.items()
        if n_rows >= _MIN_ROWS and count > _MAX_SHARE_VALUES * n_rows
    }


def order_of(
    frame: pd.DataFrame, target: AnyArray | None, formats: Mapping[str, str | None]
) -> str | None:
    """Return the first column of dates that sort the rows, or of times that change the target.

    Times are whole numbers such as years; for `formats` see :func:`look_at`.
    """
    for name, moments in date_columns(frame, formats):
        dates = moments.dropna()
        is_complete = dates.nunique() >= _MIN_DATES and len(dates) > 0.9 * len(moments)
        if is_complete and (dates.is_monotonic_increasing or dates.is_monotonic_decreasing):
            return name
    if target is None or np.ndim(target) != 1:
        return None
    for block, values in number_blocks(frame):
        if values.dtype.kind == "b" or len(values) < _MIN_ROWS:
            continue
        before, after = values[:-1], values[1:]
        in_order = (before <= after).all(axis=0) | (before >= after).all(axis=0)
        in_order &= (before != after).sum(axis=0) >= _MIN_TIMES - 1
        for column in np.flatnonzero(in_order & (values % 1 == 0).all(axis=0)).tolist():
            name = str(frame.columns[block[column]])
            if is_time(name, values[:, column]) and _drifts(values[:, column], target):
                return name
    return None


def _drifts(times: AnyArray, target: AnyArray) -> bool:
    """Whether the mean target, or the share of a class, differs between blocks of sorted times."""
    codes = pd.factorize(times)[0]
    n_times = int(codes.max()) + 1
    n_blocks = min(_MAX_BLOCKS, n_times)
    blocks = codes * n_blocks // n_times
    is_number = target.dtype.kind in "iuf" and len(np.unique(target)) > _MAX_BLOCKS
    values = target[:, None] if is_number else pd.get_dummies(target).to_numpy()
    values = values.astype(np.float64)
    counts = np.bincount(blocks, minlength=n_blocks)
    for column in values.T:
        total = ((column - column.mean()) ** 2).sum()
        means = np.bincount(blocks, column, minlength=n_blocks) / counts
        within = ((column - means[blocks]) ** 2).sum()
        freedom = len(column) - n_blocks
        ratio = (total - within) / (n_blocks - 1) / max(within / freedom, np.finfo(float).tiny)
        if f_distribution.sf(ratio, n_blocks - 1, freedom) < _MAX_P_VALUE / values.shape[1]:
            return True
    return False
