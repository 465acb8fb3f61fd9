"""Costs of predictions that were computed without a model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from swarm.problem.problem import Problem
from swarm.problem.scoring import Scoring

__all__ = [
    "costs_of",
    "errors_are_rounding",
    "is_accuracy",
    "magnifies_rounding",
    "needs_only_predict",
    "scores_numbers",
]

Float = NDArray[np.float64]

# Errors below this share of the largest target have lost half of their digits.
_ROUNDING = 1e-7


class _FixedPredictor(BaseEstimator):  # type: ignore[misc]
    """A fitted estimator with fixed predictions, for scorers."""

    def __init__(self, predicted: Any, classes: Any = None) -> None:
        self.predicted = predicted
        if classes is not None:
            self.classes_ = classes

    def predict(self, _features: Any) -> Any:
        return self.predicted

    def __sklearn_is_fitted__(self) -> bool:
        return True


class _FixedClassifier(ClassifierMixin, _FixedPredictor):  # type: ignore[misc]
    pass


class _FixedRegressor(RegressorMixin, _FixedPredictor):  # type: ignore[misc]
    pass


def is_accuracy(scoring: Scoring) -> bool:
    """Whether the scorer is scikit-learn's accuracy."""
    from sklearn.metrics import accuracy_score

    scorer = scoring.scorer
    plain = not getattr(scorer, "_kwargs", None) and getattr(scorer, "_sign", 0) == 1
    return plain and getattr(scorer, "_score_func", None) is accuracy_score


def _is_hamming(scoring: Scoring) -> bool:
    """Whether the scorer is scikit-learn's Hamming loss: the share of wrong labels."""
    from sklearn.metrics import hamming_loss

    scorer = scoring.scorer
    plain = not getattr(scorer, "_kwargs", None) and getattr(scorer, "_sign", 0) == -1
    return plain and getattr(scorer, "_score_func", None) is hamming_loss


def scores_numbers(scoring: Scoring) -> bool:
    """Whether the scorer is a common regression metric: R2, MAE, MSE or RMSE."""
    from sklearn import metrics

    known = (
        metrics.r2_score,
        metrics.mean_absolute_error,
        metrics.mean_squared_error,
        metrics.root_mean_squared_error,
    )
    return getattr(scoring.scorer, "_score_func", None) in known


def magnifies_rounding(scoring: Scoring) -> bool:
    """Whether the scorer takes logarithms of predictions, or divides by them.

    Close to zero, the last bit of a prediction can change such a score by any amount, or make the
    scorer raise.
    """
    from sklearn import metrics

    known = (
        metrics.d2_tweedie_score,
        metrics.mean_gamma_deviance,
        metrics.mean_poisson_deviance,
        metrics.mean_squared_log_error,
        metrics.mean_tweedie_deviance,
        metrics.root_mean_squared_log_error,
    )
    return getattr(scoring.scorer, "_score_func", None) in known


def errors_are_rounding(predicted: Float, truth: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether the errors of predictions (n, n_test) are close to rounding: bool (n,)."""
    errors = np.sqrt(np.square(predicted - truth).mean(axis=1))
    exact: NDArray[np.bool_] = errors <= _ROUNDING * np.abs(truth).max()
    return exact


def needs_only_predict(scoring: Scoring) -> bool:
    """Whether the scorer only needs ``predict``."""
    scorer = scoring.scorer
    return getattr(scorer, "_response_method", None) == "predict"


def costs_of(
    predicted: NDArray[Any], problem: Problem, fold: int, classes: NDArray[Any] | None
) -> Float:
    """Return the costs of predictions of the test rows of a fold: float64 (n,).

    NaN if the scorer raises or returns infinity: the fitted model then fails with an error.

    Parameters
    ----------
    predicted : (n, n_test) or (n, n_test, n_labels)
    classes
        Sorted classes; None for regression.
    """
    rows = problem.folds[fold][1]
    truth, scoring = problem.target[rows], problem.scoring
    if is_accuracy(scoring) and classes is not None:
        right = predicted == truth
        if right.ndim == 3:
            right = right.all(axis=2)
        # The same operations as in scikit-learn, so that costs are bit-identical.
        shares: Float = (scoring.upper or 0.0) - right.mean(axis=1)
        return shares
    if predicted.ndim == 3 and _is_hamming(scoring):
        wrong: Float = (predicted != truth).sum(axis=(1, 2)) / truth.size
        return (scoring.upper or 0.0) + wrong
    if classes is None and (measured := _measured(predicted, truth, scoring)) is not None:
        return measured
    kind = _FixedRegressor if classes is None else _FixedClassifier
    tested = problem.features.iloc[rows]
    found = np.full(len(predicted), np.nan)
    for row, one in enumerate(predicted):
        try:
            found[row] = scoring.cost(kind(one, classes), tested, truth)
        except Exception:
            continue
    return np.where(np.isfinite(found), found, np.nan)


def _measured(predicted: Float, truth: NDArray[Any], scoring: Scoring) -> Float | None:
    """Return the costs by a common regression metric, vectorized; None for any other scorer."""
    from sklearn import metrics

    scorer = scoring.scorer
    if getattr(scorer, "_kwargs", None) or truth.ndim > 1 or len(truth) < 2:
        return None
    measure, sign = getattr(scorer, "_score_func", None), getattr(scorer, "_sign", 0)
    errors = predicted - truth
    if measure is metrics.r2_score and sign == 1:
        spread = ((truth - truth.mean()) ** 2).sum()
        if spread == 0:
            return None
        explained: Float = (scoring.upper or 0.0) - (1.0 - (errors**2).sum(axis=1) / spread)
        return explained
    mean: Float
    if measure is metrics.mean_absolute_error:
        mean = np.abs(errors).mean(axis=1)
    elif measure in (metrics.mean_squared_error, metrics.root_mean_squared_error):
        mean = (errors**2).mean(axis=1)
        if measure is metrics.root_mean_squared_error:
            mean = np.sqrt(mean)
    else:
        return None
    return (scoring.upper or 0.0) + mean if sign == -1 else None
