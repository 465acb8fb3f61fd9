"""Claims on the operators: pure functions on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.problem.space import SearchSpace
from swarm.strategies.multiswarm import (
    leader_of_each,
    local_searchers,
    rank_in_group,
    split_evenly,
)
from swarm.strategies.operators.initialise import one_per_cluster, ranked_prefixes
from swarm.strategies.operators.memory import Memory, improves, remember, shrink
from swarm.strategies.operators.steps import (
    STEPS,
    Particles,
    VelocityWeights,
    flip_probability,
    update_velocity,
)
from swarm.testing.planted import plain_space, spaces
from tests.fakes import calm

seeds = st.integers(0, 2**32)
shapes = st.tuples(st.integers(1, 8), st.integers(1, 12))
# Velocities stay what they are.
CONSTANT = VelocityWeights(inertia=1.0, c1=0.0, c2=0.0)


def _masks(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.random(shape) < rng.random()


def stepped(
    step: str, velocity: Any, *masks: Any, space: SearchSpace | None = None, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Take one step; without masks from empty ones, with one from the best position."""
    velocity = np.asarray(velocity, dtype=float)
    found = [*masks, *[masks[0] if masks else np.zeros(velocity.shape, dtype=bool)] * 3][:3]
    particles = Particles(*found, velocity, space or plain_space(velocity.shape[1]))
    return STEPS[step](particles, CONSTANT, np.random.default_rng(seed))


# velocities


@calm
@given(shapes, seeds, st.floats(0, 0.95), st.floats(0, 2), st.floats(0, 2), st.floats(0.1, 9))
def test_velocities_stay_within_their_bound_and_the_reach_of_a_swarm_that_starts_at_rest(
    shape: tuple[int, int], seed: int, inertia: float, c1: float, c2: float, bound: float
) -> None:
    rng = np.random.default_rng(seed)
    velocity = np.zeros(shape)
    weights = VelocityWeights(inertia, c1, c2, bound)
    for _ in range(30):
        before = velocity.copy()
        position, pbest, leader = (_masks(rng, shape) for _ in range(3))
        moved = update_velocity(velocity, position, pbest, leader, weights, rng)
        assert (np.abs(moved) <= min(bound, weights.reach)).all()
        assert np.array_equal(velocity, before)
        velocity = moved


class _Ones(np.random.Generator):
    """A generator whose numbers are all 1, the supremum of uniform ones."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def random(self, size: object = None, *_: object) -> np.ndarray:  # type: ignore[override]
        return np.ones(size)  # type: ignore[call-overload, no-any-return]


def test_velocities_follow_the_formula_and_approach_the_reach() -> None:
    on, off = np.array([[True]]), np.array([[False]])
    r1, r2 = np.random.default_rng(3).random(2)
    weights, before = VelocityWeights(inertia=0.5, c1=0.7, c2=0.3), np.array([[0.4]])
    moved = update_velocity(before, off, on, on, weights, np.random.default_rng(3))
    assert moved.item() == pytest.approx(0.5 * 0.4 + 0.7 * r1 + 0.3 * r2)
    velocity, weights = np.zeros((1, 1)), VelocityWeights(0.5, 0.5, 0.5)
    for _ in range(200):
        velocity = update_velocity(velocity, off, on, on, weights, _Ones())
    assert velocity.item() == pytest.approx(weights.reach) == 2.0
    assert VelocityWeights(1.0, 2.0, 2.0).reach == np.inf
    assert VelocityWeights(1.0, 0.0, 0.0).reach == 0.0


# steps


def test_at_the_default_bound_no_unit_is_on_with_less_than_0_119() -> None:
    position, _ = stepped("bpso", np.repeat([[-2.0, 0.0, 2.0]], 40_000, axis=0))
    assert np.allclose(position.mean(axis=0), [0.1192, 0.5, 0.8808], atol=0.01)


def test_a_v_shaped_transfer_flips_by_the_size_of_the_velocity_and_keeps_at_rest() -> None:
    position = np.tile([[True, False, True, False]], (20_000, 1))
    velocity = np.tile([[0.0, 0.5, -0.5, 9.0]], (20_000, 1))
    flipped = stepped("v_shaped", velocity, position)[0] ^ position
    assert np.allclose(flipped.mean(axis=0), [0, np.tanh(0.5), np.tanh(0.5), 1], atol=0.01)
    assert not flipped[:, 0].any()


def test_flip_probabilities_are_those_of_sticky_bpso() -> None:
    # i_s = 4 / 40, i_g = 0.9 / 3 and i_p = 0.6.
    position = np.zeros((4, 40), dtype=bool)
    pbest, leader = position.copy(), position.copy()
    pbest[[1, 3]], leader[[2, 3]] = True, True
    for stickiness, alone in ((np.zeros((4, 40)), 0.1), (np.ones((4, 40)), 0.0)):
        particles = Particles(position, pbest, leader, stickiness, plain_space(40))
        expected = np.array([[0.0], [0.6], [0.3], [0.9]]) + alone
        assert np.allclose(flip_probability(particles), expected)


def test_a_bit_is_stuck_when_it_flips_and_an_eighth_freer_after_each_step() -> None:
    before = np.tile([1.0, 0.5, 0.05, 0.0], (500, 1))
    position, after = stepped("sticky", before)
    assert position[:, 3].any()
    assert np.array_equal(after, np.where(position, 1.0, np.maximum(before - 0.125, 0.0)))


@calm
@given(spaces(), seeds)
def test_recombination_takes_each_bit_from_a_parent_but_for_few_flips_of_free_units(
    space: SearchSpace, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    pbest, leader = (space.repair(_masks(rng, (400, space.n_units)), rng) for _ in range(2))
    before = pbest.copy(), leader.copy()
    velocity = np.zeros(pbest.shape)
    child, _ = stepped("recombine", velocity, ~pbest, pbest, leader, space=space, seed=seed)
    assert np.array_equal(pbest, before[0])
    assert np.array_equal(leader, before[1])
    assert (child | ~space.fixed).all()
    assert not (child & space.forbidden).any()
    strange = ((child != pbest) & (child != leader)).sum(axis=1)
    assert strange.mean() < 2.5


def test_recombination_of_equal_masks_drops_one_unit_and_adds_one_on_average() -> None:
    mask = np.zeros((20_000, 50), dtype=bool)
    mask[:, :8] = True
    child, _ = stepped("recombine", np.zeros(mask.shape), mask)
    assert (mask & ~child).sum(axis=1).mean() == pytest.approx(1, abs=0.03)
    assert (child & ~mask).sum(axis=1).mean() == pytest.approx(1, abs=0.03)


# memory


@calm
@given(shapes, seeds)
def test_shrink_keeps_used_and_fixed_units_and_the_smallest_size(
    shape: tuple[int, int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    d = shape[1]
    fixed = [f"x{i}" for i in range(d) if rng.random() < 0.2]
    space = plain_space(d, fixed=fixed, min_size=int(rng.integers(1, d + 1)))
    masks = space.repair(_masks(rng, shape), rng)
    used = _masks(rng, shape)
    kept = shrink(masks, used, space)
    assert not (kept & ~masks).any()
    assert space.obeys(kept).all()
    assert (kept[masks & (used | space.fixed)]).all()
    needed = np.maximum((masks & (used | space.fixed)).sum(axis=1), space.min_size)
    assert np.array_equal(kept.sum(axis=1), needed)
    assert np.array_equal(shrink(masks, masks, space), masks)


def test_lower_cost_improves_and_equal_cost_with_fewer_units_improves_too() -> None:
    cost = np.array([0.1, 0.2, 0.2, 0.2, 0.3, np.inf, np.nan])
    size = np.array([9, 1, 3, 2, 1, 1, 1])
    than = np.array([0.2, 0.2, 0.2, 0.2, 0.2, np.inf, np.inf])
    better = improves(cost, size, than, np.full(7, 2))
    assert better.tolist() == [True, True, False, False, False, False, False]


@calm
@given(seeds, st.integers(1, 5), st.integers(0, 14))
def test_remembering_a_batch_is_remembering_its_rows_in_turn(
    seed: int, n_particles: int, n: int
) -> None:
    rng = np.random.default_rng(seed)
    memory = Memory(
        rng.random((n_particles, 4)) < 0.5,
        rng.integers(5, size=n_particles) / 4,
        rng.random((n_particles, 4)),
    )
    owner = rng.integers(n_particles, size=n)
    masks, costs = rng.random((n, 4)) < 0.5, rng.integers(5, size=n) / 4
    importances = rng.random((n, 4))
    at_once = remember(memory, owner, masks, costs, importances)
    for i in range(n):
        row = slice(i, i + 1)
        memory = remember(memory, owner[row], masks[row], costs[row], importances[row])
    for name, expected in vars(memory).items():
        assert np.array_equal(getattr(at_once, name), expected)


# subswarms


@calm
@given(st.integers(1, 5), seeds)
def test_sizes_ranks_and_leaders_of_subswarms_are_those_of_a_loop(n_swarms: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    group = rng.permutation(split_evenly(n_swarms + int(rng.integers(9)), n_swarms))
    sizes = np.bincount(group)
    assert len(sizes) == n_swarms
    assert sizes.max() - sizes.min() <= 1
    cost = rng.choice([0.1, 0.2, np.inf], size=len(group))
    size = rng.integers(1, 3, size=len(group))
    rank = rank_in_group(group, cost, size)
    leader = leader_of_each(group, rank)
    for label in range(n_swarms):
        own = [i for i in range(len(group)) if group[i] == label]
        own.sort(key=lambda i: (cost[i], size[i], i))
        assert [rank[i] for i in own] == list(range(len(own)))
        assert {leader[i] for i in own} == {own[0]}


def test_leaders_always_search_and_only_the_next_ones_may() -> None:
    rank = np.tile(np.arange(4), 5000)
    searching = local_searchers(rank, 2, 0.3, np.random.default_rng(0)).reshape(-1, 4)
    assert np.allclose(searching.mean(axis=0), [1.0, 0.3, 0.3, 0.0], atol=0.03)


# first positions


@calm
@given(spaces(), seeds)
def test_one_per_cluster_takes_exactly_one_of_each(space: SearchSpace, seed: int) -> None:
    rng = np.random.default_rng(seed)
    free = plain_space(space.n_units)
    labels = np.unique(rng.integers(4, size=space.n_units), return_inverse=True)[1]
    masks = one_per_cluster(5, free, labels, rng)
    for label in np.unique(labels):
        assert (masks[:, labels == label].sum(axis=1) == 1).all()
    assert space.obeys(one_per_cluster(5, space, labels, rng)).all()


def test_every_unit_of_a_cluster_is_drawn_alike_but_the_forbidden_ones() -> None:
    space, labels = plain_space(6, forbidden=["x0"]), np.array([0, 0, 1, 1, 1, 2])
    masks = one_per_cluster(6000, space, labels, np.random.default_rng(0))
    assert np.allclose(masks.mean(axis=0), [0, 1, 1 / 3, 1 / 3, 1 / 3, 1], atol=0.03)
    assert not masks[:, 0].any()


@calm
@given(spaces(), st.integers(1, 9), seeds)
def test_ranked_prefixes_grow_and_hold_the_most_relevant_units(
    space: SearchSpace, n: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    relevance = rng.random(space.n_units)
    masks = ranked_prefixes(n, space, relevance, rng)
    assert space.obeys(masks).all()
    assert (np.diff(masks.sum(axis=1)) >= 0).all()
    assert masks[0].sum() == space.min_size
    assert n == 1 or masks[-1].sum() == space.max_size
    free = ~space.fixed & ~space.forbidden
    for mask in masks:
        inside, outside = relevance[mask & free], relevance[~mask & free]
        assert not (inside.size and outside.size) or inside.min() > outside.max()
