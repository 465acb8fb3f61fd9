"""Which features say the same: rank correlations, clustered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.report.canvas import LIGHT, WIDTH, bare, place, sheet
from swarm.report.words import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from swarm.report.data import ReportData

__all__ = ["heatmap", "neighbours", "shown_features", "stand_ins"]

_MOST = 60
# Of more chosen features the least important make room for what is nearest to the others.
_CHOSEN = 40
_RIGHT = 4
# Room for the names, in px, and the width of a letter as a share of the font size.
_ROOM, _LETTER = 138, 0.63


def heatmap(data: ReportData) -> Figure | None:
    """Draw the correlations of the chosen features and those nearest; None without a pair."""
    names = shown_features(data)
    if data.distance is None or len(names) < 2:
        return None
    square = neighbours(data.distance, names)
    names, square = _clustered(names, square)
    pitch = float(np.clip(260 / len(names), 12.5, 26))
    side = pitch * len(names)
    font = min(12.0, pitch - 2.0)
    labels = [shortened(name, int(_ROOM / (_LETTER * font))) for name in names]
    left = 16 + _LETTER * font * max(8, *map(len, labels))
    figure = sheet(side + 62)
    axes = bare(place(figure, left, 10, WIDTH - left - _RIGHT, side))
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(-0.5, len(names) - 0.5)
    # Strength is opacity: no correlation is the page itself, in the light and in the dark.
    axes.imshow(_ink(1.0 - square), aspect="auto", interpolation="none")
    chosen = set(data.features)
    for row, name in enumerate(names):
        _label(axes, row, labels[row], name in chosen, font)
    for row in (i for i, name in enumerate(names) if name in chosen):
        axes.plot(
            [row],
            [-0.008 - 2.5 / side],
            marker="o",
            markersize=3.4,
            color=LIGHT["accent"],
            transform=axes.get_xaxis_transform(),
            clip_on=False,
        )
    _scale(figure, left, side + 28)
    return figure


def shown_features(data: ReportData) -> list[str]:
    """Up to 40 chosen features by importance, then those nearest to any of them; at most 60."""
    if data.distance is None:
        return []
    columns = {str(name): i for i, name in enumerate(data.distance.columns)}
    chosen = [name for name in data.ranked() if name in columns][:_CHOSEN]
    if not chosen:
        return []
    positions = [columns[name] for name in chosen]
    nearest = _values(data.distance)[positions].min(axis=0)
    others = [i for i in np.argsort(nearest, kind="stable") if i not in set(positions)]
    names = list(columns)
    return chosen + [names[i] for i in others[: _MOST - len(chosen)]]


def neighbours(distance: pd.DataFrame, names: list[str]) -> NDArray[np.float64]:
    """Distances (n, n) between the named features."""
    columns = {str(name): i for i, name in enumerate(distance.columns)}
    rows = [columns[name] for name in names]
    return _values(distance)[np.ix_(rows, rows)]


def stand_ins(data: ReportData, most: int) -> list[tuple[str, str, float]]:
    """For each chosen feature the most similar one left out, and their |rho|; strongest first."""
    if data.distance is None:
        return []
    columns = [str(name) for name in data.distance.columns]
    chosen = set(data.features)
    out = [i for i, name in enumerate(columns) if name not in chosen]
    if not out:
        return []
    values = _values(data.distance)
    found = []
    for i, name in enumerate(columns):
        if name in chosen:
            nearest = out[int(np.argmin(values[i, out]))]
            found.append((name, columns[nearest], 1.0 - float(values[i, nearest])))
    return sorted(found, key=lambda one: -one[2])[:most]


def _values(distance: pd.DataFrame) -> NDArray[np.float64]:
    """Numbers only: nothing known of a pair means nothing in common."""
    values: NDArray[np.float64] = distance.to_numpy(dtype=np.float64)
    return np.where(np.isnan(values), 1.0, values)


def _clustered(
    names: list[str], square: NDArray[np.float64]
) -> tuple[list[str], NDArray[np.float64]]:
    """Rows in the order of the leaves of the tree of complete linkage."""
    if len(names) < 3:
        return names, square
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    tree = linkage(squareform(square, checks=False), method="complete", optimal_ordering=True)
    order = [int(i) for i in leaves_list(tree)]
    return [names[i] for i in order], square[np.ix_(order, order)]


def _ink(strength: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Mid-tone blue whose opacity is the strength: uint8 (..., 4)."""
    colour = np.empty((*strength.shape, 4), dtype=np.uint8)
    colour[..., :3] = (44, 118, 222)
    colour[..., 3] = np.round(255 * np.clip(strength, 0.0, 1.0))
    return colour


def _label(axes: Axes, row: int, text: str, chosen: bool, font: float) -> None:
    axes.annotate(
        text,
        (0.0, row),
        xycoords=axes.get_yaxis_transform(),
        xytext=(-12, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        fontsize=font,
        fontweight="bold" if chosen else "normal",
        color=LIGHT["ink" if chosen else "muted"],
        annotation_clip=False,
    )
    if chosen:
        axes.plot(
            [-6.0 / (axes.get_position().width * WIDTH)],
            [row],
            marker="o",
            markersize=3.4,
            color=LIGHT["accent"],
            transform=axes.get_yaxis_transform(),
            clip_on=False,
        )


def _scale(figure: Figure, left: float, top: float) -> None:
    bar = bare(place(figure, left, top, 120, 9))
    bar.imshow(_ink(np.linspace(0.0, 1.0, 64)[None, :]), aspect="auto", interpolation="none")
    bar.spines[:].set_visible(True)
    for x, text, side in ((-6, "0", "right"), (126, "1   |rank correlation|", "left")):
        bar.annotate(
            text,
            (0, 0.5),
            xycoords="axes fraction",
            xytext=(x, 0),
            textcoords="offset points",
            ha=side,
            va="center",
            color=LIGHT["muted"],
            annotation_clip=False,
        )
