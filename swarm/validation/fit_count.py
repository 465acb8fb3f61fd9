"""Count the fits of the models inside a feature selector."""

from __future__ import annotations

import functools
import time
from typing import Any

from sklearn.base import BaseEstimator, clone

__all__ = ["FitCount", "counted", "counts_by_itself"]

# Selectors of these modules train no model, unless one is among their parameters.
_WITHOUT_MODELS = ("sklearn.feature_selection.",)


class FitCount:
    """Number of model fits of a selector, and their wall time.

    Attributes
    ----------
    fits : int
        Fits in this process.
    seconds : float
        Their wall time.
    is_known : bool
        False if the selector hides its models, or sent one to another process, where fits are
        not counted.
    """

    def __init__(self) -> None:
        self.fits = 0
        self.seconds = 0.0
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
    if counts_by_itself(own):
        return own, count
    models = {name: value for name, value in own.get_params(deep=False).items() if _is_model(value)}
    for name, model in models.items():
        own.set_params(**{name: _counting(model, count)})
    within = f"{type(selector).__module__}."
    count.is_known = bool(models) or within.startswith(_WITHOUT_MODELS)
    return own, count


def counts_by_itself(selector: Any) -> bool:
    """Whether the class of a selector has `n_fits_`, as :class:`swarm.SubsetSelector` has.

    It is given its model as it is: a counting one would have no fast path.
    """
    return hasattr(type(selector), "n_fits_")


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
        started = time.perf_counter()
        try:
            return kind.fit(self, *args, **kwargs)
        finally:
            count.fits += 1
            count.seconds += time.perf_counter() - started

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
