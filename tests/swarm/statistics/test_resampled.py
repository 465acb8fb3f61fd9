"""Tests of the corrected resampled t-test."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from swarm.statistics.resampled import CorrectedTTest, corrected_t

# Tenths of a percent, as accuracies differ: nothing is lost when their signs turn.
DIFFERENCES = st.lists(st.integers(-1000, 1000).map(lambda k: k / 1000), min_size=2, max_size=30)
ROWS = st.integers(1, 5000)


def test_it_is_the_worked_computation_of_the_source() -> None:
    differences = [0.02, 0.05, -0.01, 0.03, 0.04, 0.00, 0.02, 0.06, 0.01, 0.03]
    found = corrected_t(differences, n_train=90, n_test=10)
    # Mean 0.025, sum of squared deviations 0.00425, so s = sqrt(0.00425 / 9).
    error = math.sqrt((1 / 10 + 10 / 90) * 0.00425 / 9)
    low, high = stats.t.interval(0.95, 9, loc=0.025, scale=error)
    assert (found.mean, found.low, found.high) == pytest.approx((0.025, low, high))
    assert found.p == pytest.approx(2 * stats.t.cdf(-0.025 / error, 9))


@given(DIFFERENCES, ROWS, ROWS)
def test_it_is_never_surer_than_the_ordinary_t_test_and_its_interval_agrees_with_p(
    differences: list[float], n_train: int, n_test: int
) -> None:
    found = corrected_t(differences, n_train, n_test)
    assert found.low <= found.mean <= found.high
    if len(set(differences)) > 1:
        usual = stats.ttest_1samp(differences, 0.0)
        low, high = usual.confidence_interval()
        assert found.high - found.low >= high - low
        assert found.p >= usual.pvalue or found.p == pytest.approx(usual.pvalue)
    if found.p != pytest.approx(0.05):
        assert (found.p < 0.05) == (found.low > 0 or found.high < 0)


def test_equal_differences_are_no_evidence() -> None:
    assert corrected_t([0.0] * 5, 80, 20) == CorrectedTTest(0.0, 0.0, 0.0, 1.0, 0.0)
    # The mean of three tenths is not a tenth in floating point: no spread may come of that.
    for value, n in ((0.1, 3), (-0.25, 2), (5e-324, 2)):
        unknown = CorrectedTTest(value, -math.inf, math.inf, 1.0, 0.0)
        assert corrected_t([value] * n, 80, 20) == unknown


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        *(
            ((differences, 80, 20), "differences")
            for differences in ([], [0.1], [0.1, math.nan], [[0.1, 0.2]])
        ),
        (([0.1, 0.2], 0, 20), "n_train"),
        (([0.1, 0.2], 80, -1), "n_test"),
        (([0.1, 0.2], 80, 20, 95), "level"),
    ],
)
def test_what_has_no_interval_is_refused(arguments: tuple[Any, ...], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        corrected_t(*arguments)
