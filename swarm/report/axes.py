"""What the axes of all figures share: limits, ticks, names and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from swarm.report.canvas import LIGHT, bare

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = ["key", "limits", "message", "name_axis", "plain_ticks"]


def limits(values: NDArray[np.float64], margin: float) -> tuple[float, float]:
    """Bounds of the finite values with a margin, never of no width."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    span = high - low
    if span <= 1e-9 * max(abs(low), abs(high)):
        pad = 0.5 * abs(high) or 0.5
        return low - pad, high + pad
    return low - margin * span, high + margin * span


def plain_ticks(axis: Axis, whole: bool = False, count: int = 5) -> None:
    """Few ticks, written out in full; whole numbers where nothing else has a meaning."""
    from matplotlib.ticker import MaxNLocator, NullLocator, ScalarFormatter

    axis.set_major_locator(MaxNLocator(count, integer=whole, min_n_ticks=1))
    axis.set_minor_locator(NullLocator())
    low, high = axis.get_view_interval()
    if max(abs(low), abs(high)) < 1e6:
        formatter = ScalarFormatter(useOffset=False)
        formatter.set_scientific(False)
        axis.set_major_formatter(formatter)
    else:
        axis.set_major_formatter(lambda value, _: f"{value:.3g}")


def name_axis(axes: Axes, name: str) -> None:
    """Write the name of the vertical axis above it, where it can be read."""
    axes.annotate(
        name,
        (0.0, 1.0),
        xycoords="axes fraction",
        xytext=(-48, 10),
        textcoords="offset points",
        color=LIGHT["muted"],
        annotation_clip=False,
    )


def key(axes: Axes, columns: int) -> None:
    """Explain the marks above the axes, and above the name of the vertical one."""
    place = axes.get_position()
    figure = axes.get_figure(root=True)
    assert figure is not None
    width, height = place.size * figure.get_size_inches() * 72
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-48 / width, 1.0 + 27 / height, 1.0 + 48 / width, 0.1),
        ncols=columns,
        frameon=False,
        borderaxespad=0.0,
        borderpad=0.0,
        handlelength=1.8,
        handletextpad=0.6,
        columnspacing=1.6,
        labelspacing=0.35,
        fontsize=12,
    )


def message(axes: Axes, text: str) -> None:
    """Say why there is nothing to draw."""
    bare(axes)
    axes.text(
        0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=LIGHT["muted"]
    )
