"""Tests of stability indices, frequencies and the assessment of repeated searches."""

from __future__ import annotations

import numpy as np
import pytest

from swarm.errors import InputError
from swarm.problem.space import SearchSpace
from swarm.validation.stability import (
    assess,
    classify,
    consensus,
    describe_index,
    frequencies,
    index_record,
    nogueira,
)


def kappa(masks):
    """Fleiss' kappa written from its own definition (subsets rate units yes or no)."""
    n, d = masks.shape
    votes = np.stack([masks.sum(axis=0), n - masks.sum(axis=0)], axis=1)
    agreement = ((votes**2).sum(axis=1) - n).mean() / (n * (n - 1))
    chance = ((votes.sum(axis=0) / (n * d)) ** 2).sum()
    return (agreement - chance) / (1 - chance)


def test_the_index_is_fleiss_kappa_as_the_paper_proves():
    masks = np.random.default_rng(0).random((7, 12)) < 0.4
    assert nogueira(masks).index == pytest.approx(kappa(masks))
    assert nogueira(masks).mean_size == masks.sum(axis=1).mean()


@pytest.mark.parametrize("stable", [False, True])
def test_the_variance_is_that_of_the_delta_method_by_brute_force(stable):
    # A change in the weight of one subset moves the index by phi_i of the paper.
    rng = np.random.default_rng(4)
    masks = rng.random((300, 9)) < (np.array([0.95] * 2 + [0.05] * 7) if stable else 0.35)
    # The sizes of the subsets differ.
    masks |= stable & (rng.random((300, 1)) < 0.2) & (np.arange(9) < 6)

    def weighted(weights):
        p = weights @ masks
        return 1 - (p * (1 - p)).mean() / (p.mean() * (1 - p.mean()))

    n = len(masks)
    step = 1e-6
    even = np.full(n, 1 / n)
    moved = [weighted((1 - step) * even + step * row) - weighted(even) for row in np.eye(n)]
    expected = np.sum(np.square(np.array(moved) / step)) / n**2
    assert (nogueira(masks).index > 0.5) == stable
    assert nogueira(masks).variance == pytest.approx(expected, rel=0.02)


def test_the_index_is_bounded_and_reaches_its_lowest_where_two_subsets_are_complements():
    complements = nogueira(np.array([[True, False] * 4, [False, True] * 4]))
    assert complements.index == pytest.approx(-1.0)
    equal = nogueira(np.tile([True, False, True, False, False], (6, 1)))
    assert (equal.index, equal.low, equal.high) == pytest.approx((1.0, 1.0, 1.0))
    assert np.isnan(nogueira(np.ones((4, 3), dtype=bool)).index), "everything is in every subset"
    rng = np.random.default_rng(2)
    for n in (2, 3, 9):
        indices = [nogueira(rng.random((n, 5)) < 0.5).index for _ in range(300)]
        assert -1 / (n - 1) - 1e-9 <= np.nanmin(indices)
        assert np.nanmax(indices) <= 1 + 1e-9


@pytest.mark.parametrize(
    "masks", [np.ones((1, 3), bool), np.ones((3, 0), bool), np.ones(4, bool), np.full((2, 2), 0.5)]
)
def test_what_is_no_sample_of_subsets_is_refused(masks):
    with pytest.raises(InputError, match=r"subset|masks"):
        nogueira(masks)


def test_wilsons_interval_as_published():
    # Newcombe (1998) gives 15 of 148 and 0 of 20 in table I, without continuity correction.
    masks = np.zeros((148, 1), dtype=bool)
    masks[:15] = True
    intervals = frequencies(masks)
    assert (intervals.low[0], intervals.high[0]) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    never = frequencies(np.zeros((20, 1), dtype=bool))
    assert (never.low[0], never.high[0]) == pytest.approx((0.0, 0.1611), abs=5e-5)


def test_features_are_core_optional_or_noise_by_their_share():
    share = np.array([1.0, 0.8, 0.79, 0.5, 0.21, 0.2, 0.0])
    expected = ("core", "core", "optional", "optional", "optional", "noise", "noise")
    assert classify(share) == expected
    assert classify(np.array([0.1 * 8])) == ("core",)
    assert consensus(share).tolist() == [True, True, True, False, False, False, False]
    assert consensus(np.array([0.2, 0.5, 0.5])).tolist() == [False, True, True]


def test_an_assessment_is_of_the_free_units_over_other_rows_if_there_are_any():
    space = SearchSpace.build([*"abcde"], groups={"pair": ["b", "c"]}, fixed=["a"], forbidden=["e"])
    seeds = [["a", "b", "c"]] * 2
    assessment = assess(space, {"seeds": seeds, "resamples": []})
    assert assessment.table[["feature", "class", "share"]].to_numpy().tolist() == [
        ["pair", "core", 1.0],
        ["d", "noise", 0.0],
    ]
    assert (assessment.consensus, assessment.by_rows, assessment.by_seed.index) == (
        ["a", "b", "c"],
        None,
        1.0,
    )
    rows = [["a", "d"], ["a", "b", "c", "d"], ["a", "d"], ["a"]]
    assessment = assess(space, {"seeds": seeds, "resamples": rows}, (0.75, 0.25))
    assert assessment.table["feature"].tolist() == ["d", "pair"]
    assert assessment.table["share_seeds"].tolist() == [0.0, 1.0]
    assert [assessment.count(name) for name in ("core", "optional", "noise")] == [1, 0, 1]
    assert (assessment.consensus, assessment.by_rows.n_subsets) == (["a", "d"], 4)


def test_an_index_that_is_undefined_is_no_record():
    undefined = nogueira(np.ones((4, 3), dtype=bool))
    assert (index_record(undefined), index_record(None)) == (None, None)
    assert "all features or none" in describe_index(undefined, "seeds")
    stability = nogueira(np.eye(3, dtype=bool))
    assert index_record(stability)["index"] == stability.index
    assert "Over 3 seeds" in describe_index(stability, "seeds")
