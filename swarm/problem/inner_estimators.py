"""The estimators inside an estimator, and which of them receive the columns of the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

# What an estimator inside another one receives. ``table``: the columns of the outer one, by name.
# ``array``: the same columns without names. ``unknown``: perhaps other columns. ``target``: none.
Input = Literal["table", "array", "unknown", "target"]

_PACKAGES = ("sklearn", "lightgbm", "xgboost", "catboost")
# Parameters of scikit-learn's meta-estimators whose estimators receive the same columns.
_SAME_COLUMNS = frozenset(
    {
        *("estimator", "estimators", "base_estimator", "regressor", "classifier"),
        *("transformer_list", "kernel", "kernels", "k1", "k2"),
    }
)
# Meta-estimators that choose or add columns.
_OTHER_COLUMNS = frozenset(
    {
        *("ClassifierChain", "RegressorChain", "RFE", "RFECV", "SequentialFeatureSelector"),
        "IterativeImputer",
    }
)
# Meta-estimators that convert a table to an array.
_ARRAYS = frozenset(
    {
        *("AdaBoostClassifier", "AdaBoostRegressor", "BaggingClassifier", "BaggingRegressor"),
        *("OneVsOneClassifier", "OutputCodeClassifier", "RANSACRegressor"),
        "SelfTrainingClassifier",
    }
)
_IMPUTERS = ("SimpleImputer", "KNNImputer", "IterativeImputer")


def package_of(estimator: Any) -> str:
    """Return the package that a class is from or derived from, or "" for all others."""
    for base in type(estimator).__mro__:
        top = base.__module__.split(".")[0]
        # Every class that follows scikit-learn is derived from the base classes.
        if top in _PACKAGES and not base.__module__.startswith(("sklearn.base", "sklearn.utils")):
            return top
    return ""


def params_of(estimator: Any) -> dict[str, Any]:
    """Return the parameters of an estimator, without those of the estimators inside."""
    if hasattr(estimator, "get_params"):
        return dict(estimator.get_params(deep=False))
    public = getattr(estimator, "__dict__", {}).items()
    return {name: value for name, value in public if not name.startswith("_")}


def is_estimator(value: Any) -> bool:
    """Whether a value is an object with parameters, or with ``fit``."""
    return not isinstance(value, type) and (hasattr(value, "get_params") or hasattr(value, "fit"))


def estimators_in(name: str, value: Any) -> list[tuple[str, Any]]:
    """Return the estimators in a parameter with their names: itself, or those of a list."""
    if is_estimator(value):
        return [(name, value)]
    models = []
    for item in value if isinstance(value, (list, tuple)) else ():
        label, inner = item[:2] if isinstance(item, tuple) and len(item) > 1 else (name, item)
        if is_estimator(inner):
            models.append((str(label), inner))
    return models


def steps_of(estimator: Any) -> list[tuple[str, Any]]:
    """Return the steps of a pipeline without those that pass everything on; [] for others."""
    steps = getattr(estimator, "steps", None) or []
    return [(name, step) for name, step in steps if step not in ("passthrough", None)]


def keeps_each_column(transformer: Any) -> bool:
    """Whether the output of a transformer surely has one column for each column, in their order."""
    from sklearn.base import OneToOneFeatureMixin

    steps = getattr(transformer, "steps", None)
    if steps is not None:
        return all(keeps_each_column(step) for _, step in steps_of(transformer))
    if type(transformer).__name__ in _IMPUTERS and package_of(transformer) == "sklearn":
        return not transformer.add_indicator
    names = getattr(type(transformer), "get_feature_names_out", None)
    return names is OneToOneFeatureMixin.get_feature_names_out


def input_of(outer: Any, param: str) -> Input:
    """Return what an estimator receives that is a parameter of a meta-estimator."""
    name = type(outer).__name__
    if package_of(outer) != "sklearn":
        return "unknown"
    if name == "TransformedTargetRegressor" and param == "transformer":
        return "target"
    sampled = getattr(outer, "bootstrap_features", False) or (
        name.startswith("Bagging") and outer.max_features != 1.0
    )
    if param not in _SAME_COLUMNS or name in _OTHER_COLUMNS or sampled:
        return "unknown"
    return "array" if name in _ARRAYS else "table"


def readers(estimator: Any, kind: Input = "table") -> Iterator[tuple[Any, Input]]:
    """Yield the estimators that read the table, also inside others, and its form for each."""
    # A pipeline is one of them itself, unless all that it has is a model.
    steps = getattr(estimator, "steps", None)
    if steps:
        left = steps_of(estimator)
        if len(left) == 1:
            yield from readers(left[0][1], kind)
        else:
            yield estimator, kind
        return
    inside = [
        (inner, input_of(estimator, name))
        for name, value in params_of(estimator).items()
        for _, inner in estimators_in(name, value)
        if name not in ("kernel", "transformer_list")
    ]
    passed = [
        (inner, input_kind) for inner, input_kind in inside if input_kind in ("table", "array")
    ]
    if not passed:
        yield estimator, kind
    for inner, input_kind in passed:
        yield from readers(inner, "array" if "array" in (kind, input_kind) else "table")


def preprocesses(estimator: Any) -> bool:
    """Whether pipelines and transformers alone read the table, which may encode and impute."""
    return all(_is_transformer(reader) for reader, _ in readers(estimator))


def _is_transformer(reader: Any) -> bool:
    return bool(getattr(reader, "steps", None)) or (
        hasattr(reader, "transformers") or hasattr(reader, "transformer_list")
    )


def has_method(estimator: Any, name: str) -> bool:
    """Whether an estimator has a method once it is fitted."""
    # Before, stacking has no method of a final estimator that is None, which is a default model.
    if hasattr(estimator, name):
        return True
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
