"""The figures of the Musk page: courses of cost, paired differences, and the ablation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.evidence.published_musk import BEST_COSTS
from swarm.report.axes import limits, plain_ticks
from swarm.report.canvas import LIGHT, place, sheet, styled, to_svg_file
from swarm.report.convergence_bands import convergence_bands

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ablation_figure", "cost_figure", "course_figure", "difference_figure"]

Float = NDArray[np.float64]

_ROW = 34
_DASHES = (0, (1.2, 1.6))


def course_figure(epochs: pd.DataFrame, runs: pd.DataFrame, splits: Mapping[str, str]) -> bytes:
    """Draw the best cost by epoch, a panel for each split.

    Parameters
    ----------
    epochs, runs : DataFrame
        One row per run and epoch, and per run: a ring at the end is the cost of the best subset
        on the full model.
    splits : mapping of str to str
        Title of each split that is drawn. The document's curve is drawn on "random" only.
    """
    with styled():
        figure = sheet(318, 400 * len(splits))
        for i, (split, title) in enumerate(splits.items()):
            axes = place(figure, 54 + 400 * i, 64, 328, 206)
            values = _courses(axes, epochs[epochs["split"] == split], runs[runs["split"] == split])
            if split == "random":
                x = np.arange(1, len(BEST_COSTS) + 1)
                _steps(axes, x, np.asarray(BEST_COSTS), color=LIGHT["ink"], linewidth=2.0)
                axes.lines[-1].set_linestyle(_DASHES)
                values = np.append(values, BEST_COSTS)
            axes.set_ylim(*limits(values, 0.08))
            axes.set_title(title, loc="left", fontsize=12, color=LIGHT["ink"], pad=6)
            axes.set_xlabel("epoch", color=LIGHT["muted"])
            axes.grid(axis="y", color=LIGHT["line"], linewidth=0.8)
            plain_ticks(axes.xaxis, whole=True)
            plain_ticks(axes.yaxis)
        _course_key(figure)
        return to_svg_file(figure, "courses", "Best cost by epoch, the document's and ours.")


def difference_figure(
    pairs: pd.DataFrame, tests: pd.DataFrame, labels: Mapping[tuple[str, str], str], title: str
) -> bytes:
    """Draw the differences of one metric: a dot per seed, the mean and its interval.

    Parameters
    ----------
    pairs, tests : DataFrame
        As from :func:`swarm.evidence.musk_tables.differences` and `judged`, of one metric.
    labels : mapping of (first, second) to str
        Name of each pair, in the order they are drawn.
    title : str
        Name of the horizontal axis.
    """
    splits = [split for split in ("random", "group") if (pairs["split"] == split).any()]
    bounds = pairs["difference"].tolist() + tests["low"].tolist() + tests["high"].tolist() + [0.0]
    with styled():
        height = _ROW * len(labels)
        figure = sheet(height + 92, 800)
        for i, split in enumerate(splits):
            axes = _dot_panel(figure, 210 + 296 * i, 276, height, np.array(bounds), title)
            name = {"random": "random split", "group": "by molecule"}[split]
            axes.set_title(name, loc="left", fontsize=12, color=LIGHT["ink"], pad=6)
            for y, (names, label) in enumerate(labels.items()):
                dots = _pair(pairs, split, names)["difference"]
                test = _pair(tests, split, names)
                ends = test[["low", "high"]].to_numpy(dtype=np.float64).ravel()
                _dots(axes, y, dots.to_numpy(dtype=np.float64), ends)
                if i == 0:
                    _name(axes, y, label, 200)
        return to_svg_file(figure, "differences", f"{title} for each pair, seed by seed.")


def ablation_figure(
    ablation: pd.DataFrame, labels: Mapping[str, str], title: str = "cost"
) -> bytes:
    """Draw the cost of each strategy of the ablation: a dot per seed, and a line at the mean.

    Parameters
    ----------
    ablation : DataFrame
        One row per search, with strategy and cost.
    labels : mapping of str to str
        Name of each strategy, in the order they are drawn.
    title : str
        Name of the horizontal axis.
    """
    with styled():
        height = _ROW * len(labels)
        figure = sheet(height + 66, 560)
        values = ablation["cost"].to_numpy(dtype=np.float64)
        axes = _dot_panel(figure, 190, 350, height, values, title)
        whole = ablation.loc[ablation["strategy"] == "whole", "cost"].mean()
        if np.isfinite(whole):
            axes.axvline(whole, color=LIGHT["muted"], linewidth=1.0, linestyle=(0, (4, 2.5)))
        for y, (name, label) in enumerate(labels.items()):
            own = ablation.loc[ablation["strategy"] == name, "cost"]
            _dots(axes, y, own.to_numpy(dtype=np.float64))
            _name(axes, y, label, 180)
        return to_svg_file(figure, "ablation", "Cost of each search of the ablation, by seed.")


def cost_figure(history: pd.DataFrame, labels: Mapping[str, str], cost_label: str) -> bytes:
    """Draw the best cost by distinct evaluations, a panel for each strategy.

    Parameters
    ----------
    history : DataFrame
        strategy, seed, distinct and best_cost, one row per epoch.
    labels : mapping of str to str
        Name of each strategy, in the order of the panels.
    cost_label : str
    """
    renamed = history.rename(columns={"distinct": "distinct_evaluations"})
    histories: dict[str, Sequence[pd.DataFrame]] = {}
    for name, label in labels.items():
        own = renamed[renamed["strategy"] == name].sort_values("distinct_evaluations")
        if len(own):
            histories[label] = [part for _, part in own.groupby("seed")]
    with styled():
        figure = convergence_bands(histories, float("nan"), cost_label)
        # No cost of all features is known here: its key comes last, and explains nothing.
        for drawn in (figure.texts, figure.lines or figure.artists):
            drawn[-1].remove()
        return to_svg_file(figure, "ablation-costs", "Best cost against distinct evaluations.")


def _courses(axes: Axes, epochs: pd.DataFrame, runs: pd.DataFrame) -> Float:
    """Draw the runs of a split; returns every value that must be seen."""
    looks = {"fast": (LIGHT["second"], 1.2), "exact": (LIGHT["accent"], 2.2)}
    seen: list[float] = []
    last = float(epochs["epoch"].max()) if len(epochs) else 1.0
    for mode, (colour, width) in looks.items():
        own = epochs[epochs["mode"] == mode].sort_values("epoch", kind="stable")
        for _, run in own.groupby("seed"):
            x = run["epoch"].to_numpy(dtype=np.float64)
            y = run["best_cost"].to_numpy(dtype=np.float64)
            _steps(axes, x, y, color=colour, linewidth=width)
            seen += y.tolist()
        ends = runs.loc[runs["mode"] == mode, "cost"].to_numpy(dtype=np.float64)
        ring: dict[str, Any] = {"marker": "o", "linestyle": "none", "markerfacecolor": "none"}
        where = np.full(len(ends), 1.035 * last)
        axes.plot(where, ends, color=colour, markersize=6, clip_on=False, **ring)
        seen += ends.tolist()
    return np.asarray(seen, dtype=np.float64)


def _steps(axes: Axes, x: Float | NDArray[np.intp], y: Float, **style: Any) -> None:
    axes.plot(x, y, drawstyle="steps-post", solid_joinstyle="round", **style)


def _course_key(figure: Figure) -> None:
    """Explain the lines in one row, or two on a narrow sheet."""
    from matplotlib.lines import Line2D

    width, height = figure.get_size_inches() * 72
    entries: list[tuple[str, dict[str, Any]]] = [
        ("document", {"color": LIGHT["ink"], "linewidth": 2, "linestyle": _DASHES}),
        ("exact run", {"color": LIGHT["accent"], "linewidth": 2.2}),
        ("fast runs, cost of the cheaper model", {"color": LIGHT["second"], "linewidth": 1.2}),
        ("best subset, full model", {"color": LIGHT["muted"], "marker": "o", "linewidth": 0}),
    ]
    places = [(8, 18), (118, 18), (228, 18), (500, 18)]
    if width < 700:
        places = [(8, 14), (130, 14), (8, 34), (262, 14)]
        entries[3] = ("full model", entries[3][1])
    for (label, style), (x, top) in zip(entries, places, strict=True):
        y = 1 - top / height
        style = style | {"markerfacecolor": "none", "markersize": 6, "markeredgewidth": 1.5}
        ends = [x / width, (x + 22) / width] if style["linewidth"] else [(x + 14) / width]
        figure.add_artist(Line2D(ends, [y] * len(ends), **style))
        figure.text((x + 30) / width, y, label, va="center", color=LIGHT["muted"])


def _dot_panel(
    figure: Figure, left: float, width: float, height: float, values: Float, title: str
) -> Axes:
    top = figure.get_size_inches()[1] * 72 - height - 52
    axes = place(figure, left, top, width, height)
    axes.set_xlim(*limits(values, 0.06))
    rows = round(height / _ROW)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_yticks([])
    axes.grid(axis="x", color=LIGHT["line"], linewidth=0.8)
    axes.set_xlabel(title, color=LIGHT["muted"])
    low, high = axes.get_xlim()
    if low < 0 < high:
        axes.axvline(0, color=LIGHT["muted"], linewidth=1.0)
    plain_ticks(axes.xaxis, count=5)
    return axes


def _dots(axes: Axes, y: int, values: Float, ends: Float | None = None) -> None:
    """Draw the seeds as dots, their mean as a stroke, and the interval of the mean if given."""
    known = values[np.isfinite(values)]
    if not len(known):
        axes.annotate("no run", (0.02, y), xycoords=axes.get_yaxis_transform(), va="center")
        return
    if ends is not None and len(ends) == 2 and np.isfinite(ends).all():
        axes.plot(ends, [y, y], color=LIGHT["accent"], linewidth=6, alpha=0.25, zorder=2)
    axes.plot(known, np.full(len(known), y), "o", color=LIGHT["muted"], markersize=4.5, zorder=3)
    mean = float(known.mean())
    axes.plot([mean, mean], [y - 0.3, y + 0.3], color=LIGHT["accent"], linewidth=2.6, zorder=4)


def _name(axes: Axes, y: int, label: str, room: float) -> None:
    axes.annotate(
        label,
        (0.0, y),
        xycoords=axes.get_yaxis_transform(),
        xytext=(-room, 0),
        textcoords="offset points",
        va="center",
        annotation_clip=False,
    )


def _pair(rows: pd.DataFrame, split: str, names: tuple[str, str]) -> pd.DataFrame:
    first, second = names
    same = (rows["first"] == first) & (rows["second"] == second)
    return rows[same & (rows["split"] == split)]
