"""Train/test split: rows for the search, and test rows that it never sees."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from swarm.arrays import Int
from swarm.errors import DataError
from swarm.findings import Finding, make_finding
from swarm.problem.target import task_of
from swarm.protocols import Estimator
from swarm.rows import Fold, Rows, hold_out
from swarm.wording import quoted
from tasks.table import Table


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test rows of a table, as ascending, disjoint positions, neither empty.

    The rows of a gap in time are in neither.

    Attributes
    ----------
    train : int64 (n_train,)
    test : int64 (n_test,)
    findings : tuple of Finding
        Reasons to doubt the metrics on the test rows.
    """

    train: Int
    test: Int
    findings: tuple[Finding, ...] = ()


def rows_of(table: Table, estimator: Estimator | None = None) -> Rows:
    """Return the rows of a table; the estimator may decide whether the target has classes."""

    def values(column: pd.Series | None) -> np.ndarray | None:
        return None if column is None else column.to_numpy()

    return Rows(
        table.features,
        table.target,
        values(table.groups),
        values(table.weight),
        task=task_of(table.target, estimator),
        time=values(table.time),
        column=values(table.fold),
    )


def split(
    table: Table,
    kind: str,
    *,
    test_size: float = 0.3,
    seed: int = 0,
    estimator: Estimator | None = None,
    gap: int = 0,
) -> Split:
    """Split a table; InputError if it does not allow the kind, or a side would be empty.

    Parameters
    ----------
    table : Table
    kind : {"random", "stratified", "group", "time", "column"}
        How rows are divided.

        - "stratified": equal class shares on both sides
        - "group": the rows of a group stay on one side, in a classification with class shares as
          similar as possible
        - "time": the latest rows are the test rows; rows with the same time stay on one side
        - "column": given by the part column
    test_size : float
        Share of the rows or of the groups, ignored by "column".
    seed : int
    estimator : estimator, optional
        Model, which may decide whether the target has classes.
    gap : int
        Rows left out between training and test rows, for "time".
    """
    rows = rows_of(table, estimator)
    if kind == "column":
        if table.part is None:
            raise DataError("split 'column' needs a part column; set 'part' in the data")
        rows = replace(rows, column=table.part.where(table.part == "test").to_numpy())
    fold_kind = "stratified_group" if kind == "group" and rows.has_classes else kind
    try:
        train, test = hold_out(rows, fold_kind, test_size, seed=seed, gap=gap)
    except DataError as error:
        raise DataError(f"split {kind!r}: {error}") from None
    findings = group_findings(table, [(train, test)], "the split")
    if rows.has_classes:
        findings += _lost_class_findings(kind, pd.Series(rows.labels), train, test)
    return Split(train, test, tuple(findings))


def time_findings(table: Table, kind: str, folds: str) -> list[Finding]:
    """Find rows that have times, or are sorted by a date, but are divided without them."""
    if kind == "time" and folds in ("stratified", "random"):
        text = f"the split is in time, but the folds are {folds!r}"
        columns = [] if table.time is None else [str(table.time.name)]
        remedy = "set folds.kind to 'time', or to 'auto', which follows the split"
        return [make_finding("SWM107", text, columns, remedy=remedy)]
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


def group_findings(table: Table, folds: Sequence[Fold], where: str) -> list[Finding]:
    """Find groups on both sides of the split, or of a fold."""
    if table.groups is None:
        return []
    groups = pd.factorize(table.groups)[0]
    shared = {
        int(group) for train, test in folds for group in np.intersect1d(groups[train], groups[test])
    }
    if not shared:
        return []
    name = str(table.groups.name)
    text = f"{len(shared)} of {groups.max() + 1} groups in {name!r} are on both sides of {where}"
    return [make_finding("SWM101", text, [name])]


def _lost_class_findings(kind: str, classes: pd.Series, train: Int, test: Int) -> list[Finding]:
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
