"""The contract between a search algorithm and everything around it.

A strategy proposes masks and observes what they cost; it never evaluates, and it never
draws a random number that was not handed to it. The driver (:mod:`swarm.search.driver`) calls::

    state = strategy.start(space, hints, rng)                 # once
    while not strategy.finished(state):
        state, proposal = strategy.propose(state, rng)        # all other randomness
        state = strategy.observe(state, proposal, evaluations)  # deterministic
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from swarm.evaluation.types import Evaluations
from swarm.problem.hints import TARGET_HINTS, Hints
from swarm.problem.space import SearchSpace

__all__ = ["Members", "Proposal", "State", "Strategy"]

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


class Strategy(ABC):
    """A search algorithm: stateless, its parameters the fields of a frozen dataclass.

    What others have to know about an algorithm stands in attributes of its class; a class that
    says nothing has the defaults.

    Attributes
    ----------
    uses_importances : bool
        Whether it reads the importances and used units of evaluations. Default: True.
    is_deterministic : bool
        Whether every seed gives the same search. Ties and repairs may still be left to chance.
        Default: False.
    ends_by_itself : bool
        Whether it is finished after finitely many epochs, whatever the costs. Default: False, a
        budget ends the search.
    takes_warm_start : bool
        Whether it proposes the warm-start masks of the hints first. Default: True.
    crosses_size_bounds : bool
        Whether masks on its way may be smaller or larger than the space allows. Its answer may
        not. Default: False.
    size_parameter : str or None
        The parameter that holds the number of units to choose. Default: None, there is none.
    takes_size_rules : bool
        Whether `size_parameter` also takes a pair (min, max), ``"best"``, ``"parsimonious"`` and
        ``"auto"``. Default: False.
    """

    uses_importances: ClassVar[bool] = True
    is_deterministic: ClassVar[bool] = False
    ends_by_itself: ClassVar[bool] = False
    takes_warm_start: ClassVar[bool] = True
    crosses_size_bounds: ClassVar[bool] = False
    size_parameter: ClassVar[str | None] = None
    takes_size_rules: ClassVar[bool] = False

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the hints without which it cannot start. Default: none."""
        return ()

    @property
    def needs_target(self) -> bool:
        """Whether it cannot start without a target, as some hints are made of it."""
        return not TARGET_HINTS.isdisjoint(self.needs)

    def evaluations_in(self, space: SearchSpace) -> tuple[int, int | None]:
        """Least and most evaluations until it is finished, as far as the space alone decides.

        Default: (0, None), where None is no bound.
        """
        return 0, None

    def epochs_in(self, space: SearchSpace) -> int | None:
        """Epochs until it is finished. Default: None, the costs or the budget decide."""
        return None

    @abstractmethod
    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> Any:
        """Make the first state. Called once, before the first proposal."""

    @abstractmethod
    def propose(self, state: Any, rng: np.random.Generator) -> tuple[Any, Proposal]:
        """Propose masks. Called once an epoch; the state returned goes to `observe`."""

    @abstractmethod
    def observe(self, state: Any, proposal: Proposal, evaluations: Evaluations) -> Any:
        """Take in the costs of the proposal, row by row. Must not draw random numbers."""

    def finished(self, state: Any) -> bool:
        """Whether there is nothing left to propose. Default: never, a budget ends the search."""
        return False
