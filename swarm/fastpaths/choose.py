"""Choose the fast path of a problem, or explain why there is none, and run it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from pandas.api import types

from swarm.arrays import Bool, Float
from swarm.errors import ConfigError
from swarm.fastpaths.device import Device, open_device
from swarm.fastpaths.metrics import takes_labels, takes_probabilities
from swarm.problem.models import is_short_float, last_step, steps_before
from swarm.problem.problem import Problem
from swarm.threads import one_thread

# The module of the fast path of each model. Its function `path_of` returns the path, or None and
# the reason; it is imported when needed, as compiled code takes a while to load.
_PATHS = {
    "sklearn.KNeighborsClassifier": "nearest",
    "sklearn.KNeighborsRegressor": "nearest",
    "sklearn.GaussianNB": "naive_bayes",
    "sklearn.Ridge": "linear",
    "sklearn.RidgeClassifier": "linear",
    "sklearn.LinearRegression": "linear",
    "sklearn.LinearDiscriminantAnalysis": "linear",
    "swarm.MLkNN": "multilabel",
}
# Models whose costs a device cannot change, as they depend on labels or votes alone.
_ON_DEVICE = ("GaussianNB", "KNeighborsClassifier", "RidgeClassifier", "LinearDiscriminantAnalysis")
# Chunks per thread, and the smallest number of masks of a chunk.
_PIECES = 2
_FEWEST = 8


@dataclass(frozen=True)
class PathResult:
    """Costs, and importances if fitted models would have them.

    Attributes
    ----------
    costs : float64 (n, n_folds)
        NaN if rounding could change a prediction; a fitted model is then the fallback for this
        mask and fold.
    importances : float64 (n, n_folds, n_units) or None
        As :func:`swarm.problem.models.model_importances`, summed by unit; NaN where the cost is
        NaN.
    """

    costs: Float
    importances: Float | None = None


class ExactPath(Protocol):
    """Interface of fast paths: fold costs of many masks, equal to those of fitted models."""

    def answers(self, masks: Bool) -> PathResult:
        """Evaluate masks (n, n_units) on every fold.

        The result of a mask does not depend on the others. Doubtful costs are NaN.
        """


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
    reason = _unfit(problem, _PATHS[kind])
    if reason:
        return None, f"models are fitted: {reason}"
    off_device = None if device is None else _off_device(problem, last)
    made = import_module(f"swarm.fastpaths.{_PATHS[kind]}")
    path, reason = made.path_of(problem, last, None if off_device else device)
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


def evaluate_masks(path: ExactPath, masks: Bool, n_threads: int = 1) -> PathResult:
    """Evaluate masks (n, n_units); the result does not depend on the number of threads.

    Compiled code releases the GIL, so that threads can use all cores.
    """
    from concurrent.futures import ThreadPoolExecutor

    count = 1 if n_threads == 1 else min(_PIECES * n_threads, len(masks) // _FEWEST)
    with one_thread():
        if count <= 1:
            return path.answers(masks)
        with ThreadPoolExecutor(n_threads) as pool:
            parts = list(pool.map(path.answers, np.array_split(masks, count)))
    importances = [part.importances for part in parts if part.importances is not None]
    costs = np.concatenate([part.costs for part in parts])
    return PathResult(costs, np.concatenate(importances) if importances else None)


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


def _unfit(problem: Problem, path: str) -> str:
    """Return a reason against a fast path that does not depend on the estimator, or ""."""
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    for step in steps_before(problem.estimator):
        if type(step) not in (StandardScaler, MinMaxScaler):
            return f"the pipeline has a {type(step).__name__} before the last step"
    if problem.weight is not None and path != "linear":
        return "rows have weights"
    if problem.fit_params:
        return f"fit has the parameter {min(problem.fit_params)!r}"
    # Linear paths compute coefficients; the other paths have no importances.
    has_importances = path == "linear" and problem.importance == "fold"
    if not has_importances and problem.importance not in ("none", "mutual_information"):
        return f"importances of the kind {problem.importance!r} come from models"
    has_probabilities = path in ("nearest", "naive_bayes") and takes_probabilities(problem.scoring)
    if not takes_labels(problem.scoring) and not has_probabilities:
        return f"the scorer {problem.scoring.name!r} needs more than predictions"
    for column, dtype in problem.features.dtypes.items():
        numeric = types.is_numeric_dtype(dtype) and not types.is_bool_dtype(dtype)
        if not numeric or is_short_float(dtype):
            return f"column {column!r} is of type {dtype}"
    if not np.isfinite(problem.features.to_numpy(dtype=np.float64, na_value=np.nan)).all():
        return "there are missing values"
    return ""
