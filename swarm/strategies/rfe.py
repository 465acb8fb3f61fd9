"""Recursive feature elimination: repeatedly drop the least important units."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from swarm.arrays import Bool, Float, Int, read_only
from swarm.checks import require
from swarm.evaluation.types import Evaluations
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Members, Proposal, Strategy
from swarm.strategies.operators.local_search import mark_lowest
from swarm.strategies.operators.sequential import answer_sizes, first_of_size


@dataclass(frozen=True)
class Elimination:
    """The sets evaluated so far, one for each size of the schedule.

    Attributes
    ----------
    space : SearchSpace
    epoch : int
        Number of sets proposed so far.
    sizes : int (n_sizes,)
        The size of the set in each epoch, descending.
    masks : bool (n_sizes, n_units)
    costs : float64 (n_sizes,)
        inf before the epoch of that size.
    mask : bool (n_units,)
        The last set; before the first epoch, the first set.
    importance : float64 (n_units,)
        Importances of the last set.
    bounds : tuple of int
        Smallest and largest size of the result.
    """

    space: SearchSpace
    epoch: int
    sizes: Int
    masks: Bool
    costs: Float
    mask: Bool
    importance: Float
    bounds: tuple[int, int]

    def __post_init__(self) -> None:
        read_only(self.sizes, self.masks, self.costs, self.mask, self.importance)

    @property
    def members(self) -> Members:
        """The sets whose size is within the bounds; with a fixed size, the result is that set."""
        lowest, highest = self.bounds
        rows = (self.sizes >= lowest) & (self.sizes <= highest)
        costs = self.costs[rows]
        answer = 0 if lowest == highest and np.isfinite(costs).any() else None
        return Members.plain(self.masks[rows], costs, answer)


@dataclass(frozen=True)
class RecursiveElimination(Strategy):
    """Recursive feature elimination, RFE, by the importances of the models of each set.

    Importances come from the cross-validation of the set itself, so every intermediate set has a
    measured cost. Ties between importances are broken at random.

    Parameters
    ----------
    step
        Number of units to drop per epoch, or, below 1, a fraction of the remaining units, rounded
        down, but at least one.
    size
        Number of units to select. None: eliminate down to the smallest allowed size and select
        the cheapest set.

    References
    ----------
    Guyon, Weston, Barnhill and Vapnik, Gene selection for cancer classification using support
    vector machines, Machine Learning 46 (2002), which drops one unit, or half of the remaining.
    """

    is_deterministic: ClassVar[bool] = True
    ends_by_itself: ClassVar[bool] = True
    takes_warm_start: ClassVar[bool] = False
    crosses_size_bounds: ClassVar[bool] = True
    starts_from_all: ClassVar[bool] = True
    size_parameter: ClassVar[str | None] = "size"

    step: float = 0.1
    size: int | None = None

    def __post_init__(self) -> None:
        require("step", self.step, above=0, whole=isinstance(self.step, int) or self.step >= 1)
        if self.size is not None:
            require("size", self.size, at_least=1, whole=True)

    def evaluations_in(self, space: SearchSpace) -> tuple[int, int]:
        """One evaluation for each size of the schedule."""
        epochs = self.epochs_in(space)
        return epochs, epochs

    def epochs_in(self, space: SearchSpace) -> int:
        """One epoch for each size of the schedule."""
        return len(self._plan(space)[0])

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> Elimination:
        """Schedule the sizes from all allowed units; SpaceError if `size` contradicts the space."""
        sizes, bounds = self._plan(space)
        return Elimination(
            space=space,
            epoch=0,
            sizes=sizes,
            masks=first_of_size(sizes, space),
            costs=np.full(len(sizes), np.inf),
            mask=~space.forbidden,
            importance=np.zeros(space.n_units),
            bounds=bounds,
        )

    def propose(self, state: Elimination, rng: np.random.Generator) -> tuple[Elimination, Proposal]:
        """Drop the least important units, and propose the rest."""
        mask = state.mask
        if state.epoch > 0:
            count = mask.sum(keepdims=True) - state.sizes[state.epoch]
            removable = (mask & ~state.space.fixed)[None, :]
            mask = mask & ~mark_lowest(state.importance[None, :], removable, count, rng)[0]
        moved = replace(state, epoch=state.epoch + 1, mask=mask)
        return moved, Proposal.plain(mask[None, :].copy(), "eliminate")

    def observe(
        self, state: Elimination, proposal: Proposal, evaluations: Evaluations
    ) -> Elimination:
        """Store the cost of the set and the importances of its units."""
        masks = state.masks.copy()
        costs = state.costs.copy()
        masks[state.epoch - 1] = state.mask
        costs[state.epoch - 1] = evaluations.costs[0]
        importance = evaluations.importances[0].copy()
        return replace(state, masks=masks, costs=costs, importance=importance)

    def finished(self, state: Elimination) -> bool:
        """Whether the set of the last size was proposed."""
        return state.epoch == len(state.sizes)

    def _plan(self, space: SearchSpace) -> tuple[Int, tuple[int, int]]:
        """Sizes of the sets, descending, and the smallest and largest size of the result."""
        bounds = answer_sizes(self.size, space)
        sizes = [int((~space.forbidden).sum())]
        while sizes[-1] > bounds[0]:
            size = sizes[-1]
            n_dropped = int(self.step) if self.step >= 1 else max(1, int(self.step * size))
            sizes.append(max(bounds[0], size - n_dropped))
        return np.array(sizes), bounds
