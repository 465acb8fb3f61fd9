"""Cross-validation folds, generated once per problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.arrays import Float, Int
from swarm.errors import ConfigError, DataError, check_known

Fold = tuple[Int, Int]
_FOLD_KINDS = ("stratified", "random", "group", "stratified_group", "time", "column")


def make_folds(
    # ``stratified`` (by class, or by each label separately), ``random``, ``group``,
    # ``stratified_group``, ``time`` (blocks of rows ordered by `time`, trained on the rows before
    # them) or ``column`` (each value of `column` is the fold in which a row is tested; rows with a
    # missing value are in the training rows of every fold, so that a single value gives a
    # hold-out).
    kind: str,
    target: NDArray[Any],  # (n_rows,) or (n_rows, n_labels)
    task: str,
    *,
    n_folds: int = 5,
    shuffle: bool = True,
    seed: int = 0,
    groups: NDArray[Any] | None = None,
    time: NDArray[Any] | None = None,
    column: NDArray[Any] | None = None,
    gap: int = 0,  # rows left out between training and test rows, for ``time``
) -> list[Fold]:
    """Split rows into folds: row positions, ascending except for ``time``.

    Folds that the rows do not allow are a DataError, other impossible ones a ConfigError.
    """
    check_known("kind of folds", kind, _FOLD_KINDS)
    if kind == "column":
        return _from_column(column)
    n_rows = len(target)
    if n_folds < 2:
        raise ConfigError(f"cross-validation needs at least 2 folds, got {n_folds}")
    if n_rows < n_folds:
        raise DataError(f"{n_rows} rows cannot make {n_folds} folds; use fewer folds or more rows")
    if kind == "time":
        return _forward(time, n_folds, gap)
    if kind == "stratified" and task == "multilabel":
        rng = np.random.default_rng(seed) if shuffle else None
        return _from_column(_iterative_stratification(target, n_folds, rng))
    groups = None if groups is None or "group" not in kind else complete_groups(groups)
    if groups is not None and groups.ndim > 1:
        raise DataError(f"groups must be one value for each row, got the shape {groups.shape}")
    _refuse_too_few(kind, target, task, groups, n_folds)
    from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

    splitters = {
        "random": KFold,
        "stratified": StratifiedKFold,
        "group": GroupKFold,
        "stratified_group": StratifiedGroupKFold,
    }
    splitter = splitters[kind](n_folds, shuffle=shuffle, random_state=seed if shuffle else None)
    return list(splitter.split(target, target, groups))


def _forward(time: NDArray[Any] | None, n_folds: int, gap: int) -> list[Fold]:
    """Return folds that train on the rows before each block of test rows."""
    from sklearn.model_selection import TimeSeriesSplit

    if time is None:
        raise ConfigError("folds of kind 'time' need the order of rows; name a time column")
    order = np.argsort(time, kind="stable")
    try:
        places = list(TimeSeriesSplit(n_folds, gap=gap).split(order))
    except ValueError as error:
        left_out, smaller = (f" with a gap of {gap} rows", " or a smaller gap") if gap else ("", "")
        raise DataError(
            f"{len(order)} rows cannot make {n_folds} folds in time{left_out}; use fewer "
            f"folds{smaller}"
        ) from error
    return [(order[train], order[test]) for train, test in places]


def refuse_missing(groups: Any) -> None:
    """Raise DataError if groups of rows are missing."""
    if not np.ndim(groups):
        raise DataError(f"groups must have a value for each row, got {groups!r}")
    # NumPy writes a missing value in a list of text as text.
    is_list = isinstance(groups, (list, tuple))
    is_missing = pd.isna(np.asarray(groups, dtype=object if is_list else None))
    if is_missing.any():
        raise DataError(
            f"groups are missing in {int(is_missing.sum())} of {len(is_missing)} rows; fill or drop"
            " them first"
        )


def complete_groups(groups: Any) -> NDArray[Any]:
    """Return groups as an array that splitters can sort; missing groups are a DataError."""
    refuse_missing(groups)
    values = np.asarray(groups)
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.dtype == object and values.ndim == 1:
        try:
            np.unique(values)
        except TypeError:  # numbers and text cannot be sorted
            return np.asarray(pd.factorize(values)[0])
    return values


def _refuse_too_few(
    kind: str, target: NDArray[Any], task: str, groups: NDArray[Any] | None, n_folds: int
) -> None:
    """Reject a target or groups that scikit-learn cannot divide into so many folds."""
    is_classes = task in ("binary", "multiclass")
    if "group" in kind:
        if groups is None:
            raise ConfigError(f"folds of kind {kind!r} need groups; pass the groups of the rows")
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
    """Assign each row to a fold, rarest label first, to the fold that lacks this label most."""
    # Ties are broken by the number of rows that a fold lacks, then by `rng`; None: the first fold.
    # Source: Sechidis, Tsoumakas and Vlahavas (2011), On the stratification of multi-label data,
    # ECML PKDD.
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


def partition_key(folds: Sequence[Fold]) -> frozenset[bytes]:
    """Return a key of a partition, whatever the order of its folds and rows."""
    return frozenset(np.sort(test).astype(np.int64).tobytes() for _, test in folds)
