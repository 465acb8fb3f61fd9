"""Binary particle swarm optimisation, one swarm, plain.

Source: document 000, sections 2 and 3; document 002 for the parameters (30 particles,
inertia 1, c1 = c2 = 2, velocities in [-6, 6]); Kennedy and Eberhart (1997). Where the
documents are silent: initial velocities are zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from swarm.checks import require
from swarm.evaluation.types import Evaluations
from swarm.operators.initialise import bernoulli, one_per_cluster, warm_first
from swarm.operators.memory import Memory, learn
from swarm.operators.transfer import sample_position
from swarm.operators.velocity import update_velocity
from swarm.space import SearchSpace
from swarm.strategy import Hints, Members, Proposal

__all__ = ["BinaryPso", "BinaryPsoState"]


@dataclass(frozen=True)
class BinaryPsoState:
    """State of the swarm after `epoch` proposals.

    Attributes
    ----------
    position : bool (n_particles, n_units)
    velocity : float64 (n_particles, n_units)
    memory : Memory
        Pbests.
    """

    space: SearchSpace
    epoch: int
    position: NDArray[np.bool_]
    velocity: NDArray[np.float64]
    memory: Memory

    def __post_init__(self) -> None:
        self.position.setflags(write=False)
        self.velocity.setflags(write=False)

    @property
    def members(self) -> Members:
        """The pbests."""
        memory = self.memory
        return Members(memory.masks, memory.costs, np.zeros(len(memory.costs), dtype=np.int64))


@dataclass(frozen=True)
class BinaryPso:
    """Binary PSO (documents 000 and 002).

    Parameters
    ----------
    n_particles
    inertia, c1, c2
        Weights of the velocity update.
    velocity_bound
        Velocities are clamped to ``[-velocity_bound, velocity_bound]``.
    init
        ``"bernoulli"``: each unit with 0.5; ``"clusters"``: one unit of every cluster.
    """

    n_particles: int = 30
    inertia: float = 1.0
    c1: float = 2.0
    c2: float = 2.0
    velocity_bound: float = 6.0
    init: Literal["bernoulli", "clusters"] = "bernoulli"

    def __post_init__(self) -> None:
        require("n_particles", self.n_particles, at_least=1, whole=True)
        require("inertia", self.inertia, at_least=0)
        require("c1", self.c1, at_least=0)
        require("c2", self.c2, at_least=0)
        require("velocity_bound", self.velocity_bound, above=0)
        require("init", self.init, one_of=("bernoulli", "clusters"))

    @property
    def needs(self) -> tuple[str, ...]:
        """Clusters, where the first positions come from them."""
        return ("clusters",) if self.init == "clusters" else ()

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> BinaryPsoState:
        """Place the particles; warm-start masks first where given."""
        if self.init == "clusters":
            clusters = hints.need("clusters", "bpso")
            position = one_per_cluster(self.n_particles, space, clusters, rng)
        else:
            position = bernoulli(self.n_particles, space, rng)
        position = warm_first(position, hints.warm, space, rng)
        return BinaryPsoState(space, 0, position, np.zeros(position.shape), Memory.blank(position))

    def propose(
        self, state: BinaryPsoState, rng: np.random.Generator
    ) -> tuple[BinaryPsoState, Proposal]:
        """Move every particle towards its pbest and the gbest."""
        memory = state.memory
        if state.epoch > 0:
            gbest = np.lexsort((memory.masks.sum(axis=1), memory.costs))[0]
            velocity = update_velocity(
                state.velocity,
                state.position,
                memory.masks,
                np.broadcast_to(memory.masks[gbest], memory.masks.shape),
                rng,
                inertia=self.inertia,
                c1=self.c1,
                c2=self.c2,
                bound=self.velocity_bound,
            )
            position = state.space.repair(sample_position(velocity, rng), rng)
            state = replace(state, position=position, velocity=velocity)
        role = "bpso" if state.epoch > 0 else "init"
        proposal = Proposal(
            masks=state.position,
            incumbents=memory.costs,
            owner=np.arange(self.n_particles),
            role=(role,) * self.n_particles,
        )
        return replace(state, epoch=state.epoch + 1), proposal

    def observe(
        self, state: BinaryPsoState, proposal: Proposal, evaluations: Evaluations
    ) -> BinaryPsoState:
        """Update the pbests."""
        return replace(state, memory=learn(state.memory, proposal, evaluations))

    def finished(self, state: BinaryPsoState) -> bool:
        """Never: a budget ends the search."""
        return False
