"""Transfer functions from velocities to positions."""

from __future__ import annotations

import numpy as np

from swarm.arrays import Bool, Float

__all__ = ["flip_position", "sample_position"]


def sample_position(velocity: Float, rng: np.random.Generator) -> Bool:
    """Set each bit with probability ``1 / (1 + exp(-v))``.

    Parameters
    ----------
    velocity : float64 (n_particles, n_units)

    Returns
    -------
    bool (n_particles, n_units)

    References
    ----------
    Kennedy and Eberhart (1997).
    """
    # Imported here, as commands that only check a configuration import the strategies.
    from scipy.special import expit

    drawn: Bool = rng.random(velocity.shape) < expit(velocity)
    return drawn


def flip_position(position: Bool, velocity: Float, rng: np.random.Generator) -> Bool:
    """Flip each bit with probability ``|tanh(v)|``, a V-shaped transfer function.

    Unlike with the sigmoid, a velocity of zero keeps the position.

    Parameters
    ----------
    position : bool (n_particles, n_units)
    velocity : float64 (n_particles, n_units)

    Returns
    -------
    bool (n_particles, n_units)

    References
    ----------
    Nezamabadi-pour, Rostami-Shahrbabaki and Maghfoori-Farsangi (2008), Binary particle swarm
    optimization: challenges and new solutions.
    """
    return position ^ (rng.random(velocity.shape) < np.abs(np.tanh(velocity)))
