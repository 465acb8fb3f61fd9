"""Columns that predict the target almost perfectly alone, or most of what all columns do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.arrays import Float
from swarm.findings.columns import numbers_of

# Rows and cells that are looked at.
_ROWS, _CELLS, _FEWEST_ROWS = 5000, 4_000_000, 30
_BINS = 32
# Share of the variance explained by the bins of a column from which it is cross-validated.
_SUSPECT = 0.4
_CANDIDATES = 5
_FOLDS = 3
_BALANCED_ACCURACY, _AUC, _R2 = 0.97, 0.99, 0.97
# A score depends on one column if all columns gain this share of a perfect score over guessing, one
# alone this share of that, and all others at most this share of what it gains.
_LEAST_GAIN, _MOST_ALONE, _OTHERS_GAIN = 1 / 3, 0.7, 2 / 3
_OTHERS, _FOREST_ROWS, _BLOCK = 30, 2000, 256
# Trees compute in float32.
_LARGEST = 1e37


@dataclass(frozen=True)
class Leak:
    """A column, and the cross-validated score of its prediction of the target alone."""

    column: str
    metric: str
    score: float
    # Scores of the best 30 columns with and without it, if it is not nearly perfect.
    together: float | None = None
    others: float | None = None

    @property
    def code(self) -> str:
        """The code of its finding."""
        return "SWM114" if self.together is None else "SWM211"

    @property
    def clause(self) -> str:
        """What was measured, without its name."""
        alone = f"alone predicts the target with {self.metric} {self.score:.3f}"
        if self.together is None:
            return alone
        return f"{alone}, all columns with {self.together:.3f}, and without it {self.others:.3f}"


def leak_columns(features: pd.DataFrame, target: NDArray[Any], task: str) -> list[Leak]:
    """Find the columns that predict the target almost perfectly on their own, the best first.

    Without any, it is the one that most of the score depends on, if there is one.
    """
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
    values = numbers_of(features)
    # Missing values are below all others, as a tree of numbers in float32 has it.
    values = np.clip(values, -_LARGEST, _LARGEST)
    low = np.nanmin(np.where(np.isfinite(values), values, np.nan), axis=0, initial=0.0)
    values = np.where(np.isfinite(values), values, low - 1.0 - np.abs(low))
    blocks = np.array_split(np.arange(values.shape[1]), values.shape[1] // _BLOCK + 1)
    shares = np.concatenate([_explained(values[:, block], wanted) for block in blocks])
    least = _SUSPECT
    if classes:
        # What a column that separates a rare class explains of it in equally filled bins.
        rarest = np.bincount(answer).min() / len(answer)
        least *= min(1.0, (_BINS - 1) * rarest / (1.0 - rarest))
    best = np.argsort(-shares, kind="stable")
    suspects = [at for at in best[:_CANDIDATES].tolist() if shares[at] >= least]
    answer = answer if classes else wanted[:, 0]
    alone = [_scored(values[:, [at]], answer, classes) for at in suspects]
    leaks = [
        Leak(str(features.columns[at]), *perfect[0])
        for at, scores in zip(suspects, alone, strict=True)
        if (perfect := [(score.metric, score.value) for score in scores if score.is_perfect])
    ]
    if leaks or len(best) < 2:
        return sorted(leaks, key=lambda leak: -leak.score)
    best = best[: _OTHERS + 1]
    scores = _most_of_the_score(values[:, best], answer, classes)
    return [] if scores is None else [Leak(str(features.columns[best[0]]), *scores)]


def _explained(values: Float, wanted: Float) -> Float:
    """Share of the variance of `wanted` (n_rows, n_classes) that bins of each column explain."""
    n_rows, n_columns = values.shape
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


@dataclass(frozen=True)
class _Score:
    metric: str
    value: float
    guess: float  # of a model that ignores the features
    perfect: float

    @property
    def is_perfect(self) -> bool:
        """Whether hardly any model of all columns could do better."""
        return self.value >= self.perfect

    @property
    def gain(self) -> float:
        """Share of the way from guessing to 1."""
        return (self.value - self.guess) / (1.0 - self.guess)


def _scored(
    values: Float, answer: NDArray[Any], classes: bool, forest: bool = False
) -> list[_Score]:
    """Cross-validate a decision tree on columns (n_rows, n_columns), or a forest; the scores."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    values = values.astype(np.float32)
    options: dict[str, Any] = {"random_state": 0}
    options |= {"n_estimators": 30, "min_samples_leaf": 3, "max_features": 0.5} if forest else {}
    if not classes:
        kind = ExtraTreesRegressor if forest else DecisionTreeRegressor
        model = kind(max_leaf_nodes=None if forest else 2 * _BINS, **options)
        folds = KFold(_FOLDS, shuffle=True, random_state=0)
        predicted = cross_val_predict(model, values, answer, cv=folds)
        explained = 1.0 - float(((answer - predicted) ** 2).mean() / answer.var())
        return [_Score("R² of ranks", explained, 0.0, _R2)]
    kind = ExtraTreesClassifier if forest else DecisionTreeClassifier
    tree = kind(max_leaf_nodes=None if forest else _BINS, class_weight="balanced", **options)
    strata = StratifiedKFold(_FOLDS, shuffle=True, random_state=0)
    shares = cross_val_predict(tree, values, answer, cv=strata, method="predict_proba")
    right, labels = shares.argmax(axis=1) == answer, np.unique(answer)
    recall = float(np.mean([right[answer == label].mean() for label in labels]))
    scores = [_Score("balanced accuracy", recall, 1 / len(labels), _BALANCED_ACCURACY)]
    if len(labels) == 2:
        scores.append(_Score("ROC AUC", float(roc_auc_score(answer, shares[:, 1])), 0.5, _AUC))
    return scores


def _most_of_the_score(
    values: Float, answer: NDArray[Any], classes: bool
) -> tuple[str, float, float, float] | None:
    """Return the scores of a :class:`Leak`, the first column, if most of the score is due to it."""
    step = -(-len(answer) // _FOREST_ROWS)
    answer, values = answer[::step], values[::step]
    if classes and np.bincount(answer).min() < _FOLDS:
        return None
    first = _scored(values[:, :1], answer, classes)[-1]
    if first.gain < _MOST_ALONE * _LEAST_GAIN:
        return None
    every = _scored(values, answer, classes, forest=True)[-1]
    if every.gain < _LEAST_GAIN or first.gain < _MOST_ALONE * every.gain:
        return None
    others = _scored(values[:, 1:], answer, classes, forest=True)[-1]
    if others.gain > _OTHERS_GAIN * first.gain:
        return None
    return first.metric, first.value, every.value, others.value
