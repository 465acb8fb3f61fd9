"""Multi-swarm binary PSO with local search and random regrouping.

Subswarms search independently and are regrouped at random every few epochs. The leader of each,
and with some probability the next ones, search locally around their pbest by importances and
distances; the others take a step of the binary PSO, or another one
(:mod:`swarm.strategies.operators.steps`). A pbest keeps only the units that the models used.

Source: the description of multi-swarm BPSO in docs/sources.md; Liang and Suganthan (2005), Dynamic
multi-swarm particle swarm optimizer. Our choices where they are silent: initial velocities are
zero; a particle that searches locally keeps its velocity; the first subswarms are those of the
first positions in their order, regrouped before the positions of epoch `regroup_every`; of pbests
with equal costs the one with fewer units is kept, which Xue et al. (2014) do, but not the
description. Two defaults differ from it, because their subsets held better on unseen rows
(docs/evidence/arena.md): the step, and that half of the particles start from the units of highest
relevance.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from swarm.arrays import Bool, Float, Int, read_only
from swarm.checks import MAX_POPULATION, require
from swarm.evaluation.types import Evaluations
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Members, Proposal, Strategy
from swarm.strategies.operators.initialise import hints_to_place, place
from swarm.strategies.operators.local_search import search_locally
from swarm.strategies.operators.memory import Memory, MemoryState, remember, shrink
from swarm.strategies.operators.steps import STEPS, Particles, Step, VelocityWeights, check_step


@dataclass(frozen=True)
class MultiSwarmState(MemoryState):
    """The subswarms and their pbests.

    Attributes
    ----------
    position : bool (n_particles, n_units)
    velocity : float64 (n_particles, n_units)
    group : int (n_particles,)
        Subswarm of each particle.
    squared : float64 (n_units, n_units) or None
        Squared distances; None without a local search.
    pending : bool (n_pending, n_units)
        Pbests without their unused units, to be evaluated first.
    pending_owner : int (n_pending,)
    """

    position: Bool
    velocity: Float
    group: Int
    squared: Float | None
    pending: Bool
    pending_owner: Int

    @property
    def members(self) -> Members:
        """The pbests."""
        return Members(self.memory.masks, self.memory.costs, self.group)


@dataclass(frozen=True)
class MultiSwarm(Strategy):
    """Multi-swarm binary PSO with local search and random regrouping.

    Parameters
    ----------
    n_particles, n_swarms
        Number of particles and subswarms; the sizes of subswarms differ by at most one.
    inertia, c1, c2
        Weights of the velocity update, of steps with velocities.
    velocity_bound
        Velocities of such steps are clamped to ``[-velocity_bound, velocity_bound]``. They start
        at 0, so they never exceed ``(c1 + c2) / (1 - inertia)``: 2 by default, where a larger
        bound has no effect and is warned of. At 2 every unit is selected with a probability from
        0.119 to 0.881, so no BPSO step is sparse in a thousand units.
    regroup_every
        Epochs between regroupings; 0 for never.
    n_extra, local_search_prob
        How many particles besides the leader may search locally, each with this probability.
    local_search
        Whether particles search locally, by importances and distances; if not, all take the step.
    init
        ``"ranked"``: every other particle starts with one unit of every cluster, the others with
        the units of highest mutual information with the target, their numbers in geometric
        progression; ``"clusters"``, as in the source and without a target: one unit of every
        cluster; ``"bernoulli"``: each unit with probability 0.5.
    shrink
        Whether pbests drop the units that the models did not use.
    addition_bound
        Bound on the number of units that the local search considers for addition to a subset of
        l of d units: ``"min"``, of l and d - l, keeps a small subset small; ``"max"``, of the two,
        as in the source.
    step
        How the particles that do not search locally move: ``"recombine"``, uniform crossover of
        the pbest and the leader's, one unit dropped and one added on average, without velocities;
        ``"bpso"``, by velocities and a sigmoid, as in the source.

    References
    ----------
    Steps: Kennedy and Eberhart (1997); Syswerda (1989).
    """

    n_particles: int = 16
    n_swarms: int = 4
    inertia: float = 0.5
    c1: float = 0.5
    c2: float = 0.5
    velocity_bound: float = 2.0
    regroup_every: int = 10
    n_extra: int = 1
    local_search_prob: float = 0.5
    local_search: bool = True
    init: Literal["ranked", "clusters", "bernoulli"] = "ranked"
    shrink: bool = True
    addition_bound: Literal["min", "max"] = "min"
    step: Step = "recombine"

    def __post_init__(self) -> None:
        require("n_particles", self.n_particles, at_least=1, at_most=MAX_POPULATION, whole=True)
        require("n_swarms", self.n_swarms, at_least=1, at_most=self.n_particles, whole=True)
        for name in ("inertia", "c1", "c2"):
            require(name, getattr(self, name), at_least=0)
        require("velocity_bound", self.velocity_bound, above=0)
        require("regroup_every", self.regroup_every, at_least=0, whole=True)
        require("n_extra", self.n_extra, at_least=0, at_most=MAX_POPULATION, whole=True)
        require("local_search_prob", self.local_search_prob, at_least=0, at_most=1)
        require("local_search", self.local_search, truth=True)
        require("shrink", self.shrink, truth=True)
        require("init", self.init, one_of=("ranked", "clusters", "bernoulli"))
        require("addition_bound", self.addition_bound, one_of=("min", "max"))
        check_step(self, self.step)

    @property
    def needs(self) -> tuple[str, ...]:
        """Hints for the first positions, and distances for the local search."""
        hints = hints_to_place(self.init)
        return (*hints, "distance") if self.local_search else hints

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> MultiSwarmState:
        """Place the particles; warm-start masks, if any, come first."""
        position = place(self.n_particles, self.init, space, hints, rng, strategy="multiswarm")
        squared = None
        if self.local_search:
            squared = np.square(hints.need("distance", "multiswarm"))
            read_only(squared)
        return MultiSwarmState(
            space=space,
            epoch=0,
            memory=Memory.blank(position),
            position=position,
            velocity=np.zeros(position.shape),
            group=split_evenly(self.n_particles, self.n_swarms),
            squared=squared,
            pending=np.zeros((0, space.n_units), dtype=bool),
            pending_owner=np.zeros(0, dtype=np.int64),
        )

    def propose(
        self, state: MultiSwarmState, rng: np.random.Generator
    ) -> tuple[MultiSwarmState, Proposal]:
        """Move every particle, then append the shrunk pbests that are not evaluated yet."""
        role = ("init",) * self.n_particles
        if state.epoch > 0:
            state, role = self._move(self._regrouped(state, rng), rng)
        owner = np.concatenate([np.arange(self.n_particles), state.pending_owner])
        proposal = Proposal(
            masks=np.vstack([state.position, state.pending]),
            incumbents=state.memory.costs[owner],
            owner=owner,
            role=role + ("shrink",) * len(state.pending_owner),
        )
        return replace(state, epoch=state.epoch + 1), proposal

    def observe(
        self, state: MultiSwarmState, proposal: Proposal, evaluations: Evaluations
    ) -> MultiSwarmState:
        """Update the pbests, and shrink them to the units that were used."""
        masks = proposal.masks
        owner = proposal.owner
        smaller = shrink(masks, evaluations.used, state.space) if self.shrink else masks
        kept = smaller if evaluations.exact_shrink else masks
        memory = remember(state.memory, owner, kept, evaluations.costs, evaluations.importances)
        is_pending = np.zeros(len(owner), dtype=bool)
        if not evaluations.exact_shrink:
            # The shrunk mask of a new pbest may cost more, and has to be evaluated.
            had_pbest = np.isfinite(state.memory.costs[owner])
            was_pbest = had_pbest & (state.memory.masks[owner] == masks).all(axis=1)
            is_pbest = np.isfinite(evaluations.costs) & (memory.masks[owner] == masks).all(axis=1)
            is_pending = is_pbest & ~was_pbest & (smaller != masks).any(axis=1)
        return replace(
            state,
            memory=memory,
            pending=smaller[is_pending],
            pending_owner=owner[is_pending],
        )

    def _regrouped(self, state: MultiSwarmState, rng: np.random.Generator) -> MultiSwarmState:
        regroups = self.regroup_every > 0 and state.epoch % self.regroup_every == 0
        if not regroups or self.n_swarms == 1:
            return state
        return replace(state, group=rng.permutation(state.group))

    def _move(
        self, state: MultiSwarmState, rng: np.random.Generator
    ) -> tuple[MultiSwarmState, tuple[str, ...]]:
        memory = state.memory
        rank = rank_in_group(state.group, memory.costs, memory.masks.sum(axis=1))
        leader = leader_of_each(state.group, rank)
        particles = Particles(
            state.position, memory.masks, memory.masks[leader], state.velocity, state.space
        )
        position, velocity = STEPS[self.step](particles, VelocityWeights.of(self), rng)
        searching = np.zeros(self.n_particles, dtype=bool)
        if state.squared is not None:
            searching = local_searchers(rank, self.n_extra, self.local_search_prob, rng)
            position[searching] = search_locally(
                memory.masks[searching],
                memory.importances[searching],
                state.squared,
                state.space,
                rng,
                addition_bound=self.addition_bound,
            )
            velocity[searching] = state.velocity[searching]
        roles = np.where(searching, np.where(rank == 0, "leader", "local"), self.step)
        moved = replace(state, position=state.space.repair(position, rng), velocity=velocity)
        return moved, tuple(roles.tolist())


def split_evenly(n_particles: int, n_swarms: int) -> Int:
    """Subswarm label of each particle: int (n_particles,); sizes differ by at most one."""
    return np.sort(np.arange(n_particles) % n_swarms)


def rank_in_group(group: Int, cost: Float, size: Int) -> Int:
    """Rank (n_particles,) in the subswarm by pbest cost, size, then number: 0 for its leader."""
    order = np.lexsort((size, cost, group))
    sorted_group = group[order]
    first = np.searchsorted(sorted_group, sorted_group, side="left")
    rank = np.empty_like(group)
    rank[order] = np.arange(len(group)) - first
    return rank


def leader_of_each(group: Int, rank: Int) -> Int:
    """Index of the leader of each particle's own subswarm: int (n_particles,)."""
    leaders = np.flatnonzero(rank == 0)
    labels = group[leaders]
    order = np.argsort(labels)
    return leaders[order][np.searchsorted(labels[order], group)]


def local_searchers(rank: Int, n_extra: int, probability: float, rng: np.random.Generator) -> Bool:
    """Mark particles that search locally: leaders, and the next `n_extra` with `probability`."""
    # Source: the description of multi-swarm BPSO (docs/sources.md), section 3 (final algorithm).
    # Every particle has a number, so that the draw does not depend on the grouping.
    is_drawn = rng.random(len(rank)) < probability
    return (rank == 0) | ((rank <= n_extra) & is_drawn)
