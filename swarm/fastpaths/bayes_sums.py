"""Sums over columns of Gaussian naive Bayes in the order of scikit-learn, and its probabilities."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from swarm.arrays import Bool, Float, Int

# In a column farther from zero than this many standard deviations, distances from the mean have
# lost their digits, and sums depend on the order.
FARTHEST = 1e7


@dataclass(frozen=True, eq=False)
class SmoothedVariances:
    """Terms of the log-likelihoods."""

    width: Float  # (n_folds, n_classes, n_columns), variances after smoothing
    logs: Float  # log(2 pi width)
    far: Bool | None  # (n_folds, n_columns), columns whose sums depend on the order; None: none


def smoothed(mean: Float, variance: Float, smoothing: bytes) -> SmoothedVariances:
    """Add `smoothing`, the bytes of (n_folds,), to variances (n_folds, n_classes, n_columns)."""
    width = variance + np.frombuffer(smoothing)[:, None, None]
    far: Bool = np.any(np.abs(mean) >= FARTHEST * np.sqrt(width), axis=1)
    with np.errstate(divide="ignore"):
        logs = np.log(2.0 * np.pi * width)
    return SmoothedVariances(width, logs, far if far.any() else None)


def exact_sums(log_prior: Float, squares: Float, made: SmoothedVariances, columns: Int) -> Float:
    """Log-likelihoods of one mask in the order of a model: float64 (n_folds, n_classes, n_test)."""
    # Squares (n_folds, n_classes, n_columns, n_test) are summed column by column, as NumPy sums
    # contiguous rows if there are at least two columns and two test rows.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        quotients = squares[:, :, columns]
        quotients /= made.width[:, :, columns, None]
        logs = np.ascontiguousarray(made.logs[:, :, columns]).sum(axis=2)
        likelihood = (-0.5 * logs)[..., None] - 0.5 * np.add.reduce(quotients, axis=2)
        joint: Float = log_prior[..., None] + likelihood
    return joint


@njit(nogil=True, cache=True, error_model="numpy")
def exact_joints(
    squares: Float, width: Float, halves: Float, log_prior: Float, columns: Bool, joint: Float
) -> None:  # pragma: no cover
    """Compute :func:`exact_sums` of many masks into `joint` (n_folds, n_classes, n, n_test)."""
    for m in range(len(columns)):
        chosen = np.flatnonzero(columns[m])
        for fold in range(squares.shape[0]):
            for label in range(squares.shape[1]):
                sums, variances = joint[fold, label, m], width[m, fold, label]
                sums[:] = 0.0
                for place in range(len(chosen)):
                    terms, spread = squares[fold, label, chosen[place]], variances[chosen[place]]
                    for i in range(len(sums)):
                        sums[i] += terms[i] / spread
                half = halves[m, fold, label]
                prior = log_prior[fold, label]
                for i in range(len(sums)):
                    sums[i] = prior + (half - 0.5 * sums[i])


def class_shares(joint: Float) -> Float:
    """Return the probabilities of log-likelihoods (n_classes, n, n_test), by NumPy as in models."""
    n_classes = len(joint)
    flat = np.ascontiguousarray(joint).reshape(n_classes, -1)
    below, largest = np.empty_like(flat), np.empty(flat.shape[1])
    _subtract_largest(flat, largest, below)
    rest, ties = np.empty_like(largest), np.empty(len(largest), dtype=np.int64)
    _add_others(np.exp(below), below, rest, ties)
    logs = np.log(np.arange(1.0, n_classes + 1.0))
    _subtract_total(flat, np.log1p(rest), logs[ties - 1], largest, below)
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
def _add_others(power: Float, below: Float, rest: Float, ties: Int) -> None:  # pragma: no cover
    """Sum the exponentials of all but the largest values, per largest value; count the latter."""
    rest[:] = 0.0
    ties[:] = 0
    for label in range(len(power)):
        for i in range(len(rest)):
            is_largest = below[label, i] == 0.0
            ties[i] += is_largest
            rest[i] += 0.0 if is_largest else power[label, i]
    for i in range(len(rest)):
        rest[i] /= ties[i]


@njit(nogil=True, cache=True)
def _subtract_total(
    joint: Float, rest: Float, tied: Float, largest: Float, below: Float
) -> None:  # pragma: no cover
    for label in range(len(joint)):
        for i in range(len(largest)):
            below[label, i] = joint[label, i] - ((rest[i] + tied[i]) + largest[i])
