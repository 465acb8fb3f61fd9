"""Tests of the proxy: a search on some of the rows is answered by all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, make_regression
from sklearn.linear_model import Ridge
from sklearn.model_selection import StratifiedGroupKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from swarm import SubsetSelector
from swarm.errors import EvaluationError
from swarm.problem.problem import Problem
from swarm.search.proxy import on_part_of_rows, rank_correlation
from tests.selecting import WINE

Table = tuple[pd.DataFrame, Any]


def problem(model: Any, data: Table, **options: Any) -> Problem:
    X, y = data
    return Problem.build(X.iloc[:, :6], y, model, **{"folds": 4, "seed": 1, **options})


def rows_of(sample: Problem, whole: Problem) -> np.ndarray:
    """Return the positions of the rows of a sample in the whole table, whose rows differ."""
    keys = {
        row: position
        for position, row in enumerate(whole.features.itertuples(index=False, name=None))
    }
    return np.array([keys[row] for row in sample.features.itertuples(index=False, name=None)])


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_a_part_has_its_share_of_every_class(share: float) -> None:
    whole = problem(GaussianNB(), load_breast_cancer(return_X_y=True, as_frame=True))
    sample = on_part_of_rows(whole, share)
    assert len(sample.target) == pytest.approx(share * len(whole.target), abs=1)
    for label in (0, 1):
        expected = share * (whole.target == label).sum()
        assert (sample.target == label).sum() == pytest.approx(expected, abs=1)


@pytest.mark.parametrize("share", [-0.5, 0, 1, 0.001])
def test_a_share_that_leaves_no_rows_or_all_is_refused(share: float) -> None:
    whole = problem(GaussianNB(), load_breast_cancer(return_X_y=True, as_frame=True))
    message = r"^proxy\.rows" if share == 0.001 else "^rows of the proxy"
    with pytest.raises(ValueError, match=message):
        on_part_of_rows(whole, share)


def test_costs_that_are_not_finite_have_no_rank() -> None:
    proxy_costs = np.array([0.1, 0.2, 0.3, np.inf, 0.0])
    full_costs = np.array([1.0, 2.0, 3.0, 0.0, np.nan])
    assert rank_correlation(proxy_costs, full_costs) == pytest.approx(1.0)
    assert np.isnan(rank_correlation(proxy_costs, np.full(5, 0.5)))


def test_no_row_changes_its_fold_and_the_draw_depends_on_the_seed_alone() -> None:
    data = load_diabetes(return_X_y=True, as_frame=True)
    whole = problem(DecisionTreeRegressor(), data)
    sample, repeated = (on_part_of_rows(whole, 0.3) for _ in range(2))
    assert sample.fingerprint() == repeated.fingerprint() != whole.fingerprint()
    rows = rows_of(sample, whole)
    for (_, test_rows), (_, test_sample) in zip(whole.folds, sample.folds, strict=True):
        assert set(rows[test_sample]) <= set(test_rows)
    reseeded = on_part_of_rows(problem(DecisionTreeRegressor(), data, seed=2), 0.3)
    assert set(rows_of(reseeded, whole)) != set(rows)


def test_rows_of_a_group_stay_together() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    groups = np.random.default_rng(0).integers(60, size=len(y))
    whole = problem(GaussianNB(), (X, y), folds=StratifiedGroupKFold(4), groups=groups)
    rows = rows_of(on_part_of_rows(whole, 0.4), whole)
    assert len(rows) == pytest.approx(0.4 * len(y), abs=30)
    for group in np.unique(groups):
        members = set(np.flatnonzero(groups == group))
        assert members <= set(rows) or members.isdisjoint(rows)


def test_the_answer_is_measured_on_all_rows_and_the_full_model() -> None:
    X, y = WINE
    tree = DecisionTreeClassifier(max_depth=4, random_state=0)
    proxy = {"rows": 0.5, "params": {"max_depth": 1}, "best": 5, "probes": 4}
    selector = SubsetSelector(tree, budget=3, cv=3, proxy=proxy)
    selector.fit(X, y)
    measured = selector.result_.measured
    assert 5 <= len(measured.costs) <= 9
    folds = Problem.build(X, y, GaussianNB(), folds=3, seed=0).folds
    scores = cross_val_score(tree, X[selector.subset_], y, cv=list(folds))
    assert selector.cost_ == pytest.approx(1 - scores.mean())
    assert selector.cost_ == measured.costs.min()
    assert not np.array_equal(measured.costs, measured.search_costs)


class Pressed(DecisionTreeClassifier):
    """Presses Ctrl-C in the fit of this number, counting fits of the full model on folds."""

    fits = 0
    press_at = 0

    def fit(self, X: Any, y: Any, **params: Any) -> Pressed:
        Pressed.fits += self.max_depth == 4 and len(X) < len(WINE[1])
        if Pressed.fits == Pressed.press_at:
            raise KeyboardInterrupt
        return super().fit(X, y, **params)


@pytest.mark.parametrize("press_at", [4, 8])
def test_ctrl_c_while_the_best_are_measured_leaves_the_measured_ones(press_at: int) -> None:
    X, y = WINE
    # The trial before the search takes two fits of the full model.
    Pressed.fits = 0
    Pressed.press_at = press_at + 2
    proxy = {"params": {"max_depth": 1}, "best": 5, "probes": 4}
    selector = SubsetSelector(Pressed(max_depth=4, random_state=0), budget=3, cv=3, proxy=proxy)
    with pytest.warns(UserWarning, match="the measurement on the full model was interrupted"):
        selector.fit(X, y)
    # A subset takes three fits.
    measured = selector.result_.measured
    assert (selector.interrupted_, len(measured.costs)) == (True, (press_at - 1) // 3)
    tree = DecisionTreeClassifier(max_depth=4, random_state=0)
    folds = Problem.build(X, y, GaussianNB(), folds=3, seed=0).folds
    scores = cross_val_score(tree, X[selector.subset_], y, cv=list(folds))
    assert selector.cost_ == measured.costs.min() == pytest.approx(1 - scores.mean())


def test_a_size_that_was_not_reached_is_not_blamed_on_the_model() -> None:
    X, y = make_regression(80, 30, random_state=0)
    options = {"strategy": "rfe", "size": (1, 2), "budget": 1, "cv": 3, "proxy": {"rows": 0.5}}
    with pytest.raises(EvaluationError, match=r"increase the budget$"):
        SubsetSelector(Ridge(), **options).fit(X, y)


def test_ctrl_c_before_a_subset_was_measured_is_raised() -> None:
    Pressed.fits = 0
    Pressed.press_at = 2
    proxy = {"params": {"max_depth": 1}, "best": 5, "probes": 4}
    selector = SubsetSelector(Pressed(max_depth=4, random_state=0), budget=3, cv=3, proxy=proxy)
    with pytest.raises(KeyboardInterrupt):
        selector.fit(*WINE)
