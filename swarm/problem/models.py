"""Properties of an estimator: determinism, importances, supported inputs, exact shrinking."""

from collections.abc import Callable, Mapping
from copy import copy
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import has_fit_parameter

from swarm.arrays import Bool, Float
from swarm.errors import ConfigError
from swarm.problem.table import (
    labels_of,
    names_for_lightgbm,
    numbered,
    renamed,
    take_rows,
)
from swarm.protocols import Estimator

# Values of LightGBM's settings that sample no columns. With others, or with settings by feature,
# the splits of a feature depend on the others, and dropping an unused one could change a model.
_NO_COLUMN_SAMPLING = {
    "colsample_bytree": 1.0,
    "feature_fraction": 1.0,
    "sub_feature": 1.0,
    "feature_fraction_bynode": 1.0,
    "sub_feature_bynode": 1.0,
    "colsample_bynode": 1.0,
    "extra_trees": False,
    "extra_tree": False,
}
_BY_FEATURE = (
    *("categorical_feature", "cat_feature", "categorical_column", "cat_column"),
    *("monotone_constraints", "mc", "monotone_constraint", "monotonic_cst"),
    *("interaction_constraints", "feature_contri", "feature_contrib", "fc", "fp"),
    *("feature_penalty", "max_bin_by_feature", "cegb_penalty_feature_lazy"),
    *("cegb_penalty_feature_coupled", "forcedsplits_filename", "forcedbins_filename"),
    *("linear_tree", "linear_trees", "use_quantized_grad"),
)
# Early stopping drops trees after the best iteration, which may depend on columns that only they
# use.
_EARLY_STOPPING = (
    *("early_stopping_round", "early_stopping_rounds", "early_stopping", "n_iter_no_change"),
)
# Parameters that hold candidate values of other parameters.
GRIDS = ("param_grid", "param_distributions", "search_spaces")
_THREADS = ("num_threads", "num_thread", "nthread", "nthreads")
# A bin may contain several frequent values if there are fewer bins.
_MIN_FINE_BINS = 16
# LightGBM bundles columns that are non-zero together in at most n_rows // 10,000 rows.
_ROWS_OF_A_CONFLICT = 10_000
_BIN_SAMPLES = ("subsample_for_bin", "bin_construct_sample_cnt")


def make_deterministic(estimator: Estimator, seed: int) -> Any:
    """Clone an estimator so that equal data give equal models.

    A `random_state` of None becomes `seed`; a generator raises ConfigError. LightGBM models get
    `deterministic=True`, `force_col_wise=True`, one thread and no output, unless set.
    """
    from sklearn.base import clone
    from sklearn.model_selection import KFold

    # An object without get_params is copied.
    clean = clone(estimator, safe=False)
    fixed: dict[str, object] = {}
    params = clean.get_params(deep=True) if hasattr(clean, "get_params") else {}
    for name, value in params.items():
        owner, _, last = name.rpartition("__")
        if name.endswith("random_state"):
            if value is None:
                fixed[name] = seed
            elif value == "deprecated":
                # The seed of TargetEncoder is that of a splitter from scikit-learn 1.9 on.
                splitter = f"{owner}__cv" if owner else "cv"
                if isinstance(params.get(splitter), int):
                    fixed[splitter] = KFold(params[splitter], shuffle=True, random_state=seed)
            elif not isinstance(value, (int, np.integer)):
                raise ConfigError(
                    f"{name} must be an integer, got {value!r}; a generator is not reproducible"
                )
        if _is_unseeded(value):
            fixed[name] = copy(value)
            fixed[name].random_state = seed  # type: ignore[attr-defined]
        if last in GRIDS:
            fixed[name] = _with_models(value, lambda model: make_deterministic(model, seed))
        if last == "n_jobs":
            # In scikit-learn, None already means 1, and some classes warn about any other value.
            is_sklearn = type(params.get(owner, clean)).__module__.startswith("sklearn.")
            if not (is_sklearn and value is None):
                fixed[name] = 1
        if is_lightgbm(value):
            fixed.update({f"{name}__{k}": v for k, v in _lightgbm_settings(value).items()})
    if is_lightgbm(clean):
        fixed.update(_lightgbm_settings(clean))
    return clean.set_params(**fixed) if fixed else clean


def _is_unseeded(splitter: object) -> bool:
    """Whether a splitter draws other folds each time."""
    draws = hasattr(splitter, "split") and getattr(splitter, "shuffle", True)
    return draws and getattr(splitter, "random_state", 0) is None


def _with_models(grid: Any, change: Callable[[Any], Any]) -> Any:
    """Return a grid of parameters in which the models are changed."""
    if isinstance(grid, dict):
        return {key: _with_models(value, change) for key, value in grid.items()}
    if isinstance(grid, (list, tuple)):
        return type(grid)(_with_models(value, change) for value in grid)
    is_model = hasattr(grid, "get_params") and not isinstance(grid, type)
    return change(grid) if is_model else grid


def is_a(predicate: Callable[[Any], bool], estimator: object) -> bool:
    """Call scikit-learn's ``is_classifier`` or ``is_regressor`` on any object with ``fit``."""
    try:
        return bool(predicate(estimator))
    except (AttributeError, TypeError):  # it has no tags: it is not derived from scikit-learn's
        return False


def tags_of(estimator: object) -> Any:
    """Return the tags of an estimator; None if it does not derive from scikit-learn's classes."""
    from sklearn.utils import get_tags

    try:
        return get_tags(estimator)
    except (AttributeError, TypeError):
        return None


def encloses_estimators(estimator: object) -> bool:
    """Whether other estimators inside read the table, which may encode or impute it."""
    if not hasattr(estimator, "get_params"):
        return False
    params = estimator.get_params(deep=False).items()
    inside = [inner for name, value in params for _, inner in estimators_in(name, value)]
    return any(hasattr(inner, "fit") for inner in inside)


def params_of(node: object) -> dict[str, Any]:
    """Return the parameters of an estimator or a kernel, or the attributes of another object."""
    if type(node).__name__ == "FrozenEstimator":  # its clone is itself
        return {}
    if hasattr(node, "get_params"):
        return dict(node.get_params(deep=False))
    return {name: value for name, value in vars(node).items() if not name.startswith("_")}


def is_estimator(value: object) -> bool:
    """Whether a value is an estimator or a kernel, not its class."""
    return not isinstance(value, type) and (hasattr(value, "get_params") or hasattr(value, "fit"))


def estimators_in(name: str, value: Any) -> list[tuple[str, Any]]:
    """Return the estimators in a parameter with their names: itself, or those of a list."""
    if is_estimator(value):
        return [(name, value)]
    if name in GRIDS or not isinstance(value, (list, tuple, Mapping)):
        return []
    pairs = [
        item[:2] if isinstance(item, tuple) and len(item) > 1 else (name, item)
        for item in (value.items() if isinstance(value, Mapping) else value)
    ]
    return [(str(label), inner) for label, inner in pairs if is_estimator(inner)]


def has_method(estimator: Any, name: str) -> bool:
    """Whether an estimator has a method once it is fitted."""
    if hasattr(estimator, name):
        return True
    # A final estimator of None stands for a default model, whose methods stacking lacks before fit.
    from sklearn.base import clone
    from sklearn.linear_model import LogisticRegression, RidgeCV

    params = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
    defaults = {}
    for key, value in params.items():
        owner, _, last = key.rpartition("__")
        if last == "final_estimator" and value is None:
            regresses = "Regressor" in type(params.get(owner, estimator)).__name__
            defaults[key] = RidgeCV() if regresses else LogisticRegression()
    return bool(defaults) and hasattr(clone(estimator).set_params(**defaults), name)


def allows_missing(estimator: object) -> bool:
    """Whether an estimator supports missing values; assumed if others inside read the table."""
    tags = tags_of(estimator)
    return (
        is_lightgbm(estimator)
        or encloses_estimators(estimator)
        or bool(tags is not None and tags.input_tags.allow_nan)
    )


def takes_categorical(estimator: object) -> bool:
    """Whether an estimator supports categories; assumed if others inside read the table."""
    if is_lightgbm(estimator) or "HistGradient" in type(estimator).__name__:
        return True
    tags = tags_of(estimator)
    params = params_of(estimator)
    return (
        encloses_estimators(estimator)
        or bool(tags is not None and tags.input_tags.categorical)
        or bool(params.get("enable_categorical"))
        or params.get("cat_features") is not None
    )


def is_lightgbm(estimator: object) -> bool:
    """Whether the class of `estimator` is one of LightGBM's, or derived from one."""
    if isinstance(estimator, type):
        return False
    return any(cls.__module__.startswith("lightgbm") for cls in type(estimator).__mro__)


def _lightgbm_settings(estimator: Estimator) -> dict[str, object]:
    params = estimator.get_params(deep=False)
    settings: dict[str, object] = {"deterministic": True, "verbosity": -1, "n_jobs": 1}
    if not params.get("force_row_wise"):
        settings["force_col_wise"] = True
    settings.update({name: 1 for name in _THREADS if name in params})
    settings.update({key: params[key] for key in ("deterministic", "verbosity") if key in params})
    return settings


def with_accepted_names(table: Any, estimator: object) -> tuple[Any, dict[Any, str]]:
    """Rename the columns that LightGBM rejects; return the table and the new names by label."""
    names = names_for_lightgbm(table) if is_lightgbm(estimator) else {}
    return renamed(table, names), names


def has_importances(model: object) -> bool:
    """Whether a fitted model has importances or coefficients."""
    last = last_step(model)
    return hasattr(last, "feature_importances_") or hasattr(last, "coef_")


def keeps_columns(model: Any, X: Any, y: Any) -> bool:
    """Whether the last step of a pipeline receives the input columns, in their order."""
    from sklearn.base import clone

    if len(getattr(model, "steps", ())) < 2:
        return True
    before = clone(model[:-1])
    # Steps may change their input in place.
    X = take_rows(X, np.arange(X.shape[0]))
    try:
        before.fit(X, y)
    except Exception:  # the fit of the whole pipeline raises a clearer error
        return True
    labels = labels_of(X)
    # Steps pass names on only if all of them are text.
    has_names = labels is not None and all(isinstance(label, str) for label in labels)
    try:
        names = list(before.get_feature_names_out())
        return names == (labels if has_names else numbered(X.shape[1]))
    except (AttributeError, ValueError):
        # Trust a step without feature names, such as a logarithm, that keeps their number.
        return bool(np.shape(before.transform(X))[1:] == (X.shape[1],))


def model_importances(model: object, n_columns: int) -> Float:
    """Return importances (n_columns,) of a fitted model, not rounded: gains below one count."""
    last = last_step(model)
    if hasattr(last, "feature_importances_"):
        values = np.asarray(last.feature_importances_, dtype=np.float64)
    else:
        values = np.abs(np.asarray(last.coef_, dtype=np.float64))
        values = values.reshape(-1, values.shape[-1]).mean(axis=0)
    if values.shape != (n_columns,):
        raise ConfigError(
            f"the model has {values.size} importances for {n_columns} features; "
            "use importance 'permutation' for a pipeline that creates new columns"
        )
    return values


def used_by(model: object, importances: Float) -> Bool:
    """Which columns a fitted model uses: bool (n_columns,)."""
    booster = getattr(last_step(model), "booster_", None)
    if booster is not None:
        importances = np.asarray(booster.feature_importance("split"), dtype=np.float64)
    return importances != 0


def shrinks_exactly(estimator: Estimator, features: pd.DataFrame) -> bool:
    """Whether dropping columns that no tree splits on gives a bit-identical model.

    It does for LightGBM without column sampling, settings by feature and early stopping, if its
    bundles of rarely non-zero columns lose no values on these training rows.
    """
    if not is_lightgbm(estimator) or chooses_by_column(estimator):
        return False
    params = estimator.get_params(deep=False)
    if any(params.get(name) for name in _EARLY_STOPPING):
        return False
    n_sampled = min(params.get(name) or _ROWS_OF_A_CONFLICT for name in _BIN_SAMPLES)
    if params.get("enable_bundle") is False or len(features) < min(n_sampled, _ROWS_OF_A_CONFLICT):
        return True
    is_coarse = any((params.get(name) or 255) < _MIN_FINE_BINS for name in ("max_bin", "max_bins"))
    return not is_coarse and not _could_be_bundled(features)


def chooses_by_column(estimator: Estimator) -> bool:
    """Whether a LightGBM model samples columns, or has settings by feature."""
    params = estimator.get_params(deep=False)
    if any(params.get(name, off) not in (off, None) for name, off in _NO_COLUMN_SAMPLING.items()):
        return True
    return any(params.get(name, False) is not False for name in _BY_FEATURE)


def _could_be_bundled(features: pd.DataFrame) -> bool:
    if features.shape[1] < 2:
        return False
    columns = [features.iloc[:, position] for position in range(features.shape[1])]
    if not any(_may_be_almost_constant(column) for column in columns):
        return False
    rare = [1.0 - column.value_counts(normalize=True, dropna=False).iloc[0] for column in columns]
    first, second = np.partition(np.array(rare), 1)[:2]
    return bool(first + second <= 1.01)


def _may_be_almost_constant(column: pd.Series) -> bool:
    """Whether a value may be in at least 49 % of the rows.

    Such a value is one of the quartiles, which take a tenth of the time of counting values.
    """
    values = column.to_numpy()
    if values.dtype.kind not in "fiub":
        return True
    n_missing = np.isnan(values).sum() if values.dtype.kind == "f" else 0
    at = [len(values) // 4, len(values) // 2, 3 * len(values) // 4]
    quartiles = np.partition(values, at)[at]
    largest = max(n_missing, *((values == quartile).sum() for quartile in quartiles))
    return bool(largest >= 0.49 * len(values))


def last_step(estimator: object) -> Any:
    """Return the last step of a pipeline, or the estimator itself."""
    steps = getattr(estimator, "steps", None)
    return steps[-1][1] if steps else estimator


def weight_name(estimator: object) -> str:
    """Return the name of the parameter of ``fit`` that takes the sample weights."""
    steps = getattr(estimator, "steps", None)
    return f"{steps[-1][0]}__sample_weight" if steps else "sample_weight"


def takes_weights(estimator: Estimator) -> bool:
    """Whether ``fit`` takes sample weights, or passes them on to models that all do."""
    if has_fit_parameter(estimator, "sample_weight"):
        return True
    params = signature(estimator.fit).parameters.values()
    if hasattr(estimator, "steps") or all(param.kind is not param.VAR_KEYWORD for param in params):
        return False
    inside = [getattr(estimator, name, None) for name in ("estimator", "regressor")]
    inside += [model for _, model in getattr(estimator, "estimators", None) or ()]
    models: list[Any] = [model for model in inside if hasattr(model, "fit")]
    return bool(models) and all(map(takes_weights, models))


def steps_before(estimator: object) -> list[Any]:
    """Return the steps of a pipeline before the last one, without ``passthrough`` steps."""
    steps = getattr(estimator, "steps", None) or []
    return [step for _, step in steps[:-1] if step not in ("passthrough", None)]


def is_short_float(dtype: object) -> bool:
    """Whether models may compute in lower precision than the float64 of the fast paths."""
    plain = getattr(dtype, "numpy_dtype", dtype)
    return isinstance(plain, np.dtype) and plain.kind == "f" and plain.itemsize != 8
