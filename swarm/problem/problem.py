"""The problem that a search solves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.arrays import Float, Int
from swarm.errors import ConfigError, DataError, check_known
from swarm.problem.column_params import column_params, dropped_columns, for_columns
from swarm.problem.fingerprint import data_hash, digests, recipe
from swarm.problem.folds import Fold
from swarm.problem.inputs import (
    check_columns,
    check_estimator,
    check_fit_params,
    check_fold_weights,
    check_folds,
    check_read,
    check_rows,
    check_score_weights,
    check_target_range,
    check_task,
    check_varies,
    checked_weights,
    resolve_folds,
)
from swarm.problem.model_inputs import (
    fit_params_of,
    rows_for_model,
    with_accepted_names,
    with_named_columns,
)
from swarm.problem.models import (
    has_importances,
    is_lightgbm,
    keeps_columns,
    last_step,
    make_deterministic,
    shrinks_exactly,
)
from swarm.problem.scoring import Scoring, resolve_scoring
from swarm.problem.space import SearchSpace, canonical_order
from swarm.problem.target import task_of

Importance = Literal["auto", "fold", "permutation", "mutual_information", "none"]
# Rows of the fit that shows whether a model has importances, and those of each class among them.
_ROWS_OF_A_TRIAL = 200
_ROWS_OF_A_CLASS = 5
IMPORTANCES = ("auto", "fold", "permutation", "mutual_information", "none")


@dataclass(frozen=True, eq=False)
class Problem:
    """Data, estimator, scorer, folds and units: everything that a cost depends on.

    Use :meth:`build`; the constructor expects validated values.

    Attributes
    ----------
    features : DataFrame (n_rows, n_columns)
    target : (n_rows,) or (n_rows, n_labels)
        Zeros if there is no target.
    task : str
        ``binary``, ``multiclass``, ``regression``, ``multilabel``, ``multioutput_classes``,
        ``multioutput_regression`` or ``unsupervised``.
    estimator : estimator
        Deterministic, with one thread.
    scoring : Scoring
    folds : tuple of (train, test)
        Row positions.
    space : SearchSpace
    importance : str
        Source of the importances: ``fold``, ``permutation``, ``mutual_information`` or ``none``.
    weight : float64 (n_rows,) or None
        Sample weights, passed to ``fit``.
    seed : int
        Seed of the noise that breaks ties in the estimates of mutual information.
    exact_shrink : bool
        Whether units that no fold model uses can be dropped without changing any model.
    fit_params : dict
        Further parameters of ``fit``, see :func:`swarm.problem.model_inputs.fit_params_of`.
    as_array : bool
        Whether models receive arrays instead of tables.
    by_column : tuple of str
        Parameters of the estimator that are restricted to the columns of a subset, see
        :mod:`swarm.problem.column_params`. Their positions refer to the user's table.
    order : tuple of int
        Position of each column of `features` in the table that was given to :meth:`build`.
    weights_in_score : bool
        Whether the sample weights are passed to the scorer too.
    """

    features: pd.DataFrame
    target: NDArray[Any]
    task: str
    estimator: Any
    scoring: Scoring
    folds: tuple[Fold, ...]
    space: SearchSpace
    importance: str
    weight: Float | None
    exact_shrink: bool
    seed: int = 0
    fit_params: Mapping[str, Any] = field(default_factory=dict)
    as_array: bool = False
    by_column: tuple[str, ...] = ()
    order: tuple[int, ...] = ()
    weights_in_score: bool = False

    @classmethod
    def build(
        cls,
        features: pd.DataFrame,
        target: Any,
        estimator: Any,
        *,
        space: SearchSpace | None = None,
        scoring: str | Callable[..., float] | Scoring | None = None,
        pos_label: str | int | None = None,
        folds: int | Sequence[Fold] | Any = 5,
        groups: Any = None,
        weight: Any = None,
        importance: Importance = "auto",
        fit_params: Mapping[str, Any] | None = None,
        as_array: bool = False,
        task: str | None = None,
        seed: int = 0,
        weights_in_score: bool = False,
    ) -> Problem:
        """Validate the input and build the problem.

        Columns are sorted by :func:`swarm.problem.space.canonical_order`, so that a search does
        not depend on their order in `features`.

        Parameters
        ----------
        features : DataFrame (n_rows, n_columns)
        target : (n_rows,) or (n_rows, n_labels), or None
            None: unsupervised, scored by the estimator's own ``score`` or a callable
            ``(estimator, X)``.
        estimator
            Any scikit-learn estimator.
        space
            Units and constraints. Default: one unit per column, no constraints.
        scoring
            Name of a scikit-learn scorer, ``"subset_accuracy"`` (share of rows with all labels
            correct), ``"neg_hamming_loss"`` (its cost is the share of wrong labels), a callable
            ``(estimator, X, y) -> float``, or a :class:`Scoring`. Default: r2 for regression,
            accuracy otherwise, which is subset accuracy for multi-label targets.
        pos_label
            Positive class of f1, jaccard, precision, recall and average_precision, by default 1
            if that is a label, else the rarer class. Other scorers ignore it; votes and test
            metrics still use it.
        folds
            Number of folds (stratified for classes and labels, shuffled with `seed`), pairs of
            row positions, or a scikit-learn splitter.
        groups, weight : (n_rows,)
            Groups for the splitter; sample weights.
        importance
            ``auto``: importances of the fold models, or mutual information if models have none.
        fit_params
            Further parameters of ``fit``. Values with one entry per row are split with the rows;
            ``categorical_feature`` and ``cat_features`` list columns of the table, by name or by
            position, and are restricted to those of a subset.
        as_array
            Whether models receive arrays. Then `features` has a single dtype and generated
            column names.
        task
            As in :class:`Problem`. Default: inferred from the target and the estimator.
        seed
            Seed of shuffled folds and of every ``random_state`` of None.
        weights_in_score
            Pass the sample weights of the test rows to the scorer. By default, they are passed
            to ``fit`` only.

        Raises
        ------
        DataError, ConfigError
            If a fit would fail, or a cost would be meaningless.
        """
        if target is None:
            target, task = np.zeros(len(features), dtype=np.int8), "unsupervised"
        if isinstance(target, pd.DataFrame) and target.shape[1] == 1:
            target = target.iloc[:, 0]
        labels = np.asarray(target)
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        # The task is inferred from the dtypes of a table; a list or a column becomes an array.
        target = target if isinstance(target, (pd.Series, pd.DataFrame)) else labels
        check_estimator(estimator, scoring, task or "")
        check_rows(features, labels)
        if task != "unsupervised":
            check_varies(labels)
        space = space or SearchSpace.build(list(features.columns))
        if list(space.columns) != list(features.columns):
            raise DataError(
                "the search space must have the columns of the data, and in their order"
            )
        features = features.reset_index(drop=True)
        params = dict(fit_params or {})
        names, order = list(features.columns), canonical_order(features.columns)
        by_name, by_column = with_named_columns(params, names), column_params(estimator, names)
        if order != sorted(order):
            params = by_name
            features, space = features.iloc[:, order], space.reordered(order)
        check_read(space, dropped_columns(estimator, names))
        task = task or task_of(target, estimator)
        check_columns(features, estimator)
        check_task(estimator, target, task)
        check_target_range(estimator, labels)
        model = make_deterministic(estimator, seed)
        score = resolve_scoring(scoring, model, labels, task, pos_label)
        made = resolve_folds(folds, features, target=labels, task=task, seed=seed, groups=groups)
        check_folds(made, labels, task, model, score)
        weights = checked_weights(weight, len(labels), model)
        check_fold_weights(made, weights, scored=weights_in_score)
        if weights_in_score:
            check_score_weights(score, weights, task)
        check_fit_params(model, params)
        problem = cls(
            features=features,
            target=labels,
            task=task,
            estimator=model,
            scoring=score,
            folds=tuple(made),
            space=space,
            importance="none",
            weight=weights,
            exact_shrink=False,
            fit_params=params,
            as_array=as_array,
            order=tuple(order),
            weights_in_score=weights_in_score,
        )
        return problem._with_model(model, importance, by_column, seed)

    @property
    def given_columns(self) -> list[str]:
        """Names of the columns in the order of the table that was given to :meth:`build`."""
        columns = self.features.columns
        return list(columns[np.argsort(self.order)] if self.order else columns)

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self.folds)

    def score_weight(self, rows: Int) -> Float | None:
        """Return the weights of some rows for the scorer, or None."""
        return self.weight[rows] if self.weights_in_score and self.weight is not None else None

    @cached_property
    def relevance(self) -> Float | None:
        """Mutual information of each unit with the target; None for other importances.

        Computed on first access: for many labels, the estimates can take longer than a search.
        Of wide tables they are estimated from bins, as the hints are: neighbours take about 10 ms
        a column.
        """
        if self.importance != "mutual_information":
            return None
        from swarm.problem.hints import MOST_COLUMNS
        from swarm.statistics.information import neighbour_information, target_information

        if self.space.n_columns > MOST_COLUMNS:
            values = target_information(self.features, self.target, self.task).mean(axis=1)
        else:
            values = neighbour_information(self.features, self.target, self.task, self.seed)
        return self.space.by_unit(values, range(self.space.n_columns))

    def with_estimator(
        self, estimator: Any, *, importance: Importance = "auto", seed: int = 0
    ) -> Problem:
        """Return the problem with another estimator and the same data, folds, scorer and units."""
        check_estimator(estimator, self.scoring)
        by_column = column_params(estimator, self.given_columns)
        check_columns(self.features, estimator)
        check_fit_params(estimator, self.fit_params)
        return self._with_model(make_deterministic(estimator, seed), importance, by_column, seed)

    def _with_model(
        self, model: Any, importance: str, by_column: tuple[str, ...], seed: int
    ) -> Problem:
        columns, fold_model = list(self.features.columns), model
        if by_column:
            fold_model = for_columns(model, self.given_columns, columns)
        kind = _importance_kind(
            importance,
            fold_model,
            features=self.features,
            target=self.target,
            as_array=self.as_array,
            task=self.task,
        )
        return replace(
            self,
            estimator=model,
            importance=kind,
            exact_shrink=not self.fit_params and _exact(kind, model, self.features, self.folds),
            seed=seed,
            by_column=by_column,
        )

    def with_folds(self, folds: Sequence[Fold]) -> Problem:
        """Return the problem on other folds, without importances.

        Raises
        ------
        DataError
            If a model cannot be trained or scored on one of the folds.
        """
        check_folds(folds, self.target, self.task, self.estimator, self.scoring)
        check_fold_weights(folds, self.weight, scored=self.weights_in_score)
        return replace(self, folds=tuple(folds), importance="none", exact_shrink=False)

    def on_rows(self, rows: Int) -> Problem:
        """Return the problem on some of its rows, without importances.

        Folds are restricted to these rows, in their order, so that no row changes its fold.

        Parameters
        ----------
        rows : int (n,)
            Ascending positions.

        Raises
        ------
        DataError
            If a model cannot be trained or scored on what is left of a fold.
        """
        place = np.full(len(self.target), -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))

        def renumbered(positions: Int) -> Int:
            moved = place[positions]
            return moved[moved >= 0]

        folds = tuple((renumbered(train), renumbered(test)) for train, test in self.folds)
        target = self.target[rows]
        weight = None if self.weight is None else self.weight[rows]
        check_folds(folds, target, self.task, self.estimator, self.scoring)
        check_fold_weights(folds, weight, scored=self.weights_in_score)
        columns = list(self.features.columns)
        return replace(
            self,
            features=self.features.iloc[rows].reset_index(drop=True),
            target=target,
            folds=folds,
            importance="none",
            weight=weight,
            exact_shrink=False,
            fit_params=fit_params_of(
                self.fit_params, len(self.target), columns, range(len(columns)), rows
            ),
        )

    def fingerprint(self) -> str:
        """Return 32 hexadecimal digits that are equal for equal problems, on any machine.

        Covers data, target, weights, folds, estimator and the versions of its packages, scorer,
        importances, units, and the code of estimators and scorers that are in no installed package,
        see :mod:`swarm.problem.description`. Constraints do not affect costs, so searches that
        differ only in their constraints share evaluations.
        """
        return self._digests[0]

    def model_and_data_digests(self) -> tuple[bytes, str]:
        """Return what :meth:`matches_data` takes; the fingerprint has hashed the data for it."""
        try:
            return recipe(self), self._digests[1]
        except ConfigError:  # no stable name, and so no fingerprint
            return b"", data_hash(self, b"").hexdigest()

    def matches_data(self, mark: tuple[bytes, str]) -> bool:
        """Whether features, target and weights are those of the problem with this mark."""
        return bool(data_hash(self, mark[0]).hexdigest() == mark[1])

    def matches_models(self, mark: tuple[bytes, str]) -> bool:
        """Whether the models are those of the problem with this mark, if they have a name."""
        return not mark[0] or recipe(self) == mark[0]

    @cached_property
    def _digests(self) -> tuple[str, str]:
        return digests(self)


def _importance_kind(
    importance: str,
    model: Any,
    features: pd.DataFrame,
    target: NDArray[Any],
    as_array: bool,
    task: str,
) -> str:
    check_known("importance", importance, IMPORTANCES)
    has_estimate = task in ("binary", "multiclass", "regression", "multilabel")
    if importance == "mutual_information" and not has_estimate:
        raise ConfigError(
            f"importance 'mutual_information' does not support the task {task!r}; "
            "use 'auto', 'permutation' or 'none'"
        )
    if importance not in ("auto", "fold"):
        return importance
    reason = ""
    classes = task in ("binary", "multiclass")
    rows = _rows_of_a_trial(target, classes)
    if not _provides_importances(model, features.iloc[rows], target[rows], as_array):
        reason = f"{type(model).__name__} has none"
    elif not keeps_columns(model, features, target, as_array):
        reason = "the pipeline creates new columns"
    if importance == "auto":
        without = "mutual_information" if has_estimate else "none"
        return without if reason else "fold"
    if reason:
        raise ConfigError(
            f"importance {importance!r} is not available: {reason}; "
            "use 'permutation' or 'mutual_information'"
        )
    return importance


def _exact(kind: str, model: Any, features: pd.DataFrame, folds: Sequence[Fold]) -> bool:
    return kind == "fold" and all(
        shrinks_exactly(model, features.iloc[train]) for train, _ in folds
    )


def _rows_of_a_trial(target: NDArray[Any], classes: bool) -> Int:
    """Return a few rows, spread evenly, and a few of every class."""
    rows = np.unique(np.linspace(0, len(target) - 1, _ROWS_OF_A_TRIAL).astype(np.int64))
    if not classes:
        return rows
    return np.union1d(rows, pd.Series(target).groupby(target).head(_ROWS_OF_A_CLASS).index)


def _provides_importances(
    estimator: Any, features: pd.DataFrame, target: NDArray[Any], as_array: bool
) -> bool:
    """Fit on a few rows: some classes have importances only with some of their settings."""
    from sklearn.base import clone

    last = last_step(estimator)
    if is_lightgbm(last):
        return True
    columns = with_accepted_names(features, estimator)
    rows = rows_for_model(columns, np.arange(len(columns)), as_array)
    try:
        model = clone(estimator, safe=False).fit(rows, target)
    except Exception:
        return hasattr(type(last), "feature_importances_")
    return has_importances(model)
