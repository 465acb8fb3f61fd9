"""The contract between a search algorithm and everything around it.

A strategy proposes masks and observes what they cost; it never evaluates, and it never
draws a random number that was not handed to it. The driver (:mod:`swarm.search.driver`) calls::

    state = strategy.start(space, hints, rng)                 # once
    while not strategy.finished(state):
        state, proposal = strategy.propose(state, rng)        # all other randomness
        state = strategy.observe(state, proposal, evaluations)  # deterministic
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from swarm.evaluation.types import Evaluations
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace

__all__ = ["Members", "Proposal", "State", "Strategy", "uses_importances"]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]


@dataclass(frozen=True)
class Proposal:
    """Masks to evaluate, in any number.

    Attributes
    ----------
    masks : bool (n, n_units)
        Obeying every constraint of the space.
    incumbents : float64 (n,)
        The cost each mask must reach to matter to the strategy. The cost of a mask that is
        worse is reported as inf, so that its training can stop early. inf: always exact.
    owner : int (n,)
        The member each mask belongs to, -1 for none.
    role : tuple of str, length n
        What produced each mask, for the record: ``"leader"``, ``"bpso"``, ...
    """

    masks: Bool
    incumbents: Float
    owner: Int
    role: tuple[str, ...]

    def __post_init__(self) -> None:
        for array in (self.masks, self.incumbents, self.owner):
            array.setflags(write=False)

    @classmethod
    def plain(cls, masks: Bool, role: str) -> Proposal:
        """Masks without owner whose exact cost is wanted."""
        n = len(masks)
        return cls(masks, np.full(n, np.inf), np.full(n, -1), (role,) * n)


@dataclass(frozen=True)
class Members:
    """The solutions a strategy holds: pbests of a swarm, a population, the best so far.

    Attributes
    ----------
    masks : bool (n_members, n_units)
    costs : float64 (n_members,)
        Measured cost of exactly these masks; inf where nothing was measured yet.
    group : int (n_members,)
        Subswarm of each member, 0 where there are none.
    answer : int or None
        The member that is the answer, where the strategy has a rule of its own; None: the
        cheapest subset that the search has seen.
    """

    masks: Bool
    costs: Float
    group: Int
    answer: int | None = None


class State(Protocol):
    """A frozen dataclass of read-only arrays; the next state is made by ``replace``."""

    @property
    def space(self) -> SearchSpace:
        """The space the search moves in."""

    @property
    def members(self) -> Members:
        """The solutions held now."""


class Strategy(Protocol):
    """A search algorithm: stateless, its parameters a frozen dataclass."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the hints without which it cannot start."""

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> Any:
        """Make the first state. Called once, before the first proposal."""

    def propose(self, state: Any, rng: np.random.Generator) -> tuple[Any, Proposal]:
        """Propose masks. Called once an epoch; the state returned goes to `observe`."""

    def observe(self, state: Any, proposal: Proposal, evaluations: Evaluations) -> Any:
        """Take in the costs of the proposal, row by row. Must not draw random numbers."""

    def finished(self, state: Any) -> bool:
        """Whether there is nothing left to propose; a budget may end the search earlier."""


def uses_importances(strategy: Strategy) -> bool:
    """Whether a strategy reads the importances and used units of its evaluations.

    Assumed of any strategy whose class does not set ``uses_importances = False``.
    """
    return bool(getattr(strategy, "uses_importances", True))
