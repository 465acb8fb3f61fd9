"""Train/test split: rows for the search, and test rows that it never sees."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.errors import DataError, check_known
from swarm.findings import Finding, make_finding
from swarm.problem.target import task_of
from swarm.wording import quoted
from tasks.table import Table

Rows = NDArray[np.intp]
# The target where it has classes.
Classes = pd.Series | None


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test rows of a table, as ascending, disjoint positions, neither empty.

    The rows of a gap in time are in neither.
    """

    train: Rows
    test: Rows
    findings: tuple[Finding, ...] = ()  # what makes the test metrics doubtful


def split(
    table: Table,
    # "random"; "stratified": equal class shares on both sides; "group": the rows of a group stay on
    # one side, in a classification with class shares as similar as possible; "time": the latest
    # rows are the test rows, rows with the same time stay on one side; "column": given by the part
    # column.
    kind: str,
    *,
    # Share of the rows. Approximate for "group" (one of ``round(1 / test_size)`` folds in a
    # classification, a share of the groups in a regression) and "time", ignored by "column".
    test_size: float = 0.3,
    seed: int = 0,
    estimator: Any = None,  # may decide whether the target has classes, see `task_of`
    gap: int = 0,  # rows left out between training and test rows, for "time"
) -> Split:
    """Split a table; DataError if it does not allow the kind, or a side would be empty."""
    if not 0 < test_size < 1:
        raise DataError(f"test_size must be between 0 and 1, got {test_size!r}; 0.3 is common")
    kinds = {
        "random": _split_at_random,
        "stratified": _split_stratified,
        "group": _split_by_group,
        "time": _split_in_time,
        "column": _split_by_column,
    }
    check_known("split", kind, kinds, DataError)
    test = np.zeros(len(table.features), dtype=bool)
    classes = classes_of(table, estimator)
    test[kinds[kind](table, classes, test_size, seed)] = True
    train_rows, test_rows = np.flatnonzero(~test), np.flatnonzero(test)
    if kind == "time" and table.time is not None:
        train_rows = _before_gap(table.time, train_rows, gap)
    for side, rows in (("train", train_rows), ("test", test_rows)):
        if not len(rows):
            raise DataError(
                f"split {kind!r} of {len(test)} rows leaves no {side} rows; "
                "use more rows or another test_size"
            )
    findings = _shared_group_findings(table, test) if kind in ("random", "stratified") else []
    if classes is not None:
        findings += _lost_class_findings(kind, classes, train_rows, test_rows)
    return Split(train_rows, test_rows, tuple(findings))


def time_findings(table: Table, kind: str, folds: str) -> list[Finding]:
    """Find rows that have times, or are sorted by a date, but are divided without them."""
    if kind == "time" and folds in ("stratified", "random"):
        text = f"the split is in time, but the folds are {folds!r}"
        return [make_finding("SWM109", text, [] if table.time is None else [str(table.time.name)])]
    if kind in ("time", "column"):
        return []
    if table.time is not None:
        name = str(table.time.name)
        text = f"{name!r} orders the rows in time, but the split is {kind!r}"
        return [make_finding("SWM107", text, [name])]
    if table.in_order_of is None or kind == "group":
        return []
    text = f"the rows are in order of {table.in_order_of!r}, but the split is {kind!r}"
    return [make_finding("SWM107", text, [table.in_order_of])]


def _before_gap(time: pd.Series, rows: Rows, gap: int) -> Rows:
    """Return the earlier rows without the latest ones, ascending."""
    order = np.argsort(time.to_numpy()[rows], kind="stable")
    before = np.sort(rows[order[: max(len(rows) - gap, 0)]])
    if not len(before):
        raise DataError(
            f"split 'time' leaves no training rows: gap {gap} leaves out all {len(rows)} rows "
            "before the test rows; use a smaller gap or test_size"
        )
    return before


def classes_of(table: Table, estimator: Any) -> Classes:
    """Return the target of a classification, None otherwise."""
    target = table.target
    if isinstance(target, pd.Series) and task_of(target, estimator) in ("binary", "multiclass"):
        return target
    return None


def _split_at_random(table: Table, classes: Classes, test_size: float, seed: int) -> Rows:
    n_rows = len(table.features)
    return np.random.default_rng(seed).permutation(n_rows)[: round(test_size * n_rows)]


def _split_stratified(table: Table, classes: Classes, test_size: float, seed: int) -> Rows:
    from sklearn.model_selection import StratifiedShuffleSplit

    if classes is None:
        task = task_of(table.target)
        raise DataError(f"split 'stratified' needs classes, the target is {task}; use 'random'")
    codes, labels = pd.factorize(classes)
    counts = np.bincount(codes)
    if counts.min() < 2:
        lone = labels.tolist()[int(counts.argmin())]
        raise DataError(
            f"class {lone!r} of the target has a single row, which cannot be on both sides; "
            "remove the row, or use split 'random'"
        )
    n_test = int(np.ceil(test_size * len(codes)))
    small = min(n_test, len(codes) - n_test)
    if small < len(labels):
        raise DataError(
            f"split 'stratified' leaves {small} rows on a side for {len(labels)} classes; "
            "use more rows or another test_size"
        )
    splitter = StratifiedShuffleSplit(n_splits=1, test_size=test_size, random_state=seed)
    _, test = next(splitter.split(codes, codes))
    return np.asarray(test)


def _split_by_group(table: Table, classes: Classes, test_size: float, seed: int) -> Rows:
    from sklearn.model_selection import GroupShuffleSplit

    if table.groups is None:
        raise DataError("split 'group' needs a group column; set 'group' in the data")
    groups = pd.factorize(table.groups)[0]
    n_groups = int(groups.max()) + 1
    if n_groups < 2:
        raise DataError(f"split 'group' needs two groups, {table.groups.name!r} has one")
    if classes is not None:
        return _stratified_group(pd.factorize(classes)[0], groups, test_size, seed)
    # scikit-learn refuses a share that rounds to 0 groups.
    n_test = min(max(round(test_size * n_groups), 1), n_groups - 1)
    splitter = GroupShuffleSplit(n_splits=1, test_size=n_test, random_state=seed)
    _, test = next(splitter.split(groups, groups=groups))
    return np.asarray(test)


def _stratified_group(classes: Rows, groups: Rows, test_size: float, seed: int) -> Rows:
    """Return the fold that loses the fewest classes and has the most similar class shares."""
    from sklearn.model_selection import StratifiedGroupKFold

    # Above a half the fold is the training side: 0.6 and 0.9 would both give two folds.
    small = min(test_size, 1 - test_size)
    n_folds = min(round(1 / small), int(groups.max()) + 1, int(np.bincount(classes).max()))
    splitter = StratifiedGroupKFold(max(n_folds, 2), shuffle=True, random_state=seed)
    share = np.bincount(classes) / len(classes)
    best: tuple[tuple[int, float], Rows] | None = None
    with warnings.catch_warnings():
        # A class with fewer rows than folds: the ranking below handles it.
        warnings.simplefilter("ignore", UserWarning)
        folds = list(splitter.split(classes, classes, groups))
    for rest, fold in folds:
        if not len(fold) or not len(rest):
            continue
        counts = np.bincount(classes[fold], minlength=len(share))
        others = np.bincount(classes[rest], minlength=len(share))
        lost = int((counts == 0).sum() + (others == 0).sum())
        apart = np.abs(counts / len(fold) - share).sum() + abs(len(fold) / len(classes) - small)
        if best is None or (lost, float(apart)) < best[0]:
            best = (lost, float(apart)), (fold if test_size <= 0.5 else rest)
    return best[1] if best else np.empty(0, dtype=np.intp)


def _split_in_time(table: Table, classes: Classes, test_size: float, seed: int) -> Rows:
    if table.time is None:
        raise DataError("split 'time' needs a time column; set 'time' in the data")
    moments = pd.factorize(table.time, sort=True)[0]
    order = np.argsort(moments, kind="stable")
    starts = np.flatnonzero(np.diff(moments[order])) + 1
    if not len(starts):
        raise DataError(f"split 'time' needs two times, {table.time.name!r} has one in every row")
    wanted = len(order) - test_size * len(order)
    return order[starts[np.abs(starts - wanted).argmin()] :]


def _split_by_column(table: Table, classes: Classes, test_size: float, seed: int) -> Rows:
    if table.part is None:
        raise DataError("split 'column' needs a part column; set 'part' in the data")
    return np.flatnonzero((table.part == "test").to_numpy())


def _shared_group_findings(table: Table, test: NDArray[np.bool_]) -> list[Finding]:
    if table.groups is None:
        return []
    groups = pd.factorize(table.groups)[0]
    shared = np.intersect1d(groups[test], groups[~test])
    if not len(shared):
        return []
    text = (
        f"this split puts rows of one group on both sides ({len(shared)} of "
        f"{table.groups.nunique()} groups in {table.groups.name!r} are shared), so test figures "
        "are optimistic"
    )
    return [make_finding("SWM101", text)]


def _lost_class_findings(kind: str, classes: pd.Series, train: Rows, test: Rows) -> list[Finding]:
    findings = []
    for side, rows in (("training", train), ("test", test)):
        lost = set(classes.unique().tolist()) - set(classes.iloc[rows].unique().tolist())
        if not lost:
            continue
        text = f"no {side} row is of class {quoted(sorted(lost, key=str), 3)}"
        remedy = None
        if kind == "group":
            text += ": groups cannot be on both sides"
            remedy = "the test figures do not cover it"
        elif classes.isin(lost).sum() == 1:
            remedy = "merge the class with another or remove its row, in the table"
        findings.append(make_finding("SWM102", text, remedy=remedy))
    return findings
