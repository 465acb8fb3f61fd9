"""Continuous PSO with a threshold, ErFS."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.operators.continuous_swarm import (
    ContinuousSwarm,
    ContinuousSwarmStrategy,
    coordinates,
)
from swarm.strategies.operators.initialise import warm_first


@dataclass(frozen=True)
class ErrorRatePso(ContinuousSwarmStrategy):
    """Continuous PSO with a threshold, ErFS (Hafiz et al. 2018).

    Guided by the error rate alone.

    Source: Hafiz et al. (2018), section 2.3 and table 2 (positions in [0, 1], threshold 0.6,
    inertia 0.729, c1 = c2 = 1.49, no velocity bound); Lin, Ying, Chen and Lee (2008), Particle
    swarm optimization for parameter determination and feature selection of support vector machines;
    Xue, Zhang and Browne (2013), Particle swarm optimization for feature selection in
    classification: a multi-objective approach. Our choices where the papers are silent: positions
    start uniform in [0, 1], velocities at zero; only a lower cost replaces a pbest; of equal pbests
    the one with the fewest units is the gbest.
    """

    role: ClassVar[str] = "erfs"
    smaller_wins: ClassVar[bool] = False

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> ContinuousSwarm:
        """Draw positions uniformly; warm-start masks, if any, come first."""
        uniform = rng.random((self.n_particles, space.n_units))
        drawn = space.repair(uniform > self.threshold, rng)
        masks = warm_first(drawn, hints.warm, space, rng)
        is_unchanged = (masks == (uniform > self.threshold)).all(axis=1)
        position = np.where(is_unchanged[:, None], uniform, coordinates(masks, self.threshold, rng))
        return self.settle(space, masks, position)
