"""Claims on the three searches that are guided by information, figure by figure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.problem.hints import Hints
from swarm.search.driver import run
from swarm.statistics.lowest import lowest
from swarm.strategies.bee_colony import BeeColony, follow, loyalty, recruitment
from swarm.strategies.catalogue import make
from swarm.strategies.memetic import refined, survivors
from swarm.strategies.mlaco import reinforced
from swarm.strategies.operators.information_search import Merit, add_one, delete_one, grow
from swarm.strategies.operators.memory import Memory
from swarm.strategies.operators.walk import walk
from swarm.testing.planted import (
    constant,
    drive,
    hints_for,
    make_search,
    plain_space,
    planted,
    spaces,
)
from tests.fakes import calm

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

    def test_one_of_the_alpha_best_is_added_and_one_of_the_alpha_worst_deleted(self) -> None:
        space = plain_space(4)
        many = np.repeat(mask(1, 0, 0, 0), 300, axis=0)
        added = add_one(many, FOUR, space, rng(), alpha=2)
        assert added.sum(axis=0).tolist()[::2] == [300, 0]
        assert 110 < added[:, 1].sum() < 190
        assert (added.sum(axis=1) == 2).all()
        full = np.ones((300, 4), dtype=bool)
        # Q of all: -0.875, 0.125, -1.0, 0.0.
        left = delete_one(full, FOUR, space, rng(), alpha=3)
        assert left[:, 1].all()
        assert (left.sum(axis=0)[[0, 2, 3]] > 150).all()
        assert not delete_one(full, FOUR, space, rng(), alpha=1)[:, 2].any()

    @calm
    @given(space=spaces(), alpha=st.integers(1, 6), seed=st.integers(0, 99))
    def test_masks_grow_to_their_sizes(self, space: Any, alpha: int, seed: int) -> None:
        merit = Merit.of(hints_for(space), "test")
        size = rng(seed).integers(0, space.n_units + 2, 5)
        masks = grow(size, merit, space, rng(seed), alpha=alpha)
        assert space.obeys(masks).all()
        assert np.array_equal(masks.sum(axis=1), np.clip(size, space.min_size, space.max_size))


@calm
@given(seed=st.integers(0, 999), count=st.integers(1, 9), values=st.integers(1, 5))
def test_the_lowest_are_those_of_a_stable_sort(seed: int, count: int, values: int) -> None:
    table = rng(seed).integers(values, size=(6, 7)).astype(float)
    table[table == 4] = np.inf
    order = np.argsort(table, axis=1, kind="stable")[:, :count]
    expected = np.zeros(table.shape, dtype=bool)
    np.put_along_axis(expected, order, True, axis=1)
    assert np.array_equal(lowest(table, count), expected & np.isfinite(table))


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

    def test_bees_follow_as_often_as_the_equations_say(self) -> None:
        costs = np.array([0.0, 0.5, 1.0, 0.25])
        went = np.array([follow(costs, rng(seed)) for seed in range(4000)])
        assert (went[:, 0] == 0).all()
        assert (went[:, 1] == 1).mean() == pytest.approx(0.5, abs=0.03)
        # Bee 2 is never loyal; its recruiters are 0, often 3 and at times 1.
        shares = np.bincount(went[:, 2], minlength=4) / 4000
        expected = np.zeros(4)
        for one in (True, False):
            for three in (True, False):
                weight = 0.5 * (0.75 if three else 0.25)
                loyal = np.array([True, one, False, three])
                expected += weight * recruitment(costs, loyal)
        assert shares == pytest.approx(expected, abs=0.03)

    def test_k_grows_without_improvement_and_beyond_its_limit_all_start_anew(self) -> None:
        strategy = BeeColony(n_bees=3, k_max=2)
        steps = drive(strategy, constant(plain_space(8)), epochs=8)
        seen = [(s.proposal.role[0], s.after.k, s.after.restart) for s in steps]
        anew = [("init", 1, False), ("bee", 2, False), ("bee", 1, True)]
        assert seen == [*anew, *anew, *anew[:2]]

    def test_an_improvement_sets_k_back(self) -> None:
        strategy = BeeColony(n_bees=2)
        space = plain_space(6)
        state = strategy.start(space, hints_for(space), rng())
        moved, proposal = strategy.propose(state, rng())
        answers = planted(space).evaluate(proposal.masks, proposal.incumbents, np.arange(3))
        late = replace(moved, k=4, restart=False)
        assert strategy.observe(late, proposal, answers).k == 1
        known = replace(late, memory=Memory(late.masks, np.zeros(2), np.zeros((2, 6))))
        assert strategy.observe(known, proposal, answers).k == 5

    @calm
    @given(k=st.integers(1, 5), seed=st.integers(0, 50), size=st.integers(1, 12))
    def test_a_size_that_is_given_is_kept_and_k_units_change_at_most(
        self, k: int, seed: int, size: int
    ) -> None:
        space = plain_space(12, fixed=["x3"], max_size=9)
        strategy = BeeColony(n_bees=6, size=size)
        state = strategy.start(space, hints_for(space), rng(seed))
        assert (state.masks.sum(axis=1) == min(size, 9)).all()
        state = replace(state, epoch=1, restart=False, k=k, costs=np.full(6, 0.5))
        masks = strategy.propose(state, rng(seed))[1].masks
        assert (masks.sum(axis=1) == min(size, 9)).all()
        assert masks[:, 3].all()
        assert ((masks & ~state.masks).sum(axis=1) <= k).all()

    def test_without_a_size_bees_start_from_all_sizes_and_change_by_one(self) -> None:
        space = plain_space(12)
        strategy = BeeColony(n_bees=200)
        state = strategy.start(space, hints_for(space), rng())
        before = state.masks.sum(axis=1)
        assert set(before) == set(range(1, 13))
        state = replace(state, epoch=1, restart=False, costs=np.full(200, 0.5))
        change = strategy.propose(state, rng(1))[1].masks.sum(axis=1) - before
        assert set(change) == {-1, 0, 1}


class TestAnts:
    def test_pheromone_evaporates_and_gains_the_share_of_visits(self) -> None:
        masks = np.array([[1, 1, 0], [1, 0, 1]], dtype=bool)
        after = reinforced(np.array([1.0, 0.5, 0.25]), masks, np.array([3.0, 1.0]), 0.2)
        assert after == pytest.approx([0.8 + 4 / 8, 0.4 + 3 / 8, 0.2 + 1 / 8])
        alike = reinforced(np.ones(3), masks, np.zeros(2), 0.5)
        assert alike == pytest.approx([0.5 + 2 / 4, 0.5 + 1 / 4, 0.5 + 1 / 4])

    def test_greedy_ants_take_what_attracts_most(self) -> None:
        strategy = make("mlaco", {"q0": 1.0, "size": 2, "beta": 1.0, "n_ants": 40})
        space = plain_space(4)
        masks = strategy.propose(strategy.start(space, HINTS, rng()), rng())[1].masks
        found = {tuple(row) for row in masks.astype(int).tolist()}
        # Attraction is relevance squared, as the first pheromone, by 1 + redundancy: the first
        # goes to the third all the same (0.39 / 2.5 against 0.06), all others to the first.
        assert found == {(1, 0, 1, 0), (1, 1, 0, 0), (1, 0, 0, 1)}

    @calm
    @given(st.integers(0, 10**6), st.integers(2, 30), st.sampled_from([0.0, 0.7, 1.0]))
    def test_walks_are_those_of_the_rule_written_with_arrays(
        self, seed: int, n_units: int, q0: float
    ) -> None:
        draw = np.random.default_rng(seed)
        n_ants, n_steps = 5, n_units
        allowed = draw.random(n_units) < 0.8
        allowed[0] = True
        # Few distinct values: ties are frequent.
        pheromone = draw.integers(1, 4, n_units) / 2
        heuristic = draw.integers(1, 4, (n_units, n_units)) / 2
        greedy, turns = draw.random((n_steps, n_ants)) < q0, draw.random((n_steps, n_ants))
        size = draw.integers(1, allowed.sum(), n_ants, endpoint=True)
        masks = np.zeros((n_ants, n_units), dtype=bool)
        masks[:, 0] = True
        expected = masks.copy()
        for ant in range(n_ants):
            at = 0
            for step in range(size[ant] - 1):
                attraction = pheromone * heuristic[at] * (allowed & ~expected[ant])
                upto = attraction.cumsum()
                drawn = (upto > turns[step, ant] * upto[-1]).argmax()
                at = attraction.argmax() if greedy[step, ant] else drawn
                expected[ant, at] = True
        here = np.zeros(n_ants, dtype=np.int64)
        walk(masks, here, size, allowed, pheromone, heuristic, greedy, turns)
        assert np.array_equal(masks, expected)

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


class TestMemetic:
    def test_a_child_gains_its_best_unit_or_loses_its_worst(self) -> None:
        many = np.repeat(mask(1, 0, 1, 0), 60, axis=0)
        found = {
            tuple(row) for row in refined(many, FOUR, plain_space(4), rng()).astype(int).tolist()
        }
        # Q: -0.75 and -0.875 are in, 0.125 and 0.0 out.
        assert found == {(1, 1, 1, 0), (1, 0, 0, 0), (1, 1, 0, 0)}
        fixed_size = plain_space(4, min_size=2, max_size=2)
        assert np.array_equal(
            refined(many, FOUR, fixed_size, rng()), mask(1, 1, 0, 0).repeat(60, 0)
        )

    def test_children_are_refined_in_an_epoch_of_their_own_and_only_for_the_better(self) -> None:
        search = make_search(make("memetic"), planted(plain_space(12)), epochs=3)
        state = search.start()
        roles = []
        for _ in range(3):
            state, record = search.step(state)
            roles.append(set(record.particles["role"]))
            if roles[-1] == {"child"}:
                children = state.strategy.children
        assert roles == [{"init"}, {"child"}, {"refined"}]
        assert state.strategy.children is None
        held = state.strategy.memory
        assert (np.diff(held.costs) >= 0).all()
        assert held.costs[0] <= children.costs.min()

    def test_survivors_are_the_best_and_repeat_only_where_they_must(self) -> None:
        masks = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 0], [0, 0, 1]], dtype=bool)
        costs = np.array([0.1, 0.2, 0.1, 0.3])
        held = Memory(masks, costs, np.zeros((4, 3)))
        assert survivors(held, None, 3).costs.tolist() == [0.1, 0.2, 0.3]
        assert survivors(held, None, 4).costs.tolist() == [0.1, 0.2, 0.3, 0.1]
        assert survivors(held, held, 2).costs.tolist() == [0.1, 0.2]


@pytest.mark.parametrize("name", ["bee_colony", "mlaco", "memetic"])
def test_information_that_tells_is_worth_evaluations(name: str) -> None:
    gains = []
    for seed in range(2):
        evaluator = planted(plain_space(60), seed, helpful=15)
        told, untold = (
            make_search(make(name), evaluator, seed=seed, distinct=200, epochs=60) for _ in range(2)
        )
        blind = replace(untold, hints=hints_for(evaluator.space))
        gains.append(run(blind).cost - run(told).cost)
    assert np.mean(gains) > 0.02
