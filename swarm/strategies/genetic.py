"""Genetic algorithm over masks.

Source: Siedlecki and Sklansky (1989), A note on genetic algorithms for large-scale feature
selection; Grefenstette (1986), Optimization of control parameters for genetic algorithms, whose
scaling window of one generation is used, and whose generation gap is an option; parameters of
Hafiz et al. (2018), table 2 (population 80, crossover 0.45, mutation 0.01). Our choices where the
papers are silent: fitness-proportionate selection by stochastic universal sampling, two-point
crossover, and elitism, so that the best mask is never lost.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from swarm.arrays import Int
from swarm.checks import MAX_POPULATION, require
from swarm.evaluation.types import Evaluations
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Proposal, Strategy
from swarm.strategies.operators.genetics import crossover, fitness, mutate, select_parents
from swarm.strategies.operators.initialise import bernoulli, warm_first
from swarm.strategies.operators.memory import Memory, MemoryState


@dataclass(frozen=True)
class Population(MemoryState):
    """The last evaluated generation, best first; unevaluated at the start.

    Attributes
    ----------
    survivors : int (n_survivors,)
        Members that the next generation keeps, the elite first.
    """

    survivors: Int


@dataclass(frozen=True)
class Genetic(Strategy):
    """Genetic algorithm (Siedlecki and Sklansky 1989).

    Parameters
    ----------
    population_size
        Masks per generation.
    crossover_prob
        Probability that a pair is crossed over.
    mutation_prob
        Probability that a bit flips.
    n_elite
        Number of best masks that survive unchanged.
    generation_gap
        Fraction of the population that children replace; besides the elite, randomly chosen masks
        survive. 1: all but the elite are replaced; Grefenstette (1986) found 0.9 and 1 to work
        well.
    """

    population_size: int = 80
    crossover_prob: float = 0.45
    mutation_prob: float = 0.01
    n_elite: int = 1
    generation_gap: float = 1.0

    def __post_init__(self) -> None:
        require(
            "population_size", self.population_size, at_least=2, at_most=MAX_POPULATION, whole=True
        )
        require("crossover_prob", self.crossover_prob, at_least=0, at_most=1)
        require("mutation_prob", self.mutation_prob, at_least=0, at_most=1)
        require("n_elite", self.n_elite, at_least=1, below=self.population_size, whole=True)
        require("generation_gap", self.generation_gap, above=0, at_most=1)

    uses_importances: ClassVar[bool] = False

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> Population:
        """Draw the first generation; warm-start masks, if any, come first."""
        masks = bernoulli(self.population_size, space, rng)
        first = Memory.blank(warm_first(masks, hints.warm, space, rng))
        return Population(space, 0, first, np.zeros(0, dtype=np.int64))

    def propose(self, state: Population, rng: np.random.Generator) -> tuple[Population, Proposal]:
        """Propose the first generation, then the children that replace the others."""
        moved = replace(state, epoch=state.epoch + 1)
        if state.epoch == 0:
            return moved, Proposal.plain(state.memory.masks, "init")
        parents = select_parents(fitness(state.memory.costs), self._n_children, rng)
        children = crossover(state.memory.masks[parents], self.crossover_prob, rng)
        children = state.space.repair(mutate(children, self.mutation_prob, rng), rng)
        survivors = np.arange(self.n_elite)
        n_drawn = self.population_size - self._n_children - self.n_elite
        if n_drawn > 0:
            rest = np.arange(self.n_elite, self.population_size)
            survivors = np.concatenate([survivors, rng.permutation(rest)[:n_drawn]])
        return replace(moved, survivors=survivors), Proposal.plain(children, "child")

    @property
    def _n_children(self) -> int:
        """Children per generation; at least one, and never in place of the elite."""
        wanted = max(1, round(self.generation_gap * self.population_size))
        return min(wanted, self.population_size - self.n_elite)

    def observe(
        self, state: Population, proposal: Proposal, evaluations: Evaluations
    ) -> Population:
        """Form the next generation from the survivors and the children, best first."""
        parents = state.memory
        survivors = state.survivors
        masks = np.vstack([parents.masks[survivors], proposal.masks])
        costs = np.concatenate([parents.costs[survivors], evaluations.costs])
        importances = np.vstack([parents.importances[survivors], evaluations.importances])
        order = np.lexsort((masks.sum(axis=1), costs))
        return replace(state, memory=Memory(masks[order], costs[order], importances[order]))
