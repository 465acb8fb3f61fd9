"""Pick one of the measured subsets: the cheapest, or a smaller one of almost equal cost.

All rules pick from the Pareto front, so that no other subset of the same cost is smaller.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from swarm.arrays import Float, Int
from swarm.errors import DataError, check_known
from swarm.rounding import rounding_error
from swarm.strategies.operators.sequential import first_best, within_one_error

Pick = Literal["best", "parsimonious", "knee"]
PICKS = ("best", "parsimonious", "knee")


def check_pick(name: str) -> None:
    """Raise ConfigError unless `name` is one of :data:`PICKS`."""
    check_known("pick", name, PICKS)


def pick(name: str, sizes: NDArray[np.generic], costs: Float, errors: Float) -> int:
    """Return the row of the subset that a rule picks.

    ``best``: the lowest cost; ``parsimonious``: the smallest within one standard error (n,) of the
    lowest cost; ``knee``: see :func:`knee`. Ties are broken by size, then by cost, then by row.
    """
    check_pick(name)
    front = pareto_front(sizes, costs)
    if not len(front):
        raise DataError(f"no subset can be picked: none of {len(costs)} costs is finite")
    if name == "knee":
        return int(front[knee(sizes[front], costs[front])])
    rule = costs[front], errors[front]
    return int(front[within_one_error(*rule) if name == "parsimonious" else first_best(rule[0])])


def pareto_front(sizes: NDArray[np.generic], costs: Float) -> Int:
    """Return the rows that no other row dominates in size and cost, by ascending size."""
    rows = np.flatnonzero(np.isfinite(costs))
    rows = rows[np.lexsort((costs[rows], sizes[rows]))]
    if not len(rows):
        return rows
    before = np.concatenate([[np.inf], np.minimum.accumulate(costs[rows])[:-1]])
    return rows[costs[rows] < before]


def knee(sizes: NDArray[np.generic], costs: Float) -> int:
    """Return the point of a Pareto front that is farthest below the line between its ends.

    Sizes and costs are scaled to [0, 1]; the smaller subset wins a tie, and the cheapest a front
    without a knee.

    References
    ----------
    Satopaa, Albrecht, Irwin and Raghavan, Finding a "Kneedle" in a Haystack (2011), without
    smoothing.
    """
    if len(sizes) < 3:
        return len(sizes) - 1
    x = (sizes - sizes[0]) / (sizes[-1] - sizes[0])
    y = (costs - costs[-1]) / (costs[0] - costs[-1])
    below = 1.0 - x - y
    place = first_best(-below)
    # A front that is straight up to rounding has no knee; x and y are at most 1.
    return place if below[place] > rounding_error(1.0) else len(sizes) - 1
