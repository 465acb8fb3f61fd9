"""Prepare what strategies start from: distances, clusters, information, warm-start masks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.errors import ConfigError, InputError, nearest
from swarm.problem.space import SearchSpace
from swarm.problem.target import task_of
from swarm.statistics.clusters import clusters
from swarm.statistics.distances import Distances
from swarm.statistics.information import mutual_information, unit_information
from swarm.statistics.spearman import spearman_distance, unit_distance

__all__ = ["MOST_DENSE_COLUMNS", "TARGET_HINTS", "Hints", "default_clusters", "prepare_hints"]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]

# Beyond this many columns no matrix of all distances is made: it would take 200 MB here, and
# 80 GB at 100,000 columns.
MOST_DENSE_COLUMNS = 5000

_HINTS = ("distance", "clusters", "relevance", "redundancy")
# Those that are made of the target.
TARGET_HINTS = frozenset({"relevance", "redundancy"})


@dataclass(frozen=True)
class Hints:
    """What was prepared from the training data before the search.

    Attributes
    ----------
    distance : float64 (n_units, n_units), Distances or None
        ``1 - |Spearman correlation|``: a matrix, or for wide tables what sums it over subsets.
    clusters : int (n_units,) or None
        Cluster label of each unit.
    relevance : float64 (n_units, n_labels) or None
        Mutual information of each unit with each label, in nats; one label unless the target is
        multi-label.
    redundancy : float64 (n_units, n_units) or None
        Mutual information of each pair of units, in nats, by the same bins as `relevance`.
    warm : bool (n, n_units) or None
        Masks to start from, best first.
    """

    distance: Float | Distances | None = None
    clusters: Int | None = None
    relevance: Float | None = None
    redundancy: Float | None = None
    warm: Bool | None = None

    def need(self, name: str, strategy: str) -> Any:
        """Return the hint called `name`, or say which strategy misses it."""
        value = getattr(self, name)
        if value is None:
            raise InputError(f"strategy {strategy!r} needs the hint {name!r}, which was not given")
        return value


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

    Up to :data:`MOST_DENSE_COLUMNS` columns the distances are a matrix, and clusters come from
    complete linkage. Beyond, they are
    :class:`swarm.statistics.lazy_distance.LazyDistances`, and clusters come from
    :func:`swarm.statistics.line_clusters.line_clusters`: time and memory are linear in columns.

    Parameters
    ----------
    features : DataFrame (n_rows, n_columns)
        Training rows.
    target : (n_rows,) or (n_rows, n_labels), optional
        For relevance and redundancy.
    task : str, optional
        Default: what :func:`swarm.problem.target.task_of` tells of the target.
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
        if name in TARGET_HINTS and target is None:
            raise InputError(f"the hint {name!r} needs a target, got None; give the training rows'")
    count = default_clusters(space.n_units) if n_clusters is None else n_clusters
    if not 1 <= count <= space.n_units:
        raise ConfigError(
            f"n_clusters must be from 1 to the {space.n_units} units there are, got {count}"
        )
    distance: NDArray[np.float64] | Distances | None = None
    labels = relevance = redundancy = None
    if "distance" in needs or "clusters" in needs:
        distance, labels = _closeness(features, space, count if "clusters" in needs else None)
    if not TARGET_HINTS.isdisjoint(needs):
        columns = mutual_information(features, target, task or task_of(target))
        redundancy, relevance = unit_information(*columns, space.units)
    return Hints(distance, labels, relevance, redundancy, warm)


def _closeness(
    features: pd.DataFrame, space: SearchSpace, n_clusters: int | None
) -> tuple[NDArray[np.float64] | Distances, NDArray[np.int64] | None]:
    """Distances, and cluster labels where `n_clusters` is given."""
    labels = None
    distance: NDArray[np.float64] | Distances
    if features.shape[1] <= MOST_DENSE_COLUMNS:
        distance = unit_distance(spearman_distance(features), space.units)
        if n_clusters is not None:
            labels = clusters(distance, n_clusters).astype(np.int64)
    else:
        from swarm.statistics.lazy_distance import LazyDistances
        from swarm.statistics.line_clusters import line_clusters

        distance = lazy = LazyDistances(features, space.units)
        if n_clusters is not None:
            labels = line_clusters(lazy, n_clusters)
    if labels is not None:
        labels.setflags(write=False)
    return distance, labels
