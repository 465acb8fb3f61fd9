"""Claims on the sequential searches as a selector, beyond the examples of mlxtend's documentation.

Those examples are docs/from-mlxtend.md, which test_from_mlxtend runs.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t
from sklearn.datasets import make_regression
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier

from swarm import SubsetSelector
from swarm.errors import ConfigError, SpaceError
from tests.selecting import IRIS

KNN = KNeighborsClassifier(n_neighbors=4)
mlxtend = pytest.importorskip("mlxtend.feature_selection")


def theirs(data: Any = IRIS, **options: Any) -> Any:
    return mlxtend.SequentialFeatureSelector(KNN, scoring="accuracy", **options).fit(*data)


def chosen(selector: SubsetSelector) -> tuple[int, ...]:
    return tuple(selector.get_support(indices=True).tolist())


def search(**options: Any) -> SubsetSelector:
    return SubsetSelector(KNN, **{"strategy": "sfs", **options})


class TestOneFold:
    def test_there_is_no_standard_error_and_none_says_that_there_is_no_cross_validation(
        self,
    ) -> None:
        table = search(size=3, cv=0).fit(*IRIS).results_
        assert [c for c in table if c.startswith("fold_")] == ["fold_0"]
        assert table[["sd", "se", "ci_low", "ci_high"]].isna().all(axis=None)
        with pytest.warns(UserWarning, match=r"cv=None trains and scores on all rows.*cv=5"):
            selector = search(size=3, cv=None).fit(*IRIS)
        pd.testing.assert_frame_equal(selector.results_, table, check_exact=True)
        for cv in (False, np.int64(0)):
            same = search(size=3, cv=cv).fit(*IRIS).results_
            pd.testing.assert_frame_equal(same, table, check_exact=True)

    @pytest.mark.parametrize(
        "options",
        [
            {"size": "parsimonious"},
            {"pick": "parsimonious"},
            {"strategy_params": {"size": "parsimonious"}},
        ],
    )
    def test_parsimonious_says_that_it_is_the_best(self, options: Any) -> None:
        with pytest.warns(UserWarning, match="picks the best subset: with a single fold"):
            selector = search(cv=0, **options).fit(*IRIS)
        best = search(cv=0).fit(*IRIS)
        assert selector.subset_ == best.subset_
        with pytest.warns(UserWarning, match="single fold"):
            best.repick("parsimonious")

    def test_with_two_folds_nothing_is_said(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            search(size="parsimonious", cv=2).fit(*IRIS)


class TestPositions:
    def test_features_may_be_named_by_positions(self) -> None:
        table = pd.DataFrame(IRIS[0], columns=list("abcd"))
        selector = search(size=3, fixed=[np.int64(1)], forbidden=[3]).fit(table, IRIS[1])
        assert "b" in selector.subset_
        assert "d" not in selector.subset_
        for groups, name in (([[0, 2], [1], [3]], "x0+x2"), ({"both": [0, 2]}, "both")):
            grouped = search(size=2, groups=groups).fit(*IRIS)
            assert grouped.result_.space.names == (name, "x1", "x3")

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
    def test_what_names_no_column_is_refused(self, options: Any, words: str) -> None:
        with pytest.raises(SpaceError, match=words) as caught:
            search(**options).fit(*IRIS)
        assert "\n" not in str(caught.value)

    def test_none_is_none(self) -> None:
        assert len(search(size=1, fixed=None, forbidden=None).fit(*IRIS).subset_) == 1


class TestMetricTable:
    @pytest.mark.parametrize("confidence", [0.5, 0.99])
    def test_it_has_the_best_of_each_size_with_any_interval(self, confidence: float) -> None:
        selector = SubsetSelector(KNN, strategy="sbs", size=2, cv=StratifiedKFold(4)).fit(*IRIS)
        table = selector.metric_table(confidence)
        expected = theirs(k_features=2, forward=False, cv=4).get_metric_dict(confidence)
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

    def test_a_level_or_bars_out_of_range_are_refused(self) -> None:
        selector = SubsetSelector(KNN, strategy="full").fit(*IRIS)
        for confidence in (0, 1, 95, -0.5, "0.9", True):
            with pytest.raises(ConfigError, match="confidence must be > 0 and < 1, got"):
                selector.metric_table(confidence)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="bars must be one of se, sd, ci or None, got 'err'"):
            selector.plot_metric_table("err")

    @pytest.mark.parametrize("bars", ["se", "sd", "ci", None])
    def test_the_plot_shows_it(self, bars: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MPLBACKEND", "Agg")
        from matplotlib import pyplot

        selector = SubsetSelector(KNN, strategy="sfs", cv=4).fit(*IRIS)
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


def made(seed: int = 0, n_features: int = 12) -> tuple[Any, Any]:
    return make_regression(120, n_features, n_informative=4, noise=40.0, random_state=seed)


TWELVE = made()


def linear(strategy: str, data: Any = TWELVE, tol: float | None = None, **options: Any) -> Any:
    options = {"size": "auto", "cv": KFold(3), "strategy_params": {"tol": tol}, **options}
    return SubsetSelector(LinearRegression(), strategy=strategy, **options).fit(*data)


class TestStopping:
    @pytest.mark.parametrize(
        ("strategy", "tol"),
        [("sfs", 1e-4), ("sfs", 0.01), ("sfs", 0.3), ("sbs", -0.3), ("sbs", -0.02), ("sbs", -1e-4)],
    )
    def test_it_stops_where_scikit_learn_does(self, strategy: str, tol: float) -> None:
        direction = "forward" if strategy == "sfs" else "backward"
        for seed in range(2):
            data = made(seed, n_features=8)
            expected = SequentialFeatureSelector(
                LinearRegression(), tol=tol, cv=KFold(3), direction=direction
            ).fit(*data)
            found = linear(strategy, data, tol=tol)
            assert np.array_equal(found.get_support(), expected.get_support())

    def test_backward_the_first_removal_has_to_pay_as_well(self) -> None:
        # Here scikit-learn removes a feature.
        assert linear("sbs", tol=0.5).get_support().all()

    @pytest.mark.parametrize("strategy", ["sfs", "sbs", "sffs", "sbfs"])
    def test_auto_is_half_of_the_features_without_tol(self, strategy: str) -> None:
        assert linear(strategy).get_support().sum() == 6
        assert linear(strategy, max_size=4).get_support().sum() == 4

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
        assert linear("sfs", tol=0.9, min_size=3).get_support().sum() == 3

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
    def test_bad_values_are_refused(self, options: Any, words: str) -> None:
        with pytest.raises(ConfigError, match=words):
            SubsetSelector(KNN, **{"strategy": "sfs", **options}).fit(*IRIS)


class TestInterrupted:
    def test_a_search_that_did_not_reach_the_requested_size_says_so(self) -> None:
        selector = SubsetSelector(KNN, strategy="sbs", size=1, callbacks=[_press_at(2)])
        words = r"after 2 finished epochs.*; the search did not reach the requested size 1$"
        with pytest.warns(UserWarning, match=words):
            selector.fit(*IRIS)
        assert len(selector.subset_) == 3
        assert selector.interrupted_
        table = selector.metric_table()
        assert table.index.tolist() == [3, 4]
        assert selector.cost_ == table["cost"].min() == selector.pareto_["cost"].min()
        assert selector.repick("parsimonious").cost_ in table["cost"].tolist()

    def test_one_that_has_says_nothing_of_it(self) -> None:
        with pytest.warns(UserWarning, match="interrupted") as said:
            SubsetSelector(KNN, strategy="sfs", size=(2, 4), callbacks=[_press_at(2)]).fit(*IRIS)
        assert "requested" not in str(said[0].message)


def _press_at(epoch: int) -> Any:
    """Press Ctrl-C after an epoch."""

    def press(record: Any, state: Any) -> None:
        if record.epoch == epoch:
            raise KeyboardInterrupt

    return press


def test_parsimonious_obeys_a_maximum_size() -> None:
    free = linear("sfs", size="parsimonious")
    bound = linear("sfs", size="parsimonious", max_size=2)
    assert len(bound.subset_) <= 2 < len(free.subset_)
