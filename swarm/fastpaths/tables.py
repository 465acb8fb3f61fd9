"""The data of each fold, as input of the last step of the estimator, and the columns of masks."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.preprocessing import StandardScaler

from swarm.arrays import AnyArray, Bool, Float, Int
from swarm.problem.models import steps_before
from swarm.problem.problem import Problem
from swarm.problem.table import take_rows


class Chosen(NamedTuple):
    """Columns of many masks, concatenated.

    Mask m of n has ``columns[pointers[m]:pointers[m + 1]]``, ascending; `pointers` has n + 1 items.
    """

    pointers: Int
    columns: Int

    def of(self, mask: int) -> Int:
        """Return the columns of one mask."""
        return self.columns[self.pointers[mask] : self.pointers[mask + 1]]


@dataclass(frozen=True)
class FoldTable:
    """Data of one fold, transposed: a row for each column.

    The shapes are (n_columns, n_train), (n_columns, n_test), and (n_train,) or (n_train, n_labels).
    """

    train: Float
    test: Float
    train_target: AnyArray


def fold_tables(problem: Problem) -> list[FoldTable]:
    """Split the data into folds, and scale all columns at once as the pipeline does."""
    from sklearn.base import clone

    scalers = steps_before(problem.estimator)
    features = problem.features
    tables = []
    for train, test in problem.folds:
        train_rows = features.iloc[train]
        test_rows = features.iloc[test]
        for step in scalers:
            # Models fit scalers to rows of the DataFrame. Another memory layout would change the
            # order of sums, and the last bit of a scale can break a tie.
            scaler = clone(step).fit(train_rows)
            train_rows = scaler.transform(train_rows)
            test_rows = scaler.transform(test_rows)
        target = problem.target[train]
        tables.append(FoldTable(_transposed(train_rows), _transposed(test_rows), target))
    return tables


def _transposed(rows: pd.DataFrame | AnyArray) -> Float:
    return np.ascontiguousarray(np.asarray(rows, dtype=np.float64).T)


def fit_on(problem: Problem, positions: Int, fold: int) -> tuple[Any, Any]:
    """Fit the model of a fold on some columns; return it, and the test rows as its input."""
    train, test = problem.folds[fold]
    columns = problem.columns(positions)
    with problem.settings.applied():
        return problem.fit(columns, positions, train), take_rows(columns, test)


def scales_are_exact(problem: Problem) -> bool:
    """Whether :func:`fold_tables` scales subsets bit-identically to the models."""
    # The sums of a StandardScaler depend on the memory layout, which subsets of contiguous columns
    # preserve. Minima and maxima do not depend on it.
    has_sums = any(type(step) is StandardScaler for step in steps_before(problem.estimator))
    return not has_sums or columns_are_contiguous(problem)


def columns_are_contiguous(problem: Problem) -> bool:
    """Whether each column of a pandas table is contiguous in memory, as in the rows of models."""
    X = problem.X
    if not isinstance(X, pd.DataFrame):
        return False
    values = X.to_numpy()
    if np.shares_memory(values, X.iloc[:, 0].to_numpy()):
        return bool(values.strides[0] == values.itemsize)
    columns = (X.iloc[:, j].to_numpy() for j in range(X.shape[1]))
    return all(column.strides == (column.itemsize,) for column in columns)


def columns_of(problem: Problem, masks: Bool) -> Bool:
    """Columns of masks (n, n_units) as flags: bool (n, n_columns)."""
    return masks[:, problem.space.unit_of]


def chosen_columns(problem: Problem, masks: Bool) -> Chosen:
    """Columns of masks (n, n_units) for compiled code."""
    flags = columns_of(problem, masks)
    pointers = np.zeros(len(masks) + 1, dtype=np.int64)
    np.cumsum(flags.sum(axis=1), out=pointers[1:])
    return Chosen(pointers, np.nonzero(flags)[1])
