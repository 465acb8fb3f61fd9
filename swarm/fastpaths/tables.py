"""The data of each fold, as input of the last step of the estimator, and the columns of masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from swarm.arrays import Bool, Float, Int
from swarm.problem.models import steps_before
from swarm.problem.problem import Problem


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
    # Scalers reject some column names, which do not matter here.
    names = [f"x{position}" for position in range(problem.space.n_columns)]
    features = problem.features.set_axis(names, axis=1)
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


def fitted_on(problem: Problem, columns: Int, fold: int) -> tuple[Any, Any]:
    """Return the model of a fold on some columns, and the test rows as its input."""
    from sklearn.base import clone

    features = problem.features.iloc[:, columns.tolist()]
    train, test = problem.folds[fold]
    model = clone(problem.estimator).fit(features.iloc[train], problem.target[train])
    return model, features.iloc[test]


def scales_are_exact(problem: Problem) -> bool:
    """Whether :func:`fold_tables` scales subsets bit-identically to the models."""
    # The sums of a StandardScaler depend on the memory layout, which subsets of contiguous columns
    # keep; minima and maxima do not.
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
