"""Walks of ants from unit to unit, compiled: a walk may visit thousands of units, one at a time."""

import numpy as np
from numba import njit

from swarm.arrays import Bool, Float, Int


@njit(nogil=True, cache=True)
def walk(
    masks: Bool,
    start: Int,
    size: Int,
    allowed: Bool,
    pheromone: Float,
    heuristic: Float,
    greedy: Bool,
    turns: Float,
) -> None:  # pragma: no cover
    """Extend the mask of each ant to its size, or to all allowed units, in place.

    Parameters
    ----------
    masks : bool (n_ants, n_units)
        Units visited so far.
    start : int (n_ants,)
        Unit where each ant is.
    size : int (n_ants,)
    allowed : bool (n_units,)
    pheromone : float64 (n_units,)
        Positive.
    heuristic : float64 (n_units, n_units)
        From row to column.
    greedy : bool (n_steps, n_ants)
        Whether an ant takes the most attractive unit.
    turns : float64 (n_steps, n_ants)
        Random numbers in [0, 1), which draw a unit otherwise.
    """
    # Source: the pseudo-random-proportional rule of Dorigo and Gambardella (1997), in which the
    # attraction of a unit is pheromone * heuristic[at].
    n_units = masks.shape[1]
    # Arrays of all units, with zeros for those out of reach, are faster than lists of the others.
    open_pheromone = np.empty(n_units, np.float64)
    attraction = np.empty(n_units, np.float64)
    for ant in range(masks.shape[0]):
        n_visited = 0
        n_open = 0
        for unit in range(n_units):
            is_open = allowed[unit] and not masks[ant, unit]
            n_visited += masks[ant, unit]
            n_open += is_open
            open_pheromone[unit] = pheromone[unit] if is_open else 0.0
        at = start[ant]
        for step in range(min(size[ant] - n_visited, n_open)):
            if greedy[step, ant]:
                for unit in range(n_units):
                    attraction[unit] = open_pheromone[unit] * heuristic[at, unit]
                at = np.argmax(attraction)
            else:
                total = 0.0
                for unit in range(n_units):
                    total += open_pheromone[unit] * heuristic[at, unit]
                    attraction[unit] = total
                at = np.searchsorted(attraction, turns[step, ant] * total, side="right")
            if at == n_units or open_pheromone[at] == 0.0:
                # All attractions are rounded to zero, or the draw to the sum of all.
                at = np.flatnonzero(open_pheromone)[0]
            masks[ant, at] = True
            open_pheromone[at] = 0.0
