"""Scorers for unsupervised estimators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from swarm.errors import ConfigError
from swarm.problem.scoring import Scoring

__all__ = ["UnsupervisedScorer", "scoring_without_target"]


@dataclass(frozen=True)
class UnsupervisedScorer:
    """A scorer without a target.

    Attributes
    ----------
    scorer : callable ``(estimator, X) -> float``, or None
        None: the estimator's own ``score``.
    """

    scorer: Callable[..., float] | None = None

    def __call__(self, estimator: Any, features: Any, target: Any = None) -> float:
        """Score the estimator on test rows."""
        if self.scorer is None:
            return float(estimator.score(features))
        return self.scorer(estimator, features)


def scoring_without_target(scoring: str | Callable[..., float] | Scoring | None) -> Scoring:
    """Turn a callable ``(estimator, X) -> float`` into a :class:`Scoring`; its costs are unbounded.

    Raises
    ------
    ConfigError
        If the scorer is given by name: all of these compare predictions with a target.
    """
    if isinstance(scoring, Scoring):
        return scoring
    if isinstance(scoring, str):
        raise ConfigError(
            f"scorer {scoring!r} needs a target and there is none; give y, or a callable "
            "(estimator, X) as scoring"
        )
    name = "score" if scoring is None else getattr(scoring, "__name__", type(scoring).__name__)
    return Scoring(name, UnsupervisedScorer(scoring), upper=None)
