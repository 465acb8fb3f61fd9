"""Best cost against distinct evaluations: a small panel for each strategy, all on one scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.report.axes import limits, message, plain_ticks
from swarm.report.canvas import LIGHT, place, sheet
from swarm.report.words import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Band", "band", "convergence_bands"]

Float = NDArray[np.float64]

_WIDTH = 800
_COLUMNS = 4
_LEFT, _TOP, _GAP_X, _GAP_Y, _HEIGHT = 62, 64, 16, 38, 118
# Costs of the first evaluations are far off, and would flatten all that follows.
_SKIPPED = 0.25


class Band:
    """The best costs of the seeds of one strategy.

    Attributes
    ----------
    x : float (n,)
        Distinct evaluations.
    mean, low, high : float (n,)
        Over the seeds; NaN until every seed has a finite cost.
    used : float
        The most that a seed used.
    """

    def __init__(self, x: Float, costs: Float, used: float) -> None:
        self.x = x
        self.used = used
        known = np.where(np.isfinite(costs), costs, np.nan)
        whole = ~np.isnan(known).any(axis=0)
        self.mean = np.where(whole, known.mean(axis=0), np.nan)
        self.low = np.where(whole, known.min(axis=0), np.nan)
        self.high = np.where(whole, known.max(axis=0), np.nan)


def band(histories: Sequence[pd.DataFrame], budget: float) -> Band:
    """Bring the seeds of a strategy on one axis.

    Parameters
    ----------
    histories : sequence of DataFrame
        With distinct_evaluations and best_cost, one row per epoch.
    budget : float
        End of the axis; a search that ended earlier keeps its cost.
    """
    ends = [h["distinct_evaluations"].to_numpy(dtype=np.float64) for h in histories]
    x = np.unique(np.concatenate([*ends, [budget]]))
    rows = []
    for history, end in zip(histories, ends, strict=True):
        costs = np.append(np.nan, history["best_cost"].to_numpy(dtype=np.float64))
        rows.append(costs[np.searchsorted(end, x, side="right")])
    return Band(x, np.array(rows), max(float(end[-1]) for end in ends))


def convergence_bands(
    histories: Mapping[str, Sequence[pd.DataFrame]], everything: float, cost_label: str = "cost"
) -> Figure:
    """Draw the mean over seeds, from the lowest to the highest seed, one panel a strategy.

    Parameters
    ----------
    histories : mapping of strategy to one history per seed
        In the order of the panels.
    everything : float
        Cost of all features, a dashed line.
    cost_label : str
        Name of the cost.
    """
    budget = max(
        float(h["distinct_evaluations"].iloc[-1]) for each in histories.values() for h in each
    )
    bands = {name: band(each, budget) for name, each in histories.items()}
    columns = min(_COLUMNS, len(bands))
    rows = -(-len(bands) // columns)
    figure = sheet(_TOP + rows * (_HEIGHT + _GAP_Y) + 8, _WIDTH)
    width = (_WIDTH - _LEFT - 8 - _GAP_X * (_COLUMNS - 1)) / _COLUMNS
    scale = _scale(bands.values(), everything)
    for i, (name, own) in enumerate(bands.items()):
        row, column = divmod(i, columns)
        axes = place(
            figure,
            _LEFT + column * (width + _GAP_X),
            _TOP + row * (_HEIGHT + _GAP_Y),
            width,
            _HEIGHT,
        )
        _panel(axes, own, list(bands.values()), everything)
        axes.set_xlim(0, budget)
        axes.set_ylim(*scale)
        plain_ticks(axes.yaxis, count=4)
        plain_ticks(axes.xaxis, whole=True, count=3)
        _keep_inside(axes, budget)
        axes.tick_params(labelleft=column == 0, labelbottom=i + columns >= len(bands))
        axes.set_title(shortened(name, 24), loc="left", fontsize=12, color=LIGHT["ink"], pad=5)
    _legend(figure, cost_label)
    return figure


def _panel(axes: Axes, own: Band, others: Sequence[Band], everything: float) -> None:
    axes.grid(axis="y", color=LIGHT["line"], linewidth=0.8)
    if np.isfinite(everything):
        axes.axhline(everything, color=LIGHT["muted"], linewidth=1.0, linestyle=(0, (4, 2.5)))
    for other in others:
        if other is not own:
            axes.step(other.x, other.mean, where="post", color=LIGHT["faint"], linewidth=0.7)
    if np.isnan(own.mean).all():
        message(axes, "no finite cost")
        return
    axes.fill_between(
        own.x, own.low, own.high, step="post", color=LIGHT["accent"], alpha=0.22, linewidth=0
    )
    axes.step(own.x, own.mean, where="post", color=LIGHT["accent"], linewidth=2.0)
    at = int(np.searchsorted(own.x, own.used, side="right")) - 1
    axes.plot(own.x[at], own.mean[at], "o", color=LIGHT["accent"], markersize=4, clip_on=False)


def _keep_inside(axes: Axes, budget: float) -> None:
    """Let the outer numbers end where the panel ends: the next panel is close."""
    ticks = [tick for tick in axes.get_xticks() if 0 <= tick <= budget]
    axes.set_xticks(ticks)
    for tick, text in zip(ticks, axes.get_xticklabels(), strict=True):
        if tick == 0:
            text.set_horizontalalignment("left")
        elif tick > 0.93 * budget:
            text.set_horizontalalignment("right")


def _scale(bands: Iterable[Band], everything: float) -> tuple[float, float]:
    values = [np.array([everything])]
    for one in bands:
        late = one.x >= _SKIPPED * one.x[-1]
        values += [one.low[late], one.high[late]]
    return limits(np.concatenate(values), 0.08)


def _legend(figure: Figure, cost_label: str) -> None:
    height = figure.get_size_inches()[1] * 72

    def write(x: float, text: str) -> None:
        figure.text(x / _WIDTH, 1 - 20 / height, text, va="center", color=LIGHT["muted"])

    def stroke(x: float, **style: object) -> None:
        from matplotlib.lines import Line2D

        y = 1 - 20 / height
        ends = [x / _WIDTH, (x + 22) / _WIDTH]
        figure.add_artist(Line2D(ends, [y, y], **style))  # type: ignore[arg-type]

    write(8, f"{shortened(cost_label, 24)} by distinct evaluations")
    stroke(292, color=LIGHT["accent"], linewidth=9, alpha=0.22, solid_capstyle="butt")
    stroke(292, color=LIGHT["accent"], linewidth=2)
    write(320, "mean, lowest to highest seed")
    stroke(518, color=LIGHT["faint"], linewidth=1)
    write(546, "the others")
    stroke(634, color=LIGHT["muted"], linewidth=1, linestyle=(0, (4, 2.5)))
    write(662, "all features")
