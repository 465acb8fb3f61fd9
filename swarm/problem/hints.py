"""Hints for strategies: distances, clusters, mutual information, warm-start masks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from swarm.arrays import Bool, Float, Int, read_only
from swarm.errors import ConfigError, InputError, check_known
from swarm.problem.space import SearchSpace
from swarm.statistics.distances import Distances

# Every strategy imports this module; the statistics need pandas, SciPy and Numba.
if TYPE_CHECKING:
    import pandas as pd

# Above this number of columns, the full distance matrix is not computed: it takes 200 MB at this
# size, and 80 GB at 100,000 columns.
MOST_DENSE_COLUMNS = 5000

# Of a longer table, hints are computed from this many rows, spread evenly: the standard error of a
# correlation is then 0.003.
MOST_ROWS = 100_000

_HINTS = ("distance", "clusters", "relevance", "redundancy")
# Hints that are computed from the target.
TARGET_HINTS = frozenset({"relevance", "redundancy"})


@dataclass(frozen=True)
class Hints:
    """Statistics of the training data that are computed before the search.

    Attributes
    ----------
    distance : float64 (n_units, n_units), Distances or None
        ``1 - |Spearman correlation|``: a matrix, or for wide tables an object that sums
        distances over subsets.
    clusters : int (n_units,) or None
        Cluster label of each unit.
    relevance : float64 (n_units, n_labels) or None
        Mutual information of each unit with each label, in nats; one label unless the target is
        multi-label.
    redundancy : float64 (n_units, n_units) or None
        Mutual information of each pair of units, in nats, with the same bins as `relevance`.
    warm : bool (n, n_units) or None
        Masks for a warm start, best first.
    """

    distance: Float | Distances | None = None
    clusters: Int | None = None
    relevance: Float | None = None
    redundancy: Float | None = None
    warm: Bool | None = None

    def need(self, name: str, strategy: str) -> Any:
        """Return the hint `name`, or raise InputError if it is missing."""
        value = getattr(self, name)
        if value is None:
            raise InputError(f"strategy {strategy!r} needs the hint {name!r}, got None")
        return value


def default_clusters(n_units: int) -> int:
    """Return ``min(50, ceil(2 sqrt(n_units)))``: 50 as in the source of multiswarm, or fewer."""
    return min(n_units, 50, math.ceil(2 * math.sqrt(n_units)))


def prepare_hints(
    features: pd.DataFrame,
    space: SearchSpace,
    target: Any = None,
    task: str | None = None,
    *,
    n_clusters: int | None = None,
    warm: Bool | None = None,
    needs: Sequence[str] = ("distance", "clusters"),
) -> Hints:
    """Compute the requested hints of a search, from training rows only.

    Up to :data:`MOST_DENSE_COLUMNS` columns, the distances are a matrix, and the clusters are
    computed by complete linkage. Above, the distances are
    :class:`swarm.statistics.spearman.LazyDistances`, and the clusters are computed by
    :func:`swarm.statistics.clusters.line_clusters`, in time and memory linear in the number
    of columns.

    Of more than :data:`MOST_ROWS` rows, as many are sampled, always the same.

    Parameters
    ----------
    features : DataFrame (n_rows, n_columns)
        Training rows.
    target : (n_rows,) or (n_rows, n_labels), optional
        For relevance and redundancy.
    task : str, optional
        Default: inferred by :func:`swarm.problem.target.task_of`.
    n_clusters : int, optional
        Default: :func:`default_clusters`.
    warm : bool (n, n_units), optional
        Masks for a warm start.
    needs
        Hints to compute: ``"distance"``, ``"clusters"``, ``"relevance"``, ``"redundancy"``. See
        the `needs` of a strategy.

    Raises
    ------
    ConfigError
        If there are more clusters than units.
    InputError
        If a hint is unknown, or needs a target and none is given.
    """
    for name in needs:
        check_known("hint", name, _HINTS, InputError)
        if name in TARGET_HINTS and target is None:
            raise InputError(
                f"the hint {name!r} needs a target, got None; pass that of the training rows"
            )
    count = default_clusters(space.n_units) if n_clusters is None else n_clusters
    if not 1 <= count <= space.n_units:
        raise ConfigError(
            f"n_clusters must be from 1 to {space.n_units}, the number of units, got {count}"
        )
    if len(features) > MOST_ROWS:
        from swarm.statistics.spearman import spread_rows

        rows = spread_rows(len(features), MOST_ROWS)
        features = features.iloc[rows]
        if target is not None:
            target = target.iloc[rows] if hasattr(target, "iloc") else target[rows]
    distance: Float | Distances | None = None
    labels = relevance = redundancy = None
    if "distance" in needs or "clusters" in needs:
        distance, labels = _closeness(features, space, count if "clusters" in needs else None)
    if not TARGET_HINTS.isdisjoint(needs):
        from swarm.problem.target import task_of
        from swarm.statistics import information

        task = task or task_of(target)
        if "redundancy" in needs:
            columns = information.mutual_information(features, target, task)
            redundancy, relevance = information.unit_information(*columns, space.units)
        else:
            per_column = information.target_information(features, target, task)
            relevance = information.unit_relevance(per_column, space.units)
    return Hints(distance, labels, relevance, redundancy, warm)


def _closeness(
    features: pd.DataFrame, space: SearchSpace, n_clusters: int | None
) -> tuple[Float | Distances, Int | None]:
    """Compute distances, and cluster labels if `n_clusters` is given."""
    from swarm.statistics.clusters import clusters, line_clusters
    from swarm.statistics.spearman import LazyDistances, spearman_distance, unit_distance

    labels = None
    distance: Float | LazyDistances
    if features.shape[1] <= MOST_DENSE_COLUMNS:
        distance = unit_distance(spearman_distance(features), space.units)
        if n_clusters is not None:
            labels = clusters(distance, n_clusters).astype(np.int64)
    else:
        distance = LazyDistances(features, space.units)
        if n_clusters is not None:
            labels = line_clusters(distance, n_clusters)
    if labels is not None:
        read_only(labels)
    return distance, labels
