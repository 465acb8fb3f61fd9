"""Claims on the distances, clusters and relevance that hint a search."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from swarm.errors import DataError, InputError
from swarm.statistics.clusters import clusters
from swarm.statistics.encoding import as_numbers
from swarm.statistics.relevance import relevance
from swarm.statistics.spearman import spearman_distance, unit_distance


@pytest.fixture
def numbers() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(300, 12))
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
    assert distance.dtype == np.float64
    assert (distance == distance.T).all()
    assert distance.min() >= 0.0
    assert distance.max() <= 1.0
    # A column, a monotone copy of another and itself: exactly zero.
    assert distance[0, 3] == distance[7, 12] == 0.0
    assert not np.diag(distance).any()
    with pytest.raises(ValueError, match="read-only"):
        distance[0, 1] = 0.5


def test_ranks_of_a_long_table_take_little_more_than_its_numbers_and_their_ranks() -> None:
    table = pd.DataFrame(np.random.default_rng(0).random((100_000, 40), dtype=np.float32))
    # Numba compiles at the first call.
    spearman_distance(table.iloc[:10])
    tracemalloc.start()
    try:
        spearman_distance(table)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Numbers, ranks and a panel; all columns at once took ten times the numbers.
    numbers_size = 8 * table.size
    assert peak < 5 * numbers_size


def test_nan_correlations_of_constant_columns_become_distance_one(numbers: pd.DataFrame) -> None:
    table = numbers.assign(same=4.0, none=np.nan, one=np.r_[1.0, np.full(299, np.nan)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        distance = spearman_distance(table)
    for position in (12, 13, 14):
        assert (np.delete(distance[position], position) == 1.0).all()
        assert distance[position, position] == 0.0


def test_missing_cells_take_the_mean_rank_of_their_column(numbers: pd.DataFrame) -> None:
    table = numbers.copy()
    table.iloc[::7, 2] = np.nan
    ranks = table.rank()
    expected = 1.0 - ranks.fillna(ranks.mean()).corr().abs()
    np.testing.assert_allclose(spearman_distance(table), expected, atol=1e-12)


def test_nominal_columns_enter_by_their_codes() -> None:
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
    np.testing.assert_array_equal(codes[:, 0], [0, 2, 1, np.nan])
    np.testing.assert_array_equal(codes[:, 1], [0, 1, 0, np.nan])
    np.testing.assert_array_equal(codes[:, 2], [1, 0, 1, 1])
    np.testing.assert_array_equal(codes[:, 3], [1, np.nan, 0, 1])
    np.testing.assert_array_equal(codes[:, 4], [3, np.nan, 1, 2])
    assert np.isnan(codes[2, 5])
    assert codes[1, 5] < codes[0, 5] < codes[3, 5]
    assert np.isfinite(spearman_distance(table)).all()


def test_a_column_without_order_or_codes_is_named() -> None:
    with pytest.raises(DataError, match="'z' has the dtype complex128"):
        as_numbers(pd.DataFrame({"x": [1.0, 2.0], "z": [1j, 2j]}))


def test_unit_distance_is_the_root_mean_square_over_pairs(numbers: pd.DataFrame) -> None:
    distance = spearman_distance(numbers)
    units = [(0, 5, 9), (1,), (2, 3), (4, 6, 7, 8, 10, 11)]
    between = unit_distance(distance, units)
    assert (between == between.T).all()
    assert (np.diag(between) == 0.0).all()
    for a, b in ((0, 1), (0, 3), (2, 3)):
        pairs = distance[np.ix_(units[a], units[b])]
        assert between[a, b] == pytest.approx(np.sqrt((pairs**2).mean()), abs=1e-15)
    single = unit_distance(distance, [(i,) for i in range(12)])
    assert single.tobytes() == distance.tobytes()
    with pytest.raises(InputError, match="unit 1 has no column"):
        unit_distance(distance, [(0,), ()])


def test_clusters_gather_correlated_columns_and_count_from_the_first() -> None:
    rng = np.random.default_rng(1)
    base = rng.normal(size=(200, 3))
    order = [2, 0, 0, 1, 2, 1, 0]
    table = pd.DataFrame(base[:, order] + 0.05 * rng.normal(size=(200, 7)))
    labels = clusters(spearman_distance(table), 3)
    assert labels.tolist() == [0, 1, 1, 2, 0, 2, 1]


def test_every_number_of_clusters_up_to_d_is_met_and_more_are_refused() -> None:
    for d, n_clusters in ((1, 1), (2, 1), (2, 2), (5, 1), (5, 5), (5, 4)):
        table = pd.DataFrame(np.random.default_rng(0).normal(size=(40, d)))
        labels = clusters(spearman_distance(table), n_clusters)
        assert sorted(set(labels.tolist())) == list(range(n_clusters))
        assert labels[0] == 0
        assert labels.shape == (d,)
    with pytest.raises(InputError, match="at most 2, the number of units, got 3"):
        clusters(np.zeros((2, 2)), 3)
    with pytest.raises(InputError, match="at least 1, got 0"):
        clusters(np.zeros((2, 2)), 0)


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression", "multilabel"])
def test_relevance_ranks_the_planted_columns_first(task: str) -> None:
    rng = np.random.default_rng(2)
    signal = rng.normal(size=400)
    table = pd.DataFrame(rng.normal(size=(400, 6)), columns=list("abcdef"))
    table["c"] = signal + 0.1 * rng.normal(size=400)
    table["e"] = pd.Categorical(np.where(signal > 0, "up", "down"))
    table["same"] = 1.0
    table["none"] = np.nan
    table.loc[::9, "c"] = np.nan
    targets = {
        "binary": pd.Series(np.where(signal > 0, "yes", "no")),
        "multiclass": pd.Series(np.digitize(signal, [-0.5, 0.5])),
        "regression": pd.Series(signal),
        "multilabel": pd.DataFrame({"p": signal > 0, "q": signal > 0.4}).astype(int),
    }
    values = relevance(table, targets[task], task, seed=3)
    assert set(np.argsort(values)[-2:]) == {2, 4}
    assert values[6] == 0.0
    assert values[7] == 0.0
    assert (values >= 0.0).all()
    np.testing.assert_array_equal(values, relevance(table, targets[task], task, seed=3))


def test_relevance_names_an_unknown_task() -> None:
    table = pd.DataFrame({"a": [1.0, 2.0]})
    with pytest.raises(InputError, match="did you mean 'regression'"):
        relevance(table, pd.Series([1, 2]), "regresion", seed=0)
    with pytest.raises(InputError, match="does not match the task 'multilabel'"):
        relevance(table, pd.Series([1, 2]), "multilabel", seed=0)
