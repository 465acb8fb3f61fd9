"""Walks of ants from unit to unit, compiled: a walk may visit thousands of units, one at a time."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["walk"]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]


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
        At most the number of allowed units.
    allowed : bool (n_units,)
    pheromone : float64 (n_units,)
    heuristic : float64 (n_units, n_units)
        Row: where an ant is; column: where it may go.
    greedy : bool (n_steps, n_ants)
    turns : float64 (n_steps, n_ants)
        Of [0, 1): which unit is drawn.
    """
    n_units = masks.shape[1]
    left = np.empty(n_units, np.int64)
    upto = np.empty(n_units, np.float64)
    for ant in range(masks.shape[0]):
        n_left, n_visited = 0, 0
        for unit in range(n_units):
            if masks[ant, unit]:
                n_visited += 1
            elif allowed[unit]:
                left[n_left] = unit
                n_left += 1
        at, step = here[ant], 0
        while n_visited < size[ant] and n_left > 0:
            chosen = n_left - 1
            if greedy[step, ant]:
                highest = -1.0
                for i in range(n_left):
                    attraction = pheromone[left[i]] * heuristic[at, left[i]]
                    if attraction > highest:
                        highest, chosen = attraction, i
            else:
                total = 0.0
                for i in range(n_left):
                    total += pheromone[left[i]] * heuristic[at, left[i]]
                    upto[i] = total
                turn = turns[step, ant] * total
                # The cumulative sum is not decreasing: the first one above the turn.
                low, high = 0, n_left - 1
                while low < high:
                    middle = (low + high) // 2
                    if upto[middle] > turn:
                        high = middle
                    else:
                        low = middle + 1
                chosen = low
            at = left[chosen]
            masks[ant, at] = True
            # The order stays, as ties go to the first unit.
            for i in range(chosen, n_left - 1):
                left[i] = left[i + 1]
            n_left -= 1
            n_visited += 1
            step += 1
