"""The profile of a table: the role that each of its columns should have."""

from dataclasses import dataclass, field
from typing import Any

from swarm.errors import DataError
from swarm.findings.groups import GroupColumn
from swarm.findings.look import look_at
from swarm.json_data import plain
from swarm.problem.target import Task, task_of
from swarm.reader import with_model_dtypes
from tasks.sources.raw import Raw, labelled_rows, unknown_column

_MAX_SHARE_RARE = 0.1


@dataclass(frozen=True)
class Profile:
    """The columns of a table, and its target.

    Attributes
    ----------
    target : str
    task : str
    n_rows : int
    n_features : int
        Number of features that are left; a date is one.
    counts : dict
        Number of rows by class, the rarest first; empty for a regression.
    dropped : dict
        Reasons by column that should not be a feature.
    categorical : tuple of str
    dates : dict
        Formats of the columns of dates; None for timestamps.
    group : GroupColumn, optional
        Column whose equal values likely mark rows that belong together.
    time : str, optional
        Column of dates by which the rows are sorted.
    n_unlabelled : int
        Number of further rows, which have no target.
    numbers : dict
        A value of each category of numbers with signs.
    notes : dict
        Columns by note on cells that are not read as they are written.
    """

    target: str
    task: Task
    n_rows: int
    n_features: int
    counts: dict[Any, int] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    categorical: tuple[str, ...] = ()
    dates: dict[str, str | None] = field(default_factory=dict)
    group: GroupColumn | None = None
    time: str | None = None
    n_unlabelled: int = 0
    numbers: dict[str, str] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_rare(self) -> bool:
        """Whether a class has fewer rows than a tenth of an equal share would give two classes."""
        if not self.counts:
            return False
        share = min(self.counts.values()) / self.n_rows
        return share < _MAX_SHARE_RARE / max(1, len(self.counts) - 1)


def profile_of(raw: Raw, target: str) -> Profile:
    """Give every column of a table a role; a target that cannot be predicted is a DataError."""
    frame = raw.named_frame
    if target not in frame.columns:
        raise DataError(unknown_column("target", target, raw.source, frame.columns))
    n_read = len(frame)
    frame = with_model_dtypes(labelled_rows(frame, [target]))
    labels = frame[target]
    task = task_of(labels)
    aside = [name for name in raw.aside if name in frame.columns]
    features = frame.drop(columns=[target, *aside])
    look = look_at(features, labels.to_numpy(), task)
    complete = (suspect for suspect in look.groups if features[suspect.name].notna().all())
    group = next(complete, None)
    dropped = {column.name: column.reason for column in look.columns if column.reason}
    # Other suspects are no features either: they name, rather than describe.
    dropped |= {
        suspect.name: f"an identifier: {suspect.evidence}"
        for suspect in look.groups
        if suspect is not group
    }
    columns = [column for column in look.columns if column.name not in dropped]
    with_role = {look.time, *([] if group is None else [group.name])}
    categories = [
        column for column in columns if column.kind == "category" and column.name not in with_role
    ]
    counts: dict[Any, int] = {}
    if task in ("binary", "multiclass"):
        by_class = labels.value_counts().sort_values(kind="stable")
        # A category may have no rows left.
        counts = {_plain(label): int(n) for label, n in by_class[by_class > 0].items()}
    return Profile(
        target=target,
        task=task,
        n_rows=len(frame),
        n_features=sum(column.name not in with_role for column in columns),
        counts=counts,
        dropped={name: dropped[name] for name in features.columns if name in dropped},
        categorical=tuple(column.name for column in categories),
        dates={column.name: column.form or None for column in columns if column.kind == "date"},
        group=group,
        time=look.time,
        n_unlabelled=n_read - len(frame),
        numbers={column.name: column.form for column in categories if column.is_unread},
    )


def _plain(label: Any) -> Any:
    value = plain(label)
    return int(value) if isinstance(value, float) and value.is_integer() else value
