"""What a table looks like: the role that each of its columns should have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from swarm.errors import DataError
from swarm.findings.groups import GroupColumn
from swarm.findings.look import look_at
from swarm.json_data import plain
from swarm.problem.target import Task, task_of
from swarm.reader import with_model_dtypes
from tasks.sources.raw import Raw, labelled_rows, unknown_column

_RARE = 0.1


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
    """Give every column of a table a role; a target that cannot be predicted is a DataError."""
    frame = raw.frame.set_axis([str(name) for name in raw.frame.columns], axis=1)
    if target not in frame.columns:
        raise DataError(unknown_column("target", target, raw.source, frame.columns))
    n_read = len(frame)
    frame = with_model_dtypes(labelled_rows(frame, [target]))
    answer = frame[target]
    task = task_of(answer)
    features = frame.drop(columns=[target, *(n for n in raw.aside if n in frame.columns)])
    look = look_at(features, answer.to_numpy(), task)
    group = next((each for each in look.groups if features[each.name].notna().all()), None)
    dropped = {column.name: column.reason for column in look.columns if column.reason}
    # Other suspects are no features either: they name, rather than describe.
    dropped |= {
        suspect.name: f"an identifier: {suspect.evidence}"
        for suspect in look.groups
        if suspect is not group
    }
    left = [column for column in look.columns if column.name not in dropped]
    apart = {look.time, *([] if group is None else [group.name])}
    categories = [c for c in left if c.kind == "category" and c.name not in apart]
    has_classes = task in ("binary", "multiclass")
    counts = answer.value_counts().sort_values(kind="stable") if has_classes else None
    # A category may have no rows left.
    counts = None if counts is None else counts[counts > 0]
    return Profile(
        target=target,
        task=task,
        n_rows=len(frame),
        n_features=sum(column.name not in apart for column in left),
        counts={} if counts is None else {_plain(label): int(n) for label, n in counts.items()},
        dropped={name: dropped[name] for name in features.columns if name in dropped},
        categorical=tuple(column.name for column in categories),
        dates={column.name: column.form or None for column in left if column.kind == "date"},
        group=group,
        time=look.time,
        n_unlabelled=n_read - len(frame),
        numbers={column.name: column.form for column in categories if column.is_unread},
    )


def _plain(label: Any) -> Any:
    value = plain(label)
    return int(value) if isinstance(value, float) and value.is_integer() else value
