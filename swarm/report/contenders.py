"""The ensemble and its baselines in a report."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pandas as pd

from swarm.report.data import ReportData
from swarm.report.formatting import interval, metric_name, plain, signed
from swarm.validation.metrics import LOWER_IS_BETTER

__all__ = [
    "LABELS",
    "NAMES",
    "RIVALS",
    "contender_rows",
    "lower_is_better",
    "paired_differences",
    "rows_of",
]

NAMES = MappingProxyType(
    {
        "ensemble": "Ensemble of subsets",
        "best_subset": "Best single subset",
        "all_features": "All features",
        "all_features_ensemble": "All features, same vote",
        "random_subsets": "Random subsets, same vote",
    }
)
# Short names for figures.
LABELS = MappingProxyType(
    {
        "ensemble": "Ensemble",
        "best_subset": "Best subset",
        "all_features": "All features",
        "all_features_ensemble": "All, same vote",
        "random_subsets": "Random, same vote",
    }
)
NOTES = MappingProxyType(
    {
        "ensemble": "The result of this run: one model per chosen subset, combined by a vote.",
        "best_subset": "One model on the best subset: the selection without a vote.",
        "all_features": "One model on all features: no selection and no vote.",
        "all_features_ensemble": (
            "All features, with as many models and the same vote: a vote by itself changes the "
            "results, so this baseline isolates the effect of the selection."
        ),
        "random_subsets": (
            "Random subsets of the same sizes, with the same vote: if they do as well, it hardly "
            "matters which features are kept."
        ),
    }
)
# They have the vote of the ensemble, so a difference to them is due to the selection alone.
RIVALS = ("all_features_ensemble", "random_subsets")


@dataclass(frozen=True)
class PairedDifference:
    """Paired difference to one baseline; `kind` is "better", "worse" or "neither"."""

    name: str
    metric: str
    difference: str
    bounds: str
    judgement: str
    kind: str
    is_all_features: bool


def paired_differences(data: ReportData) -> list[PairedDifference]:
    """Return the differences to the baselines with the same vote, for the first metric."""
    if not data.metrics or not len(data.differences):
        return []
    metric = data.metrics[0]
    found = []
    for name in RIVALS:
        for row in rows_of(data.differences, metric, name):
            kind = {"ensemble": "better", "neither": "neither"}.get(str(row["favours"]), "worse")
            known = interval(row["low"], row["high"])
            if not known:
                kind = "neither"
            found.append(
                PairedDifference(
                    name=NAMES[name],
                    metric=metric_name(metric),
                    difference=signed(row["difference"]),
                    bounds=known or "no interval",
                    judgement={
                        "better": "the selection is better",
                        "worse": "the selection is worse",
                        "neither": "no clear difference"
                        if known
                        else "no interval, so no conclusion",
                    }[kind],
                    kind=kind,
                    is_all_features=name == RIVALS[0],
                )
            )
    return found


def contender_rows(data: ReportData) -> list[dict[str, Any]]:
    """Return a row per contender; `cells` has its result and paired difference per metric."""
    rows: list[dict[str, Any]] = []
    for name in dict.fromkeys(data.figures["contender"].tolist()) if data.metrics else []:
        cells = [
            [
                next(iter(rows_of(table, metric, name)), None)
                for table in (data.figures, data.differences)
            ]
            for metric in data.metrics
        ]
        first = data.figures[data.figures["contender"] == name].iloc[0]
        rows.append(
            {
                "name": NAMES.get(name, plain(name)),
                "note": NOTES.get(name, ""),
                "kind": "own" if name == "ensemble" else "rival-row" if name in RIVALS else "other",
                "n_features": int(first["n_features"]),
                "n_models": int(first["n_models"]),
                "cells": cells,
            }
        )
    return rows


def lower_is_better(data: ReportData) -> list[str]:
    """Return the display names of the metrics that are better when lower."""
    return [metric_name(metric) for metric in data.metrics if metric in LOWER_IS_BETTER]


def rows_of(table: pd.DataFrame, metric: str, contender: str) -> list[dict[Any, Any]]:
    """Return the row of one contender and metric in a list, which may be empty."""
    if not len(table):
        return []
    chosen = (table["metric"] == metric) & (table["contender"] == contender)
    return table[chosen].to_dict("records")
