"""Assign the columns of a raw table their roles, and validate them."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd
from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype

from swarm import reader
from swarm.errors import DataError
from swarm.findings.columns import empty_columns, infinite_columns, is_text, text_kind
from swarm.findings.look import order_of
from swarm.problem.patterns import expand_patterns, is_pattern
from swarm.problem.table import is_collection
from swarm.reader import Reader, with_model_dtypes
from swarm.wording import quoted
from tasks.sources.raw import Raw, duplicates, labelled_rows, name_list, unknown_column
from tasks.table import Table

# More classes than this share of the rows have too few rows each to be learned.
_MAX_SHARE_CLASSES = 0.5


def assemble(
    raw: Raw,
    *,
    target: str | Sequence[str] | None,
    drop: Sequence[str],
    categorical: Sequence[str],
    roles: Mapping[str, str | None],
    dates: Mapping[str, str | None] | None = None,
    on_missing_target: str = "stop",
) -> Table:
    """Build the validated table; see :func:`tasks.sources.fetch`.

    `roles` maps group, time, weight, part and fold to columns.
    """
    formats = dates or {}
    frame = _named_columns(raw)
    targets = _targets(raw, target)
    by_role = {role: name for role, name in roles.items() if name is not None}
    categories = {*categorical, *raw.categorical}
    apart = {*targets, *by_role.values()}
    drop = columns_to_drop(frame, drop, apart, categories=categories, dates=formats)
    named = [("target", name) for name in targets]
    named += by_role.items()
    named += [("drop", name) for name in drop]
    named += [("categorical", name) for name in categorical]
    named += [("date", name) for name in formats]
    _check_roles(raw, frame, targets, named)
    n_read = len(frame)
    row = pd.Series(np.arange(n_read), name="row")
    if on_missing_target == "drop":
        row = row[frame[targets].notna().all(axis=1)].reset_index(drop=True)
        frame = labelled_rows(frame, targets)
    # These roles are compared, not computed with.
    as_read = [by_role.get(role) for role in ("group", "part", "fold")]
    cells = frame
    frame = with_model_dtypes(frame, as_read)
    parsed = {name: parsed_dates(frame[name], form) for name, form in formats.items()}
    frame = frame.assign(**parsed) if parsed else frame
    labels = _check_target(frame[targets] if len(targets) > 1 else frame[targets[0]], raw)
    apart |= {*drop, *raw.aside}
    names = [name for name in frame.columns if name not in apart]
    learned = _reader(raw, cells, names, formats, categories)
    features = learned.read(cells)
    check_features(features)
    in_order_of = None
    if "time" not in by_role:
        in_order_of = order_of(frame.drop(columns=targets), labels.to_numpy(), formats)
    return Table(
        name=raw.name,
        source=raw.source,
        features=features,
        target=labels.copy(),
        **_roles(frame, by_role),
        row=row,
        n_unlabelled=n_read - len(frame),
        in_order_of=in_order_of,
        derived=tuple(features.columns[~features.columns.isin(frame.columns)]),
        as_text=raw.as_text,
        reader=learned,
        written=_written(raw, cells[[name for name in names if name in formats]], names, row),
    )


def columns_to_drop(
    frame: pd.DataFrame,
    drop: Sequence[str],
    apart: Collection[str],
    *,
    categories: Collection[str],
    dates: Collection[str],
) -> list[str]:
    """Return the columns to drop; patterns match none of those `apart`, which have a role."""
    if not any(is_pattern(item, frame.columns) for item in drop):
        return list(drop)
    dtypes = dict(with_model_dtypes(frame).dtypes)
    dtypes |= dict.fromkeys(dates, np.dtype("datetime64[ns]"))
    dtypes |= dict.fromkeys(categories, pd.CategoricalDtype())
    columns = {name: dtypes[name] for name in frame.columns}
    return expand_patterns("drop", drop, columns, skip=apart, error=DataError)


def _named_columns(raw: Raw) -> pd.DataFrame:
    """Return the rows with texts as names of columns; refuse duplicate names."""
    frame = raw.named_frame.reset_index(drop=True)
    if twice := duplicates(frame.columns):
        raise DataError(
            f"duplicate column names in {raw.source!r}: {quoted(twice)}; "
            "give each column its own name"
        )
    if not len(frame):
        raise DataError(f"{raw.source!r} has no rows; check the file or the query")
    return frame


def _check_roles(
    raw: Raw, frame: pd.DataFrame, targets: Sequence[str], named: Sequence[tuple[str, str]]
) -> None:
    """Refuse roles of unknown columns, and a target with a second role."""
    for role, name in named:
        if name not in frame.columns:
            raise DataError(unknown_column(role, name, raw.source, frame.columns))
        if role not in ("target", "categorical", "date") and name in targets:
            raise DataError(f"column {name!r} is both the target and {role!r}; choose one")
        if role != "drop":
            _check_cells(role, frame[name])


def _reader(
    raw: Raw,
    cells: pd.DataFrame,
    names: Sequence[str],
    formats: Mapping[str, str | None],
    categories: Collection[str],
) -> Reader:
    """Return the reader of the columns that have no other role."""
    if not names:
        raise DataError(
            f"no features are left in {raw.source!r} after target, roles and drop; drop fewer"
        )
    if "" in names:
        raise DataError(
            f"column {list(cells.columns).index('') + 1} of {raw.source!r} has no name; give it one"
        )
    learned = Reader.learn(
        cells[names],
        dates=formats,
        categorical=categories,
        numbers=raw.numbers,
        csv=raw.csv,
    )
    parts = [part for column in learned.columns if column.is_date for part in column.features]
    taken_twice = cells.columns.intersection(parts)
    if len(taken_twice):
        raise DataError(
            f"{raw.source!r} has a column {taken_twice[0]!r}, the name of a part of a date; "
            "rename one of them, or leave the date out of data.dates"
        )
    return learned


def _written(
    raw: Raw, dates: pd.DataFrame, names: Sequence[str], row: pd.Series
) -> pd.DataFrame | None:
    """Return the cells of features that differ from the source; None if there are none."""
    texts = {
        name: column.iloc[row].reset_index(drop=True)
        for name, column in raw.written.items()
        if name in names
    }
    cells = dates.assign(**texts) if texts else dates
    return cells if len(cells.columns) else None


def _roles(frame: pd.DataFrame, by_role: Mapping[str, str]) -> dict[str, pd.Series | None]:
    """Return the columns of a table that are no features, by their names in :class:`Table`."""

    def column(role: str) -> pd.Series | None:
        # A column that is not copied would keep the whole frame in memory.
        return frame[by_role[role]].copy() if role in by_role else None

    time = column("time")
    weight = column("weight")
    part = column("part")
    groups = column("group")
    if groups is not None:
        _check_complete("group", groups)
    return {
        "groups": groups,
        "time": None if time is None else _time_of(time),
        "weight": None if weight is None else _weight_of(weight),
        "part": None if part is None else _part_of(part),
        "fold": column("fold"),
    }


def _targets(raw: Raw, target: str | Sequence[str] | None) -> list[str]:
    names = name_list(target) or list(raw.target)
    if not names:
        raise DataError(f"{raw.source!r} has no default target; set 'target' to one of its columns")
    if twice := duplicates(names):
        raise DataError(f"target column {quoted(twice)} is given twice; name it once")
    return names


def _check_cells(role: str, column: pd.Series) -> None:
    """Refuse a column with several values per cell, such as lists in a Parquet file."""
    if column.dtype != object:
        return
    for row, value in enumerate(column.tolist()):
        if is_collection(value):
            shown = str(value).replace("\n", " ")
            if len(shown) > 40:
                shown = f"{shown[:40]}..."
            raise DataError(
                f"{role} column {column.name!r} has several values in one cell ({shown} in row "
                f"{row}); use one value per row, or drop the column"
            )


def _check_complete(role: str, column: pd.Series) -> None:
    """Refuse missing values."""
    if gaps := int(column.isna().sum()):
        raise DataError(
            f"{role} column {column.name!r} is missing in {gaps} rows; fill or drop them first"
        )


def _check_target(target: pd.Series | pd.DataFrame, raw: Raw) -> pd.Series | pd.DataFrame:
    """Refuse a target that cannot be learned; cast multi-label columns to int."""
    labels = target.to_frame() if isinstance(target, pd.Series) else target
    for name, label in labels.items():
        if gaps := int(label.isna().sum()):
            raise DataError(
                f"target {name!r} is missing in {gaps} of {len(label)} rows; "
                "fill them, or set data.on_missing_target to drop"
            )
        if infinite_columns(label.to_frame()):
            raise DataError(f"target {name!r} has infinite values; replace or drop them")
        n_values = label.nunique()
        if n_values < 2:
            value = label.tolist()[0]
            raise DataError(
                f"target {name!r} is constant ({value!r} in every row); choose another target"
            )
        if is_text(label) and n_values > 2 and n_values > _MAX_SHARE_CLASSES * len(label):
            remedy = "an identifier, not classes; choose another target"
            kind, number = text_kind(label)
            if kind == "number":
                remedy = f"numbers as text, such as {number!r}; convert them in the table"
            raise DataError(
                f"target {name!r} has {n_values:,} different texts in {len(label):,} rows: {remedy}"
            )
    if isinstance(target, pd.Series):
        return target
    not_binary = [str(name) for name, label in labels.items() if not label.isin([0, 1]).all()]
    if not_binary:
        raise DataError(
            f"{raw.source!r} has several targets ({quoted(labels.columns)}) but "
            f"{quoted(not_binary)} is not 0/1 as required of labels; set 'target' to one column"
        )
    return labels.astype("int64")


def check_features(features: pd.DataFrame) -> None:
    """Refuse columns without any value, and infinite values."""
    if empty := empty_columns(features):
        raise DataError(f"feature {quoted(empty)} has no value in any row; drop it")
    if infinite := infinite_columns(features):
        raise DataError(f"feature {quoted(infinite)} has infinite values; replace or drop them")


def _weight_of(column: pd.Series) -> pd.Series:
    """Return the sample weights as float."""
    if not is_numeric_dtype(column):
        raise DataError(f"weight column {column.name!r} is not numeric; choose another")
    weight = pd.Series(column.to_numpy(dtype=np.float64, na_value=np.nan), name=column.name)
    for what, wrong in (
        ("missing", weight.isna()),
        ("negative", weight < 0),
        ("infinite", np.isinf(weight)),
    ):
        if wrong.any():
            raise DataError(
                f"weight column {column.name!r} is {what} in {int(wrong.sum())} rows; "
                "weights must be finite and >= 0"
            )
    if not weight.any():
        raise DataError(f"weight column {column.name!r} is 0 in every row; choose another")
    return weight


def _time_of(column: pd.Series) -> pd.Series:
    """Return numbers or timestamps; text must be ISO 8601."""
    _check_complete("time", column)
    if is_numeric_dtype(column) or is_datetime64_any_dtype(column):
        return column
    try:
        return pd.to_datetime(column, format="ISO8601", utc=True)
    except (ValueError, TypeError) as error:
        raise DataError(
            f"time column {column.name!r} has values such as {column.tolist()[0]!r}; "
            "use numbers or ISO dates like 2024-01-31, or name their format in data.dates"
        ) from error


def _part_of(column: pd.Series) -> pd.Series:
    """Refuse values other than train and test."""
    wrong = column[~column.isin(["train", "test"])]
    if len(wrong):
        raise DataError(
            f"part column {column.name!r} has {wrong.tolist()[0]!r} in {len(wrong)} rows; "
            "it must hold 'train' or 'test'"
        )
    return column.astype(str)


def parsed_dates(column: pd.Series, form: str | None) -> pd.Series:
    """Return texts or timestamps as timestamps; DataError if a value has another form."""
    try:
        return reader.parsed_dates(column, form)
    except ValueError as error:
        raise DataError(str(error)) from None
