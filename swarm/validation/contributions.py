"""SHAP values of a fitted model: how much each feature moves a prediction.

LightGBM computes them itself, exactly for its trees; other models need the package shap. Source:
Lundberg and Lee (2017), A unified approach to interpreting model predictions, NeurIPS.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from swarm.arrays import Float
from swarm.errors import InputError
from swarm.problem.models import is_lightgbm
from swarm.problem.problem import Problem

_MOST_ROWS = 150
_MOST_FEATURES = 12
# Models without an explainer of their own are explained by permutation: rows, background rows.
_FEW_ROWS, _BACKGROUND = 30, 20


@dataclass(frozen=True, eq=False)
class Contributions:
    """SHAP values of the most important features.

    Attributes
    ----------
    mean : Series
        Mean absolute value of each feature, the highest first; of several classes their mean.
    values : DataFrame (n_rows, n_features), optional
        Values of single rows; None for several classes.
    levels : DataFrame (n_rows, n_features), optional
        Rank of the feature's value among these rows, from 0 to 1; NaN for categories.
    unit : str
        What the values add up to, such as ``log-odds of 1``.
    n_rows, n_features : int
        Number of rows that were explained, and of features of the model.
    """

    mean: pd.Series
    values: pd.DataFrame | None
    levels: pd.DataFrame | None
    unit: str
    n_rows: int
    n_features: int


def contributions(
    problem: Problem, model: Any, train: Any, rows: Any, names: list[str], positive: Any
) -> Contributions:
    """Return the SHAP values of a model on a sample of rows.

    Parameters
    ----------
    problem : Problem
    model : estimator
        Fitted.
    train, rows : table or array (n, n_features)
        Input of the model: background, and rows to explain.
    names : list of str (n_features,)
    positive : class, optional
        Positive class of a binary target.

    Raises
    ------
    InputError
        If the model needs the package shap, and it is not installed.
    """
    rng = np.random.default_rng([problem.seed, 5])
    if is_lightgbm(model):
        shown = _sample(rows, _MOST_ROWS, rng)
        values = _of_trees(model, shown, len(names))
        scale = "log-odds"
    elif find_spec("shap") is None:
        raise InputError(
            f"SHAP values of {type(model).__name__} need the package shap; run "
            "`pip install 'swarmselect[shap]'`"
        )
    else:
        shown = _sample(rows, _FEW_ROWS, rng)
        values, scale = _of_any(model, _sample(train, _BACKGROUND, rng), shown, problem)
    classes = getattr(model, "classes_", None)
    if values.shape[2] == 1 and classes is not None and positive == classes[0]:
        # Values are those of the second class.
        values = -values
    unit = "predicted value" if problem.task == "regression" else f"{scale} of {positive}"
    mean = pd.Series(np.abs(values).mean(axis=(0, 2)), index=names)
    mean = mean.sort_values(ascending=False, kind="stable").head(_MOST_FEATURES)
    if values.shape[2] > 1:
        return Contributions(mean, None, None, f"{scale} of a class", len(shown), len(names))
    at = [names.index(name) for name in mean.index]
    table = pd.DataFrame(values[:, at, 0].round(6), columns=list(mean.index))
    levels = pd.DataFrame(np.column_stack([_levels(shown, i) for i in at]), columns=table.columns)
    return Contributions(mean, table, levels, unit, len(shown), len(names))


def _sample(rows: Any, most: int, rng: np.random.Generator) -> Any:
    if len(rows) <= most:
        return rows
    taken = np.sort(rng.choice(len(rows), most, replace=False))
    return rows.iloc[taken] if isinstance(rows, pd.DataFrame) else rows[taken]


def _of_trees(model: Any, rows: Any, n_features: int) -> Float:
    """Return values (n_rows, n_features, n_outputs); the last column of each is the base."""
    found = np.asarray(model.predict(rows, pred_contrib=True), dtype=np.float64)
    return found.reshape(len(rows), -1, n_features + 1)[:, :, :-1].transpose(0, 2, 1)


def _of_any(model: Any, background: Any, rows: Any, problem: Problem) -> tuple[Float, str]:
    """Return values (n_rows, n_features, n_outputs) by the package shap, and their scale."""
    import shap

    classifies = problem.task in ("binary", "multiclass")
    scale = "probability"
    function = model.predict_proba if classifies else model.predict
    if classifies and not hasattr(model, "predict_proba"):
        function, scale = model.decision_function, "decision value"
    columns = list(background.columns) if isinstance(background, pd.DataFrame) else None

    def answer(values: Any) -> Any:
        table = values if columns is None else pd.DataFrame(values, columns=columns)
        if columns is not None:
            table = table.astype(background.dtypes.to_dict())
        return function(table)

    n_features = background.shape[1]
    explainer = shap.Explainer(
        answer, np.asarray(background), algorithm="permutation", seed=problem.seed
    )
    found = explainer(np.asarray(rows), max_evals=2 * n_features + 1, silent=True)
    values = np.asarray(found.values, dtype=np.float64)
    values = values[:, :, None] if values.ndim == 2 else values
    return (values[:, :, 1:] if values.shape[2] == 2 else values), scale


def _levels(rows: Any, position: int) -> Float:
    """Return the rank of each row's value of a column, from 0 to 1; NaN for categories."""
    values = rows.iloc[:, position] if isinstance(rows, pd.DataFrame) else rows[:, position]
    column = pd.Series(np.asarray(values)) if not isinstance(values, pd.Series) else values
    if not pd.api.types.is_numeric_dtype(column.dtype):
        return np.full(len(column), np.nan)
    ranks = column.rank(method="average", pct=True)
    return np.asarray(ranks.round(4), dtype=np.float64)
