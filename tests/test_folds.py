"""Claims on the ways of cutting rows into folds."""

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
from swarm.problem.folds import Fold, make_folds
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
    return [[part.tolist() for part in fold] for fold in folds]


@pytest.mark.parametrize("kind", ["stratified", "random", "group", "stratified_group", "column"])
def test_every_row_is_tested_once_and_never_trained_in_the_same_fold(kind: str) -> None:
    ids = np.repeat(np.arange(10), 4)
    folds = make_folds(kind, BINARY, "binary", n_folds=3, seed=1, groups=ids, column=ids % 3)
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
    folds = make_folds("stratified", BINARY, "binary", n_folds=5, seed=3)
    assert listed(folds) == listed(expected)
    straight = make_folds("stratified", BINARY, "binary", n_folds=5, shuffle=False)
    assert straight[0][1].tolist() == list(range(8))


def test_a_fold_column_tests_its_values_and_always_trains_on_rows_without_one() -> None:
    for column, tests in (
        (np.array(["x", "y", "z", "y"]), [[0], [1, 3], [2]]),
        (pd.Series(["test", None, "test", None]).to_numpy(), [[0, 2]]),
    ):
        folds = make_folds("column", BINARY[:4], "binary", column=column, n_folds=99)
        assert [test.tolist() for _, test in folds] == tests
        assert all(sorted([*train, *test]) == [0, 1, 2, 3] for train, test in folds)


CONFIG: list[tuple[dict[str, Any], str]] = [
    ({"kind": "grup"}, "did you mean 'group'"),
    ({"n_folds": 1}, "folds, got 1"),
    ({"task": "regression"}, "stratified"),
    ({"kind": "group"}, "groups"),
    ({"kind": "stratified_group", "groups": BINARY, "task": "multilabel"}, "multilabel"),
    ({"kind": "stratified_group", "groups": BINARY, "task": "regression"}, "regression"),
    ({"kind": "time"}, "time column"),
    ({"kind": "column"}, "fold column"),
]
DATA: list[tuple[dict[str, Any], str]] = [
    ({"n_folds": 41}, "40 rows .*41"),
    ({"n_folds": 21}, "class 0 .*20.*21"),
    ({"kind": "group", "groups": BINARY}, "2 groups .*5"),
    ({"kind": "group", "groups": GAPS}, "groups are missing in 2 of 40 rows"),
    ({"kind": "stratified_group", "groups": GAPS}, "groups are missing in 2 of 40 rows"),
    ({"kind": "time", "time": np.arange(40), "n_folds": 40}, "40"),
    ({"kind": "column", "column": np.ones(40)}, "single value"),
    ({"kind": "column", "column": np.full(40, np.nan)}, "fold column"),
]


@pytest.mark.parametrize(
    ("error", "options", "named"),
    [(ConfigError, *one) for one in CONFIG] + [(DataError, *one) for one in DATA],
)
def test_folds_that_cannot_be_made_are_refused(
    error: type[Exception], options: dict[str, Any], named: str
) -> None:
    given = {"kind": "stratified", "task": "binary", **options}
    with pytest.raises(error, match=named):
        make_folds(given.pop("kind"), BINARY, given.pop("task"), **given)


@pytest.mark.parametrize("splitter", SPLITTERS, ids=lambda each: type(each).__name__)
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
    for train, test in make_folds("stratified_group", BINARY, "binary", n_folds=4, groups=groups):
        assert len(test)
        assert not set(groups[train]) & set(groups[test])
    X = pd.DataFrame({"a": np.arange(40.0), "b": np.arange(40.0) % 7})
    with pytest.raises(DataError, match="GroupKFold cannot split the rows"):
        Problem.build(X, BINARY, GaussianNB(), folds=GroupKFold(4), groups=groups)


# ---------------------------------------------------------------- several labels


def labels(seed: int, n_rows: int, n_labels: int) -> np.ndarray[Any, Any]:
    """Labels from common to rare that often come together."""
    rng = np.random.default_rng(seed)
    score = rng.random((n_rows, 1)) + rng.random((n_rows, n_labels))
    ranks = score.argsort(axis=0).argsort(axis=0)
    return (ranks < n_rows * np.geomspace(0.6, 0.08, n_labels)).astype(int)


def by_labels(target: np.ndarray[Any, Any], **options: Any) -> list[Fold]:
    return make_folds("stratified", target, "multilabel", **options)


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
        """How far the share of each label in the folds is from that in the whole."""
        folds = make_folds(kind, target, "multilabel", n_folds=10, seed=seed)
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
    straight = [listed(by_labels(target, seed=seed, shuffle=False)) for seed in (1, 2)]
    assert straight[0] == straight[1]
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(80, 4))).add_prefix("x")
    problem = Problem.build(table, target, MLkNN(3), folds=4, seed=5)
    assert listed(problem.folds) == listed(by_labels(target, n_folds=4, seed=5))
