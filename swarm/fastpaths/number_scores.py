"""Scores of predicted numbers for many masks: the common regression metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swarm.arrays import Bool, Float
from swarm.fastpaths.metrics import Metric

__all__ = ["is_common", "number_scores"]


def number_scores(
    metric: Metric, predicted: Float, truth: NDArray[Any], weight: Float | None = None
) -> Float | None:
    """Return the scores of predictions (n, n_test): float64 (n,).

    NaN where scikit-learn raises. None if the metric or a parameter is not supported, or if it
    has a special case for these rows.

    Parameters
    ----------
    truth : (n_test,)
    weight : float64 (n_test,) or None
        Sample weights of the test rows.
    """
    measure = _SCORES.get(metric.name)
    if measure is None or metric.kwargs or truth.ndim > 1 or len(truth) < 2:
        return None
    return measure(predicted, truth, weight)


def is_common(metric: Metric) -> bool:
    """Whether a metric is a common regression metric."""
    return metric.name in _SCORES


def _mean(values: Float, weight: Float | None) -> Any:
    """Return the means of the rows of `values`."""
    if weight is None:
        return values.mean(axis=-1)
    return (values * weight).sum(axis=-1) / weight.sum()


def _squared(predicted: Float, truth: NDArray[Any], weight: Float | None) -> Float:
    found: Float = _mean((predicted - truth) ** 2, weight)
    return found


def _root_squared(predicted: Float, truth: NDArray[Any], weight: Float | None) -> Float:
    return np.sqrt(_squared(predicted, truth, weight))


def _absolute(predicted: Float, truth: NDArray[Any], weight: Float | None) -> Float:
    found: Float = _mean(np.abs(predicted - truth), weight)
    return found


def _relative(predicted: Float, truth: NDArray[Any], weight: Float | None) -> Float:
    size = np.maximum(np.abs(truth), np.finfo(np.float64).eps)
    found: Float = _mean(np.abs(predicted - truth) / size, weight)
    return found


def _median(predicted: Float, truth: NDArray[Any], weight: Float | None) -> Float | None:
    return None if weight is not None else np.median(np.abs(predicted - truth), axis=1)


def _largest(predicted: Float, truth: NDArray[Any], weight: Float | None) -> Float | None:
    return None if weight is not None else np.abs(predicted - truth).max(axis=1)


def _determination(predicted: Float, truth: NDArray[Any], weight: Float | None) -> Float | None:
    share = 1.0 if weight is None else weight
    spread = (share * (truth - _mean(truth, weight)) ** 2).sum()
    if spread == 0:
        return None
    found: Float = 1.0 - (share * (predicted - truth) ** 2).sum(axis=1) / spread
    return found


def _explained(predicted: Float, truth: NDArray[Any], weight: Float | None) -> Float | None:
    spread = _mean((truth - _mean(truth, weight)) ** 2, weight)
    if spread == 0:
        return None
    errors = truth - predicted
    off = errors - np.asarray(_mean(errors, weight))[:, None]
    found: Float = 1.0 - _mean(off**2, weight) / spread
    return found


def _squared_log(predicted: Float, truth: NDArray[Any], weight: Float | None) -> Float | None:
    if (truth <= -1).any():
        return None
    refused: Bool = np.any(predicted <= -1, axis=1)
    logs = np.log1p(np.where(refused[:, None], 0.0, predicted))
    return np.where(refused, np.nan, _squared(logs, np.log1p(truth), weight))


def _root_squared_log(predicted: Float, truth: NDArray[Any], weight: Float | None) -> Float | None:
    found = _squared_log(predicted, truth, weight)
    return None if found is None else np.sqrt(found)


_SCORES: dict[str, Callable[[Float, NDArray[Any], Float | None], Float | None]] = {
    "r2_score": _determination,
    "mean_squared_error": _squared,
    "root_mean_squared_error": _root_squared,
    "mean_absolute_error": _absolute,
    "mean_absolute_percentage_error": _relative,
    "median_absolute_error": _median,
    "max_error": _largest,
    "explained_variance_score": _explained,
    "mean_squared_log_error": _squared_log,
    "root_mean_squared_log_error": _root_squared_log,
}
