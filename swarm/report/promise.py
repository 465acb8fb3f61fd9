"""What cross-validation promised of each subset, against what came on the test rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from swarm.report.axes import key, limits, name_axis, plain_ticks
from swarm.report.canvas import LIGHT, place, sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from swarm.report.data import ReportData

__all__ = ["promise", "promised_and_kept"]

Float = NDArray[np.float64]


def promised_and_kept(data: ReportData) -> tuple[Float, Float]:
    """Costs in cross-validation and on the test rows, of the subsets that have both."""
    if not data.subset_test_costs:
        return np.empty(0), np.empty(0)
    cv = np.array([cost for _, cost in data.subsets], dtype=np.float64)
    test = np.array(data.subset_test_costs, dtype=np.float64)
    both = np.isfinite(cv) & np.isfinite(test)
    return cv[both], test[both]


def promise(data: ReportData) -> Figure | None:
    """Draw a dot per subset of the ensemble; None for fewer than two."""
    cv, test = promised_and_kept(data)
    if len(cv) < 2:
        return None
    figure = sheet(330)
    axes = place(figure, 54, 66, 338, 222)
    axes.set_xlim(*limits(cv, 0.12))
    axes.set_ylim(*limits(np.append(test, cv), 0.1))
    ends = np.array([min(axes.get_xlim()[0], cv.min()), max(axes.get_xlim()[1], cv.max())])
    axes.plot(
        ends,
        ends,
        color=LIGHT["muted"],
        linewidth=1.2,
        linestyle=(0, (4, 2.5)),
        label="as promised",
        scalex=False,
        scaley=False,
    )
    # What a subset cost more, or less, than it promised.
    axes.vlines(cv, cv, test, color=LIGHT["faint"], linewidth=1.2)
    axes.plot(
        cv[1:],
        test[1:],
        linestyle="none",
        marker="o",
        markersize=8,
        color=LIGHT["second"],
        markeredgecolor=LIGHT["paper"],
        markeredgewidth=1.0,
        label="in the ensemble",
    )
    axes.plot(
        cv[:1],
        test[:1],
        linestyle="none",
        marker="*",
        markersize=15,
        color=LIGHT["accent"],
        markeredgecolor=LIGHT["paper"],
        markeredgewidth=1.0,
        label="best subset",
    )
    axes.grid(color=LIGHT["line"], linewidth=0.8)
    plain_ticks(axes.yaxis)
    plain_ticks(axes.xaxis, count=4)
    axes.set_xlabel("cost in cross-validation", color=LIGHT["muted"])
    name_axis(axes, "cost on the test rows")
    key(axes, columns=3)
    return figure
