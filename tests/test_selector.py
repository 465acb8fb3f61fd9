"""Claims on the scikit-learn face: it is a selector like any other, and keeps what it paid for."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import swarm.selector.selector
from swarm import SubsetSelector
from swarm.errors import ConfigError, DataError, SpaceError
from swarm.problem.problem import Problem
from swarm.storage.archive import Archive

FEW = {"n_particles": 4, "n_swarms": 2}
BRIEF: dict[str, Any] = {"epochs": 2, "cv": 3, "strategy_params": FEW}


@pytest.fixture(scope="module")
def wine() -> tuple[pd.DataFrame, pd.Series]:
    data = load_wine(as_frame=True)
    return data.data, data.target


@pytest.fixture(scope="module")
def fitted(wine: tuple[pd.DataFrame, pd.Series]) -> SubsetSelector:
    return SubsetSelector(GaussianNB(), **BRIEF).fit(*wine)


def test_the_cost_is_the_cross_validated_cost_of_the_chosen_features(
    fitted: SubsetSelector, wine: tuple[pd.DataFrame, pd.Series]
) -> None:
    X, y = wine
    folds = list(Problem.build(X, y, GaussianNB(), folds=3).folds)
    scores = cross_val_score(GaussianNB(), X[fitted.subset_], y, cv=folds)
    assert fitted.cost_ == pytest.approx(1 - scores.mean())
    assert fitted.history_["best_cost"].iloc[-1] == fitted.cost_
    assert sorted(fitted.result_.features) == sorted(fitted.subset_)


def test_it_transforms_like_a_selector(
    fitted: SubsetSelector, wine: tuple[pd.DataFrame, pd.Series]
) -> None:
    X, _ = wine
    support = fitted.get_support()
    assert list(X.columns[support]) == fitted.subset_
    assert fitted.get_feature_names_out().tolist() == fitted.subset_
    assert fitted.n_features_in_ == X.shape[1]
    assert fitted.feature_names_in_.tolist() == list(X.columns)
    chosen = fitted.transform(X)
    assert np.array_equal(chosen, X[fitted.subset_].to_numpy())
    back = fitted.inverse_transform(chosen)
    assert np.array_equal(back[:, support], chosen)
    assert (back[:, ~support] == 0).all()


def test_tables_stay_tables_where_asked(wine: tuple[pd.DataFrame, pd.Series]) -> None:
    X, y = wine
    X = X.assign(kind=pd.Categorical(np.where(X["ash"] > 2.3, "high", "low")))
    X.iloc[::9, 0] = np.nan
    model = LGBMClassifier(n_estimators=3, num_leaves=3)
    selector = SubsetSelector(model, fixed=["kind", "alcohol"], **BRIEF).set_output(
        transform="pandas"
    )
    chosen = selector.fit(X, y).transform(X)
    pd.testing.assert_frame_equal(chosen, X[selector.subset_])
    assert isinstance(chosen["kind"].dtype, pd.CategoricalDtype)


def test_missing_values_pass_where_the_model_takes_them(
    wine: tuple[pd.DataFrame, pd.Series],
) -> None:
    X, y = wine[0].to_numpy().copy(), wine[1].to_numpy()
    X[::9, 0] = np.nan
    model = LGBMClassifier(n_estimators=3, num_leaves=3)
    selector = SubsetSelector(model, fixed=["x0"], **BRIEF).fit(X, y)
    assert np.isnan(selector.transform(X)).any()
    with pytest.raises(ValueError, match="NaN"):
        SubsetSelector(GaussianNB(), **BRIEF).fit(X, y)


def test_an_array_has_columns_by_number(wine: tuple[pd.DataFrame, pd.Series]) -> None:
    X, y = wine[0].to_numpy(), wine[1].to_numpy()
    selector = SubsetSelector(GaussianNB(), forbidden=["x3"], **BRIEF).fit(X, y)
    assert not hasattr(selector, "feature_names_in_")
    assert set(selector.subset_) <= {f"x{i}" for i in range(13) if i != 3}
    assert selector.get_feature_names_out().tolist() == selector.subset_
    assert np.array_equal(selector.transform(X), X[:, selector.get_support()])


def test_it_works_in_a_pipeline_and_a_grid_search(wine: tuple[pd.DataFrame, pd.Series]) -> None:
    X, y = wine
    selector = SubsetSelector(GaussianNB(), **BRIEF)
    pipeline = make_pipeline(StandardScaler(), selector, KNeighborsClassifier())
    grid = GridSearchCV(
        pipeline,
        {
            "subsetselector__max_size": [2, 5],
            "subsetselector__strategy_params": [FEW, {**FEW, "c1": 1.0}],
        },
        cv=2,
        error_score="raise",
    ).fit(X, y)
    best = grid.best_estimator_.named_steps["subsetselector"]
    assert len(best.subset_) <= best.max_size
    assert grid.best_score_ > 0.8
    assert len({str(p) for p in grid.cv_results_["params"]}) == 4


def test_fitting_changes_no_parameter_and_repeats(wine: tuple[pd.DataFrame, pd.Series]) -> None:
    inner = GaussianNB()
    selector = SubsetSelector(inner, fixed=["ash"], groups={"two": ["hue", "proline"]}, **BRIEF)
    before = {name: repr(value) for name, value in selector.get_params().items()}
    first = selector.fit(*wine).history_
    assert {name: repr(value) for name, value in selector.get_params().items()} == before
    assert selector.estimator is inner
    assert not hasattr(inner, "classes_")
    pd.testing.assert_frame_equal(first, selector.fit(*wine).history_, check_exact=True)
    copied = clone(selector)
    assert not hasattr(copied, "subset_")
    pd.testing.assert_frame_equal(first, copied.fit(*wine).history_, check_exact=True)
    other = clone(selector).set_params(random_state=1).fit(*wine)
    assert not other.history_.equals(first)


def test_regression_uses_r2_by_default() -> None:
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    selector = SubsetSelector(Ridge(), **BRIEF).fit(X, y)
    folds = list(Problem.build(X, y, Ridge(), folds=3).folds)
    scores = cross_val_score(Ridge(), X[selector.subset_], y, cv=folds, scoring="r2")
    assert selector.cost_ == pytest.approx(1 - scores.mean())


def test_an_archive_makes_the_second_fit_free(
    wine: tuple[pd.DataFrame, pd.Series], tmp_path: Path
) -> None:
    selector = SubsetSelector(GaussianNB(), archive=f"sqlite:///{tmp_path / 'a.db'}", **BRIEF)
    first = selector.fit(*wine)
    paid, history = first.result_.work["fits"].sum(), first.history_
    second = clone(selector).fit(*wine)
    assert paid > 0
    assert second.result_.work["fits"].sum() == 0
    pd.testing.assert_frame_equal(history, second.history_, check_exact=True)
    Archive(f"sqlite:///{tmp_path / 'a.db'}").check()


def test_groups_weights_and_callbacks_are_passed_on(wine: tuple[pd.DataFrame, pd.Series]) -> None:
    X, y = wine
    seen: list[int] = []
    ids = np.arange(len(y)) % 9
    options = {**BRIEF, "cv": GroupKFold(3), "callbacks": [lambda r, s: seen.append(r.epoch)]}
    weight = np.random.default_rng(0).uniform(0.1, 3, len(y))
    selector = SubsetSelector(GaussianNB(), **options).fit(X, y, groups=ids)
    assert seen == [1, 2]
    folds = list(GroupKFold(3).split(X, y, ids))
    scores = cross_val_score(GaussianNB(), X[selector.subset_], y, cv=folds)
    assert selector.cost_ == pytest.approx(1 - scores.mean())
    weighted = clone(selector).fit(X, y, sample_weight=weight, groups=ids)
    assert weighted.cost_ != selector.cost_ or weighted.subset_ != selector.subset_


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"max_size": 14}, SpaceError, "max_size 14 is above the 13 units"),
        ({"fixed": ["asch"]}, SpaceError, "did you mean 'ash'"),
        ({"strategy": "multiswam"}, ConfigError, "did you mean 'multiswarm'"),
        ({"strategy_params": {"particles": 3}}, ConfigError, "'particles'"),
        ({"n_clusters": 99}, ConfigError, "n_clusters must be from 1 to 13, the number of units"),
        ({"random_state": np.random.RandomState(0)}, ConfigError, "random_state must be an int"),
        ({"epochs": None}, ConfigError, "the budget has no limit"),
        ({"cv": 200}, DataError, "178 rows cannot make 200 folds"),
    ],
)
def test_bad_parameters_are_one_sentence(
    wine: tuple[pd.DataFrame, pd.Series], options: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        SubsetSelector(GaussianNB(), **{**BRIEF, **options}).fit(*wine)
    assert "\n" not in str(caught.value)


def test_an_unfitted_selector_says_so(wine: tuple[pd.DataFrame, pd.Series]) -> None:
    with pytest.raises(NotFittedError):
        SubsetSelector(GaussianNB()).get_support()


def test_the_example_of_the_docstring_runs() -> None:
    outcome = doctest.testmod(swarm.selector.selector)
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", [GaussianNB(), Ridge()])
def test_it_passes_every_check_of_scikit_learn(model: Any) -> None:
    results = check_estimator(SubsetSelector(model, **{**BRIEF, "epochs": 1}), on_fail=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed
    assert sum(r["status"] == "passed" for r in results) > 40
