"""The table every flow works on: features, target, and the columns that are never features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["Table"]


@dataclass(frozen=True, eq=False)
class Table:
    """One data set, checked and with every column in its role.

    All parts have the same rows in the same order and an index from 0.

    Attributes
    ----------
    name : str
        Short name of the data set.
    source : str
        Where it came from, readable and without secrets: ``"bundled:breast_cancer"``,
        ``"file:x.csv"``, ``"uci:75"``, ``"sql:postgresql://u:***@h/db"``.
    features : DataFrame (n_rows, n_features)
        Unique string column names; dtypes as they were read.
    target : Series (n_rows,) or DataFrame (n_rows, n_labels)
        A frame of 0 and 1 when the problem is multi-label.
    groups : Series (n_rows,) or None
        Ids of rows that belong together.
    time : Series (n_rows,) or None
        Numbers or timestamps that order the rows in time.
    weight : Series (n_rows,) or None
        Sample weights, float, none negative.
    part : Series (n_rows,) or None
        ``"train"`` or ``"test"``: a split that was made before.
    fold : Series (n_rows,) or None
        Which fold a row is tested in.
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

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Table:
        """Give the table of some rows.

        Parameters
        ----------
        rows : int (n_taken,) or bool (n_rows,)
            Row positions, in the order wanted, or a mask.

        Returns
        -------
        Table
            A copy with `n_taken` rows and an index from 0.
        """

        def part_of(value: Any) -> Any:
            return None if value is None else value.iloc[rows].reset_index(drop=True)

        return replace(
            self,
            features=part_of(self.features),
            target=part_of(self.target),
            groups=part_of(self.groups),
            time=part_of(self.time),
            weight=part_of(self.weight),
            part=part_of(self.part),
            fold=part_of(self.fold),
        )
