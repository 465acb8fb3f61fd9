"""Metrics of the answers on test rows, and their intervals by a jackknife.

Each metric is computed again without one unit of the test rows at a time: a row, a whole group, or
one of eight spans of time. The spread of these values gives the standard error, which a t quantile
widens for few units. Metrics that are functions of sums, and areas under the ROC and the
precision-recall curve, are computed for all units at once. Every other scikit-learn scorer is
called without a twentieth of the units at a time, which suits medians, too.

Sources: Efron (1982), The Jackknife, the Bootstrap and Other Resampling Plans; Shao and Wu (1989),
A general theory for jackknife variance estimation; Bonett and Price (2012), Adjusted Wald
confidence interval for a difference of binomial proportions based on paired data; Ibragimov and
Müller (2010), t-statistic based correlation and heterogeneity robust inference.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from swarm.answers import Answers
from swarm.arrays import AnyArray, Bool, Float, Int
from swarm.errors import InputError
from swarm.metrics import (
    METRICS,
    Value,
    fraction,
    row_statistics,
    scorer_of,
    takes_labels,
    value_range,
)
from swarm.problem.scoring import Scoring, resolve_scoring
from swarm.rounding import difference
from swarm.statistics.resampled import CONFIDENCE
from swarm.validation.answers import EvaluationTarget

# Several units are left out at a time if there are more, so that the work grows linearly.
MAX_UNITS = 1000
# Scorers are called at most this often.
MAX_CALLS = 20
# Intervals of fewer groups do not keep their level unless the groups are alike.
MIN_GROUPS = 5
# Long enough that neighbouring spans hardly correlate, and enough for a t quantile of 2.4.
SPANS = 8
# The counts of a block, and arrays computed from them, stay in the cache of a processor.
CELLS_PER_BLOCK = 300_000
# An added row has one of at most this many of the most frequent label sets.
_MAX_LABEL_SETS = 20


@dataclass(frozen=True, eq=False)
class MetricValue:
    """A metric of the test rows, or a difference of two, with what its error is computed from.

    Attributes
    ----------
    value : float
        The metric of all test rows.
    without : float64 (n_units,)
        The metric of the rows without each unit.
    swing : float
        Root mean square change by one more row that is predicted rightly instead of wrongly.
    is_discrete : bool
        Whether a row is predicted rightly or wrongly, so that few rows may show no difference.
    limits : (float, float)
        The lowest and the highest possible value.
    """

    value: float
    without: Float
    swing: float
    is_discrete: bool
    limits: tuple[float, float]

    def minus(self, other: MetricValue) -> MetricValue:
        """Return the paired difference."""
        low, high = self.limits
        other_low, other_high = other.limits
        return MetricValue(
            float(difference(self.value, other.value)),
            difference(self.without, other.without),
            math.sqrt((self.swing**2 + other.swing**2) / 2.0),
            self.is_discrete or other.is_discrete,
            (low - other_high, high - other_low),
        )

    @staticmethod
    def mean(values: Sequence[MetricValue]) -> MetricValue:
        """Return the mean of a metric over several answers."""
        return MetricValue(
            float(np.mean([metric.value for metric in values])),
            np.mean([metric.without for metric in values], axis=0),
            math.sqrt(np.mean([metric.swing**2 for metric in values])),
            values[0].is_discrete,
            values[0].limits,
        )


@dataclass(frozen=True, eq=False)
class Jackknife:
    """The units of the test rows that are left out: rows, groups or spans of time.

    Attributes
    ----------
    n_rows : int
        Number of test rows.
    groups : array-like (n_rows,), optional
        Groups, which are the units.
    time : array-like (n_rows,), optional
        Values that order the rows. Spans of time are then the units, in place of groups.
    level : float, optional
        Confidence level of the intervals. None computes none, and calls scorers once.
    """

    n_rows: int
    groups: ArrayLike | None = None
    time: ArrayLike | None = None
    level: float | None = CONFIDENCE

    @property
    def unit(self) -> str:
        """What is left out: "row", "group" or "span of time"."""
        if self.time is not None:
            return "span of time"
        return "row" if self.groups is None else "group"

    @cached_property
    def n_groups(self) -> int | None:
        """Number of groups; None without, or in order of time."""
        return len(np.unique(np.asarray(self.groups))) if self.unit == "group" else None

    @cached_property
    def units(self) -> Int:
        """Unit of each row (n_rows,), from 0."""
        rows = np.arange(self.n_rows)
        if self.time is not None:
            place = np.empty(self.n_rows, dtype=np.intp)
            place[np.argsort(np.asarray(self.time), kind="stable")] = rows
            return place * min(SPANS, self.n_rows) // self.n_rows
        if self.groups is not None:
            rows = np.unique(np.asarray(self.groups), return_inverse=True)[1].reshape(-1)
        return rows % MAX_UNITS

    @property
    def n_units(self) -> int:
        """Number of units."""
        return int(self.units.max()) + 1

    @property
    def is_measured(self) -> bool:
        """Whether intervals are requested, and there are enough units for them."""
        is_enough = self.n_units > 1 and (self.n_groups is None or self.n_groups >= MIN_GROUPS)
        return self.level is not None and is_enough

    def blocks(self, n_max: int = MAX_UNITS) -> Iterator[Int]:
        """Yield which rows are kept (n_block, n_rows) without each unit, 0 or 1.

        If there are more than `n_max` units, several are left out at a time.
        """
        n_units = min(self.n_units, n_max) if self.is_measured else 0
        size = max(1, CELLS_PER_BLOCK // max(self.n_rows, 1))
        for start in range(0, n_units, size):
            units = np.arange(start, min(start + size, n_units))
            yield (self.units % n_max != units[:, None]).astype(np.int64)

    def sums(self, statistics: Float) -> Float:
        """Sum statistics (n_rows, n_statistics) without each unit (n_units, n_statistics)."""
        of_units = np.zeros((self.n_units if self.is_measured else 0, statistics.shape[1]))
        if len(of_units):
            np.add.at(of_units, self.units, statistics)
        return difference(statistics.sum(axis=0), of_units)

    def error(self, metric: MetricValue) -> float:
        """Return the standard error; NaN with too few units, or if a unit decides the metric."""
        if not self.is_measured:
            return math.nan
        n_units = len(metric.without)
        spread = metric.without - metric.without.mean()
        variance = float((n_units - 1) / n_units * (spread**2).sum())
        if metric.is_discrete or variance == 0.0:
            # Add two rows, one predicted rightly and one wrongly.
            variance += 2.0 * metric.swing**2
        return math.sqrt(variance) if variance > 0.0 else math.nan

    def reach(self, metric: MetricValue) -> float:
        """Return half the width of the interval; NaN without one."""
        from scipy.stats import t

        error = self.error(metric)
        if self.level is None or math.isnan(error):
            return math.nan
        return error * float(t.isf((1.0 - self.level) / 2.0, len(metric.without) - 1))

    def interval(self, metric: MetricValue) -> tuple[float, float]:
        """Return the confidence interval, within the limits of the metric; NaN without one."""
        reach = self.reach(metric)
        if math.isnan(reach):
            return math.nan, math.nan
        lowest, highest = metric.limits
        return max(metric.value - reach, lowest), min(metric.value + reach, highest)

    def chance(self, metric: MetricValue, margin: float) -> float:
        """Return the confidence that the metric exceeds a margin; 0 without an interval."""
        from scipy.stats import t

        error = self.error(metric)
        if math.isnan(error):
            return 0.0
        statistic = difference(metric.value, margin) / error
        return float(t.cdf(statistic, len(metric.without) - 1))


def measure_metrics(
    answers: Sequence[Answers],
    truth: EvaluationTarget,
    metrics: Sequence[str],
    jackknife: Jackknife,
    scoring: Scoring | None = None,
) -> dict[str, list[MetricValue]]:
    """Return each metric of all answers on the test rows, whole and without each unit.

    `metrics` are natural names; `scoring`, the scorer of the search, computes the metric of its
    name.
    """
    summed = [
        name for name in metrics if name in METRICS[truth.task] and not _is_custom(name, scoring)
    ]
    values = _from_sums(summed, answers, truth, jackknife) if summed else {}
    scored = [name for name in metrics if name not in values]
    if scored:
        values |= _from_scorers(scored, answers, truth, jackknife, scoring)
    return {name: values[name] for name in metrics}


def _from_sums(
    names: Sequence[str], answers: Sequence[Answers], truth: EvaluationTarget, jackknife: Jackknife
) -> dict[str, list[MetricValue]]:
    """Compute metrics that are functions of sums of statistics over the rows."""
    statistics = [
        row_statistics(truth.task, truth.test, answer.predicted, truth.classes)
        for answer in answers
    ]
    weight = 1.0
    if truth.weight is not None:
        statistics = [truth.weight[:, None] * rows for rows in statistics]
        weight = float(truth.weight.mean())
    added = _AddedRows.of(truth)
    totals = [rows.sum(axis=0) for rows in statistics]
    sums_without = [jackknife.sums(rows) for rows in statistics]
    values = {}
    for name in names:
        formula = partial(_value_of, METRICS[truth.task][name], truth.positive)
        values[name] = [
            MetricValue(
                float(formula(total[None])[0]),
                formula(without),
                added.swing(formula, total, weight),
                truth.task != "regression",
                value_range(name),
            )
            for total, without in zip(totals, sums_without, strict=True)
        ]
    return values


def _value_of(formula: Value, positive: int, sums: Float) -> Float:
    return formula(sums, positive)


@dataclass(frozen=True, eq=False)
class _AddedRows:
    """Statistics (n_targets, n_statistics) of one more row, predicted rightly and wrongly.

    `share` (n_targets,) are the shares of the targets among the test rows.
    """

    share: Float
    right: Float
    wrong: Float

    @classmethod
    def of(cls, truth: EvaluationTarget) -> _AddedRows:
        """Take the classes of the target, or numbers as far from its mean as they usually are."""
        targets: AnyArray
        counts: AnyArray
        wrong: AnyArray
        if truth.task == "regression":
            mean, spread = truth.test.mean(), truth.test.std()
            targets = np.array([mean + spread, mean - spread])
            counts = np.ones(2)
            wrong = np.full(2, mean)
        else:
            targets, counts = np.unique(truth.test, axis=0, return_counts=True)
            order = np.argsort(-counts, kind="stable")[:_MAX_LABEL_SETS]
            targets, counts = targets[order], counts[order]
            # The most frequent target, or the next one for itself.
            wrong = targets[np.where(np.arange(len(targets)) == 0, min(1, len(targets) - 1), 0)]
            if len(targets) == 1 and truth.task == "multilabel":
                wrong = 1 - targets
            elif len(targets) == 1:
                wrong = truth.classes[truth.classes != targets[0]][:1]
        return cls(
            counts / counts.sum(),
            row_statistics(truth.task, targets, targets, truth.classes),
            row_statistics(truth.task, targets, wrong, truth.classes),
        )

    def swing(self, value: Callable[[Float], Float], total: Float, weight: float) -> float:
        """Return the root mean square change of a metric between both predictions."""
        right = value(total + weight * self.right)
        wrong = value(total + weight * self.wrong)
        return float(np.sqrt(self.share @ (right - wrong) ** 2))


def check_scorable(
    metrics: Sequence[str], truth: EvaluationTarget, scoring: Scoring | None = None
) -> None:
    """Raise InputError for a scorer that fails, or has no value, even on perfect answers."""
    classes: Any = None
    if truth.task == "multilabel":
        classes = [np.array([0, 1])] * truth.test.shape[1]
    elif truth.task != "regression":
        classes = truth.classes
    perfect = Answers(truth.test, classes=classes)
    for name in metrics:
        if name in METRICS[truth.task] and not _is_custom(name, scoring):
            continue
        scorer = _scoring_of(name, truth, scoring)
        rows = np.arange(len(truth.test))
        if np.isnan(_call(scorer, name, perfect, truth, rows)):
            present = np.unique(truth.test).tolist() if truth.task != "regression" else []
            reason = f"all are of class {present[0]!r}" if len(present) == 1 else "it is NaN"
            raise InputError(
                f"the metric {name!r} is undefined for these {len(rows):,} test rows ({reason}); "
                "use another split, or another metric"
            )


def _from_scorers(
    names: Sequence[str],
    answers: Sequence[Answers],
    truth: EvaluationTarget,
    jackknife: Jackknife,
    scoring: Scoring | None,
) -> dict[str, list[MetricValue]]:
    """Call scorers, once for equal answers: an ensemble of one subset equals the best subset."""
    first = [
        next(i for i, other in enumerate(answers) if other is answer or other.equals(answer))
        for answer in answers
    ]
    values: dict[tuple[str, int], MetricValue] = {}
    for name in names:
        scorer = _scoring_of(name, truth, scoring)
        areas = None if _is_custom(name, scoring) else _AREAS.get((truth.task, name))
        for row in dict.fromkeys(first):
            if areas is None:
                values[name, row] = _called(name, answers[row], truth, jackknife, scorer)
            else:
                area = _call(scorer, name, answers[row], truth, np.arange(len(truth.test)))
                rankings = _ranked(answers[row], truth)
                values[name, row] = _ranked_area(area, areas, rankings, truth, jackknife)
    return {name: [values[name, row] for row in first] for name in names}


def _called(
    name: str, answers: Answers, truth: EvaluationTarget, jackknife: Jackknife, scorer: Scoring
) -> MetricValue:
    """Call a scorer on the test rows, and on them without each unit."""
    rows = np.arange(len(truth.test))
    value = _call(scorer, name, answers, truth, rows)
    without = [
        _call(scorer, name, answers, truth, rows[is_kept > 0], strict=False)
        for block in jackknife.blocks(MAX_CALLS)
        for is_kept in block
    ]
    limits = value_range(name)
    width = limits[1] - limits[0]
    return MetricValue(
        value,
        np.array(without, dtype=np.float64),
        (width if math.isfinite(width) else abs(value)) / len(rows),
        truth.task != "regression" and takes_labels(scorer),
        limits,
    )


def _ranked_area(
    value: float,
    areas: Callable[[_RankedRows, Int | Float], Float],
    rankings: Sequence[_RankedRows],
    truth: EvaluationTarget,
    jackknife: Jackknife,
) -> MetricValue:
    """Return the mean area of rankings of the test rows, whole and without each unit.

    There is a ranking for each label, or for each class against the rest.
    """
    without = [np.empty(0)]
    for counts in jackknife.blocks():
        weights = counts if truth.weight is None else counts * truth.weight
        without.append(np.mean([areas(rows, weights) for rows in rankings], axis=0))
    # One more row is ranked as the best or as the worst of its class.
    n_up = np.array([rows.positive.sum() for rows in rankings])
    n_down = len(truth.test) - n_up
    squares = fraction(1.0, n_up) + fraction(1.0, n_down)
    swing = math.sqrt(float(squares.mean()) / len(truth.test))
    return MetricValue(value, np.concatenate(without), swing, False, (0.0, 1.0))


def _is_custom(name: str, scoring: Scoring | None) -> bool:
    """Whether a metric is that of a scorer without a name in scikit-learn."""
    return scoring is not None and not scoring.is_named and name == scoring.metric


def _scoring_of(name: str, truth: EvaluationTarget, scoring: Scoring | None) -> Scoring:
    """Return the scorer of a metric: that of the search, or that of scikit-learn."""
    if scoring is not None and _is_custom(name, scoring):
        return scoring
    scorer = scorer_of(name)
    assert scorer is not None
    return resolve_scoring(scorer, None, truth.train, truth.task, truth.pos_label)


def _call(
    scorer: Scoring,
    name: str,
    answers: Answers,
    truth: EvaluationTarget,
    rows: NDArray[np.intp],
    *,
    strict: bool = True,
) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            weight = None if truth.weight is None else truth.weight[rows]
            cost = scorer.cost(answers.estimator(), rows[:, None], truth.test[rows], weight)
            return float(scorer.natural(cost))
        except Exception as error:
            if not strict:  # the rows may lack a class without a unit
                return float("nan")
            reason = " ".join(str(error).split())
            raise InputError(
                f"the metric {name!r} cannot be computed for a {truth.task} target and these test "
                f"rows ({type(error).__name__}: {reason}); remove it, or choose another"
            ) from error


# ---------------------------------------------------------------- areas under curves


@dataclass(frozen=True, eq=False)
class _RankedRows:
    """Rows in descending order of a score.

    `order` and `positive` (n_rows,) are in this order; `starts` (n_values,) has the first row of
    each value of the score.
    """

    order: Int
    positive: Bool
    starts: Int

    @classmethod
    def of(cls, score: Float, positive: Bool) -> _RankedRows:
        """Sort rows by their score (n_rows,)."""
        order = np.argsort(-score, kind="stable")
        starts = np.flatnonzero(np.append(True, np.diff(score[order]) != 0))
        return cls(order, positive[order], starts)

    def counted(self, counts: Int | Float) -> tuple[Float, Float]:
        """Count positive and negative rows (n, n_values), by the counts (n, n_rows) of rows."""
        ordered = counts[:, self.order].astype(np.float64)
        up = ordered * self.positive
        down = ordered * ~self.positive
        if len(self.starts) == len(self.order):
            return up, down
        return np.add.reduceat(up, self.starts, axis=1), np.add.reduceat(down, self.starts, axis=1)


def _roc_areas(rows: _RankedRows, counts: Int | Float) -> Float:
    """Return the area under the ROC curve for each row of `counts` (n, n_rows)."""
    up, down = rows.counted(counts)
    n_up = up.sum(axis=1)
    n_down = down.sum(axis=1)
    # Count the negative rows below each positive one, and half of the tied ones.
    below = np.cumsum(down, axis=1)
    np.subtract(n_down[:, None], below, out=below)
    below += np.divide(down, 2.0, out=down)
    return fraction((up * below).sum(axis=1), n_up * n_down, np.nan)


def _precision_areas(rows: _RankedRows, counts: Int | Float) -> Float:
    """Return the average precision for each row of `counts`; 0 without a positive row."""
    up, down = rows.counted(counts)
    precision = fraction(np.cumsum(up, axis=1), np.cumsum(up + down, axis=1))
    return fraction((up * precision).sum(axis=1), up.sum(axis=1))


_AREAS = {
    ("binary", "roc_auc"): _roc_areas,
    ("binary", "average_precision"): _precision_areas,
    ("multilabel", "roc_auc"): _roc_areas,
    ("multilabel", "average_precision"): _precision_areas,
    ("multiclass", "roc_auc_ovr"): _roc_areas,
}


def _ranked(answers: Answers, truth: EvaluationTarget) -> list[_RankedRows]:
    """Rank the rows for each label, or for each class against the rest."""
    model = answers.estimator()
    rows = answers.positions
    if truth.task == "multilabel":
        scores = model.decision_function(rows)
        return [_RankedRows.of(s, t == 1) for s, t in zip(scores.T, truth.test.T, strict=True)]
    if truth.task == "multiclass":
        scores = model.predict_proba(rows)
        return [
            _RankedRows.of(scores[:, i], truth.test == label)
            for i, label in enumerate(answers.classes)
        ]
    score = np.asarray(model.decision_function(rows), dtype=np.float64)
    positive = truth.classes[truth.positive]
    score = score if answers.classes[1] == positive else -score
    return [_RankedRows.of(score, truth.test == positive)]
