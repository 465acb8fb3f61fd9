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

# The function `path_of` of these modules returns the fast path of a model, or None and the reason.
# A module is imported when it is needed, as compiled code takes a while to load.
_PATHS = {
    "sklearn.KNeighborsClassifier": "nearest",
    "sklearn.KNeighborsRegressor": "nearest",
    "sklearn.GaussianNB": "naive_bayes",
    "sklearn.Ridge": "linear",
    "sklearn.RidgeClassifier": "linear",
    "sklearn.LinearRegression": "linear",
    "swarm.MLkNN": "multilabel",
}
_CHUNKS_PER_THREAD = 2
_MIN_MASKS_PER_CHUNK = 8


@dataclass(frozen=True)
class PathResult:
    """Costs, and importances if fitted models would have them.

    Attributes
    ----------
    costs : float64 (n, n_folds)
        NaN if rounding could change a prediction: a model is then fitted.
    importances : float64 (n, n_folds, n_units) or None
        Importances of units, as :func:`.model_importances` gives them by column; NaN as the costs.
    """

    costs: Float
    importances: Float | None = None


class ExactPath(Protocol):
    """Interface of fast paths: fold costs of many masks, equal to those of fitted models."""

    def evaluate(self, masks: Bool, folds: Sequence[int]) -> PathResult:
        """Evaluate masks (n, n_units) independently of each other, at least on these folds."""


def exact_path(problem: Problem) -> tuple[ExactPath | None, str]:
    """Return the fast path of a problem or None, and a sentence that explains the choice."""
    model = last_step(problem.estimator)
    model_name = type(model).__name__
    name = _PATHS.get(f"{type(model).__module__.split('.')[0]}.{model_name}")
    if name is None:
        return None, f"no fast path for {model_name}: models are fitted"
    reason = _reason_against(problem, name)
    if reason:
        return None, f"models are fitted: {reason}"
    path, reason = import_module(f"swarm.fastpaths.{name}").path_of(problem, model)
    if path is None:
        return None, f"models are fitted: {reason}"
    return path, f"no models are fitted: {reason}"


def evaluate_masks(
    path: ExactPath, masks: Bool, folds: Sequence[int], n_threads: int = 1
) -> PathResult:
    """Evaluate masks (n, n_units) on folds in threads, whose number does not change the result."""
    from concurrent.futures import ThreadPoolExecutor

    n_chunks = min(_CHUNKS_PER_THREAD * n_threads, len(masks) // _MIN_MASKS_PER_CHUNK)
    with one_thread():
        if n_threads == 1 or n_chunks <= 1:
            return path.evaluate(masks, folds)
        with ThreadPoolExecutor(n_threads) as pool:
            chunks = np.array_split(masks, n_chunks)
            results = list(pool.map(partial(path.evaluate, folds=folds), chunks))
    costs = np.concatenate([result.costs for result in results])
    importances = [result.importances for result in results if result.importances is not None]
    return PathResult(costs, np.concatenate(importances) if importances else None)


def _reason_against(problem: Problem, path: str) -> str:
    """Return a reason against a fast path that does not depend on the model, or ""."""
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    for step in steps_before(problem.estimator):
        if type(step) not in (StandardScaler, MinMaxScaler):
            return f"the pipeline has a {type(step).__name__} before the last step"
    if problem.weight is not None and path != "linear":
        return "rows have weights"
    if problem.other_fit_params or problem.score_params:
        parameter = min([*problem.other_fit_params, *problem.score_params])
        return f"models or scores have the parameter {parameter!r}"
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
        is_number = types.is_numeric_dtype(dtype) and not types.is_bool_dtype(dtype)
        if not is_number or is_short_float(dtype):
            return f"column {column!r} is of type {dtype}"
    if not np.isfinite(problem.features.to_numpy(dtype=np.float64, na_value=np.nan)).all():
        return "there are missing values"
    return ""
