"""The figures of a report: what they are called, and how they are said to one who cannot see."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from swarm.report.canvas import styled, to_png, to_svg
from swarm.report.convergence import convergence
from swarm.report.forest import forest
from swarm.report.frequency import frequency
from swarm.report.heatmap import heatmap
from swarm.report.promise import promise
from swarm.report.tradeoff import tradeoff
from swarm.report.words import cost, counted, metric_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from swarm.report.data import ReportData

__all__ = ["figure_files", "figure_svgs", "metric_plot_name"]


@dataclass(frozen=True)
class _Plot:
    name: str
    label: str
    figure: Figure


def figure_files(data: ReportData) -> dict[str, bytes]:
    """Return the figures of the report as PNG files, by path: ``figures/convergence.png``, ...

    Parameters
    ----------
    data : ReportData

    Returns
    -------
    dict of str to bytes
        The same bytes for the same data and the same version of matplotlib.
    """
    with styled():
        return {f"figures/{p.name}.png": to_png(p.figure) for p in _plots(data)}


def figure_svgs(data: ReportData) -> dict[str, str]:
    """Return the figures of the report as SVG elements, by name: ``test_f1`` for a metric."""
    with styled():
        return {p.name: to_svg(p.figure, p.name, p.label) for p in _plots(data)}


def metric_plot_name(metric: str) -> str:
    """Name of the figure of a metric: letters, digits and underscores only."""
    return "test_" + re.sub(r"\W", "_", metric, flags=re.ASCII)


def _plots(data: ReportData) -> list[_Plot]:
    epochs = counted(len(data.history), "epoch")
    last = float(data.history["best_cost"].iloc[-1]) if len(data.history) else None
    plots = [
        _Plot("convergence", f"Cost over {epochs}, the best at {cost(last)}.", convergence(data)),
        _Plot(
            "tradeoff",
            f"Cost against size of {counted(len(data.evaluations), 'subset')}, with the Pareto "
            "front, the chosen subsets and what other rules would pick.",
            tradeoff(data),
        ),
    ]
    plots += [
        _Plot(
            metric_plot_name(metric),
            f"{metric_name(metric)} of all contenders on the test rows; the table has the figures.",
            forest(data, metric),
        )
        for metric in data.metrics
    ]
    plots += _optional(data)
    return plots


def _optional(data: ReportData) -> list[_Plot]:
    """Figures of what not every run has."""
    plots = []
    kept = promise(data)
    if kept is not None:
        label = "Cost in cross-validation against cost on the test rows, a dot per subset."
        plots.append(_Plot("calibration", label, kept))
    if data.agreement is not None:
        label = (
            f"How often each feature is in the {counted(data.agreement.n_held, 'subset')} held at "
            "the end, the most frequent first."
        )
        plots.append(_Plot("frequency", label, frequency(data.agreement)))
    correlations = heatmap(data)
    if correlations is not None:
        label = "Rank correlations of the chosen features and their nearest neighbours."
        plots.append(_Plot("correlations", label, correlations))
    return plots
