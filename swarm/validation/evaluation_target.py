"""The target of the training and test rows, and its task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_regressor

from swarm.arrays import AnyArray
from swarm.ensemble import plain_target
from swarm.errors import DataError, InputError
from swarm.problem.scoring import default_positive

__all__ = ["EvaluationTarget"]


@dataclass(frozen=True)
class EvaluationTarget:
    """The target and its task.

    Attributes
    ----------
    task : str
        "binary", "multiclass", "multilabel" or "regression".
    train, test : (n_rows,) or (n_rows, n_labels)
        Target of the training and of the test rows, as NumPy arrays.
    classes : (n_classes,)
        All classes, ascending; empty for a regression.
    pos_label : class, optional
        Positive class of a binary target; by default the label 1, else the rarer class of the
        training rows.
    """

    task: str
    train: AnyArray
    test: AnyArray
    classes: AnyArray
    pos_label: Any

    @classmethod
    def of(
        cls, estimator: BaseEstimator, train: ArrayLike, test: ArrayLike, pos_label: Any
    ) -> EvaluationTarget:
        """Infer the task from the estimator and the target.

        Raises
        ------
        DataError
            If a regression has several targets, a label is neither 0 nor 1, or there is only
            one class.
        InputError
            If `pos_label` is not a class of the target.
        """
        y_train, y_test = plain_target(train), plain_target(test)
        several = y_train.ndim == 2
        if is_regressor(estimator):
            if several:
                raise DataError("regression with several targets is not supported; give one target")
            return cls("regression", y_train, y_test.astype(np.float64), np.empty(0), None)
        classes = np.unique(np.concatenate([y_train, y_test]))
        if several:
            if not np.isin(classes, [0, 1]).all():
                raise DataError("the labels of a multi-label target must be 0 or 1; encode them")
            return cls("multilabel", y_train, y_test, classes, None)
        if len(classes) < 2:
            raise DataError(
                f"the target has only the class {classes.tolist()[0]!r}; at least two are needed"
            )
        if len(classes) > 2:
            return cls("multiclass", y_train, y_test, classes, None)
        known = classes.tolist()
        if pos_label is not None and pos_label not in known:
            raise InputError(
                f"pos_label {pos_label!r} is not a class of the target; "
                f"choose from {', '.join(map(repr, known))}"
            )
        positive = default_positive(y_train) if pos_label is None else pos_label
        return cls("binary", y_train, y_test, classes, positive)

    @property
    def positive_share(self) -> float | None:
        """Share of the training rows in the positive class; None unless there are two classes."""
        return float(np.mean(self.train == self.pos_label)) if self.task == "binary" else None

    @property
    def positive(self) -> int:
        """Position of the positive class; 0 where there is none."""
        return self.classes.tolist().index(self.pos_label) if self.task == "binary" else 0
