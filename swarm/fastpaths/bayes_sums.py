"""Variances of Gaussian naive Bayes after smoothing, and sums over columns in its order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from swarm.arrays import Bool, Float, Int
from swarm.fastpaths.bayes_moments import Moments
from swarm.fastpaths.pairwise import pairwise_sum

__all__ = ["FARTHEST", "Kept", "SmoothedVariances", "exact_joints", "exact_sums", "smoothed"]

# In a column farther from zero than this many standard deviations, distances from the mean have
# lost their digits, and sums depend on the order.
FARTHEST = 1e7


@dataclass(frozen=True, eq=False)
class SmoothedVariances:
    """Terms of the log-likelihoods.

    Attributes
    ----------
    width : float64 (n_folds, n_classes, n_columns)
        Variances after smoothing.
    logs : float64 (n_folds, n_classes, n_columns)
        ``log(2 pi width)``.
    far : bool (n_folds, n_columns) or None
        Columns whose sums depend on the order; None if there are none.
    """

    width: Float
    logs: Float
    far: Bool | None


def smoothed(learned: Moments, smoothing: Float) -> SmoothedVariances:
    """Add `smoothing` (n_folds,) to the variances of each fold."""
    width = learned.variance + smoothing[:, None, None]
    far: Bool = np.any(np.abs(learned.mean) >= FARTHEST * np.sqrt(width), axis=1)
    with np.errstate(divide="ignore"):
        logs = np.log(2.0 * np.pi * width)
    return SmoothedVariances(width, logs, far if far.any() else None)


class Kept:
    """LRU cache of variances, keyed by their smoothing.

    Parameters
    ----------
    n_numbers : int
        Limit of the total number of elements.
    """

    def __init__(self, n_numbers: int) -> None:
        self._n_numbers = n_numbers
        self._made: dict[bytes, SmoothedVariances] = {}

    def get(self, learned: Moments, smoothing: Float) -> SmoothedVariances:
        """Return the terms for `smoothing` (n_folds,), from the cache if possible."""
        key = smoothing.tobytes()
        found = self._made.pop(key, None)
        if found is None:
            found = smoothed(learned, smoothing)
        self._made[key] = found
        if 2 * found.width.size * len(self._made) > self._n_numbers:
            # Another thread may have removed the same entry.
            self._made.pop(next(iter(list(self._made)), b""), None)
        return found


def exact_sums(learned: Moments, squares: Float, made: SmoothedVariances, columns: Int) -> Float:
    """Log-likelihoods of one mask, in the order of a model: float64 (n_folds, n_classes, n_test).

    Squares are summed column by column, as NumPy sums contiguous rows. This requires at least two
    columns and at least two test rows.

    Parameters
    ----------
    squares : float64 (n_folds, n_classes, n_columns, n_test)
        See :meth:`.bayes_moments.Moments.squares`.
    columns : int (n_chosen,)
        Ascending.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        quotients = squares[:, :, columns]
        quotients /= made.width[:, :, columns, None]
        logs = np.ascontiguousarray(made.logs[:, :, columns]).sum(axis=2)
        likelihood = (-0.5 * logs)[..., None] - 0.5 * np.add.reduce(quotients, axis=2)
        joint: Float = learned.log_prior[..., None] + likelihood
    return joint


@njit(nogil=True, cache=True, error_model="numpy")
def exact_joints(
    squares: Float, width: Float, logs: Float, log_prior: Float, columns: Bool, joint: Float
) -> None:  # pragma: no cover
    """Compute :func:`exact_sums` of many masks.

    Parameters
    ----------
    squares : float64 (n_folds, n_classes, n_columns, n_test)
    width, logs : float64 (n, n_folds, n_classes, n_columns)
        See :class:`SmoothedVariances`.
    log_prior : float64 (n_folds, n_classes)
    columns : bool (n, n_columns)
    joint : float64 (n_folds, n_classes, n, n_test)
        Output.
    """
    picked = np.empty(columns.shape[1])
    for m in range(len(columns)):
        chosen = np.flatnonzero(columns[m])
        for fold in range(squares.shape[0]):
            for label in range(squares.shape[1]):
                sums, own = joint[fold, label, m], width[m, fold, label]
                sums[:] = 0.0
                for place in range(len(chosen)):
                    picked[place] = logs[m, fold, label, chosen[place]]
                    terms, spread = squares[fold, label, chosen[place]], own[chosen[place]]
                    for i in range(len(sums)):
                        sums[i] += terms[i] / spread
                half = -0.5 * pairwise_sum(picked, len(chosen))
                prior = log_prior[fold, label]
                for i in range(len(sums)):
                    sums[i] = prior + (half - 0.5 * sums[i])
