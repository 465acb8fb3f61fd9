"""What fewer features cost."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from swarm.report.axes import key, limits, message, name_axis, plain_ticks
from swarm.report.canvas import LIGHT, place, sheet
from swarm.report.picked import limit
from swarm.report.words import counted, shortened
from swarm.search.picks import pareto_front

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from swarm.report.data import ReportData

__all__ = ["tradeoff"]

FloatArray = NDArray[np.float64]
# Points nearer to each other than this share of the axes are one on any screen.
_GRID = 400


def tradeoff(data: ReportData) -> Figure:
    """Draw cost against size of all evaluations, the Pareto front and the chosen subsets."""
    figure = sheet(440)
    axes = place(figure, 54, 86, 338, 312)
    size, cost = _points(data)
    if not size.size:
        message(axes, "No subset was evaluated on all folds with a finite cost.")
        return figure
    chosen = np.array([(len(names), value) for names, value in data.subsets], dtype=np.float64)
    chosen = chosen.reshape(-1, 2)
    chosen = chosen[np.isfinite(chosen[:, 1])]
    top = _top(cost, chosen[:, 1])
    least, most = (f(np.append(size, chosen[:, 0])) for f in (np.min, np.max))
    if most >= 20 * least and most > 100:
        axes.set_xscale("log")
        axes.set_xlim(least * 0.85, most * 1.15)
    else:
        axes.set_xlim(*limits(np.array([least, most]), 0.04))
    shown = np.append(cost[cost <= top], chosen[:, 1])
    axes.set_ylim(*limits(shown, 0.06))
    _cloud(axes, size[cost <= top], cost[cost <= top])
    _error_line(axes, data)
    sizes, costs = np.append(size, chosen[:, 0]), np.append(cost, chosen[:, 1])
    front = pareto_front(sizes, costs)
    _front(axes, sizes[front], costs[front])
    _chosen(axes, chosen)
    _picks(axes, data)
    axes.grid(color=LIGHT["line"], linewidth=0.8)
    axes.set_xlabel("features in the subset", color=LIGHT["muted"])
    name_axis(axes, shortened(data.cost_label, 40))
    plain_ticks(axes.yaxis)
    _size_ticks(axes)
    above = int((cost > top).sum())
    if above:
        note = f"{counted(above, 'subset')} above the frame"
        axes.text(
            0.99,
            0.985,
            note,
            transform=axes.transAxes,
            ha="right",
            va="top",
            color=LIGHT["muted"],
            fontsize=11,
        )
    key(axes, columns=2)
    return figure


def _points(data: ReportData) -> tuple[FloatArray, FloatArray]:
    if not len(data.evaluations):
        return np.empty(0), np.empty(0)
    size = data.evaluations["size"].to_numpy(dtype=np.float64)
    cost = data.evaluations["cost"].to_numpy(dtype=np.float64)
    finite = np.isfinite(cost)
    return size[finite], cost[finite]


def _top(cost: FloatArray, chosen: FloatArray) -> float:
    """Highest cost shown: a few bad subsets must not flatten the good ones."""
    low, most, high = (float(np.quantile(cost, q)) for q in (0.0, 0.95, 1.0))
    top = most if high - low > 2.0 * (most - low) > 0.0 else high
    return max(top, *chosen) if chosen.size else top


def _cloud(axes: Axes, size: FloatArray, cost: FloatArray) -> None:
    """Draw one dot per place that can be told apart, fuller where there are many."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    scale = np.log if axes.get_xscale() == "log" else np.asarray
    x = (scale(size) - scale(left)) / (scale(right) - scale(left))
    y = (cost - bottom) / (top - bottom)
    cells = np.round(np.column_stack([x, y]) * _GRID).astype(np.int64)
    _, first, count = np.unique(cells, axis=0, return_index=True, return_counts=True)
    labelled = False
    for low, high, alpha in ((1, 1, 0.3), (2, 4, 0.5), (5, np.inf, 0.75)):
        rows = first[(count >= low) & (count <= high)]
        if rows.size:
            axes.plot(
                size[rows],
                cost[rows],
                linestyle="none",
                marker="o",
                markersize=4.4,
                markeredgewidth=0.0,
                color=LIGHT["muted"],
                alpha=alpha,
                label=None if labelled else "evaluated subset",
            )
            labelled = True


def _front(axes: Axes, size: FloatArray, cost: FloatArray) -> None:
    # Beyond its ends the front goes on: nothing is cheaper there either, or nothing smaller.
    right, top = axes.get_xlim()[1], axes.get_ylim()[1]
    axes.plot(
        [size[0], *size, right],
        [max(top, cost[0]), *cost, cost[-1]],
        color=LIGHT["second"],
        linewidth=1.0,
        alpha=0.6,
        drawstyle="steps-post",
    )
    axes.plot(
        size,
        cost,
        color=LIGHT["second"],
        linewidth=1.8,
        drawstyle="steps-post",
        marker="o",
        markersize=5,
        markeredgewidth=0.0,
        label="Pareto front",
    )


def _chosen(axes: Axes, chosen: FloatArray) -> None:
    if not len(chosen):
        return
    if len(chosen) > 1:
        axes.plot(
            chosen[1:, 0],
            chosen[1:, 1],
            linestyle="none",
            marker="o",
            markersize=8.5,
            markerfacecolor="none",
            markeredgecolor=LIGHT["accent"],
            markeredgewidth=1.2,
            label="in the ensemble",
        )
    axes.plot(
        chosen[:1, 0],
        chosen[:1, 1],
        linestyle="none",
        marker="*",
        markersize=15,
        color=LIGHT["accent"],
        markeredgecolor=LIGHT["paper"],
        markeredgewidth=1.0,
        zorder=3,
        label="best subset",
    )


def _error_line(axes: Axes, data: ReportData) -> None:
    """Draw how high a cost may be to be no worse than the best, as far as folds can tell."""
    high = limit(data.picks)
    if not math.isfinite(high):
        return
    bottom, top = axes.get_ylim()
    if high > top:
        axes.set_ylim(bottom, high + 0.04 * (high - bottom))
    axes.axhline(
        high,
        color=LIGHT["accent"],
        linewidth=1.0,
        linestyle=(0, (2, 2.5)),
        label="lowest + 1 SE",
    )


def _picks(axes: Axes, data: ReportData) -> None:
    """Mark what the other rules take, where it is another subset than the best."""
    names = {"parsimonious": ("1-SE pick", "D", 9.5), "knee": ("knee", "s", 13.0)}
    for pick in data.picks:
        if pick.rule in names:
            label, marker, size = names[pick.rule]
            axes.plot(
                [len(pick.features)],
                [pick.cost],
                linestyle="none",
                marker=marker,
                markersize=size,
                markerfacecolor="none",
                markeredgecolor=LIGHT["ink"],
                markeredgewidth=1.5,
                label=label,
            )


def _size_ticks(axes: Axes) -> None:
    if axes.get_xscale() != "log":
        plain_ticks(axes.xaxis, whole=True, count=6)
        return
    from matplotlib.ticker import LogLocator, NullLocator

    axes.xaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
