"""What a table looks like: the role that each of its columns should have."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from swarm.errors import DataError
from swarm.findings.columns import (
    constant_columns,
    duplicate_columns,
    id_columns,
    text_columns,
    text_kind,
)
from swarm.findings.groups import GroupColumn, group_columns
from swarm.findings.leaks import leak_columns
from swarm.json_data import plain
from swarm.problem.target import Task, task_of
from swarm.reader import with_model_dtypes
from tasks.sources.assembly import sorted_date
from tasks.sources.raw import Raw, labelled_rows, unknown_column

_RARE = 0.1
# Categories with more values than this share of the rows are left out.
_MOST_VALUES = 0.5


@dataclass(frozen=True)
class Profile:
    """The columns of a table, and its target."""

    target: str
    task: Task
    n_rows: int
    n_features: int  # features that are left; a date is one
    # rows of each class, the rarest first; empty for a regression
    counts: dict[Any, int] = field(default_factory=dict)
    # columns that should not be features, with the reason
    dropped: dict[str, str] = field(default_factory=dict)
    categorical: tuple[str, ...] = ()
    # formats of the columns of dates; None for timestamps
    dates: dict[str, str | None] = field(default_factory=dict)
    # column whose equal values likely mark rows that belong together
    group: GroupColumn | None = None
    time: str | None = None  # column of dates that the rows are in order of
    n_unlabelled: int = 0  # further rows, which have no target
    # categories that are numbers with signs, and a value of each
    numbers: dict[str, str] = field(default_factory=dict)
    # what cells are read as, where it is not as they are written, with their columns
    notes: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_rare(self) -> bool:
        """Whether a class has fewer rows than a tenth of an equal share would give two classes."""
        if not self.counts:
            return False
        share = min(self.counts.values()) / self.n_rows
        return share < _RARE / max(1, len(self.counts) - 1)


def profile_of(raw: Raw, target: str) -> Profile:
    """Look at every column of a table; a target that cannot be predicted is a DataError."""
    frame = raw.frame.set_axis([str(name) for name in raw.frame.columns], axis=1)
    if target not in frame.columns:
        raise DataError(unknown_column("target", target, raw.source, frame.columns))
    n_read = len(frame)
    frame = with_model_dtypes(labelled_rows(frame, [target]))
    answer = frame[target]
    task = task_of(answer)
    features = frame.drop(columns=[target, *(n for n in raw.aside if n in frame.columns)])
    dropped = _unusable(features)
    texts = text_columns(features.drop(columns=list(dropped)))
    kinds = {name: text_kind(features[name]) for name in texts}
    dropped |= {name: "free text" for name, (kind, _) in kinds.items() if kind == "prose"}
    moments = features.drop(columns=list(dropped)).select_dtypes(["datetime", "datetimetz"])
    dates: dict[str, str | None] = dict.fromkeys(moments.columns)
    dates |= {name: form for name, (kind, form) in kinds.items() if kind == "date"}
    numbers = {name: number for name, (kind, number) in kinds.items() if kind == "number"}
    categories = [name for name, (kind, _) in kinds.items() if kind in ("number", "category")]
    time = sorted_date(features[list(dates)], dates)
    group, suspects = _groups(features.drop(columns=list(dropped)), skip=dates)
    groups = [suspect.name for suspect in suspects]
    # Other suspects are no features either: they name, rather than describe.
    dropped |= {
        suspect.name: f"an identifier: {suspect.evidence}"
        for suspect in suspects
        if suspect is not group
    }
    for name in categories:
        distinct = int(features[name].nunique())
        if name not in groups and distinct > _MOST_VALUES * len(frame):
            dropped[name] = f"{distinct:,} different texts in {len(frame):,} rows"
            if name in numbers:
                dropped[name] += f"; numbers as text ({numbers[name]!r}), convert them"
    aside = {*dropped, *groups, *dates}
    left = [name for name in features.columns if name not in aside]
    for leak in leak_columns(features[left], answer.to_numpy(), task):
        dropped[leak.column] = (
            f"alone predicts the target ({leak.metric} {leak.score:.3f}); keep it only if its "
            "values are known before the outcome"
        )
    apart = {*dropped, *groups, time}
    has_classes = task in ("binary", "multiclass")
    counts = answer.value_counts().sort_values(kind="stable") if has_classes else None
    # A category may have no rows left.
    counts = None if counts is None else counts[counts > 0]
    return Profile(
        target=target,
        task=task,
        n_rows=len(frame),
        n_features=sum(name not in apart for name in features.columns),
        counts={} if counts is None else {_plain(label): int(n) for label, n in counts.items()},
        dropped={name: dropped[name] for name in features.columns if name in dropped},
        categorical=tuple(name for name in categories if name not in apart),
        dates=dates,
        group=group,
        time=time,
        n_unlabelled=n_read - len(frame),
        numbers={name: number for name, number in numbers.items() if name not in apart},
    )


def _groups(
    features: pd.DataFrame, skip: Collection[str]
) -> tuple[GroupColumn | None, list[GroupColumn]]:
    """Return the column whose equal values mark rows that belong together, and all that may."""
    suspects = [each for each in group_columns(features, skip=skip) if each.is_likely]
    complete = [each for each in suspects if features[each.name].notna().all()]
    return (complete[0] if complete else None), suspects


def _unusable(features: pd.DataFrame) -> dict[str, str]:
    """Return the columns without information, with the reason."""
    why = dict.fromkeys(_among(features, features.isna().all()), "no value in any row")
    filled = features.drop(columns=list(why))
    numbers = filled.select_dtypes("number")
    infinite = _among(numbers, pd.DataFrame(np.isinf(numbers.astype(np.float64))).any())
    why |= dict.fromkeys(infinite, "infinite values")
    why |= dict.fromkeys(constant_columns(filled), "one value in all rows")
    why |= {name: f"equal to {other!r}" for name, other in duplicate_columns(filled)}
    why |= dict.fromkeys(id_columns(filled), "a value of its own in every row")
    return why


def _among(frame: pd.DataFrame, chosen: pd.Series) -> Sequence[str]:
    return [str(name) for name, is_one in zip(frame.columns, chosen, strict=True) if is_one]


def _plain(label: Any) -> Any:
    value = plain(label)
    return int(value) if isinstance(value, float) and value.is_integer() else value
