"""A swarm of binary particles, shared by `bpso` and its variants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from swarm.arrays import Bool, Float, read_only
from swarm.checks import MAX_POPULATION, require
from swarm.evaluation.types import Evaluations
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Members, Proposal, Strategy
from swarm.strategies.operators.initialise import hints_to_place
from swarm.strategies.operators.memory import Memory, best_of, learn, propose_to_improve
from swarm.strategies.operators.steps import STEPS, Particles, Step, VelocityWeights

__all__ = ["BinarySwarm", "BinarySwarmStrategy"]


@dataclass(frozen=True)
class BinarySwarm:
    """State of a swarm after `epoch` proposals.

    Attributes
    ----------
    position : bool (n_particles, n_units)
    velocity : float64 (n_particles, n_units)
        Stickiness of the bits with step ``"sticky"``.
    memory : Memory
        Pbests.
    """

    space: SearchSpace
    epoch: int
    position: Bool
    velocity: Float
    memory: Memory

    def __post_init__(self) -> None:
        read_only(self.position, self.velocity)

    @property
    def members(self) -> Members:
        """The pbests."""
        return Members(self.memory.masks, self.memory.costs, np.zeros(len(self.position), int))


Swarm = TypeVar("Swarm", bound=BinarySwarm)


@dataclass(frozen=True)
class BinarySwarmStrategy(Strategy):
    """Base class of binary swarms: shared parameters and the position update.

    Parameters
    ----------
    n_particles
        Size of the swarm.
    c1, c2
        Cognitive weight (pbest) and social weight (gbest).
    velocity_bound
        Velocities are clamped to ``[-velocity_bound, velocity_bound]``.
    init
        ``"bernoulli"``: each unit with probability 0.5; ``"clusters"``: one unit of every
        cluster; ``"ranked"``: every other particle as for clusters, the others the units of
        highest mutual information with the target, their numbers in geometric progression.
    """

    n_particles: int = 30
    c1: float = 2.0
    c2: float = 2.0
    velocity_bound: float = 6.0
    init: Literal["bernoulli", "clusters", "ranked"] = "bernoulli"

    def __post_init__(self) -> None:
        require("n_particles", self.n_particles, at_least=1, at_most=MAX_POPULATION, whole=True)
        require("c1", self.c1, at_least=0)
        require("c2", self.c2, at_least=0)
        require("velocity_bound", self.velocity_bound, above=0)
        require("init", self.init, one_of=("bernoulli", "clusters", "ranked"))

    uses_importances: ClassVar[bool] = False
    takes_late_answers: ClassVar[bool] = True

    @property
    def needs(self) -> tuple[str, ...]:
        """What the first positions are drawn from."""
        return hints_to_place(self.init)

    def observe(self, state: Any, proposal: Proposal, evaluations: Evaluations) -> Any:
        """Update the pbests."""
        return replace(state, memory=learn(state.memory, proposal, evaluations))

    def propose_positions(self, swarm: Swarm, role: str) -> tuple[Swarm, Proposal]:
        """Propose the positions, and count the epoch."""
        role = role if swarm.epoch > 0 else "init"
        proposal = propose_to_improve(swarm.memory, swarm.position, role)
        return replace(swarm, epoch=swarm.epoch + 1), proposal

    def fly(
        self, swarm: Swarm, rng: np.random.Generator, inertia: float, step: Step = "bpso"
    ) -> Swarm:
        """Move every particle towards its pbest and the gbest.

        Parameters
        ----------
        step
            See :mod:`swarm.strategies.operators.steps`.

        Returns
        -------
        BinarySwarm
            With repaired positions.

        References
        ----------
        Hafiz et al. (2018), equations 2 and 4; Kennedy and Eberhart (1997).
        """
        pbest = swarm.memory.masks
        gbest = np.broadcast_to(pbest[best_of(swarm.memory)], pbest.shape)
        particles = Particles(swarm.position, pbest, gbest, swarm.velocity, swarm.space)
        weights = VelocityWeights(inertia, self.c1, self.c2, self.velocity_bound)
        position, velocity = STEPS[step](particles, weights, rng)
        return replace(swarm, position=swarm.space.repair(position, rng), velocity=velocity)
