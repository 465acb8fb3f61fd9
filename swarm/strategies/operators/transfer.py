"""Transfer functions from velocities to positions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

__all__ = ["sample_position"]


def sample_position(velocity: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.bool_]:
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
    drawn: NDArray[np.bool_] = rng.random(velocity.shape) < expit(velocity)
    return drawn
