"""Tests of data drift: the summaries of columns, and the indices computed from them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from flows.run.challenge import Challenge
from tasks.refresh.champion import Champion
from tasks.refresh.drift import changed_type, drift_table, summarise
from tests.fakes import calm


def frame(seed: int, n: int = 2000) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "count": rng.poisson(2.0, size=n),
            "kind": rng.choice(["a", "b", "c"], p=[0.6, 0.3, 0.1], size=n),
            "same": 1.0,
        }
    )


def test_other_rows_of_the_same_source_have_not_drifted() -> None:
    still = drift_table(json.loads(json.dumps(summarise(frame(0)))), frame(1))
    assert (still[["psi", "ks"]] < 0.05).all(axis=None)
    assert still.set_index("feature").loc["same", ["psi", "ks"]].tolist() == [0.0, 0.0]


@calm
@given(st.lists(st.floats(-1e6, 1e6) | st.just(float("nan")), min_size=1, max_size=40))
@example([*map(float, range(257))])
def test_nothing_has_drifted_from_itself(values: list[float]) -> None:
    table = pd.DataFrame({"x": values})
    moved = drift_table(json.loads(json.dumps(summarise(table))), table)
    assert moved.loc[0, "missing_before"] == moved.loc[0, "missing_now"]
    assert moved.loc[0, ["ks", "psi"]].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("before", "now", "changed"),
    [
        ([1, 2, 3], ["k1", "k2"], True),
        ([1, 2, 3], [True, False], True),
        ([0, 1, 1], [True, False], False),
        ([True, False], [0, 1], False),
        ([1, 2, 3], [7.5, None], False),
        (["1", "2"], ["k1", "k2"], True),
        (["a", "b"], [1, 2], True),
        (["1", "2", "A"], ["1", "2"], False),
        (["1", "2"], [1, 3], False),
        # New names are drift, not another type.
        (["a", "b"], ["c", "d"], False),
        ([1, 2], ["3", "4"], False),
        ([1, 2], [None, None], False),
    ],
)
def test_a_type_changes_between_numbers_names_and_truth_values(
    before: list[Any], now: list[Any], changed: bool
) -> None:
    summary = json.loads(json.dumps(summarise(pd.DataFrame({"x": before}))))["x"]
    assert changed_type(summary, pd.Series(now)) == changed
    if isinstance(now[0], str):
        assert changed_type(summary, pd.Series(now, dtype="category")) == changed


def drifted(before: Any, now: Any) -> dict[str, float]:
    reference = json.loads(json.dumps(summarise(pd.DataFrame({"x": before}))))
    return dict(drift_table(reference, pd.DataFrame({"x": now})).iloc[0])


def index(before: Any, now: Any) -> float:
    """Return the population stability index of shares; an empty bin counts as 1e-4."""
    p = np.maximum(now, 1e-4)
    q = np.maximum(before, 1e-4)
    return float(np.sum((p - q) * np.log(p / q)))


def test_a_column_is_summarised_by_its_quantiles_or_its_shares() -> None:
    table = pd.DataFrame(
        {
            "n": [*range(257), np.nan],
            "k": ["b"] * 129 + ["a"] * 129,
            "t": [True] * 86 + [False] * 172,
            "none": pd.Series([np.nan] * 258, dtype=float),
        }
    )
    summary = summarise(table)
    assert summary["n"] == {"missing": 1 / 258, "quantiles": [float(i) for i in range(257)]}
    assert summary["k"] == {"missing": 0.0, "shares": {"a": 0.5, "b": 0.5}}
    assert list(summary["k"]["shares"]) == ["a", "b"]
    assert summary["t"]["shares"] == {"0": 172 / 258, "1": 86 / 258}
    assert summary["none"] == {"missing": 1.0, "quantiles": []}
    assert summarise(table.iloc[:0])["n"] == {"missing": 0.0, "quantiles": []}


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (pd.Series([True, False] * 9), pd.Series([1, 0] * 9)),
        (pd.Series([1, 0] * 9), pd.Series([True, False] * 9)),
        (pd.Series([1, 2] * 9, dtype="category"), pd.Series([1.0, 2.0] * 9, dtype="category")),
        (pd.Series([1, 2] * 9, dtype="category"), pd.Series(["1", "2"] * 9)),
        (pd.Series([True, False] * 9), pd.Series([True, False] * 9, dtype="boolean")),
    ],
)
def test_a_column_of_the_same_values_has_not_drifted_whatever_its_type(
    before: pd.Series, now: pd.Series
) -> None:
    table = drift_table(summarise(before.to_frame("x")), now.to_frame("x"))
    assert table[["psi", "ks"]].to_numpy().ravel() == pytest.approx([0.0, 0.0], abs=1e-12)


def test_numbers_are_compared_by_deciles_of_the_reference() -> None:
    before = np.arange(1, 1001) / 1000
    now = before[before > 0.5]
    moved = drifted(before, now)
    # Half of the deciles are empty now, and the other half have twice their share.
    assert moved["psi"] == pytest.approx(index([0.1] * 10, [0.0] * 5 + [0.2] * 5), abs=0.02)
    assert moved["ks"] == pytest.approx(ks_2samp(before, now).statistic, abs=1 / 256)
    rng = np.random.default_rng(0)
    wider = rng.normal(size=2000)
    narrower = rng.normal(1.0, 0.5, size=2000)
    distance = drifted(wider, narrower)["ks"]
    assert distance == pytest.approx(ks_2samp(wider, narrower).statistic, abs=1 / 256)
    ties = drifted([0.0] * 900 + [1.0] * 100, [0.0] * 500 + [1.0] * 500)
    assert ties["ks"] == pytest.approx(0.4, abs=1 / 256)


def test_categories_are_compared_by_their_shares_and_unknown_ones_share_a_bin() -> None:
    moved = drifted(list("aaaabbbbcc"), list("aaaaaaaadd"))
    assert moved["psi"] == pytest.approx(index([0.4, 0.4, 0.2, 0.0], [0.8, 0.0, 0.0, 0.2]))
    assert moved["ks"] == pytest.approx(0.6)
    names = [f"k{i:02}" for i in range(60)]
    summary = summarise(pd.DataFrame({"x": names}))["x"]["shares"]
    assert list(summary) == names[:50]
    # Ten names share a bin, which has a sixth of the rows before and half of them now.
    moved = drifted(names, names[:50] + names[50:] * 5)
    before = [1 / 60] * 50 + [1 / 6]
    now = [1 / 100] * 50 + [1 / 2]
    assert moved["psi"] == pytest.approx(index(before, now))
    assert moved["ks"] == pytest.approx(1 / 2 - 1 / 6)


def test_missing_values_have_a_bin_of_their_own() -> None:
    known = [0.0] * 600 + [1.0] * 400
    moved = drifted([*known, *[np.nan] * 1000], known)
    assert (moved["missing_before"], moved["missing_now"]) == (0.5, 0.0)
    assert moved["psi"] == pytest.approx(index([0.5, 0.3, 0.2], [0.0, 0.6, 0.4]), abs=0.01)
    assert moved["ks"] <= 1 / 256
    lost = drifted(list("ab"), [None, "a"])
    assert lost["psi"] == pytest.approx(index([0.5, 0.5, 0.0], [0.5, 0.0, 0.5]))


def test_a_column_that_is_empty_on_one_side_has_moved_altogether() -> None:
    empty = [np.nan, np.nan]
    gone = drifted([1.0, 2.0], empty)
    new = drifted(empty, [1.0, 2.0])
    assert gone["ks"] == new["ks"] == 1.0
    assert gone["psi"] == pytest.approx(index([1.0, 0.0], [0.0, 1.0]))
    assert new["psi"] == gone["psi"]
    still = drifted(empty, empty)
    assert (still["ks"], still["psi"], still["missing_now"]) == (0.0, 0.0, 1.0)


def test_columns_are_listed_by_decreasing_index_and_unknown_ones_left_out() -> None:
    rng = np.random.default_rng(0)
    before = pd.DataFrame(rng.normal(size=(500, 3)), columns=list("abc"))
    now = before + np.array([0.0, 1.0, 0.3])
    table = drift_table(summarise(before), now.assign(new=1.0))
    assert table["feature"].tolist() == ["b", "c", "a"]
    assert table.columns.tolist() == ["feature", "psi", "ks", "missing_before", "missing_now"]


def test_drift_at_the_threshold_is_not_above_it() -> None:
    before = pd.DataFrame({"level": ["a"] * 70 + ["b"] * 30})
    champions: Any = SimpleNamespace(reference=lambda champion: summarise(before))
    for share, is_above in ((80, False), (81, True)):
        now: Any = SimpleNamespace(
            features=pd.DataFrame({"level": ["a"] * share + ["b"] * (100 - share)})
        )
        limits = SimpleNamespace(threshold=0.1, action="warn")
        config: Any = SimpleNamespace(drift=limits, mute=())
        challenge = Challenge(config, champions, Champion("any", "1", ""), 0)
        challenge.check_drift(now)
        assert bool(challenge.findings) is is_above
