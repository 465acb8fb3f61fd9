"""Tables of metrics, of their paired differences, and of predictions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from swarm.arrays import AnyArray, Float
from swarm.validation.contenders import CONTENDERS, Contender
from swarm.validation.evaluation_target import EvaluationTarget
from swarm.validation.evidence import Evidence, Guessing
from swarm.validation.metrics import LOWER_IS_BETTER
from swarm.validation.scorer_metrics import MetricDraws

__all__ = [
    "figures",
    "guessing_evidence",
    "mean_by_contender",
    "prediction_table",
    "selection_evidence",
]

Bounds = Callable[[Float], tuple[float, float]]


def mean_by_contender(contenders: Sequence[Contender], values: Sequence[Any]) -> dict[str, Any]:
    """Return the value of each contender, averaged over its draws."""
    return {
        name: np.mean(
            [v for c, v in zip(contenders, values, strict=True) if c.name == name], axis=0
        )
        for name in CONTENDERS
    }


def figures(
    contenders: Sequence[Contender], measured: Mapping[str, MetricDraws], bounds: Bounds
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the table of metrics and the table of their paired differences.

    Parameters
    ----------
    contenders : sequence of Contender
    measured : mapping of str to list
        For each metric its value and resamples of each contender, in the same order.
    bounds : callable
        Confidence interval of resamples.
    """
    n_features = mean_by_contender(contenders, [c.n_features for c in contenders])
    n_models = {c.name: len(c.subsets) for c in contenders}
    rows: list[dict[str, Any]] = []
    gaps: list[dict[str, Any]] = []
    for metric, drawn in measured.items():
        value, draws = (
            mean_by_contender(contenders, list(each)) for each in zip(*drawn, strict=True)
        )
        for name in CONTENDERS:
            low, high = bounds(draws[name])
            figure = {"contender": name, "metric": metric, "value": float(value[name])}
            sizes = {"n_features": round(n_features[name]), "n_models": n_models[name]}
            rows.append({**figure, "low": low, "high": high, **sizes})
            if name == "ensemble":
                continue
            low, high = bounds(draws["ensemble"] - draws[name])
            gap = {"difference": float(value["ensemble"] - value[name]), "low": low, "high": high}
            favours = _favours(name, low, high, metric in LOWER_IS_BETTER)
            gaps.append({"contender": name, "metric": metric, **gap, "favours": favours})
    return _in_order(rows), _in_order(gaps)


def selection_evidence(
    contenders: Sequence[Contender], metric: str, drawn: MetricDraws, bounds: Bounds, rows: str
) -> Evidence:
    """Compare the best subset with all features, one model each, on the same resamples.

    Parameters
    ----------
    contenders, bounds
        As for :func:`figures`.
    metric, drawn
        The first metric, with its values and resamples.
    rows : str
        What the metric was computed on.
    """
    names = [contender.name for contender in contenders]
    (own, draws), (other, rival) = (
        drawn[names.index(name)] for name in ("best_subset", "all_features")
    )
    return Evidence(rows, metric, own, other, *bounds(draws - rival))


def guessing_evidence(
    contenders: Sequence[Contender],
    metric: str,
    drawn: MetricDraws,
    guess: tuple[float, Float],
    bounds: Bounds,
) -> Guessing:
    """Compare the contenders that selection is about with a model that ignores the features.

    Parameters
    ----------
    contenders, metric, drawn, bounds
        As for :func:`selection_evidence`.
    guess : (float, float64 (n_resamples,))
        Value of the metric of that model, and its resamples.
    """
    value, rival = guess
    beaten = any(
        Evidence("", metric, own, value, *bounds(draws - rival)).verdict == "better"
        for contender, (own, draws) in zip(contenders, drawn, strict=True)
        if contender.name in ("ensemble", "best_subset", "all_features")
    )
    return Guessing(metric, value, beaten or math.isnan(bounds(rival)[0]))


def _in_order(rows: list[dict[str, Any]]) -> pd.DataFrame:
    place = list(CONTENDERS)
    ordered = sorted(rows, key=lambda row: place.index(row["contender"]))
    return pd.DataFrame(ordered)


def _favours(other: str, low: float, high: float, lower_is_better: bool) -> str:
    if lower_is_better:
        low, high = -high, -low
    if low > 0.0:
        return "ensemble"
    return other if high < 0.0 else "neither"


def prediction_table(
    contenders: Sequence[Contender],
    predicted: Sequence[AnyArray],
    truth: EvaluationTarget,
    index: pd.Index[Any],
    labels: Sequence[Any] | None,
) -> pd.DataFrame:
    """Return a table of the true target and all predictions; `labels` names multi-label columns."""
    answers = {"y_true": truth.test}
    draw = 0
    for contender, answer in zip(contenders, predicted, strict=True):
        draw += contender.name == "random_subsets"
        answers[f"{contender.name}_{draw}" if draw else contender.name] = answer
    if truth.task != "multilabel":
        return pd.DataFrame(answers, index=index)
    named = range(truth.test.shape[1]) if labels is None else labels
    columns = {f"{name}.{c}": v[:, i] for name, v in answers.items() for i, c in enumerate(named)}
    return pd.DataFrame(columns, index=index)
