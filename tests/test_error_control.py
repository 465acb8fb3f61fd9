"""Stability selection with error control, noise probes, and stability of similar units."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from scipy.optimize import linprog

from swarm.errors import InputError
from swarm.validation.error_control import (
    complementary_pairs,
    false_selection_bound,
    probe_estimate,
)
from swarm.validation.stability import adjusted_stability, nogueira


def largest_tail(n_pairs: int, mean: float, start: int) -> float:
    """Largest P(X >= start / B) of a unimodal X on 0, 1 / B, ..., 1 with at most this mean."""
    values = np.arange(n_pairs + 1)
    best = 0.0
    for mode in values:
        steps = np.diff(np.eye(n_pairs + 1), axis=0)
        # Ascending up to the mode, descending from there.
        steps[:mode] *= -1
        found = linprog(
            -(values >= start).astype(float),
            A_ub=np.vstack([steps, values / n_pairs]),
            b_ub=np.append(np.zeros(n_pairs), mean),
            A_eq=np.ones((1, n_pairs + 1)),
            b_eq=[1.0],
        )
        best = max(best, -found.fun if found.success else 0.0)
    return best


@pytest.mark.parametrize("n_pairs", [5, 10])
@pytest.mark.parametrize("theta", [0.1, 0.3, 0.5])
def test_the_bound_is_that_of_the_worst_unimodal_distribution(n_pairs, theta):
    # Both halves select a unit of probability theta in a share X of the pairs, E X = theta^2,
    # and a share tau of the searches needs X >= 2 tau - 1. A unit adds at most that tail.
    gaps = []
    for selected in range(n_pairs + 1, 2 * n_pairs + 1):
        tail = largest_tail(n_pairs, theta**2, selected - n_pairs)
        bound = false_selection_bound(selected / (2 * n_pairs), 100 * theta, 100, n_pairs) / 100
        threshold = selected / (2 * n_pairs)
        # Theorem 2 holds from a threshold on; below it the bound of theorem 1 does not need it.
        assert bound >= min(tail, theta**2 / (2 * threshold - 1), theta / threshold) - 1e-9
        gaps.append(bound - tail)
    # At a share of 1 it is sharp.
    assert gaps[-1] == pytest.approx(0.0, abs=0.002)


def test_values_of_the_theorems():
    # Theorem 1 at tau = 0.9: 10 * 10 / 1000 / 0.8; theorem 2 with B = 50: 4 * 0.11 / 1.02.
    assert false_selection_bound(0.9, 10, 1000, 50) == pytest.approx(0.1 * 4 * 0.11 / 1.02)
    # theta = 0.6 is above 1 / sqrt(3), where theorem 2 does not hold.
    assert false_selection_bound(1.0, 6, 10, 50) == pytest.approx(6 * 0.6)
    assert false_selection_bound(0.55, 6, 10, 50) == pytest.approx(6 / 0.55)
    for wrong in ({"threshold": 0.5}, {"mean_size": 11}, {"n_pairs": 0}):
        given = {"threshold": 0.9, "mean_size": 5, "n_units": 10, "n_pairs": 5, **wrong}
        with pytest.raises(ValueError, match=next(iter(wrong))):
            false_selection_bound(**given)


def select_by_correlation(X, y, size):
    """Mask of the columns with the largest absolute correlation with the target."""
    strength = np.abs((X - X.mean(axis=0)).T @ (y - y.mean()) / X.std(axis=0))
    mask = np.zeros(X.shape[1], dtype=bool)
    mask[np.argsort(-strength)[:size]] = True
    return mask


def halves(rng, X, y, n_pairs, size):
    masks = []
    for _ in range(n_pairs):
        rows = rng.permutation(len(y))
        middle = len(y) // 2
        parts = rows[:middle], rows[middle : 2 * middle]
        masks += [select_by_correlation(X[part], y[part], size) for part in parts]
    return np.array(masks)


@pytest.mark.parametrize(("n_true", "wanted"), [(4, 1.0), (0, 0.5)], ids=["signal", "noise alone"])
def test_false_selections_stay_below_the_bound_in_a_simulation(n_true, wanted):
    rng, false, found = np.random.default_rng(0), [], []
    for _ in range(60):
        # Noise columns are correlated with one another, which the bound allows.
        X = rng.normal(size=(120, 40))
        X[:, n_true:] += 1.5 * rng.normal(size=(120, 1))
        y = X[:, :n_true].sum(axis=1) + rng.normal(scale=2.0, size=120)
        control = complementary_pairs(halves(rng, X, y, 15, 8), wanted)
        assert control.bound <= wanted
        false.append(control.stable[n_true:].sum())
        found.append(control.stable[:n_true].sum())
    assert np.mean(false) <= wanted
    assert n_true == 0 or np.mean(found) > 2


def test_bounds_fall_as_shares_rise_and_half_has_none():
    masks = np.zeros((8, 5), dtype=bool)
    for unit, count in enumerate((8, 7, 6, 4, 0)):
        masks[:count, unit] = True
    control = complementary_pairs(masks, 3.0)
    assert np.isnan(control.bounds[3:]).all()
    assert np.all(np.diff(control.bounds[:3]) >= 0)
    assert control.lowest == control.bounds[0]
    unit_bounds = dict(zip(range(5), control.bounds, strict=True))
    assert [unit for unit in range(5) if control.stable[unit]] == [
        unit for unit in range(3) if unit_bounds[unit] <= 3.0
    ]


def test_a_bound_that_no_share_reaches_leaves_nothing_stable():
    control = complementary_pairs(np.ones((4, 3), dtype=bool), 0.1)
    assert np.isnan(control.threshold)
    assert control.lowest == 3.0
    assert not control.stable.any()
    with pytest.raises(InputError, match="pairs"):
        complementary_pairs(np.ones((3, 3), dtype=bool))


def test_probes_count_as_often_as_columns_without_information():
    # 2 of 4 units are real; searches select noise with probability 0.25, whatever its kind.
    rng = np.random.default_rng(2)
    real = np.hstack([np.ones((4000, 2), bool), rng.random((4000, 2)) < 0.25])
    probes = rng.random((4000, 8)) < 0.25
    found = probe_estimate(real, probes)
    assert found.probe_rate == pytest.approx(0.25, abs=0.01)
    # All four units could be noise: an estimate from above of the true 0.5 / 2.5.
    assert found.false_share == pytest.approx(0.25 * 4 / 2.5, abs=0.01)

    with pytest.raises(InputError, match="row per search"):
        probe_estimate(real, probes[:5])


def test_q_values_by_hand():
    real, probes = np.zeros((4, 4), dtype=bool), np.zeros((4, 8), dtype=bool)
    for unit, count in enumerate((4, 4, 2, 1)):
        real[:count, unit] = True
    probes[:2, :2] = True
    # 8 probes count as 4 units. Of the two units selected always (1 + 0) / 2 / 2 are false, of the
    # three from a half on (1 + 2) / 2 / 3, of all four (1 + 2) / 2 / 4.
    assert probe_estimate(real, probes).q_values.tolist() == [0.25, 0.25, 0.375, 0.375]


def test_similar_units_may_replace_one_another():
    similarity = np.kron(np.eye(6), np.ones((2, 2)))
    # Every search takes one of each of the first two pairs of equal columns.
    rng = np.random.default_rng(3)
    masks = np.zeros((12, 12), dtype=bool)
    for row in masks:
        row[[rng.integers(2), 2 + rng.integers(2)]] = True
    assert nogueira(masks).index < 0.6
    assert adjusted_stability(masks, similarity) == pytest.approx(1.0)


def test_without_similar_units_it_is_the_measure_corrected_for_chance():
    rng = np.random.default_rng(4)
    masks = rng.random((2, 15)) < 0.4
    both, (first, second) = (masks[0] & masks[1]).sum(), masks.sum(axis=1)
    chance = first * second / 15
    wanted = (both - chance) / (sqrt(first * second) - chance)
    assert adjusted_stability(masks, np.eye(15)) == pytest.approx(wanted)


@pytest.mark.slow
def test_random_subsets_agree_by_chance_whatever_is_similar():
    similarity = np.kron(np.eye(5), np.ones((4, 4)))
    found = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        masks = np.array([rng.permutation(20) < 6 for _ in range(25)])
        found.append(adjusted_stability(masks, similarity))
    assert np.mean(found) == pytest.approx(0.0, abs=0.05)
    assert np.isnan(adjusted_stability(np.ones((3, 20), bool), similarity))
    with pytest.raises(InputError, match="shape"):
        adjusted_stability(masks, np.eye(3))
