"""Relevance of features: mutual information with the target."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from pandas.api import types

from swarm.arrays import Bool, Float
from swarm.errors import InputError, nearest
from swarm.statistics.encoding import as_numbers, is_nominal

__all__ = ["relevance"]

TASKS = ("binary", "multiclass", "classification", "multilabel", "regression")
FEW_VALUES = 20


def relevance(
    features: pd.DataFrame, target: pd.Series | pd.DataFrame, task: str, seed: int
) -> Float:
    """Mutual information of each feature with the target, in nats.

    Uses the k-nearest-neighbour estimators of scikit-learn. Category, string and bool columns,
    and integer columns with at most 20 distinct values, are treated as discrete; the relevance of
    a constant column is 0. Missing values are replaced by the lower median of their column. For
    multi-label targets, the result is the mean over the labels.

    Parameters
    ----------
    features : (n_rows, d)
        Table of features.
    target : (n_rows,) or (n_rows, n_labels)
        Classes, numbers, or labels of 0 and 1.
    task : str
        "binary", "multiclass" or "classification", "multilabel", "regression".
    seed : int
        Seed of the small noise that the estimator adds to break ties.

    Returns
    -------
    float64 (d,)
        At least 0; higher is more relevant.

    Raises
    ------
    InputError
        If the task is unknown, or does not match the shape of the target.
    DataError
        If the dtype of a column is not supported.
    """
    from sklearn.feature_selection import mutual_info_classif, mutual_info_regression

    if task not in TASKS:
        raise InputError(
            f"unknown task {task!r}{nearest(task, TASKS)}; choose from {', '.join(TASKS)}"
        )
    wanted = np.asarray(target)
    if wanted.ndim == 2 and wanted.shape[1] == 1 and task != "multilabel":
        wanted = wanted[:, 0]
    if (wanted.ndim == 2) != (task == "multilabel"):
        raise InputError(
            f"a target of shape {wanted.shape} does not match the task {task!r}; "
            "give one column, or the task 'multilabel' for several"
        )
    labels = wanted.T if wanted.ndim == 2 else wanted[None, :]
    values = _filled(as_numbers(features))
    estimate = mutual_info_regression if task == "regression" else mutual_info_classif
    discrete = _discrete(features, values)
    total = np.zeros(values.shape[1])
    for label in labels:
        total += estimate(values, label, discrete_features=discrete, random_state=seed)
    # The estimates of constant columns are rounding errors of about 1e-16.
    constant = (values == values[0]).all(axis=0)
    return np.where(constant, 0.0, total / len(labels))


def _filled(values: Float) -> Float:
    """Replace missing cells by the lower median, which is a value of the column."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice", RuntimeWarning)
        median = np.nanquantile(values, 0.5, axis=0, method="lower")
    return np.where(np.isnan(values), np.nan_to_num(median), values)


def _discrete(features: pd.DataFrame, values: Float) -> Bool:
    discrete = [
        is_nominal(dtype)
        or (types.is_integer_dtype(dtype) and len(np.unique(values[:, position])) <= FEW_VALUES)
        for position, dtype in enumerate(features.dtypes)
    ]
    return np.array(discrete, dtype=bool)
