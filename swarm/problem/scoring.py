"""From a scorer to a cost that is minimised."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from swarm.errors import ConfigError, nearest

__all__ = ["Scoring", "averages_classes", "resolve_scoring", "scorer_names", "scores_truth"]

# Scorers that take one class as positive, and fail without it on string labels.
_ONE_CLASS = ("f1", "jaccard", "precision", "recall")
# Scorers of scikit-learn that have no highest score.
_UNBOUNDED = ("positive_likelihood_ratio", "mutual_info_score")
# Scorers of several labels that scikit-learn has no name for, or another.
_SEVERAL_LABELS = ("neg_hamming_loss", "subset_accuracy")
# What scikit-learn averages over labels or rows, one of which may have nothing to divide by.
_AVERAGED = tuple(
    f"{name}_{average}"
    for name in _ONE_CLASS
    for average in ("macro", "micro", "samples", "weighted")
)


@dataclass(frozen=True)
class Scoring:
    """A scorer and how its score becomes a cost.

    Attributes
    ----------
    name : str
    scorer : callable ``(estimator, X, y) -> float``
        Higher is better, as in scikit-learn.
    upper : float or None
        The highest score there is: 1 gives ``cost = 1 - score``, 0 gives ``cost = -score``;
        both are at least 0, which exact pruning needs. None: ``cost = -score``, no bound.
    pos_label : str, int or None
        The class that counts as positive.
    quiet : callable, optional
        Gives the same scores as `scorer` without its warnings.
    """

    name: str
    scorer: Callable[..., float]
    upper: float | None
    pos_label: str | int | None = None
    quiet: Callable[..., float] | None = field(default=None, compare=False)

    @property
    def bounded(self) -> bool:
        """Whether a cost is never below zero."""
        return self.upper is not None

    def cost(self, estimator: Any, features: Any, target: Any) -> float:
        """Cost of a fitted estimator on test rows."""
        score = float((self.quiet or self.scorer)(estimator, features, target))
        return (self.upper or 0.0) - score


def resolve_scoring(
    scoring: str | Callable[..., float] | Scoring | None,
    estimator: Any,
    target: np.ndarray[Any, Any],
    task: str,
    pos_label: str | int | None = None,
) -> Scoring:
    """Turn a scorer name or callable into a :class:`Scoring`.

    Parameters
    ----------
    scoring
        Scikit-learn's name of a scorer, ``"subset_accuracy"`` (accuracy of whole rows of
        labels) or ``"neg_hamming_loss"`` (its cost is the share of wrong labels), a callable
        ``(estimator, X, y) -> float``, or a ready :class:`Scoring`. None: accuracy, which is
        subset accuracy for several labels, or r2 for regression.
    target : (n_rows,) or (n_rows, n_labels)
    task
        ``"binary"``, ``"multiclass"``, ``"regression"`` or ``"multilabel"``.
    pos_label
        Positive class of f1, jaccard, precision and recall, by default 1; other scorers have
        none, and pass it on to votes and test figures only.

    Raises
    ------
    ConfigError
        For an unknown name, or a scorer that does not fit the target.
    """
    if isinstance(scoring, Scoring):
        return scoring
    if scoring is None:
        scoring = "r2" if task == "regression" else "accuracy"
    if not isinstance(scoring, str):
        name = getattr(scoring, "__name__", type(scoring).__name__)
        return Scoring(name, scoring, upper=None)
    from sklearn.metrics import get_scorer

    known = scorer_names()
    if scoring not in known:
        raise ConfigError(
            f"unknown scorer {scoring!r} (there are {', '.join(known)}){nearest(scoring, known)}"
        )
    if scoring in _ONE_CLASS:
        return _one_class(scoring, target, task, pos_label)
    if scoring in _SEVERAL_LABELS:
        return _several_labels(scoring, task)
    scorer = get_scorer(scoring)
    _refuse_other_task(scoring, scorer, task)
    return Scoring(scoring, scorer, _upper(scoring), pos_label, _quiet(scoring))


def _refuse_other_task(name: str, scorer: Any, task: str) -> None:
    """Refuse scorers that would make every fit fail."""
    measures = getattr(getattr(scorer, "_score_func", None), "__module__", "")
    if task == "regression" and measures.endswith(("_classification", "_ranking")):
        raise ConfigError(
            f"scorer {name!r} is for classes but the target is regression; "
            "use 'r2' or 'neg_mean_squared_error'"
        )
    if task == "multiclass" and name == "roc_auc":
        raise ConfigError(
            "scorer 'roc_auc' is for two classes but the target is multiclass; use 'roc_auc_ovr'"
        )


def scorer_names() -> list[str]:
    """Names of all scorers, in alphabetical order."""
    from sklearn.metrics import get_scorer_names

    return sorted([*get_scorer_names(), *_SEVERAL_LABELS])


class _Truth(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted classifier that is always right."""

    def __init__(self, truth: Any, classes: Any) -> None:
        self.truth = truth
        self.classes_ = classes

    def predict(self, _features: Any) -> Any:
        return self.truth

    def predict_proba(self, _features: Any) -> Any:
        return (self.truth[:, None] == self.classes_).astype(np.float64)

    def decision_function(self, features: Any) -> Any:
        found = self.predict_proba(features)
        return found[:, 1] if len(self.classes_) == 2 else found

    def __sklearn_is_fitted__(self) -> bool:
        return True


def scores_truth(
    scoring: Scoring, truth: np.ndarray[Any, Any], classes: np.ndarray[Any, Any]
) -> bool:
    """Whether a scorer of scikit-learn has a score for perfect predictions of some test rows.

    Parameters
    ----------
    truth : (n_test,)
    classes : (n_classes,)
        Classes of the training rows.
    """
    if not type(scoring.scorer).__module__.startswith("sklearn.metrics."):
        # A function of one's own may look into the model.
        return True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            cost = scoring.cost(_Truth(truth, classes), np.zeros((len(truth), 1)), truth)
        except Exception:
            return False
    return not np.isnan(cost)


def averages_classes(scoring: Scoring) -> bool:
    """Whether a score is an average of f1, jaccard, precision or recall over the classes."""
    return scoring.name in _AVERAGED and scoring.quiet is not None


def _upper(name: str) -> float | None:
    if name.startswith("neg_"):
        return 0.0
    return None if name in _UNBOUNDED else 1.0


def _one_class(
    name: str, target: np.ndarray[Any, Any], task: str, pos_label: str | int | None
) -> Scoring:
    from sklearn import metrics

    if task != "binary":
        raise ConfigError(
            f"scorer {name!r} is for two classes but the target is {task}; "
            f"use {name + '_macro'!r} or {name + '_weighted'!r}"
        )
    classes = np.unique(target).tolist()
    label = 1 if pos_label is None else pos_label
    if label not in classes:
        said = "no pos_label is set" if pos_label is None else f"pos_label is {pos_label!r}"
        raise ConfigError(
            f"scorer {name!r} needs the positive class but {said}; "
            f"set pos_label to one of {', '.join(map(repr, classes))}"
        )
    function = getattr(metrics, f"{name}_score")
    scorer = metrics.make_scorer(function, pos_label=label, zero_division=0)
    return Scoring(name, scorer, upper=1.0, pos_label=label)


def _several_labels(name: str, task: str) -> Scoring:
    from sklearn import metrics

    if task != "multilabel":
        raise ConfigError(
            f"scorer {name!r} is for several labels but the target is {task}; use 'accuracy'"
        )
    if name == "subset_accuracy":
        return Scoring(name, metrics.make_scorer(metrics.accuracy_score), upper=1.0)
    loss = metrics.make_scorer(metrics.hamming_loss, greater_is_better=False)
    return Scoring(name, loss, upper=0.0)


def _quiet(name: str) -> Callable[..., float] | None:
    """Score 0 where there is nothing to divide by, as scikit-learn does after its warning.

    An average has no positive class: with the default of 1, targets without that label fail.
    """
    if name not in _AVERAGED:
        return None
    from sklearn import metrics

    kind, _, average = name.partition("_")
    function = getattr(metrics, f"{kind}_score")
    settings = {"average": average, "pos_label": None, "zero_division": 0}
    quiet: Callable[..., float] = metrics.make_scorer(function, **settings)
    return quiet
