"""Sums over columns of Gaussian naive Bayes in the order of scikit-learn, and its probabilities."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from swarm.arrays import Bool, Float, Int

# Distances from the mean lose their digits in a column farther from zero than this many standard
# deviations, and their sums depend on the order.
_MAX_DEVIATIONS = 1e7


@dataclass(frozen=True, eq=False)
class SmoothedVariances:
    """Terms of the log-likelihoods.

    Attributes
    ----------
    variance : float64 (n_folds, n_classes, n_columns)
        Variances after smoothing.
    logs : float64 (n_folds, n_classes, n_columns)
        ``log(2 pi variance)``.
    far : bool (n_folds, n_columns) or None
        Columns whose sums depend on the order; None if there are none.
    """

    variance: Float
    logs: Float
    far: Bool | None


def smooth(mean: Float, variance: Float, smoothing: bytes) -> SmoothedVariances:
    """Add `smoothing`, the bytes of (n_folds,), to variances (n_folds, n_classes, n_columns)."""
    smoothed = variance + np.frombuffer(smoothing)[:, None, None]
    far = np.any(np.abs(mean) >= _MAX_DEVIATIONS * np.sqrt(smoothed), axis=1)
    with np.errstate(divide="ignore"):
        logs = np.log(2.0 * np.pi * smoothed)
    return SmoothedVariances(smoothed, logs, far if far.any() else None)


def exact_sums(
    log_prior: Float, squares: Float, variances: SmoothedVariances, columns: Int
) -> Float:
    """Log-likelihoods of one mask in the order of a model: float64 (n_folds, n_classes, n_test)."""
    # Squares (n_folds, n_classes, n_columns, n_test) are summed column by column, as NumPy sums
    # contiguous rows if there are at least two columns and two test rows.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        quotients = squares[:, :, columns]
        quotients /= variances.variance[:, :, columns, None]
        logs = np.ascontiguousarray(variances.logs[:, :, columns]).sum(axis=2)
        likelihood = (-0.5 * logs)[..., None] - 0.5 * np.add.reduce(quotients, axis=2)
        return log_prior[..., None] + likelihood


@njit(nogil=True, cache=True, error_model="numpy")
def exact_joints(
    squares: Float, variances: Float, halves: Float, log_prior: Float, columns: Bool, joint: Float
) -> None:  # pragma: no cover
    """Compute :func:`exact_sums` of many masks into `joint` (n_folds, n_classes, n, n_test)."""
    for m in range(len(columns)):
        chosen = np.flatnonzero(columns[m])
        for fold in range(squares.shape[0]):
            for label in range(squares.shape[1]):
                sums = joint[fold, label, m]
                sums[:] = 0.0
                for column in chosen:
                    terms = squares[fold, label, column]
                    variance = variances[m, fold, label, column]
                    for i in range(len(sums)):
                        sums[i] += terms[i] / variance
                half = halves[m, fold, label]
                prior = log_prior[fold, label]
                for i in range(len(sums)):
                    sums[i] = prior + (half - 0.5 * sums[i])


def class_shares(joint: Float) -> Float:
    """Turn log-likelihoods (n_classes, n, n_test) into probabilities, by NumPy as in models."""
    n_classes = len(joint)
    flat = np.ascontiguousarray(joint).reshape(n_classes, -1)
    largest = np.empty(flat.shape[1])
    below = np.empty_like(flat)
    _subtract_largest(flat, largest, below)
    sums = np.empty_like(largest)
    ties = np.empty(len(largest), dtype=np.int64)
    _sum_below_largest(np.exp(below), below, sums, ties)
    logs = np.log(np.arange(1.0, n_classes + 1.0))
    _subtract_total(flat, np.log1p(sums), logs[ties - 1], largest, below)
    return np.exp(below, out=below).reshape(joint.shape)


@njit(nogil=True, cache=True)
def _subtract_largest(joint: Float, largest: Float, below: Float) -> None:  # pragma: no cover
    largest[:] = joint[0]
    for label in range(1, len(joint)):
        for i in range(len(largest)):
            largest[i] = max(largest[i], joint[label, i])
    for label in range(len(joint)):
        for i in range(len(largest)):
            below[label, i] = joint[label, i] - largest[i]


@njit(nogil=True, cache=True, error_model="numpy")
def _sum_below_largest(
    power: Float, below: Float, sums: Float, ties: Int
) -> None:  # pragma: no cover
    """Sum the exponentials of all but the largest values, per largest value; count the latter."""
    sums[:] = 0.0
    ties[:] = 0
    for label in range(len(power)):
        for i in range(len(sums)):
            is_largest = below[label, i] == 0.0
            ties[i] += is_largest
            sums[i] += 0.0 if is_largest else power[label, i]
    for i in range(len(sums)):
        sums[i] /= ties[i]


@njit(nogil=True, cache=True)
def _subtract_total(
    joint: Float, log_sums: Float, log_ties: Float, largest: Float, below: Float
) -> None:  # pragma: no cover
    for label in range(len(joint)):
        for i in range(len(largest)):
            below[label, i] = joint[label, i] - ((log_sums[i] + log_ties[i]) + largest[i])
