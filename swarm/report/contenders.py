"""The ensemble and its baselines in a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from swarm.metrics import is_lower_better
from swarm.report.data import ReportData
from swarm.report.formatting import interval, metric_name, plain, signed
from swarm.validation.verdict import outcome_in

# Name and note.
_CONTENDERS = {
    "ensemble": (
        "Ensemble of subsets",
        "The result of this run: one model per chosen subset, combined by a vote.",
    ),
    "best_subset": (
        "Best single subset",
        "One model on the best subset: the selection without a vote.",
    ),
    "all_features": (
        "All features",
        "One model on all features: no selection and no vote.",
    ),
    "all_features_ensemble": (
        "All features, same vote",
        "All features, with as many models and the same vote: a vote by itself changes the "
        "results, so this baseline isolates the effect of the selection.",
    ),
    "random_subsets": (
        "Random subsets, same vote",
        "Random subsets of the same sizes, with the same vote: if they do as well, it hardly "
        "matters which features are kept.",
    ),
}
# They have the vote of the ensemble, so a difference to them is due to the selection alone.
_RIVALS = ("all_features_ensemble", "random_subsets")

# A report without an ensemble, such as that of a selector: one model each.
_SINGLE = {
    "ensemble": ("Chosen features", "One model of the chosen features."),
    "all_features": _CONTENDERS["all_features"],
    "random_subsets": (
        "Random subsets",
        "One model each of random subsets of the same size: if they do as well, it hardly "
        "matters which features are kept.",
    ),
}
_SINGLE_RIVALS = ("all_features", "random_subsets")
_JUDGEMENTS = {
    "better": "the selection is better",
    "worse": "the selection is worse",
    "neither": "no clear difference",
}


def is_single(data: ReportData) -> bool:
    """Whether one model of the chosen features is compared, and no ensemble."""
    return bool(data.metrics) and "best_subset" not in set(data.figures["contender"])


def rivals_of(data: ReportData) -> tuple[str, ...]:
    """Return the baselines whose difference to the result is due to the selection alone."""
    return _SINGLE_RIVALS if is_single(data) else _RIVALS


def _names_and_notes(data: ReportData) -> dict[str, tuple[str, str]]:
    return _SINGLE if is_single(data) else _CONTENDERS


@dataclass(frozen=True)
class PairedDifference:
    """Paired difference to one baseline; `kind` is "better", "worse" or "neither"."""

    name: str
    metric: str
    difference: str
    bounds: str
    judgement: str
    kind: str


def paired_differences(data: ReportData) -> list[PairedDifference]:
    """Return the differences to the baselines with the same vote, for the first metric."""
    if not data.metrics:
        return []
    metric, rivals = data.metrics[0], rivals_of(data)
    comparisons = []
    for name in rivals:
        for row in rows_of(data.figures, metric, name):
            low, high = row["difference_low"], row["difference_high"]
            bounds, outcome = interval(low, high), outcome_in(metric, low, high)
            kind = outcome if outcome in ("better", "worse") else "neither"
            comparisons.append(
                PairedDifference(
                    name=_names_and_notes(data)[name][0],
                    metric=metric_name(metric),
                    difference=signed(row["difference"]),
                    bounds=bounds or "no interval",
                    judgement=_JUDGEMENTS[kind] if bounds else "no interval, so no conclusion",
                    kind=kind,
                )
            )
    return comparisons


def contender_rows(data: ReportData) -> list[dict[str, Any]]:
    """Return a row per contender; `cells` has its row of the figures per metric."""
    rows: list[dict[str, Any]] = []
    rivals = rivals_of(data)
    for name in dict.fromkeys(data.figures["contender"].tolist()) if data.metrics else []:
        cells = [next(iter(rows_of(data.figures, metric, name)), None) for metric in data.metrics]
        shown, note = _names_and_notes(data).get(name, (plain(name), ""))
        first = data.figures[data.figures["contender"] == name].iloc[0]
        rows.append(
            {
                "name": shown,
                "note": note,
                "kind": "own" if name == "ensemble" else "rival-row" if name in rivals else "other",
                "n_features": int(first["n_features"]),
                "n_models": int(first["n_models"]),
                "cells": cells,
            }
        )
    return rows


def lower_is_better(data: ReportData) -> list[str]:
    """Return the display names of the metrics that are better when lower."""
    return [metric_name(metric) for metric in data.metrics if is_lower_better(metric)]


def rows_of(table: pd.DataFrame, metric: str, contender: str) -> list[dict[Any, Any]]:
    """Return the row of one contender and metric in a list, which may be empty."""
    if not len(table):
        return []
    chosen = (table["metric"] == metric) & (table["contender"] == contender)
    return table[chosen].to_dict("records")
