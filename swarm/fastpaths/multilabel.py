"""Fast path of ML-kNN: neighbours of all test and training rows, without a model.

Distances between rows are the same in every fold. Therefore, they are computed once, and each fold
takes its training rows from the sorted neighbours of a row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from swarm.arrays import Bool, Float, Int
from swarm.fastpaths.choose import PathResult
from swarm.fastpaths.costs import FoldCosts
from swarm.fastpaths.neighbours import (
    FoldRows,
    Trust,
    Words,
    count_labels,
    largest_squares,
    sums_are_exact,
    whole_columns,
)
from swarm.fastpaths.tables import chosen_columns, fit_on, fold_tables, scales_are_exact
from swarm.multilabel import MLkNN, label_evidence
from swarm.problem.models import steps_before
from swarm.problem.problem import Problem

Bytes = NDArray[np.uint8]

# A count is stored in a byte.
_MAX_NEIGHBOURS = 255


@dataclass(frozen=True)
class _FoldGroup:
    """Folds with the same values: all folds, or a single one if earlier steps scale the data.

    `whole` (n_columns,) marks columns of integers if the training rows of every fold are in order:
    ties are then broken by this order, as in the model.
    """

    folds: list[int]
    rows: FoldRows
    whole: Bool


class MultiLabelPath:
    """Costs of :class:`swarm.multilabel.MLkNN` by compiled distances."""

    def __init__(self, problem: Problem, model: MLkNN) -> None:
        self.trust = Trust()
        self._problem = problem
        self._k = int(model.n_neighbors)
        self._smoothing = float(model.smoothing)
        self._labels = problem.target.astype(np.int64)
        self._costs = FoldCosts(problem, np.array([0, 1]))
        self._groups = []
        if not steps_before(problem.estimator):
            values = problem.features.to_numpy(dtype=np.float64)
            all_folds = list(range(problem.n_folds))
            self._groups = [_fold_group(problem, all_folds, np.ascontiguousarray(values.T))]
        else:
            for fold, table in enumerate(fold_tables(problem)):
                train, test = problem.folds[fold]
                rows = np.zeros((problem.space.n_columns, len(problem.target)))
                rows[:, train] = table.train
                rows[:, test] = table.test
                self._groups.append(_fold_group(problem, [fold], rows))

    def evaluate(self, masks: Bool, folds: Sequence[int]) -> PathResult:
        """Evaluate masks on all folds that share values, see :class:`.choose.ExactPath`."""
        chosen = chosen_columns(self._problem, masks)
        n_labels = self._labels.shape[1]
        costs = np.full((len(masks), self._problem.n_folds), np.nan)
        predicted = [
            np.empty((len(masks), len(test), n_labels), dtype=np.int64)
            for _, test in self._problem.folds
        ]
        is_certain = np.zeros(costs.shape, dtype=bool)
        for group in self._groups:
            if not set(group.folds) & set(folds):
                continue
            for m in range(len(masks)):
                columns = chosen.of(m)
                is_exact = sums_are_exact(group.whole, group.rows.largest, columns)
                ties_by_row = is_exact and self.trust.earned
                words, folds_are_certain = count_labels(group.rows, columns, self._k, ties_by_row)
                counts = words.view(np.uint8)
                decisions = self._decisions(counts, group.folds)
                for i, fold in enumerate(group.folds):
                    labels = predicted[fold][m]
                    _, test = self._problem.folds[fold]
                    _look_up(counts[:, i], test, decisions[:, i], labels)
                    is_certain[m, fold] = folds_are_certain[i] or (
                        is_exact and self._are_trusted(labels, columns, fold)
                    )
        for fold, labels in enumerate(predicted):
            rows = is_certain[:, fold]
            if rows.any():
                costs[rows, fold] = self._costs.of_labels(labels[rows], fold)
        return PathResult(costs)

    def _are_trusted(self, labels: Int, columns: Int, fold: int) -> bool:
        """Whether to trust predicted labels that depend on tie-breaking."""

        def agrees() -> bool:
            model, test_rows = fit_on(self._problem, columns, fold)
            return np.array_equal(model.predict(test_rows), labels)

        return self.trust.holds(len(labels), agrees)

    def _decisions(self, counts: Bytes, folds: Sequence[int]) -> Int:
        """Decide on labels from counts (n_rows, n_folds, _): int (k + 1, n_folds, n_labels)."""
        n_rows = np.zeros((2, self._k + 1, len(folds), self._labels.shape[1]), dtype=np.int64)
        for i, fold in enumerate(folds):
            train, _ = self._problem.folds[fold]
            _count_rows(counts[:, i], self._labels, train, n_rows[:, :, i])
        with_label, without_label = label_evidence(n_rows[1], n_rows[0], self._smoothing)
        return (with_label > without_label).astype(np.int64)


def path_of(problem: Problem, model: MLkNN) -> tuple[MultiLabelPath | None, str]:
    """Prepare the rows, or return the reason why models are fitted."""
    if model.n_neighbors > _MAX_NEIGHBOURS:
        return None, f"MLkNN has more than {_MAX_NEIGHBOURS} neighbours"
    for train, test in problem.folds:
        if model.n_neighbors >= len(train) - 1:
            return None, "MLkNN has as many neighbours as there are rows"
        if len(np.unique(np.concatenate([train, test]))) < len(train) + len(test):
            return None, "a fold contains a row twice"
    path = MultiLabelPath(problem, model)
    return path, "squared distances of nearest neighbours are sums over features"


def _fold_group(problem: Problem, folds: list[int], table: Float) -> _FoldGroup:
    is_train = np.zeros((len(folds), table.shape[1]), dtype=bool)
    is_query = np.zeros_like(is_train)
    for i, fold in enumerate(folds):
        train, test = problem.folds[fold]
        is_train[i, train] = True
        is_query[i, train] = True
        is_query[i, test] = True
    is_ordered = all((np.diff(problem.folds[fold][0]) > 0).all() for fold in folds)
    is_exact = scales_are_exact(problem)
    rows = FoldRows(
        table,
        largest_squares(table, table, is_exact),
        _pack(problem.target),
        groups=np.unique(problem.target, axis=0, return_inverse=True)[1].reshape(-1),
        is_query=is_query,
        is_train=is_train,
        pointers=np.append(0, np.cumsum((~is_train).sum(axis=0))),
        left_out=np.nonzero(~is_train.T)[1],
    )
    return _FoldGroup(folds, rows, whole_columns(table) & is_ordered & is_exact)


def _pack(labels: Int) -> Words:
    """Pack eight labels of a row into a word, so that one sum counts eight: (n_rows, n_words)."""
    n_rows, n_labels = labels.shape
    padded = np.zeros((n_rows, -(-n_labels // 8) * 8), dtype=np.uint8)
    padded[:, :n_labels] = labels
    return padded.view(np.uint64)


@njit(nogil=True, cache=True)
def _count_rows(counts: Bytes, labels: Int, rows: Int, n_rows: Int) -> None:  # pragma: no cover
    """Add rows with and without a label by neighbours with it to `n_rows` (2, k + 1, n_labels)."""
    for row in rows:
        for label in range(labels.shape[1]):
            n_rows[labels[row, label], counts[row, label], label] += 1


@njit(nogil=True, cache=True)
def _look_up(counts: Bytes, rows: Int, decisions: Int, labels: Int) -> None:  # pragma: no cover
    """Fill in labels (n, n_labels) of rows by their counts, see :meth:`_decisions`."""
    for i in range(len(rows)):
        for label in range(labels.shape[1]):
            labels[i, label] = decisions[counts[rows[i], label], label]
