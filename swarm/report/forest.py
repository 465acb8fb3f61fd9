"""Test figures of all contenders, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from swarm.report.axes import limits, plain_ticks
from swarm.report.canvas import LIGHT, place, sheet
from swarm.report.words import CONTENDER_LABELS, LOWER_IS_BETTER, metric_name, number, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from swarm.report.data import ReportData

__all__ = ["forest"]

_ROW = 27


def forest(data: ReportData, metric: str) -> Figure:
    """Draw a dot with its interval per contender; the same-vote rivals are in colour."""
    rows = data.figures[data.figures["metric"] == metric].to_dict("records")
    height = _ROW * len(rows)
    figure = sheet(height + 68)
    axes = place(figure, 136, 36, 208, height)
    values = [row[k] for row in rows for k in ("value", "low", "high")]
    axes.set_xlim(*limits(np.asarray(values, dtype=np.float64), 0.06))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks([])
    axes.grid(axis="x", color=LIGHT["line"], linewidth=0.8)
    plain_ticks(axes.xaxis, count=4)
    title = metric_name(metric)
    figure.text(0.0, 1 - 16 / (height + 68), title, fontsize=14, fontweight="bold", va="center")
    if metric in LOWER_IS_BETTER:
        axes.annotate(
            "lower is better",
            (1.0, 1.0),
            xycoords="axes fraction",
            xytext=(56, 15),
            textcoords="offset points",
            ha="right",
            color=LIGHT["muted"],
        )
    for y, row in enumerate(rows):
        _contender(axes, y, row)
    return figure


def _contender(axes: Axes, y: int, row: Mapping[Any, Any]) -> None:
    name = str(row["contender"])
    value, low, high = (float(row[k]) for k in ("value", "low", "high"))
    own = name == "ensemble"
    same_vote = name in ("all_features_ensemble", "random_subsets")
    colour = LIGHT["accent" if own else "second" if same_vote else "muted"]
    weight = "bold" if own else "normal"
    known = not (math.isnan(low) or math.isnan(high))
    if known:
        axes.plot([low, high], [y, y], color=colour, linewidth=3.4 if own else 2.2)
        if own:
            axes.axvspan(low, high, color=colour, alpha=0.09, linewidth=0)
    if math.isfinite(value):
        axes.plot(
            [value],
            [y],
            marker="o",
            markersize=9.5 if own else 8,
            color=colour,
            markeredgecolor=LIGHT["paper"],
            markeredgewidth=1.4,
        )
    axes.annotate(
        CONTENDER_LABELS.get(name) or shortened(name, 18),
        (0.0, y),
        xycoords=axes.get_yaxis_transform(),
        xytext=(-136, 0),
        textcoords="offset points",
        va="center",
        color=LIGHT["ink"] if own or same_vote else LIGHT["muted"],
        fontweight=weight,
        annotation_clip=False,
    )
    axes.annotate(
        number(value),
        (1.0, y),
        xycoords=axes.get_yaxis_transform(),
        xytext=(56, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        color=colour,
        fontweight=weight,
        annotation_clip=False,
    )
