"""ML-kNN: neighbours of every row, test and training, without a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swarm.evaluation.exact.costs import costs_of
from swarm.evaluation.exact.neighbours import label_counts
from swarm.evaluation.exact.tables import FoldTable, fold_tables
from swarm.multilabel import label_evidence
from swarm.problem import Problem

__all__ = ["MultiLabelPath", "multilabel_path"]


@dataclass(frozen=True)
class MultiLabelPath:
    """Costs of :class:`swarm.multilabel.MLkNN` by compiled distances.

    Attributes
    ----------
    problem : Problem
    tables : list of FoldTable
    k : int
    smoothing : float
    """

    problem: Problem
    tables: list[FoldTable]
    k: int
    smoothing: float

    def fold_costs(self, masks: NDArray[np.bool_], fold: int) -> NDArray[np.float64]:
        """Cost of each mask on a fold: float64 (n,), NaN where rounding could change a label."""
        table = self.tables[fold]
        labels = table.train_target.astype(np.int64)
        learned = np.empty(labels.shape, dtype=np.int64)
        seen = np.empty((table.test.shape[1], labels.shape[1]), dtype=np.int64)
        predicted = np.empty((len(masks), *seen.shape), dtype=np.int64)
        sure = np.empty(len(masks), dtype=bool)
        for row, mask in enumerate(masks):
            columns = np.array(self.problem.space.positions(mask), dtype=np.int64)
            given = (labels, columns, self.k)
            sure[row] = label_counts(table.train, table.train, *given, True, learned)
            sure[row] &= label_counts(table.test, table.train, *given, False, seen)
            with_label, without = label_evidence(learned, labels, self.k, self.smoothing)
            predicted[row] = np.take_along_axis((with_label > without).astype(int), seen, axis=0)
        costs = np.full(len(masks), np.nan)
        if sure.any():
            classes = np.array([0, 1])
            costs[sure] = costs_of(predicted[sure], self.problem, fold, classes)
        return costs


def multilabel_path(problem: Problem, model: Any) -> tuple[MultiLabelPath | None, str]:
    """Prepare the folds, or say why the model has to be fitted."""
    tables = fold_tables(problem)
    if any(model.n_neighbors >= table.train.shape[1] - 1 for table in tables):
        return None, "MLkNN asks for as many neighbours as there are rows"
    path = MultiLabelPath(problem, tables, int(model.n_neighbors), float(model.smoothing))
    return path, "squared distances of nearest neighbours add up over features"
