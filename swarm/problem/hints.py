"""Hints for strategies: distances, clusters, mutual information, warm-start masks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from swarm.arrays import AnyArray, Bool, Float, Int, read_only
from swarm.errors import ConfigError, DataError, InputError, check_known
from swarm.problem.space import SearchSpace

# Every strategy imports this module; the statistics need pandas and SciPy.
if TYPE_CHECKING:
    import pandas as pd

# Pairs of more columns are not compared: the matrix takes 200 MB at this size, and 80 GB at 100,000
# columns.
MAX_COLUMNS = 5000

# Longer tables are sampled to this many rows: the standard error of a correlation is then 0.003.
MAX_ROWS = 100_000

_HINTS = ("distance", "clusters", "relevance", "redundancy")
# Hints that compare pairs of columns.
_PAIR_HINTS = frozenset({"distance", "clusters", "redundancy"})
# Hints that are computed from the target.
TARGET_HINTS = frozenset({"relevance", "redundancy"})


@dataclass(frozen=True)
class Hints:
    """Statistics of the training data that are computed before the search.

    Attributes
    ----------
    distance : float64 (n_units, n_units) or None
        ``1 - |Spearman correlation|``.
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

    distance: Float | None = None
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


def unit_distances(features: pd.DataFrame, space: SearchSpace) -> Float:
    """Return the Spearman distances (n_units, n_units) of units, from at most MAX_ROWS rows.

    The distance of two units is the root mean square over their columns.
    """
    if space.n_columns > MAX_COLUMNS:
        raise _too_many(space)
    from swarm.statistics.spearman import spearman_distance, unit_distance

    ordered, units = _by_unit(features, space)
    return unit_distance(spearman_distance(_sampled(ordered)), units)


def distances_of(features: pd.DataFrame, space: SearchSpace) -> Float | None:
    """Return :func:`unit_distances`; None of too many columns, or of a column without an order."""
    if space.n_columns > MAX_COLUMNS:
        return None
    try:
        return unit_distances(features, space)
    except DataError:
        return None


def _by_unit(features: pd.DataFrame, space: SearchSpace) -> tuple[pd.DataFrame, list[Any]]:
    """Return the columns in the order of the units, and the places of each unit among them.

    Their statistics are then bit-identical in whatever order the table has its columns.
    """
    ends = np.cumsum([len(unit) for unit in space.units])
    units = np.split(np.arange(space.n_columns), ends[:-1])
    is_ordered = (np.diff(space.order) > 0).all()
    return features if is_ordered else features.iloc[:, space.order], units


def _sampled(rows: Any) -> Any:
    """Return at most MAX_ROWS rows of a table or array, spread evenly."""
    if len(rows) <= MAX_ROWS:
        return rows
    from swarm.statistics.spearman import spread_rows

    positions = spread_rows(len(rows), MAX_ROWS)
    return rows.iloc[positions] if hasattr(rows, "iloc") else rows[positions]


def _too_many(space: SearchSpace) -> ConfigError:
    return ConfigError(
        f"this strategy compares pairs of columns, {MAX_COLUMNS:,} at most, got"
        f" {space.n_columns:,}; leave the prefilter on, or use the strategy 'ranked'"
    )


def prepare_hints(
    features: pd.DataFrame,
    space: SearchSpace,
    target: AnyArray | None = None,
    task: str | None = None,
    *,
    n_clusters: int | None = None,
    warm: Bool | None = None,
    needs: Sequence[str] = ("distance", "clusters"),
    distance: Float | None = None,
) -> Hints:
    """Compute the requested hints of a search, from training rows only.

    A longer table is sampled to :data:`MAX_ROWS` rows, spread evenly.

    Parameters
    ----------
    features : DataFrame (n_rows, n_columns)
        Training rows.
    space : SearchSpace
        Units of the columns.
    target : array (n_rows,) or (n_rows, n_labels), optional
        Required by relevance and redundancy.
    task : str, optional
        As in :class:`swarm.problem.problem.Problem`. Default: inferred from the target.
    n_clusters : int, optional
        Default: :func:`default_clusters`.
    warm : bool (n, n_units), optional
        Masks for a warm start.
    needs : sequence of str
        Hints to compute: ``"distance"``, ``"clusters"``, ``"relevance"``, ``"redundancy"``. See
        the `needs` of a strategy.
    distance : float64 (n_units, n_units), optional
        Default: computed if needed, see :func:`unit_distances`.

    Returns
    -------
    Hints

    Raises
    ------
    ConfigError
        If there are more clusters than units, or pairs of more than :data:`MAX_COLUMNS` columns
        would have to be compared.
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
    if space.n_columns > MAX_COLUMNS and not _PAIR_HINTS.isdisjoint(needs):
        raise _too_many(space)
    labels = relevance = redundancy = None
    if distance is None and ("distance" in needs or "clusters" in needs):
        distance = unit_distances(features, space)
    if distance is not None and "clusters" in needs:
        from swarm.statistics.clusters import clusters

        labels = clusters(distance, count).astype(np.int64)
        read_only(labels)
    if not TARGET_HINTS.isdisjoint(needs):
        from swarm.problem.target import task_of
        from swarm.statistics import information

        ordered, units = _by_unit(features, space)
        features, target = _sampled(ordered), _sampled(target)
        task = task or task_of(target)
        if "redundancy" in needs:
            columns = information.mutual_information(features, target, task)
            redundancy, relevance = information.unit_information(*columns, units)
        else:
            per_column = information.target_information(features, target, task)
            relevance = information.unit_relevance(per_column, units)
    return Hints(distance, labels, relevance, redundancy, warm)
