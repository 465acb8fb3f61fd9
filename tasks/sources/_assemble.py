"""Assign the columns of a raw table their roles, and validate them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from swarm.errors import DataError
from tasks.sources._checks import (
    check_cells,
    check_complete,
    check_features,
    check_target,
    label_end_of,
    part_of,
    time_of,
    weight_of,
)
from tasks.sources._dates import date_parts, parsed_dates, sorted_dates
from tasks.sources._raw import Raw, labelled_rows, name_list, repeated, some, unknown_column
from tasks.table import Table

__all__ = ["assemble"]


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
    """Build the validated table.

    `roles` maps group, time, weight, part, fold and horizon to columns.

    `dates` maps columns of dates to their formats, and `on_missing_target` says whether rows
    without a target ``"stop"`` it or are left out (``"drop"``).
    """
    formats = dates or {}
    frame = raw.frame.reset_index(drop=True)
    frame.columns = pd.Index([str(name) for name in frame.columns])
    if twice := repeated(frame.columns):
        raise DataError(
            f"duplicate column names in {raw.source!r}: {some(twice)}; "
            "give each column its own name"
        )
    if not len(frame):
        raise DataError(f"{raw.source!r} has no rows; check the file or the query")
    targets = _targets(raw, target)
    taken = {role: name for role, name in roles.items() if name is not None}
    named = [("target", n) for n in targets] + list(taken.items())
    named += [("drop", n) for n in drop] + [("categorical", n) for n in categorical]
    named += [("date", n) for n in formats]
    for role, name in named:
        if name not in frame.columns:
            raise DataError(unknown_column(role, name, raw.source, frame.columns))
        if role not in ("target", "categorical", "date") and name in targets:
            raise DataError(f"column {name!r} is both the target and {role!r}; choose one")
        if role != "drop":
            check_cells(role, frame[name])

    n_read = len(frame)
    if on_missing_target == "drop":
        frame = labelled_rows(frame, targets)
        if not len(frame):
            raise DataError(
                f"no row of {raw.source!r} has a target ({some(targets)}); choose another target"
            )
    parsed = {name: parsed_dates(frame[name], form) for name, form in formats.items()}
    frame = frame.assign(**parsed) if parsed else frame
    chosen = frame[targets] if len(targets) > 1 else frame[targets[0]]
    answer = check_target(chosen, raw)
    apart = {*targets, *taken.values(), *drop, *raw.aside}
    names = [name for name in frame.columns if name not in apart]
    if not names:
        raise DataError(
            f"no features are left in {raw.source!r} after target, roles and drop; drop fewer"
        )
    if "" in names:
        raise DataError(
            f"column {list(frame.columns).index('') + 1} of {raw.source!r} has no name; give it one"
        )
    parts = date_parts({n: parsed[n] for n in names if n in parsed}, formats)
    names = [name for name in names if name not in parsed]
    taken_twice = [name for name in parts.columns if name in set(frame.columns)]
    if taken_twice:
        raise DataError(
            f"{raw.source!r} has a column {taken_twice[0]!r}, the name of a part of a date; "
            "rename one of them, or leave the date out of data.dates"
        )
    features = frame[names].copy()
    if len(parts.columns):
        features = pd.concat([features, parts], axis=1)
        names += [str(name) for name in parts.columns]
    check_features(features)
    cast = set(names) & {*categorical, *raw.categorical}
    if cast:  # even an empty cast splits the frame into one block per column
        features = features.astype(dict.fromkeys(cast, "category"))

    def column(role: str) -> pd.Series | None:
        return frame[taken[role]] if role in taken else None

    time, weight, part = (column(role) for role in ("time", "weight", "part"))
    groups = column("group")
    if groups is not None:
        check_complete("group", groups)
    horizon = column("horizon")
    if horizon is not None and time is None:
        raise DataError(
            f"horizon column {horizon.name!r} needs the times of the rows; name a time column"
        )
    moments = None if time is None else time_of(time)
    return Table(
        name=raw.name,
        source=raw.source,
        features=features,
        target=answer,
        groups=groups,
        time=moments,
        weight=None if weight is None else weight_of(weight),
        part=None if part is None else part_of(part),
        fold=column("fold"),
        label_end=None if horizon is None or moments is None else label_end_of(horizon, moments),
        n_unlabelled=n_read - len(frame),
        in_order_of=sorted_dates(frame, formats) if time is None else None,
        derived=tuple(name for name in features.columns if name not in set(frame.columns)),
    )


def _targets(raw: Raw, target: str | Sequence[str] | None) -> list[str]:
    names = name_list(target) or list(raw.target)
    if not names:
        raise DataError(f"{raw.source!r} has no default target; set 'target' to one of its columns")
    if twice := repeated(names):
        raise DataError(f"target column {some(twice)} is given twice; name it once")
    return names
