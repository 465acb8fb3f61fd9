"""Prepare what strategies start from: distances, clusters, information, warm-start masks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.errors import ConfigError, InputError, nearest
from swarm.space import SearchSpace
from swarm.statistics.clusters import clusters
from swarm.statistics.information import mutual_information, unit_information
from swarm.statistics.spearman import spearman_distance, unit_distance
from swarm.strategy import Hints
from swarm.target import task_of

__all__ = ["default_clusters", "prepare_hints"]

_HINTS = ("distance", "clusters", "relevance", "redundancy")


def default_clusters(n_units: int) -> int:
    """Return ``min(50, ceil(2 sqrt(n_units)))``: 50 as in document 000, fewer for narrow tables."""
    return min(n_units, 50, math.ceil(2 * math.sqrt(n_units)))


def prepare_hints(
    features: pd.DataFrame,
    space: SearchSpace,
    target: Any = None,
    task: str | None = None,
    *,
    n_clusters: int | None = None,
    warm: NDArray[np.bool_] | None = None,
    needs: Sequence[str] = ("distance", "clusters"),
) -> Hints:
    """Compute the hints of a search from training rows only, and no others than asked for.

    Parameters
    ----------
    features : DataFrame (n_rows, n_columns)
        Training rows.
    target : (n_rows,) or (n_rows, n_labels), optional
        For relevance and redundancy.
    task : str, optional
        Default: what :func:`swarm.target.task_of` tells of the target.
    n_clusters : int, optional
        Default: :func:`default_clusters`.
    warm : bool (n, n_units), optional
        Masks to start from.
    needs
        Among ``"distance"``, ``"clusters"``, ``"relevance"`` and ``"redundancy"``; the `needs`
        of a strategy.

    Raises
    ------
    ConfigError
        If there are more clusters than units.
    InputError
        If a hint is unknown, or needs a target and there is none.
    """
    for name in needs:
        if name not in _HINTS:
            raise InputError(
                f"unknown hint {name!r} (there are {', '.join(_HINTS)}){nearest(name, _HINTS)}"
            )
        if name in ("relevance", "redundancy") and target is None:
            raise InputError(f"the hint {name!r} needs a target, got None; give the training rows'")
    count = default_clusters(space.n_units) if n_clusters is None else n_clusters
    if not 1 <= count <= space.n_units:
        raise ConfigError(
            f"n_clusters must be from 1 to the {space.n_units} units there are, got {count}"
        )
    distance = labels = relevance = redundancy = None
    if "distance" in needs or "clusters" in needs:
        distance = unit_distance(spearman_distance(features), space.units)
    if distance is not None and "clusters" in needs:
        labels = clusters(distance, count).astype(np.int64)
        labels.setflags(write=False)
    if "relevance" in needs or "redundancy" in needs:
        columns = mutual_information(features, target, task or task_of(target))
        redundancy, relevance = unit_information(*columns, space.units)
    return Hints(distance, labels, relevance, redundancy, warm)
