"""Fast path of ML-kNN: neighbours of all test and training rows, without a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from swarm.arrays import Bool, Float, Int
from swarm.fastpaths.costs import FoldCosts
from swarm.fastpaths.label_counts import MOST_NEIGHBOURS, label_counts, packed
from swarm.fastpaths.neighbours import largest_squares, rounding_of, widened
from swarm.fastpaths.path_result import PathResult
from swarm.fastpaths.tables import chosen_columns, fold_tables, membership, scales_are_exact
from swarm.fastpaths.whole import Trust, sums_are_exact, whole_columns
from swarm.multilabel import label_evidence
from swarm.problem.models import steps_before
from swarm.problem.problem import Problem
from swarm.threads import one_thread

__all__ = ["MultiLabelPath", "multilabel_path"]

# A tolerance below every difference of distances.
_NO_DOUBT = -1.0


@dataclass(frozen=True)
class _Rows:
    """Folds with the same values: all folds, or a single one if earlier steps scale the data.

    Attributes
    ----------
    folds : list of int
    rows : float64 (n_columns, n_rows)
        Every row of the data; zeros if the folds do not use it.
    largest : float64 (n_columns,)
    whole : bool (n_columns,)
        Integer columns, if the training rows of every fold are in order: ties are then broken by
        this order, as in the model.
    trained, asked : bool (len(folds), n_rows)
        See :func:`.label_counts.label_counts`.
    """

    folds: list[int]
    rows: Float
    largest: Float
    whole: Bool
    trained: Bool
    asked: Bool


@dataclass(frozen=True)
class MultiLabelPath:
    """Costs of :class:`swarm.multilabel.MLkNN` by compiled distances.

    Attributes
    ----------
    problem : Problem
    parts : list of _Rows
    belongs : bool (n_units, n_columns)
    k : int
    smoothing : float
    fold_costs : FoldCosts
    trust : Trust
        Whether ties are broken as in the model.
    """

    problem: Problem
    parts: list[_Rows]
    belongs: Bool
    k: int
    smoothing: float
    fold_costs: FoldCosts
    trust: Trust = field(default_factory=Trust)

    def answers(self, masks: Bool) -> PathResult:
        """Evaluate masks on every fold, see :class:`.choose.ExactPath`."""
        chosen = chosen_columns(masks, self.belongs)
        labels = self.problem.target.astype(np.int64)
        words, n_labels = packed(labels), labels.shape[1]
        costs = np.full((len(masks), self.problem.n_folds), np.nan)
        predicted = [
            np.empty((len(masks), len(test), n_labels), dtype=np.int64)
            for _, test in self.problem.folds
        ]
        sure = np.empty(costs.shape, dtype=bool)
        for part in self.parts:
            counts = np.empty((len(part.folds), *words.shape), dtype=np.uint64)
            certain = np.empty(len(part.folds), dtype=bool)
            for m in range(len(masks)):
                columns = chosen.of(m)
                exact = sums_are_exact(part.whole, part.largest, columns)
                trusted = exact and self.trust.earned
                tolerance = _NO_DOUBT if trusted else rounding_of(part.largest, columns)
                which = (words, part.trained, part.asked)
                label_counts(part.rows, columns, *which, self.k, tolerance, counts, certain)
                seen = counts.view(np.uint8)[..., :n_labels].astype(np.int64)
                for place, fold in enumerate(part.folds):
                    here = self._predicted(seen[place], labels, fold)
                    predicted[fold][m] = here
                    sure[m, fold] = certain[place] or (exact and self._holds(columns, fold, here))
        for fold, found in enumerate(predicted):
            known = sure[:, fold]
            if known.any():
                costs[known, fold] = self.fold_costs.of_labels(found[known], fold)
        return PathResult(costs)

    def _holds(self, columns: Int, fold: int, predicted: Int) -> bool:
        """Whether to trust predictions that depend on tie-breaking."""
        return self.trust.holds(
            len(predicted), lambda: self._model_agrees(columns, fold, predicted)
        )

    def _model_agrees(self, columns: Int, fold: int, predicted: Int) -> bool:
        from sklearn.base import clone

        features = self.problem.features.iloc[:, columns.tolist()]
        train, test = self.problem.folds[fold]
        with one_thread():
            try:
                model = clone(self.problem.estimator)
                model.fit(features.iloc[train], self.problem.target[train])
                expected = model.predict(features.iloc[test])
            except (TypeError, ValueError):
                # A model that fails confirms nothing.
                return False
        return np.array_equal(expected, predicted)

    def _predicted(self, counts: Int, labels: Int, fold: int) -> Int:
        train, test = self.problem.folds[fold]
        having, missing = label_evidence(counts[train], labels[train], self.k, self.smoothing)
        decision = (having > missing).astype(np.int64)
        return np.take_along_axis(decision, counts[test], axis=0)


def multilabel_path(problem: Problem, model: Any) -> tuple[MultiLabelPath | None, str]:
    """Prepare the rows, or return the reason why models are fitted."""
    k = int(model.n_neighbors)
    n_rows = len(problem.target)
    if k > MOST_NEIGHBOURS:
        return None, f"MLkNN has more than {MOST_NEIGHBOURS} neighbours"
    for train, test in problem.folds:
        if k >= len(train) - 1:
            return None, "MLkNN has as many neighbours as there are rows"
        if len(np.unique(np.concatenate([train, test]))) < len(train) + len(test):
            return None, "a fold contains a row twice"
    scaled = bool(steps_before(problem.estimator))
    parts = []
    for fold, table in enumerate(fold_tables(problem)) if scaled else ():
        train, test = problem.folds[fold]
        rows = np.zeros((problem.space.n_columns, n_rows))
        rows[:, train], rows[:, test] = table.train, table.test
        parts.append(_rows(problem, [fold], rows))
    if not scaled:
        values = problem.features.to_numpy(dtype=np.float64)
        every = list(range(problem.n_folds))
        parts.append(_rows(problem, every, np.ascontiguousarray(values.T)))
    found = FoldCosts(problem, np.array([0, 1]))
    path = MultiLabelPath(problem, parts, membership(problem), k, float(model.smoothing), found)
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
    largest = largest_squares(rows, rows)
    if not exact:
        largest = widened(largest, rows.shape[1])
    return _Rows(folds, rows, largest, whole, trained, asked)
