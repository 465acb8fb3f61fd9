"""Splitters of rows in time with scikit-learn's interface, for labels that look ahead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator

from swarm.arrays import Int
from swarm.errors import ConfigError, DataError
from swarm.problem.folds import refuse_missing
from swarm.problem.time_folds import LabelSpans, TimeWindows, forward_folds, purged_folds


class TimeSplitter(BaseCrossValidator):  # type: ignore[misc]
    """Reads times, and the ends of labels, from `groups`."""

    # With metadata routing, as for the group splitters of scikit-learn.
    __metadata_request__split: ClassVar[dict[str, bool]] = {"groups": True}

    # Draws the folds of spans.
    _draw: ClassVar[Any]
    n_splits: int

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds."""
        return self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Int, Int]]:
        """Yield training and test rows of each fold, in order of time.

        Parameters
        ----------
        X : (n_rows, n_features)
        y
            Ignored.
        groups : (n_rows,) or (n_rows, 2), optional
            Time of each row; in two columns also the time at which its label is known, in place of
            `horizon`. Default: rows are in order of time.

        Raises
        ------
        InputError
            If the rows cannot be divided, or a parameter is out of range.
        """
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        names = {each.name for each in fields(TimeWindows)} & vars(self).keys()
        windows = TimeWindows(**{name: getattr(self, name) for name in names})
        n_splits = self.n_splits
        if isinstance(n_splits, bool) or not isinstance(n_splits, (int, np.integer)):
            raise ConfigError(f"n_splits must be a whole number, got {n_splits!r}")
        if n_splits < 2:
            raise ConfigError(f"n_splits must be at least 2, got {n_splits}")
        if n_rows <= n_splits:
            raise DataError(f"{n_rows} rows cannot make {n_splits} folds in time; use fewer folds")
        yield from self._draw(_spans(groups, n_rows, windows.horizon), n_splits, windows)


class PurgedTimeSeriesSplit(TimeSplitter):
    """Train on rows before each block of test rows, without labels that reach into it.

    As :class:`sklearn.model_selection.TimeSeriesSplit`, with times and a horizon.

    Parameters
    ----------
    n_splits : int
        Number of folds.
    gap : int
        Rows left out between training and test rows.
    max_train_size : int, optional
        Most training rows of a fold: a rolling window. Default: all earlier rows.
    test_size : int, optional
        Test rows of a fold. Default: ``n_rows // (n_splits + 1)``.
    horizon : int
        Number of rows that every label looks ahead. Training rows whose label is not known before
        the first test row are purged.

    Examples
    --------
    >>> import numpy as np
    >>> from swarm import PurgedTimeSeriesSplit
    >>> splitter = PurgedTimeSeriesSplit(2, max_train_size=3, horizon=1)
    >>> for train, test in splitter.split(np.zeros((9, 1))):
    ...     print(train, test)
    [0 1] [3 4 5]
    [2 3 4] [6 7 8]
    """

    _draw = staticmethod(forward_folds)

    def __init__(
        self,
        n_splits: int = 5,
        *,
        gap: int = 0,
        max_train_size: int | None = None,
        test_size: int | None = None,
        horizon: int = 0,
    ) -> None:
        self.n_splits = n_splits
        self.gap = gap
        self.max_train_size = max_train_size
        self.test_size = test_size
        self.horizon = horizon


class PurgedKFold(TimeSplitter):
    """Test on one block of rows in time after the other, and train on the rows on both sides.

    Training rows whose labels overlap those of test rows in time are purged. Every row is tested
    once, which tells more than forward folds, but models are also trained on later rows.

    Parameters
    ----------
    n_splits : int
        Number of folds.
    horizon : int
        Number of rows that every label looks ahead.
    embargo : int
        Rows left out after the labels of the test rows, as the features of the next rows may depend
        on them.

    References
    ----------
    López de Prado (2018), Advances in Financial Machine Learning, chapter 7.

    Examples
    --------
    >>> import numpy as np
    >>> from swarm import PurgedKFold
    >>> for train, test in PurgedKFold(3, horizon=1, embargo=1).split(np.zeros((9, 1))):
    ...     print(train, test)
    [5 6 7 8] [0 1 2]
    [0 1 8] [3 4 5]
    [0 1 2 3 4] [6 7 8]
    """

    _draw = staticmethod(purged_folds)

    def __init__(self, n_splits: int = 5, *, horizon: int = 0, embargo: int = 0) -> None:
        self.n_splits = n_splits
        self.horizon = horizon
        self.embargo = embargo


def _in_order(times: NDArray[Any]) -> NDArray[Any]:
    """Return times that can be compared; text must be ISO 8601, whose order is that of time."""
    try:
        if times.dtype.kind in "OUT" and any(isinstance(time, str) for time in times.ravel()):
            parsed = pd.to_datetime(times.ravel(), format="ISO8601", utc=True)
            return parsed.tz_localize(None).to_numpy().reshape(times.shape)
        np.sort(times, axis=None)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"groups have times such as {times.ravel()[0]!r}; use numbers, dates of one kind, or "
            "ISO dates like 2024-01-31"
        ) from error
    return times


def _spans(groups: Any, n_rows: int, horizon: int) -> LabelSpans:
    """Return the spans of labels from times, or times and ends."""
    if groups is None:
        return LabelSpans.of(np.arange(n_rows), horizon)
    times = np.asarray(groups)
    if times.shape not in ((n_rows,), (n_rows, 1), (n_rows, 2)):
        raise DataError(
            f"groups must be the time of each of {n_rows} rows, or their times and the ends of "
            f"their labels in two columns, got the shape {times.shape}"
        )
    refuse_missing(groups)
    times = _in_order(times)
    if times.size == n_rows:
        return LabelSpans.of(times.ravel(), horizon)
    if horizon:
        raise ConfigError(
            f"horizon {horizon} and the ends of labels are both given; leave out one of them"
        )
    return LabelSpans.of(times[:, 0], label_end=times[:, 1])
