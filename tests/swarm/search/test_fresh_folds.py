"""Tests of the confirmation: the best subsets are evaluated again on folds never used before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB

from swarm import SubsetSelector
from swarm.errors import ConfigError
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.problem import Problem
from swarm.rows import Division, Rows, derived_seed, divide
from swarm.search.candidates import Candidates
from swarm.search.confirmation import Confirmation
from swarm.search.fresh_folds import fresh_problem

FEW = {"best": 6, "repeats": 2, "rankings": False, "goal": "score"}


def confirmation(
    fold_costs: Any,
    sizes: Any,
    baseline: Any,
    *,
    goal: Any = "score",
    margin: float = 0.25,
    origin: Any = "search",
    **options: Any,
) -> Confirmation:
    """Return a confirmation of subsets of 10 units that have these sizes."""
    masks = np.array([np.arange(10) < size for size in sizes])
    costs = np.array(fold_costs, dtype=np.float64)
    table = Candidates.build(masks, costs.mean(axis=1) - 0.02, fresh_fold_costs=costs)
    return Confirmation(
        replace(table, origin=np.broadcast_to(origin, len(masks))),
        np.array(baseline, dtype=np.float64),
        80,
        20,
        goal,
        margin,
        n_fits=0,
        **options,
    )


def around(cost: float, spread: float = 0.001, n: int = 10) -> list[float]:
    return (cost + spread * np.where(np.arange(n) % 2, 1, -1)).tolist()


@pytest.fixture(scope="module")
def cancer() -> tuple[pd.DataFrame, pd.Series]:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return X.iloc[:200, :14], y.iloc[:200]


@pytest.fixture(scope="module")
def confirmed(cancer: tuple[pd.DataFrame, pd.Series]) -> SubsetSelector:
    return SubsetSelector(GaussianNB(), budget=4, cv=4, confirm=FEW).fit(*cancer)


def test_the_result_has_the_lowest_cost_on_folds_drawn_from_the_seed_and_the_repeat(
    confirmed: SubsetSelector, cancer: tuple[pd.DataFrame, pd.Series]
) -> None:
    X, y = cancer
    fresh = confirmed.confirmation_
    assert fresh is not None
    space = confirmed.result_.space
    rows = Rows(None, y.to_numpy(), task="binary")
    folds = [
        fold
        for seed in (derived_seed(0, 1), derived_seed(0, 2))
        for fold in divide(rows, "stratified", 4, seed=seed)
    ]
    for mask, costs in zip(fresh.candidates.masks, fresh.candidates.fresh_fold_costs, strict=True):
        scores = cross_val_score(GaussianNB(), X[space.subset(mask)], y, cv=folds)
        assert costs == pytest.approx(1 - scores)
    assert fresh.baseline == pytest.approx(1 - cross_val_score(GaussianNB(), X, y, cv=folds))
    assert (np.diff(fresh.candidates.fresh_costs) >= 0).all()
    assert sorted(confirmed.subset_) == sorted(space.subset(fresh.candidates.masks[0]))
    # The cost in the search is kept beside the confirmed one.
    searched = StratifiedKFold(4, shuffle=True, random_state=0)
    scores = cross_val_score(GaussianNB(), X[confirmed.subset_], y, cv=searched)
    assert confirmed.cost_ == fresh.searched_cost == pytest.approx(1 - scores.mean())
    assert fresh.cost == fresh.candidates.fresh_costs[0] != fresh.searched_cost


def test_candidates_are_the_best_subsets_and_the_features_that_half_of_them_share(
    confirmed: SubsetSelector,
) -> None:
    fresh = confirmed.confirmation_
    # Subsets that only the confirmation measured follow those of the search.
    searched = confirmed.results_.iloc[: len(confirmed.result_.state.requests)]
    table = searched.sort_values(["cost", "size"], kind="stable").iloc[:6]
    best = {frozenset(features) for features in table["features"]}
    space = confirmed.result_.space
    counts = pd.Series([name for subset in best for name in subset]).value_counts()
    shared = frozenset(counts.index[counts >= 3])
    assert {frozenset(space.subset(mask)) for mask in fresh.candidates.masks} == best | {shared}


def test_the_goal_decides_between_the_lowest_cost_and_the_smallest_that_is_good_enough() -> None:
    # The standard errors are 0.012.
    costs = [around(0.10), around(0.101, 0.02), around(0.119, 0.02), around(0.30)]
    sizes = [9, 5, 3, 1]
    baseline = around(0.12)
    for goal, row in (("score", 0), ("balanced", 1), ("size", 2)):
        assert confirmation(costs, sizes, baseline, goal=goal).chosen == row
    # The margin is a number of standard errors: the more costs vary, the larger a loss passes.
    for spread, margin, row in ((0.02, 0.25, 0), (0.02, 1.0, 1), (0.08, 0.25, 1)):
        costs = [around(0.10), around(0.105, spread)]
        with_margin = confirmation(costs, [9, 5], around(0.10), goal="balanced", margin=margin)
        assert with_margin.chosen == row


def test_what_is_preferred_is_the_result_unless_another_is_better_by_some_standard_errors() -> None:
    # The search has seen the rows of the fresh folds. The standard errors are 0.012.
    for goal, loss, chosen in (
        ("balanced", 0.01, "trees"),
        ("score", 0.01, "trees"),
        ("balanced", 0.02, "search"),
        ("size", 0.01, "search"),
    ):
        costs = [around(0.10), around(0.10 + loss, 0.02)]
        origin = ["search", "trees"]
        fresh = confirmation(
            costs, [3, 6], around(0.2), goal=goal, origin=origin, preferred=("trees",), doubt=1.0
        )
        assert fresh.origin == chosen
        # Fresh folds alone decide if nothing is preferred.
        assert replace(fresh, preferred=()).origin == "search"
    # The goal picks among those that are preferred, and among the others.
    costs = [around(0.10), around(0.101, 0.02), around(0.105, 0.04), around(0.13, 0.02)]
    origin = ["search", "search", "trees", "information"]
    options: dict[str, Any] = {
        "goal": "balanced",
        "preferred": ("trees", "information"),
        "doubt": 1.0,
    }
    fresh = confirmation(costs, [9, 5, 7, 2], around(0.2), origin=origin, **options)
    assert fresh.chosen == 2
    preferred = confirmation(costs[2:], [7, 2], around(0.2), origin=origin[2:], **options)
    assert preferred.chosen == 0


def test_members_are_the_result_and_the_others_by_their_costs() -> None:
    costs = [around(0.10), around(0.11), around(0.101, 0.02)]
    fresh = confirmation(costs, [4, 4, 2], around(0.2), goal="balanced")
    assert fresh.in_order.tolist() == [2, 0, 1]


def test_the_lowest_cost_is_the_result_if_no_subset_is_good_enough_and_that_is_said() -> None:
    missed = confirmation([around(0.3)], [4], around(0.1), goal="size")
    assert (missed.chosen, missed.missed, missed.as_dict()["missed"]) == (0, True, True)
    high = around(0.3)
    low = around(0.1)
    for goal, costs in (("size", low), ("balanced", high), ("score", high)):
        reached = confirmation([costs], [4], low, goal=goal)
        assert not reached.missed
    # All features cannot be fitted, so that there is no cost to compare with.
    assert not confirmation([around(0.3)], [4], [np.inf] * 10, goal="size").missed


@pytest.mark.parametrize(
    ("baseline", "verdict", "words"),
    [
        (around(0.15), "better", "a gain, +0.0500"),
        (around(0.10, spread=0.05), "no clear difference", "no clear gain, +0.0000"),
        (around(0.05), "worse", "a loss, -0.0500"),
        ([np.inf] * 10, None, "all features cannot be fitted"),
    ],
)
def test_the_verdict_follows_the_interval_of_the_gain_over_all_features(
    baseline: list[float], verdict: str | None, words: str
) -> None:
    fresh = confirmation([around(0.10, spread=0.0)], [4], baseline)
    assert fresh.verdict == verdict
    assert words in fresh.sentence()
    assert "winner's curse +0.0200" in fresh.sentence()


def test_partitions_of_the_search_and_those_that_cannot_be_trained_on_are_left_out(
    cancer: tuple[pd.DataFrame, pd.Series],
) -> None:
    X, y = cancer
    problem = Problem.build(X, y, GaussianNB(), folds=3)
    rows = Rows(None, y.to_numpy(), task="binary")

    def fresh_of(draw: Any, repeats: int) -> Problem | None:
        return fresh_problem(replace(problem, division=Division(rows, (), 0, draw)), repeats)

    assert fresh_of(None, 5) is None
    assert fresh_of(lambda seed: problem.folds, 5) is None
    one_class = [(np.flatnonzero(y == 0), np.flatnonzero(y == 1))]
    partitions = [one_class, list(problem.folds), *(_other_partition(y, seed) for seed in (1, 2))]
    fresh = fresh_of(lambda seed: partitions.pop(0), 4)
    assert fresh is not None
    assert fresh.n_folds == 6


def _other_partition(y: pd.Series, seed: int) -> list[Any]:
    return list(StratifiedKFold(3, shuffle=True, random_state=seed).split(y, y))


def test_an_interrupted_search_is_not_confirmed(
    cancer: tuple[pd.DataFrame, pd.Series],
) -> None:
    def interrupt(record: Any, state: Any) -> None:
        if record.epoch == 2:
            raise KeyboardInterrupt

    selector = SubsetSelector(GaussianNB(), budget=4, cv=4, confirm=FEW, callbacks=[interrupt])
    with pytest.warns(UserWarning, match="interrupted"):
        selector.fit(*cancer)
    assert selector.confirmation_ is None
    assert selector.subset_


def test_ctrl_c_while_confirming_keeps_the_result_of_the_search(
    cancer: tuple[pd.DataFrame, pd.Series], monkeypatch: pytest.MonkeyPatch
) -> None:
    unconfirmed = SubsetSelector(GaussianNB(), budget=3, cv=4, confirm=False).fit(*cancer)
    evaluate = CrossValidation.evaluate

    def stopped(self: CrossValidation, *arguments: Any) -> Any:
        if self.n_folds == 8:
            raise KeyboardInterrupt
        return evaluate(self, *arguments)

    monkeypatch.setattr(CrossValidation, "evaluate", stopped)
    selector = SubsetSelector(GaussianNB(), budget=3, cv=4, confirm=FEW)
    with pytest.warns(UserWarning, match="the confirmation was interrupted"):
        selector.fit(*cancer)
    assert selector.subset_ == unconfirmed.subset_
    assert (selector.interrupted_, selector.result_.reason) == (True, "epochs")


def test_features_that_only_the_confirmation_measured_are_among_the_results() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.sample(150, random_state=5)
    y = y.loc[X.index]
    selector = SubsetSelector(
        RidgeClassifier(),
        budget={"distinct": 40},
        random_state=5,
        confirm={"goal": "score", "repeats": 2},
    ).fit(X, y)
    # At least half of the best subsets share these features, which no strategy has proposed.
    assert tuple(selector.subset_) in set(selector.results_["features"])
    assert selector.importances_.notna().all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cv": GroupKFold(3)}, "folds have to be drawn again"),
        ({"cv": KFold(3)}, "folds have to be drawn again"),
        ({"confirm": {"bets": 3}}, "unknown confirm option 'bets'"),
        ({"confirm": {"goal": "scores"}}, "unknown goal 'scores'"),
        ({"pick": "parsimonious"}, "both select a subset"),
    ],
)
def test_what_cannot_be_confirmed_is_refused(
    options: dict[str, Any], words: str, cancer: tuple[pd.DataFrame, pd.Series]
) -> None:
    X, y = cancer
    selector = SubsetSelector(GaussianNB(), **{"confirm": True, "cv": 3, **options})
    with pytest.raises(ConfigError, match=words):
        selector.fit(X, y, **({"groups": np.arange(200) % 9} if "cv" in options else {}))


def test_costs_that_differ_in_their_last_digits_are_equal() -> None:
    missed = []
    for cost in np.arange(1, 90) / 100:
        # The smaller subset costs as much as the larger one and as all features.
        costs = [cost + 1e-16 * i for i in range(5)]
        smaller = confirmation([[cost] * 5, costs], [4, 2], [cost] * 5, goal="size", margin=0)
        missed.append(smaller.chosen != 1)
        # Equal gains on every fold have no error, and gains of 0 are no gain.
        even = confirmation([[0.1 + cost] * 4], [2], [0.1 + cost - 1e-16 * i for i in range(4)])
        assert even.verdict == "no clear difference"
        gains = confirmation([[cost] * 4], [2], cost + 0.01 + 1e-16 * np.arange(4)).gain
        assert gains is not None
        assert gains.error == 0.0
    assert not any(missed)
