"""Tests of the distances, clusters and relevance that hint a search."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from swarm.errors import ConfigError, DataError, InputError
from swarm.problem.hints import prepare_hints
from swarm.statistics.clusters import clusters
from swarm.statistics.encoding import as_numbers
from swarm.statistics.information import neighbour_information
from swarm.statistics.spearman import spearman_distance, unit_distance
from swarm.testing.planted import plain_space


@pytest.fixture
def numbers() -> pd.DataFrame:
    values = np.random.default_rng(0).normal(size=(300, 12))
    values[:, 3] = values[:, 0] ** 3
    values[:, 4] = np.round(values[:, 1])
    values[:, 5] = -values[:, 2] + 0.5 * values[:, 6]
    return pd.DataFrame(values, columns=[f"x{i}" for i in range(12)])


def test_complete_numbers_give_the_distance_of_scipy(numbers: pd.DataFrame) -> None:
    table = numbers.assign(y=-np.exp(numbers["x7"]))
    expected = 1.0 - np.abs(stats.spearmanr(table.to_numpy())[0])
    np.fill_diagonal(expected, 0.0)
    distance = spearman_distance(table)
    np.testing.assert_allclose(distance, expected, rtol=0, atol=1e-12)
    assert (distance == distance.T).all()
    assert 0.0 <= distance.min() <= distance.max() <= 1.0
    # A column, a monotone copy of another and itself: exactly zero.
    assert distance[0, 3] == distance[7, 12] == 0.0
    assert not np.diag(distance).any()
    assert not distance.flags.writeable


def test_ranks_of_a_long_table_take_little_more_than_its_numbers_and_their_ranks() -> None:
    table = pd.DataFrame(np.random.default_rng(0).random((100_000, 40), dtype=np.float32))
    # Numba compiles at the first call.
    spearman_distance(table.iloc[:10])
    tracemalloc.start()
    spearman_distance(table)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Numbers, ranks and a panel; all columns at once took ten times the numbers.
    assert peak < 5 * 8 * table.size


def test_missing_cells_take_the_mean_rank_and_constant_columns_the_distance_one(
    numbers: pd.DataFrame,
) -> None:
    table = numbers.copy()
    table.iloc[::7, 2] = np.nan
    ranks = table.rank()
    expected = 1.0 - ranks.fillna(ranks.mean()).corr().abs()
    table = table.assign(same=4.0, none=np.nan, one=np.r_[1.0, np.full(299, np.nan)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        distance = spearman_distance(table)
    np.testing.assert_allclose(distance[:12, :12], expected, atol=1e-12)
    assert np.array_equal(distance[12:], 1.0 - np.eye(15)[12:])


def test_columns_of_other_types_enter_by_their_codes_or_are_named() -> None:
    table = pd.DataFrame(
        {
            "level": pd.Categorical(["low", "high", "mid", None], ["low", "mid", "high"]),
            "name": pd.Series(["b", "a", "b", None], dtype="str"),
            "flag": [True, False, True, True],
            "maybe": pd.array([True, None, False, True], dtype="boolean"),
            "count": pd.array([3, None, 1, 2], dtype="Int64"),
            "day": pd.to_datetime(["2024-01-02", "2024-01-01", None, "2024-01-03"]),
        }
    )
    codes = as_numbers(table)
    expected = [[0, 2, 1, None], [0, 1, 0, None], [1, 0, 1, 1], [1, None, 0, 1], [3, None, 1, 2]]
    np.testing.assert_array_equal(codes[:, :5].T, np.array(expected, dtype=float))
    assert np.isnan(codes[2, 5])
    assert codes[1, 5] < codes[0, 5] < codes[3, 5]
    assert np.isfinite(spearman_distance(table)).all()
    with pytest.raises(DataError, match=r"'z' .*complex128"):
        as_numbers(pd.DataFrame({"x": [1.0, 2.0], "z": [1j, 2j]}))


def test_unit_distance_is_the_root_mean_square_over_pairs(numbers: pd.DataFrame) -> None:
    distance = spearman_distance(numbers)
    units = [(0, 5, 9), (1,), (2, 3), (4, 6, 7, 8, 10, 11)]
    between = unit_distance(distance, units)
    assert (between == between.T).all()
    assert not np.diag(between).any()
    for a, b in ((0, 1), (0, 3), (2, 3)):
        pairs = distance[np.ix_(units[a], units[b])]
        assert between[a, b] == pytest.approx(np.sqrt((pairs**2).mean()), abs=1e-15)
    single = unit_distance(distance, [(i,) for i in range(12)])
    assert single.tobytes() == distance.tobytes()
    with pytest.raises(InputError, match="unit 1"):
        unit_distance(distance, [(0,), ()])


def test_clusters_gather_correlated_columns_and_count_from_the_first() -> None:
    rng = np.random.default_rng(1)
    order = [2, 0, 0, 1, 2, 1, 0]
    values = rng.normal(size=(200, 3))[:, order] + 0.05 * rng.normal(size=(200, 7))
    distance = spearman_distance(pd.DataFrame(values))
    assert clusters(distance, 3).tolist() == [0, 1, 1, 2, 0, 2, 1]
    for n_units, n_clusters in ((1, 1), (2, 1), (2, 2), (7, 6)):
        labels = clusters(distance[:n_units, :n_units], n_clusters)
        assert sorted(set(labels.tolist())) == list(range(n_clusters))
        assert (labels[0], labels.shape) == (0, (n_units,))
    for wrong in (0, 3):
        with pytest.raises(ConfigError, match=f"1 to 2.* got {wrong}"):
            prepare_hints(pd.DataFrame(values[:, :2]), plain_space(2), n_clusters=wrong)


@pytest.mark.parametrize("task", ["binary", "regression", "multilabel"])
def test_relevance_ranks_the_planted_columns_first(task: str) -> None:
    rng = np.random.default_rng(2)
    signal = rng.normal(size=400)
    table = pd.DataFrame(rng.normal(size=(400, 6)), columns=list("abcdef"))
    table["c"] = signal + 0.1 * rng.normal(size=400)
    table["e"] = pd.Categorical(np.where(signal > 0, "up", "down"))
    table = table.assign(same=1.0, none=np.nan)
    table.loc[::9, "c"] = np.nan
    target = {
        "binary": np.where(signal > 0, "yes", "no"),
        "regression": signal,
        "multilabel": np.column_stack([signal > 0, signal > 0.4]).astype(int),
    }[task]
    values = neighbour_information(table, target, task, seed=3)
    assert set(np.argsort(values)[-2:]) == {2, 4}
    assert values[6] == values[7] == 0.0
    assert (values >= 0.0).all()
    np.testing.assert_array_equal(values, neighbour_information(table, target, task, seed=3))
