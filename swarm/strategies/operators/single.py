"""Strategies that propose one mask, which they start from."""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from swarm.evaluation.types import Evaluations
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Proposal, Strategy
from swarm.strategies.operators.memory import MemoryState, learn


class SingleMaskStrategy(Strategy):
    """One mask, evaluated in the only epoch; subclasses choose it in `start`.

    Attributes
    ----------
    owns_mask : bool
        Whether the mask is recorded as that of its only member. Default: False.
    """

    uses_importances: ClassVar[bool] = False
    is_deterministic: ClassVar[bool] = True
    ends_by_itself: ClassVar[bool] = True
    takes_warm_start: ClassVar[bool] = False
    owns_mask: ClassVar[bool] = False

    def evaluations_in(self, space: SearchSpace) -> tuple[int, int]:
        """One evaluation."""
        return 1, 1

    def epochs_in(self, space: SearchSpace) -> int:
        """One epoch."""
        return 1

    def propose(self, state: MemoryState, rng: np.random.Generator) -> tuple[MemoryState, Proposal]:
        """Propose the mask."""
        proposal = Proposal.plain(state.memory.masks, "full", owned=self.owns_mask)
        return replace(state, epoch=state.epoch + 1), proposal

    def observe(
        self, state: MemoryState, proposal: Proposal, evaluations: Evaluations
    ) -> MemoryState:
        """Store its cost."""
        owned = replace(proposal, owner=np.zeros(len(proposal.masks), dtype=np.int64))
        return replace(state, memory=learn(state.memory, owned, evaluations))

    def finished(self, state: MemoryState) -> bool:
        """Whether the mask was proposed."""
        return state.epoch > 0
