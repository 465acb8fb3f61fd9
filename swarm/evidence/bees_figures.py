"""Figure 1 of document 004: boxplots of the accuracy over the runs, a panel for each data set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from swarm.evidence.published_bees import MULTI_LABEL, NAMES, PUBLISHED
from swarm.report.axes import limits, plain_ticks
from swarm.report.canvas import LIGHT, WIDTH, bare, place, sheet, styled, to_svg_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["boxplots"]

_PANEL, _LEFT, _BETWEEN = 190, 52, 62
_TOP, _HEIGHT, _BELOW = 74, 230, 30


def boxplots(
    values: Mapping[str, Mapping[str, NDArray[np.float64]]], part: str, name: str
) -> bytes:
    """Draw the runs of each strategy beside its published mean and SD.

    Parameters
    ----------
    values : mapping of data set to mapping of strategy to float (n_runs,)
        Accuracies; only those of the document's three strategies are drawn.
    part : str
        Told in the title.
    name : str
        Prefix of the ids within the file.

    Returns
    -------
    bytes
        SVG; the same for the same values and version of matplotlib.
    """
    width = max(WIDTH, _LEFT + len(values) * (_PANEL + _BETWEEN) - _BETWEEN + 14)
    height = _TOP + _HEIGHT + _BELOW
    with styled():
        figure = sheet(height, width)
        title = f"Accuracy over the runs, {part}"
        figure.text(10 / width, 1 - 12 / height, title, fontsize=14, fontweight="bold", va="center")
        for i, (dataset, runs) in enumerate(values.items()):
            left = _LEFT + i * (_PANEL + _BETWEEN)
            _panel(place(figure, left, _TOP, _PANEL, _HEIGHT), dataset, runs)
        _key(place(figure, 0, 22, width, 24), width)
        label = f"Boxplots of the accuracy of {', '.join(NAMES.values())} on {', '.join(values)}"
        return to_svg_file(figure, name, f"{label}: {part}.")


def _panel(axes: Axes, dataset: str, runs: Mapping[str, NDArray[np.float64]]) -> None:
    shown = {i: runs[name] for i, name in enumerate(MULTI_LABEL) if name in runs}
    axes.boxplot(
        list(shown.values()),
        positions=list(shown),
        widths=0.42,
        patch_artist=True,
        manage_ticks=False,
        boxprops={"facecolor": LIGHT["line"], "edgecolor": LIGHT["accent"], "linewidth": 1.4},
        medianprops={"color": LIGHT["accent"], "linewidth": 2.4},
        whiskerprops={"color": LIGHT["accent"], "linewidth": 1.2},
        capprops={"color": LIGHT["accent"], "linewidth": 1.2},
        flierprops={
            "marker": "o",
            "markersize": 4,
            "markerfacecolor": "none",
            "markeredgecolor": LIGHT["accent"],
        },
    )
    published = _published(axes, dataset)
    everything = np.concatenate([*shown.values(), published])
    axes.set_ylim(*limits(everything, 0.07))
    axes.set_xlim(-0.6, len(MULTI_LABEL) - 0.4)
    axes.set_xticks(range(len(MULTI_LABEL)), [NAMES[name] for name in MULTI_LABEL])
    axes.grid(axis="y", color=LIGHT["line"], linewidth=0.8)
    plain_ticks(axes.yaxis, count=6)
    axes.set_title(dataset, loc="left", pad=11, fontsize=12, color=LIGHT["ink"], fontweight="bold")


def _published(axes: Axes, dataset: str) -> NDArray[np.float64]:
    """Draw what the document has, and give its extremes."""
    if dataset not in PUBLISHED:
        return np.empty(0)
    ends: list[float] = []
    for i, name in enumerate(MULTI_LABEL):
        mean, sd = PUBLISHED[dataset].accuracy[name]
        axes.errorbar(
            [i + 0.38],
            [mean],
            yerr=sd,
            fmt="D",
            markersize=5,
            color=LIGHT["second"],
            markeredgecolor=LIGHT["paper"],
            linewidth=1.8,
        )
        ends += [mean - sd, mean + sd]
    return np.asarray(ends)


def _key(axes: Axes, width: float) -> None:
    bare(axes).set_xlim(0, width)
    axes.set_ylim(0, 24)
    axes.plot([12, 30], [12, 12], color=LIGHT["accent"], linewidth=2.4)
    axes.text(38, 12, "here: box of the runs", va="center", color=LIGHT["muted"])
    axes.plot([192, 210], [12, 12], color=LIGHT["second"], linewidth=1.8)
    axes.plot([201], [12], "D", color=LIGHT["second"], markersize=5)
    axes.text(218, 12, "published: mean and SD", va="center", color=LIGHT["muted"])
