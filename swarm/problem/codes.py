"""Codes in place of class labels, for classifiers that accept no others."""

from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from swarm.arrays import AnyArray
from swarm.problem.models import is_a
from swarm.problem.table import plain_target

# What packages raise for labels; a lack of memory is none.
_REFUSALS = (ValueError, TypeError, LookupError, AssertionError, RuntimeError)


class Decoded:
    """A classifier that was fitted to the codes 0 to k-1, and predicts the labels.

    All other attributes are those of the fitted model.
    """

    def __init__(self, model: Any, classes: AnyArray) -> None:
        self.model = model
        self.classes_ = classes

    def __getattr__(self, name: str) -> Any:
        # While it is unpickled, there is no model yet.
        if name == "model":
            raise AttributeError(name)
        return getattr(self.model, name)

    def predict(self, X: Any) -> AnyArray:
        """Predict a label for each row."""
        codes = np.asarray(self.model.predict(X)).astype(np.int64)
        return self.classes_[codes]


def fit_model(model: Any, X: Any, y: Any, **params: Any) -> Any:
    """Fit a model to class labels of any kind, and return it, or a :class:`Decoded` one.

    Classifiers such as those of XGBoost, or models around them, accept the codes 0 to k-1 only: one
    that refuses the labels is fitted to their codes. If it refuses these too, the error is the
    first one.
    """
    try:
        model.fit(X, y, **params)
    except _REFUSALS:
        target = plain_target(y)
        if not is_a(is_classifier, model) or target.ndim != 1:
            raise
        # Labels of some folds may not be those of all rows.
        classes, codes = np.unique(target, return_inverse=True)
        if classes.dtype.kind == "i" and np.array_equal(classes, np.arange(len(classes))):
            raise
        with suppress(*_REFUSALS):
            model.fit(X, codes, **params)
            return Decoded(model, classes)
        raise
    return model
