"""Binary PSO whose inertia follows a chaotic map.

Source: Chuang, Yang and Li (2011), Chaotic maps based on binary particle swarm optimization for
feature selection; Hafiz et al. (2018), section 5.3 (logistic map,
``w(t+1) = 4 w(t) (1 - w(t))``, ``w(0)`` 0.48).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from swarm.checks import require
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Proposal
from swarm.strategies.operators.binary_swarm import BinarySwarm, BinarySwarmStrategy
from swarm.strategies.operators.initialise import place
from swarm.strategies.operators.memory import Memory

__all__ = ["ChaoticPso", "ChaoticSwarm", "logistic"]


def logistic(inertia: float) -> float:
    """Iterate the logistic map once with the parameter 4: ``4 w (1 - w)``."""
    return 4.0 * inertia * (1.0 - inertia)


@dataclass(frozen=True)
class ChaoticSwarm(BinarySwarm):
    """A swarm with a varying inertia.

    Attributes
    ----------
    inertia : float
        Inertia of the next step.
    """

    inertia: float = 0.0


@dataclass(frozen=True)
class ChaoticPso(BinarySwarmStrategy):
    """Binary PSO with an inertia from the logistic map (Chuang et al. 2011).

    Parameters
    ----------
    inertia
        Initial value, between 0 and 1. From 0, 0.25, 0.5, 0.75 and 1 the map is not chaotic.
    """

    inertia: float = 0.48

    def __post_init__(self) -> None:
        super().__post_init__()
        require("inertia", self.inertia, at_least=0, at_most=1)

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> ChaoticSwarm:
        """Place the particles; warm-start masks, if any, come first."""
        position = place(self.n_particles, self.init, space, hints, rng, strategy="chaotic")
        velocity, memory = np.zeros(position.shape), Memory.blank(position)
        return ChaoticSwarm(space, 0, position, velocity, memory, self.inertia)

    def propose(
        self, state: ChaoticSwarm, rng: np.random.Generator
    ) -> tuple[ChaoticSwarm, Proposal]:
        """Move every particle with the inertia of the epoch, and iterate the map."""
        if state.epoch > 0:
            moved = self.fly(state, rng, state.inertia)
            state = replace(moved, inertia=logistic(state.inertia))
        return self.propose_positions(state, "chaotic")
