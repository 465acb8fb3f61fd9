"""Fast path of ML-kNN: neighbours of all test and training rows, without a model.

Distances between rows are the same in every fold. Therefore, they are computed once, and each fold
takes its training rows from the sorted neighbours of a row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from swarm.arrays import Bool, Float, Int
from swarm.fastpaths.choose import PathResult
from swarm.fastpaths.costs import FoldCosts
from swarm.fastpaths.neighbours import (
    ROWS,
    Trust,
    largest_squares,
    queries,
    reference,
    rounding_of,
    scratch_for,
    smallest,
    sums_are_exact,
    whole_columns,
)
from swarm.fastpaths.tables import (
    chosen_columns,
    fitted_on,
    fold_tables,
    membership,
    scales_are_exact,
)
from swarm.multilabel import label_evidence
from swarm.problem.models import steps_before
from swarm.problem.problem import Problem

Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]

# A count is stored in a byte.
_MOST_NEIGHBOURS = 255
# A tolerance below every difference of distances.
_NO_DOUBT = -1.0


@dataclass(frozen=True)
class _Rows:
    """Folds with the same values: all folds, or a single one if earlier steps scale the data."""

    folds: list[int]
    rows: Float  # (n_columns, n_rows), every row of the data; zeros if the folds do not use it
    largest: Float  # (n_columns,)
    # (n_columns,), integer columns, if the training rows of every fold are in order: ties are then
    # broken by this order, as in the model
    whole: Bool
    trained: Bool  # (n_folds, n_rows), see _count_labels
    asked: Bool  # (n_folds, n_rows)


class MultiLabelPath:
    """Costs of :class:`swarm.multilabel.MLkNN` by compiled distances."""

    def __init__(self, problem: Problem, model: Any) -> None:
        self.trust = Trust()
        self._problem, self._belongs = problem, membership(problem)
        self._k, self._smoothing = int(model.n_neighbors), float(model.smoothing)
        self._labels = problem.target.astype(np.int64)
        self._costs = FoldCosts(problem, np.array([0, 1]))
        self._parts = []
        if not steps_before(problem.estimator):
            values = problem.features.to_numpy(dtype=np.float64)
            every = list(range(problem.n_folds))
            self._parts = [_rows(problem, every, np.ascontiguousarray(values.T))]
        else:
            for fold, table in enumerate(fold_tables(problem)):
                train, test = problem.folds[fold]
                rows = np.zeros((problem.space.n_columns, len(problem.target)))
                rows[:, train], rows[:, test] = table.train, table.test
                self._parts.append(_rows(problem, [fold], rows))

    def answers(self, masks: Bool) -> PathResult:
        """Evaluate masks on every fold, see :class:`.choose.ExactPath`."""
        chosen = chosen_columns(masks, self._belongs)
        words, n_labels = _packed(self._labels), self._labels.shape[1]
        costs = np.full((len(masks), self._problem.n_folds), np.nan)
        predicted = [
            np.empty((len(masks), len(test), n_labels), dtype=np.int64)
            for _, test in self._problem.folds
        ]
        sure = np.empty(costs.shape, dtype=bool)
        for part in self._parts:
            counts = np.empty((len(part.folds), *words.shape), dtype=np.uint64)
            told = counts.view(np.uint8)
            certain = np.empty(len(part.folds), dtype=bool)
            for m in range(len(masks)):
                columns = chosen.of(m)
                exact = sums_are_exact(part.whole, part.largest, columns)
                trusted = exact and self.trust.earned
                tolerance = _NO_DOUBT if trusted else rounding_of(part.largest, columns)
                which = (words, part.trained, part.asked)
                _count_labels(part.rows, columns, *which, self._k, tolerance, counts, certain)
                for place, fold in enumerate(part.folds):
                    here = self._predicted(told[place], fold)
                    predicted[fold][m] = here
                    sure[m, fold] = certain[place] or (exact and self._holds(columns, fold, here))
        for fold, found in enumerate(predicted):
            known = sure[:, fold]
            if known.any():
                costs[known, fold] = self._costs.of_labels(found[known], fold)
        return PathResult(costs)

    def _holds(self, columns: Int, fold: int, predicted: Int) -> bool:
        """Whether to trust predictions that depend on tie-breaking."""

        def agrees() -> bool:
            model, tested = fitted_on(self._problem, columns, fold)
            return np.array_equal(model.predict(tested), predicted)

        return self.trust.holds(len(predicted), agrees)

    def _predicted(self, counts: Bytes, fold: int) -> Int:
        """Predict the test rows from counts (n_rows, at least n_labels)."""
        (train, test), n_labels = self._problem.folds[fold], self._labels.shape[1]
        seen = np.zeros((2, self._k + 1, n_labels), dtype=np.int64)
        _tally(counts, self._labels, train, seen)
        having, missing = label_evidence(seen[1], seen[0], self._smoothing)
        decision = (having > missing).astype(np.int64)
        return np.take_along_axis(decision, counts[test, :n_labels].astype(np.int64), axis=0)


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


def _rows(problem: Problem, folds: list[int], rows: Float) -> _Rows:
    trained = np.zeros((len(folds), rows.shape[1]), dtype=bool)
    asked = np.zeros_like(trained)
    for place, fold in enumerate(folds):
        train, test = problem.folds[fold]
        trained[place, train] = True
        asked[place, train] = asked[place, test] = True
    ordered = all((np.diff(problem.folds[fold][0]) > 0).all() for fold in folds)
    exact = scales_are_exact(problem)
    whole = whole_columns(rows) & ordered & exact
    return _Rows(folds, rows, largest_squares(rows, rows, exact), whole, trained, asked)


def _packed(labels: Int) -> Words:
    """Pack eight labels of a row into a word, so that one sum counts eight: (n_rows, n_words)."""
    n_rows, n_labels = labels.shape
    bytes_ = np.zeros((n_rows, -(-n_labels // 8) * 8), dtype=np.uint8)
    bytes_[:, :n_labels] = labels
    return bytes_.view(np.uint64)


@njit(nogil=True, cache=True)
def _count_labels(
    rows: Float,  # (n_columns, n_rows)
    columns: Int,  # (n_chosen,)
    labels: Words,  # (n_rows, n_words), see _packed
    trained: Bool,  # (n_folds, n_rows), training rows of each fold
    asked: Bool,  # (n_folds, n_rows), rows whose neighbours are needed
    k: int,
    tolerance: float,  # bound on the rounding error of a squared distance
    counts: Words,  # output (n_folds, n_rows, n_words), eight labels per word
    sure: Bool,  # output (n_folds,), whether rounding cannot change the counts
) -> None:  # pragma: no cover
    """Count how many of the `k` nearest other training rows of every row have each label."""
    n_folds, n_rows = trained.shape
    # So many that k + 1 of them are training rows, but for three standard deviations of a random
    # draw; where they are not, all rows are examined.
    share = trained.sum() / trained.size
    size = min(n_rows, math.ceil((k + 1 + 3.0 * math.sqrt((k + 1) * (1.0 - share))) / share))
    block, masked = np.empty((ROWS, n_rows)), np.empty(n_rows)
    best, who = np.empty(size), np.empty(size, np.int64)
    least, lying = np.empty(k + 2), np.empty(k + 2, np.int64)
    scratch, there = scratch_for(n_rows), reference(rows, columns)
    sure[:] = True
    for row in range(n_rows):
        if row % ROWS == 0:
            here = queries(rows, columns, row, min(row + ROWS, n_rows))
            np.dot(here, there, block[: len(here)])
        work = block[row % ROWS]
        work[row] = np.inf
        smallest(work, size - 1, best, who, scratch)
        for fold in range(n_folds):
            if not asked[fold, row]:
                continue
            own = counts[fold, row]
            taken, bound, last = _take(best, who, trained[fold], labels, k, own)
            if taken <= k:
                for i in range(n_rows):
                    masked[i] = work[i] if trained[fold, i] else np.inf
                smallest(masked, k, least[: k + 1], lying[: k + 1], scratch)
                taken, bound, last = _take(
                    least[: k + 1], lying[: k + 1], trained[fold], labels, k, own
                )
            if last - bound <= tolerance:
                sure[fold] = sure[fold] and _alike(work, bound, tolerance, labels, trained[fold])


@njit(nogil=True, cache=True)
def _tally(counts: Bytes, labels: Int, rows: Int, seen: Int) -> None:  # pragma: no cover
    """Count rows with and without each label by neighbours with it: `seen` (2, k + 1, n_labels)."""
    for row in rows:
        for label in range(labels.shape[1]):
            seen[labels[row, label], counts[row, label], label] += 1


@njit(nogil=True, cache=True)
def _take(
    best: Float, who: Int, trained: Bool, labels: Words, k: int, counts: Words
) -> tuple[int, float, float]:  # pragma: no cover
    """Count labels of the first `k` training rows into `counts`."""
    # Returns the number of training rows, up to k + 1, and the distances of the k-th and the next.
    taken, bound, last = 0, 0.0, np.inf
    n_words = len(counts)
    for word in range(n_words):
        counts[word] = 0
    for place in range(len(best)):
        other = who[place]
        if other < 0 or not trained[other]:
            continue
        taken += 1
        if taken > k:
            last = best[place]
            break
        bound = best[place]
        for word in range(n_words):
            counts[word] += labels[other, word]
    return taken, bound, last


@njit(nogil=True, cache=True)
def _alike(
    work: Float, bound: float, tolerance: float, labels: Words, trained: Bool
) -> bool:  # pragma: no cover
    """Whether all training rows that could be the k-th nearest have the same labels."""
    first = -1
    for i in range(len(work)):
        if not trained[i] or abs(work[i] - bound) > tolerance:
            continue
        if first < 0:
            first = i
        elif (labels[i] != labels[first]).any():
            return False
    return True
