"""Recognise the scorers of scikit-learn by metric, parameters, sign and response method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from swarm.problem.scoring import Scoring


@dataclass(frozen=True)
class Metric:
    """A metric of scikit-learn and its parameters."""

    name: str  # of the function in sklearn.metrics
    kwargs: Mapping[str, Any]
    sign: int  # 1 if higher is better, otherwise -1


def metric_of(scoring: Scoring) -> Metric | None:
    """Return the metric of a scorer made by ``make_scorer``, or None for any other callable."""
    from sklearn import metrics

    scorer = scoring.quiet or scoring.scorer
    kind = type(scorer)
    if (kind.__module__, kind.__name__) != ("sklearn.metrics._scorer", "_Scorer"):
        return None
    function: Callable[..., Any] = scorer._score_func  # type: ignore[attr-defined]
    name = getattr(function, "__name__", "")
    if getattr(metrics, name, None) is not function:
        return None
    kwargs, sign = scorer._kwargs, scorer._sign  # type: ignore[attr-defined]
    return Metric(name, dict(kwargs or {}), int(sign))


def takes_labels(scoring: Scoring) -> bool:
    """Whether the scorer only needs ``predict``."""
    return getattr(scoring.scorer, "_response_method", None) == "predict"


def takes_probabilities(scoring: Scoring) -> bool:
    """Whether the scorer is computed from ``predict_proba`` if there is no decision function."""
    methods = getattr(scoring.scorer, "_response_method", None)
    return methods == "predict_proba" or methods == ("decision_function", "predict_proba")


def magnifies_rounding(scoring: Scoring) -> bool:
    """Whether the scorer divides by predictions or takes their powers, so that rounding matters."""
    from sklearn import metrics

    functions = (
        metrics.d2_tweedie_score,
        metrics.mean_gamma_deviance,
        metrics.mean_poisson_deviance,
        metrics.mean_tweedie_deviance,
    )
    return getattr(scoring.scorer, "_score_func", None) in functions
