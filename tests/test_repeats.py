"""Costs over several fold partitions, and searches that change their partition."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GroupKFold, StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from swarm import SubsetSelector
from swarm.errors import DataError
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.folds import make_folds
from swarm.problem.problem import Problem
from swarm.search.confirmation import fresh_problem
from swarm.search.driver import run
from swarm.search.packing import pack_folds, unpack_masks
from swarm.search.result import SearchResult
from swarm.search.rotation import N_FINALISTS, evaluate_finalists
from swarm.strategies.catalogue import make
from swarm.testing.planted import Planted, make_search
from tests.fakes import calm, noisy

# A swarm, one without pbests, one that compares all costs of an epoch, one that draws at random.
NAMES = ["multiswarm", "genetic", "ant_colony", "random"]
REPEATS, PER_PARTITION = 3, 4
Table = tuple[pd.DataFrame, pd.Series]
EVERY = pack_folds(np.ones(REPEATS * PER_PARTITION, dtype=bool))


def searched(name: str, evaluator: Planted, *, rotate: int = 0, **limits: Any) -> SearchResult:
    search = make_search(make(name), evaluator, seed=2, **(limits or {"epochs": 10}))
    search = dataclasses.replace(search, repeats=REPEATS, rotate=rotate)
    result = run(search)
    return evaluate_finalists(result, evaluator) if rotate else result


@pytest.fixture(scope="module")
def cancer() -> Table:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return X.iloc[:200, :12], y.iloc[:200]


def test_the_first_partition_is_that_of_one_repeat_and_the_others_are_fresh(cancer: Table) -> None:
    X, y = cancer
    plain = Problem.build(X, y, GaussianNB(), folds=4, seed=7)
    assert Problem.build(X, y, GaussianNB(), folds=4, repeats=1, seed=7).fingerprint() == (
        plain.fingerprint()
    )
    thrice = Problem.build(X, y, GaussianNB(), folds=4, repeats=3, seed=7)
    assert [part.n_folds for part in thrice.partitions] == [4, 4, 4]
    prints = [part.fingerprint() for part in thrice.partitions]
    assert prints[0] == plain.fingerprint()
    assert len(set(prints)) == 3

    def drawn(seed: int) -> Any:
        return make_folds("stratified", y.to_numpy(), "binary", n_folds=4, seed=seed)

    # A confirmation uses none of them, and the same ones whatever the search did.
    fresh = [fresh_problem(problem, drawn, 7, 2) for problem in (plain, thrice)]
    assert fresh[0] is not None
    assert fresh[1] is not None
    assert fresh[0].fingerprint() == fresh[1].fingerprint()


def test_the_cost_of_the_result_is_its_mean_over_the_folds_of_all_partitions(cancer: Table) -> None:
    X, y = cancer
    problem = Problem.build(X, y, GaussianNB(), folds=4, repeats=3)
    for rotate in (0, 2):
        selector = SubsetSelector(GaussianNB(), cv=4, repeats=3, rotate=rotate, epochs=6)
        selector.fit(X, y)
        scores = cross_val_score(GaussianNB(), X[selector.subset_], y, cv=problem.folds)
        assert selector.cost_ == pytest.approx(1 - scores.mean(), abs=1e-12)
        assert selector.cost_ == selector.results_["cost"].min()


@pytest.mark.parametrize("name", NAMES)
def test_further_partitions_are_for_those_that_lead(name: str) -> None:
    evaluator = noisy()
    result = searched(name, evaluator)
    assert result.cost == evaluator.cost(result.best_mask)
    asked = result.state.asked
    masks = unpack_masks(asked, evaluator.space.n_units)
    count = np.array([folds.bit_count() for folds in asked.values()])
    costs = np.array([evaluator.cost(mask) for mask in masks])
    leading = np.argsort(costs)
    assert count[leading[:5]].mean() > 1.5 * count[leading[len(leading) // 2 :]].mean()
    # Most masks are clearly worse than the best one on the first partition.
    assert count.sum() < 0.6 * len(count) * REPEATS * PER_PARTITION
    lowest = result.state.best_cost
    members = result.state.strategy.members
    for mask, cost in zip(members.masks, members.costs, strict=True):
        assert cost == evaluator.cost(mask) or cost > lowest


@calm
@given(st.integers(0, 2**32 - 1))
def test_no_estimated_cost_is_below_the_best_measured_one(seed: int) -> None:
    evaluator = noisy(seed=seed % 17)
    result = searched("multiswarm", evaluator, epochs=1 + seed % 5)
    assert result.cost == evaluator.cost(result.best_mask)
    assert result.state.strategy.members.costs.min() == pytest.approx(result.cost, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"repeats": 3}, {"repeats": 3, "rotate": 2}])
def test_two_workers_find_the_same_as_one(options: dict[str, int], cancer: Table) -> None:
    found = []
    for n_jobs in (1, 2):
        tree = DecisionTreeClassifier(max_depth=3, random_state=0)
        selector = SubsetSelector(tree, cv=3, epochs=4, n_jobs=n_jobs, **options).fit(*cancer)
        found.append((selector.subset_, selector.cost_, selector.history_.to_csv()))
    assert found[0] == found[1]


def test_a_fast_path_computes_the_partitions_that_are_asked_for(cancer: Table) -> None:
    X, y = cancer
    problem = Problem.build(X, y, GaussianNB(), folds=3, repeats=3)
    masks = np.random.default_rng(0).random((12, 12)) < 0.5
    few, no_limit = np.array([4, 3, 5]), np.full(12, np.inf)
    quick, slow = (CrossValidation(problem, exact=exact) for exact in (True, False))
    one, other = (each.evaluate(masks, no_limit, few) for each in (quick, slow))
    assert (one.costs == other.costs).all()
    assert one.work.fits == other.work.fits == 36
    rest = quick.evaluate(masks, no_limit, np.arange(9))
    assert (rest.fold_costs[:, 3:6] == one.fold_costs[:, 3:6]).all()
    assert rest.work.fits == 72


def test_strategies_that_end_by_themselves_evaluate_every_subset_on_all_partitions() -> None:
    evaluator = dataclasses.replace(noisy(), pruning=False)
    result = searched("sfs", evaluator, epochs=200)
    assert set(result.state.asked.values()) == {EVERY}


def test_the_best_of_every_partition_are_evaluated_on_all_and_make_the_ensemble() -> None:
    evaluator = noisy()
    search = make_search(make("multiswarm"), evaluator, seed=2, epochs=9)
    before = run(dataclasses.replace(search, repeats=REPEATS, rotate=3))
    assert len(before.state.leaders) == 2
    result = evaluate_finalists(before, evaluator)
    finalists = result.finalists
    assert finalists is not None
    best = [stretch[0].tolist() for stretch in before.state.leaders] + [before.best_mask.tolist()]
    assert all(mask in finalists.masks.tolist() for mask in best)
    assert [evaluator.cost(mask) for mask in finalists.masks] == finalists.costs.tolist()
    assert (np.diff(finalists.costs) >= 0).all()
    assert result.cost == finalists.costs[0]
    masks, costs = result.best_members(8)
    assert masks.tolist() == finalists.masks[:8].tolist()
    assert costs.tolist() == finalists.costs[:8].tolist()
    fits = result.state.counts.fits - before.state.counts.fits
    assert 0 < fits <= N_FINALISTS * (REPEATS - 1) * PER_PARTITION


def test_on_a_new_partition_the_members_are_evaluated_first() -> None:
    evaluator = noisy()
    search = make_search(make("multiswarm"), evaluator, seed=2, epochs=3)
    search = dataclasses.replace(search, repeats=REPEATS, rotate=3)
    third = run(search).state
    fourth, record = search.step(third)
    members = third.strategy.members.masks
    assert record.columns["mask"].tolist() == members.tolist()
    folds = np.zeros(evaluator.n_folds, dtype=bool)
    folds[PER_PARTITION : 2 * PER_PARTITION] = True
    second = [fourth.asked[np.packbits(mask).tobytes()] & pack_folds(folds) for mask in members]
    assert set(second) == {pack_folds(folds)}
    assert fourth.counts.fits - third.counts.fits == PER_PARTITION * len(np.unique(members, axis=0))


def test_partitions_that_cannot_differ_are_refused(cancer: Table) -> None:
    X, y = cancer
    # As many groups as folds: every partition has the same folds.
    splitter = GroupKFold(3, shuffle=True, random_state=0)
    selector = SubsetSelector(GaussianNB(), cv=splitter, repeats=2)
    with pytest.raises(DataError, match="2 repeats need 2 different partitions into 3 folds"):
        selector.fit(X, y, groups=np.arange(200) % 3)
    drawn = StratifiedKFold(3, shuffle=True, random_state=5)
    assert SubsetSelector(GaussianNB(), cv=drawn, repeats=2, epochs=1).fit(X, y).subset_
