"""Claims on the local search of the multi-swarm."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from swarm.strategies.operators.local_search import lowest, search_locally, total_squared_distance
from tests.fakes import calm

seeds = st.integers(0, 2**32)
shapes = st.tuples(st.integers(1, 8), st.integers(1, 12))


class Fixed:
    """A generator whose uniform numbers are all the same."""

    def __init__(self, number: float) -> None:
        self.number = number

    def random(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.full(shape, self.number)


def _masks(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.random(shape) < rng.random()


@calm
@given(shapes, seeds, st.integers(1, 4))
def test_lowest_marks_exactly_as_many_as_asked_however_many_tie(
    shape: tuple[int, int], seed: int, levels: int
) -> None:
    rng = np.random.default_rng(seed)
    key = rng.integers(levels, size=shape).astype(float)
    among = _masks(rng, shape)
    count = rng.integers(0, shape[1] + 2, size=shape[0])
    marked = lowest(key, among, count, rng)
    assert np.array_equal(marked.sum(axis=1), np.minimum(count, among.sum(axis=1)))
    assert not (marked & ~among).any()
    for row in range(shape[0]):
        left = among[row] & ~marked[row]
        if marked[row].any() and left.any():
            assert key[row][marked[row]].max() <= key[row][left].min()


def test_lowest_breaks_ties_by_chance_not_by_position() -> None:
    n = 4000
    among = np.ones((n, 4), dtype=bool)
    marked = lowest(np.zeros((n, 4)), among, np.ones(n, dtype=int), np.random.default_rng(0))
    assert np.allclose(marked.mean(axis=0), 0.25, atol=0.03)


SUBSET = np.array([[True, True, False, False, False]])
# Distances of the units 2, 3, 4 to the units 0 and 1.
DISTANCE = np.zeros((5, 5))
DISTANCE[:2, 2:] = [[0.9, 0.6, 0.1], [0.1, 0.7, 0.2]]
DISTANCE += DISTANCE.T
IMPORTANCE = np.array([[0.3, 0.2, 9.0, 9.0, 9.0]])


def searched(rng: Any, n: int = 1, distance: Any = DISTANCE, **options: Any) -> np.ndarray:
    none = np.zeros(5, dtype=bool)
    subsets, importance = np.repeat(SUBSET, n, axis=0), np.repeat(IMPORTANCE, n, axis=0)
    squared = np.square(distance)
    return search_locally(subsets, importance, squared, rng, fixed=none, forbidden=none, **options)


def test_the_total_distance_is_the_documents_sum_of_squares() -> None:
    # d_total(S, 3)^2 = 0.36 + 0.49 = 0.85 beats d_total(S, 2)^2 = 0.81 + 0.01 = 0.82; a plain
    # sum (1.3 against 1.0) would agree, a maximum (0.7 against 0.9) would not. One candidate
    # each (the numbers drawn are all 0) and every candidate flips (0 < 0.5).
    # Unit 1 has the lowest importance in S, unit 3 the largest total distance.
    assert searched(Fixed(0.0)).tolist() == [[True, False, False, True, False]]


def test_squares_and_not_distances_are_summed() -> None:
    distance = DISTANCE.copy()
    # Squares: unit 2 has 1.0 + 0.0, unit 3 has 0.36 + 0.36; plain sums say the opposite.
    distance[0, 2:], distance[1, 2:] = [1.0, 0.6, 0.0], [0.0, 0.6, 0.0]
    found = searched(Fixed(0.0), distance=distance)
    assert found.tolist() == [[True, False, True, False, False]]


def test_low_importance_leaves_and_high_distance_enters_as_often_as_the_document_says() -> None:
    # l = 2, d - l = 3: xi and eta are 1 or 2. The first candidate flips in half of all cases,
    # the second in a quarter, the third is never one.
    flips = searched(np.random.default_rng(1), 20_000) ^ SUBSET
    assert np.allclose(flips.mean(axis=0), [0.25, 0.5, 0.25, 0.5, 0.0], atol=0.015)


def test_the_bound_max_lets_every_outside_unit_enter() -> None:
    flips = searched(np.random.default_rng(1), 20_000, addition_bound="max") ^ SUBSET
    # eta ~ U{1..3}: candidates with probabilities 1, 2/3, 1/3, halved.
    assert np.allclose(flips[:, 2:].mean(axis=0), [1 / 3, 0.5, 1 / 6], atol=0.015)


def test_the_bound_max_takes_all_outside_units_where_it_draws_more() -> None:
    # l = 3, d - l = 2: eta ~ U{1..3} of two units, all of them with probability 2/3.
    rng, wide = np.random.default_rng(1), np.tile([[True, True, True, False, False]], (20_000, 1))
    free = np.zeros(5, dtype=bool)
    found = search_locally(
        wide,
        np.zeros(wide.shape),
        np.tile([0.0, 0.0, 0.0, 1.0, 0.5], (5, 1)),
        rng,
        fixed=free,
        forbidden=free,
        addition_bound="max",
    )
    assert np.allclose(found[:, 3:].mean(axis=0), [0.5, 1 / 3], atol=0.015)


@settings(calm, max_examples=100)
@given(shapes, seeds, st.sampled_from(["min", "max"]))
def test_local_search_flips_within_the_bounds_and_leaves_fixed_and_forbidden_alone(
    shape: tuple[int, int], seed: int, addition_bound: Any
) -> None:
    rng = np.random.default_rng(seed)
    n, d = shape
    fixed = rng.random(d) < 0.2
    forbidden = ~fixed & (rng.random(d) < 0.2)
    pbest = (_masks(rng, shape) | fixed) & ~forbidden
    importance, distance = rng.random(shape), rng.random((d, d))
    arrays = [pbest, importance, distance, fixed, forbidden]
    before = [array.copy() for array in arrays]
    found = search_locally(
        pbest,
        importance,
        distance,
        rng,
        fixed=fixed,
        forbidden=forbidden,
        addition_bound=addition_bound,
    )
    assert all(np.array_equal(a, b) for a, b in zip(arrays, before, strict=True))
    removed, added = pbest & ~found, found & ~pbest
    assert not (removed & fixed).any()
    assert not (added & forbidden).any()
    size = pbest.sum(axis=1)
    most = (np.minimum if addition_bound == "min" else np.maximum)(size, d - size)
    assert (added.sum(axis=1) <= most).all()
    total = pbest.astype(float) @ distance
    for row in range(n):
        # What flips is among the xi lowest (the eta highest) for some xi (eta) in range.
        worst = importance[row][removed[row]]
        assert (importance[row][pbest[row] & ~fixed] <= worst.max(initial=-1)).sum() <= size[row]
        nearest = total[row][added[row]]
        outside = ~pbest[row] & ~forbidden
        reached = (total[row][outside] >= nearest.min(initial=np.inf) - 1e-12).sum()
        assert reached <= most[row]


class AllFlip:
    """A generator that lets every candidate flip: one number a row is drawn, many are halved."""

    def __init__(self) -> None:
        self.inner = np.random.default_rng(0)

    def random(self, shape: tuple[int, ...]) -> np.ndarray:
        drawn = self.inner.random(shape)
        return drawn if len(shape) == 1 else drawn / 2


def test_the_numbers_of_candidates_are_uniform_from_one() -> None:
    n = 12_000
    pbest = np.repeat([[True] * 3 + [False] * 4], n, axis=0)
    none = np.zeros(7, dtype=bool)
    found = search_locally(
        pbest, np.ones((n, 7)), np.ones((7, 7)), cast(Any, AllFlip()), fixed=none, forbidden=none
    )
    for flipped in ((pbest & ~found).sum(axis=1), (found & ~pbest).sum(axis=1)):
        share = np.bincount(flipped, minlength=4) / n
        assert np.allclose(share, [0, 1 / 3, 1 / 3, 1 / 3], atol=0.02)


@pytest.mark.parametrize("d", [83, 250])
def test_equal_units_tie_exactly_for_any_number_of_blas_threads(d: int) -> None:
    rng = np.random.default_rng(0)
    half = rng.random((d, d))
    squared = np.tile(np.square(half + half.T), (2, 2))
    subsets = rng.random((5, 2 * d)) < 0.3
    totals = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads):
            totals.append(total_squared_distance(subsets, squared))
    assert np.array_equal(totals[0][:, :d], totals[0][:, d:])
    assert totals[0].tobytes() == totals[1].tobytes() == totals[2].tobytes()
    assert np.allclose(totals[0], subsets.astype(float) @ squared)
