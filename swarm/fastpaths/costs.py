"""Costs of predictions that were computed without a model."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swarm.answers import Answers
from swarm.arrays import Bool, Float, Int
from swarm.fastpaths.scores import confusions, label_scores, number_scores, probability_scores
from swarm.metrics import Metric, metric_of
from swarm.problem.problem import Problem
from swarm.problem.scoring import Scoring

# Errors below this share of the largest target have lost half of their digits.
_ROUNDING = 1e-7
# Logarithms of values below this share of the largest lose two digits.
_NEAREST = 0.01
_ACCURACY = Metric("accuracy_score", {}, 1)
_HAMMING_LOSS = Metric("hamming_loss", {}, -1)


@dataclass
class FoldCosts:
    """Costs of predictions of the test rows of each fold, computed for many masks at once."""

    # Scikit-learn is called for each mask where a scorer is not recognised, warns, raises, or gives
    # a first cost that is not bit-identical.
    problem: Problem
    classes: NDArray[Any] | None  # (n_classes,), sorted; None if numbers are predicted
    # whether costs of classes are bit-identical; None until compared
    agrees: bool | None = field(default=None, repr=False)

    @cached_property
    def metric(self) -> Metric | None:
        """The metric of the scorer, if it is recognised."""
        return metric_of(self.problem.scoring)

    @cached_property
    def is_accuracy(self) -> bool:
        """Whether costs are the shares of wrong rows."""
        return self.metric == _ACCURACY and not self.problem.weights_in_score

    @cached_property
    def truth(self) -> list[NDArray[Any]]:
        """Target of the test rows of each fold; for classes, their positions in `classes`."""
        target = self.problem.target
        if self.classes is not None and target.ndim == 1:
            target = np.searchsorted(self.classes, target)
        return [target[test] for _, test in self.problem.folds]

    @cached_property
    def trained(self) -> list[Int]:
        """Positions in `classes` of the classes of the training rows of each fold."""
        assert self.classes is not None
        codes = np.searchsorted(self.classes, self.problem.target)
        return [np.unique(codes[train]) for train, _ in self.problem.folds]

    def of_codes(self, codes: Int, fold: int) -> Float:
        """Return the costs of class positions (n, n_test): (n,), NaN if the scorer fails."""
        assert self.classes is not None
        truth, classes = self.truth[fold], self.classes
        if self.is_accuracy:
            # The same operations as in scikit-learn, so that costs are bit-identical.
            shares: Float = self.upper - (codes == truth).mean(axis=1)
            return shares
        scores = None
        if len(codes) and (metric := self._class_metric) is not None:
            counts = np.zeros((len(codes), len(classes), len(classes)), dtype=np.int64)
            confusions(np.ascontiguousarray(codes), truth, counts)
            scores = label_scores(metric, counts, classes)
        trained_classes = classes[self.trained[fold]]

        def answers(row: int) -> Answers:
            return Answers(classes[codes[row]], classes=trained_classes)

        return self._completed(scores, len(codes), fold, answers)

    def of_probabilities(self, probabilities: Float, fold: int) -> Float:
        """Return the costs (n,) of probabilities (n_classes, n, n_test), NaN as in `of_codes`."""
        assert self.classes is not None
        truth, trained, classes = self.truth[fold], self.trained[fold], self.classes
        complete = len(trained) == len(np.unique(truth)) == len(classes)
        scores = None
        if complete and (metric := self._class_metric) is not None:
            scores = probability_scores(metric, probabilities, truth, classes)

        def answers(row: int) -> Answers:
            proba = probabilities[trained, row].T
            predicted = classes[trained[proba.argmax(axis=1)]]
            return Answers(predicted, proba, classes=classes[trained], ranks_by_proba=False)

        return self._completed(scores, probabilities.shape[1], fold, answers)

    def of_labels(self, predicted: Int, fold: int) -> Float:
        """Return the costs of labels (n, n_test, n_labels): float64 (n,), NaN as above."""
        truth = self.truth[fold]
        if self.is_accuracy:
            shares: Float = self.upper - (predicted == truth).all(axis=2).mean(axis=1)
            return shares
        if self.metric == _HAMMING_LOSS:
            wrong: Float = (predicted != truth).sum(axis=(1, 2)) / truth.size
            return self.upper + wrong

        def answers(row: int) -> Answers:
            return Answers(predicted[row], classes=self.classes)

        return self._completed(None, len(predicted), fold, answers)

    def of_numbers(self, predicted: Float, fold: int) -> Float:
        """Return the costs of predicted numbers (n, n_test): float64 (n,), NaN as above."""
        scores = None
        if self.metric is not None:
            weight = self.problem.score_weight(self.problem.folds[fold][1])
            scores = number_scores(self.metric, predicted, self.truth[fold], weight)
        return self._completed(scores, len(predicted), fold, lambda row: Answers(predicted[row]))

    @property
    def _class_metric(self) -> Metric | None:
        """The metric if scores of classes are computed here; weighted ones are not."""
        left = self.agrees is False or self.problem.weights_in_score
        return None if left else self.metric

    @property
    def upper(self) -> float:
        """The cost of the score 0."""
        return self.problem.scoring.upper or 0.0

    def _completed(
        self, scores: Float | None, n: int, fold: int, answers: Callable[[int], Answers]
    ) -> Float:
        """Turn scores into costs; scikit-learn computes those that are missing."""
        problem, test = self.problem, self.problem.folds[fold][1]

        def called(row: int) -> float:
            given = answers(row)
            try:
                return problem.cost(given.estimator(), given.positions, test)
            except Exception:
                return np.nan

        costs = np.full(n, np.nan)
        if scores is not None and self.metric is not None:
            costs = self.upper - self.metric.sign * scores
            if self.agrees is None and self.classes is not None and n:
                finite = np.flatnonzero(~np.isnan(costs))
                if len(finite):
                    self.agrees = bool(costs[finite[0]] == called(int(finite[0])))
                    costs = costs if self.agrees else np.full(n, np.nan)
        for row in np.flatnonzero(np.isnan(costs)).tolist():
            costs[row] = called(row)
        return np.where(np.isfinite(costs), costs, np.nan)


def logs_lose_digits(scoring: Scoring, predicted: Float) -> Bool:
    """Whether a squared log error magnifies the rounding of predictions (n, n_test): bool (n,)."""
    metric = metric_of(scoring)
    if metric is None or "log_error" not in metric.name:
        return np.zeros(len(predicted), dtype=bool)
    inside = 1.0 + predicted
    lost: Bool = inside.min(axis=1) < _NEAREST * np.abs(inside).max(axis=1)
    return lost


def errors_are_rounding(predicted: Float, truth: NDArray[Any]) -> Bool:
    """Whether the errors of predictions (n, n_test) are close to rounding: bool (n,)."""
    errors = np.sqrt(np.square(predicted - truth).mean(axis=1))
    exact: Bool = errors <= _ROUNDING * np.abs(truth).max()
    return exact
