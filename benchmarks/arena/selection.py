"""Fit a selector of any package, and count the models that it trains."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone

# Selectors of these modules train no model, unless one is among their parameters.
_WITHOUT_MODELS = ("sklearn.feature_selection.",)


def select(selector: Any, X: pd.DataFrame, y: Any) -> tuple[np.ndarray, int | None]:
    """Fit a clone of a selector, and count the models that it trains.

    Parameters
    ----------
    selector : object
        Follows scikit-learn: ``fit(X, y)``, then ``get_support()`` or a boolean `support_`.
    X : DataFrame (n_rows, n_columns)
    y : (n_rows,)

    Returns
    -------
    mask : bool (n_columns,)
        The selected columns.
    fits : int or None
        None if they cannot be counted.

    Raises
    ------
    ValueError
        If the fitted selector does not say which columns it selected, or selected none.
    """
    own, count = counted(selector)
    own.fit(X, y)
    return _support(own, X.shape[1]), count.fits if count.is_known else None


def _support(selector: Any, n_columns: int) -> np.ndarray:
    if callable(getattr(selector, "get_support", None)):
        mask = np.asarray(selector.get_support())
    elif hasattr(selector, "support_"):
        mask = np.asarray(selector.support_)
    else:
        raise ValueError(
            f"{type(selector).__name__} has neither get_support nor support_ after fit, so its"
            " columns are not known"
        )
    if mask.dtype != bool or mask.shape != (n_columns,):
        raise ValueError(
            f"{type(selector).__name__} must mark each of {n_columns} columns by a boolean, got"
            f" {mask.dtype} of shape {mask.shape}"
        )
    if not mask.any():
        raise ValueError(f"{type(selector).__name__} selected no column")
    return mask


class FitCount:
    """Number of model fits of a selector.

    Attributes
    ----------
    fits : int
        Fits in this process.
    is_known : bool
        False if the selector hides its models, or sent one to another process, where fits are
        not counted.
    """

    def __init__(self) -> None:
        self.fits = 0
        self.is_known = True

    def __reduce__(self) -> tuple[type[FitCount], tuple[()]]:
        # A copy in another process counts for nobody.
        self.is_known = False
        return FitCount, ()


def counted(selector: Any) -> tuple[Any, FitCount]:
    """Return a clone of a selector whose models count their fits, and the count.

    Each estimator among the parameters of the selector is replaced by one of a subclass of its
    class, whose ``fit`` counts. Clones of it share the class and therefore the count, and
    ``isinstance`` still holds. A pipeline counts once, whatever its steps.

    Parameters
    ----------
    selector : object
        With ``fit``. Without ``get_params`` it is used as it is, and the count is not known.
    """
    count = FitCount()
    if not hasattr(selector, "get_params") or isinstance(selector, type):
        count.is_known = False
        return selector, count
    own = clone(selector)
    models = {name: value for name, value in own.get_params(deep=False).items() if _is_model(value)}
    for name, model in models.items():
        own.set_params(**{name: _counting(model, count)})
    within = f"{type(selector).__module__}."
    count.is_known = bool(models) or within.startswith(_WITHOUT_MODELS)
    return own, count


def _is_model(value: object) -> bool:
    return (
        isinstance(value, BaseEstimator)
        and callable(getattr(value, "fit", None))
        and hasattr(value, "predict")
    )


def _counting(model: Any, count: FitCount) -> Any:
    kind = type(model)

    @functools.wraps(kind.fit)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        count.fits += 1
        return kind.fit(self, *args, **kwargs)

    body = {
        "fit": fit,
        "_fit_count": count,
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
    }
    made = clone(model)
    made.__class__ = type(kind.__name__, (kind,), body)
    return made
