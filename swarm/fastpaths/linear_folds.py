"""The linear system of each fold. The systems of masks are its sub-blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swarm.arrays import Bool, Float
from swarm.fastpaths.tables import FoldTable

__all__ = ["System", "discriminant_system", "least_squares_system"]

# Farther from zero than this many standard deviations, values lose digits, and the result depends
# on the order of summation.
_FARTHEST = 1e5
# Means of integers up to this limit are exact.
_LARGEST = 2.0**30


@dataclass(frozen=True)
class System:
    """The linear system of the training rows of a fold, for all columns.

    Attributes
    ----------
    gram : float64 (d, d)
    right : float64 (t, d)
        Right-hand sides.
    centre : float64 (d,)
        Means of the columns.
    constant : float64 (t,)
        Means of the targets, or logarithms of the priors.
    test : float64 (d, n_test)
        Centred test rows.
    far : bool (d,)
        Columns whose deviations from the mean are mostly rounding.
    length : float
        Norm of the centred targets, or 1 for classes that differ in their means.
    classes : (n_classes,) or None
    """

    gram: Float
    right: Float
    centre: Float
    constant: Float
    test: Float
    far: Bool
    length: float
    classes: NDArray[Any] | None


def least_squares_system(
    table: FoldTable,
    weight: Float | None,
    *,
    intercept: bool,
    ridge: bool,
    classes: NDArray[Any] | None,
) -> System:
    """Normal equations of centred columns: ``(X'X + a) w = X'y``.

    Parameters
    ----------
    weight : float64 (n_train,) or None
        Weights of the rows.
    ridge : bool
        Whether a penalty is added to the diagonal, so that constant columns get zeros.
    classes
        Classes of a classifier; its targets are 1 for the class of a row and -1 otherwise.
    """
    rows, n_train = table.train, table.train.shape[1]
    targets = _targets(table.train_target, classes)
    centre, constant = np.zeros(len(rows)), np.zeros(len(targets))
    if intercept:
        centre = np.average(rows, axis=1, weights=weight)
        constant = np.average(targets, axis=1, weights=weight)
    centred, aims = rows - centre[:, None], targets - constant[:, None]
    share = np.ones(n_train) if weight is None else weight
    gram = (centred * share) @ centred.T
    right = (aims * share) @ centred.T
    own = np.diag(gram)
    far = np.zeros(len(rows), dtype=bool)
    if intercept:
        far = own <= (centre / _FARTHEST) ** 2 * share.sum()
        if ridge:
            whole = (rows == rows[:, :1]).all(axis=1) & (own == 0)
            first = rows[:, 0]
            safe = (first == np.round(first)) & (np.abs(first) < _LARGEST) & (weight is None)
            far &= ~(whole & (safe | (first == 0)))
    length = float(np.sqrt((np.square(aims) * share).sum(axis=1).max()))
    test = table.test - centre[:, None]
    return System(gram, right, centre, constant, test, far, length, classes)


def discriminant_system(table: FoldTable, *, centred: bool) -> System:
    """Within-class covariance and class means.

    Parameters
    ----------
    centred : bool
        Whether to subtract the overall mean from the class means on the right-hand side.
    """
    classes, codes = np.unique(table.train_target, return_inverse=True)
    rows = table.train
    counts = np.bincount(codes)
    prior = counts / len(codes)
    means = np.stack([rows[:, codes == code].mean(axis=1) for code in range(len(classes))])
    within = rows - means[codes].T
    centre = prior @ means
    gram = within @ within.T / len(codes)
    far = np.diag(gram) <= (np.abs(means).max(axis=0) / _FARTHEST) ** 2
    right = means - centre if centred else means
    log_prior = np.log(prior)
    return System(gram, right, centre, log_prior, table.test - centre[:, None], far, 1.0, classes)


def _targets(target: NDArray[Any], classes: NDArray[Any] | None) -> Float:
    if classes is None:
        return target.astype(np.float64)[None, :]
    chosen = classes[1:] if len(classes) == 2 else classes
    return np.where(target == chosen[:, None], 1.0, -1.0)
