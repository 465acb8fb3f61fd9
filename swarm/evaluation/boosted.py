"""Train LightGBM without its scikit-learn wrapper, and bin every column once.

The models are identical to those of ``LGBMClassifier.fit`` and ``LGBMRegressor.fit``. The bins of a
column depend only on the rows and on that column, so each is binned once per fold, and the Dataset
of a subset is assembled from these, unless feature bundling could lose values. Large tables of
mostly zeros are held as sparse matrices, which have the same bins.

Tried without success: one Dataset of all columns with `feature_contri` or `interaction_constraints`
computes the histograms of all columns, and `reference=` to it copies them; row subsets of one
Dataset bin by the test rows; without the text form of a booster, split gains have other digits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csc_matrix, hstack, issparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_regressor
from sklearn.utils.metaestimators import available_if

from swarm.arrays import Float, Int, Positions
from swarm.problem.models import chooses_by_column, is_lightgbm, shrinks_exactly
from swarm.problem.problem import Problem
from swarm.problem.table import block_width, has_plain_dtypes, take_rows

# Keyword arguments of the wrapper that are passed to LightGBM unchanged.
_KNOWN = {
    *("deterministic", "verbosity", "verbose", "force_col_wise", "num_threads", "nthread"),
    *("max_bin", "min_data_in_bin", "bagging_seed", "scale_pos_weight", "is_unbalance", "seed"),
    *("bagging_fraction", "bagging_freq", "lambda_l1", "lambda_l2", "min_data_in_leaf"),
    *("min_gain_to_split", "path_smooth", "max_delta_step", "alpha", "enable_bundle"),
}
_OBJECTIVES = {
    "binary": {None, "binary"},
    "multiclass": {None, "multiclass", "multiclassova"},
    "regression": {None, "regression", "regression_l1", "huber", "fair", "quantile", "mape"},
}
_WRAPPER_ONLY = ("importance_type", "n_estimators", "class_weight", "objective")
# Memory of a worker for copies of the data; for larger data, training dominates anyway.
_MOST_DATASET_BYTES = 2**28
# Columns of the first model that is compared with the wrapper's.
_MOST_COMPARED = 1000
# Columns of a fold are joined up to so many, and so many more for each row; measured.
_MOST_JOINED, _JOINED_PER_ROW = 100, 4
# Up to this share of values other than 0, LightGBM bins a sparse matrix much faster.
_MOST_FILLED = 0.1

_paths: WeakKeyDictionary[Problem, Boosted | None] = WeakKeyDictionary()
_making = threading.Lock()


def boosted_path(problem: Problem) -> Boosted | None:
    """Return the path that trains LightGBM directly, or None; one per problem and process."""
    with _making:
        if problem not in _paths:
            _paths[problem] = Boosted(problem) if _allows(problem) else None
        path = _paths[problem]
    return path if path is not None and path.trusted is not False else None


def _allows(problem: Problem) -> bool:
    if not has_known_params(problem.estimator) or issparse(problem.X):
        return False
    model, features = problem.estimator, problem.features
    return (
        problem.task in _OBJECTIVES
        and is_regressor(model) == (problem.task == "regression")
        and model.objective in _OBJECTIVES[problem.task]
        and model.class_weight is None
        and problem.importance != "permutation"
        and not problem.other_fit_params
        and not problem.score_params
        and not problem.settings.in_results()
        # A custom scorer may inspect the model.
        and type(problem.scoring.scorer).__module__.startswith("sklearn.metrics.")
        and _targets_pass(problem)
        and has_plain_dtypes(features)
        and (_is_small(features) or is_better_sparse(features))
    )


def has_known_params(model: Any) -> bool:
    """Whether a model is LightGBM's, and trains the same on an array as on a plain table."""
    # Before the import, which takes longer than some searches of other models.
    if not is_lightgbm(model):
        return False
    from lightgbm import LGBMClassifier, LGBMRegressor

    # A subclass may override fit.
    if type(model) not in (LGBMClassifier, LGBMRegressor):
        return False
    params = model.get_params(deep=False)
    named = set(type(model)().get_params(deep=False))
    return (
        not callable(params["objective"])
        and set(params) - named <= _KNOWN
        and not chooses_by_column(model)
    )


def is_better_sparse(features: pd.DataFrame) -> bool:
    """Whether LightGBM trains faster on the sparse matrix of a large table, which is small."""
    if _is_small(features) or not has_plain_dtypes(features):
        return False
    # 8 bytes for a value and 4 for its row.
    filled = sum(np.count_nonzero(values) for values in _blocks(features))
    return bool(filled <= _MOST_FILLED * features.size and filled * 12 <= _MOST_DATASET_BYTES)


def sparse_matrix(features: pd.DataFrame) -> Any:
    """Return a table of plain numbers as a sparse matrix of float64, column by column."""
    return hstack([csc_matrix(values) for values in _blocks(features)], format="csc")


def _is_small(features: pd.DataFrame) -> bool:
    return bool(features.size * 8 <= _MOST_DATASET_BYTES)


def _blocks(features: pd.DataFrame) -> Iterator[NDArray[np.float64]]:
    """Yield the values of many columns at a time: all of them may not fit into memory once more."""
    n_rows, width = features.shape
    step = block_width(n_rows)
    for start in range(0, width, step):
        yield features.iloc[:, start : start + step].to_numpy(dtype=np.float64)


def _targets_pass(problem: Problem) -> bool:
    target = problem.target
    if target.ndim != 1 or (target.dtype.kind == "f" and not np.isfinite(target).all()):
        return False
    if problem.task == "regression":
        return target.dtype.kind in "biuf"
    # The objective is different in a fold where a class is missing.
    n_classes = len(np.unique(target))
    return all(len(np.unique(target[train])) == n_classes for train, _ in problem.folds)


def _has_margins(model: Any) -> bool:
    """Whether the wrapper has ``decision_function``: ranking scorers prefer it, with other ties."""
    from lightgbm import LGBMClassifier

    return hasattr(LGBMClassifier, "decision_function")


class _BoosterClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The interface of a trained classifier that scorers need."""

    def __init__(self, booster: Any, importances: NDArray[Any], classes: NDArray[Any]) -> None:
        self.booster_ = booster
        self.feature_importances_ = importances
        self.classes_ = classes

    def predict_proba(self, rows: Float) -> Float:
        predicted: Float = self.booster_.predict(rows)
        return (
            predicted if predicted.ndim > 1 else np.vstack((1.0 - predicted, predicted)).transpose()
        )

    @available_if(_has_margins)  # type: ignore[untyped-decorator]
    def decision_function(self, rows: Float) -> Float:
        margins: Float = self.booster_.predict(rows, raw_score=True)
        return margins

    def predict(self, rows: Float) -> NDArray[Any]:
        labels: NDArray[Any] = self.classes_[np.argmax(self.predict_proba(rows), axis=1)]
        return labels


class _BoosterRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The interface of a trained regressor that scorers need."""

    def __init__(self, booster: Any, importances: NDArray[Any]) -> None:
        self.booster_ = booster
        self.feature_importances_ = importances

    def predict(self, rows: Float) -> Float:
        predicted: Float = self.booster_.predict(rows)
        return predicted


class Boosted:
    """LightGBM models of one problem, trained without the wrapper."""

    def __init__(self, problem: Problem) -> None:
        model = problem.estimator
        params = model.get_params(deep=False)
        # Whether the first model was identical to the wrapper's, which is used if not.
        self.trusted: bool | None = None
        # Few values as a dense matrix.
        self._matrix = (
            np.asfortranarray(problem.features.to_numpy(dtype=np.float64))
            if _is_small(problem.features)
            else sparse_matrix(problem.features).tocsr()
        )
        self._target, self._weight, self._task = problem.target, problem.weight, problem.task
        self._rounds = params["n_estimators"]
        self._importance = params["importance_type"]
        self._params = {k: v for k, v in params.items() if k not in _WRAPPER_ONLY and v is not None}
        self._objective = params["objective"] or problem.task
        self._rows = [train for train, _ in problem.folds]
        stored = problem.features.size * len(self._rows)
        # Feature bundling may lose values, under the same conditions that make a shrink inexact.
        self._shares = (
            isinstance(self._matrix, np.ndarray)
            and params["subsample_for_bin"] >= len(problem.target)
            and stored <= _MOST_DATASET_BYTES
            and (problem.exact_shrink or shrinks_exactly(model, problem.features))
        )
        # Datasets of one column each, by fold and column.
        self._columns: dict[tuple[int, int], Any] = {}

    def train(self, problem: Problem, positions: Positions, fold: int) -> tuple[Any, Any] | None:
        """Return the model of a fold and its input of the test rows; None if it is not trusted."""
        try:
            model = self._fit(positions, fold)
            if self.trusted is None:
                self.trusted = self._is_the_wrappers(model, problem, positions, fold)
        except Exception:
            # The wrapper raises the error.
            self.trusted = False
        return (model, self.rows(positions, problem.folds[fold][1])) if self.trusted else None

    def _is_the_wrappers(
        self, model: Any, problem: Problem, positions: Positions, fold: int
    ) -> bool:
        """Whether a model predicts the test rows as that of the wrapper."""
        # The wrapper may take long and much memory for many columns.
        few = positions[:_MOST_COMPARED]
        if len(few) < len(positions):
            model = self._fit(few, fold)
        train, test = problem.folds[fold]
        table = problem.columns(few)
        wrapped = problem.fit(table, few, train)
        method = "predict" if self._task == "regression" else "predict_proba"
        expected = getattr(wrapped, method)(take_rows(table, test))
        return np.array_equal(
            getattr(model, method)(self.rows(few, test)), expected
        ) and np.array_equal(model.feature_importances_, wrapped.feature_importances_)

    def _fit(self, positions: Positions, fold: int) -> Any:
        """Train a model of matrices, see :meth:`rows`, on a fold."""
        import lightgbm

        rows = self._rows[fold]
        label = self._target[rows]
        params = {**self._params, "objective": self._objective}
        if self._task != "regression":
            classes, label = np.unique(label, return_inverse=True)
            if len(classes) > 2:
                params["num_class"] = len(classes)
        data = self._dataset(positions, fold, params)
        data.set_label(label)
        if self._weight is not None:
            data.set_weight(self._weight[rows])
        booster = lightgbm.train(params, data, num_boost_round=self._rounds)
        importances = booster.feature_importance(self._importance)
        if self._task == "regression":
            return _BoosterRegressor(booster, importances)
        return _BoosterClassifier(booster, importances, classes)

    def rows(self, positions: Positions, rows: Int) -> Any:
        """Return rows as input of a model of these columns: (n_rows, n_positions)."""
        if isinstance(self._matrix, np.ndarray):
            return self._matrix[np.ix_(rows, np.asarray(positions))]
        return self._matrix[rows][:, positions]

    def _dataset(self, positions: Positions, fold: int, params: dict[str, Any]) -> Any:
        import lightgbm

        rows = self._rows[fold]
        # The time to join columns grows with their square, that to bin them with the rows.
        if not self._shares or len(positions) > _MOST_JOINED + _JOINED_PER_ROW * len(rows):
            return lightgbm.Dataset(self.rows(positions, rows), params=params)
        basic: Any = lightgbm.basic
        whole: Any = self._binned(positions[0], fold, params)
        for position in positions[1:]:
            key = (fold, position)
            if key not in self._columns:
                self._columns[key] = self._binned(position, fold, params)
            part = self._columns[key]
            # The method add_features_from prints two lines per column.
            basic._safe_call(basic._LIB.LGBM_DatasetAddFeaturesFrom(whole._handle, part._handle))
        return whole

    def _binned(self, position: int, fold: int, params: dict[str, Any]) -> Any:
        import lightgbm

        values = self._matrix[self._rows[fold], position][:, None]
        name = [f"Column_{position}"]
        return lightgbm.Dataset(values, params=params, feature_name=name).construct()
