"""Fast path of ML-kNN: neighbours of all test and training rows, without a model.

Distances between rows are the same in every fold. Therefore, they are computed once, and each fold
takes its training rows from the sorted neighbours of a row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
from swarm.fastpaths.tables import (
    chosen_columns,
    fitted_on,
    fold_tables,
    scales_are_exact,
)
from swarm.multilabel import label_evidence
from swarm.problem.models import steps_before
from swarm.problem.problem import Problem

Bytes = NDArray[np.uint8]

# A count is stored in a byte.
_MOST_NEIGHBOURS = 255


@dataclass(frozen=True)
class _Part:
    """Folds with the same values: all folds, or a single one if earlier steps scale the data."""

    folds: list[int]
    rows: FoldRows
    # (n_columns,), integer columns, if the training rows of every fold are in order: ties are then
    # broken by this order, as in the model
    whole: Bool


class MultiLabelPath:
    """Costs of :class:`swarm.multilabel.MLkNN` by compiled distances."""

    def __init__(self, problem: Problem, model: Any) -> None:
        self.trust = Trust()
        self._problem = problem
        self._k, self._smoothing = int(model.n_neighbors), float(model.smoothing)
        self._labels = problem.target.astype(np.int64)
        self._costs = FoldCosts(problem, np.array([0, 1]))
        self._parts = []
        if not steps_before(problem.estimator):
            values = problem.features.to_numpy(dtype=np.float64)
            every = list(range(problem.n_folds))
            self._parts = [_part(problem, every, np.ascontiguousarray(values.T))]
        else:
            for fold, table in enumerate(fold_tables(problem)):
                train, test = problem.folds[fold]
                rows = np.zeros((problem.space.n_columns, len(problem.target)))
                rows[:, train], rows[:, test] = table.train, table.test
                self._parts.append(_part(problem, [fold], rows))

    def answers(self, masks: Bool, folds: Sequence[int]) -> PathResult:
        """Evaluate masks on all folds that share values, see :class:`.choose.ExactPath`."""
        chosen = chosen_columns(self._problem, masks)
        n_labels = self._labels.shape[1]
        costs = np.full((len(masks), self._problem.n_folds), np.nan)
        predicted = [
            np.empty((len(masks), len(test), n_labels), dtype=np.int64)
            for _, test in self._problem.folds
        ]
        is_certain = np.zeros(costs.shape, dtype=bool)
        for part in self._parts:
            if not set(part.folds) & set(folds):
                continue
            for m in range(len(masks)):
                columns = chosen.of(m)
                exact = sums_are_exact(part.whole, part.rows.largest, columns)
                trusted = exact and self.trust.earned
                counted, certain = count_labels(part.rows, columns, self._k, trusted)
                counts = counted.view(np.uint8)
                decisions = self._decisions(counts, part.folds)
                for place, fold in enumerate(part.folds):
                    labels, test = predicted[fold][m], self._problem.folds[fold][1]
                    _look_up(counts[:, place], test, decisions[:, place], labels)
                    is_certain[m, fold] = certain[place] or (
                        exact and self._holds(columns, fold, labels)
                    )
        for fold, labels in enumerate(predicted):
            rows = is_certain[:, fold]
            if rows.any():
                costs[rows, fold] = self._costs.of_labels(labels[rows], fold)
        return PathResult(costs)

    def _holds(self, columns: Int, fold: int, predicted: Int) -> bool:
        """Whether to trust predictions that depend on tie-breaking."""

        def agrees() -> bool:
            model, tested = fitted_on(self._problem, columns, fold)
            return np.array_equal(model.predict(tested), predicted)

        return self.trust.holds(len(predicted), agrees)

    def _decisions(self, counts: Bytes, folds: Sequence[int]) -> Int:
        """Decide on labels from counts (n_rows, n_folds, _): int (k + 1, n_folds, n_labels)."""
        seen = np.zeros((2, self._k + 1, len(folds), self._labels.shape[1]), dtype=np.int64)
        for place, fold in enumerate(folds):
            train, _ = self._problem.folds[fold]
            _tally(counts[:, place], self._labels, train, seen[:, :, place])
        having, missing = label_evidence(seen[1], seen[0], self._smoothing)
        return (having > missing).astype(np.int64)


def path_of(problem: Problem, model: Any) -> tuple[MultiLabelPath | None, str]:
    """Prepare the rows, or return the reason why models are fitted."""
    if model.n_neighbors > _MOST_NEIGHBOURS:
        return None, f"MLkNN has more than {_MOST_NEIGHBOURS} neighbours"
    for train, test in problem.folds:
        if model.n_neighbors >= len(train) - 1:
            return None, "MLkNN has as many neighbours as there are rows"
        if len(np.unique(np.concatenate([train, test]))) < len(train) + len(test):
            return None, "a fold contains a row twice"
    path = MultiLabelPath(problem, model)
    return path, "squared distances of nearest neighbours are sums over features"


def _part(problem: Problem, folds: list[int], table: Float) -> _Part:
    is_train = np.zeros((len(folds), table.shape[1]), dtype=bool)
    is_query = np.zeros_like(is_train)
    for place, fold in enumerate(folds):
        train, test = problem.folds[fold]
        is_train[place, train] = True
        is_query[place, train] = is_query[place, test] = True
    ordered = all((np.diff(problem.folds[fold][0]) > 0).all() for fold in folds)
    exact = scales_are_exact(problem)
    rows = FoldRows(
        table,
        largest_squares(table, table, exact),
        _packed(problem.target),
        groups=np.unique(problem.target, axis=0, return_inverse=True)[1].reshape(-1),
        is_query=is_query,
        is_train=is_train,
        pointers=np.append(0, np.cumsum((~is_train).sum(axis=0))),
        left_out=np.nonzero(~is_train.T)[1],
    )
    return _Part(folds, rows, whole_columns(table) & ordered & exact)


def _packed(labels: Int) -> Words:
    """Pack eight labels of a row into a word, so that one sum counts eight: (n_rows, n_words)."""
    n_rows, n_labels = labels.shape
    bytes_ = np.zeros((n_rows, -(-n_labels // 8) * 8), dtype=np.uint8)
    bytes_[:, :n_labels] = labels
    return bytes_.view(np.uint64)


@njit(nogil=True, cache=True)
def _tally(counts: Bytes, labels: Int, rows: Int, n_rows: Int) -> None:  # pragma: no cover
    """Add rows with and without a label by neighbours with it to `n_rows` (2, k + 1, n_labels)."""
    for row in rows:
        for label in range(labels.shape[1]):
            n_rows[labels[row, label], counts[row, label], label] += 1


@njit(nogil=True, cache=True)
def _look_up(counts: Bytes, rows: Int, decisions: Int, labels: Int) -> None:  # pragma: no cover
    """Fill in labels (n, n_labels) of rows by their counts, see :meth:`_decisions`."""
    for place in range(len(rows)):
        for label in range(labels.shape[1]):
            labels[place, label] = decisions[counts[rows[place], label], label]
