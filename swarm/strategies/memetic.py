"""Memetic search: a genetic algorithm whose children are refined by mutual information.

Source: Lee and Kim (2015), Memetic feature selection algorithm for multi-label classification,
Information Sciences 293; parameters of Matijevic (2022), table 1, where v = 500 is the budget of
fitness calls (here ``budget.distinct``). Matijevic gives only Q(f) of that algorithm (equation 3),
so these are our choices:

- h = 15 is read as the number of children per generation, `n_children`.
- Fitness-proportionate selection of parents, two-point crossover of a pair and bit-flip mutation,
  with the probabilities of the table.
- A child is refined once: it gains the missing unit with the highest Q, loses its unit with the
  lowest Q, or both, drawn at random. The refined child is evaluated in the next epoch, and
  replaces the child if it is better.
- The best of parents and children survive; duplicates rank last.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from swarm.arrays import Bool
from swarm.checks import MAX_POPULATION, require
from swarm.evaluation.types import Evaluations
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Proposal, Strategy
from swarm.strategies.operators.genetics import crossover, fitness, mutate, select_parents
from swarm.strategies.operators.information_search import Merit, add_one, delete_one
from swarm.strategies.operators.initialise import draw_sizes, of_sizes, warm_first
from swarm.strategies.operators.memory import Memory, MemoryState, learn


@dataclass(frozen=True)
class MemeticState(MemoryState):
    """The population, best first once it is evaluated, and its children.

    Attributes
    ----------
    merit : Merit
    children : Memory or None
        Masks (n_children, n_units) that are refined in the next epoch.
    """

    merit: Merit
    children: Memory | None


@dataclass(frozen=True)
class Memetic(Strategy):
    """Genetic search with local refinement by mutual information (Lee and Kim 2015).

    Parameters
    ----------
    population_size
        Masks per generation.
    n_children
        Children per generation, each of which is refined.
    crossover_prob
        Probability that a pair of parents is crossed over.
    mutation_prob
        Probability that a bit of a child flips.
    """

    population_size: int = 15
    n_children: int = 15
    crossover_prob: float = 0.5
    mutation_prob: float = 0.1

    def __post_init__(self) -> None:
        for name, lowest in (("population_size", 2), ("n_children", 1)):
            value = getattr(self, name)
            require(name, value, at_least=lowest, at_most=MAX_POPULATION, whole=True)
        require("crossover_prob", self.crossover_prob, at_least=0, at_most=1)
        require("mutation_prob", self.mutation_prob, at_least=0, at_most=1)

    uses_importances: ClassVar[bool] = False

    needs = ("relevance", "redundancy")

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> MemeticState:
        """Draw the first population, sizes uniform; warm-start masks, if any, come first."""
        size = draw_sizes(self.population_size, space, rng)
        masks = warm_first(of_sizes(size, space, rng), hints.warm, space, rng)
        return MemeticState(space, 0, Memory.blank(masks), Merit.of(hints, "memetic"), None)

    def propose(
        self, state: MemeticState, rng: np.random.Generator
    ) -> tuple[MemeticState, Proposal]:
        """Propose the first population; then, alternately, children and refined children."""
        moved = replace(state, epoch=state.epoch + 1)
        if state.epoch == 0:
            return moved, Proposal.plain(state.memory.masks, "init")
        if state.children is None:
            parents = select_parents(fitness(state.memory.costs), self.n_children, rng)
            masks = crossover(state.memory.masks[parents], self.crossover_prob, rng)
            masks = state.space.repair(mutate(masks, self.mutation_prob, rng), rng)
            moved = replace(moved, children=Memory.blank(masks))
            return moved, Proposal.plain(masks, "child")
        masks = refined(state.children.masks, state.merit, state.space, rng)
        n = self.n_children
        return moved, Proposal(masks, state.children.costs, np.full(n, -1), ("refined",) * n)

    def observe(
        self, state: MemeticState, proposal: Proposal, evaluations: Evaluations
    ) -> MemeticState:
        """Store the costs; once the children are refined, select the survivors."""
        costs = evaluations.costs
        importances = evaluations.importances
        if state.epoch == 1:
            first = Memory(proposal.masks, costs, importances)
            return replace(state, memory=survivors(first, None, self.population_size))
        if state.children is None or proposal.role[0] == "child":
            return replace(state, children=Memory(proposal.masks, costs, importances))
        owned = replace(proposal, owner=np.arange(self.n_children))
        children = learn(state.children, owned, evaluations)
        population = survivors(state.memory, children, self.population_size)
        return replace(state, memory=population, children=None)


def refined(masks: Bool, merit: Merit, space: SearchSpace, rng: np.random.Generator) -> Bool:
    """Add the best unit to each mask, delete its worst one, or both, within the bounds."""
    move = rng.integers(3, size=len(masks))
    size = masks.sum(axis=1)
    gains = (move != 1) | (size == space.min_size)
    loses = (move != 0) | (size == space.max_size)
    added = add_one(masks, merit, space, rng, alpha=1, where=gains) & ~masks
    deleted = masks & ~delete_one(masks, merit, space, rng, alpha=1, where=loses)
    moved = (masks | added) & ~deleted
    # There may be no unit to add, or none that may be deleted.
    return np.where(space.obeys(moved)[:, None], moved, masks)


def survivors(population: Memory, children: Memory | None, count: int) -> Memory:
    """Keep the `count` best: lowest cost, then fewest units; duplicates last."""
    masks = population.masks
    costs = population.costs
    importances = population.importances
    if children is not None:
        masks = np.vstack([masks, children.masks])
        costs = np.concatenate([costs, children.costs])
        importances = np.vstack([importances, children.importances])
    order = np.lexsort((masks.sum(axis=1), costs))
    first = np.unique(np.packbits(masks[order], axis=1), axis=0, return_index=True)[1]
    is_duplicate = np.ones(len(order), dtype=bool)
    is_duplicate[first] = False
    rows = order[np.argsort(is_duplicate, kind="stable")[:count]]
    return Memory(masks[rows], costs[rows], importances[rows])
