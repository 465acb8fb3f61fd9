"""How a search went, epoch by epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.report.axes import key, limits, message, name_axis, plain_ticks
from swarm.report.canvas import LIGHT, place, sheet
from swarm.report.words import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from swarm.report.data import ReportData

__all__ = ["convergence"]

FloatArray = NDArray[np.float64]


def convergence(data: ReportData) -> Figure:
    """Draw best, mean and subswarm cost above the sizes, with regroupings marked."""
    history = data.history
    figure = sheet(440)
    upper = place(figure, 54, 68, 338, 202)
    lower = place(figure, 54, 314, 338, 84)
    if not len(history):
        message(upper, "No epoch was finished.")
        lower.set_visible(False)
        return figure
    epochs = history["epoch"].to_numpy(dtype=np.float64)
    for axes in (upper, lower):
        _regroupings(axes, epochs, data.regroup_every)
        axes.set_xlim(*limits(epochs, 0.02))
    _costs(upper, history, epochs, data.regroup_every)
    _sizes(lower, history, epochs)
    upper.tick_params(labelbottom=not lower.get_visible())
    name_axis(upper, shortened(data.cost_label, 40))
    name_axis(lower, "features")
    (lower if lower.get_visible() else upper).set_xlabel("epoch", color=LIGHT["muted"])
    return figure


def _costs(axes: Axes, history: pd.DataFrame, epochs: FloatArray, every: int | None) -> None:
    swarms = [c for c in history.columns if str(c).startswith("swarm_")]
    best = _finite(history, "best_cost")
    mean = _finite(history, "pbest_cost_mean")
    each = [_finite(history, str(name)) for name in swarms]
    values = np.concatenate([best, *each, mean])
    if not np.isfinite(values).any():
        message(axes, "No subset had a finite cost.")
        return
    for i, one in enumerate(each):
        label = "best of each subswarm" if i == 0 else None
        # A subswarm is another one after a regrouping, so its line must not go on.
        x, y = _broken(epochs, one, every)
        _line(axes, x, y, LIGHT["muted"], 1.1, label, steps=True)
    _line(axes, epochs, mean, LIGHT["second"], 1.4, "mean of the personal bests", (0, (4, 2.5)))
    _line(axes, epochs, best, LIGHT["accent"], 2.4, "best so far", steps=True)
    # The first epochs are far off, and would flatten all that follows.
    shown = np.minimum(values, _ceiling(best, mean))
    axes.set_ylim(*limits(shown, 0.07))
    axes.grid(axis="y", color=LIGHT["line"], linewidth=0.8)
    plain_ticks(axes.yaxis)
    plain_ticks(axes.xaxis, whole=True)
    key(axes, columns=2)


def _ceiling(best: FloatArray, mean: FloatArray) -> float:
    top = np.nanmax(best) if np.isfinite(best).any() else -np.inf
    tail = mean[np.isfinite(mean)]
    high = np.quantile(tail, 0.9) if tail.size else -np.inf
    ceiling = max(float(top), float(high))
    return ceiling if np.isfinite(ceiling) else np.inf


def _sizes(axes: Axes, history: pd.DataFrame, epochs: FloatArray) -> None:
    mean, best = _finite(history, "size_mean"), _finite(history, "best_size")
    _line(axes, epochs, mean, LIGHT["second"], 1.4, "mean of the epoch", (0, (4, 2.5)))
    _line(axes, epochs, best, LIGHT["accent"], 2.4, "best so far", steps=True)
    values = np.concatenate([mean, best])
    if not np.isfinite(values).any():
        axes.set_visible(False)
        return
    axes.set_ylim(0.0, float(np.nanmax(values)) * 1.12)
    axes.grid(axis="y", color=LIGHT["line"], linewidth=0.8)
    plain_ticks(axes.yaxis, whole=True, count=3)
    plain_ticks(axes.xaxis, whole=True)


def _line(
    axes: Axes,
    epochs: FloatArray,
    values: FloatArray,
    colour: str,
    width: float,
    label: str | None,
    dashes: Any = "solid",
    steps: bool = False,
) -> None:
    if not np.isfinite(values).any():
        return
    # A line through one point is nothing at all.
    lone = np.isfinite(values).sum() == 1
    axes.plot(
        epochs,
        values,
        color=colour,
        linewidth=width,
        linestyle=dashes,
        label=label,
        drawstyle="steps-post" if steps else "default",
        marker="o" if lone else None,
        markersize=width + 3.0,
        solid_joinstyle="round",
    )


def _broken(epochs: FloatArray, values: FloatArray, every: int | None) -> tuple[FloatArray, ...]:
    """Epochs and values with a gap at each regrouping; a value lasts until the next epoch."""
    if not every:
        return epochs, values
    ends = np.flatnonzero(epochs % every == 0)
    ends = ends[ends < len(epochs) - 1]
    x = np.insert(epochs, np.repeat(ends + 1, 2), np.repeat(epochs[ends] + 0.5, 2))
    gaps = np.column_stack([values[ends], np.full(len(ends), np.nan)]).ravel()
    return x, np.insert(values, np.repeat(ends + 1, 2), gaps)


def _regroupings(axes: Axes, epochs: FloatArray, every: int | None) -> None:
    if not every:
        return
    last = int(epochs.max())
    if last // every > 60:
        return
    for epoch in range(every, last, every):
        axes.axvline(epoch + 0.5, color=LIGHT["faint"], linewidth=1.0, linestyle=(0, (2, 2)))


def _finite(history: pd.DataFrame, name: str) -> FloatArray:
    """Column with what is not finite as NaN; all NaN where there is no such column."""
    if name not in history.columns:
        return np.full(len(history), np.nan)
    values = history[name].to_numpy(dtype=np.float64)
    return np.where(np.isfinite(values), values, np.nan)
