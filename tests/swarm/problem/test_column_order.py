"""Tests that the order of the columns of a table changes nothing about a search."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.naive_bayes import GaussianNB

from swarm import SubsetSelector
from swarm.problem.space import canonical_order

NAMES = ["width", "x10", "x9", "Age", "x2", "age", "zone", "b 3"]


def numbers() -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(90, len(NAMES))).round(1), columns=NAMES)
    signal = X["x9"] + X["age"] - X["zone"] + rng.normal(size=90)
    return X, (signal > 0).to_numpy().astype(int)


def permuted(X: pd.DataFrame, seed: int = 1) -> pd.DataFrame:
    return X.iloc[:, np.random.default_rng(seed).permutation(X.shape[1])]


def selector(**options: Any) -> SubsetSelector:
    return SubsetSelector(**{"estimator": GaussianNB(), "budget": 3, "cv": 3, **options})


def n_archived(archive: Path) -> int:
    with closing(sqlite3.connect(archive)) as connection:
        return int(connection.execute("SELECT count(*) FROM archive_evaluations").fetchone()[0])


def assert_same_answer(fitted: SubsetSelector, expected: SubsetSelector) -> None:
    assert sorted(fitted.subset_) == sorted(expected.subset_)
    # Sums over columns in another order differ in their last bits.
    close = {"check_exact": False, "rtol": 1e-12}
    pd.testing.assert_series_equal(fitted.importances_, expected.importances_, **close)
    for tables in (
        [selector.history_.filter(regex="^(?!.*seconds)") for selector in (fitted, expected)],
        [
            selector.results_.assign(features=selector.results_["features"].map(sorted).map(tuple))
            for selector in (fitted, expected)
        ],
    ):
        pd.testing.assert_frame_equal(*tables, **close)


@given(st.lists(st.text(max_size=6), unique=True, max_size=12), st.randoms())
def test_the_canonical_order_depends_on_names_alone(names: list[str], random: Any) -> None:
    def ordered(names: list[str]) -> list[str]:
        return [names[i] for i in canonical_order(names)]

    assert ordered(names) == ordered(random.sample(names, len(names)))
    numbers = ["x10", "x9", "x09", "b", "x", "10", "9", "x9y2", "x9y10"]
    assert ordered(numbers) == ["9", "10", "b", "x", "x09", "x9", "x9y2", "x9y10", "x10"]


# Units are sorted before any strategy sees them, and these strategies use all kinds of hints.
@pytest.mark.parametrize("strategy", ["multiswarm", "mlaco", "sffs"])
def test_a_strategy_gives_the_same_answer_and_the_archive_keeps_the_orders_apart(
    strategy: str, tmp_path: Path
) -> None:
    X, y = numbers()
    options = {
        "strategy": strategy,
        "archive": f"sqlite:///{tmp_path}/archive.db",
        "groups": [["x9", "b 3"]],
    }
    fitted = selector(**options).fit(X, y)
    archived = n_archived(tmp_path / "archive.db")
    assert_same_answer(selector(**options).fit(permuted(X), y), fitted)
    assert n_archived(tmp_path / "archive.db") == 2 * archived > 0


def test_positions_of_columns_refer_to_the_table_of_the_user() -> None:
    X, y = numbers()
    X["x2"] = np.arange(len(X)) % 6
    y = (X["x2"] % 2).to_numpy()
    X = permuted(X)
    position = list(X).index("x2")
    assert position != NAMES.index("x2")
    params: dict[str, Any] = {"max_iter": 3, "max_depth": 1, "min_samples_leaf": 3}
    by_position = HistGradientBoostingClassifier(**params, categorical_features=[position])
    by_name = HistGradientBoostingClassifier(**params, categorical_features=["x2"])
    without_categories = HistGradientBoostingClassifier(**params)
    full = {"strategy": "full", "fixed": [position], "forbidden": ["Age"]}
    costs = [
        selector(estimator=model, scoring="neg_log_loss", **full).fit(X, y).cost_
        for model in (by_position, by_name, without_categories)
    ]
    assert costs[0] == costs[1] != costs[2]
