"""The problem that a search solves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone, is_regressor
from sklearn.utils.validation import _check_method_params

from swarm.arrays import AnyArray, Float, Int, Positions
from swarm.errors import ConfigError, DataError, check_known
from swarm.problem.codes import fit_model
from swarm.problem.column_params import check_fit_params as check_fit_columns
from swarm.problem.column_params import column_params, dropped_columns, fit_params_for, for_columns
from swarm.problem.description import Unnamed
from swarm.problem.fingerprint import data_hash, digests, recipe
from swarm.problem.inputs import (
    check_columns,
    check_estimator,
    check_fit_params,
    check_fold_weights,
    check_folds,
    check_read,
    check_rows,
    check_score_weights,
    check_target,
    check_task,
    checked_weights,
)
from swarm.problem.models import (
    has_importances,
    is_a,
    is_lightgbm,
    keeps_columns,
    last_step,
    make_deterministic,
    shrinks_exactly,
    weight_name,
    with_accepted_names,
)
from swarm.problem.scoring import Scoring, resolve_scoring
from swarm.problem.settings import Settings
from swarm.problem.space import SearchSpace
from swarm.problem.table import (
    as_frame,
    labels_of,
    names_of,
    plain_target,
    refuse_masked,
    sliceable,
    take_columns,
    take_rows,
)
from swarm.problem.target import task_of
from swarm.protocols import Estimator, Scorer, Splitter
from swarm.rows import Division, Fold, Rows

Importance = Literal["auto", "fold", "permutation", "mutual_information", "none"]
IMPORTANCES = ("auto", "fold", "permutation", "mutual_information", "none")
# Rows, and rows of each class, of the fit that shows whether a model has importances.
_ROWS_OF_A_TRIAL = 200
_ROWS_OF_A_CLASS = 5
# Estimates of mutual information by neighbours take about 10 ms a column.
_MAX_COLUMNS_OF_NEIGHBOURS = 1_000


@dataclass(frozen=True, eq=False)
class Problem:
    """Data, estimator, scorer, folds and units: everything that a cost depends on.

    The cost of a subset S on a fold is that of scikit-learn's ``cross_validate`` for
    ``X[S]``, with the same estimator, folds, scorer and settings. Use :meth:`build`; the
    constructor expects validated values.

    Attributes
    ----------
    X : table, array or sparse matrix (n_rows, n_columns)
        The features as they were given. Models see their columns of it, in its order.
    y : (n_rows,) or (n_rows, n_labels)
        The target as it was given.
    task : str
        ``binary``, ``multiclass``, ``regression``, ``multilabel``, ``multioutput_classes`` or
        ``multioutput_regression``.
    estimator : estimator
        A clone that is deterministic and has one thread.
    scoring : Scoring
        The scorer, and the conversion of its score into a cost.
    folds : tuple of (train, test)
        Row positions.
    space : SearchSpace
        Units of columns, and constraints on their subsets.
    importance : str
        Source of the importances: ``fold``, ``permutation``, ``mutual_information`` or ``none``.
    settings : Settings
        Settings of the process that built the problem; they apply to every fit.
    weight : float64 (n_rows,) or None
        Sample weights, which are also in `fit_params`.
    seed : int
        Seed of the noise that breaks ties in the estimates of mutual information.
    exact_shrink : bool
        Whether units that no fold model uses can be dropped without changing any cost.
    fit_params, score_params : dict
        Parameters of ``fit`` and of the scorer; those with a value per row are split with the rows.
    by_column : tuple of str
        Parameters of the estimator that are restricted to the columns of a subset, see
        :mod:`swarm.problem.column_params`.
    weights_in_score : bool
        Whether the sample weights are passed to the scorer too.
    division : Division or None
        How fresh folds are drawn; None for a part of the rows, and in workers.
    """

    X: Any
    y: Any
    task: str
    estimator: Any
    scoring: Scoring
    folds: tuple[Fold, ...]
    space: SearchSpace
    importance: str
    settings: Settings
    weight: Float | None
    exact_shrink: bool
    seed: int = 0
    fit_params: Mapping[str, Any] = field(default_factory=dict)
    score_params: Mapping[str, Any] = field(default_factory=dict)
    by_column: tuple[str, ...] = ()
    weights_in_score: bool = False
    division: Division | None = None

    @classmethod
    def build(
        cls,
        X: Any,
        y: Any,
        estimator: Estimator,
        *,
        space: SearchSpace | None = None,
        scoring: str | Scorer | Scoring | None = None,
        pos_label: str | int | None = None,
        folds: int | Sequence[Fold] | Splitter | Division = 5,
        groups: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        importance: Importance = "auto",
        fit_params: Mapping[str, Any] | None = None,
        score_params: Mapping[str, Any] | None = None,
        task: str | None = None,
        seed: int = 0,
        weights_in_score: bool = False,
    ) -> Problem:
        """Validate the input and build the problem.

        Parameters
        ----------
        X : pandas or polars DataFrame, array or sparse matrix (n_rows, n_columns)
            Features.
        y : array-like (n_rows,) or (n_rows, n_labels)
            Target.
        estimator : estimator
            Any scikit-learn estimator; it is cloned.
        space : SearchSpace, optional
            Units and constraints. Default: one unit per column, no constraints.
        scoring : str, callable or Scoring, optional
            Name of a scikit-learn scorer, ``"subset_accuracy"`` (share of rows with all labels
            correct), ``"neg_hamming_loss"`` (its cost is the share of wrong labels), a callable
            ``(estimator, X, y) -> float``, or a :class:`Scoring`. Default: the estimator's own
            ``score``, that is accuracy for most classifiers and r2 for most regressors.
        pos_label : str or int, optional
            Positive class of f1, jaccard, precision, recall and average_precision, by default 1
            if that is a label, else the rarer class. Other scorers ignore it; votes and test
            metrics still use it.
        folds : int, sequence of (train, test), splitter or Division, default=5
            Number of folds (by group if there are groups, stratified for classes and labels,
            shuffled with `seed`), pairs of row positions, or a scikit-learn splitter.
        groups : array-like (n_rows,), optional
            Groups of the rows.
        weight : array-like (n_rows,), optional
            Sample weights for ``fit``, in a pipeline for that of its last step.
        importance : {"auto", "fold", "permutation", "mutual_information", "none"}
            ``auto``: importances of the fold models, or mutual information if models have none.
        fit_params, score_params : dict, optional
            Further parameters of ``fit``, and of the scorer. Values with one entry per row are
            split with the rows; see :mod:`swarm.problem.column_params` for those by column.
        task : str, optional
            As in :class:`Problem`. Default: inferred from the target and the estimator.
        seed : int, default=0
            Seed of shuffled folds and of every ``random_state`` of None.
        weights_in_score : bool, default=False
            Pass the sample weights of the test rows to the scorer. By default, they are passed
            to ``fit`` only.

        Returns
        -------
        Problem

        Raises
        ------
        DataError, ConfigError
            If a fit would fail, or a cost would be meaningless.
        """
        X = sliceable(X)
        check_target(y)
        y = y if hasattr(y, "__getitem__") else np.asarray(y)
        labels = plain_target(y)
        check_estimator(estimator, scoring)
        check_rows(X, labels)
        names = names_of(X)
        space = space or SearchSpace.build(names)
        if list(space.columns) != names:
            raise DataError(
                "the search space must have the columns of the data, and in their order"
            )
        columns = labels_of(X), len(names)
        by_column = column_params(estimator, *columns)
        check_read(space, dropped_columns(estimator, *columns))
        task = task or task_of(labels, estimator)
        check_columns(X, estimator)
        check_task(estimator, y, task)
        model = make_deterministic(estimator, seed)
        scorer = resolve_scoring(scoring, model, labels, task, pos_label)
        if not isinstance(folds, Division):
            fold_task = "regression" if is_a(is_regressor, model) else task
            folds = Division.of(folds, X, y, Rows(X, labels, groups, task=fold_task), seed)
        pairs = folds.folds
        check_folds(pairs, labels, task, model, scorer)
        params = dict(fit_params or {})
        for name, value in {**params, **(score_params or {})}.items():
            refuse_masked(name, value)
        weights = checked_weights(weight, len(labels), model)
        check_fold_weights(pairs, weights, scored=weights_in_score)
        if weights_in_score:
            check_score_weights(scorer, weights, task)
        check_fit_columns(params, *columns, n_rows=len(labels))
        settings = Settings.current()
        if not settings.sklearn["enable_metadata_routing"]:
            check_fit_params(model, params)
        if weights is not None:
            params[weight_name(model)] = weight
        problem = cls(
            X=X,
            y=y,
            task=task,
            estimator=model,
            scoring=scorer,
            folds=tuple(pairs),
            space=space,
            importance="none",
            settings=settings,
            weight=weights,
            exact_shrink=False,
            fit_params=params,
            score_params=dict(score_params or {}),
            weights_in_score=weights_in_score,
            division=folds,
        )
        return problem._with_model(model, importance, by_column, seed)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out cached properties, which would double the size of a problem."""
        names = {attribute.name for attribute in fields(self)} - {"division"}
        return {name: getattr(self, name) for name in names}

    @cached_property
    def features(self) -> pd.DataFrame:
        """The table with the names of the space and rows from 0, for all but the models."""
        return as_frame(self.X, self.space.columns)

    @cached_property
    def target(self) -> AnyArray:
        """The target as an array of a plain dtype."""
        return plain_target(self.y)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self.folds)

    @property
    def other_fit_params(self) -> list[str]:
        """Names of the parameters of ``fit`` other than the sample weights."""
        weight = weight_name(self.estimator) if self.weight is not None else None
        return [name for name in self.fit_params if name != weight]

    def score_weight(self, rows: Int) -> Float | None:
        """Return the weights of some rows for the scorer, or None."""
        if self.weight is None or not self.weights_in_score:
            return None
        return self.weight[rows]

    def columns(self, positions: Positions) -> Any:
        """Return the columns at ascending positions as models receive them, all rows."""
        return take_columns(self.X, positions)

    def fit(self, columns: Any, positions: Positions, rows: Int) -> Any:
        """Fit a clone of the estimator on some rows of :meth:`columns`.

        Parameters
        ----------
        columns : table, array or sparse matrix (n_rows, len(positions))
            Columns of all rows, as from :meth:`columns`.
        positions : int (n,)
            Ascending positions of these columns.
        rows : int (n_train,)
            Positions of the training rows.

        Returns
        -------
        estimator
            The clone, whatever its ``fit`` returns; it predicts the labels of the target.
        """
        table, names = with_accepted_names(take_rows(columns, rows), self.estimator)
        subset = labels_of(self.X), self.space.n_columns, positions, names
        params = self.fit_params
        model = for_columns(self.estimator, *subset) if self.by_column else clone_of(self.estimator)
        if self.other_fit_params:
            params = fit_params_for(params, *subset)
        params = _check_method_params(self.X, params, rows)
        return fit_model(model, table, take_rows(self.y, rows), **params)

    def cost(self, model: Any, table: Any, rows: Int) -> float:
        """Return the cost of a fitted model on the rows at some positions, which are in `table`."""
        params = _check_method_params(self.X, self.score_params, rows)
        target = take_rows(self.y, rows)
        return self.scoring.cost(model, table, target, self.score_weight(rows), **params)

    @cached_property
    def relevance(self) -> Float | None:
        """Mutual information of each unit with the target; None for other importances.

        It is computed on first access: for many labels, the estimates can take longer than a
        search. Wide tables use bins, as the hints do.
        """
        if self.importance != "mutual_information":
            return None
        from swarm.statistics.information import neighbour_information, target_information

        order = self.space.order
        features = self.features.iloc[:, order]
        if self.space.n_columns > _MAX_COLUMNS_OF_NEIGHBOURS:
            values = target_information(features, self.target, self.task).mean(axis=1)
        else:
            values = neighbour_information(features, self.target, self.task, self.seed)
        return self.space.by_unit(values, order)

    def with_estimator(
        self, estimator: Estimator, *, importance: Importance = "auto", seed: int = 0
    ) -> Problem:
        """Return the problem with another estimator and the same data, folds, scorer and units."""
        check_estimator(estimator, self.scoring)
        by_column = column_params(estimator, labels_of(self.X), self.space.n_columns)
        check_columns(self.X, estimator)
        model = make_deterministic(estimator, seed)
        params = {name: self.fit_params[name] for name in self.other_fit_params}
        check_fit_params(estimator, params)
        if self.weight is not None:
            checked_weights(self.weight, self.n_rows, model)
            params[weight_name(model)] = self.fit_params[weight_name(self.estimator)]
        return replace(self, fit_params=params)._with_model(model, importance, by_column, seed)

    def _with_model(
        self, model: Any, importance: str, by_column: tuple[str, ...], seed: int
    ) -> Problem:
        problem = replace(self, estimator=model, seed=seed, by_column=by_column)
        importance = _resolved_importance(importance, problem)
        exact_shrink = (
            importance == "fold"
            and is_lightgbm(model)
            and not self.other_fit_params
            # A scorer that reads the table may see the columns that models do not use.
            and self.scoring.reads_answers
            and all(shrinks_exactly(model, self.features.iloc[train]) for train, _ in self.folds)
        )
        return replace(problem, importance=importance, exact_shrink=exact_shrink)

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
            If a model cannot be trained or scored on the remaining rows of a fold.
        """
        new_position = np.full(len(self.target), -1, dtype=np.int64)
        new_position[rows] = np.arange(len(rows))

        def renumbered(positions: Int) -> Int:
            new = new_position[positions]
            return new[new >= 0]

        folds = tuple((renumbered(train), renumbered(test)) for train, test in self.folds)
        target = self.target[rows]
        weight = None if self.weight is None else self.weight[rows]
        check_folds(folds, target, self.task, self.estimator, self.scoring)
        check_fold_weights(folds, weight, scored=self.weights_in_score)
        return replace(
            self,
            division=None,
            X=take_rows(self.X, rows),
            y=take_rows(self.y, rows),
            folds=folds,
            importance="none",
            weight=weight,
            exact_shrink=False,
            fit_params=_check_method_params(self.X, self.fit_params, rows),
            score_params=_check_method_params(self.X, self.score_params, rows),
        )

    def fingerprint(self) -> str:
        """Return 32 hexadecimal digits that are equal for equal problems, on any machine.

        It covers data, target, weights, folds, estimator and scorer, the versions of their packages
        or the text of their modules, importances, units, and settings that change a result.
        Constraints do not affect costs, so searches that differ only in their constraints share
        evaluations.

        Raises
        ------
        Unnamed
            If the estimator or the scorer has no name, see :mod:`swarm.problem.description`.
        """
        return self._digests[0]

    def model_and_data_digests(self) -> tuple[bytes, str]:
        """Return digests for :meth:`matches_models` and :meth:`matches_data`."""
        prefix = recipe(self, strict=False)
        try:
            return prefix, self._digests[1]
        except Unnamed:
            return prefix, data_hash(self, prefix).hexdigest()

    def matches_data(self, digests: tuple[bytes, str]) -> bool:
        """Whether features, target and weights are those of the problem with these digests."""
        return data_hash(self, digests[0]).hexdigest() == digests[1]

    def matches_models(self, digests: tuple[bytes, str]) -> bool:
        """Whether the models are those of the problem with these digests."""
        return recipe(self, strict=False) == digests[0]

    @cached_property
    def _digests(self) -> tuple[str, str]:
        return digests(self)


def clone_of(estimator: Estimator) -> Any:
    """Return a clone; an object without ``get_params`` is copied."""
    return clone(estimator, safe=False)


def _resolved_importance(importance: str, problem: Problem) -> str:
    """Return the source of importances that ``auto`` stands for, or another one once checked."""
    check_known("importance", importance, IMPORTANCES)
    task = problem.task
    has_estimate = task in ("binary", "multiclass", "regression", "multilabel")
    if importance == "mutual_information" and not has_estimate:
        raise ConfigError(
            f"importance 'mutual_information' does not support the task {task!r}; "
            "use 'auto', 'permutation' or 'none'"
        )
    if importance not in ("auto", "fold"):
        return importance
    reason = ""
    with problem.settings.silenced():
        if not _provides_importances(problem):
            reason = f"{type(problem.estimator).__name__} has none"
        elif not keeps_columns(problem.estimator, problem.X, problem.y):
            reason = "the pipeline creates new columns"
    if not reason:
        return "fold"
    if importance == "auto":
        return "mutual_information" if has_estimate else "none"
    raise ConfigError(
        f"importance {importance!r} is not available: {reason}; "
        "use 'permutation' or 'mutual_information'"
    )


def _rows_of_a_trial(target: AnyArray, classes: bool) -> Int:
    """Return a few rows, spread evenly, and a few of every class."""
    rows = np.unique(np.linspace(0, len(target) - 1, _ROWS_OF_A_TRIAL).astype(np.int64))
    if not classes:
        return rows
    return np.union1d(rows, pd.Series(target).groupby(target).head(_ROWS_OF_A_CLASS).index)


def _provides_importances(problem: Problem) -> bool:
    """Whether a model of a few rows has importances, which may depend on its settings."""
    last = last_step(problem.estimator)
    if is_lightgbm(last):
        return True
    rows = _rows_of_a_trial(problem.target, problem.task in ("binary", "multiclass"))
    model = clone_of(problem.estimator)
    try:
        model = fit_model(model, take_rows(problem.X, rows), take_rows(problem.y, rows))
    except Exception:
        return hasattr(type(last), "feature_importances_")
    return has_importances(model)
