"""Swarms of continuous positions: a unit is selected if its coordinate exceeds a threshold."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from swarm.arrays import Bool, Float
from swarm.checks import MAX_POPULATION, require
from swarm.evaluation.types import Evaluations
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Proposal, Strategy
from swarm.strategies.operators.memory import (
    Memory,
    MemoryState,
    best_of,
    improves,
    propose_to_improve,
)
from swarm.strategies.operators.steps import VelocityWeights, update_velocity


def coordinates(masks: Bool, threshold: float, rng: np.random.Generator) -> Float:
    """Draw coordinates in [0, 1] that select exactly the units of `masks` (n, n_units)."""
    drawn = rng.random(masks.shape)
    # 1 - r is above 0, so a selected unit is never at the threshold itself.
    return np.where(masks, threshold + (1.0 - threshold) * (1.0 - drawn), threshold * drawn)


@dataclass(frozen=True)
class ContinuousSwarm(MemoryState):
    """A swarm and its pbests; each array is (n_particles, n_units).

    Attributes
    ----------
    masks : bool
        Units that the positions select, repaired.
    position, velocity : float64
    best_position : float64
        Positions of the pbests.
    """

    masks: Bool
    position: Float
    velocity: Float
    best_position: Float


@dataclass(frozen=True)
class ContinuousSwarmStrategy(Strategy):
    """Base class of continuous swarms: shared parameters and the position update.

    Subclasses set `role`, the role of their masks after the first epoch, and `smaller_wins`,
    whether fewer units win a tie between costs.

    Parameters
    ----------
    n_particles
        Size of the swarm.
    inertia, c1, c2
        Weights of the velocity update; velocities are unbounded.
    threshold
        A unit is selected if its coordinate exceeds this.
    """

    n_particles: int = 30
    inertia: float = 0.729
    c1: float = 1.49
    c2: float = 1.49
    threshold: float = 0.6

    def __post_init__(self) -> None:
        require("n_particles", self.n_particles, at_least=1, at_most=MAX_POPULATION, whole=True)
        for name in ("inertia", "c1", "c2"):
            require(name, getattr(self, name), at_least=0)
        require("threshold", self.threshold, at_least=0, below=1)

    uses_importances: ClassVar[bool] = False
    role: ClassVar[str]
    smaller_wins: ClassVar[bool]

    def settle(self, space: SearchSpace, masks: Bool, position: Float) -> ContinuousSwarm:
        """Return the first state of a swarm at `position`, which selects `masks`."""
        return ContinuousSwarm(
            space=space,
            epoch=0,
            memory=Memory.blank(masks),
            masks=masks,
            position=position,
            velocity=np.zeros(position.shape),
            best_position=position,
        )

    def fly(self, swarm: ContinuousSwarm, rng: np.random.Generator) -> ContinuousSwarm:
        """Move every particle by its velocity within [0, 1] (Hafiz et al. 2018, eq. 2 and 3)."""
        pbest = swarm.best_position
        gbest = np.broadcast_to(pbest[best_of(swarm.memory)], pbest.shape)
        velocity = update_velocity(
            swarm.velocity,
            swarm.position,
            pbest=pbest,
            leader=gbest,
            weights=VelocityWeights(self.inertia, self.c1, self.c2),
            rng=rng,
        )
        position = np.clip(swarm.position + velocity, 0.0, 1.0)
        masks = swarm.space.repair(position > self.threshold, rng)
        return replace(swarm, position=position, velocity=velocity, masks=masks)

    def propose(
        self, state: ContinuousSwarm, rng: np.random.Generator
    ) -> tuple[ContinuousSwarm, Proposal]:
        """Move every particle towards its pbest and the gbest."""
        role = "init"
        if state.epoch > 0:
            role = self.role
            state = self.fly(state, rng)
        proposal = propose_to_improve(state.memory, state.masks, role)
        return replace(state, epoch=state.epoch + 1), proposal

    def observe(
        self, state: ContinuousSwarm, proposal: Proposal, evaluations: Evaluations
    ) -> ContinuousSwarm:
        """Update the pbests by cost, then by size if `smaller_wins`."""
        memory = state.memory
        masks = state.masks
        costs = evaluations.costs
        is_better = costs < memory.costs
        if self.smaller_wins:
            is_better = improves(costs, masks.sum(axis=1), memory.costs, memory.masks.sum(axis=1))
        rows = is_better[:, None]
        return replace(
            state,
            best_position=np.where(rows, state.position, state.best_position),
            memory=Memory(
                np.where(rows, masks, memory.masks),
                np.where(is_better, costs, memory.costs),
                np.where(rows, evaluations.importances, memory.importances),
            ),
        )
