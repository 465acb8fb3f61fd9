"""Binary PSO that restarts its worst particles at the extremes."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from swarm.checks import require
from swarm.evaluation.types import Evaluations
from swarm.strategies.base import Proposal
from swarm.strategies.operators.binary_swarm import BinarySwarm, BinarySwarmStrategy
from swarm.strategies.operators.memory import best_of, learn


@dataclass(frozen=True)
class CatfishPso(BinarySwarmStrategy):
    """Binary PSO that restarts its worst particles at the extremes (Chuang et al. 2011).

    Source: Chuang, Tsai and Yang (2011), Improved binary particle swarm optimization using catfish
    effect for feature selection; parameters of Hafiz et al. (2018), section 5.3 and table 2 (a
    tenth of the particles, gap of 3). Our choices where the papers are silent: the worst particles
    are those with the worst pbests, which they keep; each restarts with zero velocity at all units
    or at none, with probability 0.5, and "none" is repaired to the smallest allowed size.

    Parameters
    ----------
    share
        Fraction of the particles that restart, at least one particle.
    refresh_gap
        Epochs without a better gbest before they restart; 0 for never.
    """

    share: float = 0.1
    refresh_gap: int = 3

    name: ClassVar[str] = "catfish"

    def __post_init__(self) -> None:
        super().__post_init__()
        require("share", self.share, above=0, at_most=1)
        require("refresh_gap", self.refresh_gap, at_least=0, whole=True)

    def moved(self, swarm: BinarySwarm, rng: np.random.Generator) -> BinarySwarm:
        """Move every particle, and restart the worst if the gbest has stalled."""
        swarm = super().moved(swarm, rng)
        if not 0 < self.refresh_gap <= swarm.stalled:
            return swarm
        count = max(1, round(self.share * self.n_particles))
        size = swarm.memory.masks.sum(axis=1)
        worst = np.lexsort((size, swarm.memory.costs))[-count:]
        position = swarm.position.copy()
        velocity = swarm.velocity.copy()
        extremes = np.broadcast_to(rng.random((count, 1)) < 0.5, (count, position.shape[1]))
        position[worst] = swarm.space.repair(extremes, rng)
        velocity[worst] = 0.0
        return replace(swarm, position=position, velocity=velocity, stalled=0)

    def observe(
        self, state: BinarySwarm, proposal: Proposal, evaluations: Evaluations
    ) -> BinarySwarm:
        """Update the pbests, and count epochs without a better gbest."""
        memory = learn(state.memory, proposal, evaluations)
        better = memory.costs[best_of(memory)] < state.memory.costs[best_of(state.memory)]
        return replace(state, memory=memory, stalled=0 if better else state.stalled + 1)
