"""Multi-label ant colony, guided by relevance to the labels and redundancy of neighbours.

Source: Paniri, Dowlatshahi and Nezamabadi-pour (2020), MLACO: a multi-label feature selection
algorithm based on ant colony optimization, Knowledge-Based Systems 192; parameters of Matijevic
(2022), table 1. Features are the nodes of a graph and carry the pheromone, which is initialised by
their relevance. An ant moves from feature to feature, preferring high pheromone, high relevance
to the labels (supervised heuristic) and low redundancy with the previous feature (unsupervised
heuristic). Then all pheromone evaporates by rho, and each feature gains in proportion to its
visits. Our choices where the source is a filter and Matijevic a wrapper, or where both are silent:

- Mutual information replaces correlation and cosine similarity. That is ours: Matijevic (2022)
  uses mutual information in bee colony optimisation and in the memetic algorithm, and runs this
  one as its source presents it.
- The transition is pseudo-random-proportional: the best feature with probability q0 = 0.7, else
  one drawn in proportion to its attractiveness, as in the unsupervised colony that the source
  extends (Tabakhi, Moradi and Akhlaghian 2014).
- Every subset is evaluated, and the visits of an ant are weighted by how far its cost is below
  the worst of the epoch.
- With `size` None every ant draws the number of units it visits.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from swarm.arrays import AnyArray, Bool, Float, Int
from swarm.checks import MAX_POPULATION, require
from swarm.evaluation.types import Evaluations
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Proposal, Strategy
from swarm.strategies.operators.genetics import fitness
from swarm.strategies.operators.initialise import draw_sizes, warm_first
from swarm.strategies.operators.memory import Memory, MemoryState, learn

# Lower bound of pheromone and relevance, relative to the highest: every unit stays reachable.
_MIN_SHARE = 1e-6


@dataclass(frozen=True)
class MultiLabelAntsState(MemoryState):
    """The colony, and the best subset of each ant so far.

    Attributes
    ----------
    heuristic : float64 (n_units, n_units)
        Relevance of the column's unit, relative to the highest, times 1 for a pair without
        redundancy and less for a redundant one, to the power of beta.
    pheromone : float64 (n_units,)
    warm : bool (n, n_units) or None
        Warm-start masks.
    """

    heuristic: Float
    pheromone: Float
    warm: Bool | None


@dataclass(frozen=True)
class MultiLabelAnts(Strategy):
    """Multi-label ant colony, MLACO, as a wrapper (Paniri et al. 2020; Matijevic 2022).

    Parameters
    ----------
    n_ants
        Masks per epoch.
    beta
        Exponent of the heuristics; the pheromone has exponent 1.
    rho
        Fraction of the pheromone that evaporates per epoch.
    q0
        Probability that an ant takes the most attractive unit.
    size
        Units of every subset, within the constraints; None: drawn by each ant.
    """

    n_ants: int = 25
    beta: float = 0.8
    rho: float = 0.1
    q0: float = 0.7
    size: int | None = None

    def __post_init__(self) -> None:
        require("n_ants", self.n_ants, at_least=1, at_most=MAX_POPULATION, whole=True)
        require("beta", self.beta, at_least=0)
        require("rho", self.rho, above=0, at_most=1)
        require("q0", self.q0, at_least=0, at_most=1)
        if self.size is not None:
            require("size", self.size, at_least=1, whole=True)

    uses_importances: ClassVar[bool] = False
    size_parameter: ClassVar[str | None] = "size"

    needs = ("relevance", "redundancy")

    def start(
        self, space: SearchSpace, hints: Hints, rng: np.random.Generator
    ) -> MultiLabelAntsState:
        """Initialise the pheromone by relevance."""
        redundancy = hints.need("redundancy", "mlaco")
        relevant = _relative(hints.need("relevance", "mlaco").sum(axis=1))
        blank = space.repair(np.zeros((self.n_ants, space.n_units), dtype=bool), rng)
        heuristic = (relevant * (1.0 / (1.0 + redundancy))) ** self.beta
        warm = None if hints.warm is None else hints.warm.copy()
        return MultiLabelAntsState(
            space=space,
            epoch=0,
            memory=Memory.blank(blank),
            heuristic=heuristic,
            pheromone=relevant,
            warm=warm,
        )

    def propose(
        self, state: MultiLabelAntsState, rng: np.random.Generator
    ) -> tuple[MultiLabelAntsState, Proposal]:
        """Build a subset for every ant; in the first epoch warm-start masks come first."""
        masks = self._walked(state, rng)
        if state.epoch == 0:
            masks = warm_first(masks, state.warm, state.space, rng)
        return replace(state, epoch=state.epoch + 1), Proposal.plain(masks, "ant", owned=True)

    def observe(
        self, state: MultiLabelAntsState, proposal: Proposal, evaluations: Evaluations
    ) -> MultiLabelAntsState:
        """Update the pheromone and the best subset of each ant."""
        weight = fitness(evaluations.costs)
        pheromone = reinforced(state.pheromone, proposal.masks, weight, self.rho)
        memory = learn(state.memory, proposal, evaluations)
        return replace(state, pheromone=pheromone, memory=memory)

    def _walked(self, state: MultiLabelAntsState, rng: np.random.Generator) -> Bool:
        """Build a subset for each ant, one unit at a time."""
        # Loading the compiler takes longer than listing the strategies.
        from swarm.strategies.operators.walk import walk

        space = state.space
        size = draw_sizes(self.n_ants, space, rng, self.size)
        masks = np.tile(space.fixed, (self.n_ants, 1))
        # An ant starts at a random unit, a fixed one if there are any.
        is_start = space.fixed if masks.any() else ~space.forbidden
        start = _roulette(np.tile(is_start, (self.n_ants, 1)), rng)
        masks[np.arange(self.n_ants), start] = True
        n_steps = max(0, int((size - masks.sum(axis=1)).max()))
        draws = rng.random((n_steps, 2, self.n_ants))
        walk(
            masks,
            start,
            size=size,
            allowed=~space.forbidden,
            pheromone=state.pheromone,
            heuristic=state.heuristic,
            greedy=draws[:, 0] < self.q0,
            turns=draws[:, 1],
        )
        return masks


def reinforced(pheromone: Float, masks: Bool, weight: Float, rho: float) -> Float:
    """Evaporate the pheromone (n_units,), and add to each unit its share of all visits."""
    # tau = (1 - rho) tau + weighted visits of the unit / weighted visits of all units, at least a
    # millionth of the highest; if all weights (n,) are zero, all ants have the same.
    if not weight.any():
        weight = np.ones_like(weight)
    visits = (masks * weight[:, None]).sum(axis=0)
    updated = (1.0 - rho) * pheromone + visits / visits.sum()
    return np.maximum(updated, _MIN_SHARE * updated.max())


def _relative(relevance: Float) -> Float:
    highest = relevance.max()
    if highest <= 0.0:
        return np.ones_like(relevance)
    return np.maximum(relevance / highest, _MIN_SHARE)


def _roulette(weight: AnyArray, rng: np.random.Generator) -> Int:
    """Draw a column of each row in proportion to the weights (n, m): int (n,)."""
    wheel = np.cumsum(weight, axis=1, dtype=np.float64)
    spin = rng.random(len(wheel)) * wheel[:, -1]
    # Units of weight zero are never drawn: they do not raise the cumulative sum.
    return (wheel > spin[:, None]).argmax(axis=1)
