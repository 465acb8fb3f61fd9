"""The data of each fold, as input of the last step of the estimator, and the columns of masks."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from swarm.arrays import Bool, Float, Int
from swarm.problem.models import steps_before
from swarm.problem.problem import Problem
from swarm.problem.table import take_rows


class Chosen(NamedTuple):
    """Columns of many masks, concatenated."""

    pointers: Int  # (n + 1,); mask m has ``columns[pointers[m]:pointers[m + 1]]``, ascending
    columns: Int

    def of(self, mask: int) -> Int:
        """Return the columns of one mask."""
        return self.columns[self.pointers[mask] : self.pointers[mask + 1]]


@dataclass(frozen=True)
class FoldTable:
    """Data of one fold, transposed: a row for each column."""

    train: Float  # (n_columns, n_train)
    test: Float  # (n_columns, n_test)
    train_target: NDArray[np.generic]  # (n_train,) or (n_train, n_labels)


def fold_tables(problem: Problem) -> list[FoldTable]:
    """Split the data into folds, and scale all columns at once as the pipeline does."""
    from sklearn.base import clone

    scalers = steps_before(problem.estimator)
    features = problem.features
    made = []
    for train, test in problem.folds:
        seen, unseen = features.iloc[train], features.iloc[test]
        for step in scalers:
            # On rows of the DataFrame, as in the models: another memory layout would change the
            # order of sums, and the last bit of a scale can break a tie.
            scaler = clone(step).fit(seen)
            seen, unseen = scaler.transform(seen), scaler.transform(unseen)
        made.append(FoldTable(_by_column(seen), _by_column(unseen), problem.target[train]))
    return made


def _by_column(rows: Any) -> Float:
    return np.ascontiguousarray(np.asarray(rows, dtype=np.float64).T)


def fitted_on(problem: Problem, positions: Int, fold: int) -> tuple[Any, Any]:
    """Return the model of a fold on some columns, and the test rows as its input."""
    train, test = problem.folds[fold]
    columns = problem.columns(positions)
    with problem.settings.applied():
        return problem.fit(columns, positions, train), take_rows(columns, test)


def scales_are_exact(problem: Problem) -> bool:
    """Whether :func:`fold_tables` scales subsets bit-identically to the models."""
    # The sums of a StandardScaler depend on the memory layout, which subsets of contiguous columns
    # keep; minima and maxima do not.
    standardized = any(type(step) is StandardScaler for step in steps_before(problem.estimator))
    return not standardized or columns_are_contiguous(problem)


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
    """Return the columns of masks (n, n_units) as flags: bool (n, n_columns)."""
    return masks[:, problem.space.unit_of]


def chosen_columns(problem: Problem, masks: Bool) -> Chosen:
    """Return the columns of masks (n, n_units) for compiled code."""
    flags = columns_of(problem, masks)
    pointers = np.zeros(len(masks) + 1, dtype=np.int64)
    np.cumsum(flags.sum(axis=1), out=pointers[1:])
    return Chosen(pointers, np.nonzero(flags)[1])
