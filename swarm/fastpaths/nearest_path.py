"""Fast path of k nearest neighbours: squared distances are sums, see :mod:`.neighbours`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swarm.arrays import Bool, Float, Int
from swarm.fastpaths.costs import FoldCosts, errors_are_rounding, magnifies_rounding
from swarm.fastpaths.device import Device, NeighboursOnDevice
from swarm.fastpaths.metrics import takes_labels
from swarm.fastpaths.neighbours import largest_squares, rounding_of, widened
from swarm.fastpaths.path_result import PathResult
from swarm.fastpaths.tables import (
    Chosen,
    FoldTable,
    chosen_columns,
    fold_tables,
    membership,
    scales_are_exact,
)
from swarm.fastpaths.ties import Ties, mean_of, most_votes, ties_of
from swarm.fastpaths.trees import queries_tree
from swarm.fastpaths.votes import count_votes, neighbours_of, vote, weighted_vote
from swarm.problem.problem import Problem

__all__ = ["NearestPath", "nearest_path"]

# Highest relative error of a squared distance that is used as a weight.
_MARGIN = 1e-9


@dataclass(frozen=True)
class NearestPath:
    """Costs of scikit-learn's k-nearest-neighbour models without fitting them.

    Attributes
    ----------
    problem : Problem
    model : KNeighborsClassifier or KNeighborsRegressor
    tables : list of FoldTable
    largest : list of float64 (n_columns,)
        See :func:`.neighbours.largest_squares`.
    belongs : bool (n_units, n_columns)
    classes : (n_classes,) or None
        None for regression.
    codes : list of int (n_train,)
        Classes of the training rows of each fold.
    k : int
    weighted : bool
        Whether neighbours are weighted by the inverse of their distance.
    ties : Ties
    fold_costs : FoldCosts
    on_device : list of NeighboursOnDevice, or None
        What counts votes, up to rounding, for each fold; None for the CPU.
    """

    problem: Problem
    model: Any
    tables: list[FoldTable]
    largest: list[Float]
    belongs: Bool
    classes: NDArray[Any] | None
    codes: list[Int]
    k: int
    weighted: bool
    ties: Ties
    fold_costs: FoldCosts
    on_device: list[NeighboursOnDevice] | None = None

    def answers(self, masks: Bool) -> PathResult:
        """Evaluate masks on every fold, see :class:`.choose.ExactPath`."""
        chosen = chosen_columns(masks, self.belongs)
        costs = np.full((len(masks), len(self.tables)), np.nan)
        for fold in range(len(self.tables)):
            if self.classes is None:
                predicted, sure = self._numbers(chosen, fold)
                sure &= ~errors_are_rounding(predicted, self.fold_costs.truth[fold])
                costs[sure, fold] = self.fold_costs.of_numbers(predicted[sure], fold)
            elif takes_labels(self.problem.scoring):
                labels, sure = self._labels(chosen, fold)
                costs[sure, fold] = self.fold_costs.of_codes(labels[sure], fold)
            else:
                shares, sure = self._shares(chosen, fold)
                costs[sure, fold] = self.fold_costs.of_probabilities(shares[:, sure], fold)
        return PathResult(costs)

    def _labels(self, chosen: Chosen, fold: int) -> tuple[Int, Bool]:
        """Return classes (n, n_test), and which masks have no doubtful one: bool (n,)."""
        assert self.classes is not None
        table, n = self.tables[fold], len(chosen.pointers) - 1
        labels = np.full((n, table.test.shape[1]), -1)
        if self.on_device is not None:
            votes = self._votes_on_device(chosen, fold)
            labels = np.where(votes[0] < 0, -1, votes.argmax(axis=0))
        left = np.flatnonzero((labels < 0).any(axis=1))
        part, found_here = chosen.some(left), labels[left]
        decide = weighted_vote if self.weighted else vote
        rows = (table.test, table.train, self.largest[fold])
        given = (self.codes[fold], len(self.classes))
        decide(*rows, *given, part.pointers, part.columns, self.k, found_here)
        labels[left] = found_here
        for m in np.flatnonzero((labels < 0).any(axis=1)).tolist():
            open_ = np.flatnonzero(labels[m] < 0)
            if (found := self.ties.neighbours(table, fold, chosen.of(m), open_)) is not None:
                who, weight = found
                labels[m, open_] = most_votes(self.codes[fold][who], weight, len(self.classes))
        sure: Bool = np.all(labels >= 0, axis=1)
        return labels, sure

    def _shares(self, chosen: Chosen, fold: int) -> tuple[Float, Bool]:
        """Return the share of each class among the neighbours: float64 (n_classes, n, n_test).

        Also which masks have no doubtful one: bool (n,).
        """
        assert self.classes is not None
        table, n, n_classes = self.tables[fold], len(chosen.pointers) - 1, len(self.classes)
        votes = np.full((n_classes, n, table.test.shape[1]), -1)
        if self.on_device is not None:
            votes = self._votes_on_device(chosen, fold)
        left = np.flatnonzero((votes[0] < 0).any(axis=1))
        part, found_here = chosen.some(left), np.ascontiguousarray(votes[:, left])
        rows = (table.test, table.train, self.largest[fold], self.codes[fold])
        count_votes(*rows, part.pointers, part.columns, self.k, found_here)
        votes[:, left] = found_here
        for m in np.flatnonzero((votes[0] < 0).any(axis=1)).tolist():
            open_ = np.flatnonzero(votes[0, m] < 0)
            if (found := self.ties.neighbours(table, fold, chosen.of(m), open_)) is not None:
                near = self.codes[fold][found[0]]
                for label in range(n_classes):
                    votes[label, m, open_] = (near == label).sum(axis=1)
        sure: Bool = np.all(votes[0] >= 0, axis=1)
        return votes / self.k, sure

    def _votes_on_device(self, chosen: Chosen, fold: int) -> Int:
        """Return the votes for each class: int (n_classes, n, n_test), -1 where doubtful."""
        assert self.on_device is not None
        return self.on_device[fold].votes(chosen.flags(len(self.largest[fold])))

    def _numbers(self, chosen: Chosen, fold: int) -> tuple[Float, Bool]:
        table, n = self.tables[fold], len(chosen.pointers) - 1
        shape = (n, table.test.shape[1], self.k)
        who, distance = np.empty(shape, dtype=np.int64), np.empty(shape)
        sure = np.empty(n, dtype=bool)
        given = (chosen.pointers, chosen.columns, self.k, who, distance, sure)
        neighbours_of(table.test, table.train, self.largest[fold], *given)
        if self.weighted:
            sure &= self._weights_are_sure(chosen, distance, table, fold)
            weight = 1.0 / np.where(distance > 0, distance, 1.0)
        target = table.train_target.astype(np.float64)
        numbers = np.empty(shape[:2])
        rows = np.arange(shape[1])
        for m in range(n):
            if sure[m]:
                numbers[m] = mean_of(target[who[m]], weight[m] if self.weighted else None)
            elif (found := self.ties.neighbours(table, fold, chosen.of(m), rows)) is not None:
                numbers[m], sure[m] = mean_of(target[found[0]], found[1]), True
        return numbers, sure

    def _weights_are_sure(
        self, chosen: Chosen, distance: Float, table: FoldTable, fold: int
    ) -> Bool:
        """Whether the inverse distances of a mask are those of a model: bool (n,).

        With brute force, the model loses digits of small distances, and thus of large weights.
        """
        sure: Bool = np.all(distance > 0, axis=(1, 2))
        for m in np.flatnonzero(sure).tolist():
            columns = chosen.of(m)
            if not queries_tree(self.model, table.train.shape[1], len(columns)):
                tolerance = rounding_of(self.largest[fold], columns)
                sure[m] = tolerance < _MARGIN * float(distance[m].min()) ** 2
        return sure


def nearest_path(
    problem: Problem, model: Any, device: Device | None
) -> tuple[NearestPath | None, str]:
    """Prepare the folds, or return the reason why models are fitted."""
    name = type(model).__name__
    euclidean = model.metric == "euclidean" or (model.metric == "minkowski" and model.p == 2)
    if not euclidean or model.metric_params is not None:
        return None, f"{name} does not use the Euclidean distance"
    if model.weights not in ("uniform", "distance"):
        return None, f"{name} has custom weights"
    if problem.target.ndim > 1:
        return None, f"{name} predicts several columns"
    weighted = model.weights == "distance"
    if weighted and not takes_labels(problem.scoring):
        return None, f"{name} has weighted probabilities"
    if weighted and magnifies_rounding(problem.scoring):
        return None, f"{problem.scoring.name!r} magnifies the rounding of {name}"
    tables = fold_tables(problem)
    if any(model.n_neighbors >= table.train.shape[1] for table in tables):
        return None, f"{name} has as many neighbours as there are rows"
    if hasattr(model, "classes_") or "Classifier" in name:
        classes = np.unique(problem.target)
        codes = [np.searchsorted(classes, table.train_target) for table in tables]
    else:
        classes, codes = None, []
    largest = [largest_squares(table.test, table.train) for table in tables]
    if not scales_are_exact(problem):
        n_train = [table.train.shape[1] for table in tables]
        largest = list(map(widened, largest, n_train))
    belongs, k = membership(problem), int(model.n_neighbors)
    ties = ties_of(problem, model, tables, largest)
    costs = FoldCosts(problem, classes)
    given = (tables, largest, belongs, classes, codes, k, weighted, ties, costs)
    on_device = None
    if device is not None and classes is not None:
        on_device = [
            NeighboursOnDevice(device, table.test, table.train, own, len(classes), k, bound)
            for table, own, bound in zip(tables, codes, largest, strict=True)
        ]
    path = NearestPath(problem, model, *given, on_device)
    return path, "squared distances of nearest neighbours are sums over features"
