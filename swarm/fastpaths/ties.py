"""Tie-breaking between equally distant rows as in scikit-learn.

Trees are queried directly, see :mod:`.trees`. With brute force, distances of integers are exact,
so that tie-breaking follows from the algorithm: float64 values go through a heap of size k, one
after the other, and integer tables through :func:`numpy.argpartition`. The first results are
compared with fitted models, see :class:`.whole.Trust`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit

from swarm.arrays import Bool, Float, Int
from swarm.fastpaths.neighbours import reference
from swarm.fastpaths.tables import FoldTable, scales_are_exact
from swarm.fastpaths.trees import inverse_distances, queries_tree, tree_of
from swarm.fastpaths.whole import Trust, sums_are_exact, whole_columns
from swarm.problem.models import steps_before
from swarm.problem.problem import Problem
from swarm.threads import one_thread

__all__ = ["Ties", "mean_of", "most_votes", "ties_of"]

# Elements of a chunk of distances, 8 MiB.
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Ties:
    """Neighbours among tied rows, as chosen by the estimator of a problem.

    Attributes
    ----------
    problem : Problem
    model : KNeighborsClassifier or KNeighborsRegressor
    exact_scales : bool
        See :func:`.tables.scales_are_exact`; if False, fitted models break all ties.
    largest, whole : list of (n_columns,), one per fold
        See :func:`.whole.sums_are_exact`.
    kinds : list (n_columns,)
        Dtypes of the columns.
    trust : dict of str to Trust
        One per algorithm.
    """

    problem: Problem
    model: Any
    exact_scales: bool
    largest: list[Float]
    whole: list[Bool]
    kinds: list[Any]
    trust: dict[str, Trust] = field(
        default_factory=lambda: {"tree": Trust(), "heap": Trust(), "parted": Trust()}
    )

    @property
    def k(self) -> int:
        """Number of neighbours."""
        return int(self.model.n_neighbors)

    def neighbours(
        self, table: FoldTable, fold: int, columns: Int, rows: Int
    ) -> tuple[Int, Float | None] | None:
        """Find the neighbours of some test rows as a fitted model does.

        Returns
        -------
        (int, float64) (n_rows, k) each, or None
            Neighbours in any order, and their weights unless uniform. None if only a fitted
            model can break the ties.
        """
        if not self.exact_scales:
            return None
        if queries_tree(self.model, table.train.shape[1], len(columns)):
            return self._from_tree(table, fold, columns, rows)
        # The sum of the weights depends on their order in the model.
        who = None if self._weighted else self._from_distances(table, fold, columns, rows)
        return None if who is None else (who, None)

    @property
    def _weighted(self) -> bool:
        return bool(self.model.weights == "distance")

    def _from_tree(
        self, table: FoldTable, fold: int, columns: Int, rows: Int
    ) -> tuple[Int, Float | None] | None:
        if self.trust["tree"].broken:
            return None
        tree = tree_of(self.model, np.ascontiguousarray(table.train[columns].T))
        query = np.ascontiguousarray(table.test[np.ix_(columns, rows)].T)
        distance, who = tree.query(query, self.k)
        if not self._confirmed("tree", fold, columns, rows, who):
            return None
        return who, inverse_distances(distance) if self._weighted else None

    def _from_distances(self, table: FoldTable, fold: int, columns: Int, rows: Int) -> Int | None:
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
                heap_neighbours(distance, part)
            else:
                part[:] = np.argpartition(distance, self.k - 1, axis=1)[:, : self.k]
        return who if self._confirmed(way, fold, columns, rows, who) else None

    def _confirmed(self, way: str, fold: int, columns: Int, rows: Int, who: Int) -> bool:
        return self.trust[way].holds(
            len(rows), lambda: self._model_agrees(fold, columns, rows, who)
        )

    def _way(self, columns: Int) -> str | None:
        """Return the algorithm of the model for these columns, which depends on their dtypes."""
        kinds = {self.kinds[j] for j in columns.tolist()}
        if not all(isinstance(kind, np.dtype) and kind != np.uint64 for kind in kinds):
            return None
        kind = np.result_type(*kinds)
        if kind == np.float64:
            return "heap"
        if kind.kind not in "iu":
            return None
        return "heap" if steps_before(self.problem.estimator) else "parted"

    def _model_agrees(self, fold: int, columns: Int, rows: Int, who: Int) -> bool:
        """Whether a fitted model has the same neighbours."""
        from sklearn.base import clone

        features = self.problem.features.iloc[:, columns.tolist()]
        train, test = self.problem.folds[fold]
        query = features.iloc[test[rows]]
        # The OpenMP limit applies to the thread that sets it.
        with one_thread():
            try:
                model = clone(self.problem.estimator)
                model.fit(features.iloc[train], self.problem.target[train])
                for step in steps_before(model):
                    query = step.transform(query)
                last = model[-1] if hasattr(model, "steps") else model
                expected = last.kneighbors(query, return_distance=False)
            except (TypeError, ValueError):
                # A model that fails confirms nothing.
                return False
        return np.array_equal(np.sort(expected, axis=1), np.sort(who, axis=1))


def ties_of(problem: Problem, model: Any, tables: list[FoldTable], largest: list[Float]) -> Ties:
    """Find the integer columns of each fold."""
    whole = [whole_columns(table.test, table.train) for table in tables]
    kinds = problem.features.dtypes.tolist()
    return Ties(problem, model, scales_are_exact(problem), largest, whole, kinds)


def most_votes(codes: Int, weight: Float | None, n_classes: int) -> Int:
    """Return the classes (n_rows,) with the most votes of neighbours (n_rows, k), first on ties."""
    share = np.ones(codes.shape) if weight is None else weight
    # Summed as in scikit-learn, so that ties up to rounding are broken equally.
    votes = [np.where(codes == label, share, 0.0).sum(axis=1) for label in range(n_classes)]
    first: Int = np.argmax(votes, axis=0)
    return first


def mean_of(values: Float, weight: Float | None) -> Float:
    """Return the mean (n_rows,) of the targets of neighbours (n_rows, k)."""
    if weight is None:
        means: Float = values.mean(axis=1)
        return means
    weighted: Float = (values * weight).sum(axis=1) / weight.sum(axis=1)
    return weighted


@njit(nogil=True, cache=True)
def heap_neighbours(distance: Float, who: Int) -> None:  # pragma: no cover
    """Push the distances of each row through a max-heap of the k smallest.

    A value that is not below the root is skipped. Otherwise it replaces the root and is sifted
    down; of two equal children, the left one moves up.

    Parameters
    ----------
    distance : float64 (n_rows, n_train)
    who : int (n_rows, k)
        Output: positions of the k smallest, in heap order.
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
