"""Paired comparison of a champion and a challenger on the same rows."""

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
    """Result of a paired comparison of a champion and a challenger in one metric.

    Attributes
    ----------
    metric : str
    champion, challenger : float
        Scores.
    gain : float
        Improvement of the challenger over the champion; negative if it is worse.
    low, high : float
        Confidence interval of the gain; NaN with a single row, or fewer than five groups.
    chance : float
        Confidence that the gain exceeds the margin; 0 without an interval.
    margin : float
        Required gain.
    confidence : float
        Required confidence.
    n_rows : int
    n_groups : int or None
    """

    metric: str
    champion: float
    challenger: float
    gain: float
    low: float
    high: float
    chance: float
    margin: float
    confidence: float
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
        values = {**asdict(self), "won": self.won}
        return {key: None if value != value else value for key, value in values.items()}


def _percent(share: float) -> str:
    """Format a share without rounding it up to certainty."""
    return f"{math.floor(1000 * share) / 10:.3g}%"


def duel(
    truth: EvaluationTarget,
    champion: AnyArray | Answers,
    challenger: AnyArray | Answers,
    metric: str,
    *,
    groups: ArrayLike | None = None,
    time: ArrayLike | None = None,
    margin: float = 0.0,
    confidence: float = CONFIDENCE,
) -> PairedComparison:
    """Compare two predictions, paired, by a jackknife of rows, whole groups, or spans of time.

    Parameters
    ----------
    truth : EvaluationTarget
    champion, challenger : array (n_rows,) or (n_rows, n_labels), or Answers
        Predictions; answers if the metric needs probabilities.
    metric : str
    groups : (n_rows,), optional
        Groups, which are left out whole.
    time : (n_rows,), optional
        Values that order the rows; groups are ignored then.
    margin : float
        Gain that the challenger has to exceed, in units of the metric.
    confidence : float
        Confidence with which it has to exceed it.
    """
    answers = [
        predictions if isinstance(predictions, Answers) else Answers(predictions)
        for predictions in (champion, challenger)
    ]
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
