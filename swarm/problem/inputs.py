"""Validate data, estimator, folds and weights before any training."""

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.base import is_classifier, is_clusterer, is_outlier_detector, is_regressor

from swarm.arrays import AnyArray, Bool, Float
from swarm.errors import ConfigError, DataError, as_clause
from swarm.problem.models import (
    allows_missing,
    encloses_estimators,
    has_method,
    is_a,
    is_lightgbm,
    last_step,
    tags_of,
    takes_categorical,
    takes_weights,
)
from swarm.problem.scoring import Scoring, scores_perfect_predictions
from swarm.problem.space import SearchSpace
from swarm.problem.table import (
    as_frame,
    has_several_values,
    is_polars,
    names_of,
    plain_target,
    refuse_masked,
)
from swarm.protocols import Estimator
from swarm.reader import has_odd_categories
from swarm.rows import Fold
from swarm.wording import quoted

# Trees compute in float32. Within its range, sums of squares in float64 stay finite.
_MAX_VALUE = float(np.finfo(np.float32).max)
_RANGE = f"outside the range of float32 ({_MAX_VALUE:.3g}) in which models compute"
# So many columns are checked at once.
_BLOCK = 512
# Whole numbers with more distinct values than this share of the rows are no classes.
_MAX_SHARE_CLASSES = 0.9
_PREDICTS = ("predict", "predict_proba", "decision_function")


def check_estimator(estimator: object, scoring: object = None) -> None:
    """Reject an object that is not an estimator, or that a scorer given by name cannot score."""
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise ConfigError(
            f"the estimator must be an object with fit and predict, got {estimator!r}; "
            "give an object such as LGBMClassifier()"
        )
    last = last_step(estimator)
    if is_a(is_outlier_detector, last) or is_a(is_clusterer, last):
        raise ConfigError(
            f"{type(last).__name__} does not predict a target: its answers are numbers of its own; "
            "give a classifier or a regressor"
        )
    tags = tags_of(estimator)
    if tags is not None and tags.input_tags.pairwise:
        raise ConfigError(
            f"{type(estimator).__name__} reads distances or kernels of pairs of rows, which have "
            "no features to select; give an estimator that reads features"
        )
    if callable(scoring) or isinstance(scoring, Scoring):
        return
    if not any(has_method(estimator, method) for method in _PREDICTS):
        raise ConfigError(
            f"{type(estimator).__name__} has no method 'predict', which is needed to score "
            "it; give an estimator that has it, or a callable as scoring"
        )


def check_target(y: Any) -> None:
    """Reject targets that NumPy would change on the way to a model, or that have no values."""
    refuse_masked("y", y)
    if issparse(y):
        raise DataError("y is a sparse matrix; pass an array, y.toarray()")
    dtype: Any = getattr(y, "dtype", None)
    if getattr(dtype, "names", None):
        raise DataError(
            f"y has the fields {quoted(dtype.names)}, which no scorer of a single target reads; "
            "pass one of them"
        )
    if isinstance(dtype, np.dtype) and dtype.kind == "S":
        raise DataError("the target y has bytes; decode them, such as by y.astype(str)")


def check_task(estimator: Estimator, y: Any, task: str) -> None:
    """Reject a target that the model cannot learn, because every fit would fail."""
    target = plain_target(y)
    last = last_step(estimator)
    model = type(last).__name__
    # Estimators of other packages may have inherited their tags.
    has_tags = type(last).__module__.split(".")[0] in ("sklearn", "lightgbm")
    tags: Any = tags_of(last) if has_tags and is_a(is_classifier, last) else None
    has_many = tags and (tags.classifier_tags.multi_label or tags.target_tags.multi_output)
    if tags is not None and not has_many and target.ndim == 2:
        raise DataError(
            f"the target has {np.shape(target)[1]} columns, but {model} predicts "
            "one; use an estimator that predicts several, such as KNeighborsClassifier, or wrap it "
            "in MultiOutputClassifier"
        )
    name = "" if getattr(y, "name", None) is None else f" {y.name!r}"
    n_values = len(pd.unique(np.ravel(target)))
    if target.ndim == 1 and n_values == 1:
        raise DataError(
            f"the target is constant ({target.tolist()[0]!r}); there is nothing to learn"
        )
    hardly_repeats = n_values > max(20, _MAX_SHARE_CLASSES * len(target))
    has_counts = task == "multiclass" and hardly_repeats
    if is_a(is_classifier, estimator):
        if task == "regression" or has_counts:
            kind = "has whole numbers" if has_counts else "is continuous"
            raise DataError(
                f"the target{name} {kind}, with {n_values} different values, but {model} is a "
                "classifier; use a regressor, such as lightgbm.LGBMRegressor, or a target of "
                "classes"
            )
        return
    if is_a(is_regressor, estimator) and isinstance(np.ravel(target)[0], str):
        raise DataError(
            f"the target{name} holds text, but {model} is a regressor; use a "
            "classifier, such as lightgbm.LGBMClassifier, or a target of numbers"
        )
    value = _beyond_float32(target)
    if value is not None:
        raise DataError(
            f"the target contains {value:.6g}, {_RANGE}; rescale it, take logarithms or drop such "
            "rows"
        )


def check_read(space: SearchSpace, dropped: Sequence[int]) -> None:
    """Raise ConfigError if a search may select units whose columns, by position, a model drops."""
    columns = set(dropped)
    unread = [
        name
        for name, unit, forbidden in zip(space.names, space.units, space.forbidden, strict=True)
        if not forbidden and columns.issuperset(unit)
    ]
    if unread:
        raise ConfigError(
            f"the model never reads {quoted(unread)}, which its ColumnTransformer "
            "drops; forbid them, or let its remainder pass them through"
        )


def check_fit_params(estimator: Estimator, names: Iterable[str]) -> None:
    """Reject parameters that the estimator's ``fit`` does not accept."""
    for name in names:
        if not takes_fit_param(estimator, name):
            step = " as step__name" if getattr(estimator, "steps", None) else ""
            raise ConfigError(
                f"{type(estimator).__name__}.fit() has no parameter {name!r}{step}; leave it out"
            )


def takes_fit_param(estimator: Any, name: str) -> bool:
    """Whether ``fit`` accepts a parameter; in a pipeline, ``step__name``."""
    steps = getattr(estimator, "steps", None)
    if steps:
        step, _, inner = name.partition("__")
        return bool(inner) and step in dict(steps) and takes_fit_param(dict(steps)[step], inner)
    try:
        params = inspect.signature(estimator.fit).parameters
    except (AttributeError, TypeError, ValueError):  # "passthrough", or a fit in compiled code
        return not isinstance(estimator, str)
    return name in params or any(p.kind is p.VAR_KEYWORD for p in params.values())


def check_rows(features: Any, target: AnyArray) -> None:
    """Reject features and target of different lengths, and a target without some values."""
    n_rows = features.shape[0]
    if np.ndim(target) == 0:
        raise DataError(f"the target is {str(target)!r}; pass a value for each row")
    if n_rows != len(target):
        raise DataError(
            f"there are {n_rows} rows of features but {len(target)} of the target; they must match"
        )
    if n_rows == 0:
        raise DataError("the table has no rows; it needs at least one per fold")
    missing = int(pd.isna(target).sum())
    if missing:
        raise DataError(f"the target is missing in {missing} rows; drop or fill them first")
    if target.dtype.kind == "f" and np.isinf(target).any():
        count = int(np.isinf(target).sum())
        raise DataError(f"the target has {count} infinite values; drop such rows")


def check_columns(X: Any, estimator: Estimator) -> None:
    """Reject columns that the model does not support, unless estimators within it may do so."""
    by_itself = not encloses_estimators(estimator)
    if issparse(X):
        # An estimator that does not support a sparse matrix says so itself.
        values = X.tocsr().data
        is_supported = not np.isinf(values).any() and (
            allows_missing(estimator) or np.isfinite(values).all()
        )
        if by_itself and not is_supported:
            raise DataError(
                "the sparse X has missing or infinite values, which "
                f"{type(estimator).__name__} rejects; fill or drop them"
            )
        return
    if is_polars(X) and by_itself and is_lightgbm(estimator):
        dtypes = ("Categorical", "Enum")
        categories = [name for name, dtype in X.schema.items() if str(dtype).startswith(dtypes)]
        if categories:
            raise DataError(
                f"LightGBM does not support {quoted(categories)}, categories of polars, and ends "
                "the process; pass X.to_pandas()"
            )
    _check_cells(as_frame(X, names_of(X)), estimator, by_itself)


def _check_cells(features: pd.DataFrame, estimator: Estimator, by_itself: bool) -> None:
    """Reject columns of a table that an estimator reads `by_itself`, or by estimators within it."""
    model = type(estimator).__name__
    lightgbm = is_lightgbm(estimator)
    allows_nan = allows_missing(estimator)
    takes_categories = takes_categorical(estimator)
    texts: list[Any] = []
    categories: list[Any] = []
    for name, column in features.loc[:, _may_be_rejected(features, lightgbm, allows_nan)].items():
        if column.isna().all():
            raise DataError(f"column {name!r} has no values; drop it")
        if has_several_values(column):
            raise DataError(
                f"column {name!r} has several values in one cell; give each value a column, or "
                "drop it"
            )
        if isinstance(column.dtype, pd.CategoricalDtype):
            if not takes_categories and not _holds_numbers(column):
                categories.append(name)
            if by_itself and lightgbm and has_odd_categories(column.dtype):
                category = type(column.dtype.categories[0]).__name__
                raise DataError(
                    f"column {name!r} has categories of type {category}, which LightGBM cannot "
                    "store; make them text: column.cat.rename_categories(str)"
                )
        elif not pd.api.types.is_numeric_dtype(column):
            if by_itself and (lightgbm or not _holds_numbers(column)):
                texts.append(name)
        elif column.dtype.kind == "f":
            values = column.to_numpy(np.float64, na_value=np.nan)
            n_infinite = int(np.isinf(values).sum())
            if n_infinite:
                raise DataError(
                    f"column {name!r} has {n_infinite} infinite values; clip or drop them"
                )
            value = _beyond_float32(values)
            if value is not None and not lightgbm:
                raise DataError(
                    f"column {name!r} contains {value:.6g}, {_RANGE}; rescale the column, clip it "
                    "or drop it"
                )
        if not allows_nan and column.isna().any():
            raise DataError(
                f"column {name!r} has {int(column.isna().sum())} missing values, which {model} "
                "does not support; impute in a Pipeline (model.steps of a configuration), or use "
                "LightGBM"
            )
    if texts:
        dtypes = ", ".join(dict.fromkeys(str(features[name].dtype) for name in texts))
        raise DataError(
            f"{_columns(texts)} {dtypes} values, not numbers; {_remedy(features[texts])}"
        )
    if categories:
        raise DataError(
            f"{_columns(categories)} categories but {model} needs numbers; "
            "drop them, or encode them in a Pipeline (model.steps of a configuration); an "
            "estimator that supports categories has the tag input_tags.categorical"
        )


def _holds_numbers(column: pd.Series) -> bool:
    """Whether scikit-learn reads the cells of a column as numbers, whatever its dtype is."""
    try:
        column.dropna().astype(object).to_numpy().astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _columns(names: Sequence[Any]) -> str:
    return f"column {names[0]!r} has" if len(names) == 1 else f"columns {quoted(names)} have"


def _remedy(texts: pd.DataFrame) -> str:
    """Return what to do about columns that are not numeric."""
    them = "it" if texts.shape[1] == 1 else "them"
    if all(dtype.kind == "M" for dtype in texts.dtypes):
        return f"replace {them} by numbers, such as year, month, day and weekday"
    if all(map(pd.api.types.is_numeric_dtype, texts.infer_objects().dtypes)):
        return f"convert {them} with infer_objects()"
    return f"make {them} categorical, encode {them} or drop {them}"


def _may_be_rejected(features: pd.DataFrame, lightgbm: bool, allows_nan: bool) -> Bool:
    """Find the columns (n_columns,) to be checked one by one, which is slow in pandas."""
    kinds = [dtype.kind if isinstance(dtype, np.dtype) else "O" for dtype in features.dtypes]
    # Whole numbers of NumPy have neither missing nor infinite values.
    is_suspicious = ~np.isin(kinds, ["b", "i", "u"])
    limit = np.finfo(np.float64).max if lightgbm else _MAX_VALUE
    floats = np.flatnonzero([dtype == np.dtype(float) for dtype in features.dtypes])
    for start in range(0, len(floats), _BLOCK):
        block = floats[start : start + _BLOCK]
        sizes = np.abs(features.iloc[:, block].to_numpy())
        # A column without any value has the maximum NaN, and is out of range.
        in_range = np.fmax.reduce(sizes, axis=0) <= limit
        is_suspicious[block] = ~in_range
        if not allows_nan:
            is_suspicious[block] |= np.isnan(sizes).any(axis=0)
    return is_suspicious


def _beyond_float32(values: AnyArray) -> float | None:
    """Return a finite value outside the range of float32; None if there is none."""
    if values.dtype.kind != "f":
        return None
    large = values[np.abs(values) > _MAX_VALUE]
    return float(large[0]) if large.size else None


def checked_weights(weight: Any, n_rows: int, model: Estimator) -> Float | None:
    """Return the weights as float64 (n_rows,), or raise if they are invalid."""
    if weight is None:
        return None
    refuse_masked("sample_weight", weight)
    try:
        weights = np.asarray(weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"weights must be numbers: {as_clause(str(error))}") from error
    if weights.shape != (n_rows,):
        raise DataError(
            f"weights have the shape {weights.shape}; give one weight per row, ({n_rows},)"
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise DataError("weights must be finite and not negative; drop or fill such rows")
    if not weights.any():
        raise DataError("every sample weight is zero; leave the weights out")
    if not float(weights.max()) * len(weights) <= _MAX_VALUE:
        raise DataError(
            f"the largest sample weight is {weights.max():.6g}, so that sums of weights exceed "
            f"the range of float32 ({_MAX_VALUE:.3g}); divide all weights by their mean"
        )
    last = last_step(model)
    if not takes_weights(last):
        raise ConfigError(f"{type(last).__name__} does not support sample weights; drop them")
    return weights


def check_fold_weights(
    folds: Sequence[Fold], weights: Float | None, *, scored: bool = False
) -> None:
    """Reject weights that are zero in all training rows of a fold, or all test rows if `scored`."""
    if weights is None:
        return
    for number, (train, test) in enumerate(folds):
        sides = {"training": train, "test": test} if scored else {"training": train}
        for side, rows in sides.items():
            if not weights[rows].any():
                raise DataError(
                    f"every {side} row of fold {number} has the sample weight 0; only "
                    f"{int(np.count_nonzero(weights))} of {len(weights)} rows have a positive "
                    "weight; weight more rows, or use other folds"
                )


def check_score_weights(scoring: Scoring, weights: Float | None, task: str) -> None:
    """Reject weights in the score if there are none, or the scorer does not support them."""
    if weights is None:
        raise ConfigError("weights_in_score needs sample weights and there are none; give some")
    is_one_vs_one = getattr(scoring.scorer, "_kwargs", {}).get("multi_class") == "ovo"
    if not scoring.takes_weights or (is_one_vs_one and task == "multiclass"):
        raise ConfigError(
            f"scorer {scoring.name!r} does not support sample weights; choose another scorer, or "
            "leave weights_in_score out"
        )


def missing_classes(folds: Sequence[Fold], target: AnyArray, task: str) -> list[Any]:
    """Return the classes that occur in the test rows of a fold but not in its training rows."""
    if task not in ("binary", "multiclass"):
        return []
    classes, codes = np.unique(target, return_inverse=True)
    missing = np.zeros(len(classes), dtype=bool)
    for train, test in folds:
        n_trained = np.bincount(codes[train], minlength=len(classes))
        n_tested = np.bincount(codes[test], minlength=len(classes))
        missing |= (n_trained == 0) & (n_tested > 0)
    return classes[missing].tolist()


def check_folds(
    folds: Sequence[Fold], target: AnyArray, task: str, estimator: Estimator, scoring: Scoring
) -> None:
    """Reject folds on which a model cannot be trained or scored."""
    if not folds:
        raise DataError("cross-validation needs at least 1 fold, got none; give the rows of one")
    has_classes = task in ("binary", "multiclass") and not is_a(is_regressor, estimator)
    for number, (train, test) in enumerate(folds):
        if len(train) == 0 or len(test) == 0:
            raise DataError(f"fold {number} has no training or no test rows; use fewer folds")
        first = min(train.min(), test.min())
        last = max(train.max(), test.max())
        if first < 0 or last >= len(target):
            wrong = first if first < 0 else last
            raise DataError(
                f"fold {number} has row {wrong} but the rows are 0 to {len(target) - 1}; correct it"
            )
        if not has_classes:
            if len(test) < 2 and not scores_perfect_predictions(scoring, target[test], None):
                raise DataError(
                    f"fold {number} has a single test row, for which the scorer {scoring.name!r} "
                    "is undefined; use folds of several rows, or 'neg_mean_absolute_error'"
                )
            continue
        trained = np.unique(target[train])
        tested = np.unique(target[test])
        if len(trained) == 1:
            raise DataError(
                f"the training rows of fold {number} have the single class "
                f"{trained.tolist()[0]!r}; use fewer or stratified folds"
            )
        if np.array_equal(trained, tested) or scores_perfect_predictions(
            scoring, target[test], trained
        ):
            continue
        unseen = np.setdiff1d(tested, trained)
        untested = np.setdiff1d(trained, tested)
        if len(unseen):
            rows = f"training rows of fold {number} lack the class {unseen.tolist()[0]!r}"
        elif len(tested) == 1:
            rows = f"test rows of fold {number} have the single class {tested.tolist()[0]!r}"
        else:
            rows = f"test rows of fold {number} lack the class {untested.tolist()[0]!r}"
        raise DataError(
            f"the {rows}, for which the scorer {scoring.name!r} is undefined; use fewer or "
            "stratified folds, or a scorer of predicted classes, such as 'balanced_accuracy'"
        )
