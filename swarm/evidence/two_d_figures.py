"""Figures of the page of document 002."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from swarm.evidence.published import ALGORITHMS, DATASETS
from swarm.report.axes import limits, plain_ticks
from swarm.report.canvas import LIGHT, place, sheet, styled, to_svg_file
from swarm.report.critical_difference import critical_difference_diagram
from swarm.validation.comparison import Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["agreement_figure", "gain_figure", "rank_figure"]

_PANEL = 290
_LEFT, _TOP, _ACROSS, _DOWN = 44, 44, 70, 92
_LETTER = 6.4
_LINE = 12
_MARKERS = "osD^vPX*"


def agreement_figure(panels: Mapping[str, pd.DataFrame]) -> bytes:
    """Draw our average ranks against the published ones, a dot per algorithm.

    Parameters
    ----------
    panels : mapping of title to DataFrame (n_algorithms, 2)
        Columns ours and published; two panels stand side by side.
    """
    lines = (len(panels) + 1) // 2
    width = 2 * _PANEL + _LEFT + _ACROSS
    height = lines * (_PANEL + _DOWN)
    with styled():
        figure = sheet(height, width)
        for i, (title, ranks) in enumerate(panels.items()):
            left, top = _LEFT + (i % 2) * (_PANEL + _ACROSS), _TOP + (i // 2) * (_PANEL + _DOWN)
            axes = place(figure, left, top, _PANEL, _PANEL)
            ends = (0.6, len(ranks) + 0.4)
            _square(axes, ends, title, "published average rank", "here")
            axes.set_xticks(range(1, len(ranks) + 1))
            axes.set_yticks(range(1, len(ranks) + 1))
            names = [ALGORITHMS[str(name)] for name in ranks.index]
            xs, ys = (ranks[name].to_numpy(dtype=np.float64) for name in ("published", "ours"))
            for name, x, y in zip(ranks.index, xs, ys, strict=True):
                colour = LIGHT["accent" if name == "two_d" else "second"]
                axes.plot([x], [y], "o", color=colour, markersize=8)
            _name_dots(axes, xs, ys, names, _PANEL / (ends[1] - ends[0]))
        label = "Average rank of each algorithm here against the published one."
        return to_svg_file(figure, "two-d-agreement", label)


def rank_figure(comparison: Comparison, part: str) -> bytes:
    """Draw the average ranks with Nemenyi's critical difference."""
    average = comparison.ranks["average"].rename(index=dict(ALGORITHMS))
    with styled():
        figure = critical_difference_diagram(average, comparison.critical_difference)
        return to_svg_file(figure, f"two-d-ranks-{part}", "Average ranks of the algorithms.")


def gain_figure(gains: pd.DataFrame) -> bytes:
    """Draw the gain on the test rows against the gain in cross-validation.

    Parameters
    ----------
    gains : DataFrame
        A dot per row; columns dataset, strategy, cv_gain and test_gain.
    """
    datasets = list(dict.fromkeys(gains["dataset"]))
    side, left, top = 400, 64, 44
    with styled():
        figure = sheet(side + 96, side + left + 170)
        axes = place(figure, left, top, side, side)
        ends = limits(np.append(gains[["cv_gain", "test_gain"]].to_numpy().ravel(), 0.0), 0.06)
        _square(axes, ends, "", "gain in cross-validation (drop of the error)", "gain on test rows")
        axes.axhline(0, color=LIGHT["faint"], linewidth=1)
        plain_ticks(axes.xaxis)
        plain_ticks(axes.yaxis)
        for i, dataset in enumerate(datasets):
            here = gains[gains["dataset"] == dataset]
            colour, filled = LIGHT[("accent", "second", "ink")[i % 3]], i // 3 % 2 == 0
            axes.plot(
                here["cv_gain"],
                here["test_gain"],
                _MARKERS[i % len(_MARKERS)],
                color=colour,
                markerfacecolor=colour if filled else LIGHT["paper"],
                markersize=7,
                alpha=0.9,
                label=DATASETS.get(str(dataset), str(dataset)),
            )
        axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False, fontsize=12)
        label = "Gain over all features on held-out rows against the gain in cross-validation."
        return to_svg_file(figure, "two-d-nested", label)


def _square(axes: Axes, ends: tuple[float, float], title: str, across: str, up: str) -> None:
    axes.set_xlim(*ends)
    axes.set_ylim(*ends)
    axes.plot(ends, ends, color=LIGHT["faint"], linewidth=1, linestyle=(0, (4, 3)))
    axes.grid(color=LIGHT["line"], linewidth=0.8)
    axes.set_xlabel(across, color=LIGHT["muted"])
    note: dict[str, Any] = {
        "xycoords": "axes fraction",
        "textcoords": "offset points",
        "annotation_clip": False,
    }
    axes.annotate(up, (0.0, 1.0), xytext=(-30, 8), color=LIGHT["muted"], **note)
    if title:
        axes.annotate(title, (0.0, 1.0), xytext=(-30, 26), fontsize=13, fontweight="bold", **note)


def _name_dots(
    axes: Axes, xs: np.ndarray, ys: np.ndarray, names: Sequence[str], scale: float
) -> None:
    """Write each name beside its dot, where it covers no other name and no dot."""
    taken = [(x * scale - 5, y * scale - 5, x * scale + 5, y * scale + 5)
             for x, y in zip(xs, ys, strict=True)]  # fmt: skip
    right = axes.get_xlim()[1] * scale
    for x, y, name in zip(xs, ys, names, strict=True):
        length = _LETTER * len(name) + 4
        places = [
            (dx, dy)
            for dy in (-4, 8, -16, 20, -28)
            for dx in (8, -8 - length)
            if x * scale + dx + length < right
        ]
        boxes = [
            (x * scale + dx, y * scale + dy, x * scale + dx + length, y * scale + dy + _LINE)
            for dx, dy in places
        ]
        free = [i for i, box in enumerate(boxes) if not any(_overlap(box, b) for b in taken)]
        best = free[0] if free else 0
        taken.append(boxes[best])
        axes.annotate(
            name,
            (x, y),
            xytext=places[best],
            textcoords="offset points",
            fontsize=11,
            color=LIGHT["accent" if name == ALGORITHMS["two_d"] else "ink"],
        )


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
