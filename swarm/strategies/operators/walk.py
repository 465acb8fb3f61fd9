"""Walks of ants from unit to unit, compiled: a walk may visit thousands of units, one at a time."""

import numpy as np
from numba import njit

from swarm.arrays import Bool, Float, Int


@njit(nogil=True, cache=True)
def walk(
    masks: Bool,  # (n_ants, n_units), units visited so far
    start: Int,  # (n_ants,), unit where each ant is
    size: Int,  # (n_ants,)
    allowed: Bool,  # (n_units,)
    pheromone: Float,  # (n_units,), positive
    heuristic: Float,  # (n_units, n_units), from row to column
    greedy: Bool,  # (n_steps, n_ants)
    turns: Float,  # (n_steps, n_ants) in [0, 1), which unit is drawn
) -> None:  # pragma: no cover
    """Extend the mask of each ant to its size, or to all allowed units, in place."""
    # The pseudo-random-proportional rule of Dorigo and Gambardella (1997): the unit of the highest
    # pheromone * heuristic[at] where the step is greedy, else one drawn in proportion to it.
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
        at = start[ant]
        for step in range(min(size[ant] - n_visited, n_open)):
            if greedy[step, ant]:
                for unit in range(n_units):
                    attraction[unit] = open_pheromone[unit] * heuristic[at, unit]
                at = np.argmax(attraction)
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
