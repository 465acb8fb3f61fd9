"""The figures of a select run."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from swarm.arrays import Float
from swarm.metrics import is_lower_better
from swarm.report.data import ReportData
from swarm.report.drawing import (
    ABOVE,
    DASHED,
    DOT,
    DOTTED,
    LIGHT,
    NAME_LENGTH,
    Drawing,
    blue,
    draw,
    empty_figure,
    limits,
    named_rows,
    one_panel,
    plain_ticks,
    scores_for_costs,
    styled,
)
from swarm.report.formatting import metric_name, shortened
from swarm.search.candidates import pareto_front
from swarm.wording import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from swarm.validation.drop_column import FeatureLosses

# Points closer than 1 / _N_GRID_CELLS of the axes are drawn as one.
_N_GRID_CELLS = 400
_STAR: Any = {
    "linestyle": "none",
    "marker": "*",
    "markersize": 15,
    "color": LIGHT["accent"],
    "markeredgecolor": LIGHT["paper"],
}


def draw_figures(
    data: ReportData, names: Collection[str] | None = None, *, png: bool = True
) -> dict[str, Drawing]:
    """Draw the figures of a report, by name: ``convergence``, ``test_f1``, ...

    Parameters
    ----------
    data : ReportData
    names : collection of str, optional
        The figures to draw. Default: all of them.
    png : bool
        Whether to render the figures as PNG too, which takes as long as the SVG. The losses are in
        the page only, and never a PNG.

    Returns
    -------
    dict of str to Drawing
        Byte-identical for the same data and the same version of matplotlib.
    """
    with styled():
        drawn = {
            name: draw(name, label, figure, png=png)
            for name, label, figure in _figures(data)
            if names is None or name in names
        }
        if names is None and data.dropped is not None and len(data.dropped.losses):
            label = f"Loss on {data.dropped.rows} when each feature is dropped."
            drawn["dropped"] = draw("dropped", label, _dropped(data.dropped), png=False)
        return drawn


def _figures(data: ReportData) -> Iterator[tuple[str, str, Figure]]:
    """Yield name, text alternative and figure; not every run has all figures."""
    # Rankings alone search nothing.
    if len(data.evaluations) > 1:
        yield from _figures_of_search(data)
    if data.confirmed is not None:
        label = (
            f"Score against size of {counted(len(data.confirmed), 'subset')} on fresh folds, the "
            "chosen one and all features marked."
        )
        yield "confirmed", label, _confirmed(data.confirmed, data.scoring.metric)
    names = data.shown_features()
    if data.distance is not None and len(names) > 1:
        label = "Rank correlations of the chosen features and their nearest neighbours."
        square = data.distance.loc[names, names].to_numpy()
        yield "correlations", label, _heatmap(names, square, data.features)


def _figures_of_search(data: ReportData) -> Iterator[tuple[str, str, Figure]]:
    """Yield the figures of what was evaluated on the folds of the search."""
    epochs = counted(len(data.history), "epoch")
    best = data.scoring.natural(float(data.history["best_cost"].iloc[-1]))
    label = f"{_searched_metric(data)} over {epochs}, the best {best:.4g}."
    yield "convergence", label, _convergence(data)
    label = (
        f"Score against size of {counted(len(data.evaluations), 'subset')}, with the Pareto "
        "front and the chosen subsets."
    )
    yield "tradeoff", label, _tradeoff(data)


# ---------------------------------------------------------------- convergence


def _convergence(data: ReportData) -> Figure:
    """Draw best, mean and subswarm score above the sizes, with regroupings marked."""
    history = data.history
    figure = empty_figure(440)
    epochs = history["epoch"].to_numpy(dtype=np.float64)
    upper, lower = figure.subplots(2, sharex=True, height_ratios=[5, 2])
    for axes in (upper, lower):
        _regroupings(axes, epochs, data.regroup_every)
        axes.set_xlim(*limits(epochs, 0.02))
        axes.grid(axis="y")
        plain_ticks(axes.xaxis, whole=True)
    _costs(upper, history, epochs, data.regroup_every)
    upper.set_title(shortened(_searched_metric(data)))
    scores_for_costs(upper, data.scoring)
    _sizes(lower, history, epochs)
    lower.set_title("features")
    lower.set_xlabel("epoch")
    figure.legend(*upper.get_legend_handles_labels(), **ABOVE, ncols=2)
    return figure


def _searched_metric(data: ReportData) -> str:
    """Name the metric of an epoch, which may be the metric of a proxy."""
    metric = metric_name(data.scoring.metric)
    return f"{metric} of the proxy" if data.has_proxy else metric


def _costs(axes: Axes, history: pd.DataFrame, epochs: Float, every: int | None) -> None:
    names = [str(name) for name in history.columns if str(name).startswith("swarm_")]
    best = _column(history, "best_cost")
    mean = _column(history, "pbest_cost_mean")
    subswarms = [_column(history, name) for name in names]
    values = np.concatenate([best, *subswarms, mean])
    for i, costs in enumerate(subswarms):
        # A regrouping changes the members of a subswarm, so its line is interrupted.
        x, y = with_gaps(epochs, costs, every)
        label = "best of each subswarm" if i == 0 else None
        _line(axes, x, y, color=LIGHT["muted"], linewidth=1.1, label=label, drawstyle="steps-post")
    _mean_and_best(axes, epochs, mean, best, "mean of the personal bests")
    # The first epochs are far off, and would flatten the rest of the curve.
    axes.set_ylim(*limits(np.minimum(values, _ceiling(best, mean)), 0.07))
    plain_ticks(axes.yaxis)


def _ceiling(best: Float, mean: Float) -> float:
    """Return the highest best cost, or the 90th percentile of the means if that is higher."""
    tail = mean[np.isfinite(mean)]
    return max(np.nanmax(best), np.quantile(tail, 0.9) if tail.size else -np.inf)


def _sizes(axes: Axes, history: pd.DataFrame, epochs: Float) -> None:
    mean = _column(history, "size_mean")
    best = _column(history, "best_size")
    _mean_and_best(axes, epochs, mean, best, "mean of the epoch")
    axes.set_ylim(0.0, float(np.nanmax([mean, best])) * 1.12)
    plain_ticks(axes.yaxis, whole=True, count=3)


def _mean_and_best(axes: Axes, epochs: Float, mean: Float, best: Float, label: str) -> None:
    dashed = {"color": LIGHT["second"], "linewidth": 1.4, "linestyle": DASHED}
    _line(axes, epochs, mean, label=label, **dashed)
    solid = {"color": LIGHT["accent"], "linewidth": 2.4, "drawstyle": "steps-post"}
    _line(axes, epochs, best, label="best so far", **solid)


def _line(axes: Axes, epochs: Float, values: Float, **style: Any) -> None:
    n_finite = np.isfinite(values).sum()
    if n_finite:
        # A line through one point is invisible.
        axes.plot(epochs, values, marker="o" if n_finite == 1 else None, markersize=5, **style)


def with_gaps(epochs: Float, values: Float, every: int | None) -> tuple[Float, Float]:
    """Insert a gap at each regrouping; a value lasts until the next epoch."""
    if not every:
        return epochs, values
    ends = np.flatnonzero(epochs % every == 0)
    ends = ends[ends < len(epochs) - 1]
    x = np.insert(epochs, np.repeat(ends + 1, 2), np.repeat(epochs[ends] + 0.5, 2))
    gaps = np.column_stack([values[ends], np.full(len(ends), np.nan)]).ravel()
    return x, np.insert(values, np.repeat(ends + 1, 2), gaps)


def _regroupings(axes: Axes, epochs: Float, every: int | None) -> None:
    last = int(epochs.max())
    if every and last // every <= 60:
        for epoch in range(every, last, every):
            axes.axvline(epoch + 0.5, color=LIGHT["faint"], linewidth=1.0, linestyle=DOTTED)


def _column(history: pd.DataFrame, name: str) -> Float:
    """Return a column with infinite values as NaN."""
    values = history[name].to_numpy(dtype=np.float64)
    return np.where(np.isfinite(values), values, np.nan)


# ---------------------------------------------------------------- size


def _confirmed(table: pd.DataFrame, metric: str) -> Figure:
    """Draw score and interval of the confirmed subsets against their size."""
    figure, axes = one_panel(440)
    _limit_axes(axes, table["size"].to_numpy(), table[["low", "high"]].to_numpy().ravel())
    colours = {"search": "muted", "ranking": "muted", "all": "second", "chosen": "accent"}
    labels = {"search": "searched", "ranking": "first of a ranking", "all": "all columns"}
    for kind, colour in colours.items():
        rows = table[table["kind"] == kind]
        if not len(rows):
            continue
        style: Any = {"color": LIGHT[colour], "alpha": 1.0, "linewidth": 2.4}
        if colour == "muted":
            style |= {"alpha": 0.35, "linewidth": 1.2}
        axes.vlines(rows["size"], rows["low"], rows["high"], **style)
        mark: Any = {**DOT, "color": LIGHT[colour], "markersize": 7}
        if kind == "chosen":
            mark = _STAR
        elif kind == "ranking":
            mark["markerfacecolor"] = LIGHT["paper"]
        axes.plot(rows["size"], rows["score"], **mark, zorder=3, label=labels.get(kind, kind))
    axes.grid()
    axes.set_xlabel("columns in the subset")
    axes.set_title(shortened(metric_name(metric)))
    plain_ticks(axes.yaxis)
    figure.legend(**ABOVE, ncols=2)
    return figure


def _tradeoff(data: ReportData) -> Figure:
    """Draw score against size of all evaluations, the Pareto front and the chosen subsets."""
    figure, axes = one_panel(440)
    table = data.evaluations[np.isfinite(data.evaluations["cost"])]
    size, value = (table[name].to_numpy(dtype=np.float64) for name in ("size", "cost"))
    chosen = np.array([(len(names), cost) for names, cost in data.subsets], dtype=np.float64)
    top = max(_highest_shown(value), *chosen[:, 1])
    is_shown = value <= top
    sizes = np.append(size, chosen[:, 0])
    costs = np.append(value, chosen[:, 1])
    _limit_axes(axes, sizes, costs[costs <= top])
    _cloud(axes, size[is_shown], value[is_shown])
    front = pareto_front(sizes, costs)
    _front(axes, sizes[front], costs[front])
    if len(chosen) > 1:
        ring: Any = {**DOT, "markerfacecolor": "none", "markeredgecolor": LIGHT["accent"]}
        axes.plot(*chosen[1:].T, **ring, markersize=8.5, label="in the ensemble")
    axes.plot(*chosen[:1].T, **_STAR, zorder=3, label="best subset")
    axes.grid()
    axes.set_xlabel("features in the subset")
    axes.set_title(shortened(metric_name(data.scoring.metric)))
    plain_ticks(axes.yaxis)
    scores_for_costs(axes, data.scoring)
    if n_outside := int((~is_shown).sum()):
        note = f"{counted(n_outside, 'subset')} outside the frame"
        axes.set_title(note, loc="right", fontsize=11)
    figure.legend(**ABOVE, ncols=2)
    return figure


def _highest_shown(value: Float) -> float:
    """Return the highest cost shown, so that a few bad subsets do not flatten the good ones."""
    low, common, high = (float(np.quantile(value, q)) for q in (0.0, 0.95, 1.0))
    return common if high - low > 2.0 * (common - low) > 0.0 else high


def _limit_axes(axes: Axes, sizes: Float, costs: Float) -> None:
    """Set the limits; the axis of sizes is logarithmic if they span a wide range."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_ylim(*limits(costs, 0.06))
    smallest = float(sizes.min())
    largest = float(sizes.max())
    if largest < 20 * smallest or largest <= 100 or smallest <= 0:
        axes.set_xlim(*limits(sizes, 0.04))
        plain_ticks(axes.xaxis, whole=True, count=6)
        return
    axes.set_xscale("log")
    axes.set_xlim(smallest * 0.85, largest * 1.15)
    axes.xaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _cloud(axes: Axes, size: Float, value: Float) -> None:
    """Draw one dot per grid cell, darker if the cell has more than one subset."""
    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()
    scale = np.log if axes.get_xscale() == "log" else np.asarray
    x = (scale(size) - scale(left)) / (scale(right) - scale(left))
    y = (value - bottom) / (top - bottom)
    cells = np.round(np.column_stack([x, y]) * _N_GRID_CELLS).astype(np.int64)
    _, first, count = np.unique(cells, axis=0, return_index=True, return_counts=True)
    label: str | None = "evaluated subset"
    style: Any = {**DOT, "markersize": 4.4, "markeredgewidth": 0.0, "color": LIGHT["muted"]}
    for low, high, alpha in ((1, 1, 0.3), (2, 4, 0.5), (5, np.inf, 0.75)):
        rows = first[(count >= low) & (count <= high)]
        if rows.size:
            axes.plot(size[rows], value[rows], **style, alpha=alpha, label=label)
            label = None


def _front(axes: Axes, size: Float, value: Float) -> None:
    """Draw the front, and extend it beyond its ends, where no subset is cheaper or smaller."""
    right = axes.get_xlim()[1]
    top = axes.get_ylim()[1]
    style: Any = {"color": LIGHT["second"], "drawstyle": "steps-post"}
    x = [size[0], *size, right]
    y = [max(top, value[0]), *value, value[-1]]
    axes.plot(x, y, linewidth=1.0, alpha=0.6, **style)
    style |= {"marker": "o", "markersize": 5, "markeredgewidth": 0.0}
    axes.plot(size, value, linewidth=1.8, label="Pareto front", **style)


# ---------------------------------------------------------------- features


def _dropped(dropped: FeatureLosses) -> Figure:
    """Draw a dot with its interval for each feature."""
    table = dropped.losses
    figure, axes = one_panel(22 * len(table) + 70)
    loss, low, high = (table[name].to_numpy(dtype=np.float64) for name in ("loss", "low", "high"))
    axes.set_xlim(*limits(np.concatenate([loss, low, high, [0.0]]), 0.06))
    named_rows(axes, [shortened(name, NAME_LENGTH) for name in table.index])
    axes.axvline(0.0, color=LIGHT["muted"], linewidth=1.0)
    # A loss without an interval is not clear: NaN > 0 is false.
    is_clear = low > 0.0
    for y in range(len(table)):
        colour = LIGHT["accent" if is_clear[y] else "muted"]
        axes.plot([low[y], high[y]], [y, y], color=colour, linewidth=2.2)
        axes.plot([loss[y]], [y], marker="o", markersize=8, color=colour)
    plain_ticks(axes.xaxis, count=4)
    start = "increase of" if is_lower_better(dropped.metric) else "loss in"
    axes.set_title(f"{start} {metric_name(dropped.metric)} without it", loc="right")
    return figure


def _heatmap(names: list[str], square: Float, features: Collection[str]) -> Figure:
    """Draw the clustered rank correlations; chosen features are bold with a dot."""
    names, square = _clustered(names, square)
    chosen = np.array([name in features for name in names])
    pitch = float(np.clip(260 / len(names), 12.5, 26))
    figure = empty_figure(pitch * len(names) + 72)
    axes, scale = figure.subplots(2, height_ratios=[pitch * len(names), 10])
    axes.imshow(blue(1.0 - square), aspect="auto", interpolation="none")
    axes.spines[:].set_visible(False)
    labels = [shortened(name, NAME_LENGTH) for name in names]
    labels = [
        f"{name} •" if is_chosen else name for name, is_chosen in zip(labels, chosen, strict=True)
    ]
    axes.set_yticks(range(len(names)), labels, fontsize=min(12.0, pitch - 2.0))
    for text, is_chosen in zip(axes.get_yticklabels(), chosen, strict=True):
        text.set(
            color=LIGHT["ink" if is_chosen else "muted"],
            fontweight="bold" if is_chosen else "normal",
        )
    below = np.flatnonzero(chosen)
    axes.set_xticks(below, ["•"] * len(below), color=LIGHT["accent"])
    axes.tick_params(axis="x", pad=0)
    scale.imshow(blue(np.linspace(0.0, 1.0, 64)[None, :]), aspect="auto", extent=(0, 1, 0, 1))
    scale.set_yticks([])
    scale.set_xticks([0, 1])
    scale.set_xlabel("|rank correlation|", labelpad=-8)
    return figure


def _clustered(names: list[str], square: Float) -> tuple[list[str], Float]:
    """Order rows by the leaves of a complete-linkage dendrogram."""
    if len(names) < 3:
        return names, square
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    tree = linkage(squareform(square, checks=False), method="complete", optimal_ordering=True)
    order = [int(i) for i in leaves_list(tree)]
    return [names[i] for i in order], square[np.ix_(order, order)]
