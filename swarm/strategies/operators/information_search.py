"""Moves guided by the mutual information of units with the labels and with each other.

The merit of a unit is ``Q(f) = sum over labels of I(f, y) - sum over the subset of I(f, g)``
(Matijevic 2022, equation 3). The sum over the subset excludes the unit itself, so that the merit of
a unit does not depend on whether it is selected.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swarm.arrays import Bool, Float, Int, read_only
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.statistics.lowest import lowest

# Information is rounded to this fraction of a nat: sums of such numbers are exact, so that a merit
# does not depend on the order of summation.
_RESOLUTION = 2.0**-30


@dataclass(frozen=True)
class Merit:
    """Mutual information of the units of a space.

    Attributes
    ----------
    relevance : float64 (n_units,)
        Summed over the labels.
    redundancy : float64 (n_units, n_units)
        The diagonal is zero.
    """

    relevance: Float
    redundancy: Float

    def __post_init__(self) -> None:
        read_only(self.relevance, self.redundancy)

    @classmethod
    def of(cls, hints: Hints, strategy: str) -> Merit:
        """Take relevance and redundancy from the hints; an error names the strategy."""
        redundancy = _rounded(hints.need("redundancy", strategy))
        np.fill_diagonal(redundancy, 0.0)
        return cls(_rounded(hints.need("relevance", strategy)).sum(axis=1), redundancy)

    def values(self, masks: Bool) -> Float:
        """Q of every unit with respect to each of the masks: float64 (n, n_units)."""
        return self.relevance - masks.astype(np.float64) @ self.redundancy


def add_one(
    masks: Bool,
    merit: Merit,
    space: SearchSpace,
    rng: np.random.Generator,
    *,
    alpha: int,
    where: Bool | None = None,
) -> Bool:
    """Add to each mask a random one of its `alpha` missing units of highest Q (algorithm 1).

    `where` (n,) marks the masks that gain a unit; by default all.
    """
    values = merit.values(masks)
    return masks | _draw_addition(masks, values, space=space, rng=rng, alpha=alpha, where=where)


def delete_one(
    masks: Bool,
    merit: Merit,
    space: SearchSpace,
    rng: np.random.Generator,
    *,
    alpha: int,
    where: Bool | None = None,
) -> Bool:
    """Delete from each mask a random one of its `alpha` units of lowest Q (algorithm 2).

    `where` (n,) marks the masks that lose a unit, by default all; size bounds are ignored.
    """
    values = np.where(masks & ~space.fixed, merit.values(masks), np.inf)
    return masks & ~_draw_unit(lowest(values, alpha), rng, where)


def grow(
    size: Int, merit: Merit, space: SearchSpace, rng: np.random.Generator, *, alpha: int
) -> Bool:
    """Build masks of each size (n,) by :func:`add_one`, from fixed units or a random one."""
    # Source: Matijevic (2022), section 4 (the starting solution).
    size = np.clip(size, space.min_size, space.max_size)
    masks = np.tile(space.fixed, (len(size), 1))
    if not space.fixed.any():
        masks = _draw_unit(np.tile(~space.forbidden, (len(size), 1)), rng, None)
    values = merit.values(masks)
    while (small := masks.sum(axis=1) < size).any():
        added = _draw_addition(masks, values, space=space, rng=rng, alpha=alpha, where=small)
        masks = masks | added
        # Sums of merits are exact, so this equals recomputing them.
        rows, units = np.nonzero(added)
        values[rows] -= merit.redundancy[units]
    return masks


def _draw_addition(
    masks: Bool,
    values: Float,
    space: SearchSpace,
    rng: np.random.Generator,
    alpha: int,
    where: Bool | None,
) -> Bool:
    """Mark the unit that each mask gains; `values` (n, n_units) are the merits."""
    candidates = lowest(np.where(masks | space.forbidden, np.inf, -values), alpha)
    return _draw_unit(candidates, rng, where)


def _draw_unit(candidates: Bool, rng: np.random.Generator, where: Bool | None) -> Bool:
    """Mark one candidate of each row, drawn uniformly; none in a row without candidates."""
    count = candidates.sum(axis=1)
    rank = np.floor(rng.random(len(count)) * count) + 1
    drawn = candidates & (np.cumsum(candidates, axis=1) == rank[:, None])
    return drawn if where is None else drawn & where[:, None]


def _rounded(information: Float) -> Float:
    return np.rint(information / _RESOLUTION) * _RESOLUTION
