"""Prepare what strategies start from: distances, clusters, warm-start masks."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.errors import ConfigError
from swarm.space import SearchSpace
from swarm.statistics.clusters import clusters
from swarm.statistics.spearman import spearman_distance, unit_distance
from swarm.strategy import Hints

__all__ = ["default_clusters", "prepare_hints"]


def default_clusters(n_units: int) -> int:
    """Return ``min(50, ceil(2 sqrt(n_units)))``: 50 as in document 000, fewer for narrow tables."""
    return min(n_units, 50, math.ceil(2 * math.sqrt(n_units)))


def prepare_hints(
    features: pd.DataFrame,
    space: SearchSpace,
    *,
    n_clusters: int | None = None,
    warm: NDArray[np.bool_] | None = None,
) -> Hints:
    """Compute the hints of a search from training rows only.

    Parameters
    ----------
    features : DataFrame (n_rows, n_columns)
        Training rows.
    n_clusters : int, optional
        Default: :func:`default_clusters`.
    warm : bool (n, n_units), optional
        Masks to start from.

    Raises
    ------
    ConfigError
        If there are more clusters than units.
    """
    count = default_clusters(space.n_units) if n_clusters is None else n_clusters
    if not 1 <= count <= space.n_units:
        raise ConfigError(
            f"n_clusters must be from 1 to the {space.n_units} units there are, got {count}"
        )
    distance = unit_distance(spearman_distance(features), space.units)
    labels = clusters(distance, count).astype(np.int64)
    labels.setflags(write=False)
    return Hints(distance=distance, clusters=labels, warm=warm)
