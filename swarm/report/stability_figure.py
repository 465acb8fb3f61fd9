"""How often each feature was selected, with intervals and the two thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from swarm.report.canvas import LIGHT, place, sheet, styled, to_png, to_svg_file
from swarm.report.words import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from swarm.validation.stability import Frequencies

__all__ = ["stability_files"]

# More rows than a person reads; the others are in the table.
_MOST_ROWS = 40
_ROW = 17
_LEFT, _RIGHT, _TOP, _BOTTOM = 170, 20, 40, 44
_NAME = 24
_COLOURS = {"core": "accent", "optional": "second", "noise": "faint"}


def stability_files(
    names: Sequence[str],
    found: Frequencies,
    classes: Sequence[str],
    thresholds: tuple[float, float],
) -> dict[str, bytes]:
    """Draw the most frequent units as ``figures/stability.svg`` and ``.png``.

    Parameters
    ----------
    names : sequence of str, length d
    found : Frequencies
    classes : sequence of str, length d
        ``"core"``, ``"optional"`` or ``"noise"``.
    thresholds : (float, float)
        Shares at and above which a unit is core, and at and below which it is noise.
    """
    order = np.argsort(-found.share, kind="stable")[:_MOST_ROWS]
    with styled():
        figure = _drawn(names, found, classes, thresholds, order)
        label = f"Selection frequency of {len(order)} features, with intervals."
        svg = to_svg_file(figure, "stability", label)
        png = to_png(figure)
    return {"figures/stability.svg": svg, "figures/stability.png": png}


def _drawn(
    names: Sequence[str],
    found: Frequencies,
    classes: Sequence[str],
    thresholds: tuple[float, float],
    order: NDArray[np.intp],
) -> Figure:
    height, width = _ROW * len(order), 560
    figure = sheet(_TOP + height + _BOTTOM, width)
    axes = place(figure, _LEFT, _TOP, width - _LEFT - _RIGHT, height)
    for row, unit in enumerate(order.tolist()):
        colour = LIGHT[_COLOURS[classes[unit]]]
        axes.plot(
            [found.low[unit], found.high[unit]], [row, row], color=colour, linewidth=2, alpha=0.5
        )
        axes.plot([found.share[unit]], [row], "o", color=colour, markersize=6)
    for share in thresholds:
        axes.axvline(share, color=LIGHT["muted"], linewidth=1, linestyle=(0, (3, 3)), zorder=0)
    shown = [plain(names[unit]) for unit in order.tolist()]
    axes.set_yticks(
        range(len(order)), [n if len(n) <= _NAME else n[: _NAME - 1] + "…" for n in shown]
    )
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    axes.set_xlabel("share of the searches that selected it", color=LIGHT["muted"])
    for name, place_of in (("core", thresholds[0]), ("noise", thresholds[1])):
        axes.annotate(
            f"{name} from here {'up' if name == 'core' else 'down'}",
            (place_of, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 8),
            textcoords="offset points",
            ha="center",
            color=LIGHT["muted"],
            fontsize=11,
        )
    return figure
