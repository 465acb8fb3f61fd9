"""Scores of predicted classes from the confusion matrices of many masks.

The operations and their order are those of scikit-learn, so that scores are bit-identical. Classes
that are neither true nor predicted do not exist for scikit-learn: they would change the grouping
of a sum, so masks are grouped by the classes that exist.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from swarm.arrays import Bool, Float, Int
from swarm.fastpaths.metrics import Metric

__all__ = ["confusions", "label_scores"]


@njit(nogil=True, cache=True)
def confusions(codes: Int, truth: Int, counts: Int) -> None:  # pragma: no cover
    """Count the pairs of true and predicted classes of each mask.

    Parameters
    ----------
    codes : int (n, n_test)
        Predicted classes, from 0.
    truth : int (n_test,)
    counts : int (n, n_classes, n_classes)
        Zeros on input; the confusion matrices on output, a row for each true class.
    """
    for m in range(codes.shape[0]):
        own, matrix = codes[m], counts[m]
        for i in range(len(own)):
            matrix[truth[i], own[i]] += 1


def label_scores(metric: Metric, counts: Int, classes: NDArray[Any]) -> Float | None:
    """Return the scores of confusion matrices (n, n_classes, n_classes): float64 (n,).

    NaN where scikit-learn has to be called, because it warns, raises, or returns an undefined
    value. Where it warns for several masks, this is the first of them. None if the metric or a
    parameter is not supported.
    """
    made = _SCORES.get(metric.name)
    if made is None or not set(metric.kwargs) <= made[1]:
        return None
    return made[0](counts, classes, metric)


def _balanced(counts: Int, _classes: NDArray[Any], metric: Metric) -> Float | None:
    true, predicted = counts[0].sum(axis=1) > 0, counts.sum(axis=1) > 0
    if true.sum() < 2:
        return None
    diagonal = np.diagonal(counts, axis1=1, axis2=2)[:, true]
    found: Float = (np.ascontiguousarray(diagonal) / counts[0].sum(axis=1)[true]).mean(axis=1)
    if metric.kwargs.get("adjusted", False):
        chance = 1 / int(true.sum())
        found = (found - chance) / (1 - chance)
    return _first_left(found, predicted[:, ~true].any(axis=1))


def _correlation(counts: Int, _classes: NDArray[Any], _metric: Metric) -> Float:
    true, predicted = counts[0].sum(axis=1) * 1.0, counts.sum(axis=1) * 1.0
    n_correct, n_rows = np.trace(counts, axis1=1, axis2=2) * 1.0, true.sum()
    # Sums of integers are exact in any order.
    both = n_correct * n_rows - predicted @ true
    own = n_rows**2 - (predicted**2).sum(axis=1)
    product = own * (n_rows**2 - true @ true)
    return np.where(product == 0, 0.0, both / np.sqrt(np.where(product == 0, 1.0, product)))


def _agreement(counts: Int, _classes: NDArray[Any], metric: Metric) -> Float | None:
    weights = metric.kwargs.get("weights")
    if weights not in (None, "linear", "quadratic"):
        return None

    def scores(rows: Int, kept: Int) -> Float:
        matrix = np.ascontiguousarray(counts[np.ix_(rows, kept, kept)] * 1.0)
        down, across = matrix.sum(axis=1), matrix.sum(axis=2)
        expected = down[:, :, None] * across[:, None, :] / down.sum(axis=1)[:, None, None]
        steps = np.arange(len(kept)) - np.arange(len(kept))[:, None]
        cost = {None: steps != 0, "linear": np.abs(steps), "quadratic": steps**2}[weights] * 1.0
        observed = (cost * matrix).reshape(len(rows), -1).sum(axis=1)
        chance = (cost * expected).reshape(len(rows), -1).sum(axis=1)
        undefined = chance == 0
        return np.where(undefined, np.nan, 1 - observed / np.where(undefined, 1.0, chance))

    return _by_existence(_exist(counts), scores)


def _of_sets(counts: Int, classes: NDArray[Any], metric: Metric) -> Float | None:
    """Precision, recall, F score and Jaccard score."""
    given: dict[str, Any] = {"average": "binary", "pos_label": 1, "labels": None, "beta": 1.0}
    given |= {"zero_division": "warn", **metric.kwargs}
    average, positive, beta = given["average"], given["pos_label"], float(given["beta"])
    undefined = {"warn": 0.0, 0: 0.0, 1: 1.0}.get(given["zero_division"], np.nan)
    if average not in ("binary", "micro", "macro", "weighted") or not 0 < beta < np.inf:
        return None
    if average == "binary":
        chosen = _positions(classes, [positive]) if len(classes) == 2 else None
    elif positive not in (None, 1):
        return None
    else:
        chosen = np.arange(0) if given["labels"] is None else _positions(classes, given["labels"])
    if chosen is None:
        return None
    hits = np.diagonal(counts, axis1=1, axis2=2)
    true, predicted = counts.sum(axis=2), counts.sum(axis=1)
    warned = np.zeros(len(counts), dtype=bool)

    def scores(rows: Int, kept: Int) -> Float:
        place = np.ix_(rows, kept)
        terms = [np.ascontiguousarray(part[place]) for part in (hits, true, predicted)]
        if average == "micro":
            terms = [part.sum(axis=1, keepdims=True) for part in terms]
        above, below = _ratio(metric.name, terms, beta**2)
        zero = below == 0
        warned[rows] = zero.any(axis=1)
        ratio = np.where(zero, undefined, above / np.where(zero, 1.0, below))
        if average != "weighted":
            means: Float = ratio.mean(axis=1)
            return means
        share = terms[1] * 1.0
        total = share.sum(axis=1)
        weighted: Float = (ratio * share).sum(axis=1) / np.where(total == 0, np.nan, total)
        return weighted

    if len(chosen):
        found = scores(np.arange(len(counts)), chosen)
    else:
        found = _by_existence(_exist(counts), scores)
    return _first_left(found, warned) if given["zero_division"] == "warn" else found


def _ratio(name: str, terms: list[Any], beta2: float) -> tuple[Any, Any]:
    hits, true, predicted = terms
    if name == "precision_score":
        return hits, predicted
    if name == "recall_score":
        return hits, true
    if name == "jaccard_score":
        return hits, true + predicted - hits
    return (1 + beta2) * hits, beta2 * true + predicted


def _positions(classes: NDArray[Any], labels: Any) -> Int | None:
    """Return the positions of labels among the classes; None unless all are known and distinct."""
    known = classes.tolist()
    wanted = np.asarray(labels).tolist()
    if not wanted or len(set(wanted)) < len(wanted) or not set(wanted) <= set(known):
        return None
    return np.array([known.index(label) for label in wanted])


def _exist(counts: Int) -> Bool:
    """Whether a class is true or predicted: bool (n, n_classes)."""
    exist: Bool = (counts.sum(axis=1) > 0) | (counts.sum(axis=2) > 0)
    return exist


def _by_existence(exist: Bool, scores: Callable[[Int, Int], Float]) -> Float:
    """Call ``scores(rows, classes)`` for each group of masks with the same classes."""
    found = np.empty(len(exist))
    patterns, group = np.unique(exist, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        rows = np.flatnonzero(group.reshape(-1) == number)
        found[rows] = scores(rows, np.flatnonzero(pattern))
    return found


def _first_left(found: Float, warned: Bool) -> Float:
    """Leave the first mask for which scikit-learn warns to scikit-learn."""
    if warned.any():
        found[warned.argmax()] = np.nan
    return found


_OF_SETS = {"average", "pos_label", "labels", "zero_division"}
# Functions, and the parameters that they support.
_SCORES: dict[str, tuple[Callable[..., Float | None], set[str]]] = {
    "balanced_accuracy_score": (_balanced, {"adjusted"}),
    "matthews_corrcoef": (_correlation, set()),
    "cohen_kappa_score": (_agreement, {"weights", "replace_undefined_by"}),
    "precision_score": (_of_sets, _OF_SETS),
    "recall_score": (_of_sets, _OF_SETS),
    "f1_score": (_of_sets, _OF_SETS),
    "fbeta_score": (_of_sets, _OF_SETS | {"beta"}),
    "jaccard_score": (_of_sets, _OF_SETS),
}
