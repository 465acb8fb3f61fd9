"""Figure of a stability analysis: selection frequencies with intervals and thresholds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from swarm.report.drawing import LIGHT, draw, empty_figure, styled
from swarm.report.formatting import shortened
from swarm.validation.stability import Frequencies

# Further units are only in the table.
_MOST_ROWS_SHOWN = 40
_COLOURS = {"core": "accent", "optional": "second", "noise": "faint"}


def stability_files(
    names: Sequence[str],
    frequencies: Frequencies,
    classes: Sequence[str],  # "core", "optional" or "noise"
    # shares from which a unit is core, and up to which it is noise
    thresholds: tuple[float, float],
) -> dict[str, bytes]:
    """Draw the selection frequencies of units as ``figures/stability.svg`` and ``.png``."""
    order = np.argsort(-frequencies.share, kind="stable")[:_MOST_ROWS_SHOWN].tolist()
    with styled():
        figure = empty_figure(17 * len(order) + 84, 560)
        axes = figure.subplots()
        axes.set(xlim=(-0.02, 1.02), ylim=(len(order) - 0.5, -0.5))
        for row, unit in enumerate(order):
            colour = LIGHT[_COLOURS[classes[unit]]]
            ends = [frequencies.low[unit], frequencies.high[unit]]
            axes.plot(ends, [row, row], color=colour, linewidth=2, alpha=0.5)
            axes.plot([frequencies.share[unit]], [row], "o", color=colour, markersize=6)
        for share in thresholds:
            axes.axvline(share, color=LIGHT["muted"], linewidth=1, linestyle=(0, (3, 3)), zorder=0)
        axes.set_yticks(range(len(order)), [shortened(names[unit], 24) for unit in order])
        axes.set_xlabel("share of the searches that selected the feature")
        top = axes.secondary_xaxis("top")
        top.spines[:].set_visible(False)
        top.set_xticks(thresholds, ["core from here", "noise up to here"])
        label = f"Selection frequency of {len(order)} features, with intervals."
        return draw("stability", label, figure).files(vector=True)
