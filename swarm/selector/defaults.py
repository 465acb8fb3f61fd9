"""Defaults of a selector: folds, scorer and limits."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_regressor
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold
from sklearn.utils.multiclass import type_of_target

from swarm.errors import ConfigError
from swarm.problem.models import is_a
from swarm.problem.scoring import Scoring
from swarm.search.budget import Budget

__all__ = ["budget_of", "folds_and_scorer", "known_epochs", "task_for"]

_SEVERAL_OUTPUTS = {
    "continuous-multioutput": "multioutput_regression",
    "multiclass-multioutput": "multioutput_classes",
}
# More epochs than any strategy that terminates by itself takes.
_NO_LIMIT = 10**9
_EPOCHS = 30


def task_for(y: Any) -> str | None:
    """Return the task if there is no target or several outputs, else None.

    A target of several columns has several outputs, unless all values are 0 or 1.
    """
    if y is None:
        return "unsupervised"
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] > 1 and not pd.isna(values).any():
        try:
            return _SEVERAL_OUTPUTS.get(type_of_target(values))
        except (TypeError, ValueError):  # task_of raises the error
            return None
    return None


def subset_accuracy(estimator: Any, features: Any, target: Any) -> float:
    """Share of the rows whose outputs are all correct, for classes in several columns."""
    return float((np.asarray(estimator.predict(features)) == target).all(axis=1).mean())


def folds_and_scorer(
    estimator: Any,
    y: Any,
    cv: Any,
    scoring: Any,
    seed: int,
    n_rows: int,
    task: str | None,
    groups: Any = None,
) -> tuple[Any, Any]:
    """Return folds and scorer; for a regressor those of regression, even if the target is integer.

    By its target alone such a problem would be a classification: scored by accuracy, and rejected
    if a value is too rare to be in every fold. A number of folds divides no group, and may be
    larger than the number of rows of a class, of which scikit-learn warns.
    """
    if _is_off(cv):
        if cv is None:
            warnings.warn(
                "cv=None trains and scores on all rows, like cv=0; for cross-validation pass "
                "a number of folds, such as cv=5",
                stacklevel=6,
            )
        rows = np.arange(n_rows)
        cv = [(rows, rows)]
    if task in _SEVERAL_OUTPUTS.values() and scoring is None:
        classes = Scoring("subset_accuracy", subset_accuracy, upper=1.0)
        return cv, classes if task == "multioutput_classes" else "r2"
    regression = y is not None and is_a(is_regressor, estimator)
    if isinstance(cv, (int, np.integer)) and cv > 1:
        cv = _splitter(int(cv), y, regression, seed, groups) or cv
    return cv, "r2" if scoring is None and regression else scoring


def _splitter(n_folds: int, y: Any, regression: bool, seed: int, groups: Any) -> Any:
    """Return the splitter of groups, or of values that are rarer than folds; None elsewhere."""
    values = np.zeros(0) if y is None else np.asarray(y)
    counts = pd.Series(values).value_counts() if values.ndim == 1 else None
    numbers = regression or counts is None or pd.api.types.is_float_dtype(counts.index.dtype)
    options: dict[str, Any] = {"n_splits": n_folds, "shuffle": True, "random_state": seed}
    if groups is not None:
        return GroupKFold(**options) if numbers else StratifiedGroupKFold(**options)
    if counts is None or not len(counts) or counts.min() >= n_folds:
        return None
    if regression:
        return KFold(**options)
    # With none of so many, scikit-learn refuses.
    return None if numbers or counts.max() < n_folds else StratifiedKFold(**options)


def _is_off(cv: Any) -> bool:
    """Whether `cv` disables cross-validation: 0, False or None."""
    return cv is None or (isinstance(cv, (int, np.integer, np.bool_)) and not cv)


def budget_of(
    ends_by_itself: bool,
    epochs: int | str | None,
    distinct: int | None,
    fits: int | None,
    seconds: float | None,
    patience: int | None,
    noise_floor: int | None = None,
) -> Budget:
    """Return the budget; ``"auto"`` is 30 epochs, or no limit if the search ends otherwise.

    Parameters
    ----------
    ends_by_itself
        Whether the strategy terminates by itself.
    epochs, distinct, fits, seconds, patience, noise_floor
        As given to the selector.

    Raises
    ------
    ConfigError
        If a limit is out of range, or there is none.
    """
    if isinstance(epochs, str):
        if epochs != "auto":
            raise ConfigError(f"epochs must be a whole number, 'auto' or None, got {epochs!r}")
        others = any(
            limit is not None for limit in (distinct, fits, seconds, patience, noise_floor)
        )
        epochs = None if others else _EPOCHS
        if epochs is not None and ends_by_itself:
            epochs = _NO_LIMIT
    limits = {
        "epochs": epochs,
        "distinct": distinct,
        "fits": fits,
        "seconds": seconds,
        "patience": patience,
        "noise_floor": noise_floor,
    }
    try:
        return Budget(**_plain(limits))
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from error


def known_epochs(budget: Budget) -> int | None:
    """Maximum number of epochs, None if unknown."""
    return None if budget.epochs == _NO_LIMIT else budget.epochs


def _plain(limits: dict[str, Any]) -> dict[str, Any]:
    """Convert NumPy integers to int: a grid of parameters is often an array."""
    return {
        name: int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value
        for name, value in limits.items()
    }
