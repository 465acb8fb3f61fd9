"""Continuous PSO with mixed initial sizes, PSO(4-2)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from swarm.checks import require
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.operators.continuous_swarm import (
    ContinuousSwarm,
    ContinuousSwarmStrategy,
    coordinates,
)
from swarm.strategies.operators.initialise import of_sizes, warm_first


@dataclass(frozen=True)
class MixedStartPso(ContinuousSwarmStrategy):
    """Continuous PSO with mixed initial sizes, PSO(4-2) (Xue et al. 2014).

    Of subsets of equal cost it prefers the smaller one.

    Source: Xue, Zhang and Browne (2014), Particle swarm optimisation for feature selection in
    classification: novel initialisation and updating mechanisms; parameters of Hafiz et al. (2018),
    table 2. Two thirds of the particles start small, with a tenth of the units, the others large,
    with a random number of more than half of them (mixed initialisation). A pbest is replaced by a
    lower cost, or by an equal cost with fewer units. Our choices where the papers are silent:
    velocities start at zero; the small size is rounded up.

    Parameters
    ----------
    small_share
        Fraction of the particles that start small.
    small_size
        Fraction of the units that they start with; the others start with more than half.
    """

    small_share: float = 2 / 3
    small_size: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        require("small_share", self.small_share, at_least=0, at_most=1)
        require("small_size", self.small_size, above=0, at_most=1)

    role: ClassVar[str] = "pso42"
    smaller_wins: ClassVar[bool] = True

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> ContinuousSwarm:
        """Draw small and large initial masks; warm-start masks, if any, come first."""
        n_units = space.n_units
        n_small = round(self.small_share * self.n_particles)
        size = rng.integers(n_units // 2 + 1, n_units + 1, self.n_particles)
        size[:n_small] = max(1, np.ceil(self.small_size * n_units))
        masks = warm_first(of_sizes(size, space, rng), hints.warm, space, rng)
        return self.settle(space, masks, coordinates(masks, self.threshold, rng))
