"""The numbers of each fold, as the last step of the estimator would get them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swarm.problem import Problem

__all__ = ["FoldTable", "fold_tables"]

Float = NDArray[np.float64]


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
