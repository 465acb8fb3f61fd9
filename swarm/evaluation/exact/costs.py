"""Costs of predictions that were made without a model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from swarm.evaluation.scoring import Scoring
from swarm.problem import Problem

__all__ = ["asks_for_labels", "costs_of", "is_accuracy"]

Float = NDArray[np.float64]


class _Answer(BaseEstimator):  # type: ignore[misc]
    """Something that a scorer takes for a fitted estimator."""

    def __init__(self, predicted: Any, classes: Any = None) -> None:
        self.predicted = predicted
        if classes is not None:
            self.classes_ = classes

    def predict(self, _features: Any) -> Any:
        return self.predicted

    def __sklearn_is_fitted__(self) -> bool:
        return True


class _Classes(ClassifierMixin, _Answer):  # type: ignore[misc]
    pass


class _Numbers(RegressorMixin, _Answer):  # type: ignore[misc]
    pass


def is_accuracy(scoring: Scoring) -> bool:
    """Whether the scorer is scikit-learn's accuracy: the share of rows that are all right."""
    from sklearn.metrics import accuracy_score

    scorer = scoring.scorer
    plain = not getattr(scorer, "_kwargs", None) and getattr(scorer, "_sign", 0) == 1
    return plain and getattr(scorer, "_score_func", None) is accuracy_score


def asks_for_labels(scoring: Scoring) -> bool:
    """Whether the scorer needs no more than what ``predict`` returns."""
    scorer = scoring.scorer
    return getattr(scorer, "_response_method", None) == "predict"


def costs_of(
    predicted: NDArray[Any], problem: Problem, fold: int, classes: NDArray[Any] | None
) -> Float:
    """Cost of each of many predictions of the test rows of a fold: float64 (n,).

    Parameters
    ----------
    predicted : (n, n_test) or (n, n_test, n_labels)
    classes
        Labels in order; None for numbers.
    """
    rows = problem.folds[fold][1]
    truth, scoring = problem.target[rows], problem.scoring
    if is_accuracy(scoring) and classes is not None:
        right = predicted == truth
        if right.ndim == 3:
            right = right.all(axis=2)
        # The score of scikit-learn is this mean, and the cost one minus it.
        shares: Float = (scoring.upper or 0.0) - right.mean(axis=1)
        return shares
    kind = _Numbers if classes is None else _Classes
    tested = problem.features.iloc[rows]
    return np.array([scoring.cost(kind(one, classes), tested, truth) for one in predicted])
