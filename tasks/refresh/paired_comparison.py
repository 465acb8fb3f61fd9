"""Paired comparison of a champion and a challenger on the same rows."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from numpy.typing import ArrayLike

from swarm.answers import Answers
from swarm.arrays import AnyArray
from swarm.metrics import display_name, is_lower_better, natural_name
from swarm.rounding import rounding_error
from swarm.statistics.resampled import CONFIDENCE
from swarm.validation.answers import EvaluationTarget
from swarm.validation.jackknife import Jackknife, measure_metrics


@dataclass(frozen=True)
class PairedComparison:
    """Result of a paired comparison of a champion and a challenger in one metric."""

    metric: str
    champion: float
    challenger: float
    gain: float  # improvement of the challenger over the champion; negative if it is worse
    low: float  # confidence interval of the gain; NaN with a single row, or fewer than five groups
    high: float
    chance: float  # confidence that the gain exceeds the margin; 0 without an interval
    margin: float  # required gain
    confidence: float  # that is required
    n_rows: int
    n_groups: int | None

    @property
    def won(self) -> bool:
        """Whether the challenger is better by more than the margin, at the required confidence."""
        error = rounding_error(self.champion, self.challenger)
        return bool(self.gain > self.margin + error) and self.chance >= self.confidence

    def verdict(self) -> str:
        """Summarise the result in one sentence."""
        return (
            f"{display_name(self.metric)} {self.challenger:.4f} against {self.champion:.4f} on "
            f"{self.n_rows} rows: gain {self.gain:+z.4f}, above the margin with a confidence of "
            f"{_percent(self.chance)}; required: a gain above {self.margin:g} with "
            f"{_percent(self.confidence)}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON types, NaN as None."""
        plain = {**asdict(self), "won": self.won}
        return {key: None if value != value else value for key, value in plain.items()}


def _percent(share: float) -> str:
    """Format a share without rounding it up to certainty."""
    return f"{math.floor(1000 * share) / 10:.3g}%"


def duel(
    truth: EvaluationTarget,
    # (n_rows,) or (n_rows, n_labels); answers if the metric needs probabilities
    champion: AnyArray | Answers,
    challenger: AnyArray | Answers,
    metric: str,
    *,
    groups: ArrayLike | None = None,  # (n_rows,)
    time: ArrayLike | None = None,  # (n_rows,), orders the rows; groups do not count then
    margin: float = 0.0,  # gain that the challenger has to exceed, in units of the metric
    confidence: float = CONFIDENCE,  # with which it has to exceed it
) -> PairedComparison:
    """Compare two predictions, paired, by a jackknife of rows, whole groups, or spans of time."""
    answers = [one if isinstance(one, Answers) else Answers(one) for one in (champion, challenger)]
    metric = natural_name(metric)
    jackknife = Jackknife(len(truth.test), groups, time, confidence)
    before, now = measure_metrics(answers, truth, [metric], jackknife)[metric]
    gain = before.minus(now) if is_lower_better(metric) else now.minus(before)
    low, high = jackknife.interval(gain)
    return PairedComparison(
        metric=metric,
        champion=before.value,
        challenger=now.value,
        gain=gain.value,
        low=low,
        high=high,
        chance=jackknife.chance(gain, margin),
        margin=margin,
        confidence=confidence,
        n_rows=jackknife.n_rows,
        n_groups=jackknife.n_groups,
    )
