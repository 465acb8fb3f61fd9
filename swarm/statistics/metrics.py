"""Metrics from row counts of classes, and areas under curves from row counts of tied scores.

The fast paths compute them for many masks at once, the bootstrap for many resamples.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from swarm.arrays import Bool, Float, Int


def fraction(above: Any, below: Any, undefined: float = 0.0) -> Float:
    """Return the quotient, `undefined` where the divisor is 0."""
    below = np.asarray(below, dtype=np.float64)
    out = np.full_like(below, undefined)
    quotient: Float = np.divide(above, below, out=out, where=below != 0.0)
    return quotient


def set_terms(name: str, true: Any, predicted: Any, both: Any, *, beta2: float = 1.0) -> Any:
    """Return dividend and divisor of a precision, recall, Jaccard or F score, by row counts."""
    if name == "precision":
        return both, predicted
    if name == "recall":
        return both, true
    if name == "jaccard":
        return both, true + predicted - both
    return (1 + beta2) * both, beta2 * true + predicted


def matthews(true: Any, predicted: Any, n_correct: Any) -> Float:
    """Return Matthews' correlation (...) of row counts (..., n_classes); 0 if undefined."""
    n_rows = true.sum(axis=-1)
    spread_true = n_rows**2 - (true**2).sum(axis=-1)
    spread_predicted = n_rows**2 - (predicted**2).sum(axis=-1)
    covariance = n_correct * n_rows - (true * predicted).sum(axis=-1)
    return fraction(covariance, np.sqrt(spread_true * spread_predicted))


def roc_areas(score: Float, positive: Bool, counts: Int | Float) -> Float:
    """Return the area under the ROC curve for each row of `counts` (n, n_rows)."""
    up, down = _tied(score, positive, counts)
    below = down.sum(axis=1, keepdims=True) - np.cumsum(down, axis=1)
    pairs = up.sum(axis=1) * down.sum(axis=1)
    return fraction((up * (below + down / 2)).sum(axis=1), pairs, np.nan)


def precision_areas(score: Float, positive: Bool, counts: Int | Float) -> Float:
    """Return the average precision for each row of `counts`; 0 without a positive row."""
    up, down = _tied(score, positive, counts)
    precision = fraction(np.cumsum(up, axis=1), np.cumsum(up + down, axis=1))
    return fraction((up * precision).sum(axis=1), up.sum(axis=1))


def _tied(score: Float, positive: Bool, counts: Int | Float) -> tuple[Float, Float]:
    """Count positive and negative rows (n, n_values), the highest score first."""
    order = np.argsort(-score, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(score[order]) != 0))
    ordered = counts[:, order].astype(np.float64)
    up = np.add.reduceat(ordered * positive[order], starts, axis=1)
    down = np.add.reduceat(ordered * ~positive[order], starts, axis=1)
    return up, down
