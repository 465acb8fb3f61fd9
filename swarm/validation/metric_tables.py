"""Tables of metrics, of their paired differences, and of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from swarm.arrays import AnyArray, Float
from swarm.validation.answers import Answers
from swarm.validation.bootstrap import interval, n_independent
from swarm.validation.contenders import CONTENDERS, Contender
from swarm.validation.evaluation_target import EvaluationTarget
from swarm.validation.evidence import Evidence
from swarm.validation.metrics import LOWER_IS_BETTER
from swarm.validation.scorer_metrics import measure_metrics

__all__ = ["figures", "mean_by_contender", "prediction_table", "selection_evidence"]


def mean_by_contender(contenders: Sequence[Contender], values: Sequence[Any]) -> dict[str, Any]:
    """Return the value of each contender, averaged over its draws."""
    return {
        name: np.mean(
            [v for c, v in zip(contenders, values, strict=True) if c.name == name], axis=0
        )
        for name in CONTENDERS
    }


def figures(
    contenders: Sequence[Contender],
    predicted: Sequence[AnyArray | Answers],
    truth: EvaluationTarget,
    metrics: Sequence[str],
    groups: ArrayLike | None,
    n_resamples: int,
    level: float,
    seed: int,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the table of metrics and the table of their paired differences.

    Parameters
    ----------
    contenders, predicted : sequences of the same length
        Contenders, and their predictions for the test rows, or all their answers on them.
    truth : EvaluationTarget
    metrics : list of str
        Natural names.
    groups : (n_rows,), optional
        Rows that are resampled together.
    n_resamples, level, seed
        Parameters of the bootstrap.
    """
    answers = [one if isinstance(one, Answers) else Answers(one) for one in predicted]
    measured = measure_metrics(answers, truth, metrics, groups, n_resamples, seed)
    # All resamples of a single row or group are equal: an interval would have zero width.
    known = n_independent(len(truth.test), groups) > 1

    def bounds(values: Float) -> tuple[float, float]:
        return interval(values, level) if known else (np.nan, np.nan)

    n_features = mean_by_contender(contenders, [c.n_features for c in contenders])
    n_models = {c.name: len(c.subsets) for c in contenders}
    rows: list[dict[str, Any]] = []
    gaps: list[dict[str, Any]] = []
    for metric in metrics:
        value, draws = (
            mean_by_contender(contenders, list(each))
            for each in zip(*measured[metric], strict=True)
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
    contenders: Sequence[Contender],
    answers: Sequence[Answers],
    truth: EvaluationTarget,
    metric: str,
    groups: ArrayLike | None,
    n_resamples: int,
    level: float,
    seed: int,
) -> Evidence:
    """Compare the best subset with all features, one model each, on the same resamples.

    The parameters are those of :func:`figures`, with one metric.
    """
    names = [contender.name for contender in contenders]
    pair = [answers[names.index(name)] for name in ("best_subset", "all_features")]
    (own, drawn), (other, rival) = measure_metrics(
        pair, truth, [metric], groups, n_resamples, seed
    )[metric]
    n_units = n_independent(len(truth.test), groups)
    low, high = interval(drawn - rival, level) if n_units > 1 else (np.nan, np.nan)
    rows = f"{len(truth.test):,} unseen rows"
    if groups is not None:
        rows += f" of {n_units:,} group{'s' * (n_units != 1)}"
    return Evidence(rows, metric, own, other, low, high)


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
