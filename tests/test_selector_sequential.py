"""Claims on the sequential searches as a selector: what users of mlxtend's selector expect."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t
from sklearn.datasets import load_iris, make_regression
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier

from swarm import SubsetSelector
from swarm.errors import ConfigError, DataError, SpaceError

KNN = KNeighborsClassifier(n_neighbors=4)
mlxtend = pytest.importorskip("mlxtend.feature_selection")


@pytest.fixture(scope="module")
def iris() -> tuple[Any, Any]:
    return load_iris(return_X_y=True)


def theirs(iris: Any, **options: Any) -> Any:
    return mlxtend.SequentialFeatureSelector(KNN, scoring="accuracy", **options).fit(*iris)


def chosen(selector: SubsetSelector) -> tuple[int, ...]:
    return tuple(selector.get_support(indices=True).tolist())


class TestWithoutCrossValidation:
    @pytest.mark.parametrize("cv", [0, False, np.int64(0)])
    def test_models_are_scored_on_the_rows_they_were_trained_on(self, iris: Any, cv: Any) -> None:
        selector = SubsetSelector(KNN, strategy="sfs", size=3, cv=cv).fit(*iris)
        expected = theirs(iris, k_features=3, cv=0)
        assert chosen(selector) == expected.k_feature_idx_
        assert 1 - selector.cost_ == pytest.approx(expected.k_score_)
        assert [c for c in selector.results_ if c.startswith("fold_")] == ["fold_0"]

    def test_none_does_the_same_and_says_so_to_those_who_expect_five_folds(self, iris: Any) -> None:
        with pytest.warns(UserWarning, match=r"cv=None trains and scores on all rows.*cv=5"):
            selector = SubsetSelector(KNN, strategy="sfs", size=3, cv=None).fit(*iris)
        same = SubsetSelector(KNN, strategy="sfs", size=3, cv=0).fit(*iris)
        pd.testing.assert_frame_equal(selector.results_, same.results_, check_exact=True)

    def test_a_single_hold_out_is_given_once(self, iris: Any) -> None:
        split = ShuffleSplit(1, test_size=30, random_state=0)
        train, test = next(split.split(iris[0]))
        selector = SubsetSelector(KNN, strategy="sfs", size=3, cv=[(train, test)]).fit(*iris)
        same = SubsetSelector(KNN, strategy="sfs", size=3, cv=split).fit(*iris)
        expected = theirs(iris, k_features=3, cv=[(train, test)])
        assert chosen(selector) == chosen(same) == expected.k_feature_idx_
        assert 1 - selector.cost_ == pytest.approx(expected.k_score_)


class TestOneFold:
    def test_there_is_no_standard_error(self, iris: Any) -> None:
        table = SubsetSelector(KNN, strategy="sfs", cv=0).fit(*iris).results_
        assert table[["sd", "se", "ci_low", "ci_high"]].isna().all(axis=None)
        assert table["cost"].notna().all()

    @pytest.mark.parametrize(
        "options",
        [
            {"size": "parsimonious"},
            {"pick": "parsimonious"},
            {"strategy_params": {"size": "parsimonious"}},
        ],
    )
    def test_parsimonious_says_that_it_is_the_best(self, iris: Any, options: Any) -> None:
        with pytest.warns(UserWarning, match="picks the best subset: with a single fold"):
            selector = SubsetSelector(KNN, strategy="sfs", cv=0, **options).fit(*iris)
        best = SubsetSelector(KNN, strategy="sfs", cv=0).fit(*iris)
        assert selector.subset_ == best.subset_
        with pytest.warns(UserWarning, match="single fold"):
            best.repick("parsimonious")

    def test_with_two_folds_nothing_is_said(self, iris: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            SubsetSelector(KNN, strategy="sfs", size="parsimonious", cv=2).fit(*iris)


class TestPositions:
    def test_fixed_features_may_be_positions(self, iris: Any) -> None:
        folds = StratifiedKFold(3)
        selector = SubsetSelector(KNN, strategy="sfs", size=3, fixed=(1,), cv=folds).fit(*iris)
        expected = theirs(iris, k_features=3, fixed_features=(1,), cv=3)
        assert chosen(selector) == tuple(sorted(expected.k_feature_idx_))
        table = pd.DataFrame(iris[0], columns=list("abcd"))
        named = SubsetSelector(KNN, strategy="sfs", size=3, fixed=[np.int64(1)], cv=folds)
        assert chosen(named.fit(table, iris[1])) == chosen(selector)
        assert "x1" not in SubsetSelector(KNN, strategy="sfs", forbidden=[1]).fit(*iris).subset_

    def test_groups_may_be_a_list_of_positions(self, iris: Any) -> None:
        groups = [[0, 2], [1], [3]]
        selector = SubsetSelector(
            KNN, strategy="sfs", size=2, groups=groups, cv=StratifiedKFold(3)
        ).fit(*iris)
        expected = theirs(iris, k_features=2, feature_groups=groups, cv=3)
        assert chosen(selector) == tuple(sorted(expected.k_feature_idx_))
        assert 1 - selector.cost_ == pytest.approx(expected.k_score_)
        assert selector.result_.space.names == ("x0+x2", "x1", "x3")
        same = SubsetSelector(KNN, strategy="sfs", size=2, groups={"both": [0, 2]}).fit(*iris)
        assert same.result_.space.names == ("both", "x1", "x3")

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"fixed": [4]}, "fixed has the position 4 but there are 4 columns"),
            ({"fixed": [-1]}, "fixed has the position -1"),
            ({"fixed": [True]}, "fixed must name features or their positions, got True"),
            ({"fixed": [1.5]}, "fixed must name features or their positions, got 1.5"),
            ({"fixed": "x1"}, "fixed must be a list of features, got 'x1'"),
            ({"fixed": 1}, "fixed must be a list of features, got 1"),
            ({"groups": [["x0", 9]]}, "group 0 has the position 9"),
            ({"groups": {"two": 1}}, "group 'two' must be a list of features, got 1"),
            ({"groups": 3}, "groups must be a mapping or a list of lists, got 3"),
            ({"groups": [[0, 1], [1, 2]]}, "'x1' is in the groups"),
            ({"groups": [[0, 1], [0, 1]]}, "group 'x0\\+x1' is given twice"),
            ({"groups": [[]]}, "group '0' has no feature"),
        ],
    )
    def test_what_names_no_column_is_refused(self, iris: Any, options: Any, words: str) -> None:
        with pytest.raises(SpaceError, match=words) as caught:
            SubsetSelector(KNN, strategy="sfs", **options).fit(*iris)
        assert "\n" not in str(caught.value)

    def test_none_is_none(self, iris: Any) -> None:
        selector = SubsetSelector(KNN, strategy="sfs", size=1, fixed=None, forbidden=None)
        assert len(selector.fit(*iris).subset_) == 1


class TestMetricTable:
    @pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
    def test_it_has_the_best_of_each_size_with_any_interval(
        self, iris: Any, confidence: float
    ) -> None:
        selector = SubsetSelector(KNN, strategy="sbs", size=2, cv=StratifiedKFold(4)).fit(*iris)
        table = selector.metric_table(confidence)
        expected = theirs(iris, k_features=2, forward=False, cv=4).get_metric_dict(confidence)
        assert table.index.tolist() == [2, 3, 4]
        for size, row in table.iterrows():
            known = expected[size]
            assert row["features"] == tuple(f"x{i}" for i in known["feature_idx"])
            assert 1 - row["cost"] == pytest.approx(known["avg_score"])
            assert row["se"] == pytest.approx(known["std_err"])
            # mlxtend takes n_folds degrees of freedom.
            bound = known["ci_bound"] * t.ppf(0.5 + confidence / 2, 3)
            reach = bound / t.ppf(0.5 + confidence / 2, 4)
            assert row["ci_high"] - row["cost"] == pytest.approx(reach)
            assert row["cost"] - row["ci_low"] == pytest.approx(reach)
        columns = ["features", "cost", "ci_low", "ci_high"]
        best = selector.results_.set_index("size").loc[[4], columns]
        pd.testing.assert_frame_equal(selector.metric_table().loc[[4], columns], best)

    @pytest.mark.parametrize("confidence", [0, 1, 95, -0.5, "0.9", True])
    def test_a_level_out_of_range_is_refused(self, iris: Any, confidence: Any) -> None:
        selector = SubsetSelector(KNN, strategy="full").fit(*iris)
        with pytest.raises(ConfigError, match="confidence must be > 0 and < 1, got"):
            selector.metric_table(confidence)

    @pytest.mark.parametrize("bars", ["se", "sd", "ci", None])
    def test_the_plot_shows_it(self, iris: Any, bars: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MPLBACKEND", "Agg")
        from matplotlib import pyplot

        selector = SubsetSelector(KNN, strategy="sfs", cv=4).fit(*iris)
        ax = selector.plot_metric_table(bars, confidence=0.9)
        table = selector.metric_table(0.9)
        line = ax.lines[0]
        assert np.array_equal(line.get_xdata(), table.index)
        assert np.array_equal(line.get_ydata(), table["cost"])
        assert len(ax.collections) == (bars is not None)
        if bars is not None:
            drawn = ax.collections[0].get_paths()[0].vertices[:, 1]
            ends = table["ci_low"] if bars == "ci" else table["cost"] - table[bars]
            assert drawn.min() == pytest.approx(ends.min())
        assert selector.plot_metric_table(bars, ax=ax) is ax
        pyplot.close("all")

    def test_bars_that_are_none_are_refused(self, iris: Any) -> None:
        selector = SubsetSelector(KNN, strategy="full").fit(*iris)
        with pytest.raises(ConfigError, match="bars must be one of se, sd, ci or None, got 'err'"):
            selector.plot_metric_table("err")


def made(seed: int = 0) -> tuple[Any, Any]:
    return make_regression(120, 12, n_informative=4, noise=40.0, random_state=seed)


class TestStopping:
    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("tol", [1e-4, 0.01, 0.3])
    def test_forward_it_stops_where_scikit_learn_does(self, seed: int, tol: float) -> None:
        X, y = made(seed)
        expected = SequentialFeatureSelector(LinearRegression(), tol=tol, cv=KFold(3)).fit(X, y)
        options: dict[str, Any] = {"strategy_params": {"tol": tol}, "size": "auto"}
        selector = SubsetSelector(LinearRegression(), strategy="sfs", cv=KFold(3), **options)
        assert np.array_equal(selector.fit(X, y).get_support(), expected.get_support())

    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("tol", [-0.3, -0.02, -1e-4])
    def test_backward_it_stops_where_scikit_learn_does(self, seed: int, tol: float) -> None:
        X, y = made(seed)
        expected = SequentialFeatureSelector(
            LinearRegression(), tol=tol, cv=KFold(3), direction="backward"
        ).fit(X, y)
        options: dict[str, Any] = {"strategy_params": {"tol": tol}, "size": "auto"}
        selector = SubsetSelector(LinearRegression(), strategy="sbs", cv=KFold(3), **options)
        assert np.array_equal(selector.fit(X, y).get_support(), expected.get_support())

    def test_backward_the_first_removal_has_to_pay_as_well(self) -> None:
        X, y = made()
        options: dict[str, Any] = {"strategy_params": {"tol": 0.5}, "size": "auto"}
        selector = SubsetSelector(LinearRegression(), strategy="sbs", cv=KFold(3), **options)
        assert selector.fit(X, y).get_support().all()
        expected = SequentialFeatureSelector(
            LinearRegression(), tol=0.5, cv=KFold(3), direction="backward"
        ).fit(X, y)
        assert expected.get_support().sum() == 11

    @pytest.mark.parametrize("strategy", ["sfs", "sbs", "sffs", "sbfs"])
    def test_auto_is_half_of_the_features_without_tol(self, strategy: str) -> None:
        X, y = made()
        options: dict[str, Any] = {"strategy": strategy, "size": "auto", "cv": KFold(3)}
        assert SubsetSelector(LinearRegression(), **options).fit(X, y).get_support().sum() == 6
        few = SubsetSelector(LinearRegression(), max_size=4, **options).fit(X, y)
        assert few.get_support().sum() == 4

    @pytest.mark.parametrize("strategy", ["sffs", "sbfs"])
    def test_a_floating_search_stops_too(self, strategy: str) -> None:
        X, y = made()
        options: dict[str, Any] = {"strategy": strategy, "size": "auto", "cv": KFold(3)}
        tol = 0.01 if strategy == "sffs" else -0.01
        selector = SubsetSelector(LinearRegression(), strategy_params={"tol": tol}, **options)
        size = selector.fit(X, y).get_support().sum()
        table = selector.metric_table()
        assert 0 < size < 12
        ahead = size + 1 if strategy == "sffs" else size - 1
        assert table["cost"][size] - table["cost"][ahead] < tol
        assert (1 if strategy == "sbfs" else 12) not in table.index

    def test_it_goes_on_to_sizes_that_are_allowed(self) -> None:
        X, y = made()
        options: dict[str, Any] = {"strategy_params": {"tol": 0.9}, "size": "auto"}
        selector = SubsetSelector(LinearRegression(), strategy="sfs", min_size=3, **options)
        assert selector.fit(X, y).get_support().sum() == 3

    def test_without_tol_the_search_is_what_it_was(self) -> None:
        X, y = made()
        first, second = (
            SubsetSelector(LinearRegression(), strategy="sfs", strategy_params=params).fit(X, y)
            for params in (None, {"tol": None})
        )
        pd.testing.assert_frame_equal(first.history_, second.history_, check_exact=True)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"strategy_params": {"tol": 0.1}}, "tol requires size 'auto', got size 'best'"),
            ({"size": "auto", "strategy_params": {"tol": -0.1}}, "tol must be > 0, got -0.1"),
            ({"size": "auto", "strategy_params": {"tol": "x"}}, "tol must be a number, got 'x'"),
            ({"size": "auto", "strategy": "bpso"}, "'bpso' does not support size 'auto'"),
            ({"size": "most"}, "'auto', 'best' or 'parsimonious', got 'most'"),
        ],
    )
    def test_bad_values_are_refused(self, iris: Any, options: Any, words: str) -> None:
        with pytest.raises(ConfigError, match=words):
            SubsetSelector(KNN, **{"strategy": "sfs", **options}).fit(*iris)


class TestInterrupted:
    def test_a_search_that_did_not_reach_the_requested_size_says_so(self, iris: Any) -> None:
        selector = SubsetSelector(KNN, strategy="sbs", size=1, callbacks=[_press_at(2)])
        words = r"after 2 finished epochs.*; the search did not reach the requested size 1$"
        with pytest.warns(UserWarning, match=words):
            selector.fit(*iris)
        assert len(selector.subset_) == 3
        assert selector.interrupted_
        table = selector.metric_table()
        assert table.index.tolist() == [3, 4]
        assert selector.cost_ == table["cost"].min() == selector.pareto_["cost"].min()
        assert selector.repick("parsimonious").cost_ in table["cost"].tolist()

    def test_one_that_has_says_nothing_of_it(self, iris: Any) -> None:
        with pytest.warns(UserWarning, match="interrupted") as said:
            SubsetSelector(KNN, strategy="sfs", size=(2, 4), callbacks=[_press_at(2)]).fit(*iris)
        assert "requested" not in str(said[0].message)


def _press_at(epoch: int) -> Any:
    """Press Ctrl-C after an epoch."""

    def press(record: Any, state: Any) -> None:
        if record.epoch == epoch:
            raise KeyboardInterrupt

    return press


class TestFoldsByGroup:
    def test_a_fold_may_be_tested_on_a_single_class(self, iris: Any) -> None:
        X, y = iris[0], (iris[1] > 0).astype(int)
        groups = np.where(y == 0, 0, 1 + np.arange(len(y)) % 2)
        folds = list(GroupKFold(3).split(X, y, groups))
        assert min(len(np.unique(y[test])) for _, test in folds) == 1
        selector = SubsetSelector(KNN, strategy="sfs", size=2, cv=[folds[0], folds[1]])
        expected = theirs((X, y), k_features=2, cv=[folds[0], folds[1]])
        assert chosen(selector.fit(X, y)) == expected.k_feature_idx_
        assert 1 - selector.cost_ == pytest.approx(expected.k_score_)

    def test_scorers_of_ranks_need_both(self, iris: Any) -> None:
        X, y = iris[0], (iris[1] > 0).astype(int)
        train, test = np.arange(len(y)), np.flatnonzero(y == 1)
        with pytest.raises(DataError, match="test rows of fold 0 have the single class 1"):
            SubsetSelector(KNN, scoring="roc_auc", cv=[(train, test)]).fit(X, y)


def test_parsimonious_obeys_a_maximum_size() -> None:
    X, y = made()
    options: dict[str, Any] = {"strategy": "sfs", "size": "parsimonious", "cv": KFold(3)}
    free = SubsetSelector(LinearRegression(), **options).fit(X, y)
    bound = SubsetSelector(LinearRegression(), max_size=2, **options).fit(X, y)
    assert len(bound.subset_) <= 2 < len(free.subset_)
