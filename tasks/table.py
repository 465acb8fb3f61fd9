"""The table of a flow: features, target, and columns with other roles."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class Table:
    """A validated data set, with a role for every column.

    All parts have the same rows in the same order and an index from 0.

    Attributes
    ----------
    name : str
        Short name of the data set.
    source : str
        Origin of the table, without secrets: ``"bundled:breast_cancer"``,
        ``"file:x.csv"``, ``"uci:75"``, ``"sql:postgresql://u:***@h/db"``.
    features : DataFrame (n_rows, n_features)
        Unique string column names; dtypes as they were read.
    target : Series (n_rows,) or DataFrame (n_rows, n_labels)
        A frame of 0 and 1 for a multi-label problem.
    groups : Series (n_rows,) or None
        Ids of rows that belong together.
    time : Series (n_rows,) or None
        Numbers or timestamps that order the rows in time.
    weight : Series (n_rows,) or None
        Sample weights, non-negative floats.
    part : Series (n_rows,) or None
        Predefined split: ``"train"`` or ``"test"``.
    fold : Series (n_rows,) or None
        Test fold of each row.
    label_end : Series (n_rows,) or None
        Time at which the target of each row is known, in the units of `time`.
    n_unlabelled : int
        Number of rows that were left out when the table was read, as they have no target.
    in_order_of : str or None
        If there is no `time`, a column of dates by which the rows are sorted.
    derived : tuple of str
        Features that no column of the source has as its name: parts of dates, and columns whose
        names have characters that LightGBM does not support.
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
    label_end: pd.Series | None = None
    n_unlabelled: int = 0
    in_order_of: str | None = None
    derived: tuple[str, ...] = ()

    def weight_in_score(self, problem: Problem) -> NDArray[np.float64] | None:
        """Return the weights of these rows for the scorer of a problem, or None."""
        if self.weight is None or not problem.weights_in_score:
            return None
        return self.weight.to_numpy(dtype=np.float64)

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Table:
        """Return a table of selected rows.

        Parameters
        ----------
        rows : int (n_taken,) or bool (n_rows,)
            Row positions, in any order, or a mask.

        Returns
        -------
        Table
            A copy with `n_taken` rows and an index from 0.
        """
        parts: dict[str, Any] = {
            name: part.iloc[rows].reset_index(drop=True)
            for name, part in vars(self).items()
            if isinstance(part, pd.Series | pd.DataFrame)
        }
        return replace(self, **parts)


def formerly_named(features: pd.DataFrame, names: Collection[str]) -> pd.DataFrame:
    """Return features by the names that models of earlier versions know, if `names` has them.

    Those versions replaced the characters that LightGBM does not allow when they read a table.
    """
    former = {name: re.sub(r'[\[\]{}",:\n\r\0]', "_", name) for name in features.columns}
    wanted = set(names) - set(features.columns)
    known = {new: old for new, old in former.items() if old in wanted}
    return features.rename(columns=known) if known else features
