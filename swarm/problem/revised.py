"""Problems for which earlier versions may have archived wrong costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from swarm.problem.models import is_short_float, last_step, steps_before
from swarm.problem.scoring import averages_classes

if TYPE_CHECKING:
    from swarm.problem.problem import Problem

__all__ = ["had_wrong_costs"]

# Estimators with a fast path in version 0.1.0, independent of the current fast paths.
_NEIGHBOURS = {"sklearn.KNeighborsClassifier", "sklearn.KNeighborsRegressor", "swarm.MLkNN"}
_LINEAR = {
    "sklearn.Ridge",
    "sklearn.RidgeClassifier",
    "sklearn.LinearRegression",
    "sklearn.LinearDiscriminantAnalysis",
}
_FAST_PATHS = {*_NEIGHBOURS, *_LINEAR, "sklearn.GaussianNB"}


def had_wrong_costs(problem: Problem) -> bool:
    """Whether version 0.1.0 may have archived wrong costs of a problem.

    Its fast paths scaled neighbours with sums in another order, computed float32 columns in
    float64, and used fitted models for too few linear systems. Its averaged scorers failed on
    binary targets without a class 1.
    """
    averaged = averages_classes(problem.scoring) and problem.task == "binary"
    if averaged and 1 not in np.unique(problem.target).tolist():
        return True
    last = last_step(problem.estimator)
    kind = f"{type(last).__module__.split('.')[0]}.{type(last).__name__}"
    if kind not in _FAST_PATHS:
        return False
    if kind in _LINEAR or any(map(is_short_float, problem.features.dtypes)):
        return True
    scaled = bool(steps_before(problem.estimator))
    return (scaled and kind in _NEIGHBOURS) or _weighs_numbers(last)


def _weighs_numbers(last: Any) -> bool:
    return type(last).__name__ == "KNeighborsRegressor" and last.weights == "distance"
