"""Cross-validation folds, generated once per problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.arrays import Float, Int
from swarm.errors import ConfigError, DataError, check_known
from swarm.problem.time_folds import (
    TIME_KINDS,
    LabelSpans,
    TimeWindows,
    forward_folds,
    purged_folds,
)

Fold = tuple[Int, Int]
_KINDS = ("stratified", "random", "group", "stratified_group", *TIME_KINDS, "column")


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
    if kind == "column":
        return _from_column(column)
    n_rows = len(target)
    if n_folds < 2:
        raise ConfigError(f"cross-validation needs at least 2 folds, got {n_folds}")
    if n_rows < n_folds:
        raise DataError(f"{n_rows} rows cannot make {n_folds} folds; use fewer folds or more rows")
    if kind in TIME_KINDS:
        if time is None:
            raise ConfigError(f"folds of kind {kind!r} need the order of rows; name a time column")
        if n_rows < n_folds + 1:
            raise DataError(f"{n_rows} rows cannot make {n_folds} folds in time; use fewer folds")
        spans = LabelSpans.of(time, windows.horizon, label_end)
        return (forward_folds if kind == "time" else purged_folds)(spans, n_folds, windows)
    if kind == "stratified" and task == "multilabel":
        rng = np.random.default_rng(seed) if shuffle else None
        return _from_column(_iterative_stratification(target, n_folds, rng))
    _refuse_too_few(kind, target, task, groups, n_folds)
    from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

    splitters = {
        "random": KFold,
        "stratified": StratifiedKFold,
        "group": GroupKFold,
        "stratified_group": StratifiedGroupKFold,
    }
    splitter = splitters[kind](n_folds, shuffle=shuffle, random_state=seed if shuffle else None)
    return list(splitter.split(target, target, groups if "group" in kind else None))


def _refuse_too_few(
    kind: str, target: NDArray[Any], task: str, groups: NDArray[Any] | None, n_folds: int
) -> None:
    """Reject a target or groups that scikit-learn cannot divide into so many folds."""
    is_classes = task in ("binary", "multiclass")
    if "group" in kind:
        if groups is None:
            raise ConfigError(f"folds of kind {kind!r} need groups; name a group column")
        if kind == "stratified_group" and not is_classes:
            raise ConfigError(
                f"folds of kind {kind!r} need classes but the target is {task}; use 'group'"
            )
        n_groups = len(np.unique(groups))
        if n_groups < n_folds:
            raise DataError(f"{n_groups} groups cannot make {n_folds} folds; use fewer folds")
    if kind != "stratified":
        return
    if not is_classes:
        raise ConfigError(f"stratified folds need classes but the target is {task}; use 'random'")
    classes, counts = np.unique(target, return_counts=True)
    if counts.min() < n_folds:
        fewer = "use fewer folds" if counts.min() > 1 else "use folds of kind 'random'"
        raise DataError(
            f"class {classes.tolist()[counts.argmin()]!r} has fewer rows ({counts.min()}) than "
            f"there are folds ({n_folds}); {fewer}, or merge the class with another or remove its "
            "rows"
        )


def _iterative_stratification(
    target: NDArray[Any], n_folds: int, rng: np.random.Generator | None
) -> Int:
    """Assign each row to a fold, rarest label first, to the fold that lacks this label most.

    Ties are broken by the number of rows that a fold lacks, then at random. A label with fewer
    rows than folds is missing from some folds, which is not an error.

    `target` has 0 or 1 for each label. `rng` shuffles rows and breaks ties; None: rows in their
    order, ties to the first fold.

    References
    ----------
    Sechidis, Tsoumakas and Vlahavas (2011), On the stratification of multi-label data, ECML
    PKDD. The packages that implement it are no longer maintained.
    """
    n_rows, n_labels = target.shape
    order = np.arange(n_rows) if rng is None else rng.permutation(n_rows)
    chance = np.zeros((n_rows, n_folds)) if rng is None else rng.random((n_rows, n_folds))
    # The last column marks all rows: its deficit is the number of rows that a fold lacks.
    labels = np.column_stack([target[order] != 0, np.ones(n_rows, dtype=bool)])
    lacking = np.repeat(labels.sum(axis=0)[:, None] / n_folds, n_folds, axis=1)
    placed = np.full(n_rows, -1, dtype=np.int64)
    open_rows = np.ones(n_rows, dtype=bool)
    while open_rows.any():
        left = labels[open_rows, :n_labels].sum(axis=0)
        rarest = int(np.where(left > 0, left, n_rows + 1).argmin()) if left.any() else n_labels
        rows = np.flatnonzero(open_rows & labels[:, rarest])
        for row in rows:
            fold = _most_lacking(lacking[rarest], lacking[n_labels], chance[row])
            placed[row] = fold
            lacking[labels[row], fold] -= 1.0
        open_rows[rows] = False
    fold_of = np.empty(n_rows, dtype=np.int64)
    fold_of[order] = placed
    return fold_of


def _most_lacking(of_label: Float, of_rows: Float, chance: Float) -> int:
    best = np.flatnonzero(of_label == of_label.max())
    if len(best) > 1:
        best = best[of_rows[best] == of_rows[best].max()]
    return int(best[chance[best].argmax()])


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
