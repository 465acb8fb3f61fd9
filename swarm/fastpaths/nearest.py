"""Fast path of k nearest neighbours: squared distances are sums, see :mod:`.neighbours`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from swarm.arrays import Bool, Float, Int
from swarm.fastpaths.choose import PathResult
from swarm.fastpaths.costs import FoldCosts, errors_are_rounding
from swarm.fastpaths.metrics import magnifies_rounding, takes_labels
from swarm.fastpaths.neighbours import (
    Trust,
    count_votes,
    largest_squares,
    neighbours_of,
    reference,
    rounding_of,
    sums_are_exact,
    vote,
    whole_columns,
)
from swarm.fastpaths.tables import (
    Chosen,
    chosen_columns,
    fitted_on,
    fold_tables,
    membership,
    scales_are_exact,
)
from swarm.problem.models import steps_before
from swarm.problem.problem import Problem

# Highest relative error of a squared distance that is used as a weight.
_MARGIN = 1e-9
# The largest number of columns for which ``algorithm="auto"`` builds a tree.
_MOST_COLUMNS = 15
# Elements of a chunk of distances, 8 MiB.
_CHUNK = 1 << 20


class NearestPath:
    """Costs of scikit-learn's k-nearest-neighbour models without fitting them."""

    def __init__(self, problem: Problem, model: Any) -> None:
        # Ties are broken as in scikit-learn: its trees are queried, and with brute force, where
        # distances of integers are exact, float64 values go through a heap of size k and integer
        # tables through argpartition.
        self.trust = {"tree": Trust(), "heap": Trust(), "parted": Trust()}
        self._problem, self._model = problem, model
        self._tables, self._belongs = fold_tables(problem), membership(problem)
        self._k, self._weighted = int(model.n_neighbors), model.weights == "distance"
        # If they are not, fitted models break all ties.
        self._exact_scales = scales_are_exact(problem)
        self._largest = [
            largest_squares(table.test, table.train, self._exact_scales) for table in self._tables
        ]
        self._whole = [whole_columns(table.test, table.train) for table in self._tables]
        classes = None
        # Classes of the training rows of each fold.
        self._codes: list[Int] = []
        if "Classifier" in type(model).__name__:
            classes = np.unique(problem.target)
            self._codes = [np.searchsorted(classes, table.train_target) for table in self._tables]
        self._n_classes = 0 if classes is None else len(classes)
        self._costs = FoldCosts(problem, classes)

    def answers(self, masks: Bool) -> PathResult:
        """Evaluate masks on every fold, see :class:`.choose.ExactPath`."""
        chosen = chosen_columns(masks, self._belongs)
        costs = np.full((len(masks), len(self._tables)), np.nan)
        for fold in range(len(self._tables)):
            if not self._n_classes:
                predicted, sure = self._numbers(chosen, fold)
                sure &= ~errors_are_rounding(predicted, self._costs.truth[fold])
                costs[sure, fold] = self._costs.of_numbers(predicted[sure], fold)
            elif takes_labels(self._problem.scoring):
                labels, sure = self._labels(chosen, fold)
                costs[sure, fold] = self._costs.of_codes(labels[sure], fold)
            else:
                shares, sure = self._shares(chosen, fold)
                costs[sure, fold] = self._costs.of_probabilities(shares[:, sure], fold)
        return PathResult(costs)

    def _labels(self, chosen: Chosen, fold: int) -> tuple[Int, Bool]:
        """Return classes (n, n_test), and which masks have no doubtful one: bool (n,)."""
        table, codes, n = self._tables[fold], self._codes[fold], len(chosen.pointers) - 1
        labels = np.empty((n, table.test.shape[1]), dtype=np.int64)
        rows = (table.test, table.train, self._largest[fold], codes, self._n_classes)
        vote(*rows, chosen.pointers, chosen.columns, self._k, self._weighted, labels)
        for m in np.flatnonzero((labels < 0).any(axis=1)).tolist():
            open_ = np.flatnonzero(labels[m] < 0)
            if (found := self._settled(fold, chosen.of(m), open_)) is not None:
                near, share = codes[found[0]], 1.0 if found[1] is None else found[1]
                # Summed as in scikit-learn, so that ties up to rounding are broken equally.
                sums = [
                    np.where(near == label, share, 0.0).sum(axis=1)
                    for label in range(self._n_classes)
                ]
                labels[m, open_] = np.argmax(sums, axis=0)
        sure: Bool = np.all(labels >= 0, axis=1)
        return labels, sure

    def _shares(self, chosen: Chosen, fold: int) -> tuple[Float, Bool]:
        """Return class shares (n_classes, n, n_test), and which masks (n,) have no doubtful one."""
        table, codes, n = self._tables[fold], self._codes[fold], len(chosen.pointers) - 1
        votes = np.empty((self._n_classes, n, table.test.shape[1]), dtype=np.int64)
        rows = (table.test, table.train, self._largest[fold], codes)
        count_votes(*rows, chosen.pointers, chosen.columns, self._k, votes)
        for m in np.flatnonzero((votes[0] < 0).any(axis=1)).tolist():
            open_ = np.flatnonzero(votes[0, m] < 0)
            if (found := self._settled(fold, chosen.of(m), open_)) is not None:
                for label in range(self._n_classes):
                    votes[label, m, open_] = (codes[found[0]] == label).sum(axis=1)
        sure: Bool = np.all(votes[0] >= 0, axis=1)
        return votes / self._k, sure

    def _numbers(self, chosen: Chosen, fold: int) -> tuple[Float, Bool]:
        """Return predicted numbers (n, n_test), and which masks have no doubtful one: bool (n,)."""
        table, n = self._tables[fold], len(chosen.pointers) - 1
        shape = (n, table.test.shape[1], self._k)
        who, distance = np.empty(shape, dtype=np.int64), np.empty(shape)
        sure = np.empty(n, dtype=bool)
        given = (chosen.pointers, chosen.columns, self._k, who, distance, sure)
        neighbours_of(table.test, table.train, self._largest[fold], *given)
        if self._weighted:
            sure &= self._weights_are_sure(chosen, distance, fold)
            weight = 1.0 / np.where(distance > 0, distance, 1.0)
        target = table.train_target.astype(np.float64)
        # Rows of doubtful masks stay zero.
        numbers = np.zeros(shape[:2])
        rows = np.arange(shape[1])
        for m in range(n):
            if sure[m]:
                numbers[m] = _mean_of(target[who[m]], weight[m] if self._weighted else None)
            elif (found := self._settled(fold, chosen.of(m), rows)) is not None:
                numbers[m], sure[m] = _mean_of(target[found[0]], found[1]), True
        return numbers, sure

    def _weights_are_sure(self, chosen: Chosen, distance: Float, fold: int) -> Bool:
        """Whether the weights of each mask (n,) are those of a model, which may lose digits."""
        sure: Bool = np.all(distance > 0, axis=(1, 2))
        for m in np.flatnonzero(sure).tolist():
            columns = chosen.of(m)
            if not self._queries_tree(fold, columns):
                tolerance = rounding_of(self._largest[fold], columns)
                sure[m] = tolerance < _MARGIN * float(distance[m].min()) ** 2
        return sure

    def _queries_tree(self, fold: int, columns: Int) -> bool:
        """Whether the estimator builds a tree; otherwise it uses brute force."""
        if self._model.algorithm == "auto":
            n_rows = self._tables[fold].train.shape[1]
            return len(columns) <= _MOST_COLUMNS and self._k < n_rows // 2
        return bool(self._model.algorithm != "brute")

    def _settled(self, fold: int, columns: Int, rows: Int) -> tuple[Int, Float | None] | None:
        """Find neighbours and weights (n_rows, k) each as a model does; None if only it can."""
        way = self._way(fold, columns) if self._exact_scales else None
        if way is None or self.trust[way].broken:
            return None
        table, weight = self._tables[fold], None
        if way == "tree":
            tree = tree_of(self._model, np.ascontiguousarray(table.train[columns].T))
            query = np.ascontiguousarray(table.test[np.ix_(columns, rows)].T)
            distance, who = tree.query(query, self._k)
            weight = _inverse(distance) if self._weighted else None
        else:
            who = self._from_distances(fold, columns, rows, way == "heap")

        def agrees() -> bool:
            fitted, tested = fitted_on(self._problem, columns, fold)
            query = tested.iloc[rows]
            for step in steps_before(fitted):
                query = step.transform(query)
            last = fitted[-1] if hasattr(fitted, "steps") else fitted
            expected = last.kneighbors(query, return_distance=False)
            return np.array_equal(np.sort(expected, axis=1), np.sort(who, axis=1))

        return (who, weight) if self.trust[way].holds(len(rows), agrees) else None

    def _way(self, fold: int, columns: Int) -> str | None:
        """Return the algorithm by which the model breaks ties, None if a fit is needed."""
        if self._queries_tree(fold, columns):
            return "tree"
        # The sum of the weights depends on their order in the model.
        if self._weighted or not sums_are_exact(self._whole[fold], self._largest[fold], columns):
            return None
        kinds = set(self._problem.features.dtypes.iloc[columns])
        if not all(isinstance(kind, np.dtype) and kind != np.uint64 for kind in kinds):
            return None
        kind = np.result_type(*kinds)
        if kind == np.float64:
            return "heap"
        if kind.kind not in "iu":
            return None
        return "heap" if steps_before(self._problem.estimator) else "parted"

    def _from_distances(self, fold: int, columns: Int, rows: Int, by_heap: bool) -> Int:
        """Find neighbours (n_rows, k) by exact distances."""
        there = reference(self._tables[fold].train, columns)
        here = np.ones((len(rows), len(columns) + 1))
        here[:, :-1] = self._tables[fold].test[np.ix_(columns, rows)].T
        who = np.empty((len(rows), self._k), dtype=np.int64)
        step = max(1, _CHUNK // there.shape[1])
        for start in range(0, len(rows), step):
            distance = here[start : start + step] @ there
            part = who[start : start + step]
            if by_heap:
                heap_neighbours(distance, part)
            else:
                part[:] = np.argpartition(distance, self._k - 1, axis=1)[:, : self._k]
        return who


def path_of(problem: Problem, model: Any) -> tuple[NearestPath | None, str]:
    """Prepare the folds, or return the reason why models are fitted."""
    name = type(model).__name__
    euclidean = model.metric == "euclidean" or (model.metric == "minkowski" and model.p == 2)
    if not euclidean or model.metric_params is not None:
        return None, f"{name} does not use the Euclidean distance"
    if model.weights not in ("uniform", "distance"):
        return None, f"{name} has custom weights"
    if problem.target.ndim > 1:
        return None, f"{name} predicts several columns"
    if model.weights == "distance" and not takes_labels(problem.scoring):
        return None, f"{name} has weighted probabilities"
    if model.weights == "distance" and magnifies_rounding(problem.scoring):
        return None, f"{problem.scoring.name!r} magnifies the rounding of {name}"
    if any(model.n_neighbors >= len(train) for train, _ in problem.folds):
        return None, f"{name} has as many neighbours as there are rows"
    path = NearestPath(problem, model)
    return path, "squared distances of nearest neighbours are sums over features"


def tree_of(model: Any, train: Float) -> Any:
    """Build the tree of an estimator with :func:`queries_tree`, which alone decides its ties."""
    from sklearn.neighbors import BallTree, KDTree

    kind = BallTree if model.algorithm == "ball_tree" else KDTree
    return kind(train, model.leaf_size, metric="euclidean")


def _inverse(distance: Float) -> Float:
    """Return ``1 / distance``; in rows with a distance 0, weights are 1 there and 0 elsewhere."""
    touching = distance == 0
    weight = 1.0 / np.where(touching, 1.0, distance)
    some = touching.any(axis=1)
    weight[some] = touching[some]
    return weight


def _mean_of(values: Float, weight: Float | None) -> Float:
    """Return the mean (n_rows,) of the targets of neighbours (n_rows, k)."""
    if weight is None:
        means: Float = values.mean(axis=1)
        return means
    weighted: Float = (values * weight).sum(axis=1) / weight.sum(axis=1)
    return weighted


@njit(nogil=True, cache=True)
def heap_neighbours(distance: Float, who: Int) -> None:  # pragma: no cover
    """Push the distances (n_rows, n_train) through a max-heap into `who` (n_rows, k), unsorted."""
    # A value that is not below the root is skipped; else it replaces the root and is sifted down.
    # Of two equal children, the left one moves up.
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
