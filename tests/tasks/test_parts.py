"""Tests of the rows of the cells of a study: outer folds and samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

from swarm.errors import InputError
from tasks.parts import draw_sample, outer_folds, outer_kind
from tasks.table import Table


def table_of(**roles: object) -> Table:
    """Return 60 rows with two features and two classes."""
    rng = np.random.default_rng(0)
    features = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    return Table("t", "", features, pd.Series(np.arange(60) % 2), **roles)


def test_outer_folds_keep_groups_and_time_apart():
    model = GaussianNB()
    groups = table_of(groups=pd.Series(np.arange(60) // 4))
    assert outer_kind(groups, "random", "stratified", model) == "stratified_group"
    for fold in outer_folds(groups, "stratified_group", 3, 2, 0, model):
        assert not set(groups.groups[fold.train]) & set(groups.groups[fold.test])
    # Stratified folds of groups with different sizes are the same for every seed.
    sizes = table_of(groups=pd.Series(np.repeat([0, 1, 2], [10, 20, 30])))
    with pytest.raises(InputError, match="repeat after 1, got --repeats 2"):
        outer_folds(sizes, "stratified_group", 3, 2, 0, model)

    later = table_of(time=pd.Series(np.arange(60)[::-1]))
    for kinds in (("time", "stratified"), ("random", "time")):
        assert outer_kind(later, *kinds, model) == "time"
    for fold in outer_folds(later, "time", 3, 1, 0, model):
        assert later.time[fold.train].max() < later.time[fold.test].min()

    assert outer_kind(table_of(), "random", "random", model) == "stratified"
    numbers = replace(table_of(), target=pd.Series(np.linspace(0, 1, 60)))
    assert outer_kind(numbers, "random", "random", model) == "random"


def test_repeats_divide_the_rows_anew():
    folds = outer_folds(table_of(), "stratified", 3, 2, 0, GaussianNB())
    names = [fold.name for fold in folds]
    assert names[:4] == [*(f"fold {i} of 3, repeat 1" for i in (1, 2, 3)), "fold 1 of 3, repeat 2"]
    for first in (0, 3):
        rows = np.concatenate([fold.test for fold in folds[first : first + 3]])
        assert sorted(rows.tolist()) == list(range(60))
    assert set(folds[0].test.tolist()) != set(folds[3].test.tolist())


def test_folds_by_column_hold_one_value_out():
    table = table_of(fold=pd.Series(np.arange(60) % 4))
    parts = outer_folds(table, outer_kind(table, "random", "column", GaussianNB()), 9, 1, 0, None)
    assert [set(table.fold[part.test]) for part in parts] == [{0}, {1}, {2}, {3}]
    two = table_of(fold=pd.Series(np.arange(60) % 2))
    with pytest.raises(InputError, match="3 or more"):
        outer_folds(two, "column", 5, 1, 0, None)
    with pytest.raises(InputError, match="repeat after 1"):
        outer_folds(table, "column", 5, 2, 0, None)


def test_groups_are_drawn_whole_and_anew_whatever_their_sizes_and_classes() -> None:
    groups = pd.Series(np.repeat(np.arange(30), np.arange(3, 33)))
    table = Table("t", "", pd.DataFrame({"a": groups}), groups % 3 == 0, groups=groups)
    samples = [groups[draw_sample(table, 0.6, 0, i, GaussianNB()).train] for i in range(5)]
    for sample in samples:
        assert sample.nunique() == 18
        assert len(sample) == groups.isin(sample).sum()
    assert len({tuple(sample) for sample in samples}) == 5
