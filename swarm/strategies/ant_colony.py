"""Ant colony over the decision to include or exclude each unit.

Source: Hafiz et al. (2018), table 2 (50 ants, update factor 5, evaporation 0.2, pheromone in
[0.3, 1.5]). The update rule is that of binary ant colonies: Kashef and Nezamabadi-pour (2015), An
advanced ACO algorithm for feature subset selection, with the bounds of Stuetzle and Hoos (2000),
MAX-MIN ant system. Every ant visits every unit and includes it with probability
``tau_in / (tau_in + tau_out)``; there is no heuristic, since all ants of Hafiz et al. rely on the
pheromone alone. Our choices where the papers are silent: the trail starts halfway between its
bounds, the best ant of the epoch and the best so far deposit, and the update factor is the weight
of the latter relative to the former.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from swarm.arrays import Bool, Float
from swarm.checks import MAX_POPULATION, require
from swarm.evaluation.types import Evaluations
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Proposal, Strategy
from swarm.strategies.operators.initialise import warm_first
from swarm.strategies.operators.memory import Memory, MemoryState, best_of, learn


@dataclass(frozen=True)
class AntColonyState(MemoryState):
    """The trail, and the best mask of each ant.

    Attributes
    ----------
    trail : float64 (2, n_units)
        Pheromone on excluding each unit, and on including it.
    warm : bool (n, n_units) or None
        Warm-start masks.
    """

    trail: Float
    warm: Bool | None


@dataclass(frozen=True)
class AntColony(Strategy):
    """Binary ant colony with a bounded trail (Hafiz et al. 2018).

    Parameters
    ----------
    n_ants
        Masks per epoch.
    update_factor
        Weight of the best mask so far, relative to the best of the epoch, in the deposit.
    evaporation
        Fraction of the trail that evaporates per epoch.
    trail_min, trail_max
        Bounds of the trail. The lower bound keeps every unit reachable: with 0.3 and 1.5 an ant
        decides against the trail with a probability of at least 1/6.
    """

    n_ants: int = 50
    update_factor: float = 5.0
    evaporation: float = 0.2
    trail_min: float = 0.3
    trail_max: float = 1.5

    def __post_init__(self) -> None:
        require("n_ants", self.n_ants, at_least=1, at_most=MAX_POPULATION, whole=True)
        require("update_factor", self.update_factor, at_least=0)
        require("evaporation", self.evaporation, above=0, at_most=1)
        require("trail_min", self.trail_min, above=0)
        require("trail_max", self.trail_max, above=self.trail_min)

    uses_importances: ClassVar[bool] = False

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> AntColonyState:
        """Start with a uniform trail."""
        trail = np.full((2, space.n_units), (self.trail_min + self.trail_max) / 2)
        blank = space.repair(np.zeros((self.n_ants, space.n_units), dtype=bool), rng)
        warm = None if hints.warm is None else hints.warm.copy()
        return AntColonyState(space, 0, Memory.blank(blank), trail, warm)

    def propose(
        self, state: AntColonyState, rng: np.random.Generator
    ) -> tuple[AntColonyState, Proposal]:
        """Send the ants; in the first epoch warm-start masks come first."""
        masks = state.space.repair(walk(state.trail, self.n_ants, rng), rng)
        if state.epoch == 0:
            masks = warm_first(masks, state.warm, state.space, rng)
        # The best of an epoch may be no ant's pbest, so every cost has to be exact.
        return replace(state, epoch=state.epoch + 1), Proposal.plain(masks, "ant", owned=True)

    def observe(
        self, state: AntColonyState, proposal: Proposal, evaluations: Evaluations
    ) -> AntColonyState:
        """Evaporate the trail, and deposit the pheromone of the best ants."""
        memory = learn(state.memory, proposal, evaluations)
        if not np.isfinite(memory.costs).any():
            return replace(state, memory=memory)
        best_so_far = memory.masks[best_of(memory)]
        best_of_epoch = best_so_far
        if np.isfinite(evaluations.costs).any():
            size = proposal.masks.sum(axis=1)
            best_of_epoch = proposal.masks[np.lexsort((size, evaluations.costs))[0]]
        trail = deposit(
            state.trail,
            masks=np.stack([best_of_epoch, best_so_far]),
            weight=np.array([1.0, self.update_factor]) / (1.0 + self.update_factor),
            evaporation=self.evaporation,
            bounds=(self.trail_min, self.trail_max),
        )
        return replace(state, memory=memory, trail=trail)


def walk(trail: Float, n_ants: int, rng: np.random.Generator) -> Bool:
    """Include each unit with probability ``trail[1] / (trail[0] + trail[1])``; not repaired."""
    return rng.random((n_ants, trail.shape[1])) < trail[1] / trail.sum(axis=0)


def deposit(
    trail: Float, masks: Bool, weight: Float, *, evaporation: float, bounds: tuple[float, float]
) -> Float:
    """Evaporate the trail (2, n_units), and deposit pheromone on the decisions of the ants."""
    # tau = (1 - evaporation) tau + evaporation tau_max sum of weights, clipped to the bounds;
    # weights (n,) have a sum of 1.
    included = (masks * weight[:, None]).sum(axis=0)
    pheromone = np.stack([weight.sum() - included, included])
    lowest, highest = bounds
    return np.clip((1.0 - evaporation) * trail + evaporation * highest * pheromone, lowest, highest)
