"""Figures of the page on where selection pays: gains with their intervals, and gain against size.

A panel is a model. The panels of a figure share their scales, so that models can be compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from swarm.evidence.pays_tables import in_order
from swarm.report.axes import limits, plain_ticks
from swarm.report.canvas import LIGHT, place, sheet, styled, to_svg_file
from swarm.report.words import shortened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["forest_figure", "size_figure"]

# Width of all panels together, but never less than what the title of one needs.
_LEFT, _PANELS, _PANEL, _GAP, _ROW = 150, 600, 204, 20, 34
_TOP, _BOTTOM = 68, 52


def forest_figure(
    gains: pd.DataFrame, strategy: str, ensemble: str, models: Mapping[str, str]
) -> bytes:
    """Draw the gains over all features with intervals: a row per data set, a panel per model.

    Parameters
    ----------
    gains : DataFrame
        Of `swarm.evidence.pays_tables.gains`, with something of `strategy` in it.
    strategy, ensemble : str
        Whose best subset and whose ensemble are drawn.
    models : mapping of str to str
        What the parts are called.

    Returns
    -------
    bytes
        SVG. Filled marks are significant after Holm's correction; an interval that leaves the
        panel ends in an arrow.
    """
    wanted = {"subset": strategy, "ensemble": ensemble}
    shown = gains[gains["contrast"].isin(wanted)]
    shown = shown[shown["strategy"] == shown["contrast"].map(wanted)]
    parts = list(dict.fromkeys(shown["part"]))
    datasets = in_order(list(shown["dataset"]), sorted(set(shown["dataset"]), key=str.casefold))
    reach = _reach(shown)
    with styled():
        figure, panels = _panels(parts, _ROW * len(datasets), models)
        for axes, part in zip(panels, parts, strict=True):
            axes.set_xlim(-reach, reach)
            axes.set_ylim(len(datasets) - 0.5, -0.5)
            axes.set_yticks([])
            axes.axvline(0.0, color=LIGHT["faint"], linewidth=1.2)
            axes.grid(axis="x", color=LIGHT["line"], linewidth=0.8)
            plain_ticks(axes.xaxis, count=4)
            for row in shown[shown["part"] == part].to_dict("records"):
                _gain(axes, datasets.index(str(row["dataset"])), row, reach)
        for y, dataset in enumerate(datasets):
            panels[0].annotate(
                shortened(dataset, 22),
                (0.0, y),
                xycoords=panels[0].get_yaxis_transform(),
                xytext=(-_LEFT + 4, 0),
                textcoords="offset points",
                va="center",
                annotation_clip=False,
            )
        _key(
            figure,
            [(f"best subset of {strategy}", "accent"), (f"ensemble of {ensemble}", "second")],
        )
        _below(
            figure, "test cost of all features minus that of the selection (right: selection helps)"
        )
        return to_svg_file(figure, "pays-forest", "Gain in test cost by data set and model.")


def size_figure(cells: pd.DataFrame, strategy: str, models: Mapping[str, str]) -> bytes:
    """Draw the gain of the best subsets against the share of the features that they keep.

    Parameters
    ----------
    cells : DataFrame
        part, dataset, strategy, kept (share), gain, verdict of each best subset.
    strategy : str
        The one in colour; the others are faint.
    models : mapping of str to str
        What the parts are called.
    """
    parts = list(dict.fromkeys(cells["part"]))
    low, high = limits(np.append(cells["gain"].to_numpy(dtype=np.float64), 0.0), 0.08)
    with styled():
        figure, panels = _panels(parts, 210, models)
        for axes, part in zip(panels, parts, strict=True):
            axes.set_xlim(0, 103)
            axes.set_ylim(low, high)
            axes.axhline(0.0, color=LIGHT["faint"], linewidth=1.2)
            axes.grid(color=LIGHT["line"], linewidth=0.8)
            axes.set_xticks([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100"])
            plain_ticks(axes.yaxis)
            if axes is not panels[0]:
                axes.set_yticklabels([])
            here = cells[cells["part"] == part]
            rest = here[here["strategy"] != strategy]
            axes.plot(
                100 * rest["kept"],
                rest["gain"],
                "o",
                markersize=4,
                color=LIGHT["faint"],
                alpha=0.7,
                markeredgewidth=0,
            )
            for row in here[here["strategy"] == strategy].to_dict("records"):
                _mark(axes, 100 * row["kept"], row["gain"], row["verdict"], "accent")
        panels[0].annotate(
            "gain in test cost",
            (0.0, 1.0),
            xycoords="axes fraction",
            xytext=(-_LEFT + 4, -10),
            textcoords="offset points",
            color=LIGHT["muted"],
            annotation_clip=False,
        )
        _key(figure, [(strategy, "accent"), ("other strategies", "faint")])
        _below(figure, "features kept, in percent of all (a dot is a data set)")
        return to_svg_file(
            figure, "pays-size", "Gain in test cost against the share of features kept."
        )


def _reach(shown: pd.DataFrame) -> float:
    """Half the width of the scale: wide intervals of tiny test sets must not flatten the rest."""
    means = float(shown["gain"].abs().max())
    ends = shown[["low", "high"]].abs().max(axis=1).dropna()
    usual = float(ends.quantile(0.8)) if len(ends) else 0.0
    return max(1.12 * means, 1.05 * usual) or 0.01


def _panels(
    parts: Sequence[str], height: float, models: Mapping[str, str]
) -> tuple[Figure, list[Axes]]:
    panel = max(_PANEL, _PANELS / len(parts) - _GAP)
    width = _LEFT + len(parts) * (panel + _GAP)
    figure = sheet(height + _TOP + _BOTTOM, width)
    panels = []
    for i, part in enumerate(parts):
        axes = place(figure, _LEFT + i * (panel + _GAP), _TOP, panel, height)
        axes.set_title(models.get(part, part), fontsize=12, fontweight="bold", pad=10)
        panels.append(axes)
    return figure, panels


def _gain(axes: Axes, y: float, row: Mapping[Any, Any], reach: float) -> None:
    own = row["contrast"] == "subset"
    name = "accent" if own else "second"
    y += -0.16 if own else 0.16
    low, high = float(row["low"]), float(row["high"])
    if low == low:
        ends = [max(low, -reach), min(high, reach)]
        axes.plot(ends, [y, y], color=LIGHT[name], linewidth=2.2, solid_capstyle="butt")
        for outside, end, arrow in ((low < -reach, -reach, "<"), (high > reach, reach, ">")):
            if outside:
                axes.plot([end], [y], arrow, markersize=6, color=LIGHT[name], clip_on=False)
    _mark(axes, float(row["gain"]), y, row["verdict"], name)


def _mark(axes: Axes, x: float, y: float, verdict: str, name: str) -> None:
    told = verdict in ("helps", "hurts")
    axes.plot(
        [x],
        [y],
        "o",
        markersize=7.5,
        color=LIGHT[name] if told else LIGHT["paper"],
        markeredgecolor=LIGHT[name],
        markeredgewidth=1.6,
    )


def _key(figure: Figure, entries: Sequence[tuple[str, str]]) -> None:
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], marker="o", markersize=7.5, linewidth=0, color=LIGHT[name])
        for _, name in entries
    ]
    marks.append(
        Line2D(
            [],
            [],
            marker="o",
            markersize=7.5,
            linewidth=0,
            color=LIGHT["paper"],
            markeredgecolor=LIGHT["muted"],
            markeredgewidth=1.6,
        )
    )
    names = [shortened(name, 40) for name, _ in entries] + ["hollow: not significant after Holm"]
    figure.legend(
        marks,
        names,
        loc="upper left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=3,
        frameon=False,
        borderaxespad=0.3,
        borderpad=0.0,
        handlelength=1.0,
        handletextpad=0.5,
        columnspacing=1.6,
        fontsize=12,
    )


def _below(figure: Figure, text: str) -> None:
    width, height = figure.get_size_inches() * 72
    figure.text(_LEFT / width, 10 / height, text, color=LIGHT["muted"], fontsize=12)
