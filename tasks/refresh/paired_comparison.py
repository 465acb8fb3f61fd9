"""Paired bootstrap comparison of a champion and a challenger on the same rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from numpy.typing import ArrayLike

from swarm.answers import Answers
from swarm.arrays import AnyArray
from swarm.metrics import display_name, is_lower_better, natural_name
from swarm.rounding import difference, rounding_error
from swarm.validation.answers import EvaluationTarget
from swarm.validation.bootstrap import Bootstrap, measure_metrics


@dataclass(frozen=True)
class PairedComparison:
    """Result of a paired comparison of a champion and a challenger in one metric."""

    metric: str
    champion: float
    challenger: float
    gain: float  # improvement of the challenger over the champion; negative if it is worse
    low: float  # confidence interval of the gain; NaN if there is only one row or group
    high: float
    chance: float  # share of the resamples in which the gain exceeds the margin
    margin: float  # required gain
    confidence: float  # required share of the resamples
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
            f"{self.n_rows} rows: gain {self.gain:+z.4f}, above the margin in {self.chance:.0%} of "
            f"resamples; "
            f"required: a gain above {self.margin:g} at {self.confidence:.0%}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON types, NaN as None."""
        plain = {**asdict(self), "won": self.won}
        return {key: None if value != value else value for key, value in plain.items()}


def duel(
    truth: EvaluationTarget,
    # (n_rows,) or (n_rows, n_labels); answers if the metric needs probabilities
    champion: AnyArray | Answers,
    challenger: AnyArray | Answers,
    metric: str,
    *,
    groups: ArrayLike | None = None,  # (n_rows,)
    margin: float = 0.0,  # gain that the challenger has to exceed, in units of the metric
    confidence: float = 0.95,  # share of the resamples in which it has to exceed it
    n_resamples: int = 1000,
    seed: int = 0,
) -> PairedComparison:
    """Compare two predictions by a paired bootstrap of the rows, or of whole groups."""
    answers = [one if isinstance(one, Answers) else Answers(one) for one in (champion, challenger)]
    metric = natural_name(metric)
    sign = -1.0 if is_lower_better(metric) else 1.0
    bootstrap = Bootstrap(len(truth.test), groups, n_resamples, seed, confidence)
    measured = measure_metrics(answers, truth, [metric], bootstrap)[metric]
    figures, drawn = [value for value, _ in measured], [draws for _, draws in measured]
    gains = sign * difference(drawn[1], drawn[0])
    exceeds = gains > margin + rounding_error(*drawn)
    low, high = bootstrap.interval(gains)
    return PairedComparison(
        metric=metric,
        champion=figures[0],
        challenger=figures[1],
        gain=float(sign * difference(figures[1], figures[0])),
        low=low,
        high=high,
        chance=float(exceeds.mean()) if bootstrap.varies else 0.0,
        margin=margin,
        confidence=confidence,
        n_rows=bootstrap.n_rows,
        n_groups=bootstrap.n_groups,
    )
