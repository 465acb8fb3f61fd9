"""Fast path of k nearest neighbours: squared distances are sums, see :mod:`.neighbours`."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numba import njit
from sklearn.neighbors import BallTree, KDTree, KNeighborsClassifier, KNeighborsRegressor

from swarm.arrays import Bool, Float, Int
from swarm.fastpaths.choose import PathResult
from swarm.fastpaths.costs import FoldCosts, errors_are_rounding
from swarm.fastpaths.neighbours import (
    QueryRows,
    Trust,
    count_votes,
    distances_of,
    largest_squares,
    nearest_rows,
    reference,
    rounding_of,
    sums_are_exact,
    weigh_votes,
    whole_columns,
)
from swarm.fastpaths.scores import mean_of
from swarm.fastpaths.tables import Chosen, chosen_columns, fit_on, fold_tables, scales_are_exact
from swarm.metrics import magnifies_rounding, takes_labels
from swarm.problem.models import steps_before
from swarm.problem.problem import Problem
from swarm.problem.table import take_rows

NeighborsModel: TypeAlias = KNeighborsClassifier | KNeighborsRegressor

# Highest relative error of a squared distance that is used as a weight.
_MAX_DISTANCE_ERROR = 1e-9
# scikit-learn's ``algorithm="auto"`` builds a tree up to this number of columns.
_MAX_TREE_COLUMNS = 15
# A chunk of distances is limited to 8 MiB.
_MAX_CHUNK_DISTANCES = 1 << 20


class NearestPath:
    """Costs of scikit-learn's k-nearest-neighbour models without fitting them.

    Ties are broken as in scikit-learn. Its trees are queried; with brute force, if distances of
    integers are exact, float64 values go through a heap of size k and integer tables through
    argpartition.
    """

    def __init__(self, problem: Problem, model: NeighborsModel) -> None:
        self.trust = {"tree": Trust(), "heap": Trust(), "parted": Trust()}
        self._problem = problem
        self._model = model
        self._tables = fold_tables(problem)
        self._k = int(model.n_neighbors)
        self._is_weighted = model.weights == "distance"
        # Fitted models break all ties if scales are not exact.
        self._exact_scales = scales_are_exact(problem)
        self._whole = [whole_columns(table.test, table.train) for table in self._tables]
        classes = None
        # Positions of the classes of the training rows, by fold.
        self._codes: list[Int] = []
        if "Classifier" in type(model).__name__:
            classes = np.unique(problem.target)
            self._codes = [np.searchsorted(classes, table.train_target) for table in self._tables]
        self._n_classes = 0 if classes is None else len(classes)
        self._rows = [self._rows_of(fold) for fold in range(len(self._tables))]
        self._costs = FoldCosts(problem, classes)

    def _rows_of(self, fold: int) -> QueryRows:
        test = self._tables[fold].test
        train = self._tables[fold].train
        # Rows of a class are interchangeable if each has one vote.
        is_vote = self._n_classes and not self._is_weighted
        return QueryRows(
            test,
            train,
            largest_squares(test, train, self._exact_scales),
            groups=self._codes[fold] if is_vote else np.arange(train.shape[1]),
        )

    def evaluate(self, masks: Bool, folds: Sequence[int]) -> PathResult:
        """Evaluate masks, see :class:`.choose.ExactPath`."""
        chosen = chosen_columns(self._problem, masks)
        costs = np.full((len(masks), len(self._tables)), np.nan)
        for fold in folds:
            neighbours, n_certain = nearest_rows(self._rows[fold], chosen, self._k)
            if not self._n_classes:
                numbers, is_certain = self._numbers(chosen, fold, neighbours, n_certain)
                is_certain &= ~errors_are_rounding(numbers, self._costs.truth[fold])
                costs[is_certain, fold] = self._costs.of_numbers(numbers[is_certain], fold)
            elif self._is_weighted:
                labels, is_certain = self._weighted_labels(chosen, fold, neighbours, n_certain)
                costs[is_certain, fold] = self._costs.of_codes(labels[is_certain], fold)
            else:
                votes, is_certain = self._votes(chosen, fold, neighbours, n_certain)
                if takes_labels(self._problem.scoring):
                    labels = votes[:, is_certain].argmax(axis=0)
                    costs[is_certain, fold] = self._costs.of_codes(labels, fold)
                else:
                    shares = votes[:, is_certain] / self._k
                    costs[is_certain, fold] = self._costs.of_probabilities(shares, fold)
        return PathResult(costs)

    def _votes(
        self, chosen: Chosen, fold: int, neighbours: Int, n_certain: Int
    ) -> tuple[Int, Bool]:
        """Return votes (n_classes, n, n_test), and which masks (n,) have no doubtful winner."""
        codes = self._codes[fold]
        votes = count_votes(neighbours, n_certain, codes, self._n_classes)
        doubtful = n_certain < self._k
        if takes_labels(self._problem.scoring) and doubtful.any():
            # No doubt remains if the uncertain votes cannot make another class win.
            labels = np.arange(self._n_classes)[:, None]
            winner = votes[:, doubtful].argmax(axis=0)
            votes_of_winner = np.take_along_axis(votes[:, doubtful], winner[None], axis=0)
            max_votes = votes[:, doubtful] + (self._k - n_certain[doubtful])
            can_win = (labels != winner) & (max_votes + (labels < winner) > votes_of_winner)
            doubtful[doubtful] = can_win.any(axis=0)
        for m in np.flatnonzero(doubtful.any(axis=1)).tolist():
            rows = np.flatnonzero(doubtful[m])
            nearest = self._break_ties(fold, chosen.of(m), rows)
            if nearest is not None:
                neighbours_of_rows, _ = nearest
                for label in range(self._n_classes):
                    votes[label, m, rows] = (codes[neighbours_of_rows] == label).sum(axis=1)
                doubtful[m] = False
        return votes, np.logical_not(doubtful.any(axis=1))

    def _weighted_labels(
        self, chosen: Chosen, fold: int, neighbours: Int, n_certain: Int
    ) -> tuple[Int, Bool]:
        """Return classes (n, n_test), and which masks have no doubtful one: bool (n,)."""
        codes = self._codes[fold]
        labels = weigh_votes(self._rows[fold], chosen, neighbours, codes, self._n_classes)
        labels[n_certain < self._k] = -1
        for m in np.flatnonzero((labels < 0).any(axis=1)).tolist():
            doubtful = np.flatnonzero(labels[m] < 0)
            nearest = self._break_ties(fold, chosen.of(m), doubtful)
            if nearest is not None:
                codes_of_rows = codes[nearest[0]]
                weights = np.asarray(nearest[1])
                # Weights are summed as in scikit-learn, so that ties up to rounding are broken
                # equally.
                sums = [
                    np.where(codes_of_rows == label, weights, 0.0).sum(axis=1)
                    for label in range(self._n_classes)
                ]
                labels[m, doubtful] = np.argmax(sums, axis=0)
        return labels, np.all(labels >= 0, axis=1)

    def _numbers(
        self, chosen: Chosen, fold: int, neighbours: Int, n_certain: Int
    ) -> tuple[Float, Bool]:
        """Return predicted numbers (n, n_test), and which masks have no doubtful one: bool (n,)."""
        is_certain: Bool = np.all(n_certain == self._k, axis=1)
        if self._is_weighted:
            distances = distances_of(self._rows[fold], chosen, neighbours)
            is_certain &= self._weights_are_certain(chosen, distances, fold)
            weights = 1.0 / np.where(distances > 0, distances, 1.0)
        target = self._tables[fold].train_target.astype(np.float64)
        # Rows of doubtful masks stay zero.
        numbers = np.zeros(n_certain.shape)
        all_rows = np.arange(n_certain.shape[1])
        for m in range(len(numbers)):
            if is_certain[m]:
                weight = weights[m] if self._is_weighted else None
                numbers[m] = mean_of(target[neighbours[m]], weight)
                continue
            nearest = self._break_ties(fold, chosen.of(m), all_rows)
            if nearest is not None:
                neighbours_of_rows, weight = nearest
                numbers[m] = mean_of(target[neighbours_of_rows], weight)
                is_certain[m] = True
        return numbers, is_certain

    def _weights_are_certain(self, chosen: Chosen, distances: Float, fold: int) -> Bool:
        """Whether the weights of each mask (n,) are those of a model, which may lose digits."""
        is_certain: Bool = np.all(distances > 0, axis=(1, 2))
        for m in np.flatnonzero(is_certain).tolist():
            columns = chosen.of(m)
            if not self._queries_tree(fold, columns):
                tolerance = rounding_of(self._rows[fold].largest, columns)
                is_certain[m] = tolerance < _MAX_DISTANCE_ERROR * float(distances[m].min()) ** 2
        return is_certain

    def _queries_tree(self, fold: int, columns: Int) -> bool:
        """Whether the estimator builds a tree; otherwise it uses brute force."""
        if self._model.algorithm == "auto":
            n_rows = self._tables[fold].train.shape[1]
            return len(columns) <= _MAX_TREE_COLUMNS and self._k < n_rows // 2
        return bool(self._model.algorithm != "brute")

    def _break_ties(self, fold: int, columns: Int, rows: Int) -> tuple[Int, Float | None] | None:
        """Find neighbours and weights (n_rows, k) as a model does; None if only a model can."""
        algorithm = self._algorithm(fold, columns) if self._exact_scales else None
        if algorithm is None or self.trust[algorithm].broken:
            return None
        table = self._tables[fold]
        weights = None
        if algorithm == "tree":
            tree = tree_of(self._model, np.ascontiguousarray(table.train[columns].T))
            query = np.ascontiguousarray(table.test[np.ix_(columns, rows)].T)
            distances, neighbours = tree.query(query, self._k)
            weights = _inverse(distances) if self._is_weighted else None
        else:
            neighbours = self._from_distances(fold, columns, rows, algorithm == "heap")

        def agrees() -> bool:
            model, test_rows = fit_on(self._problem, columns, fold)
            query = take_rows(test_rows, rows)
            for step in steps_before(model):
                query = step.transform(query)
            last = model[-1] if hasattr(model, "steps") else model
            expected = last.kneighbors(query, return_distance=False)
            return np.array_equal(np.sort(expected, axis=1), np.sort(neighbours, axis=1))

        return (neighbours, weights) if self.trust[algorithm].holds(len(rows), agrees) else None

    def _algorithm(self, fold: int, columns: Int) -> str | None:
        """Return the algorithm by which the model breaks ties, None if a fit is needed."""
        if self._queries_tree(fold, columns):
            return "tree"
        # The sum of the weights depends on their order in the model.
        largest = self._rows[fold].largest
        if self._is_weighted or not sums_are_exact(self._whole[fold], largest, columns):
            return None
        dtypes = set(self._problem.features.dtypes.iloc[columns])
        if not all(isinstance(dtype, np.dtype) and dtype != np.uint64 for dtype in dtypes):
            return None
        dtype = np.result_type(*dtypes)
        if dtype == np.float64:
            return "heap"
        if dtype.kind not in "iu":
            return None
        return "heap" if steps_before(self._problem.estimator) else "parted"

    def _from_distances(self, fold: int, columns: Int, rows: Int, by_heap: bool) -> Int:
        """Find neighbours (n_rows, k) by exact distances."""
        factors = reference(self._tables[fold].train, columns)
        queries = np.ones((len(rows), len(columns) + 1))
        queries[:, :-1] = self._tables[fold].test[np.ix_(columns, rows)].T
        neighbours = np.empty((len(rows), self._k), dtype=np.int64)
        step = max(1, _MAX_CHUNK_DISTANCES // factors.shape[1])
        for start in range(0, len(rows), step):
            distances = queries[start : start + step] @ factors
            chunk = neighbours[start : start + step]
            if by_heap:
                heap_neighbours(distances, chunk)
            else:
                chunk[:] = np.argpartition(distances, self._k - 1, axis=1)[:, : self._k]
        return neighbours


def path_of(problem: Problem, model: NeighborsModel) -> tuple[NearestPath | None, str]:
    """Prepare the folds, or return the reason why models are fitted."""
    name = type(model).__name__
    is_euclidean = model.metric == "euclidean" or (model.metric == "minkowski" and model.p == 2)
    if not is_euclidean or model.metric_params is not None:
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


def tree_of(model: NeighborsModel, train: Float) -> BallTree | KDTree:
    """Build the tree of a model, which breaks ties by its order."""
    cls = BallTree if model.algorithm == "ball_tree" else KDTree
    return cls(train, model.leaf_size, metric="euclidean")


def _inverse(distances: Float) -> Float:
    """Return ``1 / distances``; in rows with a distance 0, that weight is 1 and the others 0."""
    is_zero = distances == 0
    weights = 1.0 / np.where(is_zero, 1.0, distances)
    rows = is_zero.any(axis=1)
    weights[rows] = is_zero[rows]
    return weights


@njit(nogil=True, cache=True)
def heap_neighbours(distances: Float, neighbours: Int) -> None:  # pragma: no cover
    """Push distances (n_rows, n_train) through a max-heap into neighbours (n_rows, k), unsorted."""
    # A value below the root replaces it and is sifted down; others are skipped. The left one of two
    # equal children moves up.
    k = neighbours.shape[1]
    heap = np.empty(k)
    for row in range(len(distances)):
        numbers = neighbours[row]
        heap[:] = np.inf
        numbers[:] = -1
        for i in range(distances.shape[1]):
            value = distances[row, i]
            if value >= heap[0]:
                continue
            node = 0
            while 2 * node + 1 < k:
                child = 2 * node + 1
                if child + 1 < k and heap[child + 1] > heap[child]:
                    child += 1
                if heap[child] <= value:
                    break
                heap[node] = heap[child]
                numbers[node] = numbers[child]
                node = child
            heap[node] = value
            numbers[node] = i
