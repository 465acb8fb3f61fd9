"""The numbers of each fold, as the last step of the estimator would get them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swarm.problem import Problem

__all__ = ["Chosen", "FoldTable", "chosen_columns", "columns_of", "fold_tables", "membership"]

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

    Scalers work on each column alone, so scaling all columns at once gives what scaling the
    columns of a mask would.
    """
    from sklearn.base import clone

    values = problem.features.to_numpy(dtype=np.float64)
    steps = getattr(problem.estimator, "steps", None)
    made = []
    for train, test in problem.folds:
        seen, unseen = values[train], values[test]
        for _, step in steps[:-1] if steps else ():
            scaler = clone(step).fit(seen)
            seen, unseen = scaler.transform(seen), scaler.transform(unseen)
        made.append(
            FoldTable(
                np.ascontiguousarray(seen.T),
                np.ascontiguousarray(unseen.T),
                problem.target[train],
            )
        )
    return made


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
