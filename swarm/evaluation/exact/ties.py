"""Which of equally distant rows are neighbours where scikit-learn measures all distances.

Whole numbers have exact distances, so what scikit-learn picks follows from the way it looks
through them. Numbers of the type float64 it passes one after the other to a heap of k; tables
of integers it parts by :func:`numpy.argpartition`. Weights other than uniform are left out: the
order of their sum would matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from swarm.evaluation.exact.neighbours import reference
from swarm.evaluation.exact.tables import FoldTable
from swarm.evaluation.exact.whole import Trust, sums_are_exact, whole_columns
from swarm.evaluation.threads import one_thread
from swarm.problem import Problem

__all__ = ["Ties", "most_votes", "ties_of"]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]

# Distances that are kept at a time, 8 MiB.
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Ties:
    """Neighbours among rows that tie, as the estimator of a problem picks them.

    Attributes
    ----------
    problem : Problem
    k : int
    largest, whole : list of (n_columns,), one a fold
        See :func:`.whole.sums_are_exact`.
    kinds : list (n_columns,)
        Types of the columns.
    trust : dict of str to Trust
        One for either way of looking through distances.
    """

    problem: Problem
    k: int
    largest: list[Float]
    whole: list[Bool]
    kinds: list[Any]
    trust: dict[str, Trust] = field(default_factory=lambda: {"heap": Trust(), "parted": Trust()})

    def settled(self, table: FoldTable, fold: int, columns: Int, rows: Int) -> Int | None:
        """Neighbours (n_rows, k) of some test rows in no order, None where that is not to know."""
        if not sums_are_exact(self.whole[fold], self.largest[fold], columns):
            return None
        way = self._way(columns)
        if way is None or self.trust[way].broken:
            return None
        there = reference(table.train, columns)
        here = np.ones((len(rows), len(columns) + 1))
        here[:, :-1] = table.test[np.ix_(columns, rows)].T
        who = np.empty((len(rows), self.k), dtype=np.int64)
        step = max(1, _CHUNK // there.shape[1])
        for start in range(0, len(rows), step):
            distance = here[start : start + step] @ there
            part = who[start : start + step]
            if way == "heap":
                first_come(distance, part)
            else:
                part[:] = np.argpartition(distance, self.k - 1, axis=1)[:, : self.k]
        agrees = self.trust[way].holds(
            len(rows), lambda: self._model_agrees(fold, columns, rows, who)
        )
        return who if agrees else None

    def _way(self, columns: Int) -> str | None:
        """How the model would look through distances over these columns, by their type."""
        kinds = {self.kinds[j] for j in columns.tolist()}
        if not all(isinstance(kind, np.dtype) and kind != np.uint64 for kind in kinds):
            return None
        kind = np.result_type(*kinds)
        if kind == np.float64:
            return "heap"
        if kind.kind not in "iu":
            return None
        return "heap" if len(_steps(self.problem.estimator)) > 1 else "parted"

    def _model_agrees(self, fold: int, columns: Int, rows: Int, who: Int) -> bool:
        """Whether a fitted model has the same neighbours."""
        from sklearn.base import clone

        features = self.problem.features.iloc[:, columns.tolist()]
        train, test = self.problem.folds[fold]
        asked = features.iloc[test[rows]]
        # The limit of OpenMP is one of the thread that sets it.
        with one_thread():
            try:
                model = clone(self.problem.estimator)
                model.fit(features.iloc[train], self.problem.target[train])
                for _, step in _steps(model)[:-1]:
                    asked = step.transform(asked)
                last = _steps(model)[-1][1] if _steps(model) else model
                told = last.kneighbors(asked, return_distance=False)
            except (TypeError, ValueError):
                # A model that cannot be asked confirms nothing.
                return False
        return np.array_equal(np.sort(told, axis=1), np.sort(who, axis=1))


def ties_of(problem: Problem, model: Any, tables: list[FoldTable], largest: list[Float]) -> Ties:
    """Look for the columns of whole numbers in each fold."""
    whole = [whole_columns(table.test, table.train) for table in tables]
    kinds = problem.features.dtypes.tolist()
    return Ties(problem, int(model.n_neighbors), largest, whole, kinds)


def most_votes(codes: Int, n_classes: int) -> Int:
    """Classes (n_rows,) that most of the neighbours (n_rows, k) have, the first of equal ones."""
    votes = [(codes == label).sum(axis=1) for label in range(n_classes)]
    first: Int = np.argmax(votes, axis=0)
    return first


def _steps(estimator: Any) -> list[tuple[str, Any]]:
    return getattr(estimator, "steps", None) or []


@njit(nogil=True, cache=True)
def first_come(distance: Float, who: Int) -> None:  # pragma: no cover
    """Pass the distances of each row to a heap that keeps the k smallest.

    What is not below the largest kept is passed over. Otherwise the largest, at the top, gives
    way, and the newcomer sinks below whatever is larger: of two larger children that are alike
    the left one rises.

    Parameters
    ----------
    distance : float64 (n_rows, n_train)
    who : int (n_rows, k)
        Receives the numbers of those that are kept, in the order of the heap.
    """
    k = who.shape[1]
    kept = np.empty(k)
    for row in range(len(distance)):
        numbers = who[row]
        kept[:] = np.inf
        numbers[:] = -1
        for i in range(distance.shape[1]):
            value = distance[row, i]
            if value >= kept[0]:
                continue
            place = 0
            while 2 * place + 1 < k:
                child = 2 * place + 1
                if child + 1 < k and kept[child + 1] > kept[child]:
                    child += 1
                if kept[child] <= value:
                    break
                kept[place], numbers[place] = kept[child], numbers[child]
                place = child
            kept[place], numbers[place] = value, i
