"""Rank correlations between features in a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from swarm.arrays import Float

if TYPE_CHECKING:
    from swarm.report.data import ReportData

__all__ = ["distances", "nearest_left_out", "shown_features"]

_MOST_PAIRS = 10
_MOST = 60
# Chosen features shown at most, by importance, to leave room for their nearest neighbours.
_CHOSEN = 40


def shown_features(data: ReportData) -> list[str]:
    """Return up to 40 chosen features by importance, then their nearest ones; at most 60."""
    if data.distance is None:
        return []
    columns = {str(name): i for i, name in enumerate(data.distance.columns)}
    chosen = [name for name in data.ranked() if name in columns][:_CHOSEN]
    if not chosen:
        return []
    positions = [columns[name] for name in chosen]
    nearest = _known(data.distance)[positions].min(axis=0)
    others = [i for i in np.argsort(nearest, kind="stable") if i not in set(positions)]
    names = list(columns)
    return chosen + [names[i] for i in others[: _MOST - len(chosen)]]


def distances(data: ReportData, names: list[str]) -> Float:
    """Return ``1 - |rank correlation|`` (n, n) between the named features."""
    assert data.distance is not None
    columns = {str(name): i for i, name in enumerate(data.distance.columns)}
    rows = [columns[name] for name in names]
    return _known(data.distance)[np.ix_(rows, rows)]


def nearest_left_out(data: ReportData) -> list[tuple[str, str, float]]:
    """Return for each chosen feature the most similar one left out and |rho|, strongest first."""
    if data.distance is None:
        return []
    columns = [str(name) for name in data.distance.columns]
    chosen = set(data.features)
    out = [i for i, name in enumerate(columns) if name not in chosen]
    if not out:
        return []
    values = _known(data.distance)
    found = []
    for i, name in enumerate(columns):
        if name in chosen:
            nearest = out[int(np.argmin(values[i, out]))]
            found.append((name, columns[nearest], 1.0 - float(values[i, nearest])))
    return sorted(found, key=lambda one: -one[2])[:_MOST_PAIRS]


def _known(distance: pd.DataFrame) -> Float:
    """Return the distances, 1 where the correlation is undefined."""
    values: Float = distance.to_numpy(dtype=np.float64)
    return np.where(np.isnan(values), 1.0, values)
