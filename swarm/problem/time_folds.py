"""Folds of rows in order of time: windows, gaps, purging and an embargo.

Forward folds train on earlier rows only; purged folds train on both sides of a block of test rows
(López de Prado, 2018, Advances in Financial Machine Learning, chapter 7). A label that looks ahead,
such as the sales of the next week, is known only some time after its row. Purging leaves out the
training rows whose labels overlap those of test rows in time; an embargo leaves out some rows more
after the test rows, whose features may depend on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from swarm.arrays import Bool, Int
from swarm.checks import require
from swarm.errors import DataError

# Kinds of folds that follow from the order of time alone.
TIME_KINDS = ("time", "purged")
# The kind of folds that each parameter is for.
_FOR = {"gap": "time", "max_train_size": "time", "test_size": "time", "embargo": "purged"}
_INSTEAD = {
    "gap": "use horizon for rows before the test rows and embargo for rows after them",
    "embargo": "use gap for rows before the test rows",
}


@dataclass(frozen=True)
class TimeWindows:
    """Which rows of an order in time are trained and tested on; all values are numbers of rows."""

    gap: int = 0  # left out between the training rows and the test rows after them
    # the latest rows: a rolling window; None: all, an expanding one
    max_train_size: int | None = None
    test_size: int | None = None  # None: the rows divided by the number of folds plus one
    embargo: int = 0  # left out after the labels of the test rows, where training rows follow
    horizon: int = 0  # rows that every label looks ahead

    def __post_init__(self) -> None:
        for name in ("gap", "embargo", "horizon"):
            require(name, getattr(self, name), at_least=0, whole=True)
        for name in ("max_train_size", "test_size"):
            if getattr(self, name) is not None:
                require(name, getattr(self, name), at_least=1, whole=True)

    def window_conflict(self, kind: str) -> str | None:
        """Return why folds of a kind cannot have these windows, or None; any kind has a horizon."""
        for name, wanted in _FOR.items():
            value = getattr(self, name)
            if value and kind != wanted:
                instead = _INSTEAD.get(name) if kind in TIME_KINDS else None
                return (
                    f"{name} {value} is for folds of kind {wanted!r}, got kind {kind!r}; "
                    f"{instead or f'set the kind to {wanted!r}'}, or leave it out"
                )
        return None


@dataclass(frozen=True, eq=False)
class LabelSpans:
    """The order of rows in time, and the span of time that each label depends on."""

    order: Int  # (n_rows,), positions in order of time; rows of the same time in their own order
    start: Int  # (n_rows,), first moment of each label as a rank; the interval is closed
    end: Int  # (n_rows,), its last moment

    @classmethod
    def of(
        cls, time: NDArray[Any], horizon: int = 0, label_end: NDArray[Any] | None = None
    ) -> Self:
        """Rank rows by their time; a label that ends before its row is a DataError.

        Labels look `horizon` rows ahead, or are known at the times `label_end` (n_rows,).
        """
        n_rows = len(time)
        order = np.argsort(time, kind="stable")
        if label_end is None:
            start = np.empty(n_rows, dtype=np.int64)
            start[order] = np.arange(n_rows)
            return cls(order, start, start + horizon)
        _, ranks = np.unique(np.concatenate([time, label_end]), return_inverse=True)
        start, end = ranks[:n_rows], ranks[n_rows:]
        if (end < start).any():
            row = int(np.argmax(end < start))
            raise DataError(f"the label of row {row} is known before its time; correct the column")
        return cls(order, start, end)

    def overlapping(self, rows: NDArray[Any], tested: NDArray[Any]) -> Bool:
        """Return which of some rows have a label that overlaps that of a tested row in time."""
        if not len(tested):
            return np.zeros(len(rows), dtype=bool)
        by_start = tested[np.argsort(self.start[tested], kind="stable")]
        latest = np.maximum.accumulate(self.end[by_start])
        # Of the tested labels that begin before this one ends, the last to end decides.
        begun = np.searchsorted(self.start[by_start], self.end[rows], side="right")
        overlaps: Bool = (begun > 0) & (latest[np.maximum(begun - 1, 0)] >= self.start[rows])
        return overlaps


def training_rows_before(spans: LabelSpans, first: int, windows: TimeWindows) -> Int:
    """Return places in the order of time whose labels are known before the `first` test row."""
    start, end = spans.start[spans.order], spans.end[spans.order]
    places: Int = np.arange(max(first - windows.gap, 0))
    places = places[end[places] < start[first]]
    return places if windows.max_train_size is None else places[-windows.max_train_size :]


def forward_folds(spans: LabelSpans, n_folds: int, windows: TimeWindows) -> list[tuple[Int, Int]]:
    """Return folds that train on the rows before each block of test rows."""
    # Without a horizon they equal those of scikit-learn's TimeSeriesSplit.
    n_rows = len(spans.order)
    size = n_rows // (n_folds + 1) if windows.test_size is None else windows.test_size
    if size * n_folds >= n_rows:
        raise DataError(
            f"{n_rows} rows cannot make {n_folds} folds in time of {size} test rows each; use "
            "fewer folds, or a smaller test_size"
        )
    folds = []
    for number, first in enumerate(range(n_rows - n_folds * size, n_rows, size), 1):
        train = training_rows_before(spans, first, windows)
        if not len(train):
            raise DataError(
                f"fold {number} of {n_folds} in time has no training rows left: {first} rows are "
                f"before its test rows, and gap and horizon leave out all of them; use fewer folds "
                "or a smaller gap"
            )
        folds.append((spans.order[train], spans.order[first : first + size]))
    return folds


def purged_folds(spans: LabelSpans, n_folds: int, windows: TimeWindows) -> list[tuple[Int, Int]]:
    """Return folds that test on one block of rows each and train on the rows on both sides."""
    # Without horizon and embargo they equal those of scikit-learn's KFold on rows in order.
    n_rows = len(spans.order)
    start, end = spans.start[spans.order], spans.end[spans.order]
    folds = []
    for number, block in enumerate(np.array_split(np.arange(n_rows), n_folds), 1):
        before, after = np.arange(block[0]), np.arange(block[-1] + 1, n_rows)
        before = before[end[before] < start[block[0]]]
        after = after[start[after] > end[block].max()][windows.embargo :]
        train = np.concatenate([before, after])
        if not len(train):
            raise DataError(
                f"fold {number} of {n_folds} has no training rows left after purging: horizon and "
                f"embargo leave out all {n_rows - len(block)}; use a smaller embargo, or a target "
                "that looks less far ahead"
            )
        folds.append((spans.order[train], spans.order[block]))
    return folds
