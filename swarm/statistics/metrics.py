"""Metrics from row counts of classes, and areas under curves from row counts of tied scores.

The fast paths compute them for many masks at once, the bootstrap for many resamples.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    # Of one class alone the spread is 0, which sums of weights miss by their rounding.
    least = 1e-12 * n_rows**2
    spreads = np.where(spread_true > least, spread_true, 0.0)
    spreads = spreads * np.where(spread_predicted > least, spread_predicted, 0.0)
    return fraction(covariance, np.sqrt(spreads))


@dataclass(frozen=True, eq=False)
class RankedRows:
    """Rows by descending score, to be counted often."""

    order: Int  # (n_rows,)
    positive: Bool  # (n_rows,), in that order
    starts: Int  # (n_values,), the first row of each value of the score

    @classmethod
    def of(cls, score: Float, positive: Bool) -> RankedRows:
        """Sort rows by their score (n_rows,)."""
        order = np.argsort(-score, kind="stable")
        starts = np.flatnonzero(np.append(True, np.diff(score[order]) != 0))
        return cls(order, positive[order], starts)

    def counted(self, counts: Int | Float) -> tuple[Float, Float]:
        """Count positive and negative rows (n, n_values), by the counts (n, n_rows) of rows."""
        ordered = counts[:, self.order].astype(np.float64)
        up, down = ordered * self.positive, ordered * ~self.positive
        if len(self.starts) == len(self.order):
            return up, down
        starts = self.starts
        return np.add.reduceat(up, starts, axis=1), np.add.reduceat(down, starts, axis=1)


def roc_areas(rows: RankedRows, counts: Int | Float) -> Float:
    """Return the area under the ROC curve for each row of `counts` (n, n_rows)."""
    up, down = rows.counted(counts)
    n_up, n_down = up.sum(axis=1), down.sum(axis=1)
    # Pairs with a negative row below, or in half of them a tied one.
    below = np.cumsum(down, axis=1)
    np.subtract(n_down[:, None], below, out=below)
    below += np.divide(down, 2.0, out=down)
    return fraction((up * below).sum(axis=1), n_up * n_down, np.nan)


def precision_areas(rows: RankedRows, counts: Int | Float) -> Float:
    """Return the average precision for each row of `counts`; 0 without a positive row."""
    up, down = rows.counted(counts)
    precision = fraction(np.cumsum(up, axis=1), np.cumsum(up + down, axis=1))
    return fraction((up * precision).sum(axis=1), up.sum(axis=1))
