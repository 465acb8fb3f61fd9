"""The scikit-learn face: select features by one ``fit``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    check_is_fitted,
    validate_data,
)

from swarm.archive import Archive
from swarm.budget import Budget
from swarm.errors import ConfigError, DataError
from swarm.evaluation.crossval import CrossValidation
from swarm.hints import prepare_hints
from swarm.problem import Problem
from swarm.registry import make
from swarm.search import Search, run
from swarm.space import SearchSpace

__all__ = ["SubsetSelector"]


class SubsetSelector(SelectorMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Select the features with which an estimator does best under cross-validation.

    Parameters
    ----------
    estimator : estimator
        Any scikit-learn estimator; not changed.
    strategy : str
        Search algorithm, see :func:`swarm.registry.registry`.
    strategy_params : mapping, optional
    scoring : str or callable, optional
        Default: accuracy, or r2 for regression.
    cv : int, splitter or list of (train, test)
        Folds; a number means stratified for classes, shuffled by `random_state`.
    epochs, distinct, seconds, patience : optional
        Budget, see :class:`swarm.budget.Budget`.
    fixed, forbidden, groups, min_size, max_size
        Constraints, see :meth:`swarm.space.SearchSpace.build`.
    importance : str
        Where importances come from, see :meth:`swarm.problem.Problem.build`.
    n_clusters : int, optional
        Clusters that first positions are drawn from.
    n_jobs : int
        Workers; -1 for one per core.
    random_state : int
        Seed of the search, of shuffled folds and of every random state left open.
    archive : str, optional
        SQLAlchemy URL where evaluations are kept, so that a second fit of the same problem
        costs nothing. Default: nowhere.
    callbacks : sequence of callable
        Called after every epoch with its record and the state.

    Attributes
    ----------
    subset_ : list of str
        Names of the chosen features.
    cost_ : float
        Their measured cost.
    result_ : SearchResult
    history_ : DataFrame
        One row per epoch.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from swarm import SubsetSelector
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> selector = SubsetSelector(GaussianNB(), epochs=3).fit(X, y)
    >>> selector.transform(X).shape[1] == len(selector.subset_)
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        strategy: str = "multiswarm",
        strategy_params: Mapping[str, object] | None = None,
        scoring: str | Callable[..., float] | None = None,
        cv: Any = 5,
        epochs: int | None = 30,
        distinct: int | None = None,
        seconds: float | None = None,
        patience: int | None = None,
        fixed: Iterable[str] = (),
        forbidden: Iterable[str] = (),
        groups: Mapping[str, Sequence[str]] | None = None,
        min_size: int = 1,
        max_size: int | None = None,
        importance: str = "auto",
        n_clusters: int | None = None,
        n_jobs: int = 1,
        random_state: int = 0,
        archive: str | None = None,
        callbacks: Sequence[Callable[..., None]] = (),
    ) -> None:
        self.estimator = estimator
        self.strategy = strategy
        self.strategy_params = strategy_params
        self.scoring = scoring
        self.cv = cv
        self.epochs = epochs
        self.distinct = distinct
        self.seconds = seconds
        self.patience = patience
        self.fixed = fixed
        self.forbidden = forbidden
        self.groups = groups
        self.min_size = min_size
        self.max_size = max_size
        self.importance = importance
        self.n_clusters = n_clusters
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.archive = archive
        self.callbacks = callbacks

    def fit(self, X: Any, y: Any, *, sample_weight: Any = None, cv_groups: Any = None) -> Self:
        """Search; Ctrl-C ends it with the best subset so far.

        Parameters
        ----------
        X : DataFrame or array (n_rows, n_features)
        y : (n_rows,)
        sample_weight : (n_rows,), optional
            Passed to the estimator's ``fit``.
        cv_groups : (n_rows,), optional
            Passed to the splitter.
        """
        if y is None:
            raise DataError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        if not isinstance(self.random_state, (int, np.integer)):
            raise ConfigError(
                f"random_state must be an integer, got {self.random_state!r}; "
                "generators never repeat"
            )
        frame = self._frame(X)
        space = SearchSpace.build(
            list(frame.columns),
            groups=self.groups,
            fixed=self.fixed,
            forbidden=self.forbidden,
            min_size=self.min_size,
            max_size=self.max_size,
        )
        problem = Problem.build(
            frame,
            y,
            self.estimator,
            space=space,
            scoring=self.scoring,
            folds=self.cv,
            groups=cv_groups,
            weight=sample_weight,
            importance=self.importance,  # type: ignore[arg-type]
            seed=self.random_state,
        )
        strategy = make(self.strategy, self.strategy_params)
        hints = prepare_hints(
            problem.features,
            space,
            problem.target,
            problem.task,
            n_clusters=self.n_clusters,
            needs=strategy.needs,
        )
        budget = Budget(
            epochs=self.epochs,
            distinct=self.distinct,
            seconds=self.seconds,
            patience=self.patience,
        )
        archive = Archive() if self.archive is None else Archive(self.archive)
        with closing(archive), CrossValidation(problem, archive, n_jobs=self.n_jobs) as evaluator:
            search = Search(strategy, space, evaluator, hints, self.random_state, budget)
            self.result_ = run(search, callbacks=self.callbacks)
        self.subset_ = self.result_.features
        self.cost_ = self.result_.cost
        self.history_ = self.result_.history
        self._support = np.zeros(space.n_columns, dtype=bool)
        self._support[space.positions(self.result_.best_mask)] = True
        return self

    def _frame(self, X: Any) -> pd.DataFrame:
        """Return X as a table, and set `n_features_in_` and `feature_names_in_` from it."""
        if isinstance(X, pd.DataFrame):
            _check_n_features(self, X, reset=True)
            _check_feature_names(self, X, reset=True)
            return X
        finite = not get_tags(self).input_tags.allow_nan
        values = validate_data(
            self, X, dtype="numeric", ensure_all_finite=finite or "allow-nan", ensure_min_samples=2
        )
        return pd.DataFrame(values, columns=[f"x{i}" for i in range(values.shape[1])])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = get_tags(self.estimator).input_tags.allow_nan
        return tags

    def _get_support_mask(self) -> np.ndarray[Any, Any]:
        check_is_fitted(self, "subset_")
        return self._support
