"""Pick one of the measured subsets: the cheapest, or a smaller one of almost equal cost.

All rules pick from the Pareto front, so that no other subset of the same cost is smaller.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from swarm.arrays import Float, Int
from swarm.errors import DataError, check_known
from swarm.strategies.operators.sequential import first_best, within_one_error

Pick = Literal["best", "parsimonious", "knee"]
PICKS = ("best", "parsimonious", "knee")

# A front that is straight up to rounding has no knee.
_STRAIGHT = 1e-9


def check_pick(name: str) -> None:
    """Raise ConfigError unless `name` is one of :data:`PICKS`."""
    check_known("pick", name, PICKS)


def pick(name: str, sizes: NDArray[np.generic], costs: Float, errors: Float) -> int:
    """Return the row of the subset that a rule picks.

    Parameters
    ----------
    name
        ``best``: the lowest cost; ``parsimonious``: the smallest within one standard error of the
        lowest cost; ``knee``: see :func:`knee`. Ties are broken by size, then by cost, then by
        row.
    sizes : (n,)
        Units of each subset, or what it costs to obtain.
    costs : float64 (n,)
        Rows that are not finite are never picked.
    errors : float64 (n,)
        Standard errors of the costs.

    Raises
    ------
    ConfigError
        If the rule is unknown.
    DataError
        If no cost is finite.

    References
    ----------
    The rule of one standard error: :func:`swarm.strategies.operators.sequential.within_one_error`.
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
    """Rows that no other row dominates in size and cost.

    Parameters
    ----------
    sizes : (n,)
    costs : float64 (n,)
        Rows that are not finite are left out.

    Returns
    -------
    int (n_front,)
        By ascending size, and so by descending cost; the first of equal rows.
    """
    rows = np.flatnonzero(np.isfinite(costs))
    rows = rows[np.lexsort((costs[rows], sizes[rows]))]
    if not len(rows):
        return rows
    before = np.concatenate([[np.inf], np.minimum.accumulate(costs[rows])[:-1]])
    return rows[costs[rows] < before]


def knee(sizes: NDArray[np.generic], costs: Float) -> int:
    """Index on a Pareto front beyond which further units improve the cost only slightly.

    With sizes and costs scaled to [0, 1], this is the point farthest below the line from the first
    to the last point; the smaller subset wins a tie. If no point is below the line, the front has
    no knee, and the last point, the cheapest, is returned.

    Parameters
    ----------
    sizes, costs : (n_front,)
        In the order of :func:`pareto_front`, at least one.

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
    place = int(np.argmax(below))
    return place if below[place] > _STRAIGHT else len(sizes) - 1
