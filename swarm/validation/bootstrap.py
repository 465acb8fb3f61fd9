"""Metrics of the answers on test rows, and on a paired bootstrap of the rows or of whole groups.

Metrics that are functions of sums, and areas under the ROC and the precision-recall curve, are
computed for all resamples at once. Every other scikit-learn scorer is called for each resample.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from swarm.answers import Answers
from swarm.arrays import Bool, Float, Int
from swarm.errors import InputError
from swarm.metrics import METRICS, fraction, row_statistics, scorer_of
from swarm.problem.scoring import Scoring, resolve_scoring
from swarm.statistics.resampled import CONFIDENCE
from swarm.validation.answers import EvaluationTarget

# So few that the counts of a block, and what is made of them, stay in the cache of a processor.
CELLS_PER_BLOCK = 300_000
# Takes estimator, rows, target and weights.
Scorer = Callable[[Any, Any, Any, Any], float]


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """A bootstrap of the test rows: of `n_rows` rows, or of as many whole groups as there are."""

    n_rows: int
    groups: ArrayLike | None = None  # (n_rows,)
    n_resamples: int = 1000
    seed: int = 0
    level: float = CONFIDENCE  # confidence level of the intervals

    @property
    def n_groups(self) -> int | None:
        """Number of groups; None without."""
        return None if self.groups is None else len(np.unique(np.asarray(self.groups)))

    @property
    def varies(self) -> bool:
        """Whether resamples differ: all resamples of a single row or group are equal."""
        return (self.n_rows if self.groups is None else self.n_groups) != 1

    def blocks(self) -> Iterator[Int]:
        """Yield how often each row occurs in each resample (n_block, n_rows), in bounded memory."""
        rng = np.random.default_rng([self.seed, 1])
        codes = None
        n_drawn = self.n_rows
        if self.groups is not None:
            names, codes = np.unique(np.asarray(self.groups), return_inverse=True)
            n_drawn = len(names)
        size = max(1, CELLS_PER_BLOCK // max(self.n_rows, 1))
        for start in range(0, self.n_resamples, size):
            n_block = min(size, self.n_resamples - start)
            counts = np.zeros((n_block, n_drawn), dtype=np.int64)
            for row in counts:
                row += np.bincount(rng.integers(n_drawn, size=n_drawn), minlength=n_drawn)
            yield counts if codes is None else counts[:, codes]

    def sums(self, statistics: Sequence[Float]) -> list[Float]:
        """Sum statistics (n_rows, n_statistics) per contender to (n_resamples, n_statistics)."""
        together = np.concatenate(list(statistics), axis=1)
        sums = np.concatenate([block.astype(np.float64) @ together for block in self.blocks()])
        ends = np.cumsum([one.shape[1] for one in statistics])[:-1]
        return np.split(sums, ends, axis=1)

    def interval(self, values: Float) -> tuple[float, float]:
        """Return the percentile interval of resampled values (n_resamples,), without the NaN.

        NaN if none is left, or resamples do not vary: the interval would have zero width.
        """
        tail = (1.0 - self.level) / 2.0
        values = values[~np.isnan(values)]
        if not (self.varies and len(values)):
            return float("nan"), float("nan")
        low, high = np.quantile(values, [tail, 1.0 - tail])
        return float(low), float(high)


# Observed value and values of all resamples (n_resamples,), for each set of answers.
MetricDraws = list[tuple[float, Float]]


def measure_metrics(
    answers: Sequence[Answers],
    truth: EvaluationTarget,
    metrics: Sequence[str],  # natural names
    bootstrap: Bootstrap,
    scoring: Scoring | None = None,  # scorer of the search, which computes the metric of its name
) -> dict[str, MetricDraws]:
    """Return each metric of all answers, on the test rows and on the same resamples of them."""
    measured: dict[str, MetricDraws] = {}
    summed = [
        name for name in metrics if name in METRICS[truth.task] and not _is_custom(name, scoring)
    ]
    if summed:
        statistics = [
            row_statistics(truth.task, truth.test, one.predicted, truth.classes) for one in answers
        ]
        if truth.weight is not None:
            statistics = [truth.weight[:, None] * one for one in statistics]
        drawn = bootstrap.sums(statistics)
        for name in summed:
            value = METRICS[truth.task][name]
            measured[name] = [
                (
                    float(value(one.sum(axis=0, keepdims=True), truth.positive)[0]),
                    value(sums, truth.positive),
                )
                for one, sums in zip(statistics, drawn, strict=True)
            ]
    called = [name for name in metrics if name not in measured]
    if called:
        measured |= _scored(called, answers, truth, bootstrap, scoring)
    return {name: measured[name] for name in metrics}


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
            scorer, rows = _scorer(name, truth, scoring), np.arange(len(truth.test))
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
    bootstrap: Bootstrap,
    scoring: Scoring | None,
) -> dict[str, MetricDraws]:
    # With a single subset the ensemble equals the best subset; equal answers are scored once.
    first = [
        next(i for i, other in enumerate(answers) if other is one or other.equals(one))
        for one in answers
    ]
    everything = np.arange(len(truth.test))
    values: dict[tuple[str, int], float] = {}
    draw: dict[tuple[str, int], Callable[[Int], Float]] = {}
    for name in names:
        scorer, area = _scorer(name, truth, scoring), not _is_custom(name, scoring)
        for row in dict.fromkeys(first):
            values[name, row] = _call(scorer, name, answers[row], truth, everything)
            draw[name, row] = _resampled(name, answers[row], truth, scorer, area=area)
    drawn: dict[tuple[str, int], list[Float]] = {key: [] for key in draw}
    for counts in bootstrap.blocks():
        for key, resampled in draw.items():
            drawn[key].append(resampled(counts))
    draws = {key: (values[key], np.concatenate(each)) for key, each in drawn.items()}
    return {name: [draws[name, row] for row in first] for name in names}


def _resampled(
    name: str, answers: Answers, truth: EvaluationTarget, scorer: Scorer, *, area: bool
) -> Callable[[Int], Float]:
    """Return the function of row counts (n, n_rows) that returns a metric of each resample (n,)."""
    areas = _AREAS.get((truth.task, name)) if area else None
    if areas is None:
        everything = np.arange(len(truth.test))

        def called(counts: Int) -> Float:
            rows = (np.repeat(everything, row) for row in counts)
            drawn = [_call(scorer, name, answers, truth, row, strict=False) for row in rows]
            return np.array(drawn, dtype=np.float64)

        return called
    ranked = _ranked(answers, truth)

    def measured(counts: Int) -> Float:
        # Rows count as often as they were drawn, times their weight.
        weighted = counts if truth.weight is None else counts * truth.weight
        mean: Float = np.mean([areas(rows, weighted) for rows in ranked], axis=0)
        return mean

    return measured


def _is_custom(name: str, scoring: Scoring | None) -> bool:
    """Whether a metric is that of a scorer without a name in scikit-learn."""
    return scoring is not None and not scoring.is_named and name == scoring.metric


def _scorer(name: str, truth: EvaluationTarget, scoring: Scoring | None) -> Scorer:
    """Return the function of a metric with its natural sign."""
    if scoring is None or not _is_custom(name, scoring):
        scorer = scorer_of(name)
        assert scorer is not None
        scoring = resolve_scoring(scorer, None, truth.train, truth.task, truth.pos_label)
    natural, cost = scoring.natural, scoring.cost
    return lambda *arguments: natural(cost(*arguments))


def _call(
    scorer: Scorer,
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
            return float(scorer(answers.estimator(), rows[:, None], truth.test[rows], weight))
        except Exception as error:
            if not strict:
                # A resample may lack a class.
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
