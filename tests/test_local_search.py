"""Claims on the local search of the multi-swarm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from swarm.strategies.operators.local_search import lowest, search_locally, total_squared
from swarm.testing.planted import plain_space
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
    # One candidate each (the numbers drawn are all 0) and every candidate flips (0 < 0.5). Unit 1
    # has the lowest importance in the subset.
    found = searched(Fixed(0.0), distance=distance)
    assert np.flatnonzero(found).tolist() == [0, entering]


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
