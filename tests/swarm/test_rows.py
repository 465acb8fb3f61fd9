"""Tests of dividing rows: folds, hold-outs, groups, time and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.naive_bayes import GaussianNB

from swarm import MLkNN, Problem
from swarm.errors import ConfigError, DataError
from swarm.rows import Fold, Rows, divide, hold_out
from tests.fakes import calm

BINARY = np.array([0, 1] * 20)
NAMES = [f"g{number % 8}" for number in range(38)]
GAPS = np.array([*NAMES, None, None], dtype=object)
SPLITTERS = [
    GroupKFold(3),
    StratifiedGroupKFold(3),
    KFold(3),
    TimeSeriesSplit(3),
]


def listed(folds: Any) -> list[list[list[int]]]:
    return [[side.tolist() for side in fold] for fold in folds]


# ---------------------------------------------------------------- folds


@pytest.mark.parametrize("kind", ["stratified", "random", "group", "stratified_group", "column"])
def test_every_row_is_tested_once_and_never_trained_in_the_same_fold(kind: str) -> None:
    ids = np.repeat(np.arange(10), 4)
    folds = divide(Rows(None, BINARY, task="binary", groups=ids, column=ids % 3), kind, 3, seed=1)
    assert len(folds) == 3
    assert sorted(row for _, test in folds for row in test) == list(range(40))
    for train, test in folds:
        assert sorted([*train, *test]) == list(range(40))
        assert (np.diff(train) > 0).all()
        assert (np.diff(test) > 0).all()
        if "group" in kind:
            assert not set(ids[train]) & set(ids[test])


def test_stratified_folds_are_those_of_scikit_learn() -> None:
    expected = StratifiedKFold(5, shuffle=True, random_state=3).split(BINARY, BINARY)
    rows = Rows(None, BINARY, task="binary")
    assert listed(divide(rows, "stratified", 5, seed=3)) == listed(expected)
    unshuffled = divide(rows, "stratified", 5, shuffle=False)
    assert unshuffled[0][1].tolist() == list(range(8))


def test_a_fold_column_tests_its_values_and_always_trains_on_rows_without_one() -> None:
    for column, tests in (
        (np.array(["x", "y", "z", "y"]), [[0], [1, 3], [2]]),
        (pd.Series(["test", None, "test", None]).to_numpy(), [[0, 2]]),
    ):
        folds = divide(Rows(None, BINARY[:4], task="binary", column=column), "column", 99)
        assert [test.tolist() for _, test in folds] == tests
        assert all(sorted([*train, *test]) == [0, 1, 2, 3] for train, test in folds)


CONFIG: list[tuple[str, dict[str, Any], str]] = [
    ("grup", {}, "did you mean 'group'"),
    ("stratified", {"n_folds": 1}, "folds, got 1"),
    ("stratified", {"task": "regression"}, "needs classes"),
    ("group", {}, "groups"),
    ("stratified_group", {"groups": np.arange(40), "task": "multilabel"}, "multilabel.*'group'"),
    ("time", {}, "time column"),
    ("column", {}, "fold column"),
]
DATA: list[tuple[str, dict[str, Any], str]] = [
    ("random", {"n_folds": 41}, "40 rows .*41"),
    ("stratified", {"n_folds": 21}, "class, 0, .*20.*21"),
    ("group", {"groups": BINARY}, "2 groups .*5"),
    ("group", {"groups": BINARY * 0}, "one group"),
    ("group", {"groups": GAPS}, "groups are missing in 2 of 40 rows"),
    ("stratified_group", {"groups": GAPS}, "groups are missing in 2 of 40 rows"),
    ("time", {"time": np.arange(40), "n_folds": 40}, "40 rows .*; use fewer folds$"),
    ("time", {"time": np.arange(40), "gap": 12}, "gap of 12 rows; .* or a smaller gap"),
    ("column", {"column": np.ones(40)}, "single value"),
    ("column", {"column": np.full(40, np.nan)}, "fold column"),
]


@pytest.mark.parametrize(
    ("error", "kind", "options", "message"),
    [(ConfigError, *case) for case in CONFIG] + [(DataError, *case) for case in DATA],
)
def test_folds_that_cannot_be_made_are_refused(
    error: type[Exception], kind: str, options: dict[str, Any], message: str
) -> None:
    columns = {name: options[name] for name in ("groups", "time", "column") if name in options}
    parameters = {name: options[name] for name in ("n_folds", "gap") if name in options}
    with pytest.raises(error, match=message):
        divide(
            Rows(None, BINARY, task=options.get("task", "binary"), **columns), kind, **parameters
        )


@pytest.mark.parametrize("splitter", SPLITTERS, ids=lambda splitter: type(splitter).__name__)
def test_every_splitter_refuses_missing_groups(splitter: Any) -> None:
    X = pd.DataFrame({"a": np.arange(40.0), "b": np.arange(40.0) % 7})
    texts = [pd.Series([*NAMES, gap, gap], dtype=object) for gap in (None, np.nan, pd.NA)]
    numbers = pd.Series([*(np.arange(38.0) % 8), np.nan, np.nan])
    for groups in (*texts, texts[0].tolist(), numbers, numbers.astype("Int64")):
        with pytest.raises(DataError, match="groups are missing in 2 of 40 rows"):
            Problem.build(X, BINARY, GaussianNB(), folds=splitter, groups=groups)


def test_groups_of_numbers_and_text_are_divided_as_their_names_are() -> None:
    mixed = [number % 8 if number % 2 else f"g{number % 8}" for number in range(40)]
    groups = np.array(mixed, dtype=object)
    for train, test in divide(Rows(None, BINARY, groups, task="binary"), "stratified_group", 4):
        assert len(test)
        assert not set(groups[train]) & set(groups[test])
    X = pd.DataFrame({"a": np.arange(40.0), "b": np.arange(40.0) % 7})
    with pytest.raises(DataError, match="GroupKFold cannot split the rows"):
        Problem.build(X, BINARY, GaussianNB(), folds=GroupKFold(4), groups=groups)


def test_a_number_of_folds_divides_no_group_of_a_row() -> None:
    X = pd.DataFrame({"a": np.arange(40.0), "b": np.arange(40.0) % 7})
    groups = np.arange(40) // 4
    for container in (groups, pd.DataFrame({"group": groups}), groups.tolist()):
        problem = Problem.build(X, BINARY, GaussianNB(), folds=3, groups=container)
        for train, test in problem.folds:
            assert not set(groups[train]) & set(groups[test])
    for wrong in (groups[:39], np.c_[groups, groups]):
        with pytest.raises(DataError, match="one value for each of 40 rows"):
            Problem.build(X, BINARY, GaussianNB(), folds=3, groups=wrong)


# ---------------------------------------------------------------- time


@pytest.mark.parametrize("gap", [0, 1, 4])
def test_folds_in_time_are_those_of_scikit_learn_on_ordered_rows(gap: int) -> None:
    # Rows of the same time keep their order.
    time = np.random.default_rng(30).integers(0, 20, 30)
    order = np.argsort(time, kind="stable")
    ours = divide(Rows(None, np.zeros(30), task="regression", time=time), "time", 3, gap=gap)
    theirs = TimeSeriesSplit(3, gap=gap).split(order)
    for fold, expected in zip(ours, theirs, strict=True):
        for side in range(2):
            assert fold[side].tolist() == order[expected[side]].tolist()
            assert fold[side].dtype == np.int64


# ---------------------------------------------------------------- hold-outs


@calm
@given(st.data())
def test_every_part_partitions_the_rows_and_repeats_with_its_seed(data: st.DataObject) -> None:
    n = data.draw(st.integers(20, 60))
    seed = data.draw(st.integers(0, 5))
    share = data.draw(st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.7, 0.85]))
    kind = data.draw(st.sampled_from(["random", "stratified", "group", "stratified_group", "time"]))
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 6, size=n) if n % 2 else np.arange(n) % 3
    times = rng.integers(0, 9, size=n)
    rows = Rows(None, np.arange(n) % 2, task="binary", groups=groups, time=times)
    (train, test), repeated = (hold_out(rows, kind, share, seed=seed) for _ in range(2))
    assert np.array_equal(np.sort(np.r_[train, test]), np.arange(n))
    assert len(train)
    assert len(test)
    assert np.array_equal(test, repeated[1])
    assert np.array_equal(test, np.unique(test))
    if "group" in kind:
        assert not np.intersect1d(groups[train], groups[test]).size
    elif kind == "time":
        assert times[train].max() < times[test].min()
    else:
        assert len(test) == pytest.approx(share * n, abs=3)


def test_another_seed_takes_other_rows() -> None:
    rows = Rows(None, np.arange(50) % 2, task="binary", groups=np.arange(50) // 2)
    for kind in ("random", "stratified", "group"):
        tests = {tuple(hold_out(rows, kind, 0.3, seed=seed)[1]) for seed in range(4)}
        assert len(tests) > 1, kind


@pytest.mark.parametrize("share", [0.1, 0.3, 0.4])
def test_a_rare_class_is_on_both_sides_of_most_shares(share: float) -> None:
    target = np.repeat([0, 1, 2], [40, 53, 6])
    train, test = hold_out(Rows(None, target, task="multiclass"), "stratified", share)
    assert set(target[train]) == {0, 1, 2}
    assert (target[test] == 2).sum() == pytest.approx(6 * share, abs=1)


def test_a_share_of_less_than_a_row_is_refused_and_one_of_less_than_a_group_is_a_group() -> None:
    rows = Rows(None, BINARY, np.arange(40) // 10, task="binary")
    for kind, words in (("random", "0.01 of 40 rows"), ("stratified", "a row of each class")):
        with pytest.raises(DataError, match=words):
            hold_out(rows, kind, 0.01)
    assert len(hold_out(rows, "group", 0.01)[1]) == 10


def test_rows_of_one_time_stay_together_at_the_cut_nearest_to_the_share() -> None:
    time = np.array([5, 1, 1, 2, 3, 3, 3, 3, 4, 0])
    rows = Rows(None, np.zeros(10), task="regression", time=time)
    assert hold_out(rows, "time", 0.3)[1].tolist() == [0, 8]
    train, _ = hold_out(rows, "time", 0.3, gap=3)
    assert train.tolist() == [1, 2, 3, 4, 9]
    with pytest.raises(DataError, match=r"gap 8 leaves out all 8 rows"):
        hold_out(rows, "time", 0.3, gap=8)
    with pytest.raises(DataError, match="same time"):
        hold_out(Rows(None, np.zeros(2), task="regression", time=np.ones(2)), "time", 0.3)


# ---------------------------------------------------------------- several labels


def labels(seed: int, n_rows: int, n_labels: int) -> np.ndarray[Any, Any]:
    """Return labels from common to rare that often come together."""
    rng = np.random.default_rng(seed)
    score = rng.random((n_rows, 1)) + rng.random((n_rows, n_labels))
    ranks = score.argsort(axis=0).argsort(axis=0)
    return (ranks < n_rows * np.geomspace(0.6, 0.08, n_labels)).astype(int)


def by_labels(target: np.ndarray[Any, Any], n_folds: int = 5, **options: Any) -> list[Fold]:
    return divide(Rows(None, target, task="multilabel"), "stratified", n_folds, **options)


@calm
@given(
    seed=st.integers(0, 999),
    n_rows=st.integers(12, 90),
    n_labels=st.integers(2, 8),
    n_folds=st.integers(2, 6),
    shuffle=st.booleans(),
)
def test_every_row_of_labels_is_tested_once_and_sizes_differ_by_little(
    seed: int, n_rows: int, n_labels: int, n_folds: int, shuffle: bool
) -> None:
    target = labels(seed, n_rows, n_labels)
    folds = by_labels(target, n_folds=n_folds, seed=seed, shuffle=shuffle)
    assert len(folds) == n_folds
    assert sorted(row for _, test in folds for row in test) == list(range(n_rows))
    for train, test in folds:
        assert sorted([*train, *test]) == list(range(n_rows))
    sizes = [len(test) for _, test in folds]
    assert max(sizes) - min(sizes) <= 2 * n_labels


def test_every_label_is_shared_out_more_evenly_than_by_chance() -> None:
    target = labels(3, 600, 6)

    def unevenness(kind: str, seed: int) -> Any:
        """Return how far the share of each label in the folds is from that in all rows."""
        folds = divide(Rows(None, target, task="multilabel"), kind, 10, seed=seed)
        shares = np.array([target[test].mean(axis=0) for _, test in folds])
        return np.abs(shares - target.mean(axis=0)).mean(axis=0)

    ours, chance = (
        np.array([unevenness(kind, seed) for seed in range(5)]) for kind in ("stratified", "random")
    )
    assert (ours < chance).all()
    assert (ours.mean(axis=1) / chance.mean(axis=1)).mean() < 0.4


def test_folds_of_labels_follow_the_seed_and_a_number_of_folds_means_them() -> None:
    target = labels(0, 80, 4)
    assert listed(by_labels(target, seed=1)) != listed(by_labels(target, seed=2))
    unshuffled = [listed(by_labels(target, seed=seed, shuffle=False)) for seed in (1, 2)]
    assert unshuffled[0] == unshuffled[1]
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(80, 4))).add_prefix("x")
    problem = Problem.build(table, target, MLkNN(3), folds=4, seed=5)
    assert listed(problem.folds) == listed(by_labels(target, n_folds=4, seed=5))
