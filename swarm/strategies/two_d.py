"""Swarms that learn the size of a subset along with its features.

Source: Hafiz et al. (2018), sections 3 and 4, algorithms 1 to 4. Particles keep likelihoods of
every size and every unit; velocities are unbounded.

Our choices where the paper contradicts itself or is silent:

- Algorithm 3 prints the inertia as ``(w0 - wf) t / T``, which starts at 0 and rises, and is 0
  throughout for the constant 0.729 of table 2. A linear change from w0 to wf is meant, and
  implemented: ``w0 - (w0 - wf) t / T``. The unification factor rises likewise, from 0.2 to 0.4.
- Algorithm 3 never resets the number of epochs without a better pbest, while section 3.6 counts
  consecutive ones; the text is followed.
- r1 and r2 are drawn for every entry of the velocity, as in equation 2 for every dimension. They
  are the same in equations 19 and 20, where they have the same name.
- The neighbourhood is a ring of three. For CLPSO (equation 17) the exemplar takes every unit
  from the pbest of a particle chosen by tournament; a refresh chooses a new one.
- In the first positions every unit is selected with probability 0.5.
- Of equal costs the smaller subset replaces a pbest, without counting as an improvement; algorithm
  3 replaces it at a lower cost only.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from swarm.arrays import Bool, Float, Int
from swarm.checks import MAX_POPULATION, require
from swarm.evaluation.types import Evaluations
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Proposal, Strategy
from swarm.strategies.operators.initialise import bernoulli, warm_first
from swarm.strategies.operators.local_search import mark_lowest
from swarm.strategies.operators.memory import Memory, MemoryState, best_of, learn

_LEARNING = ("upso", "gpso", "lpso", "clpso")


@dataclass(frozen=True)
class TwoDState(MemoryState):
    """The swarm and its pbests.

    Attributes
    ----------
    position : bool (n_particles, n_units)
    velocity : float64 (n_particles, 2, n_units)
        Likelihoods of sizes and of units: ``[:, 0, j]`` of subsets of j + 1 units, ``[:, 1, j]`` of
        unit j.
    cost : float64 (n_particles,)
        Costs of the current positions.
    previous : float64 (n_particles,)
        Costs of the previous positions.
    stalled : int (n_particles,)
        Epochs since each pbest cost has improved.
    exemplar : int (n_particles, n_units)
        CLPSO: the particle from whose pbest each unit is learned.
    """

    position: Bool
    velocity: Float
    cost: Float
    previous: Float
    stalled: Int
    exemplar: Int


@dataclass(frozen=True)
class TwoD(Strategy):
    """Swarm that learns subset sizes along with features, 2-D learning (Hafiz et al. 2018).

    Parameters
    ----------
    learning
        Exemplars of the particles: ``"gpso"`` the gbest, ``"lpso"`` the best neighbour,
        ``"upso"`` both, ``"clpso"`` the pbests of many particles.
    n_particles
        Size of the swarm.
    inertia, inertia_end
        Weight of the previous velocity, at the start and after `horizon` epochs.
    c1, c2
        Cognitive and social weight; clpso uses c1 only.
    unification, unification_end
        upso: weight of the gbest relative to the neighbours, at the start and after `horizon`
        epochs.
    horizon
        Epochs over which inertia and unification change. 200 epochs of 30 particles are the
        6,000 evaluations of the paper.
    refresh_gap
        Epochs without a better pbest before the likelihoods of a particle are redrawn; 0 for
        never.
    """

    learning: Literal["upso", "gpso", "lpso", "clpso"] = "upso"
    n_particles: int = 30
    inertia: float = 0.729
    inertia_end: float = 0.729
    c1: float = 1.49
    c2: float = 1.49
    unification: float = 0.2
    unification_end: float = 0.4
    horizon: int = 200
    refresh_gap: int = 3

    def __post_init__(self) -> None:
        require("learning", self.learning, one_of=_LEARNING)
        require("n_particles", self.n_particles, at_least=1, at_most=MAX_POPULATION, whole=True)
        for name in ("inertia", "inertia_end", "c1", "c2"):
            require(name, getattr(self, name), at_least=0)
        for name in ("unification", "unification_end"):
            require(name, getattr(self, name), at_least=0, at_most=1)
        require("horizon", self.horizon, at_least=1, whole=True)
        require("refresh_gap", self.refresh_gap, at_least=0, whole=True)

    uses_importances: ClassVar[bool] = False

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> TwoDState:
        """Place the particles, warm-start masks first, and draw likelihoods from [0, 1)."""
        n = self.n_particles
        position = warm_first(bernoulli(n, space, rng), hints.warm, space, rng)
        memory = Memory.blank(position)
        return TwoDState(
            space=space,
            epoch=0,
            memory=memory,
            position=position,
            velocity=rng.random((n, 2, space.n_units)),
            cost=np.full(n, np.inf),
            previous=np.full(n, np.inf),
            stalled=np.zeros(n, dtype=np.int64),
            exemplar=self._exemplars(memory, space, rng),
        )

    def propose(self, state: TwoDState, rng: np.random.Generator) -> tuple[TwoDState, Proposal]:
        """Refresh stalled particles, learn, and draw a size and units for every particle."""
        role = "init" if state.epoch == 0 else self.learning
        if state.epoch > 0:
            state = self._learned(self._refreshed(state, rng), rng)
            spin = rng.random(self.n_particles)
            size = roulette_size(state.velocity[:, 0], spin, state.space)
            position = take_likeliest(state.velocity[:, 1], size, state.space, rng)
            state = replace(state, position=position)
        # Equation 8 compares the costs of the positions themselves, so they have to be exact.
        proposal = Proposal.plain(state.position, role, owned=True)
        return replace(state, epoch=state.epoch + 1), proposal

    def observe(self, state: TwoDState, proposal: Proposal, evaluations: Evaluations) -> TwoDState:
        """Update the pbests, and count the epochs since each improved."""
        memory = learn(state.memory, proposal, evaluations)
        better = memory.costs < state.memory.costs
        return replace(
            state,
            cost=evaluations.costs.copy(),
            previous=state.cost,
            memory=memory,
            stalled=np.where(better, 0, state.stalled + 1),
        )

    def _exemplars(self, memory: Memory, space: SearchSpace, rng: np.random.Generator) -> Int:
        if self.learning != "clpso":
            return np.zeros((len(memory.costs), 0), dtype=np.int64)
        return tournament_exemplars(memory, space.n_units, rng)

    def _refreshed(self, state: TwoDState, rng: np.random.Generator) -> TwoDState:
        """Redraw the likelihoods of stalled particles (section 3.6)."""
        stale = (state.stalled >= self.refresh_gap) & (self.refresh_gap > 0)
        if state.epoch == 1:
            # The exemplars of the first epoch were chosen without costs.
            state = replace(state, exemplar=self._exemplars(state.memory, state.space, rng))
        if not stale.any():
            return state
        fresh = rng.random(state.velocity.shape)
        exemplar = self._exemplars(state.memory, state.space, rng)
        return replace(
            state,
            velocity=np.where(stale[:, None, None], fresh, state.velocity),
            stalled=np.where(stale, 0, state.stalled),
            exemplar=np.where(stale[:, None], exemplar, state.exemplar),
        )

    def _learned(self, state: TwoDState, rng: np.random.Generator) -> TwoDState:
        """Update the velocities by equations 10, 17 or 18 to 20."""
        r1, r2 = rng.random((2, *state.velocity.shape))
        influence = self_influence(state.cost, state.previous)
        velocity = self._between(self.inertia, self.inertia_end, state.epoch) * state.velocity
        velocity += influence[:, None, None] * self_learning(state.position)
        pbest = state.memory.masks
        position = state.position
        if self.learning == "clpso":
            pbest = np.take_along_axis(pbest, state.exemplar, axis=0)
            velocity += self.c1 * r1 * exemplar_learning(pbest, position)
        else:
            velocity += self.c1 * r1 * exemplar_learning(pbest, position)
            velocity += self.c2 * r2 * self._social(state)
        return replace(state, velocity=velocity)

    def _social(self, state: TwoDState) -> Float:
        """Social learning sets, weighted: u for the gbest, 1 - u for the best neighbour."""
        memory = state.memory
        position = state.position
        unification = self._between(self.unification, self.unification_end, state.epoch)
        factor = {"gpso": 1.0, "lpso": 0.0}.get(self.learning, unification)
        gbest = np.broadcast_to(memory.masks[best_of(memory)], position.shape)
        nbest = memory.masks[ring_best(memory)]
        from_gbest = exemplar_learning(gbest, position).astype(np.float64)
        from_nbest = exemplar_learning(nbest, position).astype(np.float64)
        return factor * from_gbest + (1.0 - factor) * from_nbest

    def _between(self, first: float, last: float, epoch: int) -> float:
        """Interpolate linearly from `first` to `last` over the horizon, constant beyond it."""
        return first - (first - last) * min(epoch / self.horizon, 1.0)


def size_learning(masks: Bool) -> Bool:
    """Learning set of the size: one bit, or none for an empty mask (section 3.1)."""
    size = masks.sum(axis=1)
    return np.arange(1, masks.shape[1] + 1) == size[:, None]


def exemplar_learning(exemplar: Bool, position: Bool) -> Bool:
    """Learning set (n, 2, n_units) of an exemplar: its size, and units the particle lacks."""
    # Equations 6 and 7.
    return np.stack([size_learning(exemplar), exemplar & ~position], axis=1)


def self_learning(position: Bool) -> Bool:
    """Learning set (n, 2, n_units) of the particle itself: its size and its units."""
    # Section 3.2 and equation 7.
    return np.stack([size_learning(position), position], axis=1)


def self_influence(cost: Float, previous: Float) -> Float:
    """Weight (n,) in [-1, 1] of a particle's position, positive if improved (equations 8 and 9)."""
    # delta = 1 - cost / max(cost), with the sign of the improvement; a first position counts as an
    # improvement. Negative costs are measured from the lowest of the swarm; failures have the
    # highest cost.
    is_finite = np.isfinite(cost)
    highest = cost[is_finite].max(initial=-np.inf)
    base = min(0.0, cost[is_finite].min(initial=0.0))
    span = highest - base
    if not span > 0:
        return np.zeros(len(cost))
    delta = 1.0 - (np.where(is_finite, cost, highest) - base) / span
    return np.where(cost < previous, delta, -delta)


def roulette_size(likelihood: Float, spin: Float, space: SearchSpace) -> Int:
    """Draw the size of each subset in proportion to its likelihood (n, n_units), 0 if negative."""
    # Source: section 3.5, algorithm 2 and equation 15. All allowed sizes are equally likely if the
    # likelihood of each is zero.
    sizes = np.arange(1, likelihood.shape[1] + 1)
    is_allowed = (sizes >= space.min_size) & (sizes <= space.max_size)
    slots = np.where(is_allowed, np.maximum(likelihood, 0.0), 0.0)
    slots = np.where(slots.sum(axis=1, keepdims=True) > 0, slots, is_allowed)
    wheel = np.cumsum(slots, axis=1)
    size = 1 + (wheel <= (spin * wheel[:, -1])[:, None]).sum(axis=1)
    return np.clip(size, space.min_size, space.max_size)


def take_likeliest(
    likelihood: Float, size: Int, space: SearchSpace, rng: np.random.Generator
) -> Bool:
    """Select the `size` (n,) likeliest units, fixed ones first, ties at random: (n, n_units)."""
    # Algorithm 2 and equation 16.
    key = np.where(space.fixed, -np.inf, -likelihood)
    return mark_lowest(key, np.broadcast_to(~space.forbidden, key.shape), size, rng)


def ring_best(memory: Memory) -> Int:
    """Index of the best pbest among each particle and its two neighbours on a ring: int (n,)."""
    # Source: Kennedy and Mendes (2002), Population structure and particle swarm performance.
    particle = np.arange(len(memory.costs))
    neighbours = np.stack([particle, np.roll(particle, 1), np.roll(particle, -1)], axis=1)
    size = memory.masks.sum(axis=1)
    best = np.lexsort((size[neighbours], memory.costs[neighbours]), axis=1)[:, 0]
    return neighbours[particle, best]


def learning_probability(n_particles: int) -> Float:
    """Probability that each particle learns from another, from 0.05 to 0.5 over the swarm."""
    # Pc_i = 0.05 + 0.45 (exp(10 i / (n - 1)) - 1) / (exp(10) - 1), i from 0. Source: Liang, Qin,
    # Suganthan and Baskar (2006), Comprehensive learning particle swarm optimizer.
    rank = np.arange(n_particles) / max(1, n_particles - 1)
    return 0.05 + 0.45 * np.expm1(10.0 * rank) / np.expm1(10.0)


def tournament_exemplars(memory: Memory, n_units: int, rng: np.random.Generator) -> Int:
    """Choose the exemplar of every particle and unit by tournament: int (n_particles, n_units)."""
    # One random unit is always learned from another particle; the source (Liang et al. 2006)
    # requires it only of a particle that would otherwise learn from itself alone.
    n = len(memory.costs)
    particle = np.broadcast_to(np.arange(n)[:, None], (n, n_units))
    drawn = rng.integers(0, max(1, n - 1), size=(2, n, n_units))
    # Skipping the particle itself keeps the draw uniform over the others.
    first, second = np.minimum(drawn + (drawn >= particle), n - 1)
    rank = np.empty(n, dtype=np.int64)
    rank[np.lexsort((memory.masks.sum(axis=1), memory.costs))] = np.arange(n)
    winner = np.where(rank[first] <= rank[second], first, second)
    learns = rng.random((n, n_units)) < learning_probability(n)[:, None]
    learns[np.arange(n), rng.integers(0, n_units, size=n)] = True
    return np.where(learns, winner, particle)
