"""Ensemble of models, one per subset, combined by a vote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from swarm.arrays import AnyArray, Float, Int
from swarm.errors import DataError, InputError, check_known, suggestion
from swarm.problem.codes import fit_model
from swarm.problem.column_params import column_params, for_columns
from swarm.problem.models import (
    has_method,
    is_lightgbm,
    last_step,
    weight_name,
    with_accepted_names,
)
from swarm.problem.scoring import default_positive
from swarm.problem.table import (
    labels_of,
    owned,
    plain_target,
    take_columns,
    take_rows,
)

VOTES = ("auto", "hard", "soft", "any", "mean")


def with_one_thread(estimator: BaseEstimator) -> BaseEstimator:
    """Return a clone whose LightGBM models train on one thread, unless `n_jobs` is set.

    By default each of them uses every core, which oversubscribes the machine.
    """
    model = clone(estimator)
    params = {f"{name}__": value for name, value in model.get_params(deep=True).items()}
    for prefix, value in {"": model, **params}.items():
        if is_lightgbm(value) and value.get_params().get("n_jobs", 1) is None:
            model.set_params(**{f"{prefix}n_jobs": 1})
    return model


def has_probabilities(estimator: object) -> bool:
    """Whether a classifier has `predict_proba`, and it returns probabilities.

    LightGBM with a custom objective function returns raw scores.
    """
    objective = getattr(last_step(estimator), "objective", None)
    return has_method(estimator, "predict_proba") and not callable(objective)


def _classifies(ensemble: SubsetEnsemble) -> bool:
    return bool(is_classifier(ensemble.estimator))


class SubsetEnsemble(BaseEstimator):  # type: ignore[misc]
    """Train a clone of an estimator on each subset of the columns and combine them by a vote.

    Parameters
    ----------
    estimator : estimator
        Classifier or regressor. LightGBM models use one thread unless `n_jobs` is set.
    subsets : list of lists
        Columns of each member, which is trained on these only: labels of a table, or positions in
        an array or a sparse matrix.
    vote : {"auto", "hard", "soft", "any", "mean"}, default="auto"
        ``hard``: majority vote; ties are broken by the order of `classes_`. ``soft``: the class
        with the highest mean probability. ``any``: the positive class if at least one member
        predicts it; binary classification only. ``mean``: mean prediction, for regressors.
        ``auto``: soft for classifiers with `predict_proba`, hard for others, mean for regressors.
        With a multi-label target, each label has a vote of its own. The prediction of a single
        member does not depend on the vote.
    pos_label : class, default=None
        Positive class of the ``any`` vote. None means the label 1 if there is one, else the
        rarer class of `y`, or ``classes_[1]`` if both are equally frequent. With a multi-label
        target it is always ``classes_[i][1]``.

    Attributes
    ----------
    models_ : list of estimators
        Fitted members, in the order of `subsets`.
    subsets_ : list of lists
        Columns of each member.
    classes_ : array (n_classes,), or a list of arrays, one per label
        Classes in ascending order. Classifiers only.
    labels_ : list of str
        Names of the labels: the columns of `y`, or ``label_0`` and so on. Multi-label targets only.
    feature_names_in_ : array of str (n_features_in_,)
        Columns of the table seen in `fit`. `predict` requires only those of the subsets.
    n_features_in_ : int
        Number of columns seen in `fit`.
    vote_ : str
        The vote in use: `vote` with ``auto`` resolved.
    positive_ : int
        Position of the positive class in `classes_`. Classifiers only; 1 unless there are two
        classes.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X = pd.DataFrame({"a": [0, 1, 8, 9], "b": [1, 0, 9, 8], "c": [5, 6, 5, 6]})
    >>> ensemble = SubsetEnsemble(KNeighborsClassifier(1), [["a"], ["a", "b"]])
    >>> ensemble.fit(X, ["low", "low", "high", "high"]).predict(X[["a", "b"]]).tolist()
    ['low', 'low', 'high', 'high']
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        subsets: Sequence[Sequence[str]],
        vote: str = "auto",
        pos_label: object = None,
    ) -> None:
        self.estimator = estimator
        self.subsets = subsets
        self.vote = vote
        self.pos_label = pos_label

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        rows: Sequence[Int] | None = None,
    ) -> SubsetEnsemble:
        """Train every member on its columns.

        Parameters
        ----------
        X : table, array or sparse matrix (n_rows, n_features)
            Contains every column of the subsets; members get their columns as they are.
        y : array-like (n_rows,) or (n_rows, n_labels)
            Target.
        sample_weight : float (n_rows,), optional
            Sample weights, passed to the fit of every member.
        rows : one int array per member, optional
            Positions of the rows that each member is trained on. Default: all rows.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If a subset is empty or repeats a column, or the vote does not match the estimator or
            the target.
        DataError
            If `X` lacks a column.
        """
        self._learn(y)
        n_rows, n_columns = X.shape
        n_targets = len(plain_target(y))
        if n_targets != n_rows:
            raise DataError(f"X has {n_rows} rows but y has {n_targets}; they must match")
        labels = labels_of(X)
        if rows is None:
            rows = [np.arange(n_rows)] * len(self.subsets_)
        model = with_one_thread(self.estimator)
        by_column = column_params(model, labels, n_columns)
        self.models_ = []
        for positions, member_rows in zip(self._positions(X), rows, strict=True):
            table = take_rows(take_columns(X, positions), member_rows)
            table, names = with_accepted_names(table, model)
            member = clone(model)
            if by_column:
                member = for_columns(model, labels, n_columns, positions, names)
            params = {}
            if sample_weight is not None:
                params[weight_name(model)] = take_rows(sample_weight, member_rows)
            self.models_.append(fit_model(member, table, take_rows(y, member_rows), **params))
        columns = range(n_columns) if labels is None else labels
        # Labels may be tuples.
        self.feature_names_in_ = pd.Index(columns, dtype=object, tupleize_cols=False).to_numpy()
        self.n_features_in_ = n_columns
        return self

    def with_models(self, models: Sequence[Any], y: ArrayLike) -> SubsetEnsemble:
        """Take fitted models, one per subset, instead of training them.

        Parameters
        ----------
        models : list of estimators
            Fitted models, in the order of the subsets.
        y : array-like (n_rows,) or (n_rows, n_labels)
            Target of the rows that the models were trained on.

        Raises
        ------
        InputError
            If the vote does not match the estimator or the target.
        """
        self._learn(y)
        self.models_ = list(models)
        return self

    def predict(self, X: Any) -> AnyArray:
        """Predict the target of each row by the vote.

        Parameters
        ----------
        X : table, array or sparse matrix (n_rows, any)
            Contains every column of the subsets, of a table in any order; others are ignored.

        Returns
        -------
        (n_rows,) or (n_rows, n_labels)
            Classes, or numbers for a regressor.

        Raises
        ------
        DataError
            If `X` lacks a column.
        """
        if not _classifies(self):
            return np.mean(self._predictions(X), axis=0)
        if len(self.models_) == 1:
            # The class with the highest probability need not be the prediction of a model.
            return self._predictions(X)[0]
        return self.elected(self.predict_proba(X))

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Return the mean probability of each class (soft), or the share of votes for it.

        Returns
        -------
        float64 (n_rows, n_classes), or a list of them, one per label
            Columns in the order of `classes_`. Under the ``any`` vote the positive class is
            predicted where its share is above 0.

        Raises
        ------
        DataError
            If `X` lacks a column.
        """
        if self.vote_ == "soft":
            return self.mean_proba(X)
        votes = np.asarray(self._predictions(X))
        if not isinstance(self.classes_, list):
            return _shares(votes, self.classes_)
        return [_shares(votes[:, :, i], classes) for i, classes in enumerate(self.classes_)]

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def mean_proba(self, X: Any) -> Any:
        """Return the mean probability of each class over the members, whatever the vote.

        Returns
        -------
        float64 (n_rows, n_classes), or a list of them, one per label
            As :meth:`predict_proba`, and equal to it if members have no probabilities.

        Raises
        ------
        DataError
            If `X` lacks a column.
        """
        if not has_probabilities(self.estimator):
            return self.predict_proba(X)
        classes = self.classes_ if isinstance(self.classes_, list) else [self.classes_]
        probas = [_probabilities(model, rows, classes) for model, rows in self.members(X)]
        means = [np.mean(label_probas, axis=0) for label_probas in zip(*probas, strict=True)]
        return means if isinstance(self.classes_, list) else means[0]

    def elected(self, shares: Any) -> AnyArray:
        """Return the classes (n_rows,) or (n_rows, n_labels) that win the vote.

        Parameters
        ----------
        shares : float64 (n_rows, n_classes), or a list of them, one per label
            Share of each class, as from :meth:`predict_proba`.
        """
        if not isinstance(self.classes_, list):
            return self._elected(shares, self.classes_)
        labels = [self._elected(s, c) for s, c in zip(shares, self.classes_, strict=True)]
        return np.column_stack(labels)

    def members(self, X: Any) -> Iterator[tuple[Any, Any]]:
        """Yield each fitted model with its columns of `X`."""
        check_is_fitted(self, "models_")
        for model, positions in zip(self.models_, self._positions(X), strict=True):
            yield model, owned(take_columns(X, positions))

    def score(self, X: Any, y: ArrayLike) -> float:
        """Return the accuracy of a classifier or the R2 of a regressor, as scikit-learn does."""
        from sklearn.metrics import accuracy_score, r2_score

        metric = accuracy_score if _classifies(self) else r2_score
        return float(metric(plain_target(y), self.predict(X)))

    def resolve_vote(self) -> str:
        """Return the vote with ``auto`` resolved.

        Raises
        ------
        InputError
            If the vote is unknown or does not match the estimator.
        """
        check_known("vote", self.vote, VOTES, InputError)
        name = type(self.estimator).__name__
        classifies = _classifies(self)
        if self.vote == "auto" and not classifies:
            return "mean"
        if self.vote == "auto":
            return "soft" if has_probabilities(self.estimator) else "hard"
        if classifies == (self.vote == "mean"):
            votes = "hard, soft or any" if classifies else "mean"
            raise InputError(f"the vote {self.vote!r} is not supported for {name}; use {votes}")
        if self.vote == "soft" and not has_probabilities(self.estimator):
            raise InputError(f"{name} has no predict_proba for the soft vote; use the hard vote")
        return self.vote

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        member = get_tags(self.estimator)
        tags.estimator_type = member.estimator_type
        tags.classifier_tags = member.classifier_tags
        tags.regressor_tags = member.regressor_tags
        tags.target_tags = member.target_tags
        tags.input_tags.allow_nan = member.input_tags.allow_nan
        return tags

    def _learn(self, y: ArrayLike) -> None:
        """Check the subsets and the vote, and learn the classes of the target."""
        self.vote_ = self.resolve_vote()
        self.subsets_ = [list(subset) for subset in self.subsets]
        if not self.subsets_ or not all(self.subsets_):
            raise InputError("a subset is empty, or there is none; name at least one column each")
        for subset in self.subsets_:
            if len(set(subset)) < len(subset):
                raise InputError(f"the subset {subset} names a column twice; drop one")
        if not _classifies(self):
            return
        target = plain_target(y)
        has_labels = target.ndim == 2
        classes = [np.unique(label) for label in (target.T if has_labels else [target])]
        self.classes_ = classes if has_labels else classes[0]
        self.positive_ = 1
        if has_labels:
            names = getattr(y, "columns", [f"label_{i}" for i in range(len(classes))])
            self.labels_ = [str(name) for name in names]
        not_two = [len(values) for values in classes if len(values) != 2]
        if not_two and self.vote_ == "any":
            raise InputError(
                f"the any vote needs exactly 2 classes, but y has {not_two[0]}; use the hard or "
                "soft vote"
            )
        if not not_two and not has_labels:
            both = classes[0].tolist()
            label = default_positive(target) if self.pos_label is None else self.pos_label
            if label not in both:
                raise InputError(
                    f"pos_label {label!r} is not a class of y; "
                    f"choose from {', '.join(map(repr, both))}"
                )
            self.positive_ = both.index(label)

    def _positions(self, X: Any) -> list[Int]:
        """Return the positions of the columns of each subset in X."""
        labels = labels_of(X)
        keys = list(range(X.shape[1])) if labels is None else labels
        position_of = {key: position for position, key in enumerate(keys)}
        if len(position_of) < len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise DataError(f"the table has two columns {twice!r}; rename one")
        for name in (name for subset in self.subsets_ for name in subset):
            if name not in position_of:
                hint = suggestion(str(name), list(map(str, keys)))
                raise DataError(f"the table has no column {name!r}{hint}")
        return [
            np.array([position_of[name] for name in subset], dtype=np.int64)
            for subset in self.subsets_
        ]

    def _predictions(self, X: Any) -> list[AnyArray]:
        return [np.asarray(model.predict(rows)) for model, rows in self.members(X)]

    def _elected(self, shares: Float, classes: AnyArray) -> AnyArray:
        places = np.argmax(shares, axis=1)
        if self.vote_ == "any":
            places = np.where(shares[:, self.positive_] > 0.0, self.positive_, 1 - self.positive_)
        return classes[places]


def _probabilities(model: Any, rows: Any, classes: Sequence[AnyArray]) -> list[Float]:
    """Return the probabilities of one model for each label, aligned with `classes`."""
    proba = model.predict_proba(rows)
    if isinstance(proba, list):
        model_classes = model.classes_
    elif np.ndim(proba) == 2 and len(classes) > 1:
        # Each label has one column, the probability of 1.
        proba = [np.column_stack([1.0 - column, column]) for column in np.transpose(proba)]
        model_classes = [np.array([0, 1])] * len(classes)
    else:
        proba = [proba]
        model_classes = [model.classes_]
    aligned = []
    for values, own_classes, all_classes in zip(proba, model_classes, classes, strict=True):
        # The training rows of a member may lack a class, and a label may be constant.
        is_shared = np.isin(own_classes, all_classes)
        full = np.zeros((rows.shape[0], len(all_classes)))
        columns = np.searchsorted(all_classes, own_classes[is_shared])
        full[:, columns] = np.asarray(values)[:, is_shared]
        aligned.append(full)
    return aligned


def _shares(votes: AnyArray, classes: AnyArray) -> Float:
    """Share of the members' votes (n_models, n_rows) for each class."""
    return np.mean(votes[:, :, None] == classes, axis=0)
