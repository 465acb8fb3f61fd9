"""Probabilities of Gaussian naive Bayes from log-likelihoods, in the order of scikit-learn."""

from __future__ import annotations

import numpy as np
from numba import njit

from swarm.arrays import Float, Int

__all__ = ["class_shares"]


def class_shares(joint: Float) -> Float:
    """Return the probabilities of log-likelihoods (n_classes, n, n_test), of the same shape.

    Exponentials and logarithms are those of NumPy, whose last bits differ from compiled ones.
    """
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
