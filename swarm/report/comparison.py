"""The ensemble beside its rivals: rows for the template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from swarm.report.data import ReportData
from swarm.report.words import (
    CONTENDER_NAMES,
    CONTENDER_NOTES,
    LOWER_IS_BETTER,
    interval,
    metric_name,
    number,
    plain,
    signed,
)

__all__ = ["contender_rows", "figure_rows", "lower_is_better", "rivals"]

_RIVALS = ("all_features_ensemble", "random_subsets")


@dataclass(frozen=True)
class Cell:
    """A test figure, and how far the ensemble is from it."""

    value: str
    bounds: str
    gap: str
    is_clear: bool


@dataclass(frozen=True)
class ContenderRow:
    """A contender with its figures; `kind` is "own", "rival" or "other"."""

    name: str
    note: str
    kind: str
    n_features: str
    n_models: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Rival:
    """The paired difference to one rival; `kind` is "better", "worse" or "neither"."""

    name: str
    metric: str
    difference: str
    bounds: str
    judgement: str
    kind: str
    is_all_features: bool


def rivals(data: ReportData) -> list[Rival]:
    """Differences between the ensemble and the rivals that share its vote, first metric."""
    if not data.metrics or not len(data.differences):
        return []
    metric = data.metrics[0]
    found = []
    for name in _RIVALS:
        for row in figure_rows(data.differences, metric, name):
            kind = {"ensemble": "better", "neither": "neither"}.get(str(row["favours"]), "worse")
            known = interval(row["low"], row["high"])
            if not known:
                kind = "neither"
            found.append(
                Rival(
                    name=CONTENDER_NAMES[name],
                    metric=metric_name(metric),
                    difference=signed(row["difference"]),
                    bounds=known or "no interval",
                    judgement={
                        "better": "the selection is better",
                        "worse": "the selection is worse",
                        "neither": "no clear difference" if known else "cannot be said",
                    }[kind],
                    kind=kind,
                    is_all_features=name == _RIVALS[0],
                )
            )
    return found


def contender_rows(data: ReportData) -> list[ContenderRow]:
    """One row per contender: its names, sizes, and for each metric value, bounds, difference."""
    rows = []
    for name in dict.fromkeys(data.figures["contender"].tolist()) if data.metrics else []:
        cells = []
        for metric in data.metrics:
            figure = next(iter(figure_rows(data.figures, metric, name)), None)
            gap = next(iter(figure_rows(data.differences, metric, name)), None)
            cells.append(
                Cell(
                    value="–" if figure is None else number(figure["value"]),
                    bounds="" if figure is None else interval(figure["low"], figure["high"]),
                    gap="" if gap is None else signed(gap["difference"]),
                    is_clear=gap is not None and gap["favours"] != "neither",
                )
            )
        first = data.figures[data.figures["contender"] == name].iloc[0]
        rows.append(
            ContenderRow(
                name=CONTENDER_NAMES.get(name, plain(name)),
                note=CONTENDER_NOTES.get(name, ""),
                kind="own" if name == "ensemble" else "rival" if name in _RIVALS else "other",
                n_features=f"{int(first['n_features']):,}",
                n_models=f"{int(first['n_models']):,}",
                cells=tuple(cells),
            )
        )
    return rows


def lower_is_better(data: ReportData) -> list[str]:
    """Metrics that are better when lower, as a reader calls them."""
    return [metric_name(metric) for metric in data.metrics if metric in LOWER_IS_BETTER]


def figure_rows(table: pd.DataFrame, metric: str, contender: str) -> list[dict[Any, Any]]:
    """Rows of one contender and metric: one, or none."""
    if not len(table):
        return []
    chosen = (table["metric"] == metric) & (table["contender"] == contender)
    return table[chosen].to_dict("records")
