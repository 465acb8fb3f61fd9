"""Scores of predicted probabilities for many masks.

The operations and their order are those of scikit-learn, so that scores are bit-identical.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numba import njit

from swarm.arrays import Bool, Float, Int
from swarm.fastpaths.metrics import Metric
from swarm.fastpaths.pairwise import pairwise_sum

__all__ = ["areas_under_curves", "probability_scores"]


def probability_scores(
    metric: Metric, probabilities: Float, truth: Int, *, named: bool
) -> Float | None:
    """Return the scores of probabilities (n_classes, n, n_test): float64 (n,).

    None if the metric or a parameter is not supported.

    Parameters
    ----------
    truth : int (n_test,)
        Classes of the test rows; every class has some.
    named : bool
        Whether classes are strings.
    """
    kwargs = dict(metric.kwargs)
    if metric.name == "log_loss" and not kwargs:
        return _log_losses(probabilities, truth)
    # Without a positive class, scikit-learn refuses the Brier score of strings.
    if metric.name == "brier_score_loss" and not kwargs and not (named and len(probabilities) == 2):
        return _brier(probabilities, truth)
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
        own = np.where(truth == 1, positive, 1 - positive)
    else:
        own = probabilities[truth, :, np.arange(len(truth))].T
    eps = np.finfo(np.float64).eps
    losses = -xlogy(1.0, np.clip(own, eps, 1 - eps))
    found: Float = np.ascontiguousarray(losses).mean(axis=1)
    return found


def _brier(probabilities: Float, truth: Int) -> Float:
    n_classes = len(probabilities)
    if n_classes == 2:
        positive = probabilities[1]
        squares = ((truth == 0) - (1 - positive)) ** 2 + ((truth == 1) - positive) ** 2
        halves: Float = squares.mean(axis=1) * 0.5
        return halves
    known = (truth[:, None] == np.arange(n_classes)) * 1.0
    errors = (known - np.ascontiguousarray(np.moveaxis(probabilities, 0, 2))) ** 2
    found: Float = errors.sum(axis=2).mean(axis=1)
    return found


def _one_against_rest(probabilities: Float, truth: Int, weighted: bool) -> Float:
    classes = range(len(probabilities))
    areas = np.stack([_area(probabilities[c], truth == c, truth != c) for c in classes], axis=1)
    share: Float = np.bincount(truth, minlength=len(probabilities)).astype(np.float64)
    return _averaged(areas, share if weighted else None)


def _one_against_one(probabilities: Float, truth: Int, weighted: bool) -> Float:
    areas, shares = [], []
    for a, b in combinations(range(len(probabilities)), 2):
        first, second = truth == a, truth == b
        ahead = _area(probabilities[a], first, second)
        areas.append((ahead + _area(probabilities[b], second, first)) / 2)
        shares.append(np.average(first | second))
    share: Float = np.array(shares, dtype=np.float64)
    return _averaged(np.stack(areas, axis=1), share if weighted else None)


def _averaged(values: Float, share: Float | None) -> Float:
    if share is None:
        means: Float = values.mean(axis=1)
        return means
    weighted: Float = (values * share).sum(axis=1) / share.sum()
    return weighted


def _area(scores: Float, positive: Bool, negative: Bool) -> Float:
    """Return the area under the ROC curve of scores (n, n_test): float64 (n,)."""
    found = np.empty(len(scores))
    above, below = scores[:, positive], scores[:, negative]
    above.sort(axis=1)
    below.sort(axis=1)
    areas_under_curves(above, below, found)
    return found


@njit(nogil=True, cache=True)
def areas_under_curves(positive: Float, negative: Float, areas: Float) -> None:  # pragma: no cover
    """Compute the area under the ROC curve of each mask.

    Parameters
    ----------
    positive : float64 (n, n_positive), negative : float64 (n, n_negative)
        Scores of the rows of either class, ascending.
    areas : float64 (n,)
        Output.
    """
    n_positive, n_negative = positive.shape[1], negative.shape[1]
    right, wrong = np.empty(n_positive + n_negative), np.empty(n_positive + n_negative)
    terms = np.empty(n_positive + n_negative)
    for m in range(len(areas)):
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
            terms[n_terms] = (ahead - x) * (above + y) / 2.0
            x, y = ahead, above
            n_terms += 1
        areas[m] = pairwise_sum(terms, n_terms)


@njit(nogil=True, cache=True)
def _is_straight(values: Float, place: int) -> bool:  # pragma: no cover
    return values[place + 1] - values[place] == values[place] - values[place - 1]  # type: ignore[no-any-return]
