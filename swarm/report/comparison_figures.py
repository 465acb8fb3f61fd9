"""The figures of a comparison: average ranks and convergence on each data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from swarm.arrays import Float
from swarm.problem.scoring import Scoring
from swarm.report.drawing import (
    DASHED,
    LIGHT,
    Drawing,
    draw,
    empty_figure,
    limits,
    plain_ticks,
    scores_for_costs,
    styled,
)
from swarm.report.formatting import metric_name, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from swarm.report.comparison import ComparisonData

_COMPARISON_WIDTH = 800
_MAX_GRID_COLUMNS = 4
# The limits skip this share of the budget: the first costs are far off, and would flatten the rest.
_SKIPPED_SHARE = 0.25


def draw_comparison(data: ComparisonData) -> dict[str, Drawing]:
    """Draw the figures of a comparison, byte-identical for the same searches, by name."""
    comparison = data.comparison
    drawings = {}
    with styled():
        figure = critical_difference_diagram(
            comparison.ranks["average"], comparison.critical_difference
        )
        drawings["ranks"] = draw("ranks", "Average ranks of the strategies.", figure)
        for dataset in comparison.datasets:
            order = comparison.ranks[dataset].sort_values(kind="stable").index
            histories = {str(name): data.histories[dataset, str(name)] for name in order}
            name = f"convergence_{dataset}"
            compared = data.datasets[dataset]
            figure = convergence_bands(histories, compared.cost, compared.scoring)
            label = f"Best score against distinct evaluations on {dataset}."
            drawings[name] = draw(name, label, figure)
    return drawings


# ---------------------------------------------------------------- ranks


def critical_difference_diagram(average: pd.Series, difference: float | None) -> Figure:
    """Draw average ranks by strategy, and the critical difference between them unless it is None.

    The diagram of scikit-posthocs is not reproducible: it iterates over a set of strings.
    Source: Demsar (2006), figure 1.
    """
    ordered = average.sort_values(kind="stable")
    ranks = ordered.to_numpy(dtype=np.float64)
    n = len(ranks)
    n_left = (n + 1) // 2
    bars = [] if difference is None else cliques(ranks, difference)
    # One unit of the vertical axis is a line of text; the axis of ranks is at 0.
    below = 0.5 + 0.4 * len(bars)
    above = 0.4 if difference is None else 2.4
    bottom = below + n_left
    figure = empty_figure(22 * (above + bottom + 1.5), _COMPARISON_WIDTH)
    axes = figure.subplots()
    axes.set(xlim=(1, max(n, 2)), ylim=(bottom, -above), yticks=[], xticks=range(1, n + 1))
    axes.xaxis.tick_top()
    axes.spines[:].set_visible(False)
    axes.spines["top"].set(visible=True, position=("data", 0), color=LIGHT["muted"])
    margin = 0.02 * max(n - 1, 1)
    line: Any = {"clip_on": False}
    if difference is not None:
        end = min(1 + difference, max(n, 2))
        style: Any = {"color": LIGHT["second"], "linewidth": 2, "marker": "|", "markersize": 10}
        axes.plot([1, end], [-1.8, -1.8], **style, **line)
        text = f"critical difference {difference:.2f}"
        axes.text(end + margin, -1.8, text, va="center", color=LIGHT["muted"])
    for i, (name, rank) in enumerate(zip(ordered.index, ranks, strict=True)):
        on_left = i < n_left
        y = below + 0.5 + (i if on_left else n - 1 - i)
        edge = 1 - margin if on_left else max(n, 2) + margin
        axes.plot([rank, rank, edge], [0, y, y], color=LIGHT["faint"], linewidth=1.0, **line)
        axes.plot([rank], [0], "o", color=LIGHT["accent"], markersize=5, **line)
        label = shortened(name, 20)
        text = f"{label} {rank:.2f}" if on_left else f"{rank:.2f} {label}"
        end = edge - margin / 4 if on_left else edge + margin / 4
        weight = "bold" if rank == ranks[0] else "normal"
        axes.text(end, y, text, ha="right" if on_left else "left", va="center", weight=weight)
    for i, (first, last) in enumerate(bars):
        ends = [ranks[first], ranks[last]]
        y = 0.5 + 0.4 * i
        axes.plot(ends, [y, y], color=LIGHT["second"], linewidth=4, **line)
    return figure


def cliques(ranks: Float, difference: float) -> list[tuple[int, int]]:
    """Find the longest runs, (first, last), of ascending ranks that span at most the difference.

    Runs of length one and runs inside others are left out.
    """
    runs: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = int(np.searchsorted(ranks, ranks[first] + difference + 1e-9, side="right")) - 1
        if last > first and (not runs or last > runs[-1][1]):
            runs.append((first, last))
    return runs


# ---------------------------------------------------------------- convergence


@dataclass(frozen=True, eq=False)
class Band:
    """Best costs of a strategy over its seeds.

    Attributes
    ----------
    x : float64 (n,)
        Distinct evaluations.
    mean : float64 (n,)
        Mean over the seeds; NaN until every seed has a finite cost.
    low, high : float64 (n,)
        Range over the seeds.
    used : float
        Largest number of evaluations of a seed.
    """

    x: Float
    mean: Float
    low: Float
    high: Float
    used: float


def band(histories: Sequence[pd.DataFrame], budget: float) -> Band:
    """Align the histories of the seeds; a seed that ends before `budget` keeps its cost."""
    evaluations = [
        history["distinct_evaluations"].to_numpy(dtype=np.float64) for history in histories
    ]
    x = np.unique(np.concatenate([*evaluations, [budget]]))
    rows = []
    for history, counts in zip(histories, evaluations, strict=True):
        costs = np.append(np.nan, history["best_cost"].to_numpy(dtype=np.float64))
        rows.append(costs[np.searchsorted(counts, x, side="right")])
    costs = np.array(rows)
    # A NaN of one seed propagates to mean, low and high.
    finite = np.where(np.isfinite(costs), costs, np.nan)
    used = max(float(counts[-1]) for counts in evaluations)
    return Band(x, finite.mean(axis=0), finite.min(axis=0), finite.max(axis=0), used)


def convergence_bands(
    histories: Mapping[str, Sequence[pd.DataFrame]], all_features: float, scoring: Scoring
) -> Figure:
    """Draw mean and range over the seeds, a panel per strategy, and the score of all features."""
    budget = max(
        float(history["distinct_evaluations"].iloc[-1])
        for by_seed in histories.values()
        for history in by_seed
    )
    bands = {name: band(by_seed, budget) for name, by_seed in histories.items()}
    columns = min(_MAX_GRID_COLUMNS, len(bands))
    rows = -(-len(bands) // columns)
    figure = empty_figure(156 * rows + 56, _COMPARISON_WIDTH)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    grid[0, 0].set(xlim=(0, budget), ylim=_cost_limits(bands.values(), all_features))
    plain_ticks(grid[0, 0].yaxis, count=4)
    scores_for_costs(grid[0, 0], scoring)
    plain_ticks(grid[0, 0].xaxis, whole=True, count=3)
    for axes in grid.flat[len(bands) :]:
        axes.set_visible(False)
    # Label the last panel of each column, also above an unused one.
    for axes in grid.flat[len(bands) - columns : len(bands)]:
        axes.tick_params(labelbottom=True)
    for axes, (name, current) in zip(grid.flat, bands.items(), strict=False):
        axes.set_title(shortened(name, 24), color=LIGHT["ink"])
        other_bands = [other for other in bands.values() if other is not current]
        _panel(axes, current, other_bands, all_features)
    figure.supxlabel("distinct evaluations", color=LIGHT["muted"], fontsize=12)
    figure.supylabel(shortened(metric_name(scoring.metric), 24), color=LIGHT["muted"], fontsize=12)
    _legend(figure)
    return figure


def _panel(axes: Axes, band: Band, other_bands: Sequence[Band], all_features: float) -> None:
    axes.grid(axis="y")
    if np.isfinite(all_features):
        axes.axhline(all_features, color=LIGHT["muted"], linewidth=1.0, linestyle=DASHED)
    for other in other_bands:
        axes.step(other.x, other.mean, where="post", color=LIGHT["faint"], linewidth=0.7)
    if np.isnan(band.mean).all():
        place: Any = {"ha": "center", "va": "center", "transform": axes.transAxes}
        axes.text(0.5, 0.5, "no finite cost", color=LIGHT["muted"], **place)
        return
    style: Any = {"step": "post", "color": LIGHT["accent"], "alpha": 0.22, "linewidth": 0}
    axes.fill_between(band.x, band.low, band.high, **style)
    axes.step(band.x, band.mean, where="post", color=LIGHT["accent"], linewidth=2.0)
    last = int(np.searchsorted(band.x, band.used, side="right")) - 1
    end = (band.x[last], band.mean[last])
    axes.plot(*end, "o", color=LIGHT["accent"], markersize=4, clip_on=False)


def _cost_limits(bands: Iterable[Band], all_features: float) -> tuple[float, float]:
    values = [np.array([all_features])]
    for band in bands:
        is_late = band.x >= _SKIPPED_SHARE * band.x[-1]
        values += [band.low[is_late], band.high[is_late]]
    return limits(np.concatenate(values), 0.08)


def _legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    dashed: Any = {"color": LIGHT["muted"], "linewidth": 1, "linestyle": DASHED}
    handles = [
        Line2D([], [], color=LIGHT["accent"], linewidth=2, label="mean of the seeds"),
        Patch(color=LIGHT["accent"], alpha=0.22, linewidth=0, label="worst to best seed"),
        Line2D([], [], color=LIGHT["faint"], linewidth=1, label="other strategies"),
        Line2D([], [], **dashed, label="all features"),
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=4)
