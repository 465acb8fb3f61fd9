"""Columns that predict the target almost perfectly on their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.arrays import Float
from swarm.findings.columns import hashable, number_blocks, other_columns

# Rows and cells that are looked at.
_ROWS, _CELLS, _FEWEST_ROWS = 5000, 4_000_000, 30
_BINS = 32
# Share of the variance explained by the bins of a column from which it is cross-validated.
_SUSPECT = 0.4
_CANDIDATES = 5
_FOLDS = 3
_BALANCED_ACCURACY, _AUC, _R2 = 0.97, 0.99, 0.97


@dataclass(frozen=True)
class Leak:
    """A column, and the cross-validated score of its prediction of the target alone."""

    column: str
    metric: str
    score: float


def leak_columns(features: pd.DataFrame, target: NDArray[Any], task: str) -> list[Leak]:
    """Find the columns that predict the target almost perfectly on their own, the best first."""
    # The share of the variance of the target that bins of a column explain picks at most five
    # columns, each of which is cross-validated in a decision tree on at most 5,000 rows.
    is_supported = task in ("binary", "multiclass", "regression") and np.ndim(target) == 1
    if not is_supported or len(features) < _FEWEST_ROWS:
        return []
    most = min(_ROWS, max(200, _CELLS // max(features.shape[1], 1)))
    if len(features) > most:
        rows = np.sort(np.random.default_rng(0).permutation(len(features))[:most])
        features, target = features.iloc[rows], target[rows]
    classes = task != "regression"
    answer: NDArray[Any] = np.unique(
        target if classes else np.asarray(target, dtype=np.float64), return_inverse=True
    )[1]
    if not classes:
        wanted = answer[:, None].astype(np.float64)
    elif np.bincount(answer).min() < _FOLDS:
        return []
    else:
        wanted = np.eye(int(answer.max()) + 1)[answer]
    shares = _explained(features, wanted)
    least = _SUSPECT
    if classes:
        # What a column that separates a rare class explains of it in equally filled bins.
        rarest = np.bincount(answer).min() / len(answer)
        least *= min(1.0, (_BINS - 1) * rarest / (1.0 - rarest))
    suspects = np.flatnonzero(shares >= least)
    suspects = suspects[np.argsort(-shares[suspects], kind="stable")][:_CANDIDATES]
    columns = [features.iloc[:, at] for at in suspects.tolist()]
    scored = [
        _scored(str(each.name), _numbers(each), answer if classes else wanted[:, 0], classes)
        for each in columns
    ]
    leaks = [leak for leak in scored if leak is not None]
    return sorted(leaks, key=lambda leak: -leak.score)


def _numbers(column: pd.Series) -> Float:
    """Return the values as float64, categories as codes; missing values are below all others."""
    if pd.api.types.is_numeric_dtype(column):
        values: Float = column.to_numpy(dtype=np.float64, na_value=np.nan)
    elif pd.api.types.is_datetime64_any_dtype(column):
        values = column.to_numpy(dtype="datetime64[s]").astype(np.float64)
        values = np.where(column.isna(), np.nan, values)
    else:
        values = pd.factorize(hashable(column), sort=False)[0].astype(np.float64)
        values[values < 0] = np.nan
    finite = np.isfinite(values)
    low = float(values[finite].min()) if finite.any() else 0.0
    return np.where(finite, values, low - 1.0 - abs(low))


def _explained(features: pd.DataFrame, wanted: Float) -> Float:
    """Share of the variance of `wanted` (n_rows, n_classes) that bins of each column explain."""
    shares = np.zeros(features.shape[1])
    for block, values in number_blocks(features):
        shares[block] = _explained_by(values.astype(np.float64), wanted)
    for at, column in other_columns(features):
        shares[at] = _explained_by(_numbers(column)[:, None], wanted)[0]
    return shares


def _explained_by(values: Float, wanted: Float) -> Float:
    """The same for a matrix (n_rows, n_columns) of numbers; missing ones are below all others."""
    n_rows, n_columns = values.shape
    values = np.where(np.isnan(values), -np.inf, values)
    order = np.argsort(values, axis=0, kind="stable")
    ordered = np.take_along_axis(values, order, axis=0)
    # Equal values share the bin of the first of them, out of bins of equal numbers of rows.
    new = np.vstack([np.ones((1, n_columns), dtype=bool), ordered[1:] != ordered[:-1]])
    first = np.maximum.accumulate(np.where(new, np.arange(n_rows)[:, None], 0), axis=0)
    bins = first * _BINS // n_rows + _BINS * np.arange(n_columns)
    counts = np.bincount(bins.ravel(), minlength=_BINS * n_columns).reshape(n_columns, _BINS)
    shares = np.zeros(n_columns)
    for column in wanted.T:
        sums = np.bincount(bins.ravel(), column[order].ravel(), minlength=_BINS * n_columns)
        sums = sums.reshape(n_columns, _BINS)
        mean = column.mean()
        between = (sums**2 / np.maximum(counts, 1)).sum(axis=1) - n_rows * mean**2
        shares += between / max(float(((column - mean) ** 2).sum()), np.finfo(float).tiny)
    mean_share: Float = shares / wanted.shape[1]
    return mean_share


def _scored(name: str, values: Float, answer: NDArray[Any], classes: bool) -> Leak | None:
    """Cross-validate a column alone; None if it is not nearly perfect."""
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    alone = values[:, None].astype(np.float32)
    if not classes:
        model = DecisionTreeRegressor(max_leaf_nodes=2 * _BINS, random_state=0)
        folds = KFold(_FOLDS, shuffle=True, random_state=0)
        predicted = cross_val_predict(model, alone, answer, cv=folds)
        score = 1.0 - float(((answer - predicted) ** 2).mean() / answer.var())
        return Leak(name, "R² of ranks", score) if score >= _R2 else None
    tree = DecisionTreeClassifier(max_leaf_nodes=_BINS, class_weight="balanced", random_state=0)
    strata = StratifiedKFold(_FOLDS, shuffle=True, random_state=0)
    shares = cross_val_predict(tree, alone, answer, cv=strata, method="predict_proba")
    right = shares.argmax(axis=1) == answer
    score = float(np.mean([right[answer == label].mean() for label in np.unique(answer)]))
    if score >= _BALANCED_ACCURACY:
        return Leak(name, "balanced accuracy", score)
    if shares.shape[1] == 2:
        area = float(roc_auc_score(answer, shares[:, 1]))
        if area >= _AUC:
            return Leak(name, "ROC AUC", area)
    return None
