"""Choose the fast path of a problem, or explain why there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from pandas.api import types

from swarm.arrays import Bool
from swarm.errors import ConfigError
from swarm.fastpaths.device import Device, open_device
from swarm.fastpaths.metrics import takes_labels, takes_probabilities
from swarm.fastpaths.path_result import PathResult
from swarm.problem.models import is_short_float, last_step, steps_before
from swarm.problem.problem import Problem

__all__ = ["ExactPath", "exact_path", "require_device"]


class ExactPath(Protocol):
    """Interface of fast paths: fold costs of many masks, equal to those of fitted models."""

    def answers(self, masks: Bool) -> PathResult:
        """Evaluate masks (n, n_units) on every fold.

        The result of a mask does not depend on the others. Doubtful costs are NaN.
        """


_Choice = tuple[ExactPath | None, str]


def exact_path(problem: Problem, device: Device | None = None) -> tuple[ExactPath | None, str]:
    """Return the fast path of a problem or None, and a sentence that explains the choice.

    Parameters
    ----------
    problem : Problem
    device : Device, optional
        Where matrix products run if that cannot change a cost. Default: the CPU.
    """
    last = last_step(problem.estimator)
    kind = f"{type(last).__module__.split('.')[0]}.{type(last).__name__}"
    if kind not in _PATHS:
        return None, f"no fast path for {type(last).__name__}: models are fitted"
    reason = _unfit(problem, steps_before(problem.estimator), _PATHS[kind])
    if reason:
        return None, f"models are fitted: {reason}"
    off_device = None if device is None else _off_device(problem, last)
    path, reason = _PATHS[kind](problem, last, None if off_device else device)
    if path is None:
        return None, f"models are fitted: {reason}"
    if device is not None:
        reason += f"; on the CPU, as {off_device}" if off_device else f", on {device.label}"
    return path, f"no models are fitted: {reason}"


def require_device(problem: Problem, name: str) -> None:
    """Raise :class:`swarm.errors.ConfigError` unless a device computes the costs of a problem.

    Parameters
    ----------
    problem : Problem
    name : str
        See :func:`.device.open_device`.
    """
    if open_device(name) is None:
        return
    path, reason = exact_path(problem)
    if path is not None:
        reason = _off_device(problem, last_step(problem.estimator))
    if reason:
        raise ConfigError(
            f"evaluation.device is {name!r}, which would have nothing to do: {reason}; set it to"
            " 'cpu'"
        )


def _off_device(problem: Problem, model: Any) -> str:
    """Return why a device could change the last bits of a cost or an importance, or ""."""
    name, scoring = type(model).__name__, problem.scoring
    if name not in _ON_DEVICE:
        return f"only {', '.join(_ON_DEVICE)} run on a device"
    if name == "GaussianNB" and not takes_labels(scoring):
        return f"{scoring.name!r} depends on the last bits of probabilities"
    if getattr(model, "weights", "uniform") != "uniform":
        return f"{name} has weights"
    if problem.importance == "fold":
        return (
            f"importances that are coefficients of {name} would differ in their last bits"
            " (evaluation.importance 'mutual_information' or 'none' has no coefficients)"
        )
    return ""


def _unfit(problem: Problem, before: list[Any], made: Any) -> str:
    """Return a reason against a fast path that does not depend on the estimator, or ""."""
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    linear = made is _linear
    for step in before:
        if type(step) not in (StandardScaler, MinMaxScaler):
            return f"the pipeline has a {type(step).__name__} before the last step"
    if problem.weight is not None and not linear:
        return "rows have weights"
    if problem.fit_params:
        return f"fit has the parameter {min(problem.fit_params)!r}"
    # Linear paths compute coefficients; the other paths have no importances.
    if problem.importance not in ("none", "mutual_information", *(["fold"] if linear else [])):
        return f"importances of the kind {problem.importance!r} come from models"
    has_probabilities = made in (_nearest, _naive_bayes) and takes_probabilities(problem.scoring)
    if not takes_labels(problem.scoring) and not has_probabilities:
        return f"the scorer {problem.scoring.name!r} needs more than predictions"
    for column, dtype in problem.features.dtypes.items():
        numeric = types.is_numeric_dtype(dtype) and not types.is_bool_dtype(dtype)
        if not numeric or is_short_float(dtype):
            return f"column {column!r} is of type {dtype}"
    if not np.isfinite(problem.features.to_numpy(dtype=np.float64, na_value=np.nan)).all():
        return "there are missing values"
    return ""


def _nearest(problem: Problem, model: Any, device: Device | None) -> _Choice:
    from swarm.fastpaths.nearest_path import nearest_path

    return nearest_path(problem, model, device)


def _naive_bayes(problem: Problem, model: Any, device: Device | None) -> _Choice:
    from swarm.fastpaths.naive_bayes import naive_bayes_path

    return naive_bayes_path(problem, model, device)


def _linear(problem: Problem, model: Any, device: Device | None) -> _Choice:
    from swarm.fastpaths.linear_path import linear_path

    return linear_path(problem, model, device)


def _multilabel(problem: Problem, model: Any, _device: Device | None) -> _Choice:
    from swarm.fastpaths.multilabel_path import multilabel_path

    return multilabel_path(problem, model)


# Models whose costs a device cannot change, as they depend on labels or votes alone.
_ON_DEVICE = ("GaussianNB", "KNeighborsClassifier", "RidgeClassifier", "LinearDiscriminantAnalysis")
_PATHS: dict[str, Callable[[Problem, Any, Device | None], _Choice]] = {
    "sklearn.KNeighborsClassifier": _nearest,
    "sklearn.KNeighborsRegressor": _nearest,
    "sklearn.GaussianNB": _naive_bayes,
    "sklearn.Ridge": _linear,
    "sklearn.RidgeClassifier": _linear,
    "sklearn.LinearRegression": _linear,
    "sklearn.LinearDiscriminantAnalysis": _linear,
    "swarm.MLkNN": _multilabel,
}
