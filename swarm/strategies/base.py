"""The contract between a search algorithm and everything around it.

A strategy proposes masks and observes their costs. It evaluates nothing itself, and it draws
random numbers only from the generator it is given. The driver (:mod:`swarm.search.driver`) calls::

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

from swarm.arrays import Bool, Float, Int, read_only
from swarm.evaluation.types import Evaluations
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace


@dataclass(frozen=True)
class Proposal:
    """Masks to evaluate, in any number.

    Attributes
    ----------
    masks : bool (n, n_units)
        They satisfy every constraint of the space.
    incumbents : float64 (n,)
        The cost that each mask has to reach. The cost of a worse mask is reported as inf, so
        that its training can stop early. With inf the cost is always exact.
    owner : int (n,)
        The member each mask belongs to, -1 for none.
    role : tuple of str, length n
        What produced each mask, for the record: ``"leader"``, ``"recombine"``, ...
    """

    masks: Bool
    incumbents: Float
    owner: Int
    role: tuple[str, ...]

    def __post_init__(self) -> None:
        read_only(self.masks, self.incumbents, self.owner)

    @classmethod
    def plain(cls, masks: Bool, role: str, *, owned: bool = False) -> Proposal:
        """Propose masks to be evaluated exactly; if owned, one for each member in its order."""
        n = len(masks)
        owner = np.arange(n) if owned else np.full(n, -1)
        return cls(masks, np.full(n, np.inf), owner, (role,) * n)


@dataclass(frozen=True)
class Members:
    """The solutions that a strategy keeps: pbests of a swarm, a population, the best so far.

    Attributes
    ----------
    masks : bool (n_members, n_units)
    costs : float64 (n_members,)
        Measured costs of exactly these masks; inf before the first measurement.
    group : int (n_members,)
        Subswarm of each member, 0 where there are none.
    answer : int or None
        Index of the member that is the result, if the strategy has a rule of its own. None: the
        cheapest subset of the search.
    """

    masks: Bool
    costs: Float
    group: Int
    answer: int | None = None

    @classmethod
    def plain(cls, masks: Bool, costs: Float, answer: int | None = None) -> Members:
        """Make members without subswarms."""
        return cls(masks, costs, np.zeros(len(costs), dtype=np.int64), answer)


class State(Protocol):
    """A frozen dataclass of read-only arrays; the next state is made by ``replace``."""

    @property
    def space(self) -> SearchSpace:
        """The search space."""

    @property
    def members(self) -> Members:
        """The current solutions."""


class Strategy(ABC):
    """Base class of search algorithms.

    A strategy is stateless: its parameters are the fields of a frozen dataclass. Class attributes
    describe the algorithm; subclasses override their defaults.

    Attributes
    ----------
    uses_importances : bool
        Whether it reads the importances and used units of evaluations. Default: True.
    is_deterministic : bool
        Whether every seed gives the same search, random tie-breaking and repairs aside.
        Default: False.
    ends_by_itself : bool
        Whether it terminates after finitely many epochs, whatever the costs. Default: False, the
        budget ends the search.
    takes_warm_start : bool
        Whether it proposes the warm-start masks of the hints first. Default: True.
    crosses_size_bounds : bool
        Whether intermediate masks may violate the size bounds of the space. The result may not.
        Default: False.
    size_parameter : str or None
        Name of the parameter that sets the number of units to select, if any. Default: None.
    takes_size_rules : bool
        Whether `size_parameter` also takes a pair (min, max), ``"best"``, ``"parsimonious"`` and
        ``"auto"``. Default: False.
    starts_from_all : bool
        Whether it begins with all units, and goes no further than to the smallest size that it
        selects. Default: False.
    """

    uses_importances: ClassVar[bool] = True
    is_deterministic: ClassVar[bool] = False
    ends_by_itself: ClassVar[bool] = False
    takes_warm_start: ClassVar[bool] = True
    crosses_size_bounds: ClassVar[bool] = False
    size_parameter: ClassVar[str | None] = None
    takes_size_rules: ClassVar[bool] = False
    starts_from_all: ClassVar[bool] = False

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the hints it requires. Default: none."""
        return ()

    def evaluations_in(self, space: SearchSpace) -> tuple[int, int | None]:
        """Minimum and maximum number of evaluations that the space allows until it finishes.

        Default: (0, None); None means unbounded.
        """
        return 0, None

    def epochs_in(self, space: SearchSpace) -> int | None:
        """Epochs until it finishes. Default: None, which depends on the costs or the budget."""
        return None

    @abstractmethod
    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> Any:
        """Make the first state. Called once, before the first proposal."""

    @abstractmethod
    def propose(self, state: Any, rng: np.random.Generator) -> tuple[Any, Proposal]:
        """Propose masks. Called once an epoch; the state returned goes to `observe`."""

    @abstractmethod
    def observe(self, state: Any, proposal: Proposal, evaluations: Evaluations) -> Any:
        """Update the state by the costs of a proposal. Must not draw random numbers."""

    def finished(self, state: Any) -> bool:
        """Whether the search is complete. Default: never, the budget ends the search."""
        return False
