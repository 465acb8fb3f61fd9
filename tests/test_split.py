"""Splits: who may be on which side, and what is said when the test side is not clean."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB

from swarm.errors import DataError
from swarm.problem.target import task_of
from tasks.split import split
from tasks.table import Table


def table(target: object, **roles: object) -> Table:
    answer = pd.Series(target, name="y")
    columns = {key: pd.Series(value, name=key) for key, value in roles.items()}
    features = pd.DataFrame({"a": np.arange(len(answer))})
    return Table(name="t", source="t", features=features, target=answer, **columns)


def test_grades_are_numbers_to_a_regressor_and_classes_to_others() -> None:
    grades = pd.Series(np.arange(60) % 5)
    tasks = [task_of(grades, model) for model in (Ridge(), GaussianNB(), None)]
    assert tasks == ["regression", "multiclass", "multiclass"]
    # Two of them can be ranked.
    assert task_of(grades % 2, Ridge()) == "binary"


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_split_partitions_the_rows_and_repeats_with_its_seed(data: st.DataObject) -> None:
    n = data.draw(st.integers(20, 60))
    seed = data.draw(st.integers(0, 5))
    size = data.draw(st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.7, 0.85]))
    kind = data.draw(st.sampled_from(["random", "stratified", "group", "time"]))
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 6, size=n) if n % 2 else np.arange(n) % 3
    made = table(np.arange(n) % 2, groups=group, time=rng.integers(0, 9, size=n))
    one, two = (split(made, kind, test_size=size, seed=seed) for _ in range(2))
    assert np.array_equal(np.sort(np.r_[one.train, one.test]), np.arange(n))
    assert len(one.train)
    assert len(one.test)
    assert np.array_equal(one.test, two.test)
    assert np.array_equal(one.test, np.unique(one.test))
    if kind == "group":
        assert not np.intersect1d(group[one.train], group[one.test]).size
    if kind == "time":
        assert made.time is not None
        assert made.time[one.train].max() < made.time[one.test].min()


def test_rows_of_one_time_stay_together_at_the_cut_nearest_to_the_size() -> None:
    rows = split(table(range(10), time=[5, 1, 1, 2, 3, 3, 3, 3, 4, 0]), "time", test_size=0.3)
    assert rows.test.tolist() == [0, 8]


def test_each_kind_takes_the_rows_that_it_promises() -> None:
    rows = split(table(["a"] * 80 + ["b"] * 20), "stratified", test_size=0.25)
    assert (len(rows.test), int((rows.test >= 80).sum())) == (25, 5)
    rows = split(table([0, 1, 0], part=["test", "train", "test"]), "column")
    assert (rows.train.tolist(), rows.test.tolist()) == ([1], [0, 2])
    # Groups of a regression target by a share of the groups.
    made = table(np.linspace(0, 1, 100), groups=np.repeat(np.arange(10), 10))
    assert len(split(made, "group", test_size=0.3).test) == 30
    made = table(np.arange(50) % 2, groups=np.arange(50) // 2)
    for kind in ("random", "stratified", "group"):
        tests = {tuple(split(made, kind, seed=seed).test) for seed in range(4)}
        assert len(tests) > 1, kind


def test_a_random_split_of_repeated_groups_warns_of_the_leak() -> None:
    made = table(np.arange(40) % 2, groups=np.repeat(["m", "n", "o", "p"], 10))
    for kind in ("random", "stratified"):
        (finding,) = split(made, kind).findings
        assert "4 of 4 groups" in finding.text
    assert not split(made, "group").findings
    single = table(np.arange(40) % 2, groups=np.arange(40))
    assert not split(single, "random").findings


def test_a_class_missing_from_a_side_is_warned_about_whatever_the_split() -> None:
    part = ["train"] * 70 + ["test"] * 30
    made = table(["a", "b"] * 35 + ["b"] * 29 + ["c"], time=np.arange(100), part=part)
    for kind in ("time", "column"):
        train, test = (each.text for each in split(made, kind).findings)
        assert ("'c'" in train, "'a'" in test) == (True, True)
    grouped = table(["a"] * 10 + ["b"] * 20, groups=[0] * 10 + [1, 2] * 10)
    assert "'c'" in split(table(["a"] * 100 + ["c"]), "random").findings[0].text
    assert "'a'" in split(grouped, "group").findings[0].text


@pytest.mark.parametrize(
    ("made", "kind", "size", "words"),
    [
        (table([0, 1]), "stratfied", 0.3, "did you mean 'stratified'"),
        (table([0, 1]), "random", 1.0, "test_size.*1.0"),
        *((table([0, 1]), kind, 0.3, kind) for kind in ("group", "time")),
        (table([0, 1]), "column", 0.3, "part"),
        (table([0, 1], groups=[1, 1]), "group", 0.3, "two groups"),
        (table([0, 1], time=[1, 1]), "time", 0.3, "two times"),
        (table([0, 1, 1, 1]), "stratified", 0.3, "class 0"),
        (table([0.5, 1.5, 2.5]), "stratified", 0.3, "regression"),
        (table([0, 0, 1, 1, 2, 2]), "stratified", 0.2, "2 rows.*3 classes"),
        (table([0, 1, 0]), "random", 0.1, "3 rows.*test"),
        (table([0, 1], part=["test", "test"]), "column", 0.3, "train"),
    ],
)
def test_a_split_that_cannot_be_made_is_refused(
    made: Table, kind: str, size: float, words: str
) -> None:
    with pytest.raises(DataError, match=words):
        split(made, kind, test_size=size)


@pytest.mark.parametrize(
    ("target", "task"),
    [
        ([0, 1, 1], "binary"),
        (["a", "b", "c"], "multiclass"),
        ([1.0, 2.0, 3.0], "multiclass"),
        ([0.5, 2.0], "regression"),
        (list(range(21)), "regression"),
        (list(range(20)), "multiclass"),
        ([str(i) for i in range(40)], "multiclass"),
    ],
)
def test_the_task_follows_from_the_values(target: list[object], task: str) -> None:
    assert task_of(pd.Series(target)) == task
    assert task_of(np.array(target)) == task


def test_labels_are_multilabel_and_gaps_dates_and_mixtures_are_refused() -> None:
    assert task_of(pd.DataFrame({"p": [0, 1], "q": [1, 1]})) == "multilabel"
    for bad in ([1.0, np.nan], pd.to_datetime(["2020-01-01", "2021-01-01"]), [1, "a"]):
        with pytest.raises(DataError):
            task_of(pd.Series(bad))
