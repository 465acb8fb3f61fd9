"""The table of a flow: features, target, and columns with other roles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from swarm.arrays import Bool, Float, Int
from swarm.problem.problem import Problem
from swarm.reader import Reader
from swarm.rows import Rows


@dataclass(frozen=True, eq=False)
class Table:
    """A validated data set, with a role for every column.

    All columns have the same rows in the same order and an index from 0.

    Attributes
    ----------
    name : str
    source : str
        Origin of the table, without secrets: "bundled:breast_cancer", "file:x.csv", "uci:75",
        "sql:postgresql://u:***@h/db".
    features : DataFrame (n_rows, n_features)
        Features with unique names and the dtypes with which they were read.
    target : Series (n_rows,), or DataFrame (n_rows, n_labels)
        Target; labels of a multi-label problem are 0 or 1.
    groups : Series, optional
        Ids of rows that belong together.
    time : Series, optional
        Numbers or timestamps that order the rows in time.
    weight : Series, optional
        Sample weights, non-negative floats.
    part : Series, optional
        Predefined split: "train" or "test".
    fold : Series, optional
        Test fold of each row.
    row : Series, optional
        Number of each row in the source, from 0.
    n_unlabelled : int
        Number of rows that were left out when the table was read, as they have no target.
    in_order_of : str, optional
        Column of dates by which the rows are sorted, if there is no `time`.
    derived : tuple of str
        Features that no column of the source has as its name: parts of dates.
    as_text : tuple of str
        Columns of whole numbers that were read as text.
    reader : Reader, optional
        How the features were read; None if they were given as they are.
    written : DataFrame, optional
        Dates and numbers as they are written in the source, where the features have numbers.
    """

    name: str
    source: str
    features: pd.DataFrame
    target: pd.Series | pd.DataFrame
    groups: pd.Series | None = None
    time: pd.Series | None = None
    weight: pd.Series | None = None
    part: pd.Series | None = None
    fold: pd.Series | None = None
    row: pd.Series | None = None
    n_unlabelled: int = 0
    in_order_of: str | None = None
    derived: tuple[str, ...] = ()
    as_text: tuple[str, ...] = ()
    reader: Reader | None = None
    written: pd.DataFrame | None = None

    @property
    def cells(self) -> pd.DataFrame:
        """The columns of the source that the features are made of."""
        if self.written is None:
            return self.features
        features = self.features.drop(columns=list(self.derived))
        return features.assign(**{str(name): cells for name, cells in self.written.items()})

    def weight_in_score(self, problem: Problem) -> Float | None:
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

    def take(self, rows: Int | Bool) -> Table:
        """Return a copy with rows at positions, in any order, or of a mask, and an index from 0."""
        taken: dict[str, Any] = {
            name: value.iloc[rows].reset_index(drop=True)
            for name, value in vars(self).items()
            if isinstance(value, pd.Series | pd.DataFrame)
        }
        return replace(self, **taken)
