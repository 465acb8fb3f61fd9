"""The sequential searches: each rule on a problem made for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.errors import ConfigError, SpaceError
from swarm.problem.space import SearchSpace
from swarm.search.driver import run
from swarm.search.result import SearchResult
from swarm.strategies.catalogue import make
from swarm.strategies.operators.add_drop import begin, follow, next_sets
from swarm.strategies.operators.sequential import (
    additions,
    first_of_size,
    is_better,
    removals,
    standard_error,
    within_one_error,
)
from swarm.strategies.operators.subset_size import answer_sizes
from swarm.testing.planted import Planted, constant, make_search, plain_space, planted, spaces
from tests.fakes import calm

FORWARD, BACKWARD = ("sfs", "sffs"), ("sbs", "sbfs")
NAMES = (*FORWARD, *BACKWARD)
# Alone unit 0 is best, with it unit 1; but 12 is the best pair, found from 012 only.
FOUND_LATE = {"1000": 0.5, "0100": 0.6, "0010": 0.61, "1100": 0.4, "1110": 0.3, "0110": 0.2}
FOUND_LATE["0111"] = 0.1
# The first units are the best of every size, and the fourth brings nothing.
NESTED = {"1000": 0.304, "1100": 0.301, "1110": 0.3, "1111": 0.3}


@dataclass
class Interacting(Planted):
    """A planted cost for some subsets; every other costs 1, less a little for each unit.

    On the two folds the cost is lower and higher by `spread`, which is its standard error.
    """

    costs: dict[str, float] = field(default_factory=dict)
    spread: float = 0.0

    def fold_cost(self, mask: Any, fold: int) -> float:
        cost = self.costs.get(bits(mask), 1.0 - 0.001 * float(mask.sum()))
        return cost + (self.spread if fold else -self.spread)


def interacting(n_units: int, costs: dict[str, float], spread: float = 0.0) -> Interacting:
    space, blank = plain_space(n_units), np.zeros((2, n_units))
    return Interacting(space, blank, np.zeros(2), costs=costs, spread=spread)


def search(name: str, evaluator: Planted, **parameters: Any) -> SearchResult:
    return run(make_search(make(name, parameters), evaluator, epochs=10_000))


def bits(mask: Any) -> str:
    return "".join("01"[int(bit)] for bit in mask)


def proposed(result: SearchResult) -> list[list[str]]:
    return [record.particles["mask"].tolist() for record in result.records]


def roles(result: SearchResult) -> list[str]:
    return [record.particles["role"].iloc[0] for record in result.records]


class TestSets:
    @calm
    @given(space=spaces(), seed=st.integers(0, 1000))
    def test_they_are_one_unit_away_all_different_and_in_order(
        self, space: SearchSpace, seed: int
    ) -> None:
        mask = space.repair(np.zeros((1, space.n_units), bool), np.random.default_rng(seed))[0]
        for masks, free in (
            (additions(mask, space), ~mask & ~space.forbidden),
            (removals(mask, space), mask & ~space.fixed),
        ):
            assert ((masks ^ mask).sum(axis=1) == 1).all()
            assert np.array_equal((masks ^ mask).any(axis=0), free)
            assert len(masks) == free.sum()
        lists = [np.flatnonzero(row).tolist() for row in removals(mask, space)]
        assert lists == sorted(lists)

    def test_a_barred_unit_is_left_alone(self) -> None:
        space, mask = plain_space(4), np.array([True, True, False, False])
        assert [bits(row) for row in additions(mask, space, 2)] == ["1101"]
        assert [bits(row) for row in removals(mask, space, 1)] == ["0100"]

    @calm
    @given(space=spaces())
    def test_the_first_of_each_size_obey_every_constraint(self, space: SearchSpace) -> None:
        sizes = np.arange(space.min_size, space.max_size + 1)
        masks = first_of_size(sizes, space)
        assert space.obeys(masks).all()
        assert np.array_equal(masks.sum(axis=1), sizes)

    def test_the_standard_error_is_that_of_a_mean(self) -> None:
        costs = np.array([0.1, 0.3, 0.2, 0.2])
        assert standard_error(costs) == pytest.approx(np.sqrt(0.02 / 3) / 2)
        assert standard_error(costs[:1]) == 0.0

    def test_one_error_is_counted_from_the_best_and_by_its_own_error(self) -> None:
        costs = np.array([np.inf, 0.35, 0.31, 0.30, 0.30])
        assert within_one_error(costs, np.array([9.0, 9.0, 0.0, 0.02, 9.0])) == 2
        assert within_one_error(costs, np.array([9.0, 9.0, 9.0, 0.005, 9.0])) == 3
        assert within_one_error(costs, np.zeros(5)) == 3


class TestPlain:
    def test_forward_asks_for_every_addition_once(self) -> None:
        for k in (1, 4, 9):
            result = search("sfs", planted(plain_space(9)), size=k)
            expected = sum(9 - step for step in range(k))
            assert result.state.counts.evaluations == result.state.counts.distinct == expected
            assert [len(masks) for masks in proposed(result)] == [9 - step for step in range(k)]
            assert result.reason == "finished"
            assert result.best_mask.sum() == k

    def test_backward_asks_for_all_units_and_then_for_every_removal(self) -> None:
        result = search("sbs", planted(plain_space(9)), size=4)
        assert [len(masks) for masks in proposed(result)] == [1, 9, 8, 7, 6, 5]
        assert proposed(result)[0] == ["1" * 9]
        assert result.reason == "finished"

    @pytest.mark.parametrize("name", NAMES)
    def test_of_equal_sets_that_of_the_first_units_is_taken(self, name: str) -> None:
        result = search(name, constant(plain_space(5)), size=2)
        assert bits(result.best_mask) == "11000"

    def test_the_order_of_a_sum_decides_nothing(self) -> None:
        # Fold costs 0.1, 0.2, 0.3 in another order: 0.6000000000000001 against 0.6.
        weights = np.array([[0.1, 0.3], [0.2, 0.2], [0.3, 0.1]])
        evaluator = Planted(plain_space(2), weights, np.zeros(3))
        first, second = (evaluator.cost(mask) for mask in np.eye(2, dtype=bool))
        assert first > second
        assert not is_better(second, first)
        assert bits(search("sfs", evaluator, size=1).best_mask) == "10"


class TestFloating:
    def test_it_finds_a_better_set_than_plain_forward_selection(self) -> None:
        evaluator = interacting(4, FOUND_LATE)
        plain, floating = search("sfs", evaluator, size=3), search("sffs", evaluator, size=3)
        assert (bits(plain.best_mask), plain.cost) == ("1110", 0.30)
        assert (bits(floating.best_mask), floating.cost) == ("0111", 0.10)
        pairs = [bits(mask) for mask in floating.state.strategy.masks]
        assert pairs == ["1000", "0110", "0111"]
        # Back to 12 after the first addition to a pair, and not again.
        assert roles(floating) == ["add"] * 3 + ["conditional drop"] + ["add", "conditional drop"]
        # Without unit 2, the last one added, it would be where it came from.
        assert proposed(floating)[3] == ["1010", "0110"]

    def test_it_finds_a_better_set_than_plain_backward_selection(self) -> None:
        costs = {
            **{"11111": 0.9, "11110": 0.5, "11100": 0.45, "11000": 0.40, "11001": 0.2},
            **{"01001": 0.1},
        }
        evaluator = interacting(5, costs)
        plain, floating = search("sbs", evaluator, size=2), search("sbfs", evaluator, size=2)
        assert (bits(plain.best_mask), plain.cost) == ("11000", 0.40)
        assert (bits(floating.best_mask), floating.cost) == ("01001", 0.10)
        assert "conditional add" in roles(floating)

    def test_a_set_as_good_as_the_best_of_its_size_is_not_gone_back_to(self) -> None:
        evaluator = interacting(4, {**FOUND_LATE, "0110": 0.40})
        result = search("sffs", evaluator, size=3)
        assert bits(result.best_mask) == "1110"
        assert roles(result)[-1] == "conditional drop"

    def test_by_pudil_the_best_of_the_size_is_all_that_is_to_be_beaten(self) -> None:
        # Every unit helps, so no set is better than the larger one it comes from.
        costs = {**FOUND_LATE, "1110": 0.15}
        documents = search("sffs", interacting(4, costs), size=3)
        pudil = search("sffs", interacting(4, costs), size=3, must_beat="size")
        assert documents.cost == 0.15
        assert (bits(pudil.best_mask), pudil.cost) == ("0111", 0.10)

    @pytest.mark.parametrize("name", ["sffs", "sbfs"])
    @pytest.mark.parametrize("must_beat", ["current", "size"])
    @calm
    @given(seed=st.integers(0, 10_000), levels=st.sampled_from([2, 4, 1000]))
    def test_it_ends_whatever_the_costs_and_no_size_ever_gets_worse(
        self, name: str, must_beat: str, seed: int, levels: int
    ) -> None:
        rng = np.random.default_rng(seed)
        n_units = 6
        costs = {
            format(number, f"0{n_units}b"): float(rng.integers(levels)) / levels
            for number in range(1, 2**n_units)
        }
        evaluator = interacting(n_units, costs)
        strategy: Any = make(name, {"must_beat": must_beat})
        state = strategy.start(evaluator.space, None, rng)
        visited, current = set(), state.cost
        while not strategy.finished(state):
            before = state
            state, proposal = strategy.propose(state, rng)
            answers = evaluator.evaluate(proposal.masks, proposal.incumbents, np.arange(2))
            state = strategy.observe(state, proposal, answers)
            assert (state.costs <= before.costs).all()
            if before.phase == "conditional" and state.mask is not before.mask:
                size = int(state.mask.sum())
                assert state.cost < before.best_cost(size)
                assert must_beat == "size" or state.cost < before.cost
                # The guard against cycles: no set is gone back to twice.
                assert bits(state.mask) not in visited
                visited.add(bits(state.mask))
            current = min(current, state.cost)
        assert state.members.costs.min() == current

    def test_conditional_steps_are_pruned_and_plain_ones_are_not(self) -> None:
        evaluator = planted(plain_space(10))
        result = search("sffs", evaluator)
        rows = [record.particles for record in result.records]
        missing = {r["role"].iloc[0]: 0 for r in rows}
        for particles in rows:
            missing[particles["role"].iloc[0]] += int(particles["cost"].isna().sum())
        assert missing["add"] == 0
        assert missing["conditional drop"] > 0
        whole = planted(plain_space(10))
        whole.pruning = False
        assert proposed(search("sffs", whole)) == proposed(result)
        assert evaluator.fits < whole.fits

    @pytest.mark.parametrize("name", ["sffs", "sbfs"])
    def test_without_conditional_steps_it_is_the_plain_search(self, name: str) -> None:
        # Where costs add up the best set of every size is found at once.
        result = search(name, planted(plain_space(8)))
        plain = search(
            name.replace("f", "", 1) if name == "sbfs" else "sfs", planted(plain_space(8))
        )
        assert np.array_equal(result.state.strategy.masks, plain.state.strategy.masks)


class TestConstraints:
    @pytest.mark.parametrize("name", [*NAMES, "rfe"])
    @calm
    @given(space=spaces(), seed=st.integers(0, 50))
    def test_fixed_units_stay_forbidden_ones_never_come_and_the_answer_obeys(
        self, name: str, space: SearchSpace, seed: int
    ) -> None:
        result = search(name, planted(space, seed))
        masks = np.array([[b == "1" for b in row] for rows in proposed(result) for row in rows])
        assert masks[:, space.fixed].all()
        assert not masks[:, space.forbidden].any()
        assert space.obeys(result.best_mask[None, :]).all()
        members = result.state.strategy.members
        assert space.obeys(members.masks).all()
        assert np.isfinite(members.costs).all()
        assert result.reason == "finished"

    def test_forward_starts_from_the_fixed_units(self) -> None:
        space = plain_space(6, fixed=["x4"], forbidden=["x0"])
        assert proposed(search("sfs", planted(space), size=2)) == [
            ["000010"],
            ["010010", "001010", "000110", "000011"],
        ]

    def test_a_group_goes_as_one(self) -> None:
        columns = [f"x{i}" for i in range(6)]
        space = SearchSpace.build(columns, groups={"g": ["x1", "x2", "x3"]})
        evaluator = planted(space)
        for name in NAMES:
            result = search(name, evaluator, size=2)
            assert result.best_mask.sum() == 2
            assert len(set(result.features) & {"x1", "x2", "x3"}) in (0, 3)

    def test_the_path_ends_with_the_last_size_that_may_be_the_answer(self) -> None:
        space = plain_space(8, min_size=3, max_size=5)
        for name in NAMES:
            result = search(name, planted(space))
            largest = 5 if name in FORWARD else 8
            least = 1 if name in FORWARD else 3
            sizes = {row.count("1") for rows in proposed(result) for row in rows}
            assert (min(sizes), max(sizes)) == (least, largest)
            assert 3 <= result.best_mask.sum() <= 5


class TestSize:
    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize(
        ("size", "units"),
        [(1, 1), (2, 2), (4, 4), ((1, 2), 2), ([3, 4], 3), ((4, 4), 4), ("best", 3)],
    )
    def test_the_answer_is_the_cheapest_of_the_sizes_asked_for_and_of_equal_ones_the_smaller(
        self, name: str, size: Any, units: int
    ) -> None:
        result = search(name, interacting(4, NESTED), size=size)
        assert bits(result.best_mask) == "1" * units + "0" * (4 - units)
        assert result.cost == NESTED[bits(result.best_mask)]

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize(("spread", "units"), [(0.0, 3), (0.0015, 2), (0.0045, 1)])
    def test_parsimonious_is_the_smallest_within_one_standard_error_of_the_best(
        self, name: str, spread: float, units: int
    ) -> None:
        # Two folds at c - e and c + e: the standard error is e.
        evaluator = interacting(4, NESTED, spread=spread)
        result = search(name, evaluator, size="parsimonious")
        assert result.best_mask.sum() == units

    def test_there_is_no_answer_before_its_size_is_reached(self) -> None:
        strategy: Any = make("sbs", {"size": 2})
        evaluator = planted(plain_space(4))
        state = strategy.start(evaluator.space, None, np.random.default_rng(0))
        answers = []
        while not strategy.finished(state):
            proposal = next_sets(state)
            done = evaluator.evaluate(proposal.masks, proposal.incumbents, np.arange(3))
            state = follow(state, proposal, done)
            answers.append(state.members.answer)
        assert answers == [None, None, 0]

    @pytest.mark.parametrize(
        ("size", "words"),
        [
            (0, "size must be >= 1, got 0"),
            (True, "size must be a number, got True"),
            (2.5, "size must be a whole number, got 2.5"),
            ("most", "'best' or 'parsimonious', got 'most'"),
            ((3, 2), "min <= max"),
            ((1, 2, 3), "got 3 numbers"),
            ([0, 2], "smallest size must be >= 1"),
        ],
    )
    def test_a_size_that_is_none_is_refused(self, size: Any, words: str) -> None:
        with pytest.raises(ConfigError, match=words.replace("(", r"\(")):
            make("sfs", {"size": size})

    @pytest.mark.parametrize(
        ("size", "words"),
        [
            (7, "size 7 exceeds the 6 allowed units"),
            ((2, 7), "size 7 exceeds the 6"),
            (1, "size 1 is below the 2 fixed units"),
            (2, "size 2 is outside min_size 3 to max_size 5"),
            ((6, 6), "size 6 is outside min_size 3 to max_size 5"),
        ],
    )
    def test_a_size_that_contradicts_the_space_is_refused_at_the_start(
        self, size: Any, words: str
    ) -> None:
        space = plain_space(8, fixed=["x0", "x1"], forbidden=["x6", "x7"], min_size=3, max_size=5)
        for forward in (True, False):
            with pytest.raises(SpaceError, match=words):
                begin(space, size, forward=forward, must_beat=None)

    def test_a_range_is_cut_to_the_bounds_of_the_space(self) -> None:
        space = plain_space(8, min_size=3, max_size=5)
        assert answer_sizes((1, 4), space) == (3, 4)
        assert answer_sizes((4, 8), space) == (4, 5)
