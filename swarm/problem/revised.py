"""Problems of which earlier versions may have archived costs that are not those of models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from swarm.fastpaths.choose import exact_kind, is_linear, is_short_float
from swarm.fastpaths.tables import steps_before
from swarm.problem.scoring import averages_classes

if TYPE_CHECKING:
    from swarm.problem.problem import Problem

__all__ = ["costs_were_wrong"]


def costs_were_wrong(problem: Problem) -> bool:
    """Whether version 0.1.0 may have archived wrong costs of a problem.

    Its fast paths scaled neighbours by sums in another order, computed float32 columns in
    float64, and left too few linear systems to their models. Its averaged scorers failed on two
    classes neither of which is 1.
    """
    averaged = averages_classes(problem.scoring) and problem.task == "binary"
    if averaged and 1 not in np.unique(problem.target).tolist():
        return True
    kind, last = exact_kind(problem.estimator)
    if kind is None:
        return False
    if is_linear(kind) or any(map(is_short_float, problem.features.dtypes)):
        return True
    return _scales_neighbours(problem, kind) or _weighs_numbers(last)


def _scales_neighbours(problem: Problem, kind: str) -> bool:
    scaled = bool(steps_before(problem.estimator))
    return scaled and kind.endswith(("KNeighborsClassifier", "KNeighborsRegressor", "MLkNN"))


def _weighs_numbers(last: Any) -> bool:
    return type(last).__name__ == "KNeighborsRegressor" and last.weights == "distance"
