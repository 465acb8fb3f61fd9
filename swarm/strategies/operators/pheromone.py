"""Pheromone on the two decisions about each unit: exclude and include."""

from __future__ import annotations

import numpy as np

from swarm.arrays import Bool, Float

__all__ = ["deposit", "walk"]


def walk(trail: Float, n_ants: int, rng: np.random.Generator) -> Bool:
    """Include each unit with probability ``trail[1] / (trail[0] + trail[1])``.

    Parameters
    ----------
    trail : float64 (2, n_units)
        Pheromone on excluding each unit, and on including it.

    Returns
    -------
    bool (n_ants, n_units)
        Not repaired.
    """
    taken: Bool = rng.random((n_ants, trail.shape[1])) < trail[1] / trail.sum(axis=0)
    return taken


def deposit(
    trail: Float,
    masks: Bool,
    weight: Float,
    *,
    evaporation: float,
    bounds: tuple[float, float],
) -> Float:
    """Evaporate the trail, and deposit pheromone on the decisions of the ants.

    ``tau = (1 - evaporation) tau + evaporation tau_max sum of weights``, clipped to the bounds: a
    decision that all ants make tends to ``tau_max``, one that none makes to ``tau_min``.

    Parameters
    ----------
    trail : float64 (2, n_units)
    masks : bool (n, n_units)
        Masks of the ants that deposit.
    weight : float64 (n,)
        Weight of each ant; they sum to 1.
    bounds : (tau_min, tau_max)

    Returns
    -------
    float64 (2, n_units)
    """
    taken = (masks * weight[:, None]).sum(axis=0)
    marks = np.stack([weight.sum() - taken, taken])
    lowest, highest = bounds
    return np.clip((1.0 - evaporation) * trail + evaporation * highest * marks, lowest, highest)
