"""Claims on the linear model of the cost, and on the local search that flips units by it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import truncnorm
from sklearn.linear_model import Ridge

from swarm.strategies.multiswarm import MultiSwarm
from swarm.strategies.operators.cost_model import (
    NOISE,
    Told,
    draw_effects,
    fill_bounds,
    flip_by_gain,
    in_proportion,
)
from swarm.testing import plain_space, planted
from swarm.testing.planted import drive
from tests.fakes import calm

seeds = st.integers(0, 2**32)
shapes = st.tuples(st.integers(2, 30), st.integers(1, 12))


class NoNoise:
    """A generator whose normal numbers are all zero: a draw is then the posterior's mean."""

    def standard_normal(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape)


def posterior_mean(told: Told) -> np.ndarray:
    no_noise: Any = NoNoise()
    return draw_effects(told, 1, no_noise)[0]


def masks_and_costs(shape: tuple[int, int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.random(shape) < 0.5, rng.normal(size=shape[0])


def known(masks: np.ndarray, costs: np.ndarray) -> Told:
    """Masks with their costs, repeated masks included."""
    return Told(masks, costs, np.ones(len(costs), dtype=bool))


def penalty(masks: np.ndarray) -> float:
    return NOISE * float(masks.var(axis=0).sum())


@calm
@given(shapes, seeds)
def test_the_mean_of_the_effects_is_the_ridge_regression_of_scikit_learn(
    shape: tuple[int, int], seed: int
) -> None:
    masks, costs = masks_and_costs(shape, seed)
    effects = posterior_mean(known(masks, costs))
    if penalty(masks) == 0.0:
        assert not effects.any()
        return
    ridge = Ridge(alpha=penalty(masks)).fit(masks.astype(float), costs)
    assert np.allclose(effects, ridge.coef_, rtol=1e-8, atol=1e-10)


@calm
@given(shapes, seeds, st.floats(0.01, 100.0), st.floats(-100.0, 100.0))
def test_draws_follow_the_unit_and_the_origin_of_the_cost(
    shape: tuple[int, int], seed: int, scale: float, shift: float
) -> None:
    masks, costs = masks_and_costs(shape, seed)
    exact = np.arange(len(costs)) % 3 != 2
    drawn, scaled = (
        draw_effects(Told(masks, values, exact), 3, np.random.default_rng(seed))
        for values in (costs, scale * costs + shift)
    )
    assert np.allclose(scaled, scale * drawn, rtol=1e-5, atol=1e-6 * scale)


def test_draws_have_the_mean_and_the_covariance_of_the_posterior() -> None:
    masks, costs = masks_and_costs((8, 5), 1)
    told = known(masks, costs)
    drawn = draw_effects(told, 200_000, np.random.default_rng(0))
    X, y = masks - masks.mean(axis=0), costs - costs.mean()
    inverse = np.linalg.inv(X @ X.T + penalty(masks) * np.eye(8))
    variance = y @ inverse @ y / 8
    covariance = variance * (np.eye(5) - X.T @ inverse @ X)
    assert np.allclose(drawn.mean(axis=0), posterior_mean(told), atol=0.01 * np.sqrt(variance))
    assert np.allclose(np.cov(drawn.T), covariance, atol=0.01 * variance)


def test_without_two_costs_or_with_equal_masks_nothing_is_known_of_the_effects() -> None:
    rng = np.random.default_rng(0)
    same = np.ones((5, 3), dtype=bool)
    one_cost = Told.nothing(3).plus(
        np.eye(3, dtype=bool), np.array([1.0, np.inf, np.inf]), 0.5 + same[0]
    )
    for told in (Told.nothing(3), known(same, rng.random(5)), one_cost):
        assert np.array_equal(draw_effects(told, 2, rng), np.zeros((2, 3)))


@calm
@given(st.integers(1, 30), seeds)
def test_bounds_become_the_means_of_truncated_normals(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    told = Told(np.zeros((n, 2), dtype=bool), rng.normal(size=n), rng.random(n) < 0.5)
    predicted, error = rng.normal(size=n), rng.uniform(0.2, 2.0)
    filled = fill_bounds(told, predicted, error)
    assert np.array_equal(filled[told.exact], told.costs[told.exact])
    z = (told.costs - predicted) / error
    expected = truncnorm.mean(z, np.inf, loc=predicted, scale=error)
    assert np.allclose(filled[~told.exact], expected[~told.exact], rtol=1e-6, atol=1e-8)


def test_a_bound_far_above_or_below_its_prediction_stays_finite_and_is_kept() -> None:
    told = Told(np.zeros((2, 1), dtype=bool), np.array([1e6, -1e6]), np.zeros(2, dtype=bool))
    assert np.allclose(fill_bounds(told, np.zeros(2), 1.0), [1e6, 0.0], atol=1e-9)
    assert np.array_equal(fill_bounds(told, np.zeros(2), 0.0), [1e6, 0.0])


def test_bounds_tell_bad_units_from_good_ones() -> None:
    # Every mask with unit 0 is only known to be worse than 1; costs without it are 0.9 to 1.1.
    rng = np.random.default_rng(0)
    masks = rng.random((200, 10)) < 0.5
    costs = np.where(masks[:, 0], np.inf, rng.uniform(0.9, 1.1, 200))
    told = Told.nothing(10).plus(masks, costs, np.ones(200))
    effects = posterior_mean(told)
    assert effects[0] > 2 * np.abs(effects[1:]).max()


def test_only_the_latest_distinct_masks_are_kept_and_a_cost_replaces_bounds() -> None:
    masks = np.unpackbits(np.arange(300, dtype=">u2").view(np.uint8).reshape(-1, 2), axis=1) > 0
    told = Told.nothing(16).plus(masks, np.arange(300.0), np.full(300, np.inf))
    assert np.array_equal(told.costs, np.arange(44.0, 300.0))
    twice = Told.nothing(16).plus(masks[[0, 1, 0]], np.full(3, np.inf), np.array([3.0, 5.0, 2.0]))
    assert twice.costs.tolist() == [5.0, 2.0]
    assert not twice.exact.any()
    measured = twice.plus(masks[:1], np.ones(1), np.full(1, 9.0))
    again = measured.plus(masks[:1], np.full(1, np.inf), np.full(1, 0.5))
    assert again.costs.tolist() == measured.costs.tolist() == [5.0, 1.0]
    assert again.exact.tolist() == [False, True]
    worse = Told.nothing(16).plus(masks[:1], np.full(1, 3.0), np.full(1, 2.0))
    assert (worse.costs.tolist(), worse.exact.tolist()) == ([2.0], [False])
    unknown = Told.nothing(16).plus(masks[:1], np.full(1, np.inf), np.full(1, np.inf))
    assert len(unknown.masks) == 0


@calm
@given(shapes, seeds)
def test_shares_are_probabilities_that_sum_to_one(shape: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    gain, among = rng.normal(size=shape), rng.random(shape) < 0.7
    shares = in_proportion(gain, among)
    assert ((shares >= 0.0) & (shares <= 1.0)).all()
    assert not shares[~among].any()
    assert np.allclose(shares.sum(axis=1), among.any(axis=1))
    positive = (gain > 0) & among
    assert not shares[positive.any(axis=1)][~positive[positive.any(axis=1)]].any()


def test_flips_are_one_in_and_one_out_on_average_and_leave_fixed_and_forbidden_alone() -> None:
    rng = np.random.default_rng(0)
    n, n_units = 20_000, 12
    masks = np.tile(np.arange(n_units) < 6, (n, 1))
    space = plain_space(n_units, fixed=["x0"], forbidden=["x11"])
    # Dropping the units 1 and 2 pays, and adding unit 7, with gains of 3, 1 and 2.
    effects = np.full((n, n_units), -1.0)
    effects[:, 6:] = 1.0
    effects[:, [0, 1, 2, 7, 11]] = [9.0, 3.0, 1.0, -2.0, -9.0]
    flips = masks ^ flip_by_gain(masks, effects, space, rng)
    expected = np.zeros(n_units)
    expected[[1, 2, 7]] = [0.75, 0.25, 1.0]
    assert np.allclose(flips.mean(axis=0), expected, atol=0.02)


def test_subsets_that_are_not_answered_yet_are_not_told() -> None:
    strategy = MultiSwarm(local_search="thompson")
    (*_, step) = drive(strategy, planted(plain_space(12)), epochs=3)
    proposal, answers = step.proposal, step.answers
    late = np.arange(len(proposal.masks)) % 2 == 0
    unanswered = replace(
        answers,
        costs=np.where(late, np.inf, answers.costs),
        needed=answers.needed & ~late[:, None],
        censored=answers.censored | late,
    )
    told = strategy.observe(step.before, proposal, unanswered).told
    new = {mask.tobytes() for mask in told.masks} - {m.tobytes() for m in step.before.told.masks}
    answered = {mask.tobytes() for mask in proposal.masks[~late]}
    assert new <= answered | {m.tobytes() for m in step.after.told.masks}
    only_late = {mask.tobytes() for mask in proposal.masks[late]} - answered
    assert only_late
    assert not new & only_late
