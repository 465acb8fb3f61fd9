"""The steps that move the particles of a swarm, by the name of the option `step`.

``bpso``
    Velocities, and a sigmoid that sets the bits (Kennedy and Eberhart 1997).
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

Step = Literal["bpso", "recombine"]


@dataclass(frozen=True)
class Particles:
    """The particles that a step moves; each array is (n_particles, n_units).

    Attributes
    ----------
    position, pbest : bool
    leader : bool
        Best pbest of the swarm of each particle.
    velocity : float64
        Ignored by recombine.
    space : SearchSpace
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
        """Read the parameters of a strategy, or the defaults of its class."""
        return cls(strategy.inertia, strategy.c1, strategy.c2, strategy.velocity_bound)

    @property
    def reach(self) -> float:
        """Supremum of velocities that start at 0: ``(c1 + c2) / (1 - w)``, or inf if w >= 1."""
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
    """Move velocities (n_particles, n_units) towards the pbests and, per particle, its leader."""
    # v = w v + c1 r1 (pbest - x) + c2 r2 (leader - x), clamped to the bound, with r1 and r2 uniform
    # in [0, 1), drawn for every particle and unit.
    # Source: Kennedy and Eberhart (1997); Hafiz et al. (2018), equation 2.
    x = position.astype(np.float64)
    r1 = rng.random(velocity.shape)
    r2 = rng.random(velocity.shape)
    to_pbest = weights.c1 * r1 * (pbest - x)
    to_leader = weights.c2 * r2 * (leader - x)
    moved = weights.inertia * velocity + to_pbest + to_leader
    return np.clip(moved, -weights.velocity_bound, weights.velocity_bound)


def _bpso(
    particles: Particles, weights: VelocityWeights, rng: np.random.Generator
) -> tuple[Bool, Float]:
    """Set each bit with probability ``1 / (1 + exp(-v))``."""
    # Commands that only check a configuration import the strategies, but not SciPy.
    from scipy.special import expit

    p = particles
    velocity = update_velocity(
        p.velocity, p.position, pbest=p.pbest, leader=p.leader, weights=weights, rng=rng
    )
    return rng.random(velocity.shape) < expit(velocity), velocity


def _recombine(
    particles: Particles, weights: VelocityWeights, rng: np.random.Generator
) -> tuple[Bool, Float]:
    """Cross pbest and leader uniformly, then drop one unit and add one on average."""
    # This preserves the average size; the sigmoid pulls it towards half of the units.
    # Source: Syswerda (1989), Uniform crossover in genetic algorithms; the flips are ours.
    pbest = particles.pbest
    space = particles.space
    child = np.where(rng.random(pbest.shape) < 0.5, pbest, particles.leader)
    removable = child & ~space.fixed
    addable = ~child & ~space.forbidden
    dropped = removable / np.maximum(1, removable.sum(axis=1, keepdims=True))
    added = addable / np.maximum(1, addable.sum(axis=1, keepdims=True))
    flips = rng.random(child.shape) < dropped + added
    return child ^ flips, particles.velocity.copy()


# Steps return new positions and new velocities.
STEPS: Mapping[
    str,
    Callable[[Particles, VelocityWeights, np.random.Generator], tuple[Bool, Float]],
] = MappingProxyType({"bpso": _bpso, "recombine": _recombine})


def check_step(strategy: Any, step: str) -> None:
    """Refuse an unknown step or weights that it ignores, and warn of a bound without effect."""
    require("step", step, one_of=tuple(STEPS))
    weights = VelocityWeights.of(strategy)
    if step == "recombine":
        # The defaults of a dataclass are attributes of its class.
        defaults = vars(VelocityWeights.of(type(strategy)))
        changed = [name for name, value in vars(weights).items() if value != defaults[name]]
        if changed:
            raise ValueError(
                f"step {step!r} has no velocities, so {', '.join(changed)} would have no effect; "
                "leave it out, or use step 'bpso'"
            )
    elif weights.velocity_bound > weights.reach:
        warnings.warn(
            f"velocity_bound {weights.velocity_bound:g} has no effect: velocities start at 0, and"
            f" with inertia {weights.inertia:g}, c1 {weights.c1:g} and c2 {weights.c2:g} none"
            f" exceeds {weights.reach:g}; raise these, or leave velocity_bound out",
            # __post_init__ calls this, and the warning names the line that made the strategy.
            stacklevel=4,
        )
