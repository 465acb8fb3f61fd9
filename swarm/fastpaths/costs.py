"""Costs of predictions that were computed without a model."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from swarm.answers import Answers
from swarm.arrays import AnyArray, Bool, Float, Int
from swarm.fastpaths.scores import confusions, label_scores, number_scores, probability_scores
from swarm.metrics import Metric, metric_of
from swarm.problem.problem import Problem
from swarm.problem.scoring import Scoring

# Errors below this share of the largest target have lost half of their digits.
_MIN_ERROR = 1e-7
# Logarithms of values below this share of the largest lose two digits.
_MIN_VALUE = 0.01
_ACCURACY = Metric("accuracy_score", {}, 1)
_HAMMING_LOSS = Metric("hamming_loss", {}, -1)


@dataclass
class FoldCosts:
    """Costs of predictions of the test rows of each fold, computed for many masks at once.

    Scikit-learn is called for each mask if a scorer is not recognised, warns, raises, or gives a
    first cost that is not bit-identical.

    Attributes
    ----------
    problem : Problem
    classes : array (n_classes,) or None
        Sorted; None if numbers are predicted.
    agrees : bool or None
        Whether costs of classes are bit-identical; None until compared.
    """

    problem: Problem
    classes: AnyArray | None
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
    def truth(self) -> list[AnyArray]:
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
        truth = self.truth[fold]
        classes = self.classes
        if self.is_accuracy:
            # These are the operations of scikit-learn, so that costs are bit-identical.
            return self.upper - (codes == truth).mean(axis=1)
        scores = None
        metric = self._class_metric
        if len(codes) and metric is not None:
            counts = np.zeros((len(codes), len(classes), len(classes)), dtype=np.int64)
            confusions(np.ascontiguousarray(codes), truth, counts)
            scores = label_scores(metric, counts, classes)
        trained_classes = classes[self.trained[fold]]

        def answers(row: int) -> Answers:
            return Answers(classes[codes[row]], classes=trained_classes)

        return self._costs(scores, len(codes), fold, answers)

    def of_probabilities(self, probabilities: Float, fold: int) -> Float:
        """Return the costs (n,) of probabilities (n_classes, n, n_test), NaN as in `of_codes`."""
        assert self.classes is not None
        classes = self.classes
        truth = self.truth[fold]
        trained = self.trained[fold]
        has_all_classes = len(trained) == len(np.unique(truth)) == len(classes)
        scores = None
        metric = self._class_metric
        if has_all_classes and metric is not None:
            scores = probability_scores(metric, probabilities, truth, classes)

        def answers(row: int) -> Answers:
            proba = probabilities[trained, row].T
            predicted = classes[trained[proba.argmax(axis=1)]]
            return Answers(predicted, proba, classes=classes[trained], ranks_by_proba=False)

        return self._costs(scores, probabilities.shape[1], fold, answers)

    def of_labels(self, predicted: Int, fold: int) -> Float:
        """Return the costs of labels (n, n_test, n_labels): float64 (n,), NaN as above."""
        truth = self.truth[fold]
        if self.is_accuracy:
            return self.upper - (predicted == truth).all(axis=2).mean(axis=1)
        if self.metric == _HAMMING_LOSS:
            return self.upper + (predicted != truth).sum(axis=(1, 2)) / truth.size

        def answers(row: int) -> Answers:
            return Answers(predicted[row], classes=self.classes)

        return self._costs(None, len(predicted), fold, answers)

    def of_numbers(self, predicted: Float, fold: int) -> Float:
        """Return the costs of predicted numbers (n, n_test): float64 (n,), NaN as above."""
        scores = None
        if self.metric is not None:
            weight = self.problem.score_weight(self.problem.folds[fold][1])
            scores = number_scores(self.metric, predicted, self.truth[fold], weight)
        return self._costs(scores, len(predicted), fold, lambda row: Answers(predicted[row]))

    @property
    def _class_metric(self) -> Metric | None:
        """The metric if scores of classes are computed here; weighted scores are not."""
        if self.agrees is False or self.problem.weights_in_score:
            return None
        return self.metric

    @property
    def upper(self) -> float:
        """The cost of the score 0."""
        return self.problem.scoring.upper or 0.0

    def _costs(
        self, scores: Float | None, n: int, fold: int, answers: Callable[[int], Answers]
    ) -> Float:
        """Turn scores into costs; scikit-learn computes those that are missing."""
        _, test = self.problem.folds[fold]

        def cost_by_scorer(row: int) -> float:
            answer = answers(row)
            try:
                return self.problem.cost(answer.estimator(), answer.positions, test)
            except Exception:
                return np.nan

        costs = np.full(n, np.nan)
        if scores is not None and self.metric is not None:
            costs = self.upper - self.metric.sign * scores
            rows = np.flatnonzero(~np.isnan(costs))
            if self.agrees is None and self.classes is not None and len(rows):
                self.agrees = bool(costs[rows[0]] == cost_by_scorer(int(rows[0])))
                if not self.agrees:
                    costs = np.full(n, np.nan)
        for row in np.flatnonzero(np.isnan(costs)).tolist():
            costs[row] = cost_by_scorer(row)
        return np.where(np.isfinite(costs), costs, np.nan)


def logs_lose_digits(scoring: Scoring, predicted: Float) -> Bool:
    """Whether a squared log error magnifies the rounding of predictions (n, n_test): bool (n,)."""
    metric = metric_of(scoring)
    if metric is None or "log_error" not in metric.name:
        return np.zeros(len(predicted), dtype=bool)
    values = 1.0 + predicted
    return values.min(axis=1) < _MIN_VALUE * np.abs(values).max(axis=1)


def errors_are_rounding(predicted: Float, truth: AnyArray) -> Bool:
    """Whether the errors of predictions (n, n_test) are close to rounding: bool (n,)."""
    errors = np.sqrt(np.square(predicted - truth).mean(axis=1))
    return errors <= _MIN_ERROR * np.abs(truth).max()
