"""Compare feature selectors on rows that none of them saw.

Each selector is fitted on the training rows of each resample; one model of the selected columns
is trained on the same rows and scored on the test rows. So selectors of any library can be judged
beside :class:`swarm.SubsetSelector`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit

from swarm.arrays import Bool
from swarm.errors import ConfigError, DataError, EvaluationError, InputError
from swarm.problem.model_inputs import with_accepted_names
from swarm.problem.scoring import Scoring, resolve_scoring
from swarm.problem.target import task_of
from swarm.statistics.resampled import corrected_t
from swarm.validation.comparison import Friedman, friedman_of_blocks, holm
from swarm.validation.stability import nogueira

Resample = tuple[NDArray[np.intp], NDArray[np.intp]]

# Label of the baseline that selects every column.
ALL_FEATURES = "all features"
_TEST_SHARE = 0.3


@dataclass(frozen=True, eq=False)
class Selection:
    """What one selector selected on one table.

    Attributes
    ----------
    mask : bool (n_columns,)
        The selected columns.
    fits : int or None
        Number of models that it trained; None if that is not known.
    seconds : float
        Wall time of its fit.
    training_seconds : float or None
        Wall time of the model fits alone; None if that is not known.
    """

    mask: Bool
    fits: int | None
    seconds: float
    training_seconds: float | None


@dataclass(frozen=True)
class SelectorComparison:
    """Result of a comparison of selectors on one table.

    Attributes
    ----------
    cells : DataFrame
        One row per selector and resample: selector, resample, score and cost on the test rows,
        size, fits (missing if not known), seconds, and the selected features.
    summary : DataFrame
        One row per selector, the best average rank first: mean_score, sd_score, mean_size,
        fits, seconds, stability (Nogueira et al., 2018; missing if it is undefined), rank (mean
        over the resamples), and against the reference the mean difference in score with its
        confidence interval `low` to `high`, `p` and Holm-adjusted `p_holm` of the corrected
        resampled t-test.
    friedman : Friedman or None
        Test with the resamples as blocks. They share rows, so its p-value is too small.
    reference : str
        Label of the selector that the others are tested against.
    alpha : float
    """

    cells: pd.DataFrame
    summary: pd.DataFrame
    friedman: Friedman | None
    reference: str
    alpha: float


def compare_selectors(
    selectors: Mapping[str, Any],
    X: pd.DataFrame,
    y: Any,
    model: Any,
    resamples: int | Sequence[tuple[Any, Any]] = 5,
    scoring: Any = None,
    *,
    reference: str = ALL_FEATURES,
    alpha: float = 0.05,
    seed: int = 0,
) -> SelectorComparison:
    """Judge each selector on the test rows of the same resamples.

    Parameters
    ----------
    selectors : mapping of label to selector
        Objects that follow scikit-learn: ``fit(X, y)``, then ``get_support()`` or a boolean
        `support_`. They are cloned, and their models count their fits, unless their class has a
        property `n_fits_`. A parameter `estimator` that is None becomes `model`. All
        features are added under the label ``"all features"``.
    X : DataFrame (n_rows, n_columns)
    y : (n_rows,) or (n_rows, n_labels)
    model : estimator
        Trained on the selected columns of the training rows, and scored on the test rows.
    resamples : int or sequence of (train, test)
        Positions of training and test rows; a number n means n random splits by `seed` with 30 %
        test rows, stratified for classifiers.
    scoring : str or callable, optional
        Default: accuracy, or r2 for regression.
    reference : str
        Label of the selector that the others are tested against.
    alpha : float
        Significance level of the tests.
    seed : int

    Raises
    ------
    InputError
        For bad input, before anything is trained.
    EvaluationError
        If a selector or its model fails, or selects nothing.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.feature_selection import RFECV, SelectKBest
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> selectors = {"filter": SelectKBest(k=5), "rfecv": RFECV(RidgeClassifier(), cv=3)}
    >>> compared = compare_selectors(selectors, X, y, GaussianNB(), resamples=3)
    >>> sorted(compared.summary["selector"])
    ['all features', 'filter', 'rfecv']
    >>> int(compared.cells.query("selector == 'filter'")["fits"].sum())
    0
    """
    check_selectors(selectors)
    if not isinstance(X, pd.DataFrame):
        raise DataError(f"X must be a pandas DataFrame, got {type(X).__name__}")
    if len(X) != len(y):
        raise DataError(f"X has {len(X)} rows but y has {len(y)}; pass one target for each row")
    if ALL_FEATURES in selectors:
        raise ConfigError(f"{ALL_FEATURES!r} is the label of the baseline; rename the selector")
    if reference != ALL_FEATURES and reference not in selectors:
        raise ConfigError(
            f"reference must be {ALL_FEATURES!r} or a label of selectors,"
            f" {', '.join(selectors)}, got {reference!r}"
        )
    if not 0 < alpha < 1:
        raise ConfigError(f"alpha must be between 0 and 1, got {alpha!r}")
    target = y if isinstance(y, (pd.Series, pd.DataFrame)) else np.asarray(y)
    plain = np.asarray(target)
    scorer = resolve_scoring(scoring, model, plain, task_of(plain))
    splits = _splits(resamples, X, plain, model, seed)
    rows = [
        _judged(label, selector, number, X, target, model, split, scorer)
        for number, split in enumerate(splits)
        for label, selector in {ALL_FEATURES: None, **selectors}.items()
    ]
    cells = pd.DataFrame(rows).astype({"fits": "Int64"})
    sizes = [(len(train), len(test)) for train, test in splits]
    summary = _summary(cells, list(X.columns), reference, alpha, np.mean(sizes, axis=0))
    blocks = cells.pivot(index="resample", columns="selector", values="cost")
    silent: dict[str, str] = {}
    friedman = friedman_of_blocks(blocks, silent)
    return SelectorComparison(cells, summary, friedman, reference, alpha)


def check_selectors(selectors: Mapping[str, Any]) -> None:
    """Refuse objects that cannot be compared.

    Raises
    ------
    InputError
    """
    if not selectors:
        raise ConfigError("selectors must have at least one entry, got none; add one")
    for label, selector in selectors.items():
        if isinstance(selector, type):
            raise ConfigError(
                f"selector {label!r} is the class {selector.__name__}; pass an object of it"
            )
        if not callable(getattr(selector, "fit", None)):
            raise ConfigError(f"selector {label!r}, {selector!r}, has no fit; pass a selector")


def select(selector: Any, X: pd.DataFrame, y: Any, model: Any = None) -> Selection:
    """Fit a clone of a selector, and count the models that it trains.

    Parameters
    ----------
    selector : object
        See :func:`compare_selectors`.
    X : DataFrame (n_rows, n_columns)
    y : (n_rows,) or (n_rows, n_labels)
    model : estimator, optional
        The `estimator` of a selector that has none.

    Raises
    ------
    ValueError
        If the fitted selector does not say which columns it selected, or selected none.
    """
    own, count = counted(_with_model(selector, model))
    started = time.perf_counter()
    own.fit(X, y)
    seconds = time.perf_counter() - started
    mask = _support(own, X.shape[1])
    if counts_by_itself(own):
        return Selection(mask, own.n_fits_, seconds, None)
    if not count.is_known:
        return Selection(mask, None, seconds, None)
    return Selection(mask, count.fits, seconds, count.seconds)


def _with_model(selector: Any, model: Any) -> Any:
    if model is None or not hasattr(selector, "get_params"):
        return selector
    if selector.get_params(deep=False).get("estimator", "absent") is None:
        return clone(selector).set_params(estimator=clone(model))
    return selector


def _support(selector: Any, n_columns: int) -> Bool:
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


def _splits(resamples: Any, X: pd.DataFrame, y: Any, model: Any, seed: int) -> list[Resample]:
    if isinstance(resamples, (int, np.integer)) and not isinstance(resamples, bool):
        if resamples < 2:
            raise ConfigError(f"resamples must be at least 2, got {resamples}")
        kind = StratifiedShuffleSplit if is_classifier(model) and y.ndim == 1 else ShuffleSplit
        splitter = kind(int(resamples), test_size=_TEST_SHARE, random_state=seed)
        try:
            return list(splitter.split(X, y))
        except ValueError as error:
            raise DataError(f"the rows cannot be split: {str(error).splitlines()[0]}") from None
    splits = [(np.asarray(train), np.asarray(test)) for train, test in resamples]
    if len(splits) < 2:
        raise ConfigError(f"resamples must have at least 2 entries, got {len(splits)}")
    for number, (train, test) in enumerate(splits):
        shared = np.intersect1d(train, test)
        if not len(train) or not len(test) or len(shared):
            raise DataError(
                f"resample {number} must have training rows and other test rows, got"
                f" {len(train)}, {len(test)} and {len(shared)} in both"
            )
    return splits


def _judged(
    label: str,
    selector: Any,
    number: int,
    X: pd.DataFrame,
    y: Any,
    model: Any,
    split: Resample,
    scorer: Scoring,
) -> dict[str, Any]:
    train, test = split
    rows = X.iloc[train]
    known, unseen = (
        (y.iloc[part] if isinstance(y, (pd.Series, pd.DataFrame)) else y[part])
        for part in (train, test)
    )
    try:
        if selector is None:
            found = Selection(np.ones(X.shape[1], dtype=bool), 0, 0.0, 0.0)
        else:
            found = select(selector, rows, known, model)
        columns = list(X.columns[found.mask])
        own, others = (with_accepted_names(part[columns], model) for part in (rows, X.iloc[test]))
        cost = scorer.cost(clone(model).fit(own, known), others, np.asarray(unseen))
    except InputError as error:
        raise type(error)(f"selector {label!r}: {error}") from None
    except Exception as error:
        reason = " ".join(str(error).split())
        raise EvaluationError(
            f"selector {label!r} failed on resample {number}, {type(error).__name__}: {reason}"
        ) from error
    return {
        "selector": label,
        "resample": number,
        "score": (scorer.upper or 0.0) - cost,
        "cost": cost,
        "size": len(columns),
        "fits": found.fits,
        "seconds": found.seconds,
        "features": columns,
    }


def _summary(
    cells: pd.DataFrame, columns: list[Any], reference: str, alpha: float, sizes: Any
) -> pd.DataFrame:
    scores = cells.pivot(index="resample", columns="selector", values="score")
    ranks = scores.rank(axis=1, ascending=False).mean()
    rows = []
    for label, group in cells.groupby("selector", sort=False):
        fits = group["fits"]
        masks = np.array([np.isin(columns, chosen) for chosen in group["features"]])
        row = {
            "selector": label,
            "mean_score": group["score"].mean(),
            "sd_score": group["score"].std(ddof=1),
            "mean_size": group["size"].mean(),
            "fits": np.nan if fits.isna().any() else float(fits.mean()),
            "seconds": group["seconds"].mean(),
            "stability": nogueira(masks).index,
            "rank": ranks[label],
        }
        if label != reference:
            gains = (scores[label] - scores[reference]).to_numpy()
            test = corrected_t(gains, sizes[0], sizes[1], 1 - alpha)
            row |= {"difference": test.mean, "low": test.low, "high": test.high, "p": test.p}
        rows.append(row)
    table = pd.DataFrame(rows)
    table["p_holm"] = holm(table["p"].dropna())[0]
    return table.sort_values("rank", kind="stable", ignore_index=True)


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
