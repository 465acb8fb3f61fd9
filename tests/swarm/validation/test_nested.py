"""Tests of the estimates of nested cross-validation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from swarm.errors import InputError
from swarm.metrics import value_range
from swarm.statistics.resampled import corrected_t
from swarm.validation.nested import estimate

COSTS = {"ensemble": 0.2, "best_subset": 0.25, "all_features": 0.3}


def outer(shift: float, **changes: float | None) -> dict[str, float | None]:
    """Return the row of an outer fold whose costs are `COSTS` plus a shift."""
    rivals = {"all_features_ensemble": 0.3, "random_subsets": 0.4}
    facts = {"n_train": 80, "n_test": 20, "searched_cost": 0.1, "confirmed_cost": 0.15}
    costs = {f"cost_{name}": cost + shift for name, cost in {**COSTS, **rivals}.items()}
    return {**facts, "guess": None, **costs, **changes}


def estimate_of(
    *rows: dict[str, float | None], values: Sequence[float] = (), **options: Any
) -> Any:
    """Return the estimate of outer folds with these values of every metric."""
    names = [*COSTS, "all_features_ensemble", "random_subsets"]
    facts = {"metric": "accuracy", "n_features": 4}
    scores = [
        pd.DataFrame({"contender": names, "value": value, **facts})
        for value in values or [0.5, 0.5]
    ]
    return estimate(pd.DataFrame(rows), pd.concat(scores), **options)


def test_costs_and_gains_have_the_interval_of_nadeau_and_bengio():
    shifts = [0.0, 0.1, 0.05, -0.02]
    nested = estimate_of(*map(outer, shifts))
    expected = corrected_t([0.2 + shift for shift in shifts], 80, 20)
    cost = nested.cost("ensemble")
    assert (cost["cost"], cost["low"], cost["high"]) == pytest.approx(
        (expected.mean, expected.low, expected.high)
    )
    # The difficulty of an outer fold cancels out, as gains are paired.
    gain = nested.gain("ensemble", "all_features")
    assert gain["gain"] == pytest.approx(0.1)
    # Equal gains, as on few rows, have no spread to infer from.
    assert (gain["low"], gain["high"], gain["p"]) == (-np.inf, np.inf, 1.0)
    assert nested.verdict() == "no clear difference"
    assert nested.optimism.mean == pytest.approx(0.15 + np.mean(shifts))
    assert nested.optimism_confirmed.mean == pytest.approx(0.10 + np.mean(shifts))


def test_intervals_end_where_costs_and_metrics_do():
    shifts = [-0.2, 0.6, 0.0]
    unbounded = estimate_of(*map(outer, shifts)).cost("ensemble")
    assert (unbounded["low"] < 0, unbounded["high"] > 1) == (True, True)
    values = [0.4 + shift for shift in shifts]
    nested = estimate_of(*map(outer, shifts), values=values, costs=(0.0, 1.0))
    bounded = nested.cost("ensemble")
    assert (bounded["cost"], bounded["low"], bounded["high"]) == (unbounded["cost"], 0.0, 1.0)
    assert nested.metrics[["low", "high"]].drop_duplicates().to_numpy().tolist() == [[0.0, 1.0]]
    # A difference of costs is not clipped to their range.
    assert nested.gain()["gain"] == pytest.approx(0.1)


def test_the_range_of_a_metric_is_that_of_its_name_if_it_is_known():
    for metrics, ends in (
        (("recall", "f1_macro", "roc_auc_ovr", "hamming_loss"), (0, 1)),
        (("matthews_corrcoef",), (-1, 1)),
        (("r2",), (-math.inf, 1)),
        (("root_mean_squared_error",), (0, math.inf)),
        (("mutual_info_score", "recall_of_mine"), (-math.inf, math.inf)),
    ):
        assert {value_range(metric) for metric in metrics} == {ends}


def test_what_a_fold_does_not_have_leaves_the_estimate_undefined():
    nested = estimate_of(outer(0.0), outer(0.1, confirmed_cost=None, guess=0.4))
    assert (nested.optimism_confirmed, nested.guess) == (None, None)
    assert estimate_of(outer(0.0, guess=0.4), outer(0.1, guess=0.4)).guess == pytest.approx(0.4)
    nested = estimate_of(outer(0.0), outer(0.1, cost_all_features=float("nan")))
    assert np.isnan(nested.gain()["low"])
    assert nested.verdict() == "no clear difference"
    optimism = estimate_of(outer(0.0), outer(0.1, searched_cost=float("nan"))).optimism
    assert np.isnan([optimism.mean, optimism.low, optimism.high, optimism.p]).all()
    with pytest.raises(InputError, match="at least 2"):
        estimate_of(outer(0.0))
