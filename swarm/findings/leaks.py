"""Columns that predict the target almost perfectly, or have most of the score of all columns."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from swarm.arrays import AnyArray, Float
from swarm.findings.columns import numbers_of

_MIN_ROWS = 30
# More rows and cells are sampled.
_MAX_ROWS = 5000
_MAX_CELLS = 4_000_000
_N_BINS = 32
# A column is cross-validated if its bins explain this share of the variance.
_MIN_SHARE_EXPLAINED = 0.4
_MAX_CANDIDATES = 5
_N_FOLDS = 3
_MIN_BALANCED_ACCURACY = 0.97
_MIN_AUC = 0.99
_MIN_R2 = 0.97
# A score depends on one column if all columns gain this share of a perfect score over guessing, ...
_MIN_GAIN = 1 / 3
# ... the column alone gains this share of their gain, ...
_MIN_SHARE_ALONE = 0.7
# ... and all other columns at most this share of its gain.
_MAX_SHARE_OTHERS = 2 / 3
_MAX_OTHERS = 30
_MAX_FOREST_ROWS = 2000
_BLOCK = 256
# Trees compute in float32.
_MAX_VALUE = 1e37


@dataclass(frozen=True)
class Leak:
    """A column, and the cross-validated score of its prediction of the target alone.

    Attributes
    ----------
    column, metric : str
    score : float
    together, others : float, optional
        Scores of the best 30 columns with the column and without it; None if it is nearly perfect.
    """

    column: str
    metric: str
    score: float
    together: float | None = None
    others: float | None = None

    @property
    def code(self) -> str:
        """The code of its finding."""
        return "SWM114" if self.together is None else "SWM211"

    @property
    def clause(self) -> str:
        """The scores in words, without the name of the column."""
        alone = f"alone predicts the target with {self.metric} {self.score:.3f}"
        if self.together is None:
            return alone
        return f"{alone}, all columns with {self.together:.3f}, and without it {self.others:.3f}"


def leak_columns(features: pd.DataFrame, target: AnyArray, task: str) -> list[Leak]:
    """Find the columns that predict the target almost perfectly on their own, the best first.

    If there are none, find the column on which most of the score depends.
    """
    # The share of the variance of the target that bins of a column explain picks at most five
    # columns, each of which is cross-validated in a decision tree on at most 5,000 rows.
    is_supported = task in ("binary", "multiclass", "regression") and np.ndim(target) == 1
    if not is_supported or len(features) < _MIN_ROWS:
        return []
    max_rows = min(_MAX_ROWS, max(200, _MAX_CELLS // max(features.shape[1], 1)))
    if len(features) > max_rows:
        rows = np.sort(np.random.default_rng(0).permutation(len(features))[:max_rows])
        features = features.iloc[rows]
        target = target[rows]
    has_classes = task != "regression"
    if not has_classes:
        target = np.asarray(target, dtype=np.float64)
    codes: AnyArray = np.unique(target, return_inverse=True)[1]
    if not has_classes:
        indicators = codes[:, None].astype(np.float64)
    elif np.bincount(codes).min() < _N_FOLDS:
        return []
    else:
        indicators = np.eye(int(codes.max()) + 1)[codes]
    values = numbers_of(features)
    # Missing values are below all others, as a tree of numbers in float32 has it.
    values = np.clip(values, -_MAX_VALUE, _MAX_VALUE)
    low = np.nanmin(np.where(np.isfinite(values), values, np.nan), axis=0, initial=0.0)
    values = np.where(np.isfinite(values), values, low - 1.0 - np.abs(low))
    blocks = np.array_split(np.arange(values.shape[1]), values.shape[1] // _BLOCK + 1)
    shares = np.concatenate([_explained(values[:, block], indicators) for block in blocks])
    min_share = _MIN_SHARE_EXPLAINED
    if has_classes:
        # Equally filled bins explain so much of a rare class that a column separates.
        rarest = np.bincount(codes).min() / len(codes)
        min_share *= min(1.0, (_N_BINS - 1) * rarest / (1.0 - rarest))
    best = np.argsort(-shares, kind="stable")
    suspects = [column for column in best[:_MAX_CANDIDATES].tolist() if shares[column] >= min_share]
    labels = codes if has_classes else indicators[:, 0]
    leaks = []
    for column in suspects:
        scores = _cross_validate(values[:, [column]], labels, has_classes)
        perfect = next((score for score in scores if score.is_perfect), None)
        if perfect is not None:
            leaks.append(Leak(str(features.columns[column]), perfect.metric, perfect.value))
    if leaks or len(best) < 2:
        return sorted(leaks, key=lambda leak: -leak.score)
    best = best[: _MAX_OTHERS + 1]
    name = str(features.columns[best[0]])
    dependence = _dependence(name, values[:, best], labels, has_classes)
    return [] if dependence is None else [dependence]


def _explained(values: Float, indicators: Float) -> Float:
    """Return the share of the variance that bins of each column explain.

    The variance is that of the ranks of numbers (n_rows, 1), or of classes (n_rows, n_classes).
    """
    n_rows, n_columns = values.shape
    order = np.argsort(values, axis=0, kind="stable")
    ordered = np.take_along_axis(values, order, axis=0)
    # Equal values share the bin of the first one; bins have equal numbers of rows.
    is_new = np.vstack([np.ones((1, n_columns), dtype=bool), ordered[1:] != ordered[:-1]])
    first = np.maximum.accumulate(np.where(is_new, np.arange(n_rows)[:, None], 0), axis=0)
    bins = first * _N_BINS // n_rows + _N_BINS * np.arange(n_columns)
    counts = np.bincount(bins.ravel(), minlength=_N_BINS * n_columns).reshape(n_columns, _N_BINS)
    shares = np.zeros(n_columns)
    for indicator in indicators.T:
        sums = np.bincount(bins.ravel(), indicator[order].ravel(), minlength=_N_BINS * n_columns)
        sums = sums.reshape(n_columns, _N_BINS)
        mean = indicator.mean()
        between = (sums**2 / np.maximum(counts, 1)).sum(axis=1) - n_rows * mean**2
        shares += between / max(float(((indicator - mean) ** 2).sum()), np.finfo(float).tiny)
    return shares / indicators.shape[1]


@dataclass(frozen=True)
class _Score:
    """A score, the score of a model that ignores the features, and a nearly perfect one."""

    metric: str
    value: float
    guess: float
    perfect: float

    @property
    def is_perfect(self) -> bool:
        """Whether hardly any model of all columns could do better."""
        return self.value >= self.perfect

    @property
    def gain(self) -> float:
        """Share of the difference between guessing and 1."""
        return (self.value - self.guess) / (1.0 - self.guess)


def _cross_validate(
    values: Float, labels: AnyArray, has_classes: bool, *, forest: bool = False
) -> list[_Score]:
    """Return the scores of a decision tree, or of a forest, on columns (n_rows, n_columns)."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    values = values.astype(np.float32)
    options: dict[str, Any] = {"random_state": 0}
    if forest:
        options |= {"n_estimators": 30, "min_samples_leaf": 3, "max_features": 0.5}
    if not has_classes:
        regressor = ExtraTreesRegressor if forest else DecisionTreeRegressor
        model = regressor(max_leaf_nodes=None if forest else 2 * _N_BINS, **options)
        folds = KFold(_N_FOLDS, shuffle=True, random_state=0)
        predicted = cross_val_predict(model, values, labels, cv=folds)
        explained = 1.0 - float(((labels - predicted) ** 2).mean() / labels.var())
        return [_Score("R² of ranks", explained, 0.0, _MIN_R2)]
    classifier = ExtraTreesClassifier if forest else DecisionTreeClassifier
    max_leaf_nodes = None if forest else _N_BINS
    model = classifier(max_leaf_nodes=max_leaf_nodes, class_weight="balanced", **options)
    folds = StratifiedKFold(_N_FOLDS, shuffle=True, random_state=0)
    proba = cross_val_predict(model, values, labels, cv=folds, method="predict_proba")
    is_right = proba.argmax(axis=1) == labels
    classes = np.unique(labels)
    recall = float(np.mean([is_right[labels == label].mean() for label in classes]))
    scores = [_Score("balanced accuracy", recall, 1 / len(classes), _MIN_BALANCED_ACCURACY)]
    if len(classes) == 2:
        area = float(roc_auc_score(labels, proba[:, 1]))
        scores.append(_Score("ROC AUC", area, 0.5, _MIN_AUC))
    return scores


def _dependence(name: str, values: Float, labels: AnyArray, has_classes: bool) -> Leak | None:
    """Return the first column as a leak if most of the score of all columns is due to it."""
    step = -(-len(labels) // _MAX_FOREST_ROWS)
    labels = labels[::step]
    values = values[::step]
    if has_classes and np.bincount(labels).min() < _N_FOLDS:
        return None
    first = _cross_validate(values[:, :1], labels, has_classes)[-1]
    if first.gain < _MIN_SHARE_ALONE * _MIN_GAIN:
        return None
    together = _cross_validate(values, labels, has_classes, forest=True)[-1]
    if together.gain < _MIN_GAIN or first.gain < _MIN_SHARE_ALONE * together.gain:
        return None
    others = _cross_validate(values[:, 1:], labels, has_classes, forest=True)[-1]
    if others.gain > _MAX_SHARE_OTHERS * first.gain:
        return None
    return Leak(name, first.metric, first.value, together.value, others.value)
