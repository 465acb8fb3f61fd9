"""The full set of allowed units: the baseline without selection."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from swarm.evaluation.types import Evaluations
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Proposal, Strategy
from swarm.strategies.operators.memory import Memory, MemoryState, learn


@dataclass(frozen=True)
class FullSet(Strategy):
    """All allowed units, evaluated once; with `max_size`, a random subset of that size."""

    uses_importances: ClassVar[bool] = False
    is_deterministic: ClassVar[bool] = True
    ends_by_itself: ClassVar[bool] = True
    takes_warm_start: ClassVar[bool] = False

    def evaluations_in(self, space: SearchSpace) -> tuple[int, int]:
        """Exactly one."""
        return 1, 1

    def epochs_in(self, space: SearchSpace) -> int:
        """Exactly one."""
        return 1

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> MemoryState:
        """Select every allowed unit."""
        mask = space.repair(np.ones((1, space.n_units), dtype=bool), rng)
        return MemoryState(space, 0, Memory.blank(mask))

    def propose(self, state: MemoryState, rng: np.random.Generator) -> tuple[MemoryState, Proposal]:
        """Propose the full mask."""
        return replace(state, epoch=state.epoch + 1), Proposal.plain(state.memory.masks, "full")

    def observe(
        self, state: MemoryState, proposal: Proposal, evaluations: Evaluations
    ) -> MemoryState:
        """Store its cost."""
        owned = replace(proposal, owner=np.zeros(len(proposal.masks), dtype=np.int64))
        return replace(state, memory=learn(state.memory, owned, evaluations))

    def finished(self, state: MemoryState) -> bool:
        """Whether the mask was proposed."""
        return state.epoch > 0
