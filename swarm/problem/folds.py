"""Cross-validation folds, generated once per problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.arrays import Int
from swarm.errors import ConfigError, DataError, check_known
from swarm.problem.stratification import iterative_stratification
from swarm.problem.time_folds import LabelSpans, TimeWindows, forward_folds, purged_folds

__all__ = ["Fold", "make_folds", "partition_key", "repeated_folds"]

Fold = tuple[Int, Int]
Kind = Literal["stratified", "random", "group", "stratified_group", "time", "purged", "column"]
_KINDS = ("stratified", "random", "group", "stratified_group", "time", "purged", "column")


def make_folds(
    kind: str,
    target: NDArray[Any],
    task: str,
    *,
    n_folds: int = 5,
    shuffle: bool = True,
    seed: int = 0,
    groups: NDArray[Any] | None = None,
    time: NDArray[Any] | None = None,
    column: NDArray[Any] | None = None,
    windows: TimeWindows | None = None,
    label_end: NDArray[Any] | None = None,
) -> list[Fold]:
    """Split rows into folds.

    Parameters
    ----------
    kind
        ``stratified``, ``random``, ``group``, ``stratified_group``, ``time`` (blocks of rows
        ordered by `time`, trained on the rows before them: an expanding or, by `windows`, a rolling
        window), ``purged`` (blocks of rows ordered by `time`, trained on the rows on both sides
        whose labels do not overlap theirs) or ``column`` (each value of `column` is the fold in
        which a row is tested; rows with a missing value are in the training rows of every fold,
        so that a single value gives a hold-out).
        ``stratified`` preserves the share of each class, or of each label separately.
    target : (n_rows,) or (n_rows, n_labels)
    shuffle
        Whether to shuffle the rows, with `seed`, before splitting.
    windows
        Gap, window, horizon and embargo of the kinds ``time`` and ``purged``.
    label_end : (n_rows,), optional
        Time at which each label is known, for labels that look ahead; in place of a horizon.

    Returns
    -------
    list of (train, test)
        Row positions, int64, ascending for all kinds except ``time`` and ``purged``, where they are
        in order of time.

    Raises
    ------
    DataError
        If there are fewer rows, groups or members of a class than folds.
    ConfigError
        If the kind is unknown, or does not support the target or the windows.
    """
    check_known("kind of folds", kind, _KINDS)
    windows = windows or TimeWindows()
    misfit = windows.misfit(kind)
    if misfit is not None:
        raise ConfigError(misfit)
    n_rows = len(target)
    if kind != "column" and n_folds < 2:
        raise ConfigError(f"cross-validation needs at least 2 folds, got {n_folds}")
    if kind != "column" and n_rows < n_folds:
        raise DataError(f"{n_rows} rows cannot make {n_folds} folds; use fewer folds or more rows")
    if kind == "column":
        return _from_column(column)
    if kind in ("time", "purged"):
        return _in_time(kind, time, n_rows, n_folds, windows, label_end)
    if kind in ("group", "stratified_group"):
        return _by_group(kind, target, task, groups, n_folds, shuffle, seed)
    return _by_row(kind, target, task, n_folds, shuffle, seed)


def _by_row(
    kind: str, target: NDArray[Any], task: str, n_folds: int, shuffle: bool, seed: int
) -> list[Fold]:
    from sklearn.model_selection import KFold, StratifiedKFold

    state = seed if shuffle else None
    if kind == "random":
        splitter = KFold(n_folds, shuffle=shuffle, random_state=state)
        return list(splitter.split(target))
    if task == "multilabel":
        rng = np.random.default_rng(seed) if shuffle else None
        return _from_column(iterative_stratification(target, n_folds, rng))
    if task not in ("binary", "multiclass"):
        raise ConfigError(f"stratified folds need classes but the target is {task}; use 'random'")
    classes, counts = np.unique(target, return_counts=True)
    if counts.min() < n_folds:
        fewer = "use fewer folds" if counts.min() > 1 else "use folds of kind 'random'"
        raise DataError(
            f"class {classes.tolist()[counts.argmin()]!r} has fewer rows ({counts.min()}) than "
            f"there are folds ({n_folds}); {fewer}, or merge the class with another or remove its "
            "rows"
        )
    stratified = StratifiedKFold(n_folds, shuffle=shuffle, random_state=state)
    return list(stratified.split(target, target))


def _by_group(
    kind: str,
    target: NDArray[Any],
    task: str,
    groups: NDArray[Any] | None,
    n_folds: int,
    shuffle: bool,
    seed: int,
) -> list[Fold]:
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

    if groups is None:
        raise ConfigError(f"folds of kind {kind!r} need groups; name a group column")
    if kind == "stratified_group" and task not in ("binary", "multiclass"):
        raise ConfigError(
            f"folds of kind {kind!r} need classes but the target is {task}; use 'group'"
        )
    n_groups = len(np.unique(groups))
    if n_groups < n_folds:
        raise DataError(f"{n_groups} groups cannot make {n_folds} folds; use fewer folds")
    splitter = GroupKFold if kind == "group" else StratifiedGroupKFold
    state = seed if shuffle else None
    made = splitter(n_folds, shuffle=shuffle, random_state=state)
    return list(made.split(target, target, groups))


def _in_time(
    kind: str,
    time: NDArray[Any] | None,
    n_rows: int,
    n_folds: int,
    windows: TimeWindows,
    label_end: NDArray[Any] | None,
) -> list[Fold]:
    if time is None:
        raise ConfigError(f"folds of kind {kind!r} need the order of rows; name a time column")
    if n_rows < n_folds + 1:
        raise DataError(f"{n_rows} rows cannot make {n_folds} folds in time; use fewer folds")
    spans = LabelSpans.of(time, windows.horizon, label_end)
    drawn = forward_folds if kind == "time" else purged_folds
    return drawn(spans, n_folds, windows)


def _from_column(column: NDArray[Any] | None) -> list[Fold]:
    if column is None:
        raise ConfigError("folds of kind 'column' need a fold column; name one")
    missing = np.asarray(pd.isna(column))
    names = np.unique(column[~missing])
    if len(names) == 0:
        raise DataError("the fold column is empty; name the fold of the rows to test on")
    if len(names) == 1 and not missing.any():
        raise DataError(
            f"the fold column has the single value {names.tolist()[0]!r}, which leaves no training"
            " rows; it needs a second value, or rows without a value"
        )
    tests = [np.asarray(column == name) & ~missing for name in names]
    return [(np.flatnonzero(~test), np.flatnonzero(test)) for test in tests]


def repeated_folds(
    first: Sequence[Fold], draw: Callable[[int], Sequence[Fold]], seed: int, repeats: int
) -> list[Fold]:
    """Return the folds of several partitions of the rows, one partition after the other.

    Parameters
    ----------
    first
        The first partition.
    draw : callable
        Returns the folds of a seed.
    seed : int
        Seed of the first partition. The others follow from it and their number, and differ from
        those of a confirmation on fresh folds.
    repeats : int
        Number of partitions.

    Raises
    ------
    DataError
        If two partitions are equal, or have different numbers of folds.
    """
    folds, seen = list(first), {partition_key(first)}
    for repeat in range(1, repeats):
        made = draw(int(np.random.SeedSequence([seed, repeat, 1]).generate_state(1)[0]))
        seen.add(partition_key(made))
        if len(seen) <= repeat or len(made) != len(first):
            raise DataError(
                f"{repeats} repeats need {repeats} different partitions into {len(first)} folds, "
                f"but partition {repeat + 1} repeats an earlier one or has {len(made)} folds; use "
                "fewer repeats, or folds of another kind"
            )
        folds += made
    return folds


def partition_key(folds: Sequence[Fold]) -> frozenset[bytes]:
    """Return a key of a partition, whatever the order of its folds and rows."""
    return frozenset(np.sort(test).astype(np.int64).tobytes() for _, test in folds)
