"""A swarm of binary particles, shared by `bpso` and its variants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from swarm.checks import MAX_POPULATION, require
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Members, Proposal, Strategy
from swarm.strategies.operators.memory import Memory, best_of
from swarm.strategies.operators.transfer import sample_position
from swarm.strategies.operators.velocity import update_velocity

__all__ = ["BinarySwarm", "BinarySwarmStrategy", "propose_positions"]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]


@dataclass(frozen=True)
class BinarySwarm:
    """State of a swarm after `epoch` proposals.

    Attributes
    ----------
    position : bool (n_particles, n_units)
    velocity : float64 (n_particles, n_units)
    memory : Memory
        Pbests.
    """

    space: SearchSpace
    epoch: int
    position: Bool
    velocity: Float
    memory: Memory

    def __post_init__(self) -> None:
        self.position.setflags(write=False)
        self.velocity.setflags(write=False)

    @property
    def members(self) -> Members:
        """The pbests."""
        return Members(self.memory.masks, self.memory.costs, np.zeros(len(self.position), int))


def propose_positions(swarm: BinarySwarm, role: str) -> Proposal:
    """Propose the positions; the incumbent of each particle is its pbest."""
    n_particles = len(swarm.position)
    return Proposal(
        masks=swarm.position,
        incumbents=swarm.memory.costs,
        owner=np.arange(n_particles),
        role=(role if swarm.epoch > 0 else "init",) * n_particles,
    )


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
        ``"bernoulli"``: each unit with probability 0.5; ``"clusters"``: one unit of every cluster.
    """

    n_particles: int = 30
    c1: float = 2.0
    c2: float = 2.0
    velocity_bound: float = 6.0
    init: Literal["bernoulli", "clusters"] = "bernoulli"

    def __post_init__(self) -> None:
        require("n_particles", self.n_particles, at_least=1, at_most=MAX_POPULATION, whole=True)
        require("c1", self.c1, at_least=0)
        require("c2", self.c2, at_least=0)
        require("velocity_bound", self.velocity_bound, above=0)
        require("init", self.init, one_of=("bernoulli", "clusters"))

    uses_importances: ClassVar[bool] = False

    @property
    def needs(self) -> tuple[str, ...]:
        """Clusters, if the first positions are drawn from them."""
        return ("clusters",) if self.init == "clusters" else ()

    def fly(
        self, swarm: BinarySwarm, rng: np.random.Generator, inertia: float
    ) -> tuple[Bool, Float]:
        """Move every particle towards its pbest and the gbest.

        Returns
        -------
        position : bool (n_particles, n_units)
            Repaired.
        velocity : float64 (n_particles, n_units)

        References
        ----------
        Hafiz et al. (2018), equations 2 and 4; Kennedy and Eberhart (1997).
        """
        memory = swarm.memory
        velocity = update_velocity(
            swarm.velocity,
            swarm.position,
            memory.masks,
            np.broadcast_to(memory.masks[best_of(memory)], memory.masks.shape),
            rng,
            inertia=inertia,
            c1=self.c1,
            c2=self.c2,
            bound=self.velocity_bound,
        )
        return swarm.space.repair(sample_position(velocity, rng), rng), velocity
