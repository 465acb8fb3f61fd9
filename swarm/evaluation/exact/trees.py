"""Neighbours that only scikit-learn's own trees can tell: rows that are equally far away."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["tree_labels", "tree_numbers", "tree_of"]

Float = NDArray[np.float64]

# Where the estimator is free to choose, it takes a tree for up to so many columns.
_MOST_COLUMNS = 15


def tree_of(model: Any, train: Float) -> Any | None:
    """Return the tree that the estimator would ask, or None where it measures all distances.

    Parameters
    ----------
    model : KNeighborsClassifier or KNeighborsRegressor
    train : float64 (n_train, n_chosen)
        Which of several rows at the same distance are found hangs on the tree alone, and not on
        the other rows that are asked for.
    """
    from sklearn.neighbors import BallTree, KDTree

    n_rows, n_columns = train.shape
    kind = model.algorithm
    if kind == "auto":
        small = n_columns <= _MOST_COLUMNS and model.n_neighbors < n_rows // 2
        kind = "kd_tree" if small else "brute"
    if kind == "brute":
        return None
    return {"kd_tree": KDTree, "ball_tree": BallTree}[kind](
        train, model.leaf_size, metric="euclidean"
    )


def tree_labels(
    tree: Any, rows: Float, codes: NDArray[np.int64], n_classes: int, k: int, weighted: bool
) -> NDArray[np.int64]:
    """Classes (n_rows,) of `rows` (n_rows, n_chosen), the first of those with as many votes."""
    distance, who = tree.query(rows, k)
    weight = _weights(distance) if weighted else np.ones_like(distance)
    given = codes[who]
    # Summed as scikit-learn sums them, so that shares that tie but for rounding tie alike.
    votes = [np.where(given == label, weight, 0.0).sum(axis=1) for label in range(n_classes)]
    first: NDArray[np.int64] = np.argmax(votes, axis=0)
    return first


def tree_numbers(tree: Any, rows: Float, target: Float, k: int, weighted: bool) -> Float:
    """Means (n_rows,) of the neighbours' targets (n_train,)."""
    distance, who = tree.query(rows, k)
    if not weighted:
        means: Float = target[who].mean(axis=1)
        return means
    weight = _weights(distance)
    numbers: Float = (target[who] * weight).sum(axis=1) / weight.sum(axis=1)
    return numbers


def _weights(distance: Float) -> Float:
    """One over the distance; rows at none leave the others without a say."""
    touching = distance == 0
    weight = 1.0 / np.where(touching, 1.0, distance)
    some = touching.any(axis=1)
    weight[some] = touching[some]
    return weight
