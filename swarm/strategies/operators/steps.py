"""The steps that move the particles of a swarm, by the name of the option `step`.

``bpso``
    Velocities, and a sigmoid that sets the bits (Kennedy and Eberhart 1997).
``v_shaped``
    The same velocities, and a V-shaped function that flips the bits (Nezamabadi-pour et al. 2008).
``sticky``
    Flip probabilities without velocities; a bit that flipped stays for a while (Nguyen et al.
    2021).
``recombine``
    Uniform crossover of the pbest and its leader's, and about one flip in and one out.

New positions are not repaired: a row may be empty.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from swarm.arrays import Bool, Float
from swarm.checks import require
from swarm.problem.space import SearchSpace

Step = Literal["bpso", "recombine", "sticky", "v_shaped"]

# Sticky steps. i_s = 4 / n_units: four bits flip per step if none is sticky. Ours: at most a half,
# as otherwise nothing would be left for the exemplars where there are four units or fewer.
_FREE_FLIPS = 4.0
_MOST_FREE = 0.5
# i_p / i_g: the pbest has twice the weight of the leader.
_ALPHA = 2.0
# ustkS: steps until a bit that flipped is free again, 8 % of a hundred iterations.
_STEPS = 8


@dataclass(frozen=True)
class Particles:
    """The particles that a step moves.

    Attributes
    ----------
    position, pbest, leader : bool (n_particles, n_units)
        `leader` has one row per particle: the best pbest of its swarm.
    velocity : float64 (n_particles, n_units)
        Velocities; for ``sticky`` the stickiness, from 0, free, to 1, just flipped; unused by
        ``recombine``.
    """

    position: Bool
    pbest: Bool
    leader: Bool
    velocity: Float
    space: SearchSpace


@dataclass(frozen=True)
class VelocityWeights:
    """Weights of the velocity update, and the bound of velocities."""

    inertia: float
    c1: float
    c2: float
    velocity_bound: float = np.inf

    @classmethod
    def of(cls, strategy: Any) -> VelocityWeights:
        """Read them from the parameters of a strategy."""
        return cls(strategy.inertia, strategy.c1, strategy.c2, strategy.velocity_bound)

    @property
    def reach(self) -> float:
        """Supremum of the absolute velocities of a swarm that starts at rest.

        ``(c1 + c2) / (1 - w)``, the sum of a geometric series, as each update adds less than
        ``c1 + c2``; inf for an inertia of 1 or more. A larger bound never clamps a velocity.
        """
        if self.c1 + self.c2 == 0.0:
            return 0.0
        return (self.c1 + self.c2) / (1.0 - self.inertia) if self.inertia < 1.0 else np.inf


def update_velocity(
    velocity: Float,
    position: Bool | Float,
    pbest: Bool | Float,
    leader: Bool | Float,
    weights: VelocityWeights,
    rng: np.random.Generator,
) -> Float:
    """Move velocities towards the pbests and those of the leaders.

    ``v = w v + c1 r1 (pbest - x) + c2 r2 (leader - x)``, clamped to the bound, with r1 and r2
    uniform in [0, 1), drawn for every particle and unit.

    Parameters
    ----------
    velocity : float64 (n_particles, n_units)
    position, pbest, leader : bool or float64 (n_particles, n_units)
        `leader` has one row per particle: the best position of its swarm.

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
    to_pbest, to_leader = weights.c1 * r1 * (pbest - here), weights.c2 * r2 * (leader - here)
    moved = weights.inertia * velocity + to_pbest + to_leader
    return np.clip(moved, -weights.velocity_bound, weights.velocity_bound)


def _bpso(
    particles: Particles, weights: VelocityWeights, rng: np.random.Generator
) -> tuple[Bool, Float]:
    """Set each bit with probability ``1 / (1 + exp(-v))``."""
    # Imported here, as commands that only check a configuration import the strategies.
    from scipy.special import expit

    p = particles
    velocity = update_velocity(p.velocity, p.position, p.pbest, p.leader, weights, rng)
    return rng.random(velocity.shape) < expit(velocity), velocity


def _v_shaped(
    particles: Particles, weights: VelocityWeights, rng: np.random.Generator
) -> tuple[Bool, Float]:
    """Flip each bit with probability ``|tanh(v)|``: a velocity of zero keeps the position.

    References
    ----------
    Nezamabadi-pour, Rostami-Shahrbabaki and Maghfoori-Farsangi (2008), Binary particle swarm
    optimization: challenges and new solutions.
    """
    p = particles
    velocity = update_velocity(p.velocity, p.position, p.pbest, p.leader, weights, rng)
    flips = rng.random(velocity.shape) < np.abs(np.tanh(velocity))
    return particles.position ^ flips, velocity


def _sticky(
    particles: Particles, weights: VelocityWeights, rng: np.random.Generator
) -> tuple[Bool, Float]:
    """Flip bits by their probability; a bit that flipped is stuck, and loosens by 1 / 8 a step.

    The static form of the source. In the dynamic one two parameters follow the share of the
    iterations that are over, which a strategy does not know.

    References
    ----------
    Nguyen, Xue, Andreae and Zhang (2021), A new binary particle swarm optimization approach:
    momentum and dynamic balance between exploration and exploitation, IEEE Transactions on
    Cybernetics 51(2); first in Nguyen, Xue and Andreae (2017), A novel binary particle swarm
    optimization algorithm and its applications on knapsack and feature selection problems.
    """
    flips = rng.random(particles.position.shape) < flip_probability(particles)
    stickiness = np.where(flips, 1.0, np.maximum(0.0, particles.velocity - 1.0 / _STEPS))
    return particles.position ^ flips, stickiness


def flip_probability(particles: Particles) -> Float:
    """Probability that a bit flips: ``i_s (1 - stk) + i_p |pbest - x| + i_g |leader - x|``.

    The weights ``i_s + i_p + i_g = 1`` are those recommended by Nguyen et al. (2021).

    Parameters
    ----------
    particles : Particles
        Their velocity is the stickiness.

    Returns
    -------
    float64 (n_particles, n_units)
    """
    position = particles.position
    i_s = min(_MOST_FREE, _FREE_FLIPS / position.shape[1])
    i_g = (1.0 - i_s) / (1.0 + _ALPHA)
    i_p = _ALPHA * i_g
    towards = i_p * (particles.pbest ^ position) + i_g * (particles.leader ^ position)
    probability: Float = i_s * (1.0 - particles.velocity) + towards
    return probability


def _recombine(
    particles: Particles, weights: VelocityWeights, rng: np.random.Generator
) -> tuple[Bool, Float]:
    """Cross pbest and leader uniformly, then drop one unit and add one on average.

    Each bit is that of one of them, with probability 0.5. Then each of the l selected units that
    may leave is dropped with probability ``1 / l``, and each of the m units that may enter is added
    with probability ``1 / m``. So the size of the result is on average that of its parents, which
    the sigmoid of the binary PSO pulls towards half of the units.

    References
    ----------
    Syswerda (1989), Uniform crossover in genetic algorithms; the rates of the flips are ours.
    """
    pbest, space = particles.pbest, particles.space
    child = np.where(rng.random(pbest.shape) < 0.5, pbest, particles.leader)
    removable = child & ~space.fixed
    addable = ~child & ~space.forbidden
    dropped = removable / np.maximum(1, removable.sum(axis=1, keepdims=True))
    added = addable / np.maximum(1, addable.sum(axis=1, keepdims=True))
    flips = rng.random(child.shape) < dropped + added
    return child ^ flips, particles.velocity.copy()


# Each returns new positions and new velocities.
STEPS: Mapping[
    str,
    Callable[[Particles, VelocityWeights, np.random.Generator], tuple[Bool, Float]],
] = MappingProxyType(
    {"bpso": _bpso, "recombine": _recombine, "sticky": _sticky, "v_shaped": _v_shaped}
)


def check_step(strategy: Any, step: str) -> None:
    """Refuse, or warn of, velocity weights of a strategy that have no effect on its step.

    Called at the end of ``__post_init__``, as a warning names the line that made the strategy.

    Raises
    ------
    ValueError
        If the step is unknown, or has no velocities but a parameter of their update was changed.
    """
    require("step", step, one_of=tuple(STEPS))
    weights = VelocityWeights.of(strategy)
    if step in ("recombine", "sticky"):
        # The defaults of a dataclass are attributes of its class.
        usual = vars(VelocityWeights.of(type(strategy)))
        changed = [name for name, value in vars(weights).items() if value != usual[name]]
        if changed:
            raise ValueError(
                f"step {step!r} has no velocities, so {', '.join(changed)} would have no effect; "
                "leave it out, or use step 'bpso' or 'v_shaped'"
            )
    elif weights.velocity_bound > weights.reach:
        warnings.warn(
            f"velocity_bound {weights.velocity_bound:g} has no effect: velocities start at 0, and"
            f" with inertia {weights.inertia:g}, c1 {weights.c1:g} and c2 {weights.c2:g} none"
            f" exceeds {weights.reach:g}; raise these, or leave velocity_bound out",
            stacklevel=4,
        )
