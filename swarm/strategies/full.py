"""The full set of allowed units: the baseline without selection."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from swarm.evaluation.types import Evaluations
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Members, Proposal, Strategy
from swarm.strategies.operators.memory import Memory, remember

__all__ = ["FullSet", "FullSetState"]


@dataclass(frozen=True)
class FullSetState:
    """The full mask, and whether it was proposed."""

    space: SearchSpace
    memory: Memory
    proposed: bool

    @property
    def members(self) -> Members:
        """The full mask."""
        return Members(self.memory.masks, self.memory.costs, np.zeros(1, dtype=np.int64))


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

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> FullSetState:
        """Select every allowed unit."""
        mask = space.repair(np.ones((1, space.n_units), dtype=bool), rng)
        return FullSetState(space, Memory.blank(mask), proposed=False)

    def propose(
        self, state: FullSetState, rng: np.random.Generator
    ) -> tuple[FullSetState, Proposal]:
        """Propose the full mask."""
        proposal = Proposal.plain(state.memory.masks, "full")
        return replace(state, proposed=True), proposal

    def observe(
        self, state: FullSetState, proposal: Proposal, evaluations: Evaluations
    ) -> FullSetState:
        """Store its cost."""
        memory = remember(
            state.memory,
            np.zeros(len(proposal.masks), dtype=np.int64),
            proposal.masks,
            evaluations.costs,
            evaluations.importances,
        )
        return replace(state, memory=memory)

    def finished(self, state: FullSetState) -> bool:
        """Whether the mask was proposed."""
        return state.proposed
