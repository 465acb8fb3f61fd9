"""The table of a flow: features, target, and columns with other roles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.problem.problem import Problem
from swarm.reader import Reader
from swarm.rows import Rows


@dataclass(frozen=True, eq=False)
class Table:
    """A validated data set, with a role for every column.

    All parts have the same rows in the same order and an index from 0.
    """

    name: str
    # Origin of the table, without secrets: "bundled:breast_cancer", "file:x.csv", "uci:75",
    # "sql:postgresql://u:***@h/db".
    source: str
    # (n_rows, n_features), unique string column names; dtypes as they were read
    features: pd.DataFrame
    # (n_rows,), or (n_rows, n_labels) of 0 and 1 for a multi-label problem
    target: pd.Series | pd.DataFrame
    groups: pd.Series | None = None  # ids of rows that belong together
    time: pd.Series | None = None  # numbers or timestamps that order the rows in time
    weight: pd.Series | None = None  # sample weights, non-negative floats
    part: pd.Series | None = None  # predefined split: "train" or "test"
    fold: pd.Series | None = None  # test fold of each row
    row: pd.Series | None = None  # number of each row in the source, from 0
    n_unlabelled: int = 0  # rows that were left out when the table was read, as they have no target
    # if there is no `time`, a column of dates by which the rows are sorted
    in_order_of: str | None = None
    # Features that no column of the source has as its name: parts of dates.
    derived: tuple[str, ...] = ()
    as_text: tuple[str, ...] = ()  # columns of whole numbers that were read as text
    reader: Reader | None = None  # how the features were read; None if they were given as they are
    # Dates and numbers as they are written in the source, where the features have numbers.
    written: pd.DataFrame | None = None

    @property
    def cells(self) -> pd.DataFrame:
        """The columns of the source that the features are made of."""
        if self.written is None:
            return self.features
        given = self.features.drop(columns=list(self.derived))
        return given.assign(**{str(name): cells for name, cells in self.written.items()})

    def weight_in_score(self, problem: Problem) -> NDArray[np.float64] | None:
        """Return the weights of these rows for the scorer of a problem, or None."""
        if self.weight is None or not problem.weights_in_score:
            return None
        return self.weight.to_numpy(dtype=np.float64)

    def rows_to_test(self, problem: Problem, kind: str) -> Rows:
        """Return the rows as those of a split of a kind: whether their groups or times count."""
        return Rows(
            self.features,
            self.target,
            None if self.groups is None else self.groups.to_numpy(),
            self.weight_in_score(problem),
            time=self.time.to_numpy() if kind == "time" and self.time is not None else None,
        )

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Table:
        """Return a copy with rows at positions, in any order, or of a mask, and an index from 0."""
        parts: dict[str, Any] = {
            name: part.iloc[rows].reset_index(drop=True)
            for name, part in vars(self).items()
            if isinstance(part, pd.Series | pd.DataFrame)
        }
        return replace(self, **parts)
