"""Means, variances and priors of Gaussian naive Bayes in each fold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swarm.arrays import Float, Int
from swarm.fastpaths.tables import FoldTable, columns_are_contiguous
from swarm.problem.problem import Problem

__all__ = ["Moments", "moments_are_exact", "moments_of"]


@dataclass(frozen=True, eq=False)
class Moments:
    """Means and variances of some folds, and their test rows, padded to the same number.

    Attributes
    ----------
    classes : (n_classes,)
        Sorted; some may be missing from the training rows of a fold.
    mean, variance : float64 (n_folds, n_classes, n_columns)
        0 and 1 if a class is missing.
    spread : float64 (n_folds, n_columns)
        Variance over all classes; the largest of a subset determines its smoothing.
    log_prior : float64 (n_folds, n_classes)
        -inf if a class is missing.
    test : float64 (n_folds, n_columns, n_test)
        Padded with 0.
    truth : int (n_folds, n_test)
        Classes of the test rows; padded with -1.
    sizes : int (n_folds,)
        Number of test rows of each fold.
    """

    classes: NDArray[Any]
    mean: Float
    variance: Float
    spread: Float
    log_prior: Float
    test: Float
    truth: Int
    sizes: Int

    def squares(self) -> Float:
        """Squared distances from the means: float64 (n_folds, n_classes, n_columns, n_test)."""
        distance = self.test[:, None] - self.mean[..., None]
        return np.square(distance, out=distance)


def moments_of(problem: Problem, tables: list[FoldTable], first: int) -> Moments:
    """Compute the moments of `tables`, the folds of `problem` from `first` on.

    The steps are those of scikit-learn, on arrays of the same memory layout, so that sums are
    computed in the same order.
    """
    classes = np.unique(problem.target)
    shape = (len(tables), len(classes), problem.space.n_columns)
    mean, variance = np.zeros(shape), np.ones(shape)
    log_prior = np.full(shape[:2], -np.inf)
    for fold, table in enumerate(tables):
        rows, codes = table.train.T, np.searchsorted(classes, table.train_target)
        counts = np.bincount(codes, minlength=len(classes)).astype(np.float64)
        for code in np.flatnonzero(counts):
            members = rows[codes == code]
            mean[fold, code] = np.mean(members, axis=0)
            variance[fold, code] = np.var(members, axis=0)
            log_prior[fold, code] = np.log((counts / counts.sum())[code])
    sizes = np.array([table.test.shape[1] for table in tables])
    test = np.zeros((len(tables), shape[2], sizes.max()))
    truth = np.full((len(tables), sizes.max()), -1)
    for fold, table in enumerate(tables):
        test[fold, :, : sizes[fold]] = table.test
        tested = problem.target[problem.folds[first + fold][1]]
        truth[fold, : sizes[fold]] = np.searchsorted(classes, tested)
    spread = np.array([np.var(table.train.T, axis=0) for table in tables])
    return Moments(classes, mean, variance, spread, log_prior, test, truth, sizes)


def moments_are_exact(problem: Problem) -> bool:
    """Whether the moments of two columns or more are bit-identical to those of models.

    The order of a sum depends on the memory layout of an array. Contiguous columns stay
    contiguous when pandas selects columns and rows.
    """
    if getattr(problem.estimator, "steps", None):
        return False
    return columns_are_contiguous(problem) and all(
        _adds_exactly(problem.features.iloc[:, column]) for column in range(problem.space.n_columns)
    )


def _adds_exactly(column: Any) -> bool:
    if column.dtype not in (np.dtype(np.float64), np.dtype(np.int64)):
        return False
    values = column.to_numpy()
    # Sums of integers are exact, and thus the same in any order, below this limit.
    return bool(values.dtype != np.int64 or np.abs(values.astype(np.float64)).sum() < 2.0**52)
