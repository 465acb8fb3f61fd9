"""Scores of many masks at once, by the common metrics of scikit-learn.

Scores of classes and of probabilities take the operations of scikit-learn in their order, so that
they are bit-identical.
"""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from numba import njit

from swarm.arrays import AnyArray, Bool, Float, Int
from swarm.metrics import ClassCounts, Metric, by_pattern, metric_of
from swarm.problem.scoring import Scoring


@njit(nogil=True, cache=True)
def confusions(codes: Int, truth: Int, counts: Int) -> None:  # pragma: no cover
    """Add confusion matrices of predictions (n, n_test) to `counts` (n, n_classes, n_classes)."""
    for m in range(codes.shape[0]):
        labels, matrix = codes[m], counts[m]
        for i in range(len(labels)):
            matrix[truth[i], labels[i]] += 1


def label_scores(metric: Metric, counts: Int, classes: AnyArray) -> Float | None:
    """Scores (n,) of confusion matrices (n, n_classes, n_classes); None if not supported.

    NaN if scikit-learn has to be called: it warns (first mask only), raises, or is undefined.
    """
    score, parameters = _SCORES_OF_CLASSES.get(metric.name, (None, set()))
    if score is None or not set(metric.kwargs) <= parameters:
        return None
    return score(counts, classes, metric)


def _by_class(counts: Int) -> ClassCounts:
    """Row counts of confusion matrices."""
    return ClassCounts(
        counts.sum(axis=2), counts.sum(axis=1), np.diagonal(counts, axis1=1, axis2=2)
    )


def _balanced_accuracy(counts: Int, _classes: AnyArray, metric: Metric) -> Float | None:
    by_class = _by_class(counts)
    is_true = by_class.true[0] > 0
    if is_true.sum() < 2:
        return None
    values = by_class.balanced_accuracy()
    if metric.kwargs.get("adjusted", False):
        chance = 1 / int(is_true.sum())
        values = (values - chance) / (1 - chance)
    return _leave_first_warning(values, (by_class.predicted[:, ~is_true] > 0).any(axis=1))


def _matthews(counts: Int, _classes: AnyArray, _metric: Metric) -> Float:
    return _by_class(counts).matthews()


def _cohen_kappa(counts: Int, _classes: AnyArray, metric: Metric) -> Float | None:
    weights = metric.kwargs.get("weights")
    if weights not in (None, "linear", "quadratic"):
        return None

    def scores(rows: Int, positions: Int) -> Float:
        matrix = np.ascontiguousarray(counts[np.ix_(rows, positions, positions)] * 1.0)
        predicted = matrix.sum(axis=1)
        true = matrix.sum(axis=2)
        expected = predicted[:, :, None] * true[:, None, :] / predicted.sum(axis=1)[:, None, None]
        steps = np.arange(len(positions)) - np.arange(len(positions))[:, None]
        cost = {None: steps != 0, "linear": np.abs(steps), "quadratic": steps**2}[weights] * 1.0
        observed = (cost * matrix).reshape(len(rows), -1).sum(axis=1)
        chance = (cost * expected).reshape(len(rows), -1).sum(axis=1)
        is_undefined = chance == 0
        return np.where(is_undefined, np.nan, 1 - observed / np.where(is_undefined, 1.0, chance))

    return by_pattern(_by_class(counts).exist, scores)


def _set_scores(counts: Int, classes: AnyArray, metric: Metric) -> Float | None:
    """Precision, recall, F score and Jaccard score."""
    options: dict[str, Any] = {"average": "binary", "pos_label": 1, "labels": None, "beta": 1.0}
    options |= {"zero_division": "warn", **metric.kwargs}
    average = options["average"]
    beta = float(options["beta"])
    undefined = {"warn": 0.0, 0: 0.0, 1: 1.0}.get(options["zero_division"], np.nan)
    if average not in ("binary", "micro", "macro", "weighted") or not 0 < beta < np.inf:
        return None
    labels = options["labels"]
    if average == "binary":
        labels = [options["pos_label"]]
        if len(classes) != 2:
            return None
    elif options["pos_label"] not in (None, 1):
        return None
    chosen = np.arange(0) if labels is None else _positions(classes, labels)
    if chosen is None:
        return None
    by_class = _by_class(counts)
    name = metric.name.removesuffix("_score")
    warns = np.zeros(len(counts), dtype=bool)

    def scores(rows: Int, positions: Int) -> Float:
        selected = by_class.of(rows, positions)
        summed = selected.summed() if average == "micro" else selected
        _, divisors = summed.set_terms(name, beta)
        warns[rows] = (divisors == 0).any(axis=1)
        return selected.set_score(name, average, beta, undefined)

    if len(chosen):
        values = scores(np.arange(len(counts)), chosen)
    else:
        values = by_pattern(by_class.exist, scores)
    return _leave_first_warning(values, warns) if options["zero_division"] == "warn" else values


def _positions(classes: AnyArray, labels: Any) -> Int | None:
    """Return the positions of labels among the classes; None unless all are known and distinct."""
    all_labels = classes.tolist()
    wanted = np.asarray(labels).tolist()
    if not wanted or len(set(wanted)) < len(wanted) or not set(wanted) <= set(all_labels):
        return None
    return np.array([all_labels.index(label) for label in wanted])


def _leave_first_warning(values: Float, warns: Bool) -> Float:
    """Leave the first mask for which scikit-learn warns to scikit-learn."""
    if warns.any():
        values[warns.argmax()] = np.nan
    return values


_SET_PARAMETERS = {"average", "pos_label", "labels", "zero_division"}
# Functions, and the parameters that they support.
_SCORES_OF_CLASSES: dict[str, tuple[Callable[..., Float | None], set[str]]] = {
    "balanced_accuracy_score": (_balanced_accuracy, {"adjusted"}),
    "matthews_corrcoef": (_matthews, set()),
    "cohen_kappa_score": (_cohen_kappa, {"weights", "replace_undefined_by"}),
    "precision_score": (_set_scores, _SET_PARAMETERS),
    "recall_score": (_set_scores, _SET_PARAMETERS),
    "f1_score": (_set_scores, _SET_PARAMETERS),
    "fbeta_score": (_set_scores, _SET_PARAMETERS | {"beta"}),
    "jaccard_score": (_set_scores, _SET_PARAMETERS),
}


def probability_scores(
    metric: Metric, probabilities: Float, truth: Int, classes: AnyArray
) -> Float | None:
    """Scores (n,) of probabilities (n_classes, n, n_test); None if not supported.

    Every class has test rows.
    """
    kwargs = dict(metric.kwargs)
    if metric.name == "log_loss" and not kwargs:
        return _log_loss(probabilities, truth)
    if metric.name == "brier_score_loss":
        return _brier(probabilities, truth, classes, **kwargs)
    if metric.name != "roc_auc_score":
        return None
    multi_class = kwargs.pop("multi_class", "raise")
    average = kwargs.pop("average", "macro")
    if kwargs or average not in ("macro", "weighted"):
        return None
    if len(probabilities) == 2:
        return _area(probabilities[1], truth == 1, truth == 0)
    score = {"ovr": _one_against_rest, "ovo": _one_against_one}.get(multi_class)
    return None if score is None else score(probabilities, truth, average == "weighted")


def _log_loss(probabilities: Float, truth: Int) -> Float:
    from scipy.special import xlogy

    if len(probabilities) == 2:
        positive = probabilities[1]
        of_true_class = np.where(truth == 1, positive, 1 - positive)
    else:
        of_true_class = probabilities[truth, :, np.arange(len(truth))].T
    eps = np.finfo(np.float64).eps
    losses = -xlogy(1.0, np.clip(of_true_class, eps, 1 - eps))
    return mean_of(np.ascontiguousarray(losses))


def _brier(
    probabilities: Float, truth: Int, classes: AnyArray, pos_label: Any = None, **unknown: Any
) -> Float | None:
    n_classes = len(probabilities)
    if n_classes == 2:
        # scikit-learn needs a positive class if classes are strings.
        if unknown or (pos_label is None and classes.dtype.kind in "OUS"):
            return None
        code = 1 if pos_label is None else classes.tolist().index(pos_label)
        positive = probabilities[code]
        is_positive = truth == code
        squares = (~is_positive - (1 - positive)) ** 2 + (is_positive - positive) ** 2
        return mean_of(squares) * 0.5
    if unknown or pos_label is not None:
        return None
    one_hot = (truth[:, None] == np.arange(n_classes)) * 1.0
    errors = (one_hot - np.ascontiguousarray(np.moveaxis(probabilities, 0, 2))) ** 2
    return mean_of(errors.sum(axis=2))


def _one_against_rest(probabilities: Float, truth: Int, weighted: bool) -> Float:
    classes = range(len(probabilities))
    areas = np.stack([_area(probabilities[c], truth == c, truth != c) for c in classes], axis=1)
    counts = np.bincount(truth, minlength=len(probabilities)).astype(np.float64)
    return mean_of(areas, counts if weighted else None)


def _one_against_one(probabilities: Float, truth: Int, weighted: bool) -> Float:
    areas = []
    shares = []
    for a, b in combinations(range(len(probabilities)), 2):
        is_a = truth == a
        is_b = truth == b
        area_of_a = _area(probabilities[a], is_a, is_b)
        area_of_b = _area(probabilities[b], is_b, is_a)
        areas.append((area_of_a + area_of_b) / 2)
        shares.append(np.average(is_a | is_b))
    weight = np.array(shares, dtype=np.float64) if weighted else None
    return mean_of(np.stack(areas, axis=1), weight)


def _area(scores: Float, positive: Bool, negative: Bool) -> Float:
    """Return the area under the ROC curve of scores (n, n_test): float64 (n,)."""
    of_positive = np.sort(scores[:, positive], axis=1)
    of_negative = np.sort(scores[:, negative], axis=1)
    terms = np.empty(scores.shape)
    counts = np.empty(len(scores), dtype=np.int64)
    _trapezoids(of_positive, of_negative, terms, counts)
    # NumPy sums in the order of scikit-learn.
    return np.array([row[:n].sum() for row, n in zip(terms, counts.tolist(), strict=True)])


@njit(nogil=True, cache=True)
def _trapezoids(
    positive: Float, negative: Float, terms: Float, counts: Int
) -> None:  # pragma: no cover
    """Fill in the areas between points of each ROC curve, from ascending scores (n, n_rows)."""
    n_positive = positive.shape[1]
    n_negative = negative.shape[1]
    true_positives = np.empty(n_positive + n_negative)
    false_positives = np.empty(n_positive + n_negative)
    for m in range(len(counts)):
        i = n_positive - 1
        j = n_negative - 1
        n_points = 0
        while i >= 0 or j >= 0:
            if j < 0 or (i >= 0 and positive[m, i] > negative[m, j]):
                threshold = positive[m, i]
            else:
                threshold = negative[m, j]
            while i >= 0 and positive[m, i] == threshold:
                i -= 1
            while j >= 0 and negative[m, j] == threshold:
                j -= 1
            true_positives[n_points] = n_positive - 1 - i
            false_positives[n_points] = n_negative - 1 - j
            n_points += 1
        last_x = 0.0
        last_y = 0.0
        n_terms = 0
        for point in range(n_points):
            is_inner = 0 < point < n_points - 1
            if (
                is_inner
                and _is_straight(true_positives, point)
                and _is_straight(false_positives, point)
            ):
                continue
            x = false_positives[point] / n_negative
            y = true_positives[point] / n_positive
            terms[m, n_terms] = (x - last_x) * (y + last_y) / 2.0
            last_x = x
            last_y = y
            n_terms += 1
        counts[m] = n_terms


@njit(nogil=True, cache=True)
def _is_straight(values: Float, point: int) -> bool:  # pragma: no cover
    return values[point + 1] - values[point] == values[point] - values[point - 1]


def number_scores(
    metric: Metric, predicted: Float, truth: AnyArray, weight: Float | None = None
) -> Float | None:
    """Scores (n,) of predictions (n, n_test): NaN if scikit-learn raises, None if not supported.

    Parameters of metrics, and special cases of these rows, are not supported.
    """
    score = _SCORES_OF_NUMBERS.get(metric.name)
    if score is None or metric.kwargs or truth.ndim > 1 or len(truth) < 2:
        return None
    return score(predicted, truth, weight)


def scores_numbers(scoring: Scoring) -> bool:
    """Whether the scorer is a common regression metric."""
    metric = metric_of(scoring)
    return metric is not None and metric.name in _SCORES_OF_NUMBERS


def mean_of(values: AnyArray, weight: Float | None = None) -> Float:
    """Means of the rows of `values`, whose weights may be those of all rows."""
    if weight is None:
        return values.mean(axis=-1)
    return (values * weight).sum(axis=-1) / weight.sum(axis=-1)


def _squared_error(predicted: Float, truth: AnyArray, weight: Float | None) -> Float:
    return mean_of((predicted - truth) ** 2, weight)


def _r2(predicted: Float, truth: AnyArray, weight: Float | None) -> Float | None:
    factor = 1.0 if weight is None else weight
    total = (factor * (truth - mean_of(truth, weight)) ** 2).sum()
    if total == 0:
        return None
    return 1.0 - (factor * (predicted - truth) ** 2).sum(axis=1) / total


def _explained_variance(predicted: Float, truth: AnyArray, weight: Float | None) -> Float | None:
    variance = mean_of((truth - mean_of(truth, weight)) ** 2, weight)
    if variance == 0:
        return None
    errors = truth - predicted
    deviations = errors - np.asarray(mean_of(errors, weight))[:, None]
    return 1.0 - mean_of(deviations**2, weight) / variance


def _squared_log_error(predicted: Float, truth: AnyArray, weight: Float | None) -> Float | None:
    if (truth <= -1).any():
        return None
    is_invalid = np.any(predicted <= -1, axis=1)
    logs = np.log1p(np.where(is_invalid[:, None], 0.0, predicted))
    return np.where(is_invalid, np.nan, _squared_error(logs, np.log1p(truth), weight))


def _root_squared_log_error(
    predicted: Float, truth: AnyArray, weight: Float | None
) -> Float | None:
    errors = _squared_log_error(predicted, truth, weight)
    return None if errors is None else np.sqrt(errors)


# Functions of predictions, truth and weights; they return None for a special case of scikit-learn.
_SCORES_OF_NUMBERS: dict[str, Callable[[Float, AnyArray, Float | None], Float | None]] = {
    "r2_score": _r2,
    "mean_squared_error": _squared_error,
    "root_mean_squared_error": lambda p, t, w: np.sqrt(_squared_error(p, t, w)),
    "mean_absolute_error": lambda p, t, w: mean_of(np.abs(p - t), w),
    "mean_absolute_percentage_error": lambda p, t, w: mean_of(
        np.abs(p - t) / np.maximum(np.abs(t), np.finfo(np.float64).eps), w
    ),
    "median_absolute_error": lambda p, t, w: np.median(np.abs(p - t), 1) if w is None else None,
    "max_error": lambda p, t, w: np.abs(p - t).max(axis=1) if w is None else None,
    "explained_variance_score": _explained_variance,
    "mean_squared_log_error": _squared_log_error,
    "root_mean_squared_log_error": _root_squared_log_error,
}
