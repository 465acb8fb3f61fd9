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

# More rows or groups are left out several at a time, so that the work grows linearly.
MOST_UNITS = 1000
# The same for scorers that are called.
MOST_CALLS = 20
# With fewer groups no interval keeps its level unless they are alike.
FEWEST_GROUPS = 5
# Long enough that neighbouring spans hardly correlate, and enough for a t quantile of 2.4.
SPANS = 8
# So few that the counts of a block, and what is made of them, stay in the cache of a processor.
CELLS_PER_BLOCK = 300_000
# Kinds of rows of a multi-label target that an added row may be, the most frequent ones.
_MOST_KINDS = 20


@dataclass(frozen=True, eq=False)
class Measured:
    """A metric of the test rows, or a difference of two, and what it rests on."""

    value: float
    without: Float  # (n_units,), the metric of the rows without each unit
    # Root mean square change by one more row that is answered rightly instead of wrongly.
    swing: float
    # Whether a row is answered rightly or wrongly, so that few rows may show no difference at all.
    is_discrete: bool
    limits: tuple[float, float]

    def minus(self, other: Measured) -> Measured:
        """Return the paired difference."""
        (low, high), (other_low, other_high) = self.limits, other.limits
        return Measured(
            float(difference(self.value, other.value)),
            difference(self.without, other.without),
            math.sqrt((self.swing**2 + other.swing**2) / 2.0),
            self.is_discrete or other.is_discrete,
            (low - other_high, high - other_low),
        )

    @staticmethod
    def mean(several: Sequence[Measured]) -> Measured:
        """Return the mean of a metric over several answers."""
        return Measured(
            float(np.mean([one.value for one in several])),
            np.mean([one.without for one in several], axis=0),
            math.sqrt(np.mean([one.swing**2 for one in several])),
            several[0].is_discrete,
            several[0].limits,
        )


@dataclass(frozen=True, eq=False)
class Jackknife:
    """The units of the test rows: groups if there are any, spans of time if there are times."""

    n_rows: int
    groups: ArrayLike | None = None  # (n_rows,)
    time: ArrayLike | None = None  # (n_rows,), orders the rows; groups do not count then
    # Confidence level of the intervals; None computes none, and calls scorers once.
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
        rows: Int = np.arange(self.n_rows)
        if self.time is not None:
            place = np.empty(self.n_rows, dtype=np.intp)
            place[np.argsort(np.asarray(self.time), kind="stable")] = rows
            spans: Int = place * min(SPANS, self.n_rows) // self.n_rows
            return spans
        if self.groups is not None:
            rows = np.unique(np.asarray(self.groups), return_inverse=True)[1].reshape(-1)
        return rows % MOST_UNITS

    @property
    def n_units(self) -> int:
        """Number of units."""
        return int(self.units.max()) + 1

    @property
    def is_measured(self) -> bool:
        """Whether intervals are wanted, and there are units enough for them."""
        is_enough = self.n_units > 1 and (self.n_groups is None or self.n_groups >= FEWEST_GROUPS)
        return self.level is not None and is_enough

    def blocks(self, most: int = MOST_UNITS) -> Iterator[Int]:
        """Yield whether each row is left (n_block, n_rows), a row for each of at most `most` units.

        Of more units several are left out at a time.
        """
        n_units = min(self.n_units, most) if self.is_measured else 0
        size = max(1, CELLS_PER_BLOCK // max(self.n_rows, 1))
        for start in range(0, n_units, size):
            units = np.arange(start, min(start + size, n_units))
            yield (self.units % most != units[:, None]).astype(np.int64)

    def sums(self, statistics: Float) -> Float:
        """Sum statistics (n_rows, n_statistics) without each unit (n_units, n_statistics)."""
        of_units = np.zeros((self.n_units if self.is_measured else 0, statistics.shape[1]))
        if len(of_units):
            np.add.at(of_units, self.units, statistics)
        left: Float = difference(statistics.sum(axis=0), of_units)
        return left

    def error(self, measured: Measured) -> float:
        """Return the standard error; NaN without units enough, or if a unit decides it."""
        if not self.is_measured:
            return math.nan
        n_units = len(measured.without)
        spread = measured.without - measured.without.mean()
        variance = float((n_units - 1) / n_units * (spread**2).sum())
        if measured.is_discrete or variance == 0.0:
            # Two more rows, one answered rightly and one wrongly.
            variance += 2.0 * measured.swing**2
        return math.sqrt(variance) if variance > 0.0 else math.nan

    def reach(self, measured: Measured) -> float:
        """Return half the width of the interval; NaN without one."""
        from scipy.stats import t

        error = self.error(measured)
        if self.level is None or math.isnan(error):
            return math.nan
        return error * float(t.isf((1.0 - self.level) / 2.0, len(measured.without) - 1))

    def interval(self, measured: Measured) -> tuple[float, float]:
        """Return the confidence interval, within the limits of the metric; NaN without one."""
        reach, (lowest, highest) = self.reach(measured), measured.limits
        if math.isnan(reach):
            return math.nan, math.nan
        return max(measured.value - reach, lowest), min(measured.value + reach, highest)

    def chance(self, measured: Measured, margin: float) -> float:
        """Return the confidence that the metric exceeds a margin; 0 without an interval."""
        from scipy.stats import t

        error = self.error(measured)
        if math.isnan(error):
            return 0.0
        beyond = difference(measured.value, margin) / error
        return float(t.cdf(beyond, len(measured.without) - 1))


def measure_metrics(
    answers: Sequence[Answers],
    truth: EvaluationTarget,
    metrics: Sequence[str],  # natural names
    jackknife: Jackknife,
    scoring: Scoring | None = None,  # scorer of the search, which computes the metric of its name
) -> dict[str, list[Measured]]:
    """Return each metric of all answers on the test rows, whole and without each unit."""
    measured: dict[str, list[Measured]] = {}
    summed = [
        name for name in metrics if name in METRICS[truth.task] and not _is_custom(name, scoring)
    ]
    if summed:
        statistics = [
            row_statistics(truth.task, truth.test, one.predicted, truth.classes) for one in answers
        ]
        weight = 1.0
        if truth.weight is not None:
            statistics = [truth.weight[:, None] * one for one in statistics]
            weight = float(truth.weight.mean())
        added = _Added.of(truth)
        drawn = [jackknife.sums(one) for one in statistics]
        for name in summed:
            value = partial(_of_sums, METRICS[truth.task][name], truth.positive)
            measured[name] = [
                Measured(
                    float(value(one.sum(axis=0, keepdims=True))[0]),
                    value(sums),
                    added.swing(value, one.sum(axis=0), weight),
                    truth.task != "regression",
                    value_range(name),
                )
                for one, sums in zip(statistics, drawn, strict=True)
            ]
    called = [name for name in metrics if name not in measured]
    if called:
        measured |= _scored(called, answers, truth, jackknife, scoring)
    return {name: measured[name] for name in metrics}


def _of_sums(value: Value, positive: int, sums: Float) -> Float:
    return value(sums, positive)


@dataclass(frozen=True, eq=False)
class _Added:
    """Statistics of one more row of each kind, if it is answered rightly and if wrongly."""

    share: Float  # (n_kinds,), of the test rows
    right: Float  # (n_kinds, n_statistics)
    wrong: Float

    @classmethod
    def of(cls, truth: EvaluationTarget) -> _Added:
        """Take the classes of the target, or numbers as far from its mean as they usually are."""
        if truth.task == "regression":
            mean, spread = truth.test.mean(), truth.test.std()
            kinds: AnyArray = np.array([mean + spread, mean - spread])
            counts: AnyArray = np.ones(2)
            wrong: AnyArray = np.full(2, mean)
        else:
            kinds, counts = np.unique(truth.test, axis=0, return_counts=True)
            order = np.argsort(-counts, kind="stable")[:_MOST_KINDS]
            kinds, counts = kinds[order], counts[order]
            wrong = kinds[np.where(np.arange(len(kinds)) == 0, min(1, len(kinds) - 1), 0)]
            if len(kinds) == 1 and truth.task == "multilabel":
                wrong = 1 - kinds
            elif len(kinds) == 1:
                wrong = truth.classes[truth.classes != kinds[0]][:1]
        right, missed = (
            row_statistics(truth.task, kinds, answer, truth.classes) for answer in (kinds, wrong)
        )
        return cls(counts / counts.sum(), right, missed)

    def swing(self, value: Callable[[Float], Float], total: Float, weight: float) -> float:
        """Return the root mean square change of a metric between both answers."""
        right, wrong = (value(total + weight * added) for added in (self.right, self.wrong))
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
        if name not in METRICS[truth.task] or _is_custom(name, scoring):
            scorer, rows = _scoring_of(name, truth, scoring), np.arange(len(truth.test))
            if np.isnan(_call(scorer, name, perfect, truth, rows)):
                present = np.unique(truth.test).tolist() if truth.task != "regression" else []
                one = f"all are of class {present[0]!r}" if len(present) == 1 else "it is NaN"
                raise InputError(
                    f"the metric {name!r} is undefined for these {len(rows):,} test rows ({one}); "
                    "use another split, or another metric"
                )


def _scored(
    names: Sequence[str],
    answers: Sequence[Answers],
    truth: EvaluationTarget,
    jackknife: Jackknife,
    scoring: Scoring | None,
) -> dict[str, list[Measured]]:
    # With a single subset the ensemble equals the best subset; equal answers are scored once.
    first = [
        next(i for i, other in enumerate(answers) if other is one or other.equals(one))
        for one in answers
    ]
    found: dict[tuple[str, int], Measured] = {}
    for name in names:
        scorer = _scoring_of(name, truth, scoring)
        areas = None if _is_custom(name, scoring) else _AREAS.get((truth.task, name))
        for row in dict.fromkeys(first):
            if areas is None:
                one = _called(name, answers[row], truth, jackknife, scorer)
            else:
                value = _call(scorer, name, answers[row], truth, np.arange(len(truth.test)))
                one = _ranked_area(value, areas, _ranked(answers[row], truth), truth, jackknife)
            found[name, row] = one
    return {name: [found[name, row] for row in first] for name in names}


def _called(
    name: str, answers: Answers, truth: EvaluationTarget, jackknife: Jackknife, scorer: Scoring
) -> Measured:
    """Call a scorer on the test rows, and on them without each unit."""
    everything = np.arange(len(truth.test))
    value = _call(scorer, name, answers, truth, everything)
    without = [
        _call(scorer, name, answers, truth, everything[kept > 0], strict=False)
        for block in jackknife.blocks(MOST_CALLS)
        for kept in block
    ]
    limits = value_range(name)
    width = limits[1] - limits[0]
    return Measured(
        value,
        np.array(without, dtype=np.float64),
        (width if math.isfinite(width) else abs(value)) / len(everything),
        truth.task != "regression" and takes_labels(scorer),
        limits,
    )


def _ranked_area(
    value: float,
    areas: Callable[[_RankedRows, Int | Float], Float],
    ranked: Sequence[_RankedRows],  # of each label, or of each class against the rest
    truth: EvaluationTarget,
    jackknife: Jackknife,
) -> Measured:
    """Return the mean area of rankings of the test rows, whole and without each unit."""
    without = [np.empty(0)]
    for counts in jackknife.blocks():
        # Rows count with their weight.
        weighted = counts if truth.weight is None else counts * truth.weight
        without.append(np.mean([areas(rows, weighted) for rows in ranked], axis=0))
    # A row is the best or the worst of its class.
    n_up = np.array([rows.positive.sum() for rows in ranked])
    n_down = len(truth.test) - n_up
    squares = fraction(1.0, n_up) + fraction(1.0, n_down)
    swing = math.sqrt(float(squares.mean()) / len(truth.test))
    return Measured(value, np.concatenate(without), swing, False, (0.0, 1.0))


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
            stand_in, target = answers.estimator(), truth.test[rows]
            return float(scorer.natural(scorer.cost(stand_in, rows[:, None], target, weight)))
        except Exception as error:
            if not strict:
                # Without a unit the rows may lack a class.
                return float("nan")
            reason = " ".join(str(error).split())
            raise InputError(
                f"the metric {name!r} cannot be computed for a {truth.task} target and these test "
                f"rows ({type(error).__name__}: {reason}); remove it, or choose another"
            ) from error


# ---------------------------------------------------------------- areas under curves


@dataclass(frozen=True, eq=False)
class _RankedRows:
    """Rows by descending score, to be counted often."""

    order: Int  # (n_rows,)
    positive: Bool  # (n_rows,), in that order
    starts: Int  # (n_values,), the first row of each value of the score

    @classmethod
    def of(cls, score: Float, positive: Bool) -> _RankedRows:
        """Sort rows by their score (n_rows,)."""
        order = np.argsort(-score, kind="stable")
        starts = np.flatnonzero(np.append(True, np.diff(score[order]) != 0))
        return cls(order, positive[order], starts)

    def counted(self, counts: Int | Float) -> tuple[Float, Float]:
        """Count positive and negative rows (n, n_values), by the counts (n, n_rows) of rows."""
        ordered = counts[:, self.order].astype(np.float64)
        up, down = ordered * self.positive, ordered * ~self.positive
        if len(self.starts) == len(self.order):
            return up, down
        starts = self.starts
        return np.add.reduceat(up, starts, axis=1), np.add.reduceat(down, starts, axis=1)


def _roc_areas(rows: _RankedRows, counts: Int | Float) -> Float:
    """Return the area under the ROC curve for each row of `counts` (n, n_rows)."""
    up, down = rows.counted(counts)
    n_up, n_down = up.sum(axis=1), down.sum(axis=1)
    # Pairs with a negative row below, or in half of them a tied one.
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
    """Rank the rows for each label, or for each class against the rest; the mean area counts."""
    model, rows = answers.estimator(), answers.positions
    if truth.task == "multilabel":
        scores = model.decision_function(rows)
        return [_RankedRows.of(s, t == 1) for s, t in zip(scores.T, truth.test.T, strict=True)]
    if truth.task == "multiclass":
        scores, classes = model.predict_proba(rows), answers.classes
        return [_RankedRows.of(scores[:, i], truth.test == one) for i, one in enumerate(classes)]
    score = np.asarray(model.decision_function(rows), dtype=np.float64)
    positive = truth.classes[truth.positive]
    score = score if answers.classes[1] == positive else -score
    return [_RankedRows.of(score, truth.test == positive)]
