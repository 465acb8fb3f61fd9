"""Codes in place of class labels, for classifiers that accept no others."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from swarm.arrays import AnyArray
from swarm.problem.models import is_a
from swarm.problem.table import plain_target


class Decoded:
    """A classifier that was fitted to the codes 0 to k-1, and predicts the labels.

    Everything else is that of the fitted model.
    """

    def __init__(self, model: Any, classes: AnyArray) -> None:
        self.model = model
        self.classes_ = classes

    def __getattr__(self, name: str) -> Any:
        # Not while it is unpickled, when there is no model yet.
        if name == "model":
            raise AttributeError(name)
        return getattr(self.model, name)

    def predict(self, X: Any) -> AnyArray:
        """Predict a label for each row."""
        labels: AnyArray = self.classes_[np.asarray(self.model.predict(X)).astype(np.int64)]
        return labels


def fit_model(model: Any, X: Any, y: Any, **params: Any) -> Any:
    """Fit a model to class labels of any kind, and return it, or a :class:`Decoded` one."""
    if needs_codes(model):
        target = plain_target(y)
        classes, codes = np.unique(target, return_inverse=True)
        # Labels of some folds may not be those of all rows.
        if target.ndim == 1 and not np.array_equal(classes, np.arange(len(classes))):
            model.fit(X, codes, **params)
            return Decoded(model, classes)
    model.fit(X, y, **params)
    return model


def needs_codes(estimator: Any) -> bool:
    """Whether an estimator is, or contains, a classifier of XGBoost, which accepts codes only."""
    if "xgboost" not in sys.modules:
        return False
    params = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
    return is_a(is_classifier, estimator) and any(
        any(cls.__module__.partition(".")[0] == "xgboost" for cls in type(part).__mro__)
        for part in (estimator, *params.values())
    )
