"""2-D learning, by the worked example of document 002 and what its text promises; its rivals.

Parameters of the rivals, those of table 2, are in the recorded searches (tests/golden).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from swarm.problem.hints import Hints
from swarm.strategies.bpso import BinaryPso
from swarm.strategies.catfish import CatfishPso
from swarm.strategies.chaotic import ChaoticPso
from swarm.strategies.operators.memory import Memory
from swarm.strategies.two_d import (
    TwoD,
    exemplar_learning,
    learning_probability,
    ring_best,
    roulette_size,
    self_influence,
    self_learning,
    size_learning,
    take_likeliest,
    tournament_exemplars,
)
from swarm.testing.planted import drive, make_driver, plain_space, planted


def bits(text: str) -> np.ndarray:
    return np.array([[digit == "1" for digit in text]])


# Section 3.4: the particle of the example.
X, PBEST, GBEST = bits("10101"), bits("01001"), bits("11010")


class TestTheWorkedExample:
    def test_the_learning_sets(self) -> None:
        for exemplar, position, size, units in (
            (PBEST, X, "01000", "01000"),
            (GBEST, X, "00100", "01010"),
            # Section 3.2.
            (bits("10110"), bits("11001"), "00100", "00110"),
        ):
            assert np.array_equal(size_learning(exemplar), bits(size))
            expected = np.vstack([bits(size), bits(units)])
            assert np.array_equal(exemplar_learning(exemplar, position)[0], expected)
        assert np.array_equal(self_learning(X)[0], np.vstack([bits("00100"), bits("10101")]))

    def test_the_velocity_update_of_equation_11(self) -> None:
        old = np.arange(10, 20, dtype=float).reshape(1, 2, 5)
        w, c1, c2 = 0.5, 1.49, 1.3
        strategy = TwoD(
            "gpso", n_particles=2, inertia=w, inertia_end=w, c1=c1, c2=c2, refresh_gap=0
        )
        # Another particle holds the gbest; costs 0.2 of 0.8 after 0.3 give Delta = 0.75.
        memory = Memory(np.vstack([PBEST, GBEST]), np.array([0.2, 0.1]), np.zeros((2, 5)))
        state = replace(
            strategy.start(plain_space(5), Hints(), np.random.default_rng(0)),
            epoch=5,
            position=np.vstack([X, GBEST]),
            velocity=np.vstack([old, old]),
            cost=np.array([0.2, 0.8]),
            previous=np.array([0.3, 0.8]),
            memory=memory,
        )
        moved, _ = strategy.propose(state, np.random.default_rng(7))
        r1, r2 = np.random.default_rng(7).random((2, 2, 2, 5))[:, 0]
        delta = 0.75
        p, q = w * old[0]
        own, best = c1 * r1, c2 * r2
        expected = [
            [p[0], p[1] + own[0, 1], p[2] + best[0, 2] + delta, p[3], p[4]],
            [q[0] + delta, q[1] + own[1, 1] + best[1, 1], q[2] + delta, q[3] + best[1, 3],
             q[4] + delta],
        ]  # fmt: skip
        assert np.allclose(moved.velocity[0], expected, rtol=0, atol=1e-12)

    def test_the_roulette_of_equation_15(self) -> None:
        rho = np.array([[0.14, 2.56, 1.35, 0.38, 0.71]])
        assert roulette_size(rho, np.array([3.25 / 5.14]), plain_space(5)) == [3]

    def test_the_ranking_and_the_position_of_equation_16(self) -> None:
        sigma = np.array([[1.31, 2.40, 0.57, 1.46, 1.30]])
        rng = np.random.default_rng(0)
        taken = [take_likeliest(sigma, np.array([k]), plain_space(5), rng) for k in range(1, 6)]
        # tau = (3 1 5 2 4): the feature of rank k joins when k are taken.
        rank = 6 - np.sum(taken, axis=0)
        assert rank.tolist() == [[3, 1, 5, 2, 4]]
        assert np.array_equal(taken[2], bits("11010"))


def test_self_influence_is_the_relative_cost_signed_by_the_improvement() -> None:
    now, before = np.array([0.1, 0.2, 0.4, 0.3]), np.array([0.2, 0.2, 0.1, np.inf])
    assert np.allclose(self_influence(now, before), [0.75, -0.5, 0.0, 0.25])


class TestNeighbours:
    @pytest.mark.parametrize(
        ("costs", "sizes", "best"),
        [
            ([0.1, 0.5, 0.4, 0.3, 0.5], [2, 2, 2, 2, 2], [0, 0, 3, 3, 0]),
            # Fewer units lead where costs are equal.
            ([0.2, 0.2, 0.2, 0.2], [2, 1, 2, 2], [1, 1, 1, 3]),
        ],
    )
    def test_the_best_of_three_on_a_ring_leads(
        self, costs: list[float], sizes: list[int], best: list[int]
    ) -> None:
        masks = np.arange(2) < np.array(sizes)[:, None]
        assert ring_best(Memory(masks, np.array(costs), np.zeros(masks.shape))).tolist() == best

    def test_exemplars_are_chosen_anew_once_there_are_costs(self) -> None:
        first, second = drive(TwoD("clpso"), planted(plain_space(30)), epochs=2)
        costs = second.before.memory.costs
        before, after = (costs[step.moved.exemplar].mean() for step in (first, second))
        assert after < before
        assert first.after.exemplar.shape == second.moved.exemplar.shape

    def test_exemplars_are_the_better_of_two_others_and_never_all_own(self) -> None:
        n = 8
        costs = np.linspace(0.1, 0.8, n)
        memory = Memory(np.ones((n, 500), dtype=bool), costs, np.zeros((n, 500)))
        exemplar = tournament_exemplars(memory, 500, np.random.default_rng(0))
        own = exemplar == np.arange(n)[:, None]
        assert not own.all(axis=1).any()
        assert np.allclose((~own).mean(axis=1), learning_probability(n), atol=0.06)
        learned = exemplar[~own]
        # The worst wins only a tournament against itself.
        assert (learned == 0).mean() > 5 * (learned == n - 1).mean()


def masks_of(strategy: Any, epochs: int = 25) -> list[str]:
    result = make_driver(strategy, planted(plain_space(16), 3), seed=6, epochs=epochs).run()
    return [text for record in result.records for text in record.particles["mask"]]


@pytest.mark.parametrize(("u", "twin"), [(1.0, "gpso"), (0.0, "lpso")])
def test_upso_at_its_ends_is_gpso_and_lpso(u: float, twin: Any) -> None:
    assert masks_of(TwoD("upso", unification=u, unification_end=u)) == masks_of(TwoD(twin))


# ---------------------------------------------------------------- its rivals


@pytest.mark.parametrize(
    ("cut_down", "strategy", "plain"),
    [
        # Never triggered.
        (CatfishPso(refresh_gap=0), CatfishPso(refresh_gap=3), BinaryPso()),
        # The logistic map stands still at this value.
        (ChaoticPso(inertia=0.75), ChaoticPso(), BinaryPso(inertia=0.75)),
    ],
)
def test_a_variant_that_is_cut_down_is_bpso(cut_down: Any, strategy: Any, plain: Any) -> None:
    assert masks_of(cut_down) == masks_of(plain)
    assert masks_of(strategy) != masks_of(plain)
