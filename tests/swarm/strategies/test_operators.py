"""The operators are pure functions on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from swarm.problem.space import SearchSpace
from swarm.strategies.multiswarm import split_evenly
from swarm.strategies.operators.initialise import ranked_prefixes
from swarm.strategies.operators.local_search import mark_lowest, search_locally, total_squared
from swarm.strategies.operators.memory import Memory, improves, remember
from swarm.strategies.operators.steps import VelocityWeights, update_velocity
from swarm.testing.planted import plain_space, spaces
from tests.fakes import calm

seeds = st.integers(0, 2**32)
shapes = st.tuples(st.integers(1, 8), st.integers(1, 12))


def _masks(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.random(shape) < rng.random()


# velocities


class _Ones(np.random.Generator):
    """A generator whose numbers are all 1, the supremum of uniform ones."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def random(self, size: object = None, *_: object) -> np.ndarray:  # type: ignore[override]
        return np.ones(size)  # type: ignore[call-overload, no-any-return]


def test_velocities_follow_the_formula_and_approach_the_reach() -> None:
    on = np.array([[True]])
    off = np.array([[False]])
    r1, r2 = np.random.default_rng(3).random(2)
    weights = VelocityWeights(inertia=0.5, c1=0.7, c2=0.3)
    moved = update_velocity(np.array([[0.4]]), off, on, on, weights, np.random.default_rng(3))
    assert moved.item() == pytest.approx(0.5 * 0.4 + 0.7 * r1 + 0.3 * r2)
    velocity = np.zeros((1, 1))
    weights = VelocityWeights(0.5, 0.5, 0.5)
    for _ in range(200):
        velocity = update_velocity(velocity, off, on, on, weights, _Ones())
    assert velocity.item() == pytest.approx(weights.reach) == 2.0
    assert VelocityWeights(1.0, 2.0, 2.0).reach == np.inf
    assert VelocityWeights(1.0, 0.0, 0.0).reach == 0.0


# memory


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


def test_sizes_of_subswarms_differ_by_at_most_one() -> None:
    assert np.bincount(split_evenly(11, 4)).tolist() == [3, 3, 3, 2]


# first positions


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


# local search


class Fixed:
    """A generator whose uniform numbers are all the same."""

    def __init__(self, number: float) -> None:
        self.number = number

    def random(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.full(shape, self.number)


@calm
@given(shapes, seeds, st.integers(1, 4))
def test_lowest_marks_exactly_as_many_as_asked_however_many_tie(
    shape: tuple[int, int], seed: int, levels: int
) -> None:
    rng = np.random.default_rng(seed)
    key = rng.integers(levels, size=shape).astype(float)
    among = _masks(rng, shape)
    count = rng.integers(0, shape[1] + 2, size=shape[0])
    marked = mark_lowest(key, among, count, rng)
    assert np.array_equal(marked.sum(axis=1), np.minimum(count, among.sum(axis=1)))
    assert not (marked & ~among).any()
    for row in range(shape[0]):
        left = among[row] & ~marked[row]
        if marked[row].any() and left.any():
            assert key[row][marked[row]].max() <= key[row][left].min()


def test_lowest_breaks_ties_by_chance_not_by_position() -> None:
    n = 4000
    among = np.ones((n, 4), dtype=bool)
    marked = mark_lowest(np.zeros((n, 4)), among, np.ones(n, dtype=int), np.random.default_rng(0))
    assert np.allclose(marked.mean(axis=0), 0.25, atol=0.03)


SUBSET = np.array([True, True, False, False, False])
# Distances of the units 2, 3, 4 to the units 0 and 1.
DISTANCE = np.zeros((5, 5))
DISTANCE[:2, 2:] = [[0.9, 0.6, 0.1], [0.1, 0.7, 0.2]]
DISTANCE += DISTANCE.T
IMPORTANCE = [0.3, 0.2, 9.0, 9.0, 9.0]


def searched(
    rng: Any, n: int = 1, subset: Any = SUBSET, distance: Any = DISTANCE, **options: Any
) -> np.ndarray:
    subsets, importance = np.tile(subset, (n, 1)), np.tile(IMPORTANCE, (n, 1))
    space = plain_space(5)
    return search_locally(subsets, importance, np.square(distance), space, rng, **options)


@pytest.mark.parametrize(
    ("first", "second", "entering"),
    [
        # 0.36 + 0.49 beats 0.81 + 0.01; a plain sum (1.3 against 1.0) would agree, a maximum (0.7
        # against 0.9) would not.
        ([0.9, 0.6, 0.1], [0.1, 0.7, 0.2], 3),
        # 1.0 + 0.0 beats 0.36 + 0.36; plain sums say the opposite.
        ([1.0, 0.6, 0.0], [0.0, 0.6, 0.0], 2),
    ],
)
def test_the_total_distance_is_the_documents_sum_of_squares(
    first: list[float], second: list[float], entering: int
) -> None:
    distance = DISTANCE.copy()
    distance[:2, 2:] = [first, second]
    # All random numbers are 0, so that there is one candidate each, and it flips (0 < 0.5). Unit 1
    # has the lowest importance in the subset.
    subset = searched(Fixed(0.0), distance=distance)
    assert np.flatnonzero(subset).tolist() == [0, entering]


WIDE = np.array([True, True, True, False, False])


@pytest.mark.parametrize(
    ("subset", "distance", "bound", "expected"),
    [
        # l = 2, d - l = 3: xi and eta are 1 or 2. The first candidate flips in half of all cases,
        # the second in a quarter, the third is never one.
        (SUBSET, DISTANCE, "min", [0.25, 0.5, 0.25, 0.5, 0.0]),
        # eta ~ U{1..3}: candidates with probabilities 1, 2/3, 1/3, halved.
        (SUBSET, DISTANCE, "max", [0.25, 0.5, 1 / 3, 0.5, 1 / 6]),
        # l = 3, d - l = 2: eta ~ U{1..3} of two units, all of them with probability 2/3.
        (WIDE, np.tile([0, 0, 0, 1.0, 0.5], (5, 1)), "max", [1 / 3, 0.5, 1 / 6, 0.5, 1 / 3]),
    ],
    ids=["as many as are inside", "every outside unit", "more than are outside"],
)
def test_low_importance_leaves_and_high_distance_enters_as_often_as_the_document_says(
    subset: np.ndarray, distance: np.ndarray, bound: str, expected: list[float]
) -> None:
    rng = np.random.default_rng(1)
    flips = searched(rng, 20_000, subset, distance, addition_bound=bound) ^ subset
    assert np.allclose(flips.mean(axis=0), expected, atol=0.015)


@pytest.mark.parametrize("d", [83, 250])
def test_equal_units_tie_exactly_for_any_number_of_blas_threads(d: int) -> None:
    rng = np.random.default_rng(0)
    half = rng.random((d, d))
    squared = np.tile(np.square(half + half.T), (2, 2))
    subsets = rng.random((5, 2 * d)) < 0.3
    totals = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads):
            totals.append(total_squared(subsets, squared))
    assert np.array_equal(totals[0][:, :d], totals[0][:, d:])
    assert totals[0].tobytes() == totals[1].tobytes() == totals[2].tobytes()
    assert np.allclose(totals[0], subsets.astype(float) @ squared)
