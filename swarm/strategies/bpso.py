"""Plain binary particle swarm optimisation with one swarm, with a choice of steps.

Source: Kennedy and Eberhart (1997), A discrete binary version of the particle swarm algorithm;
parameters of Hafiz et al. (2018): 30 particles, inertia 1, c1 = c2 = 2, velocities in [-6, 6].
Our choice where the papers are silent: initial velocities are zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swarm.checks import require
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Proposal
from swarm.strategies.operators.binary_swarm import BinarySwarm, BinarySwarmStrategy
from swarm.strategies.operators.initialise import place
from swarm.strategies.operators.memory import Memory
from swarm.strategies.operators.steps import Step, check_step

__all__ = ["BinaryPso"]


@dataclass(frozen=True)
class BinaryPso(BinarySwarmStrategy):
    """Binary PSO (Kennedy and Eberhart 1997).

    Parameters
    ----------
    inertia
        Weight of the previous velocity.
    step
        How particles move: ``"bpso"``, by velocities and a sigmoid; ``"v_shaped"``, by velocities
        and ``|tanh(v)|``, which flips bits; ``"sticky"``, by flip probabilities, where bits that
        flipped lately tend to stay; ``"recombine"``, uniform crossover of pbest and gbest, one
        unit dropped and one added on average. The last two have no velocities.

    References
    ----------
    Steps: Kennedy and Eberhart (1997); Nezamabadi-pour et al. (2008); Nguyen et al. (2021);
    Syswerda (1989).
    """

    inertia: float = 1.0
    step: Step = "bpso"

    def __post_init__(self) -> None:
        super().__post_init__()
        require("inertia", self.inertia, at_least=0)
        check_step(self, self.step)

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> BinarySwarm:
        """Place the particles; warm-start masks, if any, come first."""
        position = place(self.n_particles, self.init, space, hints, rng, strategy="bpso")
        return BinarySwarm(space, 0, position, np.zeros(position.shape), Memory.blank(position))

    def propose(self, state: BinarySwarm, rng: np.random.Generator) -> tuple[BinarySwarm, Proposal]:
        """Move every particle towards its pbest and the gbest."""
        if state.epoch > 0:
            state = self.fly(state, rng, self.inertia, self.step)
        return self.propose_positions(state, "bpso")
