"""Smoothed variances of Gaussian naive Bayes, and sums over columns as models form them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swarm.fastpaths.bayes_moments import Moments

__all__ = ["Kept", "Smoothed", "exact_sums", "smoothed"]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]

# A column farther from zero than this many standard deviations has lost the digits of its
# distances: its sums are not to be had in another order.
_FARTHEST = 1e7


@dataclass(frozen=True, eq=False)
class Smoothed:
    """What log-likelihoods are made of.

    Attributes
    ----------
    width : float64 (n_folds, n_classes, n_columns)
        Smoothed variances.
    logs : float64 (n_folds, n_classes, n_columns)
        Logarithms of 2 pi widths.
    far : bool (n_folds, n_columns) or None
        Columns whose sums are of no use here; None if there is none.
    """

    width: Float
    logs: Float
    far: Bool | None


def smoothed(learned: Moments, smoothing: Float) -> Smoothed:
    """Add `smoothing` (n_folds,) to the variances of each fold."""
    width = learned.variance + smoothing[:, None, None]
    far: Bool = np.any(np.abs(learned.mean) >= _FARTHEST * np.sqrt(width), axis=1)
    with np.errstate(divide="ignore"):
        logs = np.log(2.0 * np.pi * width)
    return Smoothed(width, logs, far if far.any() else None)


class Kept:
    """Smoothed variances by their smoothing, the one unused for longest goes first.

    Parameters
    ----------
    n_numbers : int
        How many numbers they may have together.
    """

    def __init__(self, n_numbers: int) -> None:
        self._n_numbers = n_numbers
        self._made: dict[bytes, Smoothed] = {}

    def get(self, learned: Moments, smoothing: Float) -> Smoothed:
        """Return what is smoothed by `smoothing` (n_folds,), made anew if need be."""
        key = smoothing.tobytes()
        found = self._made.pop(key, None)
        if found is None:
            found = smoothed(learned, smoothing)
        self._made[key] = found
        if 2 * found.width.size * len(self._made) > self._n_numbers:
            # Two threads may let go of the same one.
            self._made.pop(next(iter(list(self._made)), b""), None)
        return found


def exact_sums(learned: Moments, squares: Float, made: Smoothed, columns: Int) -> Float:
    """Log-likelihoods of one mask, summed as a model does: float64 (n_folds, n_classes, n_test).

    Squares are added column by column, as over rows that lie one beside the other; this holds of
    two columns or more, in folds of two test rows or more.

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
