"""Metrics: their names, the scorers of scikit-learn that compute them, and their formulas.

Metrics have their natural name and sign: `root_mean_squared_error`, lower is better, not
`neg_root_mean_squared_error`. Formulas are vectorised over sums of rows, such as the numbers of
rows of a class in the target, in the prediction and in both. Fast paths have such counts of many
masks, the jackknife has those without each unit. Values equal those of `sklearn.metrics`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from swarm.arrays import AnyArray, Bool, Float, Int
from swarm.errors import InputError, nearest
from swarm.problem.scoring import Scoring, scorer_names

# ---------------------------------------------------------------- names

_DISPLAY = {
    "f1": "F1",
    "f1_macro": "macro F1",
    "f1_micro": "micro F1",
    "f1_samples": "samples F1",
    "f1_weighted": "weighted F1",
    "matthews_corrcoef": "MCC",
    "mean_absolute_error": "MAE",
    "mean_absolute_percentage_error": "MAPE",
    "mean_squared_error": "MSE",
    "r2": "R2",
    "root_mean_squared_error": "RMSE",
    "roc_auc": "ROC AUC",
    "roc_auc_ovo": "ROC AUC (one vs. one)",
    "roc_auc_ovr": "ROC AUC (one vs. rest)",
}


def natural_name(scorer: str) -> str:
    """Return the name of the metric of a scorer."""
    return scorer.removeprefix("neg_")


def tested_metric(metric: str, task: str) -> str:
    """Return the name of a scorer's metric on test rows.

    For several labels, scikit-learn's accuracy is the share of rows with all labels correct.
    """
    return "subset_accuracy" if (task, metric) == ("multilabel", "accuracy") else metric


def display_name(metric: str) -> str:
    """Return the name of a metric in sentences and tables: ``RMSE``, ``balanced accuracy``."""
    return _DISPLAY.get(metric, metric.replace("_", " "))


def is_lower_better(metric: str) -> bool:
    """Whether a metric is an error or a loss, of which scikit-learn's scorer is the negative."""
    return f"neg_{metric}" in scorer_names()


def value_range(metric: str) -> tuple[float, float]:
    """Return the smallest and the largest value of a metric; infinite if unknown."""
    stem = metric.partition("_")[0]
    shares = ("f1", "hamming", "jaccard", "precision", "recall", "roc", "subset", "top")
    if scorer_of(metric) is None and not any(metric in metrics for metrics in METRICS.values()):
        return -math.inf, math.inf
    if stem in shares or metric in ("accuracy", "average_precision", "balanced_accuracy"):
        return 0.0, 1.0
    if is_lower_better(metric):
        return 0.0, math.inf
    if metric == "matthews_corrcoef":
        return -1.0, 1.0
    has_maximum = stem in ("r2", "d2", "explained")
    return -math.inf, 1.0 if has_maximum else math.inf


def default_metrics(task: str) -> list[str]:
    """Return the default metrics of a task; the first one is the metric of the verdict."""
    return {
        "binary": ["f1", "accuracy", "recall", "precision", "balanced_accuracy"],
        "multiclass": ["f1_macro", "accuracy", "balanced_accuracy"],
        "multilabel": ["f1_samples", "subset_accuracy", "hamming_loss"],
        "regression": ["r2", "root_mean_squared_error", "mean_absolute_error"],
    }[task]


def check_metrics(metrics: Sequence[str], task: str) -> list[str]:
    """Return natural names without duplicates; InputError if one is unknown, or there are none."""
    available = [*METRICS[task], *(name for name in scorer_names() if name not in METRICS[task])]
    choices = f"; choose from {', '.join(METRICS[task])}, or name a scorer of scikit-learn"
    for name in metrics:
        if natural_name(name) not in METRICS[task] and scorer_of(name) is None:
            raise InputError(
                f"unknown metric {name!r} for a {task} target{nearest(name, available) or choices}"
            )
    if not metrics:
        raise InputError(f"metrics must not be empty{choices}")
    return list(dict.fromkeys(map(natural_name, metrics)))


def judged_metrics(metrics: Sequence[str] | None, task: str, scoring: Scoring | None) -> list[str]:
    """Return natural names of metrics, that of the search first; InputError if one is unknown."""
    names = default_metrics(task) if metrics is None else check_metrics(metrics, task)
    if scoring is None or not scoring.reads_answers:
        return names
    return list(dict.fromkeys([tested_metric(scoring.metric, task), *names]))


def metric_names() -> list[str]:
    """Return the names of the metrics of all tasks and of all scorers, in alphabetical order."""
    names = {name for metrics in METRICS.values() for name in metrics}
    scorers = scorer_names()
    return sorted({*names, *scorers, *map(natural_name, scorers)})


# ---------------------------------------------------------------- scorers of scikit-learn


@dataclass(frozen=True)
class Metric:
    """A function of ``sklearn.metrics`` and its parameters; the sign is -1 if lower is better."""

    name: str
    kwargs: Mapping[str, Any]
    sign: int


def metric_of(scoring: Scoring) -> Metric | None:
    """Return the metric of a scorer made by ``make_scorer``, or None for any other callable."""
    from sklearn import metrics

    scorer: Any = scoring.scorer
    cls = type(scorer)
    if (cls.__module__, cls.__name__) != ("sklearn.metrics._scorer", "_Scorer"):
        return None
    name = getattr(scorer._score_func, "__name__", "")
    if getattr(metrics, name, None) is not scorer._score_func:
        return None
    return Metric(name, dict(scorer._kwargs or {}), int(scorer._sign))


def scorer_of(metric: str) -> str | None:
    """Return the name of the scorer of a metric; None if there is none."""
    available = scorer_names()
    names = (metric, f"neg_{metric}")
    return next((name for name in names if name in available), None)


def takes_labels(scoring: Scoring) -> bool:
    """Whether the scorer only needs ``predict``."""
    return getattr(scoring.scorer, "_response_method", None) == "predict"


def takes_probabilities(scoring: Scoring) -> bool:
    """Whether the scorer is computed from ``predict_proba`` if there is no decision function."""
    methods = getattr(scoring.scorer, "_response_method", None)
    return methods == "predict_proba" or methods == ("decision_function", "predict_proba")


def magnifies_rounding(scoring: Scoring) -> bool:
    """Whether the scorer divides by predictions or takes their powers, so that rounding matters."""
    from sklearn import metrics

    functions = (
        metrics.d2_tweedie_score,
        metrics.mean_gamma_deviance,
        metrics.mean_poisson_deviance,
        metrics.mean_tweedie_deviance,
    )
    return getattr(scoring.scorer, "_score_func", None) in functions


# ---------------------------------------------------------------- formulas


def fraction(above: ArrayLike, below: ArrayLike, undefined: float = 0.0) -> Float:
    """Return the quotient, `undefined` where the divisor is 0."""
    below = np.asarray(below, dtype=np.float64)
    out = np.full_like(below, undefined)
    return np.divide(above, below, out=out, where=below != 0.0)


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Numbers of rows of each class in the target, in the prediction, and in both.

    They have the shape (n, n_classes), and may be sums of weights.
    """

    true: Any
    predicted: Any
    both: Any

    def of(self, rows: Int, classes: Int) -> ClassCounts:
        """Return the counts in given rows of the arrays, and of given classes."""
        place = np.ix_(rows, classes)
        # NumPy sums contiguous arrays in the order of scikit-learn.
        return ClassCounts(*(np.ascontiguousarray(counts[place]) for counts in vars(self).values()))

    @property
    def exist(self) -> Bool:
        """Which classes there are in the target or in the prediction: (n, n_classes)."""
        return (self.true > 0) | (self.predicted > 0)

    def accuracy(self) -> Float:
        """Return the share of correct rows."""
        return fraction(self.both.sum(axis=-1), self.true.sum(axis=-1))

    def balanced_accuracy(self) -> Float:
        """Return the mean recall of the classes in the target."""

        def mean_recall(rows: Int, classes: Int) -> Float:
            counts = self.of(rows, classes)
            return (counts.both / counts.true).mean(axis=-1)

        return by_pattern(self.true > 0, mean_recall)

    def matthews(self) -> Float:
        """Return Matthews' correlation; 0 if undefined."""
        true = self.true * 1.0
        predicted = self.predicted * 1.0
        n_rows = true.sum(axis=-1)
        spread_true = n_rows**2 - (true**2).sum(axis=-1)
        spread_predicted = n_rows**2 - (predicted**2).sum(axis=-1)
        covariance = self.both.sum(axis=-1) * n_rows - (true * predicted).sum(axis=-1)
        # The spread of a single class is 0 but for the rounding of sums of weights.
        tolerance = 1e-12 * n_rows**2
        spreads = np.where(spread_true > tolerance, spread_true, 0.0)
        spreads = spreads * np.where(spread_predicted > tolerance, spread_predicted, 0.0)
        return fraction(covariance, np.sqrt(spreads))

    def set_terms(self, name: str, beta: float = 1.0) -> tuple[AnyArray, AnyArray]:
        """Return dividends and divisors of precision, recall, Jaccard or F scores."""
        if name == "precision":
            return self.both, self.predicted
        if name == "recall":
            return self.both, self.true
        if name == "jaccard":
            return self.both, self.true + self.predicted - self.both
        beta2 = beta**2
        return (1 + beta2) * self.both, beta2 * self.true + self.predicted

    def summed(self) -> ClassCounts:
        """Return the sums over the classes, as counts of a single class."""
        return ClassCounts(*(counts.sum(axis=-1, keepdims=True) for counts in vars(self).values()))

    def set_score(
        self, name: str, average: str, beta: float = 1.0, undefined: float = 0.0
    ) -> Float:
        """Average the precision, recall, Jaccard or F score of all classes, which may be one."""
        counts = self.summed() if average == "micro" else self
        scores = fraction(*counts.set_terms(name, beta), undefined)
        if average == "weighted":
            share = self.true * 1.0
            return fraction((scores * share).sum(axis=-1), share.sum(axis=-1), np.nan)
        return scores.mean(axis=-1)


def by_pattern(exist: Bool, values: Callable[[Int, Int], Float]) -> Float:
    """Call ``values(rows, classes)`` for all rows of `exist` (n, n_classes) with the same classes.

    Scikit-learn leaves out classes that do not exist, which would change the rounding of a sum.
    """
    result = np.empty(len(exist))
    patterns, group = np.unique(exist, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        rows = np.flatnonzero(group.reshape(-1) == number)
        result[rows] = values(rows, np.flatnonzero(pattern))
    return result


# ---------------------------------------------------------------- metrics as functions of sums

# Maps sums (n, n_statistics) and the position of the positive class to values (n,).
Value = Callable[[Float, int], Float]


def row_statistics(task: str, y_true: AnyArray, y_pred: AnyArray, classes: AnyArray) -> Float:
    """Return statistics (n_rows, n_statistics): all metrics are functions of their sums."""
    if task == "regression":
        # r2 would be a difference of large sums if values were not centred.
        truth = y_true - y_true.mean()
        error = y_pred - y_true
        columns = [np.ones_like(truth), truth, truth**2, error**2, np.abs(error)]
        return np.column_stack(columns).astype(np.float64)
    if task == "multilabel":
        return _label_statistics(y_true != 0, y_pred != 0)
    truth = y_true[:, None] == classes
    guess = y_pred[:, None] == classes
    return np.concatenate([truth, guess, truth & guess], axis=1).astype(np.float64)


def _label_statistics(truth: Bool, guess: Bool) -> Float:
    both = truth & guess
    f1 = fraction(2.0 * both.sum(axis=1), truth.sum(axis=1) + guess.sum(axis=1))
    per_row = np.column_stack(
        [np.ones(len(truth)), (truth == guess).all(axis=1), (truth != guess).mean(axis=1), f1]
    )
    return np.concatenate([per_row, truth, guess, both], axis=1).astype(np.float64)


def _counts(sums: Float) -> ClassCounts:
    return ClassCounts(*np.split(sums, 3, axis=-1))


def _of_positive(name: str) -> Value:
    def value(sums: Float, positive: int) -> Float:
        counts = _counts(sums).of(np.arange(len(sums)), np.array([positive]))
        return counts.set_score(name, "macro")

    return value


def _of_classes(name: str, average: str) -> Value:
    def value(sums: Float, _: int) -> Float:
        counts = _counts(sums)

        def score(rows: Int, classes: Int) -> Float:
            return counts.of(rows, classes).set_score(name, average)

        return by_pattern(counts.exist, score)

    return value


def _of_labels(average: str) -> Value:
    return lambda sums, _: _counts(sums[..., 4:]).set_score("f1", average)


def _row_mean(position: int) -> Value:
    return lambda sums, _: fraction(sums[..., position], sums[..., 0])


def _r2(sums: Float, _: int) -> Float:
    rows, truth, squares, errors = (sums[..., i] for i in range(4))
    spread = np.maximum(squares - truth**2 / rows, 0.0)
    # In scikit-learn, r2 of a constant target is 1 if it is predicted exactly, and 0 otherwise. A
    # resample of one repeated row is constant up to rounding.
    r2_of_constant = np.where(errors == 0.0, 1.0, 0.0)
    r2 = 1.0 - fraction(errors, spread)
    return np.where(spread > 1e-12 * squares, r2, r2_of_constant)


def _root_mean_square(sums: Float, _: int) -> Float:
    return np.sqrt(sums[..., 3] / sums[..., 0])


_CLASS_METRICS: Mapping[str, Value] = {
    "accuracy": lambda sums, _: _counts(sums).accuracy(),
    "balanced_accuracy": lambda sums, _: _counts(sums).balanced_accuracy(),
    "f1_macro": _of_classes("f1", "macro"),
    "f1_weighted": _of_classes("f1", "weighted"),
    "recall_macro": _of_classes("recall", "macro"),
    "precision_macro": _of_classes("precision", "macro"),
    "matthews_corrcoef": lambda sums, _: _counts(sums).matthews(),
}

# Formulas by task. The jackknife calls scikit-learn for all other metrics.
METRICS: Mapping[str, Mapping[str, Value]] = {
    "binary": {
        "f1": _of_positive("f1"),
        "recall": _of_positive("recall"),
        "precision": _of_positive("precision"),
        **_CLASS_METRICS,
    },
    "multiclass": _CLASS_METRICS,
    "multilabel": {
        "subset_accuracy": _row_mean(1),
        "hamming_loss": _row_mean(2),
        "f1_samples": _row_mean(3),
        "f1_macro": _of_labels("macro"),
        "f1_micro": _of_labels("micro"),
    },
    "regression": {
        "r2": _r2,
        "mean_squared_error": _row_mean(3),
        "root_mean_squared_error": _root_mean_square,
        "mean_absolute_error": _row_mean(4),
    },
}
