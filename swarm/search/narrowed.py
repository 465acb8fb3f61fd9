"""A strategy that searches some of the units, seen from outside as one of the whole table."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from swarm.arrays import Bool
from swarm.evaluation.types import Evaluations
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Members, Proposal, Strategy


@dataclass(frozen=True)
class NarrowedState:
    """State of a strategy on the units that are kept; `space` is that of the whole table."""

    space: SearchSpace
    mask: Bool
    inner: Any

    @property
    def members(self) -> Members:
        """The solutions of the strategy, as masks of the whole table."""
        members = self.inner.members
        return replace(members, masks=_widened(members.masks, self.mask))


@dataclass(frozen=True, eq=False)
class Narrowed(Strategy):
    """Run a strategy on only the units of `mask`, as one of the whole table.

    Evaluator, archive and results do not know of the restriction. `hints` are those of the kept
    units, without masks for a warm start.
    """

    strategy: Strategy
    mask: Bool
    hints: Hints

    def __post_init__(self) -> None:
        for name in Strategy.__annotations__:
            object.__setattr__(self, name, getattr(self.strategy, name))

    def evaluations_in(self, space: SearchSpace) -> tuple[int, int | None]:
        """Evaluations until the strategy finishes on the units that are kept."""
        return self.strategy.evaluations_in(space.restricted(self.mask))

    def epochs_in(self, space: SearchSpace) -> int | None:
        """Epochs until the strategy finishes on the units that are kept."""
        return self.strategy.epochs_in(space.restricted(self.mask))

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> NarrowedState:
        """Start the strategy on the kept units, with the warm-start masks of `hints`."""
        warm = hints.warm
        if warm is not None:
            warm = warm[:, self.mask]
            warm = warm[warm.any(axis=1)]
        hints_of_units = replace(self.hints, warm=warm)
        inner = self.strategy.start(space.restricted(self.mask), hints_of_units, rng)
        return NarrowedState(space, self.mask, inner)

    def propose(
        self, state: NarrowedState, rng: np.random.Generator
    ) -> tuple[NarrowedState, Proposal]:
        """Widen the masks of the strategy."""
        inner, proposal = self.strategy.propose(state.inner, rng)
        widened = replace(proposal, masks=_widened(proposal.masks, self.mask))
        return replace(state, inner=inner), widened

    def observe(
        self, state: NarrowedState, proposal: Proposal, evaluations: Evaluations
    ) -> NarrowedState:
        """Pass on the columns of the units that are kept."""
        mask = self.mask
        proposal = replace(proposal, masks=proposal.masks[:, mask])
        evaluations = replace(
            evaluations,
            importances=evaluations.importances[:, mask],
            used=evaluations.used[:, mask],
        )
        return replace(state, inner=self.strategy.observe(state.inner, proposal, evaluations))

    def finished(self, state: NarrowedState) -> bool:
        """Whether the strategy is complete."""
        return self.strategy.finished(state.inner)


def _widened(masks: Bool, mask: Bool) -> Bool:
    whole = np.zeros((len(masks), len(mask)), dtype=bool)
    whole[:, mask] = masks
    return whole
