"""The figures of the model of the chosen features: curves, calibration, SHAP values and others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from swarm.arrays import Bool, Float
from swarm.report.drawing import (
    ABOVE,
    DASHED,
    DOTTED,
    LIGHT,
    NAME_LENGTH,
    blue,
    limits,
    named_rows,
    one_panel,
    plain_ticks,
)
from swarm.report.formatting import counted, metric_name, number, shortened
from swarm.validation.metrics import LOWER_IS_BETTER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from swarm.validation.diagnostics import Diagnostics

_LABELS = {"chosen": "chosen features", "all_features": "all features", "ensemble": "ensemble"}
_LINES: MappingProxyType[str, Any] = MappingProxyType(
    {
        "chosen": {"color": LIGHT["accent"], "linewidth": 2.4},
        "all_features": {"color": LIGHT["second"], "linewidth": 1.6, "linestyle": DASHED},
        "ensemble": {"color": LIGHT["muted"], "linewidth": 1.4, "linestyle": DOTTED},
    }
)
_DIAGONAL: Any = {"color": LIGHT["faint"], "linewidth": 1.0, "linestyle": DOTTED}
# Columns of dots side by side in a row of the SHAP figure.
_BINS = 70


@dataclass(frozen=True)
class ModelFigure:
    """A figure of the model.

    Attributes
    ----------
    title : str
    label : str
        Text alternative.
    reading : str
        What it shows, and how to read it.
    draw : callable
        Returns the figure.
    """

    title: str
    label: str
    reading: str
    draw: Callable[[], Figure]


def model_figures(found: Diagnostics) -> dict[str, ModelFigure]:
    """Return the figures that there are data for, by name."""
    rows, figures = found.rows, dict[str, ModelFigure]()

    def add(name: str, title: str, label: str, reading: str, draw: Callable[..., Figure]) -> None:
        figures[name] = ModelFigure(title, label, reading, partial(draw, found))

    several = found.task == "multiclass"
    of = "of all classes (micro-average)" if several else f"of the class {found.positive}"
    if (shap := found.shap) is not None:
        reading = "mean size over rows and classes."
        if shap.values is not None:
            reading = "blue dots have a low value of the feature, orange ones a high value."
        add(
            "shap",
            "SHAP values",
            f"SHAP values of the {len(shap.mean)} features that move predictions most.",
            f"What a feature adds to the prediction of a row, for {counted(shap.n_rows, 'row')}"
            f"{': ' if shap.values is None else '; '}{reading} SHAP values explain this model, "
            "not the world: correlated features share a value.",
            _shap,
        )
    if len(found.dropped):
        add(
            "dropped",
            "Loss when a feature is dropped",
            f"Loss on {rows} when each feature is dropped and the model trained again.",
            "Each feature is left out alone and the model trained again. Lines are 95 % intervals; "
            "blue where they exclude 0. A feature whose loss is about 0 is either useless or "
            "replaceable by the others, so do not drop several at once by this figure.",
            _dropped,
        )
    if len(found.roc):
        add(
            "roc",
            "ROC curve",
            f"ROC curve on {rows}: {_areas(found, 'roc')}.",
            f"Ranking {of}: the upper left corner is perfect, the dotted line random.",
            _roc,
        )
        add(
            "precision_recall",
            "Precision and recall",
            f"Precision and recall on {rows}: {_areas(found, 'precision_recall')}.",
            f"Ranking {of}, in the view that suits rare classes: the dotted line is a random "
            "ranking. AP is the average precision.",
            _precision_recall,
        )
    if len(found.calibration):
        more = " Of several classes: the probability of the predicted one." if several else ""
        add(
            "probabilities",
            "Calibration of the probabilities",
            "Predicted probability against the observed share, for bins of equally many rows.",
            "Bins of equally many rows; lines are 95 % intervals of the chosen features. Above the "
            f"diagonal the probability is too low, below it too high.{more}",
            _calibration,
        )
    if found.confusion is not None:
        add(
            "confusion",
            "Confusion matrix",
            f"Rows of each true class by predicted class, on {rows}.",
            "Rows are true classes; the colour is the share of the class.",
            _confusion,
        )
    if len(found.predicted):
        add(
            "predicted",
            "Predicted and true values",
            f"Predicted against true values of {len(found.predicted)} of the {rows}.",
            "A dot per row, at most 400; on the dotted line predictions are exact.",
            _predicted,
        )
    if len(found.learning):
        add(
            "learning",
            "Learning curve",
            f"{metric_name(found.metric)} on {rows} by the number of training rows.",
            "The same model on an eighth, a quarter, half and all of the rows: mean and range of "
            "three draws of the training rows. A curve that still rises says that more rows help "
            "more than other features.",
            _learning,
        )
    return figures


def _areas(found: Diagnostics, kind: str) -> str:
    areas = found.areas[kind]
    return ", ".join(f"{_LABELS[name]} {number(area)}" for name, area in areas.items())


def _square(title: str, label: str) -> tuple[Figure, Axes]:
    figure, axes = one_panel(370)
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.04)
    axes.grid()
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks([0.0, 0.25, 0.5, 0.75, 1.0], ["0", "0.25", "0.5", "0.75", "1"])
    axes.set_title(title)
    axes.set_xlabel(label)
    return figure, axes


def _curve(axes: Axes, table: pd.DataFrame, areas: dict[str, float], what: str) -> None:
    # The chosen features are drawn last, on top.
    for name in [name for name in reversed(_LINES) if name in areas]:
        own = table[table["contender"] == name]
        label = f"{_LABELS[name]}, {what} {number(areas[name])}"
        axes.plot(own["x"], own["y"], **_LINES[name], label=label)


def _roc(found: Diagnostics) -> Figure:
    figure, axes = _square("true positive rate", "false positive rate")
    axes.plot([0, 1], [0, 1], **_DIAGONAL)
    _curve(axes, found.roc, dict(found.areas["roc"]), "AUC")
    figure.legend(**ABOVE, reverse=True)
    return figure


def _precision_recall(found: Diagnostics) -> Figure:
    figure, axes = _square("precision", "recall")
    axes.axhline(found.prevalence, **_DIAGONAL)
    axes.text(0.0, found.prevalence + 0.012, "random", color=LIGHT["muted"], fontsize=11)
    _curve(axes, found.precision_recall, dict(found.areas["precision_recall"]), "AP")
    figure.legend(**ABOVE, reverse=True)
    return figure


def _calibration(found: Diagnostics) -> Figure:
    figure, axes = _square("observed share", "predicted probability")
    axes.plot([0, 1], [0, 1], **_DIAGONAL)
    for name in ("all_features", "chosen"):
        own = found.calibration[found.calibration["contender"] == name]
        if not len(own):
            continue
        style = {**_LINES[name], "marker": "o", "markersize": 5, "markeredgewidth": 0.0}
        if name == "chosen":
            axes.vlines(own["predicted"], own["low"], own["high"], color=LIGHT["faint"])
        axes.plot(own["predicted"], own["observed"], **style, label=_LABELS[name])
    figure.legend(**ABOVE, ncols=2, reverse=True)
    return figure


def _confusion(found: Diagnostics) -> Figure:
    assert found.confusion is not None
    counts = found.confusion
    values = counts.to_numpy(dtype=np.float64)
    shares = values / np.maximum(values.sum(axis=1, keepdims=True), 1.0)
    n = len(counts)
    figure, axes = one_panel(float(np.clip(44 * n, 130, 380)) + 66)
    # Not opaque, so that a number is legible in the colour of the text, light or dark.
    axes.imshow(blue(0.5 * shares), aspect="auto", interpolation="none")
    axes.spines[:].set_visible(False)
    size = 12.0 if n <= 6 else 9.0
    for y in range(n):
        for x in range(n):
            share = f"\n{shares[y, x]:.0%}" if n <= 4 else ""
            axes.text(
                x, y, f"{int(values[y, x]):,}{share}", ha="center", va="center", fontsize=size
            )
    length = 14 if n <= 4 else 7
    names = [shortened(name, length) for name in counts.index]
    axes.set_xticks(range(n), names, fontsize=size)
    axes.set_yticks(range(n), names, fontsize=size)
    axes.set_title("true class")
    axes.set_xlabel("predicted class")
    return figure


def _predicted(found: Diagnostics) -> Figure:
    table = found.predicted
    figure, axes = one_panel(370)
    both = limits(table.to_numpy(dtype=np.float64).ravel(), 0.04)
    axes.set_xlim(*both)
    axes.set_ylim(*both)
    axes.axline((both[0], both[0]), slope=1.0, **_DIAGONAL)
    style: Any = {"linestyle": "none", "marker": "o", "markersize": 4.5, "markeredgewidth": 0.0}
    axes.plot(table["predicted"], table["truth"], **style, color=LIGHT["accent"], alpha=0.5)
    axes.grid()
    for axis in (axes.xaxis, axes.yaxis):
        plain_ticks(axis, count=4)
    axes.set_title("true value")
    axes.set_xlabel("predicted value")
    return figure


def _dropped(found: Diagnostics) -> Figure:
    table = found.dropped
    figure, axes = one_panel(22 * len(table) + 70)
    loss, low, high = (table[name].to_numpy(dtype=np.float64) for name in ("loss", "low", "high"))
    axes.set_xlim(*limits(np.concatenate([loss, low, high, [0.0]]), 0.06))
    named_rows(axes, [shortened(name, NAME_LENGTH) for name in table.index])
    axes.axvline(0.0, color=LIGHT["muted"], linewidth=1.0)
    # Without an interval no loss is clear.
    clear = low > 0.0
    for y in range(len(table)):
        colour = LIGHT["accent" if clear[y] else "muted"]
        axes.plot([low[y], high[y]], [y, y], color=colour, linewidth=2.2)
        axes.plot([loss[y]], [y], marker="o", markersize=8, color=colour)
    plain_ticks(axes.xaxis, count=4)
    metric = metric_name(found.metric)
    start = "increase of" if found.metric in LOWER_IS_BETTER else "loss in"
    axes.set_title(f"{start} {metric} without it", loc="right")
    return figure


def _learning(found: Diagnostics) -> Figure:
    figure, axes = one_panel(330)
    table = found.learning
    columns = table[["value", "low", "high"]].to_numpy(dtype=np.float64)
    axes.set_ylim(*limits(columns.ravel(), 0.08))
    for name in ("all_features", "chosen"):
        own = table[table["contender"] == name]
        if not len(own):
            continue
        style = _LINES[name]
        axes.fill_between(
            own["n_rows"], own["low"], own["high"], color=style["color"], alpha=0.12, linewidth=0
        )
        marker: Any = {"marker": "o", "markersize": 5, "markeredgewidth": 0.0}
        axes.plot(own["n_rows"], own["value"], **style, **marker, label=_LABELS[name])
    axes.grid()
    axes.set_title(metric_name(found.metric))
    axes.set_xlabel("training rows")
    plain_ticks(axes.yaxis)
    axes.set_xlim(*limits(table["n_rows"].to_numpy(dtype=np.float64), 0.05))
    plain_ticks(axes.xaxis, whole=True, count=4)
    figure.legend(**ABOVE, ncols=2, reverse=True)
    return figure


# ---------------------------------------------------------------- SHAP values


def _shap(found: Diagnostics) -> Figure:
    """Draw a dot per row and feature, coloured by the feature's value; bars of several classes."""
    shap = found.shap
    assert shap is not None
    names = [shortened(name, NAME_LENGTH) for name in shap.mean.index]
    figure, axes = one_panel(26 * len(names) + (92 if shap.values is not None else 64))
    named_rows(axes, names)
    if shap.values is None or shap.levels is None:
        axes.barh(range(len(names)), shap.mean.to_numpy(), height=0.56, color=LIGHT["accent"])
        axes.set_xlabel(f"mean |SHAP value|, {shortened(shap.unit, 28)}")
        plain_ticks(axes.xaxis, count=4)
        return figure
    values = shap.values.to_numpy(dtype=np.float64)
    axes.set_xlim(*limits(np.append(values, 0.0), 0.04))
    axes.axvline(0.0, color=LIGHT["muted"], linewidth=1.0)
    for y in range(len(names)):
        _swarm(axes, y, values[:, y], shap.levels.to_numpy(dtype=np.float64)[:, y], y == 0)
    axes.set_xlabel(f"SHAP value, {shortened(shap.unit, 34)}")
    plain_ticks(axes.xaxis, count=5)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, **ABOVE, ncols=4, handlelength=0.8, columnspacing=1.0)
    return figure


def _swarm(axes: Axes, y: int, values: Float, levels: Float, labelled: bool) -> None:
    """Draw a row of dots, those of about the same value side by side."""
    left, right = axes.get_xlim()
    bins = np.floor((values - left) / (right - left) * _BINS).astype(np.int64)
    offset = np.empty(len(values))
    for one in np.unique(bins):
        rows = np.flatnonzero(bins == one)
        place = (np.arange(len(rows)) + 1) // 2 * np.where(np.arange(len(rows)) % 2, 1, -1)
        offset[rows] = place * min(0.11, 0.8 / len(rows))
    high, low = levels > 2 / 3, levels <= 1 / 3
    unknown = np.isnan(levels)
    kinds: tuple[tuple[str, str, Bool], ...] = (
        ("low value", "accent", low),
        ("middle", "faint", ~(low | high | unknown)),
        ("high", "second", high),
        ("category", "muted", unknown),
    )
    style: Any = {"linestyle": "none", "marker": "o", "markersize": 4.2, "markeredgewidth": 0.0}
    for label, colour, own in kinds:
        if own.any() or (labelled and label != "category"):
            shown = label if labelled else None
            axes.plot(values[own], y + offset[own], **style, color=LIGHT[colour], label=shown)
