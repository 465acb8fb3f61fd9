"""The numbers of each fold, as the last step of the estimator would get them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from swarm.problem.models import steps_before
from swarm.problem.problem import Problem

__all__ = [
    "Chosen",
    "FoldTable",
    "chosen_columns",
    "columns_are_contiguous",
    "columns_of",
    "fold_tables",
    "membership",
    "scales_are_exact",
]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]


@dataclass(frozen=True)
class Chosen:
    """Columns of many masks, one after the other.

    Attributes
    ----------
    pointers : int (n + 1,)
        Columns of mask m are ``columns[pointers[m]:pointers[m + 1]]``, ascending.
    columns : int
    """

    pointers: Int
    columns: Int

    def of(self, mask: int) -> Int:
        """Return the columns of one mask."""
        return self.columns[self.pointers[mask] : self.pointers[mask + 1]]


@dataclass(frozen=True)
class FoldTable:
    """One fold, a row for each column of the data.

    Attributes
    ----------
    train : float64 (n_columns, n_train)
    test : float64 (n_columns, n_test)
    train_target : (n_train,) or (n_train, n_labels)
    """

    train: Float
    test: Float
    train_target: NDArray[np.generic]


def fold_tables(problem: Problem) -> list[FoldTable]:
    """Cut the data into folds, scaled as the steps before the last do it.

    Scalers treat each column by itself, so all columns are scaled at once. They are fitted on
    rows of the DataFrame, as the models fit theirs: an array with another memory layout is
    summed in another order, and the last bit of a scale decides between tied neighbours.
    """
    from sklearn.base import clone

    scalers = steps_before(problem.estimator)
    # A model refuses some column names; here they do not matter.
    names = [f"x{position}" for position in range(problem.space.n_columns)]
    features = problem.features.set_axis(names, axis=1)
    made = []
    for train, test in problem.folds:
        seen, unseen = features.iloc[train], features.iloc[test]
        for step in scalers:
            scaler = clone(step).fit(seen)
            seen, unseen = scaler.transform(seen), scaler.transform(unseen)
        made.append(FoldTable(_by_column(seen), _by_column(unseen), problem.target[train]))
    return made


def scales_are_exact(problem: Problem) -> bool:
    """Whether :func:`fold_tables` scales every subset as its models do, to the last bit.

    Minima and maxima do not depend on the order of the rows. The sums of a StandardScaler do:
    where columns are contiguous in memory, pandas keeps them so in every subset, and NumPy sums
    each of them alike; a table stored row by row may change its layout with the subset.
    """
    standardized = any(type(step) is StandardScaler for step in steps_before(problem.estimator))
    return not standardized or columns_are_contiguous(problem)


def columns_are_contiguous(problem: Problem) -> bool:
    """Whether the values of each column lie next to each other in memory."""
    columns = (problem.features.iloc[:, j].to_numpy() for j in range(problem.space.n_columns))
    return all(values.strides == (values.itemsize,) for values in columns)


def _by_column(rows: Any) -> Float:
    return np.ascontiguousarray(np.asarray(rows, dtype=np.float64).T)


def membership(problem: Problem) -> Bool:
    """Which columns belong to which unit: bool (n_units, n_columns)."""
    belongs = np.zeros((problem.space.n_units, problem.space.n_columns), dtype=bool)
    for unit, positions in enumerate(problem.space.units):
        belongs[unit, list(positions)] = True
    return belongs


def columns_of(masks: Bool, belongs: Bool) -> Bool:
    """Return the columns of masks (n, n_units) as flags: bool (n, n_columns)."""
    # Numbers are what matrix products are fast for; no sum here is beyond their digits.
    flags: Bool = masks.astype(np.float32) @ belongs.astype(np.float32) > 0.5
    return flags


def chosen_columns(masks: Bool, belongs: Bool) -> Chosen:
    """List the columns of masks (n, n_units) for the compiled parts."""
    flags = columns_of(masks, belongs)
    pointers = np.zeros(len(masks) + 1, dtype=np.int64)
    np.cumsum(flags.sum(axis=1), out=pointers[1:])
    return Chosen(pointers, np.nonzero(flags)[1])
