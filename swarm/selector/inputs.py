"""The arguments of ``fit`` as scikit-learn accepts them: tables, targets and metadata."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import validate_data

from swarm.errors import ConfigError, DataError
from swarm.problem.dtypes import is_polars, with_model_dtype, with_model_dtypes
from swarm.problem.inputs import takes_fit_param
from swarm.problem.models import weight_name


def output_container(selector: Any) -> str | None:
    """Return the container that ``set_output`` or scikit-learn's configuration sets, else None."""
    container = getattr(selector, "_sklearn_output_config", {}).get("transform")
    configured = get_config()["transform_output"]
    return container or (None if configured == "default" else configured)


def as_pandas(X: Any) -> Any:
    """Return a table of any library as one of pandas that models support; others unchanged."""
    if type(X).__name__ == "LazyFrame":
        raise DataError("a LazyFrame has no rows before it is collected; pass its collect()")
    if hasattr(X, "to_pandas") and not isinstance(X, pd.DataFrame):
        X = (with_model_dtypes(X) if is_polars(X) else X).to_pandas()
    return with_model_dtypes(X) if isinstance(X, pd.DataFrame) else X


def warn_of_categories(X: Any) -> None:
    """Warn of polars categories, on which LightGBM ends the whole process."""
    names = [n for n, dtype in X.schema.items() if str(dtype).startswith(("Categorical", "Enum"))]
    if names:
        warnings.warn(
            f"LightGBM does not support column {names[0]!r}, a category of polars, and ends the "
            'process; in a pipeline call set_output(transform="pandas")',
            stacklevel=4,
        )


def as_table(selector: Any, X: Any) -> tuple[pd.DataFrame, bool]:
    """Return X as a table, and whether it was an array; set `n_features_in_` and names.

    The columns of an array are named x0, x1, ...; a sparse matrix becomes dense, since models use a
    few of its columns at a time, and is a DataError if it then exceeds the memory.
    """
    X = as_pandas(X)
    if isinstance(X, pd.DataFrame):
        if X.columns.has_duplicates:
            repeated = X.columns[X.columns.duplicated()][0]
            raise DataError(f"column {repeated!r} appears more than once; rename or drop one")
        validate_data(selector, X, skip_check_array=True)
        if hasattr(selector, "feature_names_in_"):
            return X, False
        _refuse_ambiguous_numbers(selector, X)
        return X.set_axis(numbered(X.shape[1]), axis=1), False
    finite = not get_tags(selector).input_tags.allow_nan
    values = validate_data(
        selector,
        X,
        dtype="numeric",
        accept_sparse="csc",
        ensure_all_finite=finite or "allow-nan",
        ensure_min_samples=2,
    )
    if issparse(values):
        _refuse_larger_than_memory(values)
        values = values.toarray()
    return pd.DataFrame(values, columns=numbered(values.shape[1])), True


def as_target(y: Any) -> Any:
    """Return y as pandas or NumPy, a table of one column as a series, with an inferred dtype."""
    if isinstance(y, np.ndarray) and y.dtype == object and y.ndim == 1:
        return with_model_dtype(pd.Series(y).infer_objects()).to_numpy()
    y = as_pandas(y.to_frame() if is_polars(y) and hasattr(y, "to_frame") else y)
    y = y.iloc[:, 0] if isinstance(y, pd.DataFrame) and y.shape[1] == 1 else y
    if isinstance(y, pd.DataFrame) and all(map(is_numeric_dtype, y.dtypes)):
        # Of several dtypes, or of nullable ones, an array would be of objects.
        is_mixed = y.to_numpy().dtype == object and not y.isna().any(axis=None)
        return y.astype(np.float64) if is_mixed else y
    if isinstance(y, np.ndarray) and y.dtype.kind == "S":
        raise DataError("the target y has bytes; decode them, such as by y.astype(str)")
    return with_model_dtype(y) if isinstance(y, pd.Series) else y


def _refuse_ambiguous_numbers(selector: Any, X: pd.DataFrame) -> None:
    """Refuse constraints on columns that are named by numbers other than their positions."""
    if X.columns.equals(pd.RangeIndex(X.shape[1])):
        return
    for name in ("fixed", "forbidden", "groups", "warm"):
        value = getattr(selector, name, None)
        if value is not None and (not hasattr(value, "__len__") or len(value)):
            raise DataError(
                f"{name} may mean names or positions, as the columns have names that are not "
                "strings; rename them: X.columns = X.columns.astype(str)"
            )


def numbered(count: int) -> list[str]:
    """Return the names of columns without names."""
    return [f"x{position}" for position in range(count)]


def _refuse_larger_than_memory(values: Any) -> None:
    needed = int(np.prod(values.shape, dtype=np.int64)) * values.dtype.itemsize
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # unknown on this system
        return
    if needed > memory:
        raise DataError(
            f"the sparse matrix of {values.shape[0]} rows and {values.shape[1]} columns takes "
            f"{needed / 1e9:.0f} GB once dense, and the machine has {memory / 1e9:.0f} GB; drop "
            "columns that are almost constant, for example with VarianceThreshold"
        )


# ---------------------------------------------------------------- metadata


def route_fit_metadata(selector: Any, arguments: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Return sample weights, groups for the splitter, and other arguments of the estimator's fit.

    With scikit-learn's metadata routing each goes where it was requested; without it `groups` go to
    the splitter and all others to ``fit``. An argument that ``fit`` does not accept is a TypeError.
    """
    arguments = {name: value for name, value in arguments.items() if value is not None}
    if not get_config()["enable_metadata_routing"]:
        weight, groups = arguments.pop("sample_weight", None), arguments.pop("groups", None)
        for name in arguments:
            if not takes_fit_param(selector.estimator, name):
                raise TypeError(
                    f"{type(selector).__name__}.fit() got an unexpected keyword argument {name!r}, "
                    f"which {type(selector.estimator).__name__}.fit() does not accept either"
                )
        return weight, groups, arguments
    if not arguments:
        return None, None, {}
    routed = process_routing(selector, "fit", **arguments)
    fit = dict(routed.estimator.fit)
    split = dict(routed.splitter.split) if "splitter" in routed else {}
    score = dict(routed.scorer.score) if "scorer" in routed else {}
    weight, groups = fit.pop("sample_weight", None), split.pop("groups", None)
    for place, left in (("split", split), ("score", score)):
        if left:
            raise ConfigError(
                f"{min(left)!r} cannot be passed on to {place!r}: only the estimator's fit takes "
                "parameters, and the splitter groups; remove the other requests"
            )
    if getattr(selector.estimator, "steps", None) and routed.estimator.fit:
        fit = _by_step(selector.estimator, dict(routed.estimator.fit))
        weight = fit.pop(weight_name(selector.estimator), None)
    return weight, groups, fit


def _by_step(pipeline: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that each step of a pipeline requested, as ``step__name``."""
    routed = process_routing(pipeline, "fit", **arguments)
    given: dict[str, Any] = {}
    for step, _ in pipeline.steps:
        methods = routed.get(step, {})
        for method in ("fit_transform", "fit"):
            named = methods.get(method) or {}
            given |= {f"{step}__{name}": value for name, value in named.items()}
    return given


def router_of(selector: Any) -> MetadataRouter:
    """Route the arguments of ``fit`` to the estimator, the splitter and the scorer."""

    def to(callee: str) -> MethodMapping:
        mapping = MethodMapping().add(caller="fit", callee=callee)
        return mapping.add(caller="fit_transform", callee=callee)

    router = MetadataRouter(owner=selector)
    router.add(estimator=selector.estimator, method_mapping=to("fit"))
    if hasattr(selector.cv, "get_metadata_routing"):
        router.add(splitter=selector.cv, method_mapping=to("split"))
    if hasattr(selector.scoring, "get_metadata_routing"):
        router.add(scorer=selector.scoring, method_mapping=to("score"))
    return router
