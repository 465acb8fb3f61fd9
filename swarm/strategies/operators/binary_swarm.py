"""Binary particle swarms: their state, their parameters and the move of a particle."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from swarm.arrays import Bool, Float
from swarm.checks import MAX_POPULATION, require
from swarm.evaluation.types import Evaluations
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Proposal, Strategy
from swarm.strategies.operators.initialise import hints_to_place, place
from swarm.strategies.operators.memory import (
    Memory,
    MemoryState,
    best_of,
    learn,
    propose_to_improve,
)
from swarm.strategies.operators.steps import STEPS, Particles, Step, VelocityWeights


@dataclass(frozen=True)
class BinarySwarm(MemoryState):
    """A swarm and its pbests.

    Attributes
    ----------
    position : bool (n_particles, n_units)
    velocity : float64 (n_particles, n_units)
    inertia : float
        Inertia of the next step.
    stalled : int
        Catfish: epochs since the gbest improved, or since the last restart.
    """

    position: Bool
    velocity: Float
    inertia: float
    stalled: int = 0


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
    inertia
        Weight of the previous velocity.
    """

    n_particles: int = 30
    c1: float = 2.0
    c2: float = 2.0
    velocity_bound: float = 6.0
    init: Literal["bernoulli", "clusters", "ranked"] = "bernoulli"
    inertia: float = 1.0

    def __post_init__(self) -> None:
        require("n_particles", self.n_particles, at_least=1, at_most=MAX_POPULATION, whole=True)
        for name in ("c1", "c2", "inertia"):
            require(name, getattr(self, name), at_least=0)
        require("velocity_bound", self.velocity_bound, above=0)
        require("init", self.init, one_of=("bernoulli", "clusters", "ranked"))

    uses_importances: ClassVar[bool] = False
    # Errors name the strategy as the catalogue does.
    name: ClassVar[str]

    @property
    def needs(self) -> tuple[str, ...]:
        """Hints for the first positions."""
        return hints_to_place(self.init)

    @property
    def _step(self) -> Step:
        return "bpso"

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> BinarySwarm:
        """Place the particles; warm-start masks, if any, come first."""
        position = place(self.n_particles, self.init, space, hints, rng, strategy=self.name)
        return BinarySwarm(
            space=space,
            epoch=0,
            memory=Memory.blank(position),
            position=position,
            velocity=np.zeros(position.shape),
            inertia=self.inertia,
        )

    def propose(self, state: BinarySwarm, rng: np.random.Generator) -> tuple[BinarySwarm, Proposal]:
        """Move every particle, from the second epoch on."""
        role = "init"
        if state.epoch > 0:
            role = self._step
            state = self.moved(state, rng)
        proposal = propose_to_improve(state.memory, state.position, role)
        return replace(state, epoch=state.epoch + 1), proposal

    def moved(self, swarm: BinarySwarm, rng: np.random.Generator) -> BinarySwarm:
        """Move every particle towards its pbest and the gbest, and repair the positions."""
        # Source: Hafiz et al. (2018), equations 2 and 4; Kennedy and Eberhart (1997).
        pbest = swarm.memory.masks
        gbest = np.broadcast_to(pbest[best_of(swarm.memory)], pbest.shape)
        particles = Particles(swarm.position, pbest, gbest, swarm.velocity, swarm.space)
        weights = VelocityWeights(swarm.inertia, self.c1, self.c2, self.velocity_bound)
        position, velocity = STEPS[self._step](particles, weights, rng)
        return replace(swarm, position=swarm.space.repair(position, rng), velocity=velocity)

    def observe(
        self, state: BinarySwarm, proposal: Proposal, evaluations: Evaluations
    ) -> BinarySwarm:
        """Update the pbests."""
        return replace(state, memory=learn(state.memory, proposal, evaluations))
