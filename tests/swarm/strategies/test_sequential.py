"""The searches that end by themselves: sequential, by importance, exhaustive, on problems for them.

test_sequential_parity compares every proposal, path and answer of the sequential ones with mlxtend.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.naive_bayes import GaussianNB

from swarm import SubsetSelector
from swarm.errors import SpaceError
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.search.result import SearchResult
from swarm.strategies.catalogue import make
from swarm.strategies.operators.sequential import is_better
from swarm.testing.planted import Planted, all_masks, make_driver, plain_space, planted, spaces
from tests.fakes import calm

NAMES = ("sfs", "sffs", "sbs", "sbfs")
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
    return make_driver(make(name, parameters), evaluator, epochs=10_000).run()


def bits(mask: Any) -> str:
    return "".join("01"[int(bit)] for bit in mask)


def masks_of(result: SearchResult) -> list[str]:
    return [mask for record in result.records for mask in record.particles["mask"]]


def test_the_order_of_a_sum_decides_nothing() -> None:
    # Fold costs 0.1, 0.2, 0.3 in another order: 0.6000000000000001 against 0.6.
    weights = np.array([[0.1, 0.3], [0.2, 0.2], [0.3, 0.1]])
    evaluator = Planted(plain_space(2), weights, np.zeros(3))
    first, second = (evaluator.cost(mask) for mask in np.eye(2, dtype=bool))
    assert first == second
    assert not is_better(second, np.nextafter(first, 1))
    assert bits(search("sfs", evaluator, size=1).best_mask) == "10"


class TestFloating:
    def test_by_pudil_the_best_of_the_size_is_all_that_is_to_be_beaten(self) -> None:
        # Every unit helps, so no set is better than the larger one it comes from.
        costs = {**FOUND_LATE, "1110": 0.15}
        documents = search("sffs", interacting(4, costs), size=3)
        pudil = search("sffs", interacting(4, costs), size=3, must_beat="size")
        assert documents.cost == 0.15
        assert (bits(pudil.best_mask), pudil.cost) == ("0111", 0.10)

    @pytest.mark.parametrize("name", ["sffs", "sbfs"])
    @pytest.mark.parametrize("must_beat", ["current", "size"])
    @settings(calm, max_examples=20)
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


class TestSize:
    @pytest.mark.parametrize("size", [7, (2, 7), 1, 2, (6, 6)])
    def test_a_size_that_contradicts_the_space_is_refused_at_the_start(self, size: Any) -> None:
        space = plain_space(8, fixed=["x0", "x1"], forbidden=["x6", "x7"], min_size=3, max_size=5)
        number = size if isinstance(size, int) else size[1]
        for name in (*NAMES, "ranked", "rfe")[: None if isinstance(size, int) else 4]:
            with pytest.raises(SpaceError, match=f"size {number}"):
                make(name, {"size": size}).start(space, Hints(), np.random.default_rng(0))


# ---------------------------------------------------------------- by importance


class Joint(Planted):
    """Two units that help only together, and a third that helps a little alone."""

    def fold_cost(self, mask: np.ndarray, fold: int) -> float:
        return 0.1 if mask[0] and mask[1] else 0.3 - 0.1 * mask[2]


def test_all_features_win_if_no_set_on_the_way_costs_less() -> None:
    weights = np.tile([0.1, 0.1, 0.9], (3, 1))
    result = search("ranked", Joint(plain_space(3), weights, np.zeros(3)))
    assert masks_of(result) == ["111", "001", "101", "011"]
    assert result.features == ["x0", "x1", "x2"]


def test_a_size_is_filled_up_by_rank_and_never_exceeded() -> None:
    evaluator = planted(plain_space(9), 4)
    free = int(search("ranked", evaluator).best_mask.sum())
    for size in range(1, 10):
        result = search("ranked", evaluator, size=size)
        assert result.best_mask.sum() == size
        filled = [role for record in result.records for role in record.particles["role"]]
        assert ("fill" in filled) == (size > free)


@pytest.mark.parametrize(
    ("step", "size", "sizes"),
    [
        (1, None, [8, 7, 6, 5, 4, 3, 2, 1]),
        (0.5, None, [8, 4, 2, 1]),
        (0.1, 5, [8, 7, 6, 5]),
        (3, 4, [8, 5, 4]),
        (99, 2, [8, 2]),
    ],
)
def test_the_sizes_follow_from_the_step(step: float, size: int | None, sizes: list[int]) -> None:
    result = search("rfe", planted(plain_space(8)), step=step, size=size)
    assert [row.count("1") for row in masks_of(result)] == sizes
    assert size is None or result.best_mask.sum() == size


# ---------------------------------------------------------------- exhaustive


@settings(calm, max_examples=30)
@given(space=spaces(), batch=st.integers(1, 40))
def test_every_allowed_subset_is_proposed_once_whatever_the_batches(
    space: SearchSpace, batch: int
) -> None:
    strategy: Any = make("exhaustive", {"batch_size": batch})
    result = search("exhaustive", planted(space), batch_size=batch)
    masks = masks_of(result)
    assert len(set(masks)) == len(masks) == strategy.count(space)
    assert strategy.evaluations_in(space) == (len(masks), len(masks))
    every = list(all_masks(space))
    assert len(masks) == int(space.obeys(np.array(every)).sum())
    assert max(len(record.particles) for record in result.records) <= batch
    assert result.reason == "finished"


def test_above_its_limit_an_exhaustive_search_is_refused() -> None:
    strategy = make("exhaustive")
    wide = plain_space(60)
    with pytest.raises(SpaceError, match=r"1,152,921,504,606,846,975 .*100,000.*max_size"):
        strategy.start(wide, None, np.random.default_rng(0))
    few = plain_space(60, max_size=2)
    assert strategy.count(few) == 60 + comb(60, 2)
    strategy.start(few, None, np.random.default_rng(0))
    X = np.random.default_rng(0).normal(size=(30, 20))
    with pytest.raises(SpaceError, match="1,048,575 subsets"):
        SubsetSelector(GaussianNB(), strategy="exhaustive").fit(X, np.arange(30) % 2)
