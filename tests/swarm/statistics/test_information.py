"""Tests of mutual information: equal to scikit-learn's, exact, and of bounded memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mutual_info_score

from swarm.errors import DataError, InputError
from swarm.problem import hints as hints_module
from swarm.problem.hints import prepare_hints
from swarm.problem.space import SearchSpace
from swarm.statistics import information
from swarm.statistics.information import mutual_information, target_information, unit_information
from tests.fakes import calm


def binned(values: np.ndarray[Any, Any], n_bins: int = 10) -> np.ndarray[Any, Any]:
    """Equal-width bins, by the edges that numpy draws."""
    edges = np.linspace(values.min(), values.max(), n_bins + 1)
    return np.clip(np.digitize(values, edges) - 1, 0, n_bins - 1)


def mixed(seed: int = 0, n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"a": rng.normal(size=n), "b": rng.exponential(size=n)})
    table["a_again"] = table["a"] * -3 + 1
    table["few"] = rng.choice([0.5, 7.0, 900.0], n)
    table["constant"] = 4
    table["colour"] = pd.Categorical(rng.choice(["red", "green", "blue"], n))
    table["who"] = [f"w{i % 40}" for i in range(n)]
    table["yes"] = rng.random(n) < 0.3
    return table


def by_hand(table: pd.DataFrame) -> list[np.ndarray[Any, Any]]:
    """Each column of `mixed` as it should be cut."""
    return [
        binned(table[name].to_numpy()) if table[name].dtype == float and name != "few"
        else pd.factorize(table[name])[0]
        for name in table
    ]  # fmt: skip


def test_information_is_that_of_scikit_learn_for_every_pair_and_kind_of_column() -> None:
    table = mixed()
    labels = pd.DataFrame({"p": table["a"] > 0.2, "q": table["b"] > 1}).astype(int)
    redundancy, relevance = mutual_information(table, labels, "multilabel")
    columns = by_hand(table)
    expected = np.array([[mutual_info_score(f, g) for g in columns] for f in columns])
    assert np.abs(redundancy - expected).max() < 1e-9
    expected = np.array([[mutual_info_score(f, labels[y]) for y in labels] for f in columns])
    assert np.abs(relevance - expected).max() < 1e-9
    assert not redundancy[4].any()
    assert np.array_equal(redundancy, redundancy.T)
    assert not redundancy.flags.writeable
    # A target of numbers is binned, and classes are not.
    number = table["a"].to_numpy() * 5 - 2
    for target, task, codes in (
        (number, "regression", binned(number)),
        (table["who"], "multiclass", columns[6]),
    ):
        _, relevance = mutual_information(table[["b"]], target, task)
        assert relevance[0, 0] == pytest.approx(mutual_info_score(columns[1], codes), abs=1e-9)


def test_missing_cells_are_a_bin_of_their_own() -> None:
    table = mixed()
    gaps = np.arange(len(table)) % 7 == 0
    holed = table.mask(np.repeat(gaps[:, None], table.shape[1], axis=1))
    label = gaps.astype(int)
    _, relevance = mutual_information(holed, label, "binary")
    entropy = mutual_info_score(label, label)
    assert relevance[:, 0] == pytest.approx(entropy)
    present = binned(table["a"].to_numpy()[~gaps])
    codes = np.full(len(table), 10)
    codes[~gaps] = present
    assert mutual_information(holed[["a"]], label, "binary")[0][0, 0] == pytest.approx(
        mutual_info_score(codes, codes)
    )
    assert not mutual_information(holed[["a"]] * np.nan, label, "binary")[1].any()


@settings(calm, max_examples=15)
@given(seed=st.integers(0, 999), max_codes=st.integers(2, 30), width=st.sampled_from([8, 50, 2048]))
def test_blocks_sorting_and_the_order_of_rows_and_columns_change_no_bit(
    seed: int, max_codes: int, width: int
) -> None:
    table = mixed(seed, 120)
    whole = mutual_information(table, table["yes"], "binary")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(information, "_MAX_CODES", max_codes)
        patch.setattr(information, "_MAX_INDICATORS", width)
        patch.setattr(information, "_MAX_BLOCK_BYTES", 2**14)
        blocks = mutual_information(table, table["yes"], "binary")
        patch.setattr(information, "_MAX_FLOAT32_INTEGER", 0)
        double = mutual_information(table, table["yes"], "binary")
    for expected, of_blocks, of_doubles in zip(whole, blocks, double, strict=True):
        assert expected.tobytes() == of_blocks.tobytes() == of_doubles.tobytes()
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(len(table)), rng.permutation(table.shape[1])
    moved = table.iloc[rows, columns]
    redundancy = mutual_information(moved, moved["yes"], "binary")[0]
    assert np.array_equal(redundancy, whole[0][np.ix_(columns, columns)])


def test_information_between_units_is_the_mean_over_their_columns() -> None:
    table = mixed()[["a", "b", "few", "who"]]
    columns = mutual_information(table, table["few"], "multiclass")
    shared, told = unit_information(*columns, [(0, 2), (1,), (3,)])
    assert shared[0, 1] == pytest.approx(columns[0][[0, 2], 1].mean())
    assert shared[0, 0] == pytest.approx(columns[0][np.ix_([0, 2], [0, 2])].mean())
    assert told[0, 0] == pytest.approx(columns[1][[0, 2], 0].mean())
    for one, other in zip(
        unit_information(*columns, [(0,), (1,), (2,), (3,)]), columns, strict=True
    ):
        assert np.array_equal(one, other)


def test_the_information_with_the_target_is_that_of_all_pairs_to_the_bit() -> None:
    table = mixed()
    table["a"] = table["a"].where(table["a"] > -1)
    labels = np.column_stack([table["yes"], table["few"] > 1]).astype(int)
    targets = ((table["who"], "multiclass"), (table["b"] * 3, "regression"), (labels, "multilabel"))
    for target, task in targets:
        whole = mutual_information(table, target, task)[1]
        assert np.array_equal(target_information(table, target, task), whole)
    space = SearchSpace.build(list(table.columns), groups={"ab": ["a", "b"]})
    both = prepare_hints(table, space, labels, needs=("relevance", "redundancy"))
    alone = prepare_hints(table, space, labels, needs=("relevance",))
    assert np.array_equal(alone.relevance, both.relevance)


def test_a_long_table_is_sampled_and_the_sample_does_not_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = mixed(n=1200).drop(columns="constant")
    space = SearchSpace.build(list(table.columns))
    every = ("distance", "clusters", "relevance", "redundancy")
    exact = prepare_hints(table, space, table["yes"], needs=every)
    monkeypatch.setattr(hints_module, "MAX_ROWS", 900)
    sampled = prepare_hints(table, space, table["yes"], needs=every)
    again = prepare_hints(table, space, table["yes"], needs=every)
    assert not np.array_equal(sampled.distance, exact.distance)
    assert np.abs(sampled.distance - exact.distance).max() < 0.1
    assert np.abs(sampled.relevance - exact.relevance).max() < 0.1
    for name in every:
        assert np.array_equal(getattr(sampled, name), getattr(again, name))


def test_what_cannot_be_computed_is_refused() -> None:
    table = mixed()
    space, yes = SearchSpace.build(list(table)), table["yes"]
    for error, named, compute in (
        (InputError, "300 .*2", lambda: mutual_information(table, np.array([0, 1]), "binary")),
        (DataError, "'a'", lambda: mutual_information(table.assign(a=np.inf), yes, "binary")),
        (
            InputError,
            "'relevance'.*target",
            lambda: prepare_hints(table, space, needs=("relevance",)),
        ),
        (
            InputError,
            "did you mean 'relev",
            lambda: prepare_hints(table, space, needs=("relevanc",)),
        ),
    ):
        with pytest.raises(error, match=named):
            compute()
