"""Tests of the three searches that are guided by information, figure by figure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from swarm.problem.hints import Hints
from swarm.strategies.bee_colony import follow, loyalty, recruitment
from swarm.strategies.catalogue import make
from swarm.strategies.genetic import Genetic
from swarm.strategies.memetic import refined
from swarm.strategies.operators.information_search import Merit
from swarm.strategies.operators.walk import walk
from swarm.testing.planted import drive, hints_for, plain_space, planted

# Four units and two labels: the third repeats the first.
HINTS = Hints(
    relevance=np.array([[0.5, 0.25], [0.25, 0.0], [0.5, 0.125], [0.0, 0.125]]),
    redundancy=np.array(
        [[2.0, 0.0, 1.5, 0.125], [0.0, 1.0, 0.125, 0.0], [1.5, 0.125, 2.0, 0.0], [0.125, 0, 0, 1]]
    ),
)
FOUR = Merit.of(HINTS, "test")


def mask(*bits: int) -> np.ndarray[Any, Any]:
    return np.array([bits], dtype=bool)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


class TestMerit:
    def test_the_figures_of_equation_3(self) -> None:
        assert FOUR.values(mask(0, 0, 0, 0)).tolist() == [[0.75, 0.25, 0.625, 0.125]]
        assert FOUR.values(mask(1, 0, 0, 0)).tolist() == [[0.75, 0.25, -0.875, 0.0]]
        # A unit that is in is not redundant with itself.
        assert FOUR.values(mask(1, 0, 1, 0)).tolist() == [[-0.75, 0.125, -0.875, 0.0]]

    def test_merits_do_not_depend_on_the_order_of_a_sum(self) -> None:
        merit = Merit.of(hints_for(plain_space(50)), "test")
        masks = rng().random((20, 50)) < 0.5
        values = merit.values(masks)
        for row, found in zip(masks, values, strict=True):
            units = rng(1).permutation(np.flatnonzero(row))
            one_by_one = merit.relevance.copy()
            for unit in units:
                one_by_one -= merit.redundancy[unit]
            assert np.array_equal(one_by_one, found)


class TestBees:
    def test_the_figures_of_loyalty_and_recruitment(self) -> None:
        costs = np.array([0.2, 0.4, 0.6, 0.3])
        assert loyalty(costs) == pytest.approx([1.0, 0.5, 0.0, 0.75])
        share = recruitment(costs, np.array([True, False, False, True]))
        assert share == pytest.approx([0.8 / 1.5, 0, 0, 0.7 / 1.5])
        assert loyalty(np.full(3, 0.5)).tolist() == [1, 1, 1]

    def test_costs_without_bounds_are_taken_from_the_worst_bee_upwards(self) -> None:
        costs = np.array([-3.0, -1.0, 1.0, 2.0])
        assert loyalty(costs) == pytest.approx([1.0, 0.6, 0.2, 0.0])
        share = recruitment(costs, np.array([True, False, True, True]))
        assert share == pytest.approx([1 / 1.2, 0, 0.2 / 1.2, 0])

    def test_nobody_follows_a_bee_whose_fit_failed(self) -> None:
        costs = np.array([0.9, np.inf, 0.9])
        assert loyalty(costs).tolist() == [1, 0, 1]
        assert all(1 not in follow(costs, rng(seed)) for seed in range(50))
        assert loyalty(np.full(4, np.inf)).tolist() == [1] * 4
        assert follow(np.full(4, np.inf), rng()).tolist() == [0, 1, 2, 3]


class TestAnts:
    def test_the_masks_of_a_warm_start_come_once(self) -> None:
        warm = np.random.default_rng(8).random((3, 20)) < 0.3
        first, second = drive(make("mlaco"), planted(plain_space(20)), epochs=2, warm=warm)
        assert np.array_equal(first.proposal.masks[:3], warm)
        assert not np.array_equal(second.proposal.masks[:3], warm)

    @pytest.mark.parametrize("greedy", [True, False])
    def test_walks_reach_their_size_where_attractions_are_rounded_to_zero(
        self, greedy: bool
    ) -> None:
        masks, size = np.zeros((3, 6), dtype=bool), np.array([2, 5, 9])
        masks[:, 1] = True
        allowed = np.arange(6) != 4
        least, nothing = np.full(6, 1e-6), np.full((6, 6), 1e-320)
        steps = (np.full((6, 3), greedy), np.full((6, 3), 0.5))
        walk(masks, np.ones(3, dtype=np.int64), size, allowed, least, nothing, *steps)
        assert masks.sum(axis=1).tolist() == [2, 5, 5]
        assert not masks[:, 4].any()

    def test_a_unit_that_tells_nothing_is_visited_where_nothing_else_is_left(self) -> None:
        space = plain_space(4)
        blank = Hints(relevance=np.zeros((4, 2)), redundancy=np.eye(4))
        for hints in (blank, HINTS):
            strategy = make("mlaco", {"size": 4})
            assert strategy.propose(strategy.start(space, hints, rng()), rng())[1].masks.all()


def test_lucky_parents_survive_beside_the_elite_and_the_children() -> None:
    strategy = Genetic(population_size=10, n_elite=2, generation_gap=0.5)
    for step in drive(strategy, planted(plain_space(12)), epochs=6)[1:]:
        survivors = step.moved.survivors.tolist()
        assert survivors[:2] == [0, 1]
        assert len(set(survivors)) == 5
        assert set(survivors) <= set(range(10))
        assert len(step.proposal.masks) == 5
        assert len(step.after.memory.masks) == 10


def test_a_child_gains_its_best_unit_or_loses_its_worst() -> None:
    many = np.repeat(mask(1, 0, 1, 0), 60, axis=0)
    found = {tuple(row) for row in refined(many, FOUR, plain_space(4), rng()).astype(int).tolist()}
    # Q: -0.75 and -0.875 are in, 0.125 and 0.0 out.
    assert found == {(1, 1, 1, 0), (1, 0, 0, 0), (1, 1, 0, 0)}
    fixed_size = plain_space(4, min_size=2, max_size=2)
    assert np.array_equal(refined(many, FOUR, fixed_size, rng()), mask(1, 1, 0, 0).repeat(60, 0))
