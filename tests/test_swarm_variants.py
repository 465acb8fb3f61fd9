"""The rivals of 2-D learning: each by what makes it itself, and by what it has in common.

Their parameters, those of table 2, are in the recorded searches (tests/golden).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.problem.hints import Hints
from swarm.search.driver import run
from swarm.strategies.ant_colony import AntColony, deposit, walk
from swarm.strategies.bpso import BinaryPso
from swarm.strategies.catfish import CatfishPso
from swarm.strategies.chaotic import ChaoticPso, logistic
from swarm.strategies.erfs import ErrorRatePso
from swarm.strategies.genetic import Genetic
from swarm.strategies.operators.continuous_swarm import coordinates
from swarm.strategies.operators.genetics import crossover, fitness, mutate, select_parents
from swarm.strategies.operators.memory import Memory
from swarm.strategies.pso42 import MixedStartPso
from swarm.testing.planted import constant, drive, make_search, plain_space, planted


def masks_of(strategy: Any, epochs: int = 20) -> list[str]:
    result = run(make_search(strategy, planted(plain_space(16), 3), seed=6, epochs=epochs))
    return [text for record in result.records for text in record.particles["mask"]]


@pytest.mark.parametrize(
    ("cut_down", "strategy", "plain"),
    [
        # Never triggered.
        (CatfishPso(refresh_gap=0), CatfishPso(refresh_gap=3), BinaryPso()),
        # Where the logistic map stands still.
        (ChaoticPso(inertia=0.75), ChaoticPso(), BinaryPso(inertia=0.75)),
    ],
)
def test_a_variant_that_is_cut_down_is_bpso(cut_down: Any, strategy: Any, plain: Any) -> None:
    assert masks_of(cut_down) == masks_of(plain)
    assert masks_of(strategy, 60) != masks_of(plain, 60)


class TestCatfish:
    def test_after_the_gap_the_worst_tenth_restarts_at_all_units_or_at_none(self) -> None:
        strategy = CatfishPso()
        start = strategy.start(plain_space(40, min_size=2), Hints(), np.random.default_rng(0))
        costs = np.linspace(0.9, 0.1, 30)
        memory = Memory(start.position, costs, np.zeros(start.position.shape))
        sizes = []
        for seed in range(50):
            state = replace(start, epoch=4, stalled=3, memory=memory)
            moved, proposal = strategy.propose(state, np.random.default_rng(seed))
            size = proposal.masks.sum(axis=1)
            assert np.isin(size[:3], [2, 40]).all()
            assert (size[3:] < 40).all()
            assert moved.stalled == 0
            sizes += size[:3].tolist()
        assert 0.3 < np.mean(np.array(sizes) == 40) < 0.7

    def test_a_better_gbest_starts_the_count_anew(self) -> None:
        result = run(make_search(CatfishPso(refresh_gap=5), constant(plain_space(6)), epochs=4))
        assert result.state.strategy.stalled == 3


class TestChaotic:
    def test_the_inertia_follows_the_logistic_map(self) -> None:
        assert logistic(0.48) == pytest.approx(0.9984)
        result = run(make_search(ChaoticPso(), planted(plain_space(6)), epochs=4))
        w = 0.48
        for _ in range(3):
            w = 4 * w * (1 - w)
        assert result.state.strategy.inertia == w


class TestContinuousSwarms:
    @given(st.integers(0, 2**32), st.floats(0, 0.999))
    def test_coordinates_choose_their_mask(self, seed: int, threshold: float) -> None:
        rng = np.random.default_rng(seed)
        masks = rng.random((4, 9)) < 0.5
        drawn = coordinates(masks, threshold, rng)
        assert np.array_equal(drawn > threshold, masks)
        assert ((drawn >= 0) & (drawn <= 1)).all()

    @pytest.mark.parametrize("strategy", [ErrorRatePso(), MixedStartPso()])
    def test_positions_stay_within_their_limits_and_choose_above_the_threshold(
        self, strategy: Any
    ) -> None:
        result = run(make_search(strategy, planted(plain_space(12)), epochs=10))
        swarm = result.state.strategy
        assert ((swarm.position >= 0) & (swarm.position <= 1)).all()
        chosen = swarm.position > 0.6
        kept = chosen.any(axis=1)
        assert np.array_equal(swarm.masks[kept], chosen[kept])

    def test_only_pso42_prefers_fewer_units_at_equal_cost(self) -> None:
        for strategy, shrinks in ((ErrorRatePso(), False), (MixedStartPso(), True)):
            steps = drive(strategy, constant(plain_space(20)), epochs=12)
            before, after = (steps[i].after.memory.masks.sum(axis=1) for i in (0, -1))
            assert (after <= before).all()
            assert (after < before).any() == shrinks

    def test_two_thirds_of_pso42_start_with_a_tenth_and_the_rest_with_more_than_half(self) -> None:
        state = MixedStartPso().start(plain_space(50), Hints(), np.random.default_rng(0))
        size = state.masks.sum(axis=1)
        assert (size[:20] == 5).all()
        assert ((size[20:] > 25) & (size[20:] <= 50)).all()
        assert len(set(size[20:].tolist())) > 3


class TestGenetic:
    def test_fitness_is_what_a_cost_is_below_the_worst(self) -> None:
        costs = np.array([0.5, 0.2, np.inf, 0.4])
        assert np.allclose(fitness(costs), [0.0, 0.3, 0.0, 0.1])
        assert fitness(np.full(3, np.inf)).tolist() == [0, 0, 0]

    @given(st.integers(0, 2**32), st.integers(1, 40))
    def test_each_parent_is_taken_as_often_as_its_share_says(self, seed: int, count: int) -> None:
        rng = np.random.default_rng(seed)
        fit = rng.random(7) * (rng.random(7) < 0.8)
        taken = np.bincount(select_parents(fit, count, rng), minlength=7)
        share = fit / fit.sum() if fit.sum() > 0 else np.full(7, 1 / 7)
        assert taken.sum() == count
        assert (np.abs(taken - share * count) < 1 + 1e-9).all()

    @given(st.integers(0, 2**32), st.integers(2, 9))
    def test_crossover_swaps_one_stretch_of_each_pair(self, seed: int, n: int) -> None:
        rng = np.random.default_rng(seed)
        parents = rng.random((n, 12)) < 0.5
        children = crossover(parents, 1.0, rng)
        pairs = 2 * (n // 2)
        one, other = parents[0:pairs:2], parents[1:pairs:2]
        assert np.array_equal(children[0:pairs:2] ^ one, children[1:pairs:2] ^ other)
        changed = children[0:pairs:2] != one
        assert not (changed & (one == other)).any()
        assert np.array_equal(children[pairs:], parents[pairs:])
        assert np.array_equal(crossover(parents, 0.0, rng), parents)

    def test_mutation_flips_as_many_bits_as_it_should(self) -> None:
        flipped = mutate(np.zeros((200, 500), dtype=bool), 0.01, np.random.default_rng(0))
        assert flipped.mean() == pytest.approx(0.01, abs=0.002)

    def test_the_best_of_a_generation_lives_on_and_is_not_paid_for_again(self) -> None:
        search = make_search(Genetic(population_size=10), planted(plain_space(30)), epochs=9)
        state, record = search.step(search.start())
        assert len(record.particles) == 10
        for _ in range(5):
            best = state.strategy.memory.costs[0]
            state, record = search.step(state)
            assert len(record.particles) == 9
            assert state.strategy.memory.costs[0] <= best

    def test_the_generation_gap_is_the_share_that_children_replace(self) -> None:
        strategy = Genetic(population_size=20, generation_gap=0.7, n_elite=2)
        search = make_search(strategy, planted(plain_space(30)), epochs=9)
        state, _ = search.step(search.start())
        kept = []
        for _ in range(20):
            before = state.strategy.memory
            state, record = search.step(state)
            assert len(record.particles) == 14
            survivors = state.strategy.survivors
            assert survivors[:2].tolist() == [0, 1]
            assert len(set(survivors.tolist())) == 6
            after = {mask.tobytes() for mask in state.strategy.memory.masks}
            assert {before.masks[i].tobytes() for i in survivors} <= after
            kept += survivors[2:].tolist()
        # Those that are not the elite survive by chance, whatever their cost.
        assert min(kept) < 6
        assert max(kept) > 15

    @pytest.mark.parametrize(("gap", "n_children"), [(1.0, 9), (0.95, 9), (0.01, 1)])
    def test_any_generation_gap_leaves_the_elite_and_replaces_one(
        self, gap: float, n_children: int
    ) -> None:
        strategy = Genetic(population_size=10, generation_gap=gap)
        search = make_search(strategy, planted(plain_space(30)), epochs=2)
        _, record = search.step(search.step(search.start())[0])
        assert len(record.particles) == n_children


class TestAnts:
    def test_a_unit_is_taken_by_the_share_of_its_pheromone(self) -> None:
        trail = np.array([[0.3, 1.5, 0.9], [1.5, 0.3, 0.9]])
        taken = walk(trail, 60_000, np.random.default_rng(0)).mean(axis=0)
        assert np.allclose(taken, [5 / 6, 1 / 6, 1 / 2], atol=0.01)

    def test_the_trail_evaporates_is_marked_and_stays_within_its_bounds(self) -> None:
        trail = np.array([[1.0, 0.31], [1.0, 1.5]])
        masks = np.array([[True, True], [False, True]])
        laid = deposit(trail, masks, np.array([0.25, 0.75]), evaporation=0.2, bounds=(0.3, 1.5))
        assert np.allclose(laid, [[0.8 + 0.225, 0.3], [0.8 + 0.075, 1.5]])

    @pytest.mark.parametrize(
        ("update_factor", "cost", "marked"),
        [
            # The best of the epoch, 100, and the best so far, 010, deposit.
            (1, 0.2, [True, True, False]),
            (0, 0.2, [True, False, False]),
            (1e9, 0.2, [False, True, False]),
            # An epoch of failures deposits for the best so far alone.
            (1, np.inf, [False, True, False]),
        ],
    )
    def test_the_best_of_the_epoch_and_the_best_so_far_deposit_by_the_update_factor(
        self, update_factor: float, cost: float, marked: list[bool]
    ) -> None:
        strategy, space = AntColony(n_ants=3, update_factor=update_factor), plain_space(3)
        state = strategy.start(space, Hints(), np.random.default_rng(0))
        so_far, of_epoch = (np.tile(row, (3, 1)) for row in np.eye(3, dtype=bool)[[1, 0]])
        held = replace(state, epoch=1, memory=Memory(so_far, np.full(3, 0.1), np.zeros((3, 3))))
        moved, proposal = strategy.propose(held, np.random.default_rng(0))
        answers = planted(space).evaluate(of_epoch, np.full(3, np.inf), np.arange(3))
        after = strategy.observe(
            moved, replace(proposal, masks=of_epoch), replace(answers, costs=np.full(3, cost))
        )
        # What is left of the trail, a fifth of which evaporates, plus a deposit.
        assert (after.trail[1] > 0.81 * state.trail[1]).tolist() == marked
