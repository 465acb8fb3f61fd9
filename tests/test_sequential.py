"""The sequential searches: rules on problems made for them.

test_sequential_parity compares every proposal, path and answer with mlxtend.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.errors import SpaceError
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.search.driver import run
from swarm.search.result import SearchResult
from swarm.strategies.catalogue import make
from swarm.strategies.operators.sequential import (
    answer_sizes,
    first_of_size,
    is_better,
    within_one_error,
)
from swarm.testing.planted import Planted, make_search, plain_space, planted, spaces
from tests.fakes import calm

FORWARD, BACKWARD = ("sfs", "sffs"), ("sbs", "sbfs")
NAMES = (*FORWARD, *BACKWARD)
# Alone unit 0 is best, with it unit 1; but 12 is the best pair, found from 012 only.
FOUND_LATE = {"1000": 0.5, "0100": 0.6, "0010": 0.61, "1100": 0.4, "1110": 0.3, "0110": 0.2}
FOUND_LATE["0111"] = 0.1


@dataclass
class Interacting(Planted):
    """A planted cost for some subsets; every other costs 1, less a little for each unit."""

    costs: dict[str, float] = field(default_factory=dict)

    def fold_cost(self, mask: Any, fold: int) -> float:
        return self.costs.get(bits(mask), 1.0 - 0.001 * float(mask.sum()))


def interacting(n_units: int, costs: dict[str, float]) -> Interacting:
    return Interacting(plain_space(n_units), np.zeros((2, n_units)), np.zeros(2), costs=costs)


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
    @given(space=spaces())
    def test_the_first_of_each_size_obey_every_constraint(self, space: SearchSpace) -> None:
        sizes = np.arange(space.min_size, space.max_size + 1)
        masks = first_of_size(sizes, space)
        assert space.obeys(masks).all()
        assert np.array_equal(masks.sum(axis=1), sizes)

    def test_one_error_is_counted_from_the_best_and_by_its_own_error(self) -> None:
        costs = np.array([np.inf, 0.35, 0.31, 0.30, 0.30])
        assert within_one_error(costs, np.array([9.0, 9.0, 0.0, 0.02, 9.0])) == 2
        assert within_one_error(costs, np.array([9.0, 9.0, 9.0, 0.005, 9.0])) == 3
        assert within_one_error(costs, np.zeros(5)) == 3


class TestPlain:
    def test_the_order_of_a_sum_decides_nothing(self) -> None:
        # Fold costs 0.1, 0.2, 0.3 in another order: 0.6000000000000001 against 0.6.
        weights = np.array([[0.1, 0.3], [0.2, 0.2], [0.3, 0.1]])
        evaluator = Planted(plain_space(2), weights, np.zeros(3))
        first, second = (evaluator.cost(mask) for mask in np.eye(2, dtype=bool))
        assert first == second
        assert not is_better(second, np.nextafter(first, 1))
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

    def test_by_pudil_the_best_of_the_size_is_all_that_is_to_be_beaten(self) -> None:
        # Every unit helps, so no set is better than the larger one it comes from.
        costs = {**FOUND_LATE, "1110": 0.15}
        documents = search("sffs", interacting(4, costs), size=3)
        pudil = search("sffs", interacting(4, costs), size=3, must_beat="size")
        assert documents.cost == 0.15
        assert (bits(pudil.best_mask), pudil.cost) == ("0111", 0.10)

    @pytest.mark.parametrize("name", ["sffs", "sbfs"])
    @pytest.mark.parametrize("must_beat", ["current", "size"])
    @settings(calm, max_examples=30)
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


class TestSize:
    def test_the_path_ends_with_the_last_size_that_may_be_the_answer(self) -> None:
        space = plain_space(8, min_size=3, max_size=5)
        for name in NAMES:
            result = search(name, planted(space))
            largest = 5 if name in FORWARD else 8
            least = 1 if name in FORWARD else 3
            sizes = {row.count("1") for rows in proposed(result) for row in rows}
            assert (min(sizes), max(sizes)) == (least, largest)
            assert 3 <= result.best_mask.sum() <= 5

    def test_there_is_no_answer_before_its_size_is_reached(self) -> None:
        strategy: Any = make("sbs", {"size": 2})
        evaluator = planted(plain_space(4))
        state = strategy.start(evaluator.space, None, np.random.default_rng(0))
        answers = []
        while not strategy.finished(state):
            state, proposal = strategy.propose(state, np.random.default_rng(0))
            done = evaluator.evaluate(proposal.masks, proposal.incumbents, np.arange(3))
            state = strategy.observe(state, proposal, done)
            answers.append(state.members.answer)
        assert answers == [None, None, 0]

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
        for name in (*NAMES, "ranked", "rfe")[: None if isinstance(size, int) else 4]:
            with pytest.raises(SpaceError, match=words):
                make(name, {"size": size}).start(space, Hints(), np.random.default_rng(0))

    def test_a_range_is_cut_to_the_bounds_of_the_space(self) -> None:
        space = plain_space(8, min_size=3, max_size=5)
        assert answer_sizes((1, 4), space) == (3, 4)
        assert answer_sizes((4, 8), space) == (4, 5)
