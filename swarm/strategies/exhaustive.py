"""Exhaustive search: every allowed subset, the smallest first."""

from dataclasses import dataclass, replace
from itertools import chain, combinations, islice
from math import ceil, comb
from typing import ClassVar

import numpy as np

from swarm.arrays import Bool, Float, read_only
from swarm.checks import require
from swarm.errors import SpaceError
from swarm.evaluation.types import Evaluations
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Members, Proposal, Strategy
from swarm.strategies.operators.sequential import first_of_size, is_better


@dataclass(frozen=True)
class ExhaustiveState:
    """Progress of the enumeration, and the best subset of every size.

    Attributes
    ----------
    space : SearchSpace
    n_proposed : int
        Number of subsets so far.
    masks : bool (n_sizes, n_units)
        The best subset of each allowed size, ascending.
    costs : float64 (n_sizes,)
        inf before the first measurement.
    """

    space: SearchSpace
    n_proposed: int
    masks: Bool
    costs: Float

    def __post_init__(self) -> None:
        read_only(self.masks, self.costs)

    @property
    def members(self) -> Members:
        """The best subset of each size."""
        return Members.plain(self.masks, self.costs)


@dataclass(frozen=True)
class Exhaustive(Strategy):
    """Every allowed subset once, by ascending size and then in the order of the units.

    With d free units and sizes from lo to hi these are ``C(d, lo) + ... + C(d, hi)`` subsets,
    ``2^d - 1`` if only the empty one is excluded. Ties are resolved in favour of the smaller
    subset, then of the first.

    Parameters
    ----------
    limit
        Largest number of subsets; a space with more is rejected before the search starts.
    batch_size
        Masks per epoch.

    References
    ----------
    Raschka, MLxtend: Providing machine learning and data science utilities and extensions to
    Python's scientific computing stack, Journal of Open Source Software 3 (2018).
    """

    uses_importances: ClassVar[bool] = False
    is_deterministic: ClassVar[bool] = True
    ends_by_itself: ClassVar[bool] = True
    takes_warm_start: ClassVar[bool] = False

    limit: int = 100_000
    batch_size: int = 256

    def __post_init__(self) -> None:
        require("limit", self.limit, at_least=1, whole=True)
        require("batch_size", self.batch_size, at_least=1, whole=True)

    def count(self, space: SearchSpace) -> int:
        """Return the number of allowed subsets."""
        n_fixed = int(space.fixed.sum())
        n_free = space.n_units - n_fixed - int(space.forbidden.sum())
        sizes = range(space.min_size, space.max_size + 1)
        return sum(comb(n_free, size - n_fixed) for size in sizes)

    def evaluations_in(self, space: SearchSpace) -> tuple[int, int]:
        """Every subset is evaluated once."""
        return self.count(space), self.count(space)

    def epochs_in(self, space: SearchSpace) -> int:
        """One epoch for each batch."""
        return ceil(self.count(space) / self.batch_size)

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> ExhaustiveState:
        """Count the subsets; SpaceError if there are more than `limit`."""
        count = self.count(space)
        if count > self.limit:
            raise SpaceError(
                f"an exhaustive search has {count:,} subsets to evaluate, above its limit of "
                f"{self.limit:,}; lower max_size, fix or forbid units, raise limit, or choose "
                "another strategy"
            )
        sizes = np.arange(space.min_size, space.max_size + 1)
        costs = np.full(len(sizes), np.inf)
        return ExhaustiveState(space, 0, first_of_size(sizes, space), costs)

    def propose(
        self, state: ExhaustiveState, rng: np.random.Generator
    ) -> tuple[ExhaustiveState, Proposal]:
        """Propose the next batch; each subset has to reach the best of its size."""
        # A proposal is never empty: past the end it repeats the last subset.
        first = min(state.n_proposed, self.count(state.space) - 1)
        masks = batch_of_subsets(state.space, first, self.batch_size)
        rows = masks.sum(axis=1) - state.space.min_size
        proposal = Proposal(masks, state.costs[rows], rows, ("exhaustive",) * len(masks))
        return replace(state, n_proposed=first + len(masks)), proposal

    def observe(
        self, state: ExhaustiveState, proposal: Proposal, evaluations: Evaluations
    ) -> ExhaustiveState:
        """Keep the best subset of each size; the first wins a tie."""
        masks = state.masks.copy()
        costs = state.costs.copy()
        for mask, row, cost in zip(proposal.masks, proposal.owner, evaluations.costs, strict=True):
            if is_better(float(cost), float(costs[row])):
                masks[row], costs[row] = mask, cost
        return replace(state, masks=masks, costs=costs)

    def finished(self, state: ExhaustiveState) -> bool:
        """Whether every subset was proposed."""
        return state.n_proposed == self.count(state.space)


def batch_of_subsets(space: SearchSpace, start: int, count: int) -> Bool:
    """Return up to `count` allowed subsets from number `start` on: bool (n, n_units)."""
    # Numbers ascend by size, and at equal size in the order of itertools.combinations.
    free = np.flatnonzero(~space.fixed & ~space.forbidden).tolist()
    n_fixed = int(space.fixed.sum())
    sizes = range(space.min_size - n_fixed, space.max_size - n_fixed + 1)
    all_subsets = chain.from_iterable(combinations(free, size) for size in sizes)
    subsets = list(islice(all_subsets, start, start + count))
    masks = np.tile(space.fixed, (len(subsets), 1))
    for mask, units in zip(masks, subsets, strict=True):
        mask[list(units)] = True
    return masks
