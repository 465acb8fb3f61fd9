"""What the parameters of a selector mean: limits, size, task and folds."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import is_regressor
from sklearn.utils.multiclass import type_of_target

from swarm.checks import require
from swarm.errors import ConfigError
from swarm.problem.models import is_a
from swarm.problem.space import SearchSpace
from swarm.protocols import Splitter
from swarm.rows import Fold
from swarm.search.budget import Budget
from swarm.selector.checks import check_options
from swarm.strategies.base import Strategy
from swarm.strategies.catalogue import STRATEGIES, make, name_of, strategy_class
from swarm.strategies.operators.sequential import answer_sizes, check_size

if TYPE_CHECKING:
    from swarm.selector.selector import SubsetSelector

_LIMITS = ("epochs", "evaluations", "distinct", "fits", "seconds", "patience")
_EPOCHS = 30
# Strategies that terminate by themselves take fewer epochs.
_NO_LIMIT = 10**9
_MULTI_OUTPUT_TASKS = {
    "continuous-multioutput": "multioutput_regression",
    "multiclass-multioutput": "multioutput_classes",
}


# ---------------------------------------------------------------- budget


def budget_of(selector: SubsetSelector) -> Budget:
    """Return the limits; ``"auto"`` is 30 epochs, or none if the strategy ends by itself."""
    budget = selector.budget
    if isinstance(budget, Mapping):
        check_options("budget", budget, _LIMITS)
        return Budget(**{name: _plain(limit) for name, limit in budget.items()})
    if budget is None or budget == "auto":
        if strategy_class(selector.strategy).ends_by_itself:
            return Budget(epochs=_NO_LIMIT)
        return Budget(epochs=_EPOCHS if budget else None)
    if isinstance(budget, Integral) and not isinstance(budget, bool):
        return Budget(epochs=int(budget))
    raise ConfigError(
        f"budget must be a number of epochs, 'auto', None or a mapping of limits, got {budget!r}"
    )


def epochs_of(budget: Budget) -> int | None:
    """Maximum number of epochs, None if unknown."""
    return None if budget.epochs == _NO_LIMIT else budget.epochs


def n_jobs_of(selector: SubsetSelector) -> int:
    """Number of workers."""
    return 1 if selector.n_jobs is None else selector.n_jobs


def _plain(value: Any) -> Any:
    """Convert NumPy integers to int: a grid of parameters is often an array."""
    if isinstance(value, (tuple, list)):
        return tuple(map(_plain, value))
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value


# ---------------------------------------------------------------- size


def strategy_and_bounds(selector: SubsetSelector) -> tuple[Strategy, int, int | None]:
    """Return the strategy for the requested number of units, and the bounds of the space."""
    strategy = selector.strategy
    params = selector.strategy_params
    size = _plain(selector.size)
    if size is None:
        return make(strategy, params), 1, None
    if isinstance(size, tuple) and len(size) == 2 and None in size:
        for end in size:
            require("an end of size", 1 if end is None else end, at_least=1, whole=True)
        smallest, largest = size
        return make(strategy, params), smallest or 1, largest
    check_size(size)
    cls = strategy_class(strategy)
    takes_number = cls.crosses_size_bounds and isinstance(size, int)
    if cls.size_parameter is not None and (cls.takes_size_rules or takes_number):
        _refuse_second_size(strategy, params or {}, cls.size_parameter, size)
        return make(strategy, {**(params or {}), cls.size_parameter: size}), 1, None
    # For other strategies the bounds of the space set the size.
    instance = make(strategy, params)
    name = name_of(strategy)
    if size == "parsimonious":
        raise ConfigError(
            f"strategy {name!r} does not support size 'parsimonious'; use pick='parsimonious'"
        )
    if size == "auto":
        takers = [other for other, entry in STRATEGIES.items() if entry.takes_size_rules]
        raise ConfigError(
            f"strategy {name!r} does not support size 'auto', which is for {', '.join(takers)}; "
            "pass a number or a pair (min, max)"
        )
    if isinstance(size, str):
        return instance, 1, None
    smallest, largest = (size, size) if isinstance(size, int) else size
    return instance, smallest, largest


def _refuse_second_size(
    strategy: str | Strategy, params: Mapping[str, object], parameter: str, size: object
) -> None:
    """Reject a size that is also given as a parameter of the strategy."""
    sources: dict[str, Mapping[str, object]] = {"strategy_params": params}
    if isinstance(strategy, Strategy):
        sources["strategy"] = {
            field.name: getattr(strategy, field.name)
            for field in fields(strategy)  # type: ignore[arg-type]
            if getattr(strategy, field.name) != field.default
        }
    for key, sizes in sources.items():
        if parameter in sizes:
            raise ConfigError(
                f"size is given twice, as {size!r} and in {key} as {sizes[parameter]!r}; "
                "omit one of them"
            )


def bounds_of_answer(strategy: Strategy, space: SearchSpace) -> tuple[int, int]:
    """Smallest and largest number of units that a pick may have."""
    size: Any = strategy.size_parameter and getattr(strategy, strategy.size_parameter)
    tol: float | None = getattr(strategy, "tol", None)
    return answer_sizes("best" if size is None else size, space, tol=tol)


# ---------------------------------------------------------------- task and folds


def task_for(y: Any, estimator: object) -> str | None:
    """Return the task if there are several outputs, else None.

    A target of several columns has several outputs, of numbers for a regressor, unless all values
    are 0 or 1 and the estimator is no regressor.
    """
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] > 1 and not pd.isna(values).any():
        if is_a(is_regressor, estimator):
            return "multioutput_regression"
        try:
            return _MULTI_OUTPUT_TASKS.get(type_of_target(values))
        except (TypeError, ValueError):  # task_of raises the error
            return None
    return None


def folds_of(selector: SubsetSelector, n_rows: int) -> int | Splitter | Sequence[Fold]:
    """Return the folds: `cv`, or all rows on both sides without cross-validation."""
    cv = selector.cv
    if cv is None or (isinstance(cv, (int, np.integer, np.bool_)) and not cv):
        if cv is None:
            warnings.warn(
                "cv=None trains and scores on all rows, like cv=0; for cross-validation pass "
                "a number of folds, such as cv=5",
                stacklevel=5,
            )
        rows = np.arange(n_rows)
        return [(rows, rows)]
    return cv
