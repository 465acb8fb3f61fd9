"""The data of each fold, as input of the last step of the estimator, and the columns of masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from swarm.arrays import Bool, Float, Int
from swarm.problem.models import steps_before
from swarm.problem.problem import Problem


@dataclass(frozen=True)
class Chosen:
    """Columns of many masks, concatenated.

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

    def some(self, masks: Int) -> Chosen:
        """Return the columns of some masks."""
        if len(masks) == len(self.pointers) - 1:
            return self
        parts = [self.of(mask) for mask in masks.tolist()]
        pointers = np.cumsum([0, *map(len, parts)])
        return Chosen(pointers, np.concatenate([np.empty(0, dtype=np.int64), *parts]))

    def flags(self, n_columns: int) -> Bool:
        """Return the columns as flags: bool (n, n_columns)."""
        found = np.zeros((len(self.pointers) - 1, n_columns), dtype=bool)
        found[np.repeat(np.arange(len(found)), np.diff(self.pointers)), self.columns] = True
        return found


@dataclass(frozen=True)
class FoldTable:
    """Data of one fold, transposed: a row for each column.

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
    """Split the data into folds, and scale them as the pipeline does.

    Scalers work on each column separately, so that all columns are scaled at once. They are
    fitted on rows of the DataFrame, as in the models: an array with another memory layout is
    summed in another order, and the last bit of a scale can break a tie between neighbours.
    """
    from sklearn.base import clone

    scalers = steps_before(problem.estimator)
    # Scalers reject some column names, which do not matter here.
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


def _by_column(rows: Any) -> Float:
    return np.ascontiguousarray(np.asarray(rows, dtype=np.float64).T)


def fitted_on(problem: Problem, columns: Int, fold: int) -> tuple[Any, Any]:
    """Return the model of a fold on some columns, and the test rows as its input."""
    from sklearn.base import clone

    features = problem.features.iloc[:, columns.tolist()]
    train, test = problem.folds[fold]
    model = clone(problem.estimator).fit(features.iloc[train], problem.target[train])
    return model, features.iloc[test]


def scales_are_exact(problem: Problem) -> bool:
    """Whether :func:`fold_tables` scales subsets bit-identically to the models.

    Minima and maxima do not depend on the order of the rows, but the sums of a StandardScaler do.
    If columns are contiguous in memory, pandas keeps them contiguous in every subset, and NumPy
    sums them in the same order; the layout of a row-wise table may change with the subset.
    """
    standardized = any(type(step) is StandardScaler for step in steps_before(problem.estimator))
    return not standardized or columns_are_contiguous(problem)


def columns_are_contiguous(problem: Problem) -> bool:
    """Whether each column is contiguous in memory."""
    columns = (problem.features.iloc[:, j].to_numpy() for j in range(problem.space.n_columns))
    return all(values.strides == (values.itemsize,) for values in columns)


def membership(problem: Problem) -> Bool:
    """Return the columns of each unit: bool (n_units, n_columns)."""
    belongs = np.zeros((problem.space.n_units, problem.space.n_columns), dtype=bool)
    for unit, positions in enumerate(problem.space.units):
        belongs[unit, list(positions)] = True
    return belongs


def columns_of(masks: Bool, belongs: Bool) -> Bool:
    """Return the columns of masks (n, n_units) as flags: bool (n, n_columns)."""
    # Matrix products of floats are fast, and these sums are small enough to be exact.
    return masks.astype(np.float32) @ belongs.astype(np.float32) > 0.5


def chosen_columns(masks: Bool, belongs: Bool) -> Chosen:
    """Return the columns of masks (n, n_units) for compiled code."""
    flags = columns_of(masks, belongs)
    pointers = np.zeros(len(masks) + 1, dtype=np.int64)
    np.cumsum(flags.sum(axis=1), out=pointers[1:])
    return Chosen(pointers, np.nonzero(flags)[1])
