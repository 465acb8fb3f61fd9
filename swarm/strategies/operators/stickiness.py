"""Sticky binary PSO: bits that flipped lately tend to stay, instead of having a velocity.

Source: Nguyen, Xue, Andreae and Zhang (2021), A new binary particle swarm optimization approach:
momentum and dynamic balance between exploration and exploitation, IEEE Transactions on Cybernetics
51(2); first in Nguyen, Xue and Andreae (2017), A novel binary particle swarm optimization algorithm
and its applications on knapsack and feature selection problems. Their static form is used. In the
dynamic form two parameters follow the share of the iterations that are over, which a strategy does
not know.
"""

from __future__ import annotations

import numpy as np

from swarm.arrays import Bool, Float

__all__ = ["flip_probability", "flip_sticky", "still_sticky"]

# i_s = 4 / n_units: four bits flip per step if none is sticky. Ours: at most a half, as otherwise
# nothing would be left for the exemplars where there are four units or fewer.
_FREE_FLIPS = 4.0
_MOST_FREE = 0.5
# i_p / i_g: the pbest has twice the weight of the leader.
_ALPHA = 2.0
# ustkS: steps until a bit that flipped is free again, 8 % of a hundred iterations.
_STEPS = 8


def flip_probability(position: Bool, pbest: Bool, leader: Bool, stickiness: Float) -> Float:
    """Probability that a bit flips: ``i_s (1 - stk) + i_p |pbest - x| + i_g |leader - x|``.

    The weights ``i_s + i_p + i_g = 1`` are those recommended by the source.

    Parameters
    ----------
    position, pbest, leader : bool (n_particles, n_units)
        `leader` has one row per particle.
    stickiness : float64 (n_particles, n_units)
        From 0, free, to 1, just flipped.

    Returns
    -------
    float64 (n_particles, n_units)
    """
    i_s = min(_MOST_FREE, _FREE_FLIPS / position.shape[1])
    i_g = (1.0 - i_s) / (1.0 + _ALPHA)
    i_p = _ALPHA * i_g
    towards = i_p * (pbest ^ position) + i_g * (leader ^ position)
    probability: Float = i_s * (1.0 - stickiness) + towards
    return probability


def flip_sticky(
    position: Bool, pbest: Bool, leader: Bool, stickiness: Float, rng: np.random.Generator
) -> tuple[Bool, Float]:
    """Flip bits by their probability, and update their stickiness.

    Returns
    -------
    position : bool (n_particles, n_units)
        Not repaired: a row may be empty.
    stickiness : float64 (n_particles, n_units)
    """
    flips = rng.random(position.shape) < flip_probability(position, pbest, leader, stickiness)
    return position ^ flips, still_sticky(stickiness, flips)


def still_sticky(stickiness: Float, flips: Bool) -> Float:
    """Stickiness after a step: 1 where a bit flipped, else less by 1 / 8, down to 0."""
    return np.where(flips, 1.0, np.maximum(0.0, stickiness - 1.0 / _STEPS))
