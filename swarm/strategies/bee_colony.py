"""Bee colony optimisation by improvement (BCOi), guided by mutual information.

Source: Matijevic (2022), algorithms 1 to 3, equations 3 to 6 and table 1. Our choices where the
paper is silent:

- It fixes the size of the solutions without giving a value. With `size` None a bee draws its own
  size at each restart, and a transformation may change it by one unit.
- Its listing never resets k after a restart, so that every later epoch without improvement would
  restart too. Here k is reset to 1, as after an improvement.
- New solutions after a restart are evaluated before they are transformed, like the first ones.
- The quality of a solution is ``1 - cost`` if all costs are within [0, 1], so that it equals the
  score. Otherwise, and for failed fits, quality is measured from the worst bee.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from swarm.arrays import Bool, Float, Int
from swarm.checks import MAX_POPULATION, require
from swarm.evaluation.types import Evaluations
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Proposal, Strategy
from swarm.strategies.operators.information_search import Merit, add_one, delete_one, grow
from swarm.strategies.operators.initialise import draw_sizes, warm_first
from swarm.strategies.operators.memory import Memory, MemoryState, learn


@dataclass(frozen=True)
class BeeColonyState(MemoryState):
    """The colony, and the best solution of each bee so far.

    Attributes
    ----------
    merit : Merit
    masks : bool (n_bees, n_units)
        Solution of each bee.
    costs : float64 (n_bees,)
    k : int
        Number of units that the next transformation adds and deletes.
    restart : bool
        Whether the next epoch restarts all bees.
    """

    merit: Merit
    masks: Bool
    costs: Float
    k: int
    restart: bool


@dataclass(frozen=True)
class BeeColony(Strategy):
    """Bee colony optimisation, BCOi, for feature selection (Matijevic 2022).

    Parameters
    ----------
    n_bees
        Solutions per epoch.
    alpha
        Length of the restricted candidate lists.
    k_max
        Largest number of units that a transformation adds and deletes; beyond it all bees restart.
    size
        Units of every solution, within the constraints; None: chosen by the search.
    """

    n_bees: int = 30
    alpha: int = 5
    k_max: int = 5
    size: int | None = None

    def __post_init__(self) -> None:
        for name in ("n_bees", "alpha", "k_max"):
            value = getattr(self, name)
            require(name, value, at_least=1, at_most=MAX_POPULATION, whole=True)
        if self.size is not None:
            require("size", self.size, at_least=1, whole=True)

    uses_importances: ClassVar[bool] = False
    size_parameter: ClassVar[str | None] = "size"

    needs = ("relevance", "redundancy")

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> BeeColonyState:
        """Draw a solution for every bee; warm-start masks, if any, come first."""
        merit = Merit.of(hints, "bee_colony")
        masks = warm_first(self._fresh(merit, space, rng), hints.warm, space, rng)
        memory = Memory.blank(masks)
        return BeeColonyState(
            space=space,
            epoch=0,
            memory=memory,
            merit=merit,
            masks=masks,
            costs=memory.costs,
            k=1,
            restart=True,
        )

    def propose(
        self, state: BeeColonyState, rng: np.random.Generator
    ) -> tuple[BeeColonyState, Proposal]:
        """Run the backward pass of the last epoch, then transform every solution."""
        role = "init"
        if state.epoch == 0:
            masks = state.masks
        elif state.restart:
            masks = self._fresh(state.merit, state.space, rng)
        else:
            role = "bee"
            followed = follow(state.costs, rng)
            masks = self._transformed(state.masks[followed], state, rng)
        moved = replace(state, epoch=state.epoch + 1, masks=masks)
        return moved, Proposal.plain(masks, role, owned=True)

    def observe(
        self, state: BeeColonyState, proposal: Proposal, evaluations: Evaluations
    ) -> BeeColonyState:
        """Store the costs; after an epoch without improvement k grows by one."""
        improved = evaluations.costs.min() < state.memory.costs.min()
        k = 1 if improved or state.restart else state.k + 1
        restart = k > self.k_max
        return replace(
            state,
            costs=evaluations.costs,
            k=1 if restart else k,
            memory=learn(state.memory, proposal, evaluations),
            restart=restart,
        )

    def _fresh(self, merit: Merit, space: SearchSpace, rng: np.random.Generator) -> Bool:
        size = draw_sizes(self.n_bees, space, rng, self.size)
        return grow(size, merit, space, rng, alpha=self.alpha)

    def _transformed(self, masks: Bool, state: BeeColonyState, rng: np.random.Generator) -> Bool:
        """Add k units, then delete as many; one more or one fewer if sizes may vary."""
        space = state.space
        size = masks.sum(axis=1)
        if self.size is None:
            size = size + rng.integers(-1, 2, size=len(masks))
        size = np.clip(size, space.min_size, space.max_size)
        for _ in range(state.k):
            masks = add_one(masks, state.merit, space, rng, alpha=self.alpha)
        while (large := masks.sum(axis=1) > size).any():
            masks = delete_one(masks, state.merit, space, rng, alpha=self.alpha, where=large)
        return masks


def loyalty(costs: Float) -> Float:
    """Probability (n,) that each bee is loyal: 1 for the best, 0 for the worst (equation 5)."""
    is_finite = np.isfinite(costs)
    if not is_finite.any():
        return np.ones(len(costs))
    lowest = costs[is_finite].min()
    highest = costs[is_finite].max()
    if lowest == highest:
        return is_finite.astype(np.float64)
    return (highest - np.where(is_finite, costs, highest)) / (highest - lowest)


def recruitment(costs: Float, loyal: Bool) -> Float:
    """Probability (n,) that an uncommitted bee follows each of the loyal ones (equation 6)."""
    is_finite = np.isfinite(costs)
    finite_costs = costs[is_finite]
    if finite_costs.size and finite_costs.min() >= 0.0 and finite_costs.max() <= 1.0:
        quality = 1.0 - np.where(is_finite, costs, 1.0)
    else:
        quality = loyalty(costs)
    quality = np.where(loyal, quality, 0.0)
    if quality.sum() == 0.0:
        quality = loyal.astype(np.float64)
    return quality / quality.sum()


def follow(costs: Float, rng: np.random.Generator) -> Int:
    """Draw the bee whose solution each bee continues with: int (n,), its own if it is loyal."""
    n = len(costs)
    loyal = rng.random(n) < loyalty(costs)
    upto = np.cumsum(recruitment(costs, loyal))
    chosen = np.searchsorted(upto, rng.random(n) * upto[-1], side="right")
    return np.where(loyal, np.arange(n), np.minimum(chosen, n - 1))
