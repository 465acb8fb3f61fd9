"""Average ranks on a line, with bars over strategies that the data do not tell apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.report.canvas import LIGHT, bare, place, sheet
from swarm.report.words import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["cliques", "critical_difference_diagram"]

Across = Callable[[float], float]

_WIDTH = 800
_SIDE = 215
_ROW = 22
_BAR = 9


def cliques(ranks: NDArray[np.float64], difference: float) -> list[tuple[int, int]]:
    """Find the longest runs of ascending ranks that span at most the critical difference.

    Parameters
    ----------
    ranks : float (n,)
        Ascending.
    difference : float

    Returns
    -------
    list of (first, last)
        Positions; runs of one, and runs inside others, are left out.
    """
    runs: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = int(np.searchsorted(ranks, ranks[first] + difference + 1e-9, side="right")) - 1
        if last > first and (not runs or last > runs[-1][1]):
            runs.append((first, last))
    return runs


def critical_difference_diagram(average: pd.Series, difference: float | None) -> Figure:
    """Draw the diagram of Demsar 2006, figure 1: the best rank is on the left.

    Parameters
    ----------
    average : Series (n_strategies,)
        Average rank by strategy.
    difference : float or None
        Nemenyi's critical difference; None draws the ranks alone.
    """
    ordered = average.sort_values(kind="stable")
    ranks = ordered.to_numpy(dtype=np.float64)
    n = len(ranks)
    left = (n + 1) // 2
    bars = [] if difference is None else cliques(ranks, difference)
    top, below = 66, 16 + _BAR * len(bars)
    height = top + below + _ROW * left + 14
    figure = sheet(height, _WIDTH)
    axes = bare(place(figure, 0, 0, _WIDTH, height))
    axes.set_xlim(0, _WIDTH)
    axes.set_ylim(height, 0)

    def across(rank: float) -> float:
        return _SIDE + (rank - 1) / max(n - 1, 1) * (_WIDTH - 2 * _SIDE)

    _scale(axes, n, top, across)
    if difference is not None:
        _ruler(axes, difference, across)
    for i, (name, rank) in enumerate(zip(ordered.index, ranks, strict=True)):
        on_left = i < left
        row = i if on_left else n - 1 - i
        y = top + below + _ROW * (row + 0.5)
        edge = _SIDE - 18 if on_left else _WIDTH - _SIDE + 18
        x = across(float(rank))
        axes.plot([x, x, edge], [top, y, y], color=LIGHT["faint"], linewidth=1.0)
        axes.plot([x], [top], "o", color=LIGHT["accent"], markersize=5)
        label = shortened(name, 20)
        text = f"{label}  {rank:.2f}" if on_left else f"{rank:.2f}  {label}"
        weight = "bold" if rank == ranks[0] else "normal"
        side = "right" if on_left else "left"
        axes.text(edge + (-6 if on_left else 6), y, text, ha=side, va="center", fontweight=weight)
    for i, (first, last) in enumerate(bars):
        y = top + 12 + _BAR * i
        ends = [across(float(ranks[first])) - 4, across(float(ranks[last])) + 4]
        axes.plot(ends, [y, y], color=LIGHT["second"], linewidth=4, solid_capstyle="round")
    return figure


def _scale(axes: Axes, n: int, top: float, across: Across) -> None:
    axes.plot([across(1), across(n)], [top, top], color=LIGHT["muted"], linewidth=1.0)
    for rank in range(1, n + 1):
        x = across(rank)
        axes.plot([x, x], [top - 6, top], color=LIGHT["muted"], linewidth=1.0)
        axes.text(x, top - 10, str(rank), ha="center", va="bottom", color=LIGHT["muted"])


def _ruler(axes: Axes, difference: float, across: Across) -> None:
    start, end = across(1), min(across(1 + difference), _WIDTH - 10)
    axes.plot([start, end], [22, 22], color=LIGHT["second"], linewidth=2)
    for x in (start, end):
        axes.plot([x, x], [17, 27], color=LIGHT["second"], linewidth=2)
    text = f"critical difference {difference:.2f}"
    axes.text(start - 12, 22, text, ha="right", va="center", color=LIGHT["muted"])
