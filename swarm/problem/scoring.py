"""Convert scores into costs to be minimised."""

import re
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from sklearn.base import is_classifier, is_regressor
from sklearn.utils.validation import _check_method_params

from swarm.answers import Answers
from swarm.arrays import AnyArray, Float
from swarm.errors import ConfigError
from swarm.problem.models import is_a, last_step
from swarm.problem.table import take_rows
from swarm.protocols import Scorer
from swarm.wording import quoted

Costs = TypeVar("Costs", float, Float, pd.Series)

# Scorers of a single positive class, which fail on string labels if it is not set.
_ONE_CLASS = ("f1", "jaccard", "precision", "recall")
# Scorers of its probability, which scikit-learn assumes to be the label 1.
_PROBABILITY_OF_ONE_CLASS = ("average_precision", "neg_brier_score", "d2_brier_score")
# Scorers of scikit-learn without an upper bound.
_UNBOUNDED = ("positive_likelihood_ratio", "mutual_info_score")
# Multi-label scorers that scikit-learn does not provide under these names.
_MULTI_LABEL = ("neg_hamming_loss", "subset_accuracy")
# Methods ``score`` that return accuracy, of all labels of a row, or r2.
_STANDARD_SCORES = tuple(
    f"{cls}.score"
    for cls in (
        *("ClassifierMixin", "RegressorMixin", "MultiOutputClassifier"),
        *("KNeighborsClassifier", "RadiusNeighborsClassifier"),
    )
)


# Names that an unknown one may stand for.
_MAX_NEAR = 3


@dataclass(frozen=True)
class Scoring:
    """A scorer, and the conversion of its score into a cost.

    Attributes
    ----------
    name : str
        Name of a scikit-learn scorer, or of a callable.
    scorer : callable
        ``(estimator, X, y) -> float``, higher is better, as in scikit-learn.
    upper : float or None
        Upper bound of the score: 1 gives ``cost = 1 - score``, 0 gives ``cost = -score``; both
        costs are at least 0, as exact pruning requires. None: ``cost = -score`` without a bound.
    pos_label : str or int or None
        Positive class of the scorer.
    """

    name: str
    scorer: Callable[..., float]
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
        except (TypeError, ValueError):  # the callable hides its parameters
            return False

    @property
    def is_named(self) -> bool:
        """Whether it is one of :func:`scorer_names`."""
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

    def natural(self, cost: Costs) -> Costs:
        """Return the value of the metric, in its own sign and unit, for a cost or for many."""
        return cost if self.lower_is_better else (self.upper or 0.0) - cost

    def natural_interval(self, low: float, high: float) -> tuple[float, float]:
        """Return the bounds of the metric, the lower one first, for those of a cost."""
        bounds = self.natural(low), self.natural(high)
        return min(bounds), max(bounds)

    def natural_difference(self, low: float, high: float) -> tuple[float, float]:
        """Return the bounds of a difference of the metric for those of one of costs."""
        return (low, high) if self.lower_is_better else (-high, -low)

    def cost(
        self, estimator: Any, features: Any, target: Any, weight: Float | None = None, **params: Any
    ) -> float:
        """Return the cost of a fitted estimator on test rows, with parameters of the scorer.

        Rows of weight 0 are left out: scikit-learn gives a class without weight an F1 of 0, which
        counts in the mean.
        """
        if weight is not None:
            rows = np.flatnonzero(weight)
            if len(rows) < len(weight):
                params = _check_method_params(features, params, rows)
                features = take_rows(features, rows)
                target = take_rows(target, rows)
                weight = weight[rows]
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


def _has_own_score(estimator: object) -> bool:
    """Whether ``score`` is another method than those that scikit-learn's models inherit."""
    while last_step(estimator) is not estimator:
        estimator = last_step(estimator)
    score = getattr(type(estimator), "score", None)
    if score is None:
        return False
    name = getattr(score, "__qualname__", "")
    package = getattr(score, "__module__", "").split(".")[0]
    return name not in _STANDARD_SCORES or package != "sklearn"


def resolve_scoring(
    scoring: str | Scorer | Scoring | None,
    estimator: object,
    target: AnyArray,
    task: str,
    pos_label: str | int | None = None,
) -> Scoring:
    """Turn `scoring` and `pos_label` of :meth:`Problem.build` into a :class:`Scoring`.

    Raises ConfigError for an unknown name, or a scorer that does not support the target.
    """
    if isinstance(scoring, Scoring):
        return scoring
    if scoring is None and _has_own_score(estimator):
        return Scoring("score", own_score, upper=None)
    if scoring is None and task == "multioutput_classes":
        return Scoring("subset_accuracy", subset_accuracy, upper=1.0)
    if scoring is None:
        predicts_numbers = task.endswith("regression") or is_a(is_regressor, estimator)
        scoring = "r2" if predicts_numbers else "accuracy"
    if not isinstance(scoring, str):
        return Scoring(_name(scoring), scoring, upper=None)
    from sklearn.metrics import get_scorer

    check_scorer_name(scoring)
    if scoring in _MULTI_LABEL:
        return _multi_label_scoring(scoring, task)
    # Scikit-learn returns a copy, whose parameters are set for this target.
    scorer = get_scorer(scoring)
    _refuse_other_task(scoring, scorer, task, estimator)
    if scoring.partition("_")[0] in _ONE_CLASS:
        # The default is 0 as well, but with a warning.
        scorer._kwargs["zero_division"] = 0
    is_custom = scoring in _PROBABILITY_OF_ONE_CLASS and _is_custom(target, pos_label)
    if scoring in _ONE_CLASS or is_custom:
        pos_label = _checked_positive(scoring, target, task, pos_label)
        scorer._kwargs["pos_label"] = pos_label
    upper = None if scoring in _UNBOUNDED else 1.0
    if scoring.startswith("neg_"):
        upper = 0.0
    return Scoring(scoring, scorer, upper, pos_label)


def _name(measure: object) -> str:
    return str(getattr(measure, "__name__", type(measure).__name__))


def _refuse_other_task(name: str, scorer: Any, task: str, estimator: object) -> None:
    """Reject scorers that would make every fit fail, or score labels as numbers."""
    module = getattr(getattr(scorer, "_score_func", None), "__module__", "")
    is_for_labels = module.endswith("_classification")
    is_for_ranks = module.endswith("_ranking")
    is_for_numbers = module.endswith("_regression")
    model = type(last_step(estimator)).__name__
    refusals = [
        (
            # The predictions of a regressor can be ranked, but are no labels.
            is_for_labels and task in ("binary", "multiclass") and is_a(is_regressor, estimator),
            f"is for classes but {model} predicts numbers; use a classifier, such as"
            " lightgbm.LGBMClassifier, or scoring 'r2'",
        ),
        (
            task == "regression" and (is_for_labels or is_for_ranks),
            "is for classes but the target is regression; use 'r2' or 'neg_mean_squared_error'",
        ),
        (
            task == "binary" and is_for_numbers and is_a(is_classifier, estimator),
            f"is for numbers but {type(estimator).__name__} predicts one of two classes; use"
            " 'accuracy', 'f1' or 'roc_auc', or a regressor",
        ),
        (
            task == "multiclass" and name == "roc_auc",
            "is for two classes but the target is multiclass; use 'roc_auc_ovr'",
        ),
    ]
    for is_refused, reason in refusals:
        if is_refused:
            raise ConfigError(f"scorer {name!r} {reason}")


def scorer_names() -> list[str]:
    """Return the names of all scorers, in alphabetical order."""
    from sklearn.metrics import get_scorer_names

    return sorted([*get_scorer_names(), *_MULTI_LABEL])


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
    return near[:_MAX_NEAR]


def scores_perfect_predictions(scoring: Scoring, truth: AnyArray, classes: AnyArray | None) -> bool:
    """Whether a scikit-learn scorer is defined for perfect predictions of test rows.

    `classes` are those of the model, None for a regressor. Custom scorers may inspect the model,
    so they are not tried.
    """
    if not type(scoring.scorer).__module__.startswith("sklearn.metrics."):
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
    name: str, target: AnyArray, task: str, pos_label: str | int | None
) -> str | int:
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


def _is_custom(target: AnyArray, pos_label: str | int | None) -> bool:
    """Whether the positive class of two is not the label 1, which scikit-learn assumes."""
    positive = default_positive(target) if pos_label is None else pos_label
    return target.ndim == 1 and len(np.unique(target)) == 2 and positive != 1


def default_positive(target: AnyArray) -> Any:
    """Return the label 1 of two classes, as scikit-learn does, if there is one, else the rarer.

    The text ``"1"`` and true are the label 1 too. Of equally frequent classes, the larger one is
    positive.
    """
    classes, counts = np.unique(target, return_counts=True)
    labels = classes.tolist()
    rarer = labels[0 if counts[0] < counts[-1] else -1]
    return next((label for label in labels if label in (1, "1")), rarer)


def positive_class(scoring: Scoring, target: AnyArray) -> Any:
    """Return the positive class of a binary target: that of the scorer, else the default."""
    return default_positive(target) if scoring.pos_label is None else scoring.pos_label


def _multi_label_scoring(name: str, task: str) -> Scoring:
    from sklearn import metrics

    if task != "multilabel":
        raise ConfigError(
            f"scorer {name!r} needs a multi-label target but the target is {task}; use 'accuracy'"
        )
    if name == "subset_accuracy":
        return Scoring(name, metrics.make_scorer(metrics.accuracy_score), upper=1.0)
    loss = metrics.make_scorer(metrics.hamming_loss, greater_is_better=False)
    return Scoring(name, loss, upper=0.0)
