"""The rows of a judgement, their target, and the answers of fitted models on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_regressor
from sklearn.dummy import DummyClassifier, DummyRegressor

from swarm.answers import Answers
from swarm.arrays import AnyArray, Float
from swarm.ensemble import SubsetEnsemble, has_probabilities
from swarm.errors import DataError, InputError
from swarm.problem.scoring import default_positive
from swarm.problem.table import plain_target

# At most this many of the most frequent classes are guessed for all rows.
_MAX_CONSTANTS = 10


@dataclass(frozen=True)
class EvaluationTarget:
    """The target of the training and of the test rows, and its task.

    Attributes
    ----------
    task : str
        ``binary``, ``multiclass``, ``multilabel`` or ``regression``.
    train, test : (n_rows,) or (n_rows, n_labels)
        Target of the training rows, and of the test rows.
    classes : (n_classes,)
        Classes in ascending order; empty for a regression.
    pos_label : class or None
        The given class, else the label 1, else the rarer class of the training rows.
    weight : float64 (n_rows,) or None
        Weights of the test rows in every metric.
    """

    task: str
    train: AnyArray
    test: AnyArray
    classes: AnyArray
    pos_label: Any
    weight: Float | None = None

    @classmethod
    def of(
        cls,
        estimator: BaseEstimator,
        train: ArrayLike,
        test: ArrayLike,
        pos_label: Any,
        weight: ArrayLike | None = None,
    ) -> EvaluationTarget:
        """Infer the task.

        Raises
        ------
        InputError
            If the target is not supported, or does not contain `pos_label`.
        """
        y_train = plain_target(train)
        y_test = plain_target(test)
        is_number = is_regressor(estimator)
        if is_number:
            y_test = y_test.astype(np.float64)
            classes = np.empty(0)
        else:
            classes = np.unique(np.concatenate([y_train, y_test]))
        task = _task_of(is_number, y_train.ndim == 2, classes)
        positive = None
        if task == "binary":
            labels = classes.tolist()
            if pos_label is not None and pos_label not in labels:
                raise InputError(
                    f"pos_label {pos_label!r} is not a class of the target; "
                    f"choose from {', '.join(map(repr, labels))}"
                )
            positive = default_positive(y_train) if pos_label is None else pos_label
        return cls(
            task=task,
            train=y_train,
            test=y_test,
            classes=classes,
            pos_label=positive,
            weight=None if weight is None else np.asarray(weight, dtype=np.float64),
        )

    @property
    def positive_share(self) -> float | None:
        """Share of the training rows in the positive class; None unless there are two classes."""
        return float(np.mean(self.train == self.pos_label)) if self.task == "binary" else None

    @property
    def positive(self) -> int:
        """Position of the positive class; 0 without one."""
        return self.classes.tolist().index(self.pos_label) if self.task == "binary" else 0


def _task_of(is_number: bool, has_labels: bool, classes: AnyArray) -> str:
    if is_number:
        if has_labels:
            raise DataError("regression with several targets is not supported; give one target")
        return "regression"
    if has_labels:
        if not np.isin(classes, [0, 1]).all():
            raise DataError("the labels of a multi-label target must be 0 or 1; encode them")
        return "multilabel"
    if len(classes) < 2:
        only = classes.tolist()[0]
        raise DataError(f"the target has only the class {only!r}; at least two are needed")
    return "binary" if len(classes) == 2 else "multiclass"


def answers_of_model(model: Any, rows: Any) -> Answers:
    """Return the answers of a fitted model on its input."""
    predicted = np.asarray(model.predict(rows))
    if is_regressor(model) or not hasattr(model, "classes_"):
        return Answers(predicted)
    proba = model.predict_proba(rows) if has_probabilities(model) else None
    decision = None
    if hasattr(model, "decision_function"):
        decision = np.asarray(model.decision_function(rows))
    return Answers(predicted, proba, decision, model.classes_)


def answers_of(ensemble: SubsetEnsemble, rows: Any) -> Answers:
    """Return the answers of a fitted ensemble, its probabilities as the mean over its members.

    The mean is used whatever the vote, since shares of few votes rank rows coarsely.
    """
    classes = getattr(ensemble, "classes_", None)
    if classes is None:
        return Answers(ensemble.predict(rows))
    is_single = len(ensemble.models_) == 1
    proba = None
    if has_probabilities(ensemble.estimator) or not is_single:
        proba = ensemble.mean_proba(rows)
    decision = None
    if is_single and hasattr(ensemble.models_[0], "decision_function"):
        ((model, features),) = ensemble.members(rows)
        decision = model.decision_function(features)
    # The soft vote follows from the probabilities: its models need not answer again.
    is_soft = not is_single and ensemble.vote_ == "soft"
    predicted = ensemble.elected(proba) if is_soft else ensemble.predict(rows)
    return Answers(predicted, proba, decision, classes)


def blind_models(task: str, target: AnyArray) -> list[BaseEstimator]:
    """Return models that ignore the features, fitted to a target.

    Each predicts the same for all rows: the mean or the median of numbers; the shares of the
    classes, or one class; the share of each label, the most frequent labels together, or all
    labels.
    """
    models: list[BaseEstimator]
    if task == "regression":
        models = [DummyRegressor(strategy="mean"), DummyRegressor(strategy="median")]
    else:
        values, counts = np.unique(target, return_counts=True, axis=0)
        constants = list(values[np.argsort(-counts, kind="stable")[:_MAX_CONSTANTS]])
        if task == "multilabel":
            constants = [constants[0], values.max(axis=0)]
        models = [DummyClassifier(strategy="prior")]
        models += [
            DummyClassifier(strategy="constant", constant=np.atleast_1d(value))
            for value in constants
        ]
    return [model.fit(np.zeros((len(target), 1)), target) for model in models]
