"""Tests that intervals keep their level, by a short form of `benchmarks/bench_verdict.py`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.bench_verdict import DUELS, denies, rates_of_duels, search

N_RUNS = 200


@pytest.mark.parametrize(
    "case",
    [
        "5 groups of 20 rows",
        "8 groups of 20 rows",
        "15 groups of 20 rows",
        "200 rows in time, correlation 0.5",
        "25 rows, 10 % differ, true difference 0.02",
        "25 rows, 2 % differ, true difference 0",
        "25 rows of four classes, 10 % differ, accuracy",
        "40 rows, absolute errors, skewed",
        "40 rows, R2, true difference 0",
    ],
)
def test_a_case_is_within_two_standard_errors_of_its_aim(case: str) -> None:
    rates = rates_of_duels(case, N_RUNS)
    aim = DUELS[case].aim
    assert aim is not None
    rate, level = aim
    error = np.sqrt(level * (1 - level) / N_RUNS)
    if rate == "claimed":
        assert rates[rate] <= level + 2 * error
    else:
        assert rates[rate] >= level - 2 * error
    assert rates["no_interval"] == 0
    assert rates["no_width"] == 0


def test_few_groups_have_no_interval_and_equal_predictions_one_with_a_width() -> None:
    assert rates_of_duels("3 groups of 20 rows", 20)["no_interval"] == 1
    equal = rates_of_duels("25 rows, equal predictions", 20)
    assert (equal["held"], equal["no_width"], equal["no_interval"]) == (1, 0, 0)


def test_a_search_is_judged_on_unseen_rows_and_its_truth_is_of_many_others() -> None:
    (row,) = search("12 informative, 6 kept", "naive Bayes", "accuracy", 0)
    assert (row["n_rows"], row["n_features"]) == (100, 6)
    # Half of the columns that matter equally lose, and gain less over guessing than all of them.
    assert row["true"] < -0.02
    assert row["true_gain"] > 0.1
    assert row["low"] < row["high"]


def test_a_headline_denies_a_loss_by_a_bound_below_it() -> None:
    verdicts = {"better": True, "not worse": True, "unclear": False, "worse": False}
    rows = pd.DataFrame({"verdict": list(verdicts), "low": -0.02, "true": -0.04})
    rows = rows.assign(guessing="beaten")
    assert denies(rows).tolist() == list(verdicts.values())
    assert denies(rows.assign(low=-0.05)).tolist() == [True, False, False, False]
    assert not denies(rows.assign(guessing="unclear")).any()
