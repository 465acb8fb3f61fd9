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
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from scipy.sparse import csc_matrix, csr_matrix, hstack, issparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_regressor
from sklearn.utils.metaestimators import available_if

from swarm.arrays import AnyArray, Float, Int, Positions
from swarm.problem.models import chooses_by_column, is_lightgbm, shrinks_exactly
from swarm.problem.problem import Problem
from swarm.problem.table import block_width, has_plain_dtypes, take_rows
from swarm.protocols import Estimator

if TYPE_CHECKING:
    from lightgbm import Booster, Dataset

# The wrapper passes these keyword arguments to LightGBM unchanged.
_PASSED_ON = {
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
_MAX_DATASET_BYTES = 2**28
# Columns of the first model that is compared with the wrapper's.
_MAX_COMPARED = 1000
# Binned columns are joined up to this number, plus a number for each row; both were measured.
_MAX_JOINED = 100
_MAX_JOINED_PER_ROW = 4
# LightGBM bins a sparse matrix much faster up to this share of values other than 0.
_MAX_FILLED = 0.1

_paths: WeakKeyDictionary[Problem, Boosted | None] = WeakKeyDictionary()
_lock = threading.Lock()


def boosted_path(problem: Problem) -> Boosted | None:
    """Return the path that trains LightGBM directly, or None; one per problem and process."""
    with _lock:
        if problem not in _paths:
            _paths[problem] = Boosted(problem) if _is_supported(problem) else None
        path = _paths[problem]
    return path if path is not None and path.trusted is not False else None


def _is_supported(problem: Problem) -> bool:
    if not has_known_params(problem.estimator) or issparse(problem.X):
        return False
    model = problem.estimator
    features = problem.features
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
        and _has_supported_target(problem)
        and has_plain_dtypes(features)
        and (_is_small(features) or is_better_sparse(features))
    )


def has_known_params(model: Estimator) -> bool:
    """Whether a model is LightGBM's, and trains the same on an array as on a plain table."""
    # Importing LightGBM takes longer than some searches of other models.
    if not is_lightgbm(model):
        return False
    from lightgbm import LGBMClassifier, LGBMRegressor

    # A subclass may override fit.
    if type(model) not in (LGBMClassifier, LGBMRegressor):
        return False
    params = model.get_params(deep=False)
    defaults = type(model)().get_params(deep=False)
    return (
        not callable(params["objective"])
        and set(params) - set(defaults) <= _PASSED_ON
        and not chooses_by_column(model)
    )


def is_better_sparse(features: pd.DataFrame) -> bool:
    """Whether LightGBM trains faster on the sparse matrix of a large table, which is small."""
    if _is_small(features) or not has_plain_dtypes(features):
        return False
    n_filled = sum(np.count_nonzero(values) for values in _blocks(features))
    # A sparse matrix has 8 bytes for a value and 4 for its row.
    is_small = n_filled * 12 <= _MAX_DATASET_BYTES
    return bool(is_small and n_filled <= _MAX_FILLED * features.size)


def sparse_matrix(features: pd.DataFrame) -> csc_matrix:
    """Return a table of plain numbers as a sparse matrix of float64, column by column."""
    return hstack([csc_matrix(values) for values in _blocks(features)], format="csc")


def _is_small(features: pd.DataFrame) -> bool:
    return bool(features.size * 8 <= _MAX_DATASET_BYTES)


def _blocks(features: pd.DataFrame) -> Iterator[Float]:
    """Yield the values of many columns at a time, as a copy of all may not fit into memory."""
    n_rows, width = features.shape
    step = block_width(n_rows)
    for start in range(0, width, step):
        yield features.iloc[:, start : start + step].to_numpy(dtype=np.float64)


def _has_supported_target(problem: Problem) -> bool:
    target = problem.target
    if target.ndim != 1 or (target.dtype.kind == "f" and not np.isfinite(target).all()):
        return False
    if problem.task == "regression":
        return target.dtype.kind in "biuf"
    # LightGBM chooses another objective for a fold without one of the classes.
    n_classes = len(np.unique(target))
    return all(len(np.unique(target[train])) == n_classes for train, _ in problem.folds)


def _wrapper_has_margins(model: object) -> bool:
    """Whether the wrapper has ``decision_function``: ranking scorers prefer it, with other ties."""
    from lightgbm import LGBMClassifier

    return hasattr(LGBMClassifier, "decision_function")


class _BoosterClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The interface of a trained classifier that scorers need."""

    def __init__(self, booster: Booster, importances: AnyArray, classes: AnyArray) -> None:
        self.booster_ = booster
        self.feature_importances_ = importances
        self.classes_ = classes

    def predict_proba(self, rows: Float) -> Float:
        probabilities = np.asarray(self.booster_.predict(rows))
        if probabilities.ndim > 1:
            return probabilities
        return np.vstack((1.0 - probabilities, probabilities)).transpose()

    @available_if(_wrapper_has_margins)  # type: ignore[untyped-decorator]
    def decision_function(self, rows: Float) -> Float:
        return np.asarray(self.booster_.predict(rows, raw_score=True))

    def predict(self, rows: Float) -> AnyArray:
        return self.classes_[np.argmax(self.predict_proba(rows), axis=1)]


class _BoosterRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The interface of a trained regressor that scorers need."""

    def __init__(self, booster: Booster, importances: AnyArray) -> None:
        self.booster_ = booster
        self.feature_importances_ = importances

    def predict(self, rows: Float) -> Float:
        return np.asarray(self.booster_.predict(rows))


class Boosted:
    """LightGBM models of one problem, trained without the wrapper."""

    def __init__(self, problem: Problem) -> None:
        model = problem.estimator
        params = model.get_params(deep=False)
        # Whether the first model was identical to the wrapper's; None before there is one.
        self.trusted: bool | None = None
        self._matrix = (
            np.asfortranarray(problem.features.to_numpy(dtype=np.float64))
            if _is_small(problem.features)
            else sparse_matrix(problem.features).tocsr()
        )
        self._target = problem.target
        self._weight = problem.weight
        self._task = problem.task
        self._n_rounds = params["n_estimators"]
        self._importance = params["importance_type"]
        self._params = {k: v for k, v in params.items() if k not in _WRAPPER_ONLY and v is not None}
        self._objective = params["objective"] or problem.task
        self._train_rows = [train for train, _ in problem.folds]
        # Feature bundling may lose values, under the same conditions that make a shrink inexact.
        self._bins_once = (
            isinstance(self._matrix, np.ndarray)
            and params["subsample_for_bin"] >= len(problem.target)
            and problem.features.size * len(self._train_rows) <= _MAX_DATASET_BYTES
            and (problem.exact_shrink or shrinks_exactly(model, problem.features))
        )
        # Datasets of one column each, by fold and column.
        self._binned_columns: dict[tuple[int, int], Dataset] = {}

    def train(self, problem: Problem, positions: Positions, fold: int) -> tuple[Any, Any] | None:
        """Return the model of a fold and its input of the test rows; None if it is not trusted."""
        try:
            model = self._fit(positions, fold)
            if self.trusted is None:
                self.trusted = self._equals_wrapper(model, problem, positions, fold)
        except Exception:
            # The wrapper trains instead, and raises its own error.
            self.trusted = False
        return (model, self.rows(positions, problem.folds[fold][1])) if self.trusted else None

    def _equals_wrapper(
        self, model: Any, problem: Problem, positions: Positions, fold: int
    ) -> bool:
        """Whether a model predicts the test rows as that of the wrapper."""
        # The wrapper may take long and much memory for many columns.
        if len(positions) > _MAX_COMPARED:
            positions = positions[:_MAX_COMPARED]
            model = self._fit(positions, fold)
        train, test = problem.folds[fold]
        table = problem.columns(positions)
        wrapper = problem.fit(table, positions, train)
        method = "predict" if self._task == "regression" else "predict_proba"
        expected = getattr(wrapper, method)(take_rows(table, test))
        actual = getattr(model, method)(self.rows(positions, test))
        return np.array_equal(actual, expected) and np.array_equal(
            model.feature_importances_, wrapper.feature_importances_
        )

    def _fit(self, positions: Positions, fold: int) -> _BoosterClassifier | _BoosterRegressor:
        """Train a model of matrices, see :meth:`rows`, on a fold."""
        import lightgbm

        rows = self._train_rows[fold]
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
        booster = lightgbm.train(params, data, num_boost_round=self._n_rounds)
        importances = booster.feature_importance(self._importance)
        if self._task == "regression":
            return _BoosterRegressor(booster, importances)
        return _BoosterClassifier(booster, importances, classes)

    def rows(self, positions: Positions, rows: Int) -> Float | csr_matrix:
        """Return rows as input of a model of these columns: (n_rows, n_positions)."""
        if isinstance(self._matrix, np.ndarray):
            return self._matrix[np.ix_(rows, np.asarray(positions))]
        return self._matrix[rows][:, positions]

    def _dataset(self, positions: Positions, fold: int, params: dict[str, Any]) -> Dataset:
        import lightgbm

        rows = self._train_rows[fold]
        # The time to join columns grows with their square, that to bin them with the rows.
        max_joined = _MAX_JOINED + _MAX_JOINED_PER_ROW * len(rows)
        if not self._bins_once or len(positions) > max_joined:
            return lightgbm.Dataset(self.rows(positions, rows), params=params)
        basic: Any = lightgbm.basic
        dataset = self._bin(positions[0], fold, params)
        for position in positions[1:]:
            key = (fold, position)
            if key not in self._binned_columns:
                self._binned_columns[key] = self._bin(position, fold, params)
            column = self._binned_columns[key]
            # The method add_features_from prints two lines per column.
            join = basic._LIB.LGBM_DatasetAddFeaturesFrom
            basic._safe_call(join(dataset._handle, column._handle))
        return dataset

    def _bin(self, position: int, fold: int, params: dict[str, Any]) -> Dataset:
        import lightgbm

        values = self._matrix[self._train_rows[fold], position][:, None]
        name = [f"Column_{position}"]
        return lightgbm.Dataset(values, params=params, feature_name=name).construct()
