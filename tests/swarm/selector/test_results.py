"""Tests of the results of a fitted selector, and of sequential searches.

The examples of sequential searches that mlxtend documents are in test_from_mlxtend.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from scipy.stats import t
from sklearn.base import clone
from sklearn.datasets import make_regression
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from swarm import SubsetSelector
from swarm.errors import ConfigError
from swarm.evaluation.crossval import CrossValidation
from tests.selecting import BRIEF, FEW, IRIS, WINE

FOLDS = StratifiedKFold(4)
TREES = LGBMClassifier(n_estimators=8, num_leaves=4, verbosity=-1, n_jobs=1, random_state=0)


@pytest.fixture(scope="module")
def fitted() -> SubsetSelector:
    return SubsetSelector(TREES, cv=FOLDS, budget=4, strategy_params=FEW).fit(*WINE)


def test_each_subset_has_one_row_which_is_its_cross_validation(fitted: SubsetSelector) -> None:
    X, y = WINE
    table = fitted.results_
    assert table["features"].is_unique
    assert len(table) <= fitted.result_.state.counts.distinct
    answer = table[table["features"] == tuple(fitted.subset_)]
    assert answer["cost"].tolist() == [fitted.cost_] == [table["cost"].min()]
    rows = table.dropna(subset="cost")
    assert len(rows) > 4
    for _, row in rows.iloc[::4].iterrows():
        assert row["size"] == len(row["features"])
        features = [name for name in fitted.result_.space.columns if name in row["features"]]
        costs = 1 - cross_val_score(TREES, X[features], y, cv=FOLDS)
        fold_costs = row[[f"fold_{fold}" for fold in range(4)]].to_numpy(dtype=float)
        assert fold_costs == pytest.approx(costs)
        assert row["cost"] == pytest.approx(costs.mean())
        assert row["sd"] == pytest.approx(costs.std(ddof=1))
        assert row["se"] == pytest.approx(costs.std(ddof=1) / 2)
        assert row["ci_high"] - row["cost"] == pytest.approx(row["se"] * t.ppf(0.975, 3))
        assert row["cost"] - row["ci_low"] == pytest.approx(row["se"] * t.ppf(0.975, 3))


def test_repick_changes_the_answer_and_trains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    selector = SubsetSelector(GaussianNB(), strategy="sfs", cv=FOLDS).fit(*WINE)
    with_pick = clone(selector).set_params(pick="parsimonious").fit(*WINE)
    with_size = clone(selector).set_params(size="parsimonious").fit(*WINE)
    params = {name: repr(value) for name, value in selector.get_params().items()}
    monkeypatch.setattr(CrossValidation, "evaluate", lambda *_: pytest.fail("evaluated"))
    best = selector.subset_
    limit = selector.cost_ + selector.pareto_["se"].iloc[-1]
    selector.repick("parsimonious")
    assert selector.subset_ == with_pick.subset_ == with_size.subset_
    assert selector.cost_ == with_pick.cost_ == with_size.cost_
    assert selector.picked_ == with_pick.picked_ == "parsimonious"
    within = selector.results_[selector.results_["cost"] <= limit]
    assert len(selector.subset_) == within["size"].min() < len(best)
    assert selector.get_feature_names_out().tolist() == selector.subset_
    assert selector.importances_.index.isin(selector.subset_).all()
    assert selector.repick("best").subset_ == best
    assert {name: repr(value) for name, value in selector.get_params().items()} == params
    with pytest.raises(ConfigError, match="unknown pick 'cheapest'"):
        selector.repick("cheapest")


def test_picks_stay_within_the_sizes_that_were_asked_for() -> None:
    options = {"strategy": "sbfs", "cv": FOLDS, "fixed": ["ash"]}
    selector = SubsetSelector(GaussianNB(), size=(3, 6), **options).fit(*WINE)
    assert selector.pareto_["size"].between(3, 6).all()
    for rule in ("best", "parsimonious"):
        assert 3 <= len(selector.repick(rule).subset_) <= 6
        assert "ash" in selector.subset_
    exact = SubsetSelector(GaussianNB(), size=4, **options).fit(*WINE)
    assert len(exact.repick("parsimonious").subset_) == len(exact.subset_) == 4


def test_a_path_is_walked_to_its_end_and_other_limits_replace_the_default() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 33))
    y = rng.integers(0, 2, 60)
    path = SubsetSelector(GaussianNB(), strategy="sfs", cv=2).fit(X, y)
    assert len(path.history_) == 33
    counted = SubsetSelector(
        GaussianNB(), strategy="random", cv=2, budget={"distinct": 400}, confirm=False
    ).fit(X, y)
    assert len(counted.results_) == 400


KNN = KNeighborsClassifier(n_neighbors=4)


def search(**options: Any) -> SubsetSelector:
    return SubsetSelector(KNN, **{"strategy": "sfs", **options})


class TestOneFold:
    def test_there_is_no_standard_error_and_none_says_that_there_is_no_cross_validation(
        self,
    ) -> None:
        table = search(size=3, cv=0).fit(*IRIS).results_
        assert [name for name in table if name.startswith("fold_")] == ["fold_0"]
        assert table[["sd", "se", "ci_low", "ci_high"]].isna().all(axis=None)
        with pytest.warns(UserWarning, match=r"cv=None trains and scores on all rows.*cv=5"):
            selector = search(size=3, cv=None).fit(*IRIS)
        pd.testing.assert_frame_equal(selector.results_, table, check_exact=True)
        for cv in (False, np.int64(0)):
            results = search(size=3, cv=cv).fit(*IRIS).results_
            pd.testing.assert_frame_equal(results, table, check_exact=True)

    def test_parsimonious_says_that_it_is_the_best(self) -> None:
        best = search(cv=0).fit(*IRIS)
        for options in ({"size": "parsimonious"}, {"pick": "parsimonious"}):
            with pytest.warns(UserWarning, match="single fold"):
                assert search(cv=0, **options).fit(*IRIS).subset_ == best.subset_
        with pytest.warns(UserWarning, match="single fold"):
            best.repick("parsimonious")


def test_features_may_be_named_by_patterns_and_types() -> None:
    groups = {"phenols": "*phenol*", "first": ["alcohol", "ash"]}
    options: dict[str, Any] = {**BRIEF, "groups": groups, "fixed": ["phen*"], "forbidden": ["mal*"]}
    selector = SubsetSelector(GaussianNB(), **options).fit(*WINE)
    assert {"total_phenols", "nonflavanoid_phenols"} < set(selector.subset_)
    assert "malic_acid" not in selector.subset_
    text = WINE[0].assign(alcohol=WINE[0]["alcohol"].round().astype(str).astype("category"))
    model = LGBMClassifier(n_estimators=3, verbosity=-1)
    typed = SubsetSelector(model, **{**BRIEF, "fixed": ["dtype:category"]}).fit(text, WINE[1])
    assert "alcohol" in typed.subset_


def test_features_may_be_named_by_positions() -> None:
    table = pd.DataFrame(IRIS[0], columns=list("abcd"))
    selector = search(size=3, fixed=[np.int64(1)], forbidden=[3]).fit(table, IRIS[1])
    assert "b" in selector.subset_
    assert "d" not in selector.subset_
    for groups, name in (([[0, 2], [1], [3]], "x0+x2"), ({"both": [0, 2]}, "both")):
        grouped = search(size=2, groups=groups).fit(*IRIS)
        assert grouped.result_.space.names == (name, "x1", "x3")


class TestMetricTable:
    def test_it_has_the_best_of_each_size_with_any_interval(self) -> None:
        confidence = 0.5
        selector = SubsetSelector(KNN, strategy="sbs", size=2, cv=StratifiedKFold(4)).fit(*IRIS)
        table = selector.metric_table(confidence)
        results = selector.results_
        assert table.index.tolist() == [2, 3, 4]
        for size, row in table.iterrows():
            best = results[results["size"] == size].sort_values("cost").iloc[0]
            assert (row["cost"], row["se"]) == (best["cost"], best["se"])
            half_width = row["se"] * t.ppf(0.5 + confidence / 2, 3)
            assert row["ci_high"] - row["cost"] == pytest.approx(half_width)
            assert row["cost"] - row["ci_low"] == pytest.approx(half_width)

    def test_a_level_out_of_range_is_refused(self) -> None:
        selector = SubsetSelector(KNN, strategy="full").fit(*IRIS)
        for confidence in (0, 1, 95, -0.5, "0.9", True):
            with pytest.raises(ConfigError, match="confidence must be > 0 and < 1, got"):
                selector.metric_table(confidence)  # type: ignore[arg-type]


def make_data(seed: int = 0, n_features: int = 12) -> tuple[Any, Any]:
    return make_regression(120, n_features, n_informative=4, noise=40.0, random_state=seed)


TWELVE = make_data()


def linear(
    strategy: str,
    data: Any = TWELVE,
    tol: float | None = None,
    rule: str = "auto",
    bounds: Any = None,
) -> Any:
    params = {"size": rule, "tol": tol}
    return SubsetSelector(
        LinearRegression(), strategy=strategy, strategy_params=params, size=bounds, cv=KFold(3)
    ).fit(*data)


class TestStopping:
    @pytest.mark.parametrize(
        ("strategy", "tol"),
        [("sfs", 0.01), ("sfs", 0.3), ("sbs", -0.3), ("sbs", -1e-4)],
    )
    def test_it_stops_where_scikit_learn_does(self, strategy: str, tol: float) -> None:
        direction = "forward" if strategy == "sfs" else "backward"
        data = make_data(n_features=8)
        expected = SequentialFeatureSelector(
            LinearRegression(), tol=tol, cv=KFold(3), direction=direction
        ).fit(*data)
        assert np.array_equal(linear(strategy, data, tol=tol).get_support(), expected.get_support())

    def test_backward_the_first_removal_has_to_pay_as_well(self) -> None:
        # scikit-learn would remove a feature here.
        assert linear("sbs", tol=0.5).get_support().all()

    @pytest.mark.parametrize("strategy", ["sfs", "sbfs"])
    def test_auto_is_half_of_the_features_without_tol(self, strategy: str) -> None:
        assert linear(strategy).get_support().sum() == 6
        assert linear(strategy, bounds=(None, 4)).get_support().sum() == 4

    @pytest.mark.parametrize(("strategy", "tol"), [("sffs", 0.01), ("sbfs", -0.01)])
    def test_a_floating_search_stops_too(self, strategy: str, tol: float) -> None:
        selector = linear(strategy, tol=tol)
        size = selector.get_support().sum()
        table = selector.metric_table()
        assert 0 < size < 12
        ahead = size + 1 if strategy == "sffs" else size - 1
        assert table["cost"][size] - table["cost"][ahead] < tol
        assert (1 if strategy == "sbfs" else 12) not in table.index

    def test_it_goes_on_to_sizes_that_are_allowed(self) -> None:
        assert linear("sfs", tol=0.9, bounds=(3, None)).get_support().sum() == 3


def test_parsimonious_obeys_a_maximum_size() -> None:
    free = linear("sfs", rule="parsimonious")
    bound = linear("sfs", rule="parsimonious", bounds=(None, 2))
    assert len(bound.subset_) <= 2 < len(free.subset_)
