"""The figures of a comparison as files: SVG for pages, PNG for MLflow's own viewer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from swarm.report.canvas import LIGHT, styled, to_png, to_svg_file
from swarm.report.convergence_bands import convergence_bands
from swarm.report.critical_difference import critical_difference_diagram
from swarm.validation.comparison import Comparison

# What `to_svg_file` puts before the element, once its colours are names again.
_START = re.compile(r'<svg xmlns="[^"]*" style="[^"]*" ')

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["comparison_figures", "on_page"]


def comparison_figures(
    comparison: Comparison,
    histories: Mapping[str, Mapping[str, Sequence[pd.DataFrame]]],
    everything: Mapping[str, tuple[float, int]],
    cost_labels: Mapping[str, str],
) -> dict[str, bytes]:
    """Draw the ranks, and the convergence on each data set.

    Parameters
    ----------
    comparison : Comparison
    histories : mapping of data set to mapping of strategy to histories
        One history for each seed.
    everything : mapping of data set to (cost, size)
        Of all features.
    cost_labels : mapping of data set to str

    Returns
    -------
    dict of str to bytes
        ``figures/ranks.svg``, ``figures/convergence_wine.png``, ...; the same bytes for the same
        searches and version of matplotlib.
    """
    files: dict[str, bytes] = {}
    with styled():
        ranks = critical_difference_diagram(
            comparison.ranks["average"], comparison.critical_difference
        )
        files |= _both("ranks", "Average ranks of the strategies.", ranks)
        for dataset in comparison.datasets:
            order = comparison.ranks[dataset].sort_values(kind="stable").index
            ordered = {str(name): histories[dataset][str(name)] for name in order}
            figure = convergence_bands(ordered, everything[dataset][0], cost_labels[dataset])
            label = f"Best cost against distinct evaluations on {dataset}."
            files |= _both(f"convergence_{dataset}", label, figure)
    return files


def on_page(svg: bytes) -> str:
    """Turn an SVG file of a comparison into an element whose colours the page decides."""
    text = svg.decode()
    for colour, value in LIGHT.items():
        text = text.replace(value, f"var(--{colour})")
    return _START.sub("<svg ", text, count=1)


def _both(name: str, label: str, figure: Figure) -> dict[str, bytes]:
    svg = to_svg_file(figure, name.replace(".", "-"), label)
    return {f"figures/{name}.svg": svg, f"figures/{name}.png": to_png(figure)}
