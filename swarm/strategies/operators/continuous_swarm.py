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
    """A swarm and its pbests; each array is (n_particles, n_units)."""

    masks: Bool  # units that the positions select, repaired
    position: Float
    velocity: Float
    best_position: Float  # positions of the pbests


@dataclass(frozen=True)
class ContinuousSwarmStrategy(Strategy):
    """Base class of continuous swarms: shared parameters and the position update.

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
    role: ClassVar[str]  # of the masks after the first epoch, see Proposal
    smaller_wins: ClassVar[bool]  # whether fewer units win a tie between costs

    def settle(self, space: SearchSpace, masks: Bool, position: Float) -> ContinuousSwarm:
        """Return the first state of a swarm at `position`, which selects `masks`."""
        memory, velocity = Memory.blank(masks), np.zeros(position.shape)
        return ContinuousSwarm(
            space=space,
            epoch=0,
            memory=memory,
            masks=masks,
            position=position,
            velocity=velocity,
            best_position=position,
        )

    def fly(self, swarm: ContinuousSwarm, rng: np.random.Generator) -> ContinuousSwarm:
        """Move every particle by its velocity within [0, 1] (Hafiz et al. 2018, eq. 2 and 3)."""
        best, weights = swarm.best_position, VelocityWeights(self.inertia, self.c1, self.c2)
        gbest = np.broadcast_to(best[best_of(swarm.memory)], best.shape)
        velocity = update_velocity(
            swarm.velocity, swarm.position, pbest=best, leader=gbest, weights=weights, rng=rng
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
            state, role = self.fly(state, rng), self.role
        proposal = propose_to_improve(state.memory, state.masks, role)
        return replace(state, epoch=state.epoch + 1), proposal

    def observe(
        self, state: ContinuousSwarm, proposal: Proposal, evaluations: Evaluations
    ) -> ContinuousSwarm:
        """Update the pbests by cost, then by size if `smaller_wins`."""
        memory, masks, costs = state.memory, state.masks, evaluations.costs
        won = costs < memory.costs
        if self.smaller_wins:
            won = improves(costs, masks.sum(axis=1), memory.costs, memory.masks.sum(axis=1))
        row = won[:, None]
        return replace(
            state,
            best_position=np.where(row, state.position, state.best_position),
            memory=Memory(
                np.where(row, masks, memory.masks),
                np.where(won, costs, memory.costs),
                np.where(row, evaluations.importances, memory.importances),
            ),
        )
