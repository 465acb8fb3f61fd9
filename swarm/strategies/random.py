"""Random search over subsets of uniformly drawn sizes: the baseline of every comparison."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from swarm.arrays import Bool
from swarm.checks import MAX_POPULATION, require
from swarm.evaluation.types import Evaluations
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Proposal, Strategy
from swarm.strategies.operators.initialise import draw_sizes, of_sizes, warm_first
from swarm.strategies.operators.memory import (
    Memory,
    MemoryState,
    learn,
    propose_to_improve,
)


@dataclass(frozen=True)
class RandomSearchState(MemoryState):
    """The best masks so far, one for each position in a batch, and the warm-start masks."""

    warm: Bool | None


@dataclass(frozen=True)
class RandomSearch(Strategy):
    """Random subsets: a uniform size within the bounds, then units without replacement.

    Parameters
    ----------
    batch_size
        Masks per epoch, and number of best masks kept.
    """

    batch_size: int = 16

    def __post_init__(self) -> None:
        require("batch_size", self.batch_size, at_least=1, at_most=MAX_POPULATION, whole=True)

    uses_importances: ClassVar[bool] = False

    def start(
        self, space: SearchSpace, hints: Hints, rng: np.random.Generator
    ) -> RandomSearchState:
        """Start without any evaluated mask."""
        blank = space.repair(np.zeros((self.batch_size, space.n_units), dtype=bool), rng)
        warm = None if hints.warm is None else hints.warm.copy()
        return RandomSearchState(space, 0, Memory.blank(blank), warm)

    def propose(
        self, state: RandomSearchState, rng: np.random.Generator
    ) -> tuple[RandomSearchState, Proposal]:
        """Draw a batch; in the first epoch warm-start masks come first."""
        space = state.space
        masks = of_sizes(draw_sizes(self.batch_size, space, rng), space, rng)
        if state.epoch == 0:
            masks = warm_first(masks, state.warm, space, rng)
        proposal = propose_to_improve(state.memory, masks, "random")
        return replace(state, epoch=state.epoch + 1), proposal

    def observe(
        self, state: RandomSearchState, proposal: Proposal, evaluations: Evaluations
    ) -> RandomSearchState:
        """Keep the better mask of each position in the batch."""
        return replace(state, memory=learn(state.memory, proposal, evaluations))
