"""Binary PSO with the catfish effect: a stalled swarm restarts particles at the extremes.

Source: Chuang, Tsai and Yang (2011), Improved binary particle swarm optimization using catfish
effect for feature selection; parameters of Hafiz et al. (2018), section 5.3 and table 2 (a tenth
of the particles, gap of 3). Our choices where the papers are silent: the worst particles are
those with the worst pbests, which they keep; each restarts with zero velocity at all units or at
none, with probability 0.5, and "none" is repaired to the smallest allowed size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from swarm.checks import require
from swarm.evaluation.types import Evaluations
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Proposal
from swarm.strategies.operators.binary_swarm import BinarySwarm, BinarySwarmStrategy
from swarm.strategies.operators.initialise import place
from swarm.strategies.operators.memory import Memory, best_of, learn

__all__ = ["CatfishPso", "CatfishSwarm"]


@dataclass(frozen=True)
class CatfishSwarm(BinarySwarm):
    """A swarm that counts how long its gbest has not improved.

    Attributes
    ----------
    stalled : int
        Epochs since the gbest improved, or since the last catfish restart.
    """

    stalled: int = 0


@dataclass(frozen=True)
class CatfishPso(BinarySwarmStrategy):
    """Binary PSO that restarts its worst particles at the extremes (Chuang et al. 2011).

    Parameters
    ----------
    inertia
        Weight of the previous velocity.
    share
        Fraction of the particles that restart, at least one particle.
    refresh_gap
        Epochs without a better gbest before they restart; 0 for never.
    """

    inertia: float = 1.0
    share: float = 0.1
    refresh_gap: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        require("inertia", self.inertia, at_least=0)
        require("share", self.share, above=0, at_most=1)
        require("refresh_gap", self.refresh_gap, at_least=0, whole=True)

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> CatfishSwarm:
        """Place the particles; warm-start masks, if any, come first."""
        position = place(self.n_particles, self.init, space, hints, rng, strategy="catfish")
        return CatfishSwarm(space, 0, position, np.zeros(position.shape), Memory.blank(position))

    def propose(
        self, state: CatfishSwarm, rng: np.random.Generator
    ) -> tuple[CatfishSwarm, Proposal]:
        """Move every particle, and restart the worst if the gbest has stalled."""
        if state.epoch > 0:
            state = self.fly(state, rng, self.inertia)
            if 0 < self.refresh_gap <= state.stalled:
                state = self._stirred(state, rng)
        return self.propose_positions(state, "catfish")

    def _stirred(self, state: CatfishSwarm, rng: np.random.Generator) -> CatfishSwarm:
        count = max(1, round(self.share * self.n_particles))
        size = state.memory.masks.sum(axis=1)
        worst = np.lexsort((size, state.memory.costs))[-count:]
        position, velocity = state.position.copy(), state.velocity.copy()
        extremes = np.broadcast_to(rng.random((count, 1)) < 0.5, (count, position.shape[1]))
        position[worst] = state.space.repair(extremes, rng)
        velocity[worst] = 0.0
        return replace(state, position=position, velocity=velocity, stalled=0)

    def observe(
        self, state: CatfishSwarm, proposal: Proposal, evaluations: Evaluations
    ) -> CatfishSwarm:
        """Update the pbests, and count epochs without a better gbest."""
        memory = learn(state.memory, proposal, evaluations)
        better = memory.costs[best_of(memory)] < state.memory.costs[best_of(state.memory)]
        return replace(state, memory=memory, stalled=0 if better else state.stalled + 1)
