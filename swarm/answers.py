"""Answers of a model on given rows, and the estimator that gives these answers to scorers.

A jackknife scores the same rows a thousand times, and fast paths predict without a model. The
scorer then sees an estimator that looks its answers up by the position of a row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if

from swarm.arrays import AnyArray, Int


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers of a model on given rows.

    Attributes
    ----------
    predicted : (n_rows,) or (n_rows, n_labels)
        Predictions.
    proba : (n_rows, n_classes), or one such array per label, optional
        Probabilities, of an ensemble the mean over its members.
    decision : (n_rows,) or (n_rows, n_classes), optional
        Decision values of a single model.
    classes : (n_classes,), or one such array per label, optional
        Classes in the order of the probabilities; None for a regressor.
    ranks_by_proba : bool
        Whether probabilities replace missing decision values, which most ranking scorers prefer.
    """

    predicted: AnyArray
    proba: Any = None
    decision: AnyArray | None = None
    classes: Any = None
    ranks_by_proba: bool = True

    @property
    def positions(self) -> Int:
        """All rows, as the input of the estimator: their positions (n_rows, 1)."""
        return np.arange(len(self.predicted))[:, None]

    def take(self, rows: AnyArray) -> Answers:
        """Return the answers on the rows at some positions, or of a mask."""
        proba = self.proba
        if isinstance(proba, list):
            proba = [label[rows] for label in proba]
        elif proba is not None:
            proba = proba[rows]
        decision = None if self.decision is None else self.decision[rows]
        return replace(self, predicted=self.predicted[rows], proba=proba, decision=decision)

    def equals(self, other: Answers) -> bool:
        """Whether no scorer can tell two answers apart; false if they contain NaN."""
        return all(map(np.array_equal, vars(self).values(), vars(other).values()))

    def estimator(self) -> BaseEstimator:
        """Return a fitted estimator that takes positions of rows (n, 1) in place of features."""
        return _StoredNumbers(self) if self.classes is None else _StoredClasses(self)


class _Stored(BaseEstimator):  # type: ignore[misc]
    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, positions: Any) -> AnyArray:
        return self.answers.predicted[_rows(positions)]


class _StoredNumbers(RegressorMixin, _Stored):  # type: ignore[misc]
    """A regressor."""


class _StoredClasses(ClassifierMixin, _Stored):  # type: ignore[misc]
    """A classifier; without decision values or probabilities it votes with all its weight."""

    @property
    def classes_(self) -> Any:
        return self.answers.classes

    def predict_proba(self, positions: Any) -> Any:
        rows = _rows(positions)
        proba = self.answers.proba
        if isinstance(proba, list):
            return [label[rows] for label in proba]
        if proba is not None:
            # The last digit of a sum over classes depends on the layout of the model's array.
            return np.asarray(proba[rows], order="F" if proba.flags.fnc else "C")
        return _one_hot(self.answers.predicted[rows], self.answers.classes)

    @available_if(lambda self: self.answers.ranks_by_proba)  # type: ignore[untyped-decorator]
    def decision_function(self, positions: Any) -> Any:
        if self.answers.decision is not None:
            return self.answers.decision[_rows(positions)]
        scores = self.predict_proba(positions)
        if isinstance(scores, list):
            return np.column_stack([label[:, -1] for label in scores])
        return scores[:, 1] if scores.shape[1] == 2 else scores


def _rows(positions: Any) -> Int:
    return np.asarray(positions, dtype=np.intp)[:, 0]


def _one_hot(predicted: AnyArray, classes: Any) -> Any:
    """Return probabilities of 1 for the predicted classes, for each label if there are several."""
    if isinstance(classes, list):
        return [_one_hot(label, values) for label, values in zip(predicted.T, classes, strict=True)]
    proba = (predicted[:, None] == classes).astype(np.float64)
    if not proba.any(axis=1).all():
        raise ValueError("a predicted class is not among those of the model")
    return proba
