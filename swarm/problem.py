"""The problem a search solves, and the fingerprint that names it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.errors import ConfigError, DataError, nearest
from swarm.evaluation.folds import Fold, make_folds
from swarm.evaluation.models import (
    describe,
    has_importances,
    is_lightgbm,
    made_deterministic,
    shrinks_exactly,
)
from swarm.evaluation.scoring import Scoring, resolve_scoring
from swarm.space import SearchSpace
from swarm.target import task_of

__all__ = ["IMPORTANCES", "Importance", "Problem"]

Importance = Literal["auto", "fold", "refit", "permutation", "mutual_information", "none"]
IMPORTANCES = ("auto", "fold", "refit", "permutation", "mutual_information", "none")


@dataclass(frozen=True, eq=False)
class Problem:
    """Data, estimator, scorer, folds and units: everything a cost depends on.

    Use :meth:`build`; the constructor expects checked values.

    Attributes
    ----------
    features : DataFrame (n_rows, n_columns)
    target : (n_rows,) or (n_rows, n_labels)
    task : str
        ``binary``, ``multiclass``, ``regression`` or ``multilabel``.
    estimator : estimator
        Deterministic, one thread.
    scoring : Scoring
    folds : tuple of (train, test)
        Row positions.
    space : SearchSpace
    importance : str
        Where importances come from: ``fold``, ``refit``, ``permutation``,
        ``mutual_information`` or ``none``.
    weight : float64 (n_rows,) or None
        Sample weights, passed to ``fit``.
    relevance : float64 (n_units,) or None
        Mutual information with the target, where `importance` asks for it.
    exact_shrink : bool
        Whether units that no fold model used can be dropped without changing any model.
    """

    features: pd.DataFrame
    target: NDArray[Any]
    task: str
    estimator: Any
    scoring: Scoring
    folds: tuple[Fold, ...]
    space: SearchSpace
    importance: str
    weight: NDArray[np.float64] | None
    relevance: NDArray[np.float64] | None
    exact_shrink: bool

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
        seed: int = 0,
    ) -> Problem:
        """Check everything and build the problem.

        Parameters
        ----------
        features : DataFrame (n_rows, n_columns)
        target : (n_rows,) or (n_rows, n_labels)
        estimator
            Any scikit-learn estimator.
        space
            Units and constraints; default: every column for itself, no constraint.
        scoring, pos_label
            See :func:`swarm.evaluation.scoring.resolve_scoring`.
        folds
            A number of folds (stratified for classes, shuffled by `seed`), ready folds, or a
            scikit-learn splitter.
        groups, weight : (n_rows,)
            Groups for the splitter; sample weights.
        importance
            ``auto``: of the fold models, or mutual information where models have none.
        seed
            Seed of shuffled folds and of every random state left open.

        Raises
        ------
        DataError, ConfigError
            For anything that would make a fit fail or a cost meaningless.
        """
        labels = np.asarray(target)
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        # A table keeps its dtypes, which tell the task; a list or a column becomes an array.
        target = target if isinstance(target, (pd.Series, pd.DataFrame)) else labels
        _check_estimator(estimator)
        _check_rows(features, labels)
        space = space or SearchSpace.build(list(features.columns))
        if list(space.columns) != list(features.columns):
            raise DataError("the space was built for other columns than the data has")
        features = features.reset_index(drop=True)
        task = task_of(target)
        _check_columns(features, estimator)
        model = made_deterministic(estimator, seed)
        score = resolve_scoring(scoring, model, labels, task, pos_label)
        made = _folds(folds, features, labels, task, seed, groups)
        _check_folds(made, labels, task)
        weights = _weights(weight, len(labels), model)
        kind = _importance_kind(importance, model)
        relevance = _relevance(features, target, task, space, seed, kind)
        exact = kind == "fold" and all(
            shrinks_exactly(model, features.iloc[train]) for train, _ in made
        )
        return cls(
            features,
            labels,
            task,
            model,
            score,
            tuple(made),
            space,
            kind,
            weights,
            relevance,
            exact,
        )

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self.folds)

    def fingerprint(self) -> str:
        """Name the problem: 32 hex digits, equal for equal problems, on any machine.

        Covers data, target, weights, folds, estimator and the version of its package, scorer,
        importances and units. Constraints do not change a cost, so searches that differ only
        in them share their evaluations.
        """
        digest = hashlib.sha256()
        for part in (self._recipe(), *_column_bytes(self.features)):
            digest.update(part)
        for array in (self.target, self.weight):
            digest.update(_array_bytes(array))
        for train, test in self.folds:
            digest.update(_array_bytes(train))
            digest.update(_array_bytes(test))
        return digest.hexdigest()[:32]

    def _recipe(self) -> bytes:
        scorer = self.scoring
        recipe = {
            "estimator": describe(self.estimator),
            "package": _package_version(self.estimator),
            "scoring": [scorer.name, scorer.upper, scorer.pos_label, describe(scorer.scorer)],
            "importance": self.importance,
            "units": self.space.units,
        }
        return json.dumps(recipe, sort_keys=True).encode()


def _package_version(estimator: Any) -> str:
    name = type(estimator).__module__.split(".")[0]
    try:
        return f"{name}=={version({'sklearn': 'scikit-learn'}.get(name, name))}"
    except PackageNotFoundError:
        return name


def _array_bytes(array: NDArray[Any] | None) -> bytes:
    if array is None:
        return b"none"
    if array.dtype.kind in "biufc":
        return f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes()
    return json.dumps([str(value) for value in array.ravel()]).encode()


def _column_bytes(features: pd.DataFrame) -> list[bytes]:
    parts = []
    for position, name in enumerate(features.columns):
        column = features.iloc[:, position]
        parts.append(f"{name}:{column.dtype}".encode())
        if isinstance(column.dtype, pd.CategoricalDtype):
            categories = column.cat.categories
            parts.append(f"{categories.dtype} {column.cat.ordered}".encode())
            parts.append(json.dumps([str(c) for c in categories]).encode())
            column = column.cat.codes
        parts.append(_array_bytes(column.to_numpy()))
    return parts


def _check_estimator(estimator: Any) -> None:
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise ConfigError(
            f"the estimator must be an object with fit and predict, got {estimator!r}; "
            "give e.g. LGBMClassifier()"
        )


def _check_rows(features: pd.DataFrame, target: NDArray[Any]) -> None:
    if len(features) != len(target):
        raise DataError(
            f"there are {len(features)} rows of features but {len(target)} of the target; "
            "give one target a row"
        )
    if len(features) == 0:
        raise DataError("the table has no rows; give at least as many as folds")
    missing = int(pd.isna(target).sum())
    if missing:
        raise DataError(f"the target is missing in {missing} rows; drop or fill them first")
    if target.ndim == 1 and len(pd.unique(target)) == 1:
        raise DataError(
            f"the target is constant ({target.tolist()[0]!r}); there is nothing to learn"
        )


def _check_columns(features: pd.DataFrame, estimator: Any) -> None:
    """Refuse columns that the model cannot take, and say what would help."""
    from sklearn.utils import get_tags

    steps = getattr(estimator, "steps", None)
    lightgbm = is_lightgbm(estimator)
    takes_categories = lightgbm or steps is not None or "HistGradient" in type(estimator).__name__
    allows_nan = lightgbm or steps is not None or get_tags(estimator).input_tags.allow_nan
    for name, column in features.items():
        if column.isna().all():
            raise DataError(f"column {name!r} has no value at all; drop it")
        if isinstance(column.dtype, pd.CategoricalDtype):
            if not takes_categories:
                raise DataError(
                    f"column {name!r} is categorical but {type(estimator).__name__} takes numbers; "
                    "encode it in a Pipeline or drop it"
                )
        elif not pd.api.types.is_numeric_dtype(column):
            if steps is None:
                raise DataError(
                    f"column {name!r} holds {column.dtype} values, not numbers; "
                    "declare it categorical, encode it or drop it"
                )
        elif column.dtype.kind == "f" and np.isinf(column.to_numpy()).any():
            count = int(np.isinf(column.to_numpy()).sum())
            raise DataError(f"column {name!r} has {count} infinite values; clip or drop them")
        if not allows_nan and column.isna().any():
            raise DataError(
                f"column {name!r} has {int(column.isna().sum())} missing values, which "
                f"{type(estimator).__name__} cannot take; impute in a Pipeline or use LightGBM"
            )


def _folds(
    folds: Any, features: pd.DataFrame, target: NDArray[Any], task: str, seed: int, groups: Any
) -> list[Fold]:
    if isinstance(folds, (int, np.integer)):
        kind = "stratified" if task in ("binary", "multiclass") else "random"
        return make_folds(kind, target, task, n_folds=int(folds), seed=seed)
    if hasattr(folds, "split") and not isinstance(folds, str):
        return _split(folds, features, target, seed, groups)
    try:
        return [(np.asarray(train), np.asarray(test)) for train, test in folds]
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"folds must be a number, a splitter or pairs of (train, test) rows, got {folds!r}"
        ) from error


def _split(
    splitter: Any, features: pd.DataFrame, target: NDArray[Any], seed: int, groups: Any
) -> list[Fold]:
    state = getattr(splitter, "random_state", 0)
    if state is None:
        splitter = copy(splitter)
        splitter.random_state = seed
    elif not isinstance(state, (int, np.integer)):
        raise ConfigError(
            f"random_state of {type(splitter).__name__} must be an integer, got {state!r}; "
            "generators never repeat"
        )
    labels = None if groups is None else np.asarray(groups)
    try:
        return [(train, test) for train, test in splitter.split(features, target, labels)]
    except ValueError as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise DataError(f"{type(splitter).__name__} cannot split the rows: {reason}") from error


def _weights(weight: Any, n_rows: int, model: Any) -> NDArray[np.float64] | None:
    if weight is None:
        return None
    from sklearn.utils.validation import has_fit_parameter

    weights = np.asarray(weight, dtype=np.float64)
    if weights.shape != (n_rows,):
        raise DataError(
            f"weights have the shape {weights.shape}; give one for each of {n_rows} rows"
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise DataError("weights must be finite and not negative; drop or fill such rows")
    if not weights.any():
        raise DataError("every sample weight is zero; leave the weights out")
    last = model.steps[-1][1] if getattr(model, "steps", None) else model
    if not has_fit_parameter(last, "sample_weight"):
        raise ConfigError(f"{type(last).__name__} takes no sample weights; drop them")
    return weights


def _check_folds(folds: Sequence[Fold], target: NDArray[Any], task: str) -> None:
    if len(folds) < 2:
        raise DataError(f"a cost needs at least 2 folds, got {len(folds)}")
    for number, (train, test) in enumerate(folds):
        if len(train) == 0 or len(test) == 0:
            raise DataError(f"fold {number} has no rows to train or test on; use fewer folds")
        last = max(np.max(train), np.max(test))
        if last >= len(target):
            raise DataError(f"fold {number} names row {last} but there are {len(target)} rows")
        if task not in ("binary", "multiclass"):
            continue
        for part, rows in (("training", train), ("test", test)):
            classes = np.unique(target[rows])
            if len(classes) == 1:
                raise DataError(
                    f"the {part} rows of fold {number} have the single class "
                    f"{classes.tolist()[0]!r}; "
                    "use fewer or stratified folds"
                )


def _importance_kind(importance: str, estimator: Any) -> str:
    if importance not in IMPORTANCES:
        raise ConfigError(
            f"unknown importance {importance!r} (there are {', '.join(IMPORTANCES)})"
            f"{nearest(importance, IMPORTANCES)}"
        )
    if importance not in ("auto", "fold", "refit"):
        return importance
    if _tells_importances(estimator):
        return "fold" if importance == "auto" else importance
    if importance == "auto":
        return "mutual_information"
    raise ConfigError(
        f"importance {importance!r} was asked but {type(estimator).__name__} has none; "
        "use 'permutation' or 'mutual_information'"
    )


def _tells_importances(estimator: Any) -> bool:
    """Fit on four rows: some classes promise importances for some of their settings only."""
    from sklearn.base import clone

    if is_lightgbm(estimator):
        return True
    if getattr(estimator, "steps", None):
        return _tells_importances(estimator.steps[-1][1])
    rows = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 2.0], [2.0, 0.5]] * 5)
    labels = np.array([0, 1, 0, 1] * 5)
    try:
        model = clone(estimator).fit(rows, labels)
    except Exception:
        return hasattr(type(estimator), "feature_importances_")
    return has_importances(model)


def _relevance(
    features: pd.DataFrame, target: Any, task: str, space: SearchSpace, seed: int, kind: str
) -> NDArray[np.float64] | None:
    if kind != "mutual_information":
        return None
    from swarm.statistics.relevance import relevance

    return space.by_unit(relevance(features, target, task, seed), range(space.n_columns))
