"""How often each feature was selected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from swarm.report.canvas import LIGHT, WIDTH, place, sheet
from swarm.report.words import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from swarm.report.agreement import Agreement

__all__ = ["MOST", "frequency"]

# More rows than this nobody reads.
MOST = 30
_ROW, _LEFT, _RIGHT, _TOP = 20, 150, 44, 36
_LETTERS = 19


def frequency(agreement: Agreement) -> Figure:
    """Draw a bar per feature, and a mark for the subsets about as good as the best."""
    rows = agreement.shares.head(MOST)
    height = _ROW * len(rows)
    figure = sheet(_TOP + height + 34)
    axes = place(figure, _LEFT, _TOP, WIDTH - _LEFT - _RIGHT, height)
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_xticks([0.0, 0.25, 0.5, 0.75, 1.0], ["0", "25", "50", "75", "100%"])
    axes.grid(axis="x", color=LIGHT["line"], linewidth=0.8)
    held = rows["held"].to_numpy(dtype=np.float64)
    near = rows["near"].to_numpy(dtype=np.float64)
    chosen = rows["chosen"].to_numpy(dtype=bool)
    at = np.arange(len(rows))
    for which, colour in ((chosen, "accent"), (~chosen, "faint")):
        axes.barh(at[which], held[which], height=0.56, color=LIGHT[colour], linewidth=0)
    marked = np.isfinite(near).any()
    if marked:
        axes.plot(
            near,
            at,
            linestyle="none",
            marker="D",
            markersize=6,
            color=LIGHT["second"],
            markeredgecolor=LIGHT["paper"],
            markeredgewidth=1.0,
            clip_on=False,
        )
    axes.axvline(agreement.chance, color=LIGHT["ink"], linewidth=1.0, linestyle=(0, (2, 2.5)))
    for y, (name, share, own) in enumerate(zip(rows.index, held, chosen, strict=True)):
        _name(axes, y, str(name), bool(own))
        _share(axes, y, float(share))
    _key(figure, marked)
    return figure


def _name(axes: Axes, y: int, name: str, chosen: bool) -> None:
    axes.annotate(
        shortened(name, _LETTERS),
        (0.0, y),
        xytext=(-8, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        fontsize=11.5,
        fontweight="bold" if chosen else "normal",
        color=LIGHT["ink" if chosen else "muted"],
        annotation_clip=False,
    )


def _share(axes: Axes, y: int, share: float) -> None:
    axes.annotate(
        f"{share:.0%}",
        (1.0, y),
        xytext=(_RIGHT, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        fontsize=11.5,
        color=LIGHT["muted"],
        annotation_clip=False,
    )


def _key(figure: Figure, marked: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries: list[Patch | Line2D] = [
        Patch(color=LIGHT["accent"], label="chosen"),
        Patch(color=LIGHT["faint"], label="left out"),
    ]
    if marked:
        entries.append(
            Line2D(
                [],
                [],
                linestyle="none",
                marker="D",
                markersize=6,
                color=LIGHT["second"],
                label="near the best",
            )
        )
    entries.append(
        Line2D([], [], color=LIGHT["ink"], linewidth=1.0, linestyle=(0, (2, 2.5)), label="chance")
    )
    figure.legend(
        handles=entries,
        loc="upper left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=4,
        frameon=False,
        borderaxespad=0.2,
        handlelength=1.2,
        handletextpad=0.5,
        columnspacing=1.3,
        fontsize=12,
    )
