"""The ensemble and what it is compared with on the test rows."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pandas as pd

from swarm.report.data import ReportData
from swarm.report.formatting import interval, metric_name, plain, signed

__all__ = [
    "LABELS",
    "LOWER_IS_BETTER",
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
# Where room is scarce.
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
        "ensemble": "The answer of this run: one model per chosen subset, and their vote.",
        "best_subset": "One model on the best subset: what the selection gives without a vote.",
        "all_features": "One model on every feature: what there is without any selection.",
        "all_features_ensemble": (
            "Every feature, with as many models and the same vote: a vote alone changes the "
            "figures, so this is the rival that tells what the selection is worth."
        ),
        "random_subsets": (
            "Subsets of the same sizes drawn by chance, with the same vote: where they do as "
            "well, it hardly matters which features are kept."
        ),
    }
)
LOWER_IS_BETTER = frozenset({"hamming_loss"})
# They share the ensemble's vote, so the difference to them is the worth of the selection.
RIVALS = ("all_features_ensemble", "random_subsets")


@dataclass(frozen=True)
class PairedDifference:
    """The paired difference to one rival; `kind` is "better", "worse" or "neither"."""

    name: str
    metric: str
    difference: str
    bounds: str
    judgement: str
    kind: str
    is_all_features: bool


def paired_differences(data: ReportData) -> list[PairedDifference]:
    """Differences between the ensemble and the rivals that share its vote, first metric."""
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
                        else "no interval, so no judgement",
                    }[kind],
                    kind=kind,
                    is_all_features=name == RIVALS[0],
                )
            )
    return found


def contender_rows(data: ReportData) -> list[dict[str, Any]]:
    """One row per contender; `cells` has its result and paired difference for each metric."""
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
    """Metrics that are better when lower, as a reader calls them."""
    return [metric_name(metric) for metric in data.metrics if metric in LOWER_IS_BETTER]


def rows_of(table: pd.DataFrame, metric: str, contender: str) -> list[dict[Any, Any]]:
    """Rows of one contender and metric: one, or none."""
    if not len(table):
        return []
    chosen = (table["metric"] == metric) & (table["contender"] == contender)
    return table[chosen].to_dict("records")
