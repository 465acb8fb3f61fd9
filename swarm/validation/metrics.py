"""Metrics as functions of sums over rows, vectorised over bootstrap resamples.

The sums of all resamples are one matrix product of row counts and row statistics, such as whether a
row is of a class in the target, in the prediction and in both. The values equal those of the
functions of the same names in `sklearn.metrics`, with `zero_division=0`. Metrics have their natural
name and sign: `root_mean_squared_error`, lower is better, not `neg_root_mean_squared_error`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from swarm.arrays import AnyArray, Bool, Float
from swarm.errors import InputError, nearest
from swarm.metric_names import natural_name, tested_metric
from swarm.problem.scoring import Scoring, scorer_names
from swarm.statistics.metrics import fraction, matthews, set_terms

# Maps sums (..., n_statistics) and the position of the positive class to values (...).
Value = Callable[[Float, int], Float]

LOWER_IS_BETTER = frozenset(
    {
        "brier_score",
        "hamming_loss",
        "log_loss",
        "max_error",
        "mean_absolute_error",
        "mean_absolute_percentage_error",
        "mean_gamma_deviance",
        "mean_poisson_deviance",
        "mean_squared_error",
        "mean_squared_log_error",
        "median_absolute_error",
        "negative_likelihood_ratio",
        "root_mean_squared_error",
        "root_mean_squared_log_error",
    }
)

# Metrics between 0 and 1, besides those that are recognised by the stem of their names.
_SHARES = frozenset(
    {
        "accuracy",
        "average_precision",
        "balanced_accuracy",
        "hamming_loss",
        "subset_accuracy",
        "top_k_accuracy",
    }
)


def value_range(metric: str) -> tuple[float, float]:
    """Return the smallest and the largest value of a metric; infinite where unknown."""
    if metric in LOWER_IS_BETTER and metric != "hamming_loss":
        return 0.0, math.inf
    if metric not in {"hamming_loss", "subset_accuracy", *scorer_names()}:
        return -math.inf, math.inf
    stem = metric.partition("_")[0]
    if metric in _SHARES or stem in ("f1", "jaccard", "precision", "recall", "roc"):
        return 0.0, 1.0
    if metric == "matthews_corrcoef":
        return -1.0, 1.0
    return -math.inf, 1.0 if stem in ("r2", "d2", "explained") else math.inf


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


def scorer_of(metric: str) -> str | None:
    """Return the name of the scorer of a metric; None if there is none."""
    available = scorer_names()
    names = (metric, f"neg_{metric}")
    return next((name for name in names if name in available), None)


def metric_names() -> list[str]:
    """Return the names of the metrics of all tasks and of all scorers, in alphabetical order."""
    names = {name for metrics in METRICS.values() for name in metrics}
    scorers = scorer_names()
    return sorted({*names, *scorers, *map(natural_name, scorers)})


def row_statistics(task: str, y_true: AnyArray, y_pred: AnyArray, classes: AnyArray) -> Float:
    """Return statistics (n_rows, n_statistics): all metrics are functions of their sums."""
    if task == "regression":
        # Centred: otherwise r2 is a difference of large sums.
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


def _counts(sums: Float) -> tuple[Float, Float, Float]:
    """Return row counts (..., n_classes) by true class, by predicted class, and by both."""
    n_classes = sums.shape[-1] // 3
    return sums[..., :n_classes], sums[..., n_classes : 2 * n_classes], sums[..., 2 * n_classes :]


def _mean_where(values: Float, present: Bool) -> Float:
    return fraction((values * present).sum(axis=-1), present.sum(axis=-1))


def _accuracy(sums: Float, _: int) -> Float:
    truth, _guess, both = _counts(sums)
    return fraction(both.sum(axis=-1), truth.sum(axis=-1))


def _balanced_accuracy(sums: Float, _: int) -> Float:
    truth, _guess, both = _counts(sums)
    return _mean_where(fraction(both, truth), truth > 0)


def _matthews(sums: Float, _: int) -> Float:
    truth, guess, both = _counts(sums)
    return matthews(truth, guess, both.sum(axis=-1))


def _per_class(name: str, sums: Float) -> Float:
    return fraction(*set_terms(name, *_counts(sums)))


def _of_positive(name: str) -> Value:
    return lambda sums, positive: _per_class(name, sums)[..., positive]


def _macro(name: str) -> Value:
    def value(sums: Float, _: int) -> Float:
        truth, guess, _both = _counts(sums)
        return _mean_where(_per_class(name, sums), truth + guess > 0)

    return value


def _weighted_f1(sums: Float, _: int) -> Float:
    truth = _counts(sums)[0]
    return fraction((_per_class("f1", sums) * truth).sum(axis=-1), truth.sum(axis=-1))


def _row_mean(position: int) -> Value:
    return lambda sums, _: fraction(sums[..., position], sums[..., 0])


def _labels_macro(sums: Float, _: int) -> Float:
    value: Float = _per_class("f1", sums[..., 4:]).mean(axis=-1)
    return value


def _labels_micro(sums: Float, _: int) -> Float:
    counts = [counts.sum(axis=-1) for counts in _counts(sums[..., 4:])]
    return fraction(*set_terms("f1", *counts))


def _r2(sums: Float, _: int) -> Float:
    rows, truth, squares, errors = (sums[..., i] for i in range(4))
    spread = np.maximum(squares - truth**2 / rows, 0.0)
    # As in scikit-learn, r2 of a constant target is 1 if predicted exactly and 0 otherwise. A
    # resample of one repeated row is constant up to rounding.
    constant = np.where(errors == 0.0, 1.0, 0.0)
    varied = 1.0 - fraction(errors, spread)
    return np.where(spread > 1e-12 * squares, varied, constant)


def _root_mean_square(sums: Float, _: int) -> Float:
    return np.sqrt(sums[..., 3] / sums[..., 0])


_OF_CLASSES: Mapping[str, Value] = MappingProxyType(
    {
        "accuracy": _accuracy,
        "balanced_accuracy": _balanced_accuracy,
        "f1_macro": _macro("f1"),
        "f1_weighted": _weighted_f1,
        "recall_macro": _macro("recall"),
        "precision_macro": _macro("precision"),
        "matthews_corrcoef": _matthews,
    }
)

METRICS: Mapping[str, Mapping[str, Value]] = MappingProxyType(
    {
        "binary": MappingProxyType(
            {
                "f1": _of_positive("f1"),
                "recall": _of_positive("recall"),
                "precision": _of_positive("precision"),
                **_OF_CLASSES,
            }
        ),
        "multiclass": _OF_CLASSES,
        "multilabel": MappingProxyType(
            {
                "subset_accuracy": _row_mean(1),
                "hamming_loss": _row_mean(2),
                "f1_samples": _row_mean(3),
                "f1_macro": _labels_macro,
                "f1_micro": _labels_micro,
            }
        ),
        "regression": MappingProxyType(
            {
                "r2": _r2,
                "mean_squared_error": _row_mean(3),
                "root_mean_squared_error": _root_mean_square,
                "mean_absolute_error": _row_mean(4),
            }
        ),
    }
)
