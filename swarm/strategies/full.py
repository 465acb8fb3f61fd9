"""The full set of allowed units: the baseline without selection."""

from dataclasses import dataclass

import numpy as np

from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.operators.memory import Memory, MemoryState
from swarm.strategies.operators.single import SingleMaskStrategy


@dataclass(frozen=True)
class FullSet(SingleMaskStrategy):
    """All allowed units, evaluated once; with `max_size`, a random subset of that size."""

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> MemoryState:
        """Select every allowed unit."""
        mask = space.repair(np.ones((1, space.n_units), dtype=bool), rng)
        return MemoryState(space, 0, Memory.blank(mask))
