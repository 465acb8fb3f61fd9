"""The answers of a fitted model on test rows, as an estimator that any scorer can score.

A bootstrap scores the same rows thousands of times. The model answers once; the scorer then sees
an estimator that looks its answers up by the position of a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.dummy import DummyClassifier, DummyRegressor

from swarm.arrays import AnyArray
from swarm.ensemble import SubsetEnsemble, has_probabilities

__all__ = ["Answers", "answers_of", "guess"]


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model answers on the test rows.

    Attributes
    ----------
    predicted : (n_rows,) or (n_rows, n_labels)
        Predicted target.
    proba : float64 (n_rows, n_classes), or a list of them, one per label, optional
        Probabilities in the order of `classes`; of an ensemble the mean over its members.
    decision : float64 (n_rows,) or (n_rows, n_classes), optional
        Decision values of a single model.
    classes : (n_classes,), or a list of them, one per label, optional
        None for a regressor.
    """

    predicted: AnyArray
    proba: Any = None
    decision: AnyArray | None = None
    classes: Any = None

    def estimator(self) -> BaseEstimator:
        """Return a fitted estimator that takes positions of rows (n, 1) in place of features."""
        return _FixedNumbers(self) if self.classes is None else _FixedClasses(self)


class _Fixed(BaseEstimator):  # type: ignore[misc]
    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, positions: Any) -> AnyArray:
        return self.answers.predicted[_rows(positions)]


class _FixedNumbers(RegressorMixin, _Fixed):  # type: ignore[misc]
    """A regressor."""


class _FixedClasses(ClassifierMixin, _Fixed):  # type: ignore[misc]
    """A classifier; without decision values or probabilities it votes with all its weight."""

    @property
    def classes_(self) -> Any:
        return self.answers.classes

    def predict_proba(self, positions: Any) -> Any:
        rows, proba = _rows(positions), self.answers.proba
        if isinstance(proba, list):
            return [label[rows] for label in proba]
        if proba is not None:
            return proba[rows]
        return _one_hot(self.answers.predicted[rows], self.answers.classes)

    def decision_function(self, positions: Any) -> Any:
        if self.answers.decision is not None:
            return self.answers.decision[_rows(positions)]
        found = self.predict_proba(positions)
        if isinstance(found, list):
            return np.column_stack([label[:, -1] for label in found])
        return found[:, 1] if found.shape[1] == 2 else found


def answers_of(ensemble: SubsetEnsemble, rows: pd.DataFrame) -> Answers:
    """Return the answers of a fitted ensemble; a single member answers by itself.

    Its probabilities are the mean over its members whatever its vote, since shares of few votes
    rank rows coarsely.
    """
    predicted = ensemble.predict(rows)
    classes = getattr(ensemble, "classes_", None)
    if classes is None:
        return Answers(predicted)
    proba, decision = None, None
    if has_probabilities(ensemble.estimator) or len(ensemble.models_) > 1:
        proba = ensemble.mean_proba(rows)
    if len(ensemble.models_) == 1 and hasattr(ensemble.models_[0], "decision_function"):
        ((model, own),) = ensemble.members(rows)
        decision = model.decision_function(own)
    return Answers(predicted, proba, decision, classes)


def guess(task: str, target: AnyArray, n_rows: int) -> Answers:
    """Return the answers of a model that ignores the features.

    Parameters
    ----------
    task : str
    target : (n_train,) or (n_train, n_labels)
        Target of the training rows.
    n_rows : int
        Number of test rows.
    """
    blank = np.zeros((max(len(target), n_rows), 1))
    model = DummyRegressor() if task == "regression" else DummyClassifier(strategy="prior")
    model.fit(blank[: len(target)], target)
    predicted = model.predict(blank[:n_rows])
    if task == "regression":
        return Answers(predicted)
    return Answers(predicted, model.predict_proba(blank[:n_rows]), None, model.classes_)


def _rows(positions: Any) -> NDArray[np.intp]:
    return np.asarray(positions, dtype=np.intp)[:, 0]


def _one_hot(predicted: AnyArray, classes: Any) -> Any:
    if isinstance(classes, list):
        pairs = zip(predicted.T, classes, strict=True)
        return [(one[:, None] == own).astype(np.float64) for one, own in pairs]
    return (predicted[:, None] == classes).astype(np.float64)
