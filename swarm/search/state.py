"""The state of a search between two epochs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from swarm.arrays import Bool, Float
from swarm.search.budget import Counts


@dataclass(frozen=True)
class SearchState:
    """Immutable state of a search between two epochs.

    Attributes
    ----------
    epoch : int
        Number of finished epochs.
    strategy : object
        State of the strategy.
    best_mask : bool (n_units,) or None
        The best mask; None before the first finite cost.
    best_cost : float
        Cost of the best mask.
    counts : Counts
        Requests so far.
    requests : mapping of packed mask to packed folds
        The folds of every mask that count towards the budget.
    fold_sums : float64 (n_folds,)
        Sums of fold costs over the rows that reached their incumbents. The folds with the highest
        sums are trained first.
    first_error : str or None
        Error of the first failed fit, see :class:`swarm.storage.records.Record`.
    """

    epoch: int
    strategy: Any
    best_mask: Bool | None
    best_cost: float
    counts: Counts
    requests: Mapping[bytes, int] = field(repr=False)
    fold_sums: Float = field(repr=False)
    first_error: str | None = field(repr=False)
