"""Walks of ants from unit to unit, compiled: a walk may visit thousands of units, one at a time."""

from __future__ import annotations

import numpy as np
from numba import njit

from swarm.arrays import Bool, Float, Int


@njit(nogil=True, cache=True)
def _first_of_highest(values: Float) -> int:  # pragma: no cover
    """Return where the highest of the values is, the first of equal ones."""
    a = b = c = d = values[0]
    fourths = len(values) // 4
    # Four at a time, as each comparison of a single chain would wait for the one before.
    for i in range(0, 4 * fourths, 4):
        a, b = max(a, values[i]), max(b, values[i + 1])
        c, d = max(c, values[i + 2]), max(d, values[i + 3])
    for i in range(4 * fourths, len(values)):
        a = max(a, values[i])
    highest = max(max(a, b), max(c, d))
    first = 0
    while values[first] != highest:
        first += 1
    return first


@njit(nogil=True, cache=True)
def walk(
    masks: Bool,
    here: Int,
    size: Int,
    allowed: Bool,
    pheromone: Float,
    heuristic: Float,
    greedy: Bool,
    turns: Float,
) -> None:  # pragma: no cover
    """Extend the mask of each ant to its size, in place.

    The pseudo-random-proportional rule of Dorigo and Gambardella (1997): the unit of the highest
    ``pheromone * heuristic[here]`` where the step is greedy, else one drawn in proportion to it.

    Parameters
    ----------
    masks : bool (n_ants, n_units)
        Units visited so far.
    here : int64 (n_ants,)
        Unit where each ant is.
    size : int64 (n_ants,)
        Beyond the number of allowed units, all of them are visited.
    allowed : bool (n_units,)
    pheromone : float64 (n_units,)
        Positive.
    heuristic : float64 (n_units, n_units)
        Row: where an ant is; column: where it may go.
    greedy : bool (n_steps, n_ants)
    turns : float64 (n_steps, n_ants)
        Of [0, 1): which unit is drawn.
    """
    n_units = masks.shape[1]
    # All units in their order, with zeros for those that are out of reach: faster than a list of
    # the others, whose positions would have to be looked up.
    open_pheromone = np.empty(n_units, np.float64)
    attraction = np.empty(n_units, np.float64)
    for ant in range(masks.shape[0]):
        n_visited, n_open = 0, 0
        for unit in range(n_units):
            is_open = allowed[unit] and not masks[ant, unit]
            n_visited += masks[ant, unit]
            n_open += is_open
            open_pheromone[unit] = pheromone[unit] if is_open else 0.0
        at = here[ant]
        for step in range(min(size[ant] - n_visited, n_open)):
            if greedy[step, ant]:
                for unit in range(n_units):
                    attraction[unit] = open_pheromone[unit] * heuristic[at, unit]
                at = _first_of_highest(attraction)
            else:
                upto = 0.0
                for unit in range(n_units):
                    upto += open_pheromone[unit] * heuristic[at, unit]
                    attraction[unit] = upto
                turn = turns[step, ant] * upto
                # The cumulative sum is not decreasing: the first one above the turn.
                at = np.searchsorted(attraction, turn, side="right")
            if at == n_units or open_pheromone[at] == 0.0:
                # All attractions are rounded to zero, or the turn to the sum of all.
                at = np.flatnonzero(open_pheromone)[0]
            masks[ant, at] = True
            open_pheromone[at] = 0.0
