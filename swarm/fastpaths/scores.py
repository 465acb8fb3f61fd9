"""Scores of many masks at once, by the common metrics of scikit-learn.

Scores of classes and of probabilities take the operations of scikit-learn in their order, so that
they are bit-identical.
"""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from swarm.arrays import Bool, Float, Int
from swarm.metrics import ClassCounts, Metric, by_pattern, metric_of
from swarm.problem.scoring import Scoring


@njit(nogil=True, cache=True)
def confusions(codes: Int, truth: Int, counts: Int) -> None:  # pragma: no cover
    """Add confusion matrices of predictions (n, n_test) to `counts` (n, n_classes, n_classes)."""
    for m in range(codes.shape[0]):
        labels, matrix = codes[m], counts[m]
        for i in range(len(labels)):
            matrix[truth[i], labels[i]] += 1


def label_scores(metric: Metric, counts: Int, classes: NDArray[Any]) -> Float | None:
    """Scores (n,) of confusion matrices (n, n_classes, n_classes); None if not supported."""
    # NaN where scikit-learn has to be called: it warns (first mask only), raises, or is undefined.
    score, parameters = _SCORES_OF_CLASSES.get(metric.name, (None, set()))
    if score is None or not set(metric.kwargs) <= parameters:
        return None
    return score(counts, classes, metric)


def _by_class(counts: Int) -> ClassCounts:
    """Return the row counts of confusion matrices."""
    return ClassCounts(
        counts.sum(axis=2), counts.sum(axis=1), np.diagonal(counts, axis1=1, axis2=2)
    )


def _balanced(counts: Int, _classes: NDArray[Any], metric: Metric) -> Float | None:
    by_class = _by_class(counts)
    is_true = by_class.true[0] > 0
    if is_true.sum() < 2:
        return None
    values = by_class.balanced_accuracy()
    if metric.kwargs.get("adjusted", False):
        chance = 1 / int(is_true.sum())
        values = (values - chance) / (1 - chance)
    return _first_left(values, (by_class.predicted[:, ~is_true] > 0).any(axis=1))


def _correlation(counts: Int, _classes: NDArray[Any], _metric: Metric) -> Float:
    return _by_class(counts).matthews()


def _agreement(counts: Int, _classes: NDArray[Any], metric: Metric) -> Float | None:
    weights = metric.kwargs.get("weights")
    if weights not in (None, "linear", "quadratic"):
        return None

    def scores(rows: Int, positions: Int) -> Float:
        matrix = np.ascontiguousarray(counts[np.ix_(rows, positions, positions)] * 1.0)
        down, across = matrix.sum(axis=1), matrix.sum(axis=2)
        expected = down[:, :, None] * across[:, None, :] / down.sum(axis=1)[:, None, None]
        steps = np.arange(len(positions)) - np.arange(len(positions))[:, None]
        cost = {None: steps != 0, "linear": np.abs(steps), "quadratic": steps**2}[weights] * 1.0
        observed = (cost * matrix).reshape(len(rows), -1).sum(axis=1)
        chance = (cost * expected).reshape(len(rows), -1).sum(axis=1)
        undefined = chance == 0
        return np.where(undefined, np.nan, 1 - observed / np.where(undefined, 1.0, chance))

    return by_pattern(_by_class(counts).exist, scores)


def _of_sets(counts: Int, classes: NDArray[Any], metric: Metric) -> Float | None:
    """Precision, recall, F score and Jaccard score."""
    options: dict[str, Any] = {"average": "binary", "pos_label": 1, "labels": None, "beta": 1.0}
    options |= {"zero_division": "warn", **metric.kwargs}
    average, positive, beta = options["average"], options["pos_label"], float(options["beta"])
    undefined = {"warn": 0.0, 0: 0.0, 1: 1.0}.get(options["zero_division"], np.nan)
    if average not in ("binary", "micro", "macro", "weighted") or not 0 < beta < np.inf:
        return None
    if average == "binary":
        chosen = _positions(classes, [positive]) if len(classes) == 2 else None
    elif positive not in (None, 1):
        return None
    else:
        chosen = (
            np.arange(0) if options["labels"] is None else _positions(classes, options["labels"])
        )
    if chosen is None:
        return None
    by_class, name = _by_class(counts), metric.name.removesuffix("_score")
    warned = np.zeros(len(counts), dtype=bool)

    def scores(rows: Int, positions: Int) -> Float:
        part = by_class.of(rows, positions)
        divisors = (part.summed() if average == "micro" else part).set_terms(name, beta)[1]
        warned[rows] = (divisors == 0).any(axis=1)
        return part.set_score(name, average, beta, undefined)

    every = np.arange(len(counts))
    values = scores(every, chosen) if len(chosen) else by_pattern(by_class.exist, scores)
    return _first_left(values, warned) if options["zero_division"] == "warn" else values


def _positions(classes: NDArray[Any], labels: Any) -> Int | None:
    """Return the positions of labels among the classes; None unless all are known and distinct."""
    all_labels = classes.tolist()
    wanted = np.asarray(labels).tolist()
    if not wanted or len(set(wanted)) < len(wanted) or not set(wanted) <= set(all_labels):
        return None
    return np.array([all_labels.index(label) for label in wanted])


def _first_left(values: Float, warned: Bool) -> Float:
    """Leave the first mask for which scikit-learn warns to scikit-learn."""
    if warned.any():
        values[warned.argmax()] = np.nan
    return values


_OF_SETS = {"average", "pos_label", "labels", "zero_division"}
# Functions, and the parameters that they support.
_SCORES_OF_CLASSES: dict[str, tuple[Callable[..., Float | None], set[str]]] = {
    "balanced_accuracy_score": (_balanced, {"adjusted"}),
    "matthews_corrcoef": (_correlation, set()),
    "cohen_kappa_score": (_agreement, {"weights", "replace_undefined_by"}),
    "precision_score": (_of_sets, _OF_SETS),
    "recall_score": (_of_sets, _OF_SETS),
    "f1_score": (_of_sets, _OF_SETS),
    "fbeta_score": (_of_sets, _OF_SETS | {"beta"}),
    "jaccard_score": (_of_sets, _OF_SETS),
}


def probability_scores(
    metric: Metric, probabilities: Float, truth: Int, classes: NDArray[Any]
) -> Float | None:
    """Scores (n,) of probabilities (n_classes, n, n_test); None if not supported."""
    # Every class has test rows.
    kwargs = dict(metric.kwargs)
    if metric.name == "log_loss" and not kwargs:
        return _log_losses(probabilities, truth)
    if metric.name == "brier_score_loss":
        return _brier(probabilities, truth, classes, **kwargs)
    if metric.name != "roc_auc_score":
        return None
    kind, average = kwargs.pop("multi_class", "raise"), kwargs.pop("average", "macro")
    if kwargs or average not in ("macro", "weighted"):
        return None
    if len(probabilities) == 2:
        return _area(probabilities[1], truth == 1, truth == 0)
    several = {"ovr": _one_against_rest, "ovo": _one_against_one}.get(kind)
    return None if several is None else several(probabilities, truth, average == "weighted")


def _log_losses(probabilities: Float, truth: Int) -> Float:
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
    probabilities: Float, truth: Int, classes: NDArray[Any], pos_label: Any = None, **other: Any
) -> Float | None:
    n_classes = len(probabilities)
    if n_classes == 2:
        # Without a positive class, scikit-learn refuses classes that are strings.
        if other or (pos_label is None and classes.dtype.kind in "OUS"):
            return None
        place = 1 if pos_label is None else classes.tolist().index(pos_label)
        positive, is_positive = probabilities[place], truth == place
        squares = (~is_positive - (1 - positive)) ** 2 + (is_positive - positive) ** 2
        return mean_of(squares) * 0.5
    if other or pos_label is not None:
        return None
    one_hot = (truth[:, None] == np.arange(n_classes)) * 1.0
    errors = (one_hot - np.ascontiguousarray(np.moveaxis(probabilities, 0, 2))) ** 2
    return mean_of(errors.sum(axis=2))


def _one_against_rest(probabilities: Float, truth: Int, weighted: bool) -> Float:
    classes = range(len(probabilities))
    areas = np.stack([_area(probabilities[c], truth == c, truth != c) for c in classes], axis=1)
    share: Float = np.bincount(truth, minlength=len(probabilities)).astype(np.float64)
    return mean_of(areas, share if weighted else None)


def _one_against_one(probabilities: Float, truth: Int, weighted: bool) -> Float:
    areas, shares = [], []
    for a, b in combinations(range(len(probabilities)), 2):
        first, second = truth == a, truth == b
        ahead = _area(probabilities[a], first, second)
        areas.append((ahead + _area(probabilities[b], second, first)) / 2)
        shares.append(np.average(first | second))
    share: Float = np.array(shares, dtype=np.float64)
    return mean_of(np.stack(areas, axis=1), share if weighted else None)


def _area(scores: Float, positive: Bool, negative: Bool) -> Float:
    """Return the area under the ROC curve of scores (n, n_test): float64 (n,)."""
    above, below = scores[:, positive], scores[:, negative]
    above.sort(axis=1)
    below.sort(axis=1)
    # Summed by NumPy, in its order.
    terms, counts = np.empty(scores.shape), np.empty(len(scores), dtype=np.int64)
    _trapezoids(above, below, terms, counts)
    return np.array([row[:n].sum() for row, n in zip(terms, counts.tolist(), strict=True)])


@njit(nogil=True, cache=True)
def _trapezoids(
    positive: Float, negative: Float, terms: Float, counts: Int
) -> None:  # pragma: no cover
    """Fill in the areas between points of each ROC curve, from ascending scores (n, n_rows)."""
    n_positive, n_negative = positive.shape[1], negative.shape[1]
    right, wrong = np.empty(n_positive + n_negative), np.empty(n_positive + n_negative)
    for m in range(len(counts)):
        up, down = positive[m], negative[m]
        i, j, count = n_positive - 1, n_negative - 1, 0
        while i >= 0 or j >= 0:
            value = up[i] if j < 0 or (i >= 0 and up[i] > down[j]) else down[j]
            while i >= 0 and up[i] == value:
                i -= 1
            while j >= 0 and down[j] == value:
                j -= 1
            right[count], wrong[count] = n_positive - 1 - i, n_negative - 1 - j
            count += 1
        x, y, n_terms = 0.0, 0.0, 0
        for place in range(count):
            if 0 < place < count - 1 and _is_straight(right, place) and _is_straight(wrong, place):
                continue
            ahead, above = wrong[place] / n_negative, right[place] / n_positive
            terms[m, n_terms] = (ahead - x) * (above + y) / 2.0
            x, y = ahead, above
            n_terms += 1
        counts[m] = n_terms


@njit(nogil=True, cache=True)
def _is_straight(values: Float, place: int) -> bool:  # pragma: no cover
    return values[place + 1] - values[place] == values[place] - values[place - 1]


def number_scores(
    metric: Metric, predicted: Float, truth: NDArray[Any], weight: Float | None = None
) -> Float | None:
    """Scores (n,) of predictions (n, n_test): NaN if scikit-learn raises, None if not supported."""
    # Not supported: other metrics, parameters, and special cases of these rows.
    score = _OF_NUMBERS.get(metric.name)
    if score is None or metric.kwargs or truth.ndim > 1 or len(truth) < 2:
        return None
    value: Float | None = score(predicted, truth, weight)
    return value


def scores_numbers(scoring: Scoring) -> bool:
    """Whether the scorer is a common regression metric."""
    metric = metric_of(scoring)
    return metric is not None and metric.name in _OF_NUMBERS


def mean_of(values: Any, weight: Float | None = None) -> Float:
    """Return the means of the rows of `values`, whose weights may be those of all rows."""
    if weight is None:
        means: Float = values.mean(axis=-1)
        return means
    weighted: Float = (values * weight).sum(axis=-1) / weight.sum(axis=-1)
    return weighted


def _squared(predicted: Float, truth: NDArray[Any], weight: Float | None) -> Any:
    return mean_of((predicted - truth) ** 2, weight)


def _determination(predicted: Float, truth: NDArray[Any], weight: Float | None) -> Any:
    share = 1.0 if weight is None else weight
    spread = (share * (truth - mean_of(truth, weight)) ** 2).sum()
    if spread == 0:
        return None
    return 1.0 - (share * (predicted - truth) ** 2).sum(axis=1) / spread


def _explained(predicted: Float, truth: NDArray[Any], weight: Float | None) -> Any:
    spread = mean_of((truth - mean_of(truth, weight)) ** 2, weight)
    if spread == 0:
        return None
    errors = truth - predicted
    off = errors - np.asarray(mean_of(errors, weight))[:, None]
    return 1.0 - mean_of(off**2, weight) / spread


def _squared_log(predicted: Float, truth: NDArray[Any], weight: Float | None) -> Any:
    if (truth <= -1).any():
        return None
    refused = np.any(predicted <= -1, axis=1)
    logs = np.log1p(np.where(refused[:, None], 0.0, predicted))
    return np.where(refused, np.nan, _squared(logs, np.log1p(truth), weight))


def _root_squared_log(predicted: Float, truth: NDArray[Any], weight: Float | None) -> Any:
    squared = _squared_log(predicted, truth, weight)
    return None if squared is None else np.sqrt(squared)


# Functions of predictions, truth and weights; None for a special case of scikit-learn.
_OF_NUMBERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "r2_score": _determination,
    "mean_squared_error": _squared,
    "root_mean_squared_error": lambda p, t, w: np.sqrt(_squared(p, t, w)),
    "mean_absolute_error": lambda p, t, w: mean_of(np.abs(p - t), w),
    "mean_absolute_percentage_error": lambda p, t, w: mean_of(
        np.abs(p - t) / np.maximum(np.abs(t), np.finfo(np.float64).eps), w
    ),
    "median_absolute_error": lambda p, t, w: np.median(np.abs(p - t), 1) if w is None else None,
    "max_error": lambda p, t, w: np.abs(p - t).max(axis=1) if w is None else None,
    "explained_variance_score": _explained,
    "mean_squared_log_error": _squared_log,
    "root_mean_squared_log_error": _root_squared_log,
}
