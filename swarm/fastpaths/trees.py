"""Tie-breaking by scikit-learn's own trees."""

from __future__ import annotations

from typing import Any

import numpy as np

from swarm.arrays import Float

__all__ = ["inverse_distances", "queries_tree", "tree_of"]

# The largest number of columns for which ``algorithm="auto"`` builds a tree.
_MOST_COLUMNS = 15


def queries_tree(model: Any, n_rows: int, n_columns: int) -> bool:
    """Whether the estimator builds a tree; otherwise it uses brute force.

    Parameters
    ----------
    model : KNeighborsClassifier or KNeighborsRegressor
    n_rows, n_columns : int
        Shape of the training data.
    """
    if model.algorithm == "auto":
        return n_columns <= _MOST_COLUMNS and bool(model.n_neighbors < n_rows // 2)
    return bool(model.algorithm != "brute")


def tree_of(model: Any, train: Float) -> Any:
    """Build the tree of an estimator for which :func:`queries_tree` is true.

    Parameters
    ----------
    train : float64 (n_train, n_chosen)
        The tie-breaking of a query depends only on the tree, not on the other rows of the query.
    """
    from sklearn.neighbors import BallTree, KDTree

    kind = BallTree if model.algorithm == "ball_tree" else KDTree
    return kind(train, model.leaf_size, metric="euclidean")


def inverse_distances(distance: Float) -> Float:
    """Return ``1 / distance``; in rows with a distance 0, weights are 1 there and 0 elsewhere.

    Parameters
    ----------
    distance : float64 (n_rows, k)
    """
    touching = distance == 0
    weight = 1.0 / np.where(touching, 1.0, distance)
    some = touching.any(axis=1)
    weight[some] = touching[some]
    return weight
