"""Convert scores into costs to be minimised."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.utils.validation import _check_method_params

from swarm.answers import Answers
from swarm.errors import ConfigError
from swarm.problem.models import is_a, last_step
from swarm.problem.table import take_rows
from swarm.wording import quoted

# Scorers of a single positive class, which fail on string labels if it is not set.
_ONE_CLASS = ("f1", "jaccard", "precision", "recall")
# Scorers of its probability, where scikit-learn takes the label 1 for it.
_PROBABILITY_OF_ONE_CLASS = ("average_precision", "neg_brier_score", "d2_brier_score")
# Scorers of scikit-learn without an upper bound.
_UNBOUNDED = ("positive_likelihood_ratio", "mutual_info_score")
# Multi-label scorers that scikit-learn does not provide under these names.
_SEVERAL_LABELS = ("neg_hamming_loss", "subset_accuracy")
# Methods of estimators that are accuracy, of all labels of a row, or r2.
_STANDARD_SCORES = tuple(
    f"{kind}.score"
    for kind in (
        *("ClassifierMixin", "RegressorMixin", "MultiOutputClassifier"),
        *("KNeighborsClassifier", "RadiusNeighborsClassifier"),
    )
)


# Names that an unknown one may stand for.
_MOST_NEAR = 3


@dataclass(frozen=True)
class Scoring:
    """A scorer, and the conversion of its score into a cost."""

    name: str
    # ``(estimator, X, y) -> float``, higher is better, as in scikit-learn
    scorer: Callable[..., float]
    # Upper bound of the score: 1 gives ``cost = 1 - score``, 0 gives ``cost = -score``; both are at
    # least 0, as exact pruning requires. None: ``cost = -score``, no bound.
    upper: float | None
    pos_label: str | int | None = None

    @property
    def bounded(self) -> bool:
        """Whether costs are non-negative."""
        return self.upper is not None

    @property
    def takes_weights(self) -> bool:
        """Whether the scorer has the parameter ``sample_weight``."""
        from inspect import signature

        measure = getattr(self.scorer, "_score_func", self.scorer)
        try:
            return "sample_weight" in signature(measure).parameters
        except (TypeError, ValueError):  # a callable that hides its parameters
            return False

    @property
    def is_named(self) -> bool:
        """Whether it is one of :func:`scorer_names`, which needs only a model's answers."""
        is_builtin = type(self.scorer).__module__.startswith("sklearn.metrics.")
        return is_builtin and self.name in scorer_names()

    @property
    def reads_answers(self) -> bool:
        """Whether it needs only a model's answers: a named scorer, or one of make_scorer."""
        return self.is_named or hasattr(self.scorer, "_score_func")

    @property
    def metric(self) -> str:
        """Name of what the scorer measures: ``root_mean_squared_error`` for its negative."""
        if self.is_named or not hasattr(self.scorer, "_score_func"):
            return self.name.removeprefix("neg_")
        measure = self.scorer._score_func
        name = _name(measure).strip("_<>")
        return f"negative_{name}" if getattr(self.scorer, "_sign", 1) < 0 else name

    @property
    def lower_is_better(self) -> bool:
        """Whether lower values of the metric are better, as those of an error."""
        return self.name.startswith("neg_")

    def natural(self, cost: float) -> float:
        """Return the value of the metric, in its own sign and unit, for a cost."""
        return cost if self.lower_is_better else (self.upper or 0.0) - cost

    def natural_interval(self, low: float, high: float) -> tuple[float, float]:
        """Return the bounds of the metric, the lower one first, for those of a cost."""
        bounds = self.natural(low), self.natural(high)
        return min(bounds), max(bounds)

    def natural_difference(self, low: float, high: float) -> tuple[float, float]:
        """Return the bounds of a difference of the metric for those of one of costs."""
        return (low, high) if self.lower_is_better else (-high, -low)

    def cost(
        self, estimator: Any, features: Any, target: Any, weight: Any = None, **params: Any
    ) -> float:
        """Return the cost of a fitted estimator on test rows, with parameters of the scorer.

        Rows of weight 0 are left out.
        """
        if weight is not None:
            # Scikit-learn gives a class without weight an F1 of 0, which counts in the mean.
            rows = np.flatnonzero(weight)
            if len(rows) < len(weight):
                params = _check_method_params(features, params, rows)
                features, target, weight = (
                    take_rows(part, rows) for part in (features, target, weight)
                )
            params["sample_weight"] = weight
        score = float(self.scorer(estimator, features, target, **params))
        return (self.upper or 0.0) - score


def own_score(estimator: Any, features: Any, target: Any, **params: Any) -> float:
    """Score an estimator by its own method ``score``."""
    return float(estimator.score(features, target, **params))


# Fingerprints contain the path of this function.
def subset_accuracy(estimator: Any, features: Any, target: Any) -> float:
    """Share of the rows whose outputs are all correct, for classes in several columns."""
    return float((np.asarray(estimator.predict(features)) == target).all(axis=1).mean())


def _has_own_score(estimator: Any) -> bool:
    """Whether ``score`` is another method than those that scikit-learn's models inherit."""
    while last_step(estimator) is not estimator:
        estimator = last_step(estimator)
    score = getattr(type(estimator), "score", None)
    named = getattr(score, "__qualname__", ""), getattr(score, "__module__", "").split(".")[0]
    return score is not None and (named[0] not in _STANDARD_SCORES or named[1] != "sklearn")


def resolve_scoring(
    scoring: str | Callable[..., float] | Scoring | None,
    estimator: Any,
    target: np.ndarray[Any, Any],
    task: str,
    pos_label: str | int | None = None,
) -> Scoring:
    """Turn `scoring` and `pos_label` of :meth:`Problem.build` into a :class:`Scoring`.

    An unknown name, or a scorer that does not support the target, is a ConfigError.
    """
    if isinstance(scoring, Scoring):
        return scoring
    if scoring is None and _has_own_score(estimator):
        return Scoring("score", own_score, upper=None)
    if scoring is None and task == "multioutput_classes":
        return Scoring("subset_accuracy", subset_accuracy, upper=1.0)
    if scoring is None:
        # Whatever the target: a regressor predicts numbers.
        is_number = task.endswith("regression") or is_a(is_regressor, estimator)
        scoring = "r2" if is_number else "accuracy"
    if not isinstance(scoring, str):
        return Scoring(_name(scoring), scoring, upper=None)
    from sklearn.metrics import get_scorer

    check_scorer_name(scoring)
    if scoring in _SEVERAL_LABELS:
        return _several_labels(scoring, task)
    scorer = get_scorer(scoring)
    _refuse_other_task(scoring, scorer, task, estimator)
    custom = scoring in _PROBABILITY_OF_ONE_CLASS and _is_custom(target, pos_label)
    # Scikit-learn returns a copy of its scorer. These set its parameters for this target.
    if scoring.partition("_")[0] in _ONE_CLASS:
        # The same 0 for a zero denominator, without a warning.
        scorer._kwargs["zero_division"] = 0
    if scoring in _ONE_CLASS or custom:
        pos_label = _checked_positive(scoring, target, task, pos_label)
        scorer._kwargs["pos_label"] = pos_label
    upper = 0.0 if scoring.startswith("neg_") else None if scoring in _UNBOUNDED else 1.0
    return Scoring(scoring, scorer, upper, pos_label)


def _name(measure: Any) -> str:
    return str(getattr(measure, "__name__", type(measure).__name__))


def _refuse_other_task(name: str, scorer: Any, task: str, estimator: Any) -> None:
    """Reject scorers that would make every fit fail, or score labels as numbers."""
    measures = getattr(getattr(scorer, "_score_func", None), "__module__", "")
    of_classes = measures.endswith(("_classification", "_ranking"))
    of_labels = measures.endswith("_classification") and task in ("binary", "multiclass")
    # Predicted numbers can be ranked, but are no labels.
    if of_labels and is_a(is_regressor, estimator):
        raise ConfigError(
            f"scorer {name!r} is for classes but {type(last_step(estimator)).__name__} predicts "
            "numbers; use a classifier, such as lightgbm.LGBMClassifier, or scoring 'r2'"
        )
    if task == "regression" and of_classes:
        raise ConfigError(
            f"scorer {name!r} is for classes but the target is regression; "
            "use 'r2' or 'neg_mean_squared_error'"
        )
    if task == "binary" and measures.endswith("_regression") and is_a(is_classifier, estimator):
        raise ConfigError(
            f"scorer {name!r} is for numbers but {type(estimator).__name__} predicts one of two "
            "classes; use 'accuracy', 'f1' or 'roc_auc', or a regressor"
        )
    if task == "multiclass" and name == "roc_auc":
        raise ConfigError(
            "scorer 'roc_auc' is for two classes but the target is multiclass; use 'roc_auc_ovr'"
        )


def scorer_names() -> list[str]:
    """Return the names of all scorers, in alphabetical order."""
    from sklearn.metrics import get_scorer_names

    return sorted([*get_scorer_names(), *_SEVERAL_LABELS])


def check_scorer_name(
    name: str, key: str | None = None, names: Collection[str] | None = None
) -> None:
    """Raise a ConfigError that names the nearest ones if a name is unknown; `key` has it."""
    names = scorer_names() if names is None else names
    if name in names:
        return
    near = _near(str(name), names)
    hint = f"; did you mean {quoted(near)}?" if near else "; name one, such as accuracy or r2"
    raise ConfigError(f"unknown scorer {name!r}{f' in {key}' if key else ''}{hint}")


def _near(name: str, names: Collection[str]) -> list[str]:
    """Return names that contain a name, or that it contains or abbreviates, else similar ones."""
    wanted = re.sub("[^a-z0-9]", "", name.lower().removeprefix("neg_"))
    parts = {each: each.removeprefix("neg_").split("_") for each in names}
    near = [
        each
        for each, words in parts.items()
        if wanted and (wanted in (plain := "".join(words)) or plain in wanted)
    ]
    near += [each for each, words in parts.items() if wanted == "".join(w[0] for w in words)]
    near = sorted(dict.fromkeys(near), key=len) or get_close_matches(name, names)
    return near[:_MOST_NEAR]


def scores_perfect_predictions(
    scoring: Scoring, truth: np.ndarray[Any, Any], classes: np.ndarray[Any, Any] | None
) -> bool:
    """Whether a scikit-learn scorer is defined for perfect predictions of test rows.

    `classes` are those of the model, None for a regressor.
    """
    if not type(scoring.scorer).__module__.startswith("sklearn.metrics."):
        # A custom scorer may inspect the model.
        return True
    perfect = Answers(truth, classes=classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            cost = scoring.cost(perfect.estimator(), perfect.positions, truth)
        except Exception:
            return False
    return not np.isnan(cost)


def _checked_positive(
    name: str, target: np.ndarray[Any, Any], task: str, pos_label: str | int | None
) -> Any:
    """Return the positive class of a scorer of one class; ConfigError if there is none."""
    if task != "binary":
        raise ConfigError(
            f"scorer {name!r} is for two classes but the target is {task}; "
            f"use {name + '_macro'!r} or {name + '_weighted'!r}"
        )
    classes = np.unique(target).tolist()
    label = default_positive(target) if pos_label is None else pos_label
    # True equals 1, but has another fingerprint.
    label = 1 if label == 1 else label
    if label not in classes:
        raise ConfigError(
            f"scorer {name!r} needs the positive class but pos_label is {pos_label!r}; "
            f"set pos_label to one of {', '.join(map(repr, classes))}"
        )
    return label


def _is_custom(target: np.ndarray[Any, Any], pos_label: str | int | None) -> bool:
    """Whether the positive class of two is not the label 1, which scikit-learn assumes."""
    wanted = default_positive(target) if pos_label is None else pos_label
    return target.ndim == 1 and len(np.unique(target)) == 2 and wanted != 1


def default_positive(target: np.ndarray[Any, Any]) -> Any:
    """Return the label 1 of two classes, as scikit-learn does, if there is one, else the rarer."""
    # A text or true may be the label 1 too. Of equally frequent classes it is the larger one.
    classes, counts = np.unique(target, return_counts=True)
    labels = classes.tolist()
    rarer = labels[0 if counts[0] < counts[-1] else -1]
    return next((label for label in labels if label in (1, "1")), rarer)


def positive_class(scoring: Scoring, target: np.ndarray[Any, Any]) -> Any:
    """Return the positive class of a binary target: that of the scorer, else the default."""
    return default_positive(target) if scoring.pos_label is None else scoring.pos_label


def _several_labels(name: str, task: str) -> Scoring:
    from sklearn import metrics

    if task != "multilabel":
        raise ConfigError(
            f"scorer {name!r} needs a multi-label target but the target is {task}; use 'accuracy'"
        )
    if name == "subset_accuracy":
        return Scoring(name, metrics.make_scorer(metrics.accuracy_score), upper=1.0)
    loss = metrics.make_scorer(metrics.hamming_loss, greater_is_better=False)
    return Scoring(name, loss, upper=0.0)
