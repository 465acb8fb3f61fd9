"""Choose the fast path of a problem, or explain why there is none, and run it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Protocol

import numpy as np
from pandas.api import types
from scipy.sparse import issparse

from swarm.arrays import Bool, Float
from swarm.metrics import takes_labels, takes_probabilities
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
    "swarm.MLkNN": "multilabel",
}
# Chunks per thread, and the smallest number of masks of a chunk.
_PIECES = 2
_FEWEST = 8


@dataclass(frozen=True)
class PathResult:
    """Costs, and importances if fitted models would have them."""

    costs: Float  # (n, n_folds), NaN if rounding could change a prediction: a model is then fitted
    # (n, n_folds, n_units), like those of model_importances by unit; NaN as the costs
    importances: Float | None = None


class ExactPath(Protocol):
    """Interface of fast paths: fold costs of many masks, equal to those of fitted models."""

    def answers(self, masks: Bool, folds: Sequence[int]) -> PathResult:
        """Evaluate masks (n, n_units), each independent of the others, at least on some folds."""


def exact_path(problem: Problem) -> tuple[ExactPath | None, str]:
    """Return the fast path of a problem or None, and a sentence that explains the choice."""
    last = last_step(problem.estimator)
    kind = f"{type(last).__module__.split('.')[0]}.{type(last).__name__}"
    if kind not in _PATHS:
        return None, f"no fast path for {type(last).__name__}: models are fitted"
    reason = _unfit(problem, _PATHS[kind])
    if reason:
        return None, f"models are fitted: {reason}"
    made = import_module(f"swarm.fastpaths.{_PATHS[kind]}")
    path, reason = made.path_of(problem, last)
    if path is None:
        return None, f"models are fitted: {reason}"
    return path, f"no models are fitted: {reason}"


def evaluate_masks(
    path: ExactPath, masks: Bool, folds: Sequence[int], n_threads: int = 1
) -> PathResult:
    """Evaluate masks (n, n_units) on folds in threads, whose number does not change the result."""
    from concurrent.futures import ThreadPoolExecutor

    count = 1 if n_threads == 1 else min(_PIECES * n_threads, len(masks) // _FEWEST)
    with one_thread():
        if count <= 1:
            return path.answers(masks, folds)
        with ThreadPoolExecutor(n_threads) as pool:
            pieces = np.array_split(masks, count)
            parts = list(pool.map(partial(path.answers, folds=folds), pieces))
    importances = [part.importances for part in parts if part.importances is not None]
    costs = np.concatenate([part.costs for part in parts])
    return PathResult(costs, np.concatenate(importances) if importances else None)


def _unfit(problem: Problem, path: str) -> str:
    """Return a reason against a fast path that does not depend on the estimator, or ""."""
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    for step in steps_before(problem.estimator):
        if type(step) not in (StandardScaler, MinMaxScaler):
            return f"the pipeline has a {type(step).__name__} before the last step"
    if problem.weight is not None and path != "linear":
        return "rows have weights"
    if problem.other_fit_params or problem.score_params:
        named = min([*problem.other_fit_params, *problem.score_params])
        return f"models or scores have the parameter {named!r}"
    if issparse(problem.X):
        return "rows are sparse"
    if problem.settings.in_results():
        return f"{min(problem.settings.in_results())} is set"
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
