"""k nearest neighbours: distances add up over features, see :mod:`.neighbours`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swarm.evaluation.exact.costs import costs_of
from swarm.evaluation.exact.neighbours import neighbours_of, vote, weighted_vote
from swarm.evaluation.exact.tables import FoldTable, fold_tables
from swarm.problem import Problem

__all__ = ["NearestPath", "nearest_path"]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]


@dataclass(frozen=True)
class NearestPath:
    """Costs of scikit-learn's k-nearest-neighbour models without any tree or model.

    Attributes
    ----------
    problem : Problem
    tables : list of FoldTable
    classes : (n_classes,) or None
        None for regression.
    codes : list of int (n_train,)
        Classes of the training rows of each fold.
    k : int
    weighted : bool
        Whether neighbours weigh by the inverse of their distance.
    """

    problem: Problem
    tables: list[FoldTable]
    classes: NDArray[Any] | None
    codes: list[NDArray[np.int64]]
    k: int
    weighted: bool

    def fold_costs(self, masks: Bool, fold: int) -> Float:
        """Cost of each mask on a fold: float64 (n,), NaN where rounding could change a label."""
        predicted, sure = self._predicted(masks, fold)
        costs = np.full(len(masks), np.nan)
        if sure.any():
            costs[sure] = costs_of(predicted[sure], self.problem, fold, self.classes)
        return costs

    def _predicted(self, masks: Bool, fold: int) -> tuple[NDArray[Any], Any]:
        """Predictions (n, n_test), and which masks have no doubtful one: bool (n,)."""
        if self.classes is None:
            return self._numbers(masks, fold)
        table = self.tables[fold]
        labels = np.empty((len(masks), table.test.shape[1]), dtype=np.int64)
        decide = weighted_vote if self.weighted else vote
        for row, mask in enumerate(masks):
            columns = np.array(self.problem.space.positions(mask), dtype=np.int64)
            codes, n_classes = self.codes[fold], len(self.classes)
            decide(table.test, table.train, codes, n_classes, columns, self.k, labels[row])
        return self.classes[labels], (labels >= 0).all(axis=1)

    def _numbers(self, masks: Bool, fold: int) -> tuple[Float, Bool]:
        table = self.tables[fold]
        n_test = table.test.shape[1]
        numbers = np.empty((len(masks), n_test))
        sure = np.empty(len(masks), dtype=bool)
        who, distance = np.empty((n_test, self.k), dtype=np.int64), np.empty((n_test, self.k))
        for row, mask in enumerate(masks):
            columns = np.array(self.problem.space.positions(mask), dtype=np.int64)
            sure[row] = neighbours_of(table.test, table.train, columns, self.k, who, distance)
            values = table.train_target[who].astype(np.float64)
            if not self.weighted:
                numbers[row] = values.mean(axis=1)
                continue
            sure[row] &= bool((distance > 0).all())
            weight = 1.0 / np.where(distance > 0, distance, 1.0)
            numbers[row] = (values * weight).sum(axis=1) / weight.sum(axis=1)
        return numbers, sure


def nearest_path(problem: Problem, model: Any) -> tuple[NearestPath | None, str]:
    """Prepare the folds, or say which setting needs a fitted model."""
    name = type(model).__name__
    euclidean = model.metric == "euclidean" or (model.metric == "minkowski" and model.p == 2)
    if not euclidean or model.metric_params is not None:
        return None, f"{name} does not use the Euclidean distance"
    if model.weights not in ("uniform", "distance"):
        return None, f"{name} has weights of its own"
    if problem.target.ndim > 1:
        return None, f"{name} predicts several columns"
    tables = fold_tables(problem)
    if any(model.n_neighbors >= table.train.shape[1] for table in tables):
        return None, f"{name} asks for as many neighbours as there are rows"
    if hasattr(model, "classes_") or "Classifier" in name:
        classes = np.unique(problem.target)
        codes = [np.searchsorted(classes, table.train_target) for table in tables]
    else:
        classes, codes = None, []
    weighted = model.weights == "distance"
    path = NearestPath(problem, tables, classes, codes, model.n_neighbors, weighted)
    return path, "squared distances of nearest neighbours add up over features"
