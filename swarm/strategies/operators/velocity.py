"""Velocity of particle swarms, binary and continuous."""

from __future__ import annotations

import numpy as np

from swarm.arrays import Bool, Float

__all__ = ["reach", "update_velocity"]


def reach(inertia: float, c1: float, c2: float) -> float:
    """Supremum of the absolute velocities of a swarm that starts at rest.

    ``(c1 + c2) / (1 - w)``, the sum of a geometric series, as each update adds less than
    ``c1 + c2``; inf for an inertia of 1 or more. A larger bound never clamps a velocity.
    """
    if c1 + c2 == 0.0:
        return 0.0
    return (c1 + c2) / (1.0 - inertia) if inertia < 1.0 else np.inf


def update_velocity(
    velocity: Float,
    position: Bool | Float,
    pbest: Bool | Float,
    gbest: Bool | Float,
    rng: np.random.Generator,
    *,
    inertia: float,
    c1: float,
    c2: float,
    bound: float = np.inf,
) -> Float:
    """Move velocities towards the personal and the swarm's best positions.

    ``v = w v + c1 r1 (pbest - x) + c2 r2 (gbest - x)``, clamped to ``[-bound, bound]``,
    with r1 and r2 uniform in [0, 1), drawn for every particle and unit.

    Parameters
    ----------
    velocity : float64 (n_particles, n_units)
    position, pbest, gbest : bool or float64 (n_particles, n_units)
        `gbest` has one row per particle: the best position of its swarm.

    Returns
    -------
    float64 (n_particles, n_units)

    References
    ----------
    Kennedy and Eberhart (1997); Hafiz et al. (2018), equation 2.
    """
    here = position.astype(np.float64)
    r1 = rng.random(velocity.shape)
    r2 = rng.random(velocity.shape)
    moved = inertia * velocity + c1 * r1 * (pbest - here) + c2 * r2 * (gbest - here)
    return np.clip(moved, -bound, bound)
