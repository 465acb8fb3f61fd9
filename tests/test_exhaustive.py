"""Claims on the exhaustive search: every subset once, in order, counted before it starts."""

from __future__ import annotations

import itertools
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier

from swarm import SubsetSelector
from swarm.errors import SpaceError
from swarm.problem.space import SearchSpace
from swarm.search.driver import run
from swarm.strategies.catalogue import make
from swarm.strategies.exhaustive import batch_of_subsets
from swarm.testing.planted import all_masks, make_search, plain_space, planted, spaces
from tests.fakes import calm
from tests.selecting import IRIS

KNN = KNeighborsClassifier(n_neighbors=3)


@calm
@given(space=spaces(), batch=st.integers(1, 40))
def test_every_allowed_subset_is_proposed_once_whatever_the_batches(
    space: SearchSpace, batch: int
) -> None:
    strategy = make("exhaustive", {"batch_size": batch})
    result = run(make_search(strategy, planted(space), epochs=10_000))
    masks = [mask for record in result.records for mask in record.particles["mask"]]
    assert len(set(masks)) == len(masks) == strategy.count(space)
    assert strategy.evaluations_in(space) == (len(masks), len(masks))
    every = list(all_masks(space))
    assert len(masks) == int(space.obeys(np.array(every)).sum())
    assert max(len(record.particles) for record in result.records) <= batch
    assert result.reason == "finished"


def test_they_come_by_size_and_then_in_the_order_of_the_units() -> None:
    space = plain_space(7, fixed=["x2"], forbidden=["x4"], min_size=2, max_size=5)
    free = [0, 1, 3, 5, 6]
    expected = [
        tuple(sorted([2, *units]))
        for size in range(1, 5)
        for units in itertools.combinations(free, size)
    ]
    found = [
        tuple(np.flatnonzero(mask).tolist())
        for start in range(0, len(expected), 4)
        for mask in batch_of_subsets(space, start, 4)
    ]
    assert found == expected
    assert len(batch_of_subsets(space, len(expected), 4)) == 0


def test_it_finds_what_mlxtend_finds() -> None:
    mlxtend = pytest.importorskip("mlxtend.feature_selection")
    theirs = mlxtend.ExhaustiveFeatureSelector(
        KNN, min_features=1, max_features=4, scoring="accuracy", cv=4, print_progress=False
    ).fit(*IRIS)
    ours = SubsetSelector(KNN, strategy="exhaustive", cv=StratifiedKFold(4), pruning=False).fit(
        *IRIS
    )
    assert 1 - ours.cost_ == pytest.approx(theirs.best_score_)
    table = {
        tuple(int(name[1:]) for name in row.features): 1 - row.cost
        for row in ours.results_.itertuples()
    }
    known = {tuple(v["feature_idx"]): v["avg_score"] for v in theirs.subsets_.values()}
    assert table == pytest.approx(known)


def test_it_says_how_many_there_are_before_it_starts(capsys: pytest.CaptureFixture[str]) -> None:
    options: dict[str, Any] = {"strategy": "exhaustive", "strategy_params": {"batch_size": 4}}
    SubsetSelector(KNN, verbose=1, **options).fit(*IRIS)
    assert "exhaustive: 15 evaluations, 4 epochs" in capsys.readouterr().err
    SubsetSelector(KNN, **options).fit(*IRIS)
    assert capsys.readouterr().err == ""


def test_above_its_limit_it_refuses_and_says_what_helps() -> None:
    strategy = make("exhaustive")
    wide = plain_space(60)
    words = r"has 1,152,921,504,606,846,975 subsets .* above its limit of 100,000; lower max_size"
    with pytest.raises(SpaceError, match=words):
        strategy.start(wide, None, np.random.default_rng(0))
    few = plain_space(60, max_size=2)
    assert strategy.count(few) == 60 + comb(60, 2)
    strategy.start(few, None, np.random.default_rng(0))
    X = np.random.default_rng(0).normal(size=(30, 20))
    with pytest.raises(SpaceError, match="1,048,575 subsets"):
        SubsetSelector(KNN, strategy="exhaustive").fit(X, np.arange(30) % 2)
