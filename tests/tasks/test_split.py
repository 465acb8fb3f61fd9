"""Tests of splits: the rows of each side, and the findings of a test side that is not clean."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from swarm.errors import InputError
from tasks.split import split
from tasks.table import Table


def table(target: object, **roles: object) -> Table:
    labels = pd.Series(target, name="y")
    columns = {key: pd.Series(value, name=key) for key, value in roles.items()}
    features = pd.DataFrame({"a": np.arange(len(labels))})
    return Table(name="t", source="t", features=features, target=labels, **columns)


def test_a_random_split_of_repeated_groups_warns_of_the_leak() -> None:
    grouped = table(
        np.arange(40) % 2, groups=np.repeat(["m", "n", "o", "p"], 10), time=np.arange(40) * 7 % 40
    )
    for kind in ("random", "stratified", "time"):
        (finding,) = split(grouped, kind).findings
        assert "of 4 groups" in finding.text
    assert not split(grouped, "group").findings
    single = table(np.arange(40) % 2, groups=np.arange(40))
    assert not split(single, "random").findings


def test_a_class_missing_from_a_side_is_warned_about_whatever_the_split() -> None:
    sides = ["train"] * 70 + ["test"] * 30
    rows = table(["a", "b"] * 35 + ["b"] * 29 + ["c"], time=np.arange(100), part=sides)
    for kind in ("time", "column"):
        train, test = (finding.text for finding in split(rows, kind).findings)
        assert ("'c'" in train, "'a'" in test) == (True, True)
    grouped = table(["a"] * 10 + ["b"] * 20, groups=[0] * 10 + [1, 2] * 10)
    assert "'c'" in split(table(["a"] * 100 + ["c"]), "random").findings[0].text
    assert "'a'" in split(grouped, "group").findings[0].text


@pytest.mark.parametrize(
    ("made", "kind", "size", "words"),
    [
        (table([0, 1]), "stratfied", 0.3, "did you mean 'stratified'"),
        (table([0, 1]), "random", 1.0, "share.*1.0"),
        *((table([0, 1]), kind, 0.3, kind) for kind in ("group", "time")),
        (table([0, 1]), "column", 0.3, "part"),
        (table([0, 1], groups=[1, 1]), "group", 0.3, "one group"),
        (table([0, 1], time=[1, 1]), "time", 0.3, "same time"),
        (table([0.5, 1.5, 2.5]), "stratified", 0.3, "regression"),
        (table([0, 1], part=["test", "test"]), "column", 0.3, "'column': .*training rows"),
        (table([0, 1], part=["train", "train"]), "column", 0.3, "'column': .*is empty"),
    ],
)
def test_a_split_that_cannot_be_made_is_refused(
    made: Table, kind: str, size: float, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        split(made, kind, test_size=size)
