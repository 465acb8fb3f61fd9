"""The steps that move the particles of a binary swarm, by the name of the option `step`.

``bpso``
    Velocities, and a sigmoid that sets the bits (Kennedy and Eberhart 1997).
``v_shaped``
    The same velocities, and a V-shaped function that flips the bits (Nezamabadi-pour et al. 2008).
``sticky``
    Flip probabilities without velocities; a bit that flipped stays for a while (Nguyen et al.
    2021).
``recombine``
    Uniform crossover of the pbest and its leader's, and about one flip in and one out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Protocol

import numpy as np

from swarm.arrays import Bool, Float
from swarm.checks import require
from swarm.problem.space import SearchSpace
from swarm.strategies.operators.recombination import recombine
from swarm.strategies.operators.stickiness import flip_sticky
from swarm.strategies.operators.transfer import flip_position, sample_position
from swarm.strategies.operators.velocity import reach, update_velocity

__all__ = ["STEPS", "HasVelocityWeights", "Particles", "Step", "VelocityWeights", "check_step"]

Step = Literal["bpso", "recombine", "sticky", "v_shaped"]


class HasVelocityWeights(Protocol):
    """A strategy with the parameters of the velocity update."""

    @property
    def inertia(self) -> float:
        """Weight of the previous velocity."""

    @property
    def c1(self) -> float:
        """Cognitive weight (pbest)."""

    @property
    def c2(self) -> float:
        """Social weight (leader)."""

    @property
    def velocity_bound(self) -> float:
        """Bound of the absolute velocity."""


@dataclass(frozen=True)
class Particles:
    """The particles that a step moves.

    Attributes
    ----------
    position, pbest, leader : bool (n_particles, n_units)
        `leader` has one row per particle: the best pbest of its swarm.
    velocity : float64 (n_particles, n_units)
        Velocities; for ``sticky`` the stickiness; unused by ``recombine``.
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
    bound: float

    @classmethod
    def of(cls, strategy: HasVelocityWeights) -> VelocityWeights:
        """Read them from the parameters of a strategy."""
        return cls(strategy.inertia, strategy.c1, strategy.c2, strategy.velocity_bound)

    @property
    def reach(self) -> float:
        """Supremum of the velocities before they are clamped."""
        return reach(self.inertia, self.c1, self.c2)


def _bpso(
    particles: Particles, weights: VelocityWeights, rng: np.random.Generator
) -> tuple[Bool, Float]:
    velocity = _accelerated(particles, weights, rng)
    return sample_position(velocity, rng), velocity


def _v_shaped(
    particles: Particles, weights: VelocityWeights, rng: np.random.Generator
) -> tuple[Bool, Float]:
    velocity = _accelerated(particles, weights, rng)
    return flip_position(particles.position, velocity, rng), velocity


def _sticky(
    particles: Particles, weights: VelocityWeights, rng: np.random.Generator
) -> tuple[Bool, Float]:
    position, pbest, leader = particles.position, particles.pbest, particles.leader
    return flip_sticky(position, pbest, leader, particles.velocity, rng)


def _recombine(
    particles: Particles, weights: VelocityWeights, rng: np.random.Generator
) -> tuple[Bool, Float]:
    space = particles.space
    position = recombine(
        particles.pbest, particles.leader, rng, fixed=space.fixed, forbidden=space.forbidden
    )
    return position, particles.velocity.copy()


def _accelerated(particles: Particles, weights: VelocityWeights, rng: np.random.Generator) -> Float:
    return update_velocity(
        particles.velocity,
        particles.position,
        particles.pbest,
        particles.leader,
        rng,
        inertia=weights.inertia,
        c1=weights.c1,
        c2=weights.c2,
        bound=weights.bound,
    )


# Each returns new positions, not repaired, and new velocities.
STEPS: Mapping[
    str,
    Callable[[Particles, VelocityWeights, np.random.Generator], tuple[Bool, Float]],
] = MappingProxyType(
    {"bpso": _bpso, "recombine": _recombine, "sticky": _sticky, "v_shaped": _v_shaped}
)

_HAVE_VELOCITIES = ("bpso", "v_shaped")


def check_step(strategy: HasVelocityWeights, step: str) -> None:
    """Refuse, or warn of, parameters of a strategy that have no effect on its step.

    Called at the end of ``__post_init__``, as a warning names the line that made the strategy.

    Raises
    ------
    ValueError
        If the step is unknown, or has no velocities but a parameter of their update was changed.
    """
    require("step", step, one_of=tuple(STEPS))
    if step in _HAVE_VELOCITIES:
        _warn_of_dead_bound(VelocityWeights.of(strategy))
        return
    names = ("inertia", "c1", "c2", "velocity_bound")
    # The defaults of a dataclass are attributes of its class.
    changed = [n for n in names if getattr(strategy, n) != getattr(type(strategy), n)]
    if changed:
        raise ValueError(
            f"step {step!r} has no velocities, so {', '.join(changed)} would have no effect; "
            "leave it out, or use step 'bpso' or 'v_shaped'"
        )


def _warn_of_dead_bound(weights: VelocityWeights) -> None:
    if weights.bound > weights.reach:
        warnings.warn(
            f"velocity_bound {weights.bound:g} has no effect: velocities start at 0, and with "
            f"inertia {weights.inertia:g}, c1 {weights.c1:g} and c2 {weights.c2:g} none exceeds "
            f"{weights.reach:g}; raise these, or leave velocity_bound out",
            stacklevel=5,
        )
